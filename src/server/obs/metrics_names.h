/* metrics_names.h - values of a label, by number: bounded, never forgotten.
 *
 * Tenants and models come by name and are counted in arrays. A name gets a number when it is first
 * seen, as long as there are any left; whoever comes later is OTHER. Nothing is ever taken out, for
 * then a counter would fall. So part of the numbers is not given to who comes first but kept for
 * names that prove to be heavy among the others (metrics_heavy.h).
 *
 * Threads: any may search and add, without a lock: a name is put in its place by one exchange of a
 * pointer, and never changes from then on.
 */
#ifndef TG_OBS_METRICS_NAMES_H
#define TG_OBS_METRICS_NAMES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "io/text/slice.h"
#include "server/obs/metrics_places.h"

#define NAME_NONE 0       /* no name at all */
#define NAME_OTHER 1      /* one of the many */
#define NAME_MISSING (-1) /* it has no number yet */

#define NAME_BYTES_MAX 200

struct name;

struct names {
    _Atomic(struct name *) *slots;
    uint32_t capacity;   /* a power of two */
    uint64_t seed;       /* seeds the hash: who knows it can choose names that collide */
    atomic_int first;    /* numbers left for who comes first, */
    atomic_int heavy;    /* and for the heavy */
    struct places taken; /* numbers that were given out, less 2 */
};

/* So many numbers, of which `heavy` are for the heavy. False: no memory. */
bool names_init(struct names *names, uint32_t all, uint32_t heavy, uint64_t seed);
void names_fini(struct names *names);

/* Numbers are below this. */
static inline uint32_t names_numbers(const struct names *names)
{
    return names->capacity + 2;
}

uint64_t names_hash(const struct names *names, struct slice name);

/* The number of a name, NAME_NONE for an empty one, or NAME_MISSING. Only "other" itself is always
 * NAME_OTHER, and so is what no page can show: too long, or not UTF-8. */
int32_t names_find(const struct names *names, struct slice name, uint64_t hash);

/* Gives it a number, if one is left for its kind, or finds the one it has got meanwhile. Otherwise
 * NAME_OTHER, also when memory is short. */
uint32_t names_add(struct names *names, struct slice name, uint64_t hash, bool heavy);

/* All numbers that somebody has, and before them NAME_NONE and NAME_OTHER: begin with *at = 0.
 * False: there are no more. */
bool names_next(const struct names *names, uint32_t *at, uint32_t *number);

/* Null for NAME_NONE and for numbers that nobody has; "other" for NAME_OTHER. */
const char *names_text(const struct names *names, uint32_t number);

#endif
