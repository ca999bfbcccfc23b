/* test_sliding_log.c - the exact window, each call remembered: golden vector, edges, refunds,
 * debt. */
#include "steps.h"
#include "subject.h"

#define FIVE_A_SECOND "sliding_log:limit=5,window=1000"

static void golden_five_a_second(void **state)
{
    static const struct step table[] = {
        ALLOW(1000, 1, 5, 4, 2000),
        ALLOW(1100, 1, 5, 3, 2000),
        ALLOW(1200, 1, 5, 2, 2000),
        ALLOW(1300, 1, 5, 1, 2000),
        ALLOW(1400, 1, 5, 0, 2000),
        DENY(1500, 1, 5, 0, 2000, 500),
        ALLOW(2100, 1, 5, 1, 2200),
    };
    (void)state;
    PLAY(FIVE_A_SECOND, table);
}

static void a_unit_is_free_one_window_after_its_call(void **state)
{
    static const struct step table[] = {
        ALLOW(1000, 5, 5, 0, 2000),
        DENY(1999, 1, 5, 0, 2000, 1),
        ALLOW(2000, 1, 5, 4, 3000),
    };
    (void)state;
    PLAY(FIVE_A_SECOND, table);
}

static void the_hint_waits_for_as_many_units_as_are_missing(void **state)
{
    static const struct step table[] = {
        ALLOW(1000, 2, 5, 3, 2000),
        ALLOW(1100, 2, 5, 1, 2000),
        ALLOW(1300, 1, 5, 0, 2000),
        DENY(1500, 1, 5, 0, 2000, 500),
        DENY(1500, 2, 5, 0, 2000, 500),
        DENY(1500, 3, 5, 0, 2000, 600),
        DENY(1500, 4, 5, 0, 2000, 600),
        DENY(1500, 5, 5, 0, 2000, 800),
        DENY(2000, 4, 5, 2, 2100, 100),
        ALLOW(2100, 4, 5, 0, 2300),
    };
    (void)state;
    PLAY(FIVE_A_SECOND, table);
}

static void the_log_goes_round_and_forgets_nothing(void **state)
{
    static const struct step table[] = {
        ALLOW(0, 1, 3, 2, 10),
        ALLOW(4, 1, 3, 1, 10),
        ALLOW(8, 1, 3, 0, 10),
        ALLOW(10, 1, 3, 0, 14),
        DENY(13, 1, 3, 0, 14, 1),
        ALLOW(14, 1, 3, 0, 18),
        ALLOW(18, 1, 3, 0, 20),
        ALLOW(20, 1, 3, 0, 24),
        ALLOW(24, 1, 3, 0, 28),
        DENY(24, 1, 3, 0, 28, 4),
        ALLOW(34, 2, 3, 1, 44),
        DENY(34, 2, 3, 1, 44, 10),
    };
    (void)state;
    PLAY("sliding_log:limit=3,window=10", table);
}

static void cost_zero_is_free_and_shows_what_is_there(void **state)
{
    static const struct step table[] = {
        PEEK(1000, 5, 5, 2000),
        ALLOW(1000, 0, 5, 5, 2000),
        ALLOW(1100, 5, 5, 0, 2100),
        ALLOW(1200, 0, 5, 0, 2100),
        PEEK(2100, 5, 5, 3100),
    };
    (void)state;
    PLAY(FIVE_A_SECOND, table);
}

static void cost_above_the_limit_is_never_admitted(void **state)
{
    static const struct step table[] = {
        DENY(1000, 6, 5, 5, 2000, TG_UNSATISFIABLE),
        ALLOW(1000, 2, 5, 3, 2000),
        DENY(1100, 6, 5, 3, 2000, TG_UNSATISFIABLE),
        DENY(1100, TG_NUMBER_MAX, 5, 3, 2000, TG_UNSATISFIABLE),
    };
    (void)state;
    PLAY(FIVE_A_SECOND, table);
}

static void a_clock_that_steps_back_and_forth_frees_nothing_early(void **state)
{
    static const struct step table[] = {
        ALLOW(5000, 5, 5, 0, 6000),
        DENY(3000, 1, 5, 0, 6000, 3000),
        DENY(0, 1, 5, 0, 6000, 6000),
        DENY(5000, 1, 5, 0, 6000, 1000),
        ALLOW(6000, 1, 5, 4, 7000),
    };
    /* The call at 3000 came after the one at 5000 and counts from there. */
    static const struct step charged_while_back[] = {
        ALLOW(5000, 1, 5, 4, 6000),
        ALLOW(3000, 4, 5, 0, 6000),
        DENY(4500, 1, 5, 0, 6000, 1500),
        DENY(5999, 1, 5, 0, 6000, 1),
        PEEK(6000, 5, 5, 7000),
    };
    /* The call at 42 let that at 17 be dropped. Its refund must not bring 17 back, where another
     * unit would be found beside the one that was taken there. */
    static const struct step refunded_in_between[] = {
        ALLOW(17, 1, 1, 0, 42),
        ALLOW(42, 1, 1, 0, 67),
        REFUND(42, 42, 1, 1, 1, 1, 67),
        ALLOW(17, 1, 1, 0, 67),
        DENY(42, 1, 1, 0, 67, 25),
    };
    (void)state;
    PLAY(FIVE_A_SECOND, table);
    PLAY(FIVE_A_SECOND, charged_while_back);
    PLAY("sliding_log:limit=1,window=25", refunded_in_between);
}

static void a_refund_goes_to_the_call_that_was_charged(void **state)
{
    static const struct step table[] = {
        ALLOW(1000, 2, 5, 3, 2000),
        ALLOW(1100, 1, 5, 2, 2000),
        REFUND(1200, 1000, 2, 1, 5, 3, 2000),
        REFUND(1200, 1000, 1, 1, 5, 4, 2100),
        REFUND(1200, 1000, 2, 2, 5, 4, 2100), /* nothing of that time is left */
    };
    static const struct step from_the_middle[] = {
        ALLOW(1000, 1, 5, 4, 2000),
        ALLOW(1100, 3, 5, 1, 2000),
        ALLOW(1200, 1, 5, 0, 2000),
        REFUND(1300, 1100, 3, 3, 5, 3, 2000),
        DENY(1300, 4, 5, 3, 2000, 700),
        ALLOW(1300, 3, 5, 0, 2000),
        DENY(2000, 2, 5, 1, 2200, 200),
    };
    static const struct step expired[] = {
        ALLOW(1000, 5, 5, 0, 2000),
        ALLOW(2000, 5, 5, 0, 3000),
        REFUND(2000, 1000, 5, 5, 5, 0, 3000),
    };
    (void)state;
    PLAY(FIVE_A_SECOND, table);
    PLAY(FIVE_A_SECOND, from_the_middle);
    PLAY(FIVE_A_SECOND, expired);
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
        SETTLE(1100, 1000, 5, 2, 5, 3, 2000),
        SETTLE(1100, 1000, 2, 0, 5, 5, 2100),
    };
    (void)state;
    PLAY(FIVE_A_SECOND, table);
}

static void more_used_than_estimated_is_debt_for_one_window(void **state)
{
    static const struct step table[] = {
        ALLOW(1000, 1, 5, 4, 2000),
        SETTLE(1000, 1000, 1, 8, 5, 0, 2000),
        DENY(1500, 1, 5, 0, 2000, 500),
        ALLOW(1500, 0, 5, 0, 2000),
        ALLOW(2000, 5, 5, 0, 3000),
    };
    static const struct step among_others[] = {
        ALLOW(1000, 1, 5, 4, 2000),
        ALLOW(1200, 1, 5, 3, 2000),
        SETTLE(1300, 1000, 1, 6, 5, 0, 2000),
        DENY(1300, 4, 5, 0, 2000, 700),
        DENY(1300, 5, 5, 0, 2000, 900),
    };
    /* Every place of the log is taken when the debt arrives. */
    static const struct step in_a_full_log[] = {
        ALLOW(1000, 1, 3, 2, 2000),
        ALLOW(1001, 1, 3, 1, 2000),
        ALLOW(1002, 1, 3, 0, 2000),
        SETTLE(1500, 1001, 1, 4, 3, 0, 2000),
        DENY(1500, 1, 3, 0, 2000, 501),
        DENY(1500, 3, 3, 0, 2000, 502),
        ALLOW(2001, 2, 3, 0, 2002),
    };
    (void)state;
    PLAY(FIVE_A_SECOND, table);
    PLAY(FIVE_A_SECOND, among_others);
    PLAY("sliding_log:limit=3,window=1000", in_a_full_log);
}

static void a_settlement_after_one_window_does_nothing(void **state)
{
    static const struct step table[] = {
        ALLOW(1000, 1, 5, 4, 2000),
        SETTLE(2000, 1000, 1, 8, 5, 5, 3000),
        ALLOW(2000, 1, 5, 4, 3000),
        SETTLE(2100, 1000, 1, 8, 5, 4, 3000),
        SETTLE(2100, 1000, 1, 0, 5, 4, 3000),
    };
    (void)state;
    PLAY(FIVE_A_SECOND, table);
}

static void an_estimate_of_nothing_is_settled_like_any_other(void **state)
{
    static const struct step table[] = {
        SETTLE(1000, 1000, 0, 3, 5, 2, 2000),
        ALLOW(1000, 2, 5, 0, 2000),
        SETTLE(1500, 1200, 0, 1, 5, 0, 2000), /* at a time when nothing was */
        PEEK(2000, 5, 4, 2200),
    };
    /* The debt is the latest there is: a clock that steps back from it stays there. */
    static const struct step and_then_back[] = {
        SETTLE(2000, 2000, 0, 3, 5, 2, 3000),
        ALLOW(1500, 2, 5, 0, 3000),
        DENY(2500, 1, 5, 0, 3000, 500),
        FRESH_AT(3000),
    };
    /* No place is left for the record of 1003: the last one stands for it, and moves there. */
    static const struct step in_a_full_log[] = {
        ALLOW(1000, 1, 2, 1, 2000),
        ALLOW(1001, 1, 2, 0, 2000),
        SETTLE(1002, 1002, 0, 1, 2, 0, 2000),
        SETTLE(1003, 1003, 0, 1, 2, 0, 2000),
        PEEK(2001, 2, 0, 2003),
        DENY(2002, 1, 2, 0, 2003, 1),
        PEEK(2003, 2, 2, 3003),
    };
    (void)state;
    PLAY(FIVE_A_SECOND, table);
    PLAY(FIVE_A_SECOND, and_then_back);
    PLAY("sliding_log:limit=2,window=1000", in_a_full_log);
}

/* Debts without bound, one window after the other: their sum is far beyond any integer. */
static void the_log_counts_on_however_much_was_owed(void **state)
{
    struct tg_limiter limiter = limiter_of("sliding_log:limit=5,window=10");
    struct subject log = subject_new(&limiter);
    (void)state;

    for (tg_ms now = 0; now < 5000; now += 9) {
        struct tg_charge charge = {now, 1};
        struct tg_decision taken = subject_take(&log, now, 1);
        if (now % 18 == 0) {
            expect_decision("the debt has left the window", taken, ALLOWED(5, 4, now + 10));
            subject_settle(&log, now, charge, TG_NUMBER_MAX);
        } else {
            expect_decision("in debt", taken, DENIED(5, 0, now + 1, 1));
        }
    }
    subject_free(&log);
}

static void fresh_when_the_last_call_has_left_the_window(void **state)
{
    static const struct step table[] = {
        FRESH_AT(0),
        ALLOW(1000, 1, 5, 4, 2000),
        ALLOW(1100, 1, 5, 3, 2000),
        FRESH_AT(2100),
        PEEK(2099, 5, 4, 2100),
        PEEK(2100, 5, 5, 3100),
    };
    (void)state;
    PLAY(FIVE_A_SECOND, table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_five_a_second),
        cmocka_unit_test(a_unit_is_free_one_window_after_its_call),
        cmocka_unit_test(the_hint_waits_for_as_many_units_as_are_missing),
        cmocka_unit_test(the_log_goes_round_and_forgets_nothing),
        cmocka_unit_test(cost_zero_is_free_and_shows_what_is_there),
        cmocka_unit_test(cost_above_the_limit_is_never_admitted),
        cmocka_unit_test(a_clock_that_steps_back_and_forth_frees_nothing_early),
        cmocka_unit_test(a_refund_goes_to_the_call_that_was_charged),
        cmocka_unit_test(a_refund_gives_back_no_more_than_was_charged),
        cmocka_unit_test(less_used_than_estimated_is_refunded),
        cmocka_unit_test(more_used_than_estimated_is_debt_for_one_window),
        cmocka_unit_test(a_settlement_after_one_window_does_nothing),
        cmocka_unit_test(an_estimate_of_nothing_is_settled_like_any_other),
        cmocka_unit_test(the_log_counts_on_however_much_was_owed),
        cmocka_unit_test(fresh_when_the_last_call_has_left_the_window),
    };
    return cmocka_run_group_tests_name("sliding_log", tests, NULL, NULL);
}
