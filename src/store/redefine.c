/* redefine.c - other limits for keys that are in use.
 *
 * All shards are locked, so that no call sees the old limits on one key and the new on another, nor
 * a state that is not of the limits it is read by. What can fail, which is getting memory, comes
 * first; then every entry of the set is carried over.
 */
#include <stdlib.h>
#include <string.h>

#include "core/num.h"
#include "core/problem.h"
#include "store/store.h"

/* A set on its way to the place of another. */
struct change {
    struct tg_store *store;
    tg_limits id;
    const struct limit_set *from;
    struct limit_set *to;
    tg_ms now;
    void **blocks; /* for the states that do not fit in their slots, of all entries in order */
    size_t n_blocks;
};

/* Does `what` for each entry of the set. */
static void each_entry(struct change *change,
                       void (*what)(struct change *change, struct table_slot *slot))
{
    for (uint64_t i = 0; i <= change->store->shard_mask; i++) {
        struct table *table = &change->store->shards[i].table;
        for (uint32_t k = 0; k < table_capacity(table); k++) {
            struct table_slot *slot = &table_slots(table)[k];
            if (!table_is_free(slot) && table_id_set(slot->id) == change->id)
                what(change, slot);
        }
    }
}

static void count_one(struct change *change, struct table_slot *slot)
{
    (void)slot;
    change->n_blocks++;
}

static void free_blocks(struct change *change)
{
    for (size_t i = 0; change->blocks && i < change->n_blocks; i++)
        free(change->blocks[i]);
    free(change->blocks);
}

/* Memory for all entries, or none. */
static enum tg_err get_blocks(struct change *change)
{
    each_entry(change, count_one);
    if (change->to->in_slot || change->n_blocks == 0)
        return TG_OK;
    if (!shard_claim(&change->store->common, change->n_blocks * shard_block_bytes(change->to)))
        return TG_ERR_FULL;
    change->blocks = calloc(change->n_blocks, sizeof(void *));
    for (size_t i = 0; change->blocks && i < change->n_blocks; i++)
        if (!(change->blocks[i] = calloc(1, change->to->state_bytes)))
            break;
    if (change->blocks && change->blocks[change->n_blocks - 1])
        return TG_OK;
    shard_give_back(&change->store->common, change->n_blocks * shard_block_bytes(change->to));
    free_blocks(change);
    return TG_ERR_MEMORY;
}

static void carry_states(const struct change *change, void *states, void *counted)
{
    memcpy(states, change->to->fresh, change->to->state_bytes);
    for (size_t i = 0; i < change->to->n && i < change->from->n; i++) {
        const struct tg_limit *to = &change->to->limits[i], *from = &change->from->limits[i];
        if (to->limiter.ops == from->limiter.ops && to->axis == from->axis &&
            to->limiter.ops->carry)
            to->limiter.ops->carry(&to->limiter, limit_set_state(change->to, states, i),
                                   &from->limiter, limit_set_state(change->from, counted, i),
                                   change->now);
    }
}

static void carry_entry(struct change *change, struct table_slot *slot)
{
    union table_states states;
    void *counted = limit_set_states(change->from, slot);

    memset(&states, 0, sizeof states);
    if (!change->to->in_slot)
        states.block = change->blocks[--change->n_blocks];
    carry_states(change, change->to->in_slot ? (void *)&states : states.block, counted);
    if (!change->from->in_slot) {
        free(counted);
        shard_give_back(&change->store->common, shard_block_bytes(change->from));
    }
    slot->states = states;
}

static enum tg_err redefine_locked(struct change *change)
{
    enum tg_err err = get_blocks(change);

    if (err)
        return err;
    each_entry(change, carry_entry);
    free(change->blocks);
    limit_sets_replace(&change->store->common.sets, change->id, change->to);
    for (uint64_t i = 0; i <= change->store->shard_mask; i++)
        shard_note_fresh_at(&change->store->shards[i], change->now);
    return TG_OK;
}

enum tg_err tg_store_redefine(struct tg_store *store, tg_limits set, const struct tg_limit *limits,
                              size_t n, tg_ms now, struct tg_problem *problem)
{
    struct change change = {
        .store = store, .id = set, .from = limit_sets_get(&store->common.sets, set), .now = now};
    enum tg_err err;

    if (!change.from)
        return problem_say(problem, TG_ERR_UNKNOWN, "%s", tg_strerror(TG_ERR_UNKNOWN));
    if (!num_in_range(now))
        return problem_say(problem, TG_ERR_INVALID, "the time is out of range");
    err = limit_sets_make(limits, n, &change.to, problem);
    if (err)
        return err;
    for (uint64_t i = 0; i <= store->shard_mask; i++)
        spin_lock(&store->shards[i].lock);
    err = redefine_locked(&change);
    for (uint64_t i = 0; i <= store->shard_mask; i++)
        spin_unlock(&store->shards[i].lock);
    if (err) {
        limit_sets_unmake(change.to);
        problem_say(problem, err, "%s", tg_strerror(err));
    }
    return err;
}
