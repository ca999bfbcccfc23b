/* http2_arrive.c - what arrives on a connection of HTTP/2: from nghttp2's callbacks to its flows.
 *
 * Windows: the peer's bytes count as taken for the connection when they arrive, and for the
 * exchange when its owner got them. So an owner that does not read stops its own client's exchange,
 * and no other on that connection.
 *
 * Floods: frames that make work and carry nothing, and exchanges that are reset as soon as they are
 * begun (rapid reset), take tokens from buckets that are filled by time and by exchanges that go
 * well. A client that makes us reset them, by breaking a rule on each, pays the same: nghttp2 does
 * not always report that (a body that is not as long as was stated), so what counts is that the
 * exchange was closed so. Debian's nghttp2 1.52 counts resets, too, but by the machine's clock, and
 * those of a busy and honest client like those of an attacker.
 *
 * An exchange that lasted for a while, or whose reply has begun, is reset for free: it used one of
 * the streams that a connection may have, which bounds how many there can be. A client whose
 * calls all come to their deadlines, or that hangs up on long replies, keeps its connection and
 * whoever else is on it. An interim head is no reply: it can be had for the asking.
 *
 * Every callback may find that an owner has ended the link: then nghttp2 is told to stop.
 */
#include "io/http/http2_link.h"

#include <assert.h>

#define INFORMATIONAL_MAX 16 /* interim heads (1xx) before the final one */
#define IGNORED_BYTES 64 /* so much of an ignored header block costs as much as an empty frame */

static void pay_odd(struct http2_link *link)
{
    if (!bucket_take(&link->odd, 1, net_loop_now(link->wire->loop)))
        http2_link_fail(link, HTTP2_ENHANCE_YOUR_CALM, "too many frames that carry nothing");
}

static void pay_reset(struct http2_link *link)
{
    if (!bucket_take(&link->resets, 1, net_loop_now(link->wire->loop)))
        http2_link_fail(link, HTTP2_ENHANCE_YOUR_CALM, "too many exchanges given up");
}

static void earn_odd(struct http2_link *link)
{
    bucket_add(&link->odd, HTTP2_ODD_EARNED);
}

static struct http2_flow *flow_of(nghttp2_session *session, int32_t id)
{
    return nghttp2_session_get_stream_user_data(session, id);
}

/* What a callback returns: a link that failed is not read any further. */
static int callback_result(const struct http2_link *link)
{
    return link->failed || link->finished ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
}

static bool is_server(const struct http2_link *link)
{
    return link->ops->opened != NULL;
}

static bool is_rapid(const struct http2_link *link, const struct http2_flow *flow)
{
    return flow == NULL || !is_server(link) ||
           (!flow->spoken &&
            net_loop_now(link->wire->loop) - flow->opened_at < link->limits.rapid_ms);
}

/* A header block for an exchange that has ended is decoded, because the compressor's state belongs
 * to the connection, but nobody gets its fields: so its bytes are paid for. A few may have
 * been on their way when we ended it. */
static void pay_ignored(struct http2_link *link, const nghttp2_frame_hd *head)
{
    for (size_t n = 0; n <= head->length && !link->failed; n += IGNORED_BYTES)
        pay_odd(link);
}

static void block_begins(struct http2_link *link, nghttp2_session *session,
                         const nghttp2_frame_hd *head)
{
    bool begins = head->stream_id > link->last_id;

    if (begins)
        link->last_id = head->stream_id;
    link->ignoring =
        is_server(link) && (begins ? link->left : flow_of(session, head->stream_id) == NULL);
}

/* What is not told when it is complete: PRIORITY, which we do not heed but where it is forbidden,
 * types that nobody knows, and what nghttp2 ignores. */
static int on_begin_frame(nghttp2_session *session, const nghttp2_frame_hd *head, void *arg)
{
    struct http2_link *link = arg;

    if (link->finished)
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    if (head->type == NGHTTP2_HEADERS)
        block_begins(link, session, head);
    if ((head->type == NGHTTP2_HEADERS || head->type == NGHTTP2_CONTINUATION) && link->ignoring)
        pay_ignored(link, head);
    else if (head->type == NGHTTP2_PRIORITY && head->stream_id == 0)
        http2_link_fail(link, HTTP2_PROTOCOL_ERROR, "PRIORITY of no exchange");
    else if (head->type == NGHTTP2_PRIORITY || head->type > NGHTTP2_CONTINUATION)
        pay_odd(link);
    return callback_result(link);
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    struct http2_link *link = arg;

    if (link->finished)
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    link->in_block = true;
    link->blocks++;
    if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
        return 0;
    struct http2_flow *flow = link->ops->opened(link);
    if (flow == NULL)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    assert(flow->link == link && flow->id == 0 && !flow->open);
    flow->id = frame->hd.stream_id;
    flow->open = true;
    flow->opened_at = net_loop_now(link->wire->loop);
    nghttp2_session_set_stream_user_data(session, flow->id, flow);
    return 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_n, const uint8_t *value, size_t value_n, uint8_t flags, void *arg)
{
    struct http2_link *link = arg;
    struct http2_flow *flow = flow_of(session, frame->hd.stream_id);

    (void)flags;
    if (flow == NULL || link->finished)
        return callback_result(link);
    struct http2_block *block = flow->headed ? &flow->tail : &flow->head;
    if (!http2_block_add(link->wire->loop, block, &link->limits.block,
                         (struct slice){(const char *)name, name_n},
                         (struct slice){(const char *)value, value_n}))
        http2_link_fail(link, HTTP2_ENHANCE_YOUR_CALM, "a header that is far too large");
    return callback_result(link);
}

void http2_flow_tell_ended(struct http2_flow *flow)
{
    if (flow->told_ended || flow->paused || buf_bytes(&flow->held) > 0)
        return;
    assert(flow->in_ended);
    flow->told_ended = true;
    flow->link->ops->ended(flow);
}

/* Trailers are for whoever can use them: without memory, or too large, they are none. */
static void list_trailers(struct http2_flow *flow)
{
    struct http2_pseudo pseudo;

    if (flow->tail.n == 0 || flow->tail.over || flow->tail.no_memory)
        return;
    if (!http2_block_list(flow->link->wire->loop, &flow->tail, &pseudo, &flow->trailers,
                          &flow->n_trailers))
        flow->n_trailers = 0;
}

/* A reply before the reply: 1xx. */
static bool is_interim(const struct http2_flow *flow, const nghttp2_frame *frame)
{
    struct slice status = http2_block_status(&flow->head);

    return frame->headers.cat != NGHTTP2_HCAT_REQUEST && status.n == 3 && *status.at == '1';
}

static void headers_came(struct http2_link *link, struct http2_flow *flow,
                         const nghttp2_frame *frame)
{
    bool last = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;

    earn_odd(link);
    if (flow->headed) {
        list_trailers(flow);
    } else if (is_interim(flow, frame)) {
        http2_block_release(link->wire->loop, &flow->head);
        if (++flow->informational > INFORMATIONAL_MAX)
            http2_link_fail(link, HTTP2_ENHANCE_YOUR_CALM, "too many interim replies");
        return;
    } else {
        flow->headed = true;
        flow->in_ended = last;
        assert(flow->open);
        link->ops->head(flow, last);
        if (link->finished || !flow->open)
            return;
    }
    flow->in_ended = last;
    if (last)
        http2_flow_tell_ended(flow);
}

static void data_came(struct http2_link *link, struct http2_flow *flow, const nghttp2_frame *frame)
{
    bool last = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;

    if (frame->hd.length > frame->data.padlen || last) /* padding is nothing */
        earn_odd(link);
    else
        pay_odd(link);
    if (flow == NULL || !last)
        return;
    flow->in_ended = true;
    http2_flow_tell_ended(flow);
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    struct http2_link *link = arg;
    struct http2_flow *flow =
        frame->hd.stream_id > 0 ? flow_of(session, frame->hd.stream_id) : NULL;
    bool ack = (frame->hd.flags & NGHTTP2_FLAG_ACK) != 0;

    if (link->finished)
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    switch (frame->hd.type) {
    case NGHTTP2_HEADERS:
        link->in_block = false;
        if (flow != NULL)
            headers_came(link, flow, frame);
        break;
    case NGHTTP2_DATA:
        data_came(link, flow, frame);
        break;
    case NGHTTP2_RST_STREAM:
        if (flow != NULL)
            flow->peer_reset = true;
        if (is_rapid(link, flow))
            pay_reset(link);
        break;
    case NGHTTP2_SETTINGS:
        if (!ack)
            pay_odd(link);
        if (!ack && link->ops->settled != NULL)
            link->ops->settled(link);
        break;
    case NGHTTP2_GOAWAY:
        pay_odd(link);
        if (link->ops->goaway != NULL)
            link->ops->goaway(link);
        break;
    case NGHTTP2_PING:
    case NGHTTP2_WINDOW_UPDATE:
        pay_odd(link);
        if (frame->hd.type == NGHTTP2_WINDOW_UPDATE && frame->hd.stream_id == 0)
            link->moved_at = net_loop_now(link->wire->loop);
        if (link->leaving && ack && frame->hd.type == NGHTTP2_PING &&
            frame->ping.opaque_data[0] == HTTP2_PING_LEAVE)
            http2_link_leave_now(link);
        break;
    default:
        break;
    }
    return callback_result(link);
}

/* Bytes of a flow that nobody wants any more are as good as taken. */
static int http2_arrive_on_data(nghttp2_session *session, uint8_t flags, int32_t id,
                                const uint8_t *bytes, size_t n, void *arg)
{
    struct http2_link *link = arg;
    struct http2_flow *flow = flow_of(session, id);

    (void)flags;
    if (link->finished)
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    nghttp2_session_consume_connection(session, n);
    if (flow == NULL || n == 0)
        return callback_result(link);
    if (flow->paused || buf_bytes(&flow->held) > 0) {
        if (buf_append(link->wire->loop, &flow->held, bytes, n))
            link->held_bytes += n;
        else
            http2_flow_reset(flow, HTTP2_INTERNAL_ERROR);
        return callback_result(link);
    }
    link->ops->data(flow, (struct slice){(const char *)bytes, n});
    if (!link->finished && !link->failed)
        nghttp2_session_consume_stream(session, id, n);
    return callback_result(link);
}

/* Something that the rules forbid: nghttp2 resets the stream, or ends the connection itself. */
static int on_invalid_frame(nghttp2_session *session, const nghttp2_frame *frame, int error,
                            void *arg)
{
    struct http2_link *link = arg;
    struct http2_flow *flow =
        frame->hd.stream_id > 0 ? flow_of(session, frame->hd.stream_id) : NULL;

    (void)error;
    link->in_block = false;
    if (flow != NULL)
        flow->paid = true;
    pay_reset(link);
    return callback_result(link);
}

static int on_close(nghttp2_session *session, int32_t id, uint32_t code, void *arg)
{
    struct http2_link *link = arg;
    struct http2_flow *flow = flow_of(session, id);

    if (flow == NULL || link->finished)
        return 0;
    assert(flow->open && flow->id == id);
    flow->open = false;
    nghttp2_session_set_stream_user_data(session, id, NULL);
    if (code == HTTP2_NO_ERROR && !flow->peer_reset)
        bucket_add(&link->resets, BUCKET_TOKEN);
    else if (is_server(link) && !flow->peer_reset && !flow->resetting && !flow->paid)
        pay_reset(link);
    link->ops->closed(flow, code);
    /* Not for a link that failed just now: it may be sending, and has a last word to say. */
    return link->finished ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
}

/* A frame of a type that nobody knows: it has been paid for, and the rest of it is skipped. */
static int on_extension(nghttp2_session *session, void **payload, const nghttp2_frame_hd *head,
                        void *arg)
{
    (void)session, (void)payload, (void)head, (void)arg;
    return NGHTTP2_ERR_CANCEL;
}

void http2_arrive_set(nghttp2_session_callbacks *callbacks)
{
    nghttp2_session_callbacks_set_on_begin_frame_callback(callbacks, on_begin_frame);
    nghttp2_session_callbacks_set_unpack_extension_callback(callbacks, on_extension);
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, http2_arrive_on_data);
    nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks, on_invalid_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
}
