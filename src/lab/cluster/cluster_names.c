/* cluster_names.c - interned texts: each has a small number. See cluster_names.h.
 *
 * The texts never move once they are there.
 */
#include "lab/cluster/cluster_names.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "lib/core/array.h"

static uint64_t cluster_names_hash_of(const char *bytes, size_t size)
{
    uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a */

    for (size_t i = 0; i < size; i++)
        hash = (hash ^ (unsigned char)bytes[i]) * UINT64_C(1099511628211);
    return hash ^ hash >> 32;
}

bool cluster_names_get(struct cluster_names *names, const char *bytes, size_t size,
                       uint32_t *number)
{
    uint64_t hash = cluster_names_hash_of(bytes, size);
    struct hash_slot *slot = hash_table_find(&names->numbers, hash);

    for (; slot != NULL; slot = hash_table_find_next(&names->numbers, slot)) {
        assert(slot->number < names->n);
        const char *text = names->texts[slot->number];
        if (strlen(text) == size && memcmp(text, bytes, size) == 0) {
            *number = (uint32_t)slot->number;
            return true;
        }
    }
    char *text = malloc(size + 1);
    if (text == NULL || !array_reserve(&names->texts, &names->capacity, names->n + 1) ||
        hash_table_reserve(&names->numbers, names->n + 1) != TG_OK) {
        free(text);
        return false;
    }
    memcpy(text, bytes, size);
    text[size] = '\0';
    assert(names->numbers.n == names->n);
    hash_table_insert(&names->numbers, hash)->number = names->n;
    names->texts[names->n] = text;
    *number = (uint32_t)names->n++;
    return true;
}

bool cluster_names_init(struct cluster_names *names)
{
    uint32_t number;

    *names = (struct cluster_names){0};
    if (cluster_names_get(names, "", 0, &number)) {
        assert(number == 0);
        return true;
    }
    cluster_names_fini(names);
    return false;
}

void cluster_names_fini(struct cluster_names *names)
{
    for (size_t i = 0; i < names->n; i++)
        free(names->texts[i]);
    free(names->texts);
    hash_table_fini(&names->numbers);
    *names = (struct cluster_names){0};
}
