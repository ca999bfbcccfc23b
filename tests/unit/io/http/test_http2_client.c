/* test_http2_client.c - frames made by hand towards the client: what upstreams of HTTP/2 may say,
 * what they must not, and which exchanges a connection takes with it when it ends.
 */
#include "net_frames.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct pair {
    struct kit kit;
    struct http_origin *origin;
    int listening, port;
    struct kit_out out;
    struct frames *up;
};

static void pair_init(struct pair *pair)
{
    kit_init(&pair->kit);
    pair->listening = kit_raw_listen(&pair->port);
    pair->origin = kit_origin_http2(pair->port, NULL, NULL, HTTP2_PRIOR);
    pair->out = (struct kit_out){0};
    pair->up = NULL;
    kit_client(&pair->kit);
}

static void pair_fini(struct pair *pair)
{
    kit_out_fini(&pair->out);
    if (pair->up != NULL)
        frames_free(pair->up);
    http_origin_unref(pair->origin);
    close(pair->listening);
    kit_fini(&pair->kit);
}

static struct frames *accept_next(struct pair *pair)
{
    return frames_server(&pair->kit, kit_raw_accept(&pair->kit, pair->listening));
}

/* A GET whose head has arrived, as the first exchange of a connection. */
static void pair_get(struct pair *pair)
{
    kit_send(&pair->kit, &pair->out, pair->origin, "GET", "/x?y", 0);
    pair->up = accept_next(pair);
    frames_until(pair->up, frames_at(pair->up, 1)->ended);
}

static void put_reply(struct frames *up, uint32_t id, const char *body)
{
    static const char *const ok[] = {":status", "200", "content-type", "a/b", NULL};

    frames_put_head(up, 0, id, ok);
    frames_put(up, FRAME_DATA, FLAG_END_STREAM, id, body, strlen(body));
}

/* ---- What goes out --------------------------------------------------------------------------- */

static const struct http_client_ops no_ops;

static void requests_are_framed_by_us(void **state)
{
    struct http_field fields[] = {
        {SLICE("TE"), SLICE("trailers")},
        {SLICE("connection"), SLICE("x-hop")},
        {SLICE("x-hop"), SLICE("1")},
        {SLICE("Host"), SLICE("elsewhere")},
        {SLICE("X-Upper"), SLICE(" spaced ")},
        {SLICE("content-length"), SLICE("7")},
        {SLICE("transfer-encoding"), SLICE("chunked")},
    };
    struct http_head head = {.method = SLICE("POST"),
                             .target = SLICE("/x?y"),
                             .fields = fields,
                             .n_fields = COUNT_OF(fields),
                             .length = 2};
    struct http_timeouts timeouts = {0};
    struct pair pair;
    char want[256];

    (void)state;
    pair_init(&pair);
    struct http_outbound *out =
        http_send(pair.kit.client, pair.origin, &head, &timeouts, &no_ops, NULL);
    assert_non_null(out);
    http_outbound_write(out, SLICE("hi"));
    http_outbound_finish(out);
    pair.up = accept_next(&pair);
    frames_until(pair.up, frames_at(pair.up, 1)->ended);
    snprintf(want, sizeof want,
             ":method: POST\n:scheme: http\n:authority: 127.0.0.1:%d\n:path: /x?y\n"
             "content-length: 2\nte: trailers\nx-upper: spaced\n",
             pair.port);
    assert_string_equal(frames_at(pair.up, 1)->text, want);
    assert_int_equal(frames_at(pair.up, 1)->data_bytes, 2);
    http_outbound_cancel(out);
    frames_until(pair.up, frames_at(pair.up, 1)->reset);
    assert_int_equal(frames_at(pair.up, 1)->code, HTTP2_CANCEL);
    pair_fini(&pair);
}

/* What cannot be said in HTTP is said to nobody. */
static void unfit_requests_fail_before_they_are_sent(void **state)
{
    struct pair pair;

    (void)state;
    pair_init(&pair);
    kit_send(&pair.kit, &pair.out, pair.origin, "GET", "/a b", 0);
    kit_expect_failure(&pair.out, HTTP_UNFIT);
    kit_send(&pair.kit, &pair.out, pair.origin, "POST", "/", 5);
    http_outbound_write(pair.out.out, SLICE("abc"));
    http_outbound_finish(pair.out.out);
    kit_expect_failure(&pair.out, HTTP_UNFIT);
    pair_fini(&pair);
}

static void a_body_goes_as_far_as_the_window(void **state)
{
    static const char piece[200000];
    struct pair pair;

    (void)state;
    pair_init(&pair);
    kit_send(&pair.kit, &pair.out, pair.origin, "POST", "/", -1);
    assert_true(http_outbound_write(pair.out.out, (struct slice){piece, sizeof piece}) >
                HTTP_OUTPUT_HIGH);
    pair.up = accept_next(&pair);
    frames_until(pair.up, frames_at(pair.up, 1)->data_bytes == 65535);
    kit_calm(&pair.kit);
    frames_read(pair.up);
    assert_int_equal(frames_at(pair.up, 1)->data_bytes, 65535);
    assert_int_equal(http_outbound_queued(pair.out.out), sizeof piece - 65535);
    assert_int_equal(pair.out.rooms, 0);
    frames_put_u32(pair.up, FRAME_WINDOW, 0, 1000000);
    frames_put_u32(pair.up, FRAME_WINDOW, 1, 1000000);
    frames_until(pair.up, frames_at(pair.up, 1)->data_bytes == sizeof piece);
    kit_until(&pair.kit, pair.out.rooms == 1);
    http_outbound_finish(pair.out.out);
    frames_until(pair.up, frames_at(pair.up, 1)->ended);
    put_reply(pair.up, 1, "ok");
    kit_until(&pair.kit, pair.out.ended);
    pair_fini(&pair);
}

/* ---- What comes back ------------------------------------------------------------------------- */

static void interim_replies_are_skipped_and_trailers_kept(void **state)
{
    static const char *const early[] = {":status", "103", "link", "x", NULL};
    static const char *const ok[] = {":status", "200", "content-type", "a/b", NULL};
    static const char *const trailers[] = {"grpc-status", "0", "x-end", "1", NULL};
    struct pair pair;

    (void)state;
    pair_init(&pair);
    pair_get(&pair);
    frames_put_head(pair.up, 0, 1, early);
    frames_put_head(pair.up, 0, 1, early);
    frames_put_head(pair.up, 0, 1, ok);
    frames_put(pair.up, FRAME_DATA, 0, 1, "hello", 5);
    frames_put_head(pair.up, FLAG_END_STREAM, 1, trailers);
    kit_expect_reply(&pair.out);
    assert_int_equal(pair.out.status, 200);
    assert_string_equal(pair.out.type, "a/b");
    assert_int_equal(pair.out.length, -1);
    assert_string_equal(pair.out.body, "hello");
    assert_string_equal(pair.out.trailers, "grpc-status: 0\nx-end: 1\n");
    pair_fini(&pair);
}

static void interim_replies_without_an_end_are_garbage(void **state)
{
    static const char *const early[] = {":status", "103", NULL};
    struct pair pair;

    (void)state;
    pair_init(&pair);
    pair_get(&pair);
    for (int i = 0; i < 50 && !kit_over(&pair.out); i++) {
        frames_put_head(pair.up, 0, 1, early);
        kit_calm(&pair.kit);
    }
    assert_int_equal(pair.out.why, HTTP_GARBAGE);
    pair_fini(&pair);
}

static void the_reply_may_come_before_the_request_has_ended(void **state)
{
    struct pair pair;

    (void)state;
    pair_init(&pair);
    kit_send(&pair.kit, &pair.out, pair.origin, "POST", "/", -1);
    http_outbound_write(pair.out.out, SLICE("some"));
    pair.up = accept_next(&pair);
    frames_until(pair.up, frames_at(pair.up, 1)->data_bytes == 4);
    put_reply(pair.up, 1, "no");
    kit_until(&pair.kit, pair.out.ended);
    frames_until(pair.up, frames_at(pair.up, 1)->reset);
    kit_out_fini(&pair.out);
    kit_send(&pair.kit, &pair.out, pair.origin, "GET", "/", 0);
    frames_until(pair.up, frames_at(pair.up, 3)->ended); /* by the same connection */
    put_reply(pair.up, 3, "yes");
    kit_until(&pair.kit, pair.out.ended);
    assert_true(pair.out.reused);
    pair_fini(&pair);
}

/* ---- Resets ---------------------------------------------------------------------------------- */

static void a_reset_says_its_code_and_whether_to_try_again(void **state)
{
    static const struct {
        uint32_t code;
        bool sent;
    } cases[] = {
        {HTTP2_REFUSED_STREAM, false},
        {HTTP2_CANCEL, true},
        {HTTP2_NO_ERROR, true},
        {4711, true},
    };
    struct pair pair;
    uint32_t id = 1;

    (void)state;
    pair_init(&pair);
    for (size_t i = 0; i < COUNT_OF(cases); i++, id += 2) {
        kit_send(&pair.kit, &pair.out, pair.origin, "GET", "/", 0);
        if (pair.up == NULL)
            pair.up = accept_next(&pair);
        frames_until(pair.up, frames_at(pair.up, id)->ended);
        frames_put_u32(pair.up, FRAME_RST, id, cases[i].code);
        kit_expect_failure(&pair.out, HTTP_RESET);
        assert_true(pair.out.was_reset);
        assert_int_equal(pair.out.reset_code, cases[i].code);
        assert_int_equal(pair.out.sent, cases[i].sent);
    }
    pair_fini(&pair);
}

/* Whatever stands before it on its connection, here next to nothing: it would be run twice. */
static void a_long_head_that_arrived_was_sent(void **state)
{
    char target[2000];

    (void)state;
    memset(target, 'x', sizeof target);
    target[0] = '/';
    target[sizeof target - 1] = '\0';
    for (int breaks = 0; breaks < 2; breaks++) {
        struct pair pair;
        pair_init(&pair);
        kit_send(&pair.kit, &pair.out, pair.origin, "POST", target, -1);
        pair.up = accept_next(&pair);
        frames_until(pair.up, frames_at(pair.up, 1)->heads == 1);
        if (breaks)
            kit_hang_up(pair.up->raw);
        else
            frames_put_u32(pair.up, FRAME_RST, 1, HTTP2_INTERNAL_ERROR);
        kit_expect_failure(&pair.out, HTTP_RESET);
        assert_int_equal(pair.out.was_reset, !breaks);
        assert_true(pair.out.sent);
        pair_fini(&pair);
    }
}

/* NO_ERROR after a whole reply only says that the rest of the request is not wanted. */
static void a_reset_after_the_reply_is_none(void **state)
{
    struct pair pair;

    (void)state;
    pair_init(&pair);
    kit_send(&pair.kit, &pair.out, pair.origin, "POST", "/", -1);
    pair.up = accept_next(&pair);
    frames_until(pair.up, frames_at(pair.up, 1)->heads == 1);
    http_outbound_pause(pair.out.out);
    put_reply(pair.up, 1, "early");
    frames_put_u32(pair.up, FRAME_RST, 1, HTTP2_NO_ERROR);
    kit_calm(&pair.kit);
    assert_false(kit_over(&pair.out));
    http_outbound_resume(pair.out.out);
    kit_expect_reply(&pair.out);
    assert_string_equal(pair.out.body, "early");
    pair_fini(&pair);
}

static void goaway_spares_what_was_looked_at(void **state)
{
    static const unsigned char last_is_one[8] = {0, 0, 0, 1};
    struct pair pair;
    struct kit_out second, third;

    (void)state;
    pair_init(&pair);
    pair_get(&pair);
    kit_send(&pair.kit, &second, pair.origin, "GET", "/", 0);
    frames_until(pair.up, frames_at(pair.up, 3)->ended);
    frames_put(pair.up, FRAME_GOAWAY, 0, 0, last_is_one, sizeof last_is_one);
    kit_expect_failure(&second, HTTP_RESET);
    assert_false(second.sent); /* though it was: it may be sent again */
    assert_false(second.was_reset);
    assert_false(kit_over(&pair.out));
    /* The next goes by another connection. */
    kit_send(&pair.kit, &third, pair.origin, "GET", "/", 0);
    struct frames *other = accept_next(&pair);
    frames_until(other, frames_at(other, 1)->ended);
    put_reply(other, 1, "third");
    kit_until(&pair.kit, third.ended);
    assert_false(third.reused);
    put_reply(pair.up, 1, "first");
    kit_until(&pair.kit, pair.out.ended);
    assert_string_equal(pair.out.body, "first");
    kit_until(&pair.kit, pair.up->raw->eof || pair.up->raw->reset); /* then it is closed */
    kit_out_fini(&second);
    kit_out_fini(&third);
    frames_free(other);
    pair_fini(&pair);
}

static void a_connection_takes_its_exchanges_with_it(void **state)
{
    struct pair pair;
    struct kit_out second;

    (void)state;
    pair_init(&pair);
    pair_get(&pair);
    kit_send(&pair.kit, &second, pair.origin, "POST", "/", -1);
    frames_until(pair.up, frames_at(pair.up, 3)->heads == 1);
    put_reply(pair.up, 1, "whole");
    kit_hang_up(pair.up->raw);
    kit_until(&pair.kit, kit_over(&pair.out) && kit_over(&second));
    assert_true(pair.out.ended);
    assert_int_equal(second.why, HTTP_RESET);
    assert_true(second.sent);
    assert_false(second.was_reset);
    assert_int_equal(http_client_busy(pair.kit.client), 0);
    assert_int_equal(http_client_idle(pair.kit.client), 0);
    kit_out_fini(&second);
    pair_fini(&pair);
}

/* A kept connection whose end the system knows is not used any more. */
static void a_kept_connection_that_died_is_replaced(void **state)
{
    struct pair pair;

    (void)state;
    pair_init(&pair);
    pair_get(&pair);
    put_reply(pair.up, 1, "one");
    kit_until(&pair.kit, pair.out.ended);
    kit_out_fini(&pair.out);
    kit_hang_up(pair.up->raw);
    kit_send(&pair.kit, &pair.out, pair.origin, "GET", "/", 0); /* before the loop has looked */
    struct frames *other = accept_next(&pair);
    frames_until(other, frames_at(other, 1)->ended);
    put_reply(other, 1, "two");
    kit_expect_reply(&pair.out);
    assert_false(pair.out.reused);
    frames_free(other);
    pair_fini(&pair);
}

/* ---- Room ------------------------------------------------------------------------------------ */

static void the_upstreams_limit_is_kept(void **state)
{
    struct pair pair;
    struct kit_out outs[3];

    (void)state;
    pair_init(&pair);
    pair_get(&pair);
    frames_put_setting(pair.up, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 2);
    frames_until(pair.up, pair.up->acks == 2);
    for (size_t i = 0; i < COUNT_OF(outs); i++)
        kit_send(&pair.kit, &outs[i], pair.origin, "GET", "/", 0);
    frames_until(pair.up, frames_at(pair.up, 3)->ended);
    struct frames *other = accept_next(&pair); /* for the two that found no room */
    frames_until(other, frames_at(other, 1)->ended && frames_at(other, 3)->ended);
    frames_read(pair.up);
    assert_int_equal(frames_at(pair.up, 5)->heads, 0);
    put_reply(pair.up, 1, "a");
    put_reply(pair.up, 3, "b");
    put_reply(other, 1, "c");
    put_reply(other, 3, "d");
    kit_until(&pair.kit, pair.out.ended);
    for (size_t i = 0; i < COUNT_OF(outs); i++) {
        kit_until(&pair.kit, outs[i].ended);
        kit_out_fini(&outs[i]);
    }
    frames_free(other);
    pair_fini(&pair);
}

/* How many it takes is not known before its settings: one goes first, and none is refused. */
static void the_first_goes_alone_until_the_upstream_has_settled(void **state)
{
    struct pair pair;
    struct kit_out outs[2];

    (void)state;
    pair_init(&pair);
    kit_send(&pair.kit, &pair.out, pair.origin, "GET", "/", 0);
    for (size_t i = 0; i < COUNT_OF(outs); i++)
        kit_send(&pair.kit, &outs[i], pair.origin, "GET", "/", 0);
    struct kit_raw *raw = kit_raw_accept(&pair.kit, pair.listening);
    kit_until(&pair.kit, raw->n > 100); /* a preface, settings and the first */
    kit_calm(&pair.kit);
    pair.up = frames_server(&pair.kit, raw);
    frames_read(pair.up); /* what came before the settings were on their way */
    assert_true(frames_at(pair.up, 1)->ended);
    assert_int_equal(frames_at(pair.up, 3)->heads, 0);
    frames_until(pair.up, frames_at(pair.up, 3)->ended && frames_at(pair.up, 5)->ended);
    for (uint32_t id = 1; id <= 5; id += 2)
        put_reply(pair.up, id, "ok");
    kit_until(&pair.kit, pair.out.ended && outs[0].ended && outs[1].ended);
    for (size_t i = 0; i < COUNT_OF(outs); i++)
        kit_out_fini(&outs[i]);
    pair_fini(&pair);
}

/* Connected, and then nothing: nobody waits for it longer than for a connection. */
static void an_upstream_that_never_settles_is_given_up(void **state)
{
    const struct http_timeouts timeouts = {.connect = 50};
    struct pair pair;
    struct kit_out other = {0};

    (void)state;
    pair_init(&pair);
    kit_send_within(&pair.kit, &pair.out, pair.origin, "GET", "/", 0, &timeouts);
    kit_send_within(&pair.kit, &other, pair.origin, "GET", "/", 0, &timeouts);
    kit_until(&pair.kit, kit_over(&pair.out) && kit_over(&other));
    assert_int_equal(pair.out.why, HTTP_LATE_CONNECT);
    assert_int_equal(other.why, HTTP_LATE_CONNECT);
    assert_int_equal(http_client_busy(pair.kit.client), 0);
    kit_out_fini(&other);
    pair_fini(&pair);
}

/* A handler that does not read its body fills the connection's window: it holds up no other. */
static void who_fills_the_window_holds_up_nobody(void **state)
{
    static const char piece[100000];
    struct pair pair;
    struct kit_out next = {0};

    (void)state;
    pair_init(&pair);
    kit_send(&pair.kit, &pair.out, pair.origin, "POST", "/", -1);
    http_outbound_write(pair.out.out, (struct slice){piece, sizeof piece});
    pair.up = accept_next(&pair);
    frames_until(pair.up, frames_at(pair.up, 1)->data_bytes == 65535);
    tg_ms full_at = net_loop_now(pair.kit.loop);
    kit_until(&pair.kit, net_loop_now(pair.kit.loop) > full_at + 300);
    kit_send(&pair.kit, &next, pair.origin, "POST", "/", -1);
    http_outbound_write(next.out, SLICE("hi"));
    struct frames *other = accept_next(&pair);
    frames_until(other, frames_at(other, 1)->data_bytes == 2);
    kit_out_fini(&next);
    /* What it waits for comes in the end. */
    frames_put_u32(pair.up, FRAME_WINDOW, 0, 1000000);
    frames_put_u32(pair.up, FRAME_WINDOW, 1, 1000000);
    frames_until(pair.up, frames_at(pair.up, 1)->data_bytes == sizeof piece);
    frames_free(other);
    pair_fini(&pair);
}

/* Nor for good, where there is no other connection to be had. */
static void who_waited_for_the_window_goes_on_when_it_opens(void **state)
{
    static const char piece[100000];
    struct pair pair;
    struct kit_out next = {0};

    (void)state;
    pair_init(&pair);
    kit_send(&pair.kit, &pair.out, pair.origin, "POST", "/", -1);
    http_outbound_write(pair.out.out, (struct slice){piece, sizeof piece});
    pair.up = accept_next(&pair);
    frames_until(pair.up, frames_at(pair.up, 1)->data_bytes == 65535);
    close(pair.listening);
    pair.listening = -1;
    tg_ms full_at = net_loop_now(pair.kit.loop);
    kit_until(&pair.kit, net_loop_now(pair.kit.loop) > full_at + 300);
    kit_send(&pair.kit, &next, pair.origin, "POST", "/", -1);
    http_outbound_write(next.out, SLICE("hi"));
    kit_calm(&pair.kit);
    assert_false(kit_over(&next));
    frames_put_u32(pair.up, FRAME_WINDOW, 0, 1000000);
    frames_until(pair.up, frames_at(pair.up, 3)->data_bytes == 2);
    kit_out_fini(&next);
    pair_fini(&pair);
}

/* ---- Garbage --------------------------------------------------------------------------------- */

static void upstreams_that_speak_something_else_are_garbage(void **state)
{
    struct pair pair;

    (void)state;
    pair_init(&pair);
    kit_send(&pair.kit, &pair.out, pair.origin, "GET", "/", 0);
    struct kit_raw *raw = kit_raw_accept(&pair.kit, pair.listening);
    kit_until(&pair.kit, raw->n > 24);
    kit_put(&pair.kit, raw, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
    kit_until(&pair.kit, kit_over(&pair.out));
    assert_true(pair.out.failed);
    assert_true(pair.out.why == HTTP_GARBAGE || pair.out.why == HTTP_RESET);
    assert_int_equal(http_client_busy(pair.kit.client), 0);
    pair_fini(&pair);
}

static char large[15000];

static void malformed_replies_are_garbage_for_one_exchange(void **state)
{
    static const char *const no_status[] = {"content-type", "a/b", NULL};
    static const char *const odd_status[] = {":status", "2x0", NULL};
    static const char *const upper[] = {":status", "200", "X-Upper", "1", NULL};
    static const char *const hop[] = {":status", "200", "connection", "close", NULL};
    static const char *const too_large[] = {":status", "200", "x", large, NULL};
    static const char *const *const replies[] = {no_status, odd_status, upper, hop, too_large};
    struct pair pair;
    uint32_t id = 1;

    (void)state;
    pair_init(&pair);
    http_client_free(pair.kit.client);
    pair.kit.client_options.header_bytes = 4096;
    kit_client(&pair.kit);
    memset(large, 'v', sizeof large - 1);
    for (size_t i = 0; i < COUNT_OF(replies); i++, id += 2) {
        kit_send(&pair.kit, &pair.out, pair.origin, "GET", "/", 0);
        if (pair.up == NULL)
            pair.up = accept_next(&pair);
        frames_until(pair.up, frames_at(pair.up, id)->ended);
        frames_put_head(pair.up, FLAG_END_STREAM, id, replies[i]);
        kit_expect_failure(&pair.out, HTTP_GARBAGE);
        assert_int_equal(pair.out.status, 0);
        kit_out_fini(&pair.out);
    }
    kit_send(&pair.kit, &pair.out, pair.origin, "GET", "/", 0);
    frames_until(pair.up, frames_at(pair.up, id)->ended);
    put_reply(pair.up, id, "fine");
    kit_until(&pair.kit, pair.out.ended);
    pair_fini(&pair);
}

/* A body that is not as long as was said is no whole reply. */
static void a_short_reply_is_no_reply(void **state)
{
    static const char *const ok[] = {":status", "200", "content-length", "5", NULL};
    struct pair pair;

    (void)state;
    pair_init(&pair);
    pair_get(&pair);
    frames_put_head(pair.up, 0, 1, ok);
    frames_put(pair.up, FRAME_DATA, FLAG_END_STREAM, 1, "four", 4);
    kit_until(&pair.kit, kit_over(&pair.out));
    assert_true(pair.out.failed);
    assert_int_equal(pair.out.why, HTTP_GARBAGE);
    pair_fini(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_are_framed_by_us),
        cmocka_unit_test(unfit_requests_fail_before_they_are_sent),
        cmocka_unit_test(a_body_goes_as_far_as_the_window),
        cmocka_unit_test(interim_replies_are_skipped_and_trailers_kept),
        cmocka_unit_test(interim_replies_without_an_end_are_garbage),
        cmocka_unit_test(the_reply_may_come_before_the_request_has_ended),
        cmocka_unit_test(a_reset_says_its_code_and_whether_to_try_again),
        cmocka_unit_test(a_long_head_that_arrived_was_sent),
        cmocka_unit_test(a_reset_after_the_reply_is_none),
        cmocka_unit_test(goaway_spares_what_was_looked_at),
        cmocka_unit_test(a_connection_takes_its_exchanges_with_it),
        cmocka_unit_test(a_kept_connection_that_died_is_replaced),
        cmocka_unit_test(the_upstreams_limit_is_kept),
        cmocka_unit_test(the_first_goes_alone_until_the_upstream_has_settled),
        cmocka_unit_test(an_upstream_that_never_settles_is_given_up),
        cmocka_unit_test(who_fills_the_window_holds_up_nobody),
        cmocka_unit_test(who_waited_for_the_window_goes_on_when_it_opens),
        cmocka_unit_test(upstreams_that_speak_something_else_are_garbage),
        cmocka_unit_test(malformed_replies_are_garbage_for_one_exchange),
        cmocka_unit_test(a_short_reply_is_no_reply),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
