/* test_gcra.c - the rate limit in one timestamp: golden vectors, edges, refunds, debt. */
#include "steps.h"

#define TEN_A_SECOND_BURST_5 "gcra:limit=10,period=1000,burst=5"

static void golden_burst_5_at_ten_a_second(void **state)
{
    static const struct step table[] = {
        ALLOW(1000, 1, 5, 4, 1100),
        ALLOW(1000, 1, 5, 3, 1200),
        ALLOW(1000, 1, 5, 2, 1300),
        ALLOW(1000, 1, 5, 1, 1400),
        ALLOW(1000, 1, 5, 0, 1500),
        DENY(1000, 1, 5, 0, 1500, 100),
        ALLOW(1100, 1, 5, 0, 1600),
        DENY(1100, 1, 5, 0, 1600, 100),
        ALLOW(2000, 1, 5, 4, 2100),
    };
    (void)state;
    PLAY(TEN_A_SECOND_BURST_5, table);
}

static void golden_interval_with_a_fraction(void **state)
{
    static const struct step table[] = {
        ALLOW(1000, 1, 3, 2, 1334),
        ALLOW(1000, 1, 3, 1, 1667),
        ALLOW(1000, 1, 3, 0, 2000),
        DENY(1000, 1, 3, 0, 2000, 334),
        ALLOW(1334, 1, 3, 0, 2334),
        ALLOW(1667, 1, 3, 0, 2667),
        ALLOW(2000, 1, 3, 0, 3000),
    };
    (void)state;
    PLAY("gcra:limit=3,period=1000,burst=3", table);
}

static void golden_costs_above_one(void **state)
{
    static const struct step table[] = {
        ALLOW(1000, 10, 50, 40, 1100),
        ALLOW(1000, 25, 50, 15, 1350),
        DENY(1000, 20, 50, 15, 1350, 50),
        ALLOW(1000, 15, 50, 0, 1500),
        ALLOW(1500, 5, 50, 45, 1550),
    };
    (void)state;
    PLAY("gcra:limit=100,period=1000,burst=50", table);
}

static void golden_epoch_times(void **state)
{
    static const struct step table[] = {
        ALLOW(1700000000000, 1, 10, 9, 1700000001000),
        ALLOW(1700000000000, 1, 10, 8, 1700000002000),
        ALLOW(1700000000500, 1, 10, 7, 1700000003000),
        ALLOW(1700000060000, 1, 10, 9, 1700000061000),
    };
    (void)state;
    PLAY("gcra:limit=60,period=60000,burst=10", table);
}

static void boundary_belongs_to_admit(void **state)
{
    static const struct step table[] = {
        ALLOW(1000, 5, 5, 0, 1500),
        DENY(1099, 1, 5, 0, 1500, 1),
        ALLOW(1100, 1, 5, 0, 1600),
        DENY(1399, 3, 5, 2, 1600, 1),
        ALLOW(1400, 3, 5, 0, 1900),
    };
    (void)state;
    PLAY(TEN_A_SECOND_BURST_5, table);
}

static void burst_is_the_limit_unless_given(void **state)
{
    static const struct step table[] = {
        ALLOW(1000, 10, 10, 0, 2000),
        DENY(1000, 1, 10, 0, 2000, 100),
    };
    (void)state;
    PLAY("gcra:limit=10,period=1000", table);
}

static void burst_may_exceed_the_limit(void **state)
{
    static const struct step table[] = {
        ALLOW(1000, 20, 20, 0, 3000),
        DENY(1000, 20, 20, 0, 3000, 2000),
        ALLOW(3000, 20, 20, 0, 5000),
    };
    (void)state;
    PLAY("gcra:limit=10,period=1000,burst=20", table);
}

static void a_fresh_key_admits_its_whole_burst_whatever_the_rounding(void **state)
{
    /* 1/49 * 49 is not 1 in doubles, and 1023 + 1/3 crosses to a coarser binade. */
    static const struct step fortyninths[] = {ALLOW(1000, 49, 49, 0, 1001)};
    static const struct step thirds[] = {ALLOW(1023, 1, 1, 0, 1024)};
    static const struct step epoch[] = {ALLOW(1700000000000, 49, 49, 0, 1700000000001)};
    (void)state;
    PLAY("gcra:limit=49,period=1", fortyninths);
    PLAY("gcra:limit=3,period=1,burst=1", thirds);
    PLAY("gcra:limit=49,period=1", epoch);
}

static void cost_zero_is_free_and_shows_what_is_there(void **state)
{
    static const struct step table[] = {
        PEEK(1000, 5, 5, 1000),
        ALLOW(1000, 0, 5, 5, 1000),
        ALLOW(1000, 5, 5, 0, 1500),
        PEEK(1000, 5, 0, 1500),
        ALLOW(1250, 0, 5, 2, 1500),
        ALLOW(1250, 2, 5, 0, 1700),
    };
    (void)state;
    PLAY(TEN_A_SECOND_BURST_5, table);
}

static void cost_above_the_burst_is_never_admitted(void **state)
{
    static const struct step table[] = {
        DENY(1000, 6, 5, 5, 1000, TG_UNSATISFIABLE),
        ALLOW(1000, 2, 5, 3, 1200),
        DENY(1000, 6, 5, 3, 1200, TG_UNSATISFIABLE),
        DENY(1000, TG_NUMBER_MAX, 5, 3, 1200, TG_UNSATISFIABLE),
        DENY(9000, 6, 5, 5, 9000, TG_UNSATISFIABLE),
    };
    (void)state;
    PLAY(TEN_A_SECOND_BURST_5, table);
}

static void a_clock_that_steps_back_and_forth_creates_nothing(void **state)
{
    static const struct step table[] = {
        ALLOW(10000, 5, 5, 0, 10500),
        DENY(5000, 1, 5, 0, 10500, 5100),
        DENY(0, 1, 5, 0, 10500, 10100),
        DENY(10000, 1, 5, 0, 10500, 100),
        ALLOW(10100, 1, 5, 0, 10600),
    };
    (void)state;
    PLAY(TEN_A_SECOND_BURST_5, table);
}

static void a_refund_at_once_undoes_the_charge(void **state)
{
    static const struct step table[] = {
        ALLOW(1000, 3, 5, 2, 1300),
        ALLOW(1000, 2, 5, 0, 1500),
        REFUND(1000, 1000, 2, 2, 5, 2, 1300),
        REFUND(1000, 1000, 3, 3, 5, 5, 1000),
    };
    (void)state;
    PLAY(TEN_A_SECOND_BURST_5, table);
}

static void a_refund_gives_back_no_more_than_is_still_owed(void **state)
{
    static const struct step paid_in_part[] = {
        ALLOW(1000, 5, 5, 0, 1500),
        ALLOW(1300, 1, 5, 2, 1600),
        REFUND(1300, 1000, 5, 5, 5, 4, 1400), /* only the one at 1300 is left */
    };
    static const struct step paid_off[] = {
        ALLOW(1000, 5, 5, 0, 1500),
        ALLOW(1500, 1, 5, 4, 1600),
        REFUND(1500, 1000, 5, 5, 5, 4, 1600),
    };
    static const struct step more_than_charged[] = {
        ALLOW(1000, 2, 5, 3, 1200),
        ALLOW(1000, 2, 5, 1, 1400),
        REFUND(1000, 1000, 2, 9, 5, 3, 1200),
    };
    static const struct step never_above_the_burst[] = {
        ALLOW(1000, 2, 5, 3, 1200),
        REFUND(1000, 1000, 2, 2, 5, 5, 1000),
        REFUND(1000, 1000, 2, 2, 5, 5, 1000),
        ALLOW(1000, 5, 5, 0, 1500),
        DENY(1000, 1, 5, 0, 1500, 100),
    };
    (void)state;
    PLAY(TEN_A_SECOND_BURST_5, paid_in_part);
    PLAY(TEN_A_SECOND_BURST_5, paid_off);
    PLAY(TEN_A_SECOND_BURST_5, more_than_charged);
    PLAY(TEN_A_SECOND_BURST_5, never_above_the_burst);
}

/* The charge was forgotten with its key, and the key is in use again: a refund of it makes the key
 * full as of now and no fuller, which a clock that steps back would find. */
static void a_refund_does_not_fill_a_key_before_now(void **state)
{
    static const struct step table[] = {
        ALLOW(1000, 1, 5, 4, 1100),
        REFUND(1000, 900, 5, 5, 5, 5, 1000),
        FRESH_AT(1000),
        PEEK(900, 5, 4, 1000),
    };
    (void)state;
    PLAY(TEN_A_SECOND_BURST_5, table);
}

static void a_refund_of_nothing_changes_nothing(void **state)
{
    static const struct step table[] = {
        ALLOW(1000, 3, 5, 2, 1300),
        REFUND(1000, 1000, 3, 0, 5, 2, 1300),
        REFUND(1000, 1000, 0, 3, 5, 2, 1300),
    };
    (void)state;
    PLAY(TEN_A_SECOND_BURST_5, table);
}

static void less_used_than_estimated_is_refunded(void **state)
{
    static const struct step table[] = {
        ALLOW(1000, 5, 5, 0, 1500),
        SETTLE(1000, 1000, 5, 5, 5, 0, 1500),
        SETTLE(1100, 1000, 5, 2, 5, 4, 1200),
    };
    static const struct step nothing_used[] = {
        ALLOW(1000, 5, 5, 0, 1500),
        SETTLE(1000, 1000, 5, 0, 5, 5, 1000),
    };
    (void)state;
    PLAY(TEN_A_SECOND_BURST_5, table);
    PLAY(TEN_A_SECOND_BURST_5, nothing_used);
}

static void more_used_than_estimated_is_debt(void **state)
{
    static const struct step table[] = {
        ALLOW(1000, 1, 5, 4, 1100),
        SETTLE(1000, 1000, 1, 8, 5, 0, 1800),
        DENY(1000, 1, 5, 0, 1800, 400),
        ALLOW(1000, 0, 5, 0, 1800),
        DENY(1399, 1, 5, 0, 1800, 1),
        ALLOW(1400, 1, 5, 0, 1900),
    };
    (void)state;
    PLAY(TEN_A_SECOND_BURST_5, table);
}

static void a_late_settlement_charges_the_difference_and_credits_nothing(void **state)
{
    static const struct step more[] = {
        ALLOW(1000, 1, 5, 4, 1100),
        SETTLE(90000, 1000, 1, 3, 5, 3, 90200),
    };
    static const struct step less[] = {
        ALLOW(1000, 5, 5, 0, 1500),
        ALLOW(90000, 5, 5, 0, 90500),
        SETTLE(90000, 1000, 5, 1, 5, 0, 90500),
    };
    (void)state;
    PLAY(TEN_A_SECOND_BURST_5, more);
    PLAY(TEN_A_SECOND_BURST_5, less);
}

static void an_estimate_of_nothing_is_settled_like_any_other(void **state)
{
    static const struct step table[] = {
        SETTLE(1000, 1000, 0, 3, 5, 2, 1300),
        ALLOW(1000, 2, 5, 0, 1500),
    };
    (void)state;
    PLAY(TEN_A_SECOND_BURST_5, table);
}

static void fresh_when_full_again(void **state)
{
    static const struct step table[] = {
        FRESH_AT(0),
        ALLOW(1000, 5, 5, 0, 1500),
        FRESH_AT(1500),
        PEEK(1499, 5, 4, 1500),
        PEEK(1500, 5, 5, 1500),
        SETTLE(1000, 1000, 5, 9, 5, 0, 1900),
        FRESH_AT(1900),
    };
    (void)state;
    PLAY(TEN_A_SECOND_BURST_5, table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_burst_5_at_ten_a_second),
        cmocka_unit_test(golden_interval_with_a_fraction),
        cmocka_unit_test(golden_costs_above_one),
        cmocka_unit_test(golden_epoch_times),
        cmocka_unit_test(boundary_belongs_to_admit),
        cmocka_unit_test(burst_is_the_limit_unless_given),
        cmocka_unit_test(burst_may_exceed_the_limit),
        cmocka_unit_test(a_fresh_key_admits_its_whole_burst_whatever_the_rounding),
        cmocka_unit_test(cost_zero_is_free_and_shows_what_is_there),
        cmocka_unit_test(cost_above_the_burst_is_never_admitted),
        cmocka_unit_test(a_clock_that_steps_back_and_forth_creates_nothing),
        cmocka_unit_test(a_refund_at_once_undoes_the_charge),
        cmocka_unit_test(a_refund_gives_back_no_more_than_is_still_owed),
        cmocka_unit_test(a_refund_does_not_fill_a_key_before_now),
        cmocka_unit_test(a_refund_of_nothing_changes_nothing),
        cmocka_unit_test(less_used_than_estimated_is_refunded),
        cmocka_unit_test(more_used_than_estimated_is_debt),
        cmocka_unit_test(a_late_settlement_charges_the_difference_and_credits_nothing),
        cmocka_unit_test(an_estimate_of_nothing_is_settled_like_any_other),
        cmocka_unit_test(fresh_when_full_again),
    };
    return cmocka_run_group_tests_name("gcra", tests, NULL, NULL);
}
