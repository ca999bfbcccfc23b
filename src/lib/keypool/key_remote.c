/* key_remote.c - what a ring learns of keys that other machines use, too.
 *
 * The shared store is asked about one key at a time, the one that the ring has chosen. A no is
 * turned into what the ring would have known by itself, had the calls of the others gone through
 * it: a cooldown, an open breaker, less room. So choosing, indexes, hints and metrics need not know
 * that there are others.
 */
#include "lib/keypool/keyring.h"

static struct key_lease *key_remote_find(const struct tg_keyring *ring, tg_key_lease id)
{
    return handles_find(&ring->leases, id);
}

static void key_remote_set_terms(const struct key *key, const struct key_group *group,
                                 int64_t tokens, struct tg_key_terms *terms)
{
    const struct tg_pool *pool = key->pool;

    *terms = (struct tg_key_terms){.provider = pool->id.provider,
                                   .model = pool->id.name,
                                   .name = key->name,
                                   .limits = key->quota.limits,
                                   .breaker_failures = pool->rule.failures,
                                   .breaker_open = pool->rule.open,
                                   .tokens = tokens};
    if (group) {
        terms->group = group->id.name;
        terms->group_limits = group->quota.limits;
    }
}

bool tg_keyring_terms(struct tg_keyring *ring, tg_key_lease id, struct tg_key_terms *terms)
{
    if (!ring || !terms)
        return false;
    spin_lock(&ring->lock);
    const struct key_lease *lease = key_remote_find(ring, id);
    if (lease)
        key_remote_set_terms(lease->key, lease->group, lease->tokens, terms);
    spin_unlock(&ring->lock);
    return lease != NULL;
}

size_t tg_pool_peek_terms(struct tg_pool *pool, const struct tg_key_call *call, tg_ms now,
                          struct tg_key_terms *terms, void **owners, size_t room)
{
    struct tg_key_call copy, fitted;
    size_t n = 0;

    call = pool_read_call(call, &copy);
    if (!pool || !call || !terms || !owners)
        return 0;
    spin_lock(&pool->ring->lock);
    keyring_advance(pool->ring, now);
    call = pool_fit_call(pool, call, &fitted);
    for (uint32_t i = 0; num_in_range(call->tokens) && i < pool->roster.n_keys && n < room; i++) {
        const struct key *key = pool->roster.keys[i];
        if (!key_can_serve(key, call->tokens) || key_was_tried(key, call))
            continue;
        key_remote_set_terms(key, key_group_of(key), call->tokens, &terms[n]);
        owners[n++] = key->owner;
    }
    spin_unlock(&pool->ring->lock);
    return n;
}

/* A new epoch: what began before, this lease too, neither opens nor closes it. */
static void open_breaker(struct breaker *breaker, tg_ms until, tg_ms now)
{
    if (until <= now)
        return;
    breaker->open_until = num_max(breaker->open_until, until);
    breaker->epoch++;
    breaker->trying = false;
}

static void key_remote_hold(const struct tg_keyring *ring, const struct key_lease *lease,
                            const struct tg_key_hold *told, tg_ms now)
{
    struct quota *quota =
        told->of_group && lease->group ? &lease->group->quota : &lease->key->quota;
    tg_ms until = num_min(num_max(told->until, 0), TG_NUMBER_MAX);

    switch (told->why) {
    case TG_HOLD_COOLING:
        if (until > now)
            quota->cool_until = num_max(quota->cool_until, cool_deadline(ring, until, now));
        break;
    case TG_HOLD_BROKEN:
        open_breaker(&lease->key->breaker, until, now);
        break;
    case TG_HOLD_BUSY:
        quota_hold(quota, now, until, told->room);
    }
}

bool tg_keyring_hold_off(struct tg_keyring *ring, tg_key_lease id, tg_ms now,
                         const struct tg_key_hold *told)
{
    struct tg_key_report unsent = {
        .outcome = TG_KEY_CANCELLED, .sent = false, .tokens = 0, .latency_ms = -1, .cool_until = 0};
    struct leavings leavings = {NULL, NULL};
    struct tg_key_ending ending;

    if (!ring || !told)
        return false;
    spin_lock(&ring->lock);
    now = keyring_advance(ring, now);
    struct key_lease *lease = key_remote_find(ring, id);
    if (lease) {
        key_remote_hold(ring, lease, told, now);
        leavings = lease_end(ring, lease, &unsent, now, &ending);
    }
    spin_unlock(&ring->lock);
    leavings_free(leavings);
    return lease != NULL;
}
