/* http1_client.c - an exchange on a connection of HTTP/1 that went out: request and reply.
 *
 * What the owner writes before there is a connection waits with the exchange; then both wait in
 * the wire, and `queued` means the same all along.
 *
 * An upstream may refuse a request before it has read it, and close: then writing fails while its
 * reply is already here. So a failed write ends the writing, and only a failed read the exchange.
 */
#include <stdio.h>

#include "io/http/http1_write.h"
#include "io/http/http_client_internal.h"

#define INFORMATIONAL_MAX 16

static const struct wire_ops http1_client_wire_ops;

static size_t http1_client_queued(const struct out_exchange *exchange)
{
    if (!exchange->attached)
        return buf_bytes(&exchange->wait);
    return exchange->write_dead ? 0 : wire_queued(&exchange->conn->wire);
}

/* Bytes for the upstream, wherever they wait. False: no memory. */
static bool put_bytes(struct out_exchange *exchange, const void *bytes, size_t n)
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

static void http1_client_leave(struct out_exchange *exchange, uint32_t code)
{
    struct out_conn *conn = exchange->conn;

    (void)code;
    note_sent(exchange);
    out_detach(exchange);
    if (conn != NULL)
        out_conn_end(conn);
}

/* ---- Starting -------------------------------------------------------------------------------- */

void http1_exchange_attach(struct out_exchange *exchange, struct out_conn *conn, bool reused)
{
    struct buf wait = exchange->wait;

    assert(!exchange->attached && conn->http2 == NULL && wire_is_open(&conn->wire));
    assert(conn->exchange == NULL || conn->exchange == exchange);
    exchange->wait = (struct buf){0};
    exchange->conn = conn;
    exchange->attached = true;
    exchange->taken_before = conn->wire.taken;
    exchange->out.reused = reused;
    exchange->out.connected = net_loop_now(exchange->client->loop);
    conn->exchange = exchange;
    conn->state = OUT_BUSY;
    conn->wire.ops = &http1_client_wire_ops;
    conn->parser.no_body = exchange->head_method;
    if (exchange->paused)
        wire_pause(&conn->wire);
    wire_write(&conn->wire, buf_first(&wait), buf_bytes(&wait));
    buf_release(exchange->client->loop, &wait);
    out_await_reply(exchange);
}

static void dialled(struct out_conn *conn)
{
    http1_exchange_attach(conn->exchange, conn, false);
}

static void dial_failed(struct out_conn *conn, enum http_why why, const char *text)
{
    out_fail(conn->exchange, why, text);
}

static void http1_client_work(struct out_exchange *exchange)
{
    static const struct out_dial_ops ops = {.up = dialled, .failed = dial_failed};

    if (exchange->conn != NULL)
        return;
    exchange->conn = out_conn_new(exchange->pool);
    if (exchange->conn == NULL) {
        out_fail(exchange, HTTP_NO_MEMORY, "no memory");
        return;
    }
    exchange->conn->exchange = exchange;
    out_dial(exchange->conn, &ops, exchange->timeouts.connect);
}

void http1_exchange_find(struct out_exchange *exchange)
{
    struct out_conn *conn = out_conn_take(exchange->pool);

    if (conn != NULL)
        http1_exchange_attach(exchange, conn, true);
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
    exchange->transport = &http1_out_transport;
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

static bool http1_client_put(struct out_exchange *exchange, struct slice bytes)
{
    char line[HTTP1_CHUNK_BYTES];
    bool ok;

    if (exchange->chunked)
        ok = put_bytes(exchange, line, http1_chunk_line(line, bytes.n)) &&
             put_bytes(exchange, bytes.at, bytes.n) && put_bytes(exchange, "\r\n", 2);
    else
        ok = put_bytes(exchange, bytes.at, bytes.n);
    note_sent(exchange);
    return ok;
}

static bool http1_client_end(struct out_exchange *exchange, const struct http_field *trailers,
                             size_t n)
{
    struct buf end = {0};

    if (!exchange->chunked)
        return true;
    bool ok = http1_put_last_chunk(exchange->client->loop, &end, trailers, n) &&
              put_bytes(exchange, buf_first(&end), buf_bytes(&end));
    buf_release(exchange->client->loop, &end);
    return ok;
}

static void http1_client_pause(struct out_exchange *exchange)
{
    wire_pause(&exchange->conn->wire);
}

static void http1_client_resume(struct out_exchange *exchange)
{
    wire_resume(&exchange->conn->wire);
}

const struct out_transport http1_out_transport = {
    .put = http1_client_put,
    .end = http1_client_end,
    .queued = http1_client_queued,
    .pause = http1_client_pause,
    .resume = http1_client_resume,
    .leave = http1_client_leave,
    .work = http1_client_work,
};

/* ---- The reply ------------------------------------------------------------------------------- */

/* The exchange that a connection carries. */
static struct out_exchange *carried(struct wire *wire)
{
    struct out_conn *conn = container_of(wire, struct out_conn, wire);

    assert(conn->state == OUT_BUSY && conn->exchange != NULL && conn->exchange->conn == conn);
    return conn->exchange;
}

static void http1_client_on_wrote(struct wire *wire)
{
    struct out_exchange *exchange = carried(wire);

    note_sent(exchange);
    out_await_reply(exchange);
    out_tell_room(exchange);
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
    out_complete(exchange);
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
    http1_parser_move_head(&conn->parser, &exchange->reply, &exchange->reply_text);
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

static size_t http1_client_on_data(struct wire *wire, const char *bytes, size_t n)
{
    struct out_exchange *exchange = carried(wire);
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

static void http1_client_on_eof(struct wire *wire)
{
    struct out_exchange *exchange = carried(wire);
    struct out_conn *conn = exchange->conn;
    bool whole = conn->parser.until_eof && exchange->out.head_seen && !conn->wire.truncated;

    if (whole && http1_parse_eof(&conn->parser) == HTTP1_END)
        complete(exchange, false);
    else
        out_fail(exchange, HTTP_RESET, "closed before the reply was complete");
}

static void http1_client_on_broke(struct wire *wire, enum wire_fault fault, const char *text)
{
    struct out_exchange *exchange = carried(wire);

    if (fault == WIRE_RESET && wire->deaf && !exchange->write_dead && !wire->eof) {
        exchange->write_dead = true;
        out_tell_room(exchange); /* nothing is queued any more: whoever waits may stop waiting */
        return;
    }
    snprintf(exchange->client->text, sizeof exchange->client->text, "%s", text);
    out_fail(exchange, fault == WIRE_NO_MEMORY ? HTTP_NO_MEMORY : HTTP_RESET,
             exchange->client->text);
}

static const struct wire_ops http1_client_wire_ops = {
    .data = http1_client_on_data,
    .eof = http1_client_on_eof,
    .wrote = http1_client_on_wrote,
    .broke = http1_client_on_broke,
};
