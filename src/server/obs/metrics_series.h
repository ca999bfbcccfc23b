/* metrics_series.h - combinations of label values, by number: bounded, never forgotten.
 *
 * 200 tenants, 100 models and 60 codes could make a million lines; so combinations are numbered as
 * they occur, up to a bound. One that finds no number is counted under a coarser one, which the
 * caller chooses; for those some numbers are kept.
 *
 * A combination is a packed number: the caller knows what is in it. Threads: as metrics_names.h.
 */
#ifndef TG_OBS_METRICS_SERIES_H
#define TG_OBS_METRICS_SERIES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "server/obs/metrics_places.h"

#define SERIES_FULL (-1)

struct series {
    atomic_uint_fast64_t *keys; /* 0: free */
    uint32_t capacity;          /* a power of two; numbers are below it */
    atomic_int fine, coarse;    /* numbers left for fine and for coarser combinations */
    struct places taken;        /* numbers that were given out */
};

/* False: no memory. */
bool series_init(struct series *series, uint32_t fine, uint32_t coarse);
void series_fini(struct series *series);

/* The number of a combination, which is not 0, or SERIES_FULL. */
int32_t series_number(struct series *series, uint64_t key, bool coarse);

/* All numbers that were given out: begin with *at = 0. False: there are no more. */
static inline bool series_next(const struct series *series, uint32_t *at, uint32_t *number)
{
    return places_next(&series->taken, at, number);
}

/* The combination of a number; 0: nobody has it. */
static inline uint64_t series_key(const struct series *series, uint32_t number)
{
    return atomic_load_explicit(&series->keys[number], memory_order_relaxed);
}

#endif
