/* test_gate_wait.c - threads that block at a gate: each gets its slot or its refusal.
 *
 * Nothing here depends on how long something takes: threads that wait are woken by threads that
 * leave, and the one test in which a wait runs out says nothing of when. */
#include "check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* The thread tests link the library alone, and these two files stand outside of it. */
#include "io/posix/clock.c"
#include "io/posix/gate_wait.c"

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
    return config;
}

static void expect_empty(struct gate_wait *door)
{
    struct tg_gate_stats stats;

    tg_gate_get_stats(door->gate, &stats);
    assert_int_equal(stats.in_flight, 0);
    assert_int_equal(stats.leases, 0);
    assert_int_equal(stats.queued[TG_PRIORITY_NORMAL], 0);
}

struct crowd {
    struct gate_wait door;
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
        if (gate_wait_admit(&crowd->door, &call, &answer) != TG_OK || !answer.decision.allowed) {
            atomic_fetch_add(&crowd->errors, 1);
            continue;
        }
        int inside = atomic_fetch_add(&crowd->inside, 1) + 1;
        if (inside > atomic_load(&crowd->most))
            atomic_store(&crowd->most, inside);
        atomic_fetch_add(&crowd->admitted, 1);
        atomic_fetch_sub(&crowd->inside, 1);
        if (!gate_wait_release(&crowd->door, answer.lease, &release))
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
    assert_int_equal(gate_wait_init(&crowd.door, &config, NULL), TG_OK);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, come_and_go, &crowd), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&crowd.errors), 0);
    assert_int_equal(atomic_load(&crowd.admitted), THREADS * rounds());
    assert_true(atomic_load(&crowd.most) <= crowd.limit);
    expect_empty(&crowd.door);
    gate_wait_fini(&crowd.door);
}

static void a_wait_runs_out(void **state)
{
    struct gate_wait door;
    struct tg_gate_config config = fixed(1, 2);
    struct tg_call call;
    struct tg_answer first, second;
    struct tg_release release;

    (void)state;
    tg_call_init(&call);
    tg_release_init(&release);
    assert_int_equal(gate_wait_init(&door, &config, NULL), TG_OK);
    assert_int_equal(gate_wait_admit(&door, &call, &first), TG_OK);
    assert_true(first.decision.allowed);
    assert_int_equal(gate_wait_admit(&door, &call, &second), TG_OK);
    assert_false(second.decision.allowed);
    assert_int_equal(second.reason, TG_REASON_CONCURRENCY);
    assert_true(gate_wait_release(&door, first.lease, &release));
    assert_false(gate_wait_release(&door, first.lease, &release));
    expect_empty(&door);
    gate_wait_fini(&door);
}

/* Whoever waits lets the lease of a thread that never comes back end. */
static void a_lease_that_ends_makes_place(void **state)
{
    struct gate_wait door;
    struct tg_gate_config config = fixed(1, 3600000);
    struct tg_call call;
    struct tg_answer first, second;

    (void)state;
    config.lease_ttl = 2;
    tg_call_init(&call);
    assert_int_equal(gate_wait_init(&door, &config, NULL), TG_OK);
    assert_int_equal(gate_wait_admit(&door, &call, &first), TG_OK);
    assert_int_equal(gate_wait_admit(&door, &call, &second), TG_OK);
    assert_true(second.decision.allowed);
    gate_wait_fini(&door);
}

static void a_remote_store_is_refused(void **state)
{
    struct gate_wait door;
    struct tg_gate_config config = fixed(1, 0);
    struct tg_problem problem = {""};

    (void)state;
    config.remote_store = true;
    assert_int_equal(gate_wait_init(&door, &config, &problem), TG_ERR_INVALID);
    assert_true(problem.text[0] != '\0');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_get_in_and_never_too_many),
        cmocka_unit_test(a_wait_runs_out),
        cmocka_unit_test(a_lease_that_ends_makes_place),
        cmocka_unit_test(a_remote_store_is_refused),
    };

    return cmocka_run_group_tests_name("gate_wait", tests, NULL, NULL);
}
