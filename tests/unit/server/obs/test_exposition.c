/* test_exposition.c - the text format: escaping, numbers, histograms. */
#include "check.h"

#include <math.h>
#include <string.h>

#include "server/obs/exposition.h"
#include "tollgate.h"

static struct exposition text;

static int begin(void **state)
{
    (void)state;
    exposition_init(&text);
    return 0;
}

static int end(void **state)
{
    (void)state;
    exposition_fini(&text);
    return 0;
}

static void expect(const char *all)
{
    assert_false(text.out.failed);
    assert_int_equal(text.out.size, strlen(all));
    assert_memory_equal(text.out.bytes, all, text.out.size);
}

static void a_metric_has_its_help_its_type_and_its_lines(void **state)
{
    (void)state;
    expose_begin(&text, "a_total", "counter", "What it is.");
    expose_line(&text, NULL, 3);
    expose_line(&text, &(struct expose_labels){{{"gate", "models"}, {"p", "low"}}}, -4);
    expose_single(&text, "b", "gauge", "Else.", 0);
    expect("# HELP a_total What it is.\n# TYPE a_total counter\na_total 3\n"
           "a_total{gate=\"models\",p=\"low\"} -4\n"
           "# HELP b Else.\n# TYPE b gauge\nb 0\n");
}

static void labels_are_escaped_and_empty_ones_left_out(void **state)
{
    (void)state;
    text.name = "a";
    expose_line(&text,
                &(struct expose_labels){{{"x", NULL}, {"y", "q\"b\\n\nz"}, {"e", ""}, {"u", "ä"}}},
                1);
    expose_line(&text, &(struct expose_labels){{{"x", NULL}}}, 2);
    expect("a{y=\"q\\\"b\\\\n\\nz\",u=\"ä\"} 1\na 2\n");
}

static void numbers_are_what_they_are(void **state)
{
    (void)state;
    text.name = "a";
    expose_line(&text, NULL, TG_NUMBER_MAX);
    expose_real(&text, NULL, 0.25);
    expose_real(&text, NULL, NAN);
    expose_real(&text, NULL, -INFINITY);
    expose_decimal(&text, NULL, 12000345, 1000000);
    expose_decimal(&text, NULL, 7, 1);
    expose_decimal(&text, NULL, UINT64_MAX, 10);
    expect("a +Inf\na 0.25\na NaN\na -Inf\na 12.000345\na 7\na 1844674407370955161.5\n");
}

static const struct histogram_shape SHAPE = {
    .scale = 1000, .n = 3, .bounds = {{10, "0.01"}, {100, "0.1"}, {1000, "1"}}};

static void a_histogram_is_cumulative_and_its_bounds_belong_to_it(void **state)
{
    static struct histogram one, two;
    struct histogram_total total = {.sum = 0};
    const int64_t values[] = {-5, 0, 10, 11, 100, 1000, 1001, 5000};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(values); i++)
        histogram_add(i % 2 ? &one : &two, &SHAPE, values[i]);
    histogram_read(&one, &total);
    histogram_read(&two, &total);
    text.name = "h";
    expose_histogram(&text, &(struct expose_labels){{{"m", "x"}}}, &SHAPE, &total);
    expect("h_bucket{m=\"x\",le=\"0.01\"} 3\n"
           "h_bucket{m=\"x\",le=\"0.1\"} 5\n"
           "h_bucket{m=\"x\",le=\"1\"} 6\n"
           "h_bucket{m=\"x\",le=\"+Inf\"} 8\n"
           "h_sum{m=\"x\"} 7.122\n"
           "h_count{m=\"x\"} 8\n");
}

static void a_long_text_is_whole(void **state)
{
    char name[3000];

    (void)state;
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    for (int i = 0; i < 100; i++) {
        text.name = "a";
        expose_line(&text, &(struct expose_labels){{{"l", name}}}, i);
    }
    assert_false(text.out.failed);
    assert_int_equal(text.out.size, 100 * (strlen("a{l=\"\"} 1\n") + strlen(name)) + 90);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_metric_has_its_help_its_type_and_its_lines, begin, end),
        cmocka_unit_test_setup_teardown(labels_are_escaped_and_empty_ones_left_out, begin, end),
        cmocka_unit_test_setup_teardown(numbers_are_what_they_are, begin, end),
        cmocka_unit_test_setup_teardown(a_histogram_is_cumulative_and_its_bounds_belong_to_it,
                                        begin, end),
        cmocka_unit_test_setup_teardown(a_long_text_is_whole, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
