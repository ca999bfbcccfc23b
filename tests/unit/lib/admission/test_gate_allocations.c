/* test_gate_allocations.c - the life of a gate in which an allocation fails.
 *
 * The same life is led with its 1st, 2nd, 3rd ... allocation failing: the gate says so, holds
 * nothing for the call that met it, goes on afterwards, and loses no memory.
 *
 * The allocator of this program counts, and fails when told. A sanitizer has an allocator of its
 * own, so there the test is skipped.
 */
#include <stdio.h>
#include <stdlib.h>

#include "gate_kit.h"

#include "failing_malloc.h"

#define NOW 1000
enum { SLOTS = 100,
       ROUNDS = 400 };

/* The calls of one life, as their owner knows them. */
struct life {
    struct tg_gate *gate;
    struct tg_store *store;
    struct tg_scope scope;
    tg_lease running[ROUNDS], waiting[ROUNDS];
    int n_running, n_waiting;
    int64_t charged;
    long errors;
};

static void note_nothing(void *context, void *waiter)
{
    (void)context;
    (void)waiter;
}

static void ask(struct life *life, int number)
{
    char peer[24], tenant[24];
    struct tg_answer answer = {.lease = 0};
    tg_lease checked = 0;

    snprintf(peer, sizeof peer, "peer %d", number);
    snprintf(tenant, sizeof tenant, "tenant %d", number);
    struct tg_call call = call_from(TG_PRIORITY_HIGH, peer);
    call_set_tenant(&call, tenant, 1);
    call.debit = debit_of(&life->scope, 1);
    struct tg_gate_stats before = stats_of_gate(life->gate), after;
    enum tg_err err = TG_OK;
    if (number % 3 == 0) {
        err = tg_gate_precheck(life->gate, &call, NOW, &answer);
        checked = answer.lease;
    }
    if (err == TG_OK)
        err = tg_gate_admit(life->gate, &call, checked, NOW, &answer);
    if (err != TG_OK) {
        assert_int_equal(err, TG_ERR_MEMORY);
        life->errors++;
        after = stats_of_gate(life->gate);
        expect_same_holdings("no memory", &after, &before);
        assert_int_equal(after.admitted, before.admitted);
    } else if (answer.step == TG_WAITING) {
        life->waiting[life->n_waiting++] = answer.lease;
    } else {
        assert_true(answer.decision.allowed);
        life->running[life->n_running++] = answer.lease;
        life->charged++;
    }
}

static bool live_with_store(struct life *life, const struct tg_gate_config *settings)
{
    struct tg_gate_config config = *settings;

    config.store = life->store;
    enum tg_err err = tg_gate_new(&config, &life->gate, NULL);
    if (err != TG_OK) {
        assert_int_equal(err, TG_ERR_MEMORY);
        assert_null(life->gate);
        life->errors++;
        return false;
    }
    for (int i = 0; i < ROUNDS; i++)
        ask(life, i);
    /* A longer memory for samples is memory, too. */
    config.concurrency.law.aimd.rtt_window = 5000;
    err = tg_gate_reconfigure(life->gate, &config, NOW, NULL);
    assert_true(err == TG_OK || err == TG_ERR_MEMORY);
    life->errors += err != TG_OK;
    return true;
}

static void check_and_end(struct life *life, tg_limits set, bool forgets_one)
{
    struct tg_gate_stats stats = stats_of_gate(life->gate);

    assert_int_equal(stats.in_flight, life->n_running);
    assert_int_equal(stats.queued[TG_PRIORITY_HIGH], life->n_waiting);
    assert_int_equal(stats.peer_calls, life->n_running + life->n_waiting);
    assert_int_equal(must_peek(life->store, set, "key", 0, NOW).remaining, 1000 - life->charged);
    for (int i = 0; i < life->n_waiting; i++)
        assert_true(finish_as(life->gate, life->waiting[i], NOW, TG_OUTCOME_CANCELLED));
    if (forgets_one && life->n_running > 0) { /* it ends by itself */
        assert_true(tg_gate_renew(life->gate, life->running[--life->n_running], NOW, 1));
        tg_gate_tick(life->gate, NOW + 1);
        assert_int_equal(stats_of_gate(life->gate).expired, 1);
    }
    for (int i = 0; i < life->n_running; i++)
        assert_true(finish(life->gate, life->running[i], NOW));
    expect_idle(life->gate);
}

/* Returns how many errors there were. The store has had its memory before the first failure. */
static long live_once(long nth)
{
    static struct life life;
    struct tg_gate_config config = gate_config_slots(NULL, SLOTS);

    life = (struct life){.store = must_store((size_t)64 * 1024, 1)};
    tg_limits set =
        must_define_one(life.store, TG_AXIS_COST, "fixed_window:limit=1000,window=1000000");
    life.scope = scope_of(set, "key");
    config.wake = note_nothing;
    config.peers.on = true;
    config.concurrency.law.law = TG_LAW_AIMD;
    fail_at(nth);
    bool made = live_with_store(&life, &config);
    until_failure = -1;
    if (made)
        check_and_end(&life, set, true);
    tg_gate_free(life.gate);
    tg_store_free(life.store);
    return life.errors;
}

static void one_failing_allocation_holds_nothing_and_is_survived(void **state)
{
    (void)state;
    need_allocator();
    expect_survival(live_once, false, 10, 5);
}

static void no_memory_from_some_moment_on_holds_nothing_and_is_survived(void **state)
{
    (void)state;
    need_allocator();
    expect_survival(live_once, true, 10, 5);
}

/* Once it is warm, a gate asks for no memory. */
static void a_warm_gate_allocates_nothing(void **state)
{
    static struct life life;
    struct tg_gate_config config = gate_config_slots(NULL, SLOTS);
    (void)state;

    need_allocator();
    config.wake = note_nothing;
    config.peers.on = true;
    life = (struct life){.store = must_store((size_t)64 * 1024, 1)};
    tg_limits set =
        must_define_one(life.store, TG_AXIS_COST, "fixed_window:limit=1000,window=1000000");
    life.scope = scope_of(set, "key");
    config.store = life.store;
    life.gate = must_gate(&config);
    for (int round = 0; round < 3; round++) {
        allocations = 0;
        life.n_running = life.n_waiting = 0;
        for (int i = 0; i < 200; i++)
            ask(&life, i);
        check_and_end(&life, set, false);
        if (round == 2)
            assert_int_equal(allocations, 0);
    }
    tg_gate_free(life.gate);
    tg_store_free(life.store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_failing_allocation_holds_nothing_and_is_survived),
        cmocka_unit_test(no_memory_from_some_moment_on_holds_nothing_and_is_survived),
        cmocka_unit_test(a_warm_gate_allocates_nothing),
    };
    return cmocka_run_group_tests_name("gate_allocations", tests, NULL, NULL);
}
