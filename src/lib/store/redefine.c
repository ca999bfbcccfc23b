/* redefine.c - other limits for keys that are in use.
 *
 * All shards are locked, so that no call sees the old limits on one key and the new on another, nor
 * a state that is not of the limits it is read by. What can fail, which is getting memory, comes
 * first; then every entry of the sets is carried over. However many sets change, the store is gone
 * through once to count and once to carry: a new configuration may change the limits of thousands
 * of tenants, and calls wait meanwhile.
 */
#include <assert.h>
#include <string.h>

#include "lib/core/allocator.h"
#include "lib/core/num.h"
#include "lib/core/problem.h"
#include "lib/store/redefine.h"
#include "lib/store/store.h"

/* A set on its way to the place of another. */
struct change {
    tg_limits id;
    const struct limit_set *from;
    struct limit_set *to;
    uint8_t carried[TG_LIMITS_MAX]; /* for each limit: the one it goes on from, plus 1; 0: none */
    void **blocks; /* for the states that do not fit in their slots, of all entries in order */
    size_t n_entries, n_blocks;
};

struct changes {
    struct tg_store *store;
    tg_ms now;
    struct change *list;
    size_t n;
    uint32_t *place; /* by id: in the list, plus 1; 0: it does not change */
    tg_limits highest;
};

/* Does `what` for each entry of a set that changes. */
static void each_entry(const struct changes *all,
                       void (*what)(const struct changes *all, struct change *change,
                                    struct table_slot *slot))
{
    for (uint64_t i = 0; i <= all->store->shard_mask; i++) {
        struct table *table = &all->store->shards[i].table;
        for (uint32_t k = 0; k < table_capacity(table); k++) {
            struct table_slot *slot = &table_slots(table)[k];
            tg_limits id = table_id_set(slot->id); /* 0, which never changes: it is free */
            if (id <= all->highest && all->place[id] != 0)
                what(all, &all->list[all->place[id] - 1], slot);
        }
    }
}

static void count_one(const struct changes *all, struct change *change, struct table_slot *slot)
{
    (void)all;
    (void)slot;
    change->n_entries++;
}

static void free_blocks(const struct changes *all, struct change *change)
{
    if (change->blocks == NULL)
        return;
    for (size_t i = 0; i < change->n_blocks; i++)
        mem_free(change->blocks[i]);
    mem_free(change->blocks);
    change->blocks = NULL;
    shard_give_back(&all->store->common, change->n_entries * shard_block_bytes(change->to));
}

/* Memory for all entries of a set, or none. */
static enum tg_err get_blocks(const struct changes *all, struct change *change)
{
    if (change->to->in_slot || change->n_entries == 0)
        return TG_OK;
    if (!shard_claim(&all->store->common, change->n_entries * shard_block_bytes(change->to)))
        return TG_ERR_FULL;
    change->blocks = mem_calloc(change->n_entries, sizeof(void *));
    if (change->blocks == NULL) {
        shard_give_back(&all->store->common, change->n_entries * shard_block_bytes(change->to));
        return TG_ERR_MEMORY;
    }
    while (change->n_blocks < change->n_entries) {
        void *block = mem_calloc(1, change->to->state_bytes);
        if (block == NULL)
            return TG_ERR_MEMORY;
        change->blocks[change->n_blocks++] = block;
    }
    return TG_OK;
}

/* ---- carrying ---- */

static bool same_kind(const struct tg_limit *a, const struct tg_limit *b)
{
    return a->limiter.ops == b->limiter.ops && a->axis == b->axis;
}

/* The first of a kind goes on from the first of that kind, the second from the second. */
static void match_limits(struct change *change)
{
    for (size_t i = 0; i < change->to->n; i++) {
        const struct tg_limit *to = &change->to->limits[i];
        size_t before = 0;

        change->carried[i] = 0;
        for (size_t k = 0; k < i; k++)
            before += same_kind(to, &change->to->limits[k]);
        for (size_t k = 0; k < change->from->n && to->limiter.ops->carry; k++)
            if (same_kind(to, &change->from->limits[k]) && before-- == 0) {
                change->carried[i] = (uint8_t)(k + 1);
                break;
            }
    }
}

static void carry_states(const struct changes *all, const struct change *change, void *states,
                         void *counted)
{
    memcpy(states, change->to->fresh, change->to->state_bytes);
    for (size_t i = 0; i < change->to->n; i++) {
        if (change->carried[i] == 0)
            continue;
        const struct tg_limiter *to = &change->to->limits[i].limiter;
        size_t k = change->carried[i] - 1u;
        to->ops->carry(to, limit_set_state(change->to, states, i), &change->from->limits[k].limiter,
                       limit_set_state(change->from, counted, k), all->now);
    }
}

static void carry_entry(const struct changes *all, struct change *change, struct table_slot *slot)
{
    union table_states states = {0};
    void *counted = limit_set_states(change->from, slot);

    if (!change->to->in_slot) {
        assert(change->n_blocks > 0); /* one was counted for this entry */
        states.block = change->blocks[--change->n_blocks];
    }
    carry_states(all, change, change->to->in_slot ? (void *)&states : states.block, counted);
    if (!change->from->in_slot) {
        mem_free(counted);
        shard_give_back(&all->store->common, shard_block_bytes(change->from));
    }
    slot->states = states;
}

static bool same_settings(const struct tg_limiter *a, const struct tg_limiter *b)
{
    const struct tg_limiter_config *x = &a->config, *y = &b->config;

    return a->ops == b->ops && a->settled == b->settled && a->state_bytes == b->state_bytes &&
           x->strategy == y->strategy && x->limit == y->limit && x->period == y->period &&
           x->burst == y->burst && x->buckets == y->buckets &&
           !(x->refill < y->refill || x->refill > y->refill);
}

/* Where all limits are as they were, so are the states. */
void redefine_carry(const struct limit_set *from, const struct limit_set *to, const void *counted,
                    void *states, tg_ms now)
{
    const struct changes all = {.now = now};
    struct change change = {.from = from, .to = (struct limit_set *)to};

    bool same = from->n == to->n;
    for (size_t i = 0; same && i < to->n; i++)
        same = from->limits[i].axis == to->limits[i].axis &&
               same_settings(&from->limits[i].limiter, &to->limits[i].limiter);
    if (same) {
        memcpy(states, counted, to->state_bytes);
        return;
    }
    match_limits(&change);
    carry_states(&all, &change, states, (void *)counted);
}

static enum tg_err redefine_locked(struct changes *all)
{
    enum tg_err err = TG_OK;

    each_entry(all, count_one);
    for (size_t i = 0; i < all->n && !err; i++)
        err = get_blocks(all, &all->list[i]);
    if (err) {
        for (size_t i = 0; i < all->n; i++)
            free_blocks(all, &all->list[i]);
        return err;
    }
    each_entry(all, carry_entry);
    for (size_t i = 0; i < all->n; i++) {
        assert(all->list[i].n_blocks == 0);
        mem_free(all->list[i].blocks);
        limit_sets_replace(&all->store->common.sets, all->list[i].id, all->list[i].to);
        all->list[i].to = NULL;
    }
    for (uint64_t i = 0; i <= all->store->shard_mask; i++)
        shard_note_fresh_at(&all->store->shards[i], all->now);
    return TG_OK;
}

/* ---- what is to change ---- */

static enum tg_err redefine_prepare(struct changes *all, const struct tg_redefinition *from,
                                    size_t n, struct tg_problem *problem)
{
    for (size_t i = 0; i < n; i++) {
        struct change *change = &all->list[all->n];
        change->id = from[i].set;
        change->from = limit_sets_get(&all->store->common.sets, from[i].set);
        if (change->from == NULL)
            return problem_say(problem, TG_ERR_UNKNOWN, "%s", tg_strerror(TG_ERR_UNKNOWN));
        if (all->place[change->id] != 0)
            return problem_say(problem, TG_ERR_INVALID, "set %u is to change twice",
                               (unsigned)change->id);
        enum tg_err err = limit_sets_make(from[i].limits, from[i].n, &change->to, problem);
        if (err)
            return err;
        match_limits(change);
        all->place[change->id] = (uint32_t)++all->n;
    }
    return TG_OK;
}

static enum tg_err redefine(struct changes *all, struct tg_problem *problem)
{
    enum tg_err err;

    for (uint64_t i = 0; i <= all->store->shard_mask; i++)
        spin_lock(&all->store->shards[i].lock);
    err = redefine_locked(all);
    for (uint64_t i = 0; i <= all->store->shard_mask; i++)
        spin_unlock(&all->store->shards[i].lock);
    return err ? problem_say(problem, err, "%s", tg_strerror(err)) : TG_OK;
}

enum tg_err tg_store_redefine(struct tg_store *store, const struct tg_redefinition *list, size_t n,
                              tg_ms now, struct tg_problem *problem)
{
    struct changes all = {.store = store, .now = now};
    enum tg_err err = TG_OK;

    if (!store || (!list && n > 0))
        return problem_say(problem, TG_ERR_NULL, "store: %s", tg_strerror(TG_ERR_NULL));
    if (!num_in_range(now))
        return problem_say(problem, TG_ERR_INVALID, "the time is out of range");
    if (n == 0)
        return TG_OK;
    all.highest = atomic_load_explicit(&store->common.sets.n, memory_order_acquire);
    all.list = mem_calloc(n, sizeof *all.list);
    all.place = mem_calloc((size_t)all.highest + 1, sizeof *all.place);
    if (all.list == NULL || all.place == NULL)
        err = problem_say(problem, TG_ERR_MEMORY, "%s", tg_strerror(TG_ERR_MEMORY));
    if (!err)
        err = redefine_prepare(&all, list, n, problem);
    if (!err)
        err = redefine(&all, problem);
    for (size_t i = 0; all.list && i < n; i++)
        if (all.list[i].to != NULL)
            limit_sets_unmake(all.list[i].to);
    mem_free(all.list);
    mem_free(all.place);
    return err;
}
