/* test_http2_frames.c - frames made by hand towards the server: what RFC 9113 forbids is refused
 * for the one exchange, or ends the connection, and what it allows is understood however it is cut.
 */
#include "net_frames.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void start(struct kit *kit)
{
    kit_init(kit);
    kit->options.http2 = true;
}

static char seen_cookie[256], seen_host[64];

static void note_fields(struct kit_in *in)
{
    struct slice cookie = http_find(&in->in->head, SLICE("cookie"));
    struct slice host = http_find(&in->in->head, SLICE("host"));

    snprintf(seen_cookie, sizeof seen_cookie, "%zu %.*s",
             http_count(&in->in->head, SLICE("cookie")), (int)cookie.n, cookie.at);
    snprintf(seen_host, sizeof seen_host, "%.*s", (int)host.n, host.at);
}

/* ---- What is allowed ------------------------------------------------------------------------- */

static size_t frame(char *to, int type, int flags, unsigned id, const char *payload, size_t n)
{
    char head[9] = {0, (char)(n >> 8), (char)n, (char)type, (char)flags, 0, 0, 0, (char)id};

    memcpy(to, head, 9);
    memcpy(to + 9, payload, n);
    return 9 + n;
}

/* Preface, settings, a head in two frames, a body in two, trailers. */
static size_t whole_request(char *bytes)
{
    static const char *const head[] = {":method", "POST", ":scheme", "http", ":path",
                                       "/x", ":authority", "a", "x-a", "1",
                                       NULL};
    static const char *const trailer[] = {"x-end", "2", NULL};
    char block[256];
    size_t n = frames_block(block, 0, head);

    memcpy(bytes, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24);
    size_t at = 24;
    at += frame(bytes + at, FRAME_SETTINGS, 0, 0, "", 0);
    at += frame(bytes + at, FRAME_HEADERS, 0, 1, block, 20);
    at += frame(bytes + at, FRAME_CONTINUATION, FLAG_END_HEADERS, 1, block + 20, n - 20);
    at += frame(bytes + at, FRAME_DATA, 0, 1, "he", 2);
    at += frame(bytes + at, FRAME_DATA, 0, 1, "llo", 3);
    n = frames_block(block, 0, trailer);
    return at + frame(bytes + at, FRAME_HEADERS, FLAG_END_HEADERS | FLAG_END_STREAM, 1, block, n);
}

static void a_request_is_the_same_however_cut(void **state)
{
    char bytes[512];
    size_t n = whole_request(bytes);
    struct kit kit;

    (void)state;
    start(&kit);
    kit.on_end = kit_echo;
    kit_listen(&kit);
    for (size_t cut = 1; cut < n; cut++) {
        struct kit_raw *raw = kit_connect(&kit);
        struct kit_in *in = &kit.ins[cut - 1];

        kit_put_bytes(&kit, raw, bytes, cut);
        kit_calm(&kit);
        kit_put_bytes(&kit, raw, bytes + cut, n - cut);
        kit_until(&kit, kit.n_ins == cut && in->gone);
        assert_int_equal(in->why, HTTP_DONE);
        assert_string_equal(in->line, "POST /x");
        assert_string_equal(in->body, "hello");
        assert_string_equal(in->trailers, "x-end: 2\n");
        kit_hang_up(raw);
        kit.n_raws--; /* its place is for the next */
        free(raw->got);
        free(raw);
    }
    kit_fini(&kit);
}

static void cookies_are_joined_and_hosts_are_one(void **state)
{
    static const char *const words[] = {
        ":method", "GET", ":scheme", "http", ":path", "/", ":authority", "a.example:80",
        "cookie", "a=1", "host", "A.example:80", "cookie", "b=2", "x", "y", "cookie", "c=3",
        NULL};
    struct kit kit;

    (void)state;
    start(&kit);
    kit.on_begin = note_fields;
    kit.on_end = kit_echo;
    kit_listen(&kit);
    struct frames *frames = frames_client(&kit);
    frames_put_head(frames, FLAG_END_STREAM, 1, words);
    frames_until(frames, frames_at(frames, 1)->ended);
    assert_string_equal(seen_cookie, "1 a=1; b=2; c=3");
    assert_string_equal(seen_host, "a.example:80");
    frames_free(frames);
    kit_fini(&kit);
}

/* A connection without an exchange gives way to a new one; with one it does not. */
static void an_idle_connection_gives_way(void **state)
{
    static const char *const words[] = {":method", "GET", ":scheme", "http", ":path",
                                        "/", ":authority", "a", NULL};
    struct kit kit;

    (void)state;
    start(&kit);
    kit.census.max = 2;
    kit_listen(&kit);
    struct frames *idle = frames_client(&kit), *busy = frames_client(&kit);
    frames_put_head(busy, FLAG_END_STREAM, 1, words);
    frames_until(busy, http_listener_busy(kit.listener) == 1);
    struct kit_raw *next = kit_connect(&kit);
    kit_until(&kit, atomic_load(&kit.census.gave_way) == 1);
    assert_int_equal(http_listener_open(kit.listener), 2);
    assert_int_equal(http_listener_busy(kit.listener), 1);
    kit_reply(&kit.ins[0], 200, "fine");
    frames_expect_status(busy, 1, 200);
    assert_false(next->eof || next->reset);
    frames_free(idle);
    frames_free(busy);
    kit_fini(&kit);
}

/* A client that has just sent its preface stays, as long as others have been silent for longer. */
static void a_fresh_connection_does_not_give_way_to_the_next(void **state)
{
    static const char *const words[] = {":method", "GET", ":scheme", "http", ":path",
                                        "/", ":authority", "a", NULL};
    struct kit_raw *silent[3];
    struct kit kit;

    (void)state;
    start(&kit);
    kit.census.max = 3;
    kit.on_end = kit_echo;
    kit_listen(&kit);
    for (size_t i = 0; i < COUNT_OF(silent); i++)
        silent[i] = kit_connect_from(&kit, 2);
    kit_until(&kit, http_listener_open(kit.listener) == 3);
    struct frames *first = frames_client(&kit), *second = frames_client(&kit);
    kit_until(&kit, atomic_load(&kit.census.gave_way) == 2);
    kit_until(&kit, kit_got(silent[0], "HTTP/1.1 503 ") && kit_got(silent[1], "HTTP/1.1 503 "));
    frames_put_head(first, FLAG_END_STREAM, 1, words);
    frames_expect_status(first, 1, 200);
    frames_put_head(second, FLAG_END_STREAM, 1, words);
    frames_expect_status(second, 1, 200);
    assert_false(silent[2]->eof || silent[2]->reset);
    frames_free(first);
    frames_free(second);
    kit_fini(&kit);
}

static void continue_is_sent_when_it_is_waited_for(void **state)
{
    static const char *const words[] = {":method", "POST", ":scheme", "http",
                                        ":path", "/", ":authority", "a",
                                        "expect", "100-continue", NULL};
    struct kit kit;

    (void)state;
    start(&kit);
    kit.on_end = kit_echo;
    kit_listen(&kit);
    struct frames *frames = frames_client(&kit);
    frames_put_head(frames, 0, 1, words);
    frames_until(frames, frames_at(frames, 1)->heads == 1);
    assert_int_equal(frames_at(frames, 1)->status, 100);
    frames_put(frames, FRAME_DATA, FLAG_END_STREAM, 1, "hi", 2);
    frames_expect_status(frames, 1, 200);
    assert_int_equal(frames_at(frames, 1)->data_bytes, 2);
    frames_free(frames);
    kit_fini(&kit);
}

/* ---- What is forbidden for an exchange ------------------------------------------------------- */

#define REQUEST ":method", "POST", ":scheme", "http", ":path", "/", ":authority", "a"

static const struct {
    const char *what;
    const char *words[20];
} malformed[] = {
    {"an upper case name", {REQUEST, "X-Upper", "1", NULL}},
    {"connection", {REQUEST, "connection", "close", NULL}},
    {"keep-alive", {REQUEST, "keep-alive", "1", NULL}},
    {"proxy-connection", {REQUEST, "proxy-connection", "close", NULL}},
    {"transfer-encoding", {REQUEST, "transfer-encoding", "chunked", NULL}},
    {"upgrade", {REQUEST, "upgrade", "h2c", NULL}},
    {"te of another kind", {REQUEST, "te", "gzip", NULL}},
    {"no path", {":method", "GET", ":scheme", "http", ":authority", "a", NULL}},
    {"an empty path", {":method", "GET", ":scheme", "http", ":path", "", ":authority", "a", NULL}},
    {"no method", {":scheme", "http", ":path", "/", ":authority", "a", NULL}},
    {"no scheme", {":method", "GET", ":path", "/", ":authority", "a", NULL}},
    {"no host", {":method", "GET", ":scheme", "http", ":path", "/", NULL}},
    {"two paths", {REQUEST, ":path", "/y", NULL}},
    {"a path after a field",
     {":method", "GET", ":scheme", "http", ":authority", "a", "x", "y", ":path", "/", NULL}},
    {"an unknown pseudo-field", {REQUEST, ":colour", "red", NULL}},
    {"a status", {REQUEST, ":status", "200", NULL}},
    {"a line end in a value", {REQUEST, "x", "a\r\nb: c", NULL}},
    {"a space in a name", {REQUEST, "x y", "1", NULL}},
    {"an empty name", {REQUEST, "", "1", NULL}},
    {"two lengths", {REQUEST, "content-length", "1", "content-length", "2", NULL}},
    {"a length that is none", {REQUEST, "content-length", "+1", NULL}},
    {"a path without a slash",
     {":method", "GET", ":scheme", "http", ":path", "x", ":authority", "a", NULL}},
};

static void malformed_requests_are_reset_alone(void **state)
{
    struct kit kit;
    uint32_t id = 1;

    (void)state;
    start(&kit);
    kit.on_end = kit_echo;
    kit_listen(&kit);
    struct frames *frames = frames_client(&kit);
    for (size_t i = 0; i < COUNT_OF(malformed); i++, id += 2) {
        frames_put_head(frames, FLAG_END_STREAM, id, malformed[i].words);
        frames_until(frames, frames_at(frames, id)->reset || frames_at(frames, id)->ended ||
                                 frames->raw->eof);
        if (!frames_at(frames, id)->reset || frames_at(frames, id)->code != HTTP2_PROTOCOL_ERROR)
            fail_msg("%s is not refused", malformed[i].what);
    }
    assert_int_equal(kit.n_ins, 0);
    frames_post(frames, id, true);
    frames_expect_status(frames, id, 200);
    frames_free(frames);
    kit_fini(&kit);
}

/* The owner has been told of a request that turns out to be none: it is told of that, too. */
static void a_body_of_another_length_is_an_error(void **state)
{
    static const char *const words[] = {REQUEST, "content-length", "5", NULL};
    struct kit kit;

    (void)state;
    start(&kit);
    kit_listen(&kit);
    struct frames *frames = frames_client(&kit);
    frames_put_head(frames, 0, 1, words);
    frames_put(frames, FRAME_DATA, FLAG_END_STREAM, 1, "four", 4);
    frames_until(frames, frames_at(frames, 1)->reset);
    assert_true(kit.ins[0].gone && !kit.ins[0].ended);
    assert_int_equal(kit.ins[0].why, HTTP_ERROR);
    frames_put_head(frames, 0, 3, words);
    frames_put(frames, FRAME_DATA, FLAG_END_STREAM, 3, "six666", 6);
    frames_until(frames, frames_at(frames, 3)->reset);
    assert_true(kit.ins[1].gone && !kit.ins[1].ended);
    assert_int_equal(kit.ins[1].body_n, 0);
    frames_free(frames);
    kit_fini(&kit);
}

static char long_path[20000];

static void refusals_are_replies(void **state)
{
    static const char *const two_hosts[] = {REQUEST, "host", "b", NULL};
    static const char *const user[] = {":method", "GET", ":scheme", "http", ":path",
                                       "/", "host", "a b", NULL};
    static const char *const tunnel[] = {":method", "CONNECT", ":authority", "a:1", NULL};
    static const char *const too_long[] = {":method", "GET", ":scheme", "http", ":path",
                                           long_path, ":authority", "a", NULL};
    static const struct {
        const char *const *words;
        int status;
    } cases[] = {{two_hosts, 400}, {user, 400}, {tunnel, 501}, {too_long, 414}};
    struct kit kit;
    uint32_t id = 1;

    (void)state;
    start(&kit);
    kit.options.limits.target_bytes = 1000;
    kit_listen(&kit);
    memset(long_path, 'x', 2000);
    long_path[0] = '/';
    struct frames *frames = frames_client(&kit);
    for (size_t i = 0; i < COUNT_OF(cases); i++, id += 2) {
        frames_put_head(frames, FLAG_END_STREAM, id, cases[i].words);
        frames_until(frames, frames_at(frames, id)->ended || frames_at(frames, id)->reset);
        if (cases[i].words == user) /* nghttp2 refuses it before us */
            assert_true(frames_at(frames, id)->reset || frames_at(frames, id)->status == 400);
        else
            assert_int_equal(frames_at(frames, id)->status, cases[i].status);
    }
    assert_int_equal(kit.n_ins, 0);
    frames_free(frames);
    kit_fini(&kit);
}

/* ---- What is forbidden on a connection ------------------------------------------------------- */

static void expect_end(struct kit *kit, struct frames *frames)
{
    frames_until(frames, frames->raw->eof || frames->raw->reset);
    kit_hang_up(frames->raw);
    kit_until(kit, http_listener_open(kit->listener) == 0);
    frames_free(frames);
}

static void breaking_the_rules_ends_the_connection(void **state)
{
    struct kit kit;

    (void)state;
    start(&kit);
    kit_listen(&kit);
    struct frames *frames = frames_client(&kit);
    frames_put(frames, FRAME_DATA, 0, 0, "x", 1); /* for no exchange */
    frames_until(frames, frames->goaway);
    assert_int_equal(frames->goaway_code, HTTP2_PROTOCOL_ERROR);
    expect_end(&kit, frames);
    frames = frames_client(&kit);
    frames_post(frames, 2, true); /* a number that is not the client's */
    frames_until(frames, frames->goaway);
    expect_end(&kit, frames);
    frames = frames_client(&kit);
    frames_put(frames, FRAME_HEADERS, FLAG_END_HEADERS, 1, "\xff\xff\xff\xff\xff", 5);
    frames_until(frames, frames->goaway);
    assert_int_equal(frames->goaway_code, NGHTTP2_COMPRESSION_ERROR);
    expect_end(&kit, frames);
    frames = frames_client(&kit);
    frames_put(frames, FRAME_HEADERS, 0, 1, "\x82", 1);
    frames_put(frames, FRAME_PING, 0, 0, "12345678", 8); /* within a header block */
    frames_until(frames, frames->goaway);
    expect_end(&kit, frames);
    assert_int_equal(kit.n_ins, 0);
    kit_fini(&kit);
}

static void who_begins_otherwise_is_closed(void **state)
{
    struct kit kit;

    (void)state;
    start(&kit);
    kit_listen(&kit);
    struct kit_raw *raw = kit_connect(&kit);
    kit_put(&kit, raw, "PRI * HTTP/2.0\r\n\r\nXM\r\n\r\n");
    kit_until(&kit, raw->eof || raw->reset);
    raw = kit_connect(&kit);
    kit_put(&kit, raw, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    kit_put(&kit, raw, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); /* no settings */
    kit_until(&kit, raw->eof || raw->reset);
    assert_int_equal(kit.n_ins, 0);
    kit_fini(&kit);
}

static void refuse_at_once(struct kit_in *in)
{
    const struct http_field why = {SLICE("x-why"), SLICE("so")};
    const struct http_head head = {.status = 200, .fields = &why, .n_fields = 1};

    http_inbound_send(in->in, &head, (struct slice){"", 0});
}

/* Some clients look at their socket again only when something comes. */
static void who_was_answered_by_a_head_before_its_end_is_nudged_then(void **state)
{
    struct kit kit;

    (void)state;
    start(&kit);
    kit.options.limits.linger_ms = 100000;
    kit.on_begin = refuse_at_once;
    kit_listen(&kit);
    struct frames *frames = frames_client(&kit);
    frames_post(frames, 1, false);
    frames_until(frames, frames_at(frames, 1)->ended);
    kit_calm(&kit);
    frames_read(frames);
    assert_int_equal(frames->seen[FRAME_PING], 0);
    frames_put(frames, FRAME_DATA, FLAG_END_STREAM, 1, "late", 4);
    frames_until(frames, frames->seen[FRAME_PING] == 1);
    frames_post(frames, 3, true); /* its end came with it: nothing to wait for */
    frames_until(frames, frames_at(frames, 3)->ended);
    kit_calm(&kit);
    frames_read(frames);
    assert_int_equal(frames->seen[FRAME_PING], 1);
    http_listener_drain(kit.listener); /* its ACK is not the one that leaving waits for */
    frames_put(frames, FRAME_PING, FLAG_ACK, 0, "\1\0\0\0\0\0\0\0", 8);
    frames_until(frames, frames->seen[FRAME_PING] == 2);
    kit_calm(&kit);
    frames_read(frames);
    assert_int_equal(frames->seen[FRAME_GOAWAY], 1);
    frames_free(frames);
    kit_fini(&kit);
}

static void an_idle_connection_stays_while_its_owner_wants_it(void **state)
{
    struct kit kit;

    (void)state;
    start(&kit);
    kit.options.limits.idle_ms = 5;
    kit.keep = INT_MAX;
    kit.on_begin = refuse_at_once;
    kit_listen(&kit);
    struct frames *frames = frames_client(&kit);
    frames_post(frames, 1, true);
    frames_until(frames, frames_at(frames, 1)->ended);
    kit.keep = 3;
    frames_until(frames, frames->goaway);
    assert_int_equal(frames->goaway_code, HTTP2_NO_ERROR);
    assert_int_equal(kit.keep, 0); /* asked three times before it went */
    frames_free(frames);
    kit_fini(&kit);
}

/* A client that has not heard yet that we leave gets its reply; one that has, is not waited for. */
static void leaving_waits_until_it_is_heard(void **state)
{
    struct kit kit;

    (void)state;
    start(&kit);
    kit.options.limits.linger_ms = 100000;
    kit_listen(&kit);
    struct frames *frames = frames_client(&kit);
    frames_post(frames, 1, true);
    kit_until(&kit, kit.n_ins == 1);
    http_listener_drain(kit.listener);
    frames_until(frames, frames->goaway && frames->seen[FRAME_PING] == 1);
    assert_int_equal(frames->goaway_code, HTTP2_NO_ERROR);
    frames_post(frames, 3, true); /* crossed it on its way */
    kit_until(&kit, kit.n_ins == 2);
    frames_put(frames, FRAME_PING, FLAG_ACK, 0, "\0\0\0\0\0\0\0\0", 8);
    frames_until(frames, frames->seen[FRAME_GOAWAY] == 2);
    frames_post(frames, 5, true); /* should have known */
    kit_calm(&kit);
    assert_int_equal(kit.n_ins, 2);
    kit_reply(&kit.ins[0], 200, "one");
    kit_reply(&kit.ins[1], 200, "two");
    frames_until(frames, frames_at(frames, 1)->ended && frames_at(frames, 3)->ended);
    frames_until(frames, frames->raw->eof);
    assert_int_equal(kit.ins[1].why, HTTP_DONE);
    kit_hang_up(frames->raw);
    kit_until(&kit, http_listener_open(kit.listener) == 0);
    frames_free(frames);
    kit_fini(&kit);
}

/* And who never says that it has heard is not waited for long. */
static void leaving_does_not_wait_for_ever(void **state)
{
    struct kit kit;

    (void)state;
    start(&kit);
    kit.options.limits.linger_ms = 30;
    kit_listen(&kit);
    struct frames *frames = frames_client(&kit);
    frames_until(frames, frames->acks == 1);
    http_listener_drain(kit.listener);
    frames_until(frames, frames->seen[FRAME_GOAWAY] == 2 && frames->raw->eof);
    kit_until(&kit, http_listener_open(kit.listener) == 0);
    frames_free(frames);
    kit_fini(&kit);
}

/* Where it is not spoken, the preface is no HTTP/1 either. */
static void without_http2_the_preface_is_refused(void **state)
{
    struct kit kit;

    (void)state;
    kit_init(&kit);
    kit_listen(&kit);
    struct kit_raw *raw = kit_connect(&kit);
    kit_put(&kit, raw, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    kit_until(&kit, raw->eof || raw->reset);
    assert_true(kit_got(raw, "HTTP/1.1 505"));
    kit_fini(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_the_same_however_cut),
        cmocka_unit_test(cookies_are_joined_and_hosts_are_one),
        cmocka_unit_test(an_idle_connection_gives_way),
        cmocka_unit_test(a_fresh_connection_does_not_give_way_to_the_next),
        cmocka_unit_test(continue_is_sent_when_it_is_waited_for),
        cmocka_unit_test(malformed_requests_are_reset_alone),
        cmocka_unit_test(a_body_of_another_length_is_an_error),
        cmocka_unit_test(refusals_are_replies),
        cmocka_unit_test(breaking_the_rules_ends_the_connection),
        cmocka_unit_test(who_begins_otherwise_is_closed),
        cmocka_unit_test(who_was_answered_by_a_head_before_its_end_is_nudged_then),
        cmocka_unit_test(an_idle_connection_stays_while_its_owner_wants_it),
        cmocka_unit_test(leaving_waits_until_it_is_heard),
        cmocka_unit_test(leaving_does_not_wait_for_ever),
        cmocka_unit_test(without_http2_the_preface_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
