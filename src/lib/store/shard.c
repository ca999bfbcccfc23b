/* shard.c - room for entries: growing, forgetting, shrinking. See shard.h. */
#include "lib/store/shard.h"

#include <assert.h>
#include <string.h>

#include "lib/core/allocator.h"
#include "lib/core/num.h"

enum { CAPACITY_MIN = 4 };

/* Linear probing looks at 3 slots on average when 4 of 5 are taken, so that is where a table
 * grows; at 15 of 16 a hit takes 8, still better than no room at all. */
static uint32_t comfortable(uint32_t capacity)
{
    return (uint32_t)((uint64_t)capacity * 4 / 5);
}

static uint32_t tight(uint32_t capacity)
{
    return capacity - capacity / 16 - (capacity > 0);
}

/* Memory is claimed before it is allocated, so the bound holds at every moment. Relaxed: the
 * counter guards nothing but itself. */
bool shard_claim(struct shard_common *common, size_t bytes)
{
    size_t used = atomic_load_explicit(&common->memory_used, memory_order_relaxed);

    do {
        if (bytes > common->memory_max - used)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&common->memory_used, &used, used + bytes,
                                                    memory_order_relaxed, memory_order_relaxed));
    return true;
}

void shard_give_back(struct shard_common *common, size_t bytes)
{
    size_t used = atomic_fetch_sub_explicit(&common->memory_used, bytes, memory_order_relaxed);

    assert(used >= bytes); /* it was claimed */
    (void)used;
}

void shard_init(struct shard *shard)
{
    memset(shard, 0, sizeof *shard);
    atomic_store_explicit(&shard->fresh_from, INT64_MAX, memory_order_relaxed);
}

static void free_states(struct shard_common *common, struct table_slot *slot)
{
    const struct limit_set *set = limit_sets_get(&common->sets, table_id_set(slot->id));

    if (!set->in_slot) {
        mem_free(slot->states.block);
        shard_give_back(common, shard_block_bytes(set));
    }
}

void shard_fini(struct shard *shard, struct shard_common *common)
{
    struct table_slot *slots = table_slots(&shard->table);

    for (uint32_t i = 0; i < table_capacity(&shard->table); i++)
        if (!table_is_free(&slots[i]))
            free_states(common, &slots[i]);
    table_resize(&shard->table, 0);
}

void shard_note_fresh_at(struct shard *shard, tg_ms fresh_at)
{
    if (fresh_at < shard_fresh_from(shard))
        atomic_store_explicit(&shard->fresh_from, fresh_at, memory_order_relaxed);
}

/* Only the difference counts against the bound. For the moment of the copy the old table is there
 * too: were it counted, a full store could not even shrink. */
static enum tg_err resize(struct shard *shard, struct shard_common *common, uint32_t capacity)
{
    size_t from = table_bytes(table_capacity(&shard->table)), to = table_bytes(capacity);

    if (to > from && !shard_claim(common, to - from))
        return TG_ERR_FULL;
    if (!table_resize(&shard->table, capacity)) {
        if (to > from)
            shard_give_back(common, to - from);
        return TG_ERR_MEMORY;
    }
    if (to < from)
        shard_give_back(common, from - to);
    return TG_OK;
}

/* Half as much again: the table is never less than half full, at 32 bytes a slot below 64 bytes
 * a key. */
static enum tg_err shard_grow(struct shard *shard, struct shard_common *common, uint32_t wanted)
{
    uint64_t capacity = table_capacity(&shard->table);

    if (capacity < CAPACITY_MIN)
        capacity = CAPACITY_MIN;
    while (comfortable((uint32_t)capacity) < wanted)
        capacity += capacity / 2;
    return capacity <= UINT32_MAX ? resize(shard, common, (uint32_t)capacity) : TG_ERR_FULL;
}

enum tg_err shard_make_room(struct shard *shard, struct shard_common *common, uint32_t n, tg_ms now)
{
    struct table *table = &shard->table;

    if (table->n + n <= comfortable(table_capacity(table)))
        return TG_OK;
    enum tg_err err = shard_grow(shard, common, table->n + n);
    if (err == TG_OK || table->n + n <= tight(table_capacity(table)))
        return TG_OK;
    shard_sweep(shard, common, now);
    return table->n + n <= tight(table_capacity(table)) ? TG_OK : err;
}

enum tg_err shard_insert(struct shard *shard, struct shard_common *common, struct table_id id,
                         const struct limit_set *set, struct table_slot **slot)
{
    void *block = NULL;

    if (!set->in_slot) {
        if (!shard_claim(common, shard_block_bytes(set)))
            return TG_ERR_FULL;
        /* Zeroed, rather than written: of the large state of a sliding_log, only the part that is
         * used then takes memory of the machine. */
        block = mem_calloc(1, set->state_bytes);
        if (!block) {
            shard_give_back(common, shard_block_bytes(set));
            return TG_ERR_MEMORY;
        }
    }
    assert(!table_find(&shard->table, id));
    *slot = table_insert(&shard->table, id);
    memset(&(*slot)->states, 0, sizeof(*slot)->states); /* another entry was there */
    if (block)
        (*slot)->states.block = block;
    if (!set->fresh_is_zero)
        memcpy(limit_set_states(set, *slot), set->fresh, set->state_bytes);
    return TG_OK;
}

void shard_sweep(struct shard *shard, struct shard_common *common, tg_ms now)
{
    struct table *table = &shard->table;
    tg_ms earliest = INT64_MAX;

    if (now < shard_fresh_from(shard))
        return;
    for (uint32_t i = 0; i < table_capacity(table);) {
        struct table_slot *slot = &table_slots(table)[i];
        tg_ms fresh_at = INT64_MAX;

        if (!table_is_free(slot)) {
            const struct limit_set *set = limit_sets_get(&common->sets, table_id_set(slot->id));
            fresh_at = limit_set_fresh_at(set, limit_set_states(set, slot), INT64_MAX);
        }
        if (fresh_at <= now) {
            free_states(common, slot);
            table_remove(table, slot); /* another entry may be in this slot now: look again */
            shard->forgotten++;
        } else {
            earliest = num_min(earliest, fresh_at);
            i++;
        }
    }
    assert(earliest > now);
    atomic_store_explicit(&shard->fresh_from, earliest, memory_order_relaxed);
}

void shard_shrink(struct shard *shard, struct shard_common *common)
{
    uint32_t n = shard->table.n, capacity = table_capacity(&shard->table);
    uint32_t needed = n ? n + n / 2 + CAPACITY_MIN : 0;

    if (needed < capacity)
        (void)resize(shard, common, needed); /* no memory for the copy: then it stays as it is */
}
