/* shard.h - a lock, the table it covers, and the making of room in it.
 *
 * A store is a row of shards. The root of a call chooses the shard, so whatever is to be debited
 * together is under one lock. Memory is counted for all shards together.
 *
 * Room for a new key is found in this order: the table has it; the table grows, within the bound;
 * at the bound, the table is filled closer than speed would like; keys that have become fresh are
 * forgotten. If none of these helps there is no room, and nobody else's limit is touched.
 */
#ifndef TG_STORE_SHARD_H
#define TG_STORE_SHARD_H

#include <stdatomic.h>

#include "lib/core/spinlock.h"
#include "lib/store/limit_set.h"
#include "lib/store/table.h"

/* What all shards share. */
struct shard_common {
    struct limit_sets sets;
    size_t memory_max;
    atomic_size_t memory_used;
};

struct shard {
    _Alignas(CACHE_LINE) struct spinlock lock;
    struct table table;
    /* No key in the table is fresh before this: looking for one earlier is vain. Kept as a lower
     * bound: a charge only moves a key's moment later, and that need not be noted. Atomic, since
     * other shards look at it without the lock when they need memory. */
    _Atomic(tg_ms) fresh_from;
    uint64_t forgotten;
};

/* Counts memory before it is allocated, so that the bound always holds. False: beyond it. */
bool shard_claim(struct shard_common *common, size_t bytes);
void shard_give_back(struct shard_common *common, size_t bytes);

/* What the states of an entry count for that do not fit in its slot: what malloc itself needs,
 * too. */
static inline size_t shard_block_bytes(const struct limit_set *set)
{
    return set->state_bytes + 16;
}

static inline tg_ms shard_fresh_from(const struct shard *shard)
{
    return atomic_load_explicit(&shard->fresh_from, memory_order_relaxed);
}

void shard_init(struct shard *shard);
void shard_fini(struct shard *shard, struct shard_common *common);

/* The rest needs the lock. */

/* Makes room for `n` more entries. TG_ERR_FULL, TG_ERR_MEMORY. Entries may move. */
enum tg_err shard_make_room(struct shard *shard, struct shard_common *common, uint32_t n,
                            tg_ms now);

/* A new entry with fresh states, in room that was made. TG_ERR_FULL, TG_ERR_MEMORY: states that
 * do not fit in the slot found none. Other entries stay where they are. */
enum tg_err shard_insert(struct shard *shard, struct shard_common *common, struct table_id id,
                         const struct limit_set *set, struct table_slot **slot);

/* Says that the entry's states have changed in a way that may have made them fresh earlier. */
void shard_note_fresh_at(struct shard *shard, tg_ms fresh_at);

/* Forgets all keys that are fresh at `now`. */
void shard_sweep(struct shard *shard, struct shard_common *common, tg_ms now);

/* Gives back what the table holds beyond its need. */
void shard_shrink(struct shard *shard, struct shard_common *common);

#endif
