/* test_http_words.c - the small words of messages: numbers, and what never goes on. */
#include "check.h"

#include <inttypes.h>
#include <stdio.h>

#include "net/http.h"

static void a_number_is_what_printf_writes(void **state)
{
    static const int64_t numbers[] = {0, 1, 9, 10, -1, -10, 4294967296,
                                      INT64_MAX, INT64_MIN, 99999999, 100000000, 200};
    char text[HTTP_NUMBER_MAX], want[HTTP_NUMBER_MAX + 1];

    (void)state;
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        int n = snprintf(want, sizeof want, "%" PRId64, numbers[i]);
        assert_int_equal(http_put_number(text, numbers[i]), n);
        assert_memory_equal(text, want, (size_t)n);
    }
}

static void what_belongs_to_one_connection_is_known_in_any_case(void **state)
{
    static const char *const hops[] = {
        "connection", "keep-alive", "te", "trailer",
        "transfer-encoding", "upgrade", "TRANSFER-Encoding", "proxy-connection",
        "proxy-authenticate", "proxy-authorization", "content-length", "host",
        "expect", "Host", "x-named", "X-Also"};
    static const char *const others[] = {"accept", "x-other", "hosts", "t", "", "connectio"};
    struct http_field field = {SLICE("connection"), SLICE("close, x-named , x-also")};
    struct http_head head = {.fields = &field, .n_fields = 1};

    (void)state;
    for (size_t i = 0; i < sizeof hops / sizeof hops[0]; i++)
        assert_true(http_is_hop(&head, slice_of(hops[i])));
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_false(http_is_hop(&head, slice_of(others[i])));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_number_is_what_printf_writes),
        cmocka_unit_test(what_belongs_to_one_connection_is_known_in_any_case),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
