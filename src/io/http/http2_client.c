/* http2_client.c - connections of HTTP/2 that go out: opened when there is no room, kept, given up.
 *
 * An upstream takes as many exchanges at a time as it says; until it has said so, one, though the
 * RFC allows for more: many servers of gRPC take few, and refuse the others. Who finds no room
 * waits, as long as connecting may take, for an exchange to end or for the one connection that is
 * being opened: never for more than one, so that a burst of exchanges does not open a burst of
 * connections that carry one each.
 *
 * All exchanges of a connection send their bodies through one window. An upstream may open it only
 * as its handlers read, so that one which does not read holds up all the others: when nothing has
 * moved for a while, new exchanges get another connection.
 *
 * If the upstream chooses HTTP/1.1 by ALPN, the index remembers it, and everybody who waits goes
 * the other way.
 *
 * A connection that ends takes its exchanges with it, but for those whose whole reply has arrived
 * while their owner did not take it: these get it still.
 */
#include "io/http/http2_client_internal.h"

#include <stdio.h>
#include <stdlib.h>

#define SPARE_MAX 256
#define STREAMS_MAX 1000  /* at a time, whatever the upstream allows */
#define UPSTREAMS_MAX 256 /* to one origin; who finds no room on these waits for it */
#define STUCK_MS 200      /* without room for a byte: longer than any way there and back */

static struct http2_upstream *upstream_of_link(struct http2_link *link)
{
    return container_of(link, struct http2_upstream, link);
}

static struct http2_upstream *upstream_of_wire(struct wire *wire)
{
    return container_of(wire, struct out_conn, wire)->http2;
}

/* ---- Who waits ------------------------------------------------------------------------------- */

void http2_wait_put(struct out_exchange *exchange)
{
    assert(exchange->queue == NULL && exchange->call == NULL && !exchange->attached);
    exchange->queue = &exchange->pool->waiting;
    TAILQ_INSERT_TAIL(exchange->queue, exchange, in_queue);
}

void http2_wait_leave(struct out_exchange *exchange)
{
    if (exchange->queue == NULL)
        return;
    TAILQ_REMOVE(exchange->queue, exchange, in_queue);
    exchange->queue = NULL;
}

/* Takes all that wait, to be served one by one: who comes meanwhile is not among them. */
static void take_waiting(struct http_conn_pool *pool, struct out_queue *taken)
{
    struct out_exchange *exchange;

    TAILQ_INIT(taken);
    TAILQ_CONCAT(taken, &pool->waiting, in_queue);
    TAILQ_FOREACH(exchange, taken, in_queue)
        exchange->queue = taken;
}

static size_t room_on(const struct http2_upstream *upstream)
{
    uint32_t most = nghttp2_session_get_remote_settings(upstream->link.session,
                                                        NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);

    if (most > STREAMS_MAX)
        most = STREAMS_MAX;
    if (most > 1 && !upstream->settled)
        most = 1;
    return upstream->link.n_flows < most ? most - upstream->link.n_flows : 0;
}

static bool is_stuck(const struct http2_upstream *upstream)
{
    const struct http2_link *link = &upstream->link;

    return nghttp2_session_get_remote_window_size(link->session) <= 0 &&
           net_loop_now(link->wire->loop) - link->moved_at >= STUCK_MS;
}

static bool is_usable(const struct http2_upstream *upstream)
{
    return !upstream->going && !upstream->link.failed && !upstream->link.finished &&
           nghttp2_session_check_request_allowed(upstream->link.session) && room_on(upstream) > 0 &&
           !is_stuck(upstream);
}

static void upstream_end(struct http2_upstream *upstream, enum http_why why, const char *text);

struct http2_upstream *http2_upstream_find(struct http_conn_pool *pool)
{
    struct http2_upstream *upstream = LIST_FIRST(&pool->upstreams), *next;

    for (; upstream != NULL; upstream = next) {
        next = LIST_NEXT(upstream, in_pool);
        assert(!upstream->lost && (!upstream->idle || upstream->link.n_flows == 0));
        if (!is_usable(upstream))
            continue;
        if (!upstream->idle || !wire_has_ended(upstream->link.wire))
            return upstream;
        upstream_end(upstream, HTTP_RESET, "closed by the other side");
    }
    return NULL;
}

static void attach_waiting(struct http_conn_pool *pool)
{
    struct http2_upstream *upstream;

    while (!TAILQ_EMPTY(&pool->waiting) && (upstream = http2_upstream_find(pool)) != NULL) {
        struct out_exchange *exchange = TAILQ_FIRST(&pool->waiting);

        http2_wait_leave(exchange);
        http2_exchange_attach(exchange, upstream);
    }
}

static void serve_waiting(struct http_conn_pool *pool)
{
    attach_waiting(pool);
    if (!TAILQ_EMPTY(&pool->waiting)) /* from the loop: dialling may fail at once */
        net_later_put(pool->client->loop, &TAILQ_FIRST(&pool->waiting)->later);
}

/* ---- Dialling -------------------------------------------------------------------------------- */

static void fail_waiting(struct http_conn_pool *pool, enum http_why why, const char *text)
{
    struct out_queue failing;

    take_waiting(pool, &failing);
    while (!TAILQ_EMPTY(&failing))
        out_fail(TAILQ_FIRST(&failing), why, text);
}

/* Whether a connection has not said yet how many exchanges it takes. */
static bool is_settling(const struct http_conn_pool *pool)
{
    const struct http2_upstream *upstream;

    LIST_FOREACH(upstream, &pool->upstreams, in_pool)
        if (!upstream->settled && !upstream->going && !upstream->link.failed)
            return true;
    return false;
}

/* Whoever waits for it fails, too, unless there is another connection to wait for. */
static void http2_dial_failed(struct out_conn *conn, enum http_why why, const char *text)
{
    struct http_conn_pool *pool = conn->pool;
    const struct http2_upstream *upstream;

    assert(pool->dialling == conn);
    pool->dialling = NULL;
    out_conn_end(conn);
    LIST_FOREACH(upstream, &pool->upstreams, in_pool)
        if (!upstream->going)
            return;
    fail_waiting(pool, why, text);
}

/* The upstream wants HTTP/1.1: the first takes this connection, the others get their own. */
static void fall_back(struct out_conn *conn)
{
    struct out_exchange *exchange;
    struct out_queue waiting;

    conn->pool->only_http1 = true;
    conn->shared = false;
    take_waiting(conn->pool, &waiting);
    if (TAILQ_EMPTY(&waiting))
        out_conn_keep(conn);
    while ((exchange = TAILQ_FIRST(&waiting)) != NULL) {
        http2_wait_leave(exchange);
        if (!http2_exchange_to_http1(exchange))
            out_fail_later(exchange, HTTP_NO_MEMORY, "no memory");
        else if (conn->exchange == NULL)
            http1_exchange_attach(exchange, conn, false);
        else
            net_later_put(exchange->client->loop, &exchange->later);
    }
}

/* ---- Kept, or not ---------------------------------------------------------------------------- */

static void set_idle(struct http2_upstream *upstream, bool idle)
{
    struct http_client *client = upstream->conn->client;

    if (upstream->idle == idle)
        return;
    upstream->idle = idle;
    if (idle) {
        assert(upstream->link.n_flows == 0);
        client->n_idle++;
        net_timer_set(client->loop, &upstream->timer, client->options.idle_ms);
    } else {
        assert(client->n_idle > 0);
        client->n_idle--;
        net_timer_stop(client->loop, &upstream->timer);
    }
}

static void upstream_free(struct http2_upstream *upstream)
{
    struct out_conn *conn = upstream->conn;

    assert(upstream->lost && upstream->link.n_flows == 0);
    net_loop_bury(conn->client->loop, &upstream->link.grave);
    out_conn_end(conn);
}

/* An exchange that waits not only for its owner to take what has come. */
static struct http2_call *unfinished(const struct http2_upstream *upstream)
{
    struct http2_flow *flow;

    LIST_FOREACH(flow, &upstream->link.flows, in_link) {
        struct http2_call *call = http2_call_of(flow);

        if (call->exchange == NULL || call->exchange->failing || !flow->in_ended)
            return call;
    }
    return NULL;
}

static void upstream_end(struct http2_upstream *upstream, enum http_why why, const char *text)
{
    struct http_client *client = upstream->conn->client;
    struct http_conn_pool *pool = upstream->conn->pool;
    struct http2_call *call;
    struct http2_flow *flow;

    if (upstream->lost)
        return;
    assert(pool->n_upstreams > 0);
    upstream->lost = upstream->ending = true;
    set_idle(upstream, false);
    net_timer_stop(client->loop, &upstream->settling);
    LIST_REMOVE(upstream, in_pool);
    pool->n_upstreams--;
    if (text != client->text)
        snprintf(client->text, sizeof client->text, "%s", text);
    http2_link_fini(&upstream->link);
    LIST_FOREACH(flow, &upstream->link.flows, in_link)
        flow->open = false;
    while ((call = unfinished(upstream)) != NULL) {
        if (call->exchange != NULL)
            out_fail(call->exchange, why, client->text);
        else
            http2_call_give(call, false);
    }
    wire_close(upstream->link.wire);
    upstream->ending = false;
    if (upstream->link.n_flows == 0)
        upstream_free(upstream);
    serve_waiting(pool);
}

/* Connected, and silent: whoever is there does not speak HTTP/2, or not in time. */
static void never_settled(void *arg)
{
    upstream_end(arg, HTTP_LATE_CONNECT, "no settings in time");
}

static void too_old(void *arg)
{
    struct http2_upstream *upstream = arg;

    upstream->going = true;
    http2_link_fail(&upstream->link, HTTP2_NO_ERROR, "idle");
}

/* An exchange has ended. */
static void upstream_count(struct http2_upstream *upstream)
{
    const struct http_client *client = upstream->conn->client;

    if (upstream->lost) {
        if (upstream->link.n_flows == 0 && !upstream->ending)
            upstream_free(upstream);
        return;
    }
    serve_waiting(upstream->conn->pool);
    if (upstream->link.n_flows > 0 || upstream->lost)
        return;
    set_idle(upstream, true);
    if (client->options.idle_ms <= 0 || client->n_idle > client->options.idle_max)
        too_old(upstream);
}

struct http2_call *http2_call_take(struct http2_upstream *upstream)
{
    struct http_client *client = upstream->conn->client;
    struct http2_call *call = SLIST_FIRST(&client->spare_calls);

    assert((call == NULL) == (client->n_spare_calls == 0));
    if (call != NULL) {
        SLIST_REMOVE_HEAD(&client->spare_calls, next_spare);
        client->n_spare_calls--;
    } else {
        call = malloc(sizeof *call);
    }
    if (call == NULL)
        return NULL;
    *call = (struct http2_call){.upstream = upstream};
    http2_flow_init(&call->flow, &upstream->link);
    set_idle(upstream, false);
    return call;
}

void http2_call_give(struct http2_call *call, bool spare)
{
    struct http2_upstream *upstream = call->upstream;
    struct http_client *client = upstream->conn->client;

    assert(call->exchange == NULL);
    http2_flow_fini(&call->flow);
    if (spare && client->n_spare_calls < SPARE_MAX) {
        SLIST_INSERT_HEAD(&client->spare_calls, call, next_spare);
        client->n_spare_calls++;
    } else {
        net_loop_bury(client->loop, &call->grave);
    }
    upstream_count(upstream);
}

void http2_calls_free(struct http_client *client)
{
    struct http2_call *call;

    while ((call = SLIST_FIRST(&client->spare_calls)) != NULL) {
        SLIST_REMOVE_HEAD(&client->spare_calls, next_spare);
        free(call);
    }
}

/* ---- What the link tells --------------------------------------------------------------------- */

static void settled(struct http2_link *link)
{
    struct http2_upstream *upstream = upstream_of_link(link);

    upstream->settled = true;
    net_timer_stop(link->wire->loop, &upstream->settling);
    serve_waiting(upstream->conn->pool);
}

static void goaway(struct http2_link *link)
{
    upstream_of_link(link)->going = true;
}

static void over(struct http2_link *link, uint32_t code, const char *text)
{
    bool garbage = link->failed && code != HTTP2_NO_ERROR;

    upstream_end(upstream_of_link(link), garbage ? HTTP_GARBAGE : HTTP_RESET, text);
}

static const struct http2_link_ops link_ops = {
    .head = http2_call_head,
    .data = http2_call_data,
    .ended = http2_call_ended,
    .wrote = http2_call_wrote,
    .sent_end = http2_call_sent_end,
    .closed = http2_call_closed,
    .settled = settled,
    .goaway = goaway,
    .over = over,
};

/* ---- What the wire tells --------------------------------------------------------------------- */

/* It may have made room in a window that was full: who could not be given a connection of his own
 * meanwhile takes this one. */
static size_t http2_client_on_data(struct wire *wire, const char *bytes, size_t n)
{
    struct http2_upstream *upstream = upstream_of_wire(wire);

    http2_link_feed(&upstream->link, bytes, n);
    if (!upstream->lost)
        attach_waiting(upstream->conn->pool);
    return n;
}

static void http2_client_on_eof(struct wire *wire)
{
    upstream_end(upstream_of_wire(wire), HTTP_RESET, "closed before the reply was complete");
}

static void http2_client_on_wrote(struct wire *wire)
{
    http2_link_flush(&upstream_of_wire(wire)->link);
}

static void http2_client_on_broke(struct wire *wire, enum wire_fault fault, const char *text)
{
    upstream_end(upstream_of_wire(wire), fault == WIRE_NO_MEMORY ? HTTP_NO_MEMORY : HTTP_RESET,
                 text);
}

static const struct wire_ops wire_ops = {
    .data = http2_client_on_data,
    .eof = http2_client_on_eof,
    .wrote = http2_client_on_wrote,
    .broke = http2_client_on_broke,
};

/* ---- Beginning and end ----------------------------------------------------------------------- */

static bool http2_client_start(struct out_conn *conn)
{
    const struct http_client_options *options = &conn->client->options;
    struct http2_limits limits = {
        .block = {options->header_bytes, options->fields},
        .streams = 1, /* a server that pushes is refused before that */
        .resets = 10000,
        .resets_per_s = 10000,
        .odd_frames = 10000,
    };
    struct http2_upstream *upstream = calloc(1, sizeof *upstream);

    if (upstream == NULL)
        return false;
    upstream->conn = conn;
    if (!http2_link_init(&upstream->link, &conn->wire, &link_ops, &limits, false)) {
        free(upstream);
        return false;
    }
    net_timer_init(&upstream->timer, too_old, upstream);
    net_timer_init(&upstream->settling, never_settled, upstream);
    if (conn->connect_ms > 0)
        net_timer_set(conn->client->loop, &upstream->settling, conn->connect_ms);
    conn->http2 = upstream;
    conn->wire.ops = &wire_ops;
    conn->state = OUT_BUSY;
    LIST_INSERT_HEAD(&conn->pool->upstreams, upstream, in_pool);
    conn->pool->n_upstreams++;
    set_idle(upstream, true);
    return true;
}

void http2_dial_up(struct out_conn *conn)
{
    struct http_conn_pool *pool = conn->pool;
    bool agreed = pool->origin->tls == NULL || tls_wire_is_http2(&conn->wire);

    if (!agreed && pool->origin->http2 == HTTP2_PRIOR) {
        http2_dial_failed(conn, HTTP_GARBAGE, "the upstream does not speak HTTP/2");
        return;
    }
    assert(pool->dialling == conn);
    pool->dialling = NULL;
    if (!agreed) {
        fall_back(conn);
    } else if (http2_client_start(conn)) {
        serve_waiting(pool);
    } else {
        out_conn_end(conn);
        fail_waiting(pool, HTTP_NO_MEMORY, "no memory");
    }
}

void http2_dial_more(struct http_conn_pool *pool, tg_ms connect_ms)
{
    static const struct out_dial_ops ops = {.up = http2_dial_up, .failed = http2_dial_failed};

    if (TAILQ_EMPTY(&pool->waiting) || pool->dialling != NULL || is_settling(pool) ||
        pool->n_upstreams >= UPSTREAMS_MAX)
        return;
    pool->dialling = out_conn_new(pool);
    if (pool->dialling == NULL) {
        fail_waiting(pool, HTTP_NO_MEMORY, "no memory");
        return;
    }
    pool->dialling->shared = true;
    out_dial(pool->dialling, &ops, connect_ms);
}

void http2_pool_clear(struct http_conn_pool *pool)
{
    if (pool->dialling != NULL)
        out_conn_end(pool->dialling);
    pool->dialling = NULL;
    while (!LIST_EMPTY(&pool->upstreams))
        upstream_end(LIST_FIRST(&pool->upstreams), HTTP_ABORTED, "the client ends");
}
