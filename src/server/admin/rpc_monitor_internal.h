/* rpc_monitor_internal.h - between the files of the RPCs for operators: rpc_health.c,
 * rpc_monitor.c, rpc_snapshot.c. */
#ifndef TG_ADMIN_RPC_MONITOR_INTERNAL_H
#define TG_ADMIN_RPC_MONITOR_INTERNAL_H

#include <tollgate/v1/monitor.pb-c.h>

#include "server/dialect/replies.h"
#include "server/runtime/rpc.h"
#include "server/runtime/worker.h"

#define RPC_WATCHERS_MAX 16 /* streams of refusals on one worker */

/* Streams of health on one worker. Nobody needs a token for one, and a stream that does nothing
 * takes some KiB; clients that are refused take the server for ill, so there are more than are
 * likely. */
#define RPC_HEALTH_WATCHERS_MAX 8192

struct rpc_snapshot;

/* What these RPCs keep on a worker. */
struct admin_worker {
    struct worker *worker;
    size_t n_denial_watchers, n_health_watchers; /* streams that are open */
    LIST_HEAD(, rpc_snapshot) snapshots;         /* those that are being made */
};

extern const struct grpc_service rpc_monitor, rpc_health, rpc_reflection, rpc_reflection_alpha;

struct watch_entry;
void rpc_write_denial(struct watch_entry *entry, char id[REPLY_ID_MAX + 1],
                      Tollgate__V1__Denial *out);

void rpc_snapshot_message(struct grpc_call *call, const ProtobufCMessage *message);
void rpc_snapshot_cancel(struct grpc_call *call);
void rpc_snapshot_free_all(struct admin_worker *admin);

#endif
