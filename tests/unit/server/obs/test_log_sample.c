/* test_log_sample.c - lines that stand for several: how many, and that none is forgotten. */
#include "check.h"

#include <stdio.h>

#include "server/obs/log_sample.h"

static void few_are_all_written(void **state)
{
    struct log_sampler sampler = {0};

    (void)state;
    for (tg_ms now = 0; now < 60000; now += 100)
        assert_int_equal(log_sampler_take(&sampler, "rate", now), 1);
}

static void of_many_in_a_second_every_hundredth_is(void **state)
{
    struct log_sampler sampler = {0};

    (void)state;
    for (int i = 0; i < 10; i++)
        assert_int_equal(log_sampler_take(&sampler, "rate", 5000), 1);
    for (int i = 0; i < 990; i++)
        assert_int_equal(log_sampler_take(&sampler, "rate", 5999), i % 100 == 99 ? 100 : 0);
}

static void the_next_second_begins_with_what_was_left_out(void **state)
{
    struct log_sampler sampler = {0};

    (void)state;
    for (int i = 0; i < 10 + 37; i++)
        log_sampler_take(&sampler, "rate", 1000);
    assert_int_equal(log_sampler_take(&sampler, "rate", 2000), 38);
    assert_int_equal(log_sampler_take(&sampler, "rate", 2000), 1);
}

static void reasons_do_not_hide_each_other(void **state)
{
    struct log_sampler sampler = {0};

    (void)state;
    for (int i = 0; i < 50; i++)
        log_sampler_take(&sampler, "rate", 1000);
    assert_int_equal(log_sampler_take(&sampler, "cost", 1000), 1);
}

/* Whatever comes when, for whatever number of reasons. */
static void lines_and_what_is_left_are_all(void **state)
{
    static char names[2 * LOG_SAMPLE_REASONS][8];
    struct log_sampler sampler = {0};
    uint64_t told = 0, n = 0, left;
    const char *reason;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(names); i++)
        snprintf(names[i], sizeof names[i], "r%zu", i);
    for (unsigned i = 1; n < 100000; i = i * 1103515245 + 12345, n++)
        told += log_sampler_take(&sampler, names[(i >> 16) % COUNT_OF(names)], (tg_ms)n / 3);
    for (size_t at = 0; log_sampler_left(&sampler, &at, &reason, &left);) {
        assert_non_null(reason);
        told += left;
    }
    assert_int_equal(told, n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_are_all_written),
        cmocka_unit_test(of_many_in_a_second_every_hundredth_is),
        cmocka_unit_test(the_next_second_begins_with_what_was_left_out),
        cmocka_unit_test(reasons_do_not_hide_each_other),
        cmocka_unit_test(lines_and_what_is_left_are_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
