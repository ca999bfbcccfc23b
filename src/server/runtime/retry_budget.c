/* retry_budget.c - retries are bounded by a part of the calls: see gateway.h.
 *
 * When a provider fails for everybody, retries multiply what it has to bear just then. So a retry
 * has to be earned by calls, `ratio` each; some may be made every second in any case, so that a
 * quiet gateway's calls have retries, too. A client that retries by itself has made one already.
 */
#include "server/runtime/gateway.h"

enum { WHOLE = 1000, SECONDS_KEPT = 10 }; /* WHOLE: thousandths of one retry */

static void retry_budget_add(struct retry_budget *budget, const struct config *config,
                             long long thousandths)
{
    long long most = (config->retry_min_per_s + 100) * SECONDS_KEPT * WHOLE;
    long long now = atomic_load_explicit(&budget->thousandths, memory_order_relaxed), then;

    do {
        then = now + thousandths;
        if (then > most)
            then = most;
        if (then < -most)
            then = -most;
    } while (!atomic_compare_exchange_weak_explicit(&budget->thousandths, &now, then,
                                                    memory_order_relaxed, memory_order_relaxed));
}

/* Adds what time alone has earned. Where several threads come at once, one of them adds it. */
static void refill(struct retry_budget *budget, const struct config *config, tg_ms now)
{
    long long at = atomic_load_explicit(&budget->filled_at, memory_order_relaxed);
    long long ms = now - at > 1000 ? 1000 : now - at;

    if (ms > 0 && atomic_compare_exchange_strong_explicit(
                      &budget->filled_at, &at, now, memory_order_relaxed, memory_order_relaxed))
        retry_budget_add(budget, config, ms * config->retry_min_per_s);
}

void retry_budget_earn(struct retry_budget *budget, const struct config *config, bool is_retry,
                       tg_ms now)
{
    refill(budget, config, now);
    retry_budget_add(budget, config, is_retry ? -WHOLE : (long long)(config->retry_ratio * WHOLE));
}

bool retry_budget_take(struct retry_budget *budget, const struct config *config, tg_ms now)
{
    refill(budget, config, now);
    long long there = atomic_load_explicit(&budget->thousandths, memory_order_relaxed);

    do {
        if (there < WHOLE)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&budget->thousandths, &there, there - WHOLE,
                                                    memory_order_relaxed, memory_order_relaxed));
    return true;
}
