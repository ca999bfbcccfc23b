/* admit_api.c - the Admit service as JSON over HTTP, on the gateway's own listener.
 *
 *     POST /tollgate/v1/admit, /release, /heartbeat, /peek      JSON in, JSON out
 *     GET  /tollgate/v1/admit?tenant=...                        204 or 403, for nginx auth_request
 *     any  /tollgate/v1/authz, and all below it                 200 or a refusal, for proxies that
 *                                                               send on what their clients sent
 *
 * docs/api.md has the messages. Without `callers` in the configuration the service takes none of
 * these paths but the last, which needs `ext_authz`.
 *
 *     begin()          end()           decided
 *     ------> READING ------> WAITING ---------> ANSWERED
 *                |                                  ^
 *                `----------------------------------'  wrong head, too large, decided at once
 *
 * gone() leads from every state to the end, once. The head says who the caller is: a client without
 * a token sends no body. A caller that hangs up while it waits, in the queue or for a store, is
 * cancelled; one that has gone before its answer could reach it does not know its lease, so that is
 * released, too.
 *
 * An exchange belongs to its worker's thread.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "lib/core/num.h"
#include "lib/core/problem.h"
#include "server/admit/admit_authz.h"
#include "server/admit/admit_internal.h"
#include "server/admit/admit_read.h"
#include "server/admit/admit_write.h"
#include "server/admit/rpc_admission_internal.h"
#include "server/runtime/body_buffer.h"
#include "server/runtime/control.h"

enum { BODY_MAX = 128 << 10 };

enum api_state { API_READING, API_WAITING, API_ANSWERED };

enum method {
    METHOD_ADMIT,
    METHOD_RELEASE,
    METHOD_HEARTBEAT,
    METHOD_PEEK,
    METHOD_QUERY,
    METHOD_AUTHZ
};

/* These have no body that is read. */
static bool is_head_alone(enum method method)
{
    return method == METHOD_QUERY || method == METHOD_AUTHZ;
}

struct api {
    const struct service *service; /* the first member: see service.h */
    struct worker *worker;
    struct http_inbound *in;
    enum method method;
    struct admit_caller caller;
    bool enforce; /* a refusal is a status of HTTP, not a message */
    enum api_state state;
    struct admit_pending *pending; /* API_WAITING; else null */
    char lease[ADMIT_LEASE_BYTES]; /* the lease in the answer */
    size_t lease_bytes;
    struct slice tenant; /* METHOD_AUTHZ: whose limits were asked; in `name` */
    char name[ADMIT_NAME_MAX];
    struct body_buffer body;
};

/* ---- replies ---- */

static void send_head(struct api *api, int status, const struct http_fields *fields,
                      struct slice body)
{
    struct http_head head = {.status = status, .fields = fields->list, .n_fields = fields->n};

    assert(api->state != API_ANSWERED && api->pending == NULL);
    api->state = API_ANSWERED;
    http_inbound_send(api->in, &head, body);
}

/* What the limits say: of each axis, the one to speak of. Null: nothing. */
static void add_limits(struct api *api, const struct tg_axes *axes, struct reply_limits *limits,
                       struct http_fields *fields)
{
    if (axes == NULL)
        return;
    reply_limits_write(axes, WIRE_OPENAI, worker_now(api->worker), worker_wall(api->worker),
                       limits);
    for (size_t i = 0; i < limits->n_fields; i++)
        http_fields_add(fields, limits->fields[i].name, limits->fields[i].value);
}

/* In the form of the gateway's other refusals. `status` 0: the refusal's own. */
static void send_refusal(struct api *api, const struct refusal *why, const struct tg_axes *axes,
                         int status)
{
    struct worker *worker = api->worker;
    struct reply_limits limits;
    struct http_fields fields;
    struct reply reply;

    reply_write(why, WIRE_OPENAI, worker_wall(worker), random_bits(&worker->random), &reply);
    http_fields_init(&fields);
    for (size_t i = 0; i < reply.n_fields; i++)
        http_fields_add(&fields, reply.fields[i].name, reply.fields[i].value);
    add_limits(api, axes, &limits, &fields);
    send_head(api, status != 0 ? status : reply.status, &fields, reply.body);
}

/* A decision that is a refusal, or an error. */
static void send_refused(struct api *api, const struct admit_reply *reply, int status)
{
    struct refusal why;

    admit_refusal(reply, &why);
    send_refusal(api, &why, reply->status == ADMIT_DECIDED ? &reply->axes : NULL, status);
}

/* An error that the service has not seen, and so has not reported. */
static void api_fail(struct api *api, const struct refusal *why)
{
    admit_report_refusal(api->worker, api->caller.entry, why);
    send_refusal(api, why, NULL, 0);
}

static void send_json(struct api *api, const struct tg_axes *axes, struct json_writer *out)
{
    struct http_fields fields;
    struct reply_limits limits;
    struct refusal why;

    if (out->text.failed) {
        refusal_init(&why, REPLY_INTERNAL, NULL);
        api_fail(api, &why);
        return;
    }
    http_fields_init(&fields);
    http_fields_add(&fields, SLICE("content-type"), SLICE("application/json"));
    add_limits(api, axes, &limits, &fields);
    send_head(api, 200, &fields, (struct slice){out->text.bytes, out->text.size});
}

/* For auth_request, which understands 2xx, 401 and 403 alone; other proxies hand on what they get,
 * and Envoy takes nothing but 200 for a yes. */
static void send_verdict(struct api *api, const struct admit_reply *reply)
{
    struct http_fields fields;
    struct reply_limits limits;

    if (!reply->allowed) {
        bool hidden = api->method == METHOD_QUERY && !api->enforce;
        send_refused(api, reply, hidden && reply->status == ADMIT_DECIDED ? 403 : 0);
        return;
    }
    http_fields_init(&fields);
    if (api->method == METHOD_AUTHZ)
        http_fields_add(&fields, SLICE("x-tollgate-tenant"), api->tenant);
    add_limits(api, &reply->axes, &limits, &fields);
    send_head(api, api->method == METHOD_AUTHZ ? 200 : 204, &fields, (struct slice){NULL, 0});
}

/* ---- decisions ---- */

static void api_answer(struct api *api, const struct admit_reply *reply)
{
    struct json_writer out;

    if (is_head_alone(api->method)) {
        send_verdict(api, reply);
    } else if (reply->status != ADMIT_DECIDED || (!reply->allowed && api->enforce)) {
        send_refused(api, reply, 0);
    } else {
        json_writer_init(&out);
        admit_write_reply(&out, reply);
        send_json(api, &reply->axes, &out);
        json_writer_fini(&out);
    }
}

static void api_decided(void *context, const struct admit_reply *reply)
{
    struct api *api = context;

    api->pending = NULL;
    api->lease_bytes = reply->status == ADMIT_DECIDED ? reply->lease_bytes : 0;
    memcpy(api->lease, reply->lease, api->lease_bytes);
    api_answer(api, reply);
}

static void api_ask(struct api *api, struct admit_message *message)
{
    tg_ms now = worker_now(api->worker);

    if (api->method != METHOD_AUTHZ) /* there the head is a client's */
        admit_ask_head(api->worker, &api->caller, &api->in->head, &message->ask);
    message->ask.enforce = api->enforce;
    if (message->timeout_ms > 0)
        message->ask.deadline = num_add(now, message->timeout_ms);
    if (message->end_with_connection)
        message->ask.connection = http_inbound_connection(api->in);
    assert(api->state == API_READING);
    api->pending = api->method == METHOD_PEEK
                       ? admit_peek(api->worker, &api->caller, &message->ask, api_decided, api)
                       : admit_start(api->worker, &api->caller, &message->ask, api_decided, api);
    if (api->pending != NULL)
        api->state = API_WAITING;
}

/* The tenant has to stay until the answer, which may wait for a store. */
static void api_authz(struct api *api)
{
    const struct http_inbound *in = api->in;
    char address[INET6_ADDRSTRLEN];
    struct admit_authz_request request = {
        .head = &in->head, .address = admit_authz_address(api->worker, in, address), .cost = -1};
    struct admit_message message;
    struct refusal why;

    message.timeout_ms = 0;
    message.end_with_connection = false;
    if (!admit_authz_read(api->worker, &request, &message.ask, &why)) {
        api_fail(api, &why);
        return;
    }
    if (message.ask.tenant.n <= sizeof api->name) {
        memcpy(api->name, message.ask.tenant.at, message.ask.tenant.n);
        api->tenant = (struct slice){api->name, message.ask.tenant.n};
    }
    api_ask(api, &message);
}

/* ---- leases ---- */

static void api_release(struct api *api, const struct admit_message *message)
{
    struct admit_reply error;
    struct json_writer out;
    struct refusal why;
    bool found;

    if (admit_release(api->worker, &api->caller, message->lease, &message->release, &found,
                      &error)) {
        admit_refusal(&error, &why);
        api_fail(api, &why);
        return;
    }
    json_writer_init(&out);
    admit_write_release(&out, found);
    send_json(api, NULL, &out);
    json_writer_fini(&out);
}

static void api_heartbeat(struct api *api, const struct admit_message *message)
{
    bool live[ADMIT_HEARTBEAT_MAX];
    struct admit_reply error;
    struct json_writer out;
    struct refusal why;
    tg_ms next;

    if (admit_heartbeat(api->worker, &api->caller, message->leases, message->n_leases, live, &next,
                        &error)) {
        admit_refusal(&error, &why);
        api_fail(api, &why);
        return;
    }
    json_writer_init(&out);
    admit_write_heartbeat(&out, message->leases, live, message->n_leases, next);
    send_json(api, NULL, &out);
    json_writer_fini(&out);
}

/* The whole request has arrived. */
static void api_run(struct api *api)
{
    static const enum admit_kind kinds[] = {[METHOD_ADMIT] = ADMIT_ASK,
                                            [METHOD_RELEASE] = ADMIT_RELEASE,
                                            [METHOD_HEARTBEAT] = ADMIT_HEARTBEAT,
                                            [METHOD_PEEK] = ADMIT_ASK,
                                            [METHOD_QUERY] = ADMIT_ASK};
    struct slice body = {api->body.n > 0 ? api->body.bytes : "", api->body.n};
    struct admit_message message;
    struct refusal why;

    if (api->method == METHOD_AUTHZ) {
        api_authz(api);
        return;
    }
    bool fine = api->method == METHOD_QUERY ? admit_read_query(&api->in->head, &message, &why)
                                            : admit_read(api->worker->reader, body, api->body.room,
                                                         kinds[api->method], &message, &why);

    if (!fine)
        api_fail(api, &why);
    else if (api->method == METHOD_RELEASE)
        api_release(api, &message);
    else if (api->method == METHOD_HEARTBEAT)
        api_heartbeat(api, &message);
    else
        api_ask(api, &message);
}

/* ---- the exchange ---- */

static void api_data(struct http_inbound *in, struct slice bytes)
{
    struct api *api = in->owner;
    enum body_room room;
    struct refusal why;

    if (api->state != API_READING || is_head_alone(api->method))
        return;
    if (api->body.n + bytes.n > BODY_MAX) {
        refusal_init(&why, REPLY_PAYLOAD_TOO_LARGE, "the body has more than %d bytes", BODY_MAX);
        api_fail(api, &why);
        return;
    }
    room = body_buffer_add(&api->body, api->worker->gateway, api->worker->generation,
                           &api->worker->gateway->callers, in->head.length, bytes);
    if (room != BODY_FITS) {
        body_buffer_refusal(room, "callers", &why);
        api_fail(api, &why);
    }
}

static void api_end(struct http_inbound *in)
{
    struct api *api = in->owner;

    if (api->state == API_READING && !is_head_alone(api->method))
        api_run(api);
}

static void api_gone(struct http_inbound *in, enum http_why why)
{
    struct api *api = in->owner;
    struct gateway *gateway = api->worker->gateway;
    struct slice lease = {api->lease, api->lease_bytes};

    assert((api->pending != NULL) == (api->state == API_WAITING));
    if (api->pending != NULL)
        admit_cancel(api->pending);
    if (why != HTTP_DONE && api->state != API_ANSWERED)
        atomic_fetch_add_explicit(&gateway->counts.hangups, 1, memory_order_relaxed);
    if (why != HTTP_DONE)
        admit_take_back(api->worker, &api->caller, lease);
    atomic_fetch_sub_explicit(&gateway->counts.open, 1, memory_order_relaxed);
    in->owner = NULL;
    body_buffer_free(&api->body, gateway);
    free(api);
}

/* ---- the head ---- */

/* The path of `ext_authz`, or one below it: what comes behind is the client's own. */
static bool is_authz(struct slice path)
{
    const struct slice authz = SLICE("/tollgate/v1/authz");

    return slice_begins(path, authz) && (path.n == authz.n || path.at[authz.n] == '/');
}

/* False: the path is not one of the service's. */
static bool find_method(const struct config *config, const struct http_head *head,
                        enum method *method)
{
    static const struct {
        const char *path;
        enum method method;
    } paths[] = {{"/tollgate/v1/admit", METHOD_ADMIT},
                 {"/tollgate/v1/release", METHOD_RELEASE},
                 {"/tollgate/v1/heartbeat", METHOD_HEARTBEAT},
                 {"/tollgate/v1/peek", METHOD_PEEK}};
    struct slice path = head->target;
    const char *query = memchr(path.at, '?', path.n);

    if (query != NULL)
        path.n = (size_t)(query - path.at);
    if (is_authz(path)) {
        *method = METHOD_AUTHZ;
        return config->authz.present;
    }
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++)
        if (slice_equal(path, slice_of(paths[i].path))) {
            *method = paths[i].method;
            return config->n_callers > 0;
        }
    return false;
}

/* A query on POST would be ignored, and whoever wrote it would believe that it counts. */
static bool has_query(const struct http_head *head)
{
    const char *query = memchr(head->target.at, '?', head->target.n);

    return query != NULL && query + 1 < head->target.at + head->target.n;
}

static bool authenticate(struct api *api, struct refusal *why)
{
    if (!admit_authenticate(api->worker, &api->in->head, &api->caller, why))
        return false;
    api->in->client = http_client_id(slice_of(api->caller.entry->name));
    return true;
}

static bool check_head(struct api *api, struct refusal *why)
{
    const struct http_head *head = &api->in->head;
    struct slice coding = http_find(head, SLICE("content-encoding"));

    if (api->method == METHOD_AUTHZ) {
        if (admit_authz_may_ask(api->worker, http_find(head, SLICE(ADMIT_AUTHZ_TOKEN)))) {
            /* A proxy's connection, whoever its clients are. */
            api->in->client = http_client_id(SLICE("ext_authz"));
            return true;
        }
        refusal_init(why, REPLY_INVALID_API_KEY,
                     "ext_authz.auth is callers: send the token of one in " ADMIT_AUTHZ_TOKEN);
        return false;
    }
    if (!slice_equal(head->method, SLICE("POST")) && api->method != METHOD_QUERY) {
        refusal_init(why, REPLY_METHOD_NOT_ALLOWED, NULL);
        why->allow = api->method == METHOD_ADMIT ? "GET, POST" : "POST";
    } else if (!authenticate(api, why)) {
        return false;
    } else if (api->method != METHOD_QUERY && has_query(head)) {
        refusal_init(why, REPLY_INVALID_REQUEST,
                     "a query string is for GET alone; the fields of a POST belong in the body");
    } else if (coding.n > 0 && !slice_equal_nocase(coding, SLICE("identity"))) {
        refusal_init(why, REPLY_UNSUPPORTED_MEDIA_TYPE, NULL);
    } else if (head->length > BODY_MAX) {
        refusal_init(why, REPLY_PAYLOAD_TOO_LARGE,
                     "the body has %" PRId64 " bytes; at most %d are taken", head->length,
                     BODY_MAX);
    } else {
        return true;
    }
    return false;
}

static struct api *api_new(struct worker *worker, struct http_inbound *in, enum method method)
{
    struct api *api = calloc(1, sizeof *api);
    const struct http_head *head = &in->head;

    if (api == NULL)
        return NULL;
    api->service = &admit_service;
    api->worker = worker;
    api->in = in;
    api->method = method;
    if (method == METHOD_ADMIT && slice_equal(head->method, SLICE("GET")))
        api->method = METHOD_QUERY;
    if (method == METHOD_AUTHZ)
        admit_authz_caller(worker, &api->caller);
    api->enforce = slice_equal(http_find(head, SLICE("x-tollgate-enforce")), SLICE("1"));
    in->owner = api;
    atomic_fetch_add_explicit(&worker->gateway->counts.open, 1, memory_order_relaxed);
    return api;
}

static bool api_begin(struct worker *worker, struct http_inbound *in)
{
    enum method method;
    struct refusal why;

    if (!find_method(&worker->generation->config, &in->head, &method))
        return false;
    struct api *api = api_new(worker, in, method);
    if (api == NULL)
        http_inbound_abort(in);
    else if (!check_head(api, &why))
        api_fail(api, &why);
    else if (is_head_alone(api->method))
        api_run(api);
    return true;
}

/* ---- the service ---- */

static bool admit_service_open(struct gateway *gateway, struct tg_problem *problem)
{
    return admit_new(&gateway->admit) ||
           problem_fail(problem, "gateway: no memory, or the system provides no random numbers");
}

static void admit_service_close(struct gateway *gateway)
{
    admit_free(gateway->admit);
    gateway->admit = NULL;
}

static bool admit_service_start(struct worker *worker, struct tg_problem *problem)
{
    if (!admit_worker_start(worker, problem))
        return false;
    if (rpc_admission_start(worker, problem))
        return true;
    admit_worker_stop(worker);
    return false;
}

static void admit_service_stop(struct worker *worker)
{
    rpc_admission_stop(worker);
    admit_worker_stop(worker);
}

static void admit_service_tick(struct control *control, tg_ms now)
{
    admit_tick(control->gateway, now);
}

static const struct grpc_service *const RPCS[] = {&rpc_admission, &rpc_authz};

const struct service admit_service = {.name = "admit",
                                      .listeners = SERVICE_ON_GATEWAY,
                                      .begin = api_begin,
                                      .data = api_data,
                                      .end = api_end,
                                      .gone = api_gone,
                                      .rpcs = RPCS,
                                      .n_rpcs = sizeof RPCS / sizeof RPCS[0],
                                      .connection_closed = admit_connection_closed,
                                      .connection_is_kept = admit_connection_is_held,
                                      .start = admit_service_start,
                                      .stop = admit_service_stop,
                                      .tick = admit_service_tick,
                                      .open = admit_service_open,
                                      .close = admit_service_close};
