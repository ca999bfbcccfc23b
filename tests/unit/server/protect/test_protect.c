/* test_protect.c - requests through a protected route, over sockets of this machine.
 *
 * Everything happens in one thread: a loop with the upstream and the clients, and the worker's.
 * They turn alternately until what is waited for has happened, so no time is measured and nothing
 * sleeps.
 */
#include "check.h"

#include <stdio.h>
#include <string.h>

#include "server/runtime/worker.h"
#include "server/serve/services.h"

enum { SEEN_MAX = 8 };

/* One request, as the upstream sees it. */
struct seen {
    struct http_inbound *in;
    char head[2000];
    size_t body;
    bool ended, left; /* the body is complete; gone() has come */
    enum http_why why;
};

/* One request, as the client sees it. */
struct asked {
    struct http_outbound *out;
    int status;
    size_t body;
    bool done, failed;
    char reason[64], code[400];
};

static struct {
    struct net_loop *loop;
    struct http_listener *upstream;
    struct http_client *client;
    struct http_origin *origin; /* the gateway */
    struct gateway *gateway;
    struct worker worker;
    struct clock clock;
    struct seen seen[SEEN_MAX];
    size_t n_seen;
    bool paused; /* clients take nothing */
} world;

/* ---- the upstream ---- */

static void up_begin(void *context, struct http_inbound *in)
{
    struct seen *seen = &world.seen[world.n_seen++];
    size_t n = 0;

    (void)context;
    assert_true(world.n_seen < SEEN_MAX);
    *seen = (struct seen){.in = in};
    in->owner = seen;
    n += (size_t)snprintf(seen->head, sizeof seen->head, "%.*s %.*s\n", (int)in->head.method.n,
                          in->head.method.at, (int)in->head.target.n, in->head.target.at);
    for (size_t i = 0; i < in->head.n_fields; i++)
        n += (size_t)snprintf(seen->head + n, sizeof seen->head - n, "%.*s: %.*s\n",
                              (int)in->head.fields[i].name.n, in->head.fields[i].name.at,
                              (int)in->head.fields[i].value.n, in->head.fields[i].value.at);
}

static void up_data(struct http_inbound *in, struct slice bytes)
{
    ((struct seen *)in->owner)->body += bytes.n;
}

static void up_end(struct http_inbound *in)
{
    ((struct seen *)in->owner)->ended = true;
}

static void up_gone(struct http_inbound *in, enum http_why why)
{
    struct seen *seen = in->owner;

    seen->left = true;
    seen->why = why;
}

static const struct http_server_ops up_ops = {
    .begin = up_begin, .data = up_data, .end = up_end, .gone = up_gone};

static void answer(struct seen *seen, int status, const char *body)
{
    struct http_field fields[] = {{SLICE("x-upstream"), SLICE("yes")},
                                  {SLICE("keep-alive"), SLICE("timeout=5")}};
    struct http_head head = {.status = status, .fields = fields, .n_fields = 2};

    http_inbound_send(seen->in, &head, slice_of(body));
}

/* ---- the client ---- */

static void got_head(struct http_outbound *out, const struct http_head *head)
{
    struct asked *asked = out->owner;
    struct slice reason = http_find(head, SLICE("x-tollgate-reason"));

    asked->status = head->status;
    snprintf(asked->reason, sizeof asked->reason, "%.*s", (int)reason.n, reason.at);
}

static void got_data(struct http_outbound *out, struct slice bytes)
{
    struct asked *asked = out->owner;

    if (asked->body == 0)
        snprintf(asked->code, sizeof asked->code, "%.*s", (int)bytes.n, bytes.at);
    asked->body += bytes.n;
    if (world.paused)
        http_outbound_pause(out);
}

static void got_end(struct http_outbound *out)
{
    ((struct asked *)out->owner)->done = true;
}

static void got_failed(struct http_outbound *out, enum http_why why, const char *text)
{
    (void)why;
    (void)text;
    ((struct asked *)out->owner)->failed = true;
}

static const struct http_client_ops client_ops = {
    .head = got_head, .data = got_data, .end = got_end, .failed = got_failed};

static void ask(struct asked *asked, const char *method, const char *target, int64_t length,
                struct http_field *field)
{
    struct http_field fields[] = {{SLICE("authorization"), SLICE("Bearer of-the-client")},
                                  {SLICE("x-forwarded-for"), SLICE("9.9.9.9")},
                                  field ? *field : (struct http_field){SLICE("x-a"), SLICE("b")}};
    struct http_head head = {.method = slice_of(method),
                             .target = slice_of(target),
                             .fields = fields,
                             .n_fields = 3,
                             .length = length};
    struct http_timeouts none = {0};

    *asked = (struct asked){0};
    asked->out = http_send(world.client, world.origin, &head, &none, &client_ops, asked);
    assert_non_null(asked->out);
}

/* ---- the world ---- */

static void turn(void)
{
    net_loop_turn(world.loop, false);
    net_loop_turn(world.worker.loop, false);
}

/* Until it is so. What never becomes so ends with the test's time. */
#define await(condition) \
    do                   \
        turn();          \
    while (!(condition))

static int64_t in_flight(void)
{
    struct tg_gate_stats stats;

    tg_gate_get_stats(world.gateway->gate, &stats);
    return stats.in_flight;
}

static int64_t queued(void)
{
    struct tg_gate_stats stats;

    tg_gate_get_stats(world.gateway->gate, &stats);
    return stats.queued[TG_PRIORITY_HIGH] + stats.queued[TG_PRIORITY_NORMAL] +
           stats.queued[TG_PRIORITY_LOW];
}

static struct http_origin *origin_of(int port)
{
    struct http_origin_options options;
    struct http_origin *origin;
    struct tg_problem problem;

    http_origin_options_init(&options);
    options.host = "127.0.0.1";
    options.port = port;
    assert_int_equal(http_origin_new(&options, &origin, &problem), TG_OK);
    return origin;
}

/* `gate` is its section; the limit is 1 and whoever waits may do so for an hour. */
static void open_gateway(int upstream_port, const char *gate)
{
    struct config_problems problems;
    struct tg_problem trouble;
    struct tg_problem problem;
    struct config config;
    char yaml[1000];

    snprintf(yaml, sizeof yaml,
             "listen: {gateway: \"127.0.0.1:0\"}\n"
             "ledger: {path: \":memory:\"}\n"
             "log: {level: error}\n"
             "trust_headers_from: [127.0.0.1/32]\n"
             "gate:\n"
             "  concurrency: {law: fixed, initial: 1}\n"
             "  queue: {wait: {high: 1h, normal: 1h, low: 0ms}}\n"
             "%s"
             "protect:\n"
             "  - {prefix: /api, upstream: \"http://127.0.0.1:%d/base\"}\n",
             gate, upstream_port);
    if (config_parse(NULL, yaml, strlen(yaml), &config, &problems) != CONFIG_READ)
        fail_msg("%s", problems.list[0].text);
    config_problems_free(&problems);
    if (!gateway_new(&services, &config, &world.clock, 1, &world.gateway, &trouble))
        fail_msg("%s", trouble.text);
    if (!worker_init(&world.worker, world.gateway, 0, &world.worker, &problem))
        fail_msg("%s", problem.text);
    world.origin = origin_of(http_listener_port(world.worker.listener));
}

static void open_world(const char *gate)
{
    struct http_listen_options listen;
    struct http_client_options client;
    struct tg_problem problem;

    memset(&world, 0, sizeof world);
    clock_init(&world.clock);
    assert_int_equal(net_loop_new(&world.clock, &world.loop), TG_OK);
    http_listen_options_init(&listen);
    listen.ops = &up_ops;
    assert_int_equal(http_listen(world.loop, "127.0.0.1:0", &listen, &world.upstream, &problem),
                     TG_OK);
    http_client_options_init(&client);
    assert_int_equal(http_client_new(world.loop, &client, &world.client), TG_OK);
    open_gateway(http_listener_port(world.upstream), gate);
}

/* At rest, nothing is held by anybody. */
static void close_world(void)
{
    await(atomic_load(&world.gateway->counts.open) == 0);
    assert_int_equal(in_flight(), 0);
    assert_int_equal(queued(), 0);
    http_origin_unref(world.origin);
    worker_fini(&world.worker);
    gateway_free(world.gateway);
    http_client_free(world.client);
    http_listener_free(world.upstream);
    net_loop_free(world.loop);
}

/* ---- tests ---- */

static void a_request_goes_on_as_it_came(void **state)
{
    struct asked asked;

    (void)state;
    open_world("");
    ask(&asked, "DELETE", "/api/x?y=1", 0, NULL);
    await(world.n_seen == 1 && world.seen[0].ended);
    assert_int_equal(in_flight(), 1);
    answer(&world.seen[0], 418, "short and stout");
    await(asked.done);
    assert_int_equal(asked.status, 418);
    assert_string_equal(asked.code, "short and stout");
    assert_non_null(strstr(world.seen[0].head, "DELETE /base/api/x?y=1\n"));
    assert_non_null(strstr(world.seen[0].head, "authorization: Bearer of-the-client\n"));
    assert_non_null(strstr(world.seen[0].head, "x-forwarded-for: 9.9.9.9, 127.0.0.1\n"));
    close_world();
}

static void a_body_streams_both_ways(void **state)
{
    struct asked asked;
    static char block[100000];
    size_t sent = 0, more = 0;

    (void)state;
    open_world("");
    ask(&asked, "POST", "/api", -1, NULL);
    await(world.n_seen == 1);
    for (; sent < 4000000; sent += sizeof block)
        http_outbound_write(asked.out, (struct slice){block, sizeof block});
    await(world.seen[0].body > 0);
    assert_false(world.seen[0].ended);
    struct http_head head = {.status = 200, .length = -1};
    http_inbound_reply(world.seen[0].in, &head);
    for (; more < 4000000; more += sizeof block)
        http_inbound_write(world.seen[0].in, (struct slice){block, sizeof block});
    await(asked.body > 0);
    http_outbound_finish(asked.out);
    await(world.seen[0].ended);
    http_inbound_finish(world.seen[0].in);
    await(asked.done);
    assert_int_equal(world.seen[0].body, sent);
    assert_int_equal(asked.body, more);
    close_world();
}

/* More fields than we can pass on: it is all of a reply, or none. */
static void a_reply_with_too_many_fields_is_502(void **state)
{
    static struct http_field fields[HTTP_FIELDS_MAX + 10];
    struct http_head head = {.status = 200, .fields = fields, .n_fields = HTTP_FIELDS_MAX + 10};
    struct asked asked;

    (void)state;
    for (size_t i = 0; i < head.n_fields; i++)
        fields[i] = (struct http_field){SLICE("x-one-of-many"), SLICE("1")};
    open_world("");
    ask(&asked, "GET", "/api", 0, NULL);
    await(world.n_seen == 1 && world.seen[0].ended);
    http_inbound_send(world.seen[0].in, &head, SLICE("fine"));
    await(asked.done);
    assert_int_equal(asked.status, 502);
    assert_string_equal(asked.reason, "upstream_error");
    close_world();
}

static void who_waits_is_let_through_when_a_place_is_free(void **state)
{
    struct asked first, second;

    (void)state;
    open_world("");
    ask(&first, "GET", "/api/1", 0, NULL);
    await(world.n_seen == 1);
    ask(&second, "GET", "/api/2", 0, NULL);
    await(queued() == 1);
    assert_int_equal(world.n_seen, 1);
    answer(&world.seen[0], 200, "one");
    await(world.n_seen == 2);
    answer(&world.seen[1], 200, "two");
    await(second.done);
    assert_string_equal(second.code, "two");
    close_world();
}

static void who_may_not_wait_is_refused_in_our_form(void **state)
{
    struct http_field low = {SLICE("x-tollgate-priority"), SLICE("low")};
    struct asked first, second;

    (void)state;
    open_world("");
    ask(&first, "GET", "/api/1", 0, NULL);
    await(world.n_seen == 1);
    ask(&second, "POST", "/api/2", 1000000, &low); /* its body is never wanted */
    await(second.done);
    assert_int_equal(second.status, 429);
    assert_string_equal(second.reason, "concurrency");
    assert_non_null(strstr(second.code, "{\"error\":{\"message\":\"server overloaded"));
    answer(&world.seen[0], 200, "");
    await(first.done);
    assert_int_equal(world.n_seen, 1);
    close_world();
}

static void a_peer_is_the_node_that_a_trusted_caller_names(void **state)
{
    struct http_field one = {SLICE("x-deriva-node-id"), SLICE("one")};
    struct http_field two = {SLICE("x-deriva-node-id"), SLICE("two")};
    struct asked first, again, other;

    (void)state;
    open_world("  peers: {limit: 1}\n");
    ask(&first, "GET", "/api/1", 0, &one);
    await(world.n_seen == 1);
    ask(&again, "GET", "/api/2", 0, &one);
    await(again.done);
    assert_int_equal(again.status, 429);
    assert_string_equal(again.reason, "peer_limit");
    ask(&other, "GET", "/api/3", 0, &two);
    await(queued() == 1);
    answer(&world.seen[0], 200, "");
    await(world.n_seen == 2);
    answer(&world.seen[1], 200, "");
    await(other.done && other.status == 200);
    close_world();
}

static void who_hangs_up_in_the_queue_leaves_no_trace(void **state)
{
    struct asked first, second;

    (void)state;
    open_world("");
    ask(&first, "GET", "/api/1", 0, NULL);
    await(world.n_seen == 1);
    ask(&second, "POST", "/api/2", 5, NULL);
    await(queued() == 1);
    http_outbound_cancel(second.out);
    await(queued() == 0);
    answer(&world.seen[0], 200, "");
    await(first.done);
    assert_int_equal(world.n_seen, 1);
    assert_int_equal(atomic_load(&world.gateway->counts.hangups), 1);
    close_world();
}

static void the_upstream_sees_a_hangup(void **state)
{
    struct asked before, within;

    (void)state;
    open_world("");
    ask(&before, "GET", "/api/1", 0, NULL);
    await(world.n_seen == 1);
    http_outbound_cancel(before.out);
    await(world.seen[0].left);
    assert_int_equal(world.seen[0].why, HTTP_HANGUP);
    ask(&within, "GET", "/api/2", 0, NULL);
    await(world.n_seen == 2);
    struct http_head head = {.status = 200, .length = -1};
    http_inbound_reply(world.seen[1].in, &head);
    http_inbound_write(world.seen[1].in, SLICE("some"));
    await(within.body > 0);
    http_outbound_cancel(within.out);
    await(world.seen[1].left);
    assert_int_equal(world.seen[1].why, HTTP_HANGUP);
    close_world();
}

static void an_upstream_that_is_not_there_is_502(void **state)
{
    struct asked asked;

    (void)state;
    open_world("");
    int port = http_listener_port(world.upstream);
    http_listener_free(world.upstream);
    ask(&asked, "GET", "/api/1", 0, NULL);
    await(asked.done);
    assert_int_equal(asked.status, 502);
    assert_string_equal(asked.reason, "upstream_error");
    char shown[16];
    snprintf(shown, sizeof shown, "%d", port);
    assert_null(strstr(asked.code, shown)); /* where it is, is nobody's business */
    struct http_listen_options listen;
    struct tg_problem problem;
    http_listen_options_init(&listen);
    listen.ops = &up_ops;
    assert_int_equal(http_listen(world.loop, "127.0.0.1:0", &listen, &world.upstream, &problem),
                     TG_OK);
    close_world();
}

static void a_reply_that_breaks_off_breaks_off_for_the_client(void **state)
{
    struct asked asked;

    (void)state;
    open_world("");
    ask(&asked, "GET", "/api/1", 0, NULL);
    await(world.n_seen == 1);
    struct http_head head = {.status = 200, .length = 100};
    http_inbound_reply(world.seen[0].in, &head);
    http_inbound_write(world.seen[0].in, SLICE("only some"));
    await(asked.body > 0);
    http_inbound_abort(world.seen[0].in);
    await(asked.failed || asked.done);
    assert_true(asked.failed);
    close_world();
}

/* 64 MiB for a client that takes nothing: what is on its way is in buffers of the system and a
 * bounded rest, most is still with the upstream. */
static void a_client_that_takes_nothing_stops_the_upstream(void **state)
{
    static char block[1 << 20];
    struct asked asked;
    size_t total = 64 * sizeof block, before = SIZE_MAX;

    (void)state;
    open_world("");
    world.paused = true;
    ask(&asked, "GET", "/api/1", 0, NULL);
    await(world.n_seen == 1);
    struct http_head head = {.status = 200, .length = (int64_t)total};
    http_inbound_reply(world.seen[0].in, &head);
    for (size_t i = 0; i < total; i += sizeof block)
        http_inbound_write(world.seen[0].in, (struct slice){block, sizeof block});
    await(asked.body > 0);
    /* Until a thousand turns have moved nothing. */
    while (http_inbound_queued(world.seen[0].in) != before) {
        before = http_inbound_queued(world.seen[0].in);
        for (int i = 0; i < 1000; i++)
            turn();
    }
    assert_true(before > total / 4);
    world.paused = false;
    http_outbound_resume(asked.out);
    await(asked.done);
    assert_int_equal(asked.body, total);
    close_world();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_goes_on_as_it_came),
        cmocka_unit_test(a_body_streams_both_ways),
        cmocka_unit_test(a_reply_with_too_many_fields_is_502),
        cmocka_unit_test(who_waits_is_let_through_when_a_place_is_free),
        cmocka_unit_test(who_may_not_wait_is_refused_in_our_form),
        cmocka_unit_test(a_peer_is_the_node_that_a_trusted_caller_names),
        cmocka_unit_test(who_hangs_up_in_the_queue_leaves_no_trace),
        cmocka_unit_test(the_upstream_sees_a_hangup),
        cmocka_unit_test(an_upstream_that_is_not_there_is_502),
        cmocka_unit_test(a_reply_that_breaks_off_breaks_off_for_the_client),
        cmocka_unit_test(a_client_that_takes_nothing_stops_the_upstream),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
