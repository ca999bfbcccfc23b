/* protect_internal.h - one call to a protected route: its states, its events, its struct.
 *
 *       BEGIN                admitted               UPSTREAM_HEAD
 *   NEW -----> ADMITTING --------------> FORWARDING --------------> REPLYING
 *     |            |                         |                          |
 *     |            | refused, failed         | UPSTREAM_FAILED          | UPSTREAM_END
 *     |            |                         | TIMER: overdue           | UPSTREAM_FAILED
 *     |            v                         v                          | TIMER: overdue
 *     `--------> OVER <----------------------+--------------------------'
 *   draining
 *
 *                   NEW   ADMITTING   FORWARDING   REPLYING   OVER
 *   BEGIN           x     -           -            -          -
 *   WAKE            -     if it waits -            -          -
 *   STORE_ANSWER    -     if it asks  -            -          -
 *   TIMER           -     -           renew        renew      -
 *   CLIENT_DATA     -     -           forward      forward    drop
 *   CLIENT_END      -     -           forward      forward    drop
 *   CLIENT_ROOM     -     -           -            resume     drop
 *   CLIENT_GONE     -     end         end          end        end
 *   UPSTREAM_HEAD   -     -           reply        -          -
 *   UPSTREAM_DATA   -     -           -            reply      -
 *   UPSTREAM_END    -     -           -            finish     -
 *   UPSTREAM_ROOM   -     -           resume       resume     -
 *   UPSTREAM_FAILED -     -           again, or no abort      -
 *
 * protect_step() is the one function that moves, and asserts where the table has a dash. What a
 * call holds: at the gate and at the remote store, what its admission run holds; at the upstream,
 * `out`, in FORWARDING and REPLYING alone. OVER holds nothing but the struct and its generation,
 * which CLIENT_GONE frees: that comes exactly once and last.
 *
 * A call belongs to its worker's thread. Other threads only wake its waiter.
 */
#ifndef TG_PROTECT_PROTECT_INTERNAL_H
#define TG_PROTECT_PROTECT_INTERNAL_H

#include "io/net/address.h"
#include "lib/admission/admission_run.h"
#include "server/protect/protect.h"
#include "server/remote/remote.h"
#include "server/runtime/own_slot.h"
#include "server/runtime/recorder.h"
#include "server/runtime/report_notes.h"

/* Bytes that wait for one side before the other is stopped. */
#define PROTECT_QUEUED_MAX HTTP_OUTPUT_HIGH

enum protect_state {
    PROTECT_NEW,
    PROTECT_ADMITTING,  /* at the gate, in its queue, or at the remote store; the body is paused */
    PROTECT_FORWARDING, /* admitted; the upstream has not answered yet */
    PROTECT_REPLYING,   /* the head of the upstream's reply has gone to the client */
    PROTECT_OVER,       /* answered, refused or cut off */
};

enum protect_event_kind {
    PROTECT_BEGIN,        /* the head of the request is there */
    PROTECT_WAKE,         /* the gate's wake(), or the deadline of the wait */
    PROTECT_STORE_ANSWER, /* the remote store's decision about rate and cost */
    PROTECT_TIMER,        /* the lease is to be renewed, or the deadline of an RPC has passed */
    PROTECT_CLIENT_DATA,
    PROTECT_CLIENT_END,
    PROTECT_CLIENT_ROOM,
    PROTECT_CLIENT_GONE,
    PROTECT_UPSTREAM_HEAD,
    PROTECT_UPSTREAM_DATA,
    PROTECT_UPSTREAM_END,
    PROTECT_UPSTREAM_ROOM,
    PROTECT_UPSTREAM_FAILED,
    PROTECT_EVENT_COUNT
};

struct protect_event {
    enum protect_event_kind kind;
    struct slice bytes;           /* CLIENT_DATA, UPSTREAM_DATA */
    const struct http_head *head; /* UPSTREAM_HEAD */
    enum http_why why;            /* CLIENT_GONE, UPSTREAM_FAILED */
    enum tg_err err;              /* STORE_ANSWER: TG_OK and the axes, or why there are none */
    const struct tg_axes *axes;
};

/* The exchange with the upstream: the functions of http_client.h, or a test's. */
struct protect_env {
    struct http_outbound *(*send)(struct http_client *client, struct http_origin *origin,
                                  const struct http_head *head,
                                  const struct http_timeouts *timeouts,
                                  const struct http_client_ops *ops, void *owner);
    size_t (*write)(struct http_outbound *out, struct slice bytes);
    void (*finish)(struct http_outbound *out, const struct http_field *trailers, size_t n);
    void (*pause)(struct http_outbound *out);
    void (*resume)(struct http_outbound *out);
    void (*cancel)(struct http_outbound *out, uint32_t code);
};

extern const struct protect_env protect_env;

struct protected_call {
    const struct service *service; /* the first member: see service.h */
    const struct protect_env *env;
    struct worker *worker;
    struct gateway *gateway;
    struct generation *generation; /* a reference is held */
    const struct protected_route *route;
    struct http_inbound *in;
    struct http_outbound *out; /* null but in FORWARDING and REPLYING */
    enum protect_state state;
    bool grpc;       /* an RPC: refusals are gRPC statuses */
    bool wrote;      /* a byte of its body was forwarded */
    bool ended;      /* the end of its body was forwarded */
    bool trusted;    /* the client may state its priority and its name */
    bool in_paused;  /* the upstream is slower than the client */
    bool out_paused; /* the client is slower than the upstream */
    bool slowed;     /* it was, at some time */
    bool sent_again;
    tg_ms began_at;
    tg_ms deadline; /* when client and upstream of an RPC end it; 0: none */
    uint64_t id;
    char address[INET6_ADDRSTRLEN];

    struct tg_scope scopes[TG_SCOPES_MAX];
    struct tg_call gate_call;
    struct own_slot own;       /* at the slots of its route */
    struct admission_run run;  /* at the gate of all calls */
    struct remote_claim debit; /* where other gateways share the limits */
    struct record_trail trail; /* what was done at its gates, for --record */
    struct waiter waiter;
    struct net_timer timer; /* the end of the wait; once admitted, the renewal of the lease */

    /* For its report. */
    struct report_notes notes;
    const struct config_key *key;
    struct tenant_share *share; /* the tenant's; null: it has no key of one */
    int status;
    enum reply_reason reason;
    const char *failure; /* how the upstream failed; null: it did not */
    const char *cause;   /* the same, of its connection; null: none */
    tg_ms first_at;      /* when the upstream's reply began; 0: not yet */
    char grpc_status[8]; /* the status in the head of the upstream's reply */
    size_t grpc_status_n;
    int64_t attempts, bytes_out;
};

static inline tg_ms protect_now(const struct protected_call *call)
{
    return worker_now(call->worker);
}

/* ---- protect.c ---- */

/* A call in NEW, which is the exchange's owner. Null: no memory. */
struct protected_call *protect_call_new(struct worker *worker, const struct protected_route *route,
                                        struct http_inbound *in);

/* The one function that moves a call. CLIENT_GONE frees it. */
void protect_step(struct protected_call *call, const struct protect_event *event);

/* ---- protect_admit.c: at the gate, and what is given back there ---- */

/* Asks the gate for a call that has just begun. Returns the next state, here and below. */
enum protect_state protect_admit(struct protected_call *call);

/* The wait is over, or perhaps; the store has answered. */
enum protect_state protect_wake(struct protected_call *call);
enum protect_state protect_store_answered(struct protected_call *call, enum tg_err err,
                                          const struct tg_axes *axes);

/* The timer of an admitted call. */
enum protect_state protect_renew(struct protected_call *call);

/* Gives back what is held at the gate and at the remote store, whatever that is, and again. */
void protect_release(struct protected_call *call, enum tg_outcome outcome);

/* Answers with a refusal. Nothing may have gone to the client. */
enum protect_state protect_refuse(struct protected_call *call, const struct refusal *why,
                                  enum tg_outcome outcome);

/* ---- protect_upstream.c ---- */

/* Sends the head of the request on; its body follows as it comes. False: it could not be made. */
bool protect_send(struct protected_call *call);

/* What the upstream's exchange has told. */
enum protect_state protect_upstream_head(struct protected_call *call, const struct http_head *head);
enum protect_state protect_upstream_end(struct protected_call *call);
enum protect_state protect_upstream_failed(struct protected_call *call, enum http_why why);

/* ---- protect_report.c ---- */

void protect_report(struct protected_call *call, enum http_why why);
void protect_report_refused(struct protected_call *call, const struct refusal *why,
                            const struct reply *reply);

/* It goes to its upstream for the first time. */
void protect_report_admitted(struct protected_call *call);

#endif
