/* key_reset.c - an operator says that a key is good again.
 *
 * Whatever kept it out is forgotten at once: its cooldown and that of its group, a breaker that
 * opened, a suspension, and a probe that is due or on its way, whose answer would be about the key
 * as it was. What was counted stays counted: the provider counts on, too.
 */
#include "lib/keypool/keyring.h"

/* A new epoch: attempts that began before neither open nor close it. */
static void close_breaker(struct breaker *breaker)
{
    *breaker = (struct breaker){.epoch = breaker->epoch + 1};
}

static void reset_key(struct tg_keyring *ring, struct key *key, tg_ms now)
{
    struct key_group *group = key_group_of(key);

    key->quota.cool_until = key->quota.held_until = key->quota.busy_until = 0;
    close_breaker(&key->breaker);
    if (group && group->quota.cool_until > now) {
        group->quota.cool_until = 0;
        group_refresh(ring, group, now);
    }
    key_refresh(key, now);
}

bool tg_keyring_reset(struct tg_keyring *ring, const char *provider, const char *name, tg_ms now)
{
    if (!ring || !provider || !name)
        return false;
    spin_lock(&ring->lock);
    now = keyring_advance(ring, now);
    struct credential *credential = keyring_credential(ring, provider, name);
    if (credential) {
        credential->suspended = false;
        credential->probe = 0;
        credential->probed_at = now;
        timer_set(&ring->probes, &credential->timer, NEVER);
        for (struct key *key = credential->keys; key; key = key->next_of_credential)
            reset_key(ring, key, now);
    }
    spin_unlock(&ring->lock);
    return credential != NULL;
}
