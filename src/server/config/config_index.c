/* config_index.c - names and their numbers: a hash table in memory of the configuration.
 *
 * The arena owns the slots, with room for all names from the start: putting one cannot fail.
 */
#include "server/config/config_index.h"

#include <assert.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "io/text/slice.h"
#include "lib/core/hash_table.h"

struct config_index {
    struct hash_table table; /* numbers of `names` */
    size_t max;
    struct {
        struct slice name;
        size_t number;
    } names[];
};

struct config_index *config_index_new(struct arena *arena, size_t n)
{
    struct config_index *index = arena_alloc(arena, sizeof *index + n * sizeof index->names[0]);

    if (index == NULL)
        return NULL;
    index->max = n;
    index->table.capacity = 8;
    while (index->table.capacity / 2 < n)
        index->table.capacity *= 2;
    index->table.slots = arena_alloc(arena, index->table.capacity * sizeof index->table.slots[0]);
    return index->table.slots != NULL ? index : NULL;
}

static size_t config_index_find_name(const struct config_index *index, struct slice name,
                                     uint64_t hash)
{
    struct hash_slot *slot = hash_table_find(&index->table, hash);

    while (slot != NULL && !slice_equal(index->names[slot->number].name, name))
        slot = hash_table_find_next(&index->table, slot);
    return slot != NULL ? index->names[slot->number].number : CONFIG_INDEX_NONE;
}

size_t config_index_put(struct config_index *index, const char *text, size_t number)
{
    struct slice name = slice_of(text);
    uint64_t hash = XXH3_64bits(name.at, name.n);
    size_t found = config_index_find_name(index, name, hash), n = index->table.n;

    assert(number != CONFIG_INDEX_NONE);
    if (found != CONFIG_INDEX_NONE)
        return found;
    assert(n < index->max);
    hash_table_insert(&index->table, hash)->number = n;
    index->names[n].name = name;
    index->names[n].number = number;
    return CONFIG_INDEX_NONE;
}

size_t config_index_get(const struct config_index *index, const char *name, size_t bytes)
{
    if (index == NULL)
        return CONFIG_INDEX_NONE;
    return config_index_find_name(index, (struct slice){name, bytes}, XXH3_64bits(name, bytes));
}
