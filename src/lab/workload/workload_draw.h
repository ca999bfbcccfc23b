/* workload_draw.h - how long a request is, and how long until the next: a workload's distributions.
 *
 * The kinds and their parameters are those of BLIS's workload files, so that a file means the same
 * here and there. The draws are not: chance comes from our own seeded stream.
 */
#ifndef TG_WORKLOAD_WORKLOAD_DRAW_H
#define TG_WORKLOAD_WORKLOAD_DRAW_H

#include <stddef.h>
#include <stdint.h>

#include "lib/core/random.h"

/* No request is longer, whatever a distribution with a heavy tail draws; with a prefix as long, it
 * is still one that a cluster takes. */
#define LENGTH_MAX ((int64_t)1 << 28)

/* ---- Lengths, in tokens ---- */

enum length_kind {
    LENGTH_CONSTANT,         /* value */
    LENGTH_GAUSSIAN,         /* mean, std_dev, min, max: cut off there */
    LENGTH_EXPONENTIAL,      /* mean; min and max may be given */
    LENGTH_LOGNORMAL,        /* mu, sigma; min and max may be given */
    LENGTH_PARETO_LOGNORMAL, /* alpha, xm with probability mix_weight, else mu, sigma */
    LENGTH_EMPIRICAL,        /* lengths and how probable each is */
    LENGTH_KINDS,
};

extern const char *const length_kind_names[LENGTH_KINDS];

struct length_bin {
    int64_t tokens;
    double until; /* the probability of this length or a shorter one */
};

struct length_law {
    enum length_kind kind;
    double value, mean, std_dev, min, max; /* a min or max that is not given: 1 and LENGTH_MAX */
    double mu, sigma, alpha, xm, mix_weight;
    const struct length_bin *bins; /* by length; the last one's `until` is 1 */
    size_t n_bins;
};

/* From 1 to LENGTH_MAX. */
int64_t length_draw(const struct length_law *law, struct random *random);

/* What a draw is on average, the cuts aside; for messages. */
double length_mean(const struct length_law *law);

/* ---- Gaps between arrivals, in microseconds ---- */

enum gap_kind {
    GAP_POISSON,
    GAP_GAMMA,   /* by its coefficient of variation */
    GAP_WEIBULL, /* by its coefficient of variation */
    GAP_CONSTANT,
    GAP_KINDS,
};

extern const char *const gap_kind_names[GAP_KINDS];

#define GAP_WEIBULL_CV_MIN 0.01
#define GAP_WEIBULL_CV_MAX 10.4

struct gap_law {
    enum gap_kind kind;
    double mean_us, shape, scale; /* private */
};

/* Only gamma and weibull use `cv`; the rate is above 0. */
void gap_init(struct gap_law *law, enum gap_kind kind, double cv, double rate_per_s);

/* 1 or more. */
int64_t gap_draw(const struct gap_law *law, struct random *random);

#endif
