/* rpc.c - the gRPC server of a worker, and the streams that are polled: see rpc.h. */
#include "server/runtime/rpc.h"

#include <assert.h>
#include <stdlib.h>

#include "server/runtime/service.h"
#include "server/runtime/worker.h"

/* ---- watchers ---- */

static void poll_watchers(void *arg)
{
    struct rpc *rpc = arg;
    struct rpc_watcher *next;

    for (struct rpc_watcher *at = LIST_FIRST(&rpc->watchers); at != NULL; at = next) {
        assert(at->watching);
        next = LIST_NEXT(at, link); /* a poll may end its stream */
        at->poll(at);
    }
    if (!LIST_EMPTY(&rpc->watchers))
        net_timer_set(rpc->worker->loop, &rpc->polling, RPC_POLL_MS);
}

void rpc_watch(struct grpc_call *call, struct rpc_watcher *watcher,
               void (*poll)(struct rpc_watcher *watcher))
{
    struct rpc *rpc = rpc_worker(call)->rpc;

    assert(worker_is_mine(rpc->worker) && !watcher->watching);
    watcher->watching = true;
    watcher->call = call;
    watcher->poll = poll;
    LIST_INSERT_HEAD(&rpc->watchers, watcher, link);
    if (!net_timer_is_set(&rpc->polling))
        net_timer_set(rpc->worker->loop, &rpc->polling, RPC_POLL_MS);
}

void rpc_unwatch(struct rpc_watcher *watcher)
{
    if (!watcher->watching)
        return;
    LIST_REMOVE(watcher, link);
    watcher->watching = false;
}

/* ---- life ---- */

bool rpc_new(struct worker *worker, struct rpc **made)
{
    const struct service_table *table = worker->gateway->services;
    struct rpc *rpc = calloc(1, sizeof *rpc);
    size_t n = 0;

    if (rpc == NULL)
        return false;
    rpc->worker = worker;
    LIST_INIT(&rpc->watchers);
    net_timer_init(&rpc->polling, poll_watchers, rpc);
    for (size_t i = 0; i < table->n; i++)
        n += table->list[i]->n_rpcs;
    rpc->services = calloc(n + 1, sizeof *rpc->services);
    if (rpc->services == NULL) {
        free(rpc);
        return false;
    }
    const struct grpc_service **next = rpc->services;
    for (size_t i = 0; i < table->n; i++)
        for (size_t k = 0; k < table->list[i]->n_rpcs; k++)
            *next++ = table->list[i]->rpcs[k];
    const struct grpc_server_options options = {
        .loop = worker->loop, .services = rpc->services, .n_services = n, .context = worker};
    if (grpc_server_new(&options, &rpc->server)) {
        free(rpc->services);
        free(rpc);
        return false;
    }
    *made = rpc;
    return true;
}

void rpc_drain(struct rpc *rpc)
{
    rpc->draining = true;
    grpc_server_drain(rpc->server);
}

void rpc_free(struct rpc *rpc)
{
    if (rpc == NULL)
        return;
    assert(LIST_EMPTY(&rpc->watchers)); /* each stream has ended with the listener */
    net_timer_stop(rpc->worker->loop, &rpc->polling);
    grpc_server_free(rpc->server);
    free(rpc->services);
    free(rpc);
}
