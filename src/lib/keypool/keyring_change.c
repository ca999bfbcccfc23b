/* keyring_change.c - makes a ring what a spec says, while others go on using it.
 *
 * Whatever can fail happens first, beside the ring (keyring_plan.c): the spec is checked, what it
 * has in common with the ring is found by name, everything else is allocated. Then, under the lock,
 * the two are put together, which cannot fail; what is left over is freed after it. So an error has
 * changed nothing, and no call sees half a change.
 *
 * The second part takes some hundred ns for each key of the ring, for all are put on new indexes;
 * meanwhile nobody gets a key. A change is rare, and a lock that is held for long makes its waiters
 * give their cores away. Rejected: to work out what differs and to touch only that. It would have
 * as many cases as there are fields, each met once a year.
 *
 * The lists that the first part reads are written by the second alone, and `changing` lets one
 * change in at a time.
 */
#include <stdlib.h>

#include "lib/core/allocator.h"
#include "lib/core/problem.h"
#include "lib/core/sized.h"
#include "lib/keypool/keyring_plan.h"

/* A heap with room for all it will have, so that adding to it cannot fail. */
static void empty_heap(struct heap *heap, struct heap_node ***nodes, size_t capacity)
{
    struct heap_node **old = heap->nodes;

    heap->nodes = *nodes;
    heap->capacity = capacity;
    heap->n = 0;
    *nodes = old;
}

static void detach_all(struct tg_keyring *ring)
{
    for (size_t i = 0; i < ring->n_pools; i++) {
        struct roster *roster = &pair_pool(ring->pools[i])->roster;
        pair_pool(ring->pools[i])->in_spec = false;
        for (uint32_t k = 0; k < roster->n_keys; k++) {
            roster->keys[k]->cluster = NULL;
            roster->keys[k]->credential = NULL;
            roster->keys[k]->room = ROOM_NONE;
        }
    }
    for (size_t i = 0; i < ring->n_groups; i++) {
        pair_group(ring->groups[i])->removed = true;
        pair_group(ring->groups[i])->clusters = NULL;
    }
    for (size_t i = 0; i < ring->n_credentials; i++)
        pair_credential(ring->credentials[i])->keys = NULL;
}

static void attach_groups(struct plan *plan)
{
    for (size_t i = 0; i < plan->n_groups; i++) {
        struct key_group *group = plan->groups[i].group;
        group->removed = false;
        group->quota.limits = plan->groups[i].spec->limits;
        group->room = ROOM_NONE;
        group->timer.due = NEVER;
        (void)heap_add(&plan->ring->timers, &group->timer.node);
    }
}

static void attach_key(struct tg_keyring *ring, struct pool_plan *pool, uint32_t number)
{
    const struct key_plan *plan = &pool->keys[number];
    struct key *key = plan->key;

    key->number = number;
    key->owner = plan->spec->owner;
    key->quota.limits = plan->spec->limits;
    key->cluster = &pool->pool->roster.clusters[plan->cluster];
    key->room = ROOM_NONE;
    key->credential = plan->credential;
    if (!plan->credential->keys)
        plan->credential->owner = key->owner;
    key->next_of_credential = plan->credential->keys;
    plan->credential->keys = key;
    key->timer.due = NEVER;
    (void)heap_add(&ring->timers, &key->timer.node);
}

/* The most that one of the keys can hold, with its group. */
static int64_t most_tokens(const struct roster *roster)
{
    int64_t most = roster->n_keys > 0 ? 0 : TG_NUMBER_MAX;

    for (uint32_t i = 0; i < roster->n_keys; i++) {
        const struct key *key = roster->keys[i];
        const struct key_group *group = key_group_of(key);
        int64_t tpm = key->quota.limits.tpm, shared = group ? group->quota.limits.tpm : 0;

        tpm = tpm > 0 ? tpm : TG_NUMBER_MAX;
        most = num_max(most, shared > 0 ? num_min(tpm, shared) : tpm);
    }
    return most;
}

static void attach_pool(struct tg_keyring *ring, struct pool_plan *plan)
{
    struct tg_pool *pool = plan->pool;
    struct roster old = pool->roster;

    pool->roster = plan->roster;
    plan->roster = old;
    pool->in_spec = plan->spec != NULL;
    if (plan->changes_affinity) {
        struct affinity before = pool->affinity;
        pool->affinity = plan->affinity;
        plan->affinity = before;
    }
    if (!plan->spec)
        return;
    pool->rule = (struct breaker_rule){plan->spec->breaker_failures, plan->spec->breaker_open};
    pool->affinity_ttl = plan->spec->affinity_ttl;
    for (uint32_t i = 0; i < pool->roster.n_clusters; i++) {
        struct cluster *cluster = &pool->roster.clusters[i];
        if (cluster->group) {
            cluster->next_of_group = cluster->group->clusters;
            cluster->group->clusters = cluster;
        }
    }
    for (uint32_t i = 0; i < pool->roster.n_keys; i++)
        attach_key(ring, plan, i);
    pool->most_tokens = most_tokens(&pool->roster);
}

/* Credentials whose probe is on its way stay until it is back: its owner has their names. */
static void attach_credentials(struct plan *plan)
{
    struct tg_keyring *ring = plan->ring;

    for (size_t i = 0; i < ring->n_credentials; i++) {
        struct credential *credential = pair_credential(ring->credentials[i]);
        bool stays = credential->keys != NULL;
        if (!stays && credential->probe) {
            plan->credential_list[plan->n_credential_list++] = &credential->id;
            stays = true;
        }
        if (stays)
            ring->credentials[i] = NULL; /* the others are freed */
    }
    qsort(plan->credential_list, plan->n_credential_list, sizeof(struct pair *),
          keyring_plan_order);
    for (size_t i = 0; i < plan->n_credential_list; i++) {
        struct credential *credential = pair_credential(plan->credential_list[i]);
        if (!credential->keys)
            credential->timer.due = NEVER;
        (void)heap_add(&ring->probes, &credential->timer.node);
    }
}

#define SWAP(type, a, b)                                                                           \
    do {                                                                                           \
        type swapped = (a);                                                                        \
        (a) = (b);                                                                                 \
        (b) = swapped;                                                                             \
    } while (0)

static void swap_lists(struct plan *plan)
{
    struct tg_keyring *ring = plan->ring;

    SWAP(struct pair **, ring->pools, plan->pool_list);
    SWAP(size_t, ring->n_pools, plan->n_pool_list);
    SWAP(struct pair **, ring->groups, plan->group_list);
    SWAP(size_t, ring->n_groups, plan->n_group_list);
    SWAP(struct pair **, ring->credentials, plan->credential_list);
    SWAP(size_t, ring->n_credentials, plan->n_credential_list);
}

static void refresh_all(struct tg_keyring *ring, tg_ms now)
{
    for (size_t i = 0; i < ring->n_groups; i++)
        group_refresh(ring, pair_group(ring->groups[i]), now);
    for (size_t i = 0; i < ring->n_pools; i++) {
        const struct roster *roster = &pair_pool(ring->pools[i])->roster;
        for (uint32_t k = 0; k < roster->n_keys; k++)
            key_refresh(roster->keys[k], now);
    }
}

/* Leaves in the plan what is to be freed of what the ring had: not what is still there, and not
 * what is leased. */
static void keep_what_lives(struct plan *plan)
{
    for (size_t i = 0; i < plan->n_planned_pools; i++) {
        struct roster *old = &plan->pools[i].roster;
        for (uint32_t k = 0; k < old->n_keys; k++)
            if (old->keys[k]->cluster || old->keys[k]->leases > 0)
                old->keys[k] = NULL;
    }
    for (size_t i = 0; i < plan->n_group_list; i++) {
        const struct key_group *group = pair_group(plan->group_list[i]);
        if (!group->removed || group->leases > 0)
            plan->group_list[i] = NULL;
    }
}

static void apply(struct plan *plan, tg_ms now)
{
    struct tg_keyring *ring = plan->ring;

    now = keyring_advance(ring, now);
    ring->cooldown = plan->spec->cooldown;
    ring->cooldown_max = plan->spec->cooldown_max;
    ring->probe_every = plan->spec->probe_every;
    ring->max_affinity = plan->spec->max_affinity;
    detach_all(ring);
    empty_heap(&ring->timers, &plan->timer_nodes, plan->n_timers);
    empty_heap(&ring->probes, &plan->probe_nodes, plan->n_probes);
    attach_groups(plan);
    for (size_t i = 0; i < plan->n_planned_pools; i++)
        attach_pool(ring, &plan->pools[i]);
    attach_credentials(plan);
    swap_lists(plan);
    refresh_all(ring, now);
    keep_what_lives(plan);
}

/* What was in the ring and is no more. */
static void discard_old(struct plan *plan)
{
    for (size_t i = 0; i < plan->n_planned_pools; i++)
        for (uint32_t k = 0; k < plan->pools[i].roster.n_keys; k++)
            key_free(plan->pools[i].roster.keys[k]);
    for (size_t i = 0; i < plan->n_group_list; i++)
        mem_free(pair_group(plan->group_list[i]));
    for (size_t i = 0; i < plan->n_credential_list; i++)
        mem_free(pair_credential(plan->credential_list[i]));
}

static enum tg_err change(struct tg_keyring *ring, const struct tg_keyring_spec *spec, tg_ms now,
                          struct tg_problem *problem)
{
    struct plan plan = {.ring = ring, .spec = spec};

    if (!keyring_plan(&plan)) {
        keyring_plan_discard(&plan);
        keyring_plan_fini(&plan);
        return problem_say(problem, TG_ERR_MEMORY, "no memory for the ring's keys");
    }
    spin_lock(&ring->lock);
    apply(&plan, now);
    spin_unlock(&ring->lock);
    discard_old(&plan);
    keyring_plan_fini(&plan);
    return TG_OK;
}

/* The pools of a spec as this version knows them, or null: they are so already, and stay where they
 * are. They stand as far apart as the first says; all have to say the same. */
static enum tg_err read_pools(const struct tg_keyring_spec *spec, struct tg_pool_spec **pools,
                              struct tg_problem *problem)
{
    const char *given = (const char *)spec->pools;
    size_t apart = spec->n_pools > 0 && spec->pools ? spec->pools->struct_size : 0;
    enum tg_err err = TG_OK;

    *pools = NULL;
    if (!spec->pools || spec->n_pools > KEYS_MAX) /* the check says so */
        return TG_OK;
    if (apart != sizeof **pools) {
        *pools = mem_calloc(spec->n_pools + 1, sizeof **pools);
        if (!*pools)
            return problem_say(problem, TG_ERR_MEMORY, "no memory for %zu pools", spec->n_pools);
    }
    for (size_t i = 0; !err && i < spec->n_pools; i++) {
        const struct tg_pool_spec *from = (const void *)(given + i * apart);
        struct tg_pool_spec unused;
        err = sized_check(*pools ? &(*pools)[i] : &unused, sizeof unused, from, POOL_SPEC_FIRST,
                          "tg_pool_spec", problem);
        if (!err && from->struct_size != apart)
            err = problem_say(problem, TG_ERR_UNINITIALIZED,
                              "pool %zu: struct_size is %zu, and that of the first pool %zu", i + 1,
                              from->struct_size, apart);
    }
    if (err) {
        mem_free(*pools);
        *pools = NULL;
    }
    return err;
}

static enum tg_err change_as_ours(struct tg_keyring *ring, const struct tg_keyring_spec *spec,
                                  tg_ms now, struct tg_problem *problem)
{
    enum tg_err err = keyring_check(spec, problem);

    if (!err && spec->seed != ring->seed)
        err = problem_say(problem, TG_ERR_INVALID,
                          "seed is %llu; a ring keeps the one it was made with, %llu",
                          (unsigned long long)spec->seed, (unsigned long long)ring->seed);
    if (err)
        return err;
    (void)pthread_mutex_lock(&ring->changing);
    err = change(ring, spec, now, problem);
    (void)pthread_mutex_unlock(&ring->changing);
    return err;
}

enum tg_err tg_keyring_change(struct tg_keyring *ring, const struct tg_keyring_spec *spec,
                              tg_ms now, struct tg_problem *problem)
{
    struct tg_keyring_spec own;
    struct tg_pool_spec *pools;
    enum tg_err err =
        sized_check(&own, sizeof own, spec, KEYRING_SPEC_FIRST, "tg_keyring_spec", problem);

    if (!err && !ring)
        err = problem_say(problem, TG_ERR_NULL, "ring: %s", tg_strerror(TG_ERR_NULL));
    if (!err)
        err = read_pools(&own, &pools, problem);
    if (err)
        return err;
    if (pools)
        own.pools = pools;
    err = change_as_ours(ring, &own, now, problem);
    mem_free(pools);
    return err;
}
