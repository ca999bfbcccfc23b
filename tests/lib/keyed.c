/* keyed.c - stores and debits in few words. */
#include "keyed.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct tg_store *must_store(size_t memory_bytes, uint32_t shards)
{
    struct tg_store *store = NULL;
    struct tg_store_config config;
    struct tg_problem problem;

    tg_store_config_init(&config);
    config.memory_bytes = memory_bytes;
    config.shards = shards;
    config.seed = UINT64_C(0x5EED);
    if (tg_store_new(&config, &store, &problem) != TG_OK)
        fail_msg("no store: %s", problem.text);
    return store;
}

struct tg_limit limit_on(enum tg_axis axis, const char *spec)
{
    return (struct tg_limit){.limiter = limiter_of(spec), .axis = axis};
}

tg_limits must_define(struct tg_store *store, const struct tg_limit *limits, size_t n)
{
    tg_limits set = 0;
    struct tg_problem problem;

    if (tg_store_define(store, limits, n, &set, &problem) != TG_OK)
        fail_msg("no set of limits: %s", problem.text);
    assert_int_not_equal(set, 0);
    return set;
}

tg_limits must_define_one(struct tg_store *store, enum tg_axis axis, const char *spec)
{
    struct tg_limit limit = limit_on(axis, spec);

    return must_define(store, &limit, 1);
}

struct tg_scope scope_of(tg_limits limits, const char *key)
{
    return (struct tg_scope){.limits = limits, .key = key, .key_bytes = strlen(key)};
}

struct tg_debit debit_of(const struct tg_scope *scope, int64_t cost)
{
    return (struct tg_debit){.scopes = scope, .n_scopes = 1, .cost = cost};
}

struct tg_decision must_take(struct tg_store *store, tg_limits limits, const char *key,
                             int64_t cost, tg_ms now)
{
    struct tg_scope scope = scope_of(limits, key);
    struct tg_debit debit = debit_of(&scope, cost);
    struct tg_decision decision = {.allowed = false};

    assert_int_equal(tg_store_take(store, &debit, now, &decision, NULL), TG_OK);
    return decision;
}

struct tg_decision must_peek(struct tg_store *store, tg_limits limits, const char *key,
                             int64_t cost, tg_ms now)
{
    struct tg_scope scope = scope_of(limits, key);
    struct tg_debit debit = debit_of(&scope, cost);
    struct tg_decision decision = {.allowed = false};

    assert_int_equal(tg_store_peek(store, &debit, now, &decision, NULL), TG_OK);
    return decision;
}

void must_refund(struct tg_store *store, tg_limits limits, const char *key, int64_t cost, tg_ms now,
                 tg_ms charged_at)
{
    struct tg_scope scope = scope_of(limits, key);
    struct tg_debit debit = debit_of(&scope, cost);

    assert_int_equal(tg_store_refund(store, &debit, now, charged_at), TG_OK);
}

void must_settle(struct tg_store *store, tg_limits limits, const char *key, int64_t cost, tg_ms now,
                 tg_ms charged_at, int64_t actual)
{
    struct tg_scope scope = scope_of(limits, key);
    struct tg_debit debit = debit_of(&scope, cost);

    assert_int_equal(tg_store_settle(store, &debit, now, charged_at, actual), TG_OK);
}

struct numbered_key numbered_key(uint64_t number)
{
    struct numbered_key key;

    (void)snprintf(key.text, sizeof(key.text), "key-%028" PRIu64, number);
    return key;
}

enum tg_err take_numbered(struct tg_store *store, tg_limits limits, uint64_t number, int64_t cost,
                          tg_ms now, struct tg_decision *decision)
{
    struct numbered_key key = numbered_key(number);
    struct tg_scope scope = {.limits = limits, .key = key.text, .key_bytes = NUMBERED_KEY_BYTES};
    struct tg_debit debit = debit_of(&scope, cost);

    return tg_store_take(store, &debit, now, decision, NULL);
}

struct tg_store_stats stats_of(struct tg_store *store)
{
    struct tg_store_stats stats;

    tg_store_get_stats(store, &stats);
    return stats;
}
