/* config_model.c - what several keys of a model say together, and of a path that is passed through,
 * and of a server that is protected.
 */
#include "server/config/config_reader.h"
#include "server/config/config_values.h"
#include "server/dialect/ask.h"

#include <string.h>

/* ---- Models ---- */

static bool config_model_is_given(const struct yaml_node *section, const char *name)
{
    const struct yaml_node *child = yaml_tree_get(section, name);

    return child != NULL && !child->unknown;
}

static void finish_price(struct reader *reader, const struct yaml_node *node,
                         struct config_model *model)
{
    const struct yaml_node *price = yaml_tree_get(node, "price");

    if (!config_model_is_given(price, "cached_input"))
        model->price.cached_input = -1; /* as input */
    if (!config_model_is_given(price, "cache_write"))
        model->price.cache_write = -1;
    if (price == NULL)
        config_warning(reader, node->key,
                       "%s has no price, so its calls cost nothing; price: {} if that is meant",
                       reader->path);
}

static void check_overbook(struct reader *reader, const struct yaml_node *node,
                           const struct config_model *model)
{
    struct tg_overbook overbook;
    struct tg_problem problem;

    if (tg_overbook_init(&overbook, model->overbook_start, model->overbook_max, &problem) != TG_OK)
        config_error(reader, yaml_tree_get(node, "overbook"), "%s.overbook: %s", reader->path,
                     problem.text);
}

void config_finish_model(struct reader *reader, const struct yaml_node *node, void *into)
{
    struct config_model *model = into;

    model->provider = CONFIG_NONE;
    model->cheaper = CONFIG_NONE;
    model->concurrency.present = true;
    if (model->upstream_model == NULL)
        model->upstream_model = model->name;
    finish_price(reader, node, model);
    check_overbook(reader, node, model);
    config_check_key_names(reader, yaml_tree_get(node, "keys"));
}

/* ---- Paths that are passed through ---- */

/* Such a call would go its metered way, and never this one. */
void config_finish_passthrough(struct reader *reader, const struct yaml_node *node, void *into)
{
    struct config_passthrough *passthrough = into;
    const struct slice post = {"POST", 4};

    passthrough->provider = CONFIG_NONE;
    if (passthrough->path == NULL)
        return;
    const struct slice path = {passthrough->path, strlen(passthrough->path)};
    if (endpoint_of(post, path).endpoint != ENDPOINT_NONE)
        config_error(reader, yaml_tree_get(node, "path"),
                     "%s.path is \"%.60s\", which is served already; it must be another path",
                     reader->path, passthrough->path);
}

/* ---- Servers that are protected ---- */

static bool is_below(const char *path, const char *prefix)
{
    size_t bytes = strlen(prefix);

    if (strcmp(prefix, "/") == 0)
        return true;
    return strncmp(path, prefix, bytes) == 0 && (path[bytes] == '\0' || path[bytes] == '/');
}

/* "GET /api/read", in two. */
static bool config_model_read_priority(struct reader *reader, const struct yaml_node *node,
                                       const struct config_protect *protect,
                                       struct config_protect_priority *to)
{
    const char *text = node->key->text;
    size_t bytes = text[0] == '/' ? 0 : strcspn(text, " ");
    /* The method of an RPC is in its path. */
    const char *method =
        bytes > 0 ? config_bytes(reader, text, bytes) : config_text(reader, "POST");
    const char *path = text + bytes + (text[bytes] == ' ');

    if (method == NULL)
        return false;
    if (strspn(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-") != strlen(method) || !value_is_path(path)) {
        config_error(reader, node->key,
                     "%s.priorities: \"%.60s\" is not a method and a path; it must be such as "
                     "\"GET /x\", or of an RPC \"/package.Service/Method\"",
                     reader->path, text);
        return false;
    }
    if (protect->prefix != NULL && !is_below(path, protect->prefix)) {
        config_error(reader, node->key,
                     "%s.priorities: \"%.60s\" is not below the prefix; its path must begin with "
                     "%.60s",
                     reader->path, text, protect->prefix);
        return false;
    }
    *to = (struct config_protect_priority){.method = method, .path = config_text(reader, path)};
    return node->kind == YAML_TEXT && !node->unknown &&
           config_find_word("high|normal|low", node->text, &to->priority);
}

void config_finish_protect(struct reader *reader, const struct yaml_node *node, void *into)
{
    struct config_protect *protect = into;
    const struct yaml_node *map = yaml_tree_get(node, "priorities");

    if ((protect->cert == NULL) != (protect->key == NULL))
        config_error(reader, node,
                     "%s has a certificate without a key, or a key without a certificate; it must "
                     "have both or neither",
                     reader->path);
    if (map == NULL || map->kind != YAML_MAP)
        return;
    protect->priorities = config_alloc(reader, (map->n + 1) * sizeof protect->priorities[0]);
    if (protect->priorities == NULL)
        return;
    for (const struct yaml_node *child = map->first; child != NULL; child = child->next)
        if (config_model_read_priority(reader, child, protect,
                                       &protect->priorities[protect->n_priorities]))
            protect->n_priorities++;
}
