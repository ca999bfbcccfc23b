/* config_index.h - names and their numbers: what a configuration defines, found by name. */
#ifndef TG_CONFIG_CONFIG_INDEX_H
#define TG_CONFIG_CONFIG_INDEX_H

#include <stddef.h>

#include "io/text/yaml_arena.h"

#define CONFIG_INDEX_NONE ((size_t)-1)

struct config_index;

/* For at most `n` names; in the arena. Null when there is no memory. */
struct config_index *config_index_new(struct arena *arena, size_t n);

/* Remembers `number` under a name, which is borrowed, and returns CONFIG_INDEX_NONE; if the name is
 * there already, returns its number and changes nothing. */
size_t config_index_put(struct config_index *index, const char *name, size_t number);

/* CONFIG_INDEX_NONE if the name is not there, or `index` is null. */
size_t config_index_get(const struct config_index *index, const char *name, size_t bytes);

#endif
