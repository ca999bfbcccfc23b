/* test_gate_sojourn.c - a queue that is bounded by the times its law has learned.
 *
 * The law here is the fixed one, with times that the test states. The mean is 100 ms and the base
 * 80 ms, so that a call is held for 5 x 100 ms, and for 0.5 x 100 ms while its class is over; the
 * class is over when a call has waited for more than 375 ms.
 */
#include "gate_kit.h"
#include "gate_load.h"

#include "lib/admission/gate.h"

#define NOW 100000

static struct law_times learned;

static struct law_times tell_times(const struct law *law)
{
    (void)law;
    return learned;
}

static void learn(struct tg_gate *gate, double mean_ms, double base_ms, bool first_bytes)
{
    static struct law_ops ops;

    learned = (struct law_times){mean_ms, base_ms, first_bytes};
    ops = *gate->law.ops;
    ops.times = tell_times;
    gate->law.ops = &ops;
}

struct bounded {
    struct gate_log log;
    struct tg_gate *gate;
    tg_lease running;
    tg_lease leases[64];
    int n;
};

/* One slot, and it is held. */
static void bounded_open(struct bounded *b)
{
    struct tg_gate_config config = gate_config_slots(&b->log, 1);
    struct tg_call call = call_of(TG_PRIORITY_NORMAL);

    *b = (struct bounded){.n = 0};
    for (int p = 0; p < TG_PRIORITY_COUNT; p++)
        config.concurrency.wait[p] = TG_WAIT_AUTO;
    b->gate = must_gate(&config);
    learn(b->gate, 100, 80, false);
    b->running = must_allow(b->gate, &call, NOW);
}

static void bounded_queue(struct bounded *b, const char *tenant, tg_ms now)
{
    struct tg_call call = call_waiting(TG_PRIORITY_NORMAL, b->n);

    call_set_tenant(&call, tenant, 1);
    b->leases[b->n++] = must_queue(b->gate, &call, now);
}

/* The slot changes hands, and nobody else is woken. */
static void expect_next(struct bounded *b, int waiter, tg_ms now)
{
    assert_true(finish_as(b->gate, b->running, now, TG_OUTCOME_CANCELLED));
    assert_int_equal(next_woken(&b->log), waiter);
    assert_int_equal(next_woken(&b->log), -1);
    b->running = b->leases[waiter];
    gate_assert_books(b->gate);
}

/* It was woken, and is refused. */
static void expect_refused(struct bounded *b, int waiter, tg_ms now)
{
    struct tg_call call = call_waiting(TG_PRIORITY_NORMAL, waiter);

    assert_int_equal(next_woken(&b->log), waiter);
    struct tg_answer answer = must_resume(b->gate, b->leases[waiter], &call, now);
    assert_int_equal(answer.step, TG_DECIDED);
    assert_int_equal(answer.reason, TG_REASON_CONCURRENCY);
}

static void the_newest_goes_first_once_a_call_has_waited_too_long(void **state)
{
    static struct bounded b;
    (void)state;

    bounded_open(&b);
    for (int i = 0; i < 6; i++)
        bounded_queue(&b, "t", NOW + i);
    expect_next(&b, 0, NOW + 370);
    expect_next(&b, 1, NOW + 376); /* 375 ms: not yet */
    bounded_queue(&b, "t", NOW + 378);
    expect_next(&b, 6, NOW + 378); /* 376 ms: over */
    bounded_queue(&b, "t", NOW + 379);
    expect_next(&b, 7, NOW + 380);
    expect_next(&b, 5, NOW + 380);
    tg_gate_free(b.gate);
}

/* A mean of half a millisecond is known, too: a call is held for five of it. */
static void a_queue_of_calls_below_a_millisecond_is_bounded(void **state)
{
    static struct bounded b;
    (void)state;

    bounded_open(&b);
    learn(b.gate, 0.5, 0.4, false);
    bounded_queue(&b, "t", NOW);
    tg_gate_tick(b.gate, NOW + 2);
    assert_int_equal(next_woken(&b.log), -1);
    tg_gate_tick(b.gate, NOW + 3);
    expect_refused(&b, 0, NOW + 3);
    tg_gate_free(b.gate);
}

static void while_it_is_over_nobody_waits_for_long(void **state)
{
    static struct bounded b;
    (void)state;

    bounded_open(&b);
    for (int i = 0; i < 3; i++)
        bounded_queue(&b, "t", NOW + i * 100);
    bounded_queue(&b, "t", NOW + 499);
    tg_gate_tick(b.gate, NOW + 500); /* over, but not for 5 means yet */
    assert_int_equal(next_woken(&b.log), -1);
    tg_gate_tick(b.gate, NOW + 501);
    expect_refused(&b, 0, NOW + 501);
    expect_refused(&b, 1, NOW + 501);
    expect_refused(&b, 2, NOW + 501);
    tg_gate_tick(b.gate, NOW + 549);
    assert_int_equal(next_woken(&b.log), -1);
    tg_gate_tick(b.gate, NOW + 550);
    expect_refused(&b, 3, NOW + 550);
    gate_assert_books(b.gate);
    tg_gate_free(b.gate);
}

static void it_is_over_until_it_was_empty_and_quiet_for_a_while(void **state)
{
    static struct bounded b;
    (void)state;

    for (int quiet = 999; quiet <= 1000; quiet++) {
        bounded_open(&b);
        bounded_queue(&b, "t", NOW);
        tg_gate_tick(b.gate, NOW + 500);
        tg_gate_tick(b.gate, NOW + 501);
        expect_refused(&b, 0, NOW + 501);
        bounded_queue(&b, "t", NOW + 501 + quiet);
        bounded_queue(&b, "t", NOW + 501 + quiet);
        expect_next(&b, quiet < 1000 ? 2 : 1, NOW + 501 + quiet);
        tg_gate_free(b.gate);
    }
}

/* Another law, which learns no times: the oldest is first again, and nobody is refused early. */
static void another_law_puts_an_end_to_it(void **state)
{
    static struct bounded b;
    (void)state;

    bounded_open(&b);
    for (int i = 0; i < 3; i++)
        bounded_queue(&b, "t", NOW + i);
    tg_gate_tick(b.gate, NOW + 400);
    expect_next(&b, 2, NOW + 401);
    learn(b.gate, 0, 0, false);
    expect_next(&b, 0, NOW + 900);
    tg_gate_free(b.gate);
}

/* The turns of tenants are the same; it is only between equal ones that the newest is first. */
static void tenants_share_also_while_it_is_over(void **state)
{
    static const int order[] = {4, 0, 3, 2, 1};
    static struct bounded b;
    (void)state;

    bounded_open(&b);
    bounded_queue(&b, "mouse", NOW);
    for (int i = 0; i < 4; i++)
        bounded_queue(&b, "elephant", NOW);
    tg_gate_tick(b.gate, NOW + 400);
    for (int i = 0; i < 5; i++)
        expect_next(&b, order[i], NOW + 400);
    tg_gate_free(b.gate);
}

/* With a deadline in D, a call is of use until D - min(mean, D / 2), and that bounds the hold. */
static void a_call_is_refused_when_its_own_deadline_cannot_be_met(void **state)
{
    static struct bounded b;
    struct tg_call call = call_waiting(TG_PRIORITY_NORMAL, 0);
    (void)state;

    bounded_open(&b);
    call.deadline = NOW + 300;
    b.leases[b.n++] = must_queue(b.gate, &call, NOW);
    tg_gate_tick(b.gate, NOW + 200);
    assert_int_equal(next_woken(&b.log), -1);
    tg_gate_tick(b.gate, NOW + 201);
    expect_refused(&b, 0, NOW + 201);
    tg_gate_free(b.gate);
}

/* An overloaded class with a law that hears of first bytes holds a call for 3 x base = 240 ms. */
static void first_bytes_hold_a_call_for_three_times_the_base(void **state)
{
    static struct bounded b;
    (void)state;

    bounded_open(&b);
    learn(b.gate, 100, 80, true);
    bounded_queue(&b, "t", NOW);
    tg_gate_tick(b.gate, NOW + 240);
    assert_int_equal(next_woken(&b.log), -1);
    tg_gate_tick(b.gate, NOW + 241);
    expect_refused(&b, 0, NOW + 241);
    tg_gate_free(b.gate);
}

/* The one slot comes free every 1000 ms. So a call is held for 4 x 1000 ms and not for 5 x 100, and
 * for 2 x 1000 ms once its class is over. */
static void a_call_is_held_for_as_long_as_slots_take_to_come_free(void **state)
{
    static struct bounded b;
    struct tg_call call = call_of(TG_PRIORITY_NORMAL);
    const tg_ms from = NOW + 1000;
    (void)state;

    bounded_open(&b);
    assert_true(finish(b.gate, b.running, from));
    b.running = must_allow(b.gate, &call, from);
    bounded_queue(&b, "t", from);
    bounded_queue(&b, "t", from + 2000);
    tg_gate_tick(b.gate, from + 4000);
    assert_int_equal(next_woken(&b.log), -1);
    tg_gate_tick(b.gate, from + 4001); /* over, and not empty for more than 5 means */
    expect_refused(&b, 0, from + 4001);
    expect_refused(&b, 1, from + 4001);
    bounded_queue(&b, "t", from + 4001); /* at once again: it is still over, but not for 500 ms */
    bounded_queue(&b, "t", from + 4400);
    tg_gate_tick(b.gate, from + 6001);
    assert_int_equal(next_woken(&b.log), -1);
    tg_gate_tick(b.gate, from + 6002);
    expect_refused(&b, 2, from + 6002);
    tg_gate_tick(b.gate, from + 6400);
    assert_int_equal(next_woken(&b.log), -1);
    tg_gate_free(b.gate);
}

/* A mean without a base, or a base without a mean, bounds nothing: the wait of the configuration
 * counts, which is 10 x 1000 ms before a call has ended. */
static void half_of_what_a_law_learns_bounds_nothing(void **state)
{
    static const double known[][2] = {{100, 0}, {0, 80}};
    static struct bounded b;
    (void)state;

    for (size_t i = 0; i < COUNT_OF(known); i++) {
        bounded_open(&b);
        learn(b.gate, known[i][0], known[i][1], false);
        bounded_queue(&b, "t", NOW);
        tg_gate_tick(b.gate, NOW + 9999);
        assert_int_equal(next_woken(&b.log), -1);
        tg_gate_tick(b.gate, NOW + 10000);
        expect_refused(&b, 0, NOW + 10000);
        tg_gate_free(b.gate);
    }
}

/* ---- classes ---- */

/* Calls hold their slots for 5 s, and the law hears of 0.3 s to the first byte: by that a call is
 * held for 0.9 s. Normal overloads, and is bound by it; high waits longer where it must. */
static void a_class_that_is_not_overloaded_waits_as_long_as_it_needs(void **state)
{
    static const int64_t slots[] = {4, 16, 64};
    static const double load[] = {0.31, 1.19, 0.5};
    (void)state;

    for (size_t i = 0; i < 3; i++) {
        struct load_source sources[TG_PRIORITY_COUNT];
        struct tg_gate_config config;
        void *woken = NULL;
        tg_gate_config_init(&config);
        config.concurrency.on = true;
        config.concurrency.law.law = TG_LAW_FIXED;
        config.concurrency.law.min = 1;
        config.concurrency.law.initial = slots[i];
        config.wake = load_wake;
        config.context = &woken;
        for (int p = 0; p < TG_PRIORITY_COUNT; p++) {
            config.concurrency.wait[p] = TG_WAIT_AUTO;
            sources[p] = (struct load_source){.priority = (enum tg_priority)p,
                                              .tenant = "t",
                                              .per_s = load[p] * (double)slots[i] / 5,
                                              .mean_ms = 5000,
                                              .times = LOAD_EXPONENTIAL};
        }
        struct tg_gate *gate = must_gate(&config);
        learn(gate, 350, 300, true);
        load_run_gate(gate, &woken, sources, 3, 17, 100000, 100000 + 20000000 / slots[i]);
        for (int p = 0; p < TG_PRIORITY_COUNT; p++)
            print_message("# %lld slots: %s: admitted %.2f %%, waited %.0f ms\n",
                          (long long)slots[i], tg_priority_name((enum tg_priority)p),
                          100 * load_admitted(&sources[p]),
                          sources[p].waited_ms / (double)(sources[p].admitted + 1));
        assert_true(load_admitted(&sources[TG_PRIORITY_HIGH]) >= 0.99);
        double held = slots[i] == 4 ? 4 * 5000 / 4 : 900; /* 4 turns, or 3 x 0.3 s */
        assert_true(sources[TG_PRIORITY_NORMAL].waited_ms <
                    held * (double)sources[TG_PRIORITY_NORMAL].admitted);
        tg_gate_free(gate);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_newest_goes_first_once_a_call_has_waited_too_long),
        cmocka_unit_test(a_queue_of_calls_below_a_millisecond_is_bounded),
        cmocka_unit_test(while_it_is_over_nobody_waits_for_long),
        cmocka_unit_test(it_is_over_until_it_was_empty_and_quiet_for_a_while),
        cmocka_unit_test(another_law_puts_an_end_to_it),
        cmocka_unit_test(tenants_share_also_while_it_is_over),
        cmocka_unit_test(a_call_is_refused_when_its_own_deadline_cannot_be_met),
        cmocka_unit_test(first_bytes_hold_a_call_for_three_times_the_base),
        cmocka_unit_test(a_call_is_held_for_as_long_as_slots_take_to_come_free),
        cmocka_unit_test(half_of_what_a_law_learns_bounds_nothing),
        cmocka_unit_test(a_class_that_is_not_overloaded_waits_as_long_as_it_needs),
    };
    return cmocka_run_group_tests_name("gate_sojourn", tests, NULL, NULL);
}
