/* test_gate_queue.c - waiting for a slot.
 *
 * Who may, how long, how it ends; and what a limit that moves does to those who run and those who
 * wait.
 */
#include "gate_kit.h"

#define NOW 1000

/* A gate of `limit` slots, all of them held; the leases, where they are wanted. */
static struct tg_gate *full_gate(const struct tg_gate_config *config, tg_lease *leases)
{
    struct tg_gate *gate = must_gate(config);
    struct tg_call call = call_of(TG_PRIORITY_HIGH);
    int64_t limit = config->concurrency.law.initial;

    assert_int_equal(fill_gate(gate, &call, NOW, leases, limit), limit);
    return gate;
}

/* ---- hand-over ---- */

static void a_released_slot_is_handed_to_who_waits(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config_slots(&log, 1);
    struct tg_call waiting = call_waiting(TG_PRIORITY_NORMAL, 7);
    struct tg_call other = call_of(TG_PRIORITY_LOW);
    tg_lease running;
    struct tg_gate *gate = full_gate(&config, &running);
    (void)state;

    tg_lease lease = must_queue(gate, &waiting, NOW);
    assert_int_equal(stats_of_gate(gate).queued[TG_PRIORITY_NORMAL], 1);
    assert_int_equal(must_resume(gate, lease, &waiting, NOW + 10).step, TG_WAITING);
    assert_true(finish(gate, running, NOW + 20));
    assert_int_equal(next_woken(&log), 7);
    assert_int_equal(stats_of_gate(gate).in_flight, 1);
    /* It is his, though he has not come for it yet. */
    must_refuse(gate, &other, NOW + 20, TG_REASON_CONCURRENCY);
    struct tg_answer answer = must_resume(gate, lease, &waiting, NOW + 25);
    assert_true(answer.decision.allowed);
    assert_int_equal(answer.lease, lease);
    assert_int_equal(stats_of_gate(gate).in_flight, 1);
    assert_true(finish(gate, lease, NOW + 30));
    assert_int_equal(next_woken(&log), -1);
    expect_idle(gate);
    tg_gate_free(gate);
}

/* A grant in time is kept, however late its owner comes. */
static void a_slot_granted_in_time_is_kept_past_the_deadline(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config_slots(&log, 1);
    struct tg_call waiting = call_waiting(TG_PRIORITY_NORMAL, 1);
    tg_lease running;
    struct tg_gate *gate = full_gate(&config, &running);
    (void)state;

    tg_lease lease = must_queue(gate, &waiting, NOW);
    assert_true(finish(gate, running, NOW + 50));
    tg_gate_tick(gate, NOW + 90);
    assert_true(must_resume(gate, lease, &waiting, NOW + 90).decision.allowed);
    assert_int_equal(log.n_woken, 1);
    tg_gate_free(gate);
}

static void the_order_within_a_tenant_is_that_of_arrival(void **state)
{
    enum { WAITERS = 40 };
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config_slots(&log, 1);
    tg_lease leases[WAITERS], running;
    struct tg_gate *gate = full_gate(&config, &running);
    (void)state;

    for (int i = 0; i < WAITERS; i++) {
        struct tg_call call = call_waiting(TG_PRIORITY_NORMAL, i);
        call_set_tenant(&call, "tenant", 1 + i % 3);
        leases[i] = must_queue(gate, &call, NOW);
    }
    for (int i = 0; i < WAITERS; i++) {
        assert_true(finish(gate, running, NOW));
        assert_int_equal(next_woken(&log), i);
        running = leases[i];
    }
    tg_gate_free(gate);
}

static void a_higher_class_is_served_first(void **state)
{
    static const enum tg_priority arrivals[] = {TG_PRIORITY_LOW, TG_PRIORITY_NORMAL,
                                                TG_PRIORITY_HIGH, TG_PRIORITY_LOW,
                                                TG_PRIORITY_NORMAL, TG_PRIORITY_HIGH};
    static const int order[] = {2, 5, 1, 4, 0, 3};
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config_slots(&log, 4);
    tg_lease held[4], leases[6];
    (void)state;

    config.concurrency.wait[TG_PRIORITY_LOW] = 1000;
    config.concurrency.low_ratio = 1;
    struct tg_gate *gate = full_gate(&config, held);
    for (int i = 0; i < 6; i++) {
        struct tg_call call = call_waiting(arrivals[i], i);
        leases[i] = must_queue(gate, &call, NOW);
    }
    for (int i = 0; i < 6; i++) {
        assert_true(finish(gate, i < 4 ? held[i] : leases[order[i - 4]], NOW));
        assert_int_equal(next_woken(&log), order[i]);
    }
    tg_gate_free(gate);
}

/* Whoever comes while others wait does not overtake them. */
static void a_newcomer_does_not_overtake_those_who_wait(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config_slots(&log, 1);
    struct tg_call first = call_waiting(TG_PRIORITY_NORMAL, 1);
    struct tg_call second = call_waiting(TG_PRIORITY_NORMAL, 2);
    tg_lease running;
    struct tg_gate *gate = full_gate(&config, &running);
    (void)state;

    tg_lease lease = must_queue(gate, &first, NOW);
    assert_true(finish(gate, running, NOW));
    must_queue(gate, &second, NOW);
    assert_true(must_resume(gate, lease, &first, NOW).decision.allowed);
    tg_gate_free(gate);
}

/* ---- who may wait ---- */

static void a_full_queue_refuses_at_once(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config_slots(&log, 1);
    struct tg_call normal = call_of(TG_PRIORITY_NORMAL), high = call_of(TG_PRIORITY_HIGH);
    (void)state;

    config.concurrency.queue_size = 3;
    struct tg_gate *gate = full_gate(&config, NULL);
    for (int i = 0; i < 3; i++)
        must_queue(gate, &normal, NOW);
    must_refuse(gate, &normal, NOW, TG_REASON_CONCURRENCY);
    for (int i = 0; i < 3; i++)
        must_queue(gate, &high, NOW); /* each class has a queue of its own */
    must_refuse(gate, &high, NOW, TG_REASON_CONCURRENCY);
    tg_gate_free(gate);
}

static void a_queue_of_size_0_and_a_wait_of_0_never_queue(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config_slots(&log, 1);
    struct tg_call normal = call_of(TG_PRIORITY_NORMAL), high = call_of(TG_PRIORITY_HIGH);
    (void)state;

    config.concurrency.wait[TG_PRIORITY_NORMAL] = 0;
    struct tg_gate *gate = full_gate(&config, NULL);
    must_refuse(gate, &normal, NOW, TG_REASON_CONCURRENCY);
    must_queue(gate, &high, NOW);
    config.concurrency.queue_size = 0;
    must_reconfigure(gate, &config, NOW);
    must_refuse(gate, &high, NOW, TG_REASON_CONCURRENCY);
    tg_gate_free(gate);
}

/* (calls ahead + 1) x mean / (limit x g) > wait: refused at once. With 4 slots and calls of 60 ms,
 * each turn is 15 ms: within 50 ms three, within 100 ms six. g is 1: high has had no slots. */
static void a_wait_that_cannot_be_met_is_refused_at_once(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config_slots(&log, 4);
    struct tg_call normal = call_of(TG_PRIORITY_NORMAL), high = call_of(TG_PRIORITY_HIGH);
    struct tg_gate *gate = must_gate(&config);
    tg_lease held[4];
    (void)state;

    assert_int_equal(fill_gate(gate, &normal, NOW, held, 4), 4);
    for (int i = 0; i < 4; i++)
        assert_true(finish(gate, held[i], NOW + 60));
    assert_int_equal(fill_gate(gate, &normal, NOW + 60, held, 4), 4);
    for (int i = 0; i < 3; i++)
        must_queue(gate, &normal, NOW + 60);
    must_refuse(gate, &normal, NOW + 60, TG_REASON_CONCURRENCY);
    for (int i = 0; i < 6; i++)
        must_queue(gate, &high, NOW + 60); /* those below are not ahead of it */
    must_refuse(gate, &high, NOW + 60, TG_REASON_CONCURRENCY);
    must_refuse(gate, &normal, NOW + 60, TG_REASON_CONCURRENCY);
    tg_gate_free(gate);
}

/* Exactly the wait is not more than the wait. */
static void a_wait_that_is_just_met_is_waited(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config_slots(&log, 2);
    struct tg_call high = call_of(TG_PRIORITY_HIGH), normal = call_of(TG_PRIORITY_NORMAL);
    struct tg_gate *gate = must_gate(&config);
    tg_lease held[2];
    (void)state;

    assert_int_equal(fill_gate(gate, &normal, NOW, held, 2), 2);
    assert_true(finish(gate, held[0], NOW + 100));
    assert_true(finish(gate, held[1], NOW + 100));
    assert_int_equal(fill_gate(gate, &normal, NOW + 100, held, 2), 2);
    must_queue(gate, &normal, NOW + 100); /* 1 x 100 / 2 = 50 */
    must_refuse(gate, &normal, NOW + 100, TG_REASON_CONCURRENCY);
    must_queue(gate, &high, NOW + 100);
    must_queue(gate, &high, NOW + 100); /* 2 x 100 / 2 = 100 */
    must_refuse(gate, &high, NOW + 100, TG_REASON_CONCURRENCY);
    tg_gate_free(gate);
}

static void without_a_sample_a_call_waits(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config_slots(&log, 1);
    struct tg_call call = call_of(TG_PRIORITY_NORMAL);
    tg_lease running;
    struct tg_gate *gate = full_gate(&config, &running);
    (void)state;

    /* Cancelled and expired calls are no samples, however long they took. */
    assert_true(finish_as(gate, running, NOW + 90000, TG_OUTCOME_CANCELLED));
    must_allow(gate, &call, NOW + 90000);
    for (int i = 0; i < 500; i++)
        must_queue(gate, &call, NOW + 90000);
    tg_gate_free(gate);
}

static void a_calls_own_deadline_counts_for_the_expected_wait(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config_slots(&log, 1);
    struct tg_call call = call_of(TG_PRIORITY_HIGH);
    tg_lease running;
    struct tg_gate *gate = full_gate(&config, &running);
    (void)state;

    assert_true(finish(gate, running, NOW + 40));
    must_allow(gate, &call, NOW + 40);
    call.deadline = NOW + 40 + 39;
    must_refuse(gate, &call, NOW + 40, TG_REASON_CONCURRENCY);
    call.deadline = NOW + 40 + 40;
    must_queue(gate, &call, NOW + 40);
    tg_gate_free(gate);
}

/* ---- the end of a wait ---- */

static void a_wait_is_over_exactly_at_its_deadline(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config_slots(&log, 1);
    struct tg_call normal = call_waiting(TG_PRIORITY_NORMAL, 1);
    struct tg_call high = call_waiting(TG_PRIORITY_HIGH, 2);
    struct tg_gate *gate = full_gate(&config, NULL);
    (void)state;

    tg_lease first = must_queue(gate, &normal, NOW), second = must_queue(gate, &high, NOW);
    assert_int_equal(tg_gate_next_deadline(gate), NOW + 50);
    tg_gate_tick(gate, NOW + 49);
    assert_int_equal(next_woken(&log), -1);
    tg_gate_tick(gate, NOW + 50);
    assert_int_equal(next_woken(&log), 1);
    assert_int_equal(next_woken(&log), -1);
    assert_int_equal(stats_of_gate(gate).queued[TG_PRIORITY_NORMAL], 0);
    assert_int_equal(tg_gate_next_deadline(gate), NOW + 100);
    struct tg_answer answer = must_resume(gate, first, &normal, NOW + 50);
    assert_int_equal(answer.reason, TG_REASON_CONCURRENCY);
    expect_decision("timed out", answer.decision, DENIED(1, 0, NOW + 50, 1000));
    assert_int_equal(must_resume(gate, second, &high, NOW + 99).step, TG_WAITING);
    /* And without a tick. */
    answer = must_resume(gate, second, &high, NOW + 100);
    assert_int_equal(answer.reason, TG_REASON_CONCURRENCY);
    assert_int_equal(next_woken(&log), -1);
    assert_int_equal(tg_gate_resume(gate, second, &high, NOW + 100, &answer), TG_ERR_STALE);
    assert_int_equal(stats_of_gate(gate).leases, 1);
    assert_int_equal(stats_of_gate(gate).refused[TG_REASON_CONCURRENCY], 2);
    tg_gate_free(gate);
}

static void a_callers_own_deadline_may_be_shorter_and_not_longer(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config_slots(&log, 1);
    struct tg_call call = call_of(TG_PRIORITY_HIGH);
    struct tg_gate *gate = full_gate(&config, NULL);
    (void)state;

    call.deadline = NOW + 30;
    struct tg_answer answer = must_admit(gate, &call, NOW);
    assert_int_equal(answer.step, TG_WAITING);
    assert_int_equal(answer.deadline, NOW + 30);
    assert_int_equal(must_resume(gate, answer.lease, &call, NOW + 29).step, TG_WAITING);
    assert_int_equal(must_resume(gate, answer.lease, &call, NOW + 30).reason,
                     TG_REASON_CONCURRENCY);
    call.deadline = NOW + 5000;
    assert_int_equal(must_admit(gate, &call, NOW + 30).deadline, NOW + 130);
    call.deadline = NOW + 30; /* has passed */
    must_refuse(gate, &call, NOW + 30, TG_REASON_CONCURRENCY);
    must_refuse(gate, &call, NOW + 31, TG_REASON_CONCURRENCY);
    tg_gate_free(gate);
}

/* Nobody has ticked, and a slot becomes free: it is not for one whose wait is over. */
static void a_slot_that_comes_too_late_is_not_granted(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config_slots(&log, 1);
    struct tg_call normal = call_waiting(TG_PRIORITY_NORMAL, 1);
    struct tg_call high = call_waiting(TG_PRIORITY_HIGH, 2);
    tg_lease running;
    struct tg_gate *gate = full_gate(&config, &running);
    (void)state;

    tg_lease late = must_queue(gate, &normal, NOW);
    assert_true(finish_as(gate, running, NOW + 51, TG_OUTCOME_CANCELLED));
    struct tg_answer answer = must_resume(gate, late, &normal, NOW + 51);
    if (answer.reason != TG_REASON_CONCURRENCY)
        fail_msg("was to wait until %d, and got a slot at %d", NOW + 50, NOW + 51);
    running = must_allow(gate, &high, NOW + 51);
    late = must_queue(gate, &normal, NOW + 51);
    tg_lease in_time = must_queue(gate, &high, NOW + 51);
    assert_true(finish_as(gate, running, NOW + 110, TG_OUTCOME_CANCELLED));
    assert_true(must_resume(gate, in_time, &high, NOW + 110).decision.allowed);
    assert_int_equal(must_resume(gate, late, &normal, NOW + 110).reason, TG_REASON_CONCURRENCY);
    assert_true(finish(gate, in_time, NOW + 110));
    expect_idle(gate);
    tg_gate_free(gate);
}

static void cancelled_while_queued_a_thousand_times_leaks_nothing(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config_slots(&log, 1);
    struct tg_call call = call_from(TG_PRIORITY_HIGH, "peer");
    tg_lease running, waiting[5];
    (void)state;

    config.peers.on = true;
    struct tg_gate *gate = full_gate(&config, &running);
    struct tg_gate_stats before = stats_of_gate(gate), after;
    for (int i = 0; i < 1000; i++) {
        for (int j = 0; j < 5; j++)
            waiting[j] = must_queue(gate, &call, NOW);
        for (int j = 0; j < 5; j++)
            assert_true(finish_as(gate, waiting[(j * 3 + i) % 5], NOW, TG_OUTCOME_CANCELLED));
        after = stats_of_gate(gate);
        expect_same_holdings("after cancelling", &after, &before);
    }
    assert_true(finish(gate, running, NOW));
    assert_int_equal(log.n_woken, 0);
    expect_idle(gate);
    assert_int_equal(fill_gate(gate, &call, NOW, NULL, 5), 1);
    tg_gate_free(gate);
}

static void a_slot_granted_to_who_has_gone_goes_to_the_next(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config_slots(&log, 1);
    tg_lease running, leases[10];
    struct tg_gate *gate = full_gate(&config, &running);
    struct tg_answer answer;
    (void)state;

    for (int i = 0; i < 10; i++) {
        struct tg_call call = call_waiting(TG_PRIORITY_NORMAL, i);
        leases[i] = must_queue(gate, &call, NOW);
    }
    assert_true(finish(gate, running, NOW));
    for (int i = 0; i < 9; i++) {
        struct tg_call call = call_waiting(TG_PRIORITY_NORMAL, i);
        assert_int_equal(next_woken(&log), i);
        assert_true(finish_as(gate, leases[i], NOW, TG_OUTCOME_OK)); /* whatever is said of it */
        assert_int_equal(tg_gate_resume(gate, leases[i], &call, NOW, &answer), TG_ERR_STALE);
        assert_int_equal(stats_of_gate(gate).in_flight, 1);
    }
    struct tg_call last = call_waiting(TG_PRIORITY_NORMAL, 9);
    assert_int_equal(next_woken(&log), 9);
    assert_true(must_resume(gate, leases[9], &last, NOW).decision.allowed);
    assert_true(finish(gate, leases[9], NOW));
    expect_idle(gate);
    /* None of those that never ran is a sample. */
    last.priority = TG_PRIORITY_LOW;
    must_allow(gate, &last, NOW);
    assert_int_equal(must_refuse(gate, &last, NOW, TG_REASON_CONCURRENCY).decision.retry_after_ms,
                     1);
    tg_gate_free(gate);
}

/* A wait that was over when its owner went. */
static void a_timed_out_call_that_is_cancelled_is_gone(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config_slots(&log, 1);
    struct tg_call call = call_from(TG_PRIORITY_NORMAL, "peer");
    (void)state;

    config.peers.on = true;
    struct tg_gate *gate = full_gate(&config, NULL);
    tg_lease lease = must_queue(gate, &call, NOW);
    tg_gate_tick(gate, NOW + 60);
    assert_int_equal(log.n_woken, 1);
    assert_true(finish_as(gate, lease, NOW + 60, TG_OUTCOME_CANCELLED));
    assert_false(finish_as(gate, lease, NOW + 60, TG_OUTCOME_CANCELLED));
    assert_int_equal(stats_of_gate(gate).leases, 1);
    assert_int_equal(stats_of_gate(gate).peer_calls, 0);
    tg_gate_free(gate);
}

/* ---- low keeps room for the others ---- */

static void low_holds_its_part_and_high_comes_in_at_once(void **state)
{
    static const struct {
        int64_t limit;
        double ratio;
        int64_t low;
    } rows[] = {
        {10, 0.5, 5},
        {9, 0.5, 4},
        {1, 0.5, 1},
        {2, 0.5, 1},
        {10, 1, 10},
        {100, 0.29, 29},
        {100, 0.57, 57},
        {10, 0.05, 1},
        {1000, 0.001, 1},
        {8, 0, 0},
    };
    (void)state;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct gate_log log = {.n_woken = 0};
        struct tg_gate_config config = gate_config_slots(&log, rows[i].limit);
        struct tg_call low = call_of(TG_PRIORITY_LOW), high = call_of(TG_PRIORITY_HIGH);
        config.concurrency.low_ratio = rows[i].ratio;
        struct tg_gate *gate = must_gate(&config);
        int64_t held = fill_gate(gate, &low, NOW, NULL, 2000);
        if (held != rows[i].low)
            fail_msg("low holds %d of %d at a ratio of %g", (int)held, (int)rows[i].limit,
                     rows[i].ratio);
        assert_int_equal(fill_gate(gate, &high, NOW, NULL, 2000), rows[i].limit - rows[i].low);
        tg_gate_free(gate);
    }
}

/* Low waits for low to leave, even where slots are free; normal passes by. */
static void low_at_its_part_waits_beside_free_slots(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config_slots(&log, 4);
    struct tg_call low = call_waiting(TG_PRIORITY_LOW, 1), normal = call_of(TG_PRIORITY_NORMAL);
    tg_lease held[2];
    (void)state;

    config.concurrency.wait[TG_PRIORITY_LOW] = 1000;
    struct tg_gate *gate = must_gate(&config);
    assert_int_equal(fill_gate(gate, &low, NOW, held, 2), 2);
    tg_lease waiting = must_queue(gate, &low, NOW);
    tg_lease passing = must_allow(gate, &normal, NOW);
    assert_true(finish(gate, passing, NOW));
    assert_int_equal(next_woken(&log), -1);
    assert_true(finish(gate, held[0], NOW));
    assert_int_equal(next_woken(&log), 1);
    assert_true(must_resume(gate, waiting, &low, NOW).decision.allowed);
    tg_gate_free(gate);
}

/* ---- a limit that moves ---- */

static void cycles_of_raising_and_lowering_leave_exactly_the_limit(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config_slots(&log, 100);
    struct tg_gate *gate = must_gate(&config);
    struct tg_call call = call_of(TG_PRIORITY_HIGH);
    struct tg_call low = call_of(TG_PRIORITY_LOW);
    static tg_lease leases[200];
    (void)state;

    for (int i = 0; i < 300; i++) {
        must_set_limit(gate, &config, 101, NOW + i);
        must_set_limit(gate, &config, 100, NOW + i);
    }
    assert_int_equal(fill_gate(gate, &call, NOW, leases, 200), 100);
    /* And while they run, some coming and going. */
    for (int i = 0; i < 300; i++) {
        must_set_limit(gate, &config, 101 + i % 50, NOW + 300 + i);
        tg_lease lease = must_allow(gate, &call, NOW + 300 + i);
        must_set_limit(gate, &config, 100 - i % 50, NOW + 300 + i);
        assert_true(finish(gate, lease, NOW + 300 + i));
        must_refuse(gate, &low, NOW + 300 + i, TG_REASON_CONCURRENCY);
    }
    must_set_limit(gate, &config, 100, NOW + 600);
    for (int i = 0; i < 100; i++)
        assert_true(finish_as(gate, leases[i], NOW + 600, TG_OUTCOME_CANCELLED));
    expect_idle(gate);
    assert_int_equal(fill_gate(gate, &call, NOW + 600, NULL, 200), 100);
    tg_gate_free(gate);
}

static void a_lower_limit_revokes_nothing_and_admits_nobody_until_drained(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config_slots(&log, 8);
    struct tg_call call = call_of(TG_PRIORITY_LOW);
    tg_lease leases[8];
    (void)state;

    config.concurrency.low_ratio = 1;
    struct tg_gate *gate = full_gate(&config, leases);
    must_set_limit(gate, &config, 3, NOW);
    assert_int_equal(stats_of_gate(gate).in_flight, 8);
    for (int i = 0; i < 5; i++) {
        must_refuse(gate, &call, NOW, TG_REASON_CONCURRENCY);
        assert_true(tg_gate_renew(gate, leases[i], NOW, 0));
        assert_true(finish(gate, leases[i], NOW));
    }
    must_refuse(gate, &call, NOW, TG_REASON_CONCURRENCY);
    assert_true(finish(gate, leases[5], NOW));
    expect_decision("the third", must_admit(gate, &call, NOW).decision, ALLOWED(3, 0, NOW));
    must_refuse(gate, &call, NOW, TG_REASON_CONCURRENCY);
    tg_gate_free(gate);
}

static void a_higher_limit_admits_those_who_wait(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config_slots(&log, 1);
    struct tg_gate *gate = full_gate(&config, NULL);
    (void)state;

    for (int i = 0; i < 5; i++) {
        struct tg_call call = call_waiting(TG_PRIORITY_NORMAL, i);
        must_queue(gate, &call, NOW);
    }
    must_set_limit(gate, &config, 4, NOW);
    for (int i = 0; i < 3; i++)
        assert_int_equal(next_woken(&log), i);
    assert_int_equal(next_woken(&log), -1);
    assert_int_equal(stats_of_gate(gate).in_flight, 4);
    assert_int_equal(stats_of_gate(gate).queued[TG_PRIORITY_NORMAL], 2);
    tg_gate_free(gate);
}

/* Those who wait for a stage that is no more are let in, whatever the new settings leave out. */
static void concurrency_switched_off_admits_those_who_wait(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config_slots(&log, 1);
    struct tg_call call = call_waiting(TG_PRIORITY_NORMAL, 3);
    struct tg_gate *gate = full_gate(&config, NULL);
    (void)state;

    tg_lease lease = must_queue(gate, &call, NOW);
    config.concurrency.on = false;
    must_reconfigure(gate, &config, NOW);
    assert_int_equal(next_woken(&log), 3);
    assert_true(must_resume(gate, lease, &call, NOW).decision.allowed);
    assert_true(finish(gate, lease, NOW));
    tg_gate_free(gate);
}

/* Settings that leave out whom to wake are refused, or nobody is left without a word: not a
 * crash. */
static void settings_without_a_wake_do_no_harm_to_those_who_wait(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config_slots(&log, 1);
    struct tg_call call = call_waiting(TG_PRIORITY_NORMAL, 3);
    struct tg_gate *gate = full_gate(&config, NULL);
    (void)state;

    tg_lease lease = must_queue(gate, &call, NOW);
    config.concurrency.on = false;
    config.wake = NULL;
    if (tg_gate_reconfigure(gate, &config, NOW, NULL) == TG_OK)
        assert_true(must_resume(gate, lease, &call, NOW).decision.allowed);
    else
        assert_int_equal(must_resume(gate, lease, &call, NOW).step, TG_WAITING);
    tg_gate_tick(gate, NOW + 1000);
    tg_gate_free(gate);
}

/* ---- time ---- */

static void the_queue_never_sees_time_go_back(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config_slots(&log, 1);
    struct tg_call call = call_of(TG_PRIORITY_NORMAL);
    struct tg_gate *gate = full_gate(&config, NULL);
    (void)state;

    tg_gate_tick(gate, NOW + 500);
    struct tg_answer answer = must_admit(gate, &call, NOW); /* a clock that is behind */
    assert_int_equal(answer.step, TG_WAITING);
    assert_int_equal(answer.deadline, NOW + 550);
    tg_gate_tick(gate, NOW);
    assert_int_equal(log.n_woken, 0);
    assert_int_equal(must_resume(gate, answer.lease, &call, NOW + 549).step, TG_WAITING);
    assert_int_equal(must_resume(gate, answer.lease, &call, NOW + 550).reason,
                     TG_REASON_CONCURRENCY);
    tg_gate_free(gate);
}

/* Ticking at the deadline that is told comes to an end, and misses nothing. */
static void ticking_at_each_deadline_lets_everything_happen(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config_slots(&log, 3);
    struct tg_call call = call_waiting(TG_PRIORITY_HIGH, 1);
    tg_ms at, last = 0;
    int ticks = 0;
    (void)state;

    config.lease_ttl = 70;
    struct tg_gate *gate = full_gate(&config, NULL);
    for (int i = 0; i < 7; i++)
        must_queue(gate, &call, NOW + i);
    while ((at = tg_gate_next_deadline(gate)) != INT64_MAX) {
        assert_true(at > last && ticks++ < 100);
        tg_gate_tick(gate, at);
        last = at;
    }
    struct tg_gate_stats stats = stats_of_gate(gate);
    assert_int_equal(log.n_woken, 7);
    assert_int_equal(stats.expired, 3);
    assert_int_equal(stats.in_flight, 3); /* granted, and not come for */
    assert_int_equal(stats.queued[TG_PRIORITY_HIGH], 0);
    tg_gate_free(gate);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_released_slot_is_handed_to_who_waits),
        cmocka_unit_test(a_slot_granted_in_time_is_kept_past_the_deadline),
        cmocka_unit_test(the_order_within_a_tenant_is_that_of_arrival),
        cmocka_unit_test(a_higher_class_is_served_first),
        cmocka_unit_test(a_newcomer_does_not_overtake_those_who_wait),
        cmocka_unit_test(a_full_queue_refuses_at_once),
        cmocka_unit_test(a_queue_of_size_0_and_a_wait_of_0_never_queue),
        cmocka_unit_test(a_wait_that_cannot_be_met_is_refused_at_once),
        cmocka_unit_test(a_wait_that_is_just_met_is_waited),
        cmocka_unit_test(without_a_sample_a_call_waits),
        cmocka_unit_test(a_calls_own_deadline_counts_for_the_expected_wait),
        cmocka_unit_test(a_wait_is_over_exactly_at_its_deadline),
        cmocka_unit_test(a_callers_own_deadline_may_be_shorter_and_not_longer),
        cmocka_unit_test(a_slot_that_comes_too_late_is_not_granted),
        cmocka_unit_test(cancelled_while_queued_a_thousand_times_leaks_nothing),
        cmocka_unit_test(a_slot_granted_to_who_has_gone_goes_to_the_next),
        cmocka_unit_test(a_timed_out_call_that_is_cancelled_is_gone),
        cmocka_unit_test(low_holds_its_part_and_high_comes_in_at_once),
        cmocka_unit_test(low_at_its_part_waits_beside_free_slots),
        cmocka_unit_test(cycles_of_raising_and_lowering_leave_exactly_the_limit),
        cmocka_unit_test(a_lower_limit_revokes_nothing_and_admits_nobody_until_drained),
        cmocka_unit_test(a_higher_limit_admits_those_who_wait),
        cmocka_unit_test(concurrency_switched_off_admits_those_who_wait),
        cmocka_unit_test(settings_without_a_wake_do_no_harm_to_those_who_wait),
        cmocka_unit_test(the_queue_never_sees_time_go_back),
        cmocka_unit_test(ticking_at_each_deadline_lets_everything_happen),
    };
    return cmocka_run_group_tests_name("gate_queue", tests, NULL, NULL);
}
