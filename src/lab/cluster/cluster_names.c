/* cluster_names.c - texts that come again and again. See cluster_names.h.
 *
 * A table of numbers, at most half full, looked through from where the hash points. The texts never
 * move once they are there.
 */
#include "lab/cluster/cluster_names.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_SLOTS 64

static uint64_t cluster_names_hash_of(const char *bytes, size_t size)
{
    uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a */

    for (size_t i = 0; i < size; i++)
        hash = (hash ^ (unsigned char)bytes[i]) * UINT64_C(1099511628211);
    return hash ^ hash >> 32;
}

/* The slot of a text, or the empty one where it would go. */
static size_t cluster_names_slot_of(const struct cluster_names *names, const char *bytes,
                                    size_t size)
{
    size_t mask = names->n_slots - 1, slot = (size_t)cluster_names_hash_of(bytes, size) & mask;

    for (; names->slots[slot] != 0; slot = (slot + 1) & mask) {
        const char *text = names->texts[names->slots[slot] - 1];
        if (strlen(text) == size && memcmp(text, bytes, size) == 0)
            break;
    }
    return slot;
}

static bool grow_slots(struct cluster_names *names)
{
    size_t n_slots = names->n_slots == 0 ? FIRST_SLOTS : names->n_slots * 2;
    uint32_t *slots = calloc(n_slots, sizeof *slots);

    if (slots == NULL)
        return false;
    free(names->slots);
    names->slots = slots;
    names->n_slots = n_slots;
    for (size_t i = 0; i < names->n; i++)
        slots[cluster_names_slot_of(names, names->texts[i], strlen(names->texts[i]))] =
            (uint32_t)i + 1;
    return true;
}

static bool grow_texts(struct cluster_names *names)
{
    size_t capacity = names->capacity == 0 ? 16 : names->capacity * 2;
    char **texts = realloc(names->texts, capacity * sizeof *texts);

    if (texts == NULL)
        return false;
    names->texts = texts;
    names->capacity = capacity;
    return true;
}

bool cluster_names_get(struct cluster_names *names, const char *bytes, size_t size,
                       uint32_t *number)
{
    if (names->n * 2 >= names->n_slots && !grow_slots(names))
        return false;
    size_t slot = cluster_names_slot_of(names, bytes, size);
    if (names->slots[slot] == 0) {
        if (names->n == names->capacity && !grow_texts(names))
            return false;
        char *text = malloc(size + 1);
        if (text == NULL)
            return false;
        memcpy(text, bytes, size);
        text[size] = '\0';
        names->texts[names->n++] = text;
        names->slots[slot] = (uint32_t)names->n;
    }
    *number = names->slots[slot] - 1;
    return true;
}

bool cluster_names_init(struct cluster_names *names)
{
    uint32_t number;

    *names = (struct cluster_names){0};
    if (cluster_names_get(names, "", 0, &number))
        return true;
    cluster_names_fini(names);
    return false;
}

void cluster_names_fini(struct cluster_names *names)
{
    for (size_t i = 0; i < names->n; i++)
        free(names->texts[i]);
    free(names->texts);
    free(names->slots);
    *names = (struct cluster_names){0};
}
