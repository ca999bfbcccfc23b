/* shared.h - what several gateways share, when `store` is Redis: limits, money, keys, who is there.
 *
 *     shared           of the process: what was decided where, how many gateways there are
 *     shared_port      of a thread that has a loop: its connection, and what it asks by it
 *
 * A question to Redis is asked by the worker whose call needs it, and answered on its loop. Whoever
 * asks gets an answer within `store_timeout`, and at once while Redis is known to be away: then
 * `store_failure` decides, here and nowhere else:
 *
 *     local    limits: this gateway's share of each, counted in the gateway's own store
 *              keys: what this gateway knows of them
 *              money: this gateway's share of each budget, by what it has spent itself
 *     open     yes
 *     closed   an error, told as what it is: never as a limit of the client's
 *
 * A yes that comes after its call has gone, or was decided without it, is given back.
 *
 * Everything of a port belongs to its thread. With `store: memory` there is neither.
 */
#ifndef TG_REMOTE_SHARED_H
#define TG_REMOTE_SHARED_H

#include <pthread.h>
#include <stdatomic.h>

#include "io/redis/redis.h"
#include "server/remote/remote_blocks.h"
#include "server/remote/remote_keys.h"
#include "server/remote/remote_limits.h"
#include "server/remote/remote_money.h"
#include "server/remote/remote_nodes.h"
#include "server/runtime/generation.h"

struct gateway;
struct log_lane;
struct recent;

/* How a question was decided. */
#define SHARED_WAYS(X)                                                                             \
    X(REDIS, redis)                                                                                \
    X(BLOCKS, blocks) /* units that were leased before */                                          \
    X(LOCAL, local)                                                                                \
    X(OPEN, open)                                                                                  \
    X(CLOSED, closed)

enum shared_way {
#define SHARED_WAY_ENUM(upper, lower) SHARED_##upper,
    SHARED_WAYS(SHARED_WAY_ENUM)
#undef SHARED_WAY_ENUM
        SHARED_WAY_COUNT
};

#define SHARED_WHATS(X) X(LIMITS, limits) X(BUDGET, budget) X(KEYS, keys)

enum shared_what {
#define SHARED_WHAT_ENUM(upper, lower) SHARED_##upper,
    SHARED_WHATS(SHARED_WHAT_ENUM)
#undef SHARED_WHAT_ENUM
        SHARED_WHAT_COUNT
};

struct shared {
    struct gateway *gateway;
    struct redis_options options;
    char prefix[160];
    tg_ms block; /* of two tiers */
    struct remote_money *money;
    atomic_llong nodes; /* gateways that live, this one too; 1 until it is known */
    long long divided;  /* among how many shares are divided; by the clerk's thread */
    atomic_int ports, ports_up;
    atomic_bool met; /* Redis has been there for one of them */
    atomic_ullong decided[SHARED_WHAT_COUNT][SHARED_WAY_COUNT];
    atomic_ullong commands;   /* that were sent to Redis */
    atomic_ullong late, lost; /* answers that came after their time, or never */
    atomic_ullong errors;     /* answers that were none */
    atomic_ullong waiting;    /* refunds, settlements and debts that Redis is to be told of */
    atomic_ullong dropped;    /* of these, what will never be */
    atomic_bool useless;      /* Redis is connected, and yet most is decided without it */
    struct shared_use {       /* the clerk's: what was decided when it last looked */
        tg_ms at;
        int waited; /* looks, for what ports tell of errors */
        unsigned long long errors;
        unsigned long long with[SHARED_WHAT_COUNT], without[SHARED_WHAT_COUNT];
    } use;
    pthread_mutex_t lock;
    char problem[240]; /* the last, of any port */
};

/* Reads the URL, the certificates. Null and true for `store: memory`. */
bool shared_new(struct gateway *gateway, const struct config *config, struct shared **shared,
                struct tg_problem *problem);
void shared_free(struct shared *shared);

/* Budgets have been opened, or changed: what the ledger says of them is for Redis to know. Reads
 * the disk. */
bool shared_set_budgets(struct shared *shared, tg_ms now, struct tg_problem *problem);

/* Where `divide` says that a limit of calls at once is one of all gateways: this one's part, as
 * many as live now; 1 at least. `shared` may be null: the whole. */
void shared_divide_law(const struct shared *shared, const struct config_concurrency *config,
                       struct tg_law_config *law);
void shared_divide_peer(const struct shared *shared, const struct config_gate *gate,
                        struct tg_call *call);

struct shared_port {
    struct shared *shared;
    struct net_loop *loop;
    struct redis *redis;
    struct remote_limits *limits;
    struct remote_blocks *blocks;
    struct recent *recent; /* what was heard of limits */
    struct remote_money_port *money;
    struct remote_keys *keys;
    struct remote_nodes *nodes; /* of the clerk alone */
    struct redis_stats seen;    /* when it was last looked at, for the sums in `shared` */
    struct remote_limits_stats seen_limits;
    bool up;
    struct net_timer chores;
};

/* Begins to connect. `beats`: it is this one that tells the others that we live. Null and true
 * where nothing is shared. */
bool shared_port_new(struct shared *shared, struct net_loop *loop, bool beats,
                     struct shared_port **port, struct tg_problem *problem);

/* Who waits must have been let go. Gives back what was leased in advance, as far as that goes
 * without waiting. */
void shared_port_free(struct shared_port *port);

/* Whether all ports have their connection, some, or none: what `/readyz`, a metric and the log say.
 * With memory, where `shared` is null, it is well. */
enum shared_state { SHARED_WELL, SHARED_DEGRADED, SHARED_DOWN, SHARED_STATE_COUNT };

enum shared_state shared_state_of(const struct shared *shared);
const char *shared_state_name(enum shared_state state); /* "ok", "degraded", "down" */

/* What went wrong last, as far as it is known; "" if nothing. */
void shared_problem(struct shared *shared, char *text, size_t bytes);

static inline enum shared_way shared_way_of(enum config_away away)
{
    switch (away) {
    case CONFIG_AWAY_LOCAL:
        return SHARED_LOCAL;
    case CONFIG_AWAY_OPEN:
        return SHARED_OPEN;
    default:
        return SHARED_CLOSED;
    }
}

const char *shared_way_name(enum shared_way way);
const char *shared_what_name(enum shared_what what);

/* ---- Rate and cost --------------------------------------------------------------------------- */

/* A debit of a call that its gate has left to us; in the call's storage, zeroed at first. */
struct shared_debit {
    void (*decided)(struct shared_debit *debit, enum tg_err err, const struct tg_axes *axes);
    struct shared_port *port;
    const struct generation *generation; /* held by the call */
    const struct tg_debit *what;         /* of the call: as it is, until the debit has ended */
    struct remote_limits_ask *ask;       /* on its way; null: not */
    struct remote_blocks_ask *block;     /* or waits for a block; null: not */
    enum shared_way way;                 /* that decided */
    bool charged;                        /* in Redis, or to a block */
    struct remote_blocks_charge charge;
    struct remote_limits_ask *late; /* its answer will come, and is what is owed; null: none */
    bool owes;                      /* admitted without Redis, which is to know when it has ended */
    bool recent;                    /* by what was heard a moment ago */
    bool counted;                   /* in the gateway's own store */
    tg_ms counted_at;               /* then */

    /* Of one that a gate waits for: */
    struct tg_gate *gate;
    tg_lease lease;
    void (*answered)(struct shared_debit *debit, enum tg_err err, const struct tg_answer *answer);
};

/* Asks. True: it is decided, `err` and `axes` say how. False: decided() comes from the loop. */
bool shared_take(struct shared_port *port, struct shared_debit *debit,
                 const struct generation *generation, const struct tg_debit *what,
                 void (*decided)(struct shared_debit *debit, enum tg_err err,
                                 const struct tg_axes *axes),
                 enum tg_err *err, struct tg_axes *axes);

static inline bool shared_is_asking(const struct shared_debit *debit)
{
    return debit->ask != NULL || debit->block != NULL;
}

/* The same for a call whose gate has answered TG_NEEDS_STORE, in `answer`: goes on with the gate's
 * decision. True: `err` and `answer` are that; false: answered() comes from the loop. */
bool shared_take_for_gate(struct shared_port *port, struct shared_debit *debit,
                          const struct generation *generation, struct tg_gate *gate,
                          const struct tg_call *call,
                          void (*answered)(struct shared_debit *debit, enum tg_err err,
                                           const struct tg_answer *answer),
                          enum tg_err *err, struct tg_answer *answer);

/* Ends it, in whatever state, and again: what is on its way is forgotten, and given back if it was
 * a yes. Of what was charged: `actual` replaces the cost; negative: the estimate stands. */
void shared_debit_settle(struct shared_debit *debit, int64_t actual);

/* The same, and nothing stays charged. */
void shared_debit_refund(struct shared_debit *debit);

/* A look at what shared_take() would answer; in the storage of who asks, zeroed at first. */
struct shared_peek {
    void (*seen)(struct shared_peek *peek, enum tg_err err, const struct tg_axes *axes);
    struct shared_port *port;
    const struct generation *generation; /* held by who asks */
    const struct tg_debit *what;         /* as it is, until it has been seen */
    struct remote_limits_ask *ask;       /* on its way; null: not */
    struct tg_axes here;                 /* of two tiers: what blocks here say of some limits */
};

/* Looks, and takes nothing; nor is it counted as a decision. Where Redis cannot be asked in time,
 * `store_failure` decides as it does of takes. True: `err` and `axes` say what was seen. False:
 * seen() comes from the loop. */
bool shared_peek(struct shared_port *port, struct shared_peek *peek,
                 const struct generation *generation, const struct tg_debit *what,
                 void (*seen)(struct shared_peek *peek, enum tg_err err,
                              const struct tg_axes *axes),
                 enum tg_err *err, struct tg_axes *axes);

/* In whatever state, and again: seen() does not come any more. */
void shared_peek_end(struct shared_peek *peek);

/* ---- Money ----------------------------------------------------------------------------------- */

/* What a call may cost, reserved at what all gateways have spent; in the call's storage, zeroed at
 * first. Asked after the gateway's own books (spending.h), which it is settled after, too. */
struct shared_money {
    void (*decided)(struct shared_money *money, enum tg_err err,
                    const struct tg_money_answer *answer);
    struct shared_port *port;
    const struct generation *generation; /* held by the call */
    struct spending_call call;           /* points into the call */
    struct remote_money_ask *ask;        /* on its way; null: not */
    struct remote_money_ticket *ticket;  /* not null: reserved */
    bool away;                           /* it was decided without Redis */
};

/* How long a reservation may take. A call whose limits were late has waited once: both together are
 * to be less than twice, which is 50 ms by default. */
static inline tg_ms shared_money_timeout(tg_ms store_timeout)
{
    return store_timeout > 1 ? store_timeout * 4 / 5 : 1;
}

/* True: it is decided, `err` and `answer` say how; `reservation` 0 is a no. False: decided() comes
 * from the loop. */
bool shared_reserve(struct shared_port *port, struct shared_money *money,
                    const struct generation *generation, const struct spending_call *call,
                    void (*decided)(struct shared_money *money, enum tg_err err,
                                    const struct tg_money_answer *answer),
                    enum tg_err *err, struct tg_money_answer *answer);

/* Ends it, in whatever state, and again. As in spending_settle(): negative is not known, 0 gives
 * everything back. */
void shared_money_settle(struct shared_money *money, tg_micro spent);

/* ---- Keys ------------------------------------------------------------------------------------ */

/* A provider's key that the ring has leased to a call, taken where all gateways' use of it is added
 * up; in the call's storage, zeroed at first. */
struct shared_key {
    bool unasked; /* Redis need not be asked, or not again: see shared_keys.c */
    void (*decided)(struct shared_key *key, enum tg_err err, const struct tg_key_hold *hold);
    struct shared_port *port;
    const struct generation *generation; /* held by the call */
    struct remote_key *asked;            /* on its way; null: not */
    struct remote_key *held;
    struct route_key *owner; /* of the key; null: none was looked for */
    struct net_timer timer;  /* of what is on its way */
};

/* True: it is decided: TG_OK, it is the call's; else `err`. False: decided() comes from the loop,
 * in `patience` at the latest, and a hold that is not null is a no, which tg_keyring_hold_off() has
 * to hear of. */
bool shared_key_take(struct shared_port *port, struct shared_key *key,
                     const struct generation *generation, tg_key_lease lease,
                     struct route_key *owner, tg_ms patience,
                     void (*decided)(struct shared_key *key, enum tg_err err,
                                     const struct tg_key_hold *hold),
                     enum tg_err *err);

/* Ends the lease at the ring and here, in whatever state: how the attempt ended. */
void shared_key_give(struct shared_key *key, struct tg_keyring *ring, tg_key_lease lease, tg_ms now,
                     const struct tg_key_report *report);

#endif
