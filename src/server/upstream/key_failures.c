/* key_failures.c - who was served with a key, and who failed. See key_failures.h. */
#include "server/upstream/key_failures.h"

#define XXH_INLINE_ALL
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "lib/core/array.h"
#include "lib/core/hash_table.h"

struct event {
    uint64_t tenant;
    tg_ms at; /* 0: never */
};

/* The newest tenant that was served comes first, then the newest other one: so the newest that is
 * not a given tenant is one of the two. */
struct key_history {
    struct event served[2];
    struct event failed;
};

struct key_failures {
    pthread_mutex_t lock;
    struct hash_table places; /* indexes into `keys`, by the ids of the keys */
    struct key_history *keys;
    size_t n, room;
};

struct key_failures *key_failures_new(void)
{
    struct key_failures *failures = calloc(1, sizeof *failures);

    if (failures == NULL)
        return NULL;
    if (pthread_mutex_init(&failures->lock, NULL) != 0) {
        free(failures);
        return NULL;
    }
    return failures;
}

void key_failures_free(struct key_failures *failures)
{
    if (failures == NULL)
        return;
    hash_table_fini(&failures->places);
    pthread_mutex_destroy(&failures->lock);
    mem_free(failures->keys);
    free(failures);
}

uint64_t key_failures_id(const struct tg_pool *pool, const char *key)
{
    return XXH3_64bits_withSeed(key, strlen(key), (uint64_t)(uintptr_t)pool);
}

/* Null: it has none, and there is no memory for one. */
static struct key_history *history_of(struct key_failures *failures, uint64_t key)
{
    const struct hash_slot *slot = hash_table_find(&failures->places, key);

    if (slot != NULL)
        return &failures->keys[slot->number];
    if (!array_reserve(&failures->keys, &failures->room, failures->n + 1) ||
        hash_table_reserve(&failures->places, failures->n + 1) != TG_OK)
        return NULL;
    hash_table_insert(&failures->places, key)->number = failures->n;
    failures->keys[failures->n] = (struct key_history){.failed = {0, 0}};
    return &failures->keys[failures->n++];
}

void key_failures_served(struct key_failures *failures, uint64_t key, uint64_t tenant, tg_ms now)
{
    pthread_mutex_lock(&failures->lock);
    struct key_history *history = history_of(failures, key);
    if (history != NULL) {
        if (history->served[0].tenant != tenant)
            history->served[1] = history->served[0];
        history->served[0] = (struct event){tenant, now};
    }
    pthread_mutex_unlock(&failures->lock);
}

static bool was_within(const struct event *event, tg_ms now, tg_ms ms)
{
    return event->at != 0 && now - event->at <= ms;
}

static bool counts(const struct key_history *history, uint64_t tenant, tg_ms now)
{
    const struct event *other = &history->served[history->served[0].tenant == tenant];
    const struct event *failed = &history->failed;

    return !was_within(other, now, KEY_FAILURES_SERVED_MS) ||
           (failed->tenant != tenant && was_within(failed, now, KEY_FAILURES_FAILED_MS));
}

bool key_failures_failed(struct key_failures *failures, uint64_t key, uint64_t tenant, tg_ms now)
{
    bool counted = true;

    pthread_mutex_lock(&failures->lock);
    struct key_history *history = history_of(failures, key);
    if (history != NULL) {
        counted = counts(history, tenant, now);
        history->failed = (struct event){tenant, now};
    }
    pthread_mutex_unlock(&failures->lock);
    return counted;
}
