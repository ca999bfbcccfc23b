/* measure.c - timing loops side by side. See measure.h. */
#include "measure.h"

#include <math.h>
#include <stdlib.h>

#include "io/posix/clock.h"

enum { ROUNDS = 21 };

/* Long enough that reading the clock and a stray interrupt do not count. */
static const double ROUND_NS = 20e6;

static double time_of(measured_loop loop, void *context, uint64_t n)
{
    int64_t start = clock_monotonic_ns();

    loop(context, n);
    return (double)(clock_monotonic_ns() - start);
}

/* The best of some trials, so that one in which the machine was busy elsewhere does not count. */
static double best_time_of(measured_loop loop, void *context, uint64_t n)
{
    double best = time_of(loop, context, n);

    for (int i = 1; i < 5; i++)
        best = fmin(best, time_of(loop, context, n));
    return best;
}

/* How many times make a round; the trials warm caches and branch predictors as well. */
static uint64_t times_a_round(measured_loop loop, void *context)
{
    uint64_t n = 64;
    double took = best_time_of(loop, context, n);

    while (took < ROUND_NS / 4) {
        n *= 2;
        took = best_time_of(loop, context, n);
    }
    return (uint64_t)((double)n * ROUND_NS / took) + 1;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Sorts the rounds' numbers as a side effect. */
static double quantile(double *numbers, double q)
{
    qsort(numbers, ROUNDS, sizeof *numbers, ascending);
    return numbers[(size_t)(q * (ROUNDS - 1) + 0.5)];
}

struct measured measure(measured_loop subject, void *context, measured_loop reference,
                        void *reference_context)
{
    double values[ROUNDS], references[ROUNDS], ratios[ROUNDS];
    uint64_t n = times_a_round(subject, context);
    uint64_t m = reference ? times_a_round(reference, reference_context) : 0;

    for (size_t i = 0; i < ROUNDS; i++) {
        values[i] = time_of(subject, context, n) / (double)n;
        if (reference) {
            references[i] = time_of(reference, reference_context, m) / (double)m;
            ratios[i] = values[i] / references[i];
        }
    }
    double *spread = reference ? ratios : values;
    return (struct measured){
        .value = quantile(values, 0.5),
        .reference = reference ? quantile(references, 0.5) : NAN,
        .ratio = reference ? quantile(ratios, 0.5) : NAN,
        .low = quantile(spread, 0.25),
        .high = quantile(spread, 0.75),
    };
}

struct measured measure_count(double value)
{
    return (struct measured){value, NAN, NAN, value, value};
}
