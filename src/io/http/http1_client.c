/* http1_client.c - an exchange on a connection of HTTP/1 that went out: request and reply.
 *
 * What the owner writes before there is a connection waits with the exchange; then both wait in
 * the wire, and `queued` means the same all along.
 *
 * An upstream may refuse a request before it has read it, and close: then writing fails while its
 * reply is already here. So a failed write ends the writing, and only a failed read the exchange.
 */
#include <stdio.h>
#include <stdlib.h>

#include "io/http/http1_client.h"
#include "io/http/http1_write.h"
#include "lib/core/container_of.h"

#define INFORMATIONAL_MAX 16

static struct out_exchange *exchange_of(struct http_outbound *out)
{
    return container_of(out, struct out_exchange, out);
}

static size_t queued_bytes(const struct out_exchange *exchange)
{
    if (!exchange->attached)
        return buf_bytes(&exchange->wait);
    return exchange->write_dead ? 0 : wire_queued(&exchange->conn->wire);
}

/* Bytes for the upstream, wherever they wait. False: no memory. */
static bool http1_client_put(struct out_exchange *exchange, const void *bytes, size_t n)
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

void http1_exchange_leave(struct out_exchange *exchange)
{
    struct out_conn *conn = exchange->conn;

    note_sent(exchange);
    out_detach(exchange);
    if (conn != NULL)
        out_conn_end(conn);
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
    out_await_reply(exchange);
}

void http1_exchange_find(struct out_exchange *exchange, struct http_conn_pool *pool)
{
    struct out_conn *conn = out_conn_take(pool);

    if (conn != NULL)
        out_attach(exchange, conn, true);
    else
        net_later_put(exchange->client->loop, &exchange->later);
}

bool http1_exchange_put_head(struct out_exchange *exchange, const struct http_head *head)
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

bool http1_exchange_adopt(struct out_exchange *exchange, const struct http_head *head,
                          const struct http_field *trailers, size_t n)
{
    struct buf body = exchange->wait;
    struct slice bytes = {body.at != NULL ? buf_first(&body) : NULL, buf_bytes(&body)};
    bool finished = exchange->out.finished, ok;

    exchange->wait = (struct buf){0};
    exchange->http2 = false;
    exchange->out.transport = &http1_outbound_transport;
    exchange->left = head->length;
    exchange->out.finished = false;
    ok = http1_exchange_put_head(exchange, head);
    if (ok && head->length != 0) {
        (void)http_outbound_write(&exchange->out, bytes);
        if (finished)
            http_outbound_finish_with(&exchange->out, trailers, n);
    }
    exchange->out.finished = finished;
    buf_release(exchange->client->loop, &body);
    return ok;
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
        ok = http1_client_put(exchange, line, http1_chunk_line(line, bytes.n));
    else
        exchange->left -= (int64_t)bytes.n;
    ok = ok && http1_client_put(exchange, bytes.at, bytes.n);
    if (exchange->chunked)
        ok = ok && http1_client_put(exchange, "\r\n", 2);
    if (!ok)
        out_fail_later(exchange, HTTP_NO_MEMORY, "no memory");
    note_sent(exchange);
    size_t queued = queued_bytes(exchange);
    if (queued > exchange->client->options.output_high)
        exchange->high = true;
    if (!net_timer_is_set(&exchange->timer))
        out_await_reply(exchange);
    return queued;
}

static bool put_end_of_chunks(struct out_exchange *exchange, const struct http_field *trailers,
                              size_t n)
{
    struct buf end = {0};
    bool ok = http1_put_last_chunk(exchange->client->loop, &end, trailers, n) &&
              http1_client_put(exchange, buf_first(&end), buf_bytes(&end));

    buf_release(exchange->client->loop, &end);
    return ok;
}

static void out_finish(struct http_outbound *out, const struct http_field *trailers, size_t n)
{
    struct out_exchange *exchange = exchange_of(out);

    if (out->finished || exchange->failing)
        return;
    if (exchange->left > 0) {
        out_fail_later(exchange, HTTP_UNFIT, "the body is shorter than it was said to be");
        return;
    }
    out->finished = true;
    if (exchange->chunked && !put_end_of_chunks(exchange, trailers, n))
        out_fail_later(exchange, HTTP_NO_MEMORY, "no memory");
    out_await_reply(exchange);
}

static void out_pause(struct http_outbound *out)
{
    struct out_exchange *exchange = exchange_of(out);

    exchange->paused = true;
    if (!exchange->attached)
        return;
    wire_pause(&exchange->conn->wire);
    if (out->head_seen)
        out_set_timer(exchange, 0); /* the owner is slow, not the upstream */
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
        out_set_timer(exchange, exchange->timeouts.idle);
    wire_resume(&exchange->conn->wire);
}

static void out_cancel(struct http_outbound *out, uint32_t code)
{
    struct out_exchange *exchange = exchange_of(out);

    (void)code;
    http1_exchange_leave(exchange);
    out_exchange_give(exchange);
}

static size_t out_queued(const struct http_outbound *out)
{
    return queued_bytes(exchange_of((struct http_outbound *)(uintptr_t)out));
}

const struct http_outbound_transport http1_outbound_transport = {
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
    out_await_reply(exchange);
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

    note_sent(exchange);
    out_detach(exchange);
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
    out_reply_begins(exchange);
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
        out_set_timer(exchange, exchange->timeouts.idle);
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
