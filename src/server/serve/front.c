/* front.c - decides which service owns a request: see front.h. */
#include "server/serve/front.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "io/grpc/grpc_codec.h"
#include "io/grpc/grpc_server.h"
#include "server/runtime/report_notes.h"
#include "server/runtime/rpc.h"
#include "server/runtime/service.h"
#include "server/runtime/worker.h"
#include "server/serve/relay.h"
#include "server/tenancy/trust.h"

/* What in->owner begins with; null: nobody owns the request. By its bytes, because the first member
 * of a struct grpc_call has another type. */
static const void *first_of(const struct http_inbound *in)
{
    const void *first = NULL;

    if (in->owner != NULL)
        memcpy(&first, in->owner, sizeof first);
    return first;
}

/* Offers the request to the services of this listener, in their order. */
static bool front_offer(struct worker *worker, unsigned listener, struct http_inbound *in)
{
    const struct service_table *table = worker->gateway->services;

    assert(worker_is_mine(worker));
    for (size_t i = 0; i < table->n; i++) {
        const struct service *service = table->list[i];
        if ((service->listeners & listener) != 0 && service->begin(worker, in)) {
            assert(in->owner == NULL || first_of(in) == service);
            return true;
        }
        assert(in->owner == NULL); /* who does not take it leaves it as it was */
    }
    return false;
}

/* ---- listen.gateway ---- */

static void gateway_begin(void *context, struct http_inbound *in)
{
    struct worker *worker = context;
    struct http_origin *successor = atomic_load(&worker->gateway->successor);

    if (successor != NULL)
        relay_begin(worker, in, successor);
    else if (!front_offer(worker, SERVICE_ON_GATEWAY, in))
        http_inbound_abort(in); /* the proxy takes everything: only a table without it comes here */
}

static void gateway_data(struct http_inbound *in, struct slice bytes)
{
    const struct service *owner = first_of(in);

    if (owner != NULL)
        owner->data(in, bytes);
}

static void gateway_end(struct http_inbound *in)
{
    const struct service *owner = first_of(in);

    if (owner != NULL)
        owner->end(in);
}

static void gateway_room(struct http_inbound *in)
{
    const struct service *owner = first_of(in);

    if (owner != NULL && owner->room != NULL)
        owner->room(in);
}

static void gateway_gone(struct http_inbound *in, enum http_why why)
{
    const struct service *owner = first_of(in);

    if (owner != NULL)
        owner->gone(in, why);
}

/* What is no request of HTTP is answered in the form of the APIs that are served here. */
static void gateway_refuse(void *context, int status, const char *text,
                           struct http_refusal *refusal)
{
    if (!refusal->begun) /* else the owner of the request has reported it */
        report_no_request(context, status, text);
    refusal->type = SLICE("application/json");
    int n = snprintf(refusal->body, sizeof refusal->body,
                     "{\"error\":{\"message\":\"%s\",\"type\":\"invalid_request_error\","
                     "\"code\":\"http_%d\",\"param\":null}}",
                     text, status);
    refusal->n = n > 0 && (size_t)n < sizeof refusal->body ? (size_t)n : 0;
}

/* ---- listen.grpc ---- */

static bool is_rpc(const struct service_table *table, struct slice target)
{
    struct slice name, method;

    if (!grpc_split_path(target, &name, &method))
        return false;
    for (size_t i = 0; i < table->n; i++)
        for (size_t k = 0; k < table->list[i]->n_rpcs; k++)
            if (slice_equal(name, slice_of(table->list[i]->rpcs[k]->name)))
                return true;
    return false;
}

static void rpc_begin(void *context, struct http_inbound *in)
{
    struct worker *worker = context;
    struct http_origin *successor = atomic_load(&worker->gateway->grpc_successor);

    if (successor != NULL)
        relay_begin(worker, in, successor);
    else if (is_rpc(worker->gateway->services, in->head.target) ||
             !front_offer(worker, SERVICE_ON_GRPC, in))
        grpc_server_begin(worker->rpc->server, in);
}

/* The service that owns the request; null: it is an RPC. */
static const struct service *rpc_owner(const struct http_inbound *in)
{
    const struct worker *worker = in->context;
    const struct service_table *table = worker->gateway->services;
    const void *first = first_of(in);

    if (first == &relay_service)
        return &relay_service;
    for (size_t i = 0; i < table->n; i++)
        if (first == table->list[i])
            return table->list[i];
    return NULL;
}

static void rpc_data(struct http_inbound *in, struct slice bytes)
{
    const struct service *owner = rpc_owner(in);

    (owner != NULL ? owner->data : grpc_server_data)(in, bytes);
}

static void rpc_end(struct http_inbound *in)
{
    const struct service *owner = rpc_owner(in);

    (owner != NULL ? owner->end : grpc_server_end)(in);
}

static void rpc_room(struct http_inbound *in)
{
    const struct service *owner = rpc_owner(in);

    if (owner == NULL)
        grpc_server_room(in);
    else if (owner->room != NULL)
        owner->room(in);
}

static void rpc_gone(struct http_inbound *in, enum http_why why)
{
    const struct service *owner = rpc_owner(in);

    (owner != NULL ? owner->gone : grpc_server_gone)(in, why);
}

/* ---- connections of both ---- */

static void front_closed(void *context, uint64_t connection)
{
    struct worker *worker = context;
    const struct service_table *table = worker->gateway->services;

    for (size_t i = 0; i < table->n; i++)
        if (table->list[i]->connection_closed != NULL)
            table->list[i]->connection_closed(worker, connection);
}

static bool front_is_kept(void *context, uint64_t connection)
{
    struct worker *worker = context;
    const struct service_table *table = worker->gateway->services;

    for (size_t i = 0; i < table->n; i++)
        if (table->list[i]->connection_is_kept != NULL &&
            table->list[i]->connection_is_kept(worker, connection))
            return true;
    return false;
}

static bool front_is_proxy(void *context, const struct sockaddr *peer)
{
    const struct worker *worker = context;

    return trust_covers(&worker->generation->config, peer);
}

/* ---- relayed by another process ---- */

static void relayed_begin(void *context, struct http_inbound *in)
{
    relay_read(in);
    gateway_begin(context, in);
}

static void relayed_rpc_begin(void *context, struct http_inbound *in)
{
    relay_read(in);
    rpc_begin(context, in);
}

/* What both kinds of a listener have in common: relayed requests begin in another way, and do not
 * come from proxies. */
#define GATEWAY_OPS                                                                                \
    .data = gateway_data, .end = gateway_end, .room = gateway_room, .gone = gateway_gone,          \
    .refuse = gateway_refuse, .closed = front_closed, .is_kept = front_is_kept
#define RPC_OPS                                                                                    \
    .data = rpc_data, .end = rpc_end, .room = rpc_room, .gone = rpc_gone, .closed = front_closed,  \
    .is_kept = front_is_kept

const struct http_server_ops front_relayed_ops = {.begin = relayed_begin, GATEWAY_OPS};
const struct http_server_ops front_relayed_grpc_ops = {.begin = relayed_rpc_begin, RPC_OPS};
const struct http_server_ops front_gateway_ops = {
    .begin = gateway_begin, .is_proxy = front_is_proxy, GATEWAY_OPS};
const struct http_server_ops front_grpc_ops = {
    .begin = rpc_begin, .is_proxy = front_is_proxy, RPC_OPS};
