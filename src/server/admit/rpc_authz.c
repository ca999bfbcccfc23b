/* rpc_authz.c - envoy.service.auth.v3.Authorization: messages of external_auth.proto to
 * questions of admit_authz.h, and back.
 *
 * A refusal is an answer, with the status, the fields and the body that Envoy's client gets. An RPC
 * fails only where no decision could be made: then Envoy's failure mode decides.
 *
 * The extensions of a route's context are the operator's own words: `tollgate.tenant`,
 * `tollgate.user`, `tollgate.model` and `tollgate.cost` go before what the request says. Others
 * that begin with `tollgate.` are misspelt, and an error.
 */
#include <envoy/service/auth/v3/external_auth.pb-c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/admit/admit_authz.h"
#include "server/admit/admit_internal.h"
#include "server/admit/rpc_admission_internal.h"
#include "server/tenancy/virtual_key.h"

typedef Envoy__Service__Auth__V3__CheckRequest check_request;
typedef Envoy__Service__Auth__V3__CheckResponse check_response;
typedef Envoy__Service__Auth__V3__AttributeContext attributes;
typedef Envoy__Service__Auth__V3__AttributeContext__HttpRequest http_request;
typedef Envoy__Service__Auth__V3__HeaderValue header_value;
typedef Envoy__Service__Auth__V3__HeaderValueOption header_option;
#define AUTHZ(name) envoy__service__auth__v3__##name
#define APPEND(word) ENVOY__SERVICE__AUTH__V3__HEADER_VALUE_OPTION__HEADER_APPEND_ACTION__##word

struct authz {
    struct admit_caller caller;
    struct admit_pending *pending; /* null: it does not wait */
    char *tenant;                  /* whose limits were asked; ours */
};

_Static_assert(sizeof(struct authz) <= GRPC_STATE_BYTES, "it is the state of a call");

static struct authz *authz_of(struct grpc_call *call)
{
    return (struct authz *)(void *)call->state;
}

/* ---- the answer ---- */

enum { FIELDS_MAX = REPLY_FIELDS_MAX + REPLY_LIMITS_MAX + 1 };

/* A response and what it points to. Names and values are slices, and a message needs them with a
 * zero at their end. */
struct answer {
    check_response message;
    Envoy__Service__Auth__V3__Status status;
    Envoy__Service__Auth__V3__HttpStatus http_status;
    Envoy__Service__Auth__V3__DeniedHttpResponse denied;
    Envoy__Service__Auth__V3__OkHttpResponse ok;
    header_value values[FIELDS_MAX];
    header_option options[FIELDS_MAX], *list[FIELDS_MAX];
    size_t n;
    size_t used;
    char text[6 * (REPLY_TEXT_MAX + 64) + 4096];
};

static char *end_with_zero(struct answer *answer, struct slice text)
{
    char *at = answer->text + answer->used;

    assert(text.n < sizeof answer->text - answer->used);
    memcpy(at, text.at != NULL ? text.at : "", text.n);
    at[text.n] = '\0';
    answer->used += text.n + 1;
    return at;
}

static void add_field(struct answer *answer, struct slice name, struct slice value)
{
    assert(answer->n < FIELDS_MAX);
    header_value *field = &answer->values[answer->n];
    header_option *option = &answer->options[answer->n];

    AUTHZ(header_value__init)(field);
    field->key = end_with_zero(answer, name);
    field->value = end_with_zero(answer, value);
    AUTHZ(header_value_option__init)(option);
    option->header = field;
    option->append_action = APPEND(OVERWRITE_IF_EXISTS_OR_ADD);
    answer->list[answer->n++] = option;
}

static void authz_add_limits(struct worker *worker, const struct tg_axes *axes,
                             struct answer *answer)
{
    struct reply_limits limits;

    reply_limits_write(axes, WIRE_OPENAI, worker_now(worker), worker_wall(worker), &limits);
    for (size_t i = 0; i < limits.n_fields; i++)
        add_field(answer, limits.fields[i].name, limits.fields[i].value);
}

static void answer_init(struct answer *answer, enum grpc_code code)
{
    AUTHZ(check_response__init)(&answer->message);
    AUTHZ(status__init)(&answer->status);
    answer->status.code = (int32_t)code;
    answer->message.status = &answer->status;
    answer->n = answer->used = 0;
}

static enum grpc_code code_of_status(int status)
{
    return status == 401   ? GRPC_UNAUTHENTICATED
           : status == 400 ? GRPC_INVALID_ARGUMENT
           : status == 403 ? GRPC_PERMISSION_DENIED
                           : GRPC_RESOURCE_EXHAUSTED;
}

/* `axes` null: no limit was asked. */
static void send_denied(struct grpc_call *call, const struct refusal *why,
                        const struct tg_axes *axes)
{
    struct worker *worker = rpc_worker(call);
    struct answer answer;
    struct reply reply;

    reply_write(why, WIRE_OPENAI, worker_wall(worker), random_bits(&worker->random), &reply);
    answer_init(&answer, code_of_status(reply.status));
    for (size_t i = 0; i < reply.n_fields; i++)
        add_field(&answer, reply.fields[i].name, reply.fields[i].value);
    if (axes != NULL)
        authz_add_limits(worker, axes, &answer);
    AUTHZ(http_status__init)(&answer.http_status);
    answer.http_status.code = reply.status;
    AUTHZ(denied_http_response__init)(&answer.denied);
    answer.denied.status = &answer.http_status;
    answer.denied.headers = answer.list;
    answer.denied.n_headers = answer.n;
    answer.denied.body = end_with_zero(&answer, reply.body);
    answer.message.http_response_case =
        ENVOY__SERVICE__AUTH__V3__CHECK_RESPONSE__HTTP_RESPONSE_DENIED_RESPONSE;
    answer.message.denied_response = &answer.denied;
    grpc_reply(call, &answer.message.base);
}

/* The upstream is told the tenant, the client its limits. */
static void send_ok(struct grpc_call *call, const char *tenant, const struct tg_axes *axes)
{
    struct answer answer;

    answer_init(&answer, GRPC_OK);
    add_field(&answer, SLICE("x-tollgate-tenant"), slice_of(tenant));
    authz_add_limits(rpc_worker(call), axes, &answer);
    AUTHZ(ok_http_response__init)(&answer.ok);
    answer.ok.headers = answer.list;
    answer.ok.n_headers = 1;
    answer.ok.response_headers_to_add = answer.list + 1;
    answer.ok.n_response_headers_to_add = answer.n - 1;
    answer.message.http_response_case =
        ENVOY__SERVICE__AUTH__V3__CHECK_RESPONSE__HTTP_RESPONSE_OK_RESPONSE;
    answer.message.ok_response = &answer.ok;
    grpc_reply(call, &answer.message.base);
}

static void authz_decided(void *context, const struct admit_reply *reply)
{
    struct grpc_call *call = context;
    char *tenant = authz_of(call)->tenant;
    struct refusal why;

    assert(tenant != NULL);
    *authz_of(call) = (struct authz){.pending = NULL};
    if (reply->status == ADMIT_DECIDED && reply->allowed) {
        send_ok(call, tenant, &reply->axes);
    } else if (reply->status == ADMIT_DECIDED || reply->status == ADMIT_INVALID) {
        admit_refusal(reply, &why);
        send_denied(call, &why, reply->status == ADMIT_DECIDED ? &reply->axes : NULL);
    } else {
        grpc_finish(call, rpc_code(reply->status), reply->message);
    }
    free(tenant);
}

/* ---- the question ---- */

static struct slice value_of(const header_value *field)
{
    return field->raw_value.len > 0
               ? (struct slice){(const char *)field->raw_value.data, field->raw_value.len}
               : slice_of(field->value);
}

/* The client's fields. False: they are too many, and one that does not fit might be the one that
 * says who it is. */
static bool read_fields(const http_request *request, struct http_field fields[HTTP_FIELDS_MAX],
                        size_t *n, struct refusal *why)
{
    size_t n_map = request->header_map != NULL ? request->header_map->n_headers : 0;

    *n = 0;
    if (request->n_headers + n_map > HTTP_FIELDS_MAX) {
        refusal_init(why, REPLY_INVALID_REQUEST, "the request has more than %d fields",
                     HTTP_FIELDS_MAX);
        return false;
    }
    for (size_t i = 0; i < request->n_headers; i++)
        fields[(*n)++] = (struct http_field){slice_of(request->headers[i]->key),
                                             slice_of(request->headers[i]->value)};
    for (size_t i = 0; i < n_map; i++)
        fields[(*n)++] = (struct http_field){slice_of(request->header_map->headers[i]->key),
                                             value_of(request->header_map->headers[i])};
    return true;
}

static bool read_cost(const char *text, int64_t *cost)
{
    int64_t number = 0;

    for (const char *at = text; *at != '\0'; at++) {
        if (*at < '0' || *at > '9' || number > (TG_NUMBER_MAX - 9) / 10)
            return false;
        number = 10 * number + *at - '0';
    }
    *cost = number;
    return *text != '\0';
}

/* False: `why` names the extension that is wrong. */
static bool read_extensions(const attributes *from, struct admit_authz_request *to,
                            struct refusal *why)
{
    static const char PREFIX[] = "tollgate.";

    for (size_t i = 0; i < from->n_context_extensions; i++) {
        const char *name = from->context_extensions[i]->key;
        const char *value = from->context_extensions[i]->value;
        if (strncmp(name, PREFIX, strlen(PREFIX)) != 0)
            continue;
        if (strcmp(name, "tollgate.tenant") == 0)
            to->tenant = slice_of(value);
        else if (strcmp(name, "tollgate.user") == 0)
            to->user = slice_of(value);
        else if (strcmp(name, "tollgate.model") == 0)
            to->model = slice_of(value);
        else if (strcmp(name, "tollgate.cost") != 0 || !read_cost(value, &to->cost)) {
            refusal_init(why, REPLY_INVALID_REQUEST,
                         strcmp(name, "tollgate.cost") == 0
                             ? "the context extension `%.60s` must be an integer from 0 to "
                               "9007199254740991"
                             : "the context extension `%.60s` is unknown; there are "
                               "tollgate.tenant, .user, .model and .cost",
                         name);
            snprintf(why->param, sizeof why->param, "%.60s", name);
            return false;
        }
    }
    return true;
}

static struct slice address_of(const attributes *from)
{
    const Envoy__Service__Auth__V3__AttributeContext__Peer *source = from->source;

    return source != NULL && source->address != NULL && source->address->socket_address != NULL
               ? slice_of(source->address->socket_address->address)
               : (struct slice){NULL, 0};
}

static void rpc_authz_check(struct grpc_call *call, const ProtobufCMessage *message)
{
    const attributes *from = ((const check_request *)(const void *)message)->attributes;
    struct worker *worker = rpc_worker(call);
    struct http_field fields[HTTP_FIELDS_MAX];
    struct authz *authz = authz_of(call);
    struct admit_ask ask;
    struct refusal why;

    assert(authz->pending == NULL && authz->tenant == NULL);
    if (call->cut != NULL || from == NULL || from->request == NULL || from->request->http == NULL) {
        grpc_finish(call, GRPC_INVALID_ARGUMENT,
                    call->cut != NULL ? "a text has a zero byte in it"
                                      : "`attributes.request.http` is missing");
        return;
    }
    struct http_head head = {.fields = fields};
    struct admit_authz_request request = {.head = &head, .address = address_of(from), .cost = -1};
    if (!read_fields(from->request->http, fields, &head.n_fields, &why) ||
        !read_extensions(from, &request, &why) || !admit_authz_read(worker, &request, &ask, &why)) {
        admit_report_refusal(worker, authz->caller.entry, &why);
        send_denied(call, &why, NULL);
        return;
    }
    authz->tenant = malloc(ask.tenant.n + 1);
    if (authz->tenant == NULL) {
        grpc_finish(call, GRPC_UNAVAILABLE, "there is no memory for a question");
        return;
    }
    memcpy(authz->tenant, ask.tenant.at, ask.tenant.n);
    authz->tenant[ask.tenant.n] = '\0';
    ask.deadline = call->deadline;
    struct admit_pending *pending = admit_start(worker, &authz->caller, &ask, authz_decided, call);
    if (pending != NULL) /* else it is over, and the state with it */
        authz->pending = pending;
}

/* ---- the method ---- */

static void rpc_authz_begin(struct grpc_call *call)
{
    struct worker *worker = rpc_worker(call);
    const struct http_head *head = &call->in->head;
    struct slice token = {NULL, 0};

    if (admit_authz_entry(&worker->generation->config) == NULL) {
        grpc_finish(call, GRPC_UNIMPLEMENTED, "`ext_authz` is not configured");
        return;
    }
    admit_authz_caller(worker, &authz_of(call)->caller);
    if (virtual_key_find(head->fields, head->n_fields, &token) != VIRTUAL_KEY_FOUND)
        token.n = 0;
    if (!admit_authz_may_ask(worker, token))
        grpc_finish(call, GRPC_UNAUTHENTICATED,
                    "ext_authz.auth is callers: send authorization: Bearer TOKEN of one");
}

static void rpc_authz_cancel(struct grpc_call *call)
{
    struct authz *authz = authz_of(call);

    if (authz->pending != NULL)
        admit_cancel(authz->pending);
    free(authz->tenant);
    *authz = (struct authz){.pending = NULL};
}

static const struct grpc_method METHODS[] = {
    {.name = "Check",
     .request = &envoy__service__auth__v3__check_request__descriptor,
     .begin = rpc_authz_begin,
     .message = rpc_authz_check,
     .cancel = rpc_authz_cancel},
};

const struct grpc_service rpc_authz = {"envoy.service.auth.v3.Authorization", METHODS,
                                       sizeof METHODS / sizeof METHODS[0]};
