/* yaml_arena.h - memory that is taken in small pieces and given back all at once.
 *
 * For what is read from a file: a tree, names, structs, all of which end together. For one thread
 * at a time.
 */
#ifndef TG_TEXT_YAML_ARENA_H
#define TG_TEXT_YAML_ARENA_H

#include <stddef.h>

struct arena;

/* Null when there is no memory. */
struct arena *arena_new(void);
void arena_free(struct arena *arena);

/* Zeroed, and aligned for anything. Null when there is no memory. */
void *arena_alloc(struct arena *arena, size_t bytes);

/* A copy of `bytes` bytes with a 0 after them. Null when there is no memory. */
char *arena_text(struct arena *arena, const char *text, size_t bytes);

#endif
