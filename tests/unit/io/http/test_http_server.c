/* test_http_server.c - requests that come in, on real sockets: replies, turns, limits, hang-ups. */
#include "net_kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static void start(struct kit *kit)
{
    kit_init(kit);
    kit_listen(kit);
}

static void reply_at_once(struct kit_in *in)
{
    kit_reply(in, 429, "no");
}

static void reply_at_end(struct kit_in *in)
{
    kit_reply(in, 200, "fine");
}

/* ---- Round trips ----------------------------------------------------------------------------- */

static void a_request_is_answered_and_the_connection_kept(void **state)
{
    struct kit kit;

    (void)state;
    start(&kit);
    kit.on_end = kit_echo;
    struct kit_raw *raw = kit_connect(&kit);
    for (int i = 0; i < 3; i++) {
        kit_forget(raw);
        kit_put(&kit, raw, "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello");
        kit_until(&kit, kit_got(raw, "hello"));
        assert_string_equal(raw->got, "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello");
    }
    assert_int_equal(kit.n_ins, 3);
    assert_string_equal(kit.ins[2].line, "POST /x");
    assert_int_equal(kit.ins[2].why, HTTP_DONE);
    assert_int_equal(http_listener_open(kit.listener), 1);
    assert_int_equal(http_listener_busy(kit.listener), 0);
    kit_fini(&kit);
}

static void chunks_go_both_ways_however_cut(void **state)
{
    static const char request[] = "POST /x HTTP/1.1\r\nHost: a\r\n"
                                  "Transfer-Encoding: chunked\r\n\r\n"
                                  "2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n";
    struct kit kit;

    (void)state;
    start(&kit);
    kit.on_end = kit_echo_chunked;
    struct kit_raw *raw = kit_connect(&kit);
    for (size_t cut = 1; cut < sizeof request - 1; cut++) {
        kit_forget(raw);
        kit_put_bytes(&kit, raw, request, cut);
        kit_calm(&kit);
        kit_put_bytes(&kit, raw, request + cut, sizeof request - 1 - cut);
        kit_until(&kit, kit_got(raw, "\r\n0\r\n\r\n"));
        assert_string_equal(
            raw->got, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
                      "5\r\nhello\r\n0\r\n\r\n");
    }
    kit_fini(&kit);
}

static void pipelined_requests_are_answered_in_turn(void **state)
{
    struct kit kit;

    (void)state;
    start(&kit);
    struct kit_raw *raw = kit_connect(&kit);
    kit_put(&kit, raw,
            "POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx"
            "GET /2 HTTP/1.1\r\nHost: a\r\n\r\nGET /3 HTTP/1.1\r\nHost: a\r\n\r\n");
    kit_until(&kit, kit.n_ins == 1 && kit.ins[0].ended);
    kit_calm(&kit);
    assert_int_equal(kit.n_ins, 1); /* the second waits for the first */
    kit_reply(&kit.ins[0], 200, "one");
    kit_until(&kit, kit.n_ins == 2);
    assert_string_equal(kit.ins[1].line, "GET /2");
    kit.on_end = reply_at_end;
    kit_reply(&kit.ins[1], 200, "two");
    kit_until(&kit, kit_got(raw, "fine"));
    assert_true(strstr(raw->got, "one") < strstr(raw->got, "two"));
    kit_fini(&kit);
}

static void head_and_empty_statuses_have_no_body(void **state)
{
    struct kit kit;

    (void)state;
    start(&kit);
    struct kit_raw *raw = kit_connect(&kit);
    kit_put(&kit, raw, "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n");
    kit_until(&kit, kit.n_ins == 1 && kit.ins[0].ended);
    kit_reply(&kit.ins[0], 200, "twelve bytes");
    kit_put(&kit, raw, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    kit_until(&kit, kit.n_ins == 2 && kit.ins[1].ended);
    kit_reply(&kit.ins[1], 204, "");
    kit_until(&kit, kit_got(raw, "204"));
    assert_string_equal(raw->got,
                        "HTTP/1.1 200 OK\r\ncontent-length: 12\r\ncontent-type: text/plain\r\n\r\n"
                        "HTTP/1.1 204 No Content\r\ncontent-type: text/plain\r\n\r\n");
    kit_fini(&kit);
}

static void old_clients_get_an_end_they_understand(void **state)
{
    struct kit kit;

    (void)state;
    start(&kit);
    kit.on_end = kit_echo_chunked;
    struct kit_raw *raw = kit_connect(&kit);
    kit_put(&kit, raw, "POST / HTTP/1.0\r\nContent-Length: 2\r\n\r\nhi");
    kit_until(&kit, raw->eof);
    assert_string_equal(raw->got, "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nhi");
    kit.on_end = kit_echo;
    raw = kit_connect(&kit);
    kit_put(&kit, raw, "POST / HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nhi");
    kit_until(&kit, kit_got(raw, "hi"));
    assert_true(kit_got(raw, "connection: keep-alive"));
    kit_put(&kit, raw,
            "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 2\r\n\r\nyo");
    kit_until(&kit, raw->eof);
    assert_true(kit_got(raw, "yo"));
    assert_true(kit_got(raw, "connection: close"));
    kit_fini(&kit);
}

static void fields_stay_one_field_whatever_they_hold(void **state)
{
    struct http_field fields[] = {
        {SLICE("x-evil"), SLICE("a\r\nset-cookie: b")},
        {SLICE("bad name"), SLICE("x")},
        {SLICE("Content-Length"), SLICE("999")},
        {SLICE("connection"), SLICE("x-gone")},
        {SLICE("x-gone"), SLICE("1")},
        {SLICE("x-kept"), SLICE("")},
    };
    struct http_head head = {.status = 200, .fields = fields, .n_fields = COUNT_OF(fields)};
    struct kit kit;

    (void)state;
    start(&kit);
    struct kit_raw *raw = kit_connect(&kit);
    kit_put(&kit, raw, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    kit_until(&kit, kit.n_ins == 1 && kit.ins[0].ended);
    http_inbound_send(kit.ins[0].in, &head, SLICE("ok"));
    kit_until(&kit, kit_got(raw, "ok"));
    assert_string_equal(raw->got, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n"
                                  "x-evil: a  set-cookie: b\r\nx-kept: \r\n\r\nok");
    kit_fini(&kit);
}

static void bytes_beyond_the_stated_length_are_dropped(void **state)
{
    struct http_head head = {.status = 200, .length = 3};
    struct kit kit;

    (void)state;
    start(&kit);
    struct kit_raw *raw = kit_connect(&kit);
    kit_put(&kit, raw, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    kit_until(&kit, kit.n_ins == 1 && kit.ins[0].ended);
    http_inbound_reply(kit.ins[0].in, &head);
    http_inbound_write(kit.ins[0].in, SLICE("abcdef"));
    http_inbound_finish(kit.ins[0].in);
    kit_until(&kit, kit.ins[0].gone);
    kit_until(&kit, kit_got(raw, "abc"));
    assert_false(kit_got(raw, "abcd"));
    /* Fewer: the client must see that something is missing. */
    kit_put(&kit, raw, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    kit_until(&kit, kit.n_ins == 2 && kit.ins[1].ended);
    http_inbound_reply(kit.ins[1].in, &head);
    http_inbound_write(kit.ins[1].in, SLICE("a"));
    http_inbound_finish(kit.ins[1].in);
    kit_until(&kit, kit.ins[1].gone);
    assert_int_equal(kit.ins[1].why, HTTP_ABORTED);
    kit_until(&kit, raw->eof || raw->reset);
    kit_fini(&kit);
}

/* ---- Before the body ------------------------------------------------------------------------- */

static void continue_is_sent_when_the_owner_reads(void **state)
{
    struct kit kit;

    (void)state;
    start(&kit);
    kit.on_end = kit_echo;
    struct kit_raw *raw = kit_connect(&kit);
    kit_put(&kit, raw,
            "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    kit_until(&kit, kit_got(raw, "\r\n\r\n"));
    assert_string_equal(raw->got, "HTTP/1.1 100 Continue\r\n\r\n");
    kit_put(&kit, raw, "hi");
    kit_until(&kit, kit_got(raw, "hi"));
    kit_fini(&kit);
}

static void pause_it(struct kit_in *in)
{
    http_inbound_pause(in->in);
}

static void continue_waits_for_an_owner_that_waits(void **state)
{
    struct kit kit;

    (void)state;
    start(&kit);
    kit.on_begin = pause_it;
    kit.on_end = kit_echo;
    struct kit_raw *raw = kit_connect(&kit);
    kit_put(&kit, raw,
            "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    kit_until(&kit, kit.n_ins == 1);
    kit_calm(&kit);
    assert_int_equal(raw->n, 0);
    http_inbound_resume(kit.ins[0].in);
    kit_until(&kit, kit_got(raw, "100 Continue"));
    kit_put(&kit, raw, "hi");
    kit_until(&kit, kit_got(raw, "hi"));
    kit_fini(&kit);
}

static void a_refusal_before_continue_closes(void **state)
{
    struct kit kit;

    (void)state;
    start(&kit);
    kit.on_begin = reply_at_once;
    struct kit_raw *raw = kit_connect(&kit);
    kit_put(&kit, raw,
            "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    kit_until(&kit, raw->eof);
    assert_false(kit_got(raw, "100 Continue"));
    assert_true(kit_got(raw, "429") && kit_got(raw, "connection: close"));
    kit_until(&kit, kit.ins[0].gone);
    assert_int_equal(kit.ins[0].why, HTTP_DONE);
    kit_fini(&kit);
}

/* The rest of a small request is read, and the connection goes on. */
static void an_early_reply_keeps_the_connection(void **state)
{
    struct kit kit;

    (void)state;
    start(&kit);
    kit.on_begin = reply_at_once;
    struct kit_raw *raw = kit_connect(&kit);
    kit_put(&kit, raw, "POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n123");
    kit_until(&kit, kit_got(raw, "429"));
    assert_false(kit_got(raw, "connection: close"));
    kit_put(&kit, raw, "456789POST /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    kit_until(&kit, kit_count(raw, "429") == 2);
    assert_string_equal(kit.ins[1].line, "POST /2");
    assert_int_equal(kit.ins[0].body_n, 0);
    kit_fini(&kit);
}

/* A large one is not, but its client sees the reply all the same, not a reset. */
static void an_early_reply_to_a_large_request_arrives(void **state)
{
    static char piece[65536];
    struct kit kit;

    (void)state;
    kit_init(&kit);
    kit.options.limits.linger_bytes = 1 << 20;
    kit.options.limits.close_bytes = 9 << 20;
    kit.options.limits.linger_ms = kit.options.limits.close_ms = 100000;
    kit_listen(&kit);
    kit.on_begin = reply_at_once;
    struct kit_raw *raw = kit_connect(&kit);
    kit_put(&kit, raw, "POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999\r\n\r\n");
    for (int i = 0; i < 128; i++) { /* 8 MiB, as from a client that reads nothing meanwhile */
        kit_put_bytes(&kit, raw, piece, sizeof piece);
        kit_calm(&kit);
        assert_int_equal(http_listener_open(kit.listener), 1);
    }
    kit_until(&kit, raw->eof);
    assert_true(kit_got(raw, "429") && kit_got(raw, "connection: close"));
    /* And it does not go on for ever. */
    kit_until(&kit, kit.ins[0].gone);
    for (int i = 0; i < 40 && http_listener_open(kit.listener) > 0; i++) {
        kit_put_bytes(&kit, raw, piece, sizeof piece);
        kit_calm(&kit);
    }
    kit_until(&kit, http_listener_open(kit.listener) == 0);
    kit_fini(&kit);
}

/* The same by time: a client that never ends its request, and one that sends nothing more. */
static void an_early_reply_is_not_lingered_over_for_ever(void **state)
{
    static const struct {
        tg_ms without_a_byte, in_all;
        bool sends;
    } rows[] = {{20, 100000, false}, {100000, 20, true}};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct kit kit;

        kit_init(&kit);
        kit.options.limits.linger_ms = rows[i].without_a_byte;
        kit.options.limits.close_ms = rows[i].in_all;
        kit_listen(&kit);
        kit.on_begin = reply_at_once;
        struct kit_raw *raw = kit_connect(&kit);
        kit_put(&kit, raw, "POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999\r\n\r\n");
        kit_until(&kit, raw->eof);
        assert_true(kit_got(raw, "429"));
        while (http_listener_open(kit.listener) > 0) {
            if (rows[i].sends)
                kit_put(&kit, raw, "x");
            kit_calm(&kit);
        }
        kit_fini(&kit);
    }
}

/* ---- Back-pressure --------------------------------------------------------------------------- */

static void fill(struct kit_in *in)
{
    static char piece[8192];

    while (http_inbound_write(in->in, (struct slice){piece, sizeof piece}) <=
           in->kit->options.limits.output_high)
        ;
}

static void a_reader_that_never_reads_is_bounded(void **state)
{
    struct http_head head = {.status = 200, .length = -1};
    struct kit kit;

    (void)state;
    start(&kit);
    struct kit_raw *raw = kit_connect(&kit);
    raw->stuck = true;
    kit_put(&kit, raw, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    kit_until(&kit, kit.n_ins == 1 && kit.ins[0].ended);
    struct kit_in *in = &kit.ins[0];
    http_inbound_reply(in->in, &head);
    fill(in);
    kit_calm(&kit);
    size_t bound = kit.options.limits.output_high + 8192 + 64;
    assert_true(http_inbound_queued(in->in) <= bound);
    kit.on_room = fill;
    kit_calm(&kit);
    assert_true(http_inbound_queued(in->in) <= bound);
    int before = in->rooms;
    raw->stuck = false;
    kit_until(&kit, in->rooms > before + 2);
    assert_true(http_inbound_queued(in->in) <= bound);
    kit.on_room = NULL;
    http_inbound_finish(in->in);
    kit_until(&kit, in->gone);
    assert_int_equal(in->why, HTTP_DONE);
    kit_fini(&kit);
}

static void pause_when_it_has_some(struct kit_in *in, struct slice bytes)
{
    (void)bytes;
    http_inbound_pause(in->in);
}

static void a_paused_body_waits_in_the_kernel(void **state)
{
    static char piece[1 << 16];
    struct kit kit;
    size_t put = 0;

    (void)state;
    start(&kit);
    kit.on_data = pause_when_it_has_some;
    struct kit_raw *raw = kit_connect(&kit);
    kit_put(&kit, raw, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\n");
    for (;;) {
        ssize_t n = send(raw->fd, piece, sizeof piece, MSG_NOSIGNAL);

        kit_calm(&kit);
        if (n < 0)
            break;
        put += (size_t)n;
    }
    assert_true(kit.ins[0].body_n <= 16384);
    assert_true(put < 64 << 20);
    size_t before = kit.ins[0].body_n;
    http_inbound_resume(kit.ins[0].in);
    kit_until(&kit, kit.ins[0].body_n > before);
    kit_calm(&kit);
    assert_true(kit.ins[0].body_n <= before + 16384);
    /* A plain close would wait behind what the client's system could not send yet. */
    kit_reset(raw);
    kit_until(&kit, kit.ins[0].gone);
    kit_fini(&kit);
}

/* ---- Hang-ups, in every phase ---------------------------------------------------------------- */

enum phase {
    IN_HEAD,
    IN_BODY,
    IN_PAUSED_BODY,
    WAITING,
    REPLYING,
    STUCK,
    PHASES,
};

static const char *const request_of[PHASES] = {
    [IN_HEAD] = "POST / HTTP/1.1\r\nHost",
    [IN_BODY] = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc",
    [IN_PAUSED_BODY] = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc",
    [WAITING] = "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    [REPLYING] = "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    [STUCK] = "GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n",
};

static void bring_to(struct kit *kit, enum phase phase)
{
    struct http_head head = {.status = 200, .length = -1};

    if (phase == IN_HEAD) {
        kit_calm(kit);
        return;
    }
    kit_until(kit, kit->n_ins == 1);
    kit_calm(kit);
    if (phase == REPLYING || phase == STUCK) {
        http_inbound_reply(kit->ins[0].in, &head);
        http_inbound_write(kit->ins[0].in, SLICE("some"));
        kit_calm(kit);
    }
    if (phase == STUCK)
        fill(&kit->ins[0]);
}

static void a_client_that_leaves_is_noticed_in_every_phase(void **state)
{
    (void)state;
    for (int i = 0; i < 2 * PHASES; i++) {
        enum phase phase = (enum phase)(i / 2);
        struct kit kit;

        start(&kit);
        if (phase == IN_PAUSED_BODY)
            kit.on_data = pause_when_it_has_some;
        struct kit_raw *raw = kit_connect(&kit);
        raw->stuck = phase == STUCK;
        kit_put(&kit, raw, request_of[phase]);
        bring_to(&kit, phase);
        assert_int_equal(http_listener_open(kit.listener), 1);
        if (i % 2 == 0)
            kit_hang_up(raw);
        else
            kit_reset(raw);
        kit_until(&kit, http_listener_open(kit.listener) == 0);
        assert_int_equal(kit.n_ins, phase == IN_HEAD ? 0 : 1);
        if (kit.n_ins > 0)
            assert_int_equal(kit.ins[0].why, HTTP_HANGUP);
        kit_fini(&kit);
    }
}

static void abort_in_begin(struct kit_in *in)
{
    http_inbound_abort(in->in);
    http_inbound_abort(in->in);
    kit_reply(in, 200, "too late");
}

static void the_owner_may_abort_in_every_phase(void **state)
{
    (void)state;
    for (enum phase phase = IN_BODY; phase < PHASES; phase++) {
        struct kit kit;

        start(&kit);
        struct kit_raw *raw = kit_connect(&kit);
        raw->stuck = phase == STUCK;
        kit_put(&kit, raw, request_of[phase]);
        bring_to(&kit, phase);
        http_inbound_abort(kit.ins[0].in);
        assert_false(kit.ins[0].gone); /* not from inside the call */
        raw->stuck = false;
        kit_until(&kit, raw->eof || raw->reset);
        assert_int_equal(kit.ins[0].why, HTTP_ABORTED);
        kit_fini(&kit);
    }
    struct kit kit;
    start(&kit);
    kit.on_begin = abort_in_begin;
    struct kit_raw *raw = kit_connect(&kit);
    kit_put(&kit, raw, request_of[IN_BODY]);
    kit_until(&kit, raw->eof || raw->reset);
    assert_int_equal(kit.ins[0].why, HTTP_ABORTED);
    kit_fini(&kit);
}

static void freeing_a_listener_ends_what_runs(void **state)
{
    (void)state;
    for (enum phase phase = IN_HEAD; phase < PHASES; phase++) {
        struct kit kit;

        start(&kit);
        struct kit_raw *raw = kit_connect(&kit);
        raw->stuck = phase == STUCK;
        kit_put(&kit, raw, request_of[phase]);
        bring_to(&kit, phase);
        http_listener_free(kit.listener);
        kit.listener = NULL;
        if (kit.n_ins > 0)
            assert_int_equal(kit.ins[0].why, HTTP_ABORTED);
        kit_fini(&kit);
    }
}

static void draining_finishes_what_runs_and_takes_no_more(void **state)
{
    struct kit kit;

    (void)state;
    start(&kit);
    struct kit_raw *idle = kit_connect(&kit), *busy = kit_connect(&kit);
    kit_put(&kit, busy, request_of[WAITING]);
    kit_until(&kit, kit.n_ins == 1 && http_listener_open(kit.listener) == 2);
    http_listener_drain(kit.listener);
    kit_until(&kit, idle->eof);
    assert_int_equal(kit.ins[0].gone, false);
    kit_reply(&kit.ins[0], 200, "last");
    kit_until(&kit, busy->eof);
    assert_true(kit_got(busy, "last") && kit_got(busy, "connection: close"));
    assert_int_equal(http_listener_open(kit.listener), 0);
    kit_fini(&kit);
}

/* ---- Limits of time and number --------------------------------------------------------------- */

static void slow_clients_are_told_or_dropped(void **state)
{
    struct kit kit;

    (void)state;
    kit_init(&kit);
    kit.options.limits.header_ms = 30;
    kit.options.limits.body_ms = 30;
    kit.options.limits.idle_ms = 30;
    kit.options.limits.linger_ms = 30;
    kit_listen(&kit);
    struct kit_raw *silent = kit_connect(&kit), *head = kit_connect(&kit),
                   *body = kit_connect(&kit);
    kit_put(&kit, head, request_of[IN_HEAD]);
    kit_put(&kit, body, request_of[IN_BODY]);
    kit_until(&kit, silent->eof && head->eof && body->eof);
    assert_int_equal(silent->n, 0);
    assert_true(kit_got(head, "HTTP/1.1 408") && kit_got(head, "\"refused\":408"));
    assert_true(kit_got(body, "HTTP/1.1 408"));
    assert_int_equal(kit.n_ins, 1);
    assert_int_equal(kit.ins[0].why, HTTP_TIMEOUT);
    kit.on_end = reply_at_end;
    struct kit_raw *kept = kit_connect(&kit);
    kit_put(&kit, kept, request_of[WAITING]);
    kit_until(&kit, kept->eof); /* after the reply, for want of another request */
    assert_true(kit_got(kept, "fine"));
    kit_fini(&kit);
}

static void an_idle_connection_stays_while_its_owner_wants_it(void **state)
{
    struct kit kit;

    (void)state;
    kit_init(&kit);
    kit.options.limits.idle_ms = 5;
    kit.keep = 3;
    kit.on_end = reply_at_end;
    kit_listen(&kit);
    struct kit_raw *idle = kit_connect(&kit);
    kit_put(&kit, idle, request_of[WAITING]);
    kit_until(&kit, idle->eof);
    assert_true(kit_got(idle, "fine"));
    assert_int_equal(kit.keep, 0);
    kit_fini(&kit);
}

/* A byte now and then keeps nobody waiting for ever. */
static void a_body_that_trickles_is_refused(void **state)
{
    struct kit kit;

    (void)state;
    kit_init(&kit);
    kit.options.limits.body_ms = 30;
    kit.options.limits.body_rate = 1000000000;
    kit_listen(&kit);
    kit.on_end = reply_at_end;
    struct kit_raw *raw = kit_connect(&kit);
    kit_put(&kit, raw, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\n");
    kit_until(&kit, kit.n_ins == 1);
    while (!kit.ins[0].gone) {
        kit_put(&kit, raw, "x");
        kit_calm(&kit);
    }
    assert_int_equal(kit.ins[0].why, HTTP_TIMEOUT);
    kit_until(&kit, kit_got(raw, "HTTP/1.1 408"));
    kit_fini(&kit);
}

/* What comes fast enough may take as long as it likes. */
static void a_body_that_comes_steadily_is_taken(void **state)
{
    static char piece[4000];
    struct kit kit;
    tg_ms begun;

    (void)state;
    kit_init(&kit);
    kit.options.limits.body_ms = 1000;
    kit.options.limits.body_rate = 1000; /* so that a piece is good for more than all of body_ms */
    kit_listen(&kit);
    kit.on_end = reply_at_end;
    memset(piece, 'x', sizeof piece);
    struct kit_raw *raw = kit_connect(&kit);
    kit_put(&kit, raw, "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
    kit_until(&kit, kit.n_ins == 1);
    begun = net_loop_now(kit.loop);
    while (net_loop_now(kit.loop) - begun <= kit.options.limits.body_ms) {
        kit_put(&kit, raw, "fa0\r\n");
        kit_put_bytes(&kit, raw, piece, sizeof piece);
        kit_put(&kit, raw, "\r\n");
        kit_calm(&kit);
    }
    kit_put(&kit, raw, "0\r\n\r\n");
    kit_until(&kit, kit_got(raw, "fine"));
    kit_fini(&kit);
}

static void a_client_that_takes_nothing_is_dropped(void **state)
{
    struct http_head head = {.status = 200, .length = -1};
    struct kit kit;

    (void)state;
    kit_init(&kit);
    kit.options.limits.write_ms = 30;
    kit_listen(&kit);
    struct kit_raw *raw = kit_connect(&kit);
    raw->stuck = true;
    kit_put(&kit, raw, request_of[WAITING]);
    kit_until(&kit, kit.n_ins == 1);
    http_inbound_reply(kit.ins[0].in, &head);
    kit.on_room = fill;
    fill(&kit.ins[0]);
    kit_until(&kit, kit.ins[0].gone);
    assert_int_equal(kit.ins[0].why, HTTP_TIMEOUT);
    kit_fini(&kit);
}

static void waiting_for_the_owner_has_no_limit_here(void **state)
{
    struct kit kit;

    (void)state;
    kit_init(&kit);
    kit.options.limits.header_ms = kit.options.limits.body_ms = kit.options.limits.idle_ms = 5;
    kit.options.limits.write_ms = 5;
    kit_listen(&kit);
    struct kit_raw *raw = kit_connect(&kit);
    struct kit_raw *other = kit_connect(&kit);
    kit_put(&kit, raw, request_of[WAITING]);
    kit_put(&kit, other, request_of[IN_HEAD]);
    kit_until(&kit, kit.n_ins == 1);
    kit_until(&kit, other->eof); /* so every timer has had its chance */
    assert_false(kit.ins[0].gone);
    kit_reply(&kit.ins[0], 200, "patience");
    kit_until(&kit, kit_got(raw, "patience"));
    kit_fini(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_answered_and_the_connection_kept),
        cmocka_unit_test(chunks_go_both_ways_however_cut),
        cmocka_unit_test(pipelined_requests_are_answered_in_turn),
        cmocka_unit_test(head_and_empty_statuses_have_no_body),
        cmocka_unit_test(old_clients_get_an_end_they_understand),
        cmocka_unit_test(fields_stay_one_field_whatever_they_hold),
        cmocka_unit_test(bytes_beyond_the_stated_length_are_dropped),
        cmocka_unit_test(continue_is_sent_when_the_owner_reads),
        cmocka_unit_test(continue_waits_for_an_owner_that_waits),
        cmocka_unit_test(a_refusal_before_continue_closes),
        cmocka_unit_test(an_early_reply_keeps_the_connection),
        cmocka_unit_test(an_early_reply_to_a_large_request_arrives),
        cmocka_unit_test(an_early_reply_is_not_lingered_over_for_ever),
        cmocka_unit_test(a_reader_that_never_reads_is_bounded),
        cmocka_unit_test(a_paused_body_waits_in_the_kernel),
        cmocka_unit_test(a_client_that_leaves_is_noticed_in_every_phase),
        cmocka_unit_test(the_owner_may_abort_in_every_phase),
        cmocka_unit_test(freeing_a_listener_ends_what_runs),
        cmocka_unit_test(draining_finishes_what_runs_and_takes_no_more),
        cmocka_unit_test(slow_clients_are_told_or_dropped),
        cmocka_unit_test(an_idle_connection_stays_while_its_owner_wants_it),
        cmocka_unit_test(a_body_that_trickles_is_refused),
        cmocka_unit_test(a_body_that_comes_steadily_is_taken),
        cmocka_unit_test(a_client_that_takes_nothing_is_dropped),
        cmocka_unit_test(waiting_for_the_owner_has_no_limit_here),
    };

    return cmocka_run_group_tests_name("http_server", tests, NULL, NULL);
}
