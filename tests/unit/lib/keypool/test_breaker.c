/* test_breaker.c - a breaker by itself: when it opens, and at which share of errors sooner. */
#include <math.h>

#include "check.h"
#include "lib/keypool/breaker.h"

static const struct breaker_rule RULE = {.failures = 5, .open = 1000};

static void fail_once(struct breaker *breaker, const struct breaker_rule *rule, tg_ms now)
{
    assert_true(breaker_lets(breaker, now));
    breaker_begin(breaker);
    breaker_end(breaker, rule, breaker->epoch, TG_KEY_FAILED, now);
}

/* "With an average of errors of one half or more, half the run is enough": the half itself is. */
static void one_half_of_errors_is_enough_for_half_the_run(void **state)
{
    struct breaker breaker = {.errors = 0.5};
    (void)state;

    assert_int_equal(breaker_threshold(&breaker, &RULE), 3);
    breaker.errors = nextafter(0.5, 0);
    assert_int_equal(breaker_threshold(&breaker, &RULE), 5);
}

/* Half of an odd run is rounded up, it is two at least, and never more than the run itself. */
static void half_a_run_is_two_at_least(void **state)
{
    static const int64_t rows[][2] = {{1, 1}, {2, 2}, {3, 2}, {4, 2}, {5, 3}, {6, 3}, {7, 4}};
    (void)state;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct breaker_rule rule = {.failures = rows[i][0], .open = 1};
        struct breaker breaker = {.errors = 1};
        assert_int_equal(breaker_threshold(&breaker, &rule), rows[i][1]);
    }
}

/* The run that opened it counts on, but it need not: the one call of the half-open state decides,
 * also if a change of the rule asks for a longer run meanwhile. */
static void a_failure_in_half_open_opens_whatever_the_rule_says_now(void **state)
{
    const struct breaker_rule longer = {.failures = 50, .open = 1000};
    struct breaker breaker = {0};
    (void)state;

    for (int i = 0; i < 5; i++) {
        assert_int_equal(breaker_state(&breaker, 0), TG_BREAKER_CLOSED);
        fail_once(&breaker, &RULE, 0);
    }
    assert_int_equal(breaker_state(&breaker, 999), TG_BREAKER_OPEN);
    assert_int_equal(breaker_state(&breaker, 1000), TG_BREAKER_HALF_OPEN);
    fail_once(&breaker, &longer, 1000);
    assert_int_equal(breaker_state(&breaker, 1999), TG_BREAKER_OPEN);
    assert_int_equal(breaker_state(&breaker, 2000), TG_BREAKER_HALF_OPEN);
}

/* A moving average over sixteen attempts. */
static void errors_are_a_moving_average(void **state)
{
    struct breaker breaker = {0};
    (void)state;

    breaker_end(&breaker, &RULE, 0, TG_KEY_FAILED, 0);
    assert_float_equal(breaker.errors, 1.0 / 16, 1e-12);
    breaker_end(&breaker, &RULE, 0, TG_KEY_OK, 0);
    assert_float_equal(breaker.errors, 15.0 / 256, 1e-12);
    breaker_end(&breaker, &RULE, 0, TG_KEY_CANCELLED, 0);
    assert_float_equal(breaker.errors, 15.0 / 256, 1e-12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_half_of_errors_is_enough_for_half_the_run),
        cmocka_unit_test(half_a_run_is_two_at_least),
        cmocka_unit_test(a_failure_in_half_open_opens_whatever_the_rule_says_now),
        cmocka_unit_test(errors_are_a_moving_average),
    };
    return cmocka_run_group_tests_name("breaker", tests, NULL, NULL);
}
