/* recent_min.h - the lowest of the last samples, in fixed memory.
 *
 * A ring of candidates, oldest first, in which each is lower than all that came after it, and
 * so the front is the lowest. A sample that arrives removes the candidates it undercuts, for they
 * can never be the lowest again: each is put in once and taken out once, constant time on average.
 *
 * A candidate leaves when so many samples have come after it, or by age: where traffic is thin, a
 * hundred samples may be a day, and what was fast yesterday is no measure.
 */
#ifndef TG_CONCURRENCY_RECENT_MIN_H
#define TG_CONCURRENCY_RECENT_MIN_H

#include "lib/core/random.h"
#include "tollgate.h"

struct recent {
    double value;
    uint64_t number; /* samples are counted from 1 */
    tg_ms at;
};

struct recent_min {
    struct recent *ring;
    uint64_t mask; /* there is room for a power of two */
    uint64_t head; /* candidates are head to tail - 1, both counted without end */
    uint64_t tail;
    uint64_t seen;   /* samples so far */
    uint64_t window; /* samples that count */
    tg_ms max_age;   /* drawn again each time a candidate has left by it */
};

/* False: no memory. */
bool recent_min_init(struct recent_min *recent, int64_t window, struct random *random);
void recent_min_fini(struct recent_min *recent);

/* Keeps the samples that count in the new window. False: no memory, and nothing has changed. */
bool recent_min_resize(struct recent_min *recent, int64_t window);

/* Takes a sample in and says the lowest of those that count, itself included. `at` never goes
 * back. */
double recent_min_push(struct recent_min *recent, double value, tg_ms at, struct random *random);

#endif
