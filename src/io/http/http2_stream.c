/* http2_stream.c - a request by HTTP/2 and its reply: the same promises as http1_server.c makes.
 *
 *     OPENING -> BUSY -> OVER -> given back
 *
 * A reply that comes before the end of its request does not reset the exchange at once, as it may:
 * some clients then lose the reply. The rest is dropped within bounds of time and bytes, and only
 * who goes on sending is told to stop.
 *
 * Nothing in the owner's calls calls back, or sends: both are put off until the event is over.
 */
#include <stdlib.h>

#include "io/http/http2_server_internal.h"

#define SPARE_MAX 256
#define MOVED_ENOUGH ((size_t)16 << 10) /* bytes for which a client gets its time again */

static void http2_stream_refuse(struct http2_stream *stream, int status, const char *text,
                                bool begun);
static void http2_stream_work(void *arg);

static struct http2_stream *stream_of(const struct http_inbound *in)
{
    return container_of(in, struct http2_stream, in);
}

static struct net_loop *loop_of(const struct http2_stream *stream)
{
    return stream->server->link.wire->loop;
}

static const struct http_limits *limits_of(const struct http2_stream *stream)
{
    return http1_limits_of(stream->server->conn);
}

static struct http_listener *listener_of(const struct http2_stream *stream)
{
    return stream->server->conn->listener;
}

/* ---- Timers ---------------------------------------------------------------------------------- */

static void await_body(struct http2_stream *stream)
{
    http_body_await(&stream->body_time, loop_of(stream), &stream->read_timer);
}

static void read_timer_fires(void *arg)
{
    struct http2_stream *stream = arg;

    if (stream->phase == HTTP2_OVER || stream->finished) {
        http2_flow_reset(&stream->flow, HTTP2_NO_ERROR); /* enough has been dropped */
    } else if (stream->flow.in_ended || stream->flow.paused || stream->in.patient) {
        return;
    } else if (stream->replied) {
        http2_flow_reset(&stream->flow, HTTP2_CANCEL);
        http2_stream_gone(stream, HTTP_TIMEOUT);
    } else {
        http2_stream_gone(stream, HTTP_TIMEOUT);
        http2_stream_refuse(stream, 408, "the body did not arrive in time", true);
    }
}

/* The client's window, or its socket, takes nothing of what there is for it. */
static void write_timer_fires(void *arg)
{
    struct http2_stream *stream = arg;

    http2_flow_reset(&stream->flow, HTTP2_CANCEL);
    http2_stream_gone(stream, HTTP_TIMEOUT);
}

static void await_taken(struct http2_stream *stream)
{
    stream->moved = 0;
    net_timer_set(loop_of(stream), &stream->write_timer, limits_of(stream)->write_ms);
}

/* ---- Storage --------------------------------------------------------------------------------- */

struct http2_stream *http2_stream_take(struct http2_server *server)
{
    struct http1_conn *conn = server->conn;
    struct http_listener *listener = conn->listener;
    struct http2_stream *stream = SLIST_FIRST(&listener->spares);

    assert((stream == NULL) == (listener->n_spares == 0));
    if (stream != NULL) {
        SLIST_REMOVE_HEAD(&listener->spares, next_spare);
        listener->n_spares--;
    } else {
        stream = malloc(sizeof *stream);
    }
    if (stream == NULL)
        return NULL;
    *stream = (struct http2_stream){.server = server, .left = -1};
    http2_flow_init(&stream->flow, &server->link);
    stream->in.transport = &http2_inbound_transport;
    stream->in.context = listener->context;
    stream->in.secure = conn->in.secure;
    stream->in.connection = conn->in.connection;
    stream->in.reset_code = HTTP2_CANCEL;
    net_timer_init(&stream->read_timer, read_timer_fires, stream);
    net_timer_init(&stream->write_timer, write_timer_fires, stream);
    net_later_init(&stream->later, http2_stream_work, stream);
    return stream;
}

void http2_stream_give(struct http2_stream *stream)
{
    struct http2_server *server = stream->server;
    struct http_listener *listener = server->conn->listener;
    struct net_loop *loop = loop_of(stream);

    assert(stream->phase != HTTP2_BUSY && !http2_stream_is_done(stream));
    net_timer_stop(loop, &stream->read_timer);
    net_timer_stop(loop, &stream->write_timer);
    net_later_cancel(loop, &stream->later);
    http2_flow_fini(&stream->flow);
    if (listener->n_spares < SPARE_MAX) {
        SLIST_INSERT_HEAD(&listener->spares, stream, next_spare);
        listener->n_spares++;
    } else {
        net_loop_bury(loop, &stream->grave);
    }
    if (!server->link.finished)
        http2_server_count(server);
}

void http2_spares_free(struct http_listener *listener)
{
    struct http2_stream *stream;

    while ((stream = SLIST_FIRST(&listener->spares)) != NULL) {
        SLIST_REMOVE_HEAD(&listener->spares, next_spare);
        net_loop_bury(listener->loop, &stream->grave);
    }
}

/* ---- Ends ------------------------------------------------------------------------------------ */

void http2_stream_gone(struct http2_stream *stream, enum http_why why)
{
    struct http_listener *listener = listener_of(stream);

    if (stream->phase != HTTP2_BUSY)
        return;
    stream->finished = true; /* whatever the owner still calls does nothing */
    stream->aborted = true;
    stream->phase = HTTP2_OVER;
    net_timer_stop(loop_of(stream), &stream->write_timer);
    net_later_cancel(loop_of(stream), &stream->later);
    http2_flow_discard(&stream->flow);
    assert(listener->n_busy > 0);
    listener->n_busy--;
    if (stream->in.client != 0)
        http_conn_set_client(stream->server->conn, stream->in.client);
    listener->ops->gone(&stream->in, why);
}

void http2_stream_closed(struct http2_flow *flow, uint32_t code)
{
    struct http2_stream *stream = http2_stream_of(flow);

    if (http2_stream_is_done(stream))
        return; /* complete, on its way */
    stream->in.reset_code = code;
    http2_stream_gone(stream, flow->peer_reset  ? HTTP_HANGUP
                              : stream->aborted ? HTTP_ABORTED
                                                : HTTP_ERROR);
    if (!flow->link->finished)
        http2_stream_give(stream);
}

static void reply_complete(struct http2_stream *stream)
{
    if (!stream->finished || !stream->flow.sent_end || http2_stream_is_done(stream))
        return;
    net_timer_stop(loop_of(stream), &stream->write_timer);
    if (stream->phase == HTTP2_BUSY)
        http2_server_done(stream);
    if (!stream->flow.in_ended)
        net_timer_set(loop_of(stream), &stream->read_timer, limits_of(stream)->linger_ms);
}

void http2_stream_sent_end(struct http2_flow *flow)
{
    reply_complete(http2_stream_of(flow));
}

static void http2_stream_work(void *arg)
{
    struct http2_stream *stream = arg;

    if (stream->phase != HTTP2_BUSY)
        return;
    if (stream->aborted) {
        http2_flow_reset(&stream->flow, stream->abort_code);
        http2_stream_gone(stream, HTTP_ABORTED);
        return;
    }
    if (stream->roomy && !stream->finished) {
        stream->roomy = false;
        if (listener_of(stream)->ops->room != NULL)
            listener_of(stream)->ops->room(&stream->in);
    }
    if (!stream->server->link.finished && stream->phase == HTTP2_BUSY)
        http2_flow_deliver(&stream->flow);
}

/* ---- Arriving -------------------------------------------------------------------------------- */

static void say_continue(struct http2_stream *stream)
{
    nghttp2_nv interim = {(uint8_t *)(uintptr_t) ":status", (uint8_t *)(uintptr_t) "100", 7, 3,
                          NGHTTP2_NV_FLAG_NONE};

    if (!stream->expects || stream->replied || stream->flow.paused || !stream->flow.open)
        return;
    stream->expects = false;
    stream->flow.interim = nghttp2_submit_headers(stream->flow.link->session, NGHTTP2_FLAG_NONE,
                                                  stream->flow.id, NULL, &interim, 1, NULL) == 0;
    http2_link_flush_later(stream->flow.link);
}

/* The checks that nghttp2 does not make. 0: the head is fine. */
static int http2_stream_check_head(struct http2_stream *stream, const struct http2_pseudo *pseudo,
                                   const char **text)
{
    struct slice host = http_find(&stream->in.head, SLICE("host"));

    *text = "the request target is too long";
    if (pseudo->path.n > limits_of(stream)->target_bytes)
        return 414;
    *text = "CONNECT is not for this server";
    if (slice_equal(pseudo->method, SLICE("CONNECT")))
        return 501;
    *text = "a request needs one Host field";
    if (pseudo->two_hosts || host.at == NULL)
        return 400;
    *text = "Host is none";
    if (!http_is_host(host))
        return 400;
    *text = "the only expectation is 100-continue";
    if (!http_expects_no_more(&stream->in.head))
        return 417;
    *text = "the request target has no path";
    return pseudo->path.n == 0 ? 400 : 0;
}

static int read_head(struct http2_stream *stream, bool last, const char **text)
{
    struct http2_block *block = &stream->flow.head;
    struct http_head *head = &stream->in.head;
    struct http2_pseudo pseudo;

    *text = "the header is too large";
    if (block->over)
        return 431;
    *text = "no memory";
    if (block->no_memory ||
        !http2_block_list(loop_of(stream), block, &pseudo, &head->fields, &head->n_fields))
        return 503;
    head->method = pseudo.method;
    head->target = pseudo.path;
    head->version = 20;
    head->length = http2_stated_length(head);
    if (last)
        head->length = 0;
    stream->bodyless = slice_equal(pseudo.method, SLICE("HEAD"));
    return http2_stream_check_head(stream, &pseudo, text);
}

void http2_stream_head(struct http2_flow *flow, bool last)
{
    struct http2_stream *stream = http2_stream_of(flow);
    struct http_listener *listener = listener_of(stream);
    const char *text;
    int status = read_head(stream, last, &text);

    if (status != 0) {
        http2_stream_refuse(stream, status, text, false);
        return;
    }
    assert(stream->phase == HTTP2_OPENING);
    stream->phase = HTTP2_BUSY;
    stream->expects =
        !last && http_has_token(&stream->in.head, SLICE("expect"), SLICE("100-continue"));
    if (!last) {
        stream->body_time.left = limits_of(stream)->body_ms;
        await_body(stream);
    }
    listener->n_busy++;
    listener->ops->begin(listener->context, &stream->in);
    if (!flow->link->finished && stream->phase == HTTP2_BUSY)
        say_continue(stream);
}

void http2_stream_data(struct http2_flow *flow, struct slice bytes)
{
    struct http2_stream *stream = http2_stream_of(flow);

    if (stream->phase == HTTP2_BUSY && !stream->finished) {
        http_body_earn(&stream->body_time, limits_of(stream), loop_of(stream), &stream->read_timer,
                       bytes.n);
        listener_of(stream)->ops->data(&stream->in, bytes);
        return;
    }
    stream->dropped += bytes.n;
    if (stream->dropped > limits_of(stream)->linger_bytes && stream->flow.sent_end)
        http2_flow_reset(flow, HTTP2_NO_ERROR);
}

void http2_stream_ended(struct http2_flow *flow)
{
    struct http2_stream *stream = http2_stream_of(flow);

    net_timer_stop(loop_of(stream), &stream->read_timer);
    /* curl 7.88, Debian 12's, that has got a whole reply without a body before it has sent its own,
     * sends that and then waits for the socket: without end, if nothing more comes. */
    if (stream->finished && stream->bodyless && flow->sent_end)
        http2_link_nudge(flow->link);
    if (stream->phase != HTTP2_BUSY || stream->finished)
        return;
    stream->in.trailers = flow->trailers;
    stream->in.n_trailers = flow->n_trailers;
    listener_of(stream)->ops->end(&stream->in);
}

void http2_stream_wrote(struct http2_flow *flow, size_t n)
{
    struct http2_stream *stream = http2_stream_of(flow);
    size_t left = buf_bytes(&flow->out);

    stream->moved += n;
    if (left == 0)
        net_timer_stop(loop_of(stream), &stream->write_timer);
    else if (stream->moved >= MOVED_ENOUGH && stream->phase == HTTP2_BUSY)
        await_taken(stream);
    if (stream->high && left <= limits_of(stream)->output_low) {
        stream->high = false;
        stream->roomy = true;
        net_later_put(loop_of(stream), &stream->later);
    }
}

/* ---- The owner's calls ----------------------------------------------------------------------- */

static void in_pause(struct http_inbound *in)
{
    struct http2_stream *stream = stream_of(in);

    if (!stream->finished)
        http2_flow_pause(&stream->flow);
}

static void in_resume(struct http_inbound *in)
{
    struct http2_stream *stream = stream_of(in);

    if (!stream->flow.paused || stream->finished)
        return;
    if (http2_flow_resume(&stream->flow))
        net_later_put(loop_of(stream), &stream->later);
    if (stream->flow.in_ended)
        return;
    await_body(stream); /* the owner's pause does not count */
    say_continue(stream);
}

static void in_abort(struct http_inbound *in, uint32_t code)
{
    struct http2_stream *stream = stream_of(in);

    if (stream->phase != HTTP2_BUSY || stream->aborted)
        return;
    stream->aborted = true;
    stream->abort_code = code;
    net_later_put(loop_of(stream), &stream->later);
}

/* `length` is said where it says something: a reply that ends with its head needs none. */
static bool put_head(struct http2_stream *stream, const struct http_head *head, bool body)
{
    bool head_only = slice_equal(stream->in.head.method, SLICE("HEAD"));
    int status = head->status >= 200 && head->status <= 999 ? head->status : 500;
    char digits[HTTP_NUMBER_MAX];
    struct http2_nvs nvs;

    http2_nvs_init(&nvs);
    http2_nvs_put(&nvs, SLICE(":status"), (struct slice){digits, http_put_number(digits, status)});
    if (head->length > 0 || (head->length == 0 && head_only))
        if (status != 204)
            http2_nvs_put_length(&nvs, head->length);
    bool ok = http2_nvs_put_fields(loop_of(stream), &nvs, head, false) &&
              http2_flow_reply(&stream->flow, &nvs, body);
    http2_nvs_fini(loop_of(stream), &nvs);
    return ok;
}

static void in_reply(struct http_inbound *in, const struct http_head *head)
{
    struct http2_stream *stream = stream_of(in);

    if (stream->replied || stream->finished || stream->aborted)
        return;
    if (head->status == 204 || head->status == 304 || head->length == 0)
        stream->bodyless = true;
    stream->left = head->length;
    stream->replied = true;
    if (!put_head(stream, head, !stream->bodyless))
        in_abort(in, HTTP2_INTERNAL_ERROR);
}

static size_t in_write(struct http_inbound *in, struct slice bytes)
{
    struct http2_stream *stream = stream_of(in);

    if (!stream->replied || stream->finished || stream->aborted || stream->bodyless)
        return buf_bytes(&stream->flow.out);
    bytes.n = http_reply_count(&stream->left, bytes.n);
    if (!http2_flow_write(&stream->flow, bytes))
        in_abort(in, HTTP2_INTERNAL_ERROR);
    size_t queued = buf_bytes(&stream->flow.out);
    if (queued > limits_of(stream)->output_high)
        stream->high = true;
    if (queued > 0 && !net_timer_is_set(&stream->write_timer))
        await_taken(stream);
    return queued;
}

static void in_finish(struct http_inbound *in, const struct http_field *trailers, size_t n)
{
    struct http2_stream *stream = stream_of(in);

    if (stream->finished || stream->aborted)
        return;
    if (!stream->replied || (!stream->bodyless && stream->left > 0) ||
        (!stream->bodyless && !http2_flow_finish(&stream->flow, trailers, n))) {
        in_abort(in, HTTP2_INTERNAL_ERROR);
        return;
    }
    stream->finished = true;
    net_timer_stop(loop_of(stream), &stream->read_timer);
    if (stream->flow.paused && http2_flow_resume(&stream->flow))
        net_later_put(loop_of(stream), &stream->later);
    reply_complete(stream);
    http2_link_flush_later(stream->flow.link);
}

static size_t in_queued(const struct http_inbound *in)
{
    return buf_bytes(&stream_of(in)->flow.out);
}

static const struct sockaddr *in_peer(const struct http_inbound *in)
{
    const struct http1_conn *conn = stream_of(in)->server->conn;

    return (const struct sockaddr *)(const void *)&conn->peer;
}

const struct http_inbound_transport http2_inbound_transport = {
    .pause = in_pause,
    .resume = in_resume,
    .reply = in_reply,
    .write = in_write,
    .finish = in_finish,
    .abort = in_abort,
    .queued = in_queued,
    .peer = in_peer,
};

/* ---- Our own replies ------------------------------------------------------------------------- */

static void http2_stream_refuse(struct http2_stream *stream, int status, const char *text,
                                bool begun)
{
    const struct http_listener *listener = listener_of(stream);
    struct http_refusal refusal;
    struct http_field type = {.name = SLICE("content-type")};
    struct http_head head = {.status = status, .fields = &type, .n_fields = 1};

    if (stream->flow.link->finished || !stream->flow.open)
        return;
    http1_make_refusal(listener, status, text, begun, &refusal);
    type.value = refusal.type;
    head.length = (int64_t)refusal.n;
    stream->phase = HTTP2_OVER;
    stream->finished = true;
    if (!put_head(stream, &head, refusal.n > 0 && !stream->bodyless))
        http2_flow_reset(&stream->flow, HTTP2_INTERNAL_ERROR);
    if (!stream->bodyless)
        (void)http2_flow_write(&stream->flow, (struct slice){refusal.body, refusal.n});
    (void)http2_flow_finish(&stream->flow, NULL, 0);
    await_taken(stream);
}
