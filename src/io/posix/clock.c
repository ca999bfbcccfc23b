/* clock.c - the clock of the process: epoch time that never steps back.
 *
 * Limiters count in epoch time, because windows are aligned to it. The system's epoch clock may be
 * set back by an administrator or by time synchronisation, and a limit that sees time go back
 * refuses calls until it has caught up. So the epoch clock is read once, at the start, and from
 * then on time goes as the time since boot does: that one never steps, is kept at the right pace
 * by time synchronisation, and goes on while a machine sleeps.
 *
 *     now = epoch time at the start + (time since boot - time since boot at the start)
 *
 * The other way is to take the larger of the epoch clock and the last answer. It needs a word that
 * all threads write to, and it fails worse: once the clock was an hour ahead by mistake, time
 * stands still for an hour, and nothing is replenished. Here, a process that was started under a
 * wrong clock keeps counting right spans from a wrong date until it is started again.
 *
 * Reading it costs some 20 ns and no system call.
 */
#include "io/posix/clock.h"

#include <time.h>

/* Linux calls the time since boot, sleep included, by this name; POSIX has none for it. */
#ifdef CLOCK_BOOTTIME
#define STEADY_CLOCK CLOCK_BOOTTIME
#else
#define STEADY_CLOCK CLOCK_MONOTONIC
#endif

static int64_t read_ns(clockid_t id)
{
    struct timespec now = {0};

    clock_gettime(id, &now); /* fails only for a clock that does not exist */
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void clock_init(struct clock *clock)
{
    clock->epoch_ns = read_ns(CLOCK_REALTIME) - read_ns(STEADY_CLOCK);
}

tg_ms clock_now_ms(const struct clock *clock)
{
    int64_t now = clock->epoch_ns + read_ns(STEADY_CLOCK);

    /* A machine without a battery may believe that it is before 1970. */
    return now < 0 ? 0 : now / 1000000;
}

int64_t clock_monotonic_ns(void)
{
    return read_ns(CLOCK_MONOTONIC);
}
