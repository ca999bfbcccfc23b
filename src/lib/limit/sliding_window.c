/* sliding_window.c - the last `period`, counted in buckets.
 *
 *     width  = period / buckets
 *     tick   = floor(now / width)              which bucket now is in
 *     full   = counts of the last `buckets` ticks
 *     oldest = count of the tick before these, of which a part is still inside the window
 *     weight = that part, 1 at the start of the tick, towards 0 at its end
 *     admit iff  full + oldest * weight + cost <= limit
 *
 * Fixed memory (one count a bucket) for a window without the border of fixed_window. It assumes
 * that the calls of the oldest bucket were spread evenly.
 *
 * Promise: no `buckets` consecutive buckets ever hold more than `limit` admitted units, so any
 * span of period - width does not either. A whole period, when calls crowd at the end of
 * the oldest bucket, may hold up to twice the limit: more buckets make that rarer.
 *
 * A check costs one addition a bucket; a refusal looks ahead through as many ticks to find the
 * first moment at which the same call would pass. Double arithmetic in this very order, as in
 * gcra.c; the counts themselves are integers.
 */
#include "lib/core/problem.h"
#include "lib/limit/limit.h"

#include <string.h>

struct sliding_window {
    int64_t newest;   /* the latest tick that was charged; a clock stepping back stays there */
    int64_t counts[]; /* buckets + 1 of them: tick t is at t mod (buckets + 1) */
};

/* Ticks are integers: a million of them a second still count exactly for 285 years of epoch time.
 * */
enum { BUCKETS_MAX = 100000, BUCKETS_DEFAULT = 10, BUCKETS_PER_MS_MAX = 1000 };

static double width_of(const struct tg_limiter *limiter)
{
    return limiter->derived[0];
}

static int64_t slots_of(const struct tg_limiter *limiter)
{
    return limiter->config.buckets + 1;
}

static int64_t count_of(const struct tg_limiter *limiter, const struct sliding_window *window,
                        int64_t tick)
{
    int64_t slots = slots_of(limiter);

    if (tick < 0 || tick > window->newest || tick <= window->newest - slots)
        return 0;
    return window->counts[tick % slots];
}

static int64_t tick_at(const struct tg_limiter *limiter, const struct sliding_window *window,
                       tg_ms now)
{
    return num_max(num_floor((double)now / width_of(limiter)), window->newest);
}

/* The units in the `buckets` ticks that end with `tick`. Those after `newest` are 0. */
static int64_t sum_until(const struct tg_limiter *limiter, const struct sliding_window *window,
                         int64_t tick)
{
    int64_t first = num_max(tick - limiter->config.buckets + 1, 0);
    int64_t slots = slots_of(limiter), slot = first % slots, sum = 0;

    assert(tick >= window->newest);
    for (int64_t t = first; t <= window->newest; t++) {
        sum = num_add(sum, window->counts[slot]);
        slot = slot + 1 < slots ? slot + 1 : 0;
    }
    return sum;
}

static double weight_at(double width, int64_t tick, tg_ms now)
{
    double inside = (double)now - (double)tick * width;
    double elapsed = inside > 0 ? inside : 0;
    double weight = (width - elapsed) / width;

    assert(weight <= 1);
    return weight > 0 ? weight : 0;
}

static double estimate_at(const struct tg_limiter *limiter, const struct sliding_window *window,
                          int64_t tick, tg_ms now)
{
    double full = (double)sum_until(limiter, window, tick);
    double oldest = (double)count_of(limiter, window, tick - limiter->config.buckets);

    return full + oldest * weight_at(width_of(limiter), tick, now);
}

static bool fits_at(const struct tg_limiter *limiter, const struct sliding_window *window, tg_ms at,
                    int64_t cost)
{
    int64_t tick = tick_at(limiter, window, at);

    return estimate_at(limiter, window, tick, at) + (double)cost <= (double)limiter->config.limit;
}

/* The first whole ms after `now`, when `cost` does not fit, at which it does, if nothing else is
 * charged. The estimate only falls: find the tick in which it falls far enough, then the place
 * inside that tick. That place comes from a division, so it is moved until the check itself agrees
 * that it is the first. */
static tg_ms window_fits_from(const struct tg_limiter *limiter, const struct sliding_window *window,
                              tg_ms now, int64_t cost)
{
    double width = width_of(limiter), place = 0;
    int64_t buckets = limiter->config.buckets, free = limiter->config.limit - cost;
    int64_t tick = tick_at(limiter, window, now);
    int64_t full = sum_until(limiter, window, tick);

    assert(!fits_at(limiter, window, now, cost));
    assert(free >= 0); /* nothing is charged after `newest`, so in the end it fits */
    while (full > free) {
        tick++;
        full -= count_of(limiter, window, tick - buckets);
    }
    int64_t oldest = count_of(limiter, window, tick - buckets);
    if (full + oldest > free)
        place = width * (1 - (double)(free - full) / (double)oldest);

    tg_ms at = num_max(num_ceil((double)tick * width + place), num_add(now, 1));
    for (tg_ms step = 1; at < TG_NUMBER_MAX && !fits_at(limiter, window, at, cost); step *= 2)
        at = num_add(at, step);
    while (fits_at(limiter, window, at - 1, cost))
        at--;
    assert(at >= now); /* `now` itself, if that is the end of time */
    return at;
}

static void sliding_window_reset(const struct tg_limiter *limiter, void *state)
{
    memset(state, 0, limiter->state_bytes);
}

/* Where the last charged tick is no longer even the oldest. */
static tg_ms sliding_window_fresh_at(const struct tg_limiter *limiter, const void *state)
{
    const struct sliding_window *window = state;
    int64_t last = window->newest, buckets = limiter->config.buckets;

    while (last >= 0 && last >= window->newest - buckets && count_of(limiter, window, last) == 0)
        last--;
    if (last < 0 || last < window->newest - buckets)
        return 0;
    tg_ms at = num_ceil((double)(last + buckets + 1) * width_of(limiter));
    for (tg_ms step = 1; at < TG_NUMBER_MAX && tick_at(limiter, window, at) <= last + buckets;
         step *= 2)
        at = num_add(at, step);
    return at;
}

static void sliding_window_peek(const struct tg_limiter *limiter, const void *state, tg_ms now,
                                int64_t cost, struct tg_decision *answer)
{
    const struct sliding_window *window = state;
    int64_t limit = limiter->config.limit;
    int64_t tick = tick_at(limiter, window, now);
    double estimate = estimate_at(limiter, window, tick, now);
    double projected = estimate + (double)cost;
    tg_ms reset_at =
        num_ceil((double)(tick + 1) * width_of(limiter) + (double)limiter->config.period);

    if (projected <= (double)limit || cost == 0)
        limit_allow(answer, limit, num_floor((double)limit - projected), reset_at);
    else
        limit_deny(answer, limit, num_floor((double)limit - estimate), reset_at,
                   cost > limit ? TG_UNSATISFIABLE
                                : limit_hint(window_fits_from(limiter, window, now, cost) - now));
}

static void sliding_window_take(const struct tg_limiter *limiter, void *state, tg_ms now,
                                int64_t cost)
{
    struct sliding_window *window = state;
    int64_t slots = slots_of(limiter), own = num_floor((double)now / width_of(limiter));
    int64_t tick = num_max(own, window->newest);

    for (int64_t t = num_max(window->newest + 1, tick - slots + 1); t <= tick; t++)
        window->counts[t % slots] = 0;
    assert(tick >= window->newest);
    if (own < tick)
        limit_note_step(limiter, state, now);
    window->newest = tick;
    window->counts[tick % slots] = num_add(window->counts[tick % slots], cost);
    assert(window->counts[tick % slots] >= cost);
}

/* The bucket that holds the charge, or null when it has left the window. */
static int64_t *sliding_window_bucket_of(const struct tg_limiter *limiter,
                                         struct sliding_window *window, struct tg_charge charge)
{
    int64_t tick = num_floor((double)charge.at / width_of(limiter));

    if (tick > window->newest || tick <= window->newest - slots_of(limiter))
        return NULL;
    return &window->counts[tick % slots_of(limiter)];
}

static void sliding_window_refund(const struct tg_limiter *limiter, void *state, tg_ms now,
                                  struct tg_charge charge, int64_t units)
{
    int64_t *count = sliding_window_bucket_of(limiter, state, charge);

    (void)now;
    if (count)
        *count = num_less(*count, num_min(units, charge.cost));
}

static void sliding_window_settle(const struct tg_limiter *limiter, void *state, tg_ms now,
                                  struct tg_charge charge, int64_t actual)
{
    struct sliding_window *window = state;
    int64_t *count;

    if (actual < charge.cost) {
        sliding_window_refund(limiter, state, now, charge, charge.cost - actual);
        return;
    }
    if (limit_stepped(limiter, state, charge.at)) {
        count = &window->counts[window->newest % slots_of(limiter)];
        *count = num_add(*count, actual - charge.cost);
        return;
    }
    /* An estimate of 0 was not counted, so its tick may not have been begun. */
    if (num_floor((double)charge.at / width_of(limiter)) > window->newest)
        sliding_window_take(limiter, window, charge.at, 0);
    count = sliding_window_bucket_of(limiter, window, charge);
    if (count)
        *count = num_add(*count, actual - charge.cost);
}

static void sliding_window_carry(const struct tg_limiter *limiter, void *state,
                                 const struct tg_limiter *from, const void *counted, tg_ms now)
{
    const struct sliding_window *old = counted;
    int64_t tick = tick_at(from, old, now);

    if (limiter->config.period == from->config.period &&
        limiter->config.buckets == from->config.buckets) {
        memcpy(state, old, sizeof *old + (size_t)slots_of(limiter) * sizeof old->counts[0]);
        limit_carry_step(limiter, state, from, counted);
    } else {
        sliding_window_take(
            limiter, state, now,
            num_add(sum_until(from, old, tick), count_of(from, old, tick - from->config.buckets)));
        limit_note_step(limiter, state, now);
    }
}

static enum tg_err sliding_window_prepare(struct tg_limiter *limiter, struct tg_problem *problem)
{
    int64_t buckets = limiter->config.buckets;

    if ((buckets + BUCKETS_PER_MS_MAX - 1) / BUCKETS_PER_MS_MAX > limiter->config.period)
        return problem_say(problem, TG_ERR_INVALID,
                           "sliding_window: %lld buckets in a window of %lld ms are too many; at "
                           "most %d a ms are allowed",
                           (long long)buckets, (long long)limiter->config.period,
                           BUCKETS_PER_MS_MAX);
    limiter->state_bytes =
        sizeof(struct sliding_window) + (size_t)slots_of(limiter) * sizeof(int64_t);
    limiter->derived[0] = (double)limiter->config.period / (double)buckets;
    return TG_OK;
}

const struct limit_strategy limit_sliding_window = {
    .ops = {"sliding_window", sliding_window_reset, sliding_window_fresh_at, sliding_window_peek,
            sliding_window_take, sliding_window_refund, sliding_window_settle,
            sliding_window_carry},
    .fields = {{"limit", offsetof(struct tg_limiter_config, limit), LIMIT_UNITS, TG_NUMBER_MAX, 0},
               {"window", offsetof(struct tg_limiter_config, period), LIMIT_TIME, TG_NUMBER_MAX, 0},
               {"buckets", offsetof(struct tg_limiter_config, buckets), LIMIT_UNITS, BUCKETS_MAX,
                BUCKETS_DEFAULT}},
    .settled_bytes = sizeof(tg_ms),
    .prepare = sliding_window_prepare,
};
