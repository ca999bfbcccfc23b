/* test_http_codec.c - the small words of messages: numbers, and what never goes on. */
#include "check.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "io/http/http1_write.h"

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
    struct http_head head = {.fields = &field, .n_fields = 1}, none = {.n_fields = 0};
    struct http_hops of_head = http_hops_of(&head), of_none = http_hops_of(&none);

    (void)state;
    for (size_t i = 0; i < sizeof hops / sizeof hops[0]; i++) {
        bool named = slice_equal_nocase(slice_of(hops[i]), SLICE("x-named")) ||
                     slice_equal_nocase(slice_of(hops[i]), SLICE("x-also"));
        assert_true(http_is_hop(&head, slice_of(hops[i])));
        assert_true(http_hops_has(&of_head, slice_of(hops[i])));
        assert_int_equal(http_is_hop(&none, slice_of(hops[i])), !named);
        assert_int_equal(http_hops_has(&of_none, slice_of(hops[i])), !named);
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        assert_false(http_is_hop(&head, slice_of(others[i])));
        assert_false(http_hops_has(&of_head, slice_of(others[i])));
    }
}

/* The bytes of names are a list in RFC 9110. */
static void a_name_consists_of_what_may_be_in_tokens(void **state)
{
    static const char marks[] = "!#$%&'*+-.^_`|~";
    (void)state;

    assert_false(http1_is_name(SLICE("")));
    for (int c = 0; c < 256; c++) {
        char name[] = {'x', (char)c, 'y'};
        int small = c | 0x20;
        bool good = (c >= '0' && c <= '9') || (c < 128 && small >= 'a' && small <= 'z') ||
                    (c > 0 && c < 128 && strchr(marks, c) != NULL);
        assert_int_equal(http1_is_name((struct slice){name, sizeof name}), good);
    }
}

/* Wherever in a value of whatever length: line ends and zeros become spaces, and nothing else. */
static void a_value_keeps_all_but_line_ends_and_zeros(void **state)
{
    const struct http1_framing framing = {.length = -1};
    struct clock clock;
    struct net_loop *loop;
    (void)state;

    clock_init(&clock);
    assert_int_equal(net_loop_new(&clock, &loop), TG_OK);
    for (int c = 0; c < 256; c++)
        for (size_t n = 1; n <= 20; n++)
            for (size_t at = 0; at < n; at++) {
                char value[20], want[64] = "HTTP/1.1 200 OK\r\na: ";
                size_t before = strlen(want);
                struct http_field field = {SLICE("a"), {value, n}};
                struct http_head head = {.status = 200, .fields = &field, .n_fields = 1};
                struct buf out = {0};
                memset(value, 'v', sizeof value);
                value[at] = (char)c;
                memset(want + before, 'v', n);
                want[before + at] = (char)(c == '\r' || c == '\n' || c == 0 ? ' ' : c);
                memcpy(want + before + n, "\r\n\r\n", 4);
                assert_true(http1_put_reply(loop, &out, &head, &framing));
                assert_int_equal(buf_bytes(&out), before + n + 4);
                assert_memory_equal(buf_first(&out), want, before + n + 4);
                buf_release(loop, &out);
            }
    net_loop_free(loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_number_is_what_printf_writes),
        cmocka_unit_test(what_belongs_to_one_connection_is_known_in_any_case),
        cmocka_unit_test(a_name_consists_of_what_may_be_in_tokens),
        cmocka_unit_test(a_value_keeps_all_but_line_ends_and_zeros),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
