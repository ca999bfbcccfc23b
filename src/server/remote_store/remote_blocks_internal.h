/* remote_blocks_internal.h - what remote_blocks consists of.
 *
 *     root ---- scope ---- credit            one for each limit of the scope
 *      |  '---- ask, ask, ...                calls that wait for a block
 *      '------- flight                       the one command of it that is on its way
 *
 * A root's limits are in one slot, so one command gets blocks of all that run low, and a root has
 * one command in flight at a time: calls that need units meanwhile wait for it. Scopes are found by
 * what they are called; one whose limits have changed is made anew. Roots and scopes that somebody
 * points to (asks, flights) are pinned.
 *
 *     remote_blocks.c         calls: decided, or waiting
 *     remote_blocks_peek.c    calls: what they would be answered
 *     remote_blocks_settle.c  calls: settled; and units that are returned
 *     remote_blocks_book.c    roots and scopes
 *     remote_blocks_lease.c   requests to Redis
 *     remote_blocks_credit.c  arithmetic
 */
#ifndef TG_REMOTE_STORE_REMOTE_BLOCKS_INTERNAL_H
#define TG_REMOTE_STORE_REMOTE_BLOCKS_INTERNAL_H

#include <sys/queue.h>

#include "lib/core/decision.h"
#include "lib/core/hash_table.h"
#include "server/remote_store/remote_blocks.h"
#include "server/remote_store/remote_blocks_credit.h"
#include "server/remote_store/remote_limits_codec.h"

enum { FLIGHT_MAX = 32 /* limits of one command */ };

struct scope {
    LIST_ENTRY(scope) of_root;
    struct root *root;
    uint64_t hash;
    tg_ms used_at;
    unsigned pins; /* asks and flights that point here */
    bool retired;  /* its limits have changed: nobody finds it any more */
    struct limits_codec words;
    struct slice name, key; /* stored behind the credits, and so are the limits: */
    struct tg_limit *given;
    size_t n;
    struct credit credits[];
};

struct root {
    uint64_t hash;
    LIST_HEAD(, scope) scopes;
    LIST_ENTRY(root) active; /* while it holds or owes something */
    bool is_active;
    TAILQ_HEAD(, remote_blocks_ask) waiting; /* for a block, the oldest first */
    struct flight *flight;                   /* null: none */
    uint64_t decided;                        /* decisions since paced_at */
    double pace;                             /* decisions a ms */
    tg_ms paced_at;
    tg_ms ahead; /* how far Redis' clock is ahead of ours, at least */
    tg_ms ahead_at;
    bool knows_time;
    bool returning;    /* everything is to be given back */
    tg_ms split_until; /* its slot is half-moved: one key in each command */
    struct slice name; /* stored behind it */
};

/* One limit in a command. */
struct sent {
    struct credit *credit;
    struct scope *scope;
    size_t limit; /* index in the scope */
    int64_t want, need, least, back, debt;
    tg_ms back_at, debt_at;
};

struct flight {
    struct redis_ask ask;
    struct remote_blocks *blocks;
    struct root *root;
    SLIST_ENTRY(flight) spare;
    uint64_t number;
    tg_ms sent_at; /* at first */
    bool is_late;
    bool in_doubt; /* its connection broke: it is sent again when there is one */
    bool is_out;   /* on its way */
    bool is_alone; /* it has one key, and is not known by its number */
    size_t n;
    struct sent sent[FLIGHT_MAX];
};

/* A call: its scopes, found. */
struct claim_view {
    struct scope *scopes[TG_SCOPES_MAX];
    size_t n;
    int64_t cost;
    enum tg_charging charging;
};

struct remote_blocks_ask {
    struct remote_blocks *blocks;
    struct root *root;
    union {
        TAILQ_ENTRY(remote_blocks_ask) waiting; /* its root's list, if `strict` is null */
        SLIST_ENTRY(remote_blocks_ask) spare;
    };
    struct remote_limits_ask *strict; /* null: it waits for a block */
    bool is_marked;                   /* to be looked at when a command has landed */
    struct claim_view view;
    remote_blocks_decided *decided;
    void *context;
};

struct remote_blocks {
    struct remote_blocks_options options;
    char prefix[160];
    char holder[64]; /* "": none */
    int64_t holders;

    struct hash_table root_table;
    struct hash_table scope_table; /* without those that are retired */
    uint64_t seed;
    tg_ms swept_at;
    LIST_HEAD(, root) active;

    SLIST_HEAD(, remote_blocks_ask) spare_asks;
    SLIST_HEAD(, flight) spare_flights;
    uint64_t flights; /* the last number */
    char *said;       /* room for the name of what Redis said last to a root */
    size_t said_capacity;
    size_t n_returning;
    void (*returned)(void *context);
    void *returned_context;
    struct remote_blocks_stats stats;
    /* A debit for remote_limits is built here. */
    struct remote_scope scopes[TG_SCOPES_MAX];
    struct tg_limit limits[TG_SCOPES_MAX][TG_LIMITS_MAX];
};

/* ---- remote_blocks_book.c ---- */

/* Finds or makes all scopes of a debit. TG_ERR_FULL: too many are known already. */
enum tg_err book_find(struct remote_blocks *blocks, const struct remote_debit *debit, tg_ms now,
                      struct claim_view *view);

/* Only finds: a scope that is not known, or with other limits, is null in the view. Returns their
 * root; null: none is known. */
struct root *book_peek(const struct remote_blocks *blocks, const struct remote_debit *debit,
                       struct claim_view *view);

/* It holds or owes something; or no longer does. */
void book_activate(struct remote_blocks *blocks, struct root *root);
void book_deactivate(struct root *root);

/* Forgets what was not used for long; frees everything. */
void book_sweep(struct remote_blocks *blocks, tg_ms now);
void book_fini(struct remote_blocks *blocks);

/* Redis' time of something that happened here at `now`, on the safe side: not later. */
tg_ms root_time(const struct root *root, tg_ms now);

/* ---- remote_blocks_lease.c ---- */

/* Asks for what calls wait for and what runs low, and tells what there is to tell. Nothing happens
 * while a command of this root is in flight, or if there is nothing to ask and to tell. */
void lease_ask(struct remote_blocks *blocks, struct root *root, tg_ms now);

/* Sends a command that is in doubt again, if that is possible, or gives it up. */
void lease_ask_again(struct remote_blocks *blocks, struct root *root, tg_ms now);

/* ---- remote_blocks.c ---- */

/* A call at work. */
struct blocks_peek {
    const struct claim_view *view;
    tg_ms now;
    bool final;
    struct tg_axes *axes;
};

enum { RATE = 1u << TG_AXIS_RATE, COST = 1u << TG_AXIS_COST };

/* What the limits on the axes of `mask` say together. One in shadow refuses nothing, but it is
 * waited for, so that what it would have done is known. */
enum credit_verdict blocks_verdict(const struct blocks_peek *peek, unsigned mask);

/* Says it, limit by limit: who allows is charged, unless the call is refused. Adds to the axes. */
void blocks_say(const struct blocks_peek *peek, unsigned mask, bool refused);

/* False: it is not known here. Else axes have the answer, and `charged` the bits of what it is to
 * be charged on; nothing has been. */
bool blocks_answer(const struct blocks_peek *peek, unsigned *charged);

/* Whether so many units cannot be leased at once. */
bool blocks_exceeds(const struct credit *credit, int64_t units);

/* It cannot be leased for: Redis decides. */
bool blocks_is_too_large(const struct claim_view *view);

/* Adds what a limit says, by its numbers in the debit. */
static inline void blocks_add_answer(struct tg_axes *axes, enum tg_axis axis, size_t scope,
                                     size_t limit, struct tg_decision answer)
{
    const struct tg_limit_answer one = {
        .scope = (uint8_t)scope, .limit = (uint8_t)limit, .decision = answer};

    axes_add(axes, axis, &one);
}

/* A command has come back; `fine`: with an answer. */
void blocks_landed(struct remote_blocks *blocks, struct root *root, bool fine, tg_ms now);

/* Redis is late, or has failed: calls that wait for this root are answered TG_ERR_STORE. */
void blocks_late(struct root *root);

/* All units of a root are to be given back; and they have been, or cannot be. */
void blocks_release(struct root *root, tg_ms now);
void blocks_returned(struct remote_blocks *blocks, struct root *root);

/* The debit with its limits as they are called in Redis; good until the next one. */
struct remote_debit blocks_strict_debit(struct remote_blocks *blocks,
                                        const struct remote_debit *debit, tg_ms now);

static inline tg_ms blocks_now(const struct remote_blocks *blocks)
{
    const struct remote_blocks_options *options = &blocks->options;

    return options->here ? options->here(options->time_context) : net_loop_now(options->loop);
}

/* Units that a limit takes of a call. */
static inline int64_t blocks_units(const struct tg_limit *limit, int64_t cost)
{
    return limit->axis == TG_AXIS_RATE ? 1 : cost;
}

#endif
