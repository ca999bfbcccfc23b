/* peers.c - counting the calls of peers. See peers.h. */
#include "lib/admission/peers.h"

#include <assert.h>

/* The common name of peers that found no place. No hash gives it: its set is another. */
static const struct table_id OTHERS = {0, 2};

static bool is_other(struct table_id id)
{
    return table_id_equal(id, OTHERS);
}

enum { CAPACITY_MIN = 16 };

void peers_init(struct peers *peers)
{
    *peers = (struct peers){.idle = 0};
}

void peers_fini(struct peers *peers)
{
    table_resize(&peers->table, 0);
}

void peers_tidy(struct peers *peers)
{
    struct table *table = &peers->table;

    for (uint32_t i = 0; i < table_capacity(table);) {
        struct table_slot *slot = &table_slots(table)[i];
        if (!table_is_free(slot) && slot->states.integers[0] == 0)
            table_remove(table, slot); /* another may be in this slot now: look again */
        else
            i++;
    }
    assert(peers->idle >= 0); /* so many were there to take out */
    peers->idle = 0;
    uint32_t needed = table->n * 2 + CAPACITY_MIN;
    if (needed < table_capacity(table) / 2)
        (void)table_resize(table, needed); /* no memory: it stays large */
}

int64_t peers_count(struct peers *peers, struct table_id *id, int64_t max_peers)
{
    const struct table_slot *slot = table_find(&peers->table, *id);

    if (slot)
        return slot->states.integers[0];
    if (peers->table.n >= max_peers && peers->idle > 0)
        peers_tidy(peers);
    if (peers->table.n < max_peers)
        return 0;
    *id = OTHERS;
    return peers->others;
}

static bool peers_make_room(struct peers *peers)
{
    struct table *table = &peers->table;
    uint32_t capacity = table_capacity(table);

    if (table->n + 1 <= capacity / 4 * 3)
        return true;
    if (peers->idle > capacity / 4)
        peers_tidy(peers);
    capacity = table_capacity(table);
    if (table->n + 1 <= capacity / 4 * 3)
        return true;
    return table_resize(table, capacity < CAPACITY_MIN ? CAPACITY_MIN : capacity * 2);
}

bool peers_add(struct peers *peers, struct table_id id)
{
    if (is_other(id)) {
        peers->others++;
        return true;
    }
    struct table_slot *slot = table_find(&peers->table, id);
    if (!slot) {
        if (!peers_make_room(peers))
            return false;
        slot = table_insert(&peers->table, id);
        slot->states.integers[0] = 0;
        peers->idle++;
    }
    peers->idle -= slot->states.integers[0]++ == 0;
    assert(peers->idle >= 0 && peers->idle < peers->table.n);
    return true;
}

void peers_drop(struct peers *peers, struct table_id id)
{
    if (is_other(id)) {
        assert(peers->others > 0);
        peers->others--;
        return;
    }
    struct table_slot *slot = table_find(&peers->table, id);
    assert(slot && slot->states.integers[0] > 0);
    peers->idle += --slot->states.integers[0] == 0;
    assert(peers->idle <= peers->table.n);
}

int64_t peers_calls(const struct peers *peers, struct table_id id)
{
    const struct table_slot *slot = table_find(&peers->table, id);

    return slot ? slot->states.integers[0] : 0;
}

void peers_sum(const struct peers *peers, int64_t *n, int64_t *calls)
{
    *n = peers->others > 0;
    *calls = peers->others;
    for (uint32_t i = 0; i < table_capacity(&peers->table); i++) {
        const struct table_slot *slot = &table_slots(&peers->table)[i];
        if (table_is_free(slot))
            continue;
        *n += slot->states.integers[0] > 0;
        *calls += slot->states.integers[0];
    }
}
