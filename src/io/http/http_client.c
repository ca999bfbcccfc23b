/* http_client.c - a loop's client: what it keeps for each origin, and the start of an exchange.
 *
 * There is one for each worker, so that no lock is between a call and its connection; the price is
 * that each worker keeps its own. The connection used last is used next: the others grow old and
 * are closed, so that as many stay as are needed. A pool stays while it has connections, or
 * somebody may still send to its origin.
 *
 * Which version of HTTP it will be is known when there is a connection. Where only HTTP/1 can be
 * meant, the request is written in its form at once; where it may be HTTP/2, the head is kept as it
 * was given until then.
 */
#include <stdlib.h>

#include "io/http/http1_write.h"
#include "io/http/http2_client_internal.h"

void http_client_options_init(struct http_client_options *options)
{
    *options = (struct http_client_options){
        .idle_max = 256,
        .idle_ms = 30000,
        .resolved_ms = 30000,
        .header_bytes = 64 << 10,
        .fields = 200,
        .output_high = HTTP_OUTPUT_HIGH,
        .output_low = HTTP_OUTPUT_LOW,
    };
}

enum tg_err http_client_new(struct net_loop *loop, const struct http_client_options *options,
                            struct http_client **made)
{
    if (options->header_bytes < 256 || options->header_bytes > 1 << 20 || options->fields < 1 ||
        options->fields > 1000 || options->output_low > options->output_high)
        return TG_ERR_INVALID;
    struct http_client *client = calloc(1, sizeof *client);
    if (client == NULL)
        return TG_ERR_MEMORY;
    client->loop = loop;
    client->options = *options;
    resolver_init(&client->resolver, loop, options->resolved_ms);
    *made = client;
    return TG_OK;
}

size_t http_client_idle(const struct http_client *client)
{
    return client->n_idle;
}

size_t http_client_busy(const struct http_client *client)
{
    return client->n_busy;
}

/* ---- Pools ----------------------------------------------------------------------------------- */

static void pool_free(struct http_conn_pool *pool)
{
    assert(pool->n_conns == 0 && pool->n_idle == 0 && pool->n_upstreams == 0);
    assert(TAILQ_EMPTY(&pool->waiting));
    tls_ticket_fini(&pool->ticket);
    http_origin_unref(pool->origin);
    free(pool);
}

/* Drops the pools whose origin nobody else knows any more. */
static void drop_unused_pools(struct http_client *client)
{
    struct http_conn_pool *pool = SLIST_FIRST(&client->pools), *next;

    for (; pool != NULL; pool = next) {
        next = SLIST_NEXT(pool, next);
        /* Acquire: if ours is the only reference, nobody can copy it meanwhile. */
        if (pool->n_conns > 0 ||
            atomic_load_explicit(&pool->origin->refs, memory_order_acquire) > 1)
            continue;
        SLIST_REMOVE(&client->pools, pool, http_conn_pool, next);
        pool_free(pool);
    }
}

struct http_conn_pool *http_conn_pool_of(struct http_client *client, struct http_origin *origin)
{
    struct http_conn_pool *pool;

    SLIST_FOREACH(pool, &client->pools, next)
        if (pool->origin == origin)
            return pool;
    drop_unused_pools(client);
    pool = calloc(1, sizeof *pool);
    if (pool == NULL)
        return NULL;
    pool->client = client;
    pool->origin = http_origin_ref(origin);
    TAILQ_INIT(&pool->waiting);
    SLIST_INSERT_HEAD(&client->pools, pool, next);
    return pool;
}

void http_client_free(struct http_client *client)
{
    struct http_conn_pool *pool;
    struct out_exchange *exchange;

    if (client == NULL)
        return;
    while ((pool = SLIST_FIRST(&client->pools)) != NULL) {
        while (!LIST_EMPTY(&pool->idle))
            out_conn_end(LIST_FIRST(&pool->idle));
        http2_pool_clear(pool);
        SLIST_REMOVE_HEAD(&client->pools, next);
        pool_free(pool);
    }
    assert(client->n_idle == 0 && client->n_busy == 0);
    resolver_fini(&client->resolver);
    while ((exchange = SLIST_FIRST(&client->spare)) != NULL) {
        SLIST_REMOVE_HEAD(&client->spare, next_spare);
        free(exchange);
    }
    http2_calls_free(client);
    free(client);
}

/* ---- An exchange begins ---------------------------------------------------------------------- */

static bool may_be_http2(const struct http_conn_pool *pool)
{
    const struct http_origin *origin = pool->origin;

    if (origin->http2 == HTTP2_ALPN)
        return origin->tls != NULL && !pool->only_http1;
    return origin->http2 == HTTP2_PRIOR;
}

struct http_outbound *http_send(struct http_client *client, struct http_origin *origin,
                                const struct http_head *head, const struct http_timeouts *timeouts,
                                const struct http_client_ops *ops, void *owner)
{
    struct out_exchange *exchange = out_exchange_take(client);

    if (exchange == NULL)
        return NULL;
    exchange->origin = http_origin_ref(origin);
    exchange->pool = http_conn_pool_of(client, origin);
    exchange->timeouts = *timeouts;
    exchange->out.ops = ops;
    exchange->out.owner = owner;
    exchange->out.finished = head->length == 0;
    exchange->chunked = head->length < 0;
    exchange->left = exchange->chunked ? -1 : head->length;
    exchange->head_method = slice_equal(head->method, SLICE("HEAD"));
    exchange->began_at = net_loop_now(client->loop);
    bool http2 = exchange->pool != NULL && may_be_http2(exchange->pool);
    exchange->transport = http2 ? &http2_out_transport : &http1_out_transport;
    if (!http1_is_fit(head) || slice_equal(head->method, SLICE("CONNECT"))) {
        out_fail_later(exchange, HTTP_UNFIT, "the method or the target cannot be sent");
    } else if (exchange->pool == NULL || !(http2 ? http2_exchange_keep(exchange, head)
                                                 : http1_exchange_put_head(exchange, head))) {
        out_fail_later(exchange, HTTP_NO_MEMORY, "no memory");
    } else {
        out_set_timer(exchange, timeouts->connect);
        out_set_total(exchange, timeouts->head);
        if (http2)
            http2_exchange_find(exchange);
        else
            http1_exchange_find(exchange);
    }
    return &exchange->out;
}
