/* keyring_plan.c - the part of a change that can fail: finding what stays, and making what is new.
 *
 * What the spec and the ring have in common is found by name. The ring is only read here, and only
 * those of its lists that a change alone writes; calls go on meanwhile. See keyring_change.c.
 */
#include "lib/keypool/keyring_plan.h"

#include <stdlib.h>
#include <string.h>

#include "lib/core/allocator.h"

/* For a struct that begins with a pair, whose strings stand behind it. */
static struct pair *pair_alloc(size_t size, const char *provider, const char *name)
{
    size_t provider_bytes = strlen(provider) + 1, name_bytes = strlen(name) + 1;
    char *block = mem_calloc(1, size + provider_bytes + name_bytes);

    if (!block)
        return NULL;
    memcpy(block + size, provider, provider_bytes);
    memcpy(block + size + provider_bytes, name, name_bytes);
    struct pair *pair = (struct pair *)(void *)block;
    *pair = (struct pair){block + size, block + size + provider_bytes};
    return pair;
}

int keyring_plan_order(const void *a, const void *b)
{
    const struct pair *x = *(struct pair *const *)a, *y = *(struct pair *const *)b;

    return pair_compare(x->provider, x->name, y);
}

static int order_of_names(const void *a, const void *b)
{
    return strcmp((*(struct key *const *)a)->name, (*(struct key *const *)b)->name);
}

static int order_of_serials(const void *a, const void *b)
{
    uint32_t x = (*(struct key *const *)a)->serial, y = (*(struct key *const *)b)->serial;

    return x < y ? -1 : x > y;
}

static bool plan_groups(struct plan *plan)
{
    struct tg_keyring *ring = plan->ring;
    const struct tg_keyring_spec *spec = plan->spec;

    plan->groups = mem_calloc(spec->n_groups + 1, sizeof *plan->groups);
    plan->group_list = mem_calloc(spec->n_groups + 1, sizeof(struct pair *));
    if (!plan->groups || !plan->group_list)
        return false;
    for (size_t i = 0; i < spec->n_groups; i++) {
        const struct tg_group_spec *from = &spec->groups[i];
        struct key_group *group =
            pair_group(pairs_find(ring->groups, ring->n_groups, from->provider, from->name));
        bool fresh = !group;
        if (fresh) {
            group = pair_group(pair_alloc(sizeof *group, from->provider, from->name));
            if (!group)
                return false;
            quota_init(&group->quota, 0);
            group->timer = (struct timer){.order = ++ring->orders, .of_group = true};
        }
        plan->groups[plan->n_groups++] = (struct group_plan){from, group, fresh};
        plan->group_list[plan->n_group_list++] = &group->id;
    }
    qsort(plan->group_list, plan->n_group_list, sizeof(struct pair *), keyring_plan_order);
    return true;
}

static struct credential *new_credential(struct tg_keyring *ring, const char *provider,
                                         const char *name)
{
    struct credential *credential = pair_credential(pair_alloc(sizeof *credential, provider, name));

    if (credential)
        credential->timer = (struct timer){.due = NEVER, .order = ++ring->orders};
    return credential;
}

/* Every (provider, name) of a key, once. */
static bool plan_credentials(struct plan *plan, struct pair *pairs, size_t n)
{
    struct tg_keyring *ring = plan->ring;

    qsort(pairs, n, sizeof *pairs, pair_order);
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && pair_order(&pairs[i - 1], &pairs[i]) == 0)
            continue;
        struct credential *credential = pair_credential(
            pairs_find(ring->credentials, ring->n_credentials, pairs[i].provider, pairs[i].name));
        bool fresh = !credential;
        if (fresh)
            credential = new_credential(ring, pairs[i].provider, pairs[i].name);
        if (!credential)
            return false;
        plan->credentials[plan->n_credentials++] = (struct credential_plan){credential, fresh};
        plan->credential_list[plan->n_credential_list++] = &credential->id;
    }
    return true;
}

static bool plan_all_credentials(struct plan *plan, size_t n_keys)
{
    const struct tg_keyring_spec *spec = plan->spec;
    struct pair *pairs = mem_calloc(n_keys + 1, sizeof *pairs);
    size_t n = 0;

    plan->credentials = mem_calloc(n_keys + 1, sizeof *plan->credentials);
    plan->credential_list =
        mem_calloc(n_keys + plan->ring->n_credentials + 1, sizeof(struct pair *));
    bool done = pairs && plan->credentials && plan->credential_list;
    for (size_t i = 0; done && i < spec->n_pools; i++)
        for (size_t k = 0; k < spec->pools[i].n_keys; k++)
            pairs[n++] = (struct pair){spec->pools[i].provider, spec->pools[i].keys[k].name};
    done = done && plan_credentials(plan, pairs, n);
    mem_free(pairs);
    return done;
}

static struct key *key_of_name(const struct roster *roster, const char *name)
{
    struct key wanted = {.name = (char *)(uintptr_t)name}, *by = &wanted;
    struct key **found = roster->n_keys ? bsearch(&by, roster->by_name, roster->n_keys,
                                                  sizeof(struct key *), order_of_names)
                                        : NULL;

    return found ? *found : NULL;
}

static struct key *new_key(struct tg_pool *pool, const char *name, size_t number)
{
    struct key *key = mem_calloc(1, sizeof *key);
    size_t bytes = strlen(name) + 1;

    if (!key || !(key->name = mem_malloc(bytes))) {
        mem_free(key);
        return NULL;
    }
    memcpy(key->name, name, bytes);
    key->pool = pool;
    key->serial = ++pool->ring->serials;
    key->timer = (struct timer){.order = ++pool->ring->orders};
    key->latency_ms = -1;
    /* Spread over the second: 617 and 1000 have no common divisor. */
    quota_init(&key->quota, (tg_ms)(number * 617 % 1000));
    return key;
}

/* Which cluster of the pool a group's keys are in; made when the first of them is met. */
static uint32_t cluster_of(struct pool_plan *pool, struct key_group *group, uint32_t *ungrouped)
{
    uint32_t *mark = group ? &group->cluster_mark : ungrouped;

    if (*mark == 0) {
        pool->roster.clusters[pool->roster.n_clusters] =
            (struct cluster){.group = group, .pool = pool->pool, .live_place = NOT_LIVE};
        *mark = ++pool->roster.n_clusters;
    }
    return *mark - 1;
}

static void assign_clusters(struct pool_plan *pool)
{
    uint32_t ungrouped = 0;

    for (size_t i = 0; i < pool->spec->n_keys; i++)
        pool->keys[i].cluster = cluster_of(pool, pool->keys[i].group, &ungrouped);
    for (size_t i = 0; i < pool->spec->n_keys; i++)
        if (pool->keys[i].group)
            pool->keys[i].group->cluster_mark = 0;
}

static bool plan_room_indexes(struct pool_plan *pool)
{
    struct roster *roster = &pool->roster;
    size_t *counts = mem_calloc(roster->n_clusters + 1, sizeof *counts);
    bool done = counts != NULL;

    for (size_t i = 0; done && i < pool->spec->n_keys; i++)
        counts[pool->keys[i].cluster]++;
    for (uint32_t i = 0; done && i < roster->n_clusters; i++)
        done = room_index_init(&roster->clusters[i].room_index, counts[i]);
    mem_free(counts);
    return done;
}

static bool allocate_roster(struct pool_plan *pool)
{
    struct roster *roster = &pool->roster;
    size_t n = pool->spec->n_keys;

    roster->keys = mem_calloc(n + 1, sizeof(struct key *));
    roster->by_name = mem_calloc(n + 1, sizeof(struct key *));
    roster->by_serial = mem_calloc(n + 1, sizeof(struct key *));
    roster->clusters = mem_calloc(n + 1, sizeof *roster->clusters);
    roster->live = mem_calloc(n + 1, sizeof(struct cluster *));
    pool->keys = mem_calloc(n + 1, sizeof *pool->keys);
    return roster->keys && roster->by_name && roster->by_serial && roster->clusters &&
           roster->live && pool->keys && hash_table_reserve(&roster->by_owner, n) == TG_OK;
}

static bool plan_key(struct plan *plan, struct pool_plan *pool, size_t i)
{
    struct key_plan *key = &pool->keys[i];
    const char *provider = pool->spec->provider;
    struct roster *roster = &pool->roster;

    key->spec = &pool->spec->keys[i];
    key->key = key_of_name(&pool->pool->roster, key->spec->name);
    key->fresh = !key->key;
    if (key->fresh)
        key->key = new_key(pool->pool, key->spec->name, i);
    if (!key->key)
        return false;
    key->credential = pair_credential(
        pairs_find(plan->credential_list, plan->n_credential_list, provider, key->spec->name));
    if (key->spec->group)
        key->group = pair_group(
            pairs_find(plan->group_list, plan->n_group_list, provider, key->spec->group));
    roster->keys[i] = roster->by_name[i] = roster->by_serial[i] = key->key;
    roster->n_keys++;
    hash_table_insert(&roster->by_owner, hash_number((uintptr_t)key->spec->owner))->number = i;
    return true;
}

static bool plan_roster(struct plan *plan, struct pool_plan *pool)
{
    struct roster *roster = &pool->roster;
    bool done = allocate_roster(pool);

    for (size_t i = 0; done && i < pool->spec->n_keys; i++)
        done = plan_key(plan, pool, i);
    if (!done)
        return false;
    assign_clusters(pool);
    qsort(roster->by_name, roster->n_keys, sizeof(struct key *), order_of_names);
    qsort(roster->by_serial, roster->n_keys, sizeof(struct key *), order_of_serials);
    return plan_room_indexes(pool);
}

static bool plan_affinity(const struct plan *plan, struct pool_plan *pool)
{
    size_t wanted = pool->spec && pool->spec->affinity_ttl > 0 ? plan->spec->max_affinity : 0;

    pool->changes_affinity = wanted != pool->pool->affinity.capacity;
    return !pool->changes_affinity || affinity_init(&pool->affinity, wanted);
}

static struct tg_pool *new_pool(struct tg_keyring *ring, const struct tg_pool_spec *spec)
{
    struct tg_pool *pool = pair_pool(pair_alloc(sizeof *pool, spec->provider, spec->model));

    if (pool)
        pool->ring = ring;
    return pool;
}

static bool plan_pool(struct plan *plan, const struct tg_pool_spec *spec)
{
    struct tg_keyring *ring = plan->ring;
    struct pool_plan *pool = &plan->pools[plan->n_planned_pools];

    pool->spec = spec;
    pool->pool = pair_pool(pairs_find(ring->pools, ring->n_pools, spec->provider, spec->model));
    pool->fresh = !pool->pool;
    if (pool->fresh)
        pool->pool = new_pool(ring, spec);
    if (!pool->pool)
        return false;
    plan->n_planned_pools++;
    plan->pool_list[plan->n_pool_list++] = &pool->pool->id;
    return plan_roster(plan, pool) && plan_affinity(plan, pool);
}

/* Whatever the ring has and the spec has not: a pool without keys. */
static void plan_rest(struct plan *plan)
{
    struct tg_keyring *ring = plan->ring;
    size_t n_spec = plan->n_pool_list;

    qsort(plan->pool_list, n_spec, sizeof(struct pair *), keyring_plan_order);
    for (size_t i = 0; i < ring->n_pools; i++) {
        struct tg_pool *pool = pair_pool(ring->pools[i]);
        if (pairs_find(plan->pool_list, n_spec, pool->id.provider, pool->id.name))
            continue;
        struct pool_plan *out = &plan->pools[plan->n_planned_pools++];
        *out = (struct pool_plan){.pool = pool, .changes_affinity = true};
        plan->pool_list[plan->n_pool_list++] = &pool->id;
    }
    qsort(plan->pool_list, plan->n_pool_list, sizeof(struct pair *), keyring_plan_order);
}

static bool plan_pools(struct plan *plan)
{
    const struct tg_keyring_spec *spec = plan->spec;
    size_t most = spec->n_pools + plan->ring->n_pools;

    plan->pools = mem_calloc(most + 1, sizeof *plan->pools);
    plan->pool_list = mem_calloc(most + 1, sizeof(struct pair *));
    bool done = plan->pools && plan->pool_list;
    for (size_t i = 0; done && i < spec->n_pools; i++)
        done = plan_pool(plan, &spec->pools[i]);
    if (done)
        plan_rest(plan);
    return done;
}

bool keyring_plan(struct plan *plan)
{
    size_t n_keys = 0;

    for (size_t i = 0; i < plan->spec->n_pools; i++)
        n_keys += plan->spec->pools[i].n_keys;
    if (!plan_groups(plan) || !plan_all_credentials(plan, n_keys) || !plan_pools(plan))
        return false;
    plan->n_timers = n_keys + plan->n_groups + 1;
    plan->n_probes = plan->n_credentials + plan->ring->n_credentials + 1;
    plan->timer_nodes = mem_calloc(plan->n_timers, sizeof(struct heap_node *));
    plan->probe_nodes = mem_calloc(plan->n_probes, sizeof(struct heap_node *));
    return plan->timer_nodes && plan->probe_nodes;
}

/* What was made and is not used. */
void keyring_plan_discard(struct plan *plan)
{
    for (size_t i = 0; i < plan->n_groups; i++)
        if (plan->groups[i].fresh)
            mem_free(plan->groups[i].group);
    for (size_t i = 0; i < plan->n_credentials; i++)
        if (plan->credentials[i].fresh)
            mem_free(plan->credentials[i].credential);
    for (size_t i = 0; i < plan->n_planned_pools; i++) {
        struct pool_plan *pool = &plan->pools[i];
        for (uint32_t k = 0; k < pool->roster.n_keys; k++)
            if (pool->keys[k].fresh)
                key_free(pool->keys[k].key);
        if (pool->fresh)
            mem_free(pool->pool);
    }
}

void keyring_plan_fini(struct plan *plan)
{
    for (size_t i = 0; i < plan->n_planned_pools; i++) {
        roster_free(&plan->pools[i].roster);
        affinity_fini(&plan->pools[i].affinity);
        mem_free(plan->pools[i].keys);
    }
    mem_free(plan->pools);
    mem_free(plan->groups);
    mem_free(plan->credentials);
    mem_free(plan->pool_list);
    mem_free(plan->group_list);
    mem_free(plan->credential_list);
    mem_free(plan->timer_nodes);
    mem_free(plan->probe_nodes);
}
