/* admit_internal.h - the parts of the Admit service, for one another: admit_*.c alone. */
#ifndef TG_ADMIT_ADMIT_INTERNAL_H
#define TG_ADMIT_ADMIT_INTERNAL_H

#include "lib/core/heap.h"
#include "server/admit/admit.h"
#include "server/admit/siphash.h"
#include "server/remote/remote.h"

/* ---- admit_bound_leases.c: leases that end with a connection, or have an account ---- */

struct tie;

struct ties {
    pthread_mutex_t lock;
    atomic_size_t n;
    struct tie **leases, **connections; /* `room` chains each; null: there are none yet */
    size_t room;
    struct heap until; /* the first to end by its time is the first */
    struct tie *spare;
};

void ties_init(struct ties *ties);
void ties_fini(struct ties *ties);

/* `connection` 0, `account` null: none. False: no memory. */
bool ties_add(struct ties *ties, tg_lease lease, uint64_t connection, struct admit_pending *account,
              tg_ms until);

/* It has been renewed. Of one that is not here: nothing. */
void ties_renew(struct ties *ties, tg_lease lease, tg_ms until);

/* It has ended. Its account is the caller's to close; null: none. */
struct admit_pending *ties_drop(struct ties *ties, tg_lease lease);

/* Takes one out that ends with the connection; 0: there is none. */
tg_lease ties_take(struct ties *ties, uint64_t connection, struct admit_pending **account);

/* Whether there is one to take. */
bool ties_has(struct ties *ties, uint64_t connection);

/* Those that have ended by their time. close() may only post. */
void ties_expire(struct ties *ties, tg_ms now, void (*close)(struct admit_pending *account));

/* What is one for all workers. */
struct admit {
    uint8_t key[SIPHASH_KEY]; /* of lease ids */
    struct ties ties;
};

/* ---- admit_lease.c: the ids of leases ---- */

/* What an id says. */
struct admit_lease {
    tg_lease lease;
    tg_ms ttl;
    bool is_tied; /* it is written down */
};

#define ADMIT_TTL_MAX ((tg_ms)1 << 46) /* what an id has room for */

void admit_lease_write(const struct gateway *gateway, const char *caller,
                       const struct admit_lease *lease, char text[ADMIT_LEASE_BYTES]);

/* False: it is none of this process, or not this caller's. */
bool admit_lease_read(const struct gateway *gateway, const char *caller, struct slice text,
                      struct admit_lease *lease);

/* ---- admit_check.c: who asks, and what it may ---- */

/* Null: it is none any more, and `reply` says so. */
const struct config_caller *admit_entry(struct worker *worker, struct admit_caller *caller,
                                        struct admit_reply *reply);

/* Whether every field of the ask may be stated and is in its range; else `reply` says which is
 * not. */
bool admit_check(const struct worker *worker, const struct config_caller *entry,
                 const struct admit_ask *ask, struct admit_reply *reply);

/* An error. */
void admit_fail(struct admit_reply *reply, enum admit_status status, const char *field,
                const char *format, ...) __attribute__((format(printf, 4, 5)));

/* What is no UTF-8 in a message, maybe a name that was cut, becomes "?". */
void admit_mend_text(char message[ADMIT_TEXT_MAX]);

/* ---- admit_core.c ---- */

/* What the gate is asked. */
struct admit_question {
    const struct config_caller *entry;
    struct admit_ask ask;               /* its texts are whoever's: see admit_core.c */
    const struct config_tenant *tenant; /* null: a name that is no tenant's */
    struct slice model;                 /* after aliases */
    struct tg_scope scopes[TG_SCOPES_MAX];
    struct tg_call call;
};

/* Fills in the call out of entry and ask. */
enum tg_err admit_describe(const struct generation *generation, struct admit_question *question,
                           struct tg_problem *problem);

/* Of a decision: all but the lease. */
void admit_reply_of(const struct tg_answer *answer, const struct tg_call *call,
                    struct admit_reply *reply);

/* ---- admit_pending.c: a question, from its ask on ---- */

enum admit_state {
    ADMIT_ASKED,
    ADMIT_QUEUED,   /* it waits for a slot */
    ADMIT_AT_STORE, /* it waits for what several gateways share, or was decided there */
    ADMIT_LOOKING,  /* a peek that waits for what is there */
    ADMIT_ACCOUNT,  /* it is answered, and stays until its lease has ended */
};

struct admit_pending {
    struct worker *worker;
    struct generation *generation; /* held, from its first wait on; null: not yet */
    enum admit_state state;
    struct admit_question question;
    tg_lease lease; /* on its way to one */
    tg_ms began_at;
    struct waiter waiter;
    struct net_timer timer;
    struct remote_claim debit;
    struct remote_peek peek;
    struct tg_answer seen; /* of a peek: by the stages before the limits */
    admit_done *done;
    void *context;
    struct net_post closing;            /* of an account, */
    int64_t actual;                     /* with what was used */
    struct admit_pending *next, **from; /* in the stock, or among the accounts of its worker */
    char texts[4][ADMIT_NAME_MAX];      /* tenant, peer, model, user: of one that is held */
};

/* Out of the worker's stock, and back: with all that it holds here, but not its lease. Null: no
 * memory. */
struct admit_pending *admit_pending_get(struct worker *worker);
void admit_pending_put(struct admit_pending *pending);

/* It will outlast the transport's message, and maybe its generation. */
enum tg_err admit_pending_keep(struct admit_pending *pending);

/* In admit_core.c: one with its question, described. Null: `reply` says why. `entry` is whose
 * question it is; null if that is not known. */
struct admit_pending *admit_pending_open(struct worker *worker, struct admit_caller *caller,
                                         const struct admit_ask *ask,
                                         const struct config_caller **entry,
                                         struct admit_reply *reply);

/* In admit_core.c: what its waiter and its timer do. */
void admit_pending_woken(void *pending);

/* It stays until its lease has ended, and is settled then: by its own worker, whoever closes it,
 * from any thread, once. `actual` negative: the estimate stands. */
void admit_account_open(struct admit_pending *account);
void admit_account_close(struct admit_pending *account, int64_t actual);

/* ---- admit_report.c ---- */

/* What is told of one question, once it has its reply. */
void admit_report(struct worker *worker, const struct generation *generation,
                  const struct admit_question *question, tg_ms began_at,
                  const struct tg_answer *answer, const struct admit_reply *reply);

/* An error that came before there was a question. `entry` may be null. */
void admit_report_error(struct worker *worker, const struct config_caller *entry,
                        const struct admit_reply *reply);
void admit_report_refusal(struct worker *worker, const struct config_caller *entry,
                          const struct refusal *why);

#endif
