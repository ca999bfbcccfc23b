/* out_exchange.c - an exchange that goes out, whichever version of HTTP carries it: its beginning,
 * its deadlines, its failure.
 *
 * Which version it will be is known when there is a connection. Where only HTTP/1 can be meant, the
 * request is written in its form at once; where it may be HTTP/2, the head is kept as it was given
 * until then.
 *
 * One timer serves connect, first byte and idle, which never run at the same time; the total has
 * its own.
 */
#include "io/http/http1_write.h"
#include "io/http/http2_client.h"

void out_set_timer(struct out_exchange *exchange, tg_ms ms)
{
    if (ms > 0)
        net_timer_set(exchange->client->loop, &exchange->timer, ms);
    else
        net_timer_stop(exchange->client->loop, &exchange->timer);
}

/* What the exchange as a whole may still take: the total, or `sooner` if that is less and not 0. */
static void set_total(struct out_exchange *exchange, tg_ms sooner)
{
    struct net_loop *loop = exchange->client->loop;
    tg_ms ms = exchange->timeouts.total;

    if (sooner > 0 && (ms == 0 || sooner < ms))
        ms = sooner;
    if (ms > 0)
        net_timer_set(loop, &exchange->total, ms - (net_loop_now(loop) - exchange->began_at));
    else
        net_timer_stop(loop, &exchange->total);
}

/* The upstream has its time for the first byte whenever it is its turn: all of the request is
 * written, or it does not take what is. While the owner is slow to write, nobody waits for it. */
void out_await_reply(struct out_exchange *exchange)
{
    if (!exchange->attached || exchange->out.head_seen)
        return;
    if (exchange->out.finished || http_outbound_queued(&exchange->out) > 0)
        out_set_timer(exchange, exchange->timeouts.first_byte);
    else
        out_set_timer(exchange, 0);
}

void out_reply_begins(struct out_exchange *exchange)
{
    exchange->out.head_seen = true;
    out_set_timer(exchange, exchange->timeouts.idle);
    if (exchange->timeouts.head > 0)
        set_total(exchange, 0);
}

/* ---- Ends ------------------------------------------------------------------------------------ */

void out_detach(struct out_exchange *exchange)
{
    struct net_loop *loop = exchange->client->loop;

    net_timer_stop(loop, &exchange->timer);
    net_timer_stop(loop, &exchange->total);
    net_later_cancel(loop, &exchange->later);
    buf_release(loop, &exchange->wait);
    buf_release(loop, &exchange->kept);
    buf_release(loop, &exchange->kept_last);
    http_origin_unref(exchange->origin);
    exchange->origin = NULL;
    exchange->attached = false;
    exchange->conn = NULL;
}

void out_fail(struct out_exchange *exchange, enum http_why why, const char *text)
{
    if (exchange->http2)
        http2_exchange_leave(exchange, HTTP2_CANCEL);
    else
        http1_exchange_leave(exchange);
    exchange->out.ops->failed(&exchange->out, why, text);
    out_exchange_give(exchange);
}

void out_fail_later(struct out_exchange *exchange, enum http_why why, const char *text)
{
    if (exchange->failing)
        return;
    exchange->failing = true;
    exchange->why = why;
    exchange->text = text;
    net_later_put(exchange->client->loop, &exchange->later);
}

static void out_exchange_timer_fires(void *arg)
{
    struct out_exchange *exchange = arg;

    if (!exchange->attached)
        out_fail(exchange, HTTP_LATE_CONNECT, "no connection in time");
    else if (!exchange->out.head_seen)
        out_fail(exchange, HTTP_LATE_FIRST_BYTE, "no reply in time");
    else
        out_fail(exchange, HTTP_LATE_IDLE, "the reply stopped");
}

static void total_fires(void *arg)
{
    out_fail(arg, HTTP_LATE_TOTAL, "the exchange took too long");
}

/* ---- Beginning ------------------------------------------------------------------------------- */

/* Put off by calls of the owner's. */
static void exchange_work(void *arg)
{
    struct out_exchange *exchange = arg;

    if (exchange->failing)
        out_fail(exchange, exchange->why, exchange->text);
    else if (exchange->http2)
        http2_exchange_work(exchange);
    else if (exchange->conn == NULL && !out_dial(exchange))
        out_fail(exchange, HTTP_NO_MEMORY, "no memory");
}

static bool may_be_http2(struct http_conn_pool *pool)
{
    const struct http_origin *origin = pool->origin;

    if (origin->http2 == HTTP2_ALPN)
        return origin->tls != NULL && !pool->only_http1;
    return origin->http2 == HTTP2_PRIOR;
}

static void out_exchange_start(struct out_exchange *exchange, const struct http_head *head)
{
    struct http_conn_pool *pool = http_conn_pool_of(exchange->client, exchange->origin);

    exchange->http2 = pool != NULL && may_be_http2(pool);
    exchange->out.transport =
        exchange->http2 ? &http2_outbound_transport : &http1_outbound_transport;
    if (!http1_is_fit(head) || slice_equal(head->method, SLICE("CONNECT"))) {
        out_fail_later(exchange, HTTP_UNFIT, "the method or the target cannot be sent");
        return;
    }
    if (pool == NULL || !(exchange->http2 ? http2_exchange_keep(exchange, head)
                                          : http1_exchange_put_head(exchange, head))) {
        out_fail_later(exchange, HTTP_NO_MEMORY, "no memory");
        return;
    }
    out_set_timer(exchange, exchange->timeouts.connect);
    set_total(exchange, exchange->timeouts.head);
    if (exchange->http2)
        http2_exchange_find(exchange, pool);
    else
        http1_exchange_find(exchange, pool);
}

struct http_outbound *http_send(struct http_client *client, struct http_origin *origin,
                                const struct http_head *head, const struct http_timeouts *timeouts,
                                const struct http_client_ops *ops, void *owner)
{
    struct out_exchange *exchange = out_exchange_take(client);

    if (exchange == NULL)
        return NULL;
    exchange->origin = http_origin_ref(origin);
    exchange->timeouts = *timeouts;
    exchange->out.ops = ops;
    exchange->out.owner = owner;
    exchange->out.finished = head->length == 0;
    exchange->chunked = head->length < 0;
    exchange->left = head->length;
    exchange->head_method = slice_equal(head->method, SLICE("HEAD"));
    exchange->began_at = net_loop_now(client->loop);
    net_timer_init(&exchange->timer, out_exchange_timer_fires, exchange);
    net_timer_init(&exchange->total, total_fires, exchange);
    net_later_init(&exchange->later, exchange_work, exchange);
    out_exchange_start(exchange, head);
    return &exchange->out;
}
