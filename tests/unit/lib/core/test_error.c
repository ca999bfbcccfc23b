/* test_error.c - every error has a text of its own, and the library knows its version. */
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "lib/core/problem.h"

static const struct {
    enum tg_err err;
    int number;
    const char *text;
} errors[] = {
#define ERROR_ROW(name, value, text) {TG_##name, value, text},
    TG_ERRORS(ERROR_ROW)
#undef ERROR_ROW
};

static void every_error_has_its_number_and_text(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(errors); i++) {
        assert_int_equal((int)errors[i].err, errors[i].number);
        assert_string_equal(tg_strerror(errors[i].err), errors[i].text);
    }
}

static void success_is_zero(void **state)
{
    (void)state;
    assert_int_equal(TG_OK, 0);
}

static void a_number_that_is_no_error_has_a_text_too(void **state)
{
    static const int numbers[] = {-1, 99, 2147483647, -2147483647};
    (void)state;

    for (size_t i = 0; i < COUNT_OF(numbers); i++) {
        const char *text = tg_strerror((enum tg_err)numbers[i]);
        assert_non_null(text);
        for (size_t k = 0; k < COUNT_OF(errors); k++)
            assert_string_not_equal(text, errors[k].text);
    }
}

static void the_library_has_the_version_of_its_header(void **state)
{
    char version[32];
    (void)state;

    (void)snprintf(version, sizeof(version), "%d.%d.%d", TG_VERSION_MAJOR, TG_VERSION_MINOR,
                   TG_VERSION_PATCH);
    assert_string_equal(version, TG_VERSION);
    assert_string_equal(tg_version(), TG_VERSION);
}

static void a_problem_is_said_and_returned(void **state)
{
    struct tg_problem problem;
    (void)state;

    assert_int_equal(problem_say(&problem, TG_ERR_FULL, "%s %d", "number", 7), TG_ERR_FULL);
    assert_string_equal(problem.text, "number 7");
    assert_false(problem_fail(&problem, "%s %d", "item", 8));
    assert_string_equal(problem.text, "item 8");
    assert_int_equal(problem_say(NULL, TG_ERR_MEMORY, "%d", 9), TG_ERR_MEMORY);
    assert_false(problem_fail(NULL, "%d", 9));
}

static void a_problem_that_is_too_long_is_cut(void **state)
{
    char want[sizeof(struct tg_problem)];
    struct tg_problem problem;
    (void)state;

    memset(want, 'x', sizeof want);
    want[sizeof want - 1] = '\0';
    problem_say(&problem, TG_OK, "%sy", want);
    assert_string_equal(problem.text, want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_error_has_its_number_and_text),
        cmocka_unit_test(success_is_zero),
        cmocka_unit_test(a_number_that_is_no_error_has_a_text_too),
        cmocka_unit_test(the_library_has_the_version_of_its_header),
        cmocka_unit_test(a_problem_is_said_and_returned),
        cmocka_unit_test(a_problem_that_is_too_long_is_cut),
    };
    return cmocka_run_group_tests_name("error", tests, NULL, NULL);
}
