/* hash_table.h - the one hash table: open addressing over (hash, item), linear probing.
 *
 * A table maps a 64-bit hash to an item, which is a pointer or a number of the caller's. It knows
 * neither keys nor how to compare them: the caller hashes, walks over the few items of that hash,
 * and compares in its own loop, so the comparison is inlined and there is no callback.
 *
 *     static struct user *find_user(const struct users *users, struct slice name)
 *     {
 *         uint64_t hash = XXH3_64bits_withSeed(name.at, name.n, users->seed);
 *         struct hash_slot *slot = hash_table_find(&users->table, hash);
 *
 *         for (; slot; slot = hash_table_find_next(&users->table, slot))
 *             if (slice_equal(((struct user *)slot->item)->name, name))
 *                 return slot->item;
 *         return NULL;
 *     }
 *
 *     if ((err = hash_table_reserve(&users->table, users->table.n + 1)))
 *         return err;                                   the only step that allocates and can fail
 *     hash_table_insert(&users->table, hash)->item = user;      or ->number = an index
 *
 *     hash_table_remove(&users->table, slot);           the slot that hash_table_find() gave
 *
 *     for (slot = hash_table_first(&t); slot; slot = hash_table_after(&t, slot))      all items
 *
 * What is always true: the table is at most three quarters full, so every search ends; an item
 * stands between the slot its hash points at, its home, and the next free slot. Removal shifts the
 * items behind the gap back and leaves no tombstone, so a table that items come to and go from is
 * as fast as a new one and never has to be rebuilt. It doubles when it must and never shrinks:
 * nothing is allocated once it has held as many items as it ever will, and nothing at all after a
 * hash_table_reserve() for the most there can be. Several items may have one hash, even one key:
 * hash_table_find_next() gives them in the order in which they came, unless one was removed.
 *
 * The hash must be good in its low bits, and unpredictable where an outsider chooses keys (a seeded
 * XXH3). For numbers and pointers of our own, hash_number() is enough. The top bit of a hash is not
 * kept. `struct hash_table` set to all zero is an empty table.
 *
 * Rejected: chains (a pointer and often a cache miss more a step, and the item must carry the
 * link); a macro that generates a typed table (a debugger cannot step into it, and 20 copies of the
 * code). Not this table, with their reasons in their heads: store/table.h, whose slots hold the
 * limiters' states themselves, one cache line a lookup; obs/metrics_names.c and metrics_series.c,
 * which several threads fill without a lock; policy/mix.c, 256 bytes inside a struct.
 *
 * Threads: none of its own; whoever owns the table locks it. Concurrent lookups are fine.
 */
#ifndef TG_CORE_HASH_TABLE_H
#define TG_CORE_HASH_TABLE_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "tollgate.h"

struct hash_slot {
    uint64_t tag; /* the hash, with HASH_TABLE_USED; 0: the slot is free */
    union {
        void *item;
        uint64_t number;
    };
};

struct hash_table {
    struct hash_slot *slots;
    size_t capacity; /* 0, or a power of two */
    size_t n;        /* items in it */
};

#define HASH_TABLE_USED (UINT64_C(1) << 63)

void hash_table_fini(struct hash_table *table);

/* Removes all items and keeps the memory. */
void hash_table_clear(struct hash_table *table);

/* Makes room for `n` items in all: until there are so many, hash_table_insert() is safe to call.
 * TG_ERR_MEMORY: nothing has changed. */
enum tg_err hash_table_reserve(struct hash_table *table, size_t n);

/* The new slot of an item, whose hash may be there already; the caller sets its item or number.
 * Room has been reserved. Other items stay where they are. */
struct hash_slot *hash_table_insert(struct hash_table *table, uint64_t hash);

/* Other items may move into this slot and those after it. */
void hash_table_remove(struct hash_table *table, struct hash_slot *slot);

/* Spreads a number over all bits, one to one: Stafford's thirteenth variant of MurmurHash3's
 * finalizer. */
static inline uint64_t hash_number(uint64_t number)
{
    number = (number ^ number >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    number = (number ^ number >> 27) * UINT64_C(0x94d049bb133111eb);
    return number ^ number >> 31;
}

/* From slot `i` on, the first that has the tag; null: a free slot comes before it. */
static inline struct hash_slot *hash_table_probe(const struct hash_table *table, size_t i,
                                                 uint64_t tag)
{
    for (;; i++) {
        struct hash_slot *slot = &table->slots[i & (table->capacity - 1)];
        if (slot->tag == tag)
            return slot;
        if (slot->tag == 0)
            return NULL;
    }
}

/* The first item of this hash, or null. Valid until the next reserve or remove. */
static inline struct hash_slot *hash_table_find(const struct hash_table *table, uint64_t hash)
{
    if (table->n == 0)
        return NULL;
    return hash_table_probe(table, (size_t)hash, hash | HASH_TABLE_USED);
}

/* The next item of the same hash, or null. */
static inline struct hash_slot *hash_table_find_next(const struct hash_table *table,
                                                     const struct hash_slot *slot)
{
    return hash_table_probe(table, (size_t)(slot - table->slots) + 1, slot->tag);
}

/* From slot `i` on, the first that is not free, without going around the end. */
static inline struct hash_slot *hash_table_from(const struct hash_table *table, size_t i)
{
    for (; i < table->capacity; i++)
        if (table->slots[i].tag != 0)
            return &table->slots[i];
    return NULL;
}

/* All items, in no order. An item that is removed on the way may be replaced by another: continue
 * with hash_table_at_or_after() instead. Then some may be seen twice, and none is missed. */
static inline struct hash_slot *hash_table_first(const struct hash_table *table)
{
    return hash_table_from(table, 0);
}

static inline struct hash_slot *hash_table_after(const struct hash_table *table,
                                                 const struct hash_slot *slot)
{
    return hash_table_from(table, (size_t)(slot - table->slots) + 1);
}

static inline struct hash_slot *hash_table_at_or_after(const struct hash_table *table,
                                                       const struct hash_slot *slot)
{
    return hash_table_from(table, (size_t)(slot - table->slots));
}

#endif
