/* test_http_client.c - requests that go out, on real sockets: reuse, deadlines, failures. */
#include "net_kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* An upstream of plain bytes, and a client. */
struct pair {
    struct kit kit;
    struct http_origin *origin;
    int listening, port;
    struct kit_out out;
};

static void pair_init(struct pair *pair)
{
    kit_init(&pair->kit);
    kit_client(&pair->kit);
    pair->listening = kit_raw_listen(&pair->port);
    pair->origin = kit_origin(pair->port, NULL, NULL);
}

static void pair_fini(struct pair *pair)
{
    kit_out_fini(&pair->out);
    http_origin_unref(pair->origin);
    close(pair->listening);
    kit_fini(&pair->kit);
}

/* A GET whose request has arrived. */
static struct kit_raw *pair_get(struct pair *pair)
{
    kit_send(&pair->kit, &pair->out, pair->origin, "GET", "/x?y", 0);
    struct kit_raw *raw = kit_raw_accept(&pair->kit, pair->listening);
    kit_until(&pair->kit, kit_got(raw, "\r\n\r\n"));
    return raw;
}

/* ---- Round trips ----------------------------------------------------------------------------- */

static void requests_are_framed_by_us(void **state)
{
    char want[256];
    struct pair pair;

    (void)state;
    pair_init(&pair);
    struct kit_raw *raw = pair_get(&pair);
    snprintf(want, sizeof want, "GET /x?y HTTP/1.1\r\nhost: 127.0.0.1:%d\r\nx-test: 1\r\n\r\n",
             pair.port);
    assert_string_equal(raw->got, want);
    kit_put(&pair.kit, raw, "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Length: 2\r\n\r\nhi");
    kit_until(&pair.kit, pair.out.ended);
    assert_int_equal(pair.out.status, 200);
    assert_string_equal(pair.out.type, "a/b");
    assert_string_equal(pair.out.body, "hi");
    assert_true(pair.out.sent);
    assert_false(pair.out.reused);
    pair_fini(&pair);
}

static void replies_are_the_same_however_cut(void **state)
{
    static const char reply[] = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n"
                                "Transfer-Encoding: chunked\r\n\r\n"
                                "2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n";
    struct pair pair;
    struct kit_raw *raw = NULL;

    (void)state;
    pair_init(&pair);
    for (size_t cut = 1; cut < sizeof reply - 1; cut++) {
        kit_send(&pair.kit, &pair.out, pair.origin, "GET", "/", 0);
        if (raw == NULL)
            raw = kit_raw_accept(&pair.kit, pair.listening);
        kit_forget(raw);
        kit_until(&pair.kit, kit_got(raw, "\r\n\r\n"));
        kit_put_bytes(&pair.kit, raw, reply, cut);
        kit_calm(&pair.kit);
        kit_put_bytes(&pair.kit, raw, reply + cut, sizeof reply - 1 - cut);
        kit_until(&pair.kit, kit_over(&pair.out));
        assert_true(pair.out.ended);
        assert_string_equal(pair.out.body, "hello");
        assert_int_equal(pair.out.reused, cut > 1);
        kit_out_fini(&pair.out);
    }
    pair_fini(&pair);
}

static void bodies_go_out_with_and_without_a_length(void **state)
{
    struct pair pair;

    (void)state;
    pair_init(&pair);
    kit_send(&pair.kit, &pair.out, pair.origin, "POST", "/", 5);
    http_outbound_write(pair.out.out, SLICE("he"));
    http_outbound_write(pair.out.out, SLICE("llo, and more"));
    http_outbound_finish(pair.out.out);
    struct kit_raw *raw = kit_raw_accept(&pair.kit, pair.listening);
    kit_until(&pair.kit, kit_got(raw, "\r\n\r\nhello"));
    assert_true(kit_got(raw, "content-length: 5\r\n") && !kit_got(raw, "hello,"));
    kit_put(&pair.kit, raw, "HTTP/1.1 204 No Content\r\n\r\n");
    kit_until(&pair.kit, pair.out.ended);
    kit_forget(raw);
    kit_send(&pair.kit, &pair.out, pair.origin, "POST", "/", -1);
    http_outbound_write(pair.out.out, SLICE("hello"));
    kit_until(&pair.kit, kit_got(raw, "hello"));
    http_outbound_finish(pair.out.out);
    kit_until(&pair.kit, kit_got(raw, "\r\n0\r\n\r\n"));
    assert_true(kit_got(raw, "transfer-encoding: chunked\r\n"));
    assert_true(kit_got(raw, "\r\n\r\n5\r\nhello\r\n0\r\n\r\n"));
    kit_put(&pair.kit, raw, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    kit_until(&pair.kit, pair.out.ended);
    assert_true(pair.out.reused);
    assert_int_equal(http_client_idle(pair.kit.client), 1);
    pair_fini(&pair);
}

static void both_sides_of_ours_understand_each_other(void **state)
{
    struct kit kit;
    struct kit_out outs[20];

    (void)state;
    kit_init(&kit);
    kit_listen(&kit);
    kit_client(&kit);
    kit.on_end = kit_echo_chunked;
    struct http_origin *origin = kit_origin(kit.port, NULL, NULL);
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < COUNT_OF(outs); i++) {
            kit_send(&kit, &outs[i], origin, "POST", "/", -1);
            for (size_t k = 0; k < i; k++)
                http_outbound_write(outs[i].out, SLICE("0123456789"));
            http_outbound_finish(outs[i].out);
        }
        for (size_t i = 0; i < COUNT_OF(outs); i++) {
            kit_until(&kit, kit_over(&outs[i]));
            assert_true(outs[i].ended);
            assert_int_equal(outs[i].body_n, i * 10);
            assert_int_equal(outs[i].reused, round == 1);
            kit_out_fini(&outs[i]);
        }
    }
    assert_int_equal(http_client_idle(kit.client), 20);
    assert_int_equal(http_client_busy(kit.client), 0);
    assert_int_equal(http_listener_open(kit.listener), 20);
    http_origin_unref(origin);
    kit_fini(&kit);
}

static void the_end_of_the_connection_may_be_the_end_of_the_reply(void **state)
{
    struct pair pair;

    (void)state;
    pair_init(&pair);
    struct kit_raw *raw = pair_get(&pair);
    kit_put(&pair.kit, raw, "HTTP/1.1 200 OK\r\n\r\nall of it");
    kit_hang_up(raw);
    kit_until(&pair.kit, pair.out.ended);
    assert_string_equal(pair.out.body, "all of it");
    assert_int_equal(http_client_idle(pair.kit.client), 0);
    pair_fini(&pair);
}

static void replies_without_a_body_have_none(void **state)
{
    struct pair pair;

    (void)state;
    pair_init(&pair);
    kit_send(&pair.kit, &pair.out, pair.origin, "HEAD", "/", 0);
    struct kit_raw *raw = kit_raw_accept(&pair.kit, pair.listening);
    kit_until(&pair.kit, kit_got(raw, "\r\n\r\n"));
    kit_put(&pair.kit, raw, "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n");
    kit_until(&pair.kit, pair.out.ended);
    assert_int_equal(pair.out.length, 99);
    assert_int_equal(pair.out.body_n, 0);
    assert_int_equal(http_client_idle(pair.kit.client), 1);
    pair_fini(&pair);
}

/* ---- Reuse ----------------------------------------------------------------------------------- */

static void a_kept_connection_that_died_is_replaced(void **state)
{
    struct pair pair;

    (void)state;
    pair_init(&pair);
    struct kit_raw *raw = pair_get(&pair);
    kit_put(&pair.kit, raw, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    kit_until(&pair.kit, pair.out.ended);
    assert_int_equal(http_client_idle(pair.kit.client), 1);
    kit_hang_up(raw); /* and the loop has not had a turn to see it */
    raw = pair_get(&pair);
    assert_true(kit_got(raw, "GET /x?y"));
    kit_put(&pair.kit, raw, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    kit_until(&pair.kit, pair.out.ended);
    assert_false(pair.out.reused);
    /* A second time, the loop sees it. */
    kit_hang_up(raw);
    kit_until(&pair.kit, http_client_idle(pair.kit.client) == 0);
    pair_fini(&pair);
}

static void a_kept_connection_that_dies_later_is_the_owners_to_judge(void **state)
{
    struct pair pair;

    (void)state;
    pair_init(&pair);
    struct kit_raw *raw = pair_get(&pair);
    kit_put(&pair.kit, raw, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    kit_until(&pair.kit, pair.out.ended);
    kit_forget(raw);
    kit_send(&pair.kit, &pair.out, pair.origin, "POST", "/", 0);
    kit_until(&pair.kit, kit_got(raw, "POST"));
    kit_hang_up(raw);
    kit_until(&pair.kit, kit_over(&pair.out));
    assert_int_equal(pair.out.why, HTTP_RESET);
    assert_true(pair.out.failed && pair.out.sent && pair.out.reused);
    pair_fini(&pair);
}

static void what_nobody_asked_for_ends_a_connection(void **state)
{
    static const char *const replies[] = {
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhiHTTP/1.1 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi",
        "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi",
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(replies); i++) {
        struct pair pair;

        pair_init(&pair);
        struct kit_raw *raw = pair_get(&pair);
        kit_put(&pair.kit, raw, replies[i]);
        kit_until(&pair.kit, pair.out.ended);
        assert_string_equal(pair.out.body, "hi");
        assert_int_equal(http_client_idle(pair.kit.client), 0);
        pair_fini(&pair);
    }
}

static void connections_are_kept_within_bounds(void **state)
{
    struct kit kit;
    struct kit_out outs[5];

    (void)state;
    kit_init(&kit);
    kit.client_options.idle_max = 2;
    kit.client_options.idle_ms = 30;
    kit_listen(&kit);
    kit_client(&kit);
    kit.on_end = kit_echo;
    struct http_origin *origin = kit_origin(kit.port, NULL, NULL);
    for (size_t i = 0; i < COUNT_OF(outs); i++)
        kit_send(&kit, &outs[i], origin, "GET", "/", 0);
    for (size_t i = 0; i < COUNT_OF(outs); i++)
        kit_until(&kit, kit_over(&outs[i]));
    assert_true(http_client_idle(kit.client) <= 2);
    kit_until(&kit, http_client_idle(kit.client) == 0);
    http_origin_unref(origin);
    kit_fini(&kit);
}

/* ---- Failures -------------------------------------------------------------------------------- */

static void garbage_is_told_as_such(void **state)
{
    static const char *const replies[] = {
        "SSH-2.0-OpenSSH\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX: y\r\n folded\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(replies); i++) {
        struct pair pair;

        pair_init(&pair);
        struct kit_raw *raw = pair_get(&pair);
        kit_put(&pair.kit, raw, replies[i]);
        kit_until(&pair.kit, kit_over(&pair.out));
        if (pair.out.why != HTTP_GARBAGE)
            fail_msg("%s: %s", replies[i], http_why_text(pair.out.why));
        kit_until(&pair.kit, raw->eof || raw->reset);
        pair_fini(&pair);
    }
}

static void a_reply_cut_off_is_a_reset(void **state)
{
    static const char *const replies[] = {
        "",
        "HTTP/1.1 200",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhi",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        "HTTP/1.1 100 Continue\r\n\r\n",
    };

    (void)state;
    for (size_t i = 0; i < 2 * COUNT_OF(replies); i++) {
        struct pair pair;

        pair_init(&pair);
        struct kit_raw *raw = pair_get(&pair);
        kit_put(&pair.kit, raw, replies[i / 2]);
        if (i % 2 == 0) {
            kit_hang_up(raw);
        } else {
            kit_calm(&pair.kit);
            kit_reset(raw);
        }
        kit_until(&pair.kit, kit_over(&pair.out));
        assert_true(pair.out.failed && pair.out.sent);
        assert_int_equal(pair.out.why, HTTP_RESET);
        pair_fini(&pair);
    }
}

static void where_nobody_listens_is_unreachable(void **state)
{
    struct pair pair;

    (void)state;
    pair_init(&pair);
    close(pair.listening);
    kit_send(&pair.kit, &pair.out, pair.origin, "GET", "/", 0);
    assert_false(kit_over(&pair.out)); /* not from inside the call */
    kit_until(&pair.kit, kit_over(&pair.out));
    assert_int_equal(pair.out.why, HTTP_UNREACHABLE);
    assert_false(pair.out.sent);
    assert_non_null(strstr(pair.out.text, "127.0.0.1"));
    pair.listening = -1;
    pair_fini(&pair);
}

static void a_name_that_is_none_is_unresolved(void **state)
{
    struct http_origin_options options;
    struct http_origin *origin;
    struct pair pair;

    (void)state;
    pair_init(&pair);
    http_origin_options_init(&options);
    options.host = "no-such-host.invalid";
    options.port = 80;
    assert_int_equal(http_origin_new(&options, &origin, NULL), TG_OK);
    kit_send(&pair.kit, &pair.out, origin, "GET", "/", 0);
    kit_until(&pair.kit, kit_over(&pair.out));
    assert_int_equal(pair.out.why, HTTP_UNRESOLVED);
    /* Cancelled, and freed, while it is being looked up. */
    kit_send(&pair.kit, &pair.out, origin, "GET", "/", 0);
    kit_calm(&pair.kit);
    if (pair.out.out != NULL)
        http_outbound_cancel(pair.out.out);
    http_origin_unref(origin);
    pair_fini(&pair);
}

static void names_are_looked_up(void **state)
{
    struct http_origin_options options;
    struct http_origin *origin;
    struct pair pair;

    (void)state;
    if (!net_knows_localhost()) {
        print_message("this machine does not know localhost\n");
        skip();
    }
    pair_init(&pair);
    http_origin_options_init(&options);
    options.host = "localhost"; /* also ::1, where nobody listens */
    options.port = pair.port;
    assert_int_equal(http_origin_new(&options, &origin, NULL), TG_OK);
    for (int i = 0; i < 2; i++) {
        kit_send(&pair.kit, &pair.out, origin, "GET", "/", 0);
        struct kit_raw *raw = kit_raw_accept(&pair.kit, pair.listening);
        kit_until(&pair.kit, kit_got(raw, "host: localhost:"));
        kit_put(&pair.kit, raw,
                "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
        kit_until(&pair.kit, pair.out.ended);
    }
    http_origin_unref(origin);
    pair_fini(&pair);
}

static void what_cannot_be_sent_is_not(void **state)
{
    static const char *const targets[] = {"/a b", "/a\r\nX: y", "", "/\x7f"};
    struct pair pair;

    (void)state;
    pair_init(&pair);
    for (size_t i = 0; i < COUNT_OF(targets); i++) {
        kit_send(&pair.kit, &pair.out, pair.origin, "GET", targets[i], 0);
        kit_until(&pair.kit, kit_over(&pair.out));
        assert_int_equal(pair.out.why, HTTP_UNFIT);
    }
    kit_send(&pair.kit, &pair.out, pair.origin, "POST", "/", 5);
    http_outbound_write(pair.out.out, SLICE("abc"));
    http_outbound_finish(pair.out.out);
    kit_until(&pair.kit, kit_over(&pair.out));
    assert_int_equal(pair.out.why, HTTP_UNFIT);
    pair_fini(&pair);
}

/* ---- Deadlines ------------------------------------------------------------------------------- */

static void every_deadline_has_its_name(void **state)
{
    static const struct {
        struct http_timeouts timeouts;
        const char *reply;
        enum http_why why;
    } rows[] = {
        {{.first_byte = 20}, "", HTTP_LATE_FIRST_BYTE},
        {{.first_byte = 20, .idle = 20},
         "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 2",
         HTTP_LATE_FIRST_BYTE},
        {{.idle = 20}, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhi", HTTP_LATE_IDLE},
        {{.total = 20}, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhi", HTTP_LATE_TOTAL},
        {{.total = 20}, "", HTTP_LATE_TOTAL},
        {{.head = 20}, "", HTTP_LATE_TOTAL},
        {{.head = 20, .total = 20000}, "HTTP/1.1 100 Continue\r\n\r\n", HTTP_LATE_TOTAL},
        {{.head = 20000, .total = 20}, "", HTTP_LATE_TOTAL},
        {{.head = 20000, .total = 20},
         "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhi",
         HTTP_LATE_TOTAL},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct pair pair;

        pair_init(&pair);
        kit_send_within(&pair.kit, &pair.out, pair.origin, "GET", "/", 0, &rows[i].timeouts);
        struct kit_raw *raw = kit_raw_accept(&pair.kit, pair.listening);
        kit_put(&pair.kit, raw, rows[i].reply);
        kit_until(&pair.kit, kit_over(&pair.out));
        assert_int_equal(pair.out.why, rows[i].why);
        kit_until(&pair.kit, raw->eof || raw->reset);
        pair_fini(&pair);
    }
}

/* Who waits for an answer so long may listen to it for longer. */
static void the_deadline_of_the_head_is_over_with_it(void **state)
{
    struct http_timeouts head = {.head = 30}, other = {.first_byte = 60};
    struct kit_out second;
    struct pair pair;

    (void)state;
    pair_init(&pair);
    kit_send_within(&pair.kit, &pair.out, pair.origin, "GET", "/", 0, &head);
    struct kit_raw *raw = kit_raw_accept(&pair.kit, pair.listening);
    kit_put(&pair.kit, raw, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nh");
    kit_until(&pair.kit, pair.out.status == 200 || kit_over(&pair.out));
    if (pair.out.status == 200) { /* not so on a machine that was away for the time */
        kit_send_within(&pair.kit, &second, pair.origin, "GET", "/", 0, &other);
        kit_until(&pair.kit, kit_over(&second)); /* later than the head had to be there */
        assert_false(kit_over(&pair.out));
        kit_put(&pair.kit, raw, "i");
        kit_until(&pair.kit, pair.out.ended);
    }
    pair_fini(&pair);
}

/* Nor is it the upstream's fault when the request is slow to come. */
static void the_first_byte_is_awaited_only_when_it_is_the_upstreams_turn(void **state)
{
    struct http_timeouts first = {.first_byte = 10}, other = {.first_byte = 60};
    struct kit_out second;
    struct pair pair;

    (void)state;
    pair_init(&pair);
    kit_send_within(&pair.kit, &pair.out, pair.origin, "POST", "/", 5, &first);
    struct kit_raw *raw = kit_raw_accept(&pair.kit, pair.listening);
    kit_until(&pair.kit, kit_got(raw, "\r\n\r\n"));
    kit_send_within(&pair.kit, &second, pair.origin, "GET", "/", 0, &other);
    kit_until(&pair.kit, kit_over(&second)); /* later than the first would have been */
    assert_false(kit_over(&pair.out));
    http_outbound_write(pair.out.out, SLICE("hello"));
    http_outbound_finish(pair.out.out);
    kit_until(&pair.kit, kit_over(&pair.out));
    assert_int_equal(pair.out.why, HTTP_LATE_FIRST_BYTE);
    pair_fini(&pair);
}

/* TLS towards somebody who says nothing: connecting includes the handshake. */
static void a_handshake_that_never_ends_is_a_late_connect(void **state)
{
    struct http_timeouts timeouts = {.connect = 20};
    struct tls_context *tls;
    struct pair pair;

    (void)state;
    pair_init(&pair);
    assert_int_equal(tls_client_new("system", NULL, NULL, &tls, NULL), TG_OK);
    struct http_origin *origin = kit_origin(pair.port, tls, NULL);
    kit_send_within(&pair.kit, &pair.out, origin, "GET", "/", 0, &timeouts);
    kit_until(&pair.kit, kit_over(&pair.out));
    assert_int_equal(pair.out.why, HTTP_LATE_CONNECT);
    assert_false(pair.out.sent);
    http_origin_unref(origin);
    tls_context_unref(tls);
    pair_fini(&pair);
}

/* A paused owner is slow, not the upstream. */
static void pause_at_head(struct kit_out *out)
{
    http_outbound_pause(out->out);
}

static void the_idle_deadline_rests_while_paused(void **state)
{
    struct http_timeouts idle = {.idle = 10}, other = {.first_byte = 60};
    struct kit_out second;
    struct pair pair;

    (void)state;
    pair_init(&pair);
    pair.kit.on_head = pause_at_head;
    kit_send_within(&pair.kit, &pair.out, pair.origin, "GET", "/", 0, &idle);
    struct kit_raw *raw = kit_raw_accept(&pair.kit, pair.listening);
    kit_put(&pair.kit, raw, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
    kit_until(&pair.kit, pair.out.status == 200);
    kit_send_within(&pair.kit, &second, pair.origin, "GET", "/", 0, &other);
    kit_until(&pair.kit, kit_over(&second)); /* later than idle would have been */
    assert_false(kit_over(&pair.out));
    assert_int_equal(pair.out.body_n, 0);
    http_outbound_resume(pair.out.out);
    kit_until(&pair.kit, pair.out.ended);
    assert_string_equal(pair.out.body, "hi");
    pair_fini(&pair);
}

/* ---- Back-pressure --------------------------------------------------------------------------- */

static void fill(struct kit_out *out)
{
    static char piece[8192];

    while (http_outbound_write(out->out, (struct slice){piece, sizeof piece}) <=
           out->kit->client_options.output_high)
        ;
}

static void an_upstream_that_never_reads_is_bounded(void **state)
{
    struct pair pair;

    (void)state;
    pair_init(&pair);
    kit_send(&pair.kit, &pair.out, pair.origin, "POST", "/", -1);
    fill(&pair.out); /* before there is a connection */
    size_t bound = pair.kit.client_options.output_high + 8192 + 512;
    assert_true(http_outbound_queued(pair.out.out) <= bound);
    pair.kit.on_out_room = fill;
    struct kit_raw *raw = kit_raw_accept(&pair.kit, pair.listening);
    raw->stuck = true;
    kit_calm(&pair.kit);
    assert_true(http_outbound_queued(pair.out.out) <= bound);
    int before = pair.out.rooms;
    raw->stuck = false;
    kit_until(&pair.kit, pair.out.rooms > before + 2);
    assert_true(http_outbound_queued(pair.out.out) <= bound);
    http_outbound_cancel(pair.out.out);
    kit_until(&pair.kit, raw->eof || raw->reset);
    pair_fini(&pair);
}

static void pause_with_some(struct kit_out *out, struct slice bytes)
{
    (void)bytes;
    http_outbound_pause(out->out);
}

static void a_paused_reply_waits_in_the_kernel(void **state)
{
    static char piece[1 << 16];
    struct pair pair;

    (void)state;
    pair_init(&pair);
    pair.kit.on_reply = pause_with_some;
    struct kit_raw *raw = pair_get(&pair);
    kit_put(&pair.kit, raw, "HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n");
    while (send(raw->fd, piece, sizeof piece, MSG_NOSIGNAL) > 0)
        kit_calm(&pair.kit);
    assert_true(pair.out.body_n > 0 && pair.out.body_n <= 16384);
    size_t before = pair.out.body_n;
    http_outbound_resume(pair.out.out);
    kit_until(&pair.kit, pair.out.body_n > before);
    kit_calm(&pair.kit);
    assert_true(pair.out.body_n <= before + 16384);
    http_outbound_cancel(pair.out.out);
    pair_fini(&pair);
}

/* The upstream refuses before it has read the request: its reply counts, not the failed write. */
static void an_early_reply_is_heard(void **state)
{
    struct pair pair;

    (void)state;
    pair_init(&pair);
    kit_send(&pair.kit, &pair.out, pair.origin, "POST", "/", 100000000);
    fill(&pair.out);
    struct kit_raw *raw = kit_raw_accept(&pair.kit, pair.listening);
    kit_until(&pair.kit, kit_got(raw, "\r\n\r\n"));
    kit_put(&pair.kit, raw, "HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno");
    kit_until(&pair.kit, kit_over(&pair.out));
    assert_true(pair.out.ended);
    assert_int_equal(pair.out.status, 413);
    assert_int_equal(http_client_idle(pair.kit.client), 0);
    pair_fini(&pair);
}

/* ---- Cancelling ------------------------------------------------------------------------------ */

static void cancel_it(struct kit_out *out)
{
    http_outbound_cancel(out->out);
    out->out = NULL;
}

static void cancel_with_data(struct kit_out *out, struct slice bytes)
{
    (void)bytes;
    cancel_it(out);
}

static void cancelling_is_silent_in_every_phase(void **state)
{
    (void)state;
    for (int phase = 0; phase < 6; phase++) {
        struct pair pair;

        pair_init(&pair);
        kit_send(&pair.kit, &pair.out, pair.origin, "POST", "/", -1);
        if (phase == 0) { /* nothing has happened yet */
            cancel_it(&pair.out);
        } else {
            struct kit_raw *raw = kit_raw_accept(&pair.kit, pair.listening);

            kit_until(&pair.kit, kit_got(raw, "\r\n\r\n"));
            if (phase == 4)
                pair.kit.on_head = cancel_it;
            if (phase == 5)
                pair.kit.on_reply = cancel_with_data;
            if (phase >= 2)
                kit_put(&pair.kit, raw, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n");
            if (phase >= 3)
                kit_put(&pair.kit, raw, "hi");
            kit_calm(&pair.kit);
            if (phase < 4)
                cancel_it(&pair.out);
            kit_until(&pair.kit, raw->eof || raw->reset);
        }
        kit_calm(&pair.kit);
        assert_false(kit_over(&pair.out));
        assert_int_equal(http_client_busy(pair.kit.client), 0);
        pair_fini(&pair);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_are_framed_by_us),
        cmocka_unit_test(replies_are_the_same_however_cut),
        cmocka_unit_test(bodies_go_out_with_and_without_a_length),
        cmocka_unit_test(both_sides_of_ours_understand_each_other),
        cmocka_unit_test(the_end_of_the_connection_may_be_the_end_of_the_reply),
        cmocka_unit_test(replies_without_a_body_have_none),
        cmocka_unit_test(a_kept_connection_that_died_is_replaced),
        cmocka_unit_test(a_kept_connection_that_dies_later_is_the_owners_to_judge),
        cmocka_unit_test(what_nobody_asked_for_ends_a_connection),
        cmocka_unit_test(connections_are_kept_within_bounds),
        cmocka_unit_test(garbage_is_told_as_such),
        cmocka_unit_test(a_reply_cut_off_is_a_reset),
        cmocka_unit_test(where_nobody_listens_is_unreachable),
        cmocka_unit_test(a_name_that_is_none_is_unresolved),
        cmocka_unit_test(names_are_looked_up),
        cmocka_unit_test(what_cannot_be_sent_is_not),
        cmocka_unit_test(every_deadline_has_its_name),
        cmocka_unit_test(the_deadline_of_the_head_is_over_with_it),
        cmocka_unit_test(the_first_byte_is_awaited_only_when_it_is_the_upstreams_turn),
        cmocka_unit_test(a_handshake_that_never_ends_is_a_late_connect),
        cmocka_unit_test(the_idle_deadline_rests_while_paused),
        cmocka_unit_test(an_upstream_that_never_reads_is_bounded),
        cmocka_unit_test(a_paused_reply_waits_in_the_kernel),
        cmocka_unit_test(an_early_reply_is_heard),
        cmocka_unit_test(cancelling_is_silent_in_every_phase),
    };

    return cmocka_run_group_tests_name("http_client", tests, NULL, NULL);
}
