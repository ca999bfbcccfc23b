/* admit.h - decisions for those who run a gateway of their own: Admit, Release, Heartbeat, Peek.
 *
 *     JSON over HTTP, nginx auth_request   admit_api.c, admit_read.c, admit_write.c  --.
 *     gRPC, one RPC or a stream            rpc_admission.c, rpc_stream.c, _answers.c --+
 *                                                                                      v
 *     admit_check.c           who asks, and what it may state                    admit_core.c
 *     admit_pending.c         a question that waits, and what it keeps                 |
 *     admit_peek.c            what would be decided now                                v
 *     admit_lease.c           ids of leases                             gateway.gate,
 *     admit_release.c         the ends of leases, and renewals          whose law learns
 *     admit_bound_leases.c    leases that end with a connection
 *     admit_report.c          metrics and log
 *
 * This is the service without its wire. A transport knows a caller by its token, fills in an ask,
 * and gets a reply: at once, from inside admit_start(), or later, from the worker's loop, if the
 * call has to wait for a slot. What an admitted call holds is a lease; its id is all that a caller
 * needs to end or renew it, by any worker.
 *
 *     admit_authenticate(worker, &head, &caller, &why)
 *     admit_ask_init(&ask);  ask.cost = ...;  admit_ask_head(worker, &caller, &head, &ask);
 *     pending = admit_start(worker, &caller, &ask, done, context);
 *     ...                                        done() has been called if `pending` is null
 *     admit_cancel(pending);                     whoever asked has gone; then done() never comes
 *
 * Lease ids are not kept in any table: an id is the number of the lease, its time to live and a
 * keyed hash over these and the caller's name (admit_lease.c), so there is nothing that could be
 * left behind. Only leases that end with a connection, or were charged at a store that gateways
 * share, are in a table (admit_bound_leases.c).
 *
 * Who asks. A caller that states no tenant is its own tenant, by its name. A name that is no
 * tenant's has the limits that `gate.rate` and `gate.cost` give to each. The peer is the one that
 * is stated, else the tenant. What a caller may state is in its entry: a field that it may not
 * state is an error that names it; a header that it may not state is not read.
 *
 * Threads: a worker's functions are for its own thread.
 */
#ifndef TG_ADMIT_ADMIT_H
#define TG_ADMIT_ADMIT_H

#include "server/dialect/replies.h"
#include "server/runtime/gateway.h"
#include "server/runtime/report_notes.h"
#include "server/runtime/service.h"
#include "server/runtime/worker.h"

#define ADMIT_TTL_DEFAULT 30000  /* ms; less where `gate.lease_ttl` is less, which is the most */
#define ADMIT_NAME_MAX 256       /* bytes of a tenant, a model, a user, a peer */
#define ADMIT_HEARTBEAT_MAX 1024 /* leases in one heartbeat */
#define ADMIT_TEXT_MAX 200       /* bytes of a message, with its 0 */

/* "NODE-" and 40 characters of base64url, without a 0. */
#define ADMIT_LEASE_BYTES (GATEWAY_NODE_BYTES + 1 + 40)

/* ---- Callers ---- */

/* A caller that is known by its token. Good for as long as a connection lives: after a reload it is
 * looked up again, and an entry that has been taken out of the configuration is refused. */
struct admit_caller {
    const struct config_caller *entry; /* belongs to that generation: looked up after a reload */
    uint64_t generation;
    uint8_t hash[32];
    bool is_authz; /* the one of `ext_authz`, which has no token */
};

/* By `authorization: Bearer TOKEN` or `x-api-key: TOKEN`. False: there is no token, or it is not a
 * caller's; `why` says which, and may be null. */
bool admit_authenticate(struct worker *worker, const struct http_head *head,
                        struct admit_caller *caller, struct refusal *why);

/* ---- Asking ---- */

struct admit_ask {
    struct slice tenant, peer;    /* empty: not stated; default empty, here and below */
    struct slice model, user;     /* copied, as all texts are */
    const struct config_key *key; /* the virtual key that was shown, in the generation that the
                                     worker has now; null: none, the default */
    enum tg_priority priority; /* TG_PRIORITY_COUNT: not stated, the default; then the tenant's, and
                                  normal for a name that is no tenant's */
    bool has_value;            /* default false: then it is the tenant's */
    double value;
    int64_t cost;        /* units; default 1 */
    double hold_s;       /* seconds that it will take; default 0 */
    tg_ms ttl_ms;        /* time to live of its lease; 0: ADMIT_TTL_DEFAULT, the default */
    tg_ms deadline;      /* it does not wait longer; 0: none, the default */
    uint64_t connection; /* the lease ends with it; 0: with none, the default */
    bool limits_only;    /* rate and cost, no slot and no lease; default false */
    bool enforce;        /* whoever asks gets the status of a refusal: for reports; default false */
    bool is_verdict;     /* or 204 and 403; default false */
    enum tg_priority at_most; /* a header's priority, which may only lower; default high */
};

void admit_ask_init(struct admit_ask *ask);

/* What `x-tollgate-priority`, `x-deriva-priority`, `x-deriva-node-id` and `x-tollgate-value` say,
 * as far as the caller may state it. A field of the ask itself goes before a header, but for the
 * priority, of which the lower one holds. Points into the head. */
void admit_ask_head(struct worker *worker, struct admit_caller *caller,
                    const struct http_head *head, struct admit_ask *ask);

/* Why there is no decision. */
enum admit_status {
    ADMIT_DECIDED,
    ADMIT_UNAUTHENTICATED, /* 401: the caller's entry is gone */
    ADMIT_FORBIDDEN,       /* 403: `field` may not be stated by this caller */
    ADMIT_INVALID,         /* 400: `field` is out of its range */
    ADMIT_UNAVAILABLE,     /* 503: the store has no answer, or no room */
    ADMIT_DRAINING,        /* 503: the gateway takes no more */
    ADMIT_INTERNAL,        /* 500 */
};

/* Valid until done() returns. */
struct admit_reply {
    enum admit_status status;
    const char *field; /* the field that is wrong, by its name in JSON and in the proto; or null */
    char message[ADMIT_TEXT_MAX]; /* for people: why it was refused, or what is wrong; else "" */

    /* ADMIT_DECIDED: */
    bool allowed;
    struct tg_decision decision; /* all axes together */
    tg_ms client_wait_ms;        /* without a slot: what a client is told to wait; else 0 */
    enum tg_reason reason;       /* TG_REASON_NONE if it is allowed */
    enum tg_axis binding_axis;   /* TG_AXIS_NONE: none, or the policy refused */
    bool policy_denied;
    struct tg_axes axes;
    struct report_limit limit; /* the one that refused; all empty if there is none */
    unsigned would_deny;       /* bits 1 << enum tg_reason */
    size_t lease_bytes;        /* 0: there is no lease, for nothing is held */
    char lease[ADMIT_LEASE_BYTES];
    tg_ms lease_expires_at; /* epoch ms; 0 without a lease */
};

/* A call that waits. */
struct admit_pending;

typedef void admit_done(void *context, const struct admit_reply *reply);

/* Asks. Calls done() exactly once, unless it is cancelled: from inside, and then the answer is
 * null, or later from the worker's loop. done() may start and cancel others. */
struct admit_pending *admit_start(struct worker *worker, struct admit_caller *caller,
                                  const struct admit_ask *ask, admit_done *done, void *context);

/* Whoever asked is gone: gives everything back. Not after done(). For admit_peek(), too. */
void admit_cancel(struct admit_pending *pending);

/* The answer that admit_start() would give now, as far as it is known before a slot is free,
 * delivered in the same way. Nothing is taken, there is no lease, and the policy is not asked. It
 * waits for nothing but a store that gateways share. */
struct admit_pending *admit_peek(struct worker *worker, struct admit_caller *caller,
                                 const struct admit_ask *ask, admit_done *done, void *context);

/* "rate", "request_exceeds_limit", ...: the reason of a reply; "" for an allow and for errors. */
const char *admit_reason(const struct admit_reply *reply);

/* The HTTP form of a refusal or an error; `reply` is not an allow. */
void admit_refusal(const struct admit_reply *reply, struct refusal *why);

/* ---- Leases ---- */

/* Ends one. ADMIT_DECIDED: `found` says whether it was there, and this caller's. Otherwise `error`
 * says why. */
enum admit_status admit_release(struct worker *worker, struct admit_caller *caller,
                                struct slice lease, const struct tg_release *release, bool *found,
                                struct admit_reply *error);

/* Gives each lease its whole time to live again. `live[i]` says whether it was there;
 * `next_deadline` is when the first of these expires; 0: there are none. */
enum admit_status admit_heartbeat(struct worker *worker, struct admit_caller *caller,
                                  const struct slice *leases, size_t n, bool *live,
                                  tg_ms *next_deadline, struct admit_reply *error);

/* Whoever asked is gone without its answer, and so does not know its lease: ends that. Empty: there
 * is none. */
void admit_take_back(struct worker *worker, struct admit_caller *caller, struct slice lease);

/* Ends the leases that were to end with the connection, as cancelled. To be called for every
 * connection that is closed. */
void admit_connection_closed(struct worker *worker, uint64_t connection);

/* Whether leases would end with it: then an idle connection is not closed. */
bool admit_connection_is_held(struct worker *worker, uint64_t connection);

/* ---- The service ---- */

extern const struct service admit_service;

/* From the control thread: forgets bound leases that have expired. */
void admit_tick(struct gateway *gateway, tg_ms now);

/* How many leases are in the table of bound ones; for tests and metrics. */
size_t admit_count_bound(struct gateway *gateway);

#endif
