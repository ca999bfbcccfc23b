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

bool tg_keyring_terms(struct tg_keyring *ring, tg_key_lease id, struct tg_key_terms *terms)
{
    spin_lock(&ring->lock);
    const struct key_lease *lease = key_remote_find(ring, id);
    if (lease) {
        const struct tg_pool *pool = lease->key->pool;
        const struct key_group *group = lease->group;
        *terms = (struct tg_key_terms){.provider = pool->id.provider,
                                       .model = pool->id.name,
                                       .name = lease->key->name,
                                       .limits = lease->key->quota.limits,
                                       .breaker_failures = pool->rule.failures,
                                       .breaker_open = pool->rule.open,
                                       .tokens = lease->tokens};
        if (group) {
            terms->group = group->id.name;
            terms->group_limits = group->quota.limits;
        }
    }
    spin_unlock(&ring->lock);
    return lease != NULL;
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
