/* test_error.c - every error has a text of its own, and the library knows its version. */
#include <stdio.h>
#include <string.h>

#include "check.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_error_has_its_number_and_text),
        cmocka_unit_test(success_is_zero),
        cmocka_unit_test(a_number_that_is_no_error_has_a_text_too),
        cmocka_unit_test(the_library_has_the_version_of_its_header),
    };
    return cmocka_run_group_tests_name("error", tests, NULL, NULL);
}
