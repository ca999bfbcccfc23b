/* test_fixed_window.c - a quota in each window: golden vector, edges, refunds, debt. */
#include "steps.h"

#define FIVE_A_SECOND "fixed_window:limit=5,window=1000"

static void golden_five_a_second(void **state)
{
    static const struct step table[] = {
        ALLOW(1000, 1, 5, 4, 2000),
        ALLOW(1100, 1, 5, 3, 2000),
        ALLOW(1200, 3, 5, 0, 2000),
        DENY(1300, 1, 5, 0, 2000, 700),
        ALLOW(2000, 1, 5, 4, 3000),
        ALLOW(2999, 4, 5, 0, 3000),
        ALLOW(3000, 1, 5, 4, 4000),
    };
    (void)state;
    PLAY(FIVE_A_SECOND, table);
}

static void windows_are_aligned_to_the_epoch(void **state)
{
    static const struct step table[] = {
        ALLOW(999, 5, 5, 0, 1000),
        DENY(999, 1, 5, 0, 1000, 1),
        ALLOW(1000, 5, 5, 0, 2000),
        DENY(1999, 1, 5, 0, 2000, 1),
        ALLOW(1700000000123, 1, 5, 4, 1700000001000),
    };
    (void)state;
    PLAY(FIVE_A_SECOND, table);
}

static void the_first_window_starts_at_zero(void **state)
{
    static const struct step table[] = {
        ALLOW(0, 5, 5, 0, 1000),
        DENY(0, 1, 5, 0, 1000, 1000),
    };
    (void)state;
    PLAY(FIVE_A_SECOND, table);
}

static void a_refusal_tells_what_a_smaller_call_may_take(void **state)
{
    static const struct step table[] = {
        ALLOW(1000, 3, 5, 2, 2000),
        DENY(1400, 3, 5, 2, 2000, 600),
        ALLOW(1400, 2, 5, 0, 2000),
    };
    (void)state;
    PLAY(FIVE_A_SECOND, table);
}

static void cost_zero_is_free_and_shows_what_is_there(void **state)
{
    static const struct step table[] = {
        PEEK(1500, 5, 5, 2000),
        ALLOW(1500, 0, 5, 5, 2000),
        ALLOW(1500, 5, 5, 0, 2000),
        ALLOW(1500, 0, 5, 0, 2000),
        PEEK(2000, 5, 5, 3000),
    };
    (void)state;
    PLAY(FIVE_A_SECOND, table);
}

static void cost_above_the_limit_is_never_admitted(void **state)
{
    static const struct step table[] = {
        DENY(1000, 6, 5, 5, 2000, TG_UNSATISFIABLE),
        ALLOW(1000, 2, 5, 3, 2000),
        DENY(1000, 6, 5, 3, 2000, TG_UNSATISFIABLE),
        DENY(1000, TG_NUMBER_MAX, 5, 3, 2000, TG_UNSATISFIABLE),
    };
    (void)state;
    PLAY(FIVE_A_SECOND, table);
}

static void a_clock_that_steps_back_stays_in_the_later_window(void **state)
{
    static const struct step table[] = {
        ALLOW(2500, 5, 5, 0, 3000),
        DENY(1500, 1, 5, 0, 3000, 1500),
        DENY(0, 1, 5, 0, 3000, 3000),
        DENY(2500, 1, 5, 0, 3000, 500),
        ALLOW(3000, 4, 5, 1, 4000),
        ALLOW(2999, 1, 5, 0, 4000),
        DENY(3500, 1, 5, 0, 4000, 500),
    };
    (void)state;
    PLAY(FIVE_A_SECOND, table);
}

static void a_refund_goes_to_the_window_it_was_charged_in(void **state)
{
    static const struct step same_window[] = {
        ALLOW(1000, 3, 5, 2, 2000),
        REFUND(1100, 1000, 3, 2, 5, 4, 2000),
        REFUND(1999, 1000, 1, 1, 5, 5, 2000),
    };
    static const struct step next_window[] = {
        ALLOW(1000, 5, 5, 0, 2000),
        ALLOW(2000, 4, 5, 1, 3000),
        REFUND(2100, 1000, 5, 5, 5, 1, 3000),
    };
    static const struct step empty_window[] = {
        ALLOW(1000, 5, 5, 0, 2000),
        REFUND(2100, 1000, 5, 5, 5, 5, 3000),
        ALLOW(2100, 5, 5, 0, 3000),
        DENY(2100, 1, 5, 0, 3000, 900),
    };
    (void)state;
    PLAY(FIVE_A_SECOND, same_window);
    PLAY(FIVE_A_SECOND, next_window);
    PLAY(FIVE_A_SECOND, empty_window);
}

static void a_refund_gives_back_no_more_than_was_charged(void **state)
{
    static const struct step more_than_charged[] = {
        ALLOW(1000, 2, 5, 3, 2000),
        ALLOW(1000, 2, 5, 1, 2000),
        REFUND(1000, 1000, 2, 9, 5, 3, 2000),
    };
    static const struct step never_above_the_limit[] = {
        ALLOW(1000, 2, 5, 3, 2000),
        REFUND(1000, 1000, 2, 2, 5, 5, 2000),
        REFUND(1000, 1000, 2, 2, 5, 5, 2000),
        ALLOW(1000, 5, 5, 0, 2000),
        DENY(1000, 1, 5, 0, 2000, 1000),
    };
    (void)state;
    PLAY(FIVE_A_SECOND, more_than_charged);
    PLAY(FIVE_A_SECOND, never_above_the_limit);
}

static void less_used_than_estimated_is_refunded(void **state)
{
    static const struct step table[] = {
        ALLOW(1000, 5, 5, 0, 2000),
        SETTLE(1000, 1000, 5, 5, 5, 0, 2000),
        SETTLE(1900, 1000, 5, 2, 5, 3, 2000),
    };
    (void)state;
    PLAY(FIVE_A_SECOND, table);
}

static void more_used_than_estimated_is_debt_until_the_window_ends(void **state)
{
    static const struct step table[] = {
        ALLOW(1000, 3, 5, 2, 2000),
        SETTLE(1100, 1000, 3, 9, 5, 0, 2000),
        DENY(1100, 1, 5, 0, 2000, 900),
        ALLOW(1100, 0, 5, 0, 2000),
        ALLOW(2000, 5, 5, 0, 3000),
    };
    (void)state;
    PLAY(FIVE_A_SECOND, table);
}

static void a_settlement_after_its_window_does_nothing(void **state)
{
    static const struct step table[] = {
        ALLOW(1000, 3, 5, 2, 2000),
        SETTLE(2100, 1000, 3, 9, 5, 5, 3000),
        ALLOW(2100, 2, 5, 3, 3000),
        SETTLE(2200, 1000, 3, 9, 5, 3, 3000),
        SETTLE(2200, 1000, 3, 0, 5, 3, 3000),
    };
    (void)state;
    PLAY(FIVE_A_SECOND, table);
}

static void debt_without_bound_is_still_a_number(void **state)
{
    static const struct step table[] = {
        ALLOW(1000, 3, 5, 2, 2000),
        SETTLE(1000, 1000, 3, TG_NUMBER_MAX, 5, 0, 2000),
        SETTLE(1000, 1000, 3, TG_NUMBER_MAX, 5, 0, 2000),
        DENY(1000, 1, 5, 0, 2000, 1000),
        ALLOW(2000, 1, 5, 4, 3000),
    };
    (void)state;
    PLAY(FIVE_A_SECOND, table);
}

static void an_estimate_of_nothing_is_settled_like_any_other(void **state)
{
    static const struct step table[] = {
        SETTLE(1000, 1000, 0, 3, 5, 2, 2000),
        ALLOW(1000, 2, 5, 0, 2000),
    };
    (void)state;
    PLAY(FIVE_A_SECOND, table);
}

static void fresh_when_the_window_ends(void **state)
{
    static const struct step table[] = {
        FRESH_AT(0),
        ALLOW(1100, 1, 5, 4, 2000),
        FRESH_AT(2000),
        SETTLE(1100, 1100, 1, 9, 5, 0, 2000),
        FRESH_AT(2000),
    };
    (void)state;
    PLAY(FIVE_A_SECOND, table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_five_a_second),
        cmocka_unit_test(windows_are_aligned_to_the_epoch),
        cmocka_unit_test(the_first_window_starts_at_zero),
        cmocka_unit_test(a_refusal_tells_what_a_smaller_call_may_take),
        cmocka_unit_test(cost_zero_is_free_and_shows_what_is_there),
        cmocka_unit_test(cost_above_the_limit_is_never_admitted),
        cmocka_unit_test(a_clock_that_steps_back_stays_in_the_later_window),
        cmocka_unit_test(a_refund_goes_to_the_window_it_was_charged_in),
        cmocka_unit_test(a_refund_gives_back_no_more_than_was_charged),
        cmocka_unit_test(less_used_than_estimated_is_refunded),
        cmocka_unit_test(more_used_than_estimated_is_debt_until_the_window_ends),
        cmocka_unit_test(a_settlement_after_its_window_does_nothing),
        cmocka_unit_test(debt_without_bound_is_still_a_number),
        cmocka_unit_test(an_estimate_of_nothing_is_settled_like_any_other),
        cmocka_unit_test(fresh_when_the_window_ends),
    };
    return cmocka_run_group_tests_name("fixed_window", tests, NULL, NULL);
}
