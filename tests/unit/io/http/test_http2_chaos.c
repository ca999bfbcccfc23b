/* test_http2_chaos.c - exchanges by HTTP/2 between both ends of ours, driven by chance: bodies of
 * any size in any pieces, pauses, early replies, trailers, cancellations, aborts.
 *
 * Whatever happens to one exchange, every other's bytes arrive whole and in order, each begin has
 * its gone and each request its end or failure, and nothing is left behind.
 */
#include "net_kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "draw.h"

#define AT_A_TIME 40
#define IN_ALL 1500

/* The byte at a place of the body of an exchange of this number. */
static char byte_at(uint64_t number, size_t at)
{
    return (char)(number * 131 + at * 7 + (at >> 8) * 13);
}

/* The client's side of one exchange. */
struct caller {
    struct chaos *chaos;
    struct http_outbound *out; /* null: none */
    uint64_t number;
    size_t body_n, written; /* bytes of the request */
    size_t got;             /* bytes of the reply */
    size_t want;            /* how many its head states */
    int paused;             /* for so many rounds more */
    bool blocked;           /* until there is room */
    bool headed;
};

/* The server's. */
struct server {
    struct chaos *chaos;
    struct http_inbound *in; /* null: none */
    uint64_t number;
    size_t got;
    size_t body_n, written; /* bytes of the reply */
    int paused, wait;       /* rounds; until it replies */
    bool replied, blocked, ended;
};

struct chaos {
    struct draw draw;
    struct net_loop *loop;
    struct http_listener *listener;
    struct http_client *client;
    struct http_origin *origin;
    struct caller callers[AT_A_TIME];
    struct server servers[AT_A_TIME * 8];
    uint64_t next;
    size_t ended, failed, cancelled, begun, gone, whole;
};

/* ---- The server ------------------------------------------------------------------------------ */

static uint64_t number_of(const struct http_head *head)
{
    char text[32] = "";

    memcpy(text, head->target.at + 1, head->target.n - 1);
    return strtoull(text, NULL, 10);
}

static void in_begin(void *context, struct http_inbound *in)
{
    struct chaos *chaos = context;
    size_t i = 0;

    while (chaos->servers[i].in != NULL)
        assert_true(++i < COUNT_OF(chaos->servers));
    struct server *server = &chaos->servers[i];
    *server = (struct server){.chaos = chaos, .in = in, .number = number_of(&in->head)};
    server->body_n = (size_t)draw_magnitude(&chaos->draw, 200000) - 1;
    server->wait = (int)draw_between(&chaos->draw, 0, 3);
    in->owner = server;
    chaos->begun++;
    if (draw_chance(&chaos->draw, 20)) {
        server->paused = (int)draw_between(&chaos->draw, 1, 5);
        http_inbound_pause(in);
    }
}

static void in_data(struct http_inbound *in, struct slice bytes)
{
    struct server *server = in->owner;

    assert_true(server->paused == 0 && !server->ended);
    for (size_t i = 0; i < bytes.n; i++)
        assert_int_equal(bytes.at[i], byte_at(server->number, server->got + i));
    server->got += bytes.n;
    if (draw_chance(&server->chaos->draw, 5)) {
        server->paused = (int)draw_between(&server->chaos->draw, 1, 5);
        http_inbound_pause(in);
    }
}

static void in_end(struct http_inbound *in)
{
    struct server *server = in->owner;

    assert_true(server->paused == 0 && !server->ended);
    server->ended = true;
    assert_int_equal(in->n_trailers, server->number % 3 == 0);
}

static void in_room(struct http_inbound *in)
{
    ((struct server *)in->owner)->blocked = false;
}

static void in_gone(struct http_inbound *in, enum http_why why)
{
    struct server *server = in->owner;

    server->chaos->gone++;
    server->chaos->whole += why == HTTP_DONE;
    server->in = NULL;
}

static const struct http_server_ops server_ops = {
    .begin = in_begin,
    .data = in_data,
    .end = in_end,
    .room = in_room,
    .gone = in_gone,
};

/* Up to 50,000 bytes of a body. */
static struct slice next_piece(struct chaos *chaos, uint64_t number, size_t at, size_t left)
{
    static char piece[50000];
    size_t n = (size_t)draw_magnitude(&chaos->draw, sizeof piece);

    n = n < left ? n : left;
    for (size_t i = 0; i < n; i++)
        piece[i] = byte_at(number, at + i);
    return (struct slice){piece, n};
}

static void start_reply(struct server *server)
{
    char digits[HTTP_NUMBER_MAX];
    struct http_field length = {SLICE("x-length"), {digits, 0}};
    struct http_head head = {.status = 200, .fields = &length, .n_fields = 1};

    length.value.n = http_put_number(digits, (int64_t)server->body_n);
    head.length = draw_chance(&server->chaos->draw, 50) ? (int64_t)server->body_n : -1;
    server->replied = true;
    http_inbound_reply(server->in, &head);
}

static void step_server(struct server *server)
{
    struct http_field trailer = {SLICE("x-end"), SLICE("1")};
    struct chaos *chaos = server->chaos;

    if (server->in == NULL)
        return;
    if (server->paused > 0 && --server->paused == 0)
        http_inbound_resume(server->in);
    if (draw_chance(&chaos->draw, 1)) {
        http_inbound_abort_with(server->in, HTTP2_CANCEL);
        return;
    }
    if (!server->replied && (server->ended || draw_chance(&chaos->draw, 5)) && server->wait-- <= 0)
        start_reply(server);
    if (!server->replied || server->blocked)
        return;
    struct slice piece =
        next_piece(chaos, server->number, server->written, server->body_n - server->written);
    server->blocked = http_inbound_write(server->in, piece) > HTTP_OUTPUT_HIGH;
    server->written += piece.n;
    if (server->written == server->body_n)
        http_inbound_finish_with(server->in, &trailer, server->number % 2);
}

/* ---- The client ------------------------------------------------------------------------------ */

static void out_head(struct http_outbound *out, const struct http_head *head)
{
    struct caller *caller = out->owner;
    struct slice length = http_find(head, SLICE("x-length"));
    char text[32] = "";

    assert_true(caller->paused == 0 && !caller->headed);
    memcpy(text, length.at, length.n);
    caller->want = strtoull(text, NULL, 10);
    caller->headed = true;
}

static void out_data(struct http_outbound *out, struct slice bytes)
{
    struct caller *caller = out->owner;

    assert_true(caller->paused == 0 && caller->headed);
    for (size_t i = 0; i < bytes.n; i++)
        assert_int_equal(bytes.at[i], byte_at(caller->number, caller->got + i));
    caller->got += bytes.n;
    if (draw_chance(&caller->chaos->draw, 5)) {
        caller->paused = (int)draw_between(&caller->chaos->draw, 1, 5);
        http_outbound_pause(out);
    }
}

static void out_end(struct http_outbound *out)
{
    struct caller *caller = out->owner;

    assert_true(caller->paused == 0 && caller->headed);
    assert_int_equal(caller->got, caller->want);
    assert_int_equal(out->n_trailers, caller->want > 0 ? caller->number % 2 : out->n_trailers);
    caller->out = NULL;
    caller->chaos->ended++;
}

static void out_room(struct http_outbound *out)
{
    ((struct caller *)out->owner)->blocked = false;
}

static void out_failed(struct http_outbound *out, enum http_why why, const char *text)
{
    struct caller *caller = out->owner;

    if (why != HTTP_RESET)
        fail_msg("%s: %s", http_why_text(why), text);
    caller->out = NULL;
    caller->chaos->failed++;
}

static const struct http_client_ops client_ops = {
    .head = out_head,
    .data = out_data,
    .end = out_end,
    .room = out_room,
    .failed = out_failed,
};

static void start_call(struct chaos *chaos, struct caller *caller)
{
    struct http_timeouts timeouts = {.connect = 20000};
    struct http_head head = {.method = SLICE("POST")};
    char target[32];

    *caller = (struct caller){.chaos = chaos, .number = ++chaos->next};
    caller->body_n = (size_t)draw_magnitude(&chaos->draw, 200000);
    head.length = draw_chance(&chaos->draw, 50) ? (int64_t)caller->body_n : -1;
    head.target = (struct slice){
        target, (size_t)snprintf(target, sizeof target, "/%llu", (unsigned long long)chaos->next)};
    caller->out = http_send(chaos->client, chaos->origin, &head, &timeouts, &client_ops, caller);
    assert_non_null(caller->out);
}

static void step_caller(struct chaos *chaos, struct caller *caller)
{
    struct http_field trailer = {SLICE("x-end"), SLICE("1")};

    if (caller->out == NULL && chaos->next < IN_ALL)
        start_call(chaos, caller);
    if (caller->out == NULL)
        return;
    if (caller->paused > 0 && --caller->paused == 0)
        http_outbound_resume(caller->out);
    if (draw_chance(&chaos->draw, 1)) {
        http_outbound_cancel_with(caller->out, HTTP2_CANCEL);
        caller->out = NULL;
        chaos->cancelled++;
        return;
    }
    if (caller->blocked || caller->written == caller->body_n)
        return;
    struct slice piece =
        next_piece(chaos, caller->number, caller->written, caller->body_n - caller->written);
    caller->blocked = http_outbound_write(caller->out, piece) > HTTP_OUTPUT_HIGH;
    caller->written += piece.n;
    if (caller->written == caller->body_n)
        http_outbound_finish_with(caller->out, &trailer, caller->number % 3 == 0);
}

/* ---- Both ------------------------------------------------------------------------------------ */

static void chaos_init(struct chaos *chaos, struct clock *clock, uint64_t seed)
{
    struct http_listen_options listening;
    struct http_client_options options;
    struct http_origin_options origin;
    struct tg_problem problem;

    *chaos = (struct chaos){.draw = draw_stream(seed, 1)};
    clock_init(clock);
    assert_int_equal(net_loop_new(clock, &chaos->loop), TG_OK);
    http_listen_options_init(&listening);
    listening.ops = &server_ops;
    listening.context = chaos;
    listening.http2 = true;
    listening.limits.streams = 12; /* so that there are several connections, and waiting */
    listening.limits.linger_ms = 5;
    assert_int_equal(
        http_listen(chaos->loop, "127.0.0.1:0", &listening, &chaos->listener, &problem), TG_OK);
    http_client_options_init(&options);
    assert_int_equal(http_client_new(chaos->loop, &options, &chaos->client), TG_OK);
    http_origin_options_init(&origin);
    origin.host = "127.0.0.1";
    origin.port = http_listener_port(chaos->listener);
    origin.http2 = HTTP2_PRIOR;
    assert_int_equal(http_origin_new(&origin, &chaos->origin, &problem), TG_OK);
}

static void exchanges_keep_their_promises_whatever_happens(void **state)
{
    uint64_t seed = *(uint64_t *)*state;
    struct chaos *chaos = malloc(sizeof *chaos);
    struct clock clock;

    assert_non_null(chaos);
    chaos_init(chaos, &clock, seed);
    while (chaos->next < IN_ALL || http_client_busy(chaos->client) > 0 ||
           http_listener_busy(chaos->listener) > 0) {
        for (size_t i = 0; i < AT_A_TIME; i++)
            step_caller(chaos, &chaos->callers[i]);
        for (size_t i = 0; i < COUNT_OF(chaos->servers); i++)
            step_server(&chaos->servers[i]);
        net_loop_turn(chaos->loop, false);
    }
    assert_int_equal(chaos->ended + chaos->failed + chaos->cancelled, IN_ALL);
    assert_int_equal(chaos->begun, chaos->gone);
    assert_true(chaos->ended > IN_ALL / 3); /* it was not all failure */
    assert_true(chaos->whole > 0 && chaos->failed > 0 && chaos->cancelled > 0);
    http_origin_unref(chaos->origin);
    http_client_free(chaos->client);
    http_listener_free(chaos->listener);
    net_loop_free(chaos->loop);
    free(chaos);
}

int main(void)
{
    uint64_t seed = draw_seed("test_http2_chaos");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(exchanges_keep_their_promises_whatever_happens, &seed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
