/* http2_exchange.c - an exchange on a connection of HTTP/2 that went out: request and reply.
 *
 * Before there is a connection the request waits as it was given: what it will be, HTTP/2 or 1, is
 * not known yet. Afterwards it has a call, which stays when the exchange has ended, until the other
 * side has been told.
 *
 * What the upstream is known not to have looked at is not `sent`: a reset with REFUSED_STREAM, what
 * nghttp2 closes so because GOAWAY said it, and what had not left us when GOAWAY came.
 */
#include "io/http/http2_client.h"
#include "lib/core/container_of.h"

static struct out_exchange *exchange_of(const struct http_outbound *out)
{
    return container_of(out, struct out_exchange, out);
}

static struct net_loop *loop_of(const struct out_exchange *exchange)
{
    return exchange->client->loop;
}

static size_t queued_bytes(const struct out_exchange *exchange)
{
    return buf_bytes(exchange->call != NULL ? &exchange->call->flow.out : &exchange->wait);
}

/* ---- Before there is a connection ------------------------------------------------------------ */

/* The first of the kept fields is none: method and target. */
bool http2_exchange_keep(struct out_exchange *exchange, const struct http_head *head)
{
    struct http_field list[HTTP2_NVS_MAX];
    size_t n = head->n_fields;

    if (n + 1 > HTTP2_NVS_MAX)
        return false;
    list[0] = (struct http_field){head->method, head->target};
    if (n > 0)
        memcpy(list + 1, head->fields, n * sizeof *list);
    exchange->n_kept = n + 1;
    return http2_fields_keep(loop_of(exchange), &exchange->kept, list, n + 1);
}

static struct http_head kept_head(const struct out_exchange *exchange)
{
    const struct http_field *list = (const struct http_field *)(const void *)exchange->kept.at;

    return (struct http_head){
        .method = list[0].name,
        .target = list[0].value,
        .fields = list + 1,
        .n_fields = exchange->n_kept - 1,
        .length = exchange->chunked ? -1 : exchange->left + (int64_t)buf_bytes(&exchange->wait),
    };
}

static const struct http_field *kept_last(const struct out_exchange *exchange)
{
    return (const struct http_field *)(const void *)exchange->kept_last.at;
}

bool http2_exchange_to_http1(struct out_exchange *exchange)
{
    struct http_head head = kept_head(exchange);

    return http1_exchange_adopt(exchange, &head, kept_last(exchange), exchange->n_kept_last);
}

void http2_exchange_find(struct out_exchange *exchange, struct http_conn_pool *pool)
{
    struct http2_upstream *upstream = http2_upstream_find(pool);

    if (upstream != NULL) {
        http2_exchange_attach(exchange, upstream);
        return;
    }
    http2_wait_put(pool, exchange);
    net_later_put(loop_of(exchange), &exchange->later);
}

/* ---- Attached -------------------------------------------------------------------------------- */

static bool put_request(struct out_exchange *exchange, struct http2_call *call)
{
    struct http_head head = kept_head(exchange);
    struct http2_nvs nvs;

    http2_nvs_init(&nvs);
    http2_nvs_put(&nvs, SLICE(":method"), head.method);
    http2_nvs_put(&nvs, SLICE(":scheme"),
                  exchange->origin->tls != NULL ? SLICE("https") : SLICE("http"));
    http2_nvs_put(&nvs, SLICE(":authority"), slice_of(exchange->origin->host_field));
    http2_nvs_put(&nvs, SLICE(":path"), head.target);
    if (head.length > 0)
        http2_nvs_put_length(&nvs, head.length);
    bool ok = http2_nvs_put_fields(loop_of(exchange), &nvs, &head, true) &&
              http2_flow_request(&call->flow, &nvs, head.length != 0);
    http2_nvs_fini(loop_of(exchange), &nvs);
    return ok;
}

void http2_exchange_attach(struct out_exchange *exchange, struct http2_upstream *upstream)
{
    struct http2_call *call = http2_call_take(upstream);

    if (call == NULL || !put_request(exchange, call)) {
        if (call != NULL)
            http2_call_give(call, true);
        out_fail_later(exchange, HTTP_NO_MEMORY, "no memory");
        return;
    }
    call->exchange = exchange;
    call->flow.out = exchange->wait;
    exchange->wait = (struct buf){0};
    exchange->call = call;
    exchange->attached = true;
    exchange->out.reused = upstream->used;
    exchange->out.connected = net_loop_now(loop_of(exchange));
    upstream->used = true;
    if (exchange->out.finished &&
        !http2_flow_finish(&call->flow, kept_last(exchange), exchange->n_kept_last))
        out_fail_later(exchange, HTTP_NO_MEMORY, "no memory");
    buf_release(loop_of(exchange), &exchange->kept);
    buf_release(loop_of(exchange), &exchange->kept_last);
    if (exchange->paused)
        http2_flow_pause(&call->flow);
    out_await_reply(exchange);
}

/* ---- Ends ------------------------------------------------------------------------------------ */

/* In doubt it was: of what has been encrypted, a part may have gone. */
static void note_sent(struct out_exchange *exchange)
{
    const struct http2_flow *flow = exchange->call != NULL ? &exchange->call->flow : NULL;

    if (flow == NULL || !flow->begun)
        return;
    if (flow->link->written - buf_bytes(&flow->link->wire->out) > flow->begin_at)
        exchange->out.sent = true;
}

void http2_exchange_leave(struct out_exchange *exchange, uint32_t code)
{
    struct http2_call *call = exchange->call;

    http2_wait_leave(exchange);
    note_sent(exchange);
    out_detach(exchange);
    exchange->call = NULL;
    if (call == NULL)
        return;
    call->exchange = NULL;
    http2_flow_discard(&call->flow);
    if (call->flow.open)
        http2_flow_reset(&call->flow, code);
    else
        http2_call_give(call, false);
}

void http2_call_closed(struct http2_flow *flow, uint32_t code)
{
    struct http2_call *call = http2_call_of(flow);
    struct out_exchange *exchange = call->exchange;

    if (exchange == NULL) {
        http2_call_give(call, true);
        return;
    }
    if (flow->in_ended && !exchange->failing)
        return; /* all of the reply is here, and the owner does not take it yet */
    exchange->out.was_reset = flow->peer_reset;
    exchange->out.reset_code = code;
    http2_exchange_leave(exchange, code);
    bool unseen = code == HTTP2_REFUSED_STREAM || !flow->begun;
    if (unseen)
        exchange->out.sent = false;
    if (exchange->failing)
        exchange->out.ops->failed(&exchange->out, exchange->why, exchange->text);
    else if (flow->peer_reset || unseen)
        exchange->out.ops->failed(&exchange->out, HTTP_RESET, "reset by the upstream");
    else
        exchange->out.ops->failed(&exchange->out, HTTP_GARBAGE, "the reply is no HTTP/2");
    out_exchange_give(exchange);
}

/* ---- The reply ------------------------------------------------------------------------------- */

static int status_of(struct slice text)
{
    int status = 0;

    for (size_t i = 0; i < text.n && i < 3; i++)
        status = status * 10 + (text.at[i] - '0');
    return text.n == 3 ? status : 0;
}

/* False: it is unfit, and the exchange has failed. */
static bool read_head(struct out_exchange *exchange, struct http2_flow *flow)
{
    struct http_head *head = &exchange->reply;
    struct http2_pseudo pseudo;

    if (flow->head.over) {
        out_fail(exchange, HTTP_GARBAGE, "the header is too large");
        return false;
    }
    if (flow->head.no_memory || !http2_block_list(loop_of(exchange), &flow->head, &pseudo,
                                                  &head->fields, &head->n_fields)) {
        out_fail(exchange, HTTP_NO_MEMORY, "no memory");
        return false;
    }
    head->status = status_of(pseudo.status);
    head->version = 20;
    head->length = http2_stated_length(head);
    if (head->length < 0 && flow->in_ended && !exchange->head_method)
        head->length = 0;
    if (head->status < 200) {
        out_fail(exchange, HTTP_GARBAGE, "a reply that nobody asked for");
        return false;
    }
    return true;
}

void http2_call_head(struct http2_flow *flow, bool last)
{
    struct http2_call *call = http2_call_of(flow);
    struct out_exchange *exchange = call->exchange;

    (void)last;
    if (exchange == NULL || exchange->failing || !read_head(exchange, flow))
        return;
    out_reply_begins(exchange);
    if (exchange->paused) {
        call->head_held = true;
        out_set_timer(exchange, 0);
    } else {
        exchange->out.ops->head(&exchange->out, &exchange->reply);
    }
}

void http2_call_data(struct http2_flow *flow, struct slice bytes)
{
    struct out_exchange *exchange = http2_call_of(flow)->exchange;

    if (exchange == NULL || exchange->failing)
        return;
    out_set_timer(exchange, exchange->timeouts.idle);
    exchange->out.ops->data(&exchange->out, bytes);
}

void http2_call_ended(struct http2_flow *flow)
{
    struct http2_call *call = http2_call_of(flow);
    struct out_exchange *exchange = call->exchange;

    if (exchange == NULL || exchange->failing)
        return;
    exchange->out.trailers = flow->trailers;
    exchange->out.n_trailers = flow->n_trailers;
    note_sent(exchange);
    out_detach(exchange);
    exchange->call = NULL;
    call->exchange = NULL;
    exchange->out.ops->end(&exchange->out);
    out_exchange_give(exchange);
    if (!flow->open)
        http2_call_give(call, false);
    else if (!flow->sent_end)
        http2_flow_reset(flow, HTTP2_CANCEL); /* it has been answered without the rest */
}

void http2_call_sent_end(struct http2_flow *flow)
{
    (void)flow; /* nobody waits for it */
}

void http2_call_wrote(struct http2_flow *flow, size_t n)
{
    struct out_exchange *exchange = http2_call_of(flow)->exchange;

    (void)n;
    if (exchange == NULL)
        return;
    out_await_reply(exchange);
    if (exchange->high && buf_bytes(&flow->out) <= exchange->client->options.output_low)
        net_later_put(loop_of(exchange), &exchange->later);
}

/* True: the exchange is still there. */
static bool tell_room(struct out_exchange *exchange)
{
    const struct http2_call *call = exchange->call;

    if (!exchange->high || queued_bytes(exchange) > exchange->client->options.output_low)
        return true;
    exchange->high = false;
    if (exchange->out.ops->room != NULL && !exchange->out.finished)
        exchange->out.ops->room(&exchange->out);
    return call->exchange == exchange;
}

void http2_exchange_work(struct out_exchange *exchange)
{
    struct http2_call *call = exchange->call;

    if (call == NULL) {
        http2_dial_more(http_conn_pool_of(exchange->client, exchange->origin),
                        exchange->timeouts.connect);
        return;
    }
    if (!tell_room(exchange) || exchange->paused)
        return;
    if (call->head_held) {
        call->head_held = false;
        exchange->out.ops->head(&exchange->out, &exchange->reply);
    }
    if (call->exchange == exchange)
        http2_flow_deliver(&call->flow);
}

/* ---- The owner's calls ----------------------------------------------------------------------- */

static size_t out_write(struct http_outbound *out, struct slice bytes)
{
    struct out_exchange *exchange = exchange_of(out);
    bool ok;

    if (out->finished || exchange->failing)
        return queued_bytes(exchange);
    if (!exchange->chunked && (uint64_t)bytes.n > (uint64_t)exchange->left)
        bytes.n = (size_t)exchange->left;
    if (bytes.n == 0)
        return queued_bytes(exchange);
    if (!exchange->chunked)
        exchange->left -= (int64_t)bytes.n;
    if (exchange->call != NULL)
        ok = http2_flow_write(&exchange->call->flow, bytes);
    else
        ok = buf_append(loop_of(exchange), &exchange->wait, bytes.at, bytes.n);
    if (!ok)
        out_fail_later(exchange, HTTP_NO_MEMORY, "no memory");
    size_t queued = queued_bytes(exchange);
    if (queued > exchange->client->options.output_high)
        exchange->high = true;
    if (!net_timer_is_set(&exchange->timer))
        out_await_reply(exchange);
    return queued;
}

static void out_finish(struct http_outbound *out, const struct http_field *trailers, size_t n)
{
    struct out_exchange *exchange = exchange_of(out);
    bool ok = true;

    if (out->finished || exchange->failing)
        return;
    if (exchange->left > 0) {
        out_fail_later(exchange, HTTP_UNFIT, "the body is shorter than it was said to be");
        return;
    }
    out->finished = true;
    if (exchange->call != NULL) {
        ok = http2_flow_finish(&exchange->call->flow, trailers, n);
    } else if (n > 0) {
        exchange->n_kept_last = n;
        ok = http2_fields_keep(loop_of(exchange), &exchange->kept_last, trailers, n);
    }
    if (!ok)
        out_fail_later(exchange, HTTP_NO_MEMORY, "no memory");
    out_await_reply(exchange);
}

static void out_pause(struct http_outbound *out)
{
    struct out_exchange *exchange = exchange_of(out);

    exchange->paused = true;
    if (exchange->call == NULL)
        return;
    http2_flow_pause(&exchange->call->flow);
    if (out->head_seen)
        out_set_timer(exchange, 0); /* the owner is slow, not the upstream */
}

static void out_resume(struct http_outbound *out)
{
    struct out_exchange *exchange = exchange_of(out);

    if (!exchange->paused)
        return;
    exchange->paused = false;
    if (exchange->call == NULL)
        return;
    if (out->head_seen)
        out_set_timer(exchange, exchange->timeouts.idle);
    if (http2_flow_resume(&exchange->call->flow) || exchange->call->head_held)
        net_later_put(loop_of(exchange), &exchange->later);
}

static void out_cancel(struct http_outbound *out, uint32_t code)
{
    struct out_exchange *exchange = exchange_of(out);

    http2_exchange_leave(exchange, code);
    out_exchange_give(exchange);
}

static size_t out_queued(const struct http_outbound *out)
{
    return queued_bytes(exchange_of(out));
}

const struct http_outbound_transport http2_outbound_transport = {
    .write = out_write,
    .finish = out_finish,
    .pause = out_pause,
    .resume = out_resume,
    .cancel = out_cancel,
    .queued = out_queued,
};
