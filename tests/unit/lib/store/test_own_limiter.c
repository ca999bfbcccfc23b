/* test_own_limiter.c - limiters that an embedder brings, as tables of functions, in a store.
 *
 * The first is a prepaid quota that is void after a while: `context` holds what all keys share,
 * the state what one has used and since when. The second is a gate that is open in the first half
 * of every second: it has no state at all.
 */
#include "keyed.h"

/* ---- a quota of its own ---- */

struct quota {
    int64_t units;
    tg_ms lasts;
    int resets, takes; /* how often the store has called */
};

struct quota_state {
    int64_t used;
    tg_ms void_at; /* 0: never charged */
};

static struct quota *quota_of(const struct tg_limiter *limiter)
{
    return limiter->context;
}

static void quota_reset(const struct tg_limiter *limiter, void *state)
{
    quota_of(limiter)->resets++;
    *(struct quota_state *)state = (struct quota_state){0};
}

static tg_ms quota_fresh_at(const struct tg_limiter *limiter, const void *state)
{
    const struct quota_state *quota = state;
    (void)limiter;

    return quota->used > 0 ? quota->void_at : 0;
}

static int64_t used_at(const struct quota_state *quota, tg_ms now)
{
    return now < quota->void_at ? quota->used : 0;
}

static void quota_peek(const struct tg_limiter *limiter, const void *state, tg_ms now,
                       int64_t cost, struct tg_decision *answer)
{
    const struct quota_state *quota = state;
    int64_t units = quota_of(limiter)->units, left = units - used_at(quota, now);
    tg_ms reset_at = now < quota->void_at ? quota->void_at : now;

    if (cost <= left || cost == 0)
        *answer = ALLOWED(units, left - cost, reset_at);
    else
        *answer = DENIED(units, left, reset_at, cost > units ? TG_UNSATISFIABLE : reset_at - now);
}

static void quota_take(const struct tg_limiter *limiter, void *state, tg_ms now, int64_t cost)
{
    struct quota_state *quota = state;

    quota_of(limiter)->takes++;
    if (now >= quota->void_at)
        *quota = (struct quota_state){0, now + quota_of(limiter)->lasts};
    quota->used += cost;
}

static void quota_refund(const struct tg_limiter *limiter, void *state, tg_ms now,
                         struct tg_charge charge, int64_t units)
{
    struct quota_state *quota = state;
    (void)limiter;

    if (now < quota->void_at && charge.cost >= units)
        quota->used -= units < quota->used ? units : quota->used;
}

static void quota_settle(const struct tg_limiter *limiter, void *state, tg_ms now,
                         struct tg_charge charge, int64_t actual)
{
    struct quota_state *quota = state;

    if (actual < charge.cost)
        quota_refund(limiter, state, now, charge, charge.cost - actual);
    else
        quota->used += actual - charge.cost;
}

static const struct tg_limiter_ops quota_ops = {
    "quota",
    quota_reset,
    quota_fresh_at,
    quota_peek,
    quota_take,
    quota_refund,
    quota_settle,
    NULL, /* other settings start afresh */
};

static struct tg_limit quota_limit(struct quota *quota)
{
    return (struct tg_limit){
        .limiter = {.ops = &quota_ops,
                    .state_bytes = sizeof(struct quota_state),
                    .context = quota},
        .axis = TG_AXIS_COST,
    };
}

/* ---- a gate without a state ---- */

static void gate_reset(const struct tg_limiter *limiter, void *state)
{
    (void)limiter;
    (void)state;
}

static tg_ms gate_fresh_at(const struct tg_limiter *limiter, const void *state)
{
    (void)limiter;
    (void)state;
    return 0;
}

static void gate_peek(const struct tg_limiter *limiter, const void *state, tg_ms now, int64_t cost,
                      struct tg_decision *answer)
{
    (void)limiter;
    (void)state;
    *answer = now % 1000 < 500 || cost == 0 ? ALLOWED(1, 1, now)
                                            : DENIED(1, 0, now, 1000 - now % 1000);
}

static void gate_take(const struct tg_limiter *limiter, void *state, tg_ms now, int64_t cost)
{
    (void)limiter;
    (void)state;
    (void)now;
    (void)cost;
}

static void gate_give_back(const struct tg_limiter *limiter, void *state, tg_ms now,
                           struct tg_charge charge, int64_t units)
{
    (void)limiter;
    (void)state;
    (void)now;
    (void)charge;
    (void)units;
}

static const struct tg_limiter_ops gate_ops = {
    "half-second",
    gate_reset,
    gate_fresh_at,
    gate_peek,
    gate_take,
    gate_give_back,
    gate_give_back,
    NULL, /* other settings start afresh */
};

static struct tg_limit gate_limit(void)
{
    return (struct tg_limit){.limiter = {.ops = &gate_ops}, .axis = TG_AXIS_RATE};
}

/* ---- tests ---- */

#define MEMORY ((size_t)64 * 1024)

static void an_own_limiter_decides_in_a_store(void **state)
{
    struct quota quota = {.units = 10, .lasts = 5000};
    struct tg_limit limit = quota_limit(&quota);
    struct tg_store *store = must_store(MEMORY, 1);
    tg_limits set = must_define(store, &limit, 1);
    (void)state;

    expect_decision("take", must_take(store, set, "a", 7, 1000), ALLOWED(10, 3, 1000));
    expect_decision("deny", must_take(store, set, "a", 4, 2000), DENIED(10, 3, 6000, 4000));
    expect_decision("peek", must_peek(store, set, "a", 3, 2000), ALLOWED(10, 0, 6000));
    expect_decision("never", must_peek(store, set, "a", 11, 2000),
                    DENIED(10, 3, 6000, TG_UNSATISFIABLE));
    must_refund(store, set, "a", 7, 2000, 1000);
    expect_decision("refunded", must_take(store, set, "a", 1, 2000), ALLOWED(10, 9, 6000));
    must_settle(store, set, "a", 1, 2000, 2000, 8);
    expect_decision("settled", must_peek(store, set, "a", 0, 2000), ALLOWED(10, 2, 6000));
    assert_int_equal(quota.takes, 2);
    assert_true(quota.resets > 0);
    tg_store_free(store);
}

static void an_own_limiter_is_forgotten_when_it_says_it_is_fresh(void **state)
{
    struct quota quota = {.units = 10, .lasts = 5000};
    struct tg_limit limit = quota_limit(&quota);
    struct tg_store *store = must_store(MEMORY, 1);
    tg_limits set = must_define(store, &limit, 1);
    (void)state;

    must_take(store, set, "a", 7, 1000);
    assert_int_equal(tg_store_sweep(store, 5999), 0);
    assert_int_equal(tg_store_sweep(store, 6000), 1);
    expect_decision("fresh", must_peek(store, set, "a", 0, 6000), ALLOWED(10, 10, 6000));
    tg_store_free(store);
}

static void an_own_limiter_stands_beside_a_built_in_one(void **state)
{
    struct quota quota = {.units = 10, .lasts = 5000};
    const struct tg_limit limits[] = {quota_limit(&quota),
                                      limit_on(TG_AXIS_RATE, "gcra:limit=10,period=1000,burst=2"),
                                      gate_limit()};
    struct tg_store *store = must_store(MEMORY, 1);
    tg_limits set = must_define(store, limits, 3);
    (void)state;

    expect_decision("all allow", must_take(store, set, "a", 6, 1000), ALLOWED(1, 1, 1100));
    expect_decision("quota refuses", must_take(store, set, "a", 6, 1000),
                    DENIED(1, 1, 6000, 5000));
    expect_decision("the others were not charged", must_take(store, set, "a", 1, 1000),
                    ALLOWED(1, 0, 6000));
    expect_decision("gcra refuses", must_take(store, set, "a", 1, 1000), DENIED(1, 0, 6000, 100));
    expect_decision("the gate refuses", must_take(store, set, "a", 1, 1500),
                    DENIED(1, 0, 6000, 500));
    expect_decision("nobody was charged", must_take(store, set, "a", 3, 2000),
                    ALLOWED(1, 0, 6000));
    assert_int_equal(quota.takes, 3);
    tg_store_free(store);
}

static void a_limiter_may_have_no_state(void **state)
{
    struct tg_limit limit = gate_limit();
    struct tg_store *store = must_store(MEMORY, 1);
    tg_limits set = must_define(store, &limit, 1);
    (void)state;

    assert_true(must_take(store, set, "a", 1, 499).allowed);
    assert_false(must_take(store, set, "a", 1, 500).allowed);
    assert_true(must_take(store, set, "a", 1, 1000).allowed);
    must_refund(store, set, "a", 1, 1000, 1000);
    must_settle(store, set, "a", 1, 1000, 1000, 5);
    tg_store_free(store);
}

static void quota_reset_to_one_used(const struct tg_limiter *limiter, void *state)
{
    (void)limiter;
    *(struct quota_state *)state = (struct quota_state){.used = 1, .void_at = 6000};
}

static void a_state_need_not_begin_at_zero(void **state)
{
    struct quota quota = {.units = 10, .lasts = 5000};
    struct tg_limit limit = quota_limit(&quota);
    struct tg_limiter_ops ops = *limit.limiter.ops;
    struct tg_store *store = must_store(MEMORY, 1);
    (void)state;

    ops.reset = quota_reset_to_one_used;
    limit.limiter.ops = &ops;
    tg_limits set = must_define(store, &limit, 1);
    assert_int_equal(must_peek(store, set, "a", 0, 1000).remaining, 9);
    assert_int_equal(must_take(store, set, "a", 7, 1000).remaining, 2);
    tg_store_free(store);
}

static void a_table_that_lacks_an_operation_is_refused(void **state)
{
    struct tg_limiter_ops lacking[6];
    struct tg_limit limit = gate_limit();
    struct tg_store *store = must_store(MEMORY, 1);
    tg_limits set = 0;
    (void)state;

    for (size_t i = 0; i < COUNT_OF(lacking); i++)
        lacking[i] = gate_ops;
    lacking[0].reset = NULL;
    lacking[1].fresh_at = NULL;
    lacking[2].peek = NULL;
    lacking[3].take = NULL;
    lacking[4].refund = NULL;
    lacking[5].settle = NULL;
    for (size_t i = 0; i < COUNT_OF(lacking); i++) {
        limit.limiter.ops = &lacking[i];
        assert_int_equal(tg_store_define(store, &limit, 1, &set, NULL), TG_ERR_INVALID);
    }
    limit.limiter.ops = NULL;
    assert_int_equal(tg_store_define(store, &limit, 1, &set, NULL), TG_ERR_INVALID);
    limit = gate_limit();
    limit.limiter.state_bytes = 12;
    assert_int_equal(tg_store_define(store, &limit, 1, &set, NULL), TG_ERR_INVALID);
    assert_int_equal(set, 0);
    tg_store_free(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_own_limiter_decides_in_a_store),
        cmocka_unit_test(an_own_limiter_is_forgotten_when_it_says_it_is_fresh),
        cmocka_unit_test(an_own_limiter_stands_beside_a_built_in_one),
        cmocka_unit_test(a_limiter_may_have_no_state),
        cmocka_unit_test(a_state_need_not_begin_at_zero),
        cmocka_unit_test(a_table_that_lacks_an_operation_is_refused),
    };
    return cmocka_run_group_tests_name("own_limiter", tests, NULL, NULL);
}
