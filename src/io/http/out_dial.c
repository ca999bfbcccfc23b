/* out_dial.c - from an origin to a connection: name, address after address, proxy, TLS.
 *
 *     RESOLVING -> CONNECTING -> [TUNNEL] -> [SHAKING] -> BUSY
 *
 * Addresses are tried one after the other, families in turn; the time to connect is dealt out
 * among them, so that one that does not answer does not use up the others' share. TLS and the
 * proxy's answer are not tried again: what they say holds for every address.
 *
 * Through a proxy everything goes by CONNECT, plain requests too: so the proxy sees host and port,
 * and neither the target nor a key; and replies are parsed by one rule.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "io/http/http1_write.h"
#include "io/http/http_client_internal.h"

static const struct wire_ops dial_ops;
static void try_next(struct out_conn *conn);

static void out_dial_fail(struct out_conn *conn, enum http_why why, const char *text)
{
    struct http_client *client = conn->client;

    /* The text may be the wire's own, which goes with the connection. */
    if (text != client->text)
        snprintf(client->text, sizeof client->text, "%s", text);
    client->cause = out_cause_of(why, conn->state == OUT_SHAKING, conn->error, client->text);
    conn->dial->failed(conn, why, client->text);
    client->cause = HTTP_CAUSE_NONE; /* what fails from here on has causes of its own */
}

static const char *dialled_host(const struct http_origin *origin)
{
    return origin->proxy_host != NULL ? origin->proxy_host : origin->host;
}

static void too_slow(void *arg)
{
    struct out_conn *conn = arg;

    if (conn->state != OUT_CONNECTING || conn->next_address == conn->addresses->n) {
        out_dial_fail(conn, HTTP_LATE_CONNECT, "no connection in time");
        return;
    }
    wire_close(&conn->wire);
    snprintf(conn->text, sizeof conn->text, "%s: no answer", dialled_host(conn->pool->origin));
    try_next(conn);
}

/* This address' share of the time. The last one needs none if there is an exchange, which has its
 * own timer. */
static void set_share(struct out_conn *conn)
{
    size_t left = conn->addresses->n - conn->next_address;
    tg_ms share = conn->connect_ms / (tg_ms)(left + 1);

    net_timer_init(&conn->timer, too_slow, conn);
    if ((left > 0 || conn->shared) && share > 0)
        net_timer_set(conn->client->loop, &conn->timer, share);
}

static void try_next(struct out_conn *conn)
{
    net_timer_stop(conn->client->loop, &conn->timer);
    conn->state = OUT_CONNECTING;
    while (conn->next_address < conn->addresses->n) {
        size_t i = conn->next_address++;

        if (wire_connect(&conn->wire, conn->client->loop, &dial_ops,
                         &conn->addresses->list[i].address.any, conn->addresses->list[i].bytes)) {
            set_share(conn);
            return;
        }
        conn->error = errno;
        snprintf(conn->text, sizeof conn->text, "%.80s: %.60s", dialled_host(conn->pool->origin),
                 strerror(conn->error));
    }
    out_dial_fail(conn, HTTP_UNREACHABLE, conn->text);
}

static void resolved(struct resolve_wait *wait, const struct resolve_answer *answer)
{
    struct out_conn *conn = container_of(wait, struct out_conn, resolving);

    if (answer->n == 0) {
        snprintf(conn->text, sizeof conn->text, "%.80s: %.60s", dialled_host(conn->pool->origin),
                 answer->text);
        out_dial_fail(conn, HTTP_UNRESOLVED, conn->text);
        return;
    }
    assert(conn->state == OUT_RESOLVING && answer->n <= RESOLVE_ADDRESSES_MAX);
    conn->addresses = malloc(sizeof *answer);
    if (conn->addresses == NULL) {
        out_dial_fail(conn, HTTP_NO_MEMORY, "no memory");
        return;
    }
    *conn->addresses = *answer;
    try_next(conn);
}

void out_dial(struct out_conn *conn, const struct out_dial_ops *ops, tg_ms connect_ms)
{
    const struct http_origin *origin = conn->pool->origin;

    assert(conn->shared == (conn->exchange == NULL));
    conn->dial = ops;
    conn->connect_ms = connect_ms;
    conn->state = OUT_RESOLVING;
    conn->resolving.done = resolved;
    resolve(&conn->client->resolver, dialled_host(origin),
            origin->proxy_host != NULL ? origin->proxy_port : origin->port, &conn->resolving);
}

/* ---- The proxy ------------------------------------------------------------------------------- */

static void ask_for_tunnel(struct out_conn *conn)
{
    const struct http_origin *origin = conn->pool->origin;
    char where[ADDRESS_HOST_BYTES + 16];
    bool brackets = strchr(origin->host, ':') != NULL;
    int n =
        snprintf(where, sizeof where, brackets ? "[%s]:%d" : "%s:%d", origin->host, origin->port);
    struct slice target = {where, (size_t)n};
    struct http_head head = {.method = SLICE("CONNECT"), .target = target};
    struct http1_framing framing = {.host = target, .length = -1};
    struct buf out = {0};

    conn->state = OUT_TUNNEL;
    conn->parser.no_body = true;
    if (!http1_put_request(conn->client->loop, &out, &head, &framing)) {
        out_dial_fail(conn, HTTP_NO_MEMORY, "no memory");
        return;
    }
    out.end -= 2; /* one more field: a hop's own, which heads do not carry */
    wire_write(&conn->wire, buf_first(&out), buf_bytes(&out));
    if (origin->proxy_auth != NULL) {
        wire_write(&conn->wire, "proxy-authorization: ", 21);
        wire_write(&conn->wire, origin->proxy_auth, strlen(origin->proxy_auth));
        wire_write(&conn->wire, "\r\n", 2);
    }
    wire_write(&conn->wire, "\r\n", 2);
    buf_release(conn->client->loop, &out);
}

static void connected(struct out_conn *conn)
{
    const struct http_origin *origin = conn->pool->origin;

    if (origin->tls == NULL || conn->state == OUT_SHAKING) {
        net_timer_stop(conn->client->loop, &conn->timer);
        conn->dial->up(conn);
        return;
    }
    conn->state = OUT_SHAKING;
    conn->wire.tls.http2 = conn->shared;
    conn->wire.tls.http2_only = conn->shared && origin->http2 == HTTP2_PRIOR;
    if (!wire_start_tls(&conn->wire, origin->tls, origin->server_name, &conn->pool->ticket))
        out_dial_fail(conn, HTTP_NO_MEMORY, "TLS cannot be set up");
}

/* ---- The wire -------------------------------------------------------------------------------- */

static void dial_on_up(struct wire *wire)
{
    struct out_conn *conn = container_of(wire, struct out_conn, wire);

    assert(conn->state == OUT_CONNECTING || conn->state == OUT_SHAKING);
    conn->error = 0;
    free(conn->addresses); /* two kilobytes that no other address needs any more */
    conn->addresses = NULL;
    net_timer_stop(conn->client->loop, &conn->timer);
    if (conn->shared && conn->connect_ms > 0) /* no exchange has a timer */
        net_timer_set(conn->client->loop, &conn->timer, conn->connect_ms);
    if (conn->state == OUT_CONNECTING && conn->pool->origin->proxy_host != NULL)
        ask_for_tunnel(conn);
    else
        connected(conn);
}

/* The proxy's reply. */
static size_t dial_on_data(struct wire *wire, const char *bytes, size_t n)
{
    struct out_conn *conn = container_of(wire, struct out_conn, wire);
    size_t used = 0, took;
    struct slice body;
    enum http1_event event;

    assert(conn->state == OUT_TUNNEL);
    while ((event = http1_parse(&conn->parser, bytes + used, n - used, &took, &body)) ==
           HTTP1_HEAD) {
        used += took;
        int status = conn->parser.head.status;
        if (status / 100 != 2) {
            snprintf(conn->text, sizeof conn->text, "the proxy answered %d", status);
            out_dial_fail(conn, HTTP_NO_TUNNEL, conn->text);
            return n;
        }
    }
    used += took;
    if (event == HTTP1_MORE)
        return n;
    if (event == HTTP1_BAD || used < n) {
        /* Bytes after the proxy's reply, before we said a word: not from whom we want. */
        out_dial_fail(conn, HTTP_NO_TUNNEL, "the proxy's answer is not HTTP");
        return n;
    }
    http1_parser_next(&conn->parser);
    connected(conn);
    return n;
}

static void dial_on_broke(struct wire *wire, enum wire_fault fault, const char *text)
{
    struct out_conn *conn = container_of(wire, struct out_conn, wire);

    assert(conn->state != OUT_BUSY && conn->state != OUT_IDLE);
    if (fault == WIRE_REFUSED) {
        conn->error = wire->error;
        snprintf(conn->text, sizeof conn->text, "%.80s: %.60s", dialled_host(conn->pool->origin),
                 text);
        wire_close(&conn->wire);
        try_next(conn);
    } else if (conn->state == OUT_SHAKING) {
        out_dial_fail(conn, fault == WIRE_NO_TLS ? HTTP_UNTRUSTED : HTTP_UNREACHABLE, text);
    } else {
        out_dial_fail(conn, conn->state == OUT_TUNNEL ? HTTP_NO_TUNNEL : HTTP_UNREACHABLE, text);
    }
}

static void dial_on_eof(struct wire *wire)
{
    const struct out_conn *conn = container_of(wire, struct out_conn, wire);

    dial_on_broke(wire, conn->state == OUT_SHAKING ? WIRE_NO_TLS : WIRE_RESET,
                  "closed by the other side");
}

static void dial_on_wrote(struct wire *wire)
{
    (void)wire;
}

static const struct wire_ops dial_ops = {
    .up = dial_on_up,
    .data = dial_on_data,
    .eof = dial_on_eof,
    .wrote = dial_on_wrote,
    .broke = dial_on_broke,
};
