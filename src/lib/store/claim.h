/* claim.h - a debit with its keys hashed: what it takes to carry it out, and to end it later.
 *
 * The gate keeps one in each lease. It needs none of the caller's memory, so a lease can be settled
 * long after the request that brought the keys has gone.
 */
#ifndef TG_STORE_CLAIM_H
#define TG_STORE_CLAIM_H

#include "lib/store/store.h"

struct claim {
    uint32_t shard;
    uint16_t n;
    uint8_t charging;
    bool has_cost : 1;   /* a limit is on the cost axis: it will want to be settled */
    bool any_shadow : 1; /* a limit is in shadow */
    int64_t cost;
    uint8_t uncharged[TG_SCOPES_MAX];   /* by scope: bits of the limits in shadow that were not
                                         charged, or of which it is not known */
    struct table_id ids[TG_SCOPES_MAX]; /* the first n are set */
};

/* TG_ERR_INVALID, TG_ERR_UNKNOWN. Needs no lock. */
enum tg_err claim_make(const struct tg_store *store, const struct tg_debit *debit,
                       struct claim *claim);

/* Copies only what is set. */
void claim_copy(struct claim *to, const struct claim *from);

/* The public operations of the same names, on a claim. `axes` is never null here. A take notes in
 * the claim what it did not charge; the others leave that alone. */
enum tg_err claim_take(struct tg_store *store, struct claim *claim, tg_ms now,
                       struct tg_axes *axes);
void claim_peek(struct tg_store *store, struct claim *claim, tg_ms now, struct tg_axes *axes);
size_t claim_peek_scope(struct tg_store *store, struct claim *claim, size_t scope, tg_ms now,
                        struct tg_limit_metrics *limits);
void claim_refund(struct tg_store *store, struct claim *claim, tg_ms now, tg_ms charged_at);
enum tg_err claim_settle(struct tg_store *store, struct claim *claim, tg_ms now, tg_ms charged_at,
                         int64_t actual);

/* What was done, for another store that is to do the same: store_save.h. */
enum claim_move { CLAIM_TAKEN, CLAIM_REFUNDED, CLAIM_SETTLED };

struct claim_moved {
    enum claim_move move;
    unsigned mask; /* axes that were charged */
    tg_ms at, charged_at;
    int64_t actual;
    struct claim claim;
};

/* Does so, whether the limits allow it or not. */
void claim_follow(struct tg_store *store, struct claim_moved *moved, tg_ms now);

/* Asks for the memory a take will need. */
void claim_prefetch(const struct tg_store *store, const struct claim *claim);

#endif
