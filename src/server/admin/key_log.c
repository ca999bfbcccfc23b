/* key_log.c - states of providers' keys that change, as lines of the log. See key_log.h.
 *
 * Two states of a key are told apart: that of its credential, which it has in all pools, and that
 * within one pool. The first is looked at in the pool of the provider, and of models that have keys
 * of their own.
 */
#include "server/admin/key_log.h"

#include <stdlib.h>

#include "lib/core/array.h"
#include "server/obs/log.h"
#include "server/runtime/gateway.h"

#define LOOK_EVERY_MS ((tg_ms)1000)

enum { KEYS_AT_ONCE = 64 };

enum pool_state { POOL_CLOSED, POOL_COOLING, POOL_OPEN, POOL_HALF_OPEN };

static const char *const CREDENTIAL[] = {
    [TG_KEY_HEALTHY] = "healthy", [TG_KEY_SUSPENDED] = "suspended", [TG_KEY_DISABLED] = "disabled"};
static const char *const IN_POOL[] = {[POOL_CLOSED] = "healthy",
                                      [POOL_COOLING] = "cooling",
                                      [POOL_OPEN] = "breaker_open",
                                      [POOL_HALF_OPEN] = "breaker_half_open"};

/* One pass over all keys. */
struct key_scan {
    struct key_log *key_log;
    struct log *log;
    bool fresh; /* there is nothing to compare with */
    size_t n;   /* keys so far */
    size_t lines, left_out;
};

static enum pool_state pool_state_of(const struct tg_key_metrics *key)
{
    if (key->breaker != TG_BREAKER_CLOSED)
        return key->breaker == TG_BREAKER_OPEN ? POOL_OPEN : POOL_HALF_OPEN;
    return key->cool_down_until > 0 ? POOL_COOLING : POOL_CLOSED;
}

static void write_change(struct key_scan *scan, const char *provider, const char *model,
                         const char *key, const char *before, const char *after, bool bad)
{
    const struct log_field fields[] = {LOG_TEXT("provider", provider), LOG_TEXT("key", key),
                                       LOG_TEXT("old_state", before), LOG_TEXT("new_state", after),
                                       LOG_TEXT("model", model != NULL ? model : "")};

    if (scan->lines == KEY_LOG_LINES) {
        scan->left_out++;
        return;
    }
    scan->lines++;
    log_event(scan->log, bad ? LOG_WARN : LOG_INFO, "the state of a provider's key has changed",
              fields, model != NULL ? 5 : 4);
}

static void scan_pool(struct key_scan *scan, struct tg_pool *pool, const char *provider,
                      const char *model, bool has_credentials, tg_ms now)
{
    struct tg_key_metrics keys[KEYS_AT_ONCE];
    size_t from = 0, n;

    while ((n = tg_pool_get_keys(pool, now, from, keys, KEYS_AT_ONCE)) > 0) {
        if (!array_reserve(&scan->key_log->states, &scan->key_log->room, scan->n + n))
            return;
        for (size_t i = 0; i < n; i++, scan->n++) {
            uint8_t *kept = &scan->key_log->states[scan->n];
            unsigned credential = keys[i].state, state = pool_state_of(&keys[i]);
            unsigned before = scan->n < scan->key_log->n && !scan->fresh ? *kept
                              : scan->fresh && scan->key_log->generation > 0
                                  ? credential << 4 | state
                                  : 0;
            if (has_credentials && before >> 4 != credential)
                write_change(scan, provider, NULL, keys[i].name, CREDENTIAL[before >> 4],
                             CREDENTIAL[credential], credential == TG_KEY_SUSPENDED);
            if ((before & 15) != state)
                write_change(scan, provider, model, keys[i].name, IN_POOL[before & 15],
                             IN_POOL[state], state == POOL_OPEN);
            *kept = (uint8_t)(credential << 4 | state);
        }
        from += n;
    }
}

void key_log_fini(struct key_log *key_log)
{
    free(key_log->states);
    *key_log = (struct key_log){0};
}

/* Another generation may have other keys: what they begin with is no change, but with the first. */
void key_log_update(struct key_log *key_log, struct gateway *gateway,
                    const struct generation *generation, tg_ms now)
{
    const struct config *config = &generation->config;
    struct key_scan scan = {.key_log = key_log,
                            .log = gateway->log,
                            .fresh = key_log->generation != generation->number};

    if (!scan.fresh && now < key_log->seen_at + LOOK_EVERY_MS)
        return;
    pthread_mutex_lock(&gateway->ring_changes);
    for (size_t i = 0; i < config->n_providers; i++)
        scan_pool(&scan, generation->providers[i].pool, config->providers[i].name, NULL, true, now);
    for (size_t i = 0; i < config->n_models; i++)
        scan_pool(&scan, generation->routes[i].pool,
                  config->providers[config->models[i].provider].name, config->models[i].name,
                  config->models[i].n_keys > 0, now);
    pthread_mutex_unlock(&gateway->ring_changes);
    if (scan.left_out > 0)
        log_event(gateway->log, LOG_WARN, "more keys have changed their state",
                  &LOG_NUMBER("keys", (int64_t)scan.left_out), 1);
    key_log->n = scan.n;
    key_log->generation = generation->number;
    key_log->seen_at = now;
}
