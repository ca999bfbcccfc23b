/* keyring_save.c - what a ring knows of its keys, for another process: see keyring_save.h. */
#include "lib/keypool/keyring_save.h"

#include <string.h>

#include "lib/core/allocator.h"
#include "lib/core/array.h"
#include "lib/keypool/keyring.h"

enum save_kind { SAVE_KEY = 1, SAVE_GROUP, SAVE_CREDENTIAL };

struct save_quota {
    tg_ms cool_until, held_until, busy_until, phase, second_ends, taken_at;
    int64_t held_room;
    struct minute calls, tokens;
};

/* One key, group or credential; its names follow: provider, model (of a key), name. */
struct save_item {
    uint32_t kind, names[3];
    struct save_quota quota;
    struct breaker breaker;
    double latency_ms, spread_ms;
    tg_ms used_at;
    bool suspended;
};

struct saved {
    char *bytes;
    size_t n, max;
    bool failed;
};

static void save_append(struct saved *saved, const void *from, size_t n)
{
    if (saved->failed || !array_reserve(&saved->bytes, &saved->max, saved->n + n)) {
        saved->failed = true;
        return;
    }
    memcpy(saved->bytes + saved->n, from, n);
    saved->n += n;
}

static void save_write(struct saved *saved, struct save_item *item, const char *provider,
                       const char *model, const char *name)
{
    item->names[0] = (uint32_t)strlen(provider);
    item->names[1] = (uint32_t)strlen(model);
    item->names[2] = (uint32_t)strlen(name);
    save_append(saved, item, sizeof *item);
    save_append(saved, provider, item->names[0]);
    save_append(saved, model, item->names[1]);
    save_append(saved, name, item->names[2]);
}

static struct save_quota quota_saved(const struct quota *quota)
{
    return (struct save_quota){quota->cool_until, quota->held_until,  quota->busy_until,
                               quota->phase,      quota->second_ends, quota->taken_at,
                               quota->held_room,  quota->calls,       quota->tokens};
}

static void save_keys(struct saved *saved, const struct tg_pool *pool)
{
    for (uint32_t i = 0; i < pool->roster.n_keys; i++) {
        const struct key *key = pool->roster.keys[i];
        struct save_item item;
        memset(&item, 0, sizeof item);
        item.kind = SAVE_KEY;
        item.quota = quota_saved(&key->quota);
        item.breaker = key->breaker;
        item.breaker.trying = false; /* the call that tries is not ours to hear of */
        item.latency_ms = key->latency_ms;
        item.spread_ms = key->spread_ms;
        item.used_at = key->used_at;
        save_write(saved, &item, pool->id.provider, pool->id.name, key->name);
    }
}

enum tg_err keyring_save(struct tg_keyring *ring, tg_ms now, char **bytes, size_t *n)
{
    struct saved saved = {0};

    pthread_mutex_lock(&ring->changing);
    spin_lock(&ring->lock);
    keyring_advance(ring, now);
    for (size_t i = 0; i < ring->n_pools; i++)
        save_keys(&saved, pair_pool(ring->pools[i]));
    for (size_t i = 0; i < ring->n_groups; i++) {
        const struct key_group *group = pair_group(ring->groups[i]);
        struct save_item item;
        memset(&item, 0, sizeof item);
        item.kind = SAVE_GROUP;
        item.quota = quota_saved(&group->quota);
        save_write(&saved, &item, group->id.provider, "", group->id.name);
    }
    for (size_t i = 0; i < ring->n_credentials; i++) {
        const struct credential *credential = pair_credential(ring->credentials[i]);
        struct save_item item;
        memset(&item, 0, sizeof item);
        item.kind = SAVE_CREDENTIAL;
        item.suspended = credential->suspended;
        save_write(&saved, &item, credential->id.provider, "", credential->id.name);
    }
    spin_unlock(&ring->lock);
    pthread_mutex_unlock(&ring->changing);
    if (saved.failed) {
        mem_free(saved.bytes);
        return TG_ERR_MEMORY;
    }
    *bytes = saved.bytes;
    *n = saved.n;
    return TG_OK;
}

/* ---- loading ---- */

static void load_quota(struct quota *quota, const struct save_quota *from)
{
    quota->cool_until = from->cool_until;
    quota->held_until = from->held_until;
    quota->busy_until = from->busy_until;
    quota->held_room = from->held_room;
    quota->phase = from->phase;
    quota->second_ends = from->second_ends;
    quota->taken_at = from->taken_at;
    quota->calls = from->calls;
    quota->tokens = from->tokens;
}

static void load_key(struct tg_keyring *ring, const struct save_item *item, const char *provider,
                     const char *model, const char *name, tg_ms now)
{
    struct tg_pool *pool = pair_pool(pairs_find(ring->pools, ring->n_pools, provider, model));

    for (uint32_t i = 0; pool != NULL && i < pool->roster.n_keys; i++) {
        struct key *key = pool->roster.keys[i];
        if (strcmp(key->name, name) != 0)
            continue;
        load_quota(&key->quota, &item->quota);
        key->breaker = item->breaker;
        key->latency_ms = item->latency_ms;
        key->spread_ms = item->spread_ms;
        key->used_at = item->used_at;
        key_refresh(key, now);
    }
}

static void load_item(struct tg_keyring *ring, const struct save_item *item, const char *provider,
                      const char *model, const char *name, tg_ms now)
{
    if (item->kind == SAVE_KEY) {
        load_key(ring, item, provider, model, name, now);
    } else if (item->kind == SAVE_GROUP) {
        struct key_group *group =
            pair_group(pairs_find(ring->groups, ring->n_groups, provider, name));
        if (group == NULL)
            return;
        load_quota(&group->quota, &item->quota);
        group_refresh(ring, group, now);
    } else if (item->kind == SAVE_CREDENTIAL && item->suspended) {
        struct credential *credential =
            pair_credential(pairs_find(ring->credentials, ring->n_credentials, provider, name));
        /* It is probed once more, and then stays away or comes back. */
        if (credential != NULL && !credential->suspended)
            credential_refused(ring, credential, now, now);
    }
}

void keyring_load(struct tg_keyring *ring, const char *bytes, size_t n, tg_ms now)
{
    char names[3][1024];

    pthread_mutex_lock(&ring->changing);
    spin_lock(&ring->lock);
    now = keyring_advance(ring, now);
    for (size_t at = 0; at + sizeof(struct save_item) <= n;) {
        struct save_item item;
        memcpy(&item, bytes + at, sizeof item);
        at += sizeof item;
        bool fits = true;
        for (int i = 0; i < 3; i++) {
            if (item.names[i] > n - at)
                goto end; /* it was cut */
            fits = fits && item.names[i] < sizeof names[i];
            if (fits) {
                memcpy(names[i], bytes + at, item.names[i]);
                names[i][item.names[i]] = '\0';
            }
            at += item.names[i];
        }
        if (fits)
            load_item(ring, &item, names[0], names[1], names[2], now);
    }
end:
    spin_unlock(&ring->lock);
    pthread_mutex_unlock(&ring->changing);
}
