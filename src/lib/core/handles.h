/* handles.h - the one pool of things that outsiders know by a number: generational handles.
 *
 * Leases, reservations and accounts are given out as 64-bit ids. An id is the item's place and the
 * generation of that place: the generation changes whenever the item is put back, so the id of a
 * thing that has ended finds nothing, however often it comes back. No id is ever used twice: a
 * place whose generations are used up is not given out again.
 *
 *     id = generation << place_bits | place + 1        so 0 is never an id
 *
 * An item of the owner's begins with a struct handle and never moves, so pointers to it stay good:
 *
 *     struct hold {
 *         struct handle handle;          first
 *         tg_micro money;
 *     };
 *
 *     handles_init(&pool, sizeof(struct hold), 24, HOLDS_MAX);
 *     struct hold *hold = handles_get(&pool);          null: no memory, or as many as there may be
 *     tg_reservation id = hold->handle.id;
 *     hold = handles_find(&pool, id);                  null: it has ended, or never was
 *     handles_put(&pool, &hold->handle);
 *
 * A new item is all zero but for its handle; one that is used again is as it was put back.
 *
 * Items stand in chunks that double: 256, 512, 1024 and so on, so a lookup is a count of leading
 * zeros and one load from a row inside the pool, and nothing is allocated once as many items have
 * been in use at one time as ever will be. Items are initialised one by one as they are first used:
 * adding a large chunk is quick, and what is not used of it takes no memory of the machine. The
 * item that was put back last is used next, as it is likely to be in the cache.
 *
 * What is always true: `used` items are in use, at places below `made`; the others of these are in
 * the free list or retired. In a free item `id` is the complement of the id it will have next; it
 * has other place bits than the id has, so a search for any id fails there.
 *
 * Threads: whoever owns the pool locks it.
 */
#ifndef TG_CORE_HANDLES_H
#define TG_CORE_HANDLES_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "tollgate.h"

struct handle {
    uint64_t id; /* while it is free: the complement of its next one */
    union {
        struct handle *next_free;
        int64_t number; /* the owner's, while the item is in use */
    };
};

enum {
    HANDLES_FIRST_BITS = 8, /* the first chunk has 2^8 items */
    HANDLES_CHUNKS = 25,    /* 2^8 << 25 is beyond any 32-bit place */
    HANDLES_ALIGNMENT = 64  /* bytes, of a chunk: items of whole cache lines begin on one */
};

struct handles {
    size_t item_bytes;
    uint64_t place_mask;
    uint64_t max;  /* places there may be */
    uint64_t made; /* places that have been in use */
    uint64_t used; /* items in use */
    struct handle *free;
    unsigned place_bits;
    char *chunks[HANDLES_CHUNKS]; /* null: not yet allocated */
};

/* Items of so many bytes, a multiple of 8; `max` of them, below 2^place_bits; place_bits 1 to 32.
 * Generations have the other bits. Allocates nothing. */
void handles_init(struct handles *pool, size_t item_bytes, unsigned place_bits, uint64_t max);

/* Frees all items, those in use, too; what they point at is the owner's. */
void handles_fini(struct handles *pool);

/* The slow half of handles_reserve(). */
enum tg_err handles_grow(struct handles *pool);

/* Makes sure that the next handles_get() succeeds. TG_ERR_MEMORY; TG_ERR_FULL: there are `max`. */
static inline enum tg_err handles_reserve(struct handles *pool)
{
    return pool->free ? TG_OK : handles_grow(pool);
}

/* An item, with its id set; null: no memory, or there are `max`. */
void *handles_get(struct handles *pool);

/* The id of an item that is in use ends. The item must not be touched by its owner until it is
 * given out again; fields that the owner never sets again keep their values. */
void handles_put(struct handles *pool, struct handle *handle);

/* The item at a place below `made`, in use or not. Chunk c begins at place (256 << c) - 256. */
static inline struct handle *handles_at(const struct handles *pool, uint64_t place)
{
    uint64_t shifted = place + (1 << HANDLES_FIRST_BITS);
    int top = 63 - __builtin_clzll(shifted);

    assert(place < pool->made);
    return (struct handle *)(void *)(pool->chunks[top - HANDLES_FIRST_BITS] +
                                     (shifted ^ UINT64_C(1) << top) * pool->item_bytes);
}

/* The item of an id, or null if that has ended or never was. Any number may be asked for. */
static inline void *handles_find(const struct handles *pool, uint64_t id)
{
    uint64_t place = (id & pool->place_mask) - 1;

    if (place >= pool->made)
        return NULL;
    struct handle *handle = handles_at(pool, place);
    return handle->id == id ? handle : NULL;
}

/* The item at a place below `made`, or null if it is not in use. */
static inline void *handles_used_at(const struct handles *pool, uint64_t place)
{
    struct handle *handle = handles_at(pool, place);

    return (handle->id & pool->place_mask) == place + 1 ? handle : NULL;
}

/* All items in use: begin with 0; the next place to go on from is written back; null: no more. */
static inline void *handles_next(const struct handles *pool, uint64_t *place)
{
    void *item = NULL;

    while (!item && *place < pool->made)
        item = handles_used_at(pool, (*place)++);
    return item;
}

#endif
