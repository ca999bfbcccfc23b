/* state_log.h - what changes by itself, as lines of the log: limits that laws move, and the
 * states of the ledger, the store and providers' keys.
 *
 * The library writes no lines. So the control thread looks, when it does its chores, at the limit
 * of each gate whose law is vegas, and logs those that have moved since it last looked: every step,
 * where a window is longer than the time between two looks, and the sum of some where it is
 * shorter. Only at level debug is there anything to do.
 */
#ifndef TG_ADMIN_STATE_LOG_H
#define TG_ADMIN_STATE_LOG_H

#include "server/admin/key_log.h"
#include "server/obs/log.h"
#include "server/remote/remote.h"
#include "server/runtime/generation.h"

struct state_log {
    enum ledger_health ledger;
    bool export_failed;
    bool interrupted; /* what the process before had in flight was told */
    enum remote_health store;
    int store_views;     /* while it has not been there yet: connecting takes a moment */
    uint64_t generation; /* whose slots `limits` has; 0: none */
    int64_t gate;        /* the limit of all calls together */
    int64_t *limits;     /* those of all slots, in the order of the generation */
    size_t n;
    struct key_log keys;
};

void state_log_init(struct state_log *state_log);
void state_log_fini(struct state_log *state_log);

/* Looks for what has changed. */
void state_log_update(struct state_log *state_log, struct gateway *gateway,
                      const struct generation *generation);

#endif
