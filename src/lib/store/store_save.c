/* store_save.c - what a store has counted, for another process: see store_save.h.
 *
 * All shards are locked while it is copied, as by a redefinition: so the copy is of one moment, and
 * whatever is charged after that is told. A charge is told when its lock has been released, which
 * is in the order in which a call is charged and settled; charges of different calls may be told in
 * another order than they were made, which no limiter minds, since each has its time.
 */
#include "lib/store/store_save.h"

#include <assert.h>
#include <string.h>

#include "lib/core/allocator.h"
#include "lib/core/num.h"
#include "lib/store/claim.h"
#include "lib/store/redefine.h"

struct save_head {
    uint64_t shards;
};

/* One key; its states follow. */
struct save_key {
    struct table_id id;
    uint32_t shard, bytes;
};

static void lock_all(struct tg_store *store)
{
    for (uint64_t i = 0; i <= store->shard_mask; i++)
        spin_lock(&store->shards[i].lock);
}

static void unlock_all(struct tg_store *store)
{
    for (uint64_t i = 0; i <= store->shard_mask; i++)
        spin_unlock(&store->shards[i].lock);
}

/* Writes all keys; null: counts their bytes. */
static size_t write_keys(struct tg_store *store, char *to)
{
    size_t n = 0;

    for (uint64_t i = 0; i <= store->shard_mask; i++) {
        struct table *table = &store->shards[i].table;
        for (uint32_t k = 0; k < table_capacity(table); k++) {
            struct table_slot *slot = &table_slots(table)[k];
            const struct limit_set *set =
                limit_sets_get(&store->common.sets, table_id_set(slot->id));
            if (table_is_free(slot) || set == NULL)
                continue;
            struct save_key key = {slot->id, (uint32_t)i, (uint32_t)set->state_bytes};
            if (to != NULL) {
                memcpy(to + n, &key, sizeof key);
                memcpy(to + n + sizeof key, limit_set_states(set, slot), set->state_bytes);
            }
            n += sizeof key + set->state_bytes;
        }
    }
    return n;
}

enum tg_err store_save(struct tg_store *store, store_moved_fn *moved, void *context, char **bytes,
                       size_t *n)
{
    struct save_head head = {store->shard_mask + 1};
    enum tg_err err = TG_ERR_MEMORY;

    lock_all(store);
    size_t all = sizeof head + write_keys(store, NULL);
    char *copy = mem_malloc(all);
    if (copy != NULL) {
        memcpy(copy, &head, sizeof head);
        write_keys(store, copy + sizeof head);
        store->moved_context = context;
        store->moved = moved;
        err = TG_OK;
    }
    unlock_all(store);
    if (err == TG_OK) {
        *bytes = copy;
        *n = all;
    }
    return err;
}

void store_unfollow(struct tg_store *store)
{
    lock_all(store);
    store->moved = NULL;
    unlock_all(store);
}

/* ---- loading ---- */

static const struct store_set *set_of(const struct store_set *sets, size_t n, tg_limits there)
{
    for (size_t i = 0; i < n; i++)
        if (sets[i].there == there)
            return sets[i].here != 0 ? &sets[i] : NULL;
    return NULL;
}

static struct table_id id_here(struct table_id id, tg_limits here)
{
    return (struct table_id){id.hash, (id.more_and_set & ~UINT64_C(0xffffffff)) | here};
}

static void load_key(struct tg_store *store, const struct save_key *key, const void *states,
                     const struct store_set *map, const struct limit_set *from, tg_ms now)
{
    struct shard *shard = &store->shards[key->shard];
    const struct limit_set *to = limit_sets_get(&store->common.sets, map->here);
    struct table_id id = id_here(key->id, map->here);
    struct table_slot *slot;

    if (to == NULL || from->state_bytes != key->bytes)
        return;
    spin_lock(&shard->lock);
    if (table_find(&shard->table, id) == NULL &&
        shard_make_room(shard, &store->common, 1, now) == TG_OK &&
        shard_insert(shard, &store->common, id, to, &slot) == TG_OK) {
        redefine_carry(from, to, states, limit_set_states(to, slot), now);
        shard_note_fresh_at(shard, now);
    }
    spin_unlock(&shard->lock);
}

enum tg_err store_load(struct tg_store *store, const char *bytes, size_t n,
                       const struct store_set *sets, size_t n_sets, tg_ms now)
{
    struct limit_set **from = mem_calloc(n_sets + 1, sizeof *from);
    enum tg_err err = from != NULL ? TG_OK : TG_ERR_MEMORY;
    struct save_head head;

    if (n < sizeof head ||
        (memcpy(&head, bytes, sizeof head), head.shards) != store->shard_mask + 1)
        err = TG_ERR_INVALID;
    for (size_t i = 0; err == TG_OK && i < n_sets; i++)
        if (sets[i].here != 0)
            err = limit_sets_make(sets[i].limits, sets[i].n, &from[i], NULL);
    for (size_t at = sizeof head; err == TG_OK && at + sizeof(struct save_key) <= n;) {
        struct save_key key;
        double states[512];
        memcpy(&key, bytes + at, sizeof key);
        at += sizeof key;
        if (key.bytes > n - at || key.shard > store->shard_mask)
            err = TG_ERR_INVALID;
        const struct store_set *map = err ? NULL : set_of(sets, n_sets, table_id_set(key.id));
        if (map != NULL && key.bytes <= sizeof states) {
            memcpy(states, bytes + at, key.bytes); /* where numbers are aligned */
            load_key(store, &key, states, map, from[map - sets], now);
        } else if (map != NULL) {
            char *large = mem_malloc(key.bytes);
            if (large != NULL) {
                memcpy(large, bytes + at, key.bytes);
                load_key(store, &key, large, map, from[map - sets], now);
            }
            mem_free(large);
        }
        at += key.bytes;
    }
    for (size_t i = 0; from != NULL && i < n_sets; i++)
        limit_sets_unmake(from[i]);
    mem_free(from);
    return err;
}

/* ---- what moved ---- */

void store_apply(struct tg_store *store, const void *bytes, size_t n, const struct store_set *sets,
                 size_t n_sets, tg_ms now)
{
    struct claim_moved moved;

    if (n != sizeof moved)
        return;
    memcpy(&moved, bytes, sizeof moved);
    struct claim *claim = &moved.claim;
    uint16_t kept = 0;
    if (claim->n > TG_SCOPES_MAX || claim->shard > store->shard_mask)
        return;
    for (uint16_t i = 0; i < claim->n; i++) {
        const struct store_set *map = set_of(sets, n_sets, table_id_set(claim->ids[i]));
        if (map == NULL)
            continue;
        claim->ids[kept] = id_here(claim->ids[i], map->here);
        claim->uncharged[kept++] = claim->uncharged[i];
    }
    claim->n = kept;
    if (kept > 0)
        claim_follow(store, &moved, now);
}
