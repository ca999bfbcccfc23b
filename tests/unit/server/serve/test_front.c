/* test_front.c - which service owns which request, on both listeners, and who gets its events.
 *
 * The services are fakes that write down what they are told; the front is the real one.
 */
#include "check.h"

#include <stdio.h>
#include <string.h>

#include "net_rpc_kit.h"
#include "server/runtime/rpc.h"
#include "server/runtime/service.h"
#include "server/runtime/worker.h"
#include "server/serve/front.h"

static char told[512]; /* "a.begin a.data ..." */

static void tell(const char *service, const char *what)
{
    size_t n = strlen(told);

    snprintf(told + n, sizeof told - n, "%s%s.%s", n > 0 ? " " : "", service, what);
}

/* ---- services that are none ---- */

struct owner {
    const struct service *service; /* the first member */
};

static bool has_prefix(const struct http_inbound *in, const char *prefix)
{
    return in->head.target.n >= strlen(prefix) &&
           memcmp(in->head.target.at, prefix, strlen(prefix)) == 0;
}

/* One that takes targets with this prefix. Under PREFIX/full it has no memory for them. */
#define FAKE(letter, prefix)                                                   \
    static const struct service fake_##letter;                                 \
    static struct owner owner_##letter = {&fake_##letter};                     \
    static bool letter##_begin(struct worker *worker, struct http_inbound *in) \
    {                                                                          \
        assert_ptr_equal(worker, in->context);                                 \
        tell(#letter, "asked");                                                \
        if (!has_prefix(in, prefix))                                           \
            return false;                                                      \
        if (has_prefix(in, prefix "/full"))                                    \
            http_inbound_abort(in);                                            \
        else                                                                   \
            in->owner = &owner_##letter;                                       \
        return true;                                                           \
    }                                                                          \
    static void letter##_data(struct http_inbound *in, struct slice bytes)     \
    {                                                                          \
        assert_ptr_equal(in->owner, &owner_##letter);                          \
        assert_int_equal(bytes.n, 3);                                          \
        tell(#letter, "data");                                                 \
    }                                                                          \
    static void letter##_end(struct http_inbound *in)                          \
    {                                                                          \
        assert_ptr_equal(in->owner, &owner_##letter);                          \
        tell(#letter, "end");                                                  \
    }                                                                          \
    static void letter##_gone(struct http_inbound *in, enum http_why why)      \
    {                                                                          \
        assert_ptr_equal(in->owner, &owner_##letter);                          \
        assert_int_equal(why, HTTP_HANGUP);                                    \
        tell(#letter, "gone");                                                 \
    }                                                                          \
    static void letter##_closed(struct worker *worker, uint64_t connection)    \
    {                                                                          \
        (void)worker;                                                          \
        assert_int_equal(connection, 7);                                       \
        tell(#letter, "closed");                                               \
    }

FAKE(a, "/a")
FAKE(b, "/b")
FAKE(c, "/c")
FAKE(z, "/") /* takes everything, as the proxy does */

static void b_room(struct http_inbound *in)
{
    assert_ptr_equal(in->owner, &owner_b);
    tell("b", "room");
}

static bool b_is_kept(struct worker *worker, uint64_t connection)
{
    (void)worker;
    return connection == 7;
}

static const struct grpc_method METHODS[] = {{.name = "Do"}};
static const struct grpc_service RPC = {"b.Fake", METHODS, 1};
static const struct grpc_service *const RPCS[] = {&RPC};

#define EVENTS(letter)                                                                    \
    .name = #letter, .begin = letter##_begin, .data = letter##_data, .end = letter##_end, \
    .gone = letter##_gone, .connection_closed = letter##_closed

/* The RPC of `c` has a path that `b` would take. */
static const struct service fake_a = {EVENTS(a), .listeners = SERVICE_ON_GATEWAY};
static const struct service fake_b = {EVENTS(b),
                                      .listeners = SERVICE_ON_GATEWAY | SERVICE_ON_GRPC,
                                      .room = b_room,
                                      .connection_is_kept = b_is_kept};
static const struct service fake_c = {
    EVENTS(c), .listeners = SERVICE_ON_GRPC, .rpcs = RPCS, .n_rpcs = 1};
static const struct service fake_z = {EVENTS(z), .listeners = SERVICE_ON_GATEWAY};
static const struct service fake_silent = {.name = "silent"}; /* has no hook at all */

static const struct service *const LIST[] = {&fake_silent, &fake_a, &fake_b, &fake_c, &fake_z};

static struct service_table table = {
    .list = LIST, .gateway_ops = &front_gateway_ops, .grpc_ops = &front_grpc_ops};

static struct {
    struct clock clock;
    struct gateway *gateway;
    struct worker worker;
} world;

static const char YAML[] = "listen: {gateway: \"127.0.0.1:0\", grpc: \"127.0.0.1:0\"}\n"
                           "ledger: {path: \":memory:\"}\n"
                           "log: {level: error}\n";

static int open_world(void **state)
{
    struct config_problems problems;
    struct tg_problem problem;
    struct config config;

    (void)state;
    memset(&world, 0, sizeof world);
    told[0] = '\0';
    table.n = COUNT_OF(LIST);
    clock_init(&world.clock);
    if (config_parse(NULL, YAML, sizeof YAML - 1, &config, &problems) != CONFIG_READ)
        fail_msg("%s", problems.list[0].text);
    config_problems_free(&problems);
    if (!gateway_new(&table, &config, &world.clock, 1, &world.gateway, &problem) ||
        !worker_init(&world.worker, world.gateway, 0, &world.worker, &problem))
        fail_msg("%s", problem.text);
    return 0;
}

static int close_world(void **state)
{
    (void)state;
    worker_fini(&world.worker);
    gateway_free(world.gateway);
    return 0;
}

/* One exchange from begin to gone, by the ops of a listener. */
static void exchange(const struct http_server_ops *ops, const char *target,
                     struct rpc_exchange *exchange)
{
    rpc_prepare(exchange, target, NULL);
    exchange->in.context = &world.worker;
    told[0] = '\0';
    ops->begin(&world.worker, &exchange->in);
    if (!exchange->finished) {
        ops->data(&exchange->in, SLICE("abc"));
        ops->room(&exchange->in);
        ops->end(&exchange->in);
    }
    ops->gone(&exchange->in, HTTP_HANGUP);
}

/* ---- promises ---- */

static void the_first_service_that_takes_a_request_owns_it(void **state)
{
    static const struct {
        const char *target, *told;
    } rows[] = {
        {"/a", "a.asked a.data a.end a.gone"},
        {"/b", "a.asked b.asked b.data b.room b.end b.gone"},
        {"/c", "a.asked b.asked z.asked z.data z.end z.gone"},        /* not for c */
        {"/b.Fake/Do", "a.asked b.asked b.data b.room b.end b.gone"}, /* nor its RPC */
        {"/other", "a.asked b.asked z.asked z.data z.end z.gone"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct rpc_exchange one;
        exchange(&front_gateway_ops, rows[i].target, &one);
        assert_string_equal(told, rows[i].told);
    }
}

static void an_rpc_of_a_service_goes_before_services_on_the_grpc_listener(void **state)
{
    static const struct {
        const char *target, *told;
        int code; /* the gRPC status; -1: it is not the gRPC server's */
    } rows[] = {
        {"/b", "b.asked b.data b.room b.end b.gone", -1},
        {"/c", "b.asked c.asked c.data c.end c.gone", -1},
        {"/b.Fake/Other", "", GRPC_UNIMPLEMENTED},                /* no method of the RPC */
        {"/b.Else/Do", "b.asked b.data b.room b.end b.gone", -1}, /* no RPC */
        {"/a", "b.asked c.asked", GRPC_UNIMPLEMENTED},            /* a is not on this listener */
        {"/d.Nobody/Do", "b.asked c.asked", GRPC_UNIMPLEMENTED},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct rpc_exchange one;
        exchange(&front_grpc_ops, rows[i].target, &one);
        assert_string_equal(told, rows[i].told);
        assert_int_equal(one.code, rows[i].code);
    }
}

/* Its events reach nobody. */
static void a_request_without_memory_is_aborted_and_owned_by_nobody(void **state)
{
    struct rpc_exchange one;

    (void)state;
    exchange(&front_gateway_ops, "/b/full", &one);
    assert_string_equal(told, "a.asked b.asked");
    assert_null(one.in.owner);
    exchange(&front_grpc_ops, "/c/full", &one);
    assert_string_equal(told, "b.asked c.asked");
    assert_null(one.in.owner);
}

static void a_request_that_nobody_takes_is_aborted(void **state)
{
    struct rpc_exchange one;

    (void)state;
    table.n--; /* without z */
    exchange(&front_gateway_ops, "/other", &one);
    assert_string_equal(told, "a.asked b.asked");
    assert_true(one.finished);
    assert_int_equal(one.status, 0);
    table.n++;
}

static void the_end_of_a_connection_is_told_to_every_service_once(void **state)
{
    (void)state;
    told[0] = '\0';
    front_gateway_ops.closed(&world.worker, 7);
    assert_string_equal(told, "a.closed b.closed c.closed z.closed");
    told[0] = '\0';
    front_grpc_ops.closed(&world.worker, 7);
    assert_string_equal(told, "a.closed b.closed c.closed z.closed");
}

static void one_service_is_enough_to_keep_a_connection(void **state)
{
    (void)state;
    assert_true(front_gateway_ops.is_kept(&world.worker, 7));
    assert_false(front_gateway_ops.is_kept(&world.worker, 8));
    assert_true(front_grpc_ops.is_kept(&world.worker, 7));
    assert_false(front_grpc_ops.is_kept(&world.worker, 8));
}

static void what_is_no_request_is_refused_as_the_apis_do(void **state)
{
    struct http_refusal refusal = {.begun = false};

    (void)state;
    front_gateway_ops.refuse(&world.worker, 431, "too large", &refusal);
    assert_int_equal(refusal.n, strlen(refusal.body));
    assert_string_equal(refusal.body,
                        "{\"error\":{\"message\":\"too large\",\"type\":\"invalid_request_error\","
                        "\"code\":\"http_431\",\"param\":null}}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_first_service_that_takes_a_request_owns_it, open_world,
                                        close_world),
        cmocka_unit_test_setup_teardown(
            an_rpc_of_a_service_goes_before_services_on_the_grpc_listener, open_world, close_world),
        cmocka_unit_test_setup_teardown(a_request_without_memory_is_aborted_and_owned_by_nobody,
                                        open_world, close_world),
        cmocka_unit_test_setup_teardown(a_request_that_nobody_takes_is_aborted, open_world,
                                        close_world),
        cmocka_unit_test_setup_teardown(the_end_of_a_connection_is_told_to_every_service_once,
                                        open_world, close_world),
        cmocka_unit_test_setup_teardown(one_service_is_enough_to_keep_a_connection, open_world,
                                        close_world),
        cmocka_unit_test_setup_teardown(what_is_no_request_is_refused_as_the_apis_do, open_world,
                                        close_world),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
