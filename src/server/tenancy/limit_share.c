/* limit_share.c - see limit_share.h. A rate is divided exactly: gcra takes n times as long for as
 * many units, a bucket is refilled by the n-th part. What is counted in whole units is rounded
 * down. */
#include "server/tenancy/limit_share.h"

#include <assert.h>

#include "lib/core/num.h"

static int64_t part(int64_t units, int64_t n)
{
    assert(units >= 0 && n > 1);
    return num_max(units / n, 1);
}

void limit_share(const struct tg_limit *whole, int64_t n, struct tg_limit *share)
{
    struct tg_limiter_config config = whole->limiter.config;
    struct tg_limiter made;

    *share = *whole;
    if (n <= 1)
        return;
    switch (config.strategy) {
    case TG_GCRA:
        if (config.period > TG_NUMBER_MAX / n)
            return;
        config.period *= n;
        config.burst = part(config.burst, n);
        break;
    case TG_TOKEN_BUCKET:
        config.refill /= (double)n;
        config.limit = part(config.limit, n);
        break;
    default:
        config.limit = part(config.limit, n);
    }
    if (tg_limiter_init(&made, &config, NULL) == TG_OK && made.ops == whole->limiter.ops)
        share->limiter = made;
}
