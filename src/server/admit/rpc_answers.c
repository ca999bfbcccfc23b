/* rpc_answers.c - messages of admission.proto to structs of admit.h, and back.
 *
 * Nothing is allocated: what a message points to stands in the struct beside it, in the request it
 * answers, or in tables.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "server/admit/admit_internal.h"
#include "server/admit/rpc_admission_internal.h"

/* ---- errors ---- */

enum grpc_code rpc_code(enum admit_status status)
{
    static const enum grpc_code CODES[] = {[ADMIT_DECIDED] = GRPC_OK,
                                           [ADMIT_UNAUTHENTICATED] = GRPC_UNAUTHENTICATED,
                                           [ADMIT_FORBIDDEN] = GRPC_PERMISSION_DENIED,
                                           [ADMIT_INVALID] = GRPC_INVALID_ARGUMENT,
                                           [ADMIT_UNAVAILABLE] = GRPC_UNAVAILABLE,
                                           [ADMIT_DRAINING] = GRPC_UNAVAILABLE,
                                           [ADMIT_INTERNAL] = GRPC_INTERNAL};

    assert((size_t)status < sizeof CODES / sizeof CODES[0]);
    return CODES[status];
}

static const struct config_caller *entry_of(struct worker *worker, struct admit_caller *caller)
{
    struct admit_reply unwanted;

    return admit_entry(worker, caller, &unwanted);
}

/* The service has refused to release or to renew. */
static bool fail(struct worker *worker, struct admit_caller *caller,
                 const struct admit_reply *reply, struct rpc_error *error)
{
    assert(reply->status != ADMIT_DECIDED);
    admit_report_error(worker, entry_of(worker, caller), reply);
    error->code = rpc_code(reply->status);
    snprintf(error->text, sizeof error->text, "%s", reply->message);
    return false;
}

/* "`actual` must be an integer from 0 to ...". */
static bool fail_field(struct worker *worker, struct admit_caller *caller, const char *field,
                       struct rpc_error *error)
{
    static const struct {
        const char *field, *must;
    } known[] = {{"priority", "be PRIORITY_HIGH, PRIORITY_NORMAL or PRIORITY_LOW, or left out"},
                 {"timeout_ms", "be an integer from 0 on"},
                 {"outcome", "be OUTCOME_OK, OUTCOME_DROPPED or OUTCOME_CANCELLED"},
                 {"actual", "be an integer from 0 to 9007199254740991"},
                 {"sample_ms", "be a number from 0 on"}};
    const char *must = "have no zero byte in it"; /* every other field is a text */
    struct refusal why;

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(known[i].field, field) == 0)
            must = known[i].must;
    error->code = GRPC_INVALID_ARGUMENT;
    snprintf(error->text, sizeof error->text, "`%s` must %s", field, must);
    refusal_init(&why, REPLY_INVALID_REQUEST, "%s", error->text);
    admit_report_refusal(worker, entry_of(worker, caller), &why);
    return false;
}

/* ---- asks ---- */

static bool read_priority(Tollgate__V1__Priority from, enum tg_priority *to)
{
    switch (from) {
    case TOLLGATE__V1__PRIORITY__PRIORITY_UNSPECIFIED:
        *to = TG_PRIORITY_COUNT;
        return true;
    case TOLLGATE__V1__PRIORITY__PRIORITY_HIGH:
        *to = TG_PRIORITY_HIGH;
        return true;
    case TOLLGATE__V1__PRIORITY__PRIORITY_NORMAL:
        *to = TG_PRIORITY_NORMAL;
        return true;
    case TOLLGATE__V1__PRIORITY__PRIORITY_LOW:
        *to = TG_PRIORITY_LOW;
        return true;
    default: /* a newer client may know more than we do */
        return false;
    }
}

/* The earlier one of the RPC's deadline and the message's. */
static void read_deadline(const struct grpc_call *call, int64_t timeout_ms, struct admit_ask *ask)
{
    tg_ms now = grpc_now(call);

    ask->deadline = call->deadline;
    if (timeout_ms > 0 && timeout_ms < TG_NUMBER_MAX - now &&
        (ask->deadline == 0 || now + timeout_ms < ask->deadline))
        ask->deadline = now + timeout_ms;
}

bool rpc_read_ask(struct grpc_call *call, struct admit_caller *caller,
                  const Tollgate__V1__AdmitRequest *message, struct admit_ask *ask,
                  struct rpc_error *error)
{
    struct worker *worker = rpc_worker(call);

    if (call->cut != NULL)
        return fail_field(worker, caller, call->cut, error);
    admit_ask_init(ask);
    ask->tenant = slice_of(message->tenant);
    ask->model = slice_of(message->model);
    ask->user = slice_of(message->user);
    ask->peer = slice_of(message->peer);
    ask->hold_s = message->hold_s;
    ask->ttl_ms = message->ttl_ms;
    ask->limits_only = message->limits_only;
    if (message->cost_given_case == TOLLGATE__V1__ADMIT_REQUEST__COST_GIVEN_COST)
        ask->cost = message->cost;
    if (message->value_given_case == TOLLGATE__V1__ADMIT_REQUEST__VALUE_GIVEN_VALUE) {
        ask->has_value = true;
        ask->value = message->value;
    }
    if (!read_priority(message->priority, &ask->priority))
        return fail_field(worker, caller, "priority", error);
    if (message->timeout_ms < 0)
        return fail_field(worker, caller, "timeout_ms", error);
    if (message->end_with_connection)
        ask->connection = http_inbound_connection(call->in);
    read_deadline(call, message->timeout_ms, ask);
    admit_ask_head(worker, caller, &call->in->head, ask);
    return true;
}

/* ---- replies ---- */

/* Messages have no const; what is sent is only read. */
static char *text(const char *of)
{
    return (char *)(uintptr_t)of;
}

static Tollgate__V1__Decision *write_axis(const struct tg_axes *axes, enum tg_axis axis,
                                          Tollgate__V1__Decision *out)
{
    const struct tg_decision *from = &axes->decision[axis];

    if ((axes->present & 1U << axis) == 0)
        return NULL;
    tollgate__v1__decision__init(out);
    out->allowed = from->allowed;
    out->limit = from->limit;
    out->remaining = from->remaining;
    out->reset_at_ms = from->reset_at;
    out->retry_after_ms = from->retry_after_ms;
    return out;
}

static void write_axes(const struct tg_axes *axes, struct rpc_admit_reply *out)
{
    tollgate__v1__axes__init(&out->axes);
    out->axes.concurrency =
        write_axis(axes, TG_AXIS_CONCURRENCY, &out->decisions[TG_AXIS_CONCURRENCY]);
    out->axes.rate = write_axis(axes, TG_AXIS_RATE, &out->decisions[TG_AXIS_RATE]);
    out->axes.cost = write_axis(axes, TG_AXIS_COST, &out->decisions[TG_AXIS_COST]);
    out->message.axes = &out->axes;
}

static void write_limit(const struct report_limit *limit, struct rpc_admit_reply *out)
{
    Tollgate__V1__BindingLimit *to = &out->limit;

    tollgate__v1__binding_limit__init(to);
    to->of = text(limit->of);
    to->rule = text(limit->rule);
    to->limit = limit->size;
    to->remaining = limit->left;
    to->reset_at_ms = limit->reset_at;
    to->retry_after_ms = limit->retry_after_ms;
    out->message.binding_limit = to;
}

void rpc_write_reply(const struct admit_reply *reply, struct rpc_admit_reply *out)
{
    Tollgate__V1__AdmitReply *message = &out->message;

    tollgate__v1__admit_reply__init(message);
    message->allowed = reply->allowed;
    message->limit = reply->decision.limit;
    message->remaining = reply->decision.remaining;
    message->reset_at_ms = reply->decision.reset_at;
    message->retry_after_ms = reply->decision.retry_after_ms;
    message->policy_denied = reply->policy_denied;
    message->reason = text(admit_reason(reply));
    if (reply->binding_axis != TG_AXIS_NONE)
        message->binding_axis = text(tg_axis_name(reply->binding_axis));
    message->message = text(reply->message);
    write_axes(&reply->axes, out);
    if (reply->limit.of[0] != 0)
        write_limit(&reply->limit, out);
    message->would_deny = out->would_deny;
    for (int r = TG_REASON_NONE + 1; r < TG_REASON_COUNT; r++)
        if (reply->would_deny & 1U << r)
            out->would_deny[message->n_would_deny++] = text(tg_reason_name((enum tg_reason)r));
    if (reply->lease_bytes > 0) {
        memcpy(out->lease, reply->lease, reply->lease_bytes);
        out->lease[reply->lease_bytes] = '\0';
        message->lease_id = out->lease;
        message->lease_expires_at_ms = reply->lease_expires_at;
    }
}

/* ---- releases and heartbeats ---- */

/* The name of the field that is wrong; null: none is. */
static const char *read_release(const Tollgate__V1__ReleaseRequest *message,
                                struct tg_release *release)
{
    tg_release_init(release);
    switch (message->outcome) {
    case TOLLGATE__V1__OUTCOME__OUTCOME_OK:
        release->outcome = TG_OUTCOME_OK;
        break;
    case TOLLGATE__V1__OUTCOME__OUTCOME_DROPPED:
        release->outcome = TG_OUTCOME_DROPPED;
        break;
    case TOLLGATE__V1__OUTCOME__OUTCOME_CANCELLED:
        release->outcome = TG_OUTCOME_CANCELLED;
        break;
    default:
        return "outcome";
    }
    if (message->actual_given_case == TOLLGATE__V1__RELEASE_REQUEST__ACTUAL_GIVEN_ACTUAL) {
        if (message->actual < 0 || message->actual > TG_NUMBER_MAX)
            return "actual";
        release->actual = message->actual;
    }
    if (message->sample_given_case == TOLLGATE__V1__RELEASE_REQUEST__SAMPLE_GIVEN_SAMPLE_MS) {
        if (!isfinite(message->sample_ms) || message->sample_ms < 0)
            return "sample_ms";
        release->sample_ms = message->sample_ms;
    }
    return NULL;
}

bool rpc_release(struct worker *worker, struct admit_caller *caller,
                 const Tollgate__V1__ReleaseRequest *message, Tollgate__V1__ReleaseReply *reply,
                 struct rpc_error *error)
{
    struct admit_reply failure;
    struct tg_release release;
    const char *wrong = read_release(message, &release);
    bool found = false;

    if (wrong != NULL)
        return fail_field(worker, caller, wrong, error);
    if (admit_release(worker, caller, slice_of(message->lease_id), &release, &found, &failure) !=
        ADMIT_DECIDED)
        return fail(worker, caller, &failure, error);
    tollgate__v1__release_reply__init(reply);
    reply->found = found;
    return true;
}

bool rpc_heartbeat(struct worker *worker, struct admit_caller *caller,
                   const Tollgate__V1__HeartbeatRequest *message,
                   Tollgate__V1__HeartbeatReply *reply, struct rpc_error *error)
{
    struct rpc_admission_worker *rpc = worker->admit->rpc;
    size_t n = message->n_lease_ids;
    struct admit_reply failure;
    tg_ms next = 0;

    for (size_t i = 0; i < n && i < ADMIT_HEARTBEAT_MAX; i++)
        rpc->ids[i] = slice_of(message->lease_ids[i]);
    if (admit_heartbeat(worker, caller, rpc->ids, n, rpc->live, &next, &failure) != ADMIT_DECIDED)
        return fail(worker, caller, &failure, error);
    assert(n <= ADMIT_HEARTBEAT_MAX);
    tollgate__v1__heartbeat_reply__init(reply);
    reply->live_ids = rpc->live_ids;
    reply->reclaimed_ids = rpc->reclaimed_ids;
    reply->next_deadline_ms = next;
    for (size_t i = 0; i < n; i++)
        if (rpc->live[i])
            reply->live_ids[reply->n_live_ids++] = message->lease_ids[i];
        else
            reply->reclaimed_ids[reply->n_reclaimed_ids++] = message->lease_ids[i];
    return true;
}
