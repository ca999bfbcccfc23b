/* mock_script.c - which rule of a script a request gets, and what chance says.
 *
 * A rule counts the requests that reach it: those that no rule above took and that its other
 * conditions fit. So `nth: 1` in three rules under one another is a sequence: the first request
 * gets the first, the second the second. Chance is drawn from the seed, the rule and that count,
 * not from a shared stream: the k-th request that reaches a rule has the same fate in every run,
 * whatever the workers do meanwhile.
 */
#include "lab/mock/mock_script.h"

#include <math.h>

#include "lib/core/random.h"

static bool fits(const char *pattern, struct slice text)
{
    if (pattern == NULL)
        return true;
    size_t n = strlen(pattern);
    if (n > 0 && pattern[n - 1] == '*')
        return text.n >= n - 1 && memcmp(text.at, pattern, n - 1) == 0;
    return text.n == n && memcmp(text.at, pattern, n) == 0;
}

static bool fits_head(const struct mock_when *when, const struct mock_sight *sight)
{
    return fits(when->path, sight->path) &&
           (when->key == NULL || slice_equal(slice_of(when->key), sight->key));
}

static bool needs_body(const struct mock_when *when)
{
    return when->model != NULL || when->stream >= 0;
}

static bool fits_body(const struct mock_when *when, const struct mock_sight *sight)
{
    return fits(when->model, slice_of(sight->model)) &&
           (when->stream < 0 || (when->stream == 1) == sight->stream);
}

static bool draws(const struct mock_script *script, size_t rule, uint64_t count)
{
    struct random random;

    random_init(&random, script->seed, (uint64_t)rule << 40 ^ count);
    return random_unit(&random) < script->rules[rule].when.chance;
}

/* Counts the request, and says whether it is one of those that the rule is for. */
static bool takes(struct mock_script *script, size_t i)
{
    struct mock_rule *rule = &script->rules[i];
    /* Relaxed: a count that guards no other memory. */
    uint64_t count = atomic_fetch_add_explicit(&rule->reached, 1, memory_order_relaxed) + 1;

    if (rule->when.nth > 0 && (count < rule->when.nth || count > rule->when.nth_last))
        return false;
    return rule->when.chance >= 1 || draws(script, i, count);
}

size_t mock_script_match(struct mock_script *script, const struct mock_sight *sight, size_t *next)
{
    for (; *next < script->n_rules; (*next)++) {
        const struct mock_when *when = &script->rules[*next].when;

        if (!fits_head(when, sight))
            continue;
        if (needs_body(when) && !sight->has_body)
            return MOCK_RULE_LATER;
        if (needs_body(when) && !fits_body(when, sight))
            continue;
        if (takes(script, *next))
            return *next;
    }
    return MOCK_RULE_NONE;
}

int64_t mock_latency_draw(const struct mock_action *action, uint64_t seed, uint64_t hash)
{
    struct random random;
    double ms = (double)action->latency_ms;

    if (action->spread == MOCK_FIXED)
        return action->latency_ms;
    random_init(&random, seed, hash);
    if (action->spread == MOCK_EXPONENTIAL)
        ms = random_exponential(&random, ms);
    else
        ms *= exp(action->sigma * random_normal(&random));
    return ms < 3600e3 ? (int64_t)llround(ms) : 3600000;
}
