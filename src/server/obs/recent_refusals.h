/* recent_refusals.h - the last refusals of one tenant, for that tenant.
 *
 *     any thread --- refusals_may_put(), refusals_put() ---> 32, in 4 KiB --- refusals_read()
 *
 * The watch (watch.h) has the last refusals of all tenants, for the operator: one that is refused a
 * thousand times a second leaves nothing there of the others. So each tenant has its own, and loses
 * its own alone. Memory is taken with the first refusal: 10,000 tenants that have been refused take
 * 43 MiB.
 *
 * At most ten a second are kept, of those the first: to make their texts takes longer than to
 * refuse. The others are counted.
 */
#ifndef TG_OBS_RECENT_REFUSALS_H
#define TG_OBS_RECENT_REFUSALS_H

#include <stdatomic.h>

#include "server/obs/watch.h"

enum { REFUSALS_KEPT = 32, REFUSALS_BYTES = 4096, REFUSALS_A_SECOND = 10 };

struct refusal_ring;

/* All zeros is an empty one; by any thread. */
struct recent_refusals {
    _Atomic(struct refusal_ring *) ring; /* null: there was none */
    atomic_llong second;                 /* the second of the last, times 16, and how many it had */
    atomic_llong left_out;               /* refusals that were not kept */
};

void refusals_fini(struct recent_refusals *refusals);

/* Whether a refusal at that time of the loop is to be put; else it is counted. */
bool refusals_may_put(struct recent_refusals *refusals, tg_ms now);

/* Copies it; the oldest make room. Its tenant is left out. */
void refusals_put(struct recent_refusals *refusals, const struct watch_entry *entry);

/* The kept ones, the newest first: how many. The entries say nothing of the tenant, max_tokens and
 * prompt_bytes. `user`, if it is not null: those of his calls alone. */
size_t refusals_read(const struct recent_refusals *refusals, const char *user,
                     struct watch_entry entries[REFUSALS_KEPT]);

#endif
