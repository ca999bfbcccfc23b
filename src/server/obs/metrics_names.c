/* metrics_names.c - values of a label, by number. See metrics_names.h.
 *
 * An open table of pointers, at most half full, in which nothing moves: the place is the number. An
 * acquiring load of a pointer sees the whole name behind it, which was written before the exchange
 * that released it. It is not the hash table of core, which needs a lock: all workers add names at
 * the same time, and find them for every request.
 */
#include "server/obs/metrics_names.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "io/text/utf8.h"

struct name {
    uint64_t hash;
    size_t n;
    char text[];
};

static const struct slice OTHER = {"other", 5};

bool names_init(struct names *names, uint32_t all, uint32_t heavy, uint64_t seed)
{
    uint32_t capacity = 16;

    assert(heavy <= all);
    while (capacity < 2 * all)
        capacity *= 2;
    *names = (struct names){.capacity = capacity, .seed = seed};
    names->slots = calloc(capacity, sizeof names->slots[0]);
    atomic_init(&names->first, (int)(all - heavy));
    atomic_init(&names->heavy, (int)heavy);
    return places_init(&names->taken, all) && names->slots != NULL;
}

void names_fini(struct names *names)
{
    for (uint32_t i = 0; names->slots != NULL && i < names->capacity; i++)
        free(atomic_load_explicit(&names->slots[i], memory_order_relaxed));
    free(names->slots);
    names->slots = NULL;
    places_fini(&names->taken);
}

uint64_t names_hash(const struct names *names, struct slice name)
{
    return XXH3_64bits_withSeed(name.at, name.n, names->seed);
}

static bool metrics_names_is_name(const struct name *name, struct slice text, uint64_t hash)
{
    return name->hash == hash && name->n == text.n && memcmp(name->text, text.at, text.n) == 0;
}

int32_t names_find(const struct names *names, struct slice name, uint64_t hash)
{
    if (name.n == 0)
        return NAME_NONE;
    for (uint32_t i = (uint32_t)hash;; i++) {
        uint32_t place = i & (names->capacity - 1);
        const struct name *there = atomic_load_explicit(&names->slots[place], memory_order_acquire);
        if (there == NULL)
            break;
        if (metrics_names_is_name(there, name, hash))
            return (int32_t)place + 2;
    }
    if (slice_equal(name, OTHER) || name.n > NAME_BYTES_MAX || utf8_valid(name.at, name.n) < name.n)
        return NAME_OTHER;
    return NAME_MISSING;
}

static struct name *copy_of(struct slice text, uint64_t hash)
{
    struct name *name = malloc(sizeof *name + text.n + 1);

    if (name == NULL)
        return NULL;
    name->hash = hash;
    name->n = text.n;
    memcpy(name->text, text.at, text.n);
    name->text[text.n] = '\0';
    return name;
}

/* Puts it into the first free place, unless it turns up before that; says where it is. */
static uint32_t metrics_names_put(struct names *names, struct name *name, bool *is_new)
{
    struct slice text = {name->text, name->n};

    for (uint32_t i = (uint32_t)name->hash;; i++) {
        uint32_t place = i & (names->capacity - 1);
        struct name *there = NULL;
        *is_new = atomic_compare_exchange_strong_explicit(
            &names->slots[place], &there, name, memory_order_acq_rel, memory_order_acquire);
        if (*is_new || metrics_names_is_name(there, text, name->hash))
            return place;
    }
}

uint32_t names_add(struct names *names, struct slice name, uint64_t hash, bool heavy)
{
    atomic_int *left = heavy ? &names->heavy : &names->first;
    struct name *made = NULL;
    bool is_new = false;
    uint32_t place = 0;

    /* The number is taken before the place, so that never more places are taken than there are
     * numbers: the table stays at most half full, and every search in it ends. */
    if (atomic_load_explicit(left, memory_order_relaxed) <= 0)
        return NAME_OTHER;
    if (atomic_fetch_sub_explicit(left, 1, memory_order_relaxed) > 0)
        made = copy_of(name, hash);
    if (made != NULL)
        place = metrics_names_put(names, made, &is_new);
    if (is_new) {
        places_add(&names->taken, place);
    } else {
        atomic_fetch_add_explicit(left, 1, memory_order_relaxed);
        free(made);
    }
    return made != NULL ? place + 2 : NAME_OTHER;
}

bool names_next(const struct names *names, uint32_t *at, uint32_t *number)
{
    uint32_t from = *at, place;

    if (*at <= NAME_OTHER) {
        *number = (*at)++;
        return true;
    }
    from -= NAME_OTHER + 1;
    if (!places_next(&names->taken, &from, &place))
        return false;
    *at = from + NAME_OTHER + 1;
    *number = place + NAME_OTHER + 1;
    assert(*number < names_numbers(names));
    return true;
}

const char *names_text(const struct names *names, uint32_t number)
{
    if (number == NAME_NONE || number >= names_numbers(names))
        return NULL;
    if (number == NAME_OTHER)
        return OTHER.at;
    const struct name *there =
        atomic_load_explicit(&names->slots[number - 2], memory_order_acquire);
    return there != NULL ? there->text : NULL;
}
