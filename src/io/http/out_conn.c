/* out_conn.c - a connection that went out: dialling, in use, or kept for the next exchange.
 *
 * A kept connection is read all the time: if the upstream closes it, or sends what nobody asked
 * for, it goes. What arrived since the last turn of the loop is asked for when it is taken, so that
 * a request is never written to a connection whose end the system already knew.
 */
#include <stdlib.h>

#include "io/http/http1_client.h"
#include "lib/core/container_of.h"

static struct out_conn *conn_of(struct wire *wire)
{
    return container_of(wire, struct out_conn, wire);
}

static void unlink_idle(struct out_conn *conn)
{
    if (conn->from == NULL)
        return;
    *conn->from = conn->next;
    if (conn->next != NULL)
        conn->next->from = conn->from;
    conn->from = NULL;
    conn->pool->n_idle--;
    conn->client->n_idle--;
}

static void too_old(void *arg)
{
    out_conn_end(arg);
}

struct out_conn *out_conn_new(struct http_client *client, struct http_conn_pool *pool)
{
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

    unlink_idle(conn);
    resolve_cancel(&conn->resolving);
    net_timer_stop(loop, &conn->timer);
    conn->exchange = NULL;
    wire_close(&conn->wire);
    http1_parser_fini(&conn->parser);
    conn->pool->n_conns--;
    net_loop_bury(loop, &conn->grave);
}

void out_conn_keep(struct out_conn *conn)
{
    struct http_client *client = conn->client;
    struct http_conn_pool *pool = conn->pool;

    conn->exchange = NULL;
    if (pool->n_idle >= client->options.idle_max || client->options.idle_ms <= 0) {
        out_conn_end(conn);
        return;
    }
    conn->state = OUT_IDLE;
    http1_parser_next(&conn->parser);
    conn->next = pool->idle;
    conn->from = &pool->idle;
    if (conn->next != NULL)
        conn->next->from = &conn->next;
    pool->idle = conn;
    pool->n_idle++;
    client->n_idle++;
    net_timer_init(&conn->timer, too_old, conn);
    net_timer_set(client->loop, &conn->timer, client->options.idle_ms);
    if (conn->wire.paused)
        wire_resume(&conn->wire);
}

struct out_conn *out_conn_take(struct http_conn_pool *pool)
{
    while (pool->idle != NULL) {
        struct out_conn *conn = pool->idle;

        if (!wire_is_quiet(&conn->wire)) {
            if (conn->from != NULL) /* it has not ended while we asked */
                out_conn_end(conn);
            continue;
        }
        unlink_idle(conn);
        net_timer_stop(conn->client->loop, &conn->timer);
        return conn;
    }
    return NULL;
}

/* ---- The wire -------------------------------------------------------------------------------- */

static void out_conn_on_up(struct wire *wire)
{
    out_dial_up(conn_of(wire));
}

static size_t out_conn_on_data(struct wire *wire, const char *bytes, size_t n)
{
    struct out_conn *conn = conn_of(wire);

    if (conn->state == OUT_BUSY)
        return out_reply_data(conn->exchange, bytes, n);
    if (conn->state == OUT_TUNNEL)
        return out_dial_data(conn, bytes, n);
    if (n > 0)
        out_conn_end(conn); /* nobody asked */
    return n;
}

static void out_conn_on_eof(struct wire *wire)
{
    struct out_conn *conn = conn_of(wire);

    if (conn->state == OUT_BUSY)
        out_reply_eof(conn->exchange);
    else if (conn->state == OUT_IDLE)
        out_conn_end(conn);
    else
        out_dial_broke(conn, conn->state == OUT_SHAKING ? WIRE_NO_TLS : WIRE_RESET,
                       "closed by the other side");
}

static void out_conn_on_wrote(struct wire *wire)
{
    struct out_conn *conn = conn_of(wire);

    if (conn->state == OUT_BUSY)
        out_wrote(conn->exchange);
}

static void out_conn_on_broke(struct wire *wire, enum wire_fault fault, const char *text)
{
    struct out_conn *conn = conn_of(wire);

    if (conn->state == OUT_BUSY)
        out_broke(conn->exchange, fault, text);
    else if (conn->state == OUT_IDLE)
        out_conn_end(conn);
    else
        out_dial_broke(conn, fault, text);
}

const struct wire_ops out_wire_ops = {
    .up = out_conn_on_up,
    .data = out_conn_on_data,
    .eof = out_conn_on_eof,
    .wrote = out_conn_on_wrote,
    .broke = out_conn_on_broke,
};
