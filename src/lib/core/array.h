/* array.h - the one way in which an array grows.
 *
 *     struct names {
 *         char **texts;
 *         size_t n, capacity;
 *     };
 *
 *     if (!array_reserve(&names->texts, &names->capacity, names->n + 1))
 *         return TG_ERR_MEMORY;                       nothing has changed
 *     names->texts[names->n++] = text;
 *
 * The capacity at least doubles, so that n items cost O(n) copies. Sizes are checked for overflow:
 * an absurd `need` is a failure of memory. Pointers into the array are invalid after it has grown;
 * what others point at belongs into a handle pool (handles.h) or an allocation of its own. `need`
 * may come from outside only after it was bounded: memory is the bound otherwise.
 */
#ifndef TG_CORE_ARRAY_H
#define TG_CORE_ARRAY_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "lib/core/allocator.h"

enum { ARRAY_CAPACITY_MIN = 8 };

/* array_reserve() for items of so many bytes. `items` is the address of a pointer to objects of any
 * type, which is why it is copied as bytes. */
static inline bool array_reserve_bytes(void *items, size_t *capacity, size_t need,
                                       size_t item_bytes)
{
    size_t larger = *capacity <= SIZE_MAX / 2 ? *capacity * 2 : SIZE_MAX;
    void *old, *block;

    assert(item_bytes > 0);
    if (need <= *capacity)
        return true;
    if (larger < ARRAY_CAPACITY_MIN)
        larger = ARRAY_CAPACITY_MIN;
    if (larger < need || larger > PTRDIFF_MAX / item_bytes)
        larger = need;
    if (larger > PTRDIFF_MAX / item_bytes)
        return false;
    memcpy(&old, items, sizeof old);
    block = mem_realloc(old, larger * item_bytes);
    if (!block)
        return false;
    memcpy(items, &block, sizeof block);
    *capacity = larger;
    return true;
}

/* Makes room for `need` items in all. False: no memory, and nothing has changed. `items` is the
 * address of the array's pointer, `capacity` that of a size_t. */
#define array_reserve(items, capacity, need)                                                       \
    array_reserve_bytes((items), (capacity), (need), sizeof **(items))

#endif
