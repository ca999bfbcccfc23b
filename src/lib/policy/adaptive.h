/* adaptive.h - prices that are learned once, from a sample, if that is better. See adaptive.c.
 *
 * Any number of threads.
 */
#ifndef TG_POLICY_ADAPTIVE_H
#define TG_POLICY_ADAPTIVE_H

#include "tollgate.h"

struct adaptive;

/* What there is for each arrival. */
struct adaptive_budgets {
    double rate, cost;
    double conc_s; /* 0: there is no such budget */
};

/* Starts from the prices `prior`, and learns from the first `window` calls, 1 or more. Null: there
 * is no memory. */
struct adaptive *adaptive_new(const struct tg_duals *prior, struct adaptive_budgets per_arrival,
                              int64_t window);
void adaptive_free(struct adaptive *adaptive);

/* A call has come: is it worth it? Numbers are finite and not negative. */
bool adaptive_worth(struct adaptive *adaptive, double cost, double value, double hold_s);

void adaptive_get_duals(struct adaptive *adaptive, struct tg_duals *duals);

#endif
