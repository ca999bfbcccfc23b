/* key_index.c - virtual keys by the first bytes of their hash.
 *
 * What is looked up is a SHA-256: it needs no hashing of its own, and how long a search takes tells
 * nothing about a key, since whoever could choose hashes could not choose the keys they belong to.
 * The whole hash is then compared in constant time all the same.
 */
#include "server/tenancy/key_index.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "lib/core/hash_table.h"
#include "server/tenancy/virtual_key.h"

struct key_index {
    struct hash_table table; /* numbers of `owners` */
    size_t n;
    struct key_owner {
        const struct config_key *key;
        size_t tenant;
    } owners[];
};

static uint64_t head_of(const uint8_t sha256[VIRTUAL_KEY_HASH])
{
    uint64_t head;

    memcpy(&head, sha256, sizeof head);
    return head;
}

bool key_index_new(const struct config *config, struct key_index **made)
{
    size_t n = 0;

    for (size_t i = 0; i < config->n_tenants; i++)
        n += config->tenants[i].n_keys;
    struct key_index *index = calloc(1, sizeof *index + n * sizeof index->owners[0]);
    if (index == NULL || hash_table_reserve(&index->table, n) != TG_OK) {
        free(index);
        return false;
    }
    for (size_t i = 0; i < config->n_tenants; i++)
        for (size_t k = 0; k < config->tenants[i].n_keys; k++) {
            const struct config_key *key = &config->tenants[i].keys[k];
            hash_table_insert(&index->table, head_of(key->sha256))->number = index->n;
            index->owners[index->n++] = (struct key_owner){key, i};
        }
    assert(index->n == n);
    *made = index;
    return true;
}

void key_index_free(struct key_index *index)
{
    if (index != NULL)
        hash_table_fini(&index->table);
    free(index);
}

size_t key_index_find(const struct key_index *index, const uint8_t hash[32], tg_ms now,
                      const struct config_key **key)
{
    struct hash_slot *slot = hash_table_find(&index->table, head_of(hash));

    for (; slot != NULL; slot = hash_table_find_next(&index->table, slot)) {
        assert(slot->number < index->n);
        const struct key_owner *owner = &index->owners[slot->number];
        if (!virtual_key_equal(owner->key->sha256, hash))
            continue;
        /* The configuration has each hash once. */
        if (now >= owner->key->not_after)
            return CONFIG_NONE;
        *key = owner->key;
        return owner->tenant;
    }
    return CONFIG_NONE;
}
