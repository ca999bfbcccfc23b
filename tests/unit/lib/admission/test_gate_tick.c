/* test_gate_tick.c - what time alone does to those who wait, and how long they are expected to.
 */
#include "gate_kit.h"

#define NOW 1000

/* Nobody starts, ends or asks: it is the tick that lets the law raise its limit, and so it is the
 * tick that grants. */
static void a_limit_raised_by_a_tick_admits_who_waits(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config_slots(&log, 4);
    struct tg_call running = call_of(TG_PRIORITY_HIGH);
    tg_lease held[4];
    (void)state;

    config.concurrency.law.law = TG_LAW_VEGAS;
    config.concurrency.law.min = 4;
    config.concurrency.law.max = 8;
    config.concurrency.wait[TG_PRIORITY_NORMAL] = 5000;
    struct tg_gate *gate = must_gate(&config);
    assert_int_equal(fill_gate(gate, &running, NOW, held, 4), 4);
    for (int i = 0; i < 2; i++) {
        struct tg_call waiting = call_waiting(TG_PRIORITY_NORMAL, i);
        must_queue(gate, &waiting, NOW);
    }
    assert_true(finish(gate, held[0], NOW + 10)); /* a sample; the first gets the slot */
    assert_int_equal(next_woken(&log), 0);
    tg_gate_tick(gate, NOW + 999);
    assert_int_equal(next_woken(&log), -1);
    tg_gate_tick(gate, NOW + 1000);
    assert_int_equal(stats_of_gate(gate).limit, 5);
    assert_int_equal(next_woken(&log), 1);
    assert_int_equal(stats_of_gate(gate).in_flight, 5);
    tg_gate_free(gate);
}

/* At one instant waits are over before leases end: the slot goes to who may still wait. */
static void a_wait_that_is_over_with_a_lease_does_not_get_its_slot(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config_slots(&log, 1);
    struct tg_call running = call_of(TG_PRIORITY_HIGH);
    struct tg_call first = call_waiting(TG_PRIORITY_NORMAL, 1);
    struct tg_call second = call_waiting(TG_PRIORITY_NORMAL, 2);
    (void)state;

    config.concurrency.wait[TG_PRIORITY_NORMAL] = 100;
    struct tg_gate *gate = must_gate(&config);
    running.lease_ttl = 100;
    must_allow(gate, &running, NOW);
    tg_lease late = must_queue(gate, &first, NOW);
    tg_lease in_time = must_queue(gate, &second, NOW + 1);
    tg_gate_tick(gate, NOW + 100);
    assert_int_equal(next_woken(&log), 1);
    assert_int_equal(next_woken(&log), 2);
    assert_int_equal(must_resume(gate, late, &first, NOW + 100).reason, TG_REASON_CONCURRENCY);
    assert_true(must_resume(gate, in_time, &second, NOW + 100).decision.allowed);
    tg_gate_free(gate);
}

/* The mean is over the last 64 calls, about; if there are fewer, all count alike: after 100 ms and
 * 260 ms it is 180 ms. */
static void the_expected_wait_is_by_a_moving_mean(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config_slots(&log, 1);
    struct tg_call call = call_of(TG_PRIORITY_NORMAL);
    (void)state;

    config.concurrency.wait[TG_PRIORITY_NORMAL] = 1000;
    struct tg_gate *gate = must_gate(&config);
    assert_true(finish(gate, must_allow(gate, &call, 0), 100));
    assert_true(finish(gate, must_allow(gate, &call, 100), 360));
    must_allow(gate, &call, 360);
    call.deadline = 360 + 179;
    must_refuse(gate, &call, 360, TG_REASON_CONCURRENCY);
    call.deadline = 360 + 180;
    must_queue(gate, &call, 360);
    tg_gate_free(gate);
}

/* A lease that ended before the latest event is found late. Who gets its slot then has had it since
 * that event, and not since the end of the lease: time does not go back for it. */
static void a_slot_that_is_found_free_late_is_given_now(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config_slots(&log, 1);
    struct tg_call forgotten = call_of(TG_PRIORITY_HIGH);
    struct tg_call waiting = call_waiting(TG_PRIORITY_HIGH, 6);
    (void)state;

    struct tg_gate *gate = must_gate(&config);
    forgotten.lease_ttl = 50;
    must_allow(gate, &forgotten, NOW);
    tg_lease lease = must_queue(gate, &waiting, NOW + 80);
    tg_gate_tick(gate, NOW + 90);
    assert_int_equal(next_woken(&log), 6);
    assert_true(must_resume(gate, lease, &waiting, NOW + 90).decision.allowed);
    assert_true(finish(gate, lease, NOW + 100));
    assert_true(stats_of_gate(gate).last_ms == 20); /* since it came */
    tg_gate_free(gate);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_limit_raised_by_a_tick_admits_who_waits),
        cmocka_unit_test(a_wait_that_is_over_with_a_lease_does_not_get_its_slot),
        cmocka_unit_test(the_expected_wait_is_by_a_moving_mean),
        cmocka_unit_test(a_slot_that_is_found_free_late_is_given_now),
    };
    return cmocka_run_group_tests_name("gate_tick", tests, NULL, NULL);
}
