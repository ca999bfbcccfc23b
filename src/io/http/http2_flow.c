/* http2_flow.c - one exchange on a connection of HTTP/2: what is written, paused, given up.
 *
 * What is to be sent waits here until nghttp2 asks for it, and goes from here to the wire without
 * another copy. Fields behind the body are copied when they are given: nghttp2 takes them only
 * when the last byte before them leaves.
 */
#include "io/http/http2_link.h"

#include <assert.h>

static nghttp2_data_provider provider_of(struct http2_flow *flow)
{
    return (nghttp2_data_provider){.source = {.ptr = flow}, .read_callback = http2_next_data};
}

void http2_flow_init(struct http2_flow *flow, struct http2_link *link)
{
    *flow = (struct http2_flow){.link = link};
    LIST_INSERT_HEAD(&link->flows, flow, in_link);
    link->n_flows++;
}

void http2_flow_fini(struct http2_flow *flow)
{
    struct http2_link *link = flow->link;
    struct net_loop *loop = link->wire->loop;

    assert(flow->in_link.le_prev != NULL && link->n_flows > 0); /* ended once */
    assert(!flow->open || link->finished);
    LIST_REMOVE(flow, in_link);
    flow->in_link.le_prev = NULL;
    link->n_flows--;
    assert(link->held_bytes >= buf_bytes(&flow->held));
    link->held_bytes -= buf_bytes(&flow->held);
    http2_block_release(loop, &flow->head);
    http2_block_release(loop, &flow->tail);
    buf_release(loop, &flow->held);
    buf_release(loop, &flow->out);
    buf_release(loop, &flow->last);
}

/* All exchanges of a connection are equal, and take turns. */
static void be_fair(struct http2_flow *flow)
{
    nghttp2_extpri fair = {.urgency = NGHTTP2_EXTPRI_DEFAULT_URGENCY, .inc = 1};

    (void)nghttp2_session_change_extpri_stream_priority(flow->link->session, flow->id, &fair, 1);
}

bool http2_flow_reply(struct http2_flow *flow, const struct http2_nvs *nvs, bool body)
{
    nghttp2_data_provider provider = provider_of(flow);

    assert(flow->open && flow->id > 0 && !flow->finished);
    if (body)
        be_fair(flow);
    http2_link_flush_later(flow->link);
    return nghttp2_submit_response(flow->link->session, flow->id, nvs->list, nvs->n,
                                   body ? &provider : NULL) == 0;
}

bool http2_flow_request(struct http2_flow *flow, const struct http2_nvs *nvs, bool body)
{
    nghttp2_data_provider provider = provider_of(flow);
    int32_t id = nghttp2_submit_request(flow->link->session, NULL, nvs->list, nvs->n,
                                        body ? &provider : NULL, flow);

    assert(flow->id == 0 && !flow->open);
    if (id <= 0)
        return false;
    flow->id = id;
    flow->open = true;
    http2_link_flush_later(flow->link);
    return true;
}

/* Something has come that nghttp2 may be waiting for. */
static void http2_flow_wake(struct http2_flow *flow)
{
    if (!flow->asleep || !flow->open)
        return;
    flow->asleep = false;
    (void)nghttp2_session_resume_data(flow->link->session, flow->id);
    http2_link_flush_later(flow->link);
}

bool http2_flow_write(struct http2_flow *flow, struct slice bytes)
{
    assert(!flow->finished);
    if (!buf_append(flow->link->wire->loop, &flow->out, bytes.at, bytes.n))
        return false;
    http2_flow_wake(flow);
    return true;
}

bool http2_flow_finish(struct http2_flow *flow, const struct http_field *trailers, size_t n)
{
    if (flow->finished)
        return true;
    if (n > 0 && !http2_fields_keep(flow->link->wire->loop, &flow->last, trailers, n))
        return false;
    flow->n_last = n;
    flow->finished = true;
    http2_flow_wake(flow);
    return true;
}

void http2_flow_pause(struct http2_flow *flow)
{
    flow->paused = true;
}

bool http2_flow_resume(struct http2_flow *flow)
{
    flow->paused = false;
    return buf_bytes(&flow->held) > 0 || (flow->in_ended && !flow->told_ended);
}

void http2_flow_deliver(struct http2_flow *flow)
{
    struct http2_link *link = flow->link;
    struct buf held = flow->held;
    size_t n = buf_bytes(&held);

    if (flow->paused)
        return;
    if (n > 0) {
        assert(link->held_bytes >= n);
        flow->held = (struct buf){0};
        link->held_bytes -= n;
        if (flow->open) {
            nghttp2_session_consume_stream(link->session, flow->id, n);
            http2_link_flush_later(link);
        }
        link->ops->data(flow, (struct slice){buf_first(&held), n});
        buf_release(link->wire->loop, &held);
    }
    /* Not if data() has ended the flow. */
    if (flow->in_link.le_prev != NULL && flow->in_ended && !flow->paused)
        http2_flow_tell_ended(flow);
}

void http2_flow_discard(struct http2_flow *flow)
{
    struct http2_link *link = flow->link;
    size_t n = buf_bytes(&flow->held);

    flow->paused = false;
    if (n == 0)
        return;
    link->held_bytes -= n;
    buf_release(link->wire->loop, &flow->held);
    if (flow->open && !link->finished) {
        nghttp2_session_consume_stream(link->session, flow->id, n);
        http2_link_flush_later(link);
    }
}

void http2_flow_reset(struct http2_flow *flow, uint32_t code)
{
    if (!flow->open || flow->resetting || flow->link->finished)
        return;
    flow->resetting = true;
    (void)nghttp2_submit_rst_stream(flow->link->session, NGHTTP2_FLAG_NONE, flow->id, code);
    http2_link_flush_later(flow->link);
}
