/* rpc_stream.c - AdmitStream: many decisions on one stream.
 *
 *     message ---> decided at once ---> reply, in order, with all others that came together
 *             `--> waits ---> [asks of the stream] ---> decided ---> reply, by itself
 *
 * A decision at once takes no memory beyond a struct that is used again. Asks that wait are in a
 * list of their stream, at most WAITING_MAX of them; then no more messages are read until some have
 * been answered, so a client that asks for everything at once is slowed down and not refused. When
 * the stream breaks, all that wait are cancelled; when the client has half-closed it, it ends after
 * the last answer.
 */
#include <stdlib.h>

#include "server/admit/rpc_admission_internal.h"

enum { WAITING_MAX = 1024 };

/* A question that has no answer yet. */
struct rpc_ask {
    union {
        LIST_ENTRY(rpc_ask) waiting; /* among the asks of its stream */
        SLIST_ENTRY(rpc_ask) spare;
    };
    struct grpc_call *call;
    uint64_t id;
    struct admit_pending *pending; /* null: it is being asked */
};

struct stream {
    struct admit_caller caller;
    LIST_HEAD(, rpc_ask) asks; /* those that wait */
    size_t n_asks;
    bool ended;    /* the client sends no more */
    bool draining; /* the gateway takes no more */
};

_Static_assert(sizeof(struct stream) <= GRPC_STATE_BYTES, "it is the state of a call");

static struct stream *stream_of(struct grpc_call *call)
{
    return (struct stream *)(void *)call->state;
}

/* ---- asks ---- */

static struct rpc_ask *take_ask(struct grpc_call *call, uint64_t id)
{
    struct rpc_admission_worker *rpc = rpc_worker(call)->admit->rpc;
    struct rpc_ask *ask = SLIST_FIRST(&rpc->spare);

    if (ask != NULL)
        SLIST_REMOVE_HEAD(&rpc->spare, spare);
    else if ((ask = malloc(sizeof *ask)) == NULL)
        return NULL;
    *ask = (struct rpc_ask){.call = call, .id = id};
    return ask;
}

static void put_ask(struct rpc_ask *ask)
{
    SLIST_INSERT_HEAD(&rpc_worker(ask->call)->admit->rpc->spare, ask, spare);
}

void rpc_stream_free_spare(struct worker *worker)
{
    struct rpc_admission_worker *rpc = worker->admit->rpc;
    struct rpc_ask *ask;

    while ((ask = SLIST_FIRST(&rpc->spare)) != NULL) {
        SLIST_REMOVE_HEAD(&rpc->spare, spare);
        free(ask);
    }
}

static void remove_ask(struct stream *stream, struct rpc_ask *ask)
{
    assert(ask->pending != NULL && stream->n_asks > 0);
    LIST_REMOVE(ask, waiting);
    stream->n_asks--;
    assert((stream->n_asks == 0) == LIST_EMPTY(&stream->asks));
}

/* ---- answers ---- */

static void send_error(struct grpc_call *call, uint64_t id, enum grpc_code code, const char *text)
{
    Tollgate__V1__AdmitStreamReply reply = TOLLGATE__V1__ADMIT_STREAM_REPLY__INIT;
    Tollgate__V1__Error error = TOLLGATE__V1__ERROR__INIT;

    error.code = (int32_t)code;
    error.message = (char *)(uintptr_t)text;
    reply.id = id;
    reply.what_case = TOLLGATE__V1__ADMIT_STREAM_REPLY__WHAT_ERROR;
    reply.error = &error;
    grpc_send(call, &reply.base);
}

static void send_decision(struct grpc_call *call, uint64_t id, const struct admit_reply *reply)
{
    Tollgate__V1__AdmitStreamReply message = TOLLGATE__V1__ADMIT_STREAM_REPLY__INIT;
    struct rpc_admit_reply out;

    if (reply->status != ADMIT_DECIDED) {
        send_error(call, id, rpc_code(reply->status), reply->message);
        return;
    }
    rpc_write_reply(reply, &out);
    message.id = id;
    message.what_case = TOLLGATE__V1__ADMIT_STREAM_REPLY__WHAT_ADMIT;
    message.admit = &out.message;
    grpc_send_within(call, &message.base, RPC_ADMIT_REPLY_MOST);
}

/* Ends the stream after the last answer. */
static void finish_if_over(struct grpc_call *call)
{
    const struct stream *stream = stream_of(call);

    if (stream->n_asks > 0)
        return;
    if (stream->draining)
        grpc_finish(call, GRPC_UNAVAILABLE, "the server is shutting down");
    else if (stream->ended)
        grpc_finish(call, GRPC_OK, NULL);
}

static void rpc_stream_decided(void *context, const struct admit_reply *reply)
{
    struct rpc_ask *ask = context;
    struct grpc_call *call = ask->call;
    struct stream *stream = stream_of(call);
    bool waited = ask->pending != NULL;
    uint64_t id = ask->id;

    if (waited)
        remove_ask(stream, ask);
    put_ask(ask);
    send_decision(call, id, reply);
    if (!waited)
        return;
    if (stream->n_asks == WAITING_MAX / 2)
        grpc_hold(call, false);
    finish_if_over(call);
}

/* ---- questions ---- */

static void rpc_stream_admit(struct grpc_call *call, uint64_t id,
                             const Tollgate__V1__AdmitRequest *message)
{
    struct stream *stream = stream_of(call);
    struct rpc_error error;
    struct admit_ask what;

    if (!rpc_read_ask(call, &stream->caller, message, &what, &error)) {
        send_error(call, id, error.code, error.text);
        return;
    }
    struct rpc_ask *ask = take_ask(call, id);
    if (ask == NULL) {
        send_error(call, id, GRPC_UNAVAILABLE, "there is no memory for another question");
        return;
    }
    struct admit_pending *pending =
        admit_start(rpc_worker(call), &stream->caller, &what, rpc_stream_decided, ask);
    if (pending == NULL)
        return; /* rpc_stream_decided() has put the struct back */
    ask->pending = pending;
    LIST_INSERT_HEAD(&stream->asks, ask, waiting);
    stream->n_asks++;
    assert(stream->n_asks <= WAITING_MAX);
    if (stream->n_asks >= WAITING_MAX)
        grpc_hold(call, true);
}

static void rpc_stream_release(struct grpc_call *call, uint64_t id,
                               const Tollgate__V1__ReleaseRequest *message)
{
    Tollgate__V1__AdmitStreamReply reply = TOLLGATE__V1__ADMIT_STREAM_REPLY__INIT;
    Tollgate__V1__ReleaseReply release;
    struct rpc_error error;

    if (!rpc_release(rpc_worker(call), &stream_of(call)->caller, message, &release, &error)) {
        send_error(call, id, error.code, error.text);
        return;
    }
    reply.id = id;
    reply.what_case = TOLLGATE__V1__ADMIT_STREAM_REPLY__WHAT_RELEASE;
    reply.release = &release;
    grpc_send(call, &reply.base);
}

static void rpc_stream_heartbeat(struct grpc_call *call, uint64_t id,
                                 const Tollgate__V1__HeartbeatRequest *message)
{
    Tollgate__V1__AdmitStreamReply reply = TOLLGATE__V1__ADMIT_STREAM_REPLY__INIT;
    Tollgate__V1__HeartbeatReply heartbeat;
    struct rpc_error error;

    if (!rpc_heartbeat(rpc_worker(call), &stream_of(call)->caller, message, &heartbeat, &error)) {
        send_error(call, id, error.code, error.text);
        return;
    }
    reply.id = id;
    reply.what_case = TOLLGATE__V1__ADMIT_STREAM_REPLY__WHAT_HEARTBEAT;
    reply.heartbeat = &heartbeat;
    grpc_send(call, &reply.base);
}

void rpc_stream_begin(struct grpc_call *call)
{
    if (rpc_authenticate(call, &stream_of(call)->caller) && rpc_worker(call)->rpc->draining)
        rpc_stream_drain(call);
}

void rpc_stream_message(struct grpc_call *call, const ProtobufCMessage *message)
{
    const Tollgate__V1__AdmitStreamRequest *request = (const void *)message;

    switch (request->what_case) {
    case TOLLGATE__V1__ADMIT_STREAM_REQUEST__WHAT_ADMIT:
        rpc_stream_admit(call, request->id, request->admit);
        break;
    case TOLLGATE__V1__ADMIT_STREAM_REQUEST__WHAT_RELEASE:
        rpc_stream_release(call, request->id, request->release);
        break;
    case TOLLGATE__V1__ADMIT_STREAM_REQUEST__WHAT_HEARTBEAT:
        rpc_stream_heartbeat(call, request->id, request->heartbeat);
        break;
    default:
        send_error(call, request->id, GRPC_INVALID_ARGUMENT,
                   "the request is neither admit nor release nor heartbeat");
    }
}

void rpc_stream_end(struct grpc_call *call)
{
    stream_of(call)->ended = true;
    finish_if_over(call);
}

void rpc_stream_cancel(struct grpc_call *call)
{
    struct stream *stream = stream_of(call);
    struct rpc_ask *ask;

    while ((ask = LIST_FIRST(&stream->asks)) != NULL) {
        admit_cancel(ask->pending);
        remove_ask(stream, ask);
        put_ask(ask);
    }
}

void rpc_stream_drain(struct grpc_call *call)
{
    stream_of(call)->draining = true;
    finish_if_over(call);
}
