/* test_http_smuggling.c - whatever two programs could read differently is refused, and the end.
 *
 * Each row is sent as raw bytes, followed by what a smuggler would like to be taken for a request
 * of its own. It must be answered by one 4xx or 5xx, nothing of it may reach the owner as a whole
 * request, and the connection must end.
 */
#include "net_kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct row {
    const char *name;
    int status;
    size_t n; /* 0: strlen */
    const char *bytes;
};

#define POST "POST / HTTP/1.1\r\nHost: a\r\n"
#define CHUNKED POST "Transfer-Encoding: chunked\r\n\r\n"
#define EVIL "GET /evil HTTP/1.1\r\nHost: a\r\n\r\n"
#define ROW(name, status, text)              \
    {                                        \
        name, status, sizeof(text) - 1, text \
    }

static const struct row rows[] = {
    ROW("CL and TE", 400, POST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    ROW("TE and CL", 400, POST "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n"),
    ROW("two CL that differ", 400, POST "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello"),
    ROW("two CL that agree", 400, POST "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello"),
    ROW("CL list", 400, POST "Content-Length: 5, 5\r\n\r\nhello"),
    ROW("TE xchunked", 0, POST "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"),
    ROW("TE chunked, identity", 0, POST "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n"),
    ROW("TE identity", 0, POST "Transfer-Encoding: identity\r\n\r\n"),
    ROW("TE gzip, chunked", 501, POST "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
    ROW("TE twice", 0,
        POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    ROW("TE chunked chunked", 0, POST "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n"),
    ROW("TE with vertical tab", 400, POST "Transfer-Encoding: \vchunked\r\n\r\n0\r\n\r\n"),
    ROW("TE quoted", 0, POST "Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n"),
    ROW("bare CR in a field", 400, POST "X: a\rContent-Length: 5\r\n\r\nhello"),
    ROW("bare CR ends a field", 400, POST "X: a\rTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    ROW("bare LF ends a field", 400, POST "X: a\nContent-Length: 5\r\n\r\nhello"),
    ROW("bare LF ends the head", 400, POST "Content-Length: 5\r\n\nhello"),
    ROW("bare LF ends the request line", 400, "GET / HTTP/1.1\nHost: a\r\n\r\n"),
    ROW("space before colon", 400, POST "Content-Length : 5\r\n\r\nhello"),
    ROW("tab before colon", 400, POST "Content-Length\t: 5\r\n\r\nhello"),
    ROW("obs-fold", 400, POST "X: y\r\n Content-Length: 5\r\n\r\nhello"),
    ROW("obs-fold with tab", 400, POST "X: y\r\n\tz\r\n\r\n"),
    ROW("obs-fold of TE", 400, POST "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n"),
    ROW("space before the first field", 400,
        "POST / HTTP/1.1\r\n Host: a\r\nContent-Length: 5\r\n\r\nhello"),
    ROW("space field CL", 400, "POST / HTTP/1.1\r\n Content-Length: 5\r\nHost: a\r\n\r\nhello"),
    ROW("no colon", 400, POST "Content-Length 5\r\n\r\nhello"),
    ROW("no name", 400, POST ": 5\r\n\r\n"),
    ROW("chunk without CRLF", 400, CHUNKED "5\r\nhelloX0\r\n\r\n"),
    ROW("chunk with LF", 400, CHUNKED "5\nhello\r\n0\r\n\r\n"),
    ROW("chunk data then LF", 400, CHUNKED "5\r\nhello\n0\r\n\r\n"),
    ROW("chunk extension with LF", 400, CHUNKED "5;a\nhello\r\n0\r\n\r\n"),
    ROW("chunk size overflows", 400, CHUNKED "FFFFFFFFFFFFFFFFF\r\nhello\r\n0\r\n\r\n"),
    ROW("chunk size 0x5", 400, CHUNKED "0x5\r\nhello\r\n0\r\n\r\n"),
    ROW("chunk size -5", 400, CHUNKED "-5\r\nhello\r\n0\r\n\r\n"),
    ROW("chunk size +5", 400, CHUNKED "+5\r\nhello\r\n0\r\n\r\n"),
    ROW("chunk size is empty", 400, CHUNKED "\r\nhello\r\n0\r\n\r\n"),
    ROW("space before a chunk size", 400, CHUNKED " 5\r\nhello\r\n0\r\n\r\n"),
    ROW("CL +5", 400, POST "Content-Length: +5\r\n\r\nhello"),
    ROW("CL -5", 400, POST "Content-Length: -5\r\n\r\nhello"),
    ROW("CL 0x5", 400, POST "Content-Length: 0x5\r\n\r\nhello"),
    ROW("CL 5 tab 5", 400, POST "Content-Length: 5\t5\r\n\r\nhello"),
    ROW("CL 5 5", 400, POST "Content-Length: 5 5\r\n\r\nhello"),
    ROW("CL is empty", 400, POST "Content-Length:\r\n\r\n"),
    ROW("CL is huge", 400, POST "Content-Length: 99999999999999999999\r\n\r\nhello"),
    ROW("CL beyond 63 bits", 400, POST "Content-Length: 18446744073709551615\r\n\r\nhello"),
    ROW("NUL in a value", 400, POST "X: a\0b\r\n\r\n"),
    ROW("NUL in a name", 400, POST "X\0Y: a\r\n\r\n"),
    ROW("NUL in the target", 400, "GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n"),
    ROW("no Host", 400, "GET / HTTP/1.1\r\n\r\n"),
    ROW("two Hosts", 400, "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"),
    ROW("two Hosts with 1.0", 400, "GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n"),
    ROW("1.0 and TE", 400, "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    ROW("0.9", 505, "GET /\r\n\r\n"),
    ROW("version 2.0", 505, "GET / HTTP/2.0\r\nHost: a\r\n\r\n"),
    ROW("version 1.2", 505, "GET / HTTP/1.2\r\nHost: a\r\n\r\n"),
    ROW("preface of HTTP/2", 505, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    ROW("method in lower case", 400, "get / HTTP/1.1\r\nHost: a\r\n\r\n"),
    ROW("no such method", 501, "BREW / HTTP/1.1\r\nHost: a\r\n\r\n"),
    ROW("CONNECT", 501, "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n"),
    ROW("target with a space", 400, "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n"),
    ROW("two spaces before the target", 400, "GET  / HTTP/1.1\r\nHost: a\r\n\r\n"),
    ROW("two spaces after the target", 400, "GET /  HTTP/1.1\r\nHost: a\r\n\r\n"),
    ROW("expects what nobody does", 417, POST "Expect: 200-ok\r\n\r\n"),
    ROW("expects more than to go on", 417, POST "Expect: 100-continue, x\r\n\r\n"),
    ROW("TLS on a plain port", 400, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
};

static void echo_and_count(struct kit_in *in)
{
    kit_reply(in, 200, "accepted");
}

static void try_row(const struct row *row)
{
    char want[32];
    struct kit kit;

    kit_init(&kit);
    kit.options.limits.linger_ms = 50;
    kit_listen(&kit);
    kit.on_end = echo_and_count;
    struct kit_raw *raw = kit_connect(&kit);
    kit_put_bytes(&kit, raw, row->bytes, row->n);
    kit_put(&kit, raw, EVIL);
    kit_until(&kit, raw->eof || raw->reset || kit_got(raw, "accepted"));
    snprintf(want, sizeof want, "HTTP/1.1 %d ", row->status > 0 ? row->status : 400);
    bool told = kit_got(raw, want) || (row->status == 0 && kit_got(raw, "HTTP/1.1 501 "));
    if (!told || kit_got(raw, "accepted") || kit_count(raw, "HTTP/1.1 ") != 1)
        fail_msg("%s: %s", row->name, raw->got != NULL ? raw->got : "(no reply)");
    for (size_t i = 0; i < kit.n_ins; i++)
        assert_false(kit.ins[i].ended);
    kit_fini(&kit);
}

static void every_row_is_refused_and_closed(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        try_row(&rows[i]);
}

/* What is merely unusual passes. */
static void what_is_allowed_passes(void **state)
{
    static const char *const good[] = {
        "\r\n" EVIL,
        "GET / HTTP/1.1\r\nHost:\r\n\r\n",
        POST "Transfer-Encoding: Chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        POST "Transfer-Encoding: chunked\r\n\r\n005;a=b\r\nhello\r\n000\r\nT: 1\r\n\r\n",
        POST "Content-Length: 05\r\n\r\nhello",
        POST "Content-Length:5\r\n\r\nhello",
        POST "Content-Length: 5  \r\n\r\nhello",
        POST "Content-Length: 5 \t\r\n\r\nhello",
        POST "X:\ta\tb\t\r\nContent-Length:\t5\t\t\r\n\r\nhello",
        POST "Expect: 100-Continue\r\n\r\n",
        "GET / HTTP/1.0\r\nConnection: keep-alive\r\nExpect: 200-ok\r\n\r\n",
        "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET http://a/b HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        struct kit kit;

        kit_init(&kit);
        kit_listen(&kit);
        kit.on_end = echo_and_count;
        struct kit_raw *raw = kit_connect(&kit);
        kit_put(&kit, raw, good[i]);
        kit_put(&kit, raw, EVIL);
        kit_until(&kit, raw->eof || kit_count(raw, "accepted") == 2);
        if (kit_count(raw, "accepted") != 2)
            fail_msg("%s: %s", good[i], raw->got);
        kit_fini(&kit);
    }
}

/* The form of the refusal is the owner's. */
static void large_heads_are_refused_in_the_owners_form(void **state)
{
    char *big = malloc(200000);
    struct kit kit;

    (void)state;
    assert_non_null(big);
    for (int i = 0; i < 3; i++) {
        static const int statuses[] = {431, 431, 414};
        char want[32];
        int n = 0;

        if (i == 0) {
            n = sprintf(big, "GET / HTTP/1.1\r\nHost: a\r\nX: %0100000d\r\n\r\n", 0);
        } else if (i == 1) {
            n = sprintf(big, "GET / HTTP/1.1\r\nHost: a\r\n");
            for (int k = 0; k < 1000; k++)
                n += sprintf(big + n, "x: y\r\n");
            n += sprintf(big + n, "\r\n");
        } else {
            n = sprintf(big, "GET /%020000d HTTP/1.1\r\nHost: a\r\n\r\n", 0);
        }
        kit_init(&kit);
        kit_listen(&kit);
        struct kit_raw *raw = kit_connect(&kit);
        kit_put_bytes(&kit, raw, big, (size_t)n);
        kit_until(&kit, raw->eof || raw->reset);
        snprintf(want, sizeof want, "{\"refused\":%d", statuses[i]);
        assert_true(kit_got(raw, want));
        assert_true(kit_got(raw, "content-type: application/json"));
        assert_int_equal(kit.n_ins, 0);
        kit_fini(&kit);
    }
    free(big);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_is_refused_and_closed),
        cmocka_unit_test(what_is_allowed_passes),
        cmocka_unit_test(large_heads_are_refused_in_the_owners_form),
    };

    return cmocka_run_group_tests_name("http_smuggling", tests, NULL, NULL);
}
