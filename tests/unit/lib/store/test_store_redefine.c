/* test_store_redefine.c - other limits for keys in use: what was charged stays charged. */
#include "check.h"
#include "keyed.h"

enum { MEMORY = 1 << 20 };

/* At 1000, `cost` is taken under `before`; then the limits become `after`. What is there then, and
 * what is there at `later`. */
struct row {
    const char *before;
    const char *after;
    int64_t cost;
    int64_t remaining;
    tg_ms later;
    int64_t remaining_later;
};

/* One set. */
static enum tg_err redefine_one(struct tg_store *store, tg_limits set,
                                const struct tg_limit *limits, size_t n, tg_ms now,
                                struct tg_problem *problem)
{
    struct tg_redefinition one = {set, limits, n};

    return tg_store_redefine(store, &one, 1, now, problem);
}

static const struct row rows[] = {
    /* Owed units stay owed, and are paid off at the new rate. */
    {"gcra:limit=10,period=1000", "gcra:limit=20,period=1000", 6, 14, 1100, 16},
    {"gcra:limit=10,period=1000", "gcra:limit=10,period=2000", 6, 4, 1200, 5},
    {"gcra:limit=10,period=1000", "gcra:limit=10,period=1000,burst=4", 6, 0, 1300, 1},
    {"token_bucket:capacity=10,refill=10", "token_bucket:capacity=20,refill=10", 6, 14, 1100, 15},
    {"token_bucket:capacity=10,refill=10", "token_bucket:capacity=4,refill=10", 6, 0, 1300, 1},
    /* The count goes into the window that is running. */
    {"fixed_window:limit=10,window=1000", "fixed_window:limit=20,window=1000", 6, 14, 2000, 20},
    {"fixed_window:limit=10,window=1000", "fixed_window:limit=10,window=60000", 6, 4, 2000, 4},
    {"fixed_window:limit=10,window=1000", "fixed_window:limit=4,window=1000", 6, 0, 2000, 4},
    {"token_budget:budget=10,window=1000", "token_budget:budget=8,window=1000", 6, 2, 2000, 8},
    {"sliding_window:limit=10,window=1000", "sliding_window:limit=20,window=1000", 6, 14, 2100, 20},
    {"sliding_window:limit=10,window=1000", "sliding_window:limit=10,window=5000", 6, 4, 2100, 4},
    {"sliding_log:limit=10,window=1000", "sliding_log:limit=20,window=1000", 6, 14, 2000, 20},
    {"sliding_log:limit=10,window=1000", "sliding_log:limit=4,window=1000", 6, 0, 2000, 4},
    {"sliding_log:limit=10,window=1000", "sliding_log:limit=10,window=500", 6, 4, 1500, 10},
    /* Another strategy starts fresh; its states may need more room, or less. */
    {"gcra:limit=10,period=1000", "sliding_log:limit=7,window=1000", 6, 7, 1000, 7},
    {"sliding_log:limit=10,window=1000", "gcra:limit=7,period=1000", 6, 7, 1000, 7},
};

static void what_was_charged_stays_charged(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct row *row = &rows[i];
        struct tg_store *store = must_store(MEMORY, 4);
        tg_limits set = must_define_one(store, TG_AXIS_COST, row->before);
        struct tg_limit after = limit_on(TG_AXIS_COST, row->after);

        assert_true(must_take(store, set, "key", row->cost, 1000).allowed);
        assert_int_equal(redefine_one(store, set, &after, 1, 1000, NULL), TG_OK);
        int64_t now = must_peek(store, set, "key", 0, 1000).remaining;
        int64_t later = must_peek(store, set, "key", 0, row->later).remaining;
        if (now != row->remaining || later != row->remaining_later)
            fail_msg("row %zu: %lld and then %lld are left, not %lld and %lld", i, (long long)now,
                     (long long)later, (long long)row->remaining,
                     (long long)row->remaining_later);
        tg_store_free(store);
    }
}

/* The first of a kind from the first, wherever they stand; one that is added starts fresh. */
static void limits_are_carried_by_their_kind(void **state)
{
    struct tg_store *store = must_store(MEMORY, 1);
    struct tg_limit before[] = {limit_on(TG_AXIS_RATE, "gcra:limit=10,period=1000"),
                                limit_on(TG_AXIS_COST, "token_bucket:capacity=100,refill=1")};
    struct tg_limit after[] = {limit_on(TG_AXIS_COST, "token_bucket:capacity=200,refill=1"),
                               limit_on(TG_AXIS_RATE, "gcra:limit=10,period=1000"),
                               limit_on(TG_AXIS_COST, "fixed_window:limit=500,window=1000")};
    tg_limits set = must_define(store, before, 2);
    struct tg_scope scope = scope_of(set, "key");
    struct tg_debit debit = debit_of(&scope, 0);
    struct tg_decision decision;
    struct tg_axes axes;
    (void)state;

    must_take(store, set, "key", 30, 1000);
    assert_int_equal(redefine_one(store, set, after, 3, 1000, NULL), TG_OK);
    assert_int_equal(tg_store_peek(store, &debit, 1000, &decision, &axes), TG_OK);
    assert_int_equal(axes.decision[TG_AXIS_RATE].remaining, 8);
    assert_int_equal(axes.decision[TG_AXIS_COST].remaining, 170);
    tg_store_free(store);
}

static void many_keys_keep_their_counts_and_the_bound_holds(void **state)
{
    enum { KEYS = 2000 };
    struct tg_store *store = must_store(MEMORY, 8);
    tg_limits set = must_define_one(store, TG_AXIS_COST, "gcra:limit=9,period=86400000");
    struct tg_limit log = limit_on(TG_AXIS_COST, "sliding_log:limit=9,window=86400000");
    struct tg_limit large = limit_on(TG_AXIS_COST, "sliding_log:limit=90,window=86400000");
    struct tg_limit more = limit_on(TG_AXIS_COST, "gcra:limit=18,period=86400000");
    struct tg_decision decision;
    (void)state;

    for (uint64_t i = 0; i < KEYS; i++)
        assert_false(take_numbered(store, set, i, 1 + (int64_t)(i % 9), 1000, &decision));
    /* Too large for the bound: an error, and nothing has changed. */
    assert_int_equal(redefine_one(store, set, &large, 1, 1000, NULL), TG_ERR_FULL);
    assert_int_equal(redefine_one(store, set, &more, 1, 1000, NULL), TG_OK);
    for (uint64_t i = 0; i < KEYS; i++) {
        assert_int_equal(take_numbered(store, set, i, 0, 1000, &decision), TG_OK);
        assert_int_equal(decision.remaining, 17 - (int64_t)(i % 9));
    }
    assert_int_equal(redefine_one(store, set, &log, 1, 1000, NULL), TG_OK);
    assert_int_equal(stats_of(store).keys, KEYS);
    assert_true(stats_of(store).memory_bytes <= MEMORY);
    tg_store_free(store);
}

static void several_sets_change_in_one_step(void **state)
{
    struct tg_store *store = must_store(MEMORY, 4);
    tg_limits a = must_define_one(store, TG_AXIS_COST, "gcra:limit=10,period=1000");
    tg_limits b = must_define_one(store, TG_AXIS_COST, "gcra:limit=20,period=1000");
    tg_limits c = must_define_one(store, TG_AXIS_COST, "gcra:limit=30,period=1000");
    struct tg_limit more = limit_on(TG_AXIS_COST, "gcra:limit=100,period=1000");
    struct tg_limit log = limit_on(TG_AXIS_COST, "sliding_log:limit=5,window=1000");
    struct tg_limit wrong = limit_on(TG_AXIS_CONCURRENCY, "gcra:limit=9,period=1000");
    const struct tg_redefinition both[] = {{c, &log, 1}, {a, &more, 1}};
    const struct tg_redefinition twice[] = {{a, &log, 1}, {a, &more, 1}};
    const struct tg_redefinition half[] = {{a, &log, 1}, {b, &wrong, 1}};
    (void)state;

    must_take(store, a, "key", 4, 1000);
    must_take(store, b, "key", 4, 1000);
    must_take(store, c, "key", 4, 1000);
    assert_int_equal(tg_store_redefine(store, twice, 2, 1000, NULL), TG_ERR_INVALID);
    assert_int_equal(tg_store_redefine(store, half, 2, 1000, NULL), TG_ERR_INVALID);
    assert_int_equal(must_peek(store, a, "key", 0, 1000).remaining, 6);
    assert_int_equal(tg_store_redefine(store, both, 0, 1000, NULL), TG_OK);
    assert_int_equal(tg_store_redefine(store, both, 2, 1000, NULL), TG_OK);
    assert_int_equal(must_peek(store, a, "key", 0, 1000).remaining, 96);
    assert_int_equal(must_peek(store, b, "key", 0, 1000).remaining, 16);
    assert_int_equal(must_peek(store, c, "key", 0, 1000).remaining, 5);
    tg_store_free(store);
}

static void what_cannot_be_is_an_error(void **state)
{
    struct tg_store *store = must_store(MEMORY, 1);
    struct tg_limit limit = limit_on(TG_AXIS_COST, "gcra:limit=9,period=1000");
    struct tg_limit wrong = limit_on(TG_AXIS_CONCURRENCY, "gcra:limit=9,period=1000");
    tg_limits set = must_define(store, &limit, 1);
    struct tg_problem problem;
    (void)state;

    assert_int_equal(redefine_one(store, set + 1, &limit, 1, 0, &problem), TG_ERR_UNKNOWN);
    assert_int_equal(redefine_one(store, set, &wrong, 1, 0, &problem), TG_ERR_INVALID);
    assert_int_equal(redefine_one(store, set, &limit, 0, 0, &problem), TG_ERR_INVALID);
    assert_int_equal(redefine_one(store, set, &limit, 1, -1, &problem), TG_ERR_INVALID);
    tg_store_free(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_charged_stays_charged),
        cmocka_unit_test(limits_are_carried_by_their_kind),
        cmocka_unit_test(several_sets_change_in_one_step),
        cmocka_unit_test(many_keys_keep_their_counts_and_the_bound_holds),
        cmocka_unit_test(what_cannot_be_is_an_error),
    };
    return cmocka_run_group_tests_name("store redefine", tests, NULL, NULL);
}
