/* replay_ids.c - the ids of a trace that are in use. See replay_ids.h.
 *
 * The last entry of the list moves into the place of one that is removed.
 */
#include "cli/replay/replay_ids.h"

#include <assert.h>
#include <stdlib.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "lib/core/array.h"

void replay_ids_fini(struct replay_ids *ids)
{
    free(ids->list);
    hash_table_fini(&ids->numbers);
    *ids = (struct replay_ids){.n = 0};
}

static struct replay_id *find_hash(const struct replay_ids *ids, XXH128_hash_t hash)
{
    const struct hash_slot *slot = hash_table_find(&ids->numbers, hash.low64);

    assert(ids->numbers.n == ids->n);
    for (; slot != NULL; slot = hash_table_find_next(&ids->numbers, slot)) {
        struct replay_id *id = &ids->list[slot->number];
        assert(slot->number < ids->n);
        if (id->low == hash.low64 && id->high == hash.high64)
            return id;
    }
    return NULL;
}

struct replay_id *replay_ids_find(const struct replay_ids *ids, const char *text, size_t bytes)
{
    return find_hash(ids, XXH3_128bits(text, bytes));
}

/* The slot of an entry that is in the list. */
static struct hash_slot *slot_of(const struct replay_ids *ids, const struct replay_id *id)
{
    struct hash_slot *slot = hash_table_find(&ids->numbers, id->low);

    while (slot != NULL && slot->number != (uint64_t)(id - ids->list))
        slot = hash_table_find_next(&ids->numbers, slot);
    assert(slot != NULL);
    return slot;
}

void replay_ids_remove(struct replay_ids *ids, struct replay_id *id)
{
    size_t hole = (size_t)(id - ids->list);

    assert(hole < ids->n);
    hash_table_remove(&ids->numbers, slot_of(ids, id));
    if (hole != --ids->n) {
        slot_of(ids, &ids->list[ids->n])->number = hole;
        ids->list[hole] = ids->list[ids->n];
    }
}

/* Where more than half of the entries stay, the list grows: else each new id would soon search all
 * of it again. */
static bool replay_ids_make_room(struct replay_ids *ids, tg_ms ended)
{
    if (ids->n < ids->capacity)
        return true;
    for (size_t i = ids->n; i-- > 0;)
        if (ids->list[i].call == NULL && ids->list[i].ends_at <= ended)
            replay_ids_remove(ids, &ids->list[i]);
    return array_reserve(&ids->list, &ids->capacity, 2 * ids->n + 1);
}

struct replay_id *replay_ids_put(struct replay_ids *ids, const char *text, size_t bytes,
                                 tg_ms ended)
{
    XXH128_hash_t hash = XXH3_128bits(text, bytes);
    struct replay_id *id = find_hash(ids, hash);

    if (id != NULL)
        return id;
    if (!replay_ids_make_room(ids, ended) || hash_table_reserve(&ids->numbers, ids->n + 1) != TG_OK)
        return NULL;
    assert(ids->n < ids->capacity);
    hash_table_insert(&ids->numbers, hash.low64)->number = ids->n;
    ids->list[ids->n] = (struct replay_id){.low = hash.low64, .high = hash.high64};
    return &ids->list[ids->n++];
}
