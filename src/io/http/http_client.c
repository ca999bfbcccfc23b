/* http_client.c - a loop's client: what it keeps for each origin, and the start of an exchange.
 *
 * One for each worker, so that no lock is between a call and its connection; the price is that
 * each worker keeps its own. The connection used last is used next: the others grow old and go, so
 * that as many stay as are needed.
 *
 * An origin stays on its index while it has connections, or somebody may still send to it.
 */
#include <stdlib.h>

#include "io/http/http2_client.h"

#define SPARE_MAX 256

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

/* ---- Shelves --------------------------------------------------------------------------------- */

static void pool_free(struct http_conn_pool *pool)
{
    tls_ticket_fini(&pool->ticket);
    http_origin_unref(pool->origin);
    free(pool);
}

/* Drops those whose origin nobody else knows any more. */
static void clear_room_indexes(struct http_client *client)
{
    for (struct http_conn_pool **at = &client->pools; *at != NULL;) {
        struct http_conn_pool *pool = *at;

        /* Acquire: if ours is the only reference, nobody can copy it meanwhile. */
        if (pool->n_conns == 0 &&
            atomic_load_explicit(&pool->origin->refs, memory_order_acquire) == 1) {
            *at = pool->next;
            pool_free(pool);
        } else {
            at = &pool->next;
        }
    }
}

struct http_conn_pool *http_conn_pool_of(struct http_client *client, struct http_origin *origin)
{
    for (struct http_conn_pool *pool = client->pools; pool != NULL; pool = pool->next)
        if (pool->origin == origin)
            return pool;
    clear_room_indexes(client);
    struct http_conn_pool *pool = calloc(1, sizeof *pool);
    if (pool == NULL)
        return NULL;
    pool->client = client;
    pool->origin = http_origin_ref(origin);
    pool->next = client->pools;
    client->pools = pool;
    return pool;
}

void http_client_free(struct http_client *client)
{
    if (client == NULL)
        return;
    while (client->pools != NULL) {
        struct http_conn_pool *pool = client->pools;

        while (pool->idle != NULL)
            out_conn_end(pool->idle);
        http2_shelf_clear(pool);
        client->pools = pool->next;
        pool_free(pool);
    }
    resolver_fini(&client->resolver);
    while (client->spare != NULL) {
        struct out_exchange *exchange = client->spare;

        client->spare = exchange->next_spare;
        free(exchange);
    }
    http2_calls_free(client);
    free(client);
}

/* ---- Exchanges' storage ---------------------------------------------------------------------- */

struct out_exchange *out_exchange_take(struct http_client *client)
{
    struct out_exchange *exchange = client->spare;

    if (exchange != NULL) {
        client->spare = exchange->next_spare;
        client->n_spare--;
    } else {
        exchange = malloc(sizeof *exchange);
    }
    if (exchange != NULL) {
        *exchange = (struct out_exchange){.client = client};
        client->n_busy++;
    }
    return exchange;
}

void out_exchange_give(struct out_exchange *exchange)
{
    struct http_client *client = exchange->client;

    client->n_busy--;
    buf_release(client->loop, &exchange->reply_words);
    buf_release(client->loop, &exchange->reply_list);
    if (client->n_spare >= SPARE_MAX) {
        free(exchange);
        return;
    }
    exchange->next_spare = client->spare;
    client->spare = exchange;
    client->n_spare++;
}
