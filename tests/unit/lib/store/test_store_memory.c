/* test_store_memory.c - the bound: who is refused when memory is used up, who makes place, and
 * how much a key costs. No live limit is ever reset. */
#include <string.h>

#include "keyed.h"

#define SMALL ((size_t)64 * 1024)
#define LARGE ((size_t)512 << 20)
#define TEN_A_SECOND "fixed_window:limit=10,window=1000"
#define TEN_A_DAY "fixed_window:limit=10,window=86400000"
#define LOG_OF_A_SECOND "sliding_log:limit=40,window=1000"
#define LOG_OF_A_DAY "sliding_log:limit=40,window=86400000"

static const uint32_t shard_counts[] = {1, 2, 8};

/* Takes one unit of key after key until the store is full; returns how many there were. */
static uint64_t fill(struct tg_store *store, tg_limits set, uint64_t from, tg_ms now, size_t bound)
{
    struct tg_decision decision;

    for (uint64_t i = from;; i++) {
        enum tg_err err = take_numbered(store, set, i, 1, now, &decision);
        assert_true(stats_of(store).memory_bytes <= bound);
        if (err == TG_ERR_FULL)
            return i - from;
        assert_int_equal(err, TG_OK);
        assert_true(decision.allowed);
    }
}

/* Looks at the keys [from, from + n): each must have so much left. */
static void expect_remaining(struct tg_store *store, tg_limits set, uint64_t from, uint64_t n,
                             tg_ms now, int64_t remaining)
{
    for (uint64_t i = from; i < from + n; i++) {
        struct numbered_key key = numbered_key(i);
        struct tg_decision decision = must_peek(store, set, key.text, 0, now);
        if (decision.remaining != remaining)
            fail_msg("key %llu has %lld left, not %lld", (unsigned long long)i,
                     (long long)decision.remaining, (long long)remaining);
    }
}

/* ---- full of live keys ---- */

static void full_of_live_keys(const char *spec, int64_t limit, uint32_t shards)
{
    struct tg_store *store = must_store(SMALL, shards);
    tg_limits set = must_define_one(store, TG_AXIS_COST, spec);
    uint64_t n = fill(store, set, 0, 1000, SMALL);
    uint64_t refused = stats_of(store).refused;

    assert_true(n > 10);
    assert_true(refused >= 1);
    assert_int_equal(stats_of(store).forgotten, 0);
    expect_remaining(store, set, 0, n, 1000, limit - 1);
    /* Those that are there go on, those that are not are refused, counted, and harm nobody. */
    for (uint64_t i = 0; i < n; i++) {
        struct tg_decision decision;
        assert_int_equal(take_numbered(store, set, i, 1, 1001, &decision), TG_OK);
        assert_int_equal(decision.remaining, limit - 2);
    }
    for (uint64_t i = 0; i < 500; i++) {
        struct tg_decision decision;
        enum tg_err err = take_numbered(store, set, n + i, 1, 1001, &decision);
        assert_true(err == TG_OK || err == TG_ERR_FULL);
        refused += err == TG_ERR_FULL;
    }
    assert_int_equal(stats_of(store).refused, refused);
    assert_int_equal(stats_of(store).forgotten, 0);
    expect_remaining(store, set, 0, n, 1002, limit - 2);
    assert_true(stats_of(store).memory_bytes <= SMALL);
    tg_store_free(store);
}

static void a_full_store_refuses_new_keys_and_resets_none(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(shard_counts); i++) {
        full_of_live_keys(TEN_A_DAY, 10, shard_counts[i]);
        full_of_live_keys("gcra:limit=10,period=86400000", 10, shard_counts[i]);
        full_of_live_keys("token_bucket:capacity=10,refill=0.0001", 10, shard_counts[i]);
        full_of_live_keys("sliding_window:limit=10,window=86400000", 10, shard_counts[i]);
        full_of_live_keys(LOG_OF_A_DAY, 40, shard_counts[i]);
        full_of_live_keys("token_budget:budget=10,window=86400000", 10, shard_counts[i]);
    }
}

static void a_full_store_still_answers_what_needs_no_place(void **state)
{
    struct tg_store *store = must_store(SMALL, 1);
    tg_limits set = must_define_one(store, TG_AXIS_COST, TEN_A_DAY);
    uint64_t n = fill(store, set, 0, 1000, SMALL);
    (void)state;

    expect_decision("peek", must_peek(store, set, "new", 3, 1000), ALLOWED(10, 7, 86400000));
    expect_decision("refused", must_take(store, set, "new", 11, 1000),
                    DENIED(10, 10, 86400000, TG_UNSATISFIABLE));
    expect_decision("free", must_take(store, set, "new", 0, 1000), ALLOWED(10, 10, 86400000));
    must_refund(store, set, "new", 3, 1000, 1000);
    must_settle(store, set, "new", 3, 1000, 1000, 1);
    assert_int_equal(stats_of(store).keys, n);
    tg_store_free(store);
}

/* Results, the answers by axis among them, are untouched when there is no place. */
static void a_full_store_says_nothing_and_charges_nothing(void **state)
{
    struct tg_store *store = must_store(SMALL, 1);
    tg_limits set = must_define_one(store, TG_AXIS_COST, TEN_A_DAY);
    struct numbered_key first = numbered_key(0);
    struct tg_scope scopes[] = {scope_of(set, first.text), scope_of(set, "new")};
    struct tg_debit debit = {scopes, 2, 1, first.text, NUMBERED_KEY_BYTES, TG_CHARGE_ATOMIC};
    struct tg_decision decision, before;
    struct tg_axes axes, axes_before;
    (void)state;

    fill(store, set, 0, 1000, SMALL);
    memset(&before, 0xA5, sizeof(before));
    memset(&axes_before, 0xA5, sizeof(axes_before));
    decision = before;
    axes = axes_before;
    for (int charging = TG_CHARGE_ATOMIC; charging <= TG_CHARGE_PER_AXIS; charging++) {
        debit.charging = (enum tg_charging)charging;
        assert_int_equal(tg_store_take(store, &debit, 1000, &decision, &axes), TG_ERR_FULL);
        assert_memory_equal(&decision, &before, sizeof(decision));
        assert_memory_equal(&axes, &axes_before, sizeof(axes));
    }
    expect_remaining(store, set, 0, 1, 1000, 9);
    tg_store_free(store);
}

/* Charged by axis, rate comes first: it must not be spent when cost finds no place. */
static void a_full_store_charges_no_axis(void **state)
{
    struct tg_store *store = must_store(SMALL, 1);
    tg_limits rate = must_define_one(store, TG_AXIS_RATE, TEN_A_DAY);
    tg_limits cost = must_define_one(store, TG_AXIS_COST, TEN_A_DAY);
    struct tg_scope scopes[] = {scope_of(rate, "tenant"), scope_of(cost, "new")};
    struct tg_debit debit = {scopes, 2, 1, "tenant", 6, TG_CHARGE_PER_AXIS};
    struct tg_decision decision;
    (void)state;

    must_take(store, rate, "tenant", 1, 1000);
    fill(store, cost, 0, 1000, SMALL);
    for (int i = 0; i < 3; i++)
        assert_int_equal(tg_store_take(store, &debit, 1000, &decision, NULL), TG_ERR_FULL);
    expect_decision("rate", must_peek(store, rate, "tenant", 0, 1000), ALLOWED(10, 8, 86400000));
    tg_store_free(store);
}

/* The same when there is place after all, in another shard: rate is spent once for a call, not
 * for every attempt. */
static void looking_for_place_charges_no_axis_twice(void **state)
{
    struct tg_store *store = must_store(SMALL, 8);
    tg_limits rate = must_define_one(store, TG_AXIS_RATE, "gcra:limit=1000,period=86400000");
    tg_limits cost = must_define_one(store, TG_AXIS_COST, TEN_A_DAY);
    tg_limits passing = must_define_one(store, TG_AXIS_COST, TEN_A_SECOND);
    struct tg_decision decision;
    (void)state;

    fill(store, passing, 0, 1000, SMALL);
    for (int64_t i = 1; i <= 300; i++) { /* at 5000 the others have become fresh */
        struct numbered_key key = numbered_key((uint64_t)i);
        struct tg_scope scopes[] = {scope_of(rate, "tenant"), scope_of(cost, key.text)};
        struct tg_debit debit = {scopes, 2, 1, "tenant", 6, TG_CHARGE_PER_AXIS};
        assert_int_equal(tg_store_take(store, &debit, 5000, &decision, NULL), TG_OK);
        expect_decision("rate", must_take(store, rate, "tenant", 1, 5000),
                        ALLOWED(1000, 1000 - 2 * i, 5000 + 2 * i * 86400));
    }
    tg_store_free(store);
}

/* ---- making place ---- */

static void fresh_keys_make_place(const char *brief, const char *lasting, int64_t limit,
                                  uint32_t shards)
{
    struct tg_store *store = must_store(SMALL, shards);
    tg_limits passing = must_define_one(store, TG_AXIS_COST, brief);
    tg_limits staying = must_define_one(store, TG_AXIS_COST, lasting);
    struct tg_decision decision;

    for (uint64_t i = 0; i < 20; i++)
        assert_int_equal(take_numbered(store, staying, i, 3, 1000, &decision), TG_OK);
    uint64_t n = fill(store, passing, 0, 1000, SMALL);
    /* From 2000 on the keys of 1000 are fresh: as many others find place, and a second time. */
    for (tg_ms now = 5000; now <= 10000; now += 5000) {
        for (uint64_t i = 0; i < n / 2; i++) {
            if (take_numbered(store, passing, 1000000 + i, 1, now, &decision) != TG_OK)
                fail_msg("%s, %u shards: only %llu of %llu found place", brief, shards,
                         (unsigned long long)i, (unsigned long long)n);
            assert_true(decision.allowed);
            assert_int_equal(decision.remaining, limit - 1);
        }
        expect_remaining(store, staying, 0, 20, now, limit - 3);
        assert_true(stats_of(store).memory_bytes <= SMALL);
    }
    assert_true(stats_of(store).forgotten > 0);
    tg_store_free(store);
}

static void new_keys_take_the_place_of_fresh_ones_and_live_ones_stay(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(shard_counts); i++) {
        fresh_keys_make_place(TEN_A_SECOND, TEN_A_DAY, 10, shard_counts[i]);
        fresh_keys_make_place(LOG_OF_A_SECOND, LOG_OF_A_DAY, 40, shard_counts[i]);
        fresh_keys_make_place("sliding_window:limit=10,window=1000,buckets=60",
                              "sliding_window:limit=10,window=86400000,buckets=60", 10,
                              shard_counts[i]);
    }
}

/* TG_ERR_FULL says that no key is fresh: then there is nothing for a sweep to find. */
static void full_means_that_no_key_is_fresh(void **state)
{
    static const char *const specs[] = {TEN_A_SECOND, LOG_OF_A_SECOND};
    (void)state;

    for (size_t i = 0; i < COUNT_OF(specs) * COUNT_OF(shard_counts); i++) {
        uint32_t shards = shard_counts[i / COUNT_OF(specs)];
        struct tg_store *store = must_store(SMALL, shards);
        tg_limits set = must_define_one(store, TG_AXIS_COST, specs[i % COUNT_OF(specs)]);
        struct tg_decision decision;
        for (uint64_t k = 0; k < 20000; k++) {
            tg_ms now = 1000 + (tg_ms)(k / 10); /* at any time some keys are a second old */
            if (take_numbered(store, set, k, 1, now, &decision) != TG_ERR_FULL)
                continue;
            size_t found = tg_store_sweep(store, now);
            if (found > 0)
                fail_msg("%s, %u shards: full at key %llu, but %zu keys were fresh",
                         specs[i % COUNT_OF(specs)], shards, (unsigned long long)k, found);
        }
        tg_store_free(store);
    }
}

static void sweep_gives_back(const char *brief, const char *lasting, int64_t limit)
{
    struct tg_store *store = must_store(LARGE, 4);
    tg_limits passing = must_define_one(store, TG_AXIS_COST, brief);
    tg_limits staying = must_define_one(store, TG_AXIS_COST, lasting);
    size_t empty = stats_of(store).memory_bytes;
    struct tg_decision decision;

    for (uint64_t i = 0; i < 10000; i++)
        assert_int_equal(take_numbered(store, passing, i, 1, 1000, &decision), TG_OK);
    for (uint64_t i = 0; i < 100; i++)
        assert_int_equal(take_numbered(store, staying, i, 4, 1000, &decision), TG_OK);
    size_t full = stats_of(store).memory_bytes;
    assert_int_equal(tg_store_sweep(store, 1999), 0);
    assert_int_equal(stats_of(store).keys, 10100);
    assert_int_equal(tg_store_sweep(store, 2000), 10000);
    assert_int_equal(tg_store_sweep(store, 2000), 0);
    assert_int_equal(stats_of(store).keys, 100);
    assert_int_equal(stats_of(store).forgotten, 10000);
    assert_true(stats_of(store).memory_bytes < full / 10);
    expect_remaining(store, staying, 0, 100, 2000, limit - 4);
    assert_int_equal(tg_store_sweep(store, 86402000), 100);
    assert_int_equal(stats_of(store).memory_bytes, empty);
    tg_store_free(store);
}

static void a_sweep_forgets_the_fresh_and_gives_memory_back(void **state)
{
    (void)state;
    sweep_gives_back(TEN_A_SECOND, TEN_A_DAY, 10);
    sweep_gives_back(LOG_OF_A_SECOND, LOG_OF_A_DAY, 40);
}

static void a_key_with_several_limits_is_fresh_when_all_are(void **state)
{
    const struct tg_limit limits[] = {limit_on(TG_AXIS_RATE, TEN_A_SECOND),
                                      limit_on(TG_AXIS_COST, "fixed_window:limit=9,window=4000")};
    struct tg_store *store = must_store(SMALL, 1);
    tg_limits set = must_define(store, limits, 2);
    (void)state;

    must_take(store, set, "key", 5, 1000);
    assert_int_equal(tg_store_sweep(store, 3999), 0);
    assert_int_equal(tg_store_sweep(store, 4000), 1);
    tg_store_free(store);
}

static void a_key_that_was_refunded_is_fresh_at_once(void **state)
{
    struct tg_store *store = must_store(SMALL, 1);
    tg_limits set = must_define_one(store, TG_AXIS_COST, "gcra:limit=10,period=1000");
    (void)state;

    must_take(store, set, "key", 5, 1000);
    assert_int_equal(tg_store_sweep(store, 1000), 0);
    must_refund(store, set, "key", 5, 1000, 1000);
    assert_int_equal(tg_store_sweep(store, 1000), 1);
    tg_store_free(store);
}

/* Whichever of its limits comes first. */
static void a_key_with_several_limits_that_was_refunded_is_fresh_at_once(void **state)
{
    const char *const specs[] = {"gcra:limit=10,period=1000", "token_bucket:capacity=10,refill=1"};
    (void)state;

    for (size_t first = 0; first < 2; first++) {
        const struct tg_limit limits[] = {limit_on(TG_AXIS_COST, specs[first]),
                                          limit_on(TG_AXIS_COST, specs[1 - first])};
        struct tg_store *store = must_store(SMALL, 1);
        tg_limits set = must_define(store, limits, 2);

        must_take(store, set, "key", 5, 1000);
        assert_int_equal(tg_store_sweep(store, 1000), 0);
        must_refund(store, set, "key", 5, 1000, 1000);
        assert_int_equal(tg_store_sweep(store, 1000), 1);
        tg_store_free(store);
    }
}

/* Also one that was settled, and is fresh earlier than before, but not the first to be. */
static void each_key_is_forgotten_at_its_own_time(void **state)
{
    struct tg_store *store = must_store(SMALL, 1);
    tg_limits set = must_define_one(store, TG_AXIS_COST, "gcra:limit=10,period=1000");
    (void)state;

    must_take(store, set, "first", 1, 1000);
    must_take(store, set, "second", 5, 1000);
    must_settle(store, set, "second", 5, 1000, 1000, 3);
    assert_int_equal(tg_store_sweep(store, 1099), 0);
    assert_int_equal(tg_store_sweep(store, 1100), 1);
    assert_int_equal(tg_store_sweep(store, 1299), 0);
    assert_int_equal(tg_store_sweep(store, 1300), 1);
    tg_store_free(store);
}

/* The call cost more than was thought, and its key had been forgotten in the meantime. */
static void debt_is_owed_by_a_key_that_was_forgotten(void **state)
{
    static const char *const specs[] = {"gcra:limit=1000,period=1000,burst=10",
                                        "token_bucket:capacity=10,refill=1000"};
    (void)state;

    for (size_t i = 0; i < COUNT_OF(specs); i++) {
        struct tg_store *store = must_store(SMALL, 1);
        tg_limits set = must_define_one(store, TG_AXIS_COST, specs[i]);
        must_take(store, set, "key", 1, 1000);
        assert_int_equal(tg_store_sweep(store, 1001), 1);
        must_settle(store, set, "key", 1, 1001, 1000, 500);
        expect_decision(specs[i], must_take(store, set, "key", 1, 1001),
                        DENIED(10, 0, 1500, 490));
        tg_store_free(store);
    }
}

/* ---- bytes a key ---- */

#define BYTES_A_KEY 64

static void expect_bytes_a_key(struct tg_store *store, uint64_t n)
{
    struct tg_store_stats stats = stats_of(store);

    assert_int_equal(stats.keys, n);
    if (stats.memory_bytes > n * BYTES_A_KEY)
        fail_msg("%llu keys use %zu bytes, %.1f each", (unsigned long long)n, stats.memory_bytes,
                 (double)stats.memory_bytes / (double)n);
}

/* Just below, at and above every power of two, where a table that doubles is half empty; and at
 * some sizes between. */
static bool is_awkward(uint64_t n)
{
    static const uint64_t others[] = {50000, 100000, 150000, 300000, 500000, 700000, 1000000};

    for (size_t i = 0; i < COUNT_OF(others); i++) {
        if (n == others[i])
            return true;
    }
    for (uint64_t power = 1 << 15; power <= 1 << 20; power *= 2) {
        if (n + 1 == power || n == power || n == power + 1 || n == power / 8 * 9)
            return true;
    }
    return false;
}

static void a_million_keys_of_32_bytes_use_at_most_64_bytes_each(void **state)
{
    struct tg_store *store = must_store(LARGE, 0);
    tg_limits set = must_define_one(store, TG_AXIS_RATE, "gcra:limit=10,period=86400000");
    struct tg_decision decision;
    (void)state;

    for (uint64_t n = 1; n <= 1000000; n++) {
        assert_int_equal(take_numbered(store, set, n, 1, 1000, &decision), TG_OK);
        if (is_awkward(n))
            expect_bytes_a_key(store, n);
    }
    tg_store_free(store);
}

static void the_bound_holds_a_million_keys_in_64_bytes_each(void **state)
{
    struct tg_store *store = must_store((size_t)1000000 * BYTES_A_KEY, 0);
    tg_limits set = must_define_one(store, TG_AXIS_RATE, "gcra:limit=10,period=86400000");
    struct tg_decision decision;
    (void)state;

    for (uint64_t n = 1; n <= 1000000; n++) {
        if (take_numbered(store, set, n, 1, 1000, &decision) != TG_OK)
            fail_msg("full at key %llu", (unsigned long long)n);
    }
    tg_store_free(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_store_refuses_new_keys_and_resets_none),
        cmocka_unit_test(a_full_store_still_answers_what_needs_no_place),
        cmocka_unit_test(a_full_store_says_nothing_and_charges_nothing),
        cmocka_unit_test(a_full_store_charges_no_axis),
        cmocka_unit_test(looking_for_place_charges_no_axis_twice),
        cmocka_unit_test(new_keys_take_the_place_of_fresh_ones_and_live_ones_stay),
        cmocka_unit_test(full_means_that_no_key_is_fresh),
        cmocka_unit_test(a_sweep_forgets_the_fresh_and_gives_memory_back),
        cmocka_unit_test(a_key_with_several_limits_is_fresh_when_all_are),
        cmocka_unit_test(a_key_that_was_refunded_is_fresh_at_once),
        cmocka_unit_test(a_key_with_several_limits_that_was_refunded_is_fresh_at_once),
        cmocka_unit_test(each_key_is_forgotten_at_its_own_time),
        cmocka_unit_test(debt_is_owed_by_a_key_that_was_forgotten),
        cmocka_unit_test(a_million_keys_of_32_bytes_use_at_most_64_bytes_each),
        cmocka_unit_test(the_bound_holds_a_million_keys_in_64_bytes_each),
    };
    return cmocka_run_group_tests_name("store_memory", tests, NULL, NULL);
}
