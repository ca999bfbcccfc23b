/* call.h - one request of a client, from its head to its settlement.
 *
 *   READING --> QUEUED_SLOT --> QUEUED_GATE --> ASKING --> ANSWERING --> OVER
 *      |            |               |            ^  |          |          ^
 *      |            |               |      PAUSING<-'          v          |
 *      `------------+---------------+---------- refused,    DRAINING -----'
 *                                               failed, gone
 *
 *   READING      the body arrives; memory and fairness have been asked (call_in.c)
 *   QUEUED_SLOT  waits for a slot of its model (call_admit.c)
 *   QUEUED_GATE  waits for a place under the ceiling; then policy, rate and cost are decided
 *   AT_STORE     waits for what gateways share: for its limits, or, between two attempts or before
 *                the first, for money and a key; with `store: memory` nobody is ever here
 *   ASKING       an attempt is under way: money and a key are held, nothing went to the client
 *   PAUSING      between two attempts: neither money nor a key is held (call_attempt.c)
 *   ANSWERING    the reply goes out as it comes in (call_answer.c)
 *   DRAINING     the client has left; the reply is read on for what it will be charged
 *   OVER         nothing is held any more (call_settle.c); waits for the client's side to end
 *
 * What a call holds is in its struct, and each thing is given back in one place in call_settle.c,
 * which is safe to call in every state: whatever goes wrong, that is the way out.
 *
 * A call belongs to its worker's thread. Other threads only wake its `waiter`.
 */
#ifndef TG_PROXY_CALL_H
#define TG_PROXY_CALL_H

#include "server/dialect/ask.h"
#include "server/dialect/body_edit.h"
#include "server/dialect/meter.h"
#include "server/dialect/replies.h"
#include "server/dialect/sse.h"
#include "server/dialect/usage.h"
#include "server/proxy/call_report.h"
#include "server/remote/remote.h"
#include "server/runtime/gateway.h"
#include "server/runtime/held_body.h"
#include "server/runtime/worker.h"

enum call_state {
    CALL_READING,
    CALL_QUEUED_SLOT,
    CALL_QUEUED_GATE,
    CALL_AT_STORE,
    CALL_ASKING,
    CALL_PAUSING,
    CALL_ANSWERING,
    CALL_DRAINING,
    CALL_OVER
};

/* Why an attempt came to nothing. */
enum call_failure {
    FAILURE_NONE,
    FAILURE_LIMITED,     /* 429, or a rate limit within a 200 */
    FAILURE_CREDENTIALS, /* 401, 403 */
    FAILURE_SERVER,      /* 5xx, 408, or an error within a 200 that may pass */
    FAILURE_NETWORK,     /* no connection, or it broke */
    FAILURE_TIMEOUT,
};

/* What an attempt is charged. */
enum call_charge {
    CHARGE_NOTHING, /* the provider says that it did not run, or nothing was sent */
    CHARGE_PROMPT,  /* it may have run, nobody knows */
    CHARGE_USED,    /* what the reply says, or as much as has come of it */
};

struct attempt {
    tg_key_lease key;
    struct route_key *owner; /* its generation is held by the call */
    struct spending_ticket money;
    struct remote_reservation remote_reservation; /* the same, at what all gateways have spent */
    struct remote_key_claim remote_key_claim;     /* and the key, at what all of them use of it */
    unsigned key_rounds;                          /* keys that others had no room left in */
    struct http_outbound *out;
    int64_t prompt, output; /* tokens, estimated */
    int64_t tokens;         /* that the key was asked for */
    int64_t most_output;    /* what the call may write at most, set by us; -1: nothing is */
    tg_ms began_at;
    tg_ms first_at;               /* the first byte of the reply's body; 0: none yet */
    int status;                   /* of the reply; 0: none yet */
    bool events;                  /* the reply is a stream of events */
    bool packed;                  /* or nobody can tell, because it is encoded */
    bool injected;                /* the usage in it was asked for by us */
    bool passes;                  /* the reply is for the client as it is: no further attempt */
    bool paused;                  /* the client is slower than the provider */
    bool asked_less;              /* for money a second time */
    bool unsent;                  /* it ended before a byte had gone to the provider */
    tg_ms cool_until;             /* what the provider asked for */
    const struct http_head *head; /* of a reply that is kept back; valid while `out` is */
    /* The last, because it is large and cleared when it is used; what is sent points into it. */
    struct body_edit edit;
};

#define CALL_TRIED_MAX TG_TRIED_MAX

struct call {
    const struct service *service; /* the first of its members: see service.h */
    struct worker *worker;
    struct gateway *gateway;
    struct generation *generation;     /* that it began under: held */
    struct generation *key_generation; /* of the key it had last, if that is newer: held */
    struct http_inbound *in;           /* null: the client's side has ended */
    enum call_state state;
    tg_ms began_at;
    tg_ms asked_at; /* the store, last */
    tg_ms store_ms; /* waited for it, in this attempt and for what came before the first */
    uint64_t id;

    enum endpoint endpoint;
    enum wire_api api;
    size_t tenant; /* CONFIG_NONE until the key is known */
    const struct config_key *virtual_key;
    const struct config_passthrough *passthrough; /* null: an endpoint of ours */
    struct slice user;                            /* points to the next, or into the head */
    char user_name[LEDGER_NAME_MAX];
    bool is_retry; /* the client says so */

    struct held_body body;
    struct ask ask;

    size_t model;        /* asked for, after aliases; CONFIG_NONE: of a passthrough */
    struct route *route; /* that serves it now */
    size_t next_fallback;
    tg_ms deadline; /* by which its reply has to begin; 0: none */
    tg_ms ends_at;  /* and by which it has to end */

    struct tg_scope scopes[TG_SCOPES_MAX];
    struct tg_call gate_call, slot_call;
    tg_lease lease;            /* of the gate, or on the way to one */
    struct remote_claim debit; /* where gateways share the limits */
    bool admitted; /* by the gate: it is asked once, whatever number of routes it takes */
    tg_lease slot; /* of the route */
    struct tg_axes axes;

    struct attempt attempt;
    unsigned attempts, route_attempts;
    bool same_key;              /* the next attempt is to take the key of the last */
    bool replaced;              /* a kept connection was found closed, and another one used */
    struct route_key *last_key; /* held, too */
    void *tried[CALL_TRIED_MAX];
    size_t n_tried;
    enum call_failure failure; /* of the last attempt */
    int failed_status;         /* of its reply; 0: there was none */
    int64_t used;              /* tokens that all attempts so far are charged with */

    char *held; /* of a reply: what must not go out yet */
    size_t held_n, held_room;
    struct sse sse;
    struct meter meter;

    struct net_timer timer; /* of waiting, pausing, draining */
    struct waiter waiter;
    struct call *next_spare;
    struct call *next, **from; /* among the calls of the worker */

    /* For its report. */
    struct report_notes notes;
    enum http_why ended;     /* how the client's side did */
    enum call_state left_in; /* the state it was in then */
    int status;
    enum reply_reason reason;
    struct tg_usage usage;
    bool usage_reported;
    tg_micro spent;
    int64_t bytes_in, bytes_out;

    /* The last, because it is large and clears what it needs itself. */
    struct usage_scan scan;
};

/* ---- call_admit.c */

/* The body is there and read: asks for a slot of the route, then at the gate, then goes on to
 * call_attempt(). */
void call_admit(struct call *call);

/* Gives up the slot of the route and asks for one of the next fallback. False: there is none. `why`
 * is for the report; static. */
bool call_admit_fallback(struct call *call, const char *why);

/* A slot was granted, or a wait or a pause is over. */
void call_woken(void *call);
void call_timer(void *call);

/* ---- call_attempt.c */

/* Money, key, and off it goes. */
void call_attempt(struct call *call);

/* The least that is left of the budgets on its way, of all gateways together as far as is known
 * here; the user's too if he is named. As tg_bank_left(). False: not known. */
bool call_money_left(const struct call *call, struct slice user, tg_micro *left, double *part);

/* The attempt, which has been settled, came to nothing: tries again, elsewhere, or answers. */
void call_attempt_failed(struct call *call, enum call_failure failure);

/* It was never read, because the provider had closed its connection: once in a call that is no
 * failure. */
void call_attempt_again(struct call *call);

/* "limited", "server", ...: in reports. Null for none. Static. */
const char *call_failure_name(enum call_failure failure);

/* ---- call_answer.c */

extern const struct http_client_ops call_client_ops;

/* The client takes bytes again. */
void call_answer_room(struct call *call);

/* Answers with the error that the provider gave last. False: there is none. */
bool call_answer_held(struct call *call);

/* ---- call_settle.c: every way out */

/* Ends the attempt, if there is one: its request, its key, its money. */
void call_settle(struct call *call, enum tg_key_outcome outcome, enum call_charge charge);

/* Gives back what the call holds besides: places at the gate and the route, memory. */
void call_release(struct call *call, enum tg_outcome outcome);

/* The place at the route alone: `cancelled` becomes `dropped` if the route was overloaded. */
void call_leave_route(struct call *call, enum tg_outcome outcome);

/* The leases it holds are to go on. */
void call_renew(struct call *call);

/* No further attempt will be made: the memory is for others. */
void call_forget_body(struct call *call);

/* Answers with a refusal; everything is given back. Nothing may have gone to the client. */
void call_refuse(struct call *call, const struct refusal *why);

/* For limits of our own that refused after the gate had admitted: the gate is given everything
 * back. */
void call_refuse_admitted(struct call *call, const struct refusal *why);

/* The client's side has ended: frees the call when nothing else is under way. */
void call_free(struct call *call);

static inline tg_ms call_now(const struct call *call)
{
    return worker_now(call->worker);
}

static inline const struct config_tenant *call_tenant(const struct call *call)
{
    return &call->generation->config.tenants[call->tenant];
}

#endif
