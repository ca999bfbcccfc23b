/* test_gate_peek.c - what a gate says of its law, of one peer and of memory. */
#include <math.h>

#include "gate_kit.h"

#define NOW 1000

static void a_peer_is_counted_waiting_and_running_by_its_name(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config_slots(&log, 1);
    struct tg_call a = call_from(TG_PRIORITY_HIGH, "a"), b = call_from(TG_PRIORITY_HIGH, "b");
    (void)state;

    config.peers.on = true;
    struct tg_gate *gate = must_gate(&config);
    assert_int_equal(tg_gate_peer_calls(gate, "a", 1), 0);
    tg_lease running = must_allow(gate, &a, NOW);
    must_queue(gate, &a, NOW);
    must_queue(gate, &b, NOW);
    assert_int_equal(tg_gate_peer_calls(gate, "a", 1), 2);
    assert_int_equal(tg_gate_peer_calls(gate, "b", 1), 1);
    assert_int_equal(tg_gate_peer_calls(gate, "ab", 2), 0);
    assert_true(finish(gate, running, NOW));
    assert_int_equal(tg_gate_peer_calls(gate, "a", 1), 1);
    tg_gate_free(gate);
}

static void peers_beyond_the_bound_have_no_count_of_their_own(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config(&log);
    struct tg_call a = call_from(TG_PRIORITY_HIGH, "a"), b = call_from(TG_PRIORITY_HIGH, "b");
    (void)state;

    config.peers.on = true;
    config.peers.max_peers = 1;
    struct tg_gate *gate = must_gate(&config);
    must_allow(gate, &a, NOW);
    must_allow(gate, &b, NOW);
    assert_int_equal(tg_gate_peer_calls(gate, "a", 1), 1);
    assert_int_equal(tg_gate_peer_calls(gate, "b", 1), 0);
    assert_int_equal(stats_of_gate(gate).peer_calls, 2);
    tg_gate_free(gate);
}

static void laws_that_learn_nothing_estimate_nothing(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config_slots(&log, 7);
    struct tg_gate *gate = must_gate(&config);
    struct tg_law_metrics law;
    (void)state;

    tg_gate_get_law(gate, &law);
    assert_int_equal(law.law, TG_LAW_FIXED);
    assert_int_equal(law.limit, 7);
    assert_true(law.queue_estimate < 0);
    assert_true(law.mean_ms == 0 && law.baseline_ms == 0);
    tg_gate_free(gate);
}

/* DESIGN 3: a refusal by memory or peers is {.., 0, now, 100}, and a peek says the same. */
static void a_peek_that_refuses_says_what_the_refusal_will(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config(&log);
    struct tg_call a = call_from(TG_PRIORITY_LOW, "a");
    struct tg_answer said;
    (void)state;

    config.peers.on = config.memory.on = true;
    config.peers.limit = 2;
    struct tg_gate *gate = must_gate(&config);
    must_allow(gate, &a, NOW);
    assert_int_equal(tg_gate_peek(gate, &a, NOW, &said), TG_OK);
    assert_true(said.decision.allowed);
    must_allow(gate, &a, NOW);
    assert_int_equal(tg_gate_peek(gate, &a, NOW + 5, &said), TG_OK);
    assert_int_equal(said.reason, TG_REASON_PEER_LIMIT);
    expect_decision("peer", said.decision, DENIED(2, 0, NOW + 5, 100));
    a.peer_limit = 1; /* its own goes before the gate's */
    assert_int_equal(tg_gate_peek(gate, &a, NOW + 5, &said), TG_OK);
    expect_decision("peer's own", said.decision, DENIED(1, 0, NOW + 5, 100));
    a.peer_limit = 3;
    assert_int_equal(tg_gate_peek(gate, &a, NOW + 5, &said), TG_OK);
    assert_true(said.decision.allowed);
    tg_gate_set_memory(gate, 0.9);
    assert_int_equal(tg_gate_peek(gate, &a, NOW + 6, &said), TG_OK);
    assert_int_equal(said.reason, TG_REASON_MEMORY_PRESSURE);
    assert_true(said.memory_used == 0.9);
    expect_decision("memory", said.decision, DENIED(TG_NUMBER_MAX, 0, NOW + 6, 100));
    tg_gate_free(gate);
}

/* Calls of one window at once, each of which takes so many ms. */
static void run_window(struct tg_gate *gate, tg_ms from, int calls, double ms)
{
    struct tg_call call = call_of(TG_PRIORITY_NORMAL);
    tg_lease leases[64];

    for (int i = 0; i < calls; i++)
        leases[i] = must_allow(gate, &call, from);
    for (int i = 0; i < calls; i++)
        assert_true(finish_sampled(gate, leases[i], from + 1, ms));
}

/* 40 calls in flight that take twice as long as when nothing waits: on the average of what those
 * that ended saw, 20.5 were in flight, and half of these waited. */
static void vegas_tells_how_many_wait(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config(&log);
    struct tg_law_metrics law;
    (void)state;

    config.concurrency.on = true;
    config.concurrency.law.min = 3;
    struct tg_gate *gate = must_gate(&config);
    tg_gate_get_law(gate, &law);
    assert_int_equal(law.law, TG_LAW_VEGAS);
    assert_int_equal(law.min, 3);
    assert_int_equal(law.max, 1024);
    assert_true(law.queue_estimate < 0);
    run_window(gate, 0, 40, 10);
    run_window(gate, 1000, 40, 20); /* its first call ends the window before */
    tg_gate_get_law(gate, &law);
    assert_true(law.queue_estimate == 0 && law.mean_ms == 10 && law.baseline_ms == 10);
    tg_gate_tick(gate, 2000);
    tg_gate_get_law(gate, &law);
    assert_true(law.mean_ms == 20 && law.baseline_ms == 10);
    assert_true(law.queue_estimate > 0 && law.queue_estimate <= 20.5 / 2);
    tg_gate_free(gate);
}

static void memory_is_unknown_until_it_is_told(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config(&log);
    struct tg_gate *gate = must_gate(&config);
    (void)state;

    assert_true(isnan(stats_of_gate(gate).memory_used));
    tg_gate_set_memory(gate, 0.25);
    assert_true(stats_of_gate(gate).memory_used == 0.25);
    tg_gate_set_memory(gate, NAN);
    assert_true(isnan(stats_of_gate(gate).memory_used));
    tg_gate_free(gate);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_peer_is_counted_waiting_and_running_by_its_name),
        cmocka_unit_test(peers_beyond_the_bound_have_no_count_of_their_own),
        cmocka_unit_test(laws_that_learn_nothing_estimate_nothing),
        cmocka_unit_test(a_peek_that_refuses_says_what_the_refusal_will),
        cmocka_unit_test(vegas_tells_how_many_wait),
        cmocka_unit_test(memory_is_unknown_until_it_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
