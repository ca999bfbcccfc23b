/* test_http1_parse.c - HTTP/1 out of bytes: the same events however the bytes are cut. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/http/http1_parse.h"

static struct clock the_clock;
static struct net_loop *loop;

static int set_up(void **state)
{
    (void)state;
    clock_init(&the_clock);
    return net_loop_new(&the_clock, &loop) == TG_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    net_loop_free(loop);
    return 0;
}

/* Everything a parser said, as text. */
struct story {
    char text[4096];
    size_t n;
    bool in_body;
};

static void tell(struct story *story, const char *bytes, size_t n)
{
    assert_true(story->n + n < sizeof story->text);
    if (n > 0)
        memcpy(story->text + story->n, bytes, n);
    story->n += n;
    story->text[story->n] = '\0';
}

static void tell_head(struct story *story, const struct http_head *head)
{
    char line[64];

    tell(story, "<", 1);
    tell(story, head->method.at, head->method.n);
    tell(story, " ", 1);
    tell(story, head->target.at, head->target.n);
    int n = snprintf(line, sizeof line, " %d %d %d", head->status, head->version,
                     (int)head->length);
    tell(story, line, (size_t)n);
    for (size_t i = 0; i < head->n_fields; i++) {
        tell(story, "|", 1);
        tell(story, head->fields[i].name.at, head->fields[i].name.n);
        tell(story, "=", 1);
        tell(story, head->fields[i].value.at, head->fields[i].value.n);
    }
    tell(story, ">", 1);
}

/* False: it was bad. */
static bool feed(struct http1_parser *parser, struct story *story, const char *bytes, size_t n)
{
    for (;;) {
        struct slice body = {NULL, 0};
        size_t took;
        enum http1_event event = http1_parse(parser, bytes, n, &took, &body);
        char line[16];

        assert_true(took <= n);
        bytes += took;
        n -= took;
        switch (event) {
        case HTTP1_MORE:
            assert_int_equal(n, 0);
            return true;
        case HTTP1_HEAD:
            tell_head(story, &parser->head);
            break;
        case HTTP1_BODY:
            tell(story, body.at, body.n);
            break;
        case HTTP1_END:
            tell(story, "!", 1);
            http1_parser_next(parser);
            break;
        case HTTP1_BAD:
            tell(story, line, (size_t)snprintf(line, sizeof line, "#%d", parser->status));
            return false;
        }
    }
}

/* The bytes in two or three pieces, then one by one: always the same story. */
static void expect_story(bool request, const char *bytes, size_t n, const char *want)
{
    struct http1_limits limits = {2000, 20, 100};

    for (size_t cut = 0; cut <= n + 1; cut++) {
        struct http1_parser parser;
        struct story story = {.n = 0};
        bool good = true;

        http1_parser_init(&parser, loop, request, &limits);
        if (cut <= n) {
            /* The pieces are copied, so that ASan sees a read beyond one. */
            char *first = malloc(cut + 1), *second = malloc(n - cut + 1);
            memcpy(first, bytes, cut);
            memcpy(second, bytes + cut, n - cut);
            good = cut == 0 || feed(&parser, &story, first, cut);
            if (good && n > cut)
                feed(&parser, &story, second, n - cut);
            free(first);
            free(second);
        } else {
            for (size_t i = 0; i < n && good; i++)
                good = feed(&parser, &story, bytes + i, 1);
        }
        http1_parser_fini(&parser);
        if (strcmp(story.text, want) != 0)
            fail_msg("cut at %zu:\n%s\nis told as\n%s\nnot as\n%s", cut, bytes, story.text, want);
    }
}

#define REQUEST(text, want) expect_story(true, text, sizeof(text) - 1, want)
#define REPLY(text, want) expect_story(false, text, sizeof(text) - 1, want)

static void requests_are_the_same_however_cut(void **state)
{
    (void)state;
    REQUEST("GET /a?b=c HTTP/1.1\r\nHost: x\r\n\r\n", "<GET /a?b=c 0 11 0|host=x>!");
    REQUEST("POST / HTTP/1.1\r\nHOST:x\r\nContent-Length: 5\r\nX-Empty:\r\n"
            "X: \t a b \t\r\n\r\nhello",
            "<POST / 0 11 5|host=x|content-length=5|x-empty=|x=a b>hello!");
    REQUEST("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
            "3\r\nabc\r\nA;ext=1\r\n0123456789\r\n0\r\nTrailer: t\r\n\r\n",
            "<POST / 0 11 -1|host=x|transfer-encoding=chunked>abc0123456789!");
    REQUEST("POST / HTTP/1.1\r\nHost: x\r\nX: a\tb\t\r\nContent-Length:\t3 \t\r\n\r\na\tb",
            "<POST / 0 11 3|host=x|x=a\tb|content-length=3>a\tb!");
    REQUEST("GET / HTTP/1.0\r\n\r\n", "<GET / 0 10 0>!");
    REQUEST("\r\nGET /1 HTTP/1.1\r\nHost: x\r\n\r\nGET /2 HTTP/1.1\r\nHost: y\r\n\r\n",
            "<GET /1 0 11 0|host=x>!<GET /2 0 11 0|host=y>!");
    REQUEST("GET / HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n"
            "GET /2 HTTP/1.1\r\nHost: x\r\n\r\n",
            "<GET / 0 11 0|host=x|connection=upgrade|upgrade=h2c>!<GET /2 0 11 0|host=x>!");
}

/* Clients that take us for a proxy send it; RFC 9112 has servers understand it. */
static void of_an_absolute_target_the_host_is_dropped(void **state)
{
    (void)state;
    REQUEST("GET http://x/a?b HTTP/1.1\r\nHost: y\r\n\r\n", "<GET /a?b 0 11 0|host=y>!");
    REQUEST("GET HTTPS://[::1]:8080/a HTTP/1.1\r\nHost: y\r\n\r\n", "<GET /a 0 11 0|host=y>!");
    REQUEST("GET http://x HTTP/1.1\r\nHost: y\r\n\r\n", "<GET / 0 11 0|host=y>!");
    REQUEST("GET http://x/http://y/ HTTP/1.1\r\nHost: y\r\n\r\n",
            "<GET /http://y/ 0 11 0|host=y>!");
    REQUEST("OPTIONS * HTTP/1.1\r\nHost: y\r\n\r\n", "<OPTIONS * 0 11 0|host=y>!");
    REQUEST("GET ftp://x/a HTTP/1.1\r\nHost: y\r\n\r\n", "<GET ftp://x/a 0 11 0|host=y>!");
    REQUEST("GET http:///a HTTP/1.1\r\nHost: y\r\n\r\n", "#400");
    REQUEST("GET http://x?a HTTP/1.1\r\nHost: y\r\n\r\n", "#400");
    REQUEST("GET http://u:p@x/a HTTP/1.1\r\nHost: y\r\n\r\n", "#400");
}

static void replies_are_the_same_however_cut(void **state)
{
    (void)state;
    REPLY("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", "<  200 11 2|content-length=2>hi!");
    REPLY("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
          "<  100 11 -1>!<  204 11 -1>!");
    REPLY("HTTP/1.1 304\r\nContent-Length: 7\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
          "<  304 11 7|content-length=7>!<  200 11 0|content-length=0>!");
    REPLY("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
          "<  200 11 -1|transfer-encoding=chunked>x!");
    REPLY("HTTP/1.1 200 OK\r\n\r\nto the end", "<  200 11 -1>to the end");
}

static void what_is_ambiguous_is_bad_however_cut(void **state)
{
    (void)state;
    REQUEST("GET / HTTP/1.1\r\nHost: x\r\n folded\r\n\r\n", "#400");
    REQUEST("GET / HTTP/1.1\r\nHost: x\r\nContent-Length:\r\n 5\r\n\r\nhello", "#400");
    REQUEST("GET / HTTP/1.1\nHost: x\n\n", "#400");
    REQUEST("GET  / HTTP/1.1\r\nHost: x\r\n\r\n", "#400");
    REQUEST("GET / HTTP/1.1\r\nHost: x\r\nExpect: x\r\n\r\n", "#417");
    REQUEST("GET / HTTP/1.1\r\nHost: x\r\nA: b\n\r\n", "#400");
    REQUEST("GET / HTTP/1.1\r\n\r\n", "#400");
    REQUEST("GET / HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n", "#400");
    REQUEST("GET / HTTP/1.1\r\nHost: x, y\r\n\r\n", "#400");
    REQUEST("GET / HTTP/1.1\r\nHost: x/y\r\n\r\n", "#400");
    REQUEST("GET / HTTP/1.1\r\nHost: u@x\r\n\r\n", "#400");
    REQUEST("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "#400");
    REQUEST("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
            "#501");
    REQUEST("CONNECT x:1 HTTP/1.1\r\nHost: x:1\r\n\r\n", "#501");
    REQUEST("BREW / HTTP/1.1\r\nHost: x\r\n\r\n", "#501");
    REQUEST("\x16\x03\x01\x02", "#400");
    REPLY("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "#400");
    REPLY("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "#400");
    REPLY("ICY 200 OK\r\n\r\n", "#400");
}

static void limits_hold(void **state)
{
    char text[4000];
    struct http1_limits limits = {2000, 20, 100};
    struct http1_parser parser;
    struct story story = {.n = 0};

    (void)state;
    snprintf(text, sizeof text, "GET /%0*d HTTP/1.1\r\nHost: x\r\n\r\n", 100, 0);
    http1_parser_init(&parser, loop, true, &limits);
    assert_false(feed(&parser, &story, text, strlen(text)));
    assert_int_equal(parser.status, 414);
    http1_parser_next(&parser);
    snprintf(text, sizeof text, "GET / HTTP/1.1\r\nHost: x\r\nBig: %0*d\r\n\r\n", 2000, 0);
    assert_false(feed(&parser, &story, text, strlen(text)));
    assert_int_equal(parser.status, 431);
    http1_parser_next(&parser);
    int n = snprintf(text, sizeof text, "GET / HTTP/1.1\r\n");
    for (int i = 0; i < 21; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, "a: b\r\n");
    assert_false(feed(&parser, &story, text, (size_t)n));
    assert_int_equal(parser.status, 431);
    http1_parser_fini(&parser);
}

/* Extensions of chunks are dropped, so they must not be a way to send for ever. */
static void overhead_is_bounded(void **state)
{
    struct http1_limits limits = {2000, 20, 100};
    struct http1_parser parser;
    struct story story = {.n = 0};
    char junk[500];
    bool good = true;
    int rounds = 0;

    (void)state;
    memset(junk, 'a', sizeof junk);
    http1_parser_init(&parser, loop, true, &limits);
    static const char head[] = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1;";
    assert_true(feed(&parser, &story, head, sizeof head - 1));
    for (; good && rounds < 100; rounds++)
        good = feed(&parser, &story, junk, sizeof junk);
    assert_false(good);
    assert_true(rounds < 10);
    http1_parser_fini(&parser);
}

static void the_end_of_a_connection_may_end_a_reply(void **state)
{
    static const char until_eof[] = "HTTP/1.1 200 OK\r\n\r\nabc";
    static const char short_one[] = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc";
    struct http1_limits limits = {2000, 20, 100};
    struct http1_parser parser;
    struct story story = {.n = 0};

    (void)state;
    http1_parser_init(&parser, loop, false, &limits);
    assert_int_equal(http1_parse_eof(&parser), HTTP1_MORE);
    assert_true(feed(&parser, &story, until_eof, sizeof until_eof - 1));
    assert_true(parser.until_eof);
    assert_int_equal(http1_parse_eof(&parser), HTTP1_END);
    http1_parser_next(&parser);
    assert_true(feed(&parser, &story, short_one, sizeof short_one - 1));
    assert_false(parser.until_eof);
    assert_int_equal(http1_parse_eof(&parser), HTTP1_BAD);
    http1_parser_fini(&parser);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_are_the_same_however_cut),
        cmocka_unit_test(of_an_absolute_target_the_host_is_dropped),
        cmocka_unit_test(replies_are_the_same_however_cut),
        cmocka_unit_test(what_is_ambiguous_is_bad_however_cut),
        cmocka_unit_test(limits_hold),
        cmocka_unit_test(overhead_is_bounded),
        cmocka_unit_test(the_end_of_a_connection_may_end_a_reply),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
