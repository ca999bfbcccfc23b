/* metrics_series.c - combinations of label values, by number. See metrics_series.h.
 *
 * An open table of keys, at most half full, in which nothing moves. Order is relaxed throughout: a
 * key says all there is to say, and the counters beside it begin at 0 before the table is made. It
 * is not the hash table of core, which needs a lock.
 */
#include "server/obs/metrics_series.h"

#include <assert.h>
#include <stdlib.h>

#include "lib/core/hash_table.h"

bool series_init(struct series *series, uint32_t fine, uint32_t coarse)
{
    uint32_t capacity = 16;

    while (capacity < 2 * (fine + coarse))
        capacity *= 2;
    *series = (struct series){.capacity = capacity};
    series->keys = calloc(capacity, sizeof series->keys[0]);
    atomic_init(&series->fine, (int)fine);
    atomic_init(&series->coarse, (int)coarse);
    return places_init(&series->taken, fine + coarse) && series->keys != NULL;
}

void series_fini(struct series *series)
{
    free(series->keys);
    series->keys = NULL;
    places_fini(&series->taken);
}

/* Takes the first free place from `from` on, unless the key turns up before that. */
static uint32_t metrics_series_put(struct series *series, uint64_t key, uint32_t from, bool *is_new)
{
    for (uint32_t i = from;; i++) {
        uint32_t place = i & (series->capacity - 1);
        uint_fast64_t there = 0;
        *is_new = atomic_compare_exchange_strong_explicit(
            &series->keys[place], &there, key, memory_order_relaxed, memory_order_relaxed);
        if (*is_new || there == key)
            return place;
    }
}

int32_t series_number(struct series *series, uint64_t key, bool coarse)
{
    atomic_int *left = coarse ? &series->coarse : &series->fine;
    uint32_t i = (uint32_t)hash_number(key), place;
    bool is_new = false;

    assert(key != 0);
    for (;; i++) {
        place = i & (series->capacity - 1);
        uint64_t there = series_key(series, place);
        if (there == key)
            return (int32_t)place;
        if (there == 0)
            break;
    }
    /* The number is taken first, then the place, as in names_add(). */
    if (atomic_load_explicit(left, memory_order_relaxed) <= 0)
        return SERIES_FULL;
    bool taken = atomic_fetch_sub_explicit(left, 1, memory_order_relaxed) > 0;
    if (taken)
        place = metrics_series_put(series, key, i, &is_new);
    if (is_new)
        places_add(&series->taken, place);
    else
        atomic_fetch_add_explicit(left, 1, memory_order_relaxed);
    assert(!taken || series_key(series, place) == key);
    return taken ? (int32_t)place : SERIES_FULL;
}
