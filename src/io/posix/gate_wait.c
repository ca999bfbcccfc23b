/* gate_wait.c - a gate for programs that have a thread for each call.
 *
 * A thread that waits sleeps on a condition variable on its own stack. Whoever frees a slot calls
 * gate_wait_wake() under the gate's lock, and the sleeper then needs that lock to resume: so
 * gate_wait_wake() no longer touches the sleeper's stack when the sleeper leaves it.
 */
#include "io/posix/gate_wait.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "lib/admission/admission_run.h"
#include "lib/core/problem.h"

struct sleeper {
    pthread_mutex_t mutex;
    pthread_cond_t woken_up;
    bool woken;
};

static void gate_wait_wake(void *context, void *waiter)
{
    struct sleeper *sleeper = waiter;

    (void)context;
    pthread_mutex_lock(&sleeper->mutex);
    sleeper->woken = true;
    pthread_cond_signal(&sleeper->woken_up);
    pthread_mutex_unlock(&sleeper->mutex);
}

enum tg_err gate_wait_init(struct gate_wait *door, const struct tg_gate_config *config,
                           struct tg_problem *problem)
{
    struct tg_gate_config own = *config;

    if (config->remote_store) {
        return problem_say(problem, TG_ERR_INVALID,
                           "a gate that blocks decides rate and cost itself: no remote store");
    }
    own.wake = gate_wait_wake;
    clock_init(&door->clock);
    return tg_gate_new(&own, &door->gate, problem);
}

enum tg_err gate_wait_reconfigure(struct gate_wait *door, const struct tg_gate_config *config,
                                  struct tg_problem *problem)
{
    struct tg_gate_config own = *config;

    own.wake = gate_wait_wake;
    return tg_gate_reconfigure(door->gate, &own, clock_now_ms(&door->clock), problem);
}

void gate_wait_fini(struct gate_wait *door)
{
    tg_gate_free(door->gate);
    door->gate = NULL;
}

/* ---- sleeping ---- */

/* Time since boot goes on while the machine sleeps, the clock of a condition variable does not. No
 * harm is done: whoever wakes up too late or too early asks the gate again. */
static enum tg_err sleeper_init(struct sleeper *sleeper)
{
    pthread_condattr_t attributes;
    int failed = pthread_condattr_init(&attributes);

    sleeper->woken = false;
    if (failed)
        return TG_ERR_MEMORY;
    failed = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) ||
             pthread_cond_init(&sleeper->woken_up, &attributes);
    pthread_condattr_destroy(&attributes);
    if (failed)
        return TG_ERR_MEMORY;
    if (pthread_mutex_init(&sleeper->mutex, NULL)) {
        pthread_cond_destroy(&sleeper->woken_up);
        return TG_ERR_MEMORY;
    }
    return TG_OK;
}

static void sleeper_fini(struct sleeper *sleeper)
{
    pthread_mutex_destroy(&sleeper->mutex);
    pthread_cond_destroy(&sleeper->woken_up);
}

static struct timespec in_ms(tg_ms span)
{
    struct timespec at;

    /* A day, then the gate is asked again: no sum can overflow. */
    span = span < 1 ? 1 : span > 86400000 ? 86400000 : span;
    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_sec += (time_t)(span / 1000);
    at.tv_nsec += (long)(span % 1000) * 1000000;
    if (at.tv_nsec >= 1000000000) {
        at.tv_sec++;
        at.tv_nsec -= 1000000000;
    }
    return at;
}

/* Until woken, or for `span`. */
static void sleeper_sleep(struct sleeper *sleeper, tg_ms span)
{
    struct timespec until = in_ms(span);

    pthread_mutex_lock(&sleeper->mutex);
    while (!sleeper->woken &&
           pthread_cond_timedwait(&sleeper->woken_up, &sleeper->mutex, &until) != ETIMEDOUT)
        ;
    pthread_mutex_unlock(&sleeper->mutex);
}

/* ---- admitting ---- */

static tg_ms gate_wait_tick(struct gate_wait *door)
{
    tg_ms now = clock_now_ms(&door->clock);

    if (tg_gate_next_deadline(door->gate) <= now)
        tg_gate_tick(door->gate, now);
    return now;
}

/* The thread sleeps where the run leaves it waiting, and there is no remote store to be asked. */
static const struct admission_ops gate_wait_ops = {.wait = NULL};

enum tg_err gate_wait_admit(struct gate_wait *door, struct tg_call *call, struct tg_answer *answer)
{
    struct admission_run run;
    struct sleeper sleeper;
    struct tg_answer made;
    enum tg_err err = sleeper_init(&sleeper);

    if (err)
        return err;
    call->waiter = &sleeper;
    admission_run_init(&run, door->gate, call, &gate_wait_ops);
    enum admission_state state = admission_run_admit(&run, gate_wait_tick(door), &made);
    while (state == ADMISSION_WAITING) {
        /* Until something may have changed for the call: it is woken, or a deadline has come, its
         * own or that of a lease whose slot it may get. */
        tg_ms next = tg_gate_next_deadline(door->gate);
        sleeper_sleep(&sleeper,
                      (next < run.deadline ? next : run.deadline) - clock_now_ms(&door->clock));
        state = admission_run_wake(&run, gate_wait_tick(door), &made);
    }
    assert(!run.is_charged); /* no remote store; the lease is the caller's from here on */
    sleeper_fini(&sleeper);
    if (state != ADMISSION_FAILED)
        *answer = made;
    return run.err;
}

bool gate_wait_release(struct gate_wait *door, tg_lease lease, const struct tg_release *release)
{
    return tg_gate_release(door->gate, lease, clock_now_ms(&door->clock), release);
}
