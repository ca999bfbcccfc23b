/* test_trace_parent.c - whose trace a request belongs to: what is believed, and what is sent on. */
#include "check.h"

#include <string.h>

#include "server/obs/trace_parent.h"

#define GOOD "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

static const uint64_t RANDOM[3] = {0x1111111111111110, 0x2222222222222222, 0x3333333333333330};

static void expect_sent(const struct trace_ids *ids, const char *want)
{
    char text[TRACE_PARENT_BYTES + 1] = "";

    trace_parent_write(ids, text);
    assert_string_equal(text, want);
}

static void a_trace_goes_on_with_a_span_of_ours(void **state)
{
    struct trace_ids ids;

    (void)state;
    trace_ids_init(&ids, SLICE(GOOD), false, RANDOM);
    assert_true(trace_ids_present(&ids));
    assert_true(ids.sampled);
    assert_memory_equal(ids.parent_id, "\x00\xf0\x67\xaa\x0b\xa9\x02\xb7", 8);
    expect_sent(&ids, "00-4bf92f3577b34da6a3ce929d0e0e4736-3133333333333333-01");
}

static void what_is_not_sampled_stays_so(void **state)
{
    struct trace_ids ids;

    (void)state;
    trace_ids_init(&ids, SLICE("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-02"), true,
                   RANDOM);
    assert_false(ids.sampled);
    expect_sent(&ids, "00-4bf92f3577b34da6a3ce929d0e0e4736-3133333333333333-00");
}

static void without_one_there_is_a_new_one_if_wanted(void **state)
{
    const uint64_t zeros[3] = {0};
    struct trace_ids ids;

    (void)state;
    trace_ids_init(&ids, (struct slice){NULL, 0}, false, RANDOM);
    assert_false(trace_ids_present(&ids));
    assert_false(ids.sampled);
    trace_ids_init(&ids, (struct slice){NULL, 0}, true, RANDOM);
    assert_true(trace_ids_present(&ids));
    assert_true(ids.sampled);
    assert_memory_equal(ids.parent_id, "\0\0\0\0\0\0\0\0", 8);
    trace_ids_init(&ids, (struct slice){NULL, 0}, true, zeros); /* 0 is no number of a trace */
    expect_sent(&ids, "00-01000000000000000000000000000000-0100000000000000-01");
}

static void what_is_not_as_the_standard_has_it_is_not_there(void **state)
{
    static const char *const rows[] = {
        "",
        "00",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
        "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01more",
        "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
        "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736_00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7_01",
        "0g-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e473x-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0x",
    };
    struct trace_ids ids;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        trace_ids_init(&ids, slice_of(rows[i]), false, RANDOM);
        assert_false(trace_ids_present(&ids));
        assert_false(ids.sampled);
    }
}

static void a_later_version_may_say_more(void **state)
{
    struct trace_ids ids;

    (void)state;
    trace_ids_init(&ids, SLICE("01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more"),
                   false, RANDOM);
    assert_true(ids.sampled);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_trace_goes_on_with_a_span_of_ours),
        cmocka_unit_test(what_is_not_sampled_stays_so),
        cmocka_unit_test(without_one_there_is_a_new_one_if_wanted),
        cmocka_unit_test(what_is_not_as_the_standard_has_it_is_not_there),
        cmocka_unit_test(a_later_version_may_say_more),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
