/* config_own.c - what virtual keys have of their own: limits, budgets, models, endpoints, tags.
 *
 * Keys of one name are one key with several secrets, as while one is replaced by the next: they are
 * counted together, so they cannot have limits that differ. One of them says what they have, and
 * the others have it, too. What is counted needs a name to be counted under, over restarts and on
 * all gateways.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/config/config_index.h"
#include "server/config/config_reader.h"

static const char *const own_names[] = {"limits", "budgets", "models", "endpoints", "tags"};

enum { OWN_NAMES = sizeof own_names / sizeof own_names[0] };

/* ---- One key ---- */

static int compare_tags(const void *left, const void *right)
{
    const struct config_pair *a = left, *b = right;

    return strcmp(a->name, b->name);
}

/* The ledger keeps them as lines of "name=value". */
static bool is_tag_name(const char *name)
{
    size_t n = 0;

    for (; name[n] != '\0'; n++)
        if ((unsigned char)name[n] < ' ' || name[n] == '=' || name[n] == 127)
            return false;
    return n > 0 && n <= CONFIG_TAG_BYTES_MAX;
}

static void check_tags(struct reader *reader, const struct yaml_node *tags)
{
    size_t before;

    if (tags == NULL || tags->kind != YAML_MAP)
        return;
    before = config_path_push(reader, "tags");
    if (tags->n > CONFIG_TAGS_MAX)
        config_error(reader, tags, "%s has %zu tags; at most %d are allowed", reader->path, tags->n,
                     CONFIG_TAGS_MAX);
    for (const struct yaml_node *tag = tags->first; tag != NULL; tag = tag->next) {
        if (!is_tag_name(tag->key->text))
            config_error(reader, tag->key,
                         "%s: \"%.60s\" is no name of a tag; it must be 1 to %d characters "
                         "without '='",
                         reader->path, tag->key->text, CONFIG_TAG_BYTES_MAX);
        else if (tag->kind == YAML_TEXT && tag->bytes > CONFIG_TAG_BYTES_MAX)
            config_error(reader, tag, "%s.%.60s has %zu bytes; at most %d are allowed",
                         reader->path, tag->key->text, tag->bytes, CONFIG_TAG_BYTES_MAX);
    }
    config_path_pop(reader, before);
}

/* The text that the ledger and the log have. Null: no memory, or a value is missing, which has been
 * reported. */
static const char *join_tags(struct reader *reader, const struct config_pairs *tags)
{
    size_t bytes = 1, at = 0;

    for (size_t i = 0; i < tags->n; i++) {
        if (tags->list[i].name == NULL || tags->list[i].value == NULL)
            return NULL;
        bytes += strlen(tags->list[i].name) + strlen(tags->list[i].value) + 2;
    }
    char *text = config_alloc(reader, bytes);
    for (size_t i = 0; text != NULL && i < tags->n; i++)
        at += (size_t)snprintf(text + at, bytes - at, "%s%s=%s", i > 0 ? "\n" : "",
                               tags->list[i].name, tags->list[i].value);
    return text;
}

/* An empty list would be read as none at all: "all". `none` is the pattern that excludes all. */
static void check_patterns(struct reader *reader, const struct yaml_node *node, const char *name,
                           const char *none)
{
    const struct yaml_node *list = yaml_tree_get(node, name);
    size_t before = config_path_push(reader, name);

    if (list != NULL && list->kind == YAML_LIST && list->n == 0)
        config_error(reader, list, "%s is empty; leave it out for all, or write [\"%s\"] for none",
                     reader->path, none);
    config_path_pop(reader, before);
}

void config_finish_own(struct reader *reader, const struct yaml_node *node, void *into)
{
    struct config_key *key = into;
    const struct yaml_node *budgets = yaml_tree_get(node, "budgets");

    check_patterns(reader, node, "models", "!*");
    check_patterns(reader, node, "endpoints", "!/*");
    check_tags(reader, yaml_tree_get(node, "tags"));
    size_t before = config_path_push(reader, "budgets");
    if (budgets != NULL && budgets->n > TG_BUDGETS_MAX)
        config_error(reader, budgets, "%s has %zu budgets; at most %d are allowed", reader->path,
                     budgets->n, TG_BUDGETS_MAX);
    config_path_pop(reader, before);
    if (key != NULL && key->own.tags.n > 1)
        qsort(key->own.tags.list, key->own.tags.n, sizeof key->own.tags.list[0], compare_tags);
    if (key != NULL && key->own.tags.n > 0)
        key->own.tag_text = join_tags(reader, &key->own.tags);
}

void config_finish_key(struct reader *reader, const struct yaml_node *node, void *into)
{
    static const char *const counted[] = {"limits", "budgets", "tags"};

    config_finish_own(reader, node, into);
    if (yaml_tree_get(node, "name") != NULL)
        return;
    for (size_t i = 0; i < sizeof counted / sizeof counted[0]; i++) {
        const struct yaml_node *found = yaml_tree_get(node, counted[i]);
        if (found != NULL)
            config_error(
                reader, found,
                "%s has %s and no name; what it uses is counted under its name: give it one",
                reader->path, counted[i]);
    }
}

/* ---- Keys of one name ---- */

/* Whether a key says something of its own; `name` is then the first that it says. */
static bool says_own(const struct config_key *key, const char **name)
{
    const struct config_own *own = &key->own;
    const bool says[OWN_NAMES] = {own->n_limits > 0, own->n_budgets > 0, own->models.n > 0,
                                  own->endpoints.n > 0, own->tags.n > 0};
    size_t i = 0;

    while (i < OWN_NAMES && !says[i])
        i++;
    if (i < OWN_NAMES)
        *name = own_names[i];
    return i < OWN_NAMES;
}

static const struct yaml_node *key_node(const struct yaml_node *tenant, size_t key)
{
    const struct yaml_node *node = config_first(yaml_tree_get(tenant, "keys"));

    while (node != NULL && key-- > 0)
        node = node->next;
    return node;
}

/* `says` has room for a number for each key: which one says what those of its name have. */
static void link_tenant(struct reader *reader, size_t tenant, size_t *says)
{
    struct config_tenant *of = &reader->config->tenants[tenant];
    struct config_index *names = config_scratch_index(reader, of->n_keys);
    const char *name;

    for (size_t k = 0; names != NULL && k < of->n_keys; k++) {
        struct config_key *key = &of->keys[k];
        size_t first =
            key->name != NULL ? config_index_put(names, key->name, k) : CONFIG_INDEX_NONE;
        key->first = first != CONFIG_INDEX_NONE ? first : k;
        says[k] = k;
        if (key->first == k || !says_own(key, &name))
            continue;
        size_t said = says[key->first];
        const char *ignored;
        if (!says_own(&of->keys[said], &ignored)) {
            says[key->first] = k;
            continue;
        }
        /* Extras have names that nobody else has. */
        assert(!key->extra);
        reader->current = reader->places[tenant].document;
        config_error(reader, config_child_or_self(key_node(reader->places[tenant].node, k), name),
                     "the tenant \"%.60s\" has a key \"%.60s\" above that says what keys of this "
                     "name have; only one of them may",
                     of->name != NULL ? of->name : "", key->name);
    }
    for (size_t k = 0; names != NULL && k < of->n_keys; k++)
        of->keys[k].own = of->keys[says[of->keys[k].first]].own;
}

void config_link_keys(struct reader *reader)
{
    size_t most = 0;

    for (size_t i = 0; i < reader->config->n_tenants; i++)
        if (reader->config->tenants[i].n_keys > most)
            most = reader->config->tenants[i].n_keys;
    size_t *says = config_scratch(reader, (most + 1) * sizeof *says);
    for (size_t i = 0; says != NULL && i < reader->config->n_tenants && !reader->no_memory; i++)
        if (reader->config->tenants[i].n_keys > 0)
            link_tenant(reader, i, says);
}
