/* tenant_share.h - what one tenant takes up of what all tenants share.
 *
 * A share outlasts a generation, because it counts: the next generation finds it by the tenant's
 * name. It may be used by any thread; references are held by generations, and a request holds its
 * generation.
 */
#ifndef TG_RUNTIME_TENANT_SHARE_H
#define TG_RUNTIME_TENANT_SHARE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "io/net/work_pool.h"
#include "server/obs/recent_refusals.h"
#include "server/tenancy/user_census.h"
#include "server/upstream/retry_budget.h"

struct generation;
struct tg_problem;

struct tenant_share {
    atomic_int refs;       /* generations that have it */
    atomic_llong buffered; /* bytes that buffered bodies of this tenant take up */
    struct retry_budget retries;
    struct net_lane lane;     /* its bodies that wait for, or are read by, threads of the pool */
    atomic_llong usual_cost;  /* what its calls are charged on the cost axis, a moving mean */
    struct user_census users; /* who its users are today */
    struct recent_refusals refusals;
    atomic_llong asks_until; /* when the tenant may ask about itself again: see tenant_may_ask() */
};

/* Whether a tenant may ask about itself at that time: 4 times a second, 8 at once. 0: it may, and
 * has; else how long it has to wait. */
tg_ms tenant_may_ask(struct tenant_share *share, tg_ms now);

/* Makes generation->shares: the shares of the generation before, or new ones. */
bool tenant_shares_make(struct generation *generation, const struct generation *before,
                        struct tg_problem *problem);
void tenant_shares_free(struct generation *generation);

#endif
