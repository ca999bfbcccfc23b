/* histogram.h - how values are spread: cumulative buckets, their sum and their number.
 *
 * A histogram is counted by one thread and may be read by any: each counter is written by its owner
 * alone, with relaxed order, because nothing else hangs on it. A value is a whole number of some
 * small unit (microseconds, ms, thousandths), so that the sum is exact; the shape says how many of
 * these make one of what the page shows.
 */
#ifndef TG_OBS_HISTOGRAM_H
#define TG_OBS_HISTOGRAM_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define HISTOGRAM_BOUNDS_MAX 16

struct histogram_shape {
    int64_t scale; /* units for one that is shown: 1, 10, 100, ... */
    size_t n;
    struct {
        int64_t le;       /* units, ascending */
        const char *text; /* the same for the page */
    } bounds[HISTOGRAM_BOUNDS_MAX];
};

struct histogram {
    atomic_uint_fast64_t counts[HISTOGRAM_BOUNDS_MAX + 1]; /* not cumulative; the last is +Inf */
    atomic_uint_fast64_t sum;
};

/* Adds to a counter that only its owner writes. */
static inline void counter_add(atomic_uint_fast64_t *counter, uint64_t n)
{
    uint64_t now = atomic_load_explicit(counter, memory_order_relaxed);

    atomic_store_explicit(counter, now + n, memory_order_relaxed);
}

static inline uint64_t counter_read(const atomic_uint_fast64_t *counter)
{
    return atomic_load_explicit((atomic_uint_fast64_t *)counter, memory_order_relaxed);
}

/* By its owner. A negative value counts as 0. */
void histogram_add(struct histogram *histogram, const struct histogram_shape *shape, int64_t value);

/* Several histograms of one shape, added up as they are read. */
struct histogram_total {
    uint64_t counts[HISTOGRAM_BOUNDS_MAX + 1]; /* not cumulative */
    uint64_t sum;
};

void histogram_read(const struct histogram *histogram, struct histogram_total *total);

#endif
