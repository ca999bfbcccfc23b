/* thread_admit.c - threads that wait at a gate: section 3 of tollgate_posix.h.
 *
 * A thread that waits sleeps on a condition variable on its own stack. Whoever frees a slot calls
 * tg_thread_wake() under the gate's lock, and the sleeper then needs that lock to resume: so
 * tg_thread_wake() no longer touches the sleeper's stack when the sleeper leaves it.
 */
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "lib/admission/admission_run.h"
#include "tollgate_posix.h"

struct sleeper {
    pthread_mutex_t mutex;
    pthread_cond_t woken_up;
    bool woken;
};

void tg_thread_wake(void *context, void *waiter)
{
    struct sleeper *sleeper = waiter;

    (void)context;
    if (sleeper == NULL)
        return;
    pthread_mutex_lock(&sleeper->mutex);
    sleeper->woken = true;
    pthread_cond_signal(&sleeper->woken_up);
    pthread_mutex_unlock(&sleeper->mutex);
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

static tg_ms tick_if_due(struct tg_gate *gate)
{
    tg_ms now = tg_clock_now();

    if (tg_gate_next_deadline(gate) <= now)
        tg_gate_tick(gate, now);
    return now;
}

/* Nobody here can ask a remote store. */
static bool ask_nobody(struct admission_run *run, tg_ms now, enum tg_err *err, struct tg_axes *axes)
{
    (void)run;
    (void)now;
    (void)axes;
    *err = TG_ERR_INVALID;
    return true;
}

/* The thread sleeps where the run leaves it waiting. */
static const struct admission_ops thread_ops = {.wait = NULL, .ask = ask_nobody};

enum tg_err tg_thread_admit(struct tg_gate *gate, struct tg_call *call, struct tg_answer *answer)
{
    struct admission_run run;
    struct sleeper sleeper;
    struct tg_answer made;
    enum tg_err err;

    if (gate == NULL || call == NULL || answer == NULL)
        return TG_ERR_NULL;
    if (call->struct_size == 0)
        return TG_ERR_UNINITIALIZED;
    err = sleeper_init(&sleeper);
    if (err)
        return err;
    void *waiter = call->waiter;
    call->waiter = &sleeper;
    admission_run_init(&run, gate, call, &thread_ops);
    enum admission_state state = admission_run_admit(&run, tick_if_due(gate), &made);
    while (state == ADMISSION_WAITING) {
        /* Until something may have changed for the call: it is woken, or a deadline has come, its
         * own or that of a lease whose slot it may get. */
        tg_ms next = tg_gate_next_deadline(gate);
        sleeper_sleep(&sleeper, (next < run.deadline ? next : run.deadline) - tg_clock_now());
        state = admission_run_wake(&run, tick_if_due(gate), &made);
    }
    assert(!run.is_charged); /* no remote store; the lease is the caller's from here on */
    call->waiter = waiter;
    sleeper_fini(&sleeper);
    if (state != ADMISSION_FAILED)
        *answer = made;
    return run.err;
}
