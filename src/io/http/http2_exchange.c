/* http2_exchange.c - an exchange on a connection of HTTP/2 that went out: request and reply.
 *
 * Before there is a connection the request waits as it was given: what it will be, HTTP/2 or 1, is
 * not known yet. Afterwards it has a call, which stays when the exchange has ended, until the other
 * side has been told.
 *
 * What the upstream is known not to have looked at is not `sent`: a reset with REFUSED_STREAM, what
 * nghttp2 closes so because GOAWAY said it, and what had not left us when GOAWAY came.
 */
#include "io/http/http2_client_internal.h"

static struct net_loop *loop_of(const struct out_exchange *exchange)
{
    return exchange->client->loop;
}

static size_t http2_exchange_queued(const struct out_exchange *exchange)
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

    assert(list != NULL && exchange->n_kept > 0);
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

void http2_exchange_find(struct out_exchange *exchange)
{
    struct http2_upstream *upstream = http2_upstream_find(exchange->pool);

    if (upstream != NULL) {
        http2_exchange_attach(exchange, upstream);
        return;
    }
    http2_wait_put(exchange);
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

    assert(exchange->call == NULL && exchange->queue == NULL && !exchange->attached);
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

/* In doubt it was sent: a part of what has been encrypted may have gone. */
static void note_sent(struct out_exchange *exchange)
{
    const struct http2_flow *flow = exchange->call != NULL ? &exchange->call->flow : NULL;

    if (flow == NULL || !flow->begun)
        return;
    if (flow->link->written - buf_bytes(&flow->link->wire->out) > flow->begin_at)
        exchange->out.sent = true;
}

static void http2_exchange_leave(struct out_exchange *exchange, uint32_t code)
{
    struct http2_call *call = exchange->call;

    http2_wait_leave(exchange);
    note_sent(exchange);
    out_detach(exchange);
    exchange->call = NULL;
    if (call == NULL)
        return;
    assert(call->exchange == exchange);
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
        exchange->out.ops->failed(&exchange->out, HTTP_GARBAGE, "the reply is not HTTP/2");
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
    assert(exchange->call == call && exchange->attached);
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
    out_complete(exchange);
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

static void http2_exchange_work(struct out_exchange *exchange)
{
    struct http2_call *call = exchange->call;

    if (call == NULL) {
        http2_dial_more(exchange->pool, exchange->timeouts.connect);
        return;
    }
    /* Each callback may have cancelled the exchange, and then the call has none. */
    out_tell_room(exchange);
    if (call->exchange != exchange || exchange->paused)
        return;
    if (call->head_held) {
        call->head_held = false;
        exchange->out.ops->head(&exchange->out, &exchange->reply);
    }
    if (call->exchange == exchange)
        http2_flow_deliver(&call->flow);
}

/* ---- The owner's calls ----------------------------------------------------------------------- */

static bool http2_exchange_put(struct out_exchange *exchange, struct slice bytes)
{
    if (exchange->call != NULL)
        return http2_flow_write(&exchange->call->flow, bytes);
    return buf_append(loop_of(exchange), &exchange->wait, bytes.at, bytes.n);
}

static bool http2_exchange_end(struct out_exchange *exchange, const struct http_field *trailers,
                               size_t n)
{
    if (exchange->call != NULL)
        return http2_flow_finish(&exchange->call->flow, trailers, n);
    exchange->n_kept_last = n;
    return n == 0 || http2_fields_keep(loop_of(exchange), &exchange->kept_last, trailers, n);
}

static void http2_exchange_pause(struct out_exchange *exchange)
{
    http2_flow_pause(&exchange->call->flow);
}

static void http2_exchange_resume(struct out_exchange *exchange)
{
    if (http2_flow_resume(&exchange->call->flow) || exchange->call->head_held)
        net_later_put(loop_of(exchange), &exchange->later);
}

const struct out_transport http2_out_transport = {
    .put = http2_exchange_put,
    .end = http2_exchange_end,
    .queued = http2_exchange_queued,
    .pause = http2_exchange_pause,
    .resume = http2_exchange_resume,
    .leave = http2_exchange_leave,
    .work = http2_exchange_work,
};
