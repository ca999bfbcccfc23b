/* out_conn.c - a connection that went out: made, kept for the next exchange, taken, ended.
 *
 * A kept connection is read all the time: if the upstream closes it, or sends what nobody asked
 * for, it goes. What arrived since the last turn of the loop is asked for when it is taken, so that
 * a request is never written to a connection whose end the system already knew.
 */
#include <stdlib.h>

#include "io/http/http_client_internal.h"

static void unlink_idle(struct out_conn *conn)
{
    assert(conn->state == OUT_IDLE && conn->exchange == NULL && conn->http2 == NULL);
    assert(conn->pool->n_idle > 0 && conn->client->n_idle >= conn->pool->n_idle);
    LIST_REMOVE(conn, in_idle);
    conn->state = OUT_BUSY;
    conn->pool->n_idle--;
    conn->client->n_idle--;
}

static void too_old(void *arg)
{
    out_conn_end(arg);
}

struct out_conn *out_conn_new(struct http_conn_pool *pool)
{
    struct http_client *client = pool->client;
    struct http1_limits limits = {client->options.header_bytes, client->options.fields, 0};
    struct out_conn *conn = calloc(1, sizeof *conn);

    if (conn == NULL)
        return NULL;
    conn->client = client;
    conn->pool = pool;
    conn->wire = (struct wire){.loop = client->loop, .fd = -1};
    http1_parser_init(&conn->parser, client->loop, false, &limits);
    net_timer_init(&conn->timer, too_old, conn);
    pool->n_conns++;
    return conn;
}

void out_conn_end(struct out_conn *conn)
{
    struct net_loop *loop = conn->client->loop;

    if (conn->state == OUT_IDLE)
        unlink_idle(conn);
    resolve_cancel(&conn->resolving);
    free(conn->addresses);
    conn->addresses = NULL;
    net_timer_stop(loop, &conn->timer);
    conn->exchange = NULL;
    wire_close(&conn->wire);
    http1_parser_fini(&conn->parser);
    assert(conn->pool->n_conns > conn->pool->n_idle);
    conn->pool->n_conns--;
    net_loop_bury(loop, &conn->grave);
}

/* ---- Idle ------------------------------------------------------------------------------------ */

static size_t idle_on_data(struct wire *wire, const char *bytes, size_t n)
{
    (void)bytes;
    if (n > 0)
        out_conn_end(container_of(wire, struct out_conn, wire)); /* nobody asked for it */
    return n;
}

static void idle_on_eof(struct wire *wire)
{
    out_conn_end(container_of(wire, struct out_conn, wire));
}

static void idle_on_wrote(struct wire *wire)
{
    (void)wire;
}

static void idle_on_broke(struct wire *wire, enum wire_fault fault, const char *text)
{
    (void)fault, (void)text;
    out_conn_end(container_of(wire, struct out_conn, wire));
}

static const struct wire_ops idle_ops = {
    .data = idle_on_data,
    .eof = idle_on_eof,
    .wrote = idle_on_wrote,
    .broke = idle_on_broke,
};

void out_conn_keep(struct out_conn *conn)
{
    struct http_client *client = conn->client;
    struct http_conn_pool *pool = conn->pool;

    assert(conn->state != OUT_IDLE && conn->http2 == NULL);
    conn->exchange = NULL;
    if (pool->n_idle >= client->options.idle_max || client->options.idle_ms <= 0) {
        out_conn_end(conn);
        return;
    }
    conn->state = OUT_IDLE;
    conn->wire.ops = &idle_ops;
    http1_parser_next(&conn->parser);
    LIST_INSERT_HEAD(&pool->idle, conn, in_idle);
    pool->n_idle++;
    client->n_idle++;
    net_timer_init(&conn->timer, too_old, conn);
    net_timer_set(client->loop, &conn->timer, client->options.idle_ms);
    if (conn->wire.paused)
        wire_resume(&conn->wire);
}

struct out_conn *out_conn_take(struct http_conn_pool *pool)
{
    struct out_conn *conn;

    while ((conn = LIST_FIRST(&pool->idle)) != NULL) {
        if (!wire_is_quiet(&conn->wire)) {
            if (conn->state == OUT_IDLE) /* it has not ended while we asked */
                out_conn_end(conn);
            continue;
        }
        unlink_idle(conn);
        net_timer_stop(conn->client->loop, &conn->timer);
        return conn;
    }
    return NULL;
}
