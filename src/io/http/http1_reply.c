/* http1_reply.c - what the owner of a request does with it: pause, reply, write, finish, abort.
 *
 * Nothing here calls back. What a call leads to (a reply delivered, a connection to be closed, the
 * rest of a body to be dropped) is put off until the event is over, and then done in
 * http1_server.c. How the reply's end is marked is decided once, when its head is written:
 *
 *     a length               where the owner states one
 *     chunks                 otherwise, for HTTP/1.1
 *     the end of the connection   otherwise
 */
#include "io/http/http1_write.h"
#include "io/http/http_server_internal.h"

static struct http1_conn *conn_of(struct http_inbound *in)
{
    return container_of(in, struct http1_conn, in);
}

void http1_conn_continue(struct http1_conn *conn)
{
    static const char line[] = "HTTP/1.1 100 Continue\r\n\r\n";

    if (!conn->expects || conn->replied || conn->paused)
        return;
    conn->expects = false;
    wire_write(&conn->wire, line, sizeof line - 1);
}

static void in_pause(struct http_inbound *in)
{
    struct http1_conn *conn = conn_of(in);

    if (conn->finished)
        return;
    conn->paused = true;
    wire_pause(&conn->wire);
}

static void in_resume(struct http_inbound *in)
{
    struct http1_conn *conn = conn_of(in);

    if (!conn->paused || conn->finished)
        return;
    conn->paused = false;
    if (conn->body_done)
        return;
    /* The owner's pause does not count. */
    http_body_await(&conn->body_time, conn->wire.loop, &conn->read_timer);
    http1_conn_continue(conn);
    wire_resume(&conn->wire);
}

/* Whether the connection can go on after the reply, as far as is known when it begins. */
static bool must_close(const struct http1_conn *conn)
{
    const struct http_head *head = &conn->in.head;

    if (conn->close || conn->listener->draining)
        return true;
    if (conn->body_done || head->length == 0)
        return false;
    /* A client that waits for 100 may send its body, or not: nobody can tell what follows. */
    return conn->expects || head->length > (int64_t)http1_limits_of(conn)->linger_bytes;
}

static void frame(struct http1_conn *conn, const struct http_head *head,
                  struct http1_framing *framing)
{
    bool old = conn->in.head.version == 10;

    if (head->status == 204 || head->status == 304)
        conn->bodyless = true;
    conn->left = head->length;
    conn->chunked = head->length < 0 && !old && !conn->bodyless;
    if (head->length < 0 && old && !conn->bodyless)
        conn->close = true;
    conn->close = must_close(conn);
    framing->length = head->status == 204 ? -1 : head->length;
    framing->chunked = head->length < 0 && !old && head->status != 204 && head->status != 304;
    framing->close = conn->close;
    framing->keep_alive = old && !conn->close;
}

static void in_reply(struct http_inbound *in, const struct http_head *head)
{
    struct http1_conn *conn = conn_of(in);
    struct http1_framing framing = {.length = -1};
    struct buf out = {0};

    if (conn->replied || conn->finished || conn->aborted)
        return;
    frame(conn, head, &framing);
    conn->replied = true;
    /* Straight into the queue, unless bytes before it are still being encrypted or sent. */
    if (!http1_put_reply(conn->wire.loop, &out, head, &framing)) {
        conn->aborted = true;
        net_later_put(conn->wire.loop, &conn->later);
        return;
    }
    wire_write(&conn->wire, buf_first(&out), buf_bytes(&out));
    buf_release(conn->wire.loop, &out);
}

/* The state is the same as after a head without a length, to a client of HTTP/1.0. */
void http1_inbound_write_bare(struct http_inbound *in)
{
    struct http1_conn *conn = conn_of(in);

    conn->replied = true;
    conn->close = true;
    conn->chunked = false;
    conn->bodyless = false;
    conn->left = -1;
}

static size_t in_write(struct http_inbound *in, struct slice bytes)
{
    struct http1_conn *conn = conn_of(in);
    char line[HTTP1_CHUNK_BYTES];

    if (!conn->replied || conn->finished || conn->aborted || conn->bodyless || bytes.n == 0)
        return wire_queued(&conn->wire);
    bytes.n = http_reply_count(&conn->left, bytes.n);
    if (conn->chunked)
        wire_write(&conn->wire, line, http1_chunk_line(line, bytes.n));
    wire_write(&conn->wire, bytes.at, bytes.n);
    if (conn->chunked)
        wire_write(&conn->wire, "\r\n", 2);
    size_t queued = wire_queued(&conn->wire);
    if (queued > http1_limits_of(conn)->output_high)
        conn->high = true;
    http1_conn_await_socket(conn);
    return queued;
}

static void in_abort(struct http_inbound *in, uint32_t code)
{
    struct http1_conn *conn = conn_of(in);

    (void)code;
    if (conn->finished && conn->phase != HTTP1_BUSY)
        return;
    conn->aborted = true;
    net_later_put(conn->wire.loop, &conn->later);
}

/* Behind the chunks, for a client that wants them: others may take them for what they are not. */
static void put_end_of_chunks(struct http1_conn *conn, const struct http_field *trailers, size_t n)
{
    struct buf out = {0};

    if (n > 0 && http_has_token(&conn->in.head, SLICE("te"), SLICE("trailers")) &&
        http1_put_last_chunk(conn->wire.loop, &out, trailers, n))
        wire_write(&conn->wire, buf_first(&out), buf_bytes(&out));
    else
        wire_write(&conn->wire, "0\r\n\r\n", 5);
    buf_release(conn->wire.loop, &out);
}

static void in_finish(struct http_inbound *in, const struct http_field *trailers, size_t n)
{
    struct http1_conn *conn = conn_of(in);

    if (conn->finished || conn->aborted)
        return;
    if (!conn->replied || (!conn->bodyless && conn->left > 0)) {
        in_abort(in, 0);
        return;
    }
    if (conn->chunked)
        put_end_of_chunks(conn, trailers, n);
    conn->finished = true;
    if (conn->paused && !conn->body_done) {
        conn->paused = false;
        wire_resume(&conn->wire);
    }
    net_later_put(conn->wire.loop, &conn->later);
}

static size_t in_queued(const struct http_inbound *in)
{
    return wire_queued(&conn_of((struct http_inbound *)(uintptr_t)in)->wire);
}

static const struct sockaddr *in_peer(const struct http_inbound *in)
{
    const struct http1_conn *conn = conn_of((struct http_inbound *)(uintptr_t)in);

    return (const struct sockaddr *)(const void *)&conn->peer;
}

const struct http_inbound_transport http1_inbound_transport = {
    .pause = in_pause,
    .resume = in_resume,
    .reply = in_reply,
    .write = in_write,
    .finish = in_finish,
    .abort = in_abort,
    .queued = in_queued,
    .peer = in_peer,
};

void http_inbound_send(struct http_inbound *in, const struct http_head *head, struct slice body)
{
    struct http_head whole = *head;

    whole.length = (int64_t)body.n;
    http_inbound_reply(in, &whole);
    http_inbound_write(in, body);
    http_inbound_finish(in);
}
