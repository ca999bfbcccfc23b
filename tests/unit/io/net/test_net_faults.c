/* test_net_faults.c - the same exchange with its 1st, 2nd, 3rd ... allocation failing: one of the
 * two sides says so, every begin has its end, nothing stays behind, and the next exchange works.
 *
 * Over TCP and over a local socket, and by HTTP/2. libuv's own memory is not among what fails: it
 * grows with the numbers of descriptors, and a first exchange has seen these.
 */
#include "check.h"

#include "failing_malloc.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "io/http/http_client.h"
#include "io/http/http_server.h"

enum { PIECE = 9000,
       PIECES = 3 }; /* each above what goes out at once and what a block holds */

/* Both sides; nothing of it allocates. */
struct world {
    struct clock clock;
    struct net_loop *loop;
    struct http_listener *listener;
    struct http_client *client;
    struct http_origin *origin;
    int begun, gone, ended, failed, status;
    size_t got, answered;
};

static char piece[PIECE];

static void in_begin(void *context, struct http_inbound *in)
{
    struct world *world = context;

    world->begun++;
    in->owner = world;
}

static void in_data(struct http_inbound *in, struct slice bytes)
{
    ((struct world *)in->owner)->got += bytes.n;
}

/* In chunks, with a head larger than a block. */
static void in_end(struct http_inbound *in)
{
    struct http_field field = {SLICE("x-large"), {piece, 5000}};
    struct http_head head = {.status = 200, .fields = &field, .n_fields = 1, .length = -1};

    http_inbound_reply(in, &head);
    for (int i = 0; i < PIECES; i++)
        http_inbound_write(in, (struct slice){piece, PIECE});
    http_inbound_finish(in);
}

static void in_gone(struct http_inbound *in, enum http_why why)
{
    (void)why;
    ((struct world *)in->context)->gone++;
}

static const struct http_server_ops server_ops = {
    .begin = in_begin,
    .data = in_data,
    .end = in_end,
    .gone = in_gone,
};

static void out_head(struct http_outbound *out, const struct http_head *head)
{
    ((struct world *)out->owner)->status = head->status;
}

static void out_data(struct http_outbound *out, struct slice bytes)
{
    ((struct world *)out->owner)->answered += bytes.n;
}

static void out_end(struct http_outbound *out)
{
    ((struct world *)out->owner)->ended++;
}

static void out_failed(struct http_outbound *out, enum http_why why, const char *text)
{
    if (why != HTTP_NO_MEMORY && why != HTTP_RESET && why != HTTP_UNREACHABLE)
        fail_msg("%s: %s", http_why_text(why), text);
    ((struct world *)out->owner)->failed++;
}

static const struct http_client_ops client_ops = {
    .head = out_head,
    .data = out_data,
    .end = out_end,
    .failed = out_failed,
};

/* One exchange, to its last callback on both sides. The time-outs are for a test that hangs. */
static bool exchange(struct world *world)
{
    struct http_timeouts timeouts = {.total = 20000};
    struct http_head head = {.method = SLICE("POST"), .target = SLICE("/"), .length = -1};
    int begun = world->begun, over = world->ended + world->failed, ended = world->ended;

    world->got = world->answered = 0;
    struct http_outbound *out =
        http_send(world->client, world->origin, &head, &timeouts, &client_ops, world);
    for (int i = 0; out != NULL && i < PIECES; i++)
        http_outbound_write(out, (struct slice){piece, PIECE});
    if (out != NULL)
        http_outbound_finish(out);
    while (out != NULL && world->ended + world->failed == over)
        net_loop_turn(world->loop, true);
    while (world->gone < world->begun)
        net_loop_turn(world->loop, true);
    assert_true(world->begun - begun <= 1);
    return world->ended > ended;
}

static void expect_whole(struct world *world)
{
    assert_true(exchange(world));
    assert_int_equal(world->status, 200);
    assert_int_equal(world->got, PIECES * PIECE);
    assert_int_equal(world->answered, PIECES * PIECE);
}

static void open_world(struct world *world, const char *address, bool http2)
{
    struct http_listen_options listening;
    struct http_client_options options;
    struct http_origin_options origin;
    struct tg_problem problem;

    *world = (struct world){.begun = 0};
    clock_init(&world->clock);
    assert_int_equal(net_loop_new(&world->clock, &world->loop), TG_OK);
    http_listen_options_init(&listening);
    listening.ops = &server_ops;
    listening.context = world;
    listening.http2 = http2;
    assert_int_equal(http_listen(world->loop, address, &listening, &world->listener, &problem),
                     TG_OK);
    http_client_options_init(&options);
    options.idle_max = 0; /* so that connecting is part of every exchange */
    assert_int_equal(http_client_new(world->loop, &options, &world->client), TG_OK);
    http_origin_options_init(&origin);
    origin.host = strncmp(address, "unix:", 5) == 0 ? address : "127.0.0.1";
    origin.port = http_listener_port(world->listener);
    origin.http2 = http2 ? HTTP2_PRIOR : HTTP2_NEVER;
    assert_int_equal(http_origin_new(&origin, &world->origin, &problem), TG_OK);
}

static void close_world(struct world *world)
{
    http_origin_unref(world->origin);
    http_client_free(world->client);
    http_listener_free(world->listener);
    net_loop_free(world->loop);
    assert_int_equal(world->begun, world->gone);
}

/* What a world without failures leaves behind, as far as it is counted: not all that is freed was
 * allocated by ways that are (strdup). */
static long usual_rest(const char *address, bool http2)
{
    struct world world;
    long before = live;

    open_world(&world, address, http2);
    expect_whole(&world);
    close_world(&world);
    return live - before;
}

static void lead_lives(const char *address, bool http2, bool persistently)
{
    struct world world;
    long rest = usual_rest(address, http2), before = live, n = 0;
    bool failed = true;

    open_world(&world, address, http2);
    expect_whole(&world);
    for (; failed; n++) {
        assert_int_equal(http_client_busy(world.client), 0);
        assert_int_equal(http_listener_busy(world.listener), 0);
        keeps_failing = persistently;
        until_failure = n;
        exchange(&world);
        failed = until_failure <= 0 && (persistently || until_failure < 0);
        until_failure = -1;
        expect_whole(&world);
    }
    assert_true(n > 5); /* there was something to fail */
    close_world(&world);
    assert_int_equal(live - before, rest);
}

static void allocations_that_fail_end_one_exchange(void **state)
{
    const char *folder = getenv("TMPDIR");
    char address[100];

    (void)state;
    need_allocator();
    snprintf(address, sizeof address, "unix:%.60s/net-faults-%ld",
             folder != NULL ? folder : "/tmp", (long)getpid());
    for (int persistently = 0; persistently < 2; persistently++) {
        lead_lives("127.0.0.1:0", false, persistently);
        lead_lives(address, false, persistently);
        lead_lives("127.0.0.1:0", true, persistently);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allocations_that_fail_end_one_exchange),
    };

    memset(piece, 'x', sizeof piece);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
