/* workload_draw.c - how long a request is, and how long until the next. See workload_draw.h.
 *
 * exp, log, pow and tgamma are those of libm with values no compiler can know beforehand, so that
 * every compiler gets the same draws.
 */
#include "lab/workload/workload_draw.h"

#include <assert.h>
#include <math.h>

/* A gap may be as long as this, about 30,000 years, and no sum of a few of them overflows. */
#define GAP_MAX 1e18

/* Below this shape a gamma draw is 0 for all practical purposes, with one gap of centuries between:
 * arrivals without memory take its place, as in BLIS. */
#define GAMMA_SHAPE_MIN 0.01

const char *const length_kind_names[LENGTH_KINDS] = {
    "constant", "gaussian", "exponential", "lognormal", "pareto_lognormal", "empirical",
};

const char *const gap_kind_names[GAP_KINDS] = {"poisson", "gamma", "weibull", "constant"};

/* From (0, 1): whatever takes its logarithm or divides by it. */
static double open_unit(struct random *random)
{
    double unit = random_unit(random);

    return unit > 0 ? unit : 0x1p-54;
}

/* ---- Lengths --------------------------------------------------------------------------------- */

static double cut(double x, double low, double high)
{
    return x < low ? low : x > high ? high : x;
}

static int64_t whole_tokens(double x)
{
    return (int64_t)cut(round(x), 1, (double)LENGTH_MAX);
}

static int64_t draw_bin(const struct length_law *law, double unit)
{
    size_t low = 0, high = law->n_bins - 1;

    assert(law->n_bins > 0 && unit >= 0 && unit <= law->bins[high].until);
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (law->bins[middle].until < unit)
            low = middle + 1;
        else
            high = middle;
    }
    assert(low == 0 || law->bins[low - 1].until < unit);
    return law->bins[low].tokens;
}

int64_t length_draw(const struct length_law *law, struct random *random)
{
    double x = law->value;

    switch (law->kind) {
    case LENGTH_CONSTANT:
    case LENGTH_KINDS:
        return whole_tokens(x);
    case LENGTH_GAUSSIAN:
        x = law->mean + law->std_dev * random_normal(random);
        break;
    case LENGTH_EXPONENTIAL:
        x = random_exponential(random, law->mean);
        break;
    case LENGTH_LOGNORMAL:
        x = exp(law->mu + law->sigma * random_normal(random));
        break;
    case LENGTH_PARETO_LOGNORMAL:
        if (random_unit(random) < law->mix_weight)
            x = law->xm / pow(open_unit(random), 1 / law->alpha);
        else
            x = exp(law->mu + law->sigma * random_normal(random));
        break;
    case LENGTH_EMPIRICAL:
        return whole_tokens((double)draw_bin(law, random_unit(random)));
    }
    assert(!isnan(x) && law->min <= law->max);
    return whole_tokens(cut(x, law->min, law->max));
}

static double bins_mean(const struct length_law *law)
{
    double mean = 0, before = 0;

    for (size_t i = 0; i < law->n_bins; i++) {
        mean += (double)law->bins[i].tokens * (law->bins[i].until - before);
        before = law->bins[i].until;
    }
    return mean;
}

double length_mean(const struct length_law *law)
{
    double lognormal = exp(law->mu + law->sigma * law->sigma / 2);

    switch (law->kind) {
    case LENGTH_GAUSSIAN:
    case LENGTH_EXPONENTIAL:
        return law->mean;
    case LENGTH_LOGNORMAL:
        return lognormal;
    case LENGTH_PARETO_LOGNORMAL:
        return (law->alpha > 1 ? law->mix_weight * law->alpha * law->xm / (law->alpha - 1)
                               : (double)INFINITY) +
               (1 - law->mix_weight) * lognormal;
    case LENGTH_EMPIRICAL:
        return bins_mean(law);
    case LENGTH_CONSTANT:
    case LENGTH_KINDS:
        break;
    }
    return law->value;
}

/* ---- Gaps ------------------------------------------------------------------------------------ */

static double weibull_cv(double shape)
{
    double mean = tgamma(1 + 1 / shape);

    return sqrt(tgamma(1 + 2 / shape) / (mean * mean) - 1);
}

/* The variation falls as the shape grows, so halving finds it; to the tolerance of BLIS. */
static double weibull_shape(double cv)
{
    double low = 0.1, high = 100, middle = 1;

    for (int i = 0; i < 100; i++) {
        middle = (low + high) / 2;
        double found = weibull_cv(middle);
        if (fabs(found - cv) < 0.001)
            break;
        if (found > cv)
            low = middle;
        else
            high = middle;
    }
    return middle;
}

void gap_init(struct gap_law *law, enum gap_kind kind, double cv, double rate_per_s)
{
    double mean = 1e6 / rate_per_s;

    assert(rate_per_s > 0);
    *law = (struct gap_law){.kind = kind, .mean_us = mean};
    if (kind == GAP_GAMMA) {
        law->shape = 1 / (cv * cv);
        law->scale = mean * cv * cv;
        if (law->shape < GAMMA_SHAPE_MIN)
            law->kind = GAP_POISSON;
    } else if (kind == GAP_WEIBULL) {
        law->shape = weibull_shape(cv);
        law->scale = mean / tgamma(1 + 1 / law->shape);
    }
}

/* Marsaglia and Tsang, 2000, for a shape of 1 or more. */
static double draw_gamma(double shape, struct random *random)
{
    double d = shape - 1.0 / 3, c = 1 / sqrt(9 * d);

    assert(shape >= 1);
    for (;;) {
        double x = random_normal(random), v = 1 + c * x;
        if (v <= 0)
            continue;
        v = v * v * v;
        double u = open_unit(random);
        if (u < 1 - 0.0331 * x * x * x * x || log(u) < 0.5 * x * x + d * (1 - v + log(v)))
            return d * v;
    }
}

static double draw_any_gamma(double shape, struct random *random)
{
    if (shape >= 1)
        return draw_gamma(shape, random);
    double u = open_unit(random);
    return draw_gamma(shape + 1, random) * pow(u, 1 / shape);
}

int64_t gap_draw(const struct gap_law *law, struct random *random)
{
    double gap = law->mean_us;

    switch (law->kind) {
    case GAP_POISSON:
        gap = random_exponential(random, law->mean_us);
        break;
    case GAP_GAMMA:
        gap = law->scale * draw_any_gamma(law->shape, random);
        break;
    case GAP_WEIBULL:
        gap = law->scale * pow(-log(open_unit(random)), 1 / law->shape);
        break;
    case GAP_CONSTANT:
    case GAP_KINDS:
        break;
    }
    assert(gap >= 0);
    return (int64_t)cut(gap, 1, GAP_MAX);
}
