/* window.c - the operations on a counted window. See window.h. */
#include "lib/limit/window.h"

#include <string.h>

void window_reset(const struct tg_limiter *limiter, void *state)
{
    memset(state, 0, limiter->state_bytes);
}

tg_ms window_fresh_at(const struct tg_limiter *limiter, const void *state)
{
    const struct window *window = state;

    return window->used ? window_end(*window, limiter->config.period) : 0;
}

void window_take(const struct tg_limiter *limiter, void *state, tg_ms now, int64_t cost)
{
    struct window *window = state;

    if (now < window->start)
        limit_note_step(limiter, state, now);
    *window = window_at(window, limiter->config.period, now);
    window->used = num_add(window->used, cost);
    assert(window->used >= 0 && window->start % limiter->config.period == 0);
}

/* Whether the charge was counted in the window that is stored. If that has ended, so has the
 * charge, and changing either changes nothing any more. */
static bool charged_here(const struct window *window, tg_ms length, struct tg_charge charge)
{
    return charge.at >= window->start && charge.at - window->start < length;
}

void window_refund(const struct tg_limiter *limiter, void *state, tg_ms now,
                   struct tg_charge charge, int64_t units)
{
    struct window *window = state;

    (void)now;
    if (charged_here(window, limiter->config.period, charge))
        window->used = num_less(window->used, num_min(units, charge.cost));
}

void window_settle(const struct tg_limiter *limiter, void *state, tg_ms now,
                   struct tg_charge charge, int64_t actual)
{
    struct window *window = state;

    if (actual < charge.cost) {
        window_refund(limiter, state, now, charge, charge.cost - actual);
        return;
    }
    if (limit_stepped(limiter, state, charge.at))
        charge.at = num_max(charge.at, window->start);
    /* An estimate of 0 was not counted, so its window may not have been begun. */
    *window = window_at(window, limiter->config.period, charge.at);
    if (charged_here(window, limiter->config.period, charge))
        window->used = num_add(window->used, actual - charge.cost);
}

void window_carry(const struct tg_limiter *limiter, void *state, const struct tg_limiter *from,
                  const void *counted, tg_ms now)
{
    struct window old = window_at(counted, from->config.period, now);
    struct window *window = state;

    *window = window_at(window, limiter->config.period, num_max(now, old.start));
    window->used = old.used;
    /* What was counted in a window of another length is counted here as of now. */
    limit_carry_step(limiter, state, from, counted);
    if (limiter->config.period != from->config.period)
        limit_note_step(limiter, state, now);
    assert(window->used >= 0);
}

enum tg_err window_prepare(struct tg_limiter *limiter, struct tg_problem *problem)
{
    (void)problem;
    limiter->state_bytes = sizeof(struct window);
    return TG_OK;
}
