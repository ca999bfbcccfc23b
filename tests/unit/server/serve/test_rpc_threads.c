/* test_rpc_threads.c - snapshots by gRPC: asked for on a worker's thread, made on the control
 * thread's.
 *
 * The worker's loop is driven by the test; the control thread runs as it does in a gateway, with
 * its chores. Under the thread sanitizer this is the argument that the two share nothing but posts.
 */
#include "check.h"

#include <stdio.h>
#include <string.h>

#include "net_rpc_kit.h"
#include "server/admin/rpc_monitor_internal.h"
#include "server/admit/rpc_admission_internal.h"
#include "server/runtime/control.h"
#include "server/serve/services.h"

enum { ROUNDS = 20,
       AT_ONCE = 8 };

static const char YAML[] = "listen: {gateway: \"127.0.0.1:0\", grpc: \"127.0.0.1:0\"}\n"
                           "ledger: {path: \":memory:\"}\n"
                           "log: {level: error}\n"
                           "admin_auth: {token: \"0123456789abcdef\"}\n"
                           "gate: {peers: {}, memory: {}}\n";

static const char *const ADMIN[] = {"authorization: Bearer 0123456789abcdef", NULL};

static struct {
    struct clock clock;
    struct gateway *gateway;
    struct worker worker;
    struct control control;
} world;

static void open_world(void)
{
    struct config_problems problems;
    struct tg_problem trouble;
    struct tg_problem problem;
    struct config config;

    memset(&world, 0, sizeof world);
    clock_init(&world.clock);
    if (config_parse(NULL, YAML, sizeof YAML - 1, &config, &problems) != CONFIG_READ)
        fail_msg("%s", problems.list[0].text);
    config_problems_free(&problems);
    if (!gateway_new(&services, &config, &world.clock, 2, &world.gateway, &trouble))
        fail_msg("%s", trouble.text);
    if (!worker_init(&world.worker, world.gateway, 0, &world.worker, &problem) ||
        !control_init(&world.control, world.gateway, &world.worker, 1, NULL, &problem))
        fail_msg("%s", problem.text);
    assert_true(control_start(&world.control));
}

static void close_world(void)
{
    control_stop(&world.control);
    worker_fini(&world.worker);
    control_fini(&world.control);
    gateway_free(world.gateway);
}

static void ask(struct rpc_exchange *exchange, bool without_json)
{
    Tollgate__V1__GetSnapshotRequest request = TOLLGATE__V1__GET_SNAPSHOT_REQUEST__INIT;

    request.without_json = without_json;
    rpc_ask(exchange, world.worker.rpc->server, "/tollgate.v1.Monitor/GetSnapshot", ADMIN,
            &request.base);
}

static void check(struct rpc_exchange *exchange, bool without_json)
{
    Tollgate__V1__Snapshot *snapshot =
        (void *)rpc_next(exchange, &tollgate__v1__snapshot__descriptor);

    assert_int_equal(exchange->code, GRPC_OK);
    assert_non_null(snapshot);
    assert_true(snapshot->ready);
    assert_true(snapshot->started_at_ms > 0);
    assert_int_equal(snapshot->json[0], without_json ? '\0' : '{');
    tollgate__v1__snapshot__free_unpacked(snapshot, NULL);
}

/* Every other client has left by the time it is made. */
static void the_clerk_makes_what_a_worker_sends(void **state)
{
    static struct rpc_exchange exchanges[AT_ONCE];

    (void)state;
    open_world();
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < AT_ONCE; i++)
            ask(&exchanges[i], i % 4 == 0);
        for (size_t i = 1; i < AT_ONCE; i += 2)
            rpc_close(&exchanges[i]);
        for (size_t i = 0; i < AT_ONCE; i += 2) {
            while (!exchanges[i].finished)
                net_loop_turn(world.worker.loop, true);
            check(&exchanges[i], i % 4 == 0);
            rpc_close(&exchanges[i]);
        }
    }
    close_world();
}

static void a_worker_that_ends_takes_back_what_it_has_asked_for(void **state)
{
    struct rpc_exchange exchange;

    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        open_world();
        ask(&exchange, false);
        rpc_close(&exchange);
        close_world();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_clerk_makes_what_a_worker_sends),
        cmocka_unit_test(a_worker_that_ends_takes_back_what_it_has_asked_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
