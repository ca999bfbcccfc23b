/* test_redefine_kinds.c - which limit goes on from which, when a set has several of one kind. */
#include "keyed.h"

enum { MEMORY = 1 << 20,
       COST = 50 };

/* 50 units were taken at 1000; the limits still owe 50, 50, 40 and 30 at 1500; the limit on
 * calls owes 1. */
static tg_limits charged_set(struct tg_store *store)
{
    const struct tg_limit before[] = {
        limit_on(TG_AXIS_COST, "token_bucket:capacity=100,refill=0.001"),
        limit_on(TG_AXIS_COST, "gcra:limit=100,period=100000,burst=100"),
        limit_on(TG_AXIS_COST, "token_bucket:capacity=100,refill=20"),
        limit_on(TG_AXIS_RATE, "token_bucket:capacity=100,refill=0.001"),
        limit_on(TG_AXIS_COST, "token_bucket:capacity=100,refill=40"),
    };
    tg_limits set = must_define(store, before, COUNT_OF(before));

    assert_true(must_take(store, set, "key", COST, 1000).allowed);
    return set;
}

static void expect_owed(struct tg_store *store, tg_limits set, const int64_t *owed, size_t n)
{
    struct tg_scope scope = scope_of(set, "key");
    struct tg_debit debit = debit_of(&scope, 0);
    struct tg_limit_metrics seen[TG_LIMITS_MAX];

    assert_int_equal(tg_store_peek_scope(store, &debit, 0, 1500, seen), n);
    for (size_t i = 0; i < n; i++)
        if (seen[i].decision.limit - seen[i].decision.remaining != owed[i])
            fail_msg("limit %zu owes %lld, not %lld", i,
                     (long long)(seen[i].decision.limit - seen[i].decision.remaining),
                     (long long)owed[i]);
}

/* The kind is the strategy and the axis. What is added at the end starts fresh. */
static void the_first_of_a_kind_goes_on_from_the_first_and_so_on(void **state)
{
    const struct tg_limit after[] = {
        limit_on(TG_AXIS_RATE, "token_bucket:capacity=300,refill=0.001"),
        limit_on(TG_AXIS_COST, "token_bucket:capacity=300,refill=0.001"),
        limit_on(TG_AXIS_COST, "token_bucket:capacity=400,refill=0.001"),
        limit_on(TG_AXIS_RATE, "token_bucket:capacity=500,refill=0.001"),
        limit_on(TG_AXIS_COST, "token_bucket:capacity=600,refill=0.001"),
        limit_on(TG_AXIS_COST, "token_bucket:capacity=700,refill=0.001"),
        limit_on(TG_AXIS_RATE, "gcra:limit=100,period=100000,burst=100"),
        limit_on(TG_AXIS_COST, "gcra:limit=100,period=100000,burst=100"),
    };
    struct tg_store *store = must_store(MEMORY, 1);
    tg_limits set = charged_set(store);
    struct tg_redefinition change = {set, after, COUNT_OF(after)};
    (void)state;

    expect_owed(store, set, (const int64_t[]){50, 50, 40, 1, 30}, 5);
    assert_int_equal(tg_store_redefine(store, &change, 1, 1500, NULL), TG_OK);
    expect_owed(store, set, (const int64_t[]){1, 50, 40, 0, 30, 0, 0, 50}, COUNT_OF(after));
    tg_store_free(store);
}

/* The last two of three are taken away. */
static void fewer_of_a_kind_go_on_from_the_first_ones(void **state)
{
    const struct tg_limit after[] = {
        limit_on(TG_AXIS_COST, "sliding_log:limit=100,window=1000"),
        limit_on(TG_AXIS_COST, "token_bucket:capacity=300,refill=0.001"),
    };
    struct tg_store *store = must_store(MEMORY, 1);
    tg_limits set = charged_set(store);
    struct tg_redefinition change = {set, after, COUNT_OF(after)};
    (void)state;

    assert_int_equal(tg_store_redefine(store, &change, 1, 1500, NULL), TG_OK);
    expect_owed(store, set, (const int64_t[]){0, 50}, COUNT_OF(after));
    tg_store_free(store);
}

/* Others are not: a key of another set keeps what it has, in all shards. */
static void only_the_keys_of_the_set_change(void **state)
{
    enum { KEYS = 200 };
    struct tg_store *store = must_store(MEMORY, 8);
    tg_limits first = must_define_one(store, TG_AXIS_COST, "gcra:limit=10,period=1000000");
    tg_limits second = must_define_one(store, TG_AXIS_COST, "gcra:limit=10,period=1000000");
    tg_limits third = must_define_one(store, TG_AXIS_COST, "gcra:limit=10,period=1000000");
    struct tg_limit log = limit_on(TG_AXIS_COST, "sliding_log:limit=70,window=1000000");
    struct tg_redefinition change = {second, &log, 1};
    struct tg_decision decision;
    (void)state;

    for (uint64_t i = 0; i < KEYS; i++) {
        assert_int_equal(take_numbered(store, first, i, 3, 1000, &decision), TG_OK);
        assert_int_equal(take_numbered(store, second, i, 3, 1000, &decision), TG_OK);
        assert_int_equal(take_numbered(store, third, i, 3, 1000, &decision), TG_OK);
    }
    assert_int_equal(tg_store_redefine(store, &change, 1, 1000, NULL), TG_OK);
    for (uint64_t i = 0; i < KEYS; i++) {
        assert_int_equal(take_numbered(store, first, i, 1, 1000, &decision), TG_OK);
        assert_int_equal(decision.remaining, 6);
        assert_int_equal(take_numbered(store, second, i, 1, 1000, &decision), TG_OK);
        assert_int_equal(decision.remaining, 69);
        assert_int_equal(take_numbered(store, third, i, 1, 1000, &decision), TG_OK);
        assert_int_equal(decision.remaining, 6);
    }
    assert_int_equal(stats_of(store).keys, 3 * KEYS);
    tg_store_free(store);
}

/* States that need memory of their own are counted as long as they are there, and no longer. */
static void memory_is_counted_through_the_changes(void **state)
{
    enum { KEYS = 100 };
    struct tg_store *store = must_store(MEMORY, 4);
    struct tg_limit small = limit_on(TG_AXIS_RATE, "gcra:limit=10,period=1000");
    struct tg_limit large = limit_on(TG_AXIS_RATE, "sliding_log:limit=10,window=1000");
    tg_limits set = must_define(store, &small, 1);
    struct tg_decision decision;
    (void)state;

    size_t empty = stats_of(store).memory_bytes;
    for (uint64_t i = 0; i < KEYS; i++)
        assert_int_equal(take_numbered(store, set, i, 3, 1000, &decision), TG_OK);
    size_t in_slots = stats_of(store).memory_bytes;
    for (int round = 0; round < 2; round++) {
        struct tg_redefinition grow = {set, &large, 1}, shrink = {set, &small, 1};
        assert_int_equal(tg_store_redefine(store, &grow, 1, 1000, NULL), TG_OK);
        assert_int_equal(stats_of(store).memory_bytes,
                         in_slots + KEYS * (large.limiter.state_bytes + 16));
        assert_int_equal(tg_store_redefine(store, &shrink, 1, 1000, NULL), TG_OK);
        assert_int_equal(stats_of(store).memory_bytes, in_slots);
    }
    assert_int_equal(tg_store_sweep(store, 1000), KEYS); /* another strategy: they are fresh */
    assert_int_equal(stats_of(store).memory_bytes, empty);
    tg_store_free(store);
}

/* Limits that refill faster make keys fresh earlier than anybody knew. */
static void a_key_that_the_change_has_made_fresh_is_forgotten(void **state)
{
    struct tg_store *store = must_store(MEMORY, 4);
    tg_limits set = must_define_one(store, TG_AXIS_COST, "gcra:limit=10,period=1000000");
    struct tg_limit faster = limit_on(TG_AXIS_COST, "gcra:limit=10,period=1000");
    struct tg_redefinition change = {set, &faster, 1};
    (void)state;

    must_take(store, set, "key", 5, 1000);
    assert_int_equal(tg_store_sweep(store, 1000), 0);
    assert_int_equal(tg_store_redefine(store, &change, 1, 1000, NULL), TG_OK);
    assert_int_equal(tg_store_sweep(store, 1499), 0);
    assert_int_equal(tg_store_sweep(store, 1500), 1);
    tg_store_free(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_of_a_kind_goes_on_from_the_first_and_so_on),
        cmocka_unit_test(fewer_of_a_kind_go_on_from_the_first_ones),
        cmocka_unit_test(only_the_keys_of_the_set_change),
        cmocka_unit_test(memory_is_counted_through_the_changes),
        cmocka_unit_test(a_key_that_the_change_has_made_fresh_is_forgotten),
    };
    return cmocka_run_group_tests_name("redefine_kinds", tests, NULL, NULL);
}
