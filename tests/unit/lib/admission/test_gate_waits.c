/* test_gate_waits.c - how long a call may wait where the gate derives that by itself. */
#include "gate_kit.h"

#include <math.h>

#define NOW 1000

static struct tg_gate_config auto_waits(struct gate_log *log, int64_t slots)
{
    struct tg_gate_config config = gate_config_slots(log, slots);

    for (int p = 0; p < TG_PRIORITY_COUNT; p++)
        config.concurrency.wait[p] = TG_WAIT_AUTO;
    return config;
}

/* Takes all slots after one call has run for `mean`, and asks how long a call may wait then. */
static tg_ms wait_after(int64_t slots, tg_ms mean, const struct tg_call *call)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = auto_waits(&log, slots);
    struct tg_gate *gate = must_gate(&config);
    struct tg_call high = call_of(TG_PRIORITY_HIGH);
    struct tg_answer answer;
    tg_ms now = NOW;

    if (mean > 0) {
        tg_lease first = must_allow(gate, &high, now);
        now += mean;
        assert_true(finish(gate, first, now));
    }
    assert_int_equal(fill_gate(gate, &high, now, NULL, slots), slots);
    struct tg_call asked = *call;
    if (asked.deadline > 0)
        asked.deadline += now;
    assert_int_equal(tg_gate_admit(gate, &asked, 0, now, &answer), TG_OK);
    assert_int_equal(answer.step, TG_WAITING);
    tg_gate_free(gate);
    return answer.deadline - now;
}

static void a_wait_follows_the_mean_time_of_a_slot_and_the_limit(void **state)
{
    static const struct {
        enum tg_priority priority;
        int64_t slots;
        tg_ms mean, wait;
    } rows[] = {
        {TG_PRIORITY_HIGH, 1, 1000, 8000},    /* 8 / sqrt(1) */
        {TG_PRIORITY_HIGH, 4, 1000, 4000},    /* 8 / sqrt(4) */
        {TG_PRIORITY_HIGH, 16, 1000, 2000},   /* 2 */
        {TG_PRIORITY_HIGH, 256, 5000, 10000}, /* 2 */
        {TG_PRIORITY_HIGH, 16, 10, 100},      /* the fixed default */
        {TG_PRIORITY_HIGH, 16, 20000, 30000}, /* the most there is */
        {TG_PRIORITY_NORMAL, 4, 1000, 2500},  /* 2 / (4 x 0.2) */
        {TG_PRIORITY_NORMAL, 64, 1000, 1000}, /* its own time */
        {TG_PRIORITY_NORMAL, 16, 10, 50},
        {TG_PRIORITY_LOW, 16, 1000, 2500}, /* 2 / (16 x 0.05) */
        {TG_PRIORITY_LOW, 256, 1000, 1000},
        {TG_PRIORITY_HIGH, 4, 0, 4000}, /* nothing has run yet: 1 s */
        {TG_PRIORITY_NORMAL, 4, 0, 2500},
        {TG_PRIORITY_LOW, 4, 0, 10000},
    };
    (void)state;

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct tg_call call = call_of(rows[i].priority);
        tg_ms wait = wait_after(rows[i].slots, rows[i].mean, &call);
        if (wait != rows[i].wait)
            fail_msg("row %zu: %lld ms", i, (long long)wait);
    }
}

static void a_call_that_takes_long_may_wait_as_long(void **state)
{
    struct tg_call call = call_of(TG_PRIORITY_NORMAL);
    (void)state;

    call.hold_s = 7;
    assert_int_equal(wait_after(64, 1000, &call), 7000);
    call.hold_s = 0.5;
    assert_int_equal(wait_after(64, 1000, &call), 500); /* 2 / sqrt(64) is less */
    call.hold_s = 100;
    assert_int_equal(wait_after(64, 1000, &call), 30000);
}

static void nobody_waits_past_his_own_deadline(void **state)
{
    struct tg_call call = call_of(TG_PRIORITY_HIGH);
    (void)state;

    call.deadline = 700; /* from then on */
    assert_int_equal(wait_after(16, 1000, &call), 700);
    call.deadline = 60000;
    assert_int_equal(wait_after(16, 1000, &call), 2000);
}

static void another_negative_wait_is_refused(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = auto_waits(&log, 4);
    struct tg_gate *gate = NULL;
    struct tg_problem problem;
    (void)state;

    config.concurrency.wait[TG_PRIORITY_LOW] = -2;
    assert_int_equal(tg_gate_new(&config, &gate, &problem), TG_ERR_INVALID);
    config.concurrency.wait[TG_PRIORITY_LOW] = TG_WAIT_AUTO;
    config.wake = NULL; /* calls wait, and somebody has to tell them */
    assert_int_equal(tg_gate_new(&config, &gate, &problem), TG_ERR_INVALID);
    assert_null(gate);
}

/* What a foreseen wait is made of: the mean of the first 64 calls that held a slot; each later call
 * moves it by a sixty-fourth of the difference. */
static void how_long_slots_are_held_is_a_moving_mean(void **state)
{
    static struct gate_log log;
    struct tg_gate_config config = gate_config_slots(&log, 1);
    struct tg_call call = call_of(TG_PRIORITY_NORMAL);
    struct tg_gate *gate = must_gate(&config);
    tg_ms now = 100000;

    (void)state;
    assert_true(stats_of_gate(gate).slot_ms == -1);
    for (int i = 0; i < 64; i++) {
        tg_lease lease = must_allow(gate, &call, now);
        now += i % 2 ? 300 : 100;
        assert_true(finish(gate, lease, now));
        assert_true(i > 0 || stats_of_gate(gate).slot_ms == 100);
    }
    assert_true(fabs(stats_of_gate(gate).slot_ms - 200) < 1e-9);
    tg_lease lease = must_allow(gate, &call, now);
    assert_true(finish(gate, lease, now + 840));
    assert_true(fabs(stats_of_gate(gate).slot_ms - 210) < 1e-9);
    tg_gate_free(gate);
}

/* A wait of one millisecond is one; one of none is not. */
static void whoever_may_wait_a_millisecond_is_queued(void **state)
{
    (void)state;
    for (tg_ms wait = 0; wait <= 2; wait++) {
        struct gate_log log = {.n_woken = 0};
        struct tg_gate_config config = gate_config_slots(&log, 1);
        struct tg_call call = call_of(TG_PRIORITY_HIGH);
        config.concurrency.wait[TG_PRIORITY_HIGH] = wait;
        struct tg_gate *gate = must_gate(&config);
        must_allow(gate, &call, 1000);
        if (wait == 0)
            must_refuse(gate, &call, 1000, TG_REASON_CONCURRENCY);
        else
            must_queue(gate, &call, 1000);
        tg_gate_free(gate);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wait_follows_the_mean_time_of_a_slot_and_the_limit),
        cmocka_unit_test(a_call_that_takes_long_may_wait_as_long),
        cmocka_unit_test(nobody_waits_past_his_own_deadline),
        cmocka_unit_test(another_negative_wait_is_refused),
        cmocka_unit_test(how_long_slots_are_held_is_a_moving_mean),
        cmocka_unit_test(whoever_may_wait_a_millisecond_is_queued),
    };
    return cmocka_run_group_tests_name("gate_waits", tests, NULL, NULL);
}
