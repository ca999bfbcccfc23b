/* mock_quota.c - requests a minute for each key, as a provider counts them.
 *
 * A minute begins with a key's first request and allows `rpm`. It is not one of the library's
 * limiters: what is tested against the mock must not also be its judge.
 */
#include "lab/mock/mock_quota.h"

#include <assert.h>
#include <string.h>

#define MINUTE_MS 60000

void mock_quota_init(struct mock_quota *quota, int64_t rpm)
{
    memset(quota->minutes, 0, sizeof quota->minutes);
    quota->rpm = rpm;
    pthread_mutex_init(&quota->lock, NULL);
}

void mock_quota_fini(struct mock_quota *quota)
{
    pthread_mutex_destroy(&quota->lock);
}

void mock_quota_reset(struct mock_quota *quota)
{
    pthread_mutex_lock(&quota->lock);
    memset(quota->minutes, 0, sizeof quota->minutes);
    pthread_mutex_unlock(&quota->lock);
}

/* The key's minute, or the one to be used for it. */
static struct mock_minute *find_minute(struct mock_quota *quota, uint64_t key)
{
    struct mock_minute *oldest = quota->minutes;

    for (size_t i = 0; i < MOCK_QUOTA_KEYS; i++) {
        if (quota->minutes[i].key == key)
            return &quota->minutes[i];
        if (quota->minutes[i].begun < oldest->begun)
            oldest = &quota->minutes[i];
    }
    return oldest;
}

struct mock_quota_answer mock_quota_take(struct mock_quota *quota, uint64_t key, tg_ms now)
{
    struct mock_quota_answer answer;

    key += key == 0;
    pthread_mutex_lock(&quota->lock);
    struct mock_minute *minute = find_minute(quota, key);
    if (minute->key != key || now - minute->begun >= MINUTE_MS)
        *minute = (struct mock_minute){key, now, 0};
    answer.allowed = minute->used < quota->rpm;
    minute->used += answer.allowed;
    assert(minute->used >= 0 && minute->used <= quota->rpm);
    answer.remaining = quota->rpm - minute->used;
    answer.reset_ms = minute->begun + MINUTE_MS - now;
    pthread_mutex_unlock(&quota->lock);
    return answer;
}
