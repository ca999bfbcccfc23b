/* test_store_config.c - what a store is made of: its shards, its least memory, its limits. */
#include <stdio.h>
#include <string.h>

#include "keyed.h"
#include "lib/store/store.h"

static enum tg_err new_store(size_t memory_bytes, uint32_t shards, uint64_t seed,
                             struct tg_store **store)
{
    struct tg_store_config config;

    tg_store_config_init(&config);
    config.memory_bytes = memory_bytes;
    config.shards = shards;
    config.seed = seed;
    return tg_store_new(&config, store, NULL);
}

/* One for every 64 KiB, rounded down to a power of two: 1 at least, and 256 at most. */
static void a_larger_store_has_more_shards_by_default(void **state)
{
    static const struct {
        size_t memory_bytes;
        uint64_t shards;
    } rows[] = {
        {4096, 1},
        {(128 << 10) - 1, 1},
        {128 << 10, 2},
        {(256 << 10) - 1, 2},
        {256 << 10, 4},
        {(16 << 20) - 1, 128},
        {16 << 20, 256},
        {64 << 20, 256},
        {(size_t)1 << 30, 256},
    };
    (void)state;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct tg_store *store;
        assert_int_equal(new_store(rows[i].memory_bytes, 0, 0, &store), TG_OK);
        assert_int_equal(stats_of(store).memory_bytes,
                         sizeof *store + rows[i].shards * sizeof(struct shard));
        tg_store_free(store);
    }
}

static void memory_must_be_enough_for_the_shards_and_a_page(void **state)
{
    static const uint32_t shards[] = {1, 2, 1024, 65536};
    struct tg_store *store;
    (void)state;

    assert_int_equal(new_store(4095, 0, 0, &store), TG_ERR_INVALID);
    for (size_t i = 0; i < COUNT_OF(shards); i++) {
        size_t least = 4096 + shards[i] * sizeof(struct shard);
        assert_int_equal(new_store(least - 1, shards[i], 0, &store), TG_ERR_INVALID);
        assert_int_equal(new_store(least, shards[i], 0, &store), TG_OK);
        tg_store_free(store);
    }
    assert_int_equal(new_store((size_t)1 << 30, 131072, 0, &store), TG_ERR_INVALID);
    assert_int_equal(new_store((size_t)1 << 30, 6, 0, &store), TG_ERR_INVALID);
}

/* Sixteen thousand keys are about a thousand in each of 16 shards; in which one a key is depends
 * on the seed. */
static void keys_are_spread_over_all_shards(void **state)
{
    enum { SHARDS = 16,
           KEYS = 1000 * SHARDS };
    uint32_t counts[2][SHARDS];
    (void)state;

    for (uint64_t seed = 0; seed < 2; seed++) {
        struct tg_store *store;
        assert_int_equal(new_store(4 << 20, SHARDS, seed, &store), TG_OK);
        tg_limits set = must_define_one(store, TG_AXIS_RATE, "gcra:limit=10,period=1000");
        for (uint64_t key = 0; key < KEYS; key++) {
            struct tg_decision decision;
            assert_int_equal(take_numbered(store, set, key, 1, 1000, &decision), TG_OK);
        }
        for (size_t i = 0; i < SHARDS; i++) {
            counts[seed][i] = store->shards[i].table.n;
            assert_in_range(counts[seed][i], 800, 1200);
        }
        assert_int_equal(stats_of(store).keys, KEYS);
        tg_store_free(store);
    }
    assert_memory_not_equal(counts[0], counts[1], sizeof counts[0]);
}

static void the_mode_and_the_axis_of_a_limit_are_checked(void **state)
{
    struct tg_store *store = must_store(1 << 20, 1);
    (void)state;

    for (int axis = -1; axis <= TG_AXIS_COUNT; axis++)
        for (int mode = -1; mode <= 3; mode++) {
            struct tg_limit limit = limit_on((enum tg_axis)axis, "gcra:limit=10,period=1000");
            bool fine = (axis == TG_AXIS_RATE || axis == TG_AXIS_COST) &&
                        (mode == TG_ENFORCE || mode == TG_SHADOW);
            struct tg_problem problem = {""};
            tg_limits set;
            limit.mode = (enum tg_mode)mode;
            assert_int_equal(tg_store_define(store, &limit, 1, &set, &problem),
                             fine ? TG_OK : TG_ERR_INVALID);
            assert_true((strlen(problem.text) > 0) == !fine);
        }
    tg_store_free(store);
}

static void a_state_of_more_than_a_gibibyte_is_refused(void **state)
{
    struct tg_store *store = must_store(1 << 20, 1);
    struct tg_limit limit = limit_on(TG_AXIS_COST, "gcra:limit=10,period=1000");
    tg_limits set;
    (void)state;

    limit.limiter.state_bytes = ((size_t)1 << 30) + 8;
    assert_int_equal(tg_store_define(store, &limit, 1, &set, NULL), TG_ERR_INVALID);
    limit.limiter.state_bytes = 1 << 20;
    assert_int_equal(tg_store_define(store, &limit, 1, &set, NULL), TG_OK);
    tg_store_free(store);
}

/* It counts tokens; calls are counted by another one. Each strategy may count a cost. */
static void token_budget_alone_cannot_count_calls(void **state)
{
    static const char *const specs[TG_STRATEGY_COUNT] = {
        [TG_TOKEN_BUCKET] = "token_bucket:capacity=10,refill=1",
        [TG_GCRA] = "gcra:limit=10,period=1000",
        [TG_FIXED_WINDOW] = "fixed_window:limit=10,window=1000",
        [TG_SLIDING_WINDOW] = "sliding_window:limit=10,window=1000",
        [TG_SLIDING_LOG] = "sliding_log:limit=10,window=1000",
        [TG_TOKEN_BUDGET] = "token_budget:budget=10,window=1000",
    };
    struct tg_store *store = must_store(1 << 20, 1);
    (void)state;

    for (size_t i = 0; i < COUNT_OF(specs); i++) {
        struct tg_limit limit = limit_on(TG_AXIS_RATE, specs[i]);
        tg_limits set;
        assert_int_equal(tg_store_define(store, &limit, 1, &set, NULL),
                         i == TG_TOKEN_BUDGET ? TG_ERR_INVALID : TG_OK);
        limit.axis = TG_AXIS_COST;
        assert_int_equal(tg_store_define(store, &limit, 1, &set, NULL), TG_OK);
    }
    tg_store_free(store);
}

/* By default calls in flight may together be charged 40 times what a limit holds too little, and
 * of several limits the narrowest counts. */
static void an_overdraft_is_forty_times_what_the_limit_holds(void **state)
{
    static const struct {
        int64_t limit, stated, overdraft;
    } rows[] = {
        {1, 0, 40},
        {100, 0, 4000},
        {100, 7, 7},
        {100, -1, 0},
        {TG_NUMBER_MAX / 40, 0, TG_NUMBER_MAX / 40 * 40},
        {TG_NUMBER_MAX / 40 + 1, 0, TG_NUMBER_MAX},
        {TG_NUMBER_MAX, 0, TG_NUMBER_MAX},
    };
    struct tg_limit limits[3];
    char spec[80];
    (void)state;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        snprintf(spec, sizeof spec, "fixed_window:limit=%lld,window=1000",
                 (long long)rows[i].limit);
        limits[0] = limit_on(TG_AXIS_COST, spec);
        limits[0].overdraft = rows[i].stated;
        limits[1] = limit_on(TG_AXIS_RATE, "fixed_window:limit=1,window=1000");
        limits[2] = limit_on(TG_AXIS_COST, "fixed_window:limit=1,window=1000");
        limits[2].mode = TG_SHADOW;
        struct limit_bounds bounds = limit_bounds(limits, 3);
        assert_int_equal(bounds.overdraft, rows[i].overdraft);
        assert_int_equal(bounds.ceiling, rows[i].limit);
        limits[2].mode = TG_ENFORCE;
        bounds = limit_bounds(limits, 3);
        assert_int_equal(bounds.overdraft, rows[i].overdraft < 40 ? rows[i].overdraft : 40);
        assert_int_equal(bounds.ceiling, 1);
    }
    struct limit_bounds none = limit_bounds(&limits[1], 1);
    assert_int_equal(none.overdraft, TG_NUMBER_MAX);
    assert_int_equal(none.ceiling, TG_NUMBER_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_larger_store_has_more_shards_by_default),
        cmocka_unit_test(memory_must_be_enough_for_the_shards_and_a_page),
        cmocka_unit_test(keys_are_spread_over_all_shards),
        cmocka_unit_test(the_mode_and_the_axis_of_a_limit_are_checked),
        cmocka_unit_test(a_state_of_more_than_a_gibibyte_is_refused),
        cmocka_unit_test(token_budget_alone_cannot_count_calls),
        cmocka_unit_test(an_overdraft_is_forty_times_what_the_limit_holds),
    };
    return cmocka_run_group_tests_name("store_config", tests, NULL, NULL);
}
