/* replay_remote.h - the gate of a configuration, with its rate and cost in Redis.
 *
 * It stands between gate_run.h, which asks by sets and leases, and the store, which knows neither:
 * sets become names, and what an open lease was charged is kept until it ends.
 */
#ifndef TG_REPLAY_REPLAY_REMOTE_H
#define TG_REPLAY_REPLAY_REMOTE_H

#include "cli/replay/replay_store.h"
#include "lab/regret/gate_run.h"
#include "lib/core/hash_table.h"
#include "server/tenancy/limit_book.h"

struct replay_charge; /* the charge of an open lease */

struct replay_remote {
    struct gate_run_store hook; /* for gate_run_init_remote() */
    struct replay_store *store;
    const struct limit_listing *listing;
    struct hash_table charges; /* by lease */
    size_t purge_at;           /* charges at which those of ended leases are removed */
};

/* Both are borrowed. */
void replay_remote_init(struct replay_remote *remote, struct replay_store *store,
                        const struct limit_listing *listing);
void replay_remote_fini(struct replay_remote *remote);

#endif
