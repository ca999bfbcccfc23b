/* test_limiter_bounds.c - how much each strategy admits at most, on random traffic.
 *
 * "In any span" is a statement on all pairs of calls. With A(i) the units admitted before call i
 * it reads, for gcra: A(j+1) - A(i) <= burst + (t(j) - t(i)) / interval for all i <= j, which is
 *
 *     A(j+1) - t(j) / interval + max over i <= j of (t(i) / interval - A(i)) <= burst
 *
 * so one pass with a running maximum checks every pair. All sums are made in whole numbers where
 * the parameters are whole. Rounding may give away a little, and this is how much is tolerated:
 *
 *   gcra          each charge is rounded by at most half of the distance between two doubles near
 *                 the clock (2^-12 ms at today's epoch time); nothing if the interval is whole
 *   token_bucket  1e-9 of what is allowed; nothing if the refill is exact
 */
#include <math.h>
#include <stdlib.h>

#include "check.h"
#include "walk.h"

#define STEPS 150
#define WALKS 3000 /* x STEPS: cases of a property of one strategy */
#define ONLY(strategy) (1u << (strategy))

static uint64_t seed;

/* Takes a random cost at the walk's time; returns what was charged. */
static int64_t take_some(struct walk *walk)
{
    int64_t cost = subject_cost(&walk->subject, &walk->draw);

    return subject_take(&walk->subject, walk->now, cost).allowed ? cost : 0;
}

/* ---- burst + rate x span ---- */

/* The running maximum. Units are scaled to `unit` = what one unit takes of time, so that the
 * bound is room <= burst * unit, in long doubles that hold all sums exactly or nearly so. */
struct spans {
    long double unit;     /* time scale of one admitted unit */
    long double per_ms;   /* time scale of one millisecond */
    tg_ms origin;         /* times are counted from the first, to keep sums small */
    long double admitted; /* units before this call */
    long double best;     /* max of t(i) * per_ms - A(i) * unit */
};

/* Counts a call and returns the largest excess, over every span that ends with it, of what was
 * admitted above rate x span. */
static long double spans_add(struct spans *spans, tg_ms now, int64_t units)
{
    long double t = (long double)(now - spans->origin) * spans->per_ms;

    spans->best = fmaxl(spans->best, t - spans->admitted * spans->unit);
    spans->admitted += (long double)units;
    return spans->admitted * spans->unit - t + spans->best;
}

/* How many units the rounding of so many operations may give away. */
static long double slack(const struct walk *walk, int operations, long double admitted)
{
    const struct tg_limiter_config *config = &walk->subject.limiter.config;
    double interval = (double)config->period / (double)config->limit;
    double tat = (double)walk->latest + (double)config->burst * interval;

    if (walk->subject.exact)
        return 0;
    if (config->strategy == TG_GCRA)
        return (operations + 2) * (long double)(nextafter(tat, INFINITY) - tat) / interval;
    return 1e-9L * ((long double)config->limit + admitted);
}

/* gcra, times `limit`: a unit takes `period`, a millisecond is worth `limit`. */
static void check_gcra(struct walk *walk)
{
    const struct tg_limiter_config *config = &walk->subject.limiter.config;
    struct spans spans = {.unit = (long double)config->period,
                          .per_ms = (long double)config->limit,
                          .origin = walk->now};

    for (int i = 0; i < STEPS; i++) {
        walk_forward(walk);
        long double excess = spans_add(&spans, walk->now, take_some(walk));
        long double bound = (long double)config->burst + slack(walk, i, spans.admitted);
        walk_check(walk, excess <= bound * spans.unit, "%Lg of a burst of %Lg", excess / spans.unit,
                   bound);
    }
}

static void gcra_admits_at_most_burst_plus_rate_times_span(void **state)
{
    (void)state;
    walk_all("gcra: burst + rate x span", seed, ONLY(TG_GCRA), WALKS, check_gcra);
}

static void check_bucket(struct walk *walk)
{
    const struct tg_limiter_config *config = &walk->subject.limiter.config;
    struct spans spans = {.unit = 1000, .per_ms = (long double)config->refill, .origin = walk->now};

    for (int i = 0; i < STEPS; i++) {
        walk_forward(walk);
        long double excess = spans_add(&spans, walk->now, take_some(walk));
        long double bound = (long double)config->limit + slack(walk, i, spans.admitted);
        walk_check(walk, excess <= bound * spans.unit, "%Lg of a capacity of %Lg",
                   excess / spans.unit, bound);
    }
}

static void token_bucket_admits_at_most_capacity_plus_rate_times_span(void **state)
{
    (void)state;
    walk_all("token_bucket: capacity + rate x span", seed, ONLY(TG_TOKEN_BUCKET), WALKS,
             check_bucket);
}

/* ---- windows ---- */

struct admitted {
    int64_t at; /* a time, or the number of a window or a bucket */
    int64_t units;
};

/* What was admitted, and where the part that still counts begins. */
struct recent {
    struct admitted log[STEPS];
    size_t first, end;
    int64_t units;
};

/* Adds a call, drops what lies before `horizon`, and returns the sum of the rest. */
static int64_t recent_add(struct recent *recent, int64_t at, int64_t units, int64_t horizon)
{
    recent->log[recent->end++] = (struct admitted){at, units};
    recent->units += units;
    while (recent->log[recent->first].at < horizon)
        recent->units -= recent->log[recent->first++].units;
    return recent->units;
}

static void check_log(struct walk *walk)
{
    const struct tg_limiter_config *config = &walk->subject.limiter.config;
    struct recent recent = {.units = 0};
    struct spans spans = {.unit = (long double)config->period,
                          .per_ms = (long double)config->limit,
                          .origin = walk->now};

    for (int i = 0; i < STEPS; i++) {
        walk_forward(walk);
        int64_t units = take_some(walk);
        int64_t sum = recent_add(&recent, walk->now, units, walk->now - config->period + 1);
        long double excess = spans_add(&spans, walk->now, units);
        walk_check(walk, sum <= config->limit, "%lld in one window", (long long)sum);
        walk_check(walk, excess <= (long double)config->limit * spans.unit, "%Lg in a span",
                   excess);
    }
}

static void sliding_log_admits_at_most_its_limit_in_any_window(void **state)
{
    (void)state;
    walk_all("sliding_log: the limit in any window, limit + rate x span in any span", seed,
             ONLY(TG_SLIDING_LOG), WALKS, check_log);
}

static void check_fixed_window(struct walk *walk)
{
    const struct tg_limiter_config *config = &walk->subject.limiter.config;
    struct recent recent = {.units = 0};

    for (int i = 0; i < STEPS; i++) {
        walk_forward(walk);
        int64_t window = walk->now / config->period;
        int64_t sum = recent_add(&recent, window, take_some(walk), window);
        walk_check(walk, sum <= config->limit, "%lld in one window", (long long)sum);
    }
}

static void fixed_window_admits_at_most_its_limit_in_a_window(void **state)
{
    (void)state;
    walk_all("fixed_window: the limit in a window", seed, ONLY(TG_FIXED_WINDOW), WALKS,
             check_fixed_window);
}

/* The bucket that a time falls into, by the strategy's own division. */
static int64_t bucket_of(const struct tg_limiter_config *config, tg_ms now)
{
    return (int64_t)floor((double)now / ((double)config->period / (double)config->buckets));
}

static void check_sliding_window(struct walk *walk)
{
    const struct tg_limiter_config *config = &walk->subject.limiter.config;
    struct recent recent = {.units = 0};

    for (int i = 0; i < STEPS; i++) {
        walk_forward(walk);
        int64_t bucket = bucket_of(config, walk->now);
        int64_t sum = recent_add(&recent, bucket, take_some(walk), bucket - config->buckets + 1);
        walk_check(walk, sum <= config->limit, "%lld in one window of buckets", (long long)sum);
    }
}

static void sliding_window_admits_at_most_its_limit_in_consecutive_buckets(void **state)
{
    (void)state;
    walk_all("sliding_window: the limit in any `buckets` consecutive buckets", seed,
             ONLY(TG_SLIDING_WINDOW), WALKS, check_sliding_window);
}

/* Before the debit that crosses, less than the budget has been admitted; after it, nothing is. */
static void check_budget(struct walk *walk)
{
    const struct tg_limiter_config *config = &walk->subject.limiter.config;
    struct recent recent = {.units = 0};

    for (int i = 0; i < STEPS; i++) {
        walk_forward(walk);
        int64_t window = walk->now / config->period;
        int64_t before = recent_add(&recent, window, 0, window);
        int64_t taken = take_some(walk);
        walk_check(walk, taken == 0 || before < config->limit, "%lld after %lld of the budget",
                   (long long)taken, (long long)before);
        recent.log[recent.end - 1].units = taken;
        recent.units += taken;
    }
}

static void token_budget_admits_nothing_after_the_debit_that_crosses(void **state)
{
    (void)state;
    walk_all("token_budget: less than the budget before the debit that crosses", seed,
             ONLY(TG_TOKEN_BUDGET), WALKS, check_budget);
}

/* ---- a clock that goes astray ---- */

/* How many aligned pieces of length `length` the walk has touched. */
static int64_t touched(const struct walk *walk, tg_ms length)
{
    return walk->latest / length - walk->earliest / length + 1;
}

/* What a clock that ran once from the earliest to the latest time would have let through. */
static long double allowance(const struct walk *walk, int64_t dearest)
{
    const struct tg_limiter_config *config = &walk->subject.limiter.config;
    long double limit = (long double)config->limit;
    long double span = (long double)(walk->latest - walk->earliest);

    switch (config->strategy) {
    case TG_GCRA:
        return (long double)config->burst + span * limit / (long double)config->period;
    case TG_TOKEN_BUCKET:
        return limit + span * (long double)config->refill / 1000;
    case TG_FIXED_WINDOW:
        return limit * (long double)touched(walk, config->period);
    case TG_SLIDING_WINDOW: {
        int64_t buckets = bucket_of(config, walk->latest) - bucket_of(config, walk->earliest) + 1;
        return limit * (long double)((buckets + config->buckets - 1) / config->buckets);
    }
    case TG_SLIDING_LOG:
        return limit * (floorl(span / (long double)config->period) + 1);
    default: /* token_budget: one debit crosses in each window */
        return (limit - 1 + (long double)dearest) * (long double)touched(walk, config->period);
    }
}

/* Gives back, once, a call that was admitted a while ago; returns its units. */
static int64_t give_back(struct walk *walk, struct tg_charge *charges, size_t n)
{
    if (n == 0)
        return 0;
    struct tg_charge *charge = &charges[draw_between(&walk->draw, 0, (int64_t)n - 1)];
    int64_t units = charge->cost;

    subject_refund(&walk->subject, walk->now, *charge, units);
    charge->cost = 0;
    return units;
}

static void check_astray(struct walk *walk)
{
    struct tg_charge charges[STEPS];
    size_t n = 0;
    int64_t dearest = 0, given_back = 0;
    long double admitted = 0;

    for (int i = 0; i < STEPS; i++) {
        walk_astray(walk);
        int64_t cost = take_some(walk);
        admitted += (long double)cost;
        charges[n++] = (struct tg_charge){walk->now, cost};
        dearest = cost > dearest ? cost : dearest;
        if (draw_chance(&walk->draw, 10))
            given_back += give_back(walk, charges, n);
        long double net = admitted - (long double)given_back;
        long double bound = allowance(walk, dearest) + slack(walk, 2 * i, admitted);
        walk_check(walk, net <= bound, "%Lg admitted of %Lg", net, bound);
    }
}

static void a_clock_that_steps_back_and_forth_never_creates_units(void **state)
{
    (void)state;
    walk_all("a clock that steps back and forth never creates units", seed, WALK_ALL_STRATEGIES,
             1000, check_astray);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gcra_admits_at_most_burst_plus_rate_times_span),
        cmocka_unit_test(token_bucket_admits_at_most_capacity_plus_rate_times_span),
        cmocka_unit_test(sliding_log_admits_at_most_its_limit_in_any_window),
        cmocka_unit_test(fixed_window_admits_at_most_its_limit_in_a_window),
        cmocka_unit_test(sliding_window_admits_at_most_its_limit_in_consecutive_buckets),
        cmocka_unit_test(token_budget_admits_nothing_after_the_debit_that_crosses),
        cmocka_unit_test(a_clock_that_steps_back_and_forth_never_creates_units),
    };
    seed = draw_seed("test_limiter_bounds");
    return cmocka_run_group_tests_name("limiter_bounds", tests, NULL, NULL);
}
