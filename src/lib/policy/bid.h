/* bid.h - the filter of the bid prices: is a call worth what it takes? */
#ifndef TG_POLICY_BID_H
#define TG_POLICY_BID_H

#include "tollgate.h"

/* A price is often the value of a type divided by what it uses, and multiplied by that again it
 * may come out above the value: 3 / 187 * 187 > 3. Without the tolerance every call of a type
 * exactly at the margin would then be refused, one in thirty (tests/unit/lib/policy/test_bid.c).
 *
 * All numbers are finite and not negative. */
static inline bool bid_pays(const struct tg_duals *duals, double cost, double value, double hold_s)
{
    double bid = duals->rate + duals->cost * cost + duals->concurrency * hold_s;

    return value >= bid * (1 - 1e-9);
}

#endif
