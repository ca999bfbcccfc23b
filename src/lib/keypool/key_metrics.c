/* key_metrics.c - what can be seen of pools and keys. */
#include "lib/core/sized.h"
#include "lib/keypool/keyring.h"

enum { LOCKED_AT_ONCE = 16 };

struct window_sums {
    int64_t calls, tokens;
};

static int64_t left_of(int64_t limit, int64_t used)
{
    return limit ? num_less(limit, used) : TG_NUMBER_MAX;
}

static enum tg_key_state state_of(const struct credential *credential)
{
    if (credential->disabled)
        return TG_KEY_DISABLED;
    return credential->suspended ? TG_KEY_SUSPENDED : TG_KEY_HEALTHY;
}

static tg_ms cooling_until(const struct key *key, tg_ms now)
{
    const struct key_group *group = key_group_of(key);
    tg_ms until = num_max(key->quota.cool_until, group ? group->quota.cool_until : 0);

    return until > now ? until : 0;
}

/* What is in the windows at `now`, which may be ahead of the ring's time. */
static struct window_sums sums_at(const struct quota *quota, tg_ms now)
{
    if (now < quota->second_ends)
        return (struct window_sums){quota->calls.sum, quota->tokens.sum};
    struct quota then = *quota;
    quota_roll(&then, now);
    return (struct window_sums){then.calls.sum, then.tokens.sum};
}

static void key_metrics_read_key(const struct key *key, tg_ms now, struct tg_key_metrics *metrics)
{
    const struct quota *quota = &key->quota;
    const struct key_group *group = key_group_of(key);
    uint64_t tokens = quota->tokens_in_flight;
    /* Where a key has no limit of its own, that of its group is the one to know. */
    const struct quota *calls = group && !quota->limits.rpm ? &group->quota : quota;
    const struct quota *tpm = group && !quota->limits.tpm ? &group->quota : quota;

    *metrics = (struct tg_key_metrics){
        .name = key->name,
        .group = group ? group->id.name : NULL,
        .owner = key->owner,
        .tpm_inflight = tokens > TG_NUMBER_MAX ? TG_NUMBER_MAX : (int64_t)tokens,
        .tpm_limit = tpm->limits.tpm,
        .tpm_remaining = left_of(tpm->limits.tpm, sums_at(tpm, now).tokens),
        .rpm_limit = calls->limits.rpm,
        .rpm_remaining = left_of(calls->limits.rpm, sums_at(calls, now).calls),
        .in_flight = quota->in_flight,
        .cool_down_until = cooling_until(key, now),
        .failure_cool_down = key->breaker.open_until,
        .consecutive_fails = key->breaker.run,
        .breaker = breaker_state(&key->breaker, now),
        .state = state_of(key->credential),
        .latency_ms = key->latency_ms < 0 ? 0 : key->latency_ms,
    };
}

/* Whoever looks does not move the ring's time on: what it decides does not depend on who looks. */
size_t tg_pool_get_keys_sized(struct tg_pool *pool, tg_ms now, size_t from,
                              struct tg_key_metrics *keys, size_t room, size_t size)
{
    size_t n = 0, stop;

    if (!pool || !keys)
        return 0;
    struct tg_keyring *ring = pool->ring;
    do {
        spin_lock(&ring->lock);
        tg_ms at = num_max(ring->now, num_min(now, TG_NUMBER_MAX));
        size_t all = pool->roster.n_keys, there = all > from ? all - from : 0;
        there = there < room ? there : room;
        stop = n + LOCKED_AT_ONCE < there ? n + LOCKED_AT_ONCE : there;
        for (; n < stop; n++) {
            struct tg_key_metrics metrics;
            key_metrics_read_key(pool->roster.keys[from + n], at, &metrics);
            sized_give((char *)keys + n * size, size, &metrics, sizeof metrics);
        }
        bool more = n < there;
        spin_unlock(&ring->lock);
        if (!more)
            return n;
    } while (true);
}

void tg_pool_get_metrics_sized(struct tg_pool *pool, struct tg_pool_metrics *given, size_t size)
{
    if (!pool)
        return;
    spin_lock(&pool->ring->lock);
    struct tg_pool_metrics metrics = {
        .acquired = pool->acquired, .no_key = pool->no_key, .n_keys = pool->roster.n_keys};
    spin_unlock(&pool->ring->lock);
    sized_give(given, size, &metrics, sizeof metrics);
}
