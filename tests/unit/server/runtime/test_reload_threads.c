/* test_reload_threads.c - a gateway of two workers gets one configuration after another while
 * clients call: no call fails, nothing is counted twice, and old generations end.
 *
 * Nothing sleeps: who waits for something asks for it again, and what never comes ends in the time
 * limit of the test's runner.
 */
#include "check.h"

#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lab/mock/mock.h"
#include "server/runtime/control.h"
#include "server/runtime/reload.h"
#include "server/runtime/worker.h"
#include "server/serve/services.h"

enum { WORKERS = 2,
       CLIENTS = 3,
       CALLS = 60,
       RELOADS = 12 };

static struct world {
    struct mock *mock;
    struct gateway *gateway;
    struct worker workers[WORKERS];
    struct control control;
    struct clock clock;
    char path[64];
    atomic_int answered, failed, done; /* done: clients that have ended */
} world;

/* ---- The configuration ---- */

static const char *const KEYS = "[{name: k1, secret: s1}, {name: k2, secret: s2}]";

static void write_config(const char *keys, int rate, const char *more)
{
    FILE *file = fopen(world.path, "w");

    assert_non_null(file);
    fprintf(file,
            "listen: {gateway: \"127.0.0.1:0\"}\n"
            "ledger: {path: \":memory:\"}\n"
            "log: {level: error}\n"
            "gate: {concurrency: {law: none, max: 64}}\n"
            "providers:\n"
            "  demo: {base_url: \"http://127.0.0.1:%d\", api: openai, keys: %s}\n"
            "models:\n"
            "  m: {provider: demo, price: {input: 1, output: 1}, concurrency: {max: %d}}\n"
            "tenants:\n"
            "%s"
            "  - name: a\n"
            "    keys: [{sha256: "
            "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b}]\n"
            "    rate: {strategy: fixed_window, limit: %d, window: 24h}\n"
            "    budgets: [{usd: 1000, per: total}]\n",
            mock_port(world.mock), keys, 32 + rate % 7, more, rate);
    fclose(file);
}

/* ---- Clients ---- */

static const char CALL[] = "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n"
                           "authorization: Bearer secret\r\ncontent-type: application/json\r\n"
                           "content-length: 57\r\nconnection: close\r\n\r\n"
                           "{\"model\":\"m\",\"max_tokens\":9,\"messages\":[{\"role\":\"user\"}]}";

static int ask(int port)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    char reply[4096];
    size_t n = 0;
    ssize_t got = 0;

    if (connect(fd, (struct sockaddr *)&to, sizeof to) == 0 &&
        send(fd, CALL, sizeof CALL - 1, MSG_NOSIGNAL) == sizeof CALL - 1)
        while (n < sizeof reply - 1 && (got = recv(fd, reply + n, sizeof reply - 1 - n, 0)) > 0)
            n += (size_t)got;
    reply[n] = '\0';
    close(fd);
    return n > 12 ? atoi(reply + 9) : 0;
}

static void *call_on_and_on(void *arg)
{
    int port = *(int *)arg;

    for (int i = 0; i < CALLS; i++)
        atomic_fetch_add(ask(port) == 200 ? &world.answered : &world.failed, 1);
    atomic_fetch_add(&world.done, 1);
    return NULL;
}

/* ---- The gateway ---- */

static void no_problem(void *context, size_t line, size_t column, const char *text)
{
    (void)context;
    fail_msg("%zu:%zu: %s", line, column, text);
}

static void start_mock(void)
{
    struct mock_options options;
    struct tg_problem problem = {""};

    mock_options_init(&options);
    struct mock_script *script = mock_script_read(&options.base, "{}", 2, no_problem, NULL);
    if (mock_start(&options, script, &world.mock, &problem) != TG_OK)
        fail_msg("%s", problem.text);
}

static int open_world(void **state)
{
    struct config_problems problems;
    struct tg_problem trouble;
    struct tg_problem problem;
    struct config config;
    (void)state;

    memset(&world, 0, sizeof world);
    signal(SIGPIPE, SIG_IGN);
    snprintf(world.path, sizeof world.path, "test_reload_%d.yaml", (int)getpid());
    start_mock();
    write_config(KEYS, 10000, "");
    if (config_load(world.path, &config, &problems) != CONFIG_READ)
        fail_msg("%s", problems.list[0].text);
    config_problems_free(&problems);
    clock_init(&world.clock);
    if (!gateway_new(&services, &config, &world.clock, WORKERS + 1, &world.gateway, &trouble))
        fail_msg("%s", trouble.text);
    for (size_t i = 0; i < WORKERS; i++)
        if (!worker_init(&world.workers[i], world.gateway, i, &world.workers[0], &problem))
            fail_msg("%s", problem.text);
    if (!control_init(&world.control, world.gateway, world.workers, WORKERS, world.path, &problem))
        fail_msg("%s", problem.text);
    assert_true(control_start(&world.control));
    for (size_t i = 0; i < WORKERS; i++)
        assert_true(worker_start(&world.workers[i]));
    return 0;
}

static int close_world(void **state)
{
    (void)state;
    for (size_t i = 0; i < WORKERS; i++) {
        net_loop_stop(world.workers[i].loop);
        worker_join(&world.workers[i]);
    }
    control_stop(&world.control);
    for (size_t i = 0; i < WORKERS; i++)
        worker_fini(&world.workers[i]);
    control_fini(&world.control);
    gateway_free(world.gateway);
    mock_stop(world.mock);
    unlink(world.path);
    return 0;
}

/* ---- Asking the control thread, which is another thread ---- */

struct asked {
    struct net_post post;
    atomic_bool over;
    bool ok;
    uint64_t generation;
    size_t n_generations, n_errors;
};

static void has_reloaded(void *context, const struct reload_result *result)
{
    struct asked *asked = context;

    asked->ok = result->ok;
    asked->generation = result->generation;
    asked->n_errors = result->problems->errors;
    atomic_store(&asked->over, true);
}

static void ask_for_reload(void *arg)
{
    assert_true(reload_request(world.control.reload, "a test", has_reloaded, arg));
}

static void count_generations(void *arg)
{
    struct asked *asked = arg;

    asked->n_generations = 0;
    for (struct generation *at = gateway_newest(world.gateway); at; at = LIST_NEXT(at, link))
        asked->n_generations++;
    atomic_store(&asked->over, true);
}

static void on_control(net_post_run *run, struct asked *asked)
{
    atomic_store(&asked->over, false);
    net_post_init(&asked->post, run, asked);
    net_loop_post(world.control.loop, &asked->post);
    while (!atomic_load(&asked->over))
        sched_yield();
}

static struct asked reload(void)
{
    struct asked asked = {.ok = false};

    on_control(ask_for_reload, &asked);
    return asked;
}

static void await_one_generation(void)
{
    struct asked asked;

    do
        on_control(count_generations, &asked);
    while (asked.n_generations > 1);
}

/* ---- Tests ---- */

static void no_call_is_lost_while_configurations_change(void **state)
{
    static const char *const keys[] = {"[{name: k1, secret: s1}, {name: k2, secret: s2}]",
                                       "[{name: k2, secret: s3}, {name: k3, secret: s4}]",
                                       "[{name: k1, secret: s5}]"};
    static const char *const more[] = {"", "  - {name: first}\n", "  - {name: x}\n  - {name: y}\n"};
    int port = http_listener_port(world.workers[0].listener);
    pthread_t clients[CLIENTS];
    struct tg_budget_metrics budgets[TG_BUDGETS_MAX];
    (void)state;

    for (int i = 0; i < CLIENTS; i++)
        assert_int_equal(pthread_create(&clients[i], NULL, call_on_and_on, &port), 0);
    for (int i = 0; i < RELOADS || atomic_load(&world.done) == 0; i++) {
        write_config(keys[i % 3], 10000 + i % 5, more[i % 3]);
        struct asked asked = reload();
        assert_true(asked.ok);
        assert_int_equal(asked.generation, i + 2);
    }
    for (int i = 0; i < CLIENTS; i++)
        pthread_join(clients[i], NULL);
    assert_int_equal(atomic_load(&world.failed), 0);
    assert_int_equal(atomic_load(&world.answered), CLIENTS * CALLS);
    while (atomic_load(&world.gateway->counts.open) > 0)
        sched_yield();
    await_one_generation();

    /* What was counted has been counted once, under whatever generation. */
    struct spending *spending = world.gateway->spending;
    tg_ms now = clock_now_ms(&world.clock);
    assert_int_equal(tg_bank_get_budgets(spending_bank(spending),
                                         spending_account(spending, "a", SPENDING_TOP), now,
                                         budgets),
                     1);
    assert_int_equal(budgets[0].outstanding, 0);
    assert_int_equal(budgets[0].settled % (CLIENTS * CALLS), 0);
    assert_true(budgets[0].settled > 0);
    struct tg_gate_stats stats;
    tg_gate_get_stats(world.gateway->gate, &stats);
    assert_int_equal(stats.in_flight, 0);
}

static void a_wrong_one_changes_nothing(void **state)
{
    int port = http_listener_port(world.workers[0].listener);
    struct asked before, after;
    (void)state;

    write_config(KEYS, 10000, "");
    before = reload();
    assert_true(before.ok);
    write_config(KEYS, -1, "");
    after = reload();
    assert_false(after.ok);
    assert_int_equal(after.generation, before.generation);
    assert_true(after.n_errors > 0);
    assert_int_equal(ask(port), 200);
    await_one_generation();
}

/* In a window of a day: what a limit has counted stays, whatever it becomes. */
static void a_limit_that_is_lowered_has_counted(void **state)
{
    int port = http_listener_port(world.workers[0].listener);
    (void)state;

    write_config(KEYS, 10000, "");
    assert_true(reload().ok);
    for (int i = 0; i < 5; i++)
        assert_int_equal(ask(port), 200);
    write_config(KEYS, 4, "");
    assert_true(reload().ok);
    assert_int_equal(ask(port), 429);
    write_config(KEYS, 100000, "");
    assert_true(reload().ok);
    assert_int_equal(ask(port), 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_call_is_lost_while_configurations_change),
        cmocka_unit_test(a_wrong_one_changes_nothing),
        cmocka_unit_test(a_limit_that_is_lowered_has_counted),
    };

    return cmocka_run_group_tests(tests, open_world, close_world);
}
