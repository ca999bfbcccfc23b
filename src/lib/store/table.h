/* table.h - one shard's table of entries: open addressing, 32 bytes a slot.
 *
 * Made for lookups of keys that are there, a million of them at random: a hit costs one cache
 * line, sometimes its neighbour. So entries stand in the table itself, small states too, and
 * probing is linear. Removal shifts the following entries back, which leaves no tombstones: a table
 * from which much was removed is as fast as a new one. The capacity is any number, not only a
 * power of two, so that a growing table never wastes half of its memory.
 *
 * It is not the hash table of core, which keeps 16 bytes of hash and pointer for an entry that
 * stands elsewhere: that would be a second cache line a lookup, and half as much memory again a
 * key. The gate's peers and flows share this one, as they are known by the same id.
 *
 * Not synchronised: the shard's lock covers it. `slots` and `capacity` are atomics only so that a
 * prefetch may look at them without the lock.
 */
#ifndef TG_STORE_TABLE_H
#define TG_STORE_TABLE_H

#include <stdatomic.h>
#include <stdint.h>

#include "tollgate.h"

/* How an entry is known: 96 bits of its key's hash, and the set of limits it is under, which is
 * never 0. Two words, so that a comparison is two comparisons. */
struct table_id {
    uint64_t hash;
    uint64_t more_and_set;
};

static inline struct table_id table_id(uint64_t hash, uint64_t more, tg_limits set)
{
    return (struct table_id){hash, more << 32 | set};
}

static inline tg_limits table_id_set(struct table_id id)
{
    return (tg_limits)id.more_and_set;
}

/* The states of an entry's limiters, or where they are when they need more room. */
union table_states {
    double numbers[2];
    int64_t integers[2];
    void *block;
};

struct table_slot {
    struct table_id id; /* all 0: the slot is free */
    union table_states states;
};

/* Slots never straddle a cache line, and tables of two shards never share one. */
enum { CACHE_LINE = 64 };

struct table {
    struct table_slot *_Atomic slots;
    atomic_uint capacity;
    uint32_t n;
};

static inline size_t table_bytes(uint32_t capacity)
{
    size_t bytes = (size_t)capacity * sizeof(struct table_slot);

    return (bytes + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
}

static inline uint32_t table_capacity(const struct table *table)
{
    return atomic_load_explicit(&table->capacity, memory_order_relaxed);
}

static inline struct table_slot *table_slots(const struct table *table)
{
    return atomic_load_explicit(&table->slots, memory_order_relaxed);
}

/* Where the search for a hash begins: its upper half, scaled to the capacity. */
static inline uint32_t table_home(uint64_t hash, uint32_t capacity)
{
    return (uint32_t)(((hash >> 32) * capacity) >> 32);
}

static inline bool table_id_equal(struct table_id a, struct table_id b)
{
    return a.hash == b.hash && a.more_and_set == b.more_and_set;
}

static inline bool table_is_free(const struct table_slot *slot)
{
    return slot->id.more_and_set == 0;
}

/* The entry, or null. There is always a free slot to end the search. */
static inline struct table_slot *table_find(const struct table *table, struct table_id id)
{
    uint32_t capacity = table_capacity(table);
    struct table_slot *slots = table_slots(table);

    if (capacity == 0)
        return NULL;
    for (uint32_t i = table_home(id.hash, capacity);; i = i + 1 < capacity ? i + 1 : 0) {
        if (table_id_equal(slots[i].id, id))
            return &slots[i];
        if (table_is_free(&slots[i]))
            return NULL;
    }
}

static inline void table_prefetch(const struct table *table, uint64_t hash)
{
    uint32_t capacity = table_capacity(table);

    if (capacity > 0)
        __builtin_prefetch(&table_slots(table)[table_home(hash, capacity)], 1);
}

/* A free slot for an id that is not in the table; its states are not set. The caller has made
 * sure that n + 1 < capacity. Entries do not move. */
struct table_slot *table_insert(struct table *table, struct table_id id);

/* Other entries may move into this slot and the ones after it. */
void table_remove(struct table *table, struct table_slot *slot);

/* Moves all entries into a table of another capacity, above n; 0 frees it. False, and nothing has
 * changed, if there is no memory. */
bool table_resize(struct table *table, uint32_t capacity);

#endif
