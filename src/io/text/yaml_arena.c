/* yaml_arena.c - memory that is taken in small pieces and given back all at once.
 *
 * Blocks of a fixed size, each filled from the front; what is too large for one gets a block of its
 * own. Nothing is ever moved, so pointers hold until the end.
 */
#include "io/text/yaml_arena.h"

#include <assert.h>
#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 16384 };

struct block {
    struct block *next;
    alignas(max_align_t) unsigned char bytes[];
};

struct arena {
    struct block *blocks; /* the first one is being filled */
    size_t used, size;    /* bytes of the first one */
};

struct arena *arena_new(void)
{
    return calloc(1, sizeof(struct arena));
}

void arena_free(struct arena *arena)
{
    if (arena == NULL)
        return;
    while (arena->blocks != NULL) {
        struct block *next = arena->blocks->next;
        free(arena->blocks);
        arena->blocks = next;
    }
    free(arena);
}

/* Behind the first block, which goes on being filled. */
static void *alloc_large(struct arena *arena, size_t bytes)
{
    struct block *block = calloc(1, sizeof *block + bytes);

    if (block == NULL)
        return NULL;
    if (arena->blocks != NULL) {
        block->next = arena->blocks->next;
        arena->blocks->next = block;
    } else {
        arena->blocks = block;
        arena->used = arena->size = bytes;
    }
    return block->bytes;
}

void *arena_alloc(struct arena *arena, size_t bytes)
{
    const size_t align = alignof(max_align_t);

    if (bytes > SIZE_MAX / 2)
        return NULL;
    bytes = (bytes + align - 1) / align * align;
    if (bytes > BLOCK_BYTES / 4)
        return alloc_large(arena, bytes);
    if (arena->blocks == NULL || arena->size - arena->used < bytes) {
        struct block *block = calloc(1, sizeof *block + BLOCK_BYTES);
        if (block == NULL)
            return NULL;
        block->next = arena->blocks;
        arena->blocks = block;
        arena->used = 0;
        arena->size = BLOCK_BYTES;
    }
    void *piece = arena->blocks->bytes + arena->used;
    arena->used += bytes;
    assert(arena->used <= arena->size);
    return piece;
}

char *arena_text(struct arena *arena, const char *text, size_t bytes)
{
    char *copy = arena_alloc(arena, bytes + 1);

    if (copy != NULL && bytes > 0)
        memcpy(copy, text, bytes);
    return copy;
}
