/* config_links.c - what the names of a configuration stand for, as numbers.
 *
 * Runs when everything has been read and every name is known to stand for something, so a name that
 * is not found here is one that a missing variable should have given: it stays CONFIG_NONE. The
 * items of the trees come in the order of the arrays, since both were filled in one walk.
 */
#include "server/config/config_index.h"
#include "server/config/config_reader.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

struct links {
    struct reader *reader;
    struct config *config;
    struct config_index *providers;
    struct config_index *once; /* what may stand once in a section */
    size_t n;                  /* items visited */
};

typedef void visit(struct links *links, const struct yaml_node *node);

/* Calls `one` for each child of a top-level section, in every file. */
static void for_each(struct links *links, const char *section, visit *one)
{
    struct reader *reader = links->reader;

    links->n = 0;
    for (size_t i = 0; i < reader->n_documents; i++) {
        const struct yaml_node *node = yaml_tree_get(reader->documents[i].root, section);
        reader->current = i;
        for (const struct yaml_node *child = node != NULL ? node->first : NULL; child != NULL;
             child = child->next) {
            one(links, child);
            links->n++;
        }
    }
}

static void config_links_count(struct links *links, const struct yaml_node *node)
{
    (void)links;
    (void)node;
}

static size_t config_links_find(const struct config_index *index, const struct yaml_node *name)
{
    if (name == NULL || name->unknown)
        return CONFIG_NONE;
    return config_index_get(index, name->text, name->bytes);
}

/* ---- Models by name ---- */

static void put_alias(struct links *links, const struct yaml_node *node)
{
    size_t model = config_links_find(links->config->names, node);

    if (model != CONFIG_NONE)
        (void)config_index_put(links->config->names, config_text(links->reader, node->key->text),
                               model);
}

static bool index_names(struct links *links)
{
    struct config *config = links->config;

    for_each(links, "aliases", config_links_count);
    config->names = config_index_new(config->arena, config->n_models + links->n);
    links->providers = config_index_new(links->reader->scratch, config->n_providers);
    if (config->names == NULL || links->providers == NULL) {
        links->reader->no_memory = true;
        return false;
    }
    for (size_t i = 0; i < config->n_providers; i++)
        (void)config_index_put(links->providers, config->providers[i].name, i);
    for (size_t i = 0; i < config->n_models; i++)
        (void)config_index_put(config->names, config->models[i].name, i);
    for_each(links, "aliases", put_alias);
    return !links->reader->no_memory;
}

/* ---- Models to others ---- */

static void link_fallback(struct links *links, const struct yaml_node *list,
                          struct config_model *model)
{
    if (list == NULL || list->n == 0)
        return;
    model->fallback = config_alloc(links->reader, list->n * sizeof model->fallback[0]);
    if (model->fallback == NULL)
        return;
    for (const struct yaml_node *name = list->first; name != NULL; name = name->next) {
        size_t found = config_links_find(links->config->names, name);
        if (found != CONFIG_NONE)
            model->fallback[model->n_fallback++] = found;
    }
}

static void link_model(struct links *links, const struct yaml_node *node)
{
    const struct config_concurrency *gate = &links->config->gate.concurrency;
    struct config_model *model = &links->config->models[links->n];

    model->provider = config_links_find(links->providers, yaml_tree_get(node, "provider"));
    model->cheaper = config_links_find(links->config->names, yaml_tree_get(node, "cheaper"));
    link_fallback(links, yaml_tree_get(node, "fallback"), model);
    model->concurrency.queue = gate->queue;
    model->concurrency.low_priority_shed_ratio = gate->low_priority_shed_ratio;
}

static void link_passthrough(struct links *links, const struct yaml_node *node)
{
    links->config->passthrough[links->n].provider =
        config_links_find(links->providers, yaml_tree_get(node, "provider"));
}

/* ---- Keys of one name ----
 *
 * One name in a provider is one key, wherever it stands: a model that lists a key of its provider,
 * or of another model there, means that one. */

struct named_key {
    size_t provider, model; /* model CONFIG_NONE: of the provider itself */
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

static bool is_same_text(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static bool is_same_key(const struct config_provider_key *a, const struct config_provider_key *b)
{
    return a->secret.size == b->secret.size &&
           (a->secret.size == 0 || memcmp(a->secret.bytes, b->secret.bytes, a->secret.size) == 0) &&
           a->limits.rpm == b->limits.rpm && a->limits.tpm == b->limits.tpm &&
           a->limits.concurrency == b->limits.concurrency && is_same_text(a->group, b->group);
}

static size_t add_keys(struct named_key *list, size_t n, size_t provider, size_t model,
                       const struct config_provider_key *keys, size_t n_keys)
{
    for (size_t i = 0; i < n_keys; i++)
        if (keys[i].name != NULL)
            list[n++] = (struct named_key){provider, model, &keys[i]};
    return n;
}

/* The models with keys of their own are numbers into the trees too. */
static const struct yaml_node *model_node(struct links *links, size_t model)
{
    struct reader *reader = links->reader;

    for (size_t i = 0; i < reader->n_documents; i++) {
        const struct yaml_node *map = yaml_tree_get(reader->documents[i].root, "models");
        const struct yaml_node *node = map != NULL ? map->first : NULL;
        reader->current = i;
        for (; node != NULL; node = node->next)
            if (model-- == 0)
                return node;
    }
    return NULL;
}

static void complain(struct links *links, const struct named_key *key)
{
    size_t model = key->model;
    const struct yaml_node *node = model_node(links, model);
    const struct config_provider *provider = &links->config->providers[key->provider];

    config_error(
        links->reader, yaml_tree_get(node, "keys"),
        "models.%.60s.keys: the key \"%.60s\" of the provider \"%.60s\" is given elsewhere "
        "with another secret, limit or group; one name must be one key",
        links->config->models[model].name, key->key->name, provider->name);
}

static void check_shared_keys(struct links *links)
{
    struct config *config = links->config;
    struct named_key *list;
    size_t n = 0;

    for (size_t i = 0; i < config->n_providers; i++)
        n += config->providers[i].n_keys;
    for (size_t i = 0; i < config->n_models; i++)
        n += config->models[i].n_keys;
    list = arena_alloc(links->reader->scratch, (n + 1) * sizeof *list);
    if (list == NULL) {
        links->reader->no_memory = true;
        return;
    }
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
            complain(links, list[i].model != CONFIG_NONE ? &list[i] : &list[i - 1]);
}

/* ---- What is allowed once ---- */

/* Puts a text into the index of its kind; an error if it is there. Hexadecimal digits may be of
 * either case, paths are told apart by it. */
static void put_once(struct links *links, const struct yaml_node *text, bool hex, const char *what)
{
    char *name;

    if (text == NULL || text->unknown)
        return;
    name = arena_text(links->reader->scratch, text->text, text->bytes);
    if (name == NULL) {
        links->reader->no_memory = true;
        return;
    }
    for (char *c = name; hex && *c != '\0'; c++)
        *c = (char)tolower((unsigned char)*c);
    if (config_index_put(links->once, name, links->n) != CONFIG_INDEX_NONE)
        config_error(links->reader, text, "the %s stands above too; each is allowed once", what);
}

static void once_caller(struct links *links, const struct yaml_node *node)
{
    put_once(links, yaml_tree_get(node, "token_sha256"), true, "token of a caller");
}

static void once_passthrough(struct links *links, const struct yaml_node *node)
{
    put_once(links, yaml_tree_get(node, "path"), false, "path of a passthrough");
}

static void once_protect(struct links *links, const struct yaml_node *node)
{
    put_once(links, yaml_tree_get(node, "prefix"), false, "prefix of a protected server");
}

static void check_once(struct links *links, const char *section, size_t n, visit *one)
{
    links->once = config_index_new(links->reader->scratch, n);
    if (links->once == NULL)
        links->reader->no_memory = true;
    else
        for_each(links, section, one);
}

/* ---- All of it ---- */

void config_link_routes(struct reader *reader)
{
    struct links links = {.reader = reader, .config = reader->config};

    if (!index_names(&links))
        return;
    for_each(&links, "models", link_model);
    for_each(&links, "passthrough", link_passthrough);
    check_shared_keys(&links);
    check_once(&links, "callers", reader->config->n_callers, once_caller);
    check_once(&links, "passthrough", reader->config->n_passthrough, once_passthrough);
    check_once(&links, "protect", reader->config->n_protect, once_protect);
}
