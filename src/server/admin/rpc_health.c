/* rpc_health.c - grpc.health.v1.Health: whether this takes calls. See proto/grpc/health/v1.
 *
 * No token: it says no more than a connection does. All services stand and fall together, so the
 * state is one, that of /readyz; what differs is only whether a name is known.
 */
#include <assert.h>
#include <grpc/health/v1/health.pb-c.h>
#include <string.h>

#include "server/admin/rpc_monitor_internal.h"
#include "server/probe/probe_pages.h"
#include "server/runtime/service.h"

typedef Grpc__Health__V1__HealthCheckResponse__ServingStatus serving_status;
#define STATUS(word) GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__##word

struct health_watch {
    struct rpc_watcher watcher; /* the first */
    bool known;
    serving_status told;
};

_Static_assert(sizeof(struct health_watch) <= GRPC_STATE_BYTES, "it is the state of a call");

static struct health_watch *watch_of(struct grpc_call *call)
{
    return (struct health_watch *)(void *)call->state;
}

/* What envoyproxy/ratelimit calls itself: who has moved from there asks for it. */
#define RATELIMIT "ratelimit"

/* More names than there are services: what did not fit would be missing from the list. */
enum { HEALTH_NAMES_MAX = 32 };

static bool is_known(const struct worker *worker, const char *name)
{
    const struct service_table *table = worker->gateway->services;

    if (*name == '\0' || strcmp(name, RATELIMIT) == 0)
        return true;
    for (size_t i = 0; i < table->n; i++)
        for (size_t k = 0; k < table->list[i]->n_rpcs; k++)
            if (strcmp(table->list[i]->rpcs[k]->name, name) == 0)
                return true;
    return false;
}

static serving_status status_now(const struct grpc_call *call)
{
    const struct worker *worker = rpc_worker(call);

    return probe_unready(worker->gateway, &worker->generation->config) == NULL
               ? STATUS(SERVING)
               : STATUS(NOT_SERVING);
}

/* ---- once ---- */

static void rpc_health_check(struct grpc_call *call, const ProtobufCMessage *message)
{
    const Grpc__Health__V1__HealthCheckRequest *request = (const void *)message;
    Grpc__Health__V1__HealthCheckResponse reply = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;

    if (!is_known(rpc_worker(call), request->service)) {
        grpc_finish(call, GRPC_NOT_FOUND, "there is no such service here");
        return;
    }
    reply.status = status_now(call);
    grpc_reply(call, &reply.base);
}

/* The state of the gateway under all the names that Check knows. */
static void rpc_health_list(struct grpc_call *call, const ProtobufCMessage *message)
{
    typedef Grpc__Health__V1__HealthListResponse__StatusesEntry entry;
    const struct service_table *table = rpc_worker(call)->gateway->services;
    Grpc__Health__V1__HealthListResponse reply = GRPC__HEALTH__V1__HEALTH_LIST_RESPONSE__INIT;
    Grpc__Health__V1__HealthCheckResponse state = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
    entry entries[HEALTH_NAMES_MAX], *list[HEALTH_NAMES_MAX];
    const char *names[HEALTH_NAMES_MAX] = {"", RATELIMIT};
    size_t n = 2;

    (void)message;
    for (size_t i = 0; i < table->n; i++)
        for (size_t k = 0; k < table->list[i]->n_rpcs && n < HEALTH_NAMES_MAX; k++)
            names[n++] = table->list[i]->rpcs[k]->name;
    state.status = status_now(call);
    for (size_t i = 0; i < n; i++) {
        grpc__health__v1__health_list_response__statuses_entry__init(&entries[i]);
        entries[i].key = (char *)(uintptr_t)names[i];
        entries[i].value = &state;
        list[i] = &entries[i];
    }
    reply.n_statuses = n;
    reply.statuses = list;
    grpc_reply(call, &reply.base);
}

/* ---- and on ---- */

static void rpc_health_tell(struct grpc_call *call, serving_status status)
{
    Grpc__Health__V1__HealthCheckResponse reply = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;

    watch_of(call)->told = status;
    reply.status = status;
    grpc_send(call, &reply.base);
}

/* A reader that does not read is told the state it finds when it does, not all there were. */
static void rpc_health_poll(struct rpc_watcher *watcher)
{
    struct grpc_call *call = watcher->call;
    serving_status now = status_now(call);

    if (watch_of(call)->known && now != watch_of(call)->told && grpc_has_room(call))
        rpc_health_tell(call, now);
}

static void rpc_health_cancel(struct grpc_call *call)
{
    struct admin_worker *admin = rpc_worker(call)->admin;

    if (!watch_of(call)->watcher.watching)
        return;
    assert(admin->n_health_watchers > 0);
    admin->n_health_watchers--;
    rpc_unwatch(&watch_of(call)->watcher);
}

static void rpc_health_drain(struct grpc_call *call)
{
    if (watch_of(call)->watcher.watching)
        rpc_health_poll(&watch_of(call)->watcher);
    rpc_health_cancel(call);
    grpc_finish(call, GRPC_UNAVAILABLE, "the server is shutting down");
}

static void watch(struct grpc_call *call, const ProtobufCMessage *message)
{
    const Grpc__Health__V1__HealthCheckRequest *request = (const void *)message;
    struct health_watch *state = watch_of(call);

    if (rpc_worker(call)->admin->n_health_watchers >= RPC_HEALTH_WATCHERS_MAX) {
        grpc_finish(call, GRPC_RESOURCE_EXHAUSTED, "too many watchers: a worker takes 8192");
        return;
    }
    rpc_worker(call)->admin->n_health_watchers++;
    state->known = is_known(rpc_worker(call), request->service);
    rpc_watch(call, &state->watcher, rpc_health_poll);
    rpc_health_tell(call, state->known ? status_now(call) : STATUS(SERVICE_UNKNOWN));
    if (rpc_worker(call)->rpc->draining)
        rpc_health_drain(call);
}

static const struct grpc_method METHODS[] = {
    {.name = "Check",
     .request = &grpc__health__v1__health_check_request__descriptor,
     .message = rpc_health_check},
    {.name = "List",
     .request = &grpc__health__v1__health_list_request__descriptor,
     .message = rpc_health_list},
    {.name = "Watch",
     .request = &grpc__health__v1__health_check_request__descriptor,
     .message = watch,
     .cancel = rpc_health_cancel,
     .drain = rpc_health_drain},
};

const struct grpc_service rpc_health = {"grpc.health.v1.Health", METHODS,
                                        sizeof METHODS / sizeof METHODS[0]};
