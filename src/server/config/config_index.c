/* config_index.c - names and their numbers, in a table of chains that never grows. */
#include "server/config/config_index.h"

#include <stdint.h>
#include <string.h>

struct entry {
    struct entry *next;
    const char *name;
    size_t bytes, number;
};

struct config_index {
    struct entry *entries; /* room for all names, so that putting one cannot fail */
    size_t used, mask;
    struct entry *chains[];
};

/* FNV-1a: short names, written by the owner of the file. */
static size_t hash(const char *name, size_t bytes)
{
    uint64_t value = UINT64_C(14695981039346656037);

    for (size_t i = 0; i < bytes; i++)
        value = (value ^ (unsigned char)name[i]) * UINT64_C(1099511628211);
    return (size_t)(value ^ value >> 32);
}

struct config_index *config_index_new(struct arena *arena, size_t n)
{
    size_t chains = 8;
    struct config_index *index;

    while (chains < n)
        chains *= 2;
    index = arena_alloc(arena, sizeof *index + chains * sizeof index->chains[0]);
    if (index == NULL)
        return NULL;
    index->mask = chains - 1;
    index->entries = arena_alloc(arena, (n > 0 ? n : 1) * sizeof index->entries[0]);
    return index->entries != NULL ? index : NULL;
}

static struct entry *config_index_find(const struct config_index *index, const char *name,
                                       size_t bytes)
{
    struct entry *entry = index->chains[hash(name, bytes) & index->mask];

    while (entry != NULL && (entry->bytes != bytes || memcmp(entry->name, name, bytes) != 0))
        entry = entry->next;
    return entry;
}

size_t config_index_put(struct config_index *index, const char *name, size_t number)
{
    size_t bytes = strlen(name);
    struct entry *entry = config_index_find(index, name, bytes);
    struct entry **chain = &index->chains[hash(name, bytes) & index->mask];

    if (entry != NULL)
        return entry->number;
    entry = &index->entries[index->used++];
    *entry = (struct entry){*chain, name, bytes, number};
    *chain = entry;
    return CONFIG_INDEX_NONE;
}

size_t config_index_get(const struct config_index *index, const char *name, size_t bytes)
{
    const struct entry *entry = index != NULL ? config_index_find(index, name, bytes) : NULL;

    return entry != NULL ? entry->number : CONFIG_INDEX_NONE;
}
