/* ledger_keep.c - a thread that flushes a ledger often, and rolls it up now and then.
 *
 * A thread rather than a timer of the event loop: a transaction waits for the disk, and calls must
 * not wait with it.
 */
#include <string.h>
#include <time.h>

#include "io/posix/clock.h"
#include "lib/core/problem.h"
#include "server/ledger/ledger_internal.h"

#define ROLL_EVERY_MS INT64_C(3600000)

static void wait_a_period(struct ledger *ledger)
{
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    int64_t ns = until.tv_nsec + ledger->period_ms % 1000 * 1000000;
    until.tv_sec += (time_t)(ledger->period_ms / 1000 + ns / 1000000000);
    until.tv_nsec = (long)(ns % 1000000000);
    pthread_mutex_lock(&ledger->state_lock);
    if (!ledger->stopping)
        pthread_cond_timedwait(&ledger->wake, &ledger->state_lock, &until);
    pthread_mutex_unlock(&ledger->state_lock);
}

static bool is_stopping(struct ledger *ledger)
{
    pthread_mutex_lock(&ledger->state_lock);
    bool stopping = ledger->stopping;
    pthread_mutex_unlock(&ledger->state_lock);
    return stopping;
}

static void *ledger_keep_keep(void *arg)
{
    struct ledger *ledger = arg;
    tg_ms rolled_at = -ROLL_EVERY_MS;

    while (!is_stopping(ledger)) {
        tg_ms now = clock_now_ms(ledger->clock);
        /* Rolling can wait until the disk takes entries again; the state says why it does not. */
        bool flushed = ledger_flush(ledger, NULL);
        if (flushed)
            atomic_store(&ledger->flushed_at, now);
        if (flushed && now - rolled_at >= ROLL_EVERY_MS && ledger_roll(ledger, now, NULL))
            rolled_at = now;
        wait_a_period(ledger);
    }
    return NULL;
}

bool ledger_keep(struct ledger *ledger, const struct clock *clock, int64_t period_ms,
                 struct tg_problem *problem)
{
    int err;

    if (ledger->keeping || period_ms < 1 || period_ms > 60000)
        return problem_fail(problem, "%s: it is kept already, or not every 1 to 60000 ms",
                            ledger->path);
    ledger->clock = clock;
    ledger->period_ms = period_ms;
    err = pthread_create(&ledger->keeper, NULL, ledger_keep_keep, ledger);
    if (err != 0)
        return problem_fail(problem, "%s: there is no thread to keep it: %s", ledger->path,
                            strerror(err));
    ledger->keeping = true;
    return true;
}

void ledger_stop_keeping(struct ledger *ledger)
{
    if (!ledger->keeping)
        return;
    pthread_mutex_lock(&ledger->state_lock);
    ledger->stopping = true;
    pthread_cond_signal(&ledger->wake);
    pthread_mutex_unlock(&ledger->state_lock);
    pthread_join(ledger->keeper, NULL);
}
