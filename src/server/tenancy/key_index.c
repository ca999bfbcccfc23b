/* key_index.c - a sorted array of hashes.
 *
 * What is looked up is a SHA-256, so how long a search takes tells nothing about a key: whoever
 * could choose hashes could not choose the keys they belong to. The whole hash is then compared in
 * constant time all the same.
 */
#include "server/tenancy/key_index.h"

#include <stdlib.h>
#include <string.h>

#include "server/tenancy/virtual_key.h"

struct entry {
    const struct config_key *key;
    size_t tenant;
};

struct key_index {
    size_t n;
    struct entry entries[];
};

static int key_index_compare(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;

    return memcmp(x->key->sha256, y->key->sha256, VIRTUAL_KEY_HASH);
}

bool key_index_new(const struct config *config, struct key_index **made)
{
    size_t n = 0;

    for (size_t i = 0; i < config->n_tenants; i++)
        n += config->tenants[i].n_keys;
    struct key_index *index = calloc(1, sizeof *index + n * sizeof index->entries[0]);
    if (index == NULL)
        return false;
    for (size_t i = 0; i < config->n_tenants; i++)
        for (size_t k = 0; k < config->tenants[i].n_keys; k++)
            index->entries[index->n++] = (struct entry){&config->tenants[i].keys[k], i};
    qsort(index->entries, index->n, sizeof index->entries[0], key_index_compare);
    *made = index;
    return true;
}

void key_index_free(struct key_index *index)
{
    free(index);
}

size_t key_index_find(const struct key_index *index, const uint8_t hash[32], tg_ms now,
                      const struct config_key **key)
{
    size_t low = 0, high = index->n;

    while (low < high) {
        size_t middle = (low + high) / 2;
        if (memcmp(index->entries[middle].key->sha256, hash, VIRTUAL_KEY_HASH) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == index->n || !virtual_key_equal(index->entries[low].key->sha256, hash) ||
        now >= index->entries[low].key->not_after)
        return CONFIG_NONE;
    *key = index->entries[low].key;
    return index->entries[low].tenant;
}
