/* quote.h - the money that one attempt at a route has to reserve: what it can cost at most.
 *
 *     struct quote_call call = {.gateway = ..., .tenant = ..., .route = ..., .ask = ...};
 *     if (!quote_make(&call, left, &quote, &why))
 *         ... refused: it cannot be bounded, or has no price
 *     reserve quote.asked
 *
 * Under a budget that is enforced, what is reserved is a bound (dialect/bound.h): no provider bills
 * more by its own rules. Where all budgets that may refuse the call say `reserve: expected`, it is
 * the part of that bound that calls like it cost (expected_cost.h).
 *
 * The proxy reserves by it, and `explain` says by it what would be reserved. It changes nothing.
 */
#ifndef TG_RUNTIME_QUOTE_H
#define TG_RUNTIME_QUOTE_H

#include "server/runtime/gateway.h"

struct quote_call {
    const struct gateway *gateway;
    const struct config_tenant *tenant;
    const struct config_key *key; /* null: none */
    const struct route *route;
    const struct ask *ask;
    bool is_listed;     /* the model that was asked for is */
    bool is_translated; /* it goes out in another dialect than it came in */
    size_t escapes;     /* bytes of escapes in what goes out; 0 where that is not known */
};

struct quote {
    struct tg_usage_bound bound; /* what the attempt can use at most */
    tg_micro most;               /* what that costs */
    uint64_t pair;               /* `reserve: expected`: see expected_cost.h; 0: `bound` */
    int64_t share;               /* thousandths of `most` that are asked for */
    tg_micro asked;              /* what they are */
    int64_t most_output;         /* the bound that we put on what it may write; -1: none */
};

/* Where `left` is left of the call's budgets; TG_MONEY_MAX: none depends on it. False: the call is
 * refused, and `why` says so. */
bool quote_make(const struct quote_call *call, tg_micro left, struct quote *quote,
                struct refusal *why);

/* Whether the money of a call on this route depends on budgets of which so much is left. */
static inline bool quote_is_hard(const struct route *route, tg_micro left)
{
    return left != TG_MONEY_MAX && route->priced;
}

/* How many tokens each of its choices may write where so much can be reserved; below 1: not even
 * for the prompt. */
int64_t quote_affordable(const struct quote_call *call, const struct quote *quote, tg_micro money);

#endif
