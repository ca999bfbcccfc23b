/* test_token_bucket.c - the level that time refills: golden vectors, edges, refunds, debt. */
#include "steps.h"

#define TEN_AT_ONE_IN_8_MS "token_bucket:capacity=10,refill=125"

static void golden_ten_at_five_a_second(void **state)
{
    static const struct step table[] = {
        ALLOW(1000, 4, 10, 6, 1800),
        ALLOW(1000, 6, 10, 0, 3000),
        DENY(1000, 1, 10, 0, 3000, 200),
        ALLOW(1200, 1, 10, 0, 3200),
        DENY(2000, 5, 10, 4, 3200, 200),
        ALLOW(11000, 10, 10, 0, 13000),
    };
    (void)state;
    PLAY("token_bucket:capacity=10,refill=5", table);
}

static void golden_refill_with_a_fraction(void **state)
{
    static const struct step table[] = {
        ALLOW(1000, 7, 7, 0, 3334),
        DENY(1000, 1, 7, 0, 3334, 334),
        DENY(1333, 1, 7, 0, 3334, 1),
        ALLOW(2000, 3, 7, 0, 4334),
    };
    (void)state;
    PLAY("token_bucket:capacity=7,refill=3", table);
}

static void boundary_belongs_to_admit(void **state)
{
    static const struct step table[] = {
        ALLOW(1000, 10, 10, 0, 1080),
        DENY(1007, 1, 10, 0, 1080, 1),
        ALLOW(1008, 1, 10, 0, 1088),
        DENY(1047, 5, 10, 4, 1088, 1),
        ALLOW(1048, 5, 10, 0, 1128),
    };
    (void)state;
    PLAY(TEN_AT_ONE_IN_8_MS, table);
}

static void refill_stops_at_the_capacity(void **state)
{
    static const struct step table[] = {
        ALLOW(1000, 1, 10, 9, 1008),
        PEEK(1008, 10, 10, 1008),
        PEEK(900000, 10, 10, 900000),
        ALLOW(900000, 10, 10, 0, 900080),
        DENY(900000, 1, 10, 0, 900080, 8),
    };
    (void)state;
    PLAY(TEN_AT_ONE_IN_8_MS, table);
}

static void refill_may_be_a_fraction_of_a_unit_a_second(void **state)
{
    static const struct step table[] = {
        ALLOW(0, 1, 1, 0, 4000),
        DENY(0, 1, 1, 0, 4000, 4000),
        DENY(3999, 1, 1, 0, 4000, 1),
        ALLOW(4000, 1, 1, 0, 8000),
    };
    (void)state;
    PLAY("token_bucket:capacity=1,refill=0.25", table);
}

static void cost_zero_is_free_and_shows_what_is_there(void **state)
{
    static const struct step table[] = {
        PEEK(1000, 10, 10, 1000),
        ALLOW(1000, 0, 10, 10, 1000),
        ALLOW(1000, 10, 10, 0, 1080),
        PEEK(1000, 10, 0, 1080),
        ALLOW(1012, 0, 10, 1, 1080),
        DENY(1012, 2, 10, 1, 1080, 4),
        ALLOW(1016, 2, 10, 0, 1096),
    };
    (void)state;
    PLAY(TEN_AT_ONE_IN_8_MS, table);
}

static void cost_above_the_capacity_is_never_admitted(void **state)
{
    static const struct step small[] = {
        DENY(0, 5, 3, 3, 0, TG_UNSATISFIABLE),
    };
    static const struct step table[] = {
        ALLOW(1000, 4, 10, 6, 1032),
        DENY(1000, 11, 10, 6, 1032, TG_UNSATISFIABLE),
        DENY(1000, TG_NUMBER_MAX, 10, 6, 1032, TG_UNSATISFIABLE),
        DENY(9000, 11, 10, 10, 9000, TG_UNSATISFIABLE),
    };
    (void)state;
    PLAY("token_bucket:capacity=3,refill=1", small);
    PLAY(TEN_AT_ONE_IN_8_MS, table);
}

/* The clock goes from 10000 to 5000 and returns: were 5000 remembered, the five seconds between
 * would refill a second time and the last answer would be 98. */
static void a_clock_that_steps_back_and_forth_never_refills_twice(void **state)
{
    static const struct step table[] = {
        ALLOW(10000, 50, 100, 50, 15000),
        ALLOW(5000, 1, 100, 49, 15100),
        ALLOW(10000, 1, 100, 48, 15200),
        ALLOW(10100, 1, 100, 48, 15300),
    };
    (void)state;
    PLAY("token_bucket:capacity=100,refill=10", table);
}

static void a_clock_that_stepped_back_waits_until_the_refill_goes_on(void **state)
{
    static const struct step table[] = {
        ALLOW(1000, 10, 10, 0, 1080),
        DENY(500, 1, 10, 0, 1080, 508),
        DENY(0, 10, 10, 0, 1080, 1080),
        DENY(1007, 1, 10, 0, 1080, 1),
        ALLOW(1008, 1, 10, 0, 1088),
    };
    (void)state;
    PLAY(TEN_AT_ONE_IN_8_MS, table);
}

static void a_refund_at_once_undoes_the_charge(void **state)
{
    static const struct step table[] = {
        ALLOW(1000, 6, 10, 4, 1048),
        ALLOW(1000, 4, 10, 0, 1080),
        REFUND(1000, 1000, 4, 4, 10, 4, 1048),
        REFUND(1000, 1000, 6, 6, 10, 10, 1000),
    };
    (void)state;
    PLAY(TEN_AT_ONE_IN_8_MS, table);
}

static void a_refund_gives_back_no_more_than_is_still_owed(void **state)
{
    static const struct step refilled_in_part[] = {
        ALLOW(1000, 10, 10, 0, 1080),
        ALLOW(1016, 2, 10, 0, 1096),
        REFUND(1016, 1000, 10, 10, 10, 8, 1032), /* only the one at 1016 is left */
    };
    static const struct step refilled[] = {
        ALLOW(1000, 10, 10, 0, 1080),
        ALLOW(1080, 4, 10, 6, 1112),
        REFUND(1080, 1000, 10, 10, 10, 6, 1112),
    };
    static const struct step more_than_charged[] = {
        ALLOW(1000, 2, 10, 8, 1016),
        ALLOW(1000, 2, 10, 6, 1032),
        REFUND(1000, 1000, 2, 9, 10, 8, 1016),
    };
    static const struct step never_above_the_capacity[] = {
        ALLOW(1000, 2, 10, 8, 1016),
        REFUND(1000, 1000, 2, 2, 10, 10, 1000),
        REFUND(1000, 1000, 2, 2, 10, 10, 1000),
        ALLOW(1000, 10, 10, 0, 1080),
        DENY(1000, 1, 10, 0, 1080, 8),
    };
    (void)state;
    PLAY(TEN_AT_ONE_IN_8_MS, refilled_in_part);
    PLAY(TEN_AT_ONE_IN_8_MS, refilled);
    PLAY(TEN_AT_ONE_IN_8_MS, more_than_charged);
    PLAY(TEN_AT_ONE_IN_8_MS, never_above_the_capacity);
}

static void a_refund_of_nothing_changes_nothing(void **state)
{
    static const struct step table[] = {
        ALLOW(1000, 3, 10, 7, 1024),
        REFUND(1000, 1000, 3, 0, 10, 7, 1024),
        REFUND(1000, 1000, 0, 3, 10, 7, 1024),
    };
    (void)state;
    PLAY(TEN_AT_ONE_IN_8_MS, table);
}

static void less_used_than_estimated_is_refunded(void **state)
{
    static const struct step table[] = {
        ALLOW(1000, 10, 10, 0, 1080),
        SETTLE(1000, 1000, 10, 10, 10, 0, 1080),
        SETTLE(1008, 1000, 10, 4, 10, 7, 1032),
    };
    static const struct step nothing_used[] = {
        ALLOW(1000, 10, 10, 0, 1080),
        SETTLE(1000, 1000, 10, 0, 10, 10, 1000),
    };
    (void)state;
    PLAY(TEN_AT_ONE_IN_8_MS, table);
    PLAY(TEN_AT_ONE_IN_8_MS, nothing_used);
}

static void more_used_than_estimated_is_debt(void **state)
{
    static const struct step table[] = {
        ALLOW(1000, 1, 10, 9, 1008),
        SETTLE(1000, 1000, 1, 15, 10, 0, 1120), /* 5 below zero */
        DENY(1000, 1, 10, 0, 1120, 48),
        ALLOW(1000, 0, 10, 0, 1120),
        DENY(1047, 1, 10, 0, 1120, 1),
        ALLOW(1048, 1, 10, 0, 1128),
    };
    (void)state;
    PLAY(TEN_AT_ONE_IN_8_MS, table);
}

/* A refill of TG_NUMBER_MAX a second pays the greatest debt there can be in one second, however
 * often it was run up. */
static void debt_is_bounded(void **state)
{
    static const struct step table[] = {
        SETTLE(1000, 1000, 0, TG_NUMBER_MAX, 10, 0, 2001),
        SETTLE(1000, 1000, 0, TG_NUMBER_MAX, 10, 0, 2001),
        SETTLE(1000, 1000, 0, TG_NUMBER_MAX, 10, 0, 2001),
        PEEK(2001, 10, 10, 2001),
    };
    (void)state;
    PLAY("token_bucket:capacity=10,refill=9007199254740991", table);
}

static void a_late_settlement_charges_the_difference_and_credits_nothing(void **state)
{
    static const struct step more[] = {
        ALLOW(1000, 1, 10, 9, 1008),
        SETTLE(90000, 1000, 1, 3, 10, 8, 90016),
    };
    static const struct step less[] = {
        ALLOW(1000, 10, 10, 0, 1080),
        ALLOW(90000, 10, 10, 0, 90080),
        SETTLE(90000, 1000, 10, 1, 10, 0, 90080),
    };
    (void)state;
    PLAY(TEN_AT_ONE_IN_8_MS, more);
    PLAY(TEN_AT_ONE_IN_8_MS, less);
}

static void an_estimate_of_nothing_is_settled_like_any_other(void **state)
{
    static const struct step table[] = {
        SETTLE(1000, 1000, 0, 3, 10, 7, 1024),
        ALLOW(1000, 7, 10, 0, 1080),
    };
    (void)state;
    PLAY(TEN_AT_ONE_IN_8_MS, table);
}

static void fresh_when_full_again(void **state)
{
    static const struct step table[] = {
        FRESH_AT(0),
        ALLOW(1000, 10, 10, 0, 1080),
        FRESH_AT(1080),
        PEEK(1079, 10, 9, 1080),
        PEEK(1080, 10, 10, 1080),
        SETTLE(1000, 1000, 10, 15, 10, 0, 1120),
        FRESH_AT(1120),
    };
    (void)state;
    PLAY(TEN_AT_ONE_IN_8_MS, table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_ten_at_five_a_second),
        cmocka_unit_test(golden_refill_with_a_fraction),
        cmocka_unit_test(boundary_belongs_to_admit),
        cmocka_unit_test(refill_stops_at_the_capacity),
        cmocka_unit_test(refill_may_be_a_fraction_of_a_unit_a_second),
        cmocka_unit_test(cost_zero_is_free_and_shows_what_is_there),
        cmocka_unit_test(cost_above_the_capacity_is_never_admitted),
        cmocka_unit_test(a_clock_that_steps_back_and_forth_never_refills_twice),
        cmocka_unit_test(a_clock_that_stepped_back_waits_until_the_refill_goes_on),
        cmocka_unit_test(a_refund_at_once_undoes_the_charge),
        cmocka_unit_test(a_refund_gives_back_no_more_than_is_still_owed),
        cmocka_unit_test(a_refund_of_nothing_changes_nothing),
        cmocka_unit_test(less_used_than_estimated_is_refunded),
        cmocka_unit_test(more_used_than_estimated_is_debt),
        cmocka_unit_test(debt_is_bounded),
        cmocka_unit_test(a_late_settlement_charges_the_difference_and_credits_nothing),
        cmocka_unit_test(an_estimate_of_nothing_is_settled_like_any_other),
        cmocka_unit_test(fresh_when_full_again),
    };
    return cmocka_run_group_tests_name("token_bucket", tests, NULL, NULL);
}
