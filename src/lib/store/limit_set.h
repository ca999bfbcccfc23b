/* limit_set.h - the sets of limits a store knows, each with the layout of its entries. */
#ifndef TG_STORE_LIMIT_SET_H
#define TG_STORE_LIMIT_SET_H

#include <stdatomic.h>

#include "lib/store/table.h"
#include "tollgate.h"

/* What the enforced limits of a set on the cost axis say about the charge of one call. */
struct limit_bounds {
    int64_t ceiling;   /* the least that one of them can hold; TG_NUMBER_MAX: there is none; 0: not
                          known */
    int64_t overdraft; /* the least of their overdrafts, in units */
};

struct limit_bounds limit_bounds(const struct tg_limit *limits, size_t n);

struct limit_set {
    size_t n;
    struct tg_limit limits[TG_LIMITS_MAX];
    size_t offsets[TG_LIMITS_MAX]; /* where each limit's state is within the entry's states */
    size_t state_bytes;            /* all of them together */
    bool in_slot;                  /* whether they fit in the slot itself */
    bool any_shadow;               /* whether a limit is in shadow, */
    uint8_t shadows;               /* and bits of those that are */
    bool any_cost;                 /* whether a limit is on the cost axis, */
    struct limit_bounds bounds;    /* and what bounds charges there */
    struct limit_set *next;        /* among those that were replaced */
    void *fresh;                   /* the states of a key that was never seen, */
    bool fresh_is_zero;            /* and whether they are all 0 */
};

/* Sets are added while others read. An array that became too small stays until the end, because
 * a reader may still be in it; all of them together are as large as the last. */
struct limit_sets {
    struct limit_set *_Atomic *_Atomic array;
    atomic_uint n;
    uint32_t capacity;
    struct limit_set *_Atomic **outgrown;
    size_t n_outgrown, outgrown_capacity;
    struct limit_set *replaced; /* linked by `next` */
};

void limit_sets_init(struct limit_sets *sets);
void limit_sets_fini(struct limit_sets *sets);

enum tg_err limit_sets_add(struct limit_sets *sets, const struct tg_limit *limits, size_t n,
                           tg_limits *set, struct tg_problem *problem);

/* A set for the place of another, not yet in it. */
enum tg_err limit_sets_make(const struct tg_limit *limits, size_t n, struct limit_set **made,
                            struct tg_problem *problem);
void limit_sets_unmake(struct limit_set *made);

/* Puts it there, while all shards are locked. The old one stays, since a reader may look at it. */
void limit_sets_replace(struct limit_sets *sets, tg_limits set, struct limit_set *made);

/* Null if there is no such set. Both acquires pair with releases in limit_set.c: who sees the count
 * sees an array that holds so many, and the sets in it; who sees a larger array, made a moment
 * later, sees what was copied into it. A set may be replaced: what is done to entries takes the
 * one it finds under the lock of their shard. */
static inline const struct limit_set *limit_sets_get(const struct limit_sets *sets, tg_limits set)
{
    if (set == 0 || set > atomic_load_explicit(&sets->n, memory_order_acquire))
        return NULL;
    struct limit_set *_Atomic *array = atomic_load_explicit(&sets->array, memory_order_acquire);
    return atomic_load_explicit(&array[set - 1], memory_order_acquire);
}

/* What a call of this cost takes of a limit. */
static inline int64_t limit_units(const struct tg_limit *limit, int64_t cost)
{
    return limit->axis == TG_AXIS_RATE ? 1 : cost;
}

/* The states of an entry. */
static inline void *limit_set_states(const struct limit_set *set, struct table_slot *slot)
{
    return set->in_slot ? (void *)&slot->states : slot->states.block;
}

static inline void *limit_set_state(const struct limit_set *set, void *states, size_t i)
{
    return (char *)states + set->offsets[i];
}

/* From when on every limit of the entry is as if it had never been used. Who wants to know only
 * whether that is before some time says so: limits are asked until one is not. */
tg_ms limit_set_fresh_at(const struct limit_set *set, const void *states, tg_ms before);

#endif
