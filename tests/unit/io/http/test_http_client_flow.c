/* test_http_client_flow.c - requests that go out, on real sockets: deadlines, back-pressure,
 * cancelling.
 */
#include "http1_upstream.h"

#include <sys/socket.h>

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
        kit_expect_failure(&pair.out, rows[i].why);
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
    kit_expect_failure(&pair.out, HTTP_LATE_FIRST_BYTE);
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
    kit_expect_failure(&pair.out, HTTP_LATE_CONNECT);
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
    kit_expect_reply(&pair.out);
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

    return cmocka_run_group_tests_name("http_client_flow", tests, NULL, NULL);
}
