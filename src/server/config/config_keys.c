/* config_keys.c - virtual keys of all tenants together: each hash is one tenant's key.
 *
 * Two tenants with one key in files are an error, because nobody can say whose call it is. An extra
 * that a file has too is dropped: whoever made a key by way of the administration and then wrote it
 * down has done nothing wrong.
 */
#include "server/config/config_reader.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct hashed {
    const uint8_t *sha256;
    size_t tenant, key;
    size_t document; /* the extra's, or CONFIG_NO_DOCUMENT: it is in a file */
};

/* By hash, and files before extras. */
static int compare_hashes(const void *a, const void *b)
{
    const struct hashed *left = a, *right = b;
    int order = memcmp(left->sha256, right->sha256, 32);
    bool is_file = left->document == CONFIG_NO_DOCUMENT;

    if (order != 0)
        return order;
    if (is_file != (right->document == CONFIG_NO_DOCUMENT))
        return is_file ? -1 : 1;
    if (left->tenant != right->tenant)
        return left->tenant < right->tenant ? -1 : 1;
    return left->key < right->key ? -1 : left->key > right->key;
}

/* All zeros: the hash was wrong or missing, which has been reported; or it was dropped. */
static bool has_hash(const uint8_t *sha256)
{
    static const uint8_t none[32];

    return memcmp(sha256, none, sizeof none) != 0;
}

static struct hashed *list_hashes(struct reader *reader, size_t *n)
{
    struct config *config = reader->config;
    struct hashed *list;
    size_t room = 1;

    for (size_t i = 0; i < config->n_tenants; i++)
        room += config->tenants[i].n_keys;
    *n = 0;
    list = config_scratch(reader, room * sizeof *list);
    if (list == NULL)
        return NULL;
    for (size_t i = 0; i < config->n_tenants; i++)
        for (size_t k = 0; k < config->tenants[i].n_keys; k++)
            if (!config->tenants[i].keys[k].extra && has_hash(config->tenants[i].keys[k].sha256))
                list[(*n)++] =
                    (struct hashed){config->tenants[i].keys[k].sha256, i, k, CONFIG_NO_DOCUMENT};
    for (size_t i = 0; i < reader->n_keys; i++) {
        const struct extra_key *extra = &reader->keys[i];
        list[(*n)++] = (struct hashed){config->tenants[extra->tenant].keys[extra->key].sha256,
                                       extra->tenant, extra->key, extra->document};
    }
    assert(*n < room);
    return list;
}

static const struct yaml_node *key_node(const struct yaml_node *tenant, size_t key)
{
    const struct yaml_node *node = yaml_tree_get(tenant, "keys");

    node = node->first;
    while (key-- > 0)
        node = node->next;
    return config_child_or_self(node, "sha256");
}

static const char *name_of(const struct reader *reader, size_t tenant)
{
    const char *name = reader->config->tenants[tenant].name;

    return name != NULL ? name : "";
}

static void refuse_second(struct reader *reader, const struct hashed *first,
                          const struct hashed *second)
{
    const struct place *place = &reader->places[second->tenant];

    reader->current = place->document;
    config_error(reader, key_node(place->node, second->key),
                 "the tenant \"%.60s\" has the same key; a key is allowed once",
                 name_of(reader, first->tenant));
}

static void drop_extra(struct reader *reader, const struct hashed *first,
                       const struct hashed *extra)
{
    static const struct yaml_node whole = {.kind = YAML_TEXT};
    struct config_key *key = &reader->config->tenants[extra->tenant].keys[extra->key];

    reader->current = extra->document;
    config_warning(reader, &whole,
                   "the tenant \"%.60s\" has the same key; %s, and this one is ignored",
                   name_of(reader, first->tenant),
                   first->document == CONFIG_NO_DOCUMENT ? "the file wins" : "the first one wins");
    memset(key->sha256, 0, sizeof key->sha256);
}

/* Removes the extras that were dropped. */
static void compact(struct config_tenant *tenant)
{
    size_t kept = 0;

    for (size_t k = 0; k < tenant->n_keys; k++)
        if (!tenant->keys[k].extra || has_hash(tenant->keys[k].sha256))
            tenant->keys[kept++] = tenant->keys[k];
    assert(kept <= tenant->n_keys);
    tenant->n_keys = kept;
}

void config_check_keys(struct reader *reader)
{
    size_t n, first = 0;
    struct hashed *list = list_hashes(reader, &n);
    bool dropped = false;

    if (list == NULL)
        return;
    qsort(list, n, sizeof *list, compare_hashes);
    for (size_t i = 1; i < n; i++) {
        if (memcmp(list[first].sha256, list[i].sha256, 32) != 0)
            first = i;
        else if (list[i].document == CONFIG_NO_DOCUMENT)
            refuse_second(reader, &list[i - 1], &list[i]);
        else
            dropped = true;
    }
    if (!dropped)
        return;
    /* In a second walk: what is dropped loses the hash by which it was found. */
    first = 0;
    for (size_t i = 1; i < n; i++) {
        if (memcmp(list[first].sha256, list[i].sha256, 32) != 0)
            first = i;
        else if (list[i].document != CONFIG_NO_DOCUMENT)
            drop_extra(reader, &list[first], &list[i]);
    }
    for (size_t i = 0; i < reader->n_keys; i++)
        compact(&reader->config->tenants[reader->keys[i].tenant]);
}
