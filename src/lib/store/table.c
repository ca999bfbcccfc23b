/* table.c - the operations that change a table. See table.h. */
#include "lib/store/table.h"

#include <assert.h>
#include <string.h>

#include "lib/core/allocator.h"

struct table_slot *table_insert(struct table *table, struct table_id id)
{
    uint32_t capacity = table_capacity(table);
    struct table_slot *slots = table_slots(table);
    uint32_t i = table_home(id.hash, capacity);

    assert(table->n + 1 < capacity);
    while (!table_is_free(&slots[i]))
        i = i + 1 < capacity ? i + 1 : 0;
    slots[i].id = id;
    table->n++;
    return &slots[i];
}

void table_remove(struct table *table, struct table_slot *slot)
{
    uint32_t capacity = table_capacity(table);
    struct table_slot *slots = table_slots(table);
    uint32_t hole = (uint32_t)(slot - slots);

    assert(hole < capacity && !table_is_free(slot) && table->n > 0);
    /* An entry may fill the hole if that does not put it before its home. A distance that goes
     * around the end wraps around, too: it is larger than all that do not. */
    for (uint32_t i = hole + 1 < capacity ? hole + 1 : 0; !table_is_free(&slots[i]);
         i = i + 1 < capacity ? i + 1 : 0) {
        uint32_t home = table_home(slots[i].id.hash, capacity);
        if (i - home >= i - hole) {
            slots[hole] = slots[i];
            hole = i;
        }
    }
    slots[hole].id = (struct table_id){0};
    table->n--;
}

static void replace(struct table *table, struct table_slot *slots, uint32_t capacity)
{
    atomic_store_explicit(&table->slots, slots, memory_order_relaxed);
    atomic_store_explicit(&table->capacity, capacity, memory_order_relaxed);
    table->n = 0;
}

bool table_resize(struct table *table, uint32_t capacity)
{
    struct table_slot *old = table_slots(table);
    uint32_t old_capacity = table_capacity(table);
    struct table_slot *slots = NULL;

    uint32_t n = table->n;

    assert(capacity == 0 || capacity > n);
    if (capacity > 0) {
        size_t bytes = table_bytes(capacity);
        slots = mem_aligned_alloc(CACHE_LINE, bytes);
        if (!slots)
            return false;
        memset(slots, 0, bytes);
    }
    replace(table, slots, capacity);
    if (capacity > 0)
        for (uint32_t i = 0; i < old_capacity; i++)
            if (!table_is_free(&old[i]))
                table_insert(table, old[i].id)->states = old[i].states;
    assert(capacity == 0 || table->n == n);
    mem_free_aligned(old);
    (void)n;
    return true;
}
