/* test_store_peek.c - which limit of several it is: each by itself, and nothing is charged. */
#include <string.h>

#include "keyed.h"

#define MEMORY ((size_t)1 << 20)
#define NOW 5000

static struct tg_limit limit_of(const char *spec, enum tg_axis axis, enum tg_mode mode)
{
    return (struct tg_limit){.limiter = limiter_of(spec), .axis = axis, .mode = mode};
}

/* Two on one axis, one on the other, in shadow. */
static tg_limits define_three(struct tg_store *store)
{
    struct tg_limit limits[] = {
        limit_of("fixed_window:limit=2,window=1000", TG_AXIS_RATE, TG_ENFORCE),
        limit_of("fixed_window:limit=10,window=60000", TG_AXIS_RATE, TG_ENFORCE),
        limit_of("token_bucket:capacity=100,refill=1", TG_AXIS_COST, TG_SHADOW)};
    tg_limits set = 0;

    assert_int_equal(tg_store_define(store, limits, 3, &set, NULL), TG_OK);
    return set;
}

static void every_limit_speaks_for_itself(void **state)
{
    struct tg_store *store = must_store(MEMORY, 0);
    tg_limits set = define_three(store);
    struct tg_scope scope = {.limits = set, .key = "a", .key_bytes = 1};
    struct tg_debit debit = {.scopes = &scope, .n_scopes = 1, .cost = 30};
    struct tg_limit_metrics metrics[TG_LIMITS_MAX];
    struct tg_decision decision;
    (void)state;

    assert_int_equal(tg_store_peek_scope(store, &debit, 0, NOW, metrics), 3);
    expect_decision("second", metrics[0].decision, ALLOWED(2, 2, 6000));
    expect_decision("minute", metrics[1].decision, ALLOWED(10, 10, 60000));
    assert_int_equal(metrics[2].decision.remaining, 100);
    assert_int_equal(metrics[2].axis, TG_AXIS_COST);
    assert_int_equal(metrics[2].mode, TG_SHADOW);
    assert_int_equal(metrics[2].config.strategy, TG_TOKEN_BUCKET);
    assert_int_equal(metrics[1].config.limit, 10);
    for (int i = 0; i < 2; i++)
        assert_int_equal(tg_store_take(store, &debit, NOW, &decision, NULL), TG_OK);
    assert_int_equal(tg_store_peek_scope(store, &debit, 0, NOW, metrics), 3);
    expect_decision("second", metrics[0].decision, DENIED(2, 0, 6000, 1000));
    expect_decision("minute", metrics[1].decision, ALLOWED(10, 8, 60000));
    assert_true(metrics[2].decision.allowed);
    assert_int_equal(metrics[2].decision.remaining, 40);
    debit.cost = 41;
    assert_int_equal(tg_store_peek_scope(store, &debit, 0, NOW, metrics), 3);
    assert_false(metrics[2].decision.allowed);
    tg_store_free(store);
}

static void looking_charges_nothing_and_makes_no_key(void **state)
{
    struct tg_store *store = must_store(MEMORY, 0);
    struct tg_scope scope = {.limits = define_three(store), .key = "a", .key_bytes = 1};
    struct tg_debit debit = {.scopes = &scope, .n_scopes = 1, .cost = 30};
    struct tg_limit_metrics metrics[TG_LIMITS_MAX];
    struct tg_store_stats stats;
    (void)state;

    for (int i = 0; i < 100; i++)
        assert_int_equal(tg_store_peek_scope(store, &debit, 0, NOW, metrics), 3);
    assert_int_equal(metrics[0].decision.remaining, 2);
    tg_store_get_stats(store, &stats);
    assert_int_equal(stats.keys, 0);
    tg_store_free(store);
}

static void what_cannot_be_looked_at_has_no_limits(void **state)
{
    struct tg_store *store = must_store(MEMORY, 0);
    struct tg_scope scope = {.limits = define_three(store), .key = "a", .key_bytes = 1};
    struct tg_debit debit = {.scopes = &scope, .n_scopes = 1, .cost = 30};
    struct tg_limit_metrics metrics[TG_LIMITS_MAX];
    (void)state;

    assert_int_equal(tg_store_peek_scope(store, &debit, 1, NOW, metrics), 0);
    assert_int_equal(tg_store_peek_scope(store, &debit, 0, -1, metrics), 0);
    debit.cost = -1;
    assert_int_equal(tg_store_peek_scope(store, &debit, 0, NOW, metrics), 0);
    debit.cost = 0;
    scope.limits++;
    assert_int_equal(tg_store_peek_scope(store, &debit, 0, NOW, metrics), 0);
    tg_store_free(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_limit_speaks_for_itself),
        cmocka_unit_test(looking_charges_nothing_and_makes_no_key),
        cmocka_unit_test(what_cannot_be_looked_at_has_no_limits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
