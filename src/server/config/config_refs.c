/* config_refs.c - names that stand for something defined elsewhere, perhaps in another file.
 *
 * Works on the trees, when everything has been read: what is no text or has the wrong shape has
 * been reported by then and is passed over here.
 */
#include "server/config/config_index.h"
#include "server/config/config_reader.h"

#include <string.h>

/* What one top-level map defines: by name, over all files. */
struct names {
    struct config_index *index;
    const struct yaml_node **nodes;
    size_t *documents;
    size_t n;
};

struct references {
    struct reader *reader;
    struct names providers, models, aliases;
};

typedef void visit(struct references *refs, const struct yaml_node *node);

/* Calls `one` for each child of a top-level section, in every file. */
static void for_each(struct references *refs, const char *section, enum yaml_kind kind, visit *one)
{
    struct reader *reader = refs->reader;

    for (size_t i = 0; i < reader->n_documents; i++) {
        const struct yaml_node *node = yaml_tree_get(reader->documents[i].root, section);
        if (node == NULL || node->kind != kind)
            continue;
        reader->current = i;
        for (const struct yaml_node *child = node->first; child != NULL; child = child->next)
            one(refs, child);
    }
}

static size_t config_refs_count(struct reader *reader, const char *section)
{
    size_t n = 0;

    for (size_t i = 0; i < reader->n_documents; i++) {
        const struct yaml_node *node = yaml_tree_get(reader->documents[i].root, section);
        if (node != NULL && node->kind == YAML_MAP)
            n += node->n;
    }
    return n;
}

static bool names_init(struct reader *reader, struct names *names, const char *section)
{
    size_t n = config_refs_count(reader, section) + 1;

    names->index = config_index_new(reader->scratch, n);
    names->nodes = arena_alloc(reader->scratch, n * sizeof names->nodes[0]);
    names->documents = arena_alloc(reader->scratch, n * sizeof names->documents[0]);
    if (names->index != NULL && names->nodes != NULL && names->documents != NULL)
        return true;
    reader->no_memory = true;
    return false;
}

static void define(struct references *refs, struct names *names, const struct yaml_node *node)
{
    struct reader *reader = refs->reader;
    size_t first = config_index_put(names->index, node->key->text, names->n);

    if (first != CONFIG_INDEX_NONE) {
        config_error(reader, node->key,
                     "\"%.60s\" is there twice, first in %s:%zu; each name is allowed once",
                     node->key->text, reader->documents[names->documents[first]].name,
                     names->nodes[first]->key->line);
        return;
    }
    names->nodes[names->n] = node;
    names->documents[names->n++] = reader->current;
}

static void define_provider(struct references *refs, const struct yaml_node *node)
{
    define(refs, &refs->providers, node);
}

static void define_model(struct references *refs, const struct yaml_node *node)
{
    define(refs, &refs->models, node);
}

static void define_alias(struct references *refs, const struct yaml_node *node)
{
    if (config_index_get(refs->models.index, node->key->text, node->key->bytes) !=
        CONFIG_INDEX_NONE)
        config_error(refs->reader, node->key,
                     "the alias \"%.60s\" is the name of a model; it must be another name",
                     node->key->text);
    define(refs, &refs->aliases, node);
}

/* ---- Looking up ---- */

static bool is_known_text(const struct yaml_node *node)
{
    return node != NULL && node->kind == YAML_TEXT && !node->unknown;
}

static const struct yaml_node *look_up(const struct names *names, const struct yaml_node *name)
{
    size_t found = config_index_get(names->index, name->text, name->bytes);

    return found != CONFIG_INDEX_NONE ? names->nodes[found] : NULL;
}

/* The node that `name` stands for. Null, and said so, if there is none. */
static const struct yaml_node *resolve(struct references *refs, const struct names *names,
                                       const struct yaml_node *name, const char *what,
                                       const char *wanted)
{
    if (!is_known_text(name))
        return NULL;
    const struct yaml_node *found = look_up(names, name);
    if (found == NULL)
        config_error(refs->reader, name, "the %s \"%.60s\" does not exist; it must be one of %s",
                     what, name->written, wanted);
    return found;
}

/* ---- Providers and models ---- */

static void check_groups(struct references *refs, const struct yaml_node *keys,
                         const struct yaml_node *provider)
{
    const struct yaml_node *groups = yaml_tree_get(provider, "groups");

    if (keys == NULL || keys->kind != YAML_LIST)
        return;
    for (const struct yaml_node *key = keys->first; key != NULL; key = key->next) {
        const struct yaml_node *group = yaml_tree_get(key, "group");
        if (is_known_text(group) && yaml_tree_get(groups, group->text) == NULL)
            config_error(refs->reader, group,
                         "the group \"%.60s\" does not exist; it must be one of the groups of the "
                         "provider \"%.60s\"",
                         group->written, provider->key->text);
    }
}

static void check_provider(struct references *refs, const struct yaml_node *node)
{
    check_groups(refs, yaml_tree_get(node, "keys"), node);
}

static const struct yaml_node *provider_of(struct references *refs, const struct yaml_node *model)
{
    const struct yaml_node *name = yaml_tree_get(model, "provider");

    return is_known_text(name) ? look_up(&refs->providers, name) : NULL;
}

static const char *api_of(struct references *refs, const struct yaml_node *model)
{
    const struct yaml_node *api = yaml_tree_get(provider_of(refs, model), "api");

    return is_known_text(api) ? api->text : NULL;
}

/* Another model that may serve in the place of this one. */
static void check_substitute(struct references *refs, const struct yaml_node *model,
                             const struct yaml_node *name, const char *what)
{
    const struct yaml_node *other = resolve(refs, &refs->models, name, what, "the models");

    if (other == NULL)
        return;
    if (other == model) {
        config_error(refs->reader, name, "the %s of \"%.60s\" is itself; it must be another model",
                     what, name->written);
        return;
    }
    const char *api = api_of(refs, model), *others = api_of(refs, other);
    if (api != NULL && others != NULL && strcmp(api, others) != 0)
        config_error(refs->reader, name,
                     "the %s \"%.60s\" speaks the API %s; it must be one that speaks %s", what,
                     name->written, others, api);
}

static void check_model(struct references *refs, const struct yaml_node *node)
{
    const struct yaml_node *provider = resolve(
        refs, &refs->providers, yaml_tree_get(node, "provider"), "provider", "the providers");
    const struct yaml_node *fallback = yaml_tree_get(node, "fallback");

    if (provider != NULL)
        check_groups(refs, yaml_tree_get(node, "keys"), provider);
    check_substitute(refs, node, yaml_tree_get(node, "cheaper"), "cheaper model");
    if (fallback != NULL && fallback->kind == YAML_LIST)
        for (const struct yaml_node *name = fallback->first; name != NULL; name = name->next)
            check_substitute(refs, node, name, "fallback");
}

static void check_alias(struct references *refs, const struct yaml_node *node)
{
    resolve(refs, &refs->models, node, "model", "the models");
}

static void check_passthrough(struct references *refs, const struct yaml_node *node)
{
    resolve(refs, &refs->providers, yaml_tree_get(node, "provider"), "provider", "the providers");
}

/* ---- Tenants ---- */

static bool matches_any(const struct names *names, const char *pattern)
{
    const struct config_names one = {&pattern, 1};

    for (size_t i = 0; i < names->n; i++)
        if (config_patterns_match(&one, names->nodes[i]->key->text, names->nodes[i]->key->bytes))
            return true;
    return false;
}

/* A name must be there. A pattern that matches nothing may be for a model to come. */
static void check_pattern(struct references *refs, const struct yaml_node *node)
{
    const char *pattern;

    if (!is_known_text(node))
        return;
    pattern = node->text + (node->text[0] == '!');
    if (matches_any(&refs->models, pattern) || matches_any(&refs->aliases, pattern))
        return;
    if (strchr(pattern, '*') != NULL)
        config_warning(refs->reader, node,
                       "the pattern \"%.60s\" matches none of the models and aliases",
                       node->written);
    else
        config_error(refs->reader, node,
                     "the model \"%.60s\" does not exist; it must be one of the models or aliases",
                     pattern);
}

static void check_patterns(struct references *refs, const struct yaml_node *list)
{
    if (list != NULL && list->kind == YAML_LIST)
        for (const struct yaml_node *node = list->first; node != NULL; node = node->next)
            check_pattern(refs, node);
}

static void check_tenant(struct references *refs, const struct yaml_node *node)
{
    const struct yaml_node *limits = yaml_tree_get(node, "limits");

    check_patterns(refs, yaml_tree_get(node, "models"));
    if (limits != NULL && limits->kind == YAML_LIST)
        for (const struct yaml_node *limit = limits->first; limit != NULL; limit = limit->next)
            check_patterns(refs, yaml_tree_get(limit, "models"));
}

static bool has_section(struct reader *reader, const char *section)
{
    for (size_t i = 0; i < reader->n_documents; i++)
        if (yaml_tree_get(reader->documents[i].root, section) != NULL)
            return true;
    return false;
}

void config_check_references(struct reader *reader)
{
    struct references refs = {.reader = reader};

    if (!names_init(reader, &refs.providers, "providers") ||
        !names_init(reader, &refs.models, "models") ||
        !names_init(reader, &refs.aliases, "aliases"))
        return;
    for_each(&refs, "providers", YAML_MAP, define_provider);
    for_each(&refs, "models", YAML_MAP, define_model);
    for_each(&refs, "aliases", YAML_MAP, define_alias);
    for_each(&refs, "providers", YAML_MAP, check_provider);
    for_each(&refs, "models", YAML_MAP, check_model);
    for_each(&refs, "aliases", YAML_MAP, check_alias);
    for_each(&refs, "passthrough", YAML_LIST, check_passthrough);
    /* A file for replay alone need not list the models that its trace names. */
    if (has_section(reader, "models"))
        for_each(&refs, "tenants", YAML_LIST, check_tenant);
}
