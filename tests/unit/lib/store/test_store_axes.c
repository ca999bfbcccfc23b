/* test_store_axes.c - the answers of a store by axis, charging axis by axis, and limits in shadow.
 * */
#include "keyed.h"

#define MEMORY ((size_t)1 << 20)
#define TEN_A_SECOND "fixed_window:limit=10,window=1000"
#define HUNDRED_A_SECOND "fixed_window:limit=100,window=1000"
#define KEY "tenant-a"

/* ---- the answers by axis ---- */

static void take_axes(struct tg_store *store, const struct tg_debit *debit, tg_ms now,
                      struct tg_axes *axes)
{
    struct tg_decision decision, fold;

    assert_int_equal(tg_store_take(store, debit, now, &decision, axes), TG_OK);
    fold = TG_ALLOW_FULL;
    for (int axis = 0; axis < TG_AXIS_COUNT; axis++) {
        if (axes->present & (1u << axis))
            fold = tg_decision_combine(fold, axes->decision[axis]);
    }
    expect_decision("the decision is the combination of the axes", decision, fold);
}

static void the_axes_say_what_each_has_left(void **state)
{
    const struct tg_limit limits[] = {limit_on(TG_AXIS_RATE, "fixed_window:limit=2,window=1000"),
                                      limit_on(TG_AXIS_COST, HUNDRED_A_SECOND),
                                      limit_on(TG_AXIS_COST, "fixed_window:limit=70,window=60000")};
    struct tg_store *store = must_store(MEMORY, 0);
    struct tg_scope scope = scope_of(must_define(store, limits, 3), KEY);
    struct tg_debit debit = debit_of(&scope, 40);
    struct tg_axes axes;
    (void)state;

    take_axes(store, &debit, 1000, &axes);
    assert_int_equal(axes.present, 1u << TG_AXIS_RATE | 1u << TG_AXIS_COST);
    assert_int_equal(axes.would_deny, 0);
    assert_int_equal(tg_axes_binding(&axes), TG_AXIS_NONE);
    expect_decision("rate", axes.decision[TG_AXIS_RATE], ALLOWED(2, 1, 2000));
    expect_decision("cost", axes.decision[TG_AXIS_COST], ALLOWED(70, 30, 60000));

    take_axes(store, &debit, 1000, &axes); /* the second of the cost limits refuses */
    assert_int_equal(tg_axes_binding(&axes), TG_AXIS_COST);
    expect_decision("rate, as it stands", axes.decision[TG_AXIS_RATE], ALLOWED(2, 1, 2000));
    expect_decision("cost", axes.decision[TG_AXIS_COST], DENIED(70, 30, 60000, 59000));

    debit.cost = 10;
    take_axes(store, &debit, 1000, &axes);
    expect_decision("rate", axes.decision[TG_AXIS_RATE], ALLOWED(2, 0, 2000));
    take_axes(store, &debit, 1500, &axes);
    assert_int_equal(tg_axes_binding(&axes), TG_AXIS_RATE);
    expect_decision("rate", axes.decision[TG_AXIS_RATE], DENIED(2, 0, 2000, 500));
    expect_decision("cost, as it stands", axes.decision[TG_AXIS_COST], ALLOWED(70, 20, 60000));
    tg_store_free(store);
}

static void an_axis_without_a_limit_is_not_present(void **state)
{
    struct tg_store *store = must_store(MEMORY, 0);
    struct tg_scope scope = scope_of(must_define_one(store, TG_AXIS_COST, TEN_A_SECOND), KEY);
    struct tg_debit debit = debit_of(&scope, 40);
    struct tg_axes axes;
    (void)state;

    take_axes(store, &debit, 1000, &axes);
    assert_int_equal(axes.present, 1u << TG_AXIS_COST);
    expect_decision("never", axes.decision[TG_AXIS_COST],
                    DENIED(10, 10, 2000, TG_UNSATISFIABLE));
    tg_store_free(store);
}

static void a_peek_answers_as_the_take_would(void **state)
{
    const struct tg_limit limits[] = {limit_on(TG_AXIS_RATE, "fixed_window:limit=2,window=1000"),
                                      limit_on(TG_AXIS_COST, HUNDRED_A_SECOND)};
    struct tg_store *store = must_store(MEMORY, 0);
    struct tg_scope scope = scope_of(must_define(store, limits, 2), KEY);
    (void)state;

    for (int charging = TG_CHARGE_ATOMIC; charging <= TG_CHARGE_PER_AXIS; charging++) {
        static const int64_t costs[] = {60, 60, 40, 1, 200};
        for (size_t i = 0; i < COUNT_OF(costs); i++) {
            struct tg_debit debit = debit_of(&scope, costs[i]);
            struct tg_decision peeked, taken;
            struct tg_axes before, after;
            debit.charging = (enum tg_charging)charging;
            tg_ms now = 1000 + 5000 * charging;
            assert_int_equal(tg_store_peek(store, &debit, now, &peeked, &before), TG_OK);
            assert_int_equal(tg_store_take(store, &debit, now, &taken, &after), TG_OK);
            expect_decision("peek", peeked, taken);
            assert_int_equal(before.present, after.present);
            for (int axis = TG_AXIS_RATE; axis <= TG_AXIS_COST; axis++) {
                if (before.present & (1u << axis))
                    expect_decision("axis", before.decision[axis], after.decision[axis]);
            }
        }
    }
    tg_store_free(store);
}

/* ---- charging by axis ---- */

static void charged_by_axis_a_rate_unit_stays_spent_when_cost_refuses(void **state)
{
    const struct tg_limit limits[] = {limit_on(TG_AXIS_RATE, "fixed_window:limit=3,window=1000"),
                                      limit_on(TG_AXIS_COST, HUNDRED_A_SECOND)};
    struct tg_store *store = must_store(MEMORY, 0);
    struct tg_scope scope = scope_of(must_define(store, limits, 2), KEY);
    struct tg_debit debit = debit_of(&scope, 60);
    struct tg_axes axes;
    (void)state;

    debit.charging = TG_CHARGE_PER_AXIS;
    take_axes(store, &debit, 1000, &axes);
    expect_decision("rate", axes.decision[TG_AXIS_RATE], ALLOWED(3, 2, 2000));
    expect_decision("cost", axes.decision[TG_AXIS_COST], ALLOWED(100, 40, 2000));
    take_axes(store, &debit, 1000, &axes); /* cost refuses */
    expect_decision("rate is spent", axes.decision[TG_AXIS_RATE], ALLOWED(3, 1, 2000));
    expect_decision("cost", axes.decision[TG_AXIS_COST], DENIED(100, 40, 2000, 1000));
    take_axes(store, &debit, 1000, &axes);
    expect_decision("rate is spent", axes.decision[TG_AXIS_RATE], ALLOWED(3, 0, 2000));
    take_axes(store, &debit, 1000, &axes); /* rate refuses, and cost is not asked */
    assert_int_equal(axes.present, 1u << TG_AXIS_RATE);
    expect_decision("rate", axes.decision[TG_AXIS_RATE], DENIED(3, 0, 2000, 1000));
    tg_store_free(store);
}

/* ---- shadow ---- */

static void a_limit_in_shadow_refuses_nothing(void **state)
{
    struct tg_limit limits[] = {limit_on(TG_AXIS_RATE, "fixed_window:limit=2,window=1000"),
                                limit_on(TG_AXIS_COST, HUNDRED_A_SECOND)};
    struct tg_store *store = must_store(MEMORY, 0);
    struct tg_axes axes;
    struct tg_decision decision;
    (void)state;

    limits[0].mode = TG_SHADOW;
    struct tg_scope scope = scope_of(must_define(store, limits, 2), KEY);
    struct tg_debit debit = debit_of(&scope, 30);
    static const unsigned would_deny[] = {0, 0, 1u << TG_AXIS_RATE};
    for (size_t i = 0; i < COUNT_OF(would_deny); i++) {
        assert_int_equal(tg_store_take(store, &debit, 1000, &decision, &axes), TG_OK);
        assert_true(decision.allowed);
        assert_int_equal(axes.would_deny, would_deny[i]);
    }
    /* Refused by the other limit, and still not by this. */
    assert_int_equal(tg_store_take(store, &debit, 1000, &decision, &axes), TG_OK);
    expect_decision("cost", axes.decision[TG_AXIS_COST], DENIED(100, 10, 2000, 1000));
    assert_false(decision.allowed);
    assert_int_equal(tg_axes_binding(&axes), TG_AXIS_COST);
    tg_store_free(store);
}

static void a_limit_in_shadow_is_not_charged_by_a_refused_call(void **state)
{
    struct tg_limit limits[] = {limit_on(TG_AXIS_RATE, "fixed_window:limit=2,window=1000"),
                                limit_on(TG_AXIS_COST, HUNDRED_A_SECOND)};
    struct tg_store *store = must_store(MEMORY, 0);
    struct tg_axes axes;
    struct tg_decision decision;
    (void)state;

    limits[0].mode = TG_SHADOW;
    struct tg_scope scope = scope_of(must_define(store, limits, 2), KEY);
    struct tg_debit large = debit_of(&scope, 101), small = debit_of(&scope, 1);
    for (int i = 0; i < 5; i++)
        assert_int_equal(tg_store_take(store, &large, 1000, &decision, NULL), TG_OK);
    assert_int_equal(tg_store_take(store, &small, 1000, &decision, &axes), TG_OK);
    assert_int_equal(axes.would_deny, 0);
    expect_decision("rate", axes.decision[TG_AXIS_RATE], ALLOWED(2, 1, 2000));
    tg_store_free(store);
}

/* It may not have been charged, and the store does not know: it gets nothing back. */
static void a_limit_in_shadow_is_neither_refunded_nor_settled(void **state)
{
    struct tg_limit limits[] = {limit_on(TG_AXIS_COST, "fixed_window:limit=50,window=1000"),
                                limit_on(TG_AXIS_COST, HUNDRED_A_SECOND)};
    struct tg_store *store = must_store(MEMORY, 0);
    struct tg_decision decision;
    struct tg_axes axes;
    (void)state;

    limits[0].mode = TG_SHADOW;
    struct tg_scope scope = scope_of(must_define(store, limits, 2), KEY);
    struct tg_debit debit = debit_of(&scope, 30);
    for (int i = 0; i < 2; i++) /* the second is not charged to the limit of 50 */
        assert_int_equal(tg_store_take(store, &debit, 1000, &decision, NULL), TG_OK);
    assert_int_equal(tg_store_refund(store, &debit, 1000, 1000), TG_OK);
    assert_int_equal(tg_store_settle(store, &debit, 1000, 1000, 10), TG_OK);
    assert_int_equal(tg_store_peek(store, &debit, 1000, &decision, &axes), TG_OK);
    assert_int_equal(axes.would_deny, 1u << TG_AXIS_COST);
    expect_decision("the other got all back", decision, ALLOWED(100, 60, 2000));
    tg_store_free(store);
}

static void limits_in_shadow_alone_allow_everything(void **state)
{
    struct tg_limit limit = limit_on(TG_AXIS_COST, TEN_A_SECOND);
    struct tg_store *store = must_store(MEMORY, 0);
    (void)state;

    limit.mode = TG_SHADOW;
    tg_limits set = must_define(store, &limit, 1);
    for (int i = 0; i < 5; i++)
        assert_true(must_take(store, set, KEY, 7, 1000).allowed);
    assert_true(must_take(store, set, KEY, TG_NUMBER_MAX, 1000).allowed);
    tg_store_free(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_axes_say_what_each_has_left),
        cmocka_unit_test(an_axis_without_a_limit_is_not_present),
        cmocka_unit_test(a_peek_answers_as_the_take_would),
        cmocka_unit_test(charged_by_axis_a_rate_unit_stays_spent_when_cost_refuses),
        cmocka_unit_test(a_limit_in_shadow_refuses_nothing),
        cmocka_unit_test(a_limit_in_shadow_is_not_charged_by_a_refused_call),
        cmocka_unit_test(a_limit_in_shadow_is_neither_refunded_nor_settled),
        cmocka_unit_test(limits_in_shadow_alone_allow_everything),
    };
    return cmocka_run_group_tests_name("store_axes", tests, NULL, NULL);
}
