/* cluster_gaps.h - the gaps between tokens, of all requests of an instance that complete.
 *
 * All requests that get a token in a step have the same gap, so what is counted is steps: how
 * long, and how many tokens. A request that is preempted, times out or does not complete takes its
 * gaps back; for that, steps are kept one by one as far back as somebody may still do so, and
 * before that only as a count for each length. A run of a week needs no more room than one of a
 * minute.
 */
#ifndef TG_CLUSTER_CLUSTER_GAPS_H
#define TG_CLUSTER_CLUSTER_GAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/core/hash_table.h"

/* So many gaps of one length. */
struct gap_count {
    int64_t us;
    int64_t n;
};

struct gap_table {
    struct gap_count *counts;
    size_t n, capacity;
    struct hash_table numbers; /* index into `counts` by the hash of the length */
};

struct gaps {
    struct gap_table table;
    struct gap_count *steps; /* from `first` on; a ring */
    size_t capacity;
    int64_t first, end; /* numbers of steps */
};

void gaps_fini(struct gaps *gaps);

/* The next step: `n` requests got a token after `us`. Steps before `needed` will not be taken back
 * any more. False: no memory. */
bool gaps_add(struct gaps *gaps, int64_t us, int64_t n, int64_t needed);

/* Whether the next step would have to give up some before it, or make room. */
static inline bool gaps_full(const struct gaps *gaps)
{
    return (size_t)(gaps->end - gaps->first) == gaps->capacity;
}

/* One token less in steps from `from` to before `to`. */
void gaps_take_back(struct gaps *gaps, int64_t from, int64_t to);

/* All of it into a table, which may have others' already. False: no memory. */
bool gaps_collect(const struct gaps *gaps, struct gap_table *table);

void gap_table_fini(struct gap_table *table);

/* Its counts, by length; *n of them. They are the table's, which is of no other use afterwards. */
struct gap_count *gap_table_sort(struct gap_table *table, size_t *n);

#endif
