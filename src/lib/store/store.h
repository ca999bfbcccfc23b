/* store.h - the keyed store, as the files of this folder and the gate see it. */
#ifndef TG_STORE_STORE_H
#define TG_STORE_STORE_H

#include <stdatomic.h>

#include "lib/store/shard.h"

struct tg_store {
    struct shard *shards;
    uint64_t shard_mask;
    uint64_t seed;
    atomic_uint_fast64_t refused;
    struct shard_common common;
    /* Called with each charge: see store_save.h. Written while all shards are locked, and read
     * under the lock of one; null: nobody. */
    void (*moved)(void *context, const void *bytes, size_t n);
    void *moved_context;
};

/* The shard that a hash belongs to. Its uppermost bits, which no table looks at. */
static inline uint32_t store_shard_of(const struct tg_store *store, uint64_t hash)
{
    return (uint32_t)((hash >> 48) & store->shard_mask);
}

/* Looks for memory in the other shards, until one has given some back. Takes their locks. */
bool store_reclaim(struct tg_store *store, const struct shard *except, tg_ms now);

#endif
