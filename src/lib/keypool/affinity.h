/* affinity.h - which key the last call of a conversation had.
 *
 * A provider keeps a prompt's prefix, or a stored response, by account: the next call of the same
 * conversation is cheaper, or only possible, with the same key. What a call has in common with the
 * one before it (a response's id, a cache key, a session) is known by a hash with a seed; two that
 * collide share a preference, which is all that can happen.
 *
 * Bounded, since callers invent these names: when the map is full, the one that was used longest
 * ago makes room. Each use begins its time anew, so the order of use is the order of expiry, too. A
 * key is named by its serial, which no other key ever has: one that was taken out is not found.
 * Memory is allocated once. Not synchronised: the ring's lock covers it.
 */
#ifndef TG_KEYPOOL_AFFINITY_H
#define TG_KEYPOOL_AFFINITY_H

#include "lib/core/hash_table.h"

struct affinity_entry {
    uint64_t hash;
    tg_ms used_at;
    uint32_t serial;       /* names the key; never 0 */
    uint32_t older, newer; /* places, which count from 1 */
};

struct affinity {
    struct affinity_entry *entries; /* place 0 is not used: its neighbours are oldest and newest */
    struct hash_table places;       /* where the entry of a hash is */
    uint32_t capacity;
    uint32_t n;
};

/* One of 0 entries remembers nothing. False: no memory. */
bool affinity_init(struct affinity *affinity, size_t entries);
void affinity_fini(struct affinity *affinity);

/* The key that was remembered, at most `ttl` ago; 0: none. */
uint32_t affinity_find(const struct affinity *affinity, uint64_t hash, tg_ms now, tg_ms ttl);

void affinity_remember(struct affinity *affinity, uint64_t hash, tg_ms now, uint32_t serial);

#endif
