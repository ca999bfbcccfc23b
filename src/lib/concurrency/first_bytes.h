/* first_bytes.h - what a first byte takes when nothing waits, by size of prompt.
 *
 * A law takes latency for load. But a long prompt takes longer to its first byte than a short one
 * on an idle machine, too, and a mix of both that changes is no overload. So calls are sorted by
 * the size of their prompt, a power of two each, and compared with others of their size: the base
 * is the lowest median of 24 of them, raised by 0.2 % of the difference with each median above it,
 * less what the law itself lets calls wait: else lasting overload would become the base.
 * The median and not the mean or the least: answers shorter than the prefill of others bring early
 * first bytes, and against the least all others would seem to wait.
 *
 * The gate's lock covers it.
 */
#ifndef TG_CONCURRENCY_FIRST_BYTES_H
#define TG_CONCURRENCY_FIRST_BYTES_H

#include "tollgate.h"

enum { FIRST_BYTES_SIZES = 24, FIRST_BYTES_WINDOW = 24 };

struct first_bytes {
    double common_ms;  /* the first base there was: what all are scaled to; 0: none yet */
    double allowed_ms; /* what the law lets calls wait: so much above a base does not raise it */
    struct {
        double base_ms; /* 0: none yet */
        float recent_ms[FIRST_BYTES_WINDOW];
        int n;
    } sizes[FIRST_BYTES_SIZES];
};

/* The place of a size in tokens: 0 for 0, the number of its bits for others. */
static inline uint8_t first_bytes_place(int64_t tokens)
{
    uint8_t place = 0;

    for (; tokens > 0 && place < FIRST_BYTES_SIZES - 1; tokens /= 2)
        place++;
    return place;
}

/* Takes a first byte in that came after `ms`, and returns the base of its size. Until there are
 * some calls of this size that is the time itself. */
double first_bytes_learn(struct first_bytes *first_bytes, uint8_t place, double ms);

/* The middle of a few numbers, which it sorts. */
double first_bytes_median(double *values, int n);

#endif
