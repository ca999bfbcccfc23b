/* fuzz_http2.c - any frames, cut anywhere, towards either end of a connection without a socket.
 *
 * The first byte says which end is under test and whether the preface and settings come by
 * themselves, so that the rest can be frames; the next say what the owners do: reply at once, in
 * pieces, with trailers, pause and resume, give up. Whatever comes in, every exchange has its last
 * call, once; nothing comes while it is paused; a body is as long as it was said to be; what is
 * held is within the windows; and all memory is given back.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "insist.h"
#include "io/http/http2_client_internal.h"
#include "io/http/http2_server_internal.h"

#define EXCHANGES 8

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* One exchange, of either side. */
struct party {
    struct http_inbound *in; /* null: none, or over */
    struct http_outbound *out;
    int64_t length, got;
    bool begun, headed, ended, paused;
};

struct world {
    const uint8_t *whims;
    size_t n_whims, next;
    struct party parties[EXCHANGES * 64];
    size_t n;
    size_t begun, over;
};

static struct world world;

static unsigned whim(void)
{
    return world.n_whims == 0 ? 0 : world.whims[world.next++ % world.n_whims];
}

/* ---- The server's owner ---------------------------------------------------------------------- */

static void act_in(struct party *party)
{
    static const struct http_field trailers[] = {{SLICE("x-end"), SLICE("1\n2")}};
    struct http_head head = {.status = 200, .length = -1};

    if (party->in == NULL)
        return;
    switch (whim() % 12) {
    case 0:
        http_inbound_send(party->in, &head, SLICE("short"));
        break;
    case 1:
        http_inbound_reply(party->in, &head);
        http_inbound_write(party->in, SLICE("a piece"));
        break;
    case 2:
        http_inbound_pause(party->in);
        party->paused = true;
        break;
    case 3:
        party->paused = false;
        http_inbound_resume(party->in);
        break;
    case 4:
        http_inbound_abort_with(party->in, whim());
        break;
    case 5:
        http_inbound_finish_with(party->in, trailers, 1);
        break;
    case 6:
        head.length = 3;
        http_inbound_reply(party->in, &head);
        http_inbound_finish(party->in);
        break;
    case 7:
        http_inbound_send(party->in, &head, SLICE(""));
        break;
    default:
        break;
    }
}

static void check_fields(const struct http_field *fields, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        insist(fields[i].name.n > 0 && fields[i].name.at[0] != ':');
        insist(fields[i].value.n == 0 ||
               memchr(fields[i].value.at, '\n', fields[i].value.n) == NULL);
        insist(fields[i].value.n == 0 ||
               memchr(fields[i].value.at, '\0', fields[i].value.n) == NULL);
    }
}

static void in_begin(void *context, struct http_inbound *in)
{
    (void)context;
    insist(in->head.method.n > 0 && in->head.target.n > 0);
    if (in->head.version == 20) { /* it may have begun as HTTP/1 */
        insist(http_count(&in->head, SLICE("host")) == 1);
        insist(http_count(&in->head, SLICE("cookie")) <= 1);
    }
    check_fields(in->head.fields, in->head.n_fields);
    if (world.n == sizeof world.parties / sizeof *world.parties) {
        http_inbound_abort(in);
        return;
    }
    struct party *party = &world.parties[world.n++];
    *party = (struct party){.in = in, .length = in->head.length, .begun = true};
    in->owner = party;
    world.begun++;
    act_in(party);
}

static void in_data(struct http_inbound *in, struct slice bytes)
{
    struct party *party = in->owner;

    if (party == NULL)
        return;
    insist(party->in == in && !party->ended && !party->paused && bytes.n > 0);
    party->got += (int64_t)bytes.n;
    insist(party->length < 0 || party->got <= party->length);
    act_in(party);
}

static void in_end(struct http_inbound *in)
{
    struct party *party = in->owner;

    if (party == NULL)
        return;
    insist(party->in == in && !party->ended && !party->paused);
    insist(party->length < 0 || party->got == party->length);
    check_fields(in->trailers, in->n_trailers);
    party->ended = true;
    act_in(party);
}

static void in_gone(struct http_inbound *in, enum http_why why)
{
    struct party *party = in->owner;

    (void)why;
    if (party == NULL)
        return;
    insist(party->in == in);
    party->in = NULL;
    world.over++;
}

static const struct http_server_ops server_ops = {
    .begin = in_begin,
    .data = in_data,
    .end = in_end,
    .gone = in_gone,
};

/* ---- The client's ---------------------------------------------------------------------------- */

static void act_out(struct party *party)
{
    static const struct http_field trailers[] = {{SLICE("x-end"), SLICE("1")}};

    if (party->out == NULL)
        return;
    switch (whim() % 10) {
    case 0:
        http_outbound_write(party->out, SLICE("a piece"));
        break;
    case 1:
        http_outbound_finish_with(party->out, trailers, 1);
        break;
    case 2:
        http_outbound_pause(party->out);
        party->paused = true;
        break;
    case 3:
        party->paused = false;
        http_outbound_resume(party->out);
        break;
    case 4:
        http_outbound_cancel_with(party->out, whim());
        party->out = NULL;
        world.over++;
        break;
    default:
        break;
    }
}

static void out_head(struct http_outbound *out, const struct http_head *head)
{
    struct party *party = out->owner;

    insist(party->out == out && !party->headed && !party->paused);
    insist(head->status >= 200 && head->status <= 999 && head->version == 20);
    check_fields(head->fields, head->n_fields);
    party->headed = true;
    act_out(party);
}

static void out_data(struct http_outbound *out, struct slice bytes)
{
    struct party *party = out->owner;

    insist(party->out == out && party->headed && !party->paused && bytes.n > 0);
    act_out(party);
}

static void out_end(struct http_outbound *out)
{
    struct party *party = out->owner;

    insist(party->out == out && party->headed && !party->paused);
    check_fields(out->trailers, out->n_trailers);
    party->out = NULL;
    world.over++;
}

static void out_failed(struct http_outbound *out, enum http_why why, const char *text)
{
    struct party *party = out->owner;

    (void)why;
    insist(party->out == out && text != NULL);
    party->out = NULL;
    world.over++;
}

static const struct http_client_ops client_ops = {
    .head = out_head,
    .data = out_data,
    .end = out_end,
    .failed = out_failed,
};

/* ---- Feeding --------------------------------------------------------------------------------- */

static void act(struct net_loop *loop)
{
    if (world.n == 0)
        return;
    struct party *party = &world.parties[whim() % world.n];

    act_in(party);
    act_out(party);
    net_loop_settle(loop);
}

/* Where the connection under test would be found; what has been dialled in its place is another. */
struct place {
    const struct http_listener *listener; /* null: it is the client's */
    const struct http_conn_pool *pool;
    const struct out_conn *conn;
};

static bool is_there(const struct place *place)
{
    if (place->listener != NULL)
        return place->listener->n_conns > 0;
    const struct http2_upstream *upstream;
    LIST_FOREACH(upstream, &place->pool->upstreams, in_pool)
        if (upstream->conn == place->conn)
            return true;
    return false;
}

/* In pieces, with the owners acting in between, as long as there is a connection. */
static void feed(struct net_loop *loop, const struct place *place, struct wire *wire,
                 const uint8_t *bytes, size_t n)
{
    while (n > 0 && is_there(place)) {
        size_t piece = 1 + whim() % 128;
        char copy[128]; /* so that a read beyond the piece is seen */

        piece = piece < n ? piece : n;
        memcpy(copy, bytes, piece);
        wire_feed(wire, copy, piece);
        bytes += piece;
        n -= piece;
        act(loop);
    }
}

static const char settings[] = "\0\0\0\4\0\0\0\0\0";

static void attack_server(struct net_loop *loop, bool raw, const uint8_t *bytes, size_t n)
{
    struct http_listen_options options;
    struct http1_conn *conn;

    http_listen_options_init(&options);
    options.ops = &server_ops;
    options.http2 = true;
    options.limits.header_bytes = 1024;
    options.limits.linger_bytes = 256;
    options.limits.resets = 50;
    options.limits.odd_frames = 100;
    options.limits.streams = EXCHANGES;
    struct http_listener *listener = http_listener_new(loop, &options);
    insist(listener != NULL && http1_conn_new(listener, -1, NULL, 0, &conn));
    if (!raw) {
        wire_feed(&conn->wire, NGHTTP2_CLIENT_MAGIC, NGHTTP2_CLIENT_MAGIC_LEN);
        wire_feed(&conn->wire, settings, 9);
    }
    feed(loop, &(struct place){.listener = listener}, &conn->wire, bytes, n);
    if (!LIST_EMPTY(&listener->conns) && conn->http2 != NULL)
        insist(conn->http2->link.held_bytes <= conn->http2->link.n_flows * HTTP2_FLOW_WINDOW);
    if (!LIST_EMPTY(&listener->conns))
        wire_feed_eof(&conn->wire);
    http_listener_free(listener);
}

static void send_requests(struct http_client *client, struct http_origin *origin)
{
    struct http_timeouts timeouts = {0};

    for (size_t i = 0; i < EXCHANGES; i++) {
        struct party *party = &world.parties[world.n++];
        struct http_head head = {.method = i == 1 ? SLICE("HEAD") : SLICE("POST"),
                                 .target = SLICE("/"),
                                 .length = i % 2 == 0 ? -1 : 0};

        *party = (struct party){.begun = true};
        party->out = http_send(client, origin, &head, &timeouts, &client_ops, party);
        insist(party->out != NULL);
        world.begun++;
    }
}

/* For a wire before the client has it. */
static const struct wire_ops no_ops;

static void attack_client(struct net_loop *loop, bool raw, const uint8_t *bytes, size_t n)
{
    struct http_client_options options;
    struct http_origin_options where;
    struct http_client *client;
    struct http_origin *origin;

    http_client_options_init(&options);
    options.header_bytes = 1024;
    http_origin_options_init(&where);
    where.host = "127.0.0.1";
    where.port = 1;
    where.http2 = HTTP2_PRIOR;
    insist(http_client_new(loop, &options, &client) == TG_OK);
    insist(http_origin_new(&where, &origin, NULL) == TG_OK);
    struct http_conn_pool *pool = http_conn_pool_of(client, origin);
    struct out_conn *conn = out_conn_new(pool);
    insist(conn != NULL && wire_accept(&conn->wire, loop, &no_ops, -1, NULL));
    conn->shared = true;
    pool->dialling = conn;
    send_requests(client, origin);
    http2_dial_up(conn);
    net_loop_settle(loop);
    if (!raw)
        wire_feed(&conn->wire, settings, 9);
    feed(loop, &(struct place){.pool = pool, .conn = conn}, &conn->wire, bytes, n);
    for (size_t i = 0; i < world.n; i++)
        if (world.parties[i].out != NULL) {
            http_outbound_cancel(world.parties[i].out);
            world.over++;
        }
    http_origin_unref(origin);
    http_client_free(client);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct net_loop *loop;
    struct clock clock;

    if (size < 2 || size < 2 + (size_t)data[1] % 16)
        return 0;
    size_t n_whims = data[1] % 16;
    const uint8_t *bytes = data + 2 + n_whims;
    size_t n = size - 2 - n_whims;

    world = (struct world){.whims = data + 2, .n_whims = n_whims};
    clock_init(&clock);
    insist(net_loop_new(&clock, &loop) == TG_OK);
    if (data[0] & 1)
        attack_client(loop, data[0] & 2, bytes, n);
    else
        attack_server(loop, data[0] & 2, bytes, n);
    net_loop_settle(loop);
    insist(world.begun == world.over);
    net_loop_free(loop);
    return 0;
}
