/* rpc_internal.h - what the files of the gRPC services share. See rpc.h. */
#ifndef TG_SERVE_RPC_INTERNAL_H
#define TG_SERVE_RPC_INTERNAL_H

#include <tollgate/v1/admission.pb-c.h>
#include <tollgate/v1/monitor.pb-c.h>

#include "io/grpc/grpc_server.h"
#include "server/admit/admit.h"
#include "server/runtime/worker.h"
#include "server/serve/rpc.h"

#define RPC_TURN_MS 100     /* between two looks at what watchers would want to know */
#define RPC_WATCHERS_MAX 16 /* of refusals, on one worker */

/* Of health, on one worker. Nobody needs a token to be one, and a stream that does nothing takes
 * some KiB; clients that are refused take the server for ill, so there are more than are likely. */
#define RPC_HEALTH_WATCHERS_MAX 8192

struct rpc_ask;
struct rpc_snapshot;

/* One of those that are looked after every RPC_TURN_MS: the first member of a call's state. */
struct rpc_watcher {
    struct rpc_watcher *next, **from; /* from null: it is not among them */
    struct grpc_call *call;
    void (*look)(struct rpc_watcher *watcher);
};

struct rpc {
    struct worker *worker;
    struct grpc_server *server;
    struct rpc_ask *spare; /* of streams */
    struct rpc_watcher *watchers;
    size_t n_denial_watchers, n_health_watchers;
    bool draining;
    struct net_timer turn;          /* runs while there are watchers */
    struct rpc_snapshot *snapshots; /* that are being made */

    /* Of a heartbeat, which is answered before the next is read. */
    struct slice ids[ADMIT_HEARTBEAT_MAX];
    bool live[ADMIT_HEARTBEAT_MAX];
    char *live_ids[ADMIT_HEARTBEAT_MAX], *reclaimed_ids[ADMIT_HEARTBEAT_MAX];
};

static inline struct rpc *rpc_of(const struct grpc_call *call)
{
    return grpc_context(call);
}

static inline struct worker *rpc_worker(const struct grpc_call *call)
{
    return rpc_of(call)->worker;
}

extern const struct grpc_service rpc_admission, rpc_monitor, rpc_health, rpc_envoy;

/* ---- rpc.c */

void rpc_watch(struct grpc_call *call, struct rpc_watcher *watcher,
               void (*look)(struct rpc_watcher *watcher));
void rpc_unwatch(struct rpc *rpc, struct rpc_watcher *watcher);

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
enum admit_status rpc_heartbeat(struct rpc *rpc, struct admit_caller *caller,
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
void rpc_stream_free_spare(struct rpc *rpc);

/* ---- rpc_monitor.c, rpc_snapshot.c */

/* Whether the administrator is asking. False: the RPC has been finished. */
bool rpc_authenticate_admin(struct grpc_call *call);

struct watch_entry;
void rpc_write_denial(struct watch_entry *entry, char id[REPLY_ID_MAX + 1],
                      Tollgate__V1__Denial *out);

void rpc_snapshot_message(struct grpc_call *call, const ProtobufCMessage *message);
void rpc_snapshot_cancel(struct grpc_call *call);
void rpc_snapshot_free_all(struct rpc *rpc);

#endif
