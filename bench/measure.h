/* measure.h - how the benchmarks measure: side by side, in rounds, by the median.
 *
 * A machine that is shared with others is now fast, now slow, for seconds at a time. A ratio
 * survives that if both sides are measured in turns: subject, reference, subject, reference. What
 * is reported is the median of the rounds, and how far the middle half of them lies apart.
 */
#ifndef TG_BENCH_MEASURE_H
#define TG_BENCH_MEASURE_H

#include <stddef.h>
#include <stdint.h>

/* Does the same thing n times. */
typedef void (*measured_loop)(void *context, uint64_t n);

struct measured {
    double value;     /* ns for each time, or whatever the unit says */
    double reference; /* the reference's value; NaN without one */
    double ratio;     /* median of the rounds' ratios; NaN without a reference */
    double low, high; /* quartiles of the ratio, or of the value without a reference */
};

/* The subject against a reference, or by itself if `reference` is null. */
struct measured measure(measured_loop subject, void *context, measured_loop reference,
                        void *reference_context);

/* A value that was counted rather than timed. */
struct measured measure_count(double value);

#endif
