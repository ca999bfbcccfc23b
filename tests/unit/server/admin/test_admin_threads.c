/* test_admin_threads.c - changes and looks of an administrator while others charge limits, reserve
 * money and refuse calls: nothing is torn, and nothing is lost. For TSan, too. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "net_admin_kit.h"

static const char YAML[] =
    "gate: {peers: {}, memory: {}, rate: {strategy: gcra, limit: 60, period: 60s}}\n"
    "providers:\n"
    "  demo: {base_url: \"http://127.0.0.1:9\", api: openai, keys: [{name: k1, secret: x}]}\n"
    "models:\n"
    "  small: {provider: demo, price: {input: 1, output: 2}}\n"
    "tenants:\n"
    "  - {name: team, budgets: [{usd: 50, per: day}]}\n";

enum { CHANGES = 6 };

static struct admin_kit kit;
static atomic_bool stop;

/* What workers do, in small. */
static void *work(void *arg)
{
    struct spending_call call = {.tenant = "team", .hint = SPENDING_TOP, .money = 10};
    struct tg_pool *pool = tg_keyring_pool(kit.gateway->ring, "demo", "small");
    struct spending_ticket ticket;
    struct tg_money_answer answer;
    struct tg_key_answer key;
    struct tg_key_call key_call;
    struct tg_key_report report;
    struct watch_entry entry;

    (void)arg;
    tg_key_call_init(&key_call);
    tg_key_report_init(&report);
    watch_entry_init(&entry);
    while (!atomic_load(&stop)) {
        tg_ms now = clock_now_ms(&kit.clock);
        if (spending_reserve(kit.gateway->spending, &call, now, &ticket, &answer) == TG_OK &&
            ticket.reservation != 0)
            spending_settle(kit.gateway->spending, &ticket, &(struct spending_use){.spent = 0},
                            now);
        tg_pool_acquire(pool, &key_call, now, &key);
        if (key.lease != 0)
            tg_keyring_release(kit.gateway->ring, key.lease, now, &report);
        atomic_fetch_add(&kit.gateway->counts.calls, 1);
        entry.at = now;
        watch_put(kit.watch, &entry);
        sched_yield();
    }
    return NULL;
}

static void expect(int status, const char *method, const char *target, const char *body)
{
    int got = admin_kit_ask(&kit, method, target, body);

    if (got != status)
        fail_msg("%s %s: %d: %s", method, target, got, kit.exchange.body);
}

static void changes_and_looks_go_on_under_load(void **state)
{
    struct admin_exchange watching;
    pthread_t workers[2];
    char target[64];
    (void)state;

    admin_kit_open_with(&kit, YAML, true);
    atomic_store(&stop, false);
    admin_exchange_begin(&kit, &watching, "GET", "/api/v1/watch", ADMIN_TOKEN);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&workers[i], NULL, work, NULL), 0);
    for (int i = 0; i < CHANGES; i++) {
        snprintf(target, sizeof target, "/api/v1/tenants/t%d", i);
        expect(201, "PUT", target, "{\"parent\":\"team\", \"budgets\":[{\"usd\":1, "
                                   "\"per\":\"day\"}]}");
        expect(200, "GET", "/api/v1/snapshot", NULL);
        expect(200, "GET", "/api/v1/explain?tenant=team&model=small", NULL);
        expect(200, "POST", "/api/v1/keys/k1/reset", NULL);
        admin_watchers_turn(&kit.admin->watchers);
    }
    expect(201, "POST", "/api/v1/tenants/t1/topups", "{\"usd\":1,\"per\":\"day\"}");
    kit.breaks = true;
    expect(400, "DELETE", "/api/v1/tenants/t0", NULL);
    expect(200, "DELETE", "/api/v1/tenants/t0", NULL);
    atomic_store(&stop, true);
    for (int i = 0; i < 2; i++)
        pthread_join(workers[i], NULL);
    assert_int_equal(kit.generation->config.n_tenants, CHANGES);
    assert_non_null(strstr(watching.body, "event: denial"));
    admin_exchange_gone(&watching);
    admin_kit_close(&kit);
}

/* The process may end while a change is under way. */
static void it_may_end_in_the_middle_of_a_change(void **state)
{
    struct admin_exchange put;
    (void)state;

    for (int turns = 0; turns < 4; turns++) {
        admin_kit_open_with(&kit, YAML, true);
        admin_exchange_begin(&kit, &put, "DELETE", "/api/v1/tenants/none", ADMIN_TOKEN);
        for (int i = 0; i < turns; i++)
            net_loop_turn(kit.loop, false);
        admin_exchange_gone(&put);
        admin_kit_close(&kit);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(changes_and_looks_go_on_under_load),
        cmocka_unit_test(it_may_end_in_the_middle_of_a_change),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
