/* remote_blocks.h - rate and cost decided by this node alone, with units that it leased in blocks.
 *
 *     remote_blocks_take(blocks, &debit, now, decided, context, &axes, &charge)
 *         null: it was decided at once, into axes and charge; or nothing could be done
 *         else: it waits for a block that is on its way, and decided() comes, once
 *     remote_blocks_cancel(ask)                             instead: it waits no more
 *     remote_blocks_refund(blocks, &debit, now, &charge), remote_blocks_settle(...)
 *     remote_blocks_tick(blocks, now)                       every 50 ms or so
 *     remote_blocks_return(blocks, now, done, context)      before a clean end
 *
 * The second of two tiers. A block is so many units of a limit, charged in Redis in advance
 * (lua/block.lua) and spent here, so that most calls ask nobody. What is promised, whatever dies
 * when, and however many nodes there are:
 *
 *   fixed_window    no window of Redis' clock ever admits more than the limit. A block is
 *                   spent only while the window lasts in which it was charged, by the safe side of
 *                   the round trip.
 *   token_budget    the same as one node alone: only the last call of a window crosses the budget.
 *   gcra, token_bucket    in any span of d ms at most burst + rate x d are admitted. A block lives
 *                   for `life` at most, and no longer than a quarter of the burst takes to refill:
 *                   of an idle limit that much less can be leased at once.
 *   sliding_window, sliding_log    what one node alone promises. Their windows are longer in Redis
 *                   by the life of a block (at most 2 %), under a state of their own: do not
 *                   mix nodes in both tiers on these.
 *
 * Units that a node holds when it dies are lost until their limit makes new ones: that is less,
 * never more. A limit of which no block can live for 50 ms, or a call that costs more than can be
 * leased at once, is decided by remote_limits, one round trip each.
 *
 * How large a block is: `block` of the limit's rate at first, then about a second of what was asked
 * for here, but no more than an even share of what is left. It is asked for before the last one is
 * used up. What nobody asked for is given back within a second or two. A refusal is remembered for
 * a while, so that calls which are refused ask nobody either; its retry_after says when Redis is
 * asked again.
 *
 * One object for each worker's loop, used by its thread alone: each is a leaseholder of its own. No
 * allocation for a scope that is known, unless a call has to wait.
 */
#ifndef TG_REMOTE_STORE_REMOTE_BLOCKS_H
#define TG_REMOTE_STORE_REMOTE_BLOCKS_H

#include "server/remote_store/remote_limits.h"

struct remote_blocks;
struct remote_blocks_ask;

struct remote_blocks_options {
    struct net_loop *loop; /* whose time counts here; borrowed, and so is the next */
    struct redis *redis;
    struct remote_limits *limits; /* decides what cannot be leased; same client, same prefix */
    const char *prefix;           /* "tg"; without braces; copied */
    const char *holder;           /* see remote_limits.h; null: what is in doubt is lost; copied */
    tg_ms block;       /* size of the first block, in ms of the limit's rate; default 100 */
    tg_ms life;        /* longest life of a block; default 2000 */
    uint64_t seed;     /* for hashing, secret; default 0 */
    size_t max_scopes; /* known at once; beyond, remote_limits decides; default 65536 */
    tg_ms (*here)(void *context);  /* null, the default: the loop's time; else, for tests, this */
    tg_ms (*there)(void *context); /* null, the default: Redis TIME; else, for tests, this */
    void *time_context;
};

void remote_blocks_options_init(struct remote_blocks_options *options);

TG_MUST_CHECK enum tg_err remote_blocks_new(const struct remote_blocks_options *options,
                                            struct remote_blocks **blocks);

/* Free the client first: what is in flight is answered by that. */
void remote_blocks_free(struct remote_blocks *blocks);

/* Leaseholders there are: nodes, times workers that hold blocks. From the start: 1. */
void remote_blocks_set_holders(struct remote_blocks *blocks, size_t n);

/* What a refund or a settlement has to know. */
struct remote_blocks_charge {
    struct remote_charge charge; /* `at`: by Redis' clock */
    tg_ms leased_at; /* when the earliest block that it was spent from was charged; not if strict */
    bool strict;     /* remote_limits took it */
};

/* TG_ERR_STORE: no answer from Redis, and not enough units here. */
typedef void remote_blocks_decided(void *context, enum tg_err err, const struct tg_axes *axes,
                                   const struct remote_blocks_charge *charge);

/* `err` is set where null is returned: TG_OK, and axes and charge have the answer; TG_ERR_STORE:
 * Redis owes an answer for too long already; TG_ERR_INVALID; TG_ERR_MEMORY. `now` is the loop's
 * time. */
struct remote_blocks_ask *remote_blocks_take(struct remote_blocks *blocks,
                                             const struct remote_debit *debit, tg_ms now,
                                             remote_blocks_decided *decided, void *context,
                                             struct tg_axes *axes,
                                             struct remote_blocks_charge *charge, enum tg_err *err);

/* The scopes and limits of a part of a debit, by their indices in the whole. */
struct remote_blocks_rest {
    uint8_t scope[TG_SCOPES_MAX];
    uint8_t limit[TG_SCOPES_MAX][TG_LIMITS_MAX];
};

/* What remote_blocks_take() would answer now; nothing is taken, and nobody is asked. If n_scopes of
 * `rest` is 0 then, axes have it, by what is here. Else it is not enough: `rest` is what
 * remote_limits_peek() is to be asked instead of the debit, good until the next call of any of
 * these functions, and axes have what is known here, for remote_blocks_join(), and `indices` what
 * the rest is of. TG_ERR_STORE: Redis owes an answer for too long already. */
enum tg_err remote_blocks_peek(struct remote_blocks *blocks, const struct remote_debit *debit,
                               tg_ms now, struct tg_axes *axes, struct remote_debit *rest,
                               struct remote_blocks_rest *indices);

/* Whether Redis is to be asked about the debit as it is, whatever units are here. */
bool remote_blocks_is_strict(const struct remote_blocks *blocks, const struct remote_debit *debit,
                             tg_ms now);

/* Adds that part, `here`, to what Redis says of the rest. */
void remote_blocks_join(const struct tg_axes *here, const struct remote_blocks_rest *indices,
                        enum tg_charging charging, int64_t cost, struct tg_axes *axes);

/* Before decided(), which does not come any more. Nothing was taken, or it is given back. */
void remote_blocks_cancel(struct remote_blocks_ask *ask);

/* For a take that was allowed, see remote_limits.h. What comes back is spent here again if its
 * window lasts; else, and for more than was estimated where nothing is left here, it is told to
 * Redis with the next block, or within half a second. */
void remote_blocks_refund(struct remote_blocks *blocks, const struct remote_debit *debit, tg_ms now,
                          const struct remote_blocks_charge *charge);
void remote_blocks_settle(struct remote_blocks *blocks, const struct remote_debit *debit, tg_ms now,
                          const struct remote_blocks_charge *charge, int64_t actual);

/* Like remote_limits_add_debt(), and charges the states that blocks are charged to. */
void remote_blocks_add_debt(struct remote_blocks *blocks, const struct remote_debit *debit,
                            tg_ms now, tg_ms since);

/* Gives back what is not needed, tells Redis what it has to know, forgets what was not asked for in
 * a long time. */
void remote_blocks_tick(struct remote_blocks *blocks, tg_ms now);

/* Gives back everything, and tells what is left to tell. `done` (may be null) comes when Redis has
 * answered, or cannot; from inside if there is nothing to return. Takes may follow, and lease
 * anew. */
void remote_blocks_return(struct remote_blocks *blocks, tg_ms now, void (*done)(void *context),
                          void *context);

struct remote_blocks_stats {
    uint64_t decisions;        /* made here */
    uint64_t strict;           /* made by remote_limits */
    uint64_t waited;           /* decisions for which a call had to wait */
    uint64_t asks;             /* requests to Redis for blocks */
    uint64_t lost;             /* requests without an answer */
    uint64_t leased, returned; /* units */
    size_t scopes;
};

void remote_blocks_get_stats(const struct remote_blocks *blocks, struct remote_blocks_stats *stats);

#endif
