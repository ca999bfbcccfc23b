/* replay_names.c - names, each once. See replay_names.h. */
#include "cli/replay/replay_names.h"

#include <stdlib.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "lib/core/array.h"

void replay_names_fini(struct replay_names *names)
{
    free(names->text);
    free(names->ends);
    hash_table_fini(&names->numbers);
    *names = (struct replay_names){.n = 0};
}

struct slice replay_names_at(const struct replay_names *names, size_t i)
{
    size_t from = i > 0 ? names->ends[i - 1] : 0;

    return (struct slice){names->text + from, names->ends[i] - from};
}

bool replay_names_add(struct replay_names *names, struct slice name)
{
    uint64_t hash = XXH3_64bits(name.at, name.n);
    const struct hash_slot *slot = hash_table_find(&names->numbers, hash);

    for (; slot != NULL; slot = hash_table_find_next(&names->numbers, slot))
        if (slice_equal(replay_names_at(names, slot->number), name))
            return true;
    if (!array_reserve(&names->text, &names->room, names->used + name.n) ||
        !array_reserve(&names->ends, &names->n_room, names->n + 1) ||
        hash_table_reserve(&names->numbers, names->n + 1) != TG_OK)
        return false;
    if (name.n > 0)
        memcpy(names->text + names->used, name.at, name.n);
    names->used += name.n;
    hash_table_insert(&names->numbers, hash)->number = names->n;
    names->ends[names->n++] = names->used;
    return true;
}
