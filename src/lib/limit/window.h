/* window.h - a count in the current window of time, aligned to the epoch.
 *
 * What fixed_window and token_budget have in common: all but the question of what still fits.
 * All integers, all exact.
 */
#ifndef TG_LIMIT_WINDOW_H
#define TG_LIMIT_WINDOW_H

#include "lib/limit/limit.h"

struct window {
    tg_ms start;
    int64_t used;
};

/* The window at `now`: a new one once the old has ended, else the one we are in. A clock that has
 * stepped back stays in the latest window, so that no window is ever spent twice. */
static inline struct window window_at(const struct window *window, tg_ms length, tg_ms now)
{
    if (now - window->start < length)
        return *window;
    return (struct window){.start = now - now % length, .used = 0};
}

static inline tg_ms window_end(struct window window, tg_ms length)
{
    return num_add(window.start, length);
}

void window_reset(const struct tg_limiter *limiter, void *state);
tg_ms window_fresh_at(const struct tg_limiter *limiter, const void *state);
void window_take(const struct tg_limiter *limiter, void *state, tg_ms now, int64_t cost);
void window_refund(const struct tg_limiter *limiter, void *state, tg_ms now,
                   struct tg_charge charge, int64_t units);
void window_settle(const struct tg_limiter *limiter, void *state, tg_ms now,
                   struct tg_charge charge, int64_t actual);
void window_carry(const struct tg_limiter *limiter, void *state, const struct tg_limiter *from,
                  const void *counted, tg_ms now);
enum tg_err window_prepare(struct tg_limiter *limiter, struct tg_problem *problem);

#endif
