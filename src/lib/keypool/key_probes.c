/* key_probes.c - keys that the provider refuses, and the probes that suspend and revive them.
 *
 *                    401 or 403                        probe: bad
 *       HEALTHY -----------------> HEALTHY, to be ------------------> SUSPENDED
 *         ^  ^                     probed                              |     ^
 *         |  '--------------------------'  probe: good                 |     | probe: bad,
 *         '------------------------------------------------------------'     | after probe_every
 *                              probe: good                             '-----'
 *
 * A call that is refused may be refused for what it asks, and one tenant's odd request must not
 * park a pool: so the key goes on serving until the probe, with a request that is known to be good,
 * has failed too. What is suspended is the credential, in all pools it stands in. Each is handed
 * out to one prober at a time. An answer that is not clear leaves everything as it is, until
 * probe_every has passed. An attempt that began before the last probe ended tells nothing that the
 * probe did not.
 *
 * An operator's word (tg_keyring_enable) is kept apart: no probe turns a key on that was turned
 * off.
 */
#include "lib/core/container_of.h"
#include "lib/keypool/keyring.h"

static void refresh_keys(struct credential *credential, tg_ms now)
{
    for (struct key *key = credential->keys; key; key = key->next_of_credential)
        key_refresh(key, now);
}

void credential_refused(struct tg_keyring *ring, struct credential *credential, tg_ms at, tg_ms now)
{
    bool waits = credential->probe || credential->timer.due != NEVER;

    if (!waits && at >= credential->probed_at)
        timer_set(&ring->probes, &credential->timer, now);
}

static struct credential *first_to_probe(const struct tg_keyring *ring)
{
    const struct heap_node *first = heap_first(&ring->probes);

    if (!first)
        return NULL;
    struct timer *timer = container_of(first, struct timer, node);
    return timer->due == NEVER ? NULL : container_of(timer, struct credential, timer);
}

bool tg_keyring_next_probe(struct tg_keyring *ring, tg_ms now, struct tg_probe *probe)
{
    if (!ring || !probe)
        return false;
    spin_lock(&ring->lock);
    now = num_max(ring->now, now); /* who asks does not move the time of calls on */
    struct credential *credential = first_to_probe(ring);
    bool due = credential && credential->timer.due <= now;
    if (due) {
        credential->probe = ++ring->last_probe;
        timer_set(&ring->probes, &credential->timer, NEVER);
        *probe = (struct tg_probe){.provider = credential->id.provider,
                                   .name = credential->id.name,
                                   .owner = credential->owner,
                                   .id = credential->probe};
    }
    spin_unlock(&ring->lock);
    return due;
}

/* By number, not by name: the caller's strings may be gone. */
static struct credential *probed_credential(const struct tg_keyring *ring, uint64_t id)
{
    for (size_t i = 0; id && i < ring->n_credentials; i++)
        if (pair_credential(ring->credentials[i])->probe == id)
            return pair_credential(ring->credentials[i]);
    return NULL;
}

void tg_keyring_probed(struct tg_keyring *ring, const struct tg_probe *probe,
                       enum tg_probe_result result, tg_ms now)
{
    if (!ring || !probe)
        return;
    spin_lock(&ring->lock);
    now = keyring_advance(ring, now);
    struct credential *credential = probed_credential(ring, probe->id);
    if (credential) {
        credential->probe = 0;
        if (result == TG_PROBE_GOOD || result == TG_PROBE_BAD) {
            credential->suspended = result == TG_PROBE_BAD;
            credential->probed_at = now;
        }
        if (result != TG_PROBE_GOOD && credential->keys)
            timer_set(&ring->probes, &credential->timer, num_add(now, ring->probe_every));
        refresh_keys(credential, now);
    }
    spin_unlock(&ring->lock);
}

tg_ms tg_keyring_next_deadline(struct tg_keyring *ring)
{
    if (!ring)
        return INT64_MAX;
    spin_lock(&ring->lock);
    const struct credential *credential = first_to_probe(ring);
    tg_ms due = credential ? credential->timer.due : INT64_MAX;
    spin_unlock(&ring->lock);
    return due;
}

bool tg_keyring_enable(struct tg_keyring *ring, const char *provider, const char *name,
                       bool enabled, tg_ms now)
{
    if (!ring || !provider || !name)
        return false;
    spin_lock(&ring->lock);
    now = keyring_advance(ring, now);
    struct credential *credential = keyring_credential(ring, provider, name);
    if (credential) {
        credential->disabled = !enabled;
        refresh_keys(credential, now);
    }
    spin_unlock(&ring->lock);
    return credential != NULL;
}
