/* key_lease.h - what the ring knows of an attempt that holds a key.
 *
 * The number of a lease is its id in a pool of handles (core/handles.h), so that of an attempt that
 * is over finds nothing, however often it comes back: a second release cannot give anything back
 * twice. 24 bits of place are 16 million attempts at once; 40 bits of generation are as many uses
 * of the place that is used most, 30 years at a thousand a second. Not synchronised: the ring's
 * lock covers it.
 */
#ifndef TG_KEYPOOL_KEY_LEASE_H
#define TG_KEYPOOL_KEY_LEASE_H

#include "lib/core/handles.h"

struct key;
struct key_group;

struct key_lease {
    struct handle handle;
    struct key *key;
    struct key_group *group; /* which it was charged to, whatever the key's is now; may be null */
    tg_ms at;
    int64_t tokens;
    uint32_t epoch; /* the key's breaker was in this one when the attempt began */
};

static inline void key_leases_init(struct handles *leases)
{
    handles_init(leases, sizeof(struct key_lease), 24, (1 << 24) - 1);
}

#endif
