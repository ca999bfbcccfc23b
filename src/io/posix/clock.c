/* clock.c - the two clocks of the process: a steady one that never steps, and the wall clock.
 *
 * Limiters count in epoch time, because windows are aligned to it. The system's epoch clock may be
 * set by an administrator or by time synchronisation, and a limit that sees time go back refuses
 * calls until it has caught up; one that sees it leap is full again. So the epoch clock is read at
 * the start, and from then on the steady clock goes as the time since boot does: that one never
 * steps, is kept at the right pace by time synchronisation, and goes on while a machine sleeps.
 *
 *     steady = epoch time at the start + (time since boot - time since boot at the start)
 *     wall   = steady + ahead
 *
 * A process that was started before its machine knew the time would have wrong days for ever. So
 * `ahead` is measured anew several times a second, and what is about dates goes by the wall clock:
 * windows of budgets, the end of keys, logs, records, the dates in replies. Who needs it asks for
 * the wall time of a moment of the steady clock, so that one operation sees one `now`.
 *
 * The other way is to take the larger of the epoch clock and the last answer. It needs a word that
 * all threads write to, and it fails worse: once the clock was an hour ahead by mistake, time
 * stands still for an hour, and nothing is replenished. Money alone does that, on purpose
 * (spending.c): a window of a budget never goes back.
 *
 * Reading either costs some 20 ns and no system call.
 */
#include "io/posix/clock.h"

#include <time.h>

/* Linux calls the time since boot, sleep included, by this name; POSIX has none for it. */
#ifdef CLOCK_BOOTTIME
#define STEADY_CLOCK CLOCK_BOOTTIME
#else
#define STEADY_CLOCK CLOCK_MONOTONIC
#endif

enum { STEP_MS = 10 };

static int64_t read_ns(clockid_t id)
{
    struct timespec now = {0};

    clock_gettime(id, &now); /* fails only for a clock that does not exist */
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void clock_init(struct clock *clock)
{
    clock->epoch_ns = read_ns(CLOCK_REALTIME) - read_ns(STEADY_CLOCK);
    atomic_init(&clock->ahead_ms, 0);
}

tg_ms clock_now_ms(const struct clock *clock)
{
    int64_t now = clock->epoch_ns + read_ns(STEADY_CLOCK);

    /* A machine without a battery may believe that it is before 1970. */
    return now < 0 ? 0 : now / 1000000;
}

/* Between the two readings some time has passed, so a little is no step; what time synchronisation
 * lets the wall clock gain slowly adds up to one. */
void clock_follow_at(struct clock *clock, int64_t wall_ns, int64_t boot_ns)
{
    int64_t ahead = (wall_ns - boot_ns - clock->epoch_ns) / 1000000;
    int64_t known = atomic_load_explicit(&clock->ahead_ms, memory_order_relaxed);

    if (ahead - known >= STEP_MS || known - ahead >= STEP_MS)
        atomic_store_explicit(&clock->ahead_ms, ahead, memory_order_relaxed);
}

void clock_follow(struct clock *clock)
{
    int64_t before = read_ns(STEADY_CLOCK), wall = read_ns(CLOCK_REALTIME);
    int64_t after = read_ns(STEADY_CLOCK);

    /* A thread that had to wait between the two has seen nothing. */
    if (after - before < STEP_MS * 1000000 / 2)
        clock_follow_at(clock, wall, before + (after - before) / 2);
}

int64_t clock_monotonic_ns(void)
{
    return read_ns(CLOCK_MONOTONIC);
}
