/* keyring.c - making a ring, finding a pool in it, and taking it apart. See keyring.h. */
#include "lib/keypool/keyring.h"

#include "lib/core/allocator.h"
#include "lib/core/problem.h"
#include "lib/core/sized.h"

void tg_pool_spec_init_sized(struct tg_pool_spec *spec, size_t size)
{
    static const struct tg_pool_spec defaults = {
        .breaker_failures = 5, .breaker_open = 30000, .affinity_ttl = 600000};

    sized_init(spec, size, &defaults, sizeof defaults, POOL_SPEC_FIRST);
}

void tg_keyring_spec_init_sized(struct tg_keyring_spec *spec, size_t size)
{
    static const struct tg_keyring_spec defaults = {
        .cooldown = 60000, .cooldown_max = 3600000, .probe_every = 60000, .max_affinity = 65536};

    sized_init(spec, size, &defaults, sizeof defaults, KEYRING_SPEC_FIRST);
}

/* An empty ring, which then becomes what the spec says. */
enum tg_err tg_keyring_new(const struct tg_keyring_spec *given, struct tg_keyring **ring,
                           struct tg_problem *problem)
{
    struct tg_keyring_spec own;
    const struct tg_keyring_spec *spec = &own;
    enum tg_err err =
        sized_check(&own, sizeof own, given, KEYRING_SPEC_FIRST, "tg_keyring_spec", problem);

    if (!err && !ring)
        err = problem_say(problem, TG_ERR_NULL, "ring: %s", tg_strerror(TG_ERR_NULL));
    if (err)
        return err;
    struct tg_keyring *fresh = mem_calloc(1, sizeof *fresh);
    if (!fresh)
        return problem_say(problem, TG_ERR_MEMORY, "no memory for a ring");
    if (pthread_mutex_init(&fresh->changing, NULL)) {
        mem_free(fresh);
        return problem_say(problem, TG_ERR_MEMORY, "no memory for a mutex");
    }
    key_leases_init(&fresh->leases);
    heap_init(&fresh->timers, timer_before);
    heap_init(&fresh->probes, timer_before);
    random_init(&fresh->random, spec->chance ? spec->chance : spec->seed, 0);
    fresh->seed = spec->seed;
    err = tg_keyring_change(fresh, given, 0, problem);
    if (err)
        tg_keyring_free(fresh);
    else
        *ring = fresh;
    return err;
}

void key_free(struct key *key)
{
    if (key)
        mem_free(key->name);
    mem_free(key);
}

void roster_free(struct roster *roster)
{
    for (uint32_t i = 0; i < roster->n_clusters; i++)
        room_index_fini(&roster->clusters[i].room_index);
    mem_free(roster->keys);
    mem_free(roster->by_name);
    mem_free(roster->by_serial);
    mem_free(roster->clusters);
    mem_free(roster->live);
    hash_table_fini(&roster->by_owner);
    *roster = (struct roster){0};
}

/* Keys and groups that were taken out and are still leased are known to their leases alone: several
 * of them may hold the same one. */
static void free_leased(const struct handles *leases)
{
    uint64_t place = 0;

    for (struct key_lease *lease; (lease = handles_next(leases, &place)) != NULL;) {
        if (!lease->key->cluster && --lease->key->leases == 0)
            key_free(lease->key);
        if (lease->group && lease->group->removed && --lease->group->leases == 0)
            mem_free(lease->group);
    }
}

void tg_keyring_free(struct tg_keyring *ring)
{
    if (!ring)
        return;
    free_leased(&ring->leases);
    for (size_t i = 0; i < ring->n_pools; i++) {
        struct tg_pool *pool = pair_pool(ring->pools[i]);
        for (uint32_t k = 0; k < pool->roster.n_keys; k++)
            key_free(pool->roster.keys[k]);
        roster_free(&pool->roster);
        affinity_fini(&pool->affinity);
        mem_free(pool);
    }
    for (size_t i = 0; i < ring->n_groups; i++)
        mem_free(pair_group(ring->groups[i]));
    for (size_t i = 0; i < ring->n_credentials; i++)
        mem_free(pair_credential(ring->credentials[i]));
    mem_free(ring->pools);
    mem_free(ring->groups);
    mem_free(ring->credentials);
    heap_fini(&ring->timers);
    heap_fini(&ring->probes);
    handles_fini(&ring->leases);
    (void)pthread_mutex_destroy(&ring->changing);
    mem_free(ring);
}

struct tg_pool *tg_keyring_pool(struct tg_keyring *ring, const char *provider, const char *model)
{
    if (!ring || !provider || !model)
        return NULL;
    spin_lock(&ring->lock);
    struct tg_pool *pool = pair_pool(pairs_find(ring->pools, ring->n_pools, provider, model));
    if (pool && !pool->in_spec)
        pool = NULL;
    spin_unlock(&ring->lock);
    return pool;
}
