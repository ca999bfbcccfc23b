/* gcra.c - a rate limit kept in one timestamp.
 *
 * The generic cell rate algorithm (ITU-T I.371) keeps the theoretical arrival time (tat): the
 * moment at which the key will have been idle long enough to be full again. One double is all a
 * key needs; an idle key needs no refill and can be forgotten.
 *
 *        tat - tolerance                tat
 *     ---------|-------------------------|--------> time
 *      refuse  |  admit, tat moves on    |  admit, from a full burst
 *
 *     interval  = period / limit          ms that one unit takes
 *     tolerance = interval * burst        how far tat may run ahead of now
 *     admit iff  now >= max(tat, now) + interval * cost - tolerance
 *
 * Promise: in any span of d ms at most burst + d / interval units are admitted, up to the rounding
 * of a double: 2^-13 ms for each admitted call at today's epoch time, and never more than 1/1024
 * of a charge (tests/prop/test_limiter_bounds.c). Doubles rather than integers, and the operations
 * in this very order, because the script in Redis has nothing else and must agree to the bit.
 */
#include "lib/core/problem.h"
#include "lib/limit/minima.h"

#include <math.h>

static const char GCRA_NAME[] = "gcra";

struct gcra {
    double tat;
};

/* The state of a key whose charges are settled. The deficit is how far tat is ahead of now. */
struct gcra_settled {
    struct gcra gcra;
    struct minima minima;
};

static double interval_of(const struct tg_limiter *limiter)
{
    return limiter->derived[0];
}

static double tolerance_of(const struct tg_limiter *limiter)
{
    return limiter->derived[1];
}

static double base_at(const struct gcra *gcra, tg_ms now)
{
    return gcra->tat > (double)now ? gcra->tat : (double)now;
}

/* Where tat stands after `cost` more units. At epoch times a double resolves 1/4096 ms: an interval
 * of that size would be rounded away and cost nothing, so a sum that lost a noticeable part of
 * the charge is rounded up instead. */
static double tat_after(const struct tg_limiter *limiter, double base, int64_t cost)
{
    double charge = interval_of(limiter) * (double)cost;
    double next = base + charge;

    assert(next >= base);
    return next - base < charge * (1 - 0x1p-10) ? num_next_double(next) : next;
}

static int64_t remaining_at(const struct tg_limiter *limiter, double tat, tg_ms now)
{
    double backlog = tat - (double)now;

    if (!(backlog > 0))
        return limiter->config.burst;
    return num_min(limiter->config.burst,
                   num_floor((tolerance_of(limiter) - backlog) / interval_of(limiter)));
}

static void gcra_reset(const struct tg_limiter *limiter, void *state)
{
    (void)limiter;
    *(struct gcra *)state = (struct gcra){0};
}

static tg_ms gcra_fresh_at(const struct tg_limiter *limiter, const void *state)
{
    (void)limiter;
    return num_ceil(((const struct gcra *)state)->tat);
}

/* The first whole ms at which `allow_at` has come. The difference is not rounded: up to 2^53 ms
 * both are whole multiples of the last bit of `allow_at`, and so is their difference, which is
 * less. */
static tg_ms gcra_wait_until(double allow_at, tg_ms now)
{
    tg_ms wait = num_ceil(allow_at - (double)now);

    assert(wait == TG_NUMBER_MAX || (double)(now + wait) >= allow_at);
    return limit_hint(wait);
}

/* Apart from the peek, which is so short that even the registers a call needs would count. */
static __attribute__((noinline)) void gcra_deny(const struct tg_limiter *limiter, double base,
                                                double allow_at, tg_ms now, int64_t cost,
                                                struct tg_decision *answer)
{
    int64_t burst = limiter->config.burst;

    limit_deny(answer, burst, remaining_at(limiter, base, now), num_ceil(base),
               cost > burst ? TG_UNSATISFIABLE : gcra_wait_until(allow_at, now));
}

/* The same answer as limit_allow(), but what takes a division comes last and by itself: written
 * together with its neighbour it would go by way of the stack, and the time of a peek is the time
 * of this chain. */
static void gcra_allow(const struct tg_limiter *limiter, double next, tg_ms now,
                       struct tg_decision *answer)
{
    answer->allowed = true;
    answer->limit = limiter->config.burst;
    answer->retry_after_ms = 0;
    answer->reset_at = num_ceil(next);
    answer->remaining = remaining_at(limiter, next, now);
    assert(answer->remaining >= 0 && answer->remaining <= answer->limit);
}

static void gcra_peek(const struct tg_limiter *limiter, const void *state, tg_ms now, int64_t cost,
                      struct tg_decision *answer)
{
    double base = base_at(state, now);
    double next = tat_after(limiter, base, cost);
    double allow_at = next - tolerance_of(limiter);
    int64_t burst = limiter->config.burst;

    /* A full key admits up to its burst by definition, whatever allow_at was rounded to. */
    bool full = base <= (double)now;
    if (cost == 0 || (cost <= burst && (full || (double)now >= allow_at)))
        gcra_allow(limiter, next, now, answer);
    else
        gcra_deny(limiter, base, allow_at, now, cost, answer);
}

static void gcra_take(const struct tg_limiter *limiter, void *state, tg_ms now, int64_t cost)
{
    struct gcra *gcra = state;

    gcra->tat = tat_after(limiter, base_at(gcra, now), cost);
}

/* Time pays a charge off. What has been paid is not given back: had the call never been charged,
 * the key might have been full since, and fuller than full it never gets. */
static void gcra_refund(const struct tg_limiter *limiter, void *state, tg_ms now,
                        struct tg_charge charge, int64_t units)
{
    struct gcra *gcra = state;
    double interval = interval_of(limiter);
    double owed = interval * (double)charge.cost - (double)num_less(now, charge.at);
    double back = fmin(interval * (double)num_min(units, charge.cost), owed);
    double least = fmin(gcra->tat, (double)now);

    if (back > 0)
        gcra->tat = fmax(gcra->tat - back, least);
    assert(gcra->tat >= 0);
}

static void gcra_settle(const struct tg_limiter *limiter, void *state, tg_ms now,
                        struct tg_charge charge, int64_t actual)
{
    struct gcra *gcra = state;

    if (actual < charge.cost)
        gcra_refund(limiter, state, now, charge, charge.cost - actual);
    else if (actual > charge.cost)
        gcra->tat = fmin(tat_after(limiter, base_at(gcra, now), actual - charge.cost),
                         (double)TG_NUMBER_MAX);
}

static void gcra_carry(const struct tg_limiter *limiter, void *state, const struct tg_limiter *from,
                       const void *counted, tg_ms now)
{
    double backlog = ((const struct gcra *)counted)->tat - (double)now;
    double scale = interval_of(limiter) / interval_of(from);

    if (backlog > 0)
        ((struct gcra *)state)->tat = fmin((double)now + backlog * scale, (double)TG_NUMBER_MAX);
}

/* ---- charges that are settled ---- */

static void gcra_settled_reset(const struct tg_limiter *limiter, void *state)
{
    (void)limiter;
    *(struct gcra_settled *)state = (struct gcra_settled){.minima.n = 0};
}

static void gcra_settled_take(const struct tg_limiter *limiter, void *state, tg_ms now,
                              int64_t cost)
{
    struct gcra_settled *settled = state;

    minima_push(&settled->minima, now, (double)now, base_at(&settled->gcra, now) - (double)now);
    gcra_take(limiter, &settled->gcra, now, cost);
}

static void gcra_settled_refund(const struct tg_limiter *limiter, void *state, tg_ms now,
                                struct tg_charge charge, int64_t units)
{
    struct gcra_settled *settled = state;
    double deficit = base_at(&settled->gcra, now) - (double)now;
    double unused = interval_of(limiter) * (double)num_min(units, charge.cost);

    settled->gcra.tat -= minima_settle(&settled->minima, charge.at, unused, deficit);
    assert(settled->gcra.tat >= 0);
}

static void gcra_settled_settle(const struct tg_limiter *limiter, void *state, tg_ms now,
                                struct tg_charge charge, int64_t actual)
{
    struct gcra_settled *settled = state;

    if (actual < charge.cost) {
        gcra_settled_refund(limiter, state, now, charge, charge.cost - actual);
    } else if (actual > charge.cost) {
        /* Where the clock has stepped back, not before the charge itself. */
        tg_ms at = num_max(now, charge.at);
        double base = base_at(&settled->gcra, at);
        minima_owe(&settled->minima, now, (double)at, base - (double)at, charge,
                   interval_of(limiter) * (double)(actual - charge.cost));
        settled->gcra.tat =
            fmin(tat_after(limiter, base, actual - charge.cost), (double)TG_NUMBER_MAX);
    }
}

static void gcra_settled_carry(const struct tg_limiter *limiter, void *state,
                               const struct tg_limiter *from, const void *counted, tg_ms now)
{
    const struct gcra_settled *old = counted;
    struct gcra_settled *settled = state;
    double scale = interval_of(limiter) / interval_of(from);

    gcra_carry(limiter, &settled->gcra, from, &old->gcra, now);
    settled->minima = old->minima;
    for (int64_t i = 0; i < settled->minima.n; i++)
        settled->minima.list[i].deficit *= scale;
}

static const struct tg_limiter_ops gcra_settled_ops = {
    GCRA_NAME,         gcra_settled_reset,  gcra_fresh_at,       gcra_peek,
    gcra_settled_take, gcra_settled_refund, gcra_settled_settle, gcra_settled_carry,
};

static enum tg_err gcra_prepare(struct tg_limiter *limiter, struct tg_problem *problem)
{
    const struct tg_limiter_config *config = &limiter->config;
    double interval = (double)config->period / (double)config->limit;
    double tolerance = interval * (double)config->burst;

    if (!(tolerance <= (double)TG_NUMBER_MAX))
        return problem_say(problem, TG_ERR_INVALID,
                           "gcra: burst x period / limit is %.3g ms, the time a whole burst takes; "
                           "at most %.3g is allowed",
                           tolerance, (double)TG_NUMBER_MAX);
    limiter->state_bytes = sizeof(struct gcra);
    assert(interval > 0 && tolerance >= interval);
    limiter->derived[0] = interval;
    limiter->derived[1] = tolerance;
    return TG_OK;
}

const struct limit_strategy limit_gcra = {
    .ops = {GCRA_NAME, gcra_reset, gcra_fresh_at, gcra_peek, gcra_take, gcra_refund, gcra_settle,
            gcra_carry},
    .fields = {{"limit", offsetof(struct tg_limiter_config, limit), LIMIT_UNITS, TG_NUMBER_MAX, 0},
               {"period", offsetof(struct tg_limiter_config, period), LIMIT_TIME, TG_NUMBER_MAX, 0},
               /* -1: as large as the limit */
               {"burst", offsetof(struct tg_limiter_config, burst), LIMIT_UNITS, TG_NUMBER_MAX,
                -1}},
    .settled_ops = &gcra_settled_ops,
    .settled_bytes = sizeof(struct minima),
    .prepare = gcra_prepare,
};
