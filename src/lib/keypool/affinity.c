/* affinity.c - a bounded map whose oldest entry makes room. See affinity.h. */
#include "lib/keypool/affinity.h"

#include <stdlib.h>

bool affinity_init(struct affinity *affinity, size_t entries)
{
    size_t buckets = 1;

    *affinity = (struct affinity){.capacity = (uint32_t)entries};
    if (entries == 0)
        return true;
    while (buckets < entries)
        buckets *= 2;
    /* Zeroed by the system: what is never used takes no memory of the machine. */
    affinity->entries = calloc(entries + 1, sizeof *affinity->entries);
    affinity->buckets = calloc(buckets, sizeof *affinity->buckets);
    affinity->mask = (uint32_t)(buckets - 1);
    if (affinity->entries && affinity->buckets)
        return true;
    affinity_fini(affinity);
    return false;
}

void affinity_fini(struct affinity *affinity)
{
    free(affinity->entries);
    free(affinity->buckets);
    *affinity = (struct affinity){0};
}

static uint32_t affinity_place_of(const struct affinity *affinity, uint64_t hash)
{
    uint32_t place = affinity->buckets[hash & affinity->mask];

    while (place && affinity->entries[place].hash != hash)
        place = affinity->entries[place].chain;
    return place;
}

static void take_from_order(struct affinity *affinity, uint32_t place)
{
    struct affinity_entry *all = affinity->entries, *entry = &all[place];

    all[entry->older].newer = entry->newer;
    all[entry->newer].older = entry->older;
}

static void make_newest(struct affinity *affinity, uint32_t place)
{
    struct affinity_entry *all = affinity->entries, *entry = &all[place];

    entry->newer = 0;
    entry->older = all[0].older;
    all[entry->older].newer = place;
    all[0].older = place;
}

static void take_from_bucket(struct affinity *affinity, uint32_t place)
{
    uint32_t *link = &affinity->buckets[affinity->entries[place].hash & affinity->mask];

    while (*link != place)
        link = &affinity->entries[*link].chain;
    *link = affinity->entries[place].chain;
}

/* A place for a new entry: an unused one, or the oldest's. */
static uint32_t place_for(struct affinity *affinity, uint64_t hash)
{
    uint32_t place = affinity->n < affinity->capacity ? ++affinity->n : 0;

    if (!place) {
        place = affinity->entries[0].newer;
        take_from_order(affinity, place);
        take_from_bucket(affinity, place);
    }
    affinity->entries[place].hash = hash;
    affinity->entries[place].chain = affinity->buckets[hash & affinity->mask];
    affinity->buckets[hash & affinity->mask] = place;
    return place;
}

uint32_t affinity_find(const struct affinity *affinity, uint64_t hash, tg_ms now, tg_ms ttl)
{
    uint32_t place = affinity->capacity ? affinity_place_of(affinity, hash) : 0;

    if (!place || now - affinity->entries[place].used_at > ttl)
        return 0;
    return affinity->entries[place].serial;
}

void affinity_remember(struct affinity *affinity, uint64_t hash, tg_ms now, uint32_t serial)
{
    if (!affinity->capacity)
        return;
    uint32_t place = affinity_place_of(affinity, hash);
    if (place)
        take_from_order(affinity, place);
    else
        place = place_for(affinity, hash);
    make_newest(affinity, place);
    affinity->entries[place].used_at = now;
    affinity->entries[place].serial = serial;
}
