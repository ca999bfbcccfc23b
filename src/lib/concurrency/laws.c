/* laws.c - the registry of laws, what makes a configuration one, and how a law is made and changed.
 */
#include "lib/concurrency/laws.h"
#include "lib/core/num.h"
#include "lib/core/problem.h"

#include <assert.h>
#include <math.h>

static const struct law_ops *const laws[TG_LAW_COUNT] = {
#define LAW_ROW(upper, lower) [TG_LAW_##upper] = &law_##lower,
    TG_LAWS(LAW_ROW)
#undef LAW_ROW
};

enum { RTT_WINDOW_MAX = 10000, JITTER_STREAM = 1 };

const char *tg_law_name(enum tg_law law)
{
    return (unsigned)law < TG_LAW_COUNT ? laws[law]->name : NULL;
}

void tg_law_config_init(struct tg_law_config *config)
{
    if (!config)
        return;
    *config = (struct tg_law_config){
        .window = 1000,
        .vegas = {.alpha = 2, .beta = 8, .min_utilisation = 0.5},
        .gradient2 = {.tolerance = 15, .smoothing = 0.2, .rtt_window = 1000},
        .aimd = {.tolerance = 20, .backoff = 0.9, .rtt_window = 1000},
    };
    tg_law_config_choose(config, TG_LAW_VEGAS);
}

void tg_law_config_choose(struct tg_law_config *config, enum tg_law law)
{
    bool moves_fast = law == TG_LAW_GRADIENT2 || law == TG_LAW_AIMD;

    if (!config)
        return;
    config->law = law;
    config->initial = law == TG_LAW_AUTO || moves_fast ? 20 : 128;
    config->min = law == TG_LAW_AUTO ? 1 : 8;
    config->max = moves_fast ? 200 : 1024;
}

/* ---- Checks ---------------------------------------------------------------------------------- */

static enum tg_err check_integer(const char *field, int64_t value, int64_t low, int64_t high,
                                 struct tg_problem *problem)
{
    if (value >= low && value <= high)
        return TG_OK;
    return problem_say(problem, TG_ERR_INVALID,
                       "%s is %lld; it must be a whole number from %lld to %lld", field,
                       (long long)value, (long long)low, (long long)high);
}

/* `good` has been computed by the caller, in a form that is false for NaN. */
static enum tg_err check_double(const char *field, double value, bool good, const char *allowed,
                                struct tg_problem *problem)
{
    if (good && isfinite(value))
        return TG_OK;
    return problem_say(problem, TG_ERR_INVALID, "%s is %g; it must be %s", field, value, allowed);
}

static enum tg_err check_limits(const struct tg_law_config *config, struct tg_problem *problem)
{
    enum tg_err err = check_integer("max", config->max, 1, TG_NUMBER_MAX, problem);

    if (!err)
        err = check_integer("min", config->min, 1, config->max, problem);
    if (!err && config->law != TG_LAW_NONE)
        err = check_integer("initial", config->initial, config->min, config->max, problem);
    return err ? err : check_integer("window", config->window, 1, TG_NUMBER_MAX, problem);
}

static enum tg_err check_vegas(const struct tg_law_config *config, struct tg_problem *problem)
{
    const double alpha = config->vegas.alpha, beta = config->vegas.beta;
    const double part = config->vegas.min_utilisation;
    enum tg_err err;

    err = check_double("vegas.alpha", alpha, alpha > 0, "a number above 0", problem);
    if (!err)
        err = check_double("vegas.beta", beta, beta > alpha, "a number above vegas.alpha", problem);
    return err ? err
               : check_double("vegas.min_utilisation", part, part >= 0 && part <= 1,
                              "a number from 0 to 1", problem);
}

static enum tg_err check_gradient2(const struct tg_law_config *config, struct tg_problem *problem)
{
    const double tolerance = config->gradient2.tolerance, smoothing = config->gradient2.smoothing;
    enum tg_err err;

    err = check_double("gradient2.tolerance", tolerance, tolerance >= 1, "a number from 1 up",
                       problem);
    if (!err)
        err = check_double("gradient2.smoothing", smoothing, smoothing > 0 && smoothing <= 1,
                           "a number above 0 and at most 1", problem);
    return err ? err
               : check_integer("gradient2.rtt_window", config->gradient2.rtt_window, 1,
                               RTT_WINDOW_MAX, problem);
}

static enum tg_err check_aimd(const struct tg_law_config *config, struct tg_problem *problem)
{
    const double tolerance = config->aimd.tolerance, backoff = config->aimd.backoff;
    enum tg_err err;

    err = check_double("aimd.tolerance", tolerance, tolerance >= 1, "a number from 1 up", problem);
    if (!err)
        err = check_double("aimd.backoff", backoff, backoff >= 0.5 && backoff < 1,
                           "a number from 0.5 to below 1", problem);
    return err ? err
               : check_integer("aimd.rtt_window", config->aimd.rtt_window, 1, RTT_WINDOW_MAX,
                               problem);
}

/* Settings of the laws that are not in use are checked too: a configuration that is wrong should
 * say so today, and not on the day somebody switches the law. */
enum tg_err tg_law_config_check(const struct tg_law_config *config, struct tg_problem *problem)
{
    enum tg_err err;

    if (!config)
        return problem_say(problem, TG_ERR_NULL, "law: %s", tg_strerror(TG_ERR_NULL));
    for (size_t i = 0; i < sizeof config->unused / sizeof config->unused[0]; i++)
        if (config->unused[i] != 0)
            return problem_say(problem, TG_ERR_UNINITIALIZED,
                               "law: unused is not 0; call tg_law_config_init() first");
    if ((unsigned)config->law >= TG_LAW_COUNT)
        return problem_say(problem, TG_ERR_INVALID, "law is %d, which is not the number of a law",
                           (int)config->law);
    err = check_limits(config, problem);
    if (!err)
        err = check_vegas(config, problem);
    if (!err)
        err = check_gradient2(config, problem);
    return err ? err : check_aimd(config, problem);
}

/* ---- One law --------------------------------------------------------------------------------- */

enum tg_err law_init(struct law *law, const struct tg_law_config *config, uint64_t seed,
                     struct tg_problem *problem)
{
    enum tg_err err = tg_law_config_check(config, problem);
    struct law made = {.config = *config};

    if (err)
        return err;
    made.ops = laws[config->law];
    random_init(&made.random, seed, JITTER_STREAM);
    if (!made.ops->begin(&made, config->initial))
        return problem_say(problem, TG_ERR_MEMORY, "no memory for the samples of %s",
                           made.ops->name);
    assert(made.limit >= config->min && made.limit <= config->max);
    *law = made;
    return TG_OK;
}

/* What another law starts from. */
static int64_t inherited_limit(const struct law *law, const struct tg_law_config *config)
{
    int64_t limit = law->learned > 0 ? law->learned : config->initial;

    return num_max(config->min, num_min(limit, config->max));
}

bool law_reconfigure(struct law *law, const struct tg_law_config *config)
{
    struct law made = *law;

    if (config->law == law->config.law) {
        if (!law->ops->adapt(law, config))
            return false;
        assert(law->limit >= config->min && law->limit <= config->max);
        law->config = *config;
        return true;
    }
    made.config = *config;
    made.first_bytes = (struct first_bytes){.common_ms = 0};
    made.hears = false;
    made.ops = laws[config->law];
    if (!made.ops->begin(&made, inherited_limit(law, config)))
        return false;
    assert(made.limit >= config->min && made.limit <= config->max);
    law_fini(law);
    *law = made;
    return true;
}
