/* key_lease.h - what the ring knows of an attempt that holds a key.
 *
 * The number of a lease is its place and its generation. The generation changes when the lease
 * ends, so the number of an attempt that is over finds nothing, however often it comes back: a
 * second release cannot give anything back twice. 23 bits of place are 8 million attempts at once;
 * 40 bits of generation are as many uses of the place that is used most, 30 years at a thousand a
 * second.
 *
 * Leases stand in chunks that never move, each as large as all before it, so that a busy ring needs
 * few, and none is allocated once as many attempts have been in flight as ever will be. Not
 * synchronised: the ring's lock covers it.
 */
#ifndef TG_KEYPOOL_KEY_LEASE_H
#define TG_KEYPOOL_KEY_LEASE_H

#include "tollgate.h"

struct key;
struct key_group;

struct key_lease {
    uint64_t generation;
    struct key *key;         /* null: free */
    struct key_group *group; /* which it was charged to, whatever the key's is now; may be null */
    tg_ms at;
    int64_t tokens;
    uint32_t place;
    uint32_t epoch; /* of the key's breaker */
    struct key_lease *next_free;
};

enum { LEASE_CHUNKS = 18, LEASE_FIRST_CHUNK = 64, LEASE_PLACE_BITS = 24 };

struct key_leases {
    struct key_lease *chunks[LEASE_CHUNKS];
    uint32_t n_chunks;
    struct key_lease *free;
};

void key_leases_fini(struct key_leases *leases);

/* Null: no memory, or too many. The key is to be set by the caller. */
struct key_lease *key_leases_get(struct key_leases *leases);
void key_leases_put(struct key_leases *leases, struct key_lease *lease);

static inline tg_key_lease key_lease_id(const struct key_lease *lease)
{
    return lease->generation << LEASE_PLACE_BITS | (lease->place + 1);
}

/* Null if it has ended, or never was. */
struct key_lease *key_leases_find(const struct key_leases *leases, tg_key_lease id);

/* The one at a place, free or not; null: there are not so many. */
struct key_lease *key_leases_at(const struct key_leases *leases, uint32_t place);

#endif
