/* money.h - sums of micro-dollars that saturate.
 *
 * Every sum of money in the books lies in [0, TG_MONEY_MAX]. The bound is below INT64_MAX, but two
 * of them do not fit into an int64_t together: so a sum is compared before it is made.
 */
#ifndef TG_BUDGET_MONEY_H
#define TG_BUDGET_MONEY_H

#include "tollgate.h"

/* a + b for sums in range, at most TG_MONEY_MAX. */
static inline tg_micro money_add(tg_micro a, tg_micro b)
{
    return a > TG_MONEY_MAX - b ? TG_MONEY_MAX : a + b;
}

static inline bool money_in_range(tg_micro money)
{
    return money >= 0 && money <= TG_MONEY_MAX;
}

#endif
