/* token_budget.c - a meter: spend first, refuse when spent.
 *
 * For costs that are known only when they have happened. As long as the budget of the window is
 * not used up, a call is admitted whole, even one that crosses it; the next is refused until the
 * window ends. So no cost is too large to be admitted, and none is unsatisfiable.
 *
 * Promise: in each window, what was admitted before the last admitted call is below the budget.
 */
#include "lib/limit/window.h"

static void token_budget_peek(const struct tg_limiter *limiter, const void *state, tg_ms now,
                              int64_t cost, struct tg_decision *answer)
{
    int64_t budget = limiter->config.limit;
    struct window window = window_at(state, limiter->config.period, now);
    tg_ms end = window_end(window, limiter->config.period);

    if (window.used < budget || cost == 0)
        limit_allow(answer, budget, num_less(budget, num_add(window.used, cost)), end);
    else
        limit_deny(answer, budget, 0, end, limit_hint(end - now));
}

const struct limit_strategy limit_token_budget = {
    .ops = {"token_budget", window_reset, window_fresh_at, token_budget_peek, window_take,
            window_refund, window_settle, window_carry},
    .fields = {{"budget", offsetof(struct tg_limiter_config, limit), LIMIT_UNITS, TG_NUMBER_MAX, 0},
               {"window", offsetof(struct tg_limiter_config, period), LIMIT_TIME, TG_NUMBER_MAX,
                0}},
    .settled_bytes = sizeof(tg_ms),
    .prepare = window_prepare,
};
