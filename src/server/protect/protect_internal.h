/* protect_internal.h - one request of a protected route. For protect.c and protect_upstream.c
 * alone. */
#ifndef TG_PROTECT_PROTECT_INTERNAL_H
#define TG_PROTECT_PROTECT_INTERNAL_H

#include "io/net/address.h"
#include "server/protect/protect.h"
#include "server/remote/remote.h"
#include "server/runtime/report_notes.h"

/* Bytes that wait for one side before the other is stopped. */
#define GUARDED_QUEUED_MAX HTTP_OUTPUT_HIGH

enum guarded_state { GUARDED_WAITING, GUARDED_PASSING, GUARDED_OVER };

struct guarded {
    const struct exchange_ops *ops; /* the first of its members: see worker.h */
    struct worker *worker;
    struct gateway *gateway;
    struct generation *generation; /* held */
    const struct protected_route *route;
    struct http_inbound *in;
    struct http_outbound *out; /* null: not yet, or not any more */
    enum guarded_state state;
    bool grpc;       /* an RPC: what is said of it is said in its words */
    bool wrote;      /* a byte of its body has gone on */
    bool ended;      /* its end has, behind no byte or many */
    bool trusted;    /* what the client states is believed */
    bool in_paused;  /* the upstream is slower than the client */
    bool out_paused; /* the client is slower than the upstream */
    bool replied;    /* the reply's head has gone out */
    bool sent_again;
    tg_ms began_at;
    uint64_t id;
    char address[INET6_ADDRSTRLEN];

    struct tg_scope scopes[TG_SCOPES_MAX];
    struct tg_call call;
    tg_lease lease;
    struct remote_claim debit; /* where other gateways share the limits */
    struct waiter waiter;
    struct net_timer timer; /* of waiting, then of renewing the lease */

    /* For its report. */
    struct report_notes notes;
    const struct config_key *key;
    int status;
    enum reply_reason reason;
    const char *failure; /* of the upstream; null: none */
    tg_ms first_at;
    char grpc_status[8]; /* of the upstream's head */
    size_t grpc_status_n;
    int64_t attempts, bytes_out;
};

static inline tg_ms guarded_now(const struct guarded *guarded)
{
    return worker_now(guarded->worker);
}

/* ---- protect.c */

/* Gives back the place at the gate, or in its queue; whatever the state, and again. */
void guarded_release(struct guarded *guarded, enum tg_outcome outcome);

/* Answers with a refusal. Nothing may have gone to the client. */
void guarded_refuse(struct guarded *guarded, const struct refusal *why, enum tg_outcome outcome);

/* ---- guarded_report.c */

void guarded_report_admitted(struct guarded *guarded);
void guarded_report_refused(struct guarded *guarded, const struct refusal *why,
                            const struct reply *reply);
void guarded_report(struct guarded *guarded, enum http_why why);

/* ---- protect_upstream.c */

/* Sends the head of the request on; its body follows as it comes. False: it could not be made. */
bool guarded_send(struct guarded *guarded);

#endif
