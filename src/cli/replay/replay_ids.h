/* replay_ids.h - the ids of a trace that are in use: a call that waits, or a lease that is open.
 *
 * An id is known by its hash of 128 bits; its bytes are not kept. */
#ifndef TG_REPLAY_REPLAY_IDS_H
#define TG_REPLAY_REPLAY_IDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/core/hash_table.h"
#include "tollgate.h"

struct replay_call;

struct replay_id {
    uint64_t low, high;       /* the hash */
    struct replay_call *call; /* the waiting call; null: it was admitted */
    tg_lease lease;
    tg_ms ends_at; /* when the lease ends by itself */
};

struct replay_ids {
    struct replay_id *list; /* in no order */
    size_t n, capacity;
    struct hash_table numbers; /* index into `list` by the low half of the hash */
};

/* All zero is an empty table. */
void replay_ids_fini(struct replay_ids *ids);

/* Null if it is not there. Valid until the next put or remove. */
struct replay_id *replay_ids_find(const struct replay_ids *ids, const char *text, size_t bytes);

/* The entry of an id, made if need be: a new one is all zero but for the hash. Before the list
 * grows, it forgets leases that ended at or before `ended`. Null: no memory. */
struct replay_id *replay_ids_put(struct replay_ids *ids, const char *text, size_t bytes,
                                 tg_ms ended);

void replay_ids_remove(struct replay_ids *ids, struct replay_id *id);

#endif
