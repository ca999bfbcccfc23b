/* rpc.h - the gRPC server of a worker, on listen.grpc, and the streams that are polled there.
 *
 * The RPCs are those of the services (service.h): each takes a message apart, asks what the rest of
 * the gateway asks too, and puts an answer together. What they mean is said in proto/.
 *
 * A stream that tells a client of changes, a health or a list of refusals, is a watcher: it is
 * polled every RPC_POLL_MS, as long as there is one.
 *
 * Everything here belongs to the worker's thread.
 */
#ifndef TG_RUNTIME_RPC_H
#define TG_RUNTIME_RPC_H

#include <sys/queue.h>

#include "io/grpc/grpc_server.h"
#include "io/net/loop.h"

struct worker;

#define RPC_POLL_MS 100 /* between two polls of all watchers */

/* A stream that is polled: a member of an RPC's state. */
struct rpc_watcher {
    LIST_ENTRY(rpc_watcher) link;
    bool watching; /* it is in the list of its worker */
    struct grpc_call *call;
    void (*poll)(struct rpc_watcher *watcher);
};

struct rpc {
    struct worker *worker;
    struct grpc_server *server;
    const struct grpc_service **services; /* the RPCs of all services */
    LIST_HEAD(, rpc_watcher) watchers;
    struct net_timer polling; /* set while there are watchers */
    bool draining;            /* streams that begin now end at once */
};

/* False: no memory. */
bool rpc_new(struct worker *worker, struct rpc **rpc);

/* The listener has been freed. */
void rpc_free(struct rpc *rpc);

/* The gateway takes no more: streams come to their end. */
void rpc_drain(struct rpc *rpc);

/* The worker that serves an RPC. */
static inline struct worker *rpc_worker(const struct grpc_call *call)
{
    return grpc_context(call);
}

/* From the next poll on. The watcher must not be watching. */
void rpc_watch(struct grpc_call *call, struct rpc_watcher *watcher,
               void (*poll)(struct rpc_watcher *watcher));

/* Whether or not it is watching. */
void rpc_unwatch(struct rpc_watcher *watcher);

#endif
