/* grpc_arena.c - memory for one message at a time. See grpc_arena.h. */
#include "io/grpc/grpc_arena.h"

#include <assert.h>
#include <stdalign.h>
#include <stdlib.h>

struct grpc_arena_extra {
    SLIST_ENTRY(grpc_arena_extra) next;
    max_align_t bytes[];
};

enum { ARENA_ALIGN = alignof(max_align_t) };

static void *alloc_extra(struct grpc_arena *arena, size_t size)
{
    if (size > arena->max || arena->extra_bytes > arena->max - size)
        return NULL;
    struct grpc_arena_extra *extra = malloc(sizeof *extra + size);
    if (extra == NULL)
        return NULL;
    arena->extra_bytes += size;
    SLIST_INSERT_HEAD(&arena->extra, extra, next);
    return extra->bytes;
}

static void *arena_alloc(void *data, size_t size)
{
    struct grpc_arena *arena = data;

    if (size > arena->max)
        return NULL;
    size = (size + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
    if (size > arena->capacity - arena->used)
        return alloc_extra(arena, size);
    void *at = arena->block + arena->used;
    arena->used += size;
    assert(arena->used <= arena->capacity);
    return at;
}

static void arena_free(void *data, void *pointer)
{
    (void)data;
    (void)pointer;
}

bool grpc_arena_init(struct grpc_arena *arena, size_t capacity, size_t max)
{
    *arena = (struct grpc_arena){.allocator = {arena_alloc, arena_free, arena},
                                 .capacity = capacity / ARENA_ALIGN * ARENA_ALIGN,
                                 .max = max,
                                 .block = malloc(capacity)};
    return arena->block != NULL;
}

void grpc_arena_reset(struct grpc_arena *arena)
{
    struct grpc_arena_extra *extra;

    while ((extra = SLIST_FIRST(&arena->extra)) != NULL) {
        SLIST_REMOVE_HEAD(&arena->extra, next);
        free(extra);
    }
    arena->extra_bytes = 0;
    arena->used = 0;
}

void grpc_arena_fini(struct grpc_arena *arena)
{
    grpc_arena_reset(arena);
    free(arena->block);
    arena->block = NULL;
}
