/* http2_server.c - connections of HTTP/2 that came in: from the preface to the last exchange.
 *
 * A connection begins as one of HTTP/1, which hands its wire over when the preface comes or TLS has
 * agreed on HTTP/2, and gets it back to linger when everything has been said. What the connection
 * waits for without an exchange is bounded by one timer; each exchange has its own.
 *
 *     START -> USE <-> (exchanges) -> linger, in http1_server.c
 *
 * A reply is done when the system has taken its last byte, which the wire tells for all of them
 * together: so exchanges whose reply is complete stand in a queue, in the order of their ends.
 */
#include "io/http/http2_server_internal.h"

#include <stdlib.h>

static struct http2_server *server_of_link(struct http2_link *link)
{
    return container_of(link, struct http2_server, link);
}

static struct http2_server *server_of_wire(struct wire *wire)
{
    return container_of(wire, struct http1_conn, wire)->http2;
}

/* ---- Waiting --------------------------------------------------------------------------------- */

static enum http2_await awaited(const struct http2_server *server)
{
    if (server->link.leaving)
        return HTTP2_AWAIT_LEAVE;
    if (!server->started)
        return HTTP2_AWAIT_START;
    if (server->link.in_block)
        return HTTP2_AWAIT_BLOCK;
    return server->link.n_flows == 0 ? HTTP2_AWAIT_USE : HTTP2_AWAIT_NOTHING;
}

/* The timer runs on while what is awaited stays the same. */
static void await(struct http2_server *server)
{
    const struct http_limits *limits = http1_limits_of(server->conn);
    struct net_loop *loop = server->link.wire->loop;
    enum http2_await now = awaited(server);
    tg_ms ms = limits->header_ms;

    assert(server->conn->http2 == server && !server->link.finished);
    http_conn_set_idle(server->conn, server->link.n_flows == 0);
    if (now == server->await && (now != HTTP2_AWAIT_BLOCK || server->block == server->link.blocks))
        return;
    server->await = now;
    server->block = server->link.blocks;
    if (now == HTTP2_AWAIT_USE)
        ms = limits->idle_ms;
    else if (now == HTTP2_AWAIT_LEAVE)
        ms = limits->linger_ms;
    if (now == HTTP2_AWAIT_NOTHING)
        net_timer_stop(loop, &server->timer);
    else
        net_timer_set(loop, &server->timer, ms);
}

static void http2_server_timer_fires(void *arg)
{
    struct http2_server *server = arg;
    bool idle = server->await == HTTP2_AWAIT_USE;

    if (idle && http1_conn_is_kept(server->conn)) {
        net_timer_set(server->link.wire->loop, &server->timer,
                      http1_limits_of(server->conn)->idle_ms);
        return;
    }
    if (server->await == HTTP2_AWAIT_LEAVE)
        http2_link_leave_now(&server->link);
    else
        http2_link_fail(&server->link, idle ? HTTP2_NO_ERROR : HTTP2_ENHANCE_YOUR_CALM,
                        idle ? "idle" : "the header did not arrive in time");
    await(server);
}

void http2_server_count(struct http2_server *server)
{
    if (server->link.n_flows == 0)
        await(server);
}

/* ---- Replies that are done ------------------------------------------------------------------- */

static void leave_done(struct http2_server *server, struct http2_stream *stream)
{
    if (!http2_stream_is_done(stream))
        return;
    TAILQ_REMOVE(&server->done, stream, in_done);
    stream->in_done.tqe_prev = NULL;
}

void http2_server_done(struct http2_stream *stream)
{
    assert(stream->phase == HTTP2_BUSY && stream->finished && !http2_stream_is_done(stream));
    TAILQ_INSERT_TAIL(&stream->server->done, stream, in_done);
}

static void tell_done(struct http2_server *server)
{
    uint64_t taken = http2_link_taken(&server->link);
    struct http2_stream *stream;

    while (!server->link.finished && (stream = TAILQ_FIRST(&server->done)) != NULL &&
           stream->flow.end_at <= taken) {
        leave_done(server, stream);
        http2_stream_gone(stream, HTTP_DONE);
        if (!server->link.finished && !stream->flow.open)
            http2_stream_give(stream);
    }
}

/* ---- What the link tells --------------------------------------------------------------------- */

static struct http2_flow *opened(struct http2_link *link)
{
    struct http2_stream *stream = http2_stream_take(server_of_link(link));

    return stream != NULL ? &stream->flow : NULL;
}

static void closed(struct http2_flow *flow, uint32_t code)
{
    struct http2_stream *stream = http2_stream_of(flow);

    if (flow->peer_reset || !stream->finished)
        leave_done(stream->server, stream);
    http2_stream_closed(flow, code);
}

static void flushed(struct http2_link *link)
{
    http1_conn_await_socket(server_of_link(link)->conn);
}

static void settled(struct http2_link *link)
{
    server_of_link(link)->started = true;
}

static void over(struct http2_link *link, uint32_t code, const char *text)
{
    struct http1_conn *conn = server_of_link(link)->conn;

    (void)text;
    http1_conn_leave_http2(conn, code == HTTP2_NO_ERROR ? HTTP_HANGUP : HTTP_ERROR);
}

static const struct http2_link_ops link_ops = {
    .opened = opened,
    .head = http2_stream_head,
    .data = http2_stream_data,
    .ended = http2_stream_ended,
    .wrote = http2_stream_wrote,
    .sent_end = http2_stream_sent_end,
    .closed = closed,
    .flushed = flushed,
    .settled = settled,
    .over = over,
};

/* ---- What the wire tells --------------------------------------------------------------------- */

static size_t http2_server_on_data(struct wire *wire, const char *bytes, size_t n)
{
    struct http2_server *server = server_of_wire(wire);

    http2_link_feed(&server->link, bytes, n);
    if (!server->link.finished)
        await(server);
    return n;
}

static void http2_server_on_eof(struct wire *wire)
{
    http1_conn_end(server_of_wire(wire)->conn, HTTP_HANGUP);
}

static void http2_server_on_wrote(struct wire *wire)
{
    struct http2_server *server = server_of_wire(wire);

    net_timer_stop(wire->loop, &server->conn->write_timer);
    tell_done(server);
    if (!server->link.finished)
        http2_link_flush(&server->link);
}

static void http2_server_on_broke(struct wire *wire, enum wire_fault fault, const char *text)
{
    (void)text;
    http1_conn_end(server_of_wire(wire)->conn,
                   fault == WIRE_NO_MEMORY ? HTTP_NO_MEMORY : HTTP_HANGUP);
}

static const struct wire_ops wire_ops = {
    .data = http2_server_on_data,
    .eof = http2_server_on_eof,
    .wrote = http2_server_on_wrote,
    .broke = http2_server_on_broke,
};

/* ---- Beginning and end ----------------------------------------------------------------------- */

bool http2_server_start(struct http1_conn *conn)
{
    const struct http_limits *limits = http1_limits_of(conn);
    struct http2_limits own = {
        .block = {limits->header_bytes, limits->fields},
        .streams = limits->streams,
        .resets = limits->resets,
        .resets_per_s = limits->resets_per_s,
        .rapid_ms = limits->rapid_ms,
        .odd_frames = limits->odd_frames,
    };
    struct http2_server *server = calloc(1, sizeof *server);

    assert(conn->http2 == NULL && conn->phase != HTTP1_BUSY);
    if (server == NULL)
        return false;
    server->conn = conn;
    TAILQ_INIT(&server->done);
    if (!http2_link_init(&server->link, &conn->wire, &link_ops, &own, true)) {
        free(server);
        return false;
    }
    net_timer_init(&server->timer, http2_server_timer_fires, server);
    conn->http2 = server;
    conn->wire.ops = &wire_ops;
    net_timer_stop(conn->wire.loop, &conn->read_timer);
    http_conn_refresh(conn);
    await(server);
    return true;
}

void http2_server_free(struct http2_server *server, enum http_why why)
{
    struct net_loop *loop = server->link.wire->loop;

    server->conn->http2 = NULL;
    net_timer_stop(loop, &server->timer);
    http2_link_fini(&server->link);
    while (!LIST_EMPTY(&server->link.flows)) {
        struct http2_stream *stream = http2_stream_of(LIST_FIRST(&server->link.flows));
        /* What the wire still sends is as good as taken. */
        bool done = http2_stream_is_done(stream) && wire_is_open(server->link.wire);

        leave_done(server, stream);
        http2_stream_gone(stream, done ? HTTP_DONE : why);
        http2_stream_give(stream);
    }
    assert(server->link.n_flows == 0 && TAILQ_EMPTY(&server->done));
    net_loop_bury(loop, &server->link.grave);
}

void http2_server_drain(struct http2_server *server)
{
    http2_link_leave(&server->link);
    await(server);
}
