/* token_bucket.c - a level that falls with each call and rises with time.
 *
 *     rise = refill / 1000                       units a ms
 *     level(now) = min(capacity, tokens + (now - last) * rise)
 *     admit iff  level(now) >= cost
 *
 * The strategy for token costs: a burst of any size up to the capacity, then the refill. It needs
 * two numbers where gcra needs one, and in return counts in units, so that large costs lose no
 * precision, and can owe: a settlement above the estimate takes the level below zero.
 *
 * `last` never goes back. If it did, a clock that steps back and forth would refill the same
 * span twice.
 *
 * Promise: in any span of d ms at most capacity + d * rise units are admitted, up to the rounding
 * of a double (tests/prop/test_limiter_bounds.c). Double arithmetic in this very order, as in
 * gcra.c.
 */
#include "lib/core/problem.h"
#include "lib/limit/minima.h"

#include <math.h>

static const char TOKEN_BUCKET_NAME[] = "token_bucket";

struct token_bucket {
    double tokens; /* at `last`; below 0: debt */
    double last;   /* ms; a whole number */
};

/* The state of a key whose charges are settled. The deficit is what is missing to the capacity. */
struct bucket_settled {
    struct token_bucket bucket;
    struct minima minima;
};

static double rise_of(const struct tg_limiter *limiter)
{
    return limiter->derived[0];
}

static double capacity_of(const struct tg_limiter *limiter)
{
    return (double)limiter->config.limit;
}

static double level_at(const struct tg_limiter *limiter, const struct token_bucket *bucket,
                       double now)
{
    assert(bucket->last >= 0 && bucket->tokens <= capacity_of(limiter));
    double elapsed = now > bucket->last ? now - bucket->last : 0;
    double level = bucket->tokens + elapsed * rise_of(limiter);

    return level < capacity_of(limiter) ? level : capacity_of(limiter);
}

static void set_level(struct token_bucket *bucket, double level, tg_ms now)
{
    bucket->tokens = level;
    if ((double)now > bucket->last)
        bucket->last = (double)now;
}

/* The first whole ms from `from` on at which the level is `wanted`. The division may be rounded
 * down, and the level is what counts: so ask the level, in growing steps. */
static tg_ms reaches_at(const struct tg_limiter *limiter, const struct token_bucket *bucket,
                        tg_ms from, double wanted)
{
    double start = fmax((double)from, bucket->last);
    double missing = wanted - level_at(limiter, bucket, start);
    tg_ms at = num_add(num_floor(start), num_ceil(missing / rise_of(limiter)));

    assert(wanted <= capacity_of(limiter)); /* a level above it is never reached */
    for (tg_ms step = 1; at < TG_NUMBER_MAX && level_at(limiter, bucket, (double)at) < wanted;
         step *= 2)
        at = num_add(at, step);
    return at;
}

/* When a level becomes full. The refill starts from `last`, should the clock be behind it. */
static tg_ms full_again_at(const struct tg_limiter *limiter, const struct token_bucket *bucket,
                           double level, tg_ms now)
{
    return num_add(num_max(now, num_floor(bucket->last)),
                   num_ceil((capacity_of(limiter) - level) / rise_of(limiter)));
}

static void token_bucket_reset(const struct tg_limiter *limiter, void *state)
{
    *(struct token_bucket *)state = (struct token_bucket){.tokens = capacity_of(limiter)};
}

static tg_ms token_bucket_fresh_at(const struct tg_limiter *limiter, const void *state)
{
    return reaches_at(limiter, state, 0, capacity_of(limiter));
}

static void token_bucket_peek(const struct tg_limiter *limiter, const void *state, tg_ms now,
                              int64_t cost, struct tg_decision *answer)
{
    const struct token_bucket *bucket = state;
    int64_t capacity = limiter->config.limit;
    double level = level_at(limiter, bucket, (double)now);
    double after = level - (double)cost;

    if (after >= 0 || cost == 0)
        limit_allow(answer, capacity, num_floor(after), full_again_at(limiter, bucket, after, now));
    else
        limit_deny(answer, capacity, num_floor(level), full_again_at(limiter, bucket, level, now),
                   cost > capacity
                       ? TG_UNSATISFIABLE
                       : limit_hint(reaches_at(limiter, bucket, now, (double)cost) - now));
}

static void token_bucket_take(const struct tg_limiter *limiter, void *state, tg_ms now,
                              int64_t cost)
{
    set_level(state, level_at(limiter, state, (double)now) - (double)cost, now);
}

/* What the refill has paid since the charge is not given back, as in gcra.c. */
static void token_bucket_refund(const struct tg_limiter *limiter, void *state, tg_ms now,
                                struct tg_charge charge, int64_t units)
{
    double paid = (double)num_less(now, charge.at) * rise_of(limiter);
    double back = fmin((double)num_min(units, charge.cost), (double)charge.cost - paid);
    double level = level_at(limiter, state, (double)now);

    if (back > 0)
        set_level(state, fmin(level + back, capacity_of(limiter)), now);
}

static void token_bucket_settle(const struct tg_limiter *limiter, void *state, tg_ms now,
                                struct tg_charge charge, int64_t actual)
{
    if (actual < charge.cost) {
        token_bucket_refund(limiter, state, now, charge, charge.cost - actual);
    } else if (actual > charge.cost) {
        double level = level_at(limiter, state, (double)now) - (double)(actual - charge.cost);
        set_level(state, fmax(level, -(double)TG_NUMBER_MAX), now);
    }
}

static void token_bucket_carry(const struct tg_limiter *limiter, void *state,
                               const struct tg_limiter *from, const void *counted, tg_ms now)
{
    const struct token_bucket *old = counted;
    double used = capacity_of(from) - level_at(from, old, (double)now);

    ((struct token_bucket *)state)->last = old->last;
    set_level(state, fmax(capacity_of(limiter) - used, -(double)TG_NUMBER_MAX), now);
}

/* ---- charges that are settled ---- */

static void bucket_settled_reset(const struct tg_limiter *limiter, void *state)
{
    struct bucket_settled *settled = state;

    token_bucket_reset(limiter, &settled->bucket);
    settled->minima = (struct minima){.n = 0};
}

static void bucket_settled_take(const struct tg_limiter *limiter, void *state, tg_ms now,
                                int64_t cost)
{
    struct bucket_settled *settled = state;
    double level = level_at(limiter, &settled->bucket, (double)now);

    minima_push(&settled->minima, now, fmax((double)now, settled->bucket.last),
                capacity_of(limiter) - level);
    set_level(&settled->bucket, level - (double)cost, now);
}

static void bucket_settled_refund(const struct tg_limiter *limiter, void *state, tg_ms now,
                                  struct tg_charge charge, int64_t units)
{
    struct bucket_settled *settled = state;
    double level = level_at(limiter, &settled->bucket, (double)now);
    double back = minima_settle(&settled->minima, charge.at, (double)num_min(units, charge.cost),
                                capacity_of(limiter) - level);

    if (back > 0)
        set_level(&settled->bucket, fmin(level + back, capacity_of(limiter)), now);
}

static void bucket_settled_settle(const struct tg_limiter *limiter, void *state, tg_ms now,
                                  struct tg_charge charge, int64_t actual)
{
    struct bucket_settled *settled = state;

    if (actual < charge.cost) {
        bucket_settled_refund(limiter, state, now, charge, charge.cost - actual);
    } else if (actual > charge.cost) {
        double level = level_at(limiter, &settled->bucket, (double)now);
        double more = (double)(actual - charge.cost);
        minima_owe(&settled->minima, now, fmax((double)now, settled->bucket.last),
                   capacity_of(limiter) - level, charge, more);
        set_level(&settled->bucket, fmax(level - more, -(double)TG_NUMBER_MAX), now);
    }
}

static void bucket_settled_carry(const struct tg_limiter *limiter, void *state,
                                 const struct tg_limiter *from, const void *counted, tg_ms now)
{
    const struct bucket_settled *old = counted;
    struct bucket_settled *settled = state;

    token_bucket_carry(limiter, &settled->bucket, from, &old->bucket, now);
    settled->minima = old->minima;
}

static const struct tg_limiter_ops bucket_settled_ops = {
    TOKEN_BUCKET_NAME,   bucket_settled_reset,  token_bucket_fresh_at, token_bucket_peek,
    bucket_settled_take, bucket_settled_refund, bucket_settled_settle, bucket_settled_carry,
};

static enum tg_err token_bucket_prepare(struct tg_limiter *limiter, struct tg_problem *problem)
{
    double rise = limiter->config.refill / 1000;

    if (!((double)limiter->config.limit / rise <= (double)TG_NUMBER_MAX))
        return problem_say(problem, TG_ERR_INVALID,
                           "token_bucket: a refill of %g a second does not fill a capacity of %lld "
                           "within %.3g ms",
                           limiter->config.refill, (long long)limiter->config.limit,
                           (double)TG_NUMBER_MAX);
    limiter->state_bytes = sizeof(struct token_bucket);
    assert(rise > 0);
    limiter->derived[0] = rise;
    return TG_OK;
}

const struct limit_strategy limit_token_bucket = {
    .ops = {TOKEN_BUCKET_NAME, token_bucket_reset, token_bucket_fresh_at, token_bucket_peek,
            token_bucket_take, token_bucket_refund, token_bucket_settle, token_bucket_carry},
    .fields = {{"capacity", offsetof(struct tg_limiter_config, limit), LIMIT_UNITS, TG_NUMBER_MAX,
                0},
               {"refill", offsetof(struct tg_limiter_config, refill), LIMIT_PER_SECOND,
                TG_NUMBER_MAX, 0}},
    .settled_ops = &bucket_settled_ops,
    .settled_bytes = sizeof(struct minima),
    .prepare = token_bucket_prepare,
};
