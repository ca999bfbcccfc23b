/* remote_limits.h - rate and cost decided by Redis: one script, one round trip, the same bits.
 *
 *     remote_limits_take(limits, &debit, decided, context)  ->  ask
 *     ... decided(context, TG_OK, &axes, &charge), once, never from inside
 *     remote_limits_cancel(ask)                             instead: a yes that comes is refunded
 *     remote_limits_refund(limits, &debit, now, &charge), remote_limits_settle(...)
 *         sent now, or when Redis is back, and executed once
 *
 * The script does to the states in Redis what claim.c does to those in memory, operation by
 * operation in doubles: in both ways of charging the same stream of decisions, and the same states
 * left behind (tests replay random timelines on both and compare bytes).
 *
 * The state of a limit is the key  <prefix>:<axis>:{<root>}:<scope>:<key>:<shape>. The shape is the
 * strategy, and of windows their length: limits that count alike share a state, others do not, so
 * that two nodes with different readings of a configuration never misread each other. A gcra or a
 * bucket with other numbers continues from what was taken, as with tg_store_redefine(): its state
 * says what the numbers were. It expires when it would answer as a fresh one does.
 */
#ifndef TG_REMOTE_STORE_REMOTE_LIMITS_H
#define TG_REMOTE_STORE_REMOTE_LIMITS_H

#include "io/redis/redis.h"

/* A scope as Redis knows it: by name, the same on every node. */
struct remote_scope {
    struct slice name; /* name of its set of limits: "tenant/team-a" */
    struct slice key;  /* see struct tg_scope */
    const struct tg_limit *limits;
    size_t n;
};

struct remote_debit {
    struct slice root;
    const struct remote_scope *scopes; /* 1 to TG_SCOPES_MAX */
    size_t n_scopes;
    int64_t cost;
    enum tg_charging charging;
};

struct remote_limits;
struct remote_limits_ask;

struct remote_limits_options {
    struct redis *redis; /* borrowed */
    const char *prefix;  /* "tg"; without braces; copied */
    /* A word, copied, that nobody else has or has had lately, no process and no thread: under it
     * the server remembers what it was told, which then may be told again where a connection has
     * broken. Null: what is in doubt is not told again. */
    const char *holder;
    /* Whose time counts: false: that of Redis; true: `now` of each call, and then keys live for
     * ttl_floor at least, since that time says nothing about theirs. */
    bool callers_clock;
    tg_ms ttl_floor; /* default 3600000 */
};

void remote_limits_options_init(struct remote_limits_options *options);

TG_MUST_CHECK enum tg_err remote_limits_new(const struct remote_limits_options *options,
                                            struct remote_limits **limits);

/* Asks stay in flight until their client is freed: free that first, and its loop afterwards. */
void remote_limits_free(struct remote_limits *limits);

/* When a debit was charged, and which limits in shadow were not because they would have refused:
 * what a refund or a settlement has to know. */
struct remote_charge {
    tg_ms at;
    uint8_t uncharged[TG_SCOPES_MAX]; /* for each scope, bits 1 << limit */
};

/* TG_ERR_STORE: no answer within the time limit of the client, or none at all, or one that makes no
 * sense. If the answer comes later and was a yes, it is refunded. */
typedef void remote_limits_decided(void *context, enum tg_err err, const struct tg_axes *axes,
                                   const struct remote_charge *charge);

/* Everything of the debit is copied. `now` counts with the caller's clock alone. Null: no memory,
 * and nothing was asked. */
struct remote_limits_ask *remote_limits_take(struct remote_limits *limits,
                                             const struct remote_debit *debit, tg_ms now,
                                             remote_limits_decided *decided, void *context);

/* The same answer, nothing is charged. */
struct remote_limits_ask *remote_limits_peek(struct remote_limits *limits,
                                             const struct remote_debit *debit, tg_ms now,
                                             remote_limits_decided *decided, void *context);

/* Before decided(), which then does not come; what is taken meanwhile is refunded. */
void remote_limits_cancel(struct remote_limits_ask *ask);

/* Asks that have not been answered, and deferred updates. */
size_t remote_limits_in_flight(const struct remote_limits *limits);

struct remote_limits_stats {
    size_t waiting;   /* deferred updates, to be sent when Redis is up */
    uint64_t dropped; /* updates that were lost: too many waited, or it was in doubt for too long,
                         or refused for good */
};

void remote_limits_get_stats(const struct remote_limits *limits, struct remote_limits_stats *stats);

/* From inside decided(), with TG_ERR_STORE: somebody else has admitted the call all the same.
 * A yes that comes later is what it owes, and stands: kept() then comes with what was charged, or
 * with null when it was no yes, and nothing is; not any more after remote_limits_cancel(), which
 * gives the yes back, or remote_limits_leave(): the call has ended, and used `actual` (negative:
 * its estimate), to which a yes is settled; else, if it `owes`, that is charged as by
 * remote_limits_add_debt(). False: no answer will come. */
typedef void remote_limits_kept(void *context, const struct remote_charge *charge);

bool remote_limits_keep(struct remote_limits_ask *ask, remote_limits_kept *kept);
void remote_limits_leave(struct remote_limits_ask *ask, int64_t actual, bool owes);

/* Adds the debt of a call that was admitted without Redis, at `since` of the loop's time: it is
 * charged when Redis is back, whatever is left then. A window is charged if it is still the one in
 * which the call came; a gcra or a bucket within a minute, and within the time in which it would
 * have been refilled. Limits in shadow are not charged. */
void remote_limits_add_debt(struct remote_limits *limits, const struct remote_debit *debit,
                            tg_ms now, tg_ms since);

/* Like tg_store_refund() and tg_store_settle() for a debit that was taken. Nobody waits for it, and
 * Redis need not be up: the update is sent when it is back, for as long as the limit remembers. */
void remote_limits_refund(struct remote_limits *limits, const struct remote_debit *debit, tg_ms now,
                          const struct remote_charge *charge);
void remote_limits_settle(struct remote_limits *limits, const struct remote_debit *debit, tg_ms now,
                          const struct remote_charge *charge, int64_t actual);

#endif
