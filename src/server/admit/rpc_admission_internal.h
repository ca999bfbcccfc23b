/* rpc_admission_internal.h - between the files of tollgate.v1.Admission: rpc_admission.c,
 * rpc_stream.c, rpc_answers.c. */
#ifndef TG_ADMIT_RPC_ADMISSION_INTERNAL_H
#define TG_ADMIT_RPC_ADMISSION_INTERNAL_H

#include <tollgate/v1/admission.pb-c.h>

#include "server/admit/admit_internal.h"
#include "server/runtime/rpc.h"

struct rpc_ask;

/* What Admission keeps on a worker. */
struct rpc_admission_worker {
    struct rpc_ask *spare; /* structs of asks on streams that have ended */

    /* One heartbeat, which is answered before the next is read. */
    struct slice ids[ADMIT_HEARTBEAT_MAX];
    bool live[ADMIT_HEARTBEAT_MAX];
    char *live_ids[ADMIT_HEARTBEAT_MAX], *reclaimed_ids[ADMIT_HEARTBEAT_MAX];
};

extern const struct grpc_service rpc_admission;

/* On a worker without listen.grpc they do nothing. */
bool rpc_admission_start(struct worker *worker, struct tg_problem *problem);
void rpc_admission_stop(struct worker *worker);

/* ---- rpc_answers.c: messages of admission.proto and structs of admit.h */

/* Room for all that an answer points to. Not to be moved. */
struct rpc_admit_reply {
    Tollgate__V1__AdmitReply message;
    Tollgate__V1__Axes axes;
    Tollgate__V1__Decision decisions[TG_AXIS_COUNT];
    char *would_deny[TG_REASON_COUNT];
    char lease[ADMIT_LEASE_BYTES + 1];
};

/* Bytes that it takes at most, on a stream too: every text in it is bounded. Twenty numbers, the
 * message, the lease, two words, and the names of all reasons. */
#define RPC_ADMIT_REPLY_MOST                                                                       \
    (20 * 11 + ADMIT_TEXT_MAX + ADMIT_LEASE_BYTES + (2 + TG_REASON_COUNT) * 40 + 100)

/* Points into the message. Null: it is an ask; otherwise the name of the field that is wrong. */
const char *rpc_read_ask(struct grpc_call *call, struct admit_caller *caller,
                         const Tollgate__V1__AdmitRequest *message, struct admit_ask *ask);

void rpc_write_reply(const struct admit_reply *reply, struct rpc_admit_reply *out);

/* The same for a release, and for a heartbeat, which is done at once. */
const char *rpc_read_release(const Tollgate__V1__ReleaseRequest *message,
                             struct tg_release *release);
enum admit_status rpc_heartbeat(struct worker *worker, struct admit_caller *caller,
                                const Tollgate__V1__HeartbeatRequest *message,
                                Tollgate__V1__HeartbeatReply *reply, struct admit_reply *error);

/* The code of an answer that is no decision. */
enum grpc_code rpc_code(enum admit_status status);

/* "`actual` must be an integer from 0 to ...", for a field that is wrong; and it is reported. */
#define RPC_TEXT_MAX 128
void rpc_say_wrong(struct worker *worker, struct admit_caller *caller, const char *field,
                   char text[RPC_TEXT_MAX]);

/* The code of an error of a release or a heartbeat, which is reported. */
enum grpc_code rpc_fault(struct worker *worker, struct admit_caller *caller,
                         const struct admit_reply *error);

/* ---- rpc_admission.c */

/* Who is asking. False: the RPC has been finished. */
bool rpc_authenticate(struct grpc_call *call, struct admit_caller *caller);

/* ---- rpc_stream.c: AdmitStream */

void rpc_stream_begin(struct grpc_call *call);
void rpc_stream_message(struct grpc_call *call, const ProtobufCMessage *message);
void rpc_stream_end(struct grpc_call *call);
void rpc_stream_cancel(struct grpc_call *call);
void rpc_stream_drain(struct grpc_call *call);
void rpc_stream_free_spare(struct worker *worker);

#endif
