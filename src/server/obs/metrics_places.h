/* metrics_places.h - the places of a table that are taken, in the order in which they were.
 *
 * Tables of names and of combinations are sparse: sized for the most there can be, at least half
 * empty, usually nearly so. Whoever adds up what was counted walks over this list instead.
 *
 * Threads: any may add and any may walk, without a lock. A place is stored with release after the
 * table holds what belongs to it, and loaded with acquire. One that is being added is not seen yet.
 */
#ifndef TG_OBS_METRICS_PLACES_H
#define TG_OBS_METRICS_PLACES_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

struct places {
    atomic_uint *list; /* place + 1; 0: it is being added */
    atomic_uint n;
    uint32_t max;
};

static inline bool places_init(struct places *places, uint32_t max)
{
    *places = (struct places){.list = calloc(max, sizeof places->list[0]), .max = max};
    return places->list != NULL;
}

static inline void places_fini(struct places *places)
{
    free(places->list);
    places->list = NULL;
}

/* Each place is added once. */
static inline void places_add(struct places *places, uint32_t place)
{
    unsigned i = atomic_fetch_add_explicit(&places->n, 1, memory_order_relaxed);

    assert(i < places->max);
    atomic_store_explicit(&places->list[i], place + 1, memory_order_release);
}

/* The next place from *at on, which begins at 0 and moves on. False: there are no more. */
static inline bool places_next(const struct places *places, uint32_t *at, uint32_t *place)
{
    unsigned n = atomic_load_explicit(&places->n, memory_order_relaxed);

    while (*at < n) {
        unsigned found = atomic_load_explicit(&places->list[(*at)++], memory_order_acquire);
        if (found != 0) {
            *place = found - 1;
            return true;
        }
    }
    return false;
}

#endif
