/* retry_budget.h - how many retries a tenant may make, for how many calls: a token bucket each.
 *
 * When a provider fails for everybody, retries multiply what it has to bear just then. So a retry
 * has to be earned by calls that went to a provider, `ratio` each; and `min_per_s` are shared out
 * among the tenants by time, so that a tenant with few calls has retries, too. The budget of one
 * tenant is moved by its own calls alone: neither what others do nor what a header says of a call
 * takes from it. A fallback goes to another provider or model, and needs none.
 *
 * What all tenants together may retry stays ratio x calls + min_per_s, but for what is kept. Kept
 * are ten seconds of a busy tenant, and RETRY_BUDGET_IDLE retries of one that makes no calls.
 *
 * Any thread may use it, without a lock. Relaxed order is enough: nothing else is read by what a
 * budget says. test_retry_budget_threads.c counts that no retry is given out twice.
 */
#ifndef TG_UPSTREAM_RETRY_BUDGET_H
#define TG_UPSTREAM_RETRY_BUDGET_H

#include <stdatomic.h>
#include <stdbool.h>

#include "tollgate.h"

struct config;

#define RETRY_BUDGET_IDLE 3 /* retries that time alone adds up to, where min_per_s / n is less */

/* All zero is one that nobody has used yet. */
struct retry_budget {
    atomic_llong millionths; /* what is left, in millionths of a retry */
    atomic_llong filled_at;  /* when time last added to it; ms; 0: never */
};

/* A call goes to a provider for the first time. */
void retry_budget_earn(struct retry_budget *budget, const struct config *config, tg_ms now);

/* Whether there may be one more. */
bool retry_budget_take(struct retry_budget *budget, const struct config *config, tg_ms now);

#endif
