/* rpc_stream.c - AdmitStream: many decisions on one stream.
 *
 *     message ---> decided at once ---> reply, in order, with all others that came together
 *             `--> waits ---> [asks of the stream] ---> decided ---> reply, by itself
 *
 * A decision at once takes no memory beyond a struct that is used again. Those that wait are in a
 * list of their stream. There are at most WAITING_MAX of them; then no more messages are read until
 * some have been answered, so a client that asks for everything at once is slowed down and not
 * refused. When the stream breaks, all that wait are given up; when the client has said its last,
 * the stream ends behind the last answer.
 */
#include <stdlib.h>

#include "server/admit/rpc_admission_internal.h"

enum { WAITING_MAX = 1024 };

/* A question that has no answer yet. */
struct rpc_ask {
    struct rpc_ask *next, **from; /* among those of its stream that wait */
    struct grpc_call *call;
    uint64_t id;
    struct admit_pending *pending; /* null: it is being asked */
};

struct stream {
    struct admit_caller caller;
    struct rpc_ask *asks;
    size_t n_asks;
    bool ended;    /* the client has said its last */
    bool draining; /* we have */
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
    struct rpc_ask *ask = rpc->spare;

    if (ask != NULL)
        rpc->spare = ask->next;
    else if ((ask = malloc(sizeof *ask)) == NULL)
        return NULL;
    *ask = (struct rpc_ask){.call = call, .id = id};
    return ask;
}

static void give_ask(struct rpc_ask *ask)
{
    struct rpc_admission_worker *rpc = rpc_worker(ask->call)->admit->rpc;

    ask->next = rpc->spare;
    rpc->spare = ask;
}

void rpc_stream_free_spare(struct worker *worker)
{
    struct rpc_admission_worker *rpc = worker->admit->rpc;

    while (rpc->spare != NULL) {
        struct rpc_ask *ask = rpc->spare;
        rpc->spare = ask->next;
        free(ask);
    }
}

static void link_ask(struct stream *stream, struct rpc_ask *ask)
{
    ask->next = stream->asks;
    ask->from = &stream->asks;
    if (ask->next != NULL)
        ask->next->from = &ask->next;
    stream->asks = ask;
    stream->n_asks++;
}

static void unlink_ask(struct stream *stream, struct rpc_ask *ask)
{
    *ask->from = ask->next;
    if (ask->next != NULL)
        ask->next->from = ask->from;
    stream->n_asks--;
}

/* ---- answers ---- */

static void send_error(struct grpc_call *call, uint64_t id, enum grpc_code code, const char *words)
{
    Tollgate__V1__AdmitStreamReply reply = TOLLGATE__V1__ADMIT_STREAM_REPLY__INIT;
    Tollgate__V1__Error error = TOLLGATE__V1__ERROR__INIT;

    error.code = (int32_t)code;
    error.message = (char *)(uintptr_t)words;
    reply.id = id;
    reply.what_case = TOLLGATE__V1__ADMIT_STREAM_REPLY__WHAT_ERROR;
    reply.error = &error;
    grpc_send(call, &reply.base);
}

static void send_wrong(struct grpc_call *call, uint64_t id, const char *field)
{
    char words[RPC_TEXT_MAX];

    rpc_say_wrong(rpc_worker(call), &stream_of(call)->caller, field, words);
    send_error(call, id, GRPC_INVALID_ARGUMENT, words);
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

/* Behind the last answer. */
static void finish_if_over(struct grpc_call *call)
{
    const struct stream *stream = stream_of(call);

    if (stream->n_asks > 0)
        return;
    if (stream->draining)
        grpc_finish(call, GRPC_UNAVAILABLE, "the server ends");
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
        unlink_ask(stream, ask);
    give_ask(ask);
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
    struct admit_ask what;
    const char *wrong = rpc_read_ask(call, &stream->caller, message, &what);

    if (wrong != NULL) {
        send_wrong(call, id, wrong);
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
        return; /* and the struct has been given back */
    ask->pending = pending;
    link_ask(stream, ask);
    if (stream->n_asks >= WAITING_MAX)
        grpc_hold(call, true);
}

static void rpc_stream_release(struct grpc_call *call, uint64_t id,
                               const Tollgate__V1__ReleaseRequest *message)
{
    Tollgate__V1__AdmitStreamReply reply = TOLLGATE__V1__ADMIT_STREAM_REPLY__INIT;
    Tollgate__V1__ReleaseReply out = TOLLGATE__V1__RELEASE_REPLY__INIT;
    struct admit_reply error;
    struct tg_release how;
    bool found = false;
    const char *wrong = rpc_read_release(message, &how);

    if (wrong != NULL) {
        send_wrong(call, id, wrong);
        return;
    }
    enum admit_status status = admit_release(rpc_worker(call), &stream_of(call)->caller,
                                             slice_of(message->lease_id), &how, &found, &error);
    if (status != ADMIT_DECIDED) {
        send_error(call, id, rpc_fault(rpc_worker(call), &stream_of(call)->caller, &error),
                   error.message);
        return;
    }
    out.found = found;
    reply.id = id;
    reply.what_case = TOLLGATE__V1__ADMIT_STREAM_REPLY__WHAT_RELEASE;
    reply.release = &out;
    grpc_send(call, &reply.base);
}

static void heartbeat(struct grpc_call *call, uint64_t id,
                      const Tollgate__V1__HeartbeatRequest *message)
{
    Tollgate__V1__AdmitStreamReply reply = TOLLGATE__V1__ADMIT_STREAM_REPLY__INIT;
    Tollgate__V1__HeartbeatReply out;
    struct admit_reply error;
    enum admit_status status =
        rpc_heartbeat(rpc_worker(call), &stream_of(call)->caller, message, &out, &error);

    if (status != ADMIT_DECIDED) {
        send_error(call, id, rpc_fault(rpc_worker(call), &stream_of(call)->caller, &error),
                   error.message);
        return;
    }
    reply.id = id;
    reply.what_case = TOLLGATE__V1__ADMIT_STREAM_REPLY__WHAT_HEARTBEAT;
    reply.heartbeat = &out;
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
        heartbeat(call, request->id, request->heartbeat);
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

    while (stream->asks != NULL) {
        struct rpc_ask *ask = stream->asks;
        admit_cancel(ask->pending);
        unlink_ask(stream, ask);
        give_ask(ask);
    }
}

void rpc_stream_drain(struct grpc_call *call)
{
    stream_of(call)->draining = true;
    finish_if_over(call);
}
