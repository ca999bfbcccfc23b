/* test_sliding_window.c - a window counted in parts: golden vector, the fading of the oldest
 * part, edges, refunds, debt. */
#include "steps.h"
#include "subject.h"

#define TEN_A_SECOND_IN_TENTHS "sliding_window:limit=10,window=1000,buckets=10"

/* One hint is repaired. At 1500 the six of the bucket at 1000 and the four of 1500 are there; the
 * vector's wait of 100 ms only reaches the next bucket, where nothing has begun to fade. Room for
 * one comes when 4 + 6 * fade + 1 <= 10, that is 17 ms after 2000: in 517 ms. */
static void golden_ten_a_second_in_tenths(void **state)
{
    static const struct step table[] = {
        ALLOW(1000, 6, 10, 4, 2100),
        ALLOW(1500, 4, 10, 0, 2600),
        DENY(1500, 1, 10, 0, 2600, 517),
        DENY(2000, 5, 10, 0, 3100, 84),
        ALLOW(2500, 5, 10, 1, 3600),
    };
    (void)state;
    PLAY(TEN_A_SECOND_IN_TENTHS, table);
}

static void ten_buckets_unless_given(void **state)
{
    static const struct step table[] = {
        ALLOW(1000, 6, 10, 4, 2100),
        ALLOW(1500, 4, 10, 0, 2600),
        DENY(1500, 1, 10, 0, 2600, 517),
    };
    (void)state;
    PLAY("sliding_window:limit=10,window=1000", table);
}

static void the_oldest_bucket_fades_by_the_millisecond(void **state)
{
    static const struct step table[] = {
        ALLOW(1099, 10, 10, 0, 2100),
        DENY(1099, 1, 10, 0, 2100, 911),
        DENY(1999, 1, 10, 0, 3000, 11),
        DENY(2000, 1, 10, 0, 3100, 10),
        DENY(2009, 1, 10, 0, 3100, 1),
        ALLOW(2010, 1, 10, 0, 3100),
        DENY(2049, 5, 10, 3, 3100, 11),
        ALLOW(2060, 5, 10, 0, 3100),
    };
    (void)state;
    PLAY(TEN_A_SECOND_IN_TENTHS, table);
}

static void the_hint_looks_past_buckets_that_are_too_small(void **state)
{
    static const struct step table[] = {
        ALLOW(1000, 1, 10, 9, 2100),
        ALLOW(1100, 2, 10, 7, 2200),
        ALLOW(1200, 7, 10, 0, 2300),
        /* 5 must go: 1 by 2100, 2 by 2200, then 2 of 7 by 29 ms more */
        DENY(1250, 5, 10, 0, 2300, 979),
        DENY(2228, 5, 10, 4, 3300, 1),
        ALLOW(2229, 5, 10, 0, 3300),
    };
    (void)state;
    PLAY(TEN_A_SECOND_IN_TENTHS, table);
}

/* Where a call fits comes from a division, which is rounded up in the first rows and down in the
 * others; the hint is moved until it is the first ms at which the check itself agrees. */
static void the_hint_is_the_first_ms_that_fits_whatever_the_rounding(void **state)
{
    static const struct {
        const char *spec;
        struct tg_charge charged[2];
        struct tg_charge ask;
        tg_ms hint;
    } rows[] = {
        {"sliding_window:limit=16,window=2074,buckets=9",
         {{1700000085849, 10}},
         {1700000086169, 11},
         1671},
        {"sliding_window:limit=54,window=1537,buckets=11", {{75173, 53}}, {75350, 52}, 1356},
        {"sliding_window:limit=54,window=1537,buckets=11", {{75173, 53}}, {75559, 19}, 1060},
        {"sliding_window:limit=20,window=2857,buckets=6",
         {{1700000072650, 1}},
         {1700000072802, 20},
         2944},
        {"sliding_window:limit=133,window=430,buckets=3",
         {{52241, 13}, {52401, 81}},
         {52645, 133},
         245},
    };
    (void)state;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct tg_limiter limiter = limiter_of(rows[i].spec);
        struct subject subject = subject_new(&limiter);
        struct tg_charge ask = rows[i].ask;
        for (size_t k = 0; k < COUNT_OF(rows[i].charged) && rows[i].charged[k].cost; k++)
            assert_true(
                subject_take(&subject, rows[i].charged[k].at, rows[i].charged[k].cost).allowed);
        assert_int_equal(subject_peek(&subject, ask.at, ask.cost).retry_after_ms, rows[i].hint);
        assert_true(subject_peek(&subject, ask.at + rows[i].hint, ask.cost).allowed);
        assert_false(subject_peek(&subject, ask.at + rows[i].hint - 1, ask.cost).allowed);
        subject_free(&subject);
    }
}

static void one_bucket_is_the_two_window_estimate(void **state)
{
    static const struct step table[] = {
        ALLOW(1000, 10, 10, 0, 3000),
        DENY(1000, 1, 10, 0, 3000, 1100),
        PEEK(2500, 10, 5, 4000),
        ALLOW(2500, 5, 10, 0, 4000),
        DENY(2500, 1, 10, 0, 4000, 100),
    };
    (void)state;
    PLAY("sliding_window:limit=10,window=1000,buckets=1", table);
}

static void buckets_may_be_shorter_than_a_millisecond(void **state)
{
    static const struct step table[] = {
        ALLOW(1000, 4, 4, 0, 1006),
        DENY(1000, 1, 4, 0, 1006, 6),
        DENY(1005, 1, 4, 0, 1011, 1),
        ALLOW(1006, 4, 4, 0, 1012),
    };
    (void)state;
    PLAY("sliding_window:limit=4,window=5,buckets=10", table);
}

static void cost_zero_is_free_and_shows_what_is_there(void **state)
{
    static const struct step table[] = {
        PEEK(1000, 10, 10, 2100),
        ALLOW(1000, 0, 10, 10, 2100),
        ALLOW(1000, 10, 10, 0, 2100),
        ALLOW(1000, 0, 10, 0, 2100),
        PEEK(2050, 10, 5, 3100),
        PEEK(2055, 10, 5, 3100),
        PEEK(2100, 10, 10, 3200),
    };
    (void)state;
    PLAY(TEN_A_SECOND_IN_TENTHS, table);
}

static void cost_above_the_limit_is_never_admitted(void **state)
{
    static const struct step table[] = {
        DENY(1000, 11, 10, 10, 2100, TG_UNSATISFIABLE),
        ALLOW(1000, 4, 10, 6, 2100),
        DENY(1000, 11, 10, 6, 2100, TG_UNSATISFIABLE),
        DENY(1000, TG_NUMBER_MAX, 10, 6, 2100, TG_UNSATISFIABLE),
    };
    (void)state;
    PLAY(TEN_A_SECOND_IN_TENTHS, table);
}

static void a_clock_that_steps_back_stays_in_the_later_bucket(void **state)
{
    static const struct step table[] = {
        ALLOW(5000, 10, 10, 0, 6100),
        DENY(3000, 1, 10, 0, 6100, 3010),
        DENY(0, 1, 10, 0, 6100, 6010),
        DENY(5000, 1, 10, 0, 6100, 1010),
        DENY(6009, 1, 10, 0, 7100, 1),
        ALLOW(6010, 1, 10, 0, 7100),
    };
    static const struct step charged_while_back[] = {
        ALLOW(5000, 4, 10, 6, 6100),
        ALLOW(3000, 6, 10, 0, 6100),
        DENY(4500, 1, 10, 0, 6100, 1510),
        DENY(5999, 1, 10, 0, 7000, 11),
        PEEK(6100, 10, 10, 7200),
    };
    (void)state;
    PLAY(TEN_A_SECOND_IN_TENTHS, table);
    PLAY(TEN_A_SECOND_IN_TENTHS, charged_while_back);
}

static void a_refund_goes_to_the_bucket_it_was_charged_in(void **state)
{
    static const struct step table[] = {
        ALLOW(1000, 6, 10, 4, 2100),
        ALLOW(1500, 2, 10, 2, 2600),
        REFUND(1550, 1000, 6, 4, 10, 6, 2600),
        REFUND(1999, 1000, 2, 2, 10, 8, 3000),
        PEEK(2050, 10, 8, 3100),
    };
    static const struct step fading[] = {
        ALLOW(1000, 6, 10, 4, 2100),
        PEEK(2050, 10, 7, 3100),
        REFUND(2050, 1000, 6, 6, 10, 10, 3100),
    };
    static const struct step gone[] = {
        ALLOW(1000, 6, 10, 4, 2100),
        ALLOW(2100, 3, 10, 7, 3200), /* eleven buckets later: in the place of the first */
        REFUND(2100, 1000, 6, 6, 10, 7, 3200),
    };
    (void)state;
    PLAY(TEN_A_SECOND_IN_TENTHS, table);
    PLAY(TEN_A_SECOND_IN_TENTHS, fading);
    PLAY(TEN_A_SECOND_IN_TENTHS, gone);
}

static void a_refund_gives_back_no_more_than_was_charged(void **state)
{
    static const struct step more_than_charged[] = {
        ALLOW(1000, 2, 10, 8, 2100),
        ALLOW(1000, 2, 10, 6, 2100),
        REFUND(1000, 1000, 2, 9, 10, 8, 2100),
    };
    static const struct step never_above_the_limit[] = {
        ALLOW(1000, 2, 10, 8, 2100),
        REFUND(1000, 1000, 2, 2, 10, 10, 2100),
        REFUND(1000, 1000, 2, 2, 10, 10, 2100),
        ALLOW(1000, 10, 10, 0, 2100),
        DENY(1000, 1, 10, 0, 2100, 1010),
    };
    (void)state;
    PLAY(TEN_A_SECOND_IN_TENTHS, more_than_charged);
    PLAY(TEN_A_SECOND_IN_TENTHS, never_above_the_limit);
}

static void less_used_than_estimated_is_refunded(void **state)
{
    static const struct step table[] = {
        ALLOW(1000, 10, 10, 0, 2100),
        SETTLE(1000, 1000, 10, 10, 10, 0, 2100),
        SETTLE(1999, 1000, 10, 3, 10, 7, 3000),
    };
    (void)state;
    PLAY(TEN_A_SECOND_IN_TENTHS, table);
}

static void more_used_than_estimated_is_debt_while_the_bucket_lasts(void **state)
{
    static const struct step table[] = {
        ALLOW(1000, 3, 10, 7, 2100),
        SETTLE(1050, 1000, 3, 14, 10, 0, 2100),
        DENY(1050, 1, 10, 0, 2100, 986), /* 14 * fade <= 9 from 2036 on */
        ALLOW(1050, 0, 10, 0, 2100),
        ALLOW(2036, 1, 10, 0, 3100),
    };
    (void)state;
    PLAY(TEN_A_SECOND_IN_TENTHS, table);
}

static void a_settlement_after_its_bucket_does_nothing(void **state)
{
    static const struct step table[] = {
        ALLOW(1000, 3, 10, 7, 2100),
        SETTLE(2100, 1000, 3, 14, 10, 10, 3200),
        ALLOW(2100, 3, 10, 7, 3200),
        SETTLE(2100, 1000, 3, 14, 10, 7, 3200),
        SETTLE(2100, 1000, 3, 0, 10, 7, 3200),
    };
    (void)state;
    PLAY(TEN_A_SECOND_IN_TENTHS, table);
}

static void an_estimate_of_nothing_is_settled_like_any_other(void **state)
{
    static const struct step table[] = {
        SETTLE(1000, 1000, 0, 3, 10, 7, 2100),
        ALLOW(1000, 7, 10, 0, 2100),
        SETTLE(2000, 1950, 0, 3, 10, 0, 3100), /* in a bucket where nothing was */
    };
    (void)state;
    PLAY(TEN_A_SECOND_IN_TENTHS, table);
}

static void fresh_when_the_last_bucket_has_faded(void **state)
{
    static const struct step table[] = {
        FRESH_AT(0),
        ALLOW(1050, 6, 10, 4, 2100),
        FRESH_AT(2100),
        PEEK(2099, 10, 9, 3100),
        PEEK(2100, 10, 10, 3200),
        ALLOW(1150, 1, 10, 3, 2200),
        FRESH_AT(2200),
    };
    (void)state;
    PLAY(TEN_A_SECOND_IN_TENTHS, table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_ten_a_second_in_tenths),
        cmocka_unit_test(ten_buckets_unless_given),
        cmocka_unit_test(the_oldest_bucket_fades_by_the_millisecond),
        cmocka_unit_test(the_hint_looks_past_buckets_that_are_too_small),
        cmocka_unit_test(the_hint_is_the_first_ms_that_fits_whatever_the_rounding),
        cmocka_unit_test(one_bucket_is_the_two_window_estimate),
        cmocka_unit_test(buckets_may_be_shorter_than_a_millisecond),
        cmocka_unit_test(cost_zero_is_free_and_shows_what_is_there),
        cmocka_unit_test(cost_above_the_limit_is_never_admitted),
        cmocka_unit_test(a_clock_that_steps_back_stays_in_the_later_bucket),
        cmocka_unit_test(a_refund_goes_to_the_bucket_it_was_charged_in),
        cmocka_unit_test(a_refund_gives_back_no_more_than_was_charged),
        cmocka_unit_test(less_used_than_estimated_is_refunded),
        cmocka_unit_test(more_used_than_estimated_is_debt_while_the_bucket_lasts),
        cmocka_unit_test(a_settlement_after_its_bucket_does_nothing),
        cmocka_unit_test(an_estimate_of_nothing_is_settled_like_any_other),
        cmocka_unit_test(fresh_when_the_last_bucket_has_faded),
    };
    return cmocka_run_group_tests_name("sliding_window", tests, NULL, NULL);
}
