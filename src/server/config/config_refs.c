/* config_refs.c - names that stand for something defined elsewhere, perhaps in another file.
 *
 * In two steps. config_check_references() works on the trees, when everything has been read: what
 * has the wrong shape has been reported by then and is skipped here. config_link_routes() runs when
 * everything is right, and puts numbers in place of names: one that is not found then is one that a
 * missing variable should have given, and stays CONFIG_NONE. Items of the trees come in the order
 * of the arrays, since both were filled in one walk.
 */
#include <assert.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "lib/core/num.h"
#include "server/config/config_index.h"
#include "server/config/config_reader.h"
#include "server/dialect/neutral/model_traits.h"

/* ---- What there is ---- */

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

/* Defines what the map has. A name that is there twice is an error. */
static bool define_names(struct reader *reader, struct names *names, const char *section)
{
    const struct yaml_node *node;
    size_t n = 1;

    for (struct config_walk walk = CONFIG_MAP(section); config_walk_next(reader, &walk) != NULL;)
        n++;
    names->index = config_scratch_index(reader, n);
    names->nodes = config_scratch(reader, n * sizeof names->nodes[0]);
    names->documents = config_scratch(reader, n * sizeof names->documents[0]);
    if (reader->no_memory)
        return false;
    for (struct config_walk walk = CONFIG_MAP(section);
         (node = config_walk_next(reader, &walk)) != NULL;) {
        size_t first = config_index_put(names->index, node->key->text, names->n);
        if (first != CONFIG_INDEX_NONE) {
            config_error(reader, node->key,
                         "\"%.60s\" is defined twice, first in %s:%zu; each name is allowed once",
                         node->key->text, reader->documents[names->documents[first]].name,
                         names->nodes[first]->key->line);
            continue;
        }
        assert(names->n < n);
        names->nodes[names->n] = node;
        names->documents[names->n++] = reader->current;
    }
    return true;
}

/* ---- Looking up ---- */

static bool is_known_text(const struct yaml_node *node)
{
    return node != NULL && node->kind == YAML_TEXT && !node->unknown;
}

static const struct yaml_node *find_node(const struct names *names, const struct yaml_node *name)
{
    size_t found = config_index_get(names->index, name->text, name->bytes);

    return found != CONFIG_INDEX_NONE ? names->nodes[found] : NULL;
}

/* The node that `name` stands for. Null, with an error, if there is none. */
static const struct yaml_node *resolve(struct references *refs, const struct names *names,
                                       const struct yaml_node *name, const char *what,
                                       const char *wanted)
{
    if (!is_known_text(name))
        return NULL;
    const struct yaml_node *found = find_node(names, name);
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

/* Whether the list has a key of that name, or one whose name a missing variable hides. */
static bool has_key(const struct yaml_node *keys, const char *name)
{
    if (keys == NULL || keys->kind != YAML_LIST)
        return false;
    for (const struct yaml_node *key = keys->first; key != NULL; key = key->next) {
        const struct yaml_node *other = yaml_tree_get(key, "name");
        if (!is_known_text(other) || strcmp(other->text, name) == 0)
            return true;
    }
    return false;
}

/* Limits of keys for this model: of its own keys, or else of the provider's. */
static void check_key_limits(struct references *refs, const struct yaml_node *model,
                             const struct yaml_node *provider)
{
    const struct yaml_node *limits = yaml_tree_get(model, "key_limits");
    const struct yaml_node *own = yaml_tree_get(model, "keys");

    if (limits == NULL || limits->kind != YAML_MAP)
        return;
    for (const struct yaml_node *node = limits->first; node != NULL; node = node->next)
        if (!has_key(own != NULL ? own : yaml_tree_get(provider, "keys"), node->key->text))
            config_error(refs->reader, node->key,
                         "the key \"%.60s\" does not exist; it must be one of the keys of the "
                         "%s \"%.60s\"",
                         node->key->text, own != NULL ? "model" : "provider",
                         own != NULL ? model->key->text : provider->key->text);
}

/* Checks another model that may serve in the place of this one. */
static void check_substitute(struct references *refs, const struct yaml_node *model,
                             const struct yaml_node *name, const char *what)
{
    const struct yaml_node *other = resolve(refs, &refs->models, name, what, "the models");

    if (other == model)
        config_error(refs->reader, name, "the %s of \"%.60s\" is itself; it must be another model",
                     what, name->written);
}

static void check_model(struct references *refs, const struct yaml_node *node)
{
    const struct yaml_node *provider = resolve(
        refs, &refs->providers, yaml_tree_get(node, "provider"), "provider", "the providers");
    const struct yaml_node *fallback = yaml_tree_get(node, "fallback");

    if (provider != NULL)
        check_groups(refs, yaml_tree_get(node, "keys"), provider);
    if (provider != NULL)
        check_key_limits(refs, node, provider);
    check_substitute(refs, node, yaml_tree_get(node, "cheaper"), "cheaper model");
    if (fallback != NULL && fallback->kind == YAML_LIST)
        for (const struct yaml_node *name = fallback->first; name != NULL; name = name->next)
            check_substitute(refs, node, name, "fallback");
}

/* ---- Patterns of tenants ---- */

static bool matches_any(const struct names *names, const char *pattern)
{
    const struct config_names one = {&pattern, 1};

    for (size_t i = 0; i < names->n; i++)
        if (config_patterns_match(&one, names->nodes[i]->key->text, names->nodes[i]->key->bytes))
            return true;
    return false;
}

/* A name must be there. A pattern that matches nothing may be for a model to come. */
static void check_patterns(struct references *refs, const struct yaml_node *list)
{
    if (list == NULL || list->kind != YAML_LIST)
        return;
    for (const struct yaml_node *node = list->first; node != NULL; node = node->next) {
        if (!is_known_text(node))
            continue;
        const char *pattern = node->text + (node->text[0] == '!');
        if (matches_any(&refs->models, pattern) || matches_any(&refs->aliases, pattern))
            continue;
        if (strchr(pattern, '*') != NULL)
            config_warning(refs->reader, node,
                           "the pattern \"%.60s\" matches none of the models and aliases",
                           node->written);
        else
            config_error(
                refs->reader, node,
                "the model \"%.60s\" does not exist; it must be one of the models or aliases",
                pattern);
    }
}

/* A tenant or a key: its models, and those of its limits. */
static void check_owner(struct references *refs, const struct yaml_node *owner)
{
    const struct yaml_node *limit = config_first(yaml_tree_get(owner, "limits"));

    check_patterns(refs, yaml_tree_get(owner, "models"));
    for (; limit != NULL; limit = limit->next)
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
    const struct yaml_node *node;

    if (!define_names(reader, &refs.providers, "providers") ||
        !define_names(reader, &refs.models, "models") ||
        !define_names(reader, &refs.aliases, "aliases"))
        return;
    for (struct config_walk walk = CONFIG_MAP("providers");
         (node = config_walk_next(reader, &walk)) != NULL;)
        check_groups(&refs, yaml_tree_get(node, "keys"), node);
    for (struct config_walk walk = CONFIG_MAP("models");
         (node = config_walk_next(reader, &walk)) != NULL;)
        check_model(&refs, node);
    for (struct config_walk walk = CONFIG_MAP("aliases");
         (node = config_walk_next(reader, &walk)) != NULL;) {
        if (find_node(&refs.models, node->key) != NULL)
            config_error(reader, node->key,
                         "the alias \"%.60s\" is the name of a model; it must be another name",
                         node->key->text);
        resolve(&refs, &refs.models, node, "model", "the models");
    }
    for (struct config_walk walk = CONFIG_LIST("passthrough");
         (node = config_walk_next(reader, &walk)) != NULL;)
        resolve(&refs, &refs.providers, yaml_tree_get(node, "provider"), "provider",
                "the providers");
    /* A file for replay alone need not list the models that its trace names. */
    if (!has_section(reader, "models"))
        return;
    for (struct config_walk walk = CONFIG_LIST("tenants");
         (node = config_walk_next(reader, &walk)) != NULL;) {
        const struct yaml_node *key = config_first(yaml_tree_get(node, "keys"));
        check_owner(&refs, node);
        for (; key != NULL; key = key->next)
            check_owner(&refs, key);
    }
    for (size_t i = 0; i < reader->n_keys; i++) {
        reader->current = reader->keys[i].document;
        check_owner(&refs, config_extra_key_node(reader, i));
    }
}

/* ---- Numbers in place of names ---- */

static size_t number_of(const struct config_index *index, const struct yaml_node *name)
{
    if (name == NULL || name->unknown)
        return CONFIG_NONE;
    return config_index_get(index, name->text, name->bytes);
}

/* Models by name and alias, and providers. */
static bool index_names(struct reader *reader, struct config_index **providers)
{
    struct config *config = reader->config;
    const struct yaml_node *node;
    size_t aliases = 0;

    for (struct config_walk walk = CONFIG_MAP("aliases"); config_walk_next(reader, &walk) != NULL;)
        aliases++;
    config->names = config_index_new(config->arena, config->n_models + aliases);
    *providers = config_scratch_index(reader, config->n_providers);
    config->aliases = config_alloc(reader, (aliases + 1) * sizeof *config->aliases);
    reader->no_memory |= config->names == NULL;
    if (reader->no_memory)
        return false;
    for (size_t i = 0; i < config->n_providers; i++)
        (void)config_index_put(*providers, config->providers[i].name, i);
    for (size_t i = 0; i < config->n_models; i++)
        (void)config_index_put(config->names, config->models[i].name, i);
    for (struct config_walk walk = CONFIG_MAP("aliases");
         (node = config_walk_next(reader, &walk)) != NULL;) {
        size_t model = number_of(config->names, node);
        const char *name = config_text(reader, node->key->text);
        if (model != CONFIG_NONE && name != NULL) {
            (void)config_index_put(config->names, name, model);
            config->aliases[config->n_aliases++] = (struct config_alias){name, model};
        }
    }
    return !reader->no_memory;
}

/* What its name says, where the file does not. */
static void fill_traits(struct config_model *model)
{
    const char *name = model->upstream_model != NULL ? model->upstream_model : model->name;
    const struct model_traits traits = model_traits_of(name);

    if (model->thinking == CONFIG_THINKING_AUTO)
        model->thinking = traits.thinking == THINKING_NONE     ? CONFIG_THINKING_NONE
                          : traits.thinking == THINKING_BUDGET ? CONFIG_THINKING_BUDGET
                                                               : CONFIG_THINKING_ADAPTIVE;
    if (model->sampling == CONFIG_SAMPLING_AUTO)
        model->sampling = traits.fixed_sampling ? CONFIG_SAMPLING_FIXED : CONFIG_SAMPLING_FULL;
}

static void link_model(struct reader *reader, const struct config_index *providers,
                       const struct yaml_node *node, struct config_model *model)
{
    const struct config *config = reader->config;
    const struct yaml_node *fallback = yaml_tree_get(node, "fallback");

    model->provider = number_of(providers, yaml_tree_get(node, "provider"));
    model->cheaper = number_of(config->names, yaml_tree_get(node, "cheaper"));
    assert(model->provider == CONFIG_NONE || model->provider < config->n_providers);
    fill_traits(model);
    if (model->provider != CONFIG_NONE)
        config_finish_credentials(reader, yaml_tree_get(node, "keys"),
                                  &config->providers[model->provider], model->keys, model->n_keys);
    assert(model->cheaper == CONFIG_NONE || model->cheaper < config->n_models);
    if (fallback == NULL || fallback->n == 0)
        return;
    model->fallback = config_alloc(reader, fallback->n * sizeof model->fallback[0]);
    if (model->fallback == NULL)
        return;
    for (const struct yaml_node *name = fallback->first; name != NULL; name = name->next) {
        size_t found = number_of(config->names, name);
        if (found != CONFIG_NONE)
            model->fallback[model->n_fallback++] = found;
    }
    assert(model->n_fallback <= fallback->n);
}

/* ---- Keys of one name ----
 *
 * One name in a provider is one key, wherever it stands: a model that lists a key of its provider,
 * or of another model there, means that one. */

struct named_key {
    size_t provider, model; /* model CONFIG_NONE: the provider's own */
    const struct config_provider_key *key;
};

static int compare_keys(const void *a, const void *b)
{
    const struct named_key *left = a, *right = b;
    int order;

    if (left->provider != right->provider)
        return left->provider < right->provider ? -1 : 1;
    order = strcmp(left->key->name, right->key->name);
    if (order != 0 || left->model == right->model)
        return order;
    return left->model < right->model ? -1 : 1;
}

static bool same_secret(const struct config_secret *a, const struct config_secret *b)
{
    return a->size == b->size && (a->size == 0 || memcmp(a->bytes, b->bytes, a->size) == 0);
}

/* One name is one secret at one address in one group. Its limits may be others for each model. */
static bool is_same_key(const struct config_provider_key *a, const struct config_provider_key *b)
{
    bool same_group = text_same(a->group, b->group);

    return same_secret(&a->secret, &b->secret) &&
           same_secret(&a->session_token, &b->session_token) &&
           same_secret(&a->account_text, &b->account_text) &&
           text_same(a->access_key, b->access_key) && text_same(a->base.host, b->base.host) &&
           a->base.port == b->base.port && a->base.tls == b->base.tls &&
           text_same(a->base.path, b->base.path) && same_group;
}

static size_t add_keys(struct named_key *list, size_t n, size_t provider, size_t model,
                       const struct config_provider_key *keys, size_t n_keys)
{
    for (size_t i = 0; i < n_keys; i++)
        if (keys[i].name != NULL)
            list[n++] = (struct named_key){provider, model, &keys[i]};
    return n;
}

/* A key of a model differs from another of its name. The models are in the order of the trees. */
static void refuse_key(struct reader *reader, const struct named_key *key)
{
    const struct config *config = reader->config;
    struct config_walk walk = CONFIG_MAP("models");
    const struct yaml_node *node;

    assert(key->model < config->n_models); /* the provider's own keys have been compared */
    do
        node = config_walk_next(reader, &walk);
    while (walk.n <= key->model);
    config_error(
        reader, yaml_tree_get(node, "keys"),
        "models.%.60s.keys: the key \"%.60s\" of the provider \"%.60s\" is given elsewhere "
        "with another secret, address or group; one name must be one key",
        config->models[key->model].name, key->key->name, config->providers[key->provider].name);
}

static void check_shared_keys(struct reader *reader)
{
    struct config *config = reader->config;
    struct named_key *list;
    size_t n = 0;

    for (size_t i = 0; i < config->n_providers; i++)
        n += config->providers[i].n_keys;
    for (size_t i = 0; i < config->n_models; i++)
        n += config->models[i].n_keys;
    list = config_scratch(reader, (n + 1) * sizeof *list);
    if (list == NULL)
        return;
    n = 0;
    for (size_t i = 0; i < config->n_models; i++)
        if (config->models[i].provider != CONFIG_NONE)
            n = add_keys(list, n, config->models[i].provider, i, config->models[i].keys,
                         config->models[i].n_keys);
    for (size_t i = 0; i < config->n_providers; i++)
        n = add_keys(list, n, i, CONFIG_NONE, config->providers[i].keys,
                     config->providers[i].n_keys);
    qsort(list, n, sizeof *list, compare_keys);
    for (size_t i = 1; i < n; i++)
        if (list[i - 1].provider == list[i].provider &&
            strcmp(list[i - 1].key->name, list[i].key->name) == 0 &&
            !is_same_key(list[i - 1].key, list[i].key))
            refuse_key(reader, list[i].model != CONFIG_NONE ? &list[i] : &list[i - 1]);
}

/* ---- What is allowed once ---- */

/* One key of the items of a list, which no two may share. Hexadecimal digits may be of either case,
 * paths are distinguished by it. */
static void check_once(struct reader *reader, const char *section, size_t n, const char *key,
                       bool hex, const char *what)
{
    struct config_index *index = config_scratch_index(reader, n);
    const struct yaml_node *node;

    for (struct config_walk walk = CONFIG_LIST(section);
         index != NULL && (node = config_walk_next(reader, &walk)) != NULL;) {
        const struct yaml_node *text = yaml_tree_get(node, key);
        if (text == NULL || text->unknown)
            continue;
        char *name = config_scratch(reader, text->bytes + 1);
        if (name == NULL)
            return;
        for (size_t i = 0; i < text->bytes; i++)
            name[i] = hex ? (char)tolower((unsigned char)text->text[i]) : text->text[i];
        if (config_index_put(index, name, walk.n) != CONFIG_INDEX_NONE)
            config_error(reader, text, "the %s is given above already; each is allowed once", what);
    }
}

/* `gate.queue` is the form of every queue. */
static void shape_queue(const struct config *config, struct config_concurrency *own)
{
    own->queue = config->gate.concurrency.queue;
    own->low_priority_shed_ratio = config->gate.concurrency.low_priority_shed_ratio;
}

static void shape_queues(struct config *config)
{
    for (size_t i = 0; i < config->n_models; i++)
        shape_queue(config, &config->models[i].concurrency);
    for (size_t i = 0; i < config->n_protect; i++)
        shape_queue(config, &config->protect[i].concurrency);
    for (size_t i = 0; i < config->n_callers; i++)
        shape_queue(config, &config->callers[i].concurrency);
}

void config_link_routes(struct reader *reader)
{
    struct config *config = reader->config;
    struct config_index *providers;
    const struct yaml_node *node;

    if (!index_names(reader, &providers))
        return;
    for (struct config_walk walk = CONFIG_MAP("models");
         (node = config_walk_next(reader, &walk)) != NULL;) {
        assert(walk.n <= config->n_models);
        link_model(reader, providers, node, &config->models[walk.n - 1]);
    }
    for (struct config_walk walk = CONFIG_LIST("passthrough");
         (node = config_walk_next(reader, &walk)) != NULL;) {
        assert(walk.n <= config->n_passthrough);
        config->passthrough[walk.n - 1].provider =
            number_of(providers, yaml_tree_get(node, "provider"));
    }
    config_fill_models(reader);
    shape_queues(config);
    check_shared_keys(reader);
    check_once(reader, "callers", config->n_callers, "token_sha256", true, "token of a caller");
    config_check_passthrough(reader);
    config_check_endpoints(reader);
    check_once(reader, "protect", config->n_protect, "prefix", false,
               "prefix of a protected server");
}
