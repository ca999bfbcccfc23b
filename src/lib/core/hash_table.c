/* hash_table.c - the operations that change a hash table. See hash_table.h. */
#include "lib/core/hash_table.h"

#include <string.h>

#include "lib/core/allocator.h"

enum { CAPACITY_MIN = 16 };

/* Three quarters, written so that it cannot overflow. */
static size_t items_max(size_t capacity)
{
    return capacity - capacity / 4;
}

void hash_table_fini(struct hash_table *table)
{
    mem_free(table->slots);
    *table = (struct hash_table){0};
}

void hash_table_clear(struct hash_table *table)
{
    if (table->n > 0)
        memset(table->slots, 0, table->capacity * sizeof *table->slots);
    table->n = 0;
}

struct hash_slot *hash_table_insert(struct hash_table *table, uint64_t hash)
{
    size_t mask = table->capacity - 1, i = (size_t)hash & mask;

    assert(table->n < items_max(table->capacity));
    while (table->slots[i].tag != 0)
        i = (i + 1) & mask;
    table->slots[i].tag = hash | HASH_TABLE_USED;
    table->n++;
    return &table->slots[i];
}

enum tg_err hash_table_reserve(struct hash_table *table, size_t n)
{
    struct hash_table larger = {.capacity = table->capacity ? table->capacity : CAPACITY_MIN};

    if (n <= items_max(table->capacity))
        return TG_OK;
    while (n > items_max(larger.capacity)) {
        if (larger.capacity > SIZE_MAX / 2 / sizeof *larger.slots)
            return TG_ERR_MEMORY;
        larger.capacity *= 2;
    }
    /* Large ones are zeroed by the system: what is never used takes no memory of the machine. */
    larger.slots = mem_calloc(larger.capacity, sizeof *larger.slots);
    if (!larger.slots)
        return TG_ERR_MEMORY;
    for (const struct hash_slot *slot = hash_table_first(table); slot;
         slot = hash_table_after(table, slot))
        hash_table_insert(&larger, slot->tag)->number = slot->number;
    assert(larger.n == table->n);
    mem_free(table->slots);
    *table = larger;
    return TG_OK;
}

void hash_table_remove(struct hash_table *table, struct hash_slot *slot)
{
    size_t mask = table->capacity - 1;
    size_t gap = (size_t)(slot - table->slots);

    assert(gap < table->capacity && slot->tag != 0);
    /* An item may fill the gap if that does not put it before its home. */
    for (size_t i = (gap + 1) & mask; table->slots[i].tag != 0; i = (i + 1) & mask) {
        size_t home = (size_t)table->slots[i].tag & mask;
        if (((i - home) & mask) >= ((i - gap) & mask)) {
            table->slots[gap] = table->slots[i];
            gap = i;
        }
    }
    table->slots[gap] = (struct hash_slot){0};
    table->n--;
}
