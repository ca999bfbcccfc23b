/* test_http2.c - HTTP/2 from both ends of ours, on real sockets: the same promises as HTTP/1. */
#include "http2_pair.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void reply_grpc(struct kit_in *in)
{
    struct http_field type = {SLICE("content-type"), SLICE("application/grpc")};
    struct http_head head = {.status = 200, .fields = &type, .n_fields = 1, .length = -1};
    struct http_field trailers[] = {
        {SLICE("grpc-status"), SLICE("0")},
        {SLICE("Grpc-Message"), SLICE("fine")},
        {SLICE("connection"), SLICE("close")},
    };

    http_inbound_reply(in->in, &head);
    http_inbound_write(in->in, (struct slice){in->body, in->body_n});
    http_inbound_finish_with(in->in, trailers, COUNT_OF(trailers));
}

/* ---- Round trips ----------------------------------------------------------------------------- */

static void a_request_is_answered_with_its_trailers(void **state)
{
    struct pair pair;

    (void)state;
    pair_init(&pair);
    pair.kit.on_end = reply_grpc;
    pair_start(&pair);
    for (int i = 0; i < 3; i++) {
        struct http_field trailer = {SLICE("x-sum"), SLICE("7")};

        kit_send(&pair.kit, &pair.out, pair.origin, "POST", "/x?y", -1);
        http_outbound_write(pair.out.out, SLICE("hel"));
        http_outbound_write(pair.out.out, SLICE("lo"));
        http_outbound_finish_with(pair.out.out, &trailer, 1);
        kit_expect_reply(&pair.out);
        assert_int_equal(pair.out.status, 200);
        assert_string_equal(pair.out.type, "application/grpc");
        assert_string_equal(pair.out.body, "hello");
        assert_string_equal(pair.out.trailers, "grpc-status: 0\ngrpc-message: fine\n");
        assert_int_equal(pair.out.reused, i > 0);
        assert_true(pair.out.sent);
        kit_out_fini(&pair.out);
        kit_until(&pair.kit, pair.kit.ins[i].gone);
        assert_string_equal(pair.kit.ins[i].line, "POST /x?y");
        assert_string_equal(pair.kit.ins[i].trailers, "x-sum: 7\n");
        assert_int_equal(pair.kit.ins[i].why, HTTP_DONE);
    }
    assert_int_equal(http_listener_open(pair.kit.listener), 1);
    assert_int_equal(http_listener_busy(pair.kit.listener), 0);
    assert_int_equal(http_client_idle(pair.kit.client), 1);
    pair_fini(&pair);
}

static void check_request_head(struct kit_in *in)
{
    const struct http_head *head = &in->in->head;
    struct slice host = http_find(head, SLICE("host"));
    char want[64];

    snprintf(want, sizeof want, "127.0.0.1:%d", in->kit->port);
    assert_int_equal(head->version, 20);
    assert_int_equal(host.n, strlen(want));
    assert_memory_equal(host.at, want, host.n);
    assert_int_equal(http_count(head, SLICE("host")), 1);
    assert_int_equal(http_find(head, SLICE("x-test")).n, 1);
    assert_int_equal(head->length, 5);
}

static void the_owner_sees_a_head_as_any_other(void **state)
{
    struct pair pair;

    (void)state;
    pair_init(&pair);
    pair.kit.on_begin = check_request_head;
    pair.kit.on_end = kit_echo;
    pair_start(&pair);
    pair_begin(&pair, "PUT", 5);
    http_outbound_write(pair.out.out, SLICE("hello, and more"));
    http_outbound_finish(pair.out.out);
    kit_until(&pair.kit, pair.out.ended);
    assert_int_equal(pair.out.length, 5);
    assert_string_equal(pair.out.body, "hello");
    pair_fini(&pair);
}

/* A gRPC status without messages: a head that ends the exchange. */
static void a_reply_without_a_body_is_one_head(void **state)
{
    struct http_field status = {SLICE("grpc-status"), SLICE("8")};
    struct http_head head = {.status = 200, .fields = &status, .n_fields = 1};
    struct pair pair;

    (void)state;
    pair_init(&pair);
    pair_start(&pair);
    struct kit_in *in = pair_begin(&pair, "GET", 0);
    kit_until(&pair.kit, in->ended);
    http_inbound_send(in->in, &head, SLICE(""));
    kit_until(&pair.kit, pair.out.ended && in->gone);
    assert_int_equal(pair.out.length, 0);
    assert_int_equal(pair.out.body_n, 0);
    assert_int_equal(in->why, HTTP_DONE);
    in = pair_begin(&pair, "HEAD", 0);
    kit_until(&pair.kit, in->ended);
    kit_reply(in, 200, "twelve bytes");
    kit_until(&pair.kit, pair.out.ended);
    assert_int_equal(pair.out.length, 12);
    assert_int_equal(pair.out.body_n, 0);
    in = pair_begin(&pair, "DELETE", 0);
    kit_until(&pair.kit, in->ended);
    kit_reply(in, 204, "");
    kit_until(&pair.kit, pair.out.ended);
    assert_int_equal(pair.out.status, 204);
    pair_fini(&pair);
}

static void fields_stay_one_field_whatever_they_hold(void **state)
{
    struct http_field fields[] = {
        {SLICE("x-evil"), SLICE("a\r\nset-cookie: b ")},
        {SLICE("bad name"), SLICE("x")},
        {SLICE(":status"), SLICE("500")},
        {SLICE("Content-Length"), SLICE("999")},
        {SLICE("transfer-encoding"), SLICE("chunked")},
        {SLICE("Content-Type"), SLICE(" a/b ")},
    };
    struct http_head head = {.status = 200, .fields = fields, .n_fields = COUNT_OF(fields)};
    struct pair pair;

    (void)state;
    pair_init(&pair);
    pair_start(&pair);
    struct kit_in *in = pair_begin(&pair, "GET", 0);
    kit_until(&pair.kit, in->ended);
    http_outbound_pause(pair.out.out);
    http_inbound_send(in->in, &head, SLICE("ok"));
    kit_calm(&pair.kit);
    assert_int_equal(pair.out.status, 0); /* no head() while paused */
    http_outbound_resume(pair.out.out);
    kit_until(&pair.kit, pair.out.status != 0 && pair.out.ended);
    assert_int_equal(pair.out.status, 200);
    assert_string_equal(pair.out.type, "a/b");
    assert_int_equal(pair.out.length, 2);
    pair_fini(&pair);
}

static void http1_goes_on_beside_it(void **state)
{
    struct pair pair;

    (void)state;
    pair_init(&pair);
    pair.kit.on_end = kit_echo;
    pair_start(&pair);
    /* Also for a client whose first bytes could be those of the preface. */
    static const char *const methods[] = {"POST", "PUT", "PROPFIND", "PATCH"};
    for (size_t i = 0; i < COUNT_OF(methods); i++) {
        struct kit_raw *raw = kit_connect(&pair.kit);
        char request[128];
        int n = snprintf(request, sizeof request,
                         "%s / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi", methods[i]);

        for (int k = 0; k < n; k++) {
            kit_put_bytes(&pair.kit, raw, request + k, 1);
            if (k < 6)
                kit_calm(&pair.kit);
        }
        kit_until(&pair.kit, kit_got(raw, "\r\n\r\nhi"));
        assert_true(kit_got(raw, "HTTP/1.1 200 OK"));
    }
    pair_fini(&pair);
}

static void trailers_of_http1_are_for_who_asked(void **state)
{
    struct pair pair;

    (void)state;
    pair_init(&pair);
    pair.kit.on_end = reply_grpc;
    pair_start(&pair);
    struct kit_raw *raw = kit_connect(&pair.kit);
    kit_put(&pair.kit, raw, "GET / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\n\r\n");
    kit_until(&pair.kit, kit_got(raw, "0\r\ngrpc-status: 0\r\nGrpc-Message: fine\r\n\r\n"));
    kit_forget(raw);
    kit_put(&pair.kit, raw, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    kit_until(&pair.kit, kit_got(raw, "\r\n\r\n0\r\n\r\n"));
    assert_false(kit_got(raw, "grpc-status"));
    pair_fini(&pair);
}

/* ---- Many at once ---------------------------------------------------------------------------- */

static void many_exchanges_share_a_connection(void **state)
{
    struct pair pair;
    struct kit_out outs[100];

    (void)state;
    pair_init(&pair);
    pair_start(&pair);
    for (size_t i = 0; i < COUNT_OF(outs); i++) {
        kit_send(&pair.kit, &outs[i], pair.origin, "POST", "/", -1);
        for (size_t k = 0; k < i; k++)
            http_outbound_write(outs[i].out, SLICE("0123456789"));
        http_outbound_finish(outs[i].out);
    }
    kit_until(&pair.kit, pair.kit.n_ins == COUNT_OF(outs) && pair.kit.ins[99].ended);
    kit_calm(&pair.kit);
    assert_int_equal(http_listener_open(pair.kit.listener), 1);
    assert_int_equal(http_listener_busy(pair.kit.listener), 100);
    for (size_t i = COUNT_OF(outs); i-- > 0;) /* in any order */
        kit_echo(&pair.kit.ins[i]);
    for (size_t i = 0; i < COUNT_OF(outs); i++) {
        kit_expect_reply(&outs[i]);
        assert_int_equal(outs[i].body_n, i * 10);
        kit_out_fini(&outs[i]);
    }
    kit_until(&pair.kit, http_listener_busy(pair.kit.listener) == 0);
    assert_int_equal(http_client_busy(pair.kit.client), 0);
    pair_fini(&pair);
}

/* More than the server lets: another connection, and no more of these than are needed. */
static void a_full_connection_is_joined_by_another(void **state)
{
    struct pair pair;
    struct kit_out outs[25];

    (void)state;
    pair_init(&pair);
    pair.kit.options.limits.streams = 10;
    pair_start(&pair);
    pair.kit.on_end = kit_echo;
    kit_send(&pair.kit, &pair.out, pair.origin, "GET", "/", 0);
    kit_until(&pair.kit, pair.out.ended); /* its settings have come */
    pair.kit.on_end = NULL;
    for (size_t i = 0; i < COUNT_OF(outs); i++)
        kit_send(&pair.kit, &outs[i], pair.origin, "GET", "/", 0);
    kit_until(&pair.kit, pair.kit.n_ins == 1 + 20);
    kit_until(&pair.kit, http_listener_open(pair.kit.listener) >= 2);
    pair.kit.on_end = kit_echo;
    for (size_t i = 1; i < pair.kit.n_ins; i++)
        if (pair.kit.ins[i].in != NULL)
            kit_echo(&pair.kit.ins[i]);
    size_t refused = 0;
    for (size_t i = 0; i < COUNT_OF(outs); i++) {
        kit_until(&pair.kit, kit_over(&outs[i]));
        /* Before a connection's settings are known too many may be sent, and are not looked at. */
        if (outs[i].failed) {
            assert_int_equal(outs[i].why, HTTP_RESET);
            assert_int_equal(outs[i].reset_code, HTTP2_REFUSED_STREAM);
            assert_false(outs[i].sent);
            refused++;
        }
        kit_out_fini(&outs[i]);
    }
    assert_true(refused <= 15);
    assert_true(http_listener_open(pair.kit.listener) <= 3);
    pair_fini(&pair);
}

static void a_large_body_goes_both_ways(void **state)
{
    struct pair pair;
    size_t n = 3000000;
    char *bytes = malloc(n);

    (void)state;
    assert_non_null(bytes);
    for (size_t i = 0; i < n; i++)
        bytes[i] = (char)(i * 7919 >> 5);
    pair_init(&pair);
    pair.kit.on_end = kit_echo;
    pair_start(&pair);
    kit_send(&pair.kit, &pair.out, pair.origin, "POST", "/", (int64_t)n);
    for (size_t at = 0; at < n; at += 100000)
        http_outbound_write(pair.out.out, (struct slice){bytes + at, 100000});
    http_outbound_finish(pair.out.out);
    kit_expect_reply(&pair.out);
    assert_int_equal(pair.out.body_n, n);
    assert_memory_equal(pair.out.body, bytes, n);
    free(bytes);
    pair_fini(&pair);
}

/* ---- Pausing --------------------------------------------------------------------------------- */

static void pause_it(struct kit_in *in)
{
    http_inbound_pause(in->in);
}

/* The one that is not read holds what its window allows; the other goes through beside it. */
static void a_paused_request_stops_no_other(void **state)
{
    struct pair pair;
    struct kit_out other;
    char *bytes = calloc(1, 2000000);

    (void)state;
    pair_init(&pair);
    pair.kit.on_begin = pause_it;
    pair_start(&pair);
    struct kit_in *in = pair_begin(&pair, "POST", 2000000);
    http_outbound_write(pair.out.out, (struct slice){bytes, 2000000});
    http_outbound_finish(pair.out.out);
    kit_calm(&pair.kit);
    assert_int_equal(in->body_n, 0);
    assert_true(http_outbound_queued(pair.out.out) >= 2000000 - (128 << 10));
    pair.kit.on_begin = NULL;
    pair.kit.on_end = kit_echo;
    kit_send(&pair.kit, &other, pair.origin, "POST", "/", 1500000);
    http_outbound_write(other.out, (struct slice){bytes, 1500000});
    http_outbound_finish(other.out);
    kit_until(&pair.kit, kit_over(&other));
    assert_int_equal(other.body_n, 1500000);
    assert_int_equal(http_listener_open(pair.kit.listener), 1);
    http_inbound_resume(in->in);
    kit_until(&pair.kit, kit_over(&pair.out));
    assert_int_equal(in->body_n, 2000000);
    kit_out_fini(&other);
    free(bytes);
    pair_fini(&pair);
}

static void reply_much(struct kit_in *in)
{
    struct http_head head = {.status = 200, .length = -1};
    static const char piece[50000];

    http_inbound_reply(in->in, &head);
    while (http_inbound_write(in->in, (struct slice){piece, sizeof piece}) <= HTTP_OUTPUT_HIGH)
        ;
}

static void pause_out(struct kit_out *out)
{
    http_outbound_pause(out->out);
}

/* What a paused client does not take waits with its exchange, within bounds, and room() comes. */
static void a_paused_reply_fills_up_and_drains(void **state)
{
    struct pair pair;

    (void)state;
    pair_init(&pair);
    pair.kit.on_end = reply_much;
    pair.kit.on_head = pause_out;
    pair_start(&pair);
    struct kit_in *in = pair_begin(&pair, "GET", 0);
    kit_until(&pair.kit, in->ended && pair.out.status == 200);
    kit_calm(&pair.kit);
    assert_int_equal(in->rooms, 0);
    assert_int_equal(pair.out.body_n, 0);
    size_t queued = http_inbound_queued(in->in);
    assert_true(queued > HTTP_OUTPUT_LOW && queued < HTTP_OUTPUT_HIGH + 50000);
    http_outbound_resume(pair.out.out);
    kit_until(&pair.kit, in->rooms == 1);
    http_inbound_finish(in->in);
    kit_until(&pair.kit, pair.out.ended);
    assert_true(pair.out.body_n >= queued);
    pair_fini(&pair);
}

/* All of it was there before the connection went. */
static void a_reply_that_came_is_given_after_the_connection_ended(void **state)
{
    struct pair pair;

    (void)state;
    pair_init(&pair);
    pair.kit.on_end = kit_echo;
    pair.kit.on_head = pause_out;
    pair_start(&pair);
    pair_begin(&pair, "POST", 5);
    http_outbound_write(pair.out.out, SLICE("hello"));
    http_outbound_finish(pair.out.out);
    kit_until(&pair.kit, pair.out.status == 200 && pair.kit.ins[0].gone);
    kit_calm(&pair.kit);
    http_listener_free(pair.kit.listener);
    pair.kit.listener = NULL;
    kit_calm(&pair.kit);
    assert_false(kit_over(&pair.out));
    http_outbound_resume(pair.out.out);
    kit_expect_reply(&pair.out);
    assert_string_equal(pair.out.body, "hello");
    pair_fini(&pair);
}

/* ---- Giving up ------------------------------------------------------------------------------- */

static void a_cancelled_exchange_is_a_hangup_with_its_code(void **state)
{
    struct pair pair;

    (void)state;
    pair_init(&pair);
    pair_start(&pair);
    struct kit_in *in = pair_begin(&pair, "POST", -1);
    http_outbound_cancel_with(pair.out.out, HTTP2_CANCEL);
    kit_until(&pair.kit, in->gone);
    assert_int_equal(in->why, HTTP_HANGUP);
    assert_int_equal(in->reset_code, HTTP2_CANCEL);
    in = pair_begin(&pair, "POST", -1);
    http_outbound_cancel_with(pair.out.out, 77);
    kit_until(&pair.kit, in->gone);
    assert_int_equal(in->reset_code, 77);
    assert_int_equal(http_listener_open(pair.kit.listener), 1); /* the connection goes on */
    pair_fini(&pair);
}

static void an_aborted_exchange_fails_with_its_code(void **state)
{
    struct http_head head = {.status = 200, .length = -1};
    struct pair pair;

    (void)state;
    pair_init(&pair);
    pair_start(&pair);
    struct kit_in *in = pair_begin(&pair, "GET", 0);
    http_inbound_reply(in->in, &head);
    http_inbound_write(in->in, SLICE("some"));
    kit_until(&pair.kit, pair.out.body_n == 4);
    http_inbound_abort_with(in->in, HTTP2_CANCEL);
    kit_until(&pair.kit, kit_over(&pair.out) && in->gone);
    assert_int_equal(in->why, HTTP_ABORTED);
    assert_int_equal(pair.out.why, HTTP_RESET);
    assert_true(pair.out.was_reset);
    assert_int_equal(pair.out.reset_code, HTTP2_CANCEL);
    assert_true(pair.out.sent);
    kit_out_fini(&pair.out);
    /* Not looked at: it may be sent again. */
    in = pair_begin(&pair, "GET", 0);
    http_inbound_abort_with(in->in, HTTP2_REFUSED_STREAM);
    kit_until(&pair.kit, kit_over(&pair.out));
    assert_int_equal(pair.out.reset_code, HTTP2_REFUSED_STREAM);
    assert_false(pair.out.sent);
    kit_out_fini(&pair.out);
    /* A body shorter than it was said to be is no whole reply. */
    in = pair_begin(&pair, "GET", 0);
    head.length = 9;
    http_inbound_reply(in->in, &head);
    http_inbound_write(in->in, SLICE("a"));
    http_inbound_finish(in->in);
    kit_expect_failure(&pair.out, HTTP_RESET);
    assert_int_equal(pair.out.reset_code, HTTP2_INTERNAL_ERROR);
    assert_int_equal(http_listener_open(pair.kit.listener), 1);
    pair_fini(&pair);
}

static void reply_at_once(struct kit_in *in)
{
    kit_reply(in, 429, "no");
}

/* The rest is dropped, and whoever sends on without an end is told to stop, with no error. */
static void a_reply_before_the_end_of_the_request_arrives(void **state)
{
    struct pair pair;
    char *bytes = calloc(1, 4000000);

    (void)state;
    pair_init(&pair);
    pair.kit.on_begin = reply_at_once;
    pair_start(&pair);
    kit_send(&pair.kit, &pair.out, pair.origin, "POST", "/", 4000000);
    http_outbound_write(pair.out.out, (struct slice){bytes, 4000000});
    kit_expect_reply(&pair.out);
    assert_int_equal(pair.out.status, 429);
    assert_string_equal(pair.out.body, "no");
    kit_until(&pair.kit, pair.kit.ins[0].gone);
    assert_int_equal(pair.kit.ins[0].why, HTTP_DONE);
    assert_int_equal(pair.kit.ins[0].body_n, 0);
    kit_out_fini(&pair.out);
    /* The connection goes on. */
    pair.kit.on_begin = NULL;
    pair.kit.on_end = kit_echo;
    kit_send(&pair.kit, &pair.out, pair.origin, "GET", "/", 0);
    kit_until(&pair.kit, pair.out.ended);
    assert_true(pair.out.reused);
    assert_int_equal(http_listener_open(pair.kit.listener), 1);
    free(bytes);
    pair_fini(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_answered_with_its_trailers),
        cmocka_unit_test(the_owner_sees_a_head_as_any_other),
        cmocka_unit_test(a_reply_without_a_body_is_one_head),
        cmocka_unit_test(fields_stay_one_field_whatever_they_hold),
        cmocka_unit_test(http1_goes_on_beside_it),
        cmocka_unit_test(trailers_of_http1_are_for_who_asked),
        cmocka_unit_test(many_exchanges_share_a_connection),
        cmocka_unit_test(a_full_connection_is_joined_by_another),
        cmocka_unit_test(a_large_body_goes_both_ways),
        cmocka_unit_test(a_paused_request_stops_no_other),
        cmocka_unit_test(a_paused_reply_fills_up_and_drains),
        cmocka_unit_test(a_reply_that_came_is_given_after_the_connection_ended),
        cmocka_unit_test(a_cancelled_exchange_is_a_hangup_with_its_code),
        cmocka_unit_test(an_aborted_exchange_fails_with_its_code),
        cmocka_unit_test(a_reply_before_the_end_of_the_request_arrives),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
