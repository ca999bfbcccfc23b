/* envoy_rls.c - the rules of Envoy's rate limit service, made to hold: which limiter each has.
 *
 * "N a minute" is meant of every minute. A counter that starts anew with each minute of the clock
 * admits 2 N around its border, and gcra with a burst of N admits nearly 2 N in the minute after a
 * pause. So the limiters are those that look at the last minute, wherever it began:
 *
 *     N <= 20    sliding_log       exact: at most N in every unit, and a hit is refused only if
 *                                  N were admitted within the last unit
 *     N >  20    sliding_window    41 buckets of a 40th of a unit. It promises at most N in any
 *                                  span of its window less one bucket, and that is the unit. In
 *                                  return a hit stays counted for up to a 20th longer, so that who
 *                                  asks for more than N all the time gets N, or one less, in
 *                                  41/40 of a unit
 *
 * Both keep below 400 bytes a key. More buckets would make the last 2.5 % smaller and keys larger;
 * a log of every hit would make keys as large as N.
 *
 * Limits stand on the cost axis, because a hit may count for several, and what has been used may
 * have to be charged beyond the limit. Sets are known to the book by domain and path of their rule:
 * a rule that is read again goes on from what was counted, also if its numbers have changed, unless
 * the change is from one limiter to the other.
 */
#include "server/envoy/envoy_rls.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/core/problem.h"
#include "server/config/config_index.h"
#include "server/envoy/envoy_rls_internal.h"

enum { EXACT_MAX = 20, PARTS = 40 };

/* Sets of tenants begin with a name, or with a line end and a word that is not this one. */
#define SET_NAME "\nenvoy\n"

/* ---- limiters ---- */

static enum tg_err make_limit(int64_t requests, int64_t unit_ms, struct tg_limit *limit,
                              struct tg_problem *problem)
{
    bool exact = requests <= EXACT_MAX;
    struct tg_limiter_config config;

    tg_limiter_config_init(&config, exact ? TG_SLIDING_LOG : TG_SLIDING_WINDOW);
    config.limit = requests;
    config.period = exact ? unit_ms : unit_ms + unit_ms / PARTS;
    config.buckets = exact ? 0 : PARTS + 1;
    assert(unit_ms % PARTS == 0);    /* so that the window less one bucket is the unit */
    memset(limit, 0, sizeof *limit); /* sets are compared as bytes */
    limit->axis = TG_AXIS_COST;
    return tg_limiter_init(&limit->limiter, &config, problem);
}

static enum tg_err want(struct limit_book *book, const char *name, size_t bytes, int64_t requests,
                        int64_t unit_ms, tg_limits *set, struct tg_problem *problem)
{
    struct tg_limit limit;
    enum tg_err err = make_limit(requests, unit_ms, &limit, problem);

    return err ? err : limit_book_want(book, name, bytes, &limit, 1, set, problem);
}

static enum tg_err want_rule(struct limit_book *book, struct rls_limit *to,
                             struct tg_problem *problem)
{
    const struct envoy_limit *limit = &to->rule->limit;
    size_t bytes = sizeof SET_NAME - 1 + to->rule->name.n;

    if (limit->unlimited || limit->requests_per_unit == 0)
        return TG_OK;
    char *name = malloc(bytes);
    if (name == NULL)
        return TG_ERR_MEMORY;
    memcpy(name, SET_NAME, sizeof SET_NAME - 1);
    memcpy(name + sizeof SET_NAME - 1, to->rule->name.at, to->rule->name.n);
    enum tg_err err = want(book, name, bytes, limit->requests_per_unit, envoy_unit_ms(limit->unit),
                           &to->set, problem);
    free(name);
    return err;
}

static enum tg_err want_brought(struct limit_book *book, struct envoy_rls *rls,
                                struct tg_problem *problem)
{
    enum tg_err err = TG_OK;

    for (uint32_t unit = ENVOY_SECOND; unit < ENVOY_UNITS && !err; unit++) {
        char name[64];
        int bytes = snprintf(name, sizeof name, SET_NAME "%s", envoy_unit_name(unit));
        err = want(book, name, (size_t)bytes, RLS_BROUGHT_MAX, envoy_unit_ms(unit),
                   &rls->brought[unit], problem);
    }
    return err;
}

/* ---- tallies ---- */

/* The tally of the same rule at the reading before, or a new one. */
static struct rls_tally *tally_for(const struct envoy_rls *before, struct slice name)
{
    size_t number =
        before != NULL ? config_index_get(before->index, name.at, name.n) : CONFIG_INDEX_NONE;
    struct rls_tally *tally;

    if (number != CONFIG_INDEX_NONE) {
        tally = before->limits[number].tally;
        atomic_fetch_add(&tally->refs, 1);
        return tally;
    }
    tally = calloc(1, sizeof *tally);
    if (tally != NULL)
        atomic_init(&tally->refs, 1);
    return tally;
}

static void tally_drop(struct rls_tally *tally)
{
    if (tally == NULL)
        return;
    int before = atomic_fetch_sub(&tally->refs, 1);
    assert(before >= 1);
    if (before == 1)
        free(tally);
}

/* ---- making ---- */

static enum tg_err make_limits(struct envoy_rls *rls, const struct envoy_rules *rules,
                               struct limit_book *book, const struct envoy_rls *before,
                               struct tg_problem *problem)
{
    enum tg_err err = want_brought(book, rls, problem);

    rls->index = config_index_new(rls->arena, rules->n_limits);
    rls->limits = arena_alloc(rls->arena, (rules->n_limits + 1) * sizeof *rls->limits);
    if (rls->index == NULL || rls->limits == NULL)
        return TG_ERR_MEMORY;
    for (size_t i = 0; i < rules->n_limits && !err; i++) {
        struct rls_limit *limit = &rls->limits[rls->n_limits++];
        limit->rule = rules->limits[i];
        limit->tally = tally_for(before, limit->rule->name);
        if (limit->tally == NULL)
            return TG_ERR_MEMORY;
        assert(limit->rule->limit.present && limit->rule->limit.number == i);
        (void)config_index_put(rls->index, limit->rule->name.at, i);
        err = want_rule(book, limit, problem);
    }
    return err;
}

enum tg_err envoy_rls_new(const struct config *config, struct limit_book *book,
                          const struct envoy_rls *before, struct envoy_rls **made,
                          struct tg_problem *problem)
{
    struct envoy_rls *rls = calloc(1, sizeof *rls);
    enum tg_err err = TG_OK;

    if (rls == NULL || (rls->arena = arena_new()) == NULL)
        err = TG_ERR_MEMORY;
    if (!err) {
        rls->config = &config->envoy;
        if (config->envoy.rules != NULL)
            err = make_limits(rls, config->envoy.rules, book, before, problem);
    }
    if (!err) {
        *made = rls;
        return TG_OK;
    }
    if (err == TG_ERR_MEMORY && problem != NULL)
        problem_fail(problem, "%s", tg_strerror(err));
    limit_book_forget(book);
    envoy_rls_free(rls);
    return err;
}

void envoy_rls_free(struct envoy_rls *rls)
{
    if (rls == NULL)
        return;
    for (size_t i = 0; i < rls->n_limits; i++)
        tally_drop(rls->limits[i].tally);
    arena_free(rls->arena);
    free(rls);
}

/* ---- counts ---- */

bool envoy_rls_get_counts(const struct envoy_rls *rls, size_t i, struct envoy_rls_counts *counts)
{
    if (rls == NULL || i >= rls->n_limits)
        return false;
    const struct rls_limit *limit = &rls->limits[i];
    *counts = (struct envoy_rls_counts){
        .domain = limit->rule->domain,
        .rule = limit->rule->path,
        .within = atomic_load_explicit(&limit->tally->within, memory_order_relaxed),
        .over = atomic_load_explicit(&limit->tally->over, memory_order_relaxed),
        .shadow = atomic_load_explicit(&limit->tally->shadow, memory_order_relaxed),
    };
    return true;
}
