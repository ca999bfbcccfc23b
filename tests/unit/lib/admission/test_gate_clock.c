/* test_gate_clock.c - clocks that jump, and wake functions that call back.
 *
 * A gate trusts its caller's clock within bounds: what the clock said once must not delay anything
 * for longer than TG_CLOCK_TRUST, and a clock that is behind for a moment must end nothing.
 */
#include "gate_kit.h"

#define NOW 5000000
#define HOUR 3600000

/* A gate with its one slot held at NOW. */
static struct tg_gate *busy_gate(struct gate_log *log, tg_lease *running)
{
    struct tg_gate_config config = gate_config_slots(log, 1);
    struct tg_gate *gate = must_gate(&config);
    struct tg_call call = call_of(TG_PRIORITY_HIGH);

    call.lease_ttl = 24 * HOUR; /* longer than any clock is ahead here */
    *running = must_allow(gate, &call, NOW);
    return gate;
}

static void a_clock_that_was_ahead_once_delays_no_wait(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_call late = call_of(TG_PRIORITY_LOW), waiting = call_waiting(TG_PRIORITY_NORMAL, 7);
    struct tg_answer answer;
    tg_lease running;
    struct tg_gate *gate = busy_gate(&log, &running);
    (void)state;

    must_refuse(gate, &late, NOW + HOUR, TG_REASON_CONCURRENCY);
    assert_int_equal(tg_gate_admit(gate, &waiting, 0, NOW + 1, &answer), TG_OK);
    assert_int_equal(answer.step, TG_WAITING);
    assert_int_equal(answer.deadline, NOW + 51);
    assert_int_equal(tg_gate_next_deadline(gate), NOW + 51);
    tg_gate_tick(gate, NOW + 50);
    assert_int_equal(next_woken(&log), -1);
    tg_gate_tick(gate, NOW + 51);
    assert_int_equal(next_woken(&log), 7);
    answer = must_resume(gate, answer.lease, &waiting, NOW + 51);
    assert_int_equal(answer.reason, TG_REASON_CONCURRENCY);
    assert_int_equal(answer.decision.reset_at, NOW + 51);
    tg_gate_free(gate);
}

static void a_callers_deadline_holds_while_the_clock_is_behind(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_call late = call_of(TG_PRIORITY_LOW), waiting = call_waiting(TG_PRIORITY_HIGH, 1);
    tg_lease running;
    struct tg_gate *gate = busy_gate(&log, &running);
    (void)state;

    must_refuse(gate, &late, NOW + HOUR, TG_REASON_CONCURRENCY);
    waiting.deadline = NOW + 21;
    struct tg_answer answer = must_admit(gate, &waiting, NOW + 1);
    assert_int_equal(answer.step, TG_WAITING);
    assert_int_equal(answer.deadline, NOW + 21);
    tg_gate_free(gate);
}

static void leases_after_a_jump_last_as_long_as_they_should(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config_slots(&log, 8);
    struct tg_call call = call_of(TG_PRIORITY_NORMAL);
    struct tg_gate *gate = must_gate(&config);
    (void)state;

    call.lease_ttl = 1000;
    (void)must_allow(gate, &call, NOW + HOUR);
    struct tg_answer answer = must_admit(gate, &call, NOW);
    assert_int_equal(answer.deadline, NOW + 1000);
    tg_gate_tick(gate, NOW + 999);
    assert_int_equal(stats_of_gate(gate).in_flight, 2);
    tg_gate_tick(gate, NOW + 1000);
    assert_int_equal(stats_of_gate(gate).in_flight, 0);
    assert_int_equal(stats_of_gate(gate).expired, 2);
    tg_gate_free(gate);
}

/* To follow it would age everything by an hour when it comes back. */
static void a_clock_that_is_behind_once_ends_nothing(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_call call = call_of(TG_PRIORITY_LOW), waiting = call_waiting(TG_PRIORITY_HIGH, 3);
    tg_lease running;
    struct tg_gate *gate = busy_gate(&log, &running);
    (void)state;

    tg_lease lease = must_queue(gate, &waiting, NOW);
    must_refuse(gate, &call, NOW - HOUR, TG_REASON_CONCURRENCY);
    tg_gate_tick(gate, NOW - HOUR + 5);
    assert_int_equal(tg_gate_next_deadline(gate), NOW - HOUR + 100);
    tg_gate_tick(gate, NOW + 5);
    assert_int_equal(tg_gate_next_deadline(gate), NOW + 100);
    assert_int_equal(next_woken(&log), -1);
    assert_true(finish(gate, running, NOW + 6));
    assert_int_equal(next_woken(&log), 3);
    assert_true(must_resume(gate, lease, &waiting, NOW + 6).decision.allowed);
    assert_int_equal(stats_of_gate(gate).expired, 0);
    tg_gate_free(gate);
}

/* Two threads, one of which takes its clock from elsewhere: both see the same time pass. */
static void clocks_that_are_apart_for_good_give_one_time(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_call waiting = call_waiting(TG_PRIORITY_NORMAL, 9);
    tg_lease running;
    struct tg_gate *gate = busy_gate(&log, &running);
    (void)state;

    tg_gate_tick(gate, NOW + HOUR);
    (void)must_queue(gate, &waiting, NOW + 10);
    for (tg_ms passed = 1; passed < 50; passed++) {
        tg_gate_tick(gate, NOW + 10 + passed);
        tg_gate_tick(gate, NOW + HOUR + passed);
    }
    assert_int_equal(next_woken(&log), -1);
    tg_gate_tick(gate, NOW + HOUR + 50);
    assert_int_equal(next_woken(&log), 9);
    tg_gate_free(gate);
}

static void a_step_back_within_the_trust_stays_at_the_latest_time(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_call waiting = call_waiting(TG_PRIORITY_NORMAL, 2);
    tg_lease running;
    struct tg_gate *gate = busy_gate(&log, &running);
    (void)state;

    tg_gate_tick(gate, NOW + TG_CLOCK_TRUST);
    struct tg_answer answer = must_admit(gate, &waiting, NOW);
    assert_int_equal(answer.deadline, NOW + TG_CLOCK_TRUST + 50);
    tg_gate_tick(gate, NOW - 1);
    assert_int_equal(tg_gate_next_deadline(gate), NOW - 1 + 50);
    tg_gate_free(gate);
}

/* ---- wake ---- */

struct caller {
    struct tg_gate *gate;
    struct tg_gate_config config;
    tg_lease running;
    int called;
};

static void call_back(void *context, void *waiter)
{
    struct caller *caller = context;
    struct tg_gate *gate = caller->gate;
    struct tg_call call = call_of(TG_PRIORITY_HIGH);
    struct tg_gate_stats stats = {.limit = -5};
    struct tg_law_metrics law = {.limit = -5};
    struct tg_expectation expectation;
    struct tg_answer answer;
    struct tg_axes axes = {.present = 0};
    (void)waiter;

    caller->called++;
    assert_int_equal(tg_gate_precheck(gate, &call, NOW, &answer), TG_ERR_REENTERED);
    assert_int_equal(tg_gate_admit(gate, &call, 0, NOW, &answer), TG_ERR_REENTERED);
    assert_int_equal(tg_gate_resume(gate, 1, &call, NOW, &answer), TG_ERR_REENTERED);
    assert_int_equal(tg_gate_peek(gate, &call, NOW, &answer), TG_ERR_REENTERED);
    assert_int_equal(tg_gate_store_answered(gate, 1, TG_OK, &axes, NOW, &answer),
                     TG_ERR_REENTERED);
    assert_int_equal(tg_gate_reconfigure(gate, &caller->config, NOW, NULL), TG_ERR_REENTERED);
    call.like = "model";
    call.like_bytes = 5;
    assert_int_equal(tg_gate_expect(gate, &call, &expectation), TG_ERR_REENTERED);
    assert_false(tg_gate_release(gate, caller->running, NOW, NULL));
    assert_false(tg_gate_renew(gate, caller->running, NOW, 1));
    assert_false(tg_gate_first_byte(gate, caller->running, NOW));
    assert_int_equal(tg_gate_next_deadline(gate), INT64_MAX);
    assert_int_equal(tg_gate_peer_calls(gate, "peer", 4), 0);
    tg_gate_tick(gate, NOW + HOUR);
    tg_gate_set_memory(gate, 1);
    tg_gate_set_room(gate, 0, NOW + HOUR, NOW);
    tg_gate_get_stats(gate, &stats);
    tg_gate_get_law(gate, &law);
    assert_int_equal(stats.limit, -5);
    assert_int_equal(law.limit, -5);
}

static void a_wake_that_calls_its_gate_is_told(void **state)
{
    struct caller caller = {.called = 0};
    struct tg_call call = call_of(TG_PRIORITY_HIGH), waiting = call_waiting(TG_PRIORITY_HIGH, 0);
    (void)state;

    caller.config = gate_config_slots(NULL, 1);
    caller.config.wake = call_back;
    caller.config.context = &caller;
    caller.gate = must_gate(&caller.config);
    caller.running = must_allow(caller.gate, &call, NOW);
    tg_lease granted = must_queue(caller.gate, &waiting, NOW);
    assert_true(tg_gate_release(caller.gate, caller.running, NOW + 1, NULL));
    assert_int_equal(caller.called, 1);
    assert_true(must_resume(caller.gate, granted, &waiting, NOW + 1).decision.allowed);
    tg_lease over = must_queue(caller.gate, &waiting, NOW + 2);
    tg_gate_tick(caller.gate, NOW + 200);
    assert_int_equal(caller.called, 2);
    assert_int_equal(must_resume(caller.gate, over, &waiting, NOW + 200).reason,
                     TG_REASON_CONCURRENCY);
    assert_true(tg_gate_release(caller.gate, granted, NOW + 201, NULL));
    expect_idle(caller.gate);
    tg_gate_free(caller.gate);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_clock_that_was_ahead_once_delays_no_wait),
        cmocka_unit_test(a_callers_deadline_holds_while_the_clock_is_behind),
        cmocka_unit_test(leases_after_a_jump_last_as_long_as_they_should),
        cmocka_unit_test(a_clock_that_is_behind_once_ends_nothing),
        cmocka_unit_test(clocks_that_are_apart_for_good_give_one_time),
        cmocka_unit_test(a_step_back_within_the_trust_stays_at_the_latest_time),
        cmocka_unit_test(a_wake_that_calls_its_gate_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
