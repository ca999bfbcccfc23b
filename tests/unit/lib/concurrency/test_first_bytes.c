/* test_first_bytes.c - what a first byte takes when nothing waits, by size of prompt. */
#include "check.h"
#include "draw.h"
#include "lib/concurrency/first_bytes.h"

static void expect_near(double got, double want, double off)
{
    if (!(got >= want - off && got <= want + off))
        fail_msg("%g, and not %g", got, want);
}

static void a_size_is_a_power_of_two(void **state)
{
    (void)state;
    assert_int_equal(first_bytes_place(-1), 0);
    assert_int_equal(first_bytes_place(0), 0);
    assert_int_equal(first_bytes_place(1), 1);
    assert_int_equal(first_bytes_place(2), 2);
    assert_int_equal(first_bytes_place(3), 2);
    assert_int_equal(first_bytes_place(1023), 10);
    assert_int_equal(first_bytes_place(1024), 11);
    assert_int_equal(first_bytes_place(INT64_MAX), FIRST_BYTES_SIZES - 1);
}

static void a_median_is_the_middle(void **state)
{
    double odd[] = {5, 1, 3}, even[] = {4, 1, 2, 3}, one[] = {7};
    (void)state;

    expect_near(first_bytes_median(odd, 3), 3, 0);
    expect_near(first_bytes_median(even, 4), 2.5, 0);
    expect_near(first_bytes_median(one, 1), 7, 0);
}

static void sizes_do_not_mix(void **state)
{
    struct first_bytes first = {.common_ms = 0};
    double small = 0, large = 0;
    (void)state;

    for (int i = 0; i < 100; i++) {
        small = first_bytes_learn(&first, 5, 100);
        large = first_bytes_learn(&first, 15, 3000);
    }
    expect_near(small, 100, 0);
    expect_near(large, 3000, 0);
    expect_near(first.common_ms, 100, 0); /* the first that was known */
}

/* A first byte may take less than a millisecond: what is known of it is known. */
static void a_base_below_a_millisecond_rises_as_slowly_as_any(void **state)
{
    struct first_bytes first = {.common_ms = 0};
    double base = 0;
    (void)state;

    for (int i = 0; i < 8; i++)
        base = first_bytes_learn(&first, 3, 0.5);
    expect_near(base, 0.5, 0);
    for (int i = 0; i < FIRST_BYTES_WINDOW; i++)
        base = first_bytes_learn(&first, 3, 0.75);
    expect_near(base, 0.5005, 1e-6); /* by 0.002 of what is over it */
    expect_near(first.common_ms, 0.5, 0);
}

/* Until there are eight calls of a size, a first byte is compared with itself: nothing waits. */
static void without_calls_of_the_size_nothing_waits(void **state)
{
    struct first_bytes first = {.common_ms = 0};
    (void)state;

    for (int i = 1; i < 8; i++)
        expect_near(first_bytes_learn(&first, 3, 100 * i), 100 * i, 0);
    expect_near(first_bytes_learn(&first, 3, 800), 450, 0); /* the median of 100 to 800 */
}

static void a_base_falls_at_once_and_rises_slowly(void **state)
{
    struct first_bytes first = {.common_ms = 0};
    double base = 0;
    (void)state;

    for (int i = 0; i < 8; i++)
        base = first_bytes_learn(&first, 0, 500);
    expect_near(base, 500, 0);
    for (int i = 0; i < FIRST_BYTES_WINDOW; i++)
        base = first_bytes_learn(&first, 0, 200);
    expect_near(base, 200, 0);
    for (int i = 0; i < FIRST_BYTES_WINDOW; i++)
        base = first_bytes_learn(&first, 0, 1200);
    expect_near(base, 202, 1e-9); /* 0.2 % of the difference */
}

/* A quarter of the answers is shorter than the prefill: their early first bytes are no base. */
static void early_first_bytes_are_no_base(void **state)
{
    struct first_bytes first = {.common_ms = 0};
    struct draw draw = draw_stream(3, 0);
    double base = 0;
    (void)state;

    for (int i = 0; i < 5000; i++)
        base = first_bytes_learn(&first, 0, draw_chance(&draw, 25) ? 20 : 300);
    expect_near(base, 300, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_size_is_a_power_of_two),
        cmocka_unit_test(a_median_is_the_middle),
        cmocka_unit_test(sizes_do_not_mix),
        cmocka_unit_test(a_base_below_a_millisecond_rises_as_slowly_as_any),
        cmocka_unit_test(without_calls_of_the_size_nothing_waits),
        cmocka_unit_test(a_base_falls_at_once_and_rises_slowly),
        cmocka_unit_test(early_first_bytes_are_no_base),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
