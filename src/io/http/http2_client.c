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
#include "io/http/http2_client.h"

#include <stdio.h>
#include <stdlib.h>

#include "lib/core/container_of.h"

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

static void wait_in(struct out_waits *waits, struct out_exchange *exchange)
{
    if (waits->first == NULL)
        waits->end = &waits->first;
    exchange->waits = waits;
    exchange->next_waiting = NULL;
    exchange->waiting_from = waits->end;
    *waits->end = exchange;
    waits->end = &exchange->next_waiting;
}

void http2_wait_put(struct http_conn_pool *pool, struct out_exchange *exchange)
{
    wait_in(&pool->waits, exchange);
}

void http2_wait_leave(struct out_exchange *exchange)
{
    if (exchange->waits == NULL)
        return;
    *exchange->waiting_from = exchange->next_waiting;
    if (exchange->next_waiting != NULL)
        exchange->next_waiting->waiting_from = exchange->waiting_from;
    else
        exchange->waits->end = exchange->waiting_from;
    exchange->waits = NULL;
}

/* All who wait, to be dealt with one by one: who comes meanwhile is not among them. */
static void take_waiting(struct http_conn_pool *pool, struct out_waits *taken)
{
    struct out_exchange *exchange;

    *taken = (struct out_waits){0};
    while ((exchange = pool->waits.first) != NULL) {
        http2_wait_leave(exchange);
        wait_in(taken, exchange);
    }
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
    struct http2_upstream *next;

    for (struct http2_upstream *upstream = pool->upstreams; upstream != NULL; upstream = next) {
        next = upstream->next;
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

    while (pool->waits.first != NULL && (upstream = http2_upstream_find(pool)) != NULL) {
        struct out_exchange *exchange = pool->waits.first;

        http2_wait_leave(exchange);
        http2_exchange_attach(exchange, upstream);
    }
}

static void serve_waiting(struct http_conn_pool *pool)
{
    attach_waiting(pool);
    if (pool->waits.first != NULL) /* from the loop: it may fail from inside */
        net_later_put(pool->client->loop, &pool->waits.first->later);
}

/* ---- Dialling -------------------------------------------------------------------------------- */

static void fail_waiting(struct http_conn_pool *pool, enum http_why why, const char *text)
{
    struct out_waits failing;

    take_waiting(pool, &failing);
    while (failing.first != NULL)
        out_fail(failing.first, why, text);
}

/* Whether there is one of which it is not known yet how much it takes. */
static bool is_settling(const struct http_conn_pool *pool)
{
    for (struct http2_upstream *upstream = pool->upstreams; upstream != NULL;
         upstream = upstream->next)
        if (!upstream->settled && !upstream->going && !upstream->link.failed)
            return true;
    return false;
}

void http2_dial_more(struct http_conn_pool *pool, tg_ms connect_ms)
{
    struct out_conn *conn;

    if (pool->waits.first == NULL || pool->dialling != NULL || is_settling(pool) ||
        pool->n_upstreams >= UPSTREAMS_MAX)
        return;
    conn = out_dial_shared(pool->client, pool, connect_ms);
    if (conn == NULL) {
        fail_waiting(pool, HTTP_NO_MEMORY, "no memory");
        return;
    }
    pool->dialling = conn;
    out_dial_start(conn);
}

/* Whoever waits for it has failed, too, unless there is another connection to wait for. */
void http2_dial_failed(struct out_conn *conn, enum http_why why, const char *text)
{
    struct http_conn_pool *pool = conn->pool;

    pool->dialling = NULL;
    out_conn_end(conn);
    for (struct http2_upstream *upstream = pool->upstreams; upstream != NULL;
         upstream = upstream->next)
        if (!upstream->going && !upstream->lost)
            return;
    fail_waiting(pool, why, text);
}

/* The upstream wants HTTP/1.1: the first takes this connection, the others get their own. */
static void fall_back(struct out_conn *conn)
{
    struct out_exchange *exchange;
    struct out_waits waits;

    conn->pool->only_http1 = true;
    conn->shared = false;
    take_waiting(conn->pool, &waits);
    if (waits.first == NULL)
        out_conn_keep(conn);
    while ((exchange = waits.first) != NULL) {
        http2_wait_leave(exchange);
        if (!http2_exchange_to_http1(exchange))
            out_fail_later(exchange, HTTP_NO_MEMORY, "no memory");
        else if (conn->exchange == NULL)
            out_attach(exchange, conn, false);
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
    client->n_idle += idle ? 1 : (size_t)-1;
    if (idle)
        net_timer_set(client->loop, &upstream->timer, client->options.idle_ms);
    else
        net_timer_stop(client->loop, &upstream->timer);
}

static void upstream_link(struct http2_upstream *upstream, struct http2_upstream **list)
{
    if (upstream->from != NULL) {
        *upstream->from = upstream->next;
        if (upstream->next != NULL)
            upstream->next->from = upstream->from;
    }
    upstream->from = list;
    if (list == NULL)
        return;
    upstream->next = *list;
    if (upstream->next != NULL)
        upstream->next->from = &upstream->next;
    *list = upstream;
}

static void upstream_free(struct http2_upstream *upstream)
{
    struct out_conn *conn = upstream->conn;

    upstream_link(upstream, NULL);
    net_loop_bury(conn->client->loop, &upstream->link.grave);
    out_conn_end(conn);
}

/* One that does not wait for its owner alone. */
static struct http2_call *unfinished(const struct http2_upstream *upstream)
{
    for (struct http2_flow *flow = upstream->link.flows; flow != NULL; flow = flow->next) {
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

    if (upstream->lost)
        return;
    upstream->lost = upstream->ending = true;
    set_idle(upstream, false);
    net_timer_stop(client->loop, &upstream->settling);
    upstream_link(upstream, NULL);
    pool->n_upstreams--;
    if (text != client->text)
        snprintf(client->text, sizeof client->text, "%s", text);
    http2_link_fini(&upstream->link);
    for (struct http2_flow *flow = upstream->link.flows; flow != NULL; flow = flow->next)
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
    struct http2_call *call = client->spare_calls;

    if (call != NULL) {
        client->spare_calls = call->next_spare;
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

    http2_flow_fini(&call->flow);
    if (spare && client->n_spare_calls < SPARE_MAX) {
        call->next_spare = client->spare_calls;
        client->spare_calls = call;
        client->n_spare_calls++;
    } else {
        net_loop_bury(client->loop, &call->grave);
    }
    upstream_count(upstream);
}

void http2_calls_free(struct http_client *client)
{
    while (client->spare_calls != NULL) {
        struct http2_call *call = client->spare_calls;

        client->spare_calls = call->next_spare;
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

static void http2_client_on_up(struct wire *wire)
{
    (void)wire; /* it was up before */
}

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
    .up = http2_client_on_up,
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
    upstream_link(upstream, &conn->pool->upstreams);
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

void http2_shelf_clear(struct http_conn_pool *pool)
{
    if (pool->dialling != NULL)
        out_conn_end(pool->dialling);
    pool->dialling = NULL;
    while (pool->upstreams != NULL)
        upstream_end(pool->upstreams, HTTP_ABORTED, "the client ends");
}
