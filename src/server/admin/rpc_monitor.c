/* rpc_monitor.c - tollgate.v1.Monitor: who may look, and refusals as they happen. Snapshots are in
 * rpc_snapshot.c.
 *
 * A watcher is a place in the ring of refusals (obs/watch.h), which the workers write and which
 * waits for nobody. Ten times a second it reads on from there, at most AT_ONCE that match, and only
 * while its client takes what it is sent: nothing is kept for it but what the connection holds. Who
 * is slower than the refusals is overtaken by the ring and told how many it has missed. After a
 * reload it is asked again who it is: a token that has been replaced opens nothing any more.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "server/admin/admin_call.h"
#include "server/admin/rpc_monitor_internal.h"
#include "server/obs/watch.h"

enum { AT_ONCE = 500 * RPC_POLL_MS / 1000 };

/* What a watcher wants to see; "": all. Cut as the entries are. */
struct filter {
    char tenant[WATCH_NAME_MAX], model[WATCH_NAME_MAX], reason[WATCH_WORD_MAX];
};

struct denial_watch {
    struct rpc_watcher watcher; /* the first */
    watch_place place;
    uint64_t generation;   /* in which its token was good */
    uint64_t dropped;      /* not told yet */
    uint64_t missed;       /* how many of the dropped events were reported to this watcher */
    struct filter *filter; /* its own */
};

_Static_assert(sizeof(struct denial_watch) <= GRPC_STATE_BYTES, "it is the state of a call");

static struct denial_watch *watch_of(struct grpc_call *call)
{
    return (struct denial_watch *)(void *)call->state;
}

/* Whether the administrator is asking. False: the RPC has been finished. */
static bool rpc_authenticate_admin(struct grpc_call *call)
{
    switch (admin_access(&rpc_worker(call)->generation->config, &call->in->head)) {
    case ADMIN_MAY:
        return true;
    case ADMIN_CLOSED:
        grpc_finish(call, GRPC_PERMISSION_DENIED,
                    "the monitor is closed, because no token is configured; set admin_auth.token");
        return false;
    default:
        grpc_finish(call, GRPC_UNAUTHENTICATED,
                    "the token is missing or wrong; send authorization: Bearer TOKEN");
        return false;
    }
}

/* ---- events ---- */

static bool is_wanted(const struct filter *filter, const struct watch_entry *entry)
{
    return (filter->tenant[0] == '\0' || strcmp(filter->tenant, entry->tenant) == 0) &&
           (filter->model[0] == '\0' || strcmp(filter->model, entry->model) == 0) &&
           (filter->reason[0] == '\0' || strcmp(filter->reason, entry->reason) == 0);
}

void rpc_write_denial(struct watch_entry *entry, char id[REPLY_ID_MAX + 1],
                      Tollgate__V1__Denial *out)
{
    tollgate__v1__denial__init(out);
    id[reply_id(entry->id, id)] = '\0';
    out->at_ms = entry->at;
    out->id = id;
    out->tenant = entry->tenant;
    out->model = entry->model;
    out->reason = entry->reason;
    out->binding_axis = entry->axis;
    out->retry_after_ms = entry->retry_after_ms;
    out->status = (int32_t)entry->status;
    out->text = entry->text;
    out->limit_of = entry->limit_of;
    out->limit_rule = entry->limit_rule;
    out->limit = entry->limit;
    out->remaining = entry->remaining;
}

/* `entry` null: only what was missed. */
static void rpc_monitor_tell(struct grpc_call *call, struct watch_entry *entry)
{
    Tollgate__V1__WatchEvent event = TOLLGATE__V1__WATCH_EVENT__INIT;
    Tollgate__V1__Denial denial;
    char id[REPLY_ID_MAX + 1];

    event.dropped = watch_of(call)->dropped;
    watch_of(call)->dropped = 0;
    if (entry != NULL) {
        rpc_write_denial(entry, id, &denial);
        event.denial = &denial;
    }
    grpc_send(call, &event.base);
}

static void rpc_monitor_cancel(struct grpc_call *call)
{
    struct denial_watch *state = watch_of(call);

    if (state->filter == NULL)
        return;
    rpc_unwatch(&state->watcher);
    assert(rpc_worker(call)->admin->n_denial_watchers > 0);
    rpc_worker(call)->admin->n_denial_watchers--;
    free(state->filter);
    state->filter = NULL;
}

/* False: its RPC has ended. */
static bool is_granted(struct grpc_call *call)
{
    const struct generation *generation = rpc_worker(call)->generation;
    struct denial_watch *state = watch_of(call);

    if (generation->number == state->generation)
        return true;
    state->generation = generation->number;
    if (admin_access(&generation->config, &call->in->head) == ADMIN_MAY)
        return true;
    rpc_monitor_cancel(call);
    return rpc_authenticate_admin(call);
}

static void rpc_monitor_poll(struct rpc_watcher *watcher)
{
    struct grpc_call *call = watcher->call;
    struct denial_watch *state = watch_of(call);
    const struct watch *ring = rpc_worker(call)->gateway->watch;
    struct watch_entry entry;
    uint64_t missed = watch_missed(ring);

    if (!is_granted(call))
        return;
    state->dropped += missed - state->missed;
    state->missed = missed;
    for (int told = 0, seen = 0; told < AT_ONCE && seen < WATCH_SLOTS; seen++) {
        if (call->finished || !grpc_has_room(call) ||
            !watch_take(ring, &state->place, &entry, &state->dropped))
            break;
        if (is_wanted(state->filter, &entry)) {
            rpc_monitor_tell(call, &entry);
            told++;
        }
    }
    if (!call->finished && state->dropped > 0 && grpc_has_room(call))
        rpc_monitor_tell(call, NULL);
}

/* ---- a watcher ---- */

static void rpc_monitor_drain(struct grpc_call *call)
{
    rpc_monitor_cancel(call);
    grpc_finish(call, GRPC_UNAVAILABLE, "the server is shutting down");
}

static void rpc_monitor_begin(struct grpc_call *call)
{
    rpc_authenticate_admin(call);
}

static void watch(struct grpc_call *call, const ProtobufCMessage *message)
{
    const Tollgate__V1__WatchRequest *request = (const void *)message;
    struct denial_watch *state = watch_of(call);
    struct worker *worker = rpc_worker(call);

    if (worker->gateway->watch == NULL || worker->admin->n_denial_watchers >= RPC_WATCHERS_MAX ||
        (state->filter = calloc(1, sizeof *state->filter)) == NULL) {
        grpc_finish(call, GRPC_RESOURCE_EXHAUSTED, "too many watchers: a worker takes 16");
        return;
    }
    watch_text(state->filter->tenant, sizeof state->filter->tenant, slice_of(request->tenant));
    watch_text(state->filter->model, sizeof state->filter->model, slice_of(request->model));
    watch_text(state->filter->reason, sizeof state->filter->reason, slice_of(request->reason));
    state->place = watch_end(worker->gateway->watch);
    state->missed = watch_missed(worker->gateway->watch);
    state->generation = worker->generation->number;
    worker->admin->n_denial_watchers++;
    rpc_watch(call, &state->watcher, rpc_monitor_poll);
    grpc_start(call);
    if (worker->rpc->draining)
        rpc_monitor_drain(call);
}

static const struct grpc_method METHODS[] = {
    {.name = "GetSnapshot",
     .request = &tollgate__v1__get_snapshot_request__descriptor,
     .begin = rpc_monitor_begin,
     .message = rpc_snapshot_message,
     .cancel = rpc_snapshot_cancel},
    {.name = "Watch",
     .request = &tollgate__v1__watch_request__descriptor,
     .begin = rpc_monitor_begin,
     .message = watch,
     .cancel = rpc_monitor_cancel,
     .drain = rpc_monitor_drain},
};

const struct grpc_service rpc_monitor = {"tollgate.v1.Monitor", METHODS,
                                         sizeof METHODS / sizeof METHODS[0]};
