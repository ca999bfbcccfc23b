/* test_thread_admit.c - threads that block at a gate: each gets its slot or its refusal.
 *
 * Nothing here depends on how long something takes: threads that wait are woken by threads that
 * leave, and the one test in which a wait runs out says nothing of when. */
#include "check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* The thread tests link the library alone, and these files stand outside of it. */
#include "io/posix/clock.c"
#include "io/posix/memory.c"
#include "io/posix/process_clock.c"
#include "io/posix/thread_admit.c"

enum { THREADS = 8 };

static int rounds(void)
{
    return getenv("TG_SOAK") != NULL ? 20000 : 500;
}

static struct tg_gate_config fixed(int64_t limit, tg_ms wait)
{
    struct tg_gate_config config;

    tg_gate_config_init(&config);
    config.concurrency.on = true;
    config.concurrency.law.law = TG_LAW_FIXED;
    config.concurrency.law.min = 1;
    config.concurrency.law.initial = limit;
    config.concurrency.wait[TG_PRIORITY_NORMAL] = wait;
    config.wake = tg_thread_wake;
    return config;
}

static void expect_empty(struct tg_gate *gate)
{
    struct tg_gate_stats stats;

    tg_gate_get_stats(gate, &stats);
    assert_int_equal(stats.in_flight, 0);
    assert_int_equal(stats.leases, 0);
    assert_int_equal(stats.queued[TG_PRIORITY_NORMAL], 0);
}

struct crowd {
    struct tg_gate *gate;
    int64_t limit;
    atomic_int inside, most, admitted, errors;
};

static void *come_and_go(void *context)
{
    struct crowd *crowd = context;
    struct tg_release release;

    tg_release_init(&release);
    /* No sample: the wait that is expected stays 0, and so nobody is refused for it. */
    release.outcome = TG_OUTCOME_CANCELLED;
    for (int i = 0; i < rounds(); i++) {
        struct tg_call call;
        struct tg_answer answer;

        tg_call_init(&call);
        if (tg_thread_admit(crowd->gate, &call, &answer) != TG_OK || !answer.decision.allowed) {
            atomic_fetch_add(&crowd->errors, 1);
            continue;
        }
        int inside = atomic_fetch_add(&crowd->inside, 1) + 1;
        if (inside > atomic_load(&crowd->most))
            atomic_store(&crowd->most, inside);
        atomic_fetch_add(&crowd->admitted, 1);
        atomic_fetch_sub(&crowd->inside, 1);
        if (!tg_gate_release(crowd->gate, answer.lease, tg_clock_now(), &release))
            atomic_fetch_add(&crowd->errors, 1);
    }
    return NULL;
}

static void all_get_in_and_never_too_many(void **state)
{
    struct crowd crowd = {.limit = 2};
    struct tg_gate_config config = fixed(crowd.limit, 3600000);
    pthread_t threads[THREADS];

    (void)state;
    assert_int_equal(tg_gate_new(&config, &crowd.gate, NULL), TG_OK);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, come_and_go, &crowd), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&crowd.errors), 0);
    assert_int_equal(atomic_load(&crowd.admitted), THREADS * rounds());
    assert_true(atomic_load(&crowd.most) <= crowd.limit);
    expect_empty(crowd.gate);
    tg_gate_free(crowd.gate);
}

static void a_wait_runs_out(void **state)
{
    struct tg_gate *gate;
    struct tg_gate_config config = fixed(1, 2);
    struct tg_call call;
    struct tg_answer first, second;
    struct tg_release release;

    (void)state;
    tg_call_init(&call);
    tg_release_init(&release);
    assert_int_equal(tg_gate_new(&config, &gate, NULL), TG_OK);
    assert_int_equal(tg_thread_admit(gate, &call, &first), TG_OK);
    assert_true(first.decision.allowed);
    assert_int_equal(tg_thread_admit(gate, &call, &second), TG_OK);
    assert_false(second.decision.allowed);
    assert_int_equal(second.reason, TG_REASON_CONCURRENCY);
    assert_true(tg_gate_release(gate, first.lease, tg_clock_now(), &release));
    assert_false(tg_gate_release(gate, first.lease, tg_clock_now(), &release));
    expect_empty(gate);
    tg_gate_free(gate);
}

/* Whoever waits lets the lease of a thread that never comes back end. */
static void a_lease_that_ends_makes_place(void **state)
{
    struct tg_gate *gate;
    struct tg_gate_config config = fixed(1, 3600000);
    struct tg_call call;
    struct tg_answer first, second;

    (void)state;
    config.lease_ttl = 2;
    tg_call_init(&call);
    assert_int_equal(tg_gate_new(&config, &gate, NULL), TG_OK);
    assert_int_equal(tg_thread_admit(gate, &call, &first), TG_OK);
    assert_int_equal(tg_thread_admit(gate, &call, &second), TG_OK);
    assert_true(second.decision.allowed);
    tg_gate_free(gate);
}

/* The deadline of a call ends its wait before its priority's does. */
static void a_deadline_ends_the_wait(void **state)
{
    struct tg_gate *gate;
    struct tg_gate_config config = fixed(1, 3600000);
    struct tg_call call;
    struct tg_answer first, second;

    (void)state;
    tg_call_init(&call);
    assert_int_equal(tg_gate_new(&config, &gate, NULL), TG_OK);
    assert_int_equal(tg_thread_admit(gate, &call, &first), TG_OK);
    call.waiter = &config;
    call.deadline = tg_clock_now() + 3;
    assert_int_equal(tg_thread_admit(gate, &call, &second), TG_OK);
    assert_int_equal(second.step, TG_DECIDED);
    assert_int_equal(second.reason, TG_REASON_CONCURRENCY);
    assert_true(tg_clock_now() >= call.deadline);
    assert_ptr_equal(call.waiter, &config);
    assert_true(tg_gate_release(gate, first.lease, tg_clock_now(), NULL));
    expect_empty(gate);
    tg_gate_free(gate);
}

/* Nobody here could ask it, and nothing is held. */
static void a_remote_store_is_refused(void **state)
{
    struct tg_gate *gate;
    struct tg_gate_config config = fixed(1, 0);
    struct tg_call call;
    struct tg_answer answer;
    struct tg_scope scope = {.limits = 1, .key = "a", .key_bytes = 1};

    (void)state;
    config.remote_store = true;
    tg_call_init(&call);
    call.debit.scopes = &scope;
    call.debit.n_scopes = 1;
    assert_int_equal(tg_gate_new(&config, &gate, NULL), TG_OK);
    assert_int_equal(tg_thread_admit(gate, &call, &answer), TG_ERR_INVALID);
    expect_empty(gate);
    tg_gate_free(gate);
}

static void misuse_is_an_error(void **state)
{
    struct tg_gate *gate;
    struct tg_gate_config config = fixed(1, 0);
    struct tg_call call = {0};
    struct tg_answer answer;

    (void)state;
    assert_int_equal(tg_gate_new(&config, &gate, NULL), TG_OK);
    assert_int_equal(tg_thread_admit(gate, &call, &answer), TG_ERR_UNINITIALIZED);
    tg_call_init(&call);
    assert_int_equal(tg_thread_admit(NULL, &call, &answer), TG_ERR_NULL);
    assert_int_equal(tg_thread_admit(gate, NULL, &answer), TG_ERR_NULL);
    assert_int_equal(tg_thread_admit(gate, &call, NULL), TG_ERR_NULL);
    tg_thread_wake(NULL, NULL);
    expect_empty(gate);
    tg_gate_free(gate);
}

/* ---- clock and memory ---- */

static void the_clock_never_goes_back(void **state)
{
    tg_ms last = tg_clock_now();

    (void)state;
    for (int i = 0; i < 1000; i++) {
        tg_ms now = tg_clock_now();
        assert_true(now >= last);
        last = now;
    }
    /* The system's clock was not set meanwhile, or this test would have failed elsewhere. */
    assert_true(tg_clock_wall_of(last) > 0);
}

static void memory_is_read_of_the_machine(void **state)
{
    struct tg_memory *memory;

    (void)state;
    assert_int_equal(tg_memory_new(500, NULL, &memory), TG_OK);
    double used = tg_memory_read(memory, tg_clock_now());
    assert_true(used >= 0 && used <= 1);
    tg_memory_free(memory);
    tg_memory_free(NULL);
}

static void memory_that_cannot_be_read_is_unknown(void **state)
{
    struct tg_memory *memory;

    (void)state;
    assert_int_equal(tg_memory_new(0, NULL, &memory), TG_ERR_INVALID);
    assert_int_equal(tg_memory_new(500, NULL, NULL), TG_ERR_NULL);
    assert_int_equal(tg_memory_new(500, "/nowhere", &memory), TG_OK);
    assert_true(isnan(tg_memory_read(memory, tg_clock_now())));
    assert_true(isnan(tg_memory_read(NULL, tg_clock_now())));
    tg_memory_free(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_get_in_and_never_too_many),
        cmocka_unit_test(a_wait_runs_out),
        cmocka_unit_test(a_lease_that_ends_makes_place),
        cmocka_unit_test(a_deadline_ends_the_wait),
        cmocka_unit_test(a_remote_store_is_refused),
        cmocka_unit_test(misuse_is_an_error),
        cmocka_unit_test(the_clock_never_goes_back),
        cmocka_unit_test(memory_is_read_of_the_machine),
        cmocka_unit_test(memory_that_cannot_be_read_is_unknown),
    };

    return cmocka_run_group_tests_name("thread_admit", tests, NULL, NULL);
}
