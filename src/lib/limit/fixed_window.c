/* fixed_window.c - so many units in each window of the clock.
 *
 * The cheapest quota to explain ("1000 a day, from midnight") and the coarsest: across a border,
 * twice the limit may pass within one window's length.
 *
 * Promise: no window, aligned to the epoch, ever holds more than `limit` admitted units.
 */
#include "lib/limit/window.h"

static void fixed_window_peek(const struct tg_limiter *limiter, const void *state, tg_ms now,
                              int64_t cost, struct tg_decision *answer)
{
    int64_t limit = limiter->config.limit;
    struct window window = window_at(state, limiter->config.period, now);
    tg_ms end = window_end(window, limiter->config.period);
    int64_t left = num_less(limit, window.used);

    if (cost <= left)
        limit_allow(answer, limit, left - cost, end);
    else
        limit_deny(answer, limit, left, end,
                   cost > limit ? TG_UNSATISFIABLE : limit_hint(end - now));
}

const struct limit_strategy limit_fixed_window = {
    .ops = {"fixed_window", window_reset, window_fresh_at, fixed_window_peek, window_take,
            window_refund, window_settle, window_carry},
    .fields = {{"limit", offsetof(struct tg_limiter_config, limit), LIMIT_UNITS, TG_NUMBER_MAX, 0},
               {"window", offsetof(struct tg_limiter_config, period), LIMIT_TIME, TG_NUMBER_MAX,
                0}},
    .settled_bytes = sizeof(tg_ms),
    .prepare = window_prepare,
};
