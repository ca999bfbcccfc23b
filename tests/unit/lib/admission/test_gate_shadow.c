/* test_gate_shadow.c - stages and limits that only count what they would have refused. */
#include "gate_kit.h"

#define NOW 1000
#define STORE_BYTES ((size_t)256 * 1024)
#define BIT(reason) (1u << TG_REASON_##reason)

/* Each of them is admitted, and the reason counted. */
static void expect_would_deny(struct tg_gate *gate, const struct tg_call *call, int times,
                              enum tg_reason reason, unsigned bits)
{
    uint64_t before = stats_of_gate(gate).would_deny[reason];

    for (int i = 0; i < times; i++) {
        struct tg_answer answer = must_admit(gate, call, NOW);
        assert_int_equal(answer.step, TG_DECIDED);
        assert_true(answer.decision.allowed);
        assert_int_equal(answer.would_deny, bits);
    }
    struct tg_gate_stats stats = stats_of_gate(gate);
    assert_int_equal(stats.would_deny[reason] - before, times);
    for (int r = 0; r < TG_REASON_COUNT; r++)
        assert_int_equal(stats.refused[r], 0);
}

static void memory_in_shadow_counts_and_refuses_nothing(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config(&log);
    struct tg_call low = call_of(TG_PRIORITY_LOW), high = call_of(TG_PRIORITY_HIGH);
    (void)state;

    config.memory.on = true;
    config.memory.mode = TG_SHADOW;
    struct tg_gate *gate = must_gate(&config);
    tg_gate_set_memory(gate, 0.9);
    expect_would_deny(gate, &low, 3, TG_REASON_MEMORY_PRESSURE, BIT(MEMORY_PRESSURE));
    expect_would_deny(gate, &high, 0, TG_REASON_MEMORY_PRESSURE, 0);
    assert_int_equal(must_admit(gate, &high, NOW).would_deny, 0);
    tg_gate_free(gate);
}

static void peers_in_shadow_go_on_counting(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config(&log);
    struct tg_call call = call_from(TG_PRIORITY_NORMAL, "peer");
    (void)state;

    config.peers.on = true;
    config.peers.limit = 2;
    config.peers.mode = TG_SHADOW;
    struct tg_gate *gate = must_gate(&config);
    assert_int_equal(must_admit(gate, &call, NOW).would_deny, 0);
    assert_int_equal(must_admit(gate, &call, NOW).would_deny, 0);
    expect_would_deny(gate, &call, 5, TG_REASON_PEER_LIMIT, BIT(PEER_LIMIT));
    assert_int_equal(stats_of_gate(gate).peer_calls, 7);
    /* Enforced from now on: those that run stay. */
    config.peers.mode = TG_ENFORCE;
    must_reconfigure(gate, &config, NOW);
    must_refuse(gate, &call, NOW, TG_REASON_PEER_LIMIT);
    assert_int_equal(stats_of_gate(gate).peer_calls, 7);
    tg_gate_free(gate);
}

static void concurrency_in_shadow_lets_nobody_wait(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config_slots(&log, 2);
    struct tg_call call = call_of(TG_PRIORITY_HIGH);
    (void)state;

    config.concurrency.mode = TG_SHADOW;
    struct tg_gate *gate = must_gate(&config);
    assert_int_equal(fill_gate(gate, &call, NOW, NULL, 2), 2);
    expect_would_deny(gate, &call, 6, TG_REASON_CONCURRENCY, BIT(CONCURRENCY));
    struct tg_answer answer = must_admit(gate, &call, NOW);
    expect_decision("beyond the limit", answer.decision, ALLOWED(2, 0, NOW));
    assert_int_equal(stats_of_gate(gate).in_flight, 9);
    /* Enforced again, they finish before anybody gets in. */
    config.concurrency.mode = TG_ENFORCE;
    must_reconfigure(gate, &config, NOW);
    must_queue(gate, &call, NOW);
    tg_gate_free(gate);
}

/* In shadow nothing is refused: not even who began to wait when it was not. */
static void concurrency_put_in_shadow_refuses_nobody_who_waits(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config_slots(&log, 1);
    struct tg_gate *gate = must_gate(&config);
    struct tg_call call = call_waiting(TG_PRIORITY_HIGH, 4);
    (void)state;

    must_allow(gate, &call, NOW);
    tg_lease waiting = must_queue(gate, &call, NOW);
    config.concurrency.mode = TG_SHADOW;
    must_reconfigure(gate, &config, NOW + 10);
    tg_gate_tick(gate, NOW + 100);
    assert_true(must_resume(gate, waiting, &call, NOW + 100).decision.allowed);
    assert_int_equal(stats_of_gate(gate).refused[TG_REASON_CONCURRENCY], 0);
    tg_gate_free(gate);
}

static void a_precheck_in_shadow_is_told_with_the_decision(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config_slots(&log, 1);
    struct tg_call call = call_from(TG_PRIORITY_LOW, "peer");
    (void)state;

    config.memory.on = config.peers.on = true;
    config.memory.mode = config.peers.mode = TG_SHADOW;
    struct tg_gate *gate = must_gate(&config);
    tg_gate_set_memory(gate, 0.9);
    struct tg_answer checked = must_precheck(gate, &call, NOW);
    assert_true(checked.decision.allowed);
    assert_int_equal(checked.would_deny, BIT(MEMORY_PRESSURE));
    struct tg_answer answer = must_admit_checked(gate, &call, checked.lease, NOW);
    assert_int_equal(answer.would_deny, BIT(MEMORY_PRESSURE));
    /* And where a later stage refuses. */
    checked = must_precheck(gate, &call, NOW);
    answer = must_admit_checked(gate, &call, checked.lease, NOW);
    assert_int_equal(answer.reason, TG_REASON_CONCURRENCY);
    assert_int_equal(answer.would_deny, BIT(MEMORY_PRESSURE));
    assert_int_equal(stats_of_gate(gate).would_deny[TG_REASON_MEMORY_PRESSURE], 2);
    tg_gate_free(gate);
}

static void what_was_seen_in_shadow_is_told_after_a_wait(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config_slots(&log, 1);
    struct tg_call call = call_of(TG_PRIORITY_NORMAL);
    (void)state;

    config.memory.on = true;
    config.memory.mode = TG_SHADOW;
    struct tg_gate *gate = must_gate(&config);
    tg_gate_set_memory(gate, 0.96);
    tg_lease running = must_allow(gate, &call, NOW);
    tg_lease first = must_queue(gate, &call, NOW), second = must_queue(gate, &call, NOW);
    tg_gate_set_memory(gate, 0.1);
    assert_true(finish_as(gate, running, NOW, TG_OUTCOME_CANCELLED));
    assert_int_equal(must_resume(gate, first, &call, NOW).would_deny, BIT(MEMORY_PRESSURE));
    assert_int_equal(must_resume(gate, second, &call, NOW + 50).would_deny, BIT(MEMORY_PRESSURE));
    tg_gate_free(gate);
}

/* ---- limits ---- */

struct shaded {
    struct gate_log log;
    struct tg_store *store;
    tg_limits set;
    struct tg_scope scope;
    struct tg_gate *gate;
    struct tg_call call;
};

static void shaded_open(struct shaded *s, enum tg_mode rate, enum tg_mode cost)
{
    struct tg_limit limits[] = {limit_on(TG_AXIS_RATE, "fixed_window:limit=2,window=1000000"),
                                limit_on(TG_AXIS_COST, "fixed_window:limit=10,window=1000000")};

    *s = (struct shaded){.store = must_store(STORE_BYTES, 1)};
    limits[0].mode = rate;
    limits[1].mode = cost;
    s->set = must_define(s->store, limits, 2);
    s->scope = scope_of(s->set, "key");
    struct tg_gate_config config = gate_config_slots(&s->log, 1000);
    config.store = s->store;
    s->gate = must_gate(&config);
    s->call = call_of(TG_PRIORITY_HIGH);
    s->call.debit = debit_of(&s->scope, 1);
}

static void shaded_close(struct shaded *s)
{
    tg_gate_free(s->gate);
    tg_store_free(s->store);
}

static void a_rate_limit_in_shadow_refuses_nothing(void **state)
{
    struct shaded s;
    (void)state;

    shaded_open(&s, TG_SHADOW, TG_ENFORCE);
    assert_int_equal(must_admit(s.gate, &s.call, NOW).would_deny, 0);
    assert_int_equal(must_admit(s.gate, &s.call, NOW).would_deny, 0);
    expect_would_deny(s.gate, &s.call, 5, TG_REASON_RATE, BIT(RATE));
    assert_int_equal(must_admit(s.gate, &s.call, NOW).axes.would_deny, 1u << TG_AXIS_RATE);
    /* Cost goes on to be enforced, and what rate would have said is told all the same. */
    s.call.debit.cost = 4;
    struct tg_answer answer = must_refuse(s.gate, &s.call, NOW, TG_REASON_COST);
    assert_int_equal(answer.would_deny, BIT(RATE));
    shaded_close(&s);
}

static void a_cost_limit_in_shadow_refuses_nothing(void **state)
{
    struct shaded s;
    (void)state;

    shaded_open(&s, TG_ENFORCE, TG_SHADOW);
    s.call.debit.cost = 6;
    assert_int_equal(must_admit(s.gate, &s.call, NOW).would_deny, 0);
    expect_would_deny(s.gate, &s.call, 1, TG_REASON_COST, BIT(COST));
    must_refuse(s.gate, &s.call, NOW, TG_REASON_RATE);
    shaded_close(&s);
}

static void both_in_shadow_are_both_told(void **state)
{
    struct shaded s;
    (void)state;

    shaded_open(&s, TG_SHADOW, TG_SHADOW);
    s.call.debit.cost = 10;
    assert_int_equal(must_admit(s.gate, &s.call, NOW).would_deny, 0);
    assert_int_equal(must_admit(s.gate, &s.call, NOW).would_deny, BIT(COST));
    expect_would_deny(s.gate, &s.call, 3, TG_REASON_RATE, BIT(RATE) | BIT(COST));
    assert_int_equal(stats_of_gate(s.gate).would_deny[TG_REASON_COST], 4);
    shaded_close(&s);
}

static void in_shadow_both_charging_modes_tell_the_same(void **state)
{
    (void)state;
    for (int mode = 0; mode < 2; mode++) {
        struct shaded s;
        shaded_open(&s, TG_SHADOW, TG_SHADOW);
        s.call.debit.charging = mode == 0 ? TG_CHARGE_ATOMIC : TG_CHARGE_PER_AXIS;
        s.call.debit.cost = 6;
        assert_int_equal(must_admit(s.gate, &s.call, NOW).would_deny, 0);
        assert_int_equal(must_admit(s.gate, &s.call, NOW).would_deny, BIT(COST));
        assert_int_equal(must_admit(s.gate, &s.call, NOW).would_deny, BIT(RATE) | BIT(COST));
        shaded_close(&s);
    }
}

/* A limit in shadow is charged where it allows: where it did not, there is nothing to give back. */
static void settling_gives_a_limit_in_shadow_no_more_than_it_took(void **state)
{
    struct shaded s;
    (void)state;

    shaded_open(&s, TG_SHADOW, TG_SHADOW);
    s.call.debit.cost = 8;
    must_allow(s.gate, &s.call, NOW); /* charged: 2 are left */
    struct tg_answer answer = must_admit(s.gate, &s.call, NOW);
    assert_int_equal(answer.would_deny, BIT(COST)); /* not charged */
    assert_true(finish_settled(s.gate, answer.lease, NOW, 0));
    /* 8 of 10 are still taken: 3 do not fit. */
    s.call.debit.cost = 3;
    answer = must_admit(s.gate, &s.call, NOW);
    assert_int_equal(answer.would_deny & BIT(COST), BIT(COST));
    shaded_close(&s);
}

/* Where it did allow, it is settled like any other. */
static void settling_gives_a_limit_in_shadow_back_what_it_took(void **state)
{
    struct shaded s;
    (void)state;

    shaded_open(&s, TG_ENFORCE, TG_SHADOW);
    s.call.debit.cost = 8;
    assert_true(finish_settled(s.gate, must_allow(s.gate, &s.call, NOW), NOW, 3));
    s.call.debit.cost = 7; /* 3 of 10 are taken */
    assert_int_equal(must_admit(s.gate, &s.call, NOW).would_deny, 0);
    shaded_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_in_shadow_counts_and_refuses_nothing),
        cmocka_unit_test(peers_in_shadow_go_on_counting),
        cmocka_unit_test(concurrency_in_shadow_lets_nobody_wait),
        cmocka_unit_test(concurrency_put_in_shadow_refuses_nobody_who_waits),
        cmocka_unit_test(a_precheck_in_shadow_is_told_with_the_decision),
        cmocka_unit_test(what_was_seen_in_shadow_is_told_after_a_wait),
        cmocka_unit_test(a_rate_limit_in_shadow_refuses_nothing),
        cmocka_unit_test(a_cost_limit_in_shadow_refuses_nothing),
        cmocka_unit_test(both_in_shadow_are_both_told),
        cmocka_unit_test(in_shadow_both_charging_modes_tell_the_same),
        cmocka_unit_test(settling_gives_a_limit_in_shadow_no_more_than_it_took),
        cmocka_unit_test(settling_gives_a_limit_in_shadow_back_what_it_took),
    };
    return cmocka_run_group_tests_name("gate_shadow", tests, NULL, NULL);
}
