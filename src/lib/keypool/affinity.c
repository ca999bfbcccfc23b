/* affinity.c - a bounded map whose oldest entry makes room. See affinity.h. */
#include "lib/keypool/affinity.h"

#include "lib/core/allocator.h"

bool affinity_init(struct affinity *affinity, size_t entries)
{
    *affinity = (struct affinity){.capacity = (uint32_t)entries};
    if (entries == 0)
        return true;
    /* Zeroed by the system: what is never used takes no memory of the machine. */
    affinity->entries = mem_calloc(entries + 1, sizeof *affinity->entries);
    if (affinity->entries && hash_table_reserve(&affinity->places, entries) == TG_OK)
        return true;
    affinity_fini(affinity);
    return false;
}

void affinity_fini(struct affinity *affinity)
{
    mem_free(affinity->entries);
    hash_table_fini(&affinity->places);
    *affinity = (struct affinity){0};
}

/* Two entries never have one hash: the second is the first. */
static uint32_t affinity_place_of(const struct affinity *affinity, uint64_t hash)
{
    const struct hash_slot *slot = hash_table_find(&affinity->places, hash);

    return slot ? (uint32_t)slot->number : 0;
}

static void take_from_order(struct affinity *affinity, uint32_t place)
{
    struct affinity_entry *all = affinity->entries, *entry = &all[place];

    assert(all[entry->older].newer == place && all[entry->newer].older == place);
    all[entry->older].newer = entry->newer;
    all[entry->newer].older = entry->older;
}

static void make_newest(struct affinity *affinity, uint32_t place)
{
    struct affinity_entry *all = affinity->entries, *entry = &all[place];

    assert(place >= 1 && place <= affinity->n);
    entry->newer = 0;
    entry->older = all[0].older;
    all[entry->older].newer = place;
    all[0].older = place;
}

/* A place for a new entry: an unused one, or the oldest's. */
static uint32_t place_for(struct affinity *affinity, uint64_t hash)
{
    uint32_t place = affinity->n < affinity->capacity ? ++affinity->n : 0;

    if (!place) {
        place = affinity->entries[0].newer;
        take_from_order(affinity, place);
        struct hash_slot *oldest =
            hash_table_find(&affinity->places, affinity->entries[place].hash);
        assert(oldest && oldest->number == place);
        hash_table_remove(&affinity->places, oldest);
    }
    affinity->entries[place].hash = hash;
    hash_table_insert(&affinity->places, hash)->number = place;
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
    assert(affinity->places.n == affinity->n && serial);
    affinity->entries[place].used_at = now;
    affinity->entries[place].serial = serial;
}
