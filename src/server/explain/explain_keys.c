/* explain_keys.c - whether a key of the provider can serve the call. See explain.h.
 *
 * The ring of this gateway is asked first, as by a call. Where gateways share the keys, each that
 * could serve is asked about at the store, too: one that both know room at is enough.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/core/num.h"
#include "server/explain/explain_internal.h"

enum { KEYS_AT_ONCE = 64 };

/* How many keys a pool has, and how many of them are ready. */
static size_t count_keys(struct tg_pool *pool, tg_ms now, size_t *ready)
{
    struct tg_key_metrics keys[KEYS_AT_ONCE];
    size_t n, all = 0;

    *ready = 0;
    while ((n = tg_pool_get_keys(pool, now, all, keys, KEYS_AT_ONCE)) > 0) {
        for (size_t i = 0; i < n; i++)
            *ready += strcmp(explain_key_status(&keys[i]), "ready") == 0;
        all += n;
    }
    return all;
}

static void describe_key_call(const struct explanation *of, const struct explain_route *way,
                              struct tg_key_call *key)
{
    tg_key_call_init(key);
    key->asked = way->tokens;
    key->tokens = route_counts_asked(way->route)
                      ? way->tokens
                      : num_ceil((double)way->tokens * of->expectation.factor);
}

/* ---- what the store says ---- */

static void keep_terms(struct explain_key *key)
{
    const char **texts[] = {&key->terms.provider, &key->terms.model, &key->terms.name,
                            &key->terms.group};

    for (size_t i = 0; i < 4; i++)
        if (*texts[i] != NULL) {
            snprintf(key->texts[i], sizeof key->texts[i], "%s", *texts[i]);
            *texts[i] = key->texts[i];
        }
}

void explain_keys_collect(const struct explanation *of, struct explain_visit *visit)
{
    struct tg_key_terms terms[EXPLAIN_KEYS_MAX];
    void *owners[EXPLAIN_KEYS_MAX];
    struct tg_key_call call;

    visit->keys = calloc(EXPLAIN_KEYS_MAX, sizeof *visit->keys);
    if (visit->keys == NULL)
        return; /* the ring alone is asked */
    for (size_t i = 0; i < of->n_routes; i++) {
        const struct explain_route *way = &of->routes[i];
        if (way->route->pool == NULL)
            continue;
        describe_key_call(of, way, &call);
        size_t n = tg_pool_peek_terms(way->route->pool, &call, of->now, terms, owners,
                                      EXPLAIN_KEYS_MAX - visit->n_keys);
        for (size_t k = 0; k < n; k++) {
            struct explain_key *key = &visit->keys[visit->n_keys++];
            *key = (struct explain_key){.route = i, .terms = terms[k], .owner = owners[k]};
            keep_terms(key);
        }
    }
}

/* A call whose limits or money were decided without the store takes its key by this gateway's own
 * word. */
static bool is_store_known(const struct explanation *of)
{
    return of->visits != NULL && of->visits[of->chosen].questions[0].peek.mode < REMOTE_LOCAL &&
           of->visits[0].money.mode < REMOTE_LOCAL;
}

/* The answer of the ring becomes that of all gateways. False: the store is away, and must not be
 * guessed. */
static bool join_store(const struct explanation *of, size_t route, struct tg_key_answer *said)
{
    const struct explain_visit *visit = &of->visits[0];
    tg_ms until = TG_NUMBER_MAX;
    bool cooling = true;
    size_t n = 0;

    for (size_t i = 0; i < visit->n_keys; i++) {
        const struct explain_key *key = &visit->keys[i];
        if (key->route != route)
            continue;
        if (key->peek.mode == REMOTE_CLOSED)
            return false;
        if (!key->is_held)
            return true;
        n++;
        until = num_min(until, key->hold.until);
        cooling = cooling && key->hold.why == TG_HOLD_COOLING;
    }
    if (n == 0)
        return true; /* there were too many to ask about */
    said->retry_after_ms = num_max(until - of->now, 1);
    said->all_cooling = cooling;
    return true;
}

/* ---- the stage ---- */

bool explain_keys(struct explanation *of, const struct explain_route *way)
{
    const struct route *route = way->route;
    char section[EXPLAIN_PLACE_MAX];
    struct tg_key_answer said;
    struct tg_key_call key;
    size_t ready;

    if (route->pool == NULL)
        return true;
    describe_key_call(of, way, &key);
    tg_pool_peek(route->pool, &key, of->now, &said);
    bool fits = !said.too_large && said.retry_after_ms == 0;
    bool shared = fits && is_store_known(of);
    if (shared && !join_store(of, (size_t)(way - of->routes), &said)) {
        explain_closed(of, "how much the gateways use keys", "store_failure.limits",
                       of->config->store.limits);
        return false;
    }
    size_t all = count_keys(route->pool, of->now, &ready);
    struct explain_limit *limit = explain_add(of, "no_key", "pool", route->config->name);
    if (limit == NULL)
        return true;
    snprintf(limit->what, sizeof limit->what,
             "%zu keys of provider %.80s, of which one must serve%s", all,
             route->provider->config->name,
             of->gateway->remote != NULL && !shared ? ", as this gateway knows them" : "");
    snprintf(section, sizeof section, "providers.%.200s.keys", route->provider->config->name);
    explain_from_section(of, limit, section);
    limit->unit = "keys";
    limit->limit = (double)all;
    limit->refuses = said.too_large || said.retry_after_ms > 0;
    limit->remaining = limit->refuses ? 0 : (double)num_max((int64_t)ready, 1);
    limit->retry_after_ms = said.too_large ? TG_UNSATISFIABLE : said.retry_after_ms;
    if (limit->refuses && limit->retry_after_ms < TG_UNSATISFIABLE)
        limit->reset_at = clock_wall_of(&of->gateway->clock, of->now + said.retry_after_ms);
    if (said.too_large)
        limit->reason = reply_reason_name(REPLY_REQUEST_EXCEEDS_LIMIT);
    limit->cooling = said.all_cooling;
    return !limit->refuses;
}
