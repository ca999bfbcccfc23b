/* first_byte.c - see first_byte.h. */
#include "server/dialect/first_byte.h"

#include <assert.h>

/* A least time that is never reached again is forgotten at this rate a call: after some hundred
 * calls a machine that has become slower for good is taken as it is. */
static const double FORGETS = 1.002;

double first_byte_sample(struct first_byte *first_byte, int64_t prompt_tokens, double ms)
{
    unsigned bucket = 0;

    for (; prompt_tokens > 1 && bucket < FIRST_BYTE_BUCKETS - 1; prompt_tokens /= 2)
        bucket++;
    _Atomic double *least = &first_byte->least_ms[bucket];
    double usual = atomic_load_explicit(least, memory_order_relaxed);
    double common = atomic_load_explicit(&first_byte->common_ms, memory_order_relaxed);

    if (ms < 0.001)
        ms = 0.001;
    usual = usual > 0 && usual * FORGETS < ms ? usual * FORGETS : ms;
    atomic_store_explicit(least, usual, memory_order_relaxed);
    if (!(common > 0)) {
        common = usual;
        atomic_store_explicit(&first_byte->common_ms, common, memory_order_relaxed);
    }
    assert(usual > 0 && usual <= ms && common > 0); /* the least: so no sample is below common */
    return ms / usual * common;
}
