/* out_exchange.c - an exchange that goes out, whichever version of HTTP carries it: what its owner
 * calls, its deadlines, its end.
 *
 * One timer serves connect, first byte and idle, which never run at the same time; the total has
 * its own.
 */
#include <errno.h>
#include <stdlib.h>

#include "io/http/http_client_internal.h"

#define SPARE_MAX 256

static struct out_exchange *exchange_of(const struct http_outbound *out)
{
    return container_of(out, struct out_exchange, out);
}

static size_t queued_bytes(const struct out_exchange *exchange)
{
    return exchange->transport->queued(exchange);
}

/* ---- Deadlines ------------------------------------------------------------------------------- */

void out_set_timer(struct out_exchange *exchange, tg_ms ms)
{
    if (ms > 0)
        net_timer_set(exchange->client->loop, &exchange->timer, ms);
    else
        net_timer_stop(exchange->client->loop, &exchange->timer);
}

/* What the exchange as a whole may still take: the total, or `sooner` if that is less and not 0. */
void out_set_total(struct out_exchange *exchange, tg_ms sooner)
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
    if (exchange->out.finished || queued_bytes(exchange) > 0)
        out_set_timer(exchange, exchange->timeouts.first_byte);
    else
        out_set_timer(exchange, 0);
}

void out_reply_begins(struct out_exchange *exchange)
{
    assert(exchange->attached && !exchange->out.head_seen);
    exchange->out.head_seen = true;
    out_set_timer(exchange, exchange->timeouts.idle);
    if (exchange->timeouts.head > 0)
        out_set_total(exchange, 0);
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
    exchange->pool = NULL;
    exchange->attached = false;
    exchange->conn = NULL;
}

void out_complete(struct out_exchange *exchange)
{
    assert(!exchange->attached && exchange->out.head_seen && !exchange->failing);
    exchange->out.ops->end(&exchange->out);
    out_exchange_give(exchange);
}

enum http_cause out_cause_of(enum http_why why, bool shaking, int error, const char *text)
{
    switch (why) {
    case HTTP_UNRESOLVED:
        return HTTP_CAUSE_NAME;
    case HTTP_UNREACHABLE:
        return error == ECONNREFUSED || error == ENOENT ? HTTP_CAUSE_REFUSED
               : shaking                                ? HTTP_CAUSE_HANDSHAKE
                                                        : HTTP_CAUSE_UNREACHABLE;
    case HTTP_UNTRUSTED:
        return strncmp(text, "certificate:", 12) == 0 ? HTTP_CAUSE_CERTIFICATE
                                                      : HTTP_CAUSE_HANDSHAKE;
    case HTTP_NO_TUNNEL:
        return HTTP_CAUSE_PROXY;
    case HTTP_LATE_CONNECT:
        return shaking ? HTTP_CAUSE_HANDSHAKE_TIMEOUT : HTTP_CAUSE_CONNECT_TIMEOUT;
    case HTTP_LATE_FIRST_BYTE:
        return HTTP_CAUSE_FIRST_BYTE_TIMEOUT;
    case HTTP_LATE_IDLE:
        return HTTP_CAUSE_IDLE_TIMEOUT;
    case HTTP_LATE_TOTAL:
        return HTTP_CAUSE_TOTAL_TIMEOUT;
    case HTTP_RESET:
        return strncmp(text, "closed", 6) == 0 ? HTTP_CAUSE_CLOSED : HTTP_CAUSE_RESET;
    case HTTP_UNFIT:
        return HTTP_CAUSE_REQUEST;
    case HTTP_NO_MEMORY:
        return HTTP_CAUSE_MEMORY;
    default:
        return HTTP_CAUSE_GARBAGE;
    }
}

/* Whether its connection is in the midst of TLS. */
static bool is_shaking(const struct out_exchange *exchange)
{
    const struct out_conn *conn = exchange->conn;

    if (conn == NULL && exchange->pool != NULL && !exchange->attached)
        conn = exchange->pool->dialling;
    return conn != NULL && conn->state == OUT_SHAKING;
}

void out_fail(struct out_exchange *exchange, enum http_why why, const char *text)
{
    exchange->out.cause = exchange->client->cause;
    if (exchange->out.cause == HTTP_CAUSE_NONE)
        exchange->out.cause = out_cause_of(why, is_shaking(exchange), 0, text);
    exchange->transport->leave(exchange, HTTP2_CANCEL);
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

/* ---- The owner's calls ----------------------------------------------------------------------- */

size_t http_outbound_write(struct http_outbound *out, struct slice bytes)
{
    struct out_exchange *exchange = exchange_of(out);

    if (!exchange->chunked && (uint64_t)bytes.n > (uint64_t)exchange->left)
        bytes.n = (size_t)exchange->left;
    if (out->finished || exchange->failing || bytes.n == 0)
        return queued_bytes(exchange);
    if (!exchange->chunked)
        exchange->left -= (int64_t)bytes.n;
    assert(exchange->chunked ? exchange->left == -1 : exchange->left >= 0);
    if (!exchange->transport->put(exchange, bytes))
        out_fail_later(exchange, HTTP_NO_MEMORY, "no memory");
    size_t queued = queued_bytes(exchange);
    if (queued > exchange->client->options.output_high)
        exchange->high = true;
    if (!net_timer_is_set(&exchange->timer))
        out_await_reply(exchange);
    return queued;
}

void http_outbound_finish_with(struct http_outbound *out, const struct http_field *trailers,
                               size_t n)
{
    struct out_exchange *exchange = exchange_of(out);

    if (out->finished || exchange->failing)
        return;
    if (exchange->left > 0) {
        out_fail_later(exchange, HTTP_UNFIT, "the body is shorter than it was said to be");
        return;
    }
    out->finished = true;
    if (!exchange->transport->end(exchange, trailers, n))
        out_fail_later(exchange, HTTP_NO_MEMORY, "no memory");
    out_await_reply(exchange);
}

void http_outbound_pause(struct http_outbound *out)
{
    struct out_exchange *exchange = exchange_of(out);

    exchange->paused = true;
    if (!exchange->attached)
        return;
    exchange->transport->pause(exchange);
    if (out->head_seen)
        out_set_timer(exchange, 0); /* the owner is slow, not the upstream */
}

void http_outbound_resume(struct http_outbound *out)
{
    struct out_exchange *exchange = exchange_of(out);

    if (!exchange->paused)
        return;
    exchange->paused = false;
    if (!exchange->attached)
        return;
    if (out->head_seen)
        out_set_timer(exchange, exchange->timeouts.idle);
    exchange->transport->resume(exchange);
}

void http_outbound_cancel_with(struct http_outbound *out, uint32_t code)
{
    struct out_exchange *exchange = exchange_of(out);

    exchange->transport->leave(exchange, code);
    out_exchange_give(exchange);
}

size_t http_outbound_queued(const struct http_outbound *out)
{
    return queued_bytes(exchange_of(out));
}

void out_tell_room(struct out_exchange *exchange)
{
    if (!exchange->high || queued_bytes(exchange) > exchange->client->options.output_low)
        return;
    exchange->high = false;
    if (exchange->out.ops->room != NULL && !exchange->out.finished)
        exchange->out.ops->room(&exchange->out);
}

/* ---- Storage --------------------------------------------------------------------------------- */

/* Put off by calls of the owner's. */
static void exchange_work(void *arg)
{
    struct out_exchange *exchange = arg;

    if (exchange->failing)
        out_fail(exchange, exchange->why, exchange->text);
    else
        exchange->transport->work(exchange);
}

struct out_exchange *out_exchange_take(struct http_client *client)
{
    struct out_exchange *exchange = SLIST_FIRST(&client->spare);

    assert((exchange == NULL) == (client->n_spare == 0));
    if (exchange != NULL) {
        SLIST_REMOVE_HEAD(&client->spare, next_spare);
        client->n_spare--;
    } else {
        exchange = malloc(sizeof *exchange);
    }
    if (exchange == NULL)
        return NULL;
    *exchange = (struct out_exchange){.client = client};
    net_timer_init(&exchange->timer, out_exchange_timer_fires, exchange);
    net_timer_init(&exchange->total, total_fires, exchange);
    net_later_init(&exchange->later, exchange_work, exchange);
    client->n_busy++;
    return exchange;
}

void out_exchange_give(struct out_exchange *exchange)
{
    struct http_client *client = exchange->client;

    assert(exchange->origin == NULL && exchange->conn == NULL && exchange->call == NULL &&
           exchange->queue == NULL);
    assert(!net_timer_is_set(&exchange->timer) && !net_timer_is_set(&exchange->total));
    assert(client->n_busy > 0);
    client->n_busy--;
    buf_release(client->loop, &exchange->reply_text);
    if (client->n_spare >= SPARE_MAX) {
        free(exchange);
        return;
    }
    SLIST_INSERT_HEAD(&client->spare, exchange, next_spare);
    client->n_spare++;
}
