/* rpc_admission_internal.h - tollgate.v1.Admission, for its own files.
 *
 *     rpc_admission.c    Admit, Release, Heartbeat, Peek: one RPC, one answer
 *     rpc_stream.c       AdmitStream: the first three, many on one stream
 *     rpc_answers.c      messages of admission.proto to structs of admit.h, and back
 */
#ifndef TG_ADMIT_RPC_ADMISSION_INTERNAL_H
#define TG_ADMIT_RPC_ADMISSION_INTERNAL_H

#include <tollgate/v1/admission.pb-c.h>

#include "server/admit/admit_internal.h"
#include "server/runtime/rpc.h"

struct rpc_ask;

/* What Admission keeps on a worker. */
struct rpc_admission_worker {
    SLIST_HEAD(, rpc_ask) spare; /* structs of asks on streams that have ended */

    /* One heartbeat, which is answered before the next is read. */
    struct slice ids[ADMIT_HEARTBEAT_MAX];
    bool live[ADMIT_HEARTBEAT_MAX];
    char *live_ids[ADMIT_HEARTBEAT_MAX], *reclaimed_ids[ADMIT_HEARTBEAT_MAX];
};

extern const struct grpc_service rpc_admission, rpc_authz;

/* On a worker without listen.grpc they do nothing. */
bool rpc_admission_start(struct worker *worker, struct tg_problem *problem);
void rpc_admission_stop(struct worker *worker);

/* ---- rpc_answers.c ---- */

/* Room for all that a reply points to. It must not move. */
struct rpc_admit_reply {
    Tollgate__V1__AdmitReply message;
    Tollgate__V1__Axes axes;
    Tollgate__V1__Decision decisions[TG_AXIS_COUNT];
    Tollgate__V1__BindingLimit limit;
    char *would_deny[TG_REASON_COUNT];
    char lease[ADMIT_LEASE_BYTES + 1];
};

/* The most bytes that it takes, also on a stream: every text in it is bounded. Some 24 numbers, the
 * message, the lease, the limit, two names, and the names of all reasons. */
#define RPC_ADMIT_REPLY_MOST                                                                       \
    (24 * 11 + ADMIT_TEXT_MAX + ADMIT_LEASE_BYTES + sizeof(struct report_limit) +                  \
     (2 + TG_REASON_COUNT) * 40 + 100)

/* Why a request has no reply. It has been reported. */
struct rpc_error {
    enum grpc_code code;
    char text[ADMIT_TEXT_MAX];
};

/* Reads an ask, which points into the message. False: `error` names the field that is wrong. */
bool rpc_read_ask(struct grpc_call *call, struct admit_caller *caller,
                  const Tollgate__V1__AdmitRequest *message, struct admit_ask *ask,
                  struct rpc_error *error);

void rpc_write_reply(const struct admit_reply *reply, struct rpc_admit_reply *out);

/* Releases and renews. False: `error` says why there is no reply. */
bool rpc_release(struct worker *worker, struct admit_caller *caller,
                 const Tollgate__V1__ReleaseRequest *message, Tollgate__V1__ReleaseReply *reply,
                 struct rpc_error *error);
bool rpc_heartbeat(struct worker *worker, struct admit_caller *caller,
                   const Tollgate__V1__HeartbeatRequest *message,
                   Tollgate__V1__HeartbeatReply *reply, struct rpc_error *error);

/* The code of a reply that is not a decision. */
enum grpc_code rpc_code(enum admit_status status);

/* ---- rpc_admission.c ---- */

/* Finds the caller. False: the RPC has been finished. */
bool rpc_authenticate(struct grpc_call *call, struct admit_caller *caller);

/* ---- rpc_stream.c: AdmitStream ---- */

void rpc_stream_begin(struct grpc_call *call);
void rpc_stream_message(struct grpc_call *call, const ProtobufCMessage *message);
void rpc_stream_end(struct grpc_call *call);
void rpc_stream_cancel(struct grpc_call *call);
void rpc_stream_drain(struct grpc_call *call);
void rpc_stream_free_spare(struct worker *worker);

#endif
