/* replay_ids.c - a table with open addressing, linear probing, at most two thirds full. */
#include "cli/replay/replay_ids.h"

#include <stdlib.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

enum { CAPACITY_MIN = 64 };

static bool is_free(const struct replay_id *slot)
{
    return slot->low == 0 && slot->high == 0;
}

static struct replay_id hashed(const char *text, size_t bytes)
{
    XXH128_hash_t hash = XXH3_128bits(text, bytes);

    return (struct replay_id){.low = hash.low64, .high = hash.high64 | 1};
}

/* Where the id is, or where it would be. */
static struct replay_id *replay_ids_place_of(const struct replay_ids *ids,
                                             const struct replay_id *id)
{
    size_t at = (size_t)id->low & (ids->capacity - 1);

    while (!is_free(&ids->slots[at]) &&
           (ids->slots[at].low != id->low || ids->slots[at].high != id->high))
        at = (at + 1) & (ids->capacity - 1);
    return &ids->slots[at];
}

void replay_ids_fini(struct replay_ids *ids)
{
    free(ids->slots);
    *ids = (struct replay_ids){0};
}

struct replay_id *replay_ids_find(const struct replay_ids *ids, const char *text, size_t bytes)
{
    struct replay_id id = hashed(text, bytes);
    struct replay_id *place = ids->capacity > 0 ? replay_ids_place_of(ids, &id) : NULL;

    return place != NULL && !is_free(place) ? place : NULL;
}

static bool has_ended(const struct replay_id *id, tg_ms ended)
{
    return id->call == NULL && id->ends_at <= ended;
}

/* Moves what is still in use into a table in which it takes at most a third. */
static bool rebuild(struct replay_ids *ids, tg_ms ended)
{
    struct replay_ids made = {.capacity = CAPACITY_MIN};
    size_t live = 1;

    for (size_t i = 0; i < ids->capacity; i++)
        live += !is_free(&ids->slots[i]) && !has_ended(&ids->slots[i], ended);
    while (live > made.capacity / 3)
        made.capacity *= 2;
    made.slots = calloc(made.capacity, sizeof made.slots[0]);
    if (made.slots == NULL)
        return false;
    for (size_t i = 0; i < ids->capacity; i++)
        if (!is_free(&ids->slots[i]) && !has_ended(&ids->slots[i], ended)) {
            *replay_ids_place_of(&made, &ids->slots[i]) = ids->slots[i];
            made.used++;
        }
    free(ids->slots);
    *ids = made;
    return true;
}

struct replay_id *replay_ids_put(struct replay_ids *ids, const char *text, size_t bytes,
                                 tg_ms ended)
{
    struct replay_id id = hashed(text, bytes);

    if ((ids->used + 1) * 3 > ids->capacity * 2 && !rebuild(ids, ended))
        return NULL;
    struct replay_id *place = replay_ids_place_of(ids, &id);
    if (is_free(place)) {
        *place = id;
        ids->used++;
    }
    return place;
}

/* Whoever stands behind the gap, and was pushed there past it, moves up. */
void replay_ids_remove(struct replay_ids *ids, struct replay_id *id)
{
    size_t mask = ids->capacity - 1;
    size_t gap = (size_t)(id - ids->slots);

    for (size_t at = (gap + 1) & mask; !is_free(&ids->slots[at]); at = (at + 1) & mask) {
        size_t home = (size_t)ids->slots[at].low & mask;
        if (((at - home) & mask) >= ((at - gap) & mask)) {
            ids->slots[gap] = ids->slots[at];
            gap = at;
        }
    }
    ids->slots[gap] = (struct replay_id){0};
    ids->used--;
}
