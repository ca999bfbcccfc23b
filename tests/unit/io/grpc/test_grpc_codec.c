/* test_grpc_codec.c - the words of the protocol: content types, timeouts, messages, paths. */
#include "check.h"

#include <string.h>

#include "io/grpc/grpc_codec.h"

static void content_types_of_grpc_are_known_and_no_others(void **state)
{
    (void)state;
    assert_true(grpc_is_content_type(SLICE("application/grpc")));
    assert_true(grpc_is_content_type(SLICE("application/grpc+proto")));
    assert_true(grpc_is_content_type(SLICE("Application/GRPC ; charset=utf-8")));
    assert_false(grpc_is_content_type(SLICE("application/grpc+json")));
    assert_false(grpc_is_content_type(SLICE("application/grpc-web")));
    assert_false(grpc_is_content_type(SLICE("application/json")));
    assert_false(grpc_is_content_type(SLICE("")));
    assert_false(grpc_is_content_type((struct slice){NULL, 0}));
}

static void timeouts_are_read_in_every_unit_and_rounded_up(void **state)
{
    static const struct {
        const char *text;
        tg_ms ms;
    } TABLE[] = {{"1H", 3600000},
                 {"2M", 120000},
                 {"3S", 3000},
                 {"4m", 4},
                 {"5000u", 5},
                 {"5001u", 6},
                 {"1n", 1},
                 {"1000000n", 1},
                 {"1000001n", 2},
                 {"0S", 0},
                 {"0n", 0},
                 {"99999999H", (tg_ms)99999999 * 3600000},
                 {"99999999n", 100}};
    tg_ms ms;

    (void)state;
    for (size_t i = 0; i < sizeof TABLE / sizeof TABLE[0]; i++) {
        assert_true(grpc_read_timeout(slice_of(TABLE[i].text), &ms));
        assert_int_equal(ms, TABLE[i].ms);
    }
}

static void what_is_no_timeout_is_refused(void **state)
{
    static const char *const TABLE[] = {"", "S", "1", "1s", "1 S", "-1S", "+1S",
                                        "1h", "1.5S", "123456789S", "1SS", "0x1S", "\xff\x31S"};
    tg_ms ms = 77;

    (void)state;
    for (size_t i = 0; i < sizeof TABLE / sizeof TABLE[0]; i++)
        assert_false(grpc_read_timeout(slice_of(TABLE[i]), &ms));
    assert_int_equal(ms, 77);
}

static void check_message(const char *text, size_t size, const char *want)
{
    char out[64];
    size_t n = grpc_write_message(slice_of(text), out, size);

    assert_true(n <= size);
    assert_int_equal(n, strlen(want));
    assert_memory_equal(out, want, n);
}

static void messages_are_percent_encoded(void **state)
{
    (void)state;
    check_message("server overloaded", 64, "server overloaded");
    check_message("96.0% used", 64, "96.0%25 used");
    check_message("a\nb\r\t", 64, "a%0Ab%0D%09");
    check_message("\x7f", 64, "%7F");
    check_message("Z\xc3\xbcrich", 64, "Z%C3%BCrich");
    check_message("", 64, "");
}

static void messages_are_cut_between_characters(void **state)
{
    (void)state;
    check_message("abcdef", 3, "abc");
    check_message("ab\xc3\xbc", 8, "ab%C3%BC");
    check_message("ab\xc3\xbc", 7, "ab");
    check_message("ab%", 4, "ab");
    check_message("\xe2\x82\xac", 8, "");
}

static void paths_have_a_service_and_a_method(void **state)
{
    static const char *const WRONG[] = {"", "/", "/a", "a/b", "//b",
                                        "/a/", "/a/b/c", "/a/b/", "a.b/C", "///"};
    struct slice service, method;

    (void)state;
    assert_true(grpc_split_path(SLICE("/tollgate.v1.Admission/Admit"), &service, &method));
    assert_true(slice_equal(service, SLICE("tollgate.v1.Admission")));
    assert_true(slice_equal(method, SLICE("Admit")));
    for (size_t i = 0; i < sizeof WRONG / sizeof WRONG[0]; i++)
        assert_false(grpc_split_path(slice_of(WRONG[i]), &service, &method));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(content_types_of_grpc_are_known_and_no_others),
        cmocka_unit_test(timeouts_are_read_in_every_unit_and_rounded_up),
        cmocka_unit_test(what_is_no_timeout_is_refused),
        cmocka_unit_test(messages_are_percent_encoded),
        cmocka_unit_test(messages_are_cut_between_characters),
        cmocka_unit_test(paths_have_a_service_and_a_method),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
