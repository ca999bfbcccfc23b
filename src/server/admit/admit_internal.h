/* admit_internal.h - the parts of the Admit service, for one another: its own files alone. */
#ifndef TG_ADMIT_ADMIT_INTERNAL_H
#define TG_ADMIT_ADMIT_INTERNAL_H

#include <sys/queue.h>

#include "io/text/siphash.h"
#include "lib/admission/admission_run.h"
#include "lib/core/hash_table.h"
#include "lib/core/heap.h"
#include "server/admit/admit.h"
#include "server/remote/remote.h"
#include "server/runtime/own_slot.h"
#include "server/runtime/recorder.h"

/* ---- admit_bound_leases.c: leases that end with a connection, or have further parts ---- */

struct bound_lease;
struct bound_connection;
struct rpc_admission_worker;

struct bound_leases {
    pthread_mutex_t lock;
    atomic_size_t n;
    struct hash_table leases;      /* struct bound_lease, by lease */
    struct hash_table connections; /* struct bound_connection, by its number */
    struct heap until;             /* the lease that expires first is the first */
    SLIST_HEAD(, bound_lease) spare_leases;
    SLIST_HEAD(, bound_connection) spare_connections;
};

/* What ends with a lease, besides the lease at the gate. */
struct bound_parts {
    struct admit_pending *account; /* its charge at the remote store; null: none */
    struct slots *slots;           /* the caller's own, a reference is held; null: none */
    tg_lease slot;                 /* its lease there */
};

void bound_leases_init(struct bound_leases *bound);
void bound_leases_fini(struct bound_leases *bound);

/* `connection` 0: none. False: no memory. */
bool bound_leases_add(struct bound_leases *bound, tg_lease lease, uint64_t connection,
                      const struct bound_parts *parts, tg_ms until);

/* It has been renewed, and its slot with it. A lease that is not here is ignored. */
void bound_leases_renew(struct bound_leases *bound, tg_lease lease, tg_ms now, tg_ms until);

/* It has ended. Its parts are the caller's to end; all 0: it is not here. */
struct bound_parts bound_leases_drop(struct bound_leases *bound, tg_lease lease);

/* Removes one that ends with the connection; 0: there is none. */
tg_lease bound_leases_take(struct bound_leases *bound, uint64_t connection,
                           struct bound_parts *parts);

/* Whether there is one to take. */
bool bound_leases_has(struct bound_leases *bound, uint64_t connection);

/* Removes one that has expired; 0: there is none. */
tg_lease bound_leases_take_expired(struct bound_leases *bound, tg_ms now,
                                   struct bound_parts *parts);

/* What all workers share. */
struct admit {
    uint8_t key[SIPHASH_KEY]; /* the secret of lease ids */
    struct bound_leases bound;
};

/* What the service keeps on a worker; of its thread. */
struct admit_worker {
    LIST_HEAD(, admit_pending) accounts; /* questions whose leases were charged at its port */
    LIST_HEAD(, admit_pending) spare;    /* structs of questions that have ended */
    struct rpc_admission_worker *rpc;    /* for gRPC; null: listen.grpc is not set */
};

/* ---- admit_lease.c: the ids of leases ---- */

/* The contents of an id. */
struct admit_lease {
    tg_lease lease;
    tg_ms ttl;
    bool is_bound; /* it is among the bound leases */
};

#define ADMIT_TTL_MAX ((tg_ms)1 << 46) /* the longest time to live that fits into an id */

/* The secret of lease ids, and what is to end with a connection. False: no memory, or the system
 * gives no randomness. */
bool admit_new(struct admit **admit);
void admit_free(struct admit *admit);

void admit_lease_write(const struct gateway *gateway, const char *caller,
                       const struct admit_lease *lease, char text[ADMIT_LEASE_BYTES]);

/* False: it was not made by this process, or not for this caller. */
bool admit_lease_read(const struct gateway *gateway, const char *caller, struct slice text,
                      struct admit_lease *lease);

/* ---- admit_check.c: who asks, and what it may ---- */

/* Null: it is no caller any more, and `reply` says so. */
const struct config_caller *admit_entry(struct worker *worker, struct admit_caller *caller,
                                        struct admit_reply *reply);

/* Whether every field of the ask may be stated and is in its range; else `reply` says which is
 * not. */
bool admit_check(const struct worker *worker, const struct config_caller *entry,
                 const struct admit_ask *ask, struct admit_reply *reply);

/* Makes the reply an error. */
void admit_fail(struct admit_reply *reply, enum admit_status status, const char *field,
                const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Replaces what is not UTF-8 in a message, maybe a name that was cut, by "?". */
void admit_mend_text(char message[ADMIT_TEXT_MAX]);

/* ---- admit_core.c: one question, from its ask to its reply ----
 *
 *             START                        WAKE, STORE_ANSWER
 *     READY ---------> (its admission run) <-----------------> RUNNING
 *       |                   |    |
 *       |                   |    `---------------> ACCOUNT    its charge at the remote store stays,
 *       | PEEK              v                         |       until its lease has ended
 *       |-----------------> SPARE <-------------------'
 *       |                   ^   ^      CLOSE
 *       `------> PEEKING ---'   `--- CANCEL, from RUNNING and PEEKING
 *                      PEEK_ANSWER
 *
 *                     SPARE   READY   RUNNING       PEEKING   ACCOUNT
 *     START           -       decide  -             -         -
 *     PEEK            -       peek    -             -         -
 *     WAKE            -       -       if it waits   -         -
 *     STORE_ANSWER    -       -       if it asks    -         -
 *     PEEK_ANSWER     -       -       -             reply     -
 *     CANCEL          -       -       end           end       -
 *     CLOSE           -       -       -             -         settle
 *
 * admit_step() is the one function that moves, and asserts where the table has a dash. Whoever
 * asked hears of a decision exactly once, by done(), after the question is back in the stock or has
 * become an account: so done() may ask again and get the same struct.
 */

/* What the gate is asked. */
struct admit_question {
    const struct config_caller *entry;
    struct admit_ask ask;               /* its texts are the transport's, until they are copied */
    const struct config_tenant *tenant; /* null: a name that is no tenant's */
    struct slice model;                 /* after aliases */
    struct tg_scope scopes[TG_SCOPES_MAX];
    struct tg_call call;
};

enum admit_state {
    ADMIT_SPARE,   /* in the stock of its worker */
    ADMIT_READY,   /* it is described, and nothing has been asked */
    ADMIT_RUNNING, /* its admission run waits, for a slot or for the remote store */
    ADMIT_PEEKING, /* a peek that waits for the remote store */
    ADMIT_ACCOUNT, /* it is answered, and stays until its lease has ended */
};

enum admit_event_kind {
    ADMIT_START,
    ADMIT_PEEK,
    ADMIT_WAKE,         /* the gate's wake(), or the deadline of the wait */
    ADMIT_STORE_ANSWER, /* the remote store's decision */
    ADMIT_PEEK_ANSWER,  /* what the remote store would decide */
    ADMIT_CANCEL,       /* whoever asked is gone */
    ADMIT_CLOSE,        /* the lease of an account has ended */
    ADMIT_EVENT_COUNT
};

struct admit_event {
    enum admit_event_kind kind;
    enum tg_err err; /* STORE_ANSWER, PEEK_ANSWER: TG_OK and the axes, or why there are none */
    const struct tg_axes *axes;
    int64_t actual; /* CLOSE: what the call has cost; negative: its estimate */
};

struct admit_pending {
    struct worker *worker;
    struct generation *generation; /* a reference is held from its first wait on; null: not yet */
    enum admit_state state;
    struct admit_question question;
    struct own_slot own;      /* at the slots of its caller, if it has some */
    struct slots *slots;      /* these; null: none */
    struct admission_run run; /* at the gate of all calls; without one: `limits_only` */
    tg_ms began_at;
    struct waiter waiter;
    struct net_timer timer;
    struct record_trail trail; /* what was done at its gates, for --record */
    struct remote_claim debit;
    struct remote_peek peek;
    struct tg_answer seen; /* what a peek saw of the stages before the limits */
    admit_done *done;
    void *context;
    struct net_post closing;        /* posts CLOSE to its worker, */
    int64_t actual;                 /* with what the call has cost */
    LIST_ENTRY(admit_pending) list; /* in the stock, or among the accounts of its worker */
    char texts[4][ADMIT_NAME_MAX];  /* copies of tenant, peer, model, user, once it waits */
};

/* The one function that moves a question: returns the state that it has moved to. After SPARE and
 * ACCOUNT the struct may be somebody else's. */
enum admit_state admit_step(struct admit_pending *pending, const struct admit_event *event);

/* Fills in the call out of entry and ask. */
enum tg_err admit_describe(const struct generation *generation, struct admit_question *question,
                           struct tg_problem *problem);

/* The reply to a decision, without its lease. */
void admit_reply_of(const struct tg_answer *answer, const struct tg_call *call,
                    struct admit_reply *reply);

/* The reply where there is no decision. */
void admit_reply_error(enum tg_err err, struct admit_reply *reply);

/* A question in READY. Null: `reply` says why. `entry` is whose question it is; null if that is not
 * known. */
struct admit_pending *admit_pending_open(struct worker *worker, struct admit_caller *caller,
                                         const struct admit_ask *ask,
                                         const struct config_caller **entry,
                                         struct admit_reply *reply);

/* ---- admit_peek.c: the handlers of a peek; they return the next state, as in admit_core.c ---- */

enum admit_state admit_peek_begin(struct admit_pending *pending, struct admit_reply *reply);
enum admit_state admit_peek_answered(struct admit_pending *pending, enum tg_err err,
                                     const struct tg_axes *axes, struct admit_reply *reply);

/* ---- admit_pending.c: the stock, and what a question keeps ---- */

/* Out of the worker's stock, and back, when its run has ended. Null: no memory. */
struct admit_pending *admit_pending_get(struct worker *worker);
void admit_pending_put(struct admit_pending *pending);

/* It will outlast the transport's message, and maybe its generation: copies the texts and holds the
 * generation. Again: nothing. */
enum tg_err admit_pending_keep(struct admit_pending *pending);

/* It is an account, until its lease has ended. Whoever ends the lease closes the account, once,
 * from any thread; its own worker settles the charge. `actual` negative: the estimate stands. */
void admit_account_open(struct admit_pending *account);
void admit_account_close(struct admit_pending *account, int64_t actual);

/* ---- admit_report.c ---- */

/* Reports one question, once it has its reply. */
void admit_report(struct worker *worker, const struct generation *generation,
                  const struct admit_question *question, tg_ms began_at,
                  const struct tg_answer *answer, const struct admit_reply *reply,
                  struct record_trail *trail);

/* Records one whose caller has left before it had its reply: nobody else hears of it. */
void admit_record_left(struct worker *worker, const struct generation *generation,
                       const struct admit_question *question, tg_ms began_at,
                       struct record_trail *trail);

/* An error that came before there was a question. `entry` may be null. */
void admit_report_error(struct worker *worker, const struct config_caller *entry,
                        const struct admit_reply *reply);
void admit_report_refusal(struct worker *worker, const struct config_caller *entry,
                          const struct refusal *why);

/* ---- admit_pending.c, of a worker ---- */

bool admit_worker_start(struct worker *worker, struct tg_problem *problem);

/* After its last request. */
void admit_worker_stop(struct worker *worker);

#endif
