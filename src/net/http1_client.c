/* http1_client.c - an exchange on a connection that went out: request, reply, deadlines.
 *
 * What the owner writes before there is a connection waits with the exchange; then both wait in
 * the wire, and `queued` means the same all along. One timer serves connect, first byte and idle,
 * which never run at the same time; the total has its own.
 *
 * An upstream may refuse a request before it has read it, and close: then writing fails while its
 * reply is already here. So a failed write ends the writing, and only a failed read the exchange.
 */
#include <stdio.h>
#include <stdlib.h>

#include "net/http1_client.h"
#include "net/http1_write.h"

#define INFORMATIONAL_MAX 16

static const struct http_outbound_transport transport;

static struct out_exchange *exchange_of(struct http_outbound *out)
{
    return (struct out_exchange *)(void *)((char *)out - offsetof(struct out_exchange, out));
}

static void set_timer(struct out_exchange *exchange, tg_ms ms)
{
    if (ms > 0)
        net_timer_set(exchange->client->loop, &exchange->timer, ms);
    else
        net_timer_stop(exchange->client->loop, &exchange->timer);
}

/* What the exchange as a whole may still take: the total, or `sooner` if that is less and not 0. */
static void set_total(struct out_exchange *exchange, tg_ms sooner)
{
    struct net_loop *loop = exchange->client->loop;
    tg_ms ms = exchange->timeouts.total;

    if (sooner > 0 && (ms == 0 || sooner < ms))
        ms = sooner;
    if (ms > 0)
        net_timer_set(loop, &exchange->total, ms - (net_loop_now(loop) - exchange->began_at));
    else
        net_timer_stop(loop, &exchange->total);
}

static size_t queued_bytes(const struct out_exchange *exchange)
{
    if (!exchange->attached)
        return buf_bytes(&exchange->wait);
    return exchange->write_dead ? 0 : wire_queued(&exchange->conn->wire);
}

/* The upstream has its time for the first byte whenever it is its turn: all of the request is
 * written, or it does not take what is. While the owner is slow to write, nobody waits for it. */
static void await_reply(struct out_exchange *exchange)
{
    if (!exchange->attached || exchange->out.head_seen)
        return;
    if (exchange->out.finished || queued_bytes(exchange) > 0)
        set_timer(exchange, exchange->timeouts.first_byte);
    else
        set_timer(exchange, 0);
}

/* Bytes for the upstream, wherever they wait. False: no memory. */
static bool put(struct out_exchange *exchange, const void *bytes, size_t n)
{
    if (!exchange->attached)
        return buf_append(exchange->client->loop, &exchange->wait, bytes, n);
    if (!exchange->write_dead)
        wire_write(&exchange->conn->wire, bytes, n);
    return true;
}

/* ---- Ends ------------------------------------------------------------------------------------ */

static void note_sent(struct out_exchange *exchange)
{
    if (exchange->attached && exchange->conn->wire.taken > exchange->taken_before)
        exchange->out.sent = true;
}

/* Lets go of everything but the struct. The connection is the caller's to keep or to end. */
static void detach(struct out_exchange *exchange)
{
    struct net_loop *loop = exchange->client->loop;

    note_sent(exchange);
    net_timer_stop(loop, &exchange->timer);
    net_timer_stop(loop, &exchange->total);
    net_later_cancel(loop, &exchange->later);
    buf_release(loop, &exchange->wait);
    http_origin_unref(exchange->origin);
    exchange->origin = NULL;
    exchange->attached = false;
    exchange->conn = NULL;
}

void out_fail(struct out_exchange *exchange, enum http_why why, const char *text)
{
    struct out_conn *conn = exchange->conn;

    detach(exchange);
    if (conn != NULL)
        out_conn_end(conn);
    exchange->out.ops->failed(&exchange->out, why, text);
    out_exchange_give(exchange);
}

/* To be told from the loop: the owner is on the stack. */
static void fail_later(struct out_exchange *exchange, enum http_why why, const char *text)
{
    if (exchange->failing)
        return;
    exchange->failing = true;
    exchange->why = why;
    exchange->text = text;
    net_later_put(exchange->client->loop, &exchange->later);
}

static void timer_fires(void *arg)
{
    struct out_exchange *exchange = arg;

    if (!exchange->attached)
        out_fail(exchange, HTTP_LATE_CONNECT, "no connection in time");
    else if (!exchange->out.head_seen)
        out_fail(exchange, HTTP_LATE_FIRST_BYTE, "no reply in time");
    else
        out_fail(exchange, HTTP_LATE_IDLE, "the reply stopped");
}

static void total_fires(void *arg)
{
    out_fail(arg, HTTP_LATE_TOTAL, "the exchange took too long");
}

/* ---- Starting -------------------------------------------------------------------------------- */

void out_attach(struct out_exchange *exchange, struct out_conn *conn, bool reused)
{
    struct buf wait = exchange->wait;

    exchange->wait = (struct buf){0};
    exchange->conn = conn;
    exchange->attached = true;
    exchange->taken_before = conn->wire.taken;
    exchange->out.reused = reused;
    exchange->out.connected = net_loop_now(exchange->client->loop);
    conn->exchange = exchange;
    conn->state = OUT_BUSY;
    conn->parser.no_body = exchange->head_method;
    if (exchange->paused)
        wire_pause(&conn->wire);
    wire_write(&conn->wire, buf_first(&wait), buf_bytes(&wait));
    buf_release(exchange->client->loop, &wait);
    await_reply(exchange);
}

/* Put off by http_send() and by failures inside calls. */
static void exchange_work(void *arg)
{
    struct out_exchange *exchange = arg;

    if (exchange->failing)
        out_fail(exchange, exchange->why, exchange->text);
    else if (exchange->conn == NULL && !out_dial(exchange))
        out_fail(exchange, HTTP_NO_MEMORY, "no memory");
}

static void find_connection(struct out_exchange *exchange)
{
    struct http_shelf *shelf = http_shelf_of(exchange->client, exchange->origin);
    struct out_conn *conn = shelf != NULL ? out_conn_take(shelf) : NULL;

    if (conn != NULL)
        out_attach(exchange, conn, true);
    else
        net_later_put(exchange->client->loop, &exchange->later);
}

static bool put_head(struct out_exchange *exchange, const struct http_head *head)
{
    struct http1_framing framing = {
        .host = slice_of(exchange->origin->host_field),
        .chunked = head->length < 0,
        .length = head->length,
    };

    /* A body that is not there needs no length, except where one is expected. */
    if (head->length == 0 &&
        (slice_equal(head->method, SLICE("GET")) || slice_equal(head->method, SLICE("HEAD"))))
        framing.length = -1;
    return http1_put_request(exchange->client->loop, &exchange->wait, head, &framing);
}

struct http_outbound *http_send(struct http_client *client, struct http_origin *origin,
                                const struct http_head *head, const struct http_timeouts *timeouts,
                                const struct http_client_ops *ops, void *owner)
{
    struct out_exchange *exchange = out_exchange_take(client);

    if (exchange == NULL)
        return NULL;
    exchange->origin = http_origin_ref(origin);
    exchange->timeouts = *timeouts;
    exchange->out.transport = &transport;
    exchange->out.ops = ops;
    exchange->out.owner = owner;
    exchange->out.finished = head->length == 0;
    exchange->chunked = head->length < 0;
    exchange->left = head->length;
    exchange->head_method = slice_equal(head->method, SLICE("HEAD"));
    net_timer_init(&exchange->timer, timer_fires, exchange);
    net_timer_init(&exchange->total, total_fires, exchange);
    net_later_init(&exchange->later, exchange_work, exchange);
    if (!http1_is_fit(head) || slice_equal(head->method, SLICE("CONNECT"))) {
        fail_later(exchange, HTTP_UNFIT, "the method or the target cannot be sent");
        return &exchange->out;
    }
    if (!put_head(exchange, head)) {
        fail_later(exchange, HTTP_NO_MEMORY, "no memory");
        return &exchange->out;
    }
    set_timer(exchange, timeouts->connect);
    exchange->began_at = net_loop_now(client->loop);
    set_total(exchange, timeouts->head);
    find_connection(exchange);
    return &exchange->out;
}

/* ---- The owner's calls ----------------------------------------------------------------------- */

static size_t out_write(struct http_outbound *out, struct slice bytes)
{
    struct out_exchange *exchange = exchange_of(out);
    char line[HTTP1_CHUNK_BYTES];
    bool ok = true;

    if (out->finished || exchange->failing)
        return queued_bytes(exchange);
    if (!exchange->chunked && (uint64_t)bytes.n > (uint64_t)exchange->left)
        bytes.n = (size_t)exchange->left;
    if (bytes.n == 0)
        return queued_bytes(exchange);
    if (exchange->chunked)
        ok = put(exchange, line, http1_chunk_line(line, bytes.n));
    else
        exchange->left -= (int64_t)bytes.n;
    ok = ok && put(exchange, bytes.at, bytes.n);
    if (exchange->chunked)
        ok = ok && put(exchange, "\r\n", 2);
    if (!ok)
        fail_later(exchange, HTTP_NO_MEMORY, "no memory");
    note_sent(exchange);
    size_t queued = queued_bytes(exchange);
    if (queued > exchange->client->options.output_high)
        exchange->high = true;
    if (!net_timer_is_set(&exchange->timer))
        await_reply(exchange);
    return queued;
}

static void out_finish(struct http_outbound *out)
{
    struct out_exchange *exchange = exchange_of(out);

    if (out->finished || exchange->failing)
        return;
    if (exchange->left > 0) {
        fail_later(exchange, HTTP_UNFIT, "the body is shorter than it was said to be");
        return;
    }
    out->finished = true;
    if (exchange->chunked && !put(exchange, "0\r\n\r\n", 5))
        fail_later(exchange, HTTP_NO_MEMORY, "no memory");
    await_reply(exchange);
}

static void out_pause(struct http_outbound *out)
{
    struct out_exchange *exchange = exchange_of(out);

    exchange->paused = true;
    if (!exchange->attached)
        return;
    wire_pause(&exchange->conn->wire);
    if (out->head_seen)
        set_timer(exchange, 0); /* the owner is slow, not the upstream */
}

static void out_resume(struct http_outbound *out)
{
    struct out_exchange *exchange = exchange_of(out);

    if (!exchange->paused)
        return;
    exchange->paused = false;
    if (!exchange->attached)
        return;
    if (out->head_seen)
        set_timer(exchange, exchange->timeouts.idle);
    wire_resume(&exchange->conn->wire);
}

static void out_cancel(struct http_outbound *out)
{
    struct out_exchange *exchange = exchange_of(out);
    struct out_conn *conn = exchange->conn;

    detach(exchange);
    if (conn != NULL)
        out_conn_end(conn);
    out_exchange_give(exchange);
}

static size_t out_queued(const struct http_outbound *out)
{
    return queued_bytes(exchange_of((struct http_outbound *)(uintptr_t)out));
}

static const struct http_outbound_transport transport = {
    .write = out_write,
    .finish = out_finish,
    .pause = out_pause,
    .resume = out_resume,
    .cancel = out_cancel,
    .queued = out_queued,
};

/* ---- The reply ------------------------------------------------------------------------------- */

void out_wrote(struct out_exchange *exchange)
{
    note_sent(exchange);
    await_reply(exchange);
    if (!exchange->high || queued_bytes(exchange) > exchange->client->options.output_low)
        return;
    exchange->high = false;
    if (exchange->out.ops->room != NULL && !exchange->out.finished)
        exchange->out.ops->room(&exchange->out);
}

/* The reply is complete: the connection may serve again, if both sides mean it. */
static void complete(struct out_exchange *exchange, bool clean)
{
    struct out_conn *conn = exchange->conn;
    bool keep = clean && conn->parser.keep_alive && exchange->out.finished && !conn->wire.eof &&
                !exchange->write_dead && wire_queued(&conn->wire) == 0;

    detach(exchange);
    if (keep)
        out_conn_keep(conn);
    else
        out_conn_end(conn);
    exchange->out.ops->end(&exchange->out);
    out_exchange_give(exchange);
}

/* A head arrived. False: the exchange has failed. */
static bool reply_head(struct out_exchange *exchange)
{
    struct out_conn *conn = exchange->conn;
    int status = conn->parser.head.status;

    if (status == 101 || status < 100 ||
        (status < 200 && ++exchange->informational > INFORMATIONAL_MAX)) {
        out_fail(exchange, HTTP_GARBAGE, "a reply that nobody asked for");
        return false;
    }
    if (status < 200)
        return true;
    exchange->out.head_seen = true;
    set_timer(exchange, exchange->timeouts.idle);
    if (exchange->timeouts.head > 0)
        set_total(exchange, 0);
    http1_parser_move_head(&conn->parser, &exchange->reply, &exchange->reply_words,
                           &exchange->reply_list);
    exchange->out.ops->head(&exchange->out, &exchange->reply);
    return true;
}

/* One event of the parser. False: there is nothing more to do with this connection's bytes. */
static bool reply_event(struct out_conn *conn, enum http1_event event, struct slice body, bool last)
{
    struct out_exchange *exchange = conn->exchange;

    switch (event) {
    case HTTP1_HEAD:
        return reply_head(exchange) && conn->exchange == exchange;
    case HTTP1_BODY:
        set_timer(exchange, exchange->timeouts.idle);
        exchange->out.ops->data(&exchange->out, body);
        return conn->exchange == exchange;
    case HTTP1_END:
        if (!exchange->out.head_seen) { /* it was an informational one */
            http1_parser_next(&conn->parser);
            conn->parser.no_body = exchange->head_method;
            return true;
        }
        complete(exchange, last);
        return false;
    case HTTP1_BAD:
        /* 503 is the parser's own want of memory */
        out_fail(exchange, conn->parser.status == 503 ? HTTP_NO_MEMORY : HTTP_GARBAGE,
                 conn->parser.text);
        return false;
    case HTTP1_MORE:
        break;
    }
    return false;
}

size_t out_reply_data(struct out_exchange *exchange, const char *bytes, size_t n)
{
    struct out_conn *conn = exchange->conn;
    size_t used = 0;

    while (!exchange->paused) {
        struct slice body = {NULL, 0};
        size_t took;
        enum http1_event event = http1_parse(&conn->parser, bytes + used, n - used, &took, &body);

        used += took;
        if (!reply_event(conn, event, body, used == n))
            return n; /* all was taken, or the rest is nobody's */
    }
    return used;
}

void out_reply_eof(struct out_exchange *exchange)
{
    struct out_conn *conn = exchange->conn;
    bool whole = conn->parser.until_eof && exchange->out.head_seen && !conn->wire.truncated;

    if (whole && http1_parse_eof(&conn->parser) == HTTP1_END)
        complete(exchange, false);
    else
        out_fail(exchange, HTTP_RESET, "closed before the reply was complete");
}

void out_broke(struct out_exchange *exchange, enum wire_fault fault, const char *text)
{
    struct out_conn *conn = exchange->conn;

    if (fault == WIRE_RESET && conn->wire.deaf && !exchange->write_dead && !conn->wire.eof) {
        exchange->write_dead = true;
        if (exchange->high) { /* whoever waits for room may stop waiting */
            exchange->high = false;
            if (exchange->out.ops->room != NULL && !exchange->out.finished)
                exchange->out.ops->room(&exchange->out);
        }
        return;
    }
    snprintf(exchange->client->text, sizeof exchange->client->text, "%s", text);
    out_fail(exchange, fault == WIRE_NO_MEMORY ? HTTP_NO_MEMORY : HTTP_RESET,
             exchange->client->text);
}
