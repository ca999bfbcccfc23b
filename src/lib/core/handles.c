/* handles.c - the operations that change a pool of handles. See handles.h. */
#include "lib/core/handles.h"

#include <string.h>

#include "lib/core/allocator.h"

void handles_init(struct handles *pool, size_t item_bytes, unsigned place_bits, uint64_t max)
{
    *pool = (struct handles){.item_bytes = item_bytes,
                             .place_bits = place_bits,
                             .place_mask = (UINT64_C(1) << place_bits) - 1,
                             .max = max};
    assert(place_bits >= 1 && place_bits <= 32 && max <= pool->place_mask);
    assert(item_bytes >= sizeof(struct handle) && item_bytes % sizeof(uint64_t) == 0);
}

void handles_fini(struct handles *pool)
{
    for (int i = 0; i < HANDLES_CHUNKS; i++)
        mem_free_aligned(pool->chunks[i]);
}

enum tg_err handles_grow(struct handles *pool)
{
    int chunk = 63 - HANDLES_FIRST_BITS - __builtin_clzll(pool->made + (1 << HANDLES_FIRST_BITS));

    if (pool->made >= pool->max)
        return TG_ERR_FULL;
    assert(chunk >= 0 && chunk < HANDLES_CHUNKS);
    if (!pool->chunks[chunk]) {
        size_t items = (size_t)1 << (HANDLES_FIRST_BITS + chunk);
        if (items > PTRDIFF_MAX / pool->item_bytes)
            return TG_ERR_MEMORY;
        pool->chunks[chunk] = mem_aligned_alloc(HANDLES_ALIGNMENT, items * pool->item_bytes);
    }
    return pool->chunks[chunk] ? TG_OK : TG_ERR_MEMORY;
}

void *handles_get(struct handles *pool)
{
    struct handle *handle = pool->free;

    if (handle) {
        pool->free = handle->next_free;
        handle->id = ~handle->id;
    } else if (handles_grow(pool) == TG_OK) {
        uint64_t place = pool->made++;
        handle = handles_at(pool, place);
        memset(handle, 0, pool->item_bytes);
        handle->id = UINT64_C(1) << pool->place_bits | (place + 1);
    } else {
        return NULL;
    }
    pool->used++;
    assert(pool->used <= pool->made && handles_find(pool, handle->id) == handle);
    return handle;
}

void handles_put(struct handles *pool, struct handle *handle)
{
    assert(handles_find(pool, handle->id) == handle && pool->used > 0);
    uint64_t next = handle->id + (UINT64_C(1) << pool->place_bits);
    pool->used--;
    if (next > handle->id) { /* generations are not used up */
        handle->next_free = pool->free;
        pool->free = handle;
    }
    handle->id = ~next;
}
