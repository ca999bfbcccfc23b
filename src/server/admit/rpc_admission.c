/* rpc_admission.c - tollgate.v1.Admission: decisions, one RPC each. AdmitStream is in rpc_stream.c.
 *
 * The answer of Admit or Peek may come from inside admit_start() or admit_peek(), the common case,
 * or later from the loop. What waits is in the call's state and is cancelled when the client
 * leaves. The lease of an answer that the client did not stay for is released.
 */
#include <stdlib.h>
#include <string.h>

#include "io/grpc/grpc_retry.h"
#include "lib/core/problem.h"
#include "server/admit/admit_internal.h"
#include "server/admit/rpc_admission_internal.h"

struct admission {
    struct admit_caller caller;
    struct admit_pending *pending; /* null: it does not wait */
    char lease[ADMIT_LEASE_BYTES]; /* the lease in the answer */
    size_t lease_bytes;
};

_Static_assert(sizeof(struct admission) <= GRPC_STATE_BYTES, "it is the state of a call");

static struct admission *admission_of(struct grpc_call *call)
{
    return (struct admission *)(void *)call->state;
}

bool rpc_authenticate(struct grpc_call *call, struct admit_caller *caller)
{
    struct refusal why;

    if (admit_authenticate(rpc_worker(call), &call->in->head, caller, &why)) {
        call->in->client = http_client_id(slice_of(caller->entry->name));
        return true;
    }
    admit_report_refusal(rpc_worker(call), NULL, &why);
    grpc_finish(call, GRPC_UNAUTHENTICATED, why.text);
    return false;
}

static void rpc_admission_begin(struct grpc_call *call)
{
    rpc_authenticate(call, &admission_of(call)->caller);
}

/* ---- Admit and Peek ---- */

static bool is_enforced(const struct grpc_call *call)
{
    return slice_equal(grpc_metadata(call, SLICE("x-tollgate-enforce")), SLICE("1"));
}

/* The retry hint, up to a tenth longer than it need be, so that clients that were refused together
 * do not come back together. 0: there is none. */
static tg_ms hinted_wait(struct grpc_call *call, const struct refusal *why)
{
    tg_ms ms = why->retry_after_ms;

    if (ms <= 0 || ms > REPLY_WAIT_MAX)
        return 0;
    return ms + (tg_ms)(random_bits(&rpc_worker(call)->random) % (uint64_t)(ms / 10 + 1));
}

/* Answers a refusal with a status, for a client that asked for that. */
static void rpc_admission_refuse(struct grpc_call *call, const struct admit_reply *reply)
{
    struct http_field trailers[2 + GRPC_RETRY_TRAILERS + REPLY_LIMITS_MAX];
    struct worker *worker = rpc_worker(call);
    struct reply_limits limits;
    struct grpc_retry retry;
    struct refusal why;
    size_t n = 0;

    _Static_assert(sizeof trailers / sizeof trailers[0] <= GRPC_TRAILERS_MAX, "all of them go out");
    admit_refusal(reply, &why);
    enum grpc_code code =
        why.reason == REPLY_REQUEST_EXCEEDS_LIMIT ? GRPC_INVALID_ARGUMENT : GRPC_RESOURCE_EXHAUSTED;
    trailers[n++] =
        (struct http_field){SLICE("x-tollgate-reason"), slice_of(reply_reason_name(why.reason))};
    if (reply->binding_axis != TG_AXIS_NONE)
        trailers[n++] = (struct http_field){SLICE("x-tollgate-binding-axis"),
                                            slice_of(tg_axis_name(reply->binding_axis))};
    grpc_retry_write(code, why.text, hinted_wait(call, &why), &retry);
    for (size_t i = 0; i < retry.n; i++)
        trailers[n++] = retry.fields[i];
    reply_limits_write(&reply->axes, WIRE_OPENAI, worker_now(worker), worker_wall(worker), &limits);
    for (size_t i = 0; i < limits.n_fields; i++)
        trailers[n++] = limits.fields[i];
    grpc_finish_with(call, code, why.text, trailers, n);
}

static void rpc_admission_answer(struct grpc_call *call, const struct admit_reply *reply)
{
    struct rpc_admit_reply out;

    if (reply->status != ADMIT_DECIDED) {
        grpc_finish(call, rpc_code(reply->status), reply->message);
        return;
    }
    if (!reply->allowed && is_enforced(call)) {
        rpc_admission_refuse(call, reply);
        return;
    }
    rpc_write_reply(reply, &out);
    if (grpc_send_within(call, &out.message.base, RPC_ADMIT_REPLY_MOST))
        grpc_finish(call, GRPC_OK, NULL);
}

static void admission_decided(void *context, const struct admit_reply *reply)
{
    struct grpc_call *call = context;
    struct admission *admission = admission_of(call);

    admission->pending = NULL;
    admission->lease_bytes = reply->status == ADMIT_DECIDED ? reply->lease_bytes : 0;
    memcpy(admission->lease, reply->lease, admission->lease_bytes);
    rpc_admission_answer(call, reply);
}

static void rpc_admission_admit(struct grpc_call *call, const ProtobufCMessage *message)
{
    struct admission *admission = admission_of(call);
    struct rpc_error error;
    struct admit_ask ask;

    assert(admission->pending == NULL);
    if (!rpc_read_ask(call, &admission->caller, (const void *)message, &ask, &error)) {
        grpc_finish(call, error.code, error.text);
        return;
    }
    ask.enforce = is_enforced(call);
    admission->pending =
        admit_start(rpc_worker(call), &admission->caller, &ask, admission_decided, call);
}

/* The same way as Admit; a peek has no lease. */
static void rpc_admission_peek(struct grpc_call *call, const ProtobufCMessage *message)
{
    struct admission *admission = admission_of(call);
    struct rpc_error error;
    struct admit_ask ask;

    if (rpc_read_ask(call, &admission->caller, (const void *)message, &ask, &error))
        admission->pending =
            admit_peek(rpc_worker(call), &admission->caller, &ask, admission_decided, call);
    else
        grpc_finish(call, error.code, error.text);
}

static void rpc_admission_cancel(struct grpc_call *call)
{
    struct admission *admission = admission_of(call);

    if (admission->pending != NULL)
        admit_cancel(admission->pending);
    admission->pending = NULL;
}

/* The client has gone without its answer, and so does not know its lease. */
static void rpc_admission_lost(struct grpc_call *call)
{
    struct admission *admission = admission_of(call);

    admit_take_back(rpc_worker(call), &admission->caller,
                    (struct slice){admission->lease, admission->lease_bytes});
}

/* ---- Release and Heartbeat ---- */

static void rpc_admission_release(struct grpc_call *call, const ProtobufCMessage *message)
{
    Tollgate__V1__ReleaseReply reply;
    struct rpc_error error;

    if (rpc_release(rpc_worker(call), &admission_of(call)->caller, (const void *)message, &reply,
                    &error))
        grpc_reply(call, &reply.base);
    else
        grpc_finish(call, error.code, error.text);
}

static void rpc_admission_heartbeat(struct grpc_call *call, const ProtobufCMessage *message)
{
    Tollgate__V1__HeartbeatReply reply;
    struct rpc_error error;

    if (rpc_heartbeat(rpc_worker(call), &admission_of(call)->caller, (const void *)message, &reply,
                      &error))
        grpc_reply(call, &reply.base);
    else
        grpc_finish(call, error.code, error.text);
}

static const struct grpc_method METHODS[] = {
    {.name = "Admit",
     .request = &tollgate__v1__admit_request__descriptor,
     .begin = rpc_admission_begin,
     .message = rpc_admission_admit,
     .cancel = rpc_admission_cancel,
     .lost = rpc_admission_lost},
    {.name = "AdmitStream",
     .request = &tollgate__v1__admit_stream_request__descriptor,
     .many = true,
     .begin = rpc_stream_begin,
     .message = rpc_stream_message,
     .end = rpc_stream_end,
     .cancel = rpc_stream_cancel,
     .drain = rpc_stream_drain},
    {.name = "Release",
     .request = &tollgate__v1__release_request__descriptor,
     .begin = rpc_admission_begin,
     .message = rpc_admission_release},
    {.name = "Heartbeat",
     .request = &tollgate__v1__heartbeat_request__descriptor,
     .begin = rpc_admission_begin,
     .message = rpc_admission_heartbeat},
    {.name = "Peek",
     .request = &tollgate__v1__admit_request__descriptor,
     .begin = rpc_admission_begin,
     .message = rpc_admission_peek,
     .cancel = rpc_admission_cancel},
};

const struct grpc_service rpc_admission = {"tollgate.v1.Admission", METHODS,
                                           sizeof METHODS / sizeof METHODS[0]};

/* ---- a worker ---- */

bool rpc_admission_start(struct worker *worker, struct tg_problem *problem)
{
    if (worker->generation->config.listen.grpc == NULL)
        return true;
    worker->admit->rpc = calloc(1, sizeof *worker->admit->rpc);
    return worker->admit->rpc != NULL || problem_fail(problem, "no memory for a worker");
}

void rpc_admission_stop(struct worker *worker)
{
    if (worker->admit->rpc == NULL)
        return;
    rpc_stream_free_spare(worker);
    free(worker->admit->rpc);
    worker->admit->rpc = NULL;
}
