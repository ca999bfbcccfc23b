/* bucket.h - a small token bucket in integers, for bounds of our own.
 *
 * It bounds how often a peer may do something: `burst` times at once, `per_s` times a second in the
 * long run. It is not one of the limiters of tollgate.h: no decision, no hints, no state that Lua
 * shares, and it may be filled by other things than time: whoever does real work may be allowed
 * more of what makes work for us.
 *
 * Tokens are counted in thousandths, which is what a rate in tokens a second gives in a
 * millisecond: so nothing is rounded. Time comes as an argument and may stand still or go back,
 * which fills nothing. Not synchronised.
 *
 *     bucket_init(&resets, 100, 10, now);
 *     if (!bucket_take(&resets, 1, now))
 *         close_connection();
 */
#ifndef TG_CORE_BUCKET_H
#define TG_CORE_BUCKET_H

#include <assert.h>

#include "lib/core/num.h"

#define BUCKET_TOKEN 1000              /* thousandths of a token */
#define BUCKET_MAX INT64_C(1000000000) /* tokens; with an hour's worth of them, no sum overflows */
#define BUCKET_TIME_MAX INT64_C(3600000) /* ms; a longer time counts as this */

struct bucket {
    int64_t level; /* thousandths; below 0: more was taken than there was */
    int64_t burst; /* thousandths; the level never exceeds it */
    int64_t per_s; /* tokens a second, which is thousandths a millisecond */
    tg_ms filled_at;
};

/* A full bucket. Burst and rate are clamped to BUCKET_MAX tokens. */
static inline void bucket_init(struct bucket *bucket, uint64_t burst, uint64_t per_s, tg_ms now)
{
    bucket->burst = (burst < BUCKET_MAX ? (int64_t)burst : BUCKET_MAX) * BUCKET_TOKEN;
    bucket->per_s = per_s < BUCKET_MAX ? (int64_t)per_s : BUCKET_MAX;
    bucket->level = bucket->burst;
    bucket->filled_at = now;
}

/* Adds thousandths of a token that were earned otherwise than by time, 0 or more. */
static inline void bucket_add(struct bucket *bucket, int64_t thousandths)
{
    assert(thousandths >= 0 && thousandths <= BUCKET_MAX * BUCKET_TIME_MAX);
    assert(bucket->level <= bucket->burst);
    bucket->level = num_min(bucket->level + thousandths, bucket->burst);
}

/* Adds what the time since the last call has brought. */
static inline void bucket_refill(struct bucket *bucket, tg_ms now)
{
    tg_ms past = now - bucket->filled_at;

    if (past <= 0)
        return;
    bucket->filled_at = now;
    bucket_add(bucket, num_min(past, BUCKET_TIME_MAX) * bucket->per_s);
}

/* Takes so many tokens, 0 to BUCKET_MAX, whether they are there or not, and says whether they were:
 * a peer that does not stop when it is refused gets deeper into debt. */
static inline bool bucket_take(struct bucket *bucket, int64_t tokens, tg_ms now)
{
    assert(tokens >= 0 && tokens <= BUCKET_MAX);
    bucket_refill(bucket, now);
    bucket->level -= tokens * BUCKET_TOKEN;
    bool enough = bucket->level >= 0;
    bucket->level = num_max(bucket->level, -BUCKET_MAX * BUCKET_TIME_MAX);
    return enough;
}

/* Takes so many tokens if they are there, and nothing otherwise. */
static inline bool bucket_try(struct bucket *bucket, int64_t tokens, tg_ms now)
{
    assert(tokens >= 0 && tokens <= BUCKET_MAX);
    bucket_refill(bucket, now);
    if (bucket->level < tokens * BUCKET_TOKEN)
        return false;
    bucket->level -= tokens * BUCKET_TOKEN;
    return true;
}

#endif
