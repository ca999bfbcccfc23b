/* test_services.c - the hooks of services: each called once, in the order of the table, and in the
 * reverse order at the end.
 *
 * The services are fakes that write down what they are told. The loops are turned by the test.
 */
#include "check.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "server/runtime/control.h"
#include "server/runtime/reload.h"
#include "server/runtime/service.h"
#include "server/runtime/worker.h"
#include "server/serve/front.h"

static char told[1024];     /* "a.open b.open ..." */
static const char *failing; /* the hook that fails: "b.start"; null: none does */

static bool tell(const char *what)
{
    size_t n = strlen(told);

    snprintf(told + n, sizeof told - n, "%s%s", n > 0 ? " " : "", what);
    return failing == NULL || strcmp(failing, what) != 0;
}

static void expect(const char *all)
{
    assert_string_equal(told, all);
    told[0] = '\0';
}

static bool tell_or(const char *what, struct tg_problem *problem)
{
    if (tell(what))
        return true;
    snprintf(problem->text, sizeof problem->text, "%s failed", what);
    return false;
}

#define FAKE(letter)                                                                          \
    static bool letter##_open(struct gateway *gateway, struct tg_problem *problem)            \
    {                                                                                         \
        (void)gateway;                                                                        \
        return tell_or(#letter ".open", problem);                                             \
    }                                                                                         \
    static void letter##_close(struct gateway *gateway)                                       \
    {                                                                                         \
        (void)gateway;                                                                        \
        tell(#letter ".close");                                                               \
    }                                                                                         \
    static bool letter##_read(struct generation *generation, const struct generation *before, \
                              struct tg_problem *problem)                                     \
    {                                                                                         \
        assert_true((before == NULL) == (generation->number == 1));                           \
        return tell_or(#letter ".read", problem);                                             \
    }                                                                                         \
    static void letter##_forget(struct generation *generation)                                \
    {                                                                                         \
        (void)generation;                                                                     \
        tell(#letter ".forget");                                                              \
    }                                                                                         \
    static bool letter##_start(struct worker *worker, struct tg_problem *problem)             \
    {                                                                                         \
        assert_non_null(worker->loop);                                                        \
        assert_null(worker->listener);                                                        \
        return tell_or(#letter ".start", problem);                                            \
    }                                                                                         \
    static void letter##_renew(struct worker *worker)                                         \
    {                                                                                         \
        (void)worker;                                                                         \
        tell(#letter ".renew");                                                               \
    }                                                                                         \
    static void letter##_drain(struct worker *worker)                                         \
    {                                                                                         \
        (void)worker;                                                                         \
        tell(#letter ".drain");                                                               \
    }                                                                                         \
    static void letter##_stop(struct worker *worker)                                          \
    {                                                                                         \
        assert_non_null(worker->client);                                                      \
        tell(#letter ".stop");                                                                \
    }                                                                                         \
    static bool letter##_start_control(struct control *control, struct tg_problem *problem)   \
    {                                                                                         \
        assert_non_null(control->reload);                                                     \
        return tell_or(#letter ".start_control", problem);                                    \
    }                                                                                         \
    static void letter##_tick(struct control *control, tg_ms now)                             \
    {                                                                                         \
        assert_int_equal(now, control_now(control));                                          \
        tell(#letter ".tick");                                                                \
    }                                                                                         \
    static void letter##_stop_control(struct control *control)                                \
    {                                                                                         \
        assert_int_equal(control->n_listeners, 0);                                            \
        tell(#letter ".stop_control");                                                        \
    }                                                                                         \
    static const struct service fake_##letter = {.name = #letter,                             \
                                                 .open = letter##_open,                       \
                                                 .close = letter##_close,                     \
                                                 .read = letter##_read,                       \
                                                 .forget = letter##_forget,                   \
                                                 .start = letter##_start,                     \
                                                 .renew = letter##_renew,                     \
                                                 .drain = letter##_drain,                     \
                                                 .stop = letter##_stop,                       \
                                                 .start_control = letter##_start_control,     \
                                                 .tick = letter##_tick,                       \
                                                 .stop_control = letter##_stop_control};

FAKE(a)
FAKE(b)

static const struct service silent = {.name = "silent"}; /* has no hook at all */

static const struct service *const LIST[] = {&fake_a, &silent, &fake_b};
static const struct service_table table = {.list = LIST,
                                           .n = COUNT_OF(LIST),
                                           .gateway_ops = &front_gateway_ops,
                                           .grpc_ops = &front_grpc_ops};

static struct {
    struct clock clock;
    struct gateway *gateway;
    struct worker worker;
    struct control control;
    char path[64];
} world;

static const char YAML[] = "listen: {gateway: \"127.0.0.1:0\", grpc: \"127.0.0.1:0\"}\n"
                           "ledger: {path: \":memory:\"}\n"
                           "gate: {lease_ttl: 60s}\n"
                           "log: {level: error}\n";

static bool make_gateway(struct tg_problem *problem)
{
    struct config_problems problems;
    struct config config;

    memset(&world, 0, sizeof world);
    told[0] = '\0';
    clock_init(&world.clock);
    snprintf(world.path, sizeof world.path, "test_services_%d.yaml", (int)getpid());
    FILE *file = fopen(world.path, "w");
    assert_non_null(file);
    fputs(YAML, file);
    fclose(file);
    if (config_load(world.path, &config, &problems) != CONFIG_READ)
        fail_msg("%s", problems.list[0].text);
    config_problems_free(&problems);
    return gateway_new(&table, &config, &world.clock, 2, &world.gateway, problem);
}

static bool make_worker(struct tg_problem *problem)
{
    return worker_init(&world.worker, world.gateway, 0, &world.worker, problem);
}

static bool make_control(struct tg_problem *problem)
{
    return control_init(&world.control, world.gateway, &world.worker, 1, world.path, problem);
}

static void has_reloaded(void *context, const struct reload_result *result)
{
    int *answered = context;

    *answered += result->ok ? 1 : 100;
}

/* One turn of each loop, of which the first waits for something to do. */
static void turn(void)
{
    net_loop_turn(world.control.loop, true);
    net_loop_turn(world.worker.loop, false);
}

/* ---- promises ---- */

static void every_hook_is_called_once_and_in_order(void **state)
{
    struct tg_problem problem;

    (void)state;
    failing = NULL;
    assert_true(make_gateway(&problem));
    expect("a.open b.open a.read b.read");
    assert_true(make_worker(&problem));
    expect("a.start b.start");
    assert_true(make_control(&problem));
    expect("a.start_control b.start_control");
    turn(); /* chores come 1 ms after the start, then every 100 ms */
    expect("a.tick b.tick");

    worker_drain(&world.worker);
    while (told[0] == '\0')
        net_loop_turn(world.worker.loop, false);
    expect("a.drain b.drain");

    worker_fini(&world.worker);
    expect("b.stop a.stop");
    control_fini(&world.control);
    expect("b.stop_control a.stop_control");
    gateway_free(world.gateway);
    expect("a.forget b.forget b.close a.close");
    unlink(world.path);
}

static void leases_are_renewed_by_every_service_again_and_again(void **state)
{
    struct tg_problem problem;

    (void)state;
    failing = NULL;
    assert_true(make_gateway(&problem) && make_worker(&problem));
    told[0] = '\0';
    assert_true(net_timer_is_set(&world.worker.renewal));
    net_timer_stop(world.worker.loop, &world.worker.renewal);
    world.worker.renewal.fire(world.worker.renewal.arg); /* its time has come */
    assert_true(net_timer_is_set(&world.worker.renewal));
    expect("a.renew b.renew");
    worker_fini(&world.worker);
    gateway_free(world.gateway);
    unlink(world.path);
}

static void a_reload_reads_for_every_service_and_forgets_what_was_before(void **state)
{
    struct tg_problem problem;
    int answered = 0;

    (void)state;
    failing = NULL;
    assert_true(make_gateway(&problem) && make_worker(&problem) && make_control(&problem));
    told[0] = '\0';
    assert_true(reload_request(world.control.reload, "a test", has_reloaded, &answered));
    net_timer_stop(world.control.loop, &world.control.chores); /* no ticks between */
    while (answered == 0 || LIST_NEXT(gateway_newest(world.gateway), link) != NULL)
        turn();
    assert_int_equal(answered, 1);
    assert_int_equal(world.worker.generation->number, 2);
    expect("a.read b.read a.forget b.forget");

    /* What fails leaves everything as it was, and frees what was made. */
    failing = "b.read";
    assert_true(reload_request(world.control.reload, "a test", has_reloaded, &answered));
    while (answered == 1)
        turn();
    assert_int_equal(answered, 101);
    assert_int_equal(world.worker.generation->number, 2);
    expect("a.read b.read a.forget b.forget");
    failing = NULL;

    worker_fini(&world.worker);
    control_fini(&world.control);
    gateway_free(world.gateway);
    unlink(world.path);
}

static void what_did_not_start_is_not_stopped(void **state)
{
    struct tg_problem problem;

    (void)state;
    failing = "b.open";
    assert_false(make_gateway(&problem));
    assert_string_equal(problem.text, "b.open failed");
    expect("a.open b.open a.close");

    failing = "b.start";
    assert_true(make_gateway(&problem));
    told[0] = '\0';
    assert_false(make_worker(&problem));
    assert_string_equal(problem.text, "b.start failed");
    worker_fini(&world.worker);
    expect("a.start b.start a.stop");

    failing = "b.start_control";
    assert_true(make_worker(&problem));
    told[0] = '\0';
    assert_false(make_control(&problem));
    assert_string_equal(problem.text, "b.start_control failed");
    worker_fini(&world.worker);
    control_fini(&world.control);
    expect("a.start_control b.start_control b.stop a.stop a.stop_control");
    gateway_free(world.gateway);
    unlink(world.path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_hook_is_called_once_and_in_order),
        cmocka_unit_test(leases_are_renewed_by_every_service_again_and_again),
        cmocka_unit_test(a_reload_reads_for_every_service_and_forgets_what_was_before),
        cmocka_unit_test(what_did_not_start_is_not_stopped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
