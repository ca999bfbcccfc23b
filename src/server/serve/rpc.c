/* rpc.c - the gRPC services of a worker: their listener, and those who watch. See rpc.h. */
#include "server/serve/rpc.h"

#include <stdlib.h>

#include "server/envoy/envoy_rls.h"
#include "server/protect/protect.h"
#include "server/serve/rpc_internal.h"

static const struct grpc_service *const SERVICES[] = {&rpc_admission, &rpc_monitor, &rpc_health,
                                                      &rpc_envoy};

/* ---- those who watch ---- */

static void turn(void *arg)
{
    struct rpc *rpc = arg;
    struct rpc_watcher *next;

    for (struct rpc_watcher *at = rpc->watchers; at != NULL; at = next) {
        next = at->next; /* a look may be the last */
        at->look(at);
    }
    if (rpc->watchers != NULL)
        net_timer_set(rpc->worker->loop, &rpc->turn, RPC_TURN_MS);
}

void rpc_watch(struct grpc_call *call, struct rpc_watcher *watcher,
               void (*look)(struct rpc_watcher *watcher))
{
    struct rpc *rpc = rpc_of(call);

    watcher->call = call;
    watcher->look = look;
    watcher->next = rpc->watchers;
    watcher->from = &rpc->watchers;
    if (watcher->next != NULL)
        watcher->next->from = &watcher->next;
    rpc->watchers = watcher;
    if (!net_timer_is_set(&rpc->turn))
        net_timer_set(rpc->worker->loop, &rpc->turn, RPC_TURN_MS);
}

void rpc_unwatch(struct rpc *rpc, struct rpc_watcher *watcher)
{
    (void)rpc;
    if (watcher->from == NULL)
        return;
    *watcher->from = watcher->next;
    if (watcher->next != NULL)
        watcher->next->from = watcher->from;
    watcher->from = NULL;
}

/* ---- the listener ---- */

/* Whether it is for one of our own services. */
static bool is_ours(struct slice target)
{
    struct slice service, method;

    if (!grpc_split_path(target, &service, &method))
        return false;
    for (size_t i = 0; i < sizeof SERVICES / sizeof *SERVICES; i++)
        if (slice_equal(service, slice_of(SERVICES[i]->name)))
            return true;
    return false;
}

/* Envoy's service is asked by plain HTTP, too; what is for neither may be for a protected route. */
static void rpc_begin(void *context, struct http_inbound *in)
{
    struct rpc *rpc = context;

    const struct protected_route *route = protect_find(rpc->worker->generation, in->head.target);

    if (envoy_rls_begin(rpc->worker, in))
        return;
    if (route != NULL && !is_ours(in->head.target))
        protect_begin(rpc->worker, route, in);
    else
        grpc_server_begin(rpc->server, in);
}

static const struct exchange_ops *ops_of(const struct http_inbound *in)
{
    const struct exchange_ops *ops = envoy_rls_ops(in);

    return ops != NULL ? ops : protect_ops(in);
}

static void rpc_data(struct http_inbound *in, struct slice bytes)
{
    const struct exchange_ops *ops = ops_of(in);

    (ops != NULL ? ops->data : grpc_server_data)(in, bytes);
}

static void rpc_end(struct http_inbound *in)
{
    const struct exchange_ops *ops = ops_of(in);

    (ops != NULL ? ops->end : grpc_server_end)(in);
}

static void rpc_room(struct http_inbound *in)
{
    const struct exchange_ops *ops = ops_of(in);

    (ops != NULL ? ops->room : grpc_server_room)(in);
}

static void rpc_gone(struct http_inbound *in, enum http_why why)
{
    const struct exchange_ops *ops = ops_of(in);

    (ops != NULL ? ops->gone : grpc_server_gone)(in, why);
}

static void closed(void *context, uint64_t connection)
{
    struct rpc *rpc = context;

    admit_connection_closed(rpc->worker, connection);
}

static bool is_kept(void *context, uint64_t connection)
{
    struct rpc *rpc = context;

    return admit_connection_is_held(rpc->worker, connection);
}

const struct http_server_ops rpc_server_ops = {.begin = rpc_begin,
                                               .data = rpc_data,
                                               .end = rpc_end,
                                               .room = rpc_room,
                                               .gone = rpc_gone,
                                               .closed = closed,
                                               .is_kept = is_kept};

/* ---- life ---- */

bool rpc_new(struct worker *worker, struct rpc **made)
{
    struct rpc *rpc = calloc(1, sizeof *rpc);
    const struct grpc_server_options options = {.loop = worker->loop,
                                                .services = SERVICES,
                                                .n_services = sizeof SERVICES / sizeof *SERVICES,
                                                .context = rpc};

    if (rpc == NULL)
        return false;
    rpc->worker = worker;
    net_timer_init(&rpc->turn, turn, rpc);
    if (grpc_server_new(&options, &rpc->server)) {
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
    net_timer_stop(rpc->worker->loop, &rpc->turn);
    rpc_snapshot_free_all(rpc);
    rpc_stream_free_spare(rpc);
    grpc_server_free(rpc->server);
    free(rpc);
}
