/* remote.h - what several gateways share, when `store` is Redis: limits, money, keys, who is alive.
 *
 *     services:   remote_claim          rate and cost units of a call        remote_claim.c
 *                 remote_peek           the same, without taking any         remote_peek.c
 *                 remote_reservation    money of a call                      remote_reservation.c
 *                 remote_key_claim      a provider's key                     remote_key_claim.c
 *                        |
 *                 remote_port           one for each thread with a loop: its connection to Redis
 *                        |
 *                 remote                one for the process: who decided what, how many gateways
 *
 *     below:      remote_store/         what is kept in Redis, and the scripts that keep it
 *                 io/redis/             the client
 *
 * A request to Redis is sent by the worker whose call needs it, and answered on its loop. Whoever
 * asks gets an answer within `store_timeout`, and at once while Redis is known to be down. Then
 * `store_failure` decides, in this room and nowhere else:
 *
 *     local    limits: this gateway's share of each, counted in the gateway's own store
 *              keys: what this gateway knows of them
 *              money: what this gateway holds of each budget
 *     open     yes
 *     closed   an error, reported as such: never as a limit of the client's
 *
 * A yes that comes after its call has ended, or was decided without it, is refunded.
 *
 * A port belongs to its thread. With `store: memory` there is neither.
 */
#ifndef TG_REMOTE_REMOTE_H
#define TG_REMOTE_REMOTE_H

#include <pthread.h>
#include <stdatomic.h>

#include "io/redis/redis.h"
#include "server/config/config.h"
#include "server/remote_store/remote_blocks.h"
#include "server/remote_store/remote_keys.h"
#include "server/remote_store/remote_limits.h"
#include "server/remote_store/remote_money.h"
#include "server/remote_store/remote_nodes.h"
#include "server/remote_store/remote_objects.h"
#include "server/tenancy/limit_book.h"

struct ledger;
struct log_lane;
struct recent;

/* How a question was decided. */
#define REMOTE_MODES(X)                                                                            \
    X(REDIS, redis)                                                                                \
    X(BLOCKS, blocks) /* units that were leased before */                                          \
    X(LOCAL, local)                                                                                \
    X(OPEN, open)                                                                                  \
    X(CLOSED, closed)

enum remote_mode {
#define REMOTE_MODE_ENUM(upper, lower) REMOTE_##upper,
    REMOTE_MODES(REMOTE_MODE_ENUM)
#undef REMOTE_MODE_ENUM
        REMOTE_MODE_COUNT
};

#define REMOTE_KINDS(X) X(LIMITS, limits) X(BUDGET, budget) X(KEYS, keys)

enum remote_kind {
#define REMOTE_KIND_ENUM(upper, lower) REMOTE_##upper,
    REMOTE_KINDS(REMOTE_KIND_ENUM)
#undef REMOTE_KIND_ENUM
        REMOTE_KIND_COUNT
};

/* What the process gives to be shared; borrowed until remote_free(). */
struct remote_setup {
    const char *node; /* the name of this process among others */
    uint64_t seed;
    struct tg_store *store; /* counts what is decided without Redis */
};

/* What one generation of the configuration says here. It is a part of the generation, and lives as
 * long. */
struct remote_terms {
    uint64_t generation;                 /* its number */
    const struct config_store *store;    /* who decides while Redis is away, one tier or two */
    const struct limit_listing *listing; /* the limits that Redis has to know */
    bool strict; /* Redis is asked for each decision about limits, in two tiers too */
};

static inline bool remote_uses_blocks(const struct remote_terms *terms)
{
    return terms->store->two_tier && !terms->strict;
}

struct remote {
    struct remote_setup setup;
    struct spending *spending; /* this gateway's own books; null until budgets have been set */
    struct redis_options options;
    char prefix[160];
    tg_ms block; /* size of a block, with two tiers */
    struct remote_money *money;
    atomic_llong nodes; /* gateways that live, this one too; 1 until it is known */
    long long divided;  /* the number that shares are divided by; the control thread's */
    atomic_int ports, ports_up;
    atomic_bool met; /* Redis has been there for one of them */
    atomic_ullong decided[REMOTE_KIND_COUNT][REMOTE_MODE_COUNT];
    atomic_ullong commands;   /* commands sent to Redis */
    atomic_ullong late, lost; /* answers that came after their time, or never */
    atomic_ullong errors;     /* replies that were errors */
    atomic_ullong waiting;    /* deferred updates: refunds, settlements, debts */
    atomic_ullong dropped;    /* deferred updates that were lost */
    atomic_bool useless;      /* Redis is connected, and yet most is decided without it */
    struct remote_use {       /* the control thread's: what was decided at its last check */
        tg_ms at;
        int waited; /* checks, for ports to report errors */
        unsigned long long errors;
        unsigned long long with[REMOTE_KIND_COUNT], without[REMOTE_KIND_COUNT];
    } use;
    pthread_mutex_t lock;
    char problem[240]; /* the last, of any port */
};

/* Reads the URL, the certificates. Null and true for `store: memory`. */
bool remote_new(const struct remote_setup *setup, const struct config *config,
                struct remote **remote, struct tg_problem *problem);
void remote_free(struct remote *remote);

/* Budgets have been opened, or changed: what the ledger says of them is for Redis to know. Reads
 * the disk. */
bool remote_set_budgets(struct remote *remote, struct spending *spending,
                        const struct ledger *ledger, tg_ms now, struct tg_problem *problem);

/* While processes that were taken over from settle through the same ledger, and once more after the
 * last: what they settle comes to Redis from the books here. Reads the disk. False: call it again a
 * second later. `remote` may be null. */
bool remote_share_ledger(struct remote *remote, bool shared, tg_ms now);

/* Another process has taken over, and speaks for the ledger. `remote` may be null. */
void remote_retire(struct remote *remote);

/* Where `divide` says that a limit of calls at once is one of all gateways: this one's part, as
 * many as live now; 1 at least. `remote` may be null: the whole. */
void remote_divide_law(const struct remote *remote, const struct config_concurrency *config,
                       struct tg_law_config *law);
void remote_divide_peer(const struct remote *remote, const struct config_gate *gate,
                        struct tg_call *call);

/* Each gateway counts its own calls in flight: its part of the overdrafts of a call's limits. */
void remote_divide_overdrafts(const struct remote *remote, struct tg_scope *scopes, size_t n);

struct remote_port {
    struct remote *remote;
    struct net_loop *loop;
    struct redis *redis;
    struct remote_limits *limits;
    struct remote_blocks *blocks;
    struct recent *recent; /* what was heard of limits */
    struct remote_money_port *money;
    struct remote_keys *keys;
    struct remote_objects *objects; /* whose objects at providers are whose */
    struct remote_nodes *nodes;     /* null, except for the control thread */
    struct redis_stats seen;        /* at the last tick, for the sums in `remote` */
    struct remote_limits_stats seen_limits;
    bool up;
    struct net_timer timer; /* the next tick */
};

/* Begins to connect. `beats`: it is this one that tells the others that we live. Null and true
 * where nothing is shared. */
bool remote_port_new(struct remote *remote, struct net_loop *loop, bool beats,
                     struct remote_port **port, struct tg_problem *problem);

/* No claim, peek or reservation of this port may be left. Returns what was leased in advance, and
 * waits for that a moment at most. */
void remote_port_free(struct remote_port *port);

/* Whose objects are whose: see remote_objects.h. */
static inline struct remote_objects_ask *remote_port_find_objects(
    struct remote_port *port, const uint8_t (*hashes)[REMOTE_OBJECT_HASH], size_t n,
    struct slice tenant, const struct remote_objects_ops *ops, void *context)
{
    return remote_objects_find(port->objects, hashes, n, tenant, ops, context);
}

static inline void remote_port_put_object(struct remote_port *port,
                                          const struct remote_object *object, bool listed,
                                          tg_ms life, remote_object_refused *refused, void *context)
{
    remote_objects_put(port->objects, object, listed, life, refused, context);
}

static inline void remote_port_drop_object(struct remote_port *port,
                                           const struct remote_object *object)
{
    remote_objects_drop(port->objects, object);
}

/* Whether all ports have their connection, some, or none: what `/readyz`, a metric and the log say.
 * With memory, where `remote` is null, it is well. */
enum remote_health { REMOTE_WELL, REMOTE_DEGRADED, REMOTE_DOWN, REMOTE_STATE_COUNT };

enum remote_health remote_health_of(const struct remote *remote);
const char *remote_health_name(enum remote_health state); /* "ok", "degraded", "down" */

/* What went wrong last, as far as it is known; "" if nothing. */
void remote_problem(struct remote *remote, char *text, size_t bytes);

static inline enum remote_mode remote_mode_of(enum config_away away)
{
    switch (away) {
    case CONFIG_AWAY_LOCAL:
        return REMOTE_LOCAL;
    case CONFIG_AWAY_OPEN:
        return REMOTE_OPEN;
    default:
        return REMOTE_CLOSED;
    }
}

const char *remote_mode_name(enum remote_mode way);
const char *remote_kind_name(enum remote_kind what);

/* ---- Rate and cost --------------------------------------------------------------------------- */

/* Where the units of a claim are counted in this process, besides Redis. */
enum { CLAIM_IN_STORE = 1, CLAIM_IN_RECENT = 2 };

/* A claim: the rate and cost units of one call, which its gate leaves to us; asked for and ended by
 * the call's admission run (admission_run.h). It stands in the call's storage, zeroed at first.
 *
 *                                 yes
 *     IDLE --- take ---> ASKING ----------------------------> CHARGED
 *                          | \ no: IDLE                          ^
 *                 no reply |                                     |
 *          `store_failure` |  the reply may come yet         yes |
 *                   admits |---------------------------> LATE ---'
 *                          |                               | no
 *                          |  it will not come             v
 *                          '---------------------------> DEBT
 *
 * settle and refund lead from every state to IDLE, where they do nothing. On the way they cancel
 * the request (ASKING), settle or refund what was charged (CHARGED), send what the share has
 * admitted (DEBT), or leave that to the reply (LATE). Where `store_failure` is open there is no
 * DEBT: such a claim is IDLE. So is one that `store_failure` refuses, and a yes that comes for it
 * later is refunded by remote_limits. */
enum remote_claim_state {
    CLAIM_IDLE,    /* nothing is counted anywhere */
    CLAIM_ASKING,  /* waits for Redis, or for a block */
    CLAIM_CHARGED, /* in Redis, or to a block: `mode` says which */
    CLAIM_LATE,    /* admitted without Redis; the reply that is on its way will have charged it */
    CLAIM_DEBT,    /* admitted without Redis, which learns of it when the call has ended */
};

struct remote_claim {
    enum remote_claim_state state;
    enum remote_mode mode; /* who decides, or has decided */
    void (*decided)(struct remote_claim *claim, enum tg_err err, const struct tg_axes *axes);
    struct remote_port *port;
    const struct remote_terms *terms; /* the generation's, held by the call */
    struct tg_debit debit; /* a copy; its texts must not change until the claim has ended */
    struct remote_limits_ask *limits_ask; /* in flight: ASKING or LATE; null: none */
    struct remote_blocks_ask *blocks_ask; /* waits for a block: ASKING; null: does not */
    struct remote_blocks_charge charge;   /* CHARGED: what a settlement has to know */
    unsigned counted;                     /* CLAIM_IN_STORE, CLAIM_IN_RECENT: also counted here */
    tg_ms counted_at;                     /* when it was counted, or decided, here */
};

/* Asks. True: it is decided, `err` and `axes` say how. False: decided() comes from the loop. */
bool remote_take(struct remote_port *port, struct remote_claim *claim,
                 const struct remote_terms *terms, const struct tg_debit *debit,
                 void (*decided)(struct remote_claim *claim, enum tg_err err,
                                 const struct tg_axes *axes),
                 enum tg_err *err, struct tg_axes *axes);

static inline bool remote_is_asking(const struct remote_claim *claim)
{
    return claim->state == CLAIM_ASKING;
}

/* Ends the claim in whatever state, any number of times: what is in flight is cancelled, and
 * refunded if it was a yes. `actual` replaces the cost of what was charged; negative: the estimate
 * stands. */
void remote_claim_settle(struct remote_claim *claim, int64_t actual);

/* The same, and nothing stays charged. */
void remote_claim_refund(struct remote_claim *claim);

/* Asks what remote_take() would answer. It stands in the caller's storage, zeroed at first. */
struct remote_peek {
    void (*seen)(struct remote_peek *peek, enum tg_err err, const struct tg_axes *axes);
    struct remote_port *port;
    const struct remote_terms *terms; /* their generation is held by who asks */
    const struct tg_debit *what;      /* must not change until seen() */
    struct remote_limits_ask *ask;    /* on its way; null: not */
    struct tg_axes here;              /* two tiers: what blocks here say of some limits, */
    struct remote_blocks_rest rest;   /* and which others Redis is asked about */
    enum remote_mode mode;            /* who would decide a claim; blocks: some of its limits */
    bool again;                       /* a block that was on its way then has been waited for */
};

/* Looks, and takes nothing; nor is it counted as a decision. Where Redis cannot be asked in time,
 * `store_failure` decides as it does of takes. True: `err` and `axes` say what was seen. False:
 * seen() comes from the loop. */
bool remote_peek(struct remote_port *port, struct remote_peek *peek,
                 const struct remote_terms *terms, const struct tg_debit *what,
                 void (*seen)(struct remote_peek *peek, enum tg_err err,
                              const struct tg_axes *axes),
                 enum tg_err *err, struct tg_axes *axes);

/* Whether the store has refused the same debit for its rate so lately that it need not be asked: by
 * what is known here alone. `axes` says what it said. */
bool remote_is_refused(struct remote_port *port, const struct remote_terms *terms,
                       const struct tg_debit *what, struct tg_axes *axes);

/* In whatever state, and again: seen() does not come any more. */
void remote_peek_end(struct remote_peek *peek);

/* ---- Money ----------------------------------------------------------------------------------- */

/* What a call may cost, reserved at what all gateways have spent; in the call's storage, zeroed at
 * first. Asked after the gateway's own books (spending.h), which it is settled after, too. */
struct remote_reservation {
    void (*decided)(struct remote_reservation *money, enum tg_err err,
                    const struct tg_money_answer *answer);
    struct remote_port *port;
    const struct remote_terms *terms;   /* their generation is held by the call */
    struct spending_call call;          /* points into the call */
    struct remote_money_ask *ask;       /* on its way; null: not */
    enum remote_money_by by;            /* who decides, if the store is there */
    struct remote_money_ticket *ticket; /* not null: reserved */
    bool away;                          /* it was decided without Redis */
};

/* How long a reservation may take. A call whose limits were late has waited once: both together are
 * to be less than twice, which is 50 ms by default. */
static inline tg_ms remote_reservation_timeout(tg_ms store_timeout)
{
    return store_timeout > 1 ? store_timeout * 4 / 5 : 1;
}

/* True: it is decided, `err` and `answer` say how; `reservation` 0 is a no. False: decided() comes
 * from the loop. */
bool remote_reserve(struct remote_port *port, struct remote_reservation *money,
                    const struct remote_terms *terms, const struct spending_call *call,
                    void (*decided)(struct remote_reservation *money, enum tg_err err,
                                    const struct tg_money_answer *answer),
                    enum tg_err *err, struct tg_money_answer *answer);

/* What a reservation would be told; in the caller's storage, zeroed at first. */
struct remote_reservation_peek {
    void (*seen)(struct remote_reservation_peek *peek, enum tg_err err,
                 const struct tg_money_answer *answer);
    struct remote_port *port;
    const struct remote_terms *terms; /* their generation is held by who asks */
    struct spending_call call;        /* its texts must not change until seen() */
    struct remote_money_ask *ask;     /* on its way; null: not */
    enum remote_mode mode;            /* who would decide: Redis, or without it `store_failure` */
    struct remote_money_view views[REMOTE_MONEY_VIEWS];
    size_t n; /* views */
};

/* Like remote_reserve(), but reserves nothing, and is counted nowhere. */
bool remote_reservation_peek(struct remote_port *port, struct remote_reservation_peek *peek,
                             const struct remote_terms *terms, const struct spending_call *call,
                             void (*seen)(struct remote_reservation_peek *peek, enum tg_err err,
                                          const struct tg_money_answer *answer),
                             enum tg_err *err, struct tg_money_answer *answer);

/* In whatever state, and again: seen() does not come any more. */
void remote_reservation_peek_end(struct remote_reservation_peek *peek);

/* Ends it, in whatever state, and again. As in spending_settle(): negative is not known, 0 gives
 * everything back. */
void remote_reservation_settle(struct remote_reservation *money, tg_micro spent);

/* ---- Keys ------------------------------------------------------------------------------------ */

enum { REMOTE_KEY_TEXT = 160 }; /* a name of a provider, model, key or group */

/* A provider's key that the ring has leased to a call, taken where all gateways' use of it is added
 * up; in the call's storage, zeroed at first. */
struct remote_key_claim {
    bool unasked; /* Redis need not be asked, or not again: see remote_key_claim.c */
    void (*decided)(struct remote_key_claim *key, enum tg_err err, const struct tg_key_hold *hold);
    struct remote_port *port;
    const struct remote_terms *terms; /* their generation is held by the call */
    struct remote_key *asked;         /* on its way; null: not */
    struct remote_key *held;
    struct remote_key *kept; /* taken on this gateway's own word; a late yes is its own; or null */
    atomic_llong *asked_at;  /* when a gateway last asked about this key; null: nobody asked */
    struct net_timer timer;  /* until the request is cancelled; or a no is told */

    /* Two tiers: its windows. */
    struct tg_keyring *ring;
    tg_key_lease lease;
    tg_ms patience, taken_at;
    struct remote_blocks_ask *blocks_ask; /* waits for a block; null: does not */
    struct remote_blocks_charge charge;   /* `leased`: what a settlement has to know */
    bool leased;                          /* units of its windows were taken from blocks */
    bool owes; /* either tier: taken on this gateway's own word, to be told at the end */
    struct tg_key_hold hold; /* a no that is about to be told */
};

/* True: it is decided: TG_OK, it is the call's; else `err`. False: decided() comes from the loop,
 * in `patience` at the latest, and a hold that is not null is a no, which tg_keyring_hold_off() has
 * to hear of. */
bool remote_key_claim_take(struct remote_port *port, struct remote_key_claim *key,
                           const struct remote_terms *terms, struct tg_keyring *ring,
                           tg_key_lease lease, atomic_llong *asked_at, tg_ms patience,
                           void (*decided)(struct remote_key_claim *key, enum tg_err err,
                                           const struct tg_key_hold *hold),
                           enum tg_err *err);

/* Ends the lease at the ring and here, in whatever state: how the attempt ended. */
void remote_key_claim_give(struct remote_key_claim *key, struct tg_keyring *ring,
                           tg_key_lease lease, tg_ms now, const struct tg_key_report *report);

/* Asks what remote_key_claim_take() would answer. It stands in the caller's storage, zeroed at
 * first. */
struct remote_key_peek {
    void (*seen)(struct remote_key_peek *peek, const struct tg_key_hold *hold);
    struct remote_port *port;
    const struct remote_terms *terms; /* their generation is held by who asks */
    struct remote_key *asked;         /* on its way; null: not */
    enum remote_mode mode;            /* Redis; else what `store_failure.limits` says */

    /* Two tiers: what is asked about, with and without its windows. */
    struct tg_key_terms what, state;
    char texts[4][REMOTE_KEY_TEXT];        /* theirs */
    struct remote_limits_ask *windows_ask; /* on its way; null: not */
    struct tg_axes here;                   /* what blocks here say of some windows, */
    struct remote_blocks_rest rest;        /* and which others Redis is asked about */
};

/* Looks, and takes nothing; nor is it counted. True: a call would not ask, or cannot. False: seen()
 * comes from the loop, and a hold that is not null is a no. The terms are copied. */
bool remote_key_peek(struct remote_port *port, struct remote_key_peek *peek,
                     const struct remote_terms *terms, const struct tg_key_terms *what,
                     const atomic_llong *asked_at,
                     void (*seen)(struct remote_key_peek *peek, const struct tg_key_hold *hold));

/* In whatever state, and again: seen() does not come any more. */
void remote_key_peek_end(struct remote_key_peek *peek);

#endif
