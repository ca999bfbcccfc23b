/* store.c - the keyed store: making it, the calls of its interface, and the shortest way through.
 *
 * What a debit does is in claim.c; here is the case that nearly all are of. The time goes into
 * the hash of the key, one atomic exchange, one cache line of the table and the limiter itself.
 * When a store is full, a debit may have to look through other shards for fresh keys; it never
 * holds two locks.
 */
#include "lib/store/store.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "lib/core/allocator.h"
#include "lib/core/decision.h"
#include "lib/core/num.h"
#include "lib/core/problem.h"
#include "lib/core/sized.h"
#include "lib/store/claim.h"

enum {
    SHARDS_MAX = 65536,
    SHARDS_DEFAULT_MAX = 256,
    BYTES_PER_SHARD = 65536, /* smaller stores have fewer shards by default */
    MEMORY_MIN = 4096,       /* besides the shards */
};

/* ---- making and freeing ---- */

#define STORE_CONFIG_FIRST SIZED_TO(struct tg_store_config, shards)

void tg_store_config_init_sized(struct tg_store_config *config, size_t size)
{
    static const struct tg_store_config defaults = {.memory_bytes = (size_t)64 << 20};

    sized_init(config, size, &defaults, sizeof defaults, STORE_CONFIG_FIRST);
}

static uint32_t default_shards(size_t memory_bytes)
{
    uint32_t shards = 1;

    while (shards < SHARDS_DEFAULT_MAX && memory_bytes / BYTES_PER_SHARD >= (size_t)shards * 2)
        shards *= 2;
    return shards;
}

static enum tg_err check_config(const struct tg_store_config *config, struct tg_problem *problem)
{
    size_t least = MEMORY_MIN + config->shards * sizeof(struct shard);

    if (config->memory_bytes < least)
        return problem_say(problem, TG_ERR_INVALID,
                           "store: memory_bytes is %zu; with %u shards it must be at least %zu",
                           config->memory_bytes, (unsigned)config->shards, least);
    if (config->shards > SHARDS_MAX || (config->shards & (config->shards - 1)))
        return problem_say(problem, TG_ERR_INVALID,
                           "store: shards is %u; it must be a power of two up to %d, or 0",
                           (unsigned)config->shards, SHARDS_MAX);
    return TG_OK;
}

enum tg_err tg_store_new(const struct tg_store_config *given, struct tg_store **store,
                         struct tg_problem *problem)
{
    struct tg_store_config own;
    const struct tg_store_config *config = &own;
    enum tg_err err =
        sized_check(&own, sizeof own, given, STORE_CONFIG_FIRST, "tg_store_config", problem);

    if (!err && !store)
        err = problem_say(problem, TG_ERR_NULL, "store: %s", tg_strerror(TG_ERR_NULL));
    if (!err)
        err = check_config(config, problem);
    if (err)
        return err;
    uint32_t n = config->shards ? config->shards : default_shards(config->memory_bytes);
    struct tg_store *made = mem_calloc(1, sizeof *made);
    struct shard *shards = mem_aligned_alloc(CACHE_LINE, n * sizeof *shards);
    if (!made || !shards) {
        mem_free(made);
        mem_free_aligned(shards);
        return problem_say(problem, TG_ERR_MEMORY, "store: %s", tg_strerror(TG_ERR_MEMORY));
    }
    for (uint32_t i = 0; i < n; i++)
        shard_init(&shards[i]);
    made->shards = shards;
    made->shard_mask = n - 1;
    made->seed = config->seed;
    made->common.memory_max = config->memory_bytes;
    atomic_init(&made->common.memory_used, sizeof *made + n * sizeof *shards);
    limit_sets_init(&made->common.sets);
    *store = made;
    return TG_OK;
}

void tg_store_free(struct tg_store *store)
{
    if (!store)
        return;
    for (uint64_t i = 0; i <= store->shard_mask; i++)
        shard_fini(&store->shards[i], &store->common);
    limit_sets_fini(&store->common.sets);
    mem_free_aligned(store->shards);
    mem_free(store);
}

enum tg_err tg_store_define(struct tg_store *store, const struct tg_limit *limits, size_t n,
                            tg_limits *set, struct tg_problem *problem)
{
    if (!store || !set || (!limits && n > 0))
        return problem_say(problem, TG_ERR_NULL, "limits: %s", tg_strerror(TG_ERR_NULL));
    return limit_sets_add(&store->common.sets, limits, n, set, problem);
}

/* ---- peek and take ---- */

bool store_reclaim(struct tg_store *store, const struct shard *except, tg_ms now)
{
    size_t before = atomic_load_explicit(&store->common.memory_used, memory_order_relaxed);

    for (uint64_t i = 0; i <= store->shard_mask; i++) {
        struct shard *shard = &store->shards[i];
        if (shard == except || shard_fresh_from(shard) > now)
            continue;
        spin_lock(&shard->lock);
        shard_sweep(shard, &store->common, now);
        shard_shrink(shard, &store->common);
        spin_unlock(&shard->lock);
        if (atomic_load_explicit(&store->common.memory_used, memory_order_relaxed) < before)
            return true;
    }
    return false;
}

/* Decides for an entry, and charges it if all its limits allow. False: one of several refused,
 * and how the others stand has yet to be looked at. */
static bool take_entry(const struct limit_set *set, void *states, tg_ms now, int64_t cost,
                       struct tg_decision *decision)
{
    const struct tg_limit *limits = set->limits;

    limits->limiter.ops->peek(&limits->limiter, states, now, limit_units(limits, cost), decision);
    for (size_t i = 1; i < set->n; i++) {
        const struct tg_limiter *limiter = &limits[i].limiter;
        struct tg_decision one;
        limiter->ops->peek(limiter, limit_set_state(set, states, i), now,
                           limit_units(&limits[i], cost), &one);
        *decision = decision_combine(*decision, one);
    }
    if (!decision->allowed)
        return set->n == 1;
    for (size_t i = 0; i < set->n; i++)
        if (limit_units(&limits[i], cost) > 0)
            limits[i].limiter.ops->take(&limits[i].limiter, limit_set_state(set, states, i), now,
                                        limit_units(&limits[i], cost));
    return true;
}

/* The usual debit has one scope, and its key is there. Deciding that here, without the machinery
 * of claims, halves its time. The set of limits is fetched before the lock is taken, which nothing
 * behind it can overtake; under the lock there is no more to do than to see that it is still the
 * one. False: it is not the usual case, and nothing was charged. */
static bool take_usual(struct tg_store *store, const struct tg_debit *debit, tg_ms now,
                       struct tg_decision *decision)
{
    const struct tg_scope *scope = debit->scopes;

    if (!scope || (!scope->key && scope->key_bytes > 0))
        return false;
    XXH128_hash_t hash = XXH3_128bits_withSeed(scope->key, scope->key_bytes, store->seed);
    struct shard *shard = &store->shards[store_shard_of(store, hash.high64)];
    struct table_id id = table_id(hash.low64, hash.high64, scope->limits);
    const struct limit_set *set = limit_sets_get(&store->common.sets, scope->limits);

    if (debit->root || debit->charging != TG_CHARGE_ATOMIC || !num_in_range(debit->cost) ||
        !num_in_range(now) || !set || set->any_shadow)
        return false;
    spin_lock(&shard->lock);
    bool same = limit_sets_get(&store->common.sets, scope->limits) == set && store->moved == NULL;
    struct table_slot *slot = same ? table_find(&shard->table, id) : NULL;
    bool done = slot && take_entry(set, limit_set_states(set, slot), now, debit->cost, decision);
    spin_unlock(&shard->lock);
    return done;
}

static __attribute__((noinline)) enum tg_err take_any(struct tg_store *store,
                                                      const struct tg_debit *debit, tg_ms now,
                                                      struct tg_decision *decision,
                                                      struct tg_axes *axes)
{
    struct tg_axes answers;
    struct claim claim;
    enum tg_err err = num_in_range(now) ? claim_make(store, debit, &claim) : TG_ERR_INVALID;

    if (!err)
        err = claim_take(store, &claim, now, &answers);
    if (!err)
        *decision = axes_combine(&answers);
    if (!err && axes)
        *axes = answers;
    return err;
}

enum tg_err tg_store_take(struct tg_store *store, const struct tg_debit *debit, tg_ms now,
                          struct tg_decision *decision, struct tg_axes *axes)
{
    if (!store || !debit || !decision)
        return TG_ERR_NULL;
    if (debit->n_scopes == 1 && !axes && take_usual(store, debit, now, decision))
        return TG_OK;
    return take_any(store, debit, now, decision, axes);
}

enum tg_err tg_store_peek(struct tg_store *store, const struct tg_debit *debit, tg_ms now,
                          struct tg_decision *decision, struct tg_axes *axes)
{
    struct tg_axes answers;
    struct claim claim;

    if (!store || !debit || !decision)
        return TG_ERR_NULL;
    enum tg_err err = num_in_range(now) ? claim_make(store, debit, &claim) : TG_ERR_INVALID;
    if (err)
        return err;
    claim_peek(store, &claim, now, &answers);
    *decision = axes_combine(&answers);
    if (axes)
        *axes = answers;
    return TG_OK;
}

size_t tg_store_peek_scope_sized(struct tg_store *store, const struct tg_debit *debit, size_t scope,
                                 tg_ms now, struct tg_limit_metrics *limits, size_t size)
{
    struct tg_limit_metrics found[TG_LIMITS_MAX];
    struct claim claim;

    if (!store || !debit || !limits || !num_in_range(now) || scope >= debit->n_scopes ||
        claim_make(store, debit, &claim))
        return 0;
    size_t n = claim_peek_scope(store, &claim, scope, now, found);
    for (size_t i = 0; i < n; i++)
        sized_give((char *)limits + i * size, size, &found[i], sizeof found[i]);
    return n;
}

/* So many debits are on their way from memory at once. A core can wait for 10 to 20 cache lines
 * at a time; two for each debit, since an entry may stand in the next one. */
enum { BATCH = 8 };

void tg_store_take_many(struct tg_store *store, const struct tg_debit *debits, size_t n, tg_ms now,
                        struct tg_decision *decisions, enum tg_err *errs)
{
    struct claim batch[BATCH];
    struct tg_axes axes;

    if (!errs)
        return;
    if (!store || !debits || !decisions) {
        for (size_t i = 0; i < n; i++)
            errs[i] = TG_ERR_NULL;
        return;
    }
    for (size_t done = 0; done < n; done += BATCH) {
        size_t count = n - done < BATCH ? n - done : BATCH;

        for (size_t i = 0; i < count; i++) {
            errs[done + i] = num_in_range(now) ? claim_make(store, &debits[done + i], &batch[i])
                                               : TG_ERR_INVALID;
            if (errs[done + i] == TG_OK)
                claim_prefetch(store, &batch[i]);
        }
        for (size_t i = 0; i < count; i++)
            if (errs[done + i] == TG_OK) {
                errs[done + i] = claim_take(store, &batch[i], now, &axes);
                if (errs[done + i] == TG_OK)
                    decisions[done + i] = axes_combine(&axes);
            }
    }
}

/* ---- giving back ---- */

enum tg_err tg_store_refund(struct tg_store *store, const struct tg_debit *debit, tg_ms now,
                            tg_ms charged_at)
{
    struct claim claim;

    if (!store || !debit)
        return TG_ERR_NULL;
    enum tg_err err = num_in_range(now) && num_in_range(charged_at)
                          ? claim_make(store, debit, &claim)
                          : TG_ERR_INVALID;

    if (!err)
        claim_refund(store, &claim, now, charged_at);
    return err;
}

enum tg_err tg_store_settle(struct tg_store *store, const struct tg_debit *debit, tg_ms now,
                            tg_ms charged_at, int64_t actual)
{
    struct claim claim;

    if (!store || !debit)
        return TG_ERR_NULL;
    enum tg_err err = num_in_range(now) && num_in_range(charged_at) && num_in_range(actual)
                          ? claim_make(store, debit, &claim)
                          : TG_ERR_INVALID;

    return err ? err : claim_settle(store, &claim, now, charged_at, actual);
}

/* ---- the whole ---- */

size_t tg_store_sweep(struct tg_store *store, tg_ms now)
{
    size_t forgotten = 0;

    if (!store)
        return 0;
    for (uint64_t i = 0; i <= store->shard_mask; i++) {
        struct shard *shard = &store->shards[i];
        spin_lock(&shard->lock);
        uint64_t before = shard->forgotten;
        shard_sweep(shard, &store->common, now);
        shard_shrink(shard, &store->common);
        forgotten += (size_t)(shard->forgotten - before);
        spin_unlock(&shard->lock);
    }
    return forgotten;
}

void tg_store_get_stats_sized(struct tg_store *store, struct tg_store_stats *stats, size_t size)
{
    if (!store)
        return;
    struct tg_store_stats sum = {
        .memory_bytes = atomic_load_explicit(&store->common.memory_used, memory_order_relaxed),
        .refused = atomic_load_explicit(&store->refused, memory_order_relaxed),
    };

    for (uint64_t i = 0; i <= store->shard_mask; i++) {
        struct shard *shard = &store->shards[i];
        spin_lock(&shard->lock);
        sum.keys += shard->table.n;
        sum.forgotten += shard->forgotten;
        spin_unlock(&shard->lock);
    }
    sized_give(stats, size, &sum, sizeof sum);
}
