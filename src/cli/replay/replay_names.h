/* replay_names.h - names, each once, in the order in which they came. */
#ifndef TG_REPLAY_REPLAY_NAMES_H
#define TG_REPLAY_REPLAY_NAMES_H

#include <stdint.h>

#include "io/text/slice.h"
#include "lib/core/hash_table.h"

struct replay_names {
    char *text; /* one after the other */
    size_t used, room;
    size_t *ends;
    size_t n, n_room;
    struct hash_table numbers; /* by the hash of the name */
};

/* All zero is an empty list. */
void replay_names_fini(struct replay_names *names);

/* False: no memory. */
bool replay_names_add(struct replay_names *names, struct slice name);

struct slice replay_names_at(const struct replay_names *names, size_t i);

#endif
