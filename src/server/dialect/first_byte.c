/* first_byte.c - see first_byte.h. */
#include "server/dialect/first_byte.h"

/* A least time that is never reached again is forgotten at this rate a call: after some hundred
 * calls a machine that has become slower for good is taken as it is. */
static const double FORGETS = 1.002;

static unsigned first_byte_bucket_of(int64_t tokens)
{
    unsigned bucket = 0;

    for (; tokens > 1 && bucket < FIRST_BYTE_BUCKETS - 1; tokens /= 2)
        bucket++;
    return bucket;
}

double first_byte_sample(struct first_byte *first_byte, int64_t prompt_tokens, double ms)
{
    _Atomic double *least = &first_byte->least_ms[first_byte_bucket_of(prompt_tokens)];
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
    return ms / usual * common;
}
