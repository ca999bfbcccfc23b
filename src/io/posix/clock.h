/* clock.h - the two clocks of the process: a steady one that never steps, and the wall clock. See
 * clock.c for which is for what.
 */
#ifndef TG_POSIX_CLOCK_H
#define TG_POSIX_CLOCK_H

#include <stdatomic.h>
#include <stdint.h>

#include "tollgate.h"

/* One for each process, set up once. Any number of threads read it; one of them follows the wall
 * clock. */
struct clock {
    int64_t epoch_ns;      /* epoch time less time since boot, at the start */
    atomic_llong ahead_ms; /* what the wall clock is ahead of the steady one; negative: behind */
};

void clock_init(struct clock *clock);

/* The steady clock: whole milliseconds since the epoch, for limits, leases, laws and timers. */
tg_ms clock_now_ms(const struct clock *clock);

/* What the wall clock shows at a time of the steady one, now or not long ago: for windows of days,
 * dates when something ends, logs, and whatever people or other machines read. `clock` null: the
 * same. */
static inline tg_ms clock_wall_of(const struct clock *clock, tg_ms at)
{
    /* Relaxed: a number that orders nothing. */
    tg_ms wall =
        clock != NULL ? at + atomic_load_explicit(&clock->ahead_ms, memory_order_relaxed) : at;

    return wall < 0 ? 0 : wall;
}

/* The same of now. */
static inline tg_ms clock_wall_ms(const struct clock *clock)
{
    return clock_wall_of(clock, clock_now_ms(clock));
}

/* Looks whether the wall clock was set: to be called every second, or more often, by one thread. */
void clock_follow(struct clock *clock);

/* The same with what the two clocks of the system have been seen to say: for tests. */
void clock_follow_at(struct clock *clock, int64_t wall_ns, int64_t boot_ns);

/* Nanoseconds from some point in the past, for measuring how long something takes. */
int64_t clock_monotonic_ns(void);

#endif
