/* mock_out.c - the way of a reply to the socket, also where it has to be wrong.
 *
 * This is the one file that goes behind the HTTP server's interface: it has a connection of HTTP/1
 * write what it is given, without any framing, and end with it. The server keeps its other duties:
 * a client that leaves is noticed, and memory is bounded. An own server beside it would have been
 * the other way; everything but the framing would have been there twice.
 */
#include "lab/mock/mock_out.h"

#include <assert.h>

#include "io/http/http1_write.h"
#include "io/http/http_server.h"

static void mock_out_drain(void *arg);

void mock_out_init(struct mock_out *out, struct net_loop *loop, void (*drained)(void *), void *arg)
{
    *out = (struct mock_out){.loop = loop, .drained = drained, .arg = arg};
    net_post_init(&out->post, mock_out_drain, out);
    net_timer_init(&out->timer, mock_out_drain, out);
}

static bool needs_raw(const struct mock_action *action)
{
    return action->n_split > 0 || action->fault == MOCK_CLOSE || action->fault == MOCK_GARBAGE ||
           action->fault == MOCK_BAD_CHUNK;
}

void mock_out_begin(struct mock_out *out, struct http_inbound *in, const struct mock_action *action)
{
    out->in = in;
    out->action = action;
    out->raw = needs_raw(action);
    out->chunked = out->ended = false;
    text_out_clear(&out->queue);
    out->queue_at = out->turn = 0;
    if (out->raw)
        http1_inbound_write_bare(in);
}

void mock_out_end(struct mock_out *out)
{
    net_timer_stop(out->loop, &out->timer);
    net_loop_unpost(out->loop, &out->post);
    out->in = NULL;
}

void mock_out_fini(struct mock_out *out)
{
    text_out_fini(&out->queue);
}

/* ---- Pieces ---------------------------------------------------------------------------------- */

static void next_turn(struct mock_out *out)
{
    if (out->action->split_wait_ms > 0)
        net_timer_set(out->loop, &out->timer, out->action->split_wait_ms);
    else
        net_loop_post(out->loop, &out->post);
}

/* One piece a turn of the loop, so that each is a write of its own. */
static void mock_out_drain(void *arg)
{
    struct mock_out *out = arg;
    assert(out->queue_at < out->queue.size && out->action->n_split > 0);
    size_t left = out->queue.size - out->queue_at;
    size_t n = out->action->split[out->turn++ % out->action->n_split];

    if (n > left)
        n = left;
    http_inbound_write(out->in, (struct slice){out->queue.bytes + out->queue_at, n});
    out->queue_at += n;
    if (out->queue_at < out->queue.size) {
        next_turn(out);
        return;
    }
    text_out_clear(&out->queue);
    out->queue_at = 0;
    if (out->ended)
        http_inbound_finish(out->in);
    else
        out->drained(out->arg);
}

void mock_out_bytes(struct mock_out *out, struct slice bytes)
{
    bool idle = out->queue.size == 0;

    if (out->action->n_split == 0) {
        http_inbound_write(out->in, bytes);
        return;
    }
    text_out_put(&out->queue, bytes.at, bytes.n);
    if (idle && out->queue.size > 0)
        next_turn(out);
}

/* ---- Messages -------------------------------------------------------------------------------- */

void mock_out_head(struct mock_out *out, const struct http_head *head)
{
    struct http1_framing framing = {.chunked = head->length < 0, .length = head->length};
    struct buf bytes = {0};

    if (!out->raw) {
        http_inbound_reply(out->in, head);
        return;
    }
    out->chunked = head->length < 0;
    /* A reply that breaks does not say that the connection will end: to some clients, an end that
     * was announced completes a body in chunks. */
    framing.close = out->action->fault == MOCK_NO_FAULT;
    if (http1_put_reply(out->loop, &bytes, head, &framing))
        mock_out_bytes(out, (struct slice){buf_first(&bytes), buf_bytes(&bytes)});
    buf_release(out->loop, &bytes);
}

size_t mock_out_body(struct mock_out *out, struct slice bytes)
{
    char line[HTTP1_CHUNK_BYTES];

    if (!out->raw)
        return http_inbound_write(out->in, bytes);
    if (bytes.n == 0)
        return 0;
    if (out->chunked)
        mock_out_bytes(out, (struct slice){line, http1_chunk_line(line, bytes.n)});
    mock_out_bytes(out, bytes);
    if (out->chunked)
        mock_out_bytes(out, SLICE("\r\n"));
    return out->queue.size - out->queue_at + http_inbound_queued(out->in);
}

void mock_out_close(struct mock_out *out)
{
    assert(!out->ended);
    out->ended = true;
    if (out->queue.size == 0)
        http_inbound_finish(out->in);
}

void mock_out_finish(struct mock_out *out)
{
    if (!out->raw) {
        http_inbound_finish(out->in);
        return;
    }
    if (out->chunked)
        mock_out_bytes(out, SLICE("0\r\n\r\n"));
    mock_out_close(out);
}
