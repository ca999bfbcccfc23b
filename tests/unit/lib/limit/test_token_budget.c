/* test_token_budget.c - the meter that admits the debit which crosses its budget: golden vectors,
 * edges, refunds, debt. */
#include "steps.h"

#define HUNDRED_A_MINUTE "token_budget:budget=100,window=60000"
#define TEN_A_SECOND "token_budget:budget=10,window=1000"

static void golden_one_by_one(void **state)
{
    static const struct step table[] = {
        ALLOW(0, 1, 5, 4, 60000),
        ALLOW(0, 1, 5, 3, 60000),
        ALLOW(0, 1, 5, 2, 60000),
        ALLOW(0, 1, 5, 1, 60000),
        ALLOW(0, 1, 5, 0, 60000),
        DENY(0, 1, 5, 0, 60000, 60000),
    };
    (void)state;
    PLAY("token_budget:budget=5,window=60000", table);
}

static void golden_the_debit_that_crosses_is_admitted_whole(void **state)
{
    static const struct step table[] = {
        ALLOW(0, 80, 100, 20, 60000),
        ALLOW(0, 50, 100, 0, 60000),
        DENY(0, 1, 100, 0, 60000, 60000),
    };
    (void)state;
    PLAY(HUNDRED_A_MINUTE, table);
}

static void golden_the_window_rolls(void **state)
{
    static const struct step table[] = {
        ALLOW(0, 10, 10, 0, 1000),
        DENY(500, 1, 10, 0, 1000, 500),
        ALLOW(1000, 6, 10, 4, 2000),
        ALLOW(1999, 4, 10, 0, 2000),
        ALLOW(2000, 1, 10, 9, 3000),
    };
    (void)state;
    PLAY(TEN_A_SECOND, table);
}

static void one_debit_may_be_larger_than_the_budget(void **state)
{
    static const struct step table[] = {
        ALLOW(0, 500, 100, 0, 60000),
        DENY(59999, 1, 100, 0, 60000, 1),
        DENY(59999, 500, 100, 0, 60000, 1),
        ALLOW(60000, TG_NUMBER_MAX, 100, 0, 120000),
        DENY(60000, 1, 100, 0, 120000, 60000),
    };
    (void)state;
    PLAY(HUNDRED_A_MINUTE, table);
}

static void overshoot_is_not_carried_into_the_next_window(void **state)
{
    static const struct step table[] = {
        ALLOW(0, 500, 100, 0, 60000),
        ALLOW(60000, 1, 100, 99, 120000),
    };
    (void)state;
    PLAY(HUNDRED_A_MINUTE, table);
}

static void cost_zero_is_free_and_shows_what_is_there(void **state)
{
    static const struct step table[] = {
        PEEK(1500, 10, 10, 2000),
        ALLOW(1500, 0, 10, 10, 2000),
        ALLOW(1500, 10, 10, 0, 2000),
        ALLOW(1600, 0, 10, 0, 2000),
        PEEK(2000, 10, 10, 3000),
    };
    (void)state;
    PLAY(TEN_A_SECOND, table);
}

static void a_clock_that_steps_back_stays_in_the_later_window(void **state)
{
    static const struct step table[] = {
        ALLOW(2500, 10, 10, 0, 3000),
        DENY(1500, 1, 10, 0, 3000, 1500),
        DENY(0, 1, 10, 0, 3000, 3000),
        DENY(2500, 1, 10, 0, 3000, 500),
        ALLOW(3000, 9, 10, 1, 4000),
        ALLOW(2999, 1, 10, 0, 4000),
        DENY(3999, 1, 10, 0, 4000, 1),
    };
    (void)state;
    PLAY(TEN_A_SECOND, table);
}

static void a_refund_goes_to_the_window_it_was_charged_in(void **state)
{
    static const struct step same_window[] = {
        ALLOW(0, 80, 100, 20, 60000),
        ALLOW(0, 50, 100, 0, 60000),
        REFUND(10, 0, 50, 50, 100, 20, 60000),
        ALLOW(10, 1, 100, 19, 60000),
    };
    static const struct step next_window[] = {
        ALLOW(0, 10, 10, 0, 1000),
        ALLOW(1000, 4, 10, 6, 2000),
        REFUND(1100, 0, 10, 10, 10, 6, 2000),
    };
    (void)state;
    PLAY(HUNDRED_A_MINUTE, same_window);
    PLAY(TEN_A_SECOND, next_window);
}

static void a_refund_gives_back_no_more_than_was_charged(void **state)
{
    static const struct step more_than_charged[] = {
        ALLOW(0, 2, 10, 8, 1000),
        ALLOW(0, 2, 10, 6, 1000),
        REFUND(0, 0, 2, 9, 10, 8, 1000),
    };
    static const struct step never_above_the_budget[] = {
        ALLOW(0, 2, 10, 8, 1000),
        REFUND(0, 0, 2, 2, 10, 10, 1000),
        REFUND(0, 0, 2, 2, 10, 10, 1000),
        ALLOW(0, 10, 10, 0, 1000),
        DENY(0, 1, 10, 0, 1000, 1000),
    };
    (void)state;
    PLAY(TEN_A_SECOND, more_than_charged);
    PLAY(TEN_A_SECOND, never_above_the_budget);
}

static void less_used_than_estimated_is_refunded(void **state)
{
    static const struct step table[] = {
        ALLOW(0, 80, 100, 20, 60000),
        SETTLE(5, 0, 80, 80, 100, 20, 60000),
        SETTLE(5, 0, 80, 30, 100, 70, 60000),
        ALLOW(5, 70, 100, 0, 60000),
    };
    (void)state;
    PLAY(HUNDRED_A_MINUTE, table);
}

static void more_used_than_estimated_is_debt_until_the_window_ends(void **state)
{
    static const struct step table[] = {
        ALLOW(0, 10, 100, 90, 60000),
        SETTLE(5, 0, 10, 150, 100, 0, 60000),
        DENY(5, 1, 100, 0, 60000, 59995),
        ALLOW(5, 0, 100, 0, 60000),
        ALLOW(60000, 1, 100, 99, 120000),
    };
    (void)state;
    PLAY(HUNDRED_A_MINUTE, table);
}

static void a_settlement_after_its_window_does_nothing(void **state)
{
    static const struct step table[] = {
        ALLOW(0, 3, 10, 7, 1000),
        SETTLE(1100, 0, 3, 50, 10, 10, 2000),
        ALLOW(1100, 2, 10, 8, 2000),
        SETTLE(1200, 0, 3, 50, 10, 8, 2000),
        SETTLE(1200, 0, 3, 0, 10, 8, 2000),
    };
    (void)state;
    PLAY(TEN_A_SECOND, table);
}

static void debt_without_bound_is_still_a_number(void **state)
{
    static const struct step table[] = {
        ALLOW(0, TG_NUMBER_MAX, 10, 0, 1000),
        SETTLE(0, 0, 1, TG_NUMBER_MAX, 10, 0, 1000),
        SETTLE(0, 0, 1, TG_NUMBER_MAX, 10, 0, 1000),
        DENY(0, 1, 10, 0, 1000, 1000),
        ALLOW(1000, 1, 10, 9, 2000),
    };
    (void)state;
    PLAY(TEN_A_SECOND, table);
}

static void an_estimate_of_nothing_is_settled_like_any_other(void **state)
{
    static const struct step table[] = {
        SETTLE(1000, 1000, 0, 3, 10, 7, 2000),
        ALLOW(1000, 7, 10, 0, 2000),
    };
    (void)state;
    PLAY(TEN_A_SECOND, table);
}

static void fresh_when_the_window_ends(void **state)
{
    static const struct step table[] = {
        FRESH_AT(0),
        ALLOW(1100, 1, 10, 9, 2000),
        FRESH_AT(2000),
    };
    (void)state;
    PLAY(TEN_A_SECOND, table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_one_by_one),
        cmocka_unit_test(golden_the_debit_that_crosses_is_admitted_whole),
        cmocka_unit_test(golden_the_window_rolls),
        cmocka_unit_test(one_debit_may_be_larger_than_the_budget),
        cmocka_unit_test(overshoot_is_not_carried_into_the_next_window),
        cmocka_unit_test(cost_zero_is_free_and_shows_what_is_there),
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
    return cmocka_run_group_tests_name("token_budget", tests, NULL, NULL);
}
