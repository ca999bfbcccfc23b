/* replay_names.c - names, each once. See replay_names.h. */
#include "cli/replay/replay_names.h"

#include <stdlib.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

void replay_names_fini(struct replay_names *names)
{
    free(names->text);
    free(names->ends);
    free(names->slots);
    *names = (struct replay_names){.n = 0};
}

struct slice replay_names_at(const struct replay_names *names, size_t i)
{
    size_t from = i > 0 ? names->ends[i - 1] : 0;

    return (struct slice){names->text + from, names->ends[i] - from};
}

/* Where the name is, or would be. */
static size_t *replay_names_slot_of(const struct replay_names *names, struct slice name)
{
    size_t mask = names->capacity - 1;
    size_t at = (size_t)XXH3_64bits(name.at, name.n) & mask;

    while (names->slots[at] != 0 &&
           !slice_equal(replay_names_at(names, names->slots[at] - 1), name))
        at = (at + 1) & mask;
    return &names->slots[at];
}

/* At most half full. */
static bool make_slots(struct replay_names *names)
{
    size_t capacity = names->capacity > 0 ? 2 * names->capacity : 64;

    if (2 * (names->n + 1) <= names->capacity)
        return true;
    size_t *slots = calloc(capacity, sizeof *slots);
    if (slots == NULL)
        return false;
    free(names->slots);
    names->slots = slots;
    names->capacity = capacity;
    for (size_t i = 0; i < names->n; i++)
        *replay_names_slot_of(names, replay_names_at(names, i)) = i + 1;
    return true;
}

static bool replay_names_make_room(struct replay_names *names, size_t bytes)
{
    if (names->used + bytes > names->room) {
        size_t room = 2 * (names->used + bytes);
        char *text = realloc(names->text, room);
        if (text == NULL)
            return false;
        names->text = text;
        names->room = room;
    }
    if (names->n == names->n_room) {
        size_t room = 2 * names->n + 16;
        size_t *ends = realloc(names->ends, room * sizeof *ends);
        if (ends == NULL)
            return false;
        names->ends = ends;
        names->n_room = room;
    }
    return true;
}

bool replay_names_add(struct replay_names *names, struct slice name)
{
    if (!make_slots(names))
        return false;
    size_t *slot = replay_names_slot_of(names, name);
    if (*slot != 0)
        return true;
    if (!replay_names_make_room(names, name.n))
        return false;
    memcpy(names->text + names->used, name.at, name.n);
    names->used += name.n;
    names->ends[names->n++] = names->used;
    *slot = names->n;
    return true;
}
