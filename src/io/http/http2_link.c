/* http2_link.c - a connection of HTTP/2, from either end: nghttp2 between a wire and its flows.
 *
 * nghttp2 knows frames, compression, windows and what RFC 9113 forbids; it does no I/O. What it
 * wants to send is taken from it when the event is over, all of it into the wire's queue, so that
 * the replies of one event to many exchanges leave in one system call. It is asked for no more than
 * the wire's queue may hold: what exchanges have to say waits with them, each within its bound, and
 * which is next is decided when there is room.
 */
#include "io/http/http2_link.h"

#include <assert.h>
#include <stdlib.h>

#define WIRE_FULL HTTP_OUTPUT_HIGH
#define ACKS_MAX 512             /* acknowledgements that may wait to be sent */
#define SETTINGS_MAX 32          /* settings in one frame */
#define CONTINUATIONS_MAX 64     /* frames of one header block; its bytes are bounded, too */
#define SEND_BLOCK_MAX (2 << 20) /* bytes of a header block of ours */

/* ---- nghttp2's callbacks: what is sent ------------------------------------------------------- */

static int on_frame_sent(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    struct http2_link *link = arg;
    bool body = frame->hd.type == NGHTTP2_DATA || frame->hd.type == NGHTTP2_HEADERS;

    if (link->finished || !body)
        return 0;
    bucket_add(&link->odd, HTTP2_ODD_EARNED);
    struct http2_flow *flow = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    if (flow == NULL)
        return 0;
    assert(flow->link == link && !flow->sent_end);
    flow->spoken = !flow->interim; /* an interim head goes before the final one */
    flow->interim = false;
    if (!flow->begun) { /* nghttp2 reports a head before it hands out the last bytes of it */
        flow->begun = true;
        flow->begin_at = link->written;
    }
    if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) == 0)
        return 0;
    flow->sent_end = true;
    flow->end_at = link->written;
    link->ops->sent_end(flow);
    return link->finished ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
}

/* A head that nghttp2 will not send: too large, or for an exchange that has ended. */
static int on_frame_not_sent(nghttp2_session *session, const nghttp2_frame *frame, int error,
                             void *arg)
{
    struct http2_link *link = arg;

    (void)error;
    if (frame->hd.type != NGHTTP2_HEADERS || link->finished)
        return 0;
    struct http2_flow *flow = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    if (flow != NULL && flow->open)
        http2_flow_reset(flow, HTTP2_INTERNAL_ERROR);
    return 0;
}

static int submit_last(nghttp2_session *session, struct http2_flow *flow)
{
    struct http_head head = {.fields = (const struct http_field *)(const void *)flow->last.at,
                             .n_fields = flow->n_last};
    struct http2_nvs nvs;

    http2_nvs_init(&nvs);
    int rv = NGHTTP2_ERR_NOMEM;
    if (http2_nvs_put_fields(flow->link->wire->loop, &nvs, &head, false))
        rv = nghttp2_submit_trailer(session, flow->id, nvs.list, nvs.n);
    http2_nvs_fini(flow->link->wire->loop, &nvs);
    return rv;
}

/* How much of the body is to be sent next; send_data() takes it from where it waits. */
ssize_t http2_next_data(nghttp2_session *session, int32_t id, uint8_t *buf, size_t most,
                        uint32_t *flags, nghttp2_data_source *source, void *arg)
{
    struct http2_flow *flow = source->ptr;
    size_t n = buf_bytes(&flow->out);

    assert(flow->id == id && flow->link == arg);
    (void)id, (void)buf, (void)arg;
    if (n == 0 && !flow->finished) {
        flow->asleep = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    if (n > most)
        return (ssize_t)most;
    if (flow->finished)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    if (flow->finished && flow->n_last > 0) {
        *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
        if (submit_last(session, flow) != 0)
            return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    }
    return (ssize_t)n;
}

static int send_data(nghttp2_session *session, nghttp2_frame *frame, const uint8_t *head, size_t n,
                     nghttp2_data_source *source, void *arg)
{
    struct http2_link *link = arg;
    struct http2_flow *flow = source->ptr;

    (void)session, (void)frame;
    if (link->finished)
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    if (wire_queued(link->wire) >= WIRE_FULL)
        return NGHTTP2_ERR_WOULDBLOCK;
    assert(n <= buf_bytes(&flow->out));
    wire_write(link->wire, head, 9);
    link->written += 9 + n;
    if (n == 0)
        return 0;
    link->moved_at = net_loop_now(link->wire->loop);
    wire_write(link->wire, buf_first(&flow->out), n);
    buf_consume(link->wire->loop, &flow->out, n);
    link->ops->wrote(flow, n);
    return link->finished ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
}

/* ---- The link -------------------------------------------------------------------------------- */

static nghttp2_session_callbacks *make_callbacks(void)
{
    nghttp2_session_callbacks *callbacks;

    if (nghttp2_session_callbacks_new(&callbacks) != 0)
        return NULL;
    http2_arrive_set(callbacks);
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_frame_sent);
    nghttp2_session_callbacks_set_on_frame_not_send_callback(callbacks, on_frame_not_sent);
    nghttp2_session_callbacks_set_send_data_callback(callbacks, send_data);
    return callbacks;
}

static nghttp2_option *make_option(void)
{
    nghttp2_option *option;

    if (nghttp2_option_new(&option) != 0)
        return NULL;
    nghttp2_option_set_no_auto_window_update(option, 1);
    nghttp2_option_set_no_closed_streams(option, 1);
    nghttp2_option_set_max_outbound_ack(option, ACKS_MAX);
    nghttp2_option_set_max_settings(option, SETTINGS_MAX);
    nghttp2_option_set_max_continuations(option, CONTINUATIONS_MAX);
    nghttp2_option_set_max_send_header_block_length(option, SEND_BLOCK_MAX);
    /* nghttp2 reports frames of types that it does not know only if it is asked to. */
    for (unsigned type = NGHTTP2_CONTINUATION + 1; type <= UINT8_MAX; type++)
        nghttp2_option_set_user_recv_extension_type(option, (uint8_t)type);
    /* Ours are stricter, and know the loop's time. */
    nghttp2_option_set_stream_reset_rate_limit(option, 1 << 30, 1 << 30);
    return option;
}

static bool open_session(struct http2_link *link, bool server)
{
    nghttp2_session_callbacks *callbacks = make_callbacks();
    nghttp2_option *option = make_option();
    int rv = NGHTTP2_ERR_NOMEM;

    if (callbacks != NULL && option != NULL)
        rv = server ? nghttp2_session_server_new2(&link->session, callbacks, link, option)
                    : nghttp2_session_client_new2(&link->session, callbacks, link, option);
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_option_del(option);
    return rv == 0;
}

/* Priorities of RFC 7540 are a tree that a client can make us climb; RFC 9113 drops them. */
static bool submit_settings(struct http2_link *link, bool server)
{
    uint32_t streams = (uint32_t)link->limits.streams;
    nghttp2_settings_entry entries[] = {
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, (uint32_t)link->limits.block.header_bytes},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, HTTP2_FLOW_WINDOW},
        {server ? NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES : NGHTTP2_SETTINGS_ENABLE_PUSH, server},
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, streams},
    };

    return nghttp2_submit_settings(link->session, NGHTTP2_FLAG_NONE, entries, 4) == 0 &&
           nghttp2_session_set_local_window_size(link->session, NGHTTP2_FLAG_NONE, 0,
                                                 (int32_t)HTTP2_LINK_WINDOW) == 0;
}

static void flush_run(void *arg)
{
    http2_link_flush(arg);
}

bool http2_link_init(struct http2_link *link, struct wire *wire, const struct http2_link_ops *ops,
                     const struct http2_limits *limits, bool server)
{
    tg_ms now = net_loop_now(wire->loop);

    *link = (struct http2_link){.ops = ops, .wire = wire, .limits = *limits};
    net_later_init(&link->later, flush_run, link);
    bucket_init(&link->resets, limits->resets, limits->resets_per_s, now);
    bucket_init(&link->odd, limits->odd_frames, limits->odd_frames / 2, now);
    if (!open_session(link, server))
        return false;
    if (!submit_settings(link, server)) {
        nghttp2_session_del(link->session);
        return false;
    }
    http2_link_flush_later(link);
    return true;
}

/* nghttp2 may be on the stack: then whoever called it deletes it. */
static void delete_session(struct http2_link *link)
{
    assert(link->inside >= 0 && link->finished);
    if (link->inside > 0 || link->session == NULL)
        return;
    nghttp2_session_del(link->session);
    link->session = NULL;
}

void http2_link_fini(struct http2_link *link)
{
    link->finished = true;
    net_later_cancel(link->wire->loop, &link->later);
    delete_session(link);
}

/* Ends the link when nghttp2 has returned and has nothing left to do. */
static void end_if_over(struct http2_link *link)
{
    if (link->finished) {
        delete_session(link);
        return;
    }
    if (link->failed ||
        (!nghttp2_session_want_read(link->session) && !nghttp2_session_want_write(link->session))) {
        link->finished = true;
        link->ops->over(link, link->failed_code,
                        link->failed_text != NULL ? link->failed_text : "the connection ended");
    }
}

/* nghttp2's own reasons to stop, in its codes and ours. */
static void session_failed(struct http2_link *link, ssize_t error)
{
    if (link->failed || link->finished)
        return;
    if (error == NGHTTP2_ERR_FLOODED)
        http2_link_fail(link, HTTP2_ENHANCE_YOUR_CALM, "too much to be acknowledged");
    else if (error == NGHTTP2_ERR_NOMEM)
        http2_link_fail(link, HTTP2_INTERNAL_ERROR, "no memory");
    else
        http2_link_fail(link, HTTP2_PROTOCOL_ERROR, "this is not HTTP/2");
}

void http2_link_feed(struct http2_link *link, const char *bytes, size_t n)
{
    if (link->finished || link->failed)
        return;
    link->inside++;
    ssize_t took = nghttp2_session_mem_recv(link->session, (const uint8_t *)bytes, n);
    link->inside--;
    assert(took < 0 || (size_t)took == n);
    if (took < 0)
        session_failed(link, took);
    if (link->finished)
        delete_session(link);
    else
        http2_link_flush_later(link);
}

/* After a failure nothing is taken from nghttp2 but its GOAWAY. */
void http2_link_flush(struct http2_link *link)
{
    const uint8_t *bytes;
    ssize_t n = 0;

    if (link->finished)
        return;
    link->inside++;
    while (!link->finished && (link->failed || wire_queued(link->wire) < WIRE_FULL) &&
           (n = nghttp2_session_mem_send(link->session, &bytes)) > 0) {
        wire_write(link->wire, bytes, (size_t)n);
        link->written += (uint64_t)n;
    }
    link->inside--;
    if (n < 0 && !link->finished) {
        session_failed(link, n);
        link->finished = true;
        link->ops->over(link, link->failed_code, link->failed_text);
        return;
    }
    if (!link->finished && link->ops->flushed != NULL)
        link->ops->flushed(link);
    end_if_over(link);
}

void http2_link_flush_later(struct http2_link *link)
{
    if (!link->finished)
        net_later_put(link->wire->loop, &link->later);
}

void http2_link_fail(struct http2_link *link, uint32_t code, const char *text)
{
    if (link->failed || link->finished)
        return;
    link->failed = true;
    link->failed_code = code;
    link->failed_text = text;
    nghttp2_session_terminate_session(link->session, code);
    http2_link_flush_later(link);
}

void http2_link_leave(struct http2_link *link)
{
    if (link->finished || link->leaving || link->left)
        return;
    link->leaving = true;
    (void)nghttp2_submit_shutdown_notice(link->session);
    (void)nghttp2_submit_ping(link->session, NGHTTP2_FLAG_NONE,
                              (const uint8_t[8]){HTTP2_PING_LEAVE});
    http2_link_flush_later(link);
}

void http2_link_nudge(struct http2_link *link)
{
    (void)nghttp2_submit_ping(link->session, NGHTTP2_FLAG_NONE,
                              (const uint8_t[8]){HTTP2_PING_NUDGE});
    http2_link_flush_later(link);
}

void http2_link_leave_now(struct http2_link *link)
{
    if (link->finished || link->left)
        return;
    link->left = true;
    link->leaving = false;
    (void)nghttp2_submit_goaway(link->session, NGHTTP2_FLAG_NONE,
                                nghttp2_session_get_last_proc_stream_id(link->session),
                                HTTP2_NO_ERROR, NULL, 0);
    http2_link_flush_later(link);
}

/* What has been encrypted and not sent is one record at most; whose bytes it holds, nobody asks. */
uint64_t http2_link_taken(const struct http2_link *link)
{
    uint64_t waits = buf_bytes(&link->wire->out);

    if (buf_bytes(&link->wire->tls.cipher) > 0)
        waits += NET_READ_BYTES;
    return link->written > waits ? link->written - waits : 0;
}
