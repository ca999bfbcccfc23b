/* http1_server.c - connections of HTTP/1 that came in: one exchange after another, in turn.
 *
 *     SHAKING -> IDLE -> READING -> BUSY -> IDLE ...        keep-alive
 *                                    |----> REST -> IDLE    replied before the request was read
 *                                    |----> LINGER -> gone  the connection ends after the reply
 *
 * A pipelined request waits, unread, until the reply before it has been taken by the system: one
 * client has one exchange at a time, and no order of replies is to be kept. While an exchange is
 * busy the wire is always either read or watched, so that a client that leaves is noticed: it
 * holds a place that others wait for.
 *
 * A reply that comes before the end of its request (a refusal) must not be followed by a close
 * while the client still sends: its system would throw the reply away on our RST, and many clients
 * do not read before they have sent all. So the rest is read and dropped, within bounds of time and
 * bytes. If that is little the connection goes on (REST); else our side of it is shut down, and it
 * is read until the client has closed its own (LINGER). The bytes are never kept: to drop 64 MiB
 * costs as much as to receive them.
 */
#include "io/http/http_server_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "io/http/http1_write.h"
#include "io/http/http2_server_internal.h"

static void conn_work(void *arg);

static struct http1_conn *conn_of_wire(struct wire *wire)
{
    return container_of(wire, struct http1_conn, wire);
}

/* ---- Timers ---------------------------------------------------------------------------------- */

/* How long the next byte may take to come, by the phase. */
static void await_bytes(struct http1_conn *conn)
{
    const struct http_limits *limits = http1_limits_of(conn);
    tg_ms ms = limits->idle_ms;

    if (conn->phase == HTTP1_SHAKING || conn->phase == HTTP1_READING)
        ms = limits->header_ms;
    else if (conn->phase == HTTP1_REST || conn->phase == HTTP1_LINGER)
        ms = limits->linger_ms;
    net_timer_set(conn->wire.loop, &conn->read_timer, ms);
}

void http_body_await(struct http_body_time *time, struct net_loop *loop, struct net_timer *timer)
{
    time->at = net_loop_now(loop);
    net_timer_set(loop, timer, time->left);
}

/* A limit between two bytes alone would let a client hold its place for ever with a byte now and
 * then; one for the whole body would have to know how large bodies and how slow lines may be. */
void http_body_earn(struct http_body_time *time, const struct http_limits *limits,
                    struct net_loop *loop, struct net_timer *timer, size_t bytes)
{
    tg_ms spent = net_loop_now(loop) - time->at, earned = limits->body_ms;

    if (limits->body_rate > 0 && bytes < (size_t)INT32_MAX)
        earned = (tg_ms)(bytes * 1000 / limits->body_rate);
    time->left += earned - spent;
    if (time->left > limits->body_ms)
        time->left = limits->body_ms;
    http_body_await(time, loop, timer);
}

static void http1_server_enter(struct http1_conn *conn, enum http1_phase phase)
{
    conn->phase = phase;
    await_bytes(conn);
}

/* Output that waits has its own patience. */
void http1_conn_await_socket(struct http1_conn *conn)
{
    if (wire_queued(&conn->wire) == 0)
        net_timer_stop(conn->wire.loop, &conn->write_timer);
    else if (!net_timer_is_set(&conn->write_timer))
        net_timer_set(conn->wire.loop, &conn->write_timer, http1_limits_of(conn)->write_ms);
}

/* ---- Ends ------------------------------------------------------------------------------------ */

static void conn_free(struct http1_conn *conn)
{
    struct http_listener *listener = conn->listener;
    struct net_loop *loop = conn->wire.loop;

    assert(conn->phase != HTTP1_BUSY && conn->http2 == NULL && listener->n_conns > 0);
    LIST_REMOVE(conn, in_listener);
    http_conn_set_idle(conn, false);
    listener->n_conns--;
    http_census_leave(listener->census, conn->address_slot);
    net_timer_stop(loop, &conn->read_timer);
    net_timer_stop(loop, &conn->write_timer);
    net_later_cancel(loop, &conn->later);
    http1_parser_fini(&conn->parser);
    net_loop_bury(loop, &conn->grave);
    if (listener->ops->closed != NULL)
        listener->ops->closed(listener->context, conn->in.connection);
}

static void tell_gone(struct http1_conn *conn, enum http_why why)
{
    if (conn->phase != HTTP1_BUSY)
        return;
    conn->finished = true; /* whatever the owner still calls does nothing */
    conn->aborted = true;
    conn->phase = HTTP1_IDLE;
    assert(conn->listener->n_busy > 0);
    conn->listener->n_busy--;
    if (conn->in.client != 0)
        http_conn_set_client(conn, conn->in.client);
    http_conn_set_idle(conn, true);
    conn->listener->ops->gone(&conn->in, why);
}

void http1_conn_end(struct http1_conn *conn, enum http_why why)
{
    bool cut = conn->phase == HTTP1_BUSY && conn->replied;

    if (conn->wire.state == WIRE_CLOSED)
        return;
    /* Closed first: what gone() does must not find a connection. */
    if (cut)
        wire_abort(&conn->wire);
    else
        wire_close(&conn->wire);
    if (conn->http2 != NULL)
        http2_server_free(conn->http2, why);
    tell_gone(conn, why);
    conn_free(conn);
}

/* The reply is written; the client gets time to read it. */
static void linger(struct http1_conn *conn)
{
    assert(conn->phase != HTTP1_BUSY && conn->http2 == NULL);
    conn->dropped = 0;
    conn->close_at = net_loop_now(conn->wire.loop) + http1_limits_of(conn)->close_ms;
    http_conn_set_idle(conn, true);
    http1_server_enter(conn, HTTP1_LINGER);
    wire_shutdown(&conn->wire);
    if (conn->wire.eof && wire_queued(&conn->wire) == 0)
        http1_conn_end(conn, HTTP_DONE);
    else
        wire_resume(&conn->wire);
}

void http1_make_refusal(const struct http_listener *listener, int status, const char *text,
                        bool begun, struct http_refusal *refusal)
{
    refusal->type = SLICE("text/plain");
    refusal->n = 0;
    refusal->begun = begun;
    if (listener->ops->refuse != NULL) {
        listener->ops->refuse(listener->context, status, text, refusal);
    } else {
        int n = snprintf(refusal->body, sizeof refusal->body, "%s\n", text);
        refusal->n = (size_t)n < sizeof refusal->body ? (size_t)n : sizeof refusal->body - 1;
    }
}

/* A reply of our own, after which the connection ends. False: no memory. */
static bool put_refusal(struct http1_conn *conn, struct buf *out, int status, const char *text,
                        bool begun)
{
    struct http_refusal refusal;
    struct http_field fields[2] = {{.name = SLICE("content-type")},
                                   {SLICE("retry-after"), SLICE("1")}};
    struct http_head head = {.status = status, .fields = fields, .n_fields = status == 503 ? 2 : 1};
    struct http1_framing framing = {.close = true};

    http1_make_refusal(conn->listener, status, text, begun, &refusal);
    fields[0].value = refusal.type;
    framing.length = (int64_t)refusal.n;
    return http1_put_reply(conn->wire.loop, out, &head, &framing) &&
           buf_append(conn->wire.loop, out, refusal.body, refusal.n);
}

static void http1_server_refuse(struct http1_conn *conn, int status, const char *text, bool begun)
{
    struct buf out = {0};

    if (put_refusal(conn, &out, status, text, begun))
        wire_write(&conn->wire, buf_first(&out), buf_bytes(&out));
    buf_release(conn->wire.loop, &out);
    linger(conn);
}

void http1_conn_excuse(struct http1_conn *conn, const char *text)
{
    bool first = conn->phase == HTTP1_IDLE && !conn->finished;
    struct buf out = {0};

    if ((!first && conn->phase != HTTP1_READING) || conn->http2 != NULL ||
        conn->wire.tls.ssl != NULL || wire_queued(&conn->wire) > 0)
        return;
    if (put_refusal(conn, &out, 503, text, false))
        (void)wire_send(&conn->wire, buf_first(&out), buf_bytes(&out));
    buf_release(conn->wire.loop, &out);
}

/* Before this turn of the loop is over, it may have to end for the next that is refused. */
void http1_conn_refuse(struct http1_conn *conn, const char *text)
{
    http_conn_set_refused(conn);
    conn->sniff = false;
    http1_conn_excuse(conn, text);
    if (conn->phase == HTTP1_SHAKING) /* it could not be read */
        http1_conn_end(conn, HTTP_ABORTED);
    else
        linger(conn);
}

/* The client did something wrong: it is told, if nothing was said yet. */
static void http1_server_fail(struct http1_conn *conn, int status, const char *text,
                              enum http_why why)
{
    bool said = conn->replied, begun = conn->phase == HTTP1_BUSY;

    if (begun && said) {
        http1_conn_end(conn, why);
        return;
    }
    tell_gone(conn, why);
    if (conn->wire.state != WIRE_CLOSED)
        http1_server_refuse(conn, status, text, begun);
}

bool http1_conn_is_kept(const struct http1_conn *conn)
{
    const struct http_listener *listener = conn->listener;

    return listener->ops->is_kept != NULL && !listener->draining &&
           listener->ops->is_kept(listener->context, conn->in.connection);
}

static void read_timer_fires(void *arg)
{
    struct http1_conn *conn = arg;

    assert(conn->http2 == NULL && conn->wire.state != WIRE_CLOSED);
    switch (conn->phase) {
    case HTTP1_READING:
        http1_server_refuse(conn, 408, "the header did not arrive in time", false);
        break;
    case HTTP1_BUSY:
        if (!conn->body_done && !conn->paused && !conn->finished && !conn->in.patient)
            http1_server_fail(conn, 408, "the body did not arrive in time", HTTP_TIMEOUT);
        break;
    case HTTP1_IDLE:
        if (http1_conn_is_kept(conn))
            await_bytes(conn);
        else
            http1_conn_end(conn, HTTP_TIMEOUT);
        break;
    default:
        http1_conn_end(conn, HTTP_TIMEOUT);
    }
}

static void write_timer_fires(void *arg)
{
    http1_conn_end(arg, HTTP_TIMEOUT);
}

/* ---- Arriving -------------------------------------------------------------------------------- */

static void begin_exchange(struct http1_conn *conn)
{
    struct http_listener *listener = conn->listener;
    const struct http_head *head = &conn->parser.head;

    assert((conn->phase == HTTP1_IDLE || conn->phase == HTTP1_READING) && conn->http2 == NULL);
    conn->in.head = *head;
    conn->in.owner = NULL;
    conn->in.patient = false;
    conn->in.client = 0;
    conn->in.is_relayed = false;
    http_conn_set_idle(conn, false);
    conn->body_done = conn->paused = conn->replied = conn->finished = conn->aborted = false;
    conn->chunked = conn->high = false;
    conn->dropped = 0;
    conn->bodyless = slice_equal(head->method, SLICE("HEAD"));
    conn->close = !conn->parser.keep_alive || listener->draining;
    conn->expects = head->version == 11 && head->length != 0 &&
                    http_has_token(head, SLICE("expect"), SLICE("100-continue"));
    conn->left = -1;
    conn->phase = HTTP1_BUSY;
    conn->body_time.left = http1_limits_of(conn)->body_ms;
    http_body_await(&conn->body_time, conn->wire.loop, &conn->read_timer);
    listener->n_busy++;
    listener->ops->begin(listener->context, &conn->in);
    if (conn->phase == HTTP1_BUSY)
        http1_conn_continue(conn);
}

static void end_of_request(struct http1_conn *conn)
{
    if (conn->phase == HTTP1_REST) {
        http1_parser_next(&conn->parser);
        http1_server_enter(conn, HTTP1_IDLE);
        if (conn->listener->draining)
            http1_conn_end(conn, HTTP_DONE);
        return;
    }
    assert(conn->phase == HTTP1_BUSY && !conn->body_done);
    conn->body_done = true;
    net_timer_stop(conn->wire.loop, &conn->read_timer);
    if (conn->finished)
        net_later_put(conn->wire.loop, &conn->later);
    else
        conn->listener->ops->end(&conn->in);
}

static void piece_of_body(struct http1_conn *conn, struct slice body)
{
    if (conn->phase == HTTP1_BUSY && !conn->finished) {
        http_body_earn(&conn->body_time, http1_limits_of(conn), conn->wire.loop, &conn->read_timer,
                       body.n);
        conn->listener->ops->data(&conn->in, body);
        return;
    }
    conn->dropped += body.n;
    if (conn->dropped <= http1_limits_of(conn)->linger_bytes)
        return;
    if (conn->phase == HTTP1_REST) {
        linger(conn);
    } else { /* the reply is not out yet: enough has been dropped meanwhile */
        conn->close = true;
        conn->paused = true;
        wire_pause(&conn->wire);
    }
}

/* Whether the next event of the parser may be asked for. */
static bool may_read(const struct http1_conn *conn)
{
    if (conn->wire.state == WIRE_CLOSED || conn->phase == HTTP1_LINGER)
        return false;
    if (conn->phase != HTTP1_BUSY)
        return true;
    return !conn->body_done && !conn->paused;
}

static void handle(struct http1_conn *conn, enum http1_event event, struct slice body)
{
    switch (event) {
    case HTTP1_HEAD:
        begin_exchange(conn);
        break;
    case HTTP1_BODY:
        piece_of_body(conn, body);
        break;
    case HTTP1_END:
        end_of_request(conn);
        break;
    case HTTP1_BAD:
        if (conn->phase == HTTP1_REST)
            linger(conn);
        else
            http1_server_fail(conn, conn->parser.status, conn->parser.text, HTTP_ERROR);
        break;
    case HTTP1_MORE:
        if (conn->phase == HTTP1_IDLE && http1_parser_begun(&conn->parser)) {
            http_conn_refresh(conn);
            http1_server_enter(conn, HTTP1_READING);
        }
        break;
    }
}

/* After the reply: what comes is dropped, within bounds. */
static size_t drop(struct http1_conn *conn, size_t n)
{
    const struct http_limits *limits = http1_limits_of(conn);
    tg_ms left = conn->close_at - net_loop_now(conn->wire.loop);

    conn->dropped += n;
    if (conn->dropped > limits->close_bytes || left <= 0)
        http1_conn_end(conn, HTTP_DONE);
    else if (n > 0)
        net_timer_set(conn->wire.loop, &conn->read_timer,
                      left < limits->linger_ms ? left : limits->linger_ms);
    return n;
}

static size_t take_bytes(struct http1_conn *conn, const char *bytes, size_t n)
{
    size_t used = 0;

    while (may_read(conn)) {
        struct slice body = {NULL, 0};
        size_t took;
        enum http1_event event = http1_parse(&conn->parser, bytes + used, n - used, &took, &body);

        used += took;
        assert(used <= n);
        handle(conn, event, body);
        if (event == HTTP1_MORE)
            break;
    }
    if (conn->wire.state != WIRE_CLOSED && conn->phase == HTTP1_LINGER)
        return drop(conn, n);
    return used;
}

/* "PRI " begins HTTP/2's preface, and no request of HTTP/1: the first four bytes tell. Those that
 * came one by one are known, so they are counted and not kept. */
static size_t sniff(struct http1_conn *conn, const char *bytes, size_t n)
{
    static const char begins[] = "PRI ";
    size_t kept = conn->sniffed, i = 0;

    assert(kept < 4 && conn->phase == HTTP1_IDLE);
    while (i < n && conn->sniffed < 4 && bytes[i] == begins[conn->sniffed])
        i++, conn->sniffed++;
    if (conn->sniffed < 4 && i == n)
        return n;
    conn->sniff = false;
    if (conn->sniffed == 4 && !http2_server_start(conn)) {
        http1_conn_end(conn, HTTP_NO_MEMORY);
        return n;
    }
    if (kept > 0)
        (void)conn->wire.ops->data(&conn->wire, begins, kept);
    return conn->wire.state == WIRE_CLOSED ? n : conn->wire.ops->data(&conn->wire, bytes, n);
}

static size_t http1_server_on_data(struct wire *wire, const char *bytes, size_t n)
{
    struct http1_conn *conn = conn_of_wire(wire);

    return conn->sniff ? sniff(conn, bytes, n) : take_bytes(conn, bytes, n);
}

/* The first request has only as long as a head may take. */
static void await_first(struct http1_conn *conn)
{
    http1_server_enter(conn, HTTP1_IDLE);
    net_timer_set(conn->wire.loop, &conn->read_timer, http1_limits_of(conn)->header_ms);
}

/* TLS has been agreed on, and with it which version is spoken. */
static void http1_server_on_up(struct wire *wire)
{
    struct http1_conn *conn = conn_of_wire(wire);

    if (!tls_wire_is_http2(wire))
        await_first(conn);
    else if (!http2_server_start(conn))
        http1_conn_end(conn, HTTP_NO_MEMORY);
}

static void http1_server_on_eof(struct wire *wire)
{
    struct http1_conn *conn = conn_of_wire(wire);

    if (conn->phase == HTTP1_BUSY && conn->finished)
        conn->close = true; /* what is written may still arrive */
    else if (conn->phase == HTTP1_LINGER && wire_queued(wire) > 0)
        return;
    else
        http1_conn_end(conn, HTTP_HANGUP);
}

/* Whoever forgot the s of https reads a sentence, in the clear. */
static void answer_plain(struct http1_conn *conn)
{
    static const char TEXT[] = "plain HTTP was sent to a port that speaks TLS; use https://";
    struct http_refusal refusal;
    char reply[sizeof refusal.body + 256];

    http1_make_refusal(conn->listener, 400, TEXT, false, &refusal);
    int n = snprintf(reply, sizeof reply,
                     "HTTP/1.1 400 Bad Request\r\ncontent-type: %.*s\r\ncontent-length: %zu\r\n"
                     "connection: close\r\n\r\n%.*s",
                     (int)refusal.type.n, refusal.type.at, refusal.n, (int)refusal.n, refusal.body);
    if (n > 0 && (size_t)n < sizeof reply)
        (void)wire_send(&conn->wire, reply, (size_t)n);
}

static void http1_server_on_broke(struct wire *wire, enum wire_fault fault, const char *text)
{
    (void)text;
    if (fault == WIRE_PLAIN)
        answer_plain(conn_of_wire(wire));
    http1_conn_end(conn_of_wire(wire), fault == WIRE_NO_MEMORY ? HTTP_NO_MEMORY : HTTP_HANGUP);
}

static void http1_server_on_wrote(struct wire *wire)
{
    struct http1_conn *conn = conn_of_wire(wire);

    net_timer_stop(wire->loop, &conn->write_timer);
    conn_work(conn);
}

static const struct wire_ops wire_ops = {
    .up = http1_server_on_up,
    .data = http1_server_on_data,
    .eof = http1_server_on_eof,
    .wrote = http1_server_on_wrote,
    .broke = http1_server_on_broke,
};

void http1_conn_leave_http2(struct http1_conn *conn, enum http_why why)
{
    assert(conn->http2 != NULL);
    conn->wire.ops = &wire_ops;
    http2_server_free(conn->http2, why);
    if (conn->wire.state != WIRE_CLOSED)
        linger(conn);
}

/* ---- What follows a reply -------------------------------------------------------------------- */

/* The reply has been taken by the system. */
static void after_reply(struct http1_conn *conn)
{
    bool read = conn->body_done, more = buf_bytes(&conn->wire.held) > 0;
    bool close = conn->close || conn->listener->draining || conn->wire.eof;

    assert(conn->phase == HTTP1_BUSY && conn->finished && wire_queued(&conn->wire) == 0);
    tell_gone(conn, HTTP_DONE);
    if (conn->wire.state == WIRE_CLOSED)
        return;
    if (close && (conn->wire.eof || (read && !more))) {
        http1_conn_end(conn, HTTP_DONE);
    } else if (close) {
        linger(conn);
    } else if (!read) {
        http1_server_enter(conn, HTTP1_REST);
        wire_resume(&conn->wire);
    } else {
        http1_parser_next(&conn->parser);
        http1_server_enter(conn, HTTP1_IDLE);
        if (conn->wire.paused)
            wire_resume(&conn->wire);
    }
}

/* Put off by the owner's calls, and done whenever output moved. */
static void conn_work(void *arg)
{
    struct http1_conn *conn = arg;
    size_t queued = wire_queued(&conn->wire);

    if (conn->wire.state == WIRE_CLOSED)
        return;
    assert(conn->http2 == NULL);
    if (conn->phase == HTTP1_LINGER && conn->wire.eof && queued == 0) {
        http1_conn_end(conn, HTTP_DONE);
        return;
    }
    http1_conn_await_socket(conn);
    if (conn->phase != HTTP1_BUSY)
        return;
    if (conn->aborted) {
        conn->replied = true; /* even if nothing was said: the client shall see an error */
        http1_conn_end(conn, HTTP_ABORTED);
    } else if (conn->finished && queued == 0) {
        after_reply(conn);
    } else if (conn->high && queued <= http1_limits_of(conn)->output_low && !conn->finished) {
        conn->high = false;
        if (conn->listener->ops->room != NULL)
            conn->listener->ops->room(&conn->in);
    }
}

/* ---- Beginning ------------------------------------------------------------------------------- */

bool http1_conn_new(struct http_listener *listener, int fd, const struct sockaddr *peer,
                    socklen_t peer_bytes, struct http1_conn **made)
{
    struct http1_limits limits = {listener->limits.header_bytes, listener->limits.fields,
                                  listener->limits.target_bytes};
    struct http1_conn *conn = calloc(1, sizeof *conn);

    if (conn == NULL) {
        if (fd >= 0)
            close(fd);
        return false;
    }
    if (!wire_accept(&conn->wire, listener->loop, &wire_ops, fd, listener->tls)) {
        free(conn);
        return false;
    }
    conn->wire.watch = true;
    conn->wire.tls.http2 = listener->http2;
    conn->sniff = listener->http2 && listener->tls == NULL;
    conn->listener = listener;
    conn->address_slot = -1;
    conn->in.transport = &http1_inbound_transport;
    conn->in.context = listener->context;
    conn->in.secure = listener->tls != NULL;
    conn->in.connection = listener->next_connection++;
    conn->in.reset_code = HTTP2_CANCEL;
    if (peer_bytes > 0 && peer_bytes <= sizeof conn->peer)
        memcpy(&conn->peer, peer, peer_bytes);
    http1_parser_init(&conn->parser, listener->loop, true, &limits);
    net_timer_init(&conn->read_timer, read_timer_fires, conn);
    net_timer_init(&conn->write_timer, write_timer_fires, conn);
    net_later_init(&conn->later, conn_work, conn);
    LIST_INSERT_HEAD(&listener->conns, conn, in_listener);
    listener->n_conns++;
    http_conn_set_idle(conn, true);
    if (listener->tls != NULL)
        http1_server_enter(conn, HTTP1_SHAKING);
    else
        await_first(conn);
    if (made != NULL)
        *made = conn;
    return true;
}
