/* clock.h - the clock of the process: epoch time that never steps back. See clock.c for how. */
#ifndef TG_POSIX_CLOCK_H
#define TG_POSIX_CLOCK_H

#include <stdint.h>

#include "tollgate.h"

/* One for each process, set up once and then only read, by any number of threads. */
struct clock {
    int64_t epoch_ns; /* epoch time less time since boot */
};

void clock_init(struct clock *clock);

/* Whole milliseconds since the epoch. */
tg_ms clock_now_ms(const struct clock *clock);

/* Nanoseconds from some point in the past, for measuring how long something takes. */
int64_t clock_monotonic_ns(void);

#endif
