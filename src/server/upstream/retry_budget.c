/* retry_budget.c - retries are bounded by a part of the calls: see retry_budget.h. */
#include "server/upstream/retry_budget.h"

#include <assert.h>

#include "lib/core/num.h"
#include "server/config/config.h"

enum {
    WHOLE = 1000000,   /* millionths of one retry */
    SECONDS_KEPT = 10, /* what a busy tenant saves up */
    CALLS_PER_S = 500, /* the busiest that is thought of: 100 retries a second, by the default */
};

/* Adds, up to `most`; what is above that already stays. */
static void retry_budget_add(struct retry_budget *budget, long long more, long long most)
{
    long long now = atomic_load_explicit(&budget->millionths, memory_order_relaxed), then;

    do {
        then = now + more > most ? num_max(now, most) : now + more;
    } while (then != now &&
             !atomic_compare_exchange_weak_explicit(&budget->millionths, &now, then,
                                                    memory_order_relaxed, memory_order_relaxed));
}

/* Adds what time alone has earned: this tenant's part of `min_per_s`. Where several threads come at
 * once, one of them adds it. */
static void refill(struct retry_budget *budget, const struct config *config, tg_ms now)
{
    long long at = atomic_load_explicit(&budget->filled_at, memory_order_relaxed);
    long long per_s = config->retry_min_per_s * WHOLE / num_max((int64_t)config->n_tenants, 1);
    long long idle = num_max(per_s, RETRY_BUDGET_IDLE * WHOLE);

    if (per_s == 0 || now <= at)
        return;
    /* The second product is below idle x 1000: it cannot overflow. */
    long long more = now - at >= idle * 1000 / per_s ? idle : per_s * (now - at) / 1000;
    if (more > 0 && atomic_compare_exchange_strong_explicit(
                        &budget->filled_at, &at, now, memory_order_relaxed, memory_order_relaxed))
        retry_budget_add(budget, more, idle);
}

void retry_budget_earn(struct retry_budget *budget, const struct config *config, tg_ms now)
{
    long long more = (long long)(config->retry_ratio * WHOLE);

    refill(budget, config, now);
    retry_budget_add(budget, more, num_max(more * CALLS_PER_S * SECONDS_KEPT, WHOLE));
}

bool retry_budget_take(struct retry_budget *budget, const struct config *config, tg_ms now)
{
    refill(budget, config, now);
    long long there = atomic_load_explicit(&budget->millionths, memory_order_relaxed);

    do {
        assert(there >= 0);
        if (there < WHOLE)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&budget->millionths, &there, there - WHOLE,
                                                    memory_order_relaxed, memory_order_relaxed));
    return true;
}
