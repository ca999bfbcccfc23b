/* config_passthrough.c - paths that are passed through, and who may use them.
 *
 * A path that no call can reach is a mistake: one that is served already, one below an earlier row
 * or a protected server, one that has a star within a segment. Rows are asked in their order, and
 * the first that matches serves.
 */
#include <assert.h>
#include <string.h>

#include "server/config/config_reader.h"
#include "server/dialect/ask.h"
#include "server/dialect/path_pattern.h"

/* ---- One row ---- */

/* A path that is served already would be metered as a call, and never passed through. */
static bool is_served(const char *path)
{
    static const char own[] = "/tollgate/";

    return endpoint_of(SLICE("POST"), slice_of(path)).endpoint != ENDPOINT_NONE ||
           strcmp(path, "/v1/models/*") == 0 || strncmp(path, own, sizeof own - 1) == 0;
}

void config_finish_passthrough(struct reader *reader, const struct yaml_node *node, void *into)
{
    struct config_passthrough *passthrough = into;
    const char *problem;

    passthrough->provider = CONFIG_NONE;
    passthrough->priced = yaml_tree_get(node, "per_call") != NULL;
    if (passthrough->path == NULL)
        return;
    problem = path_pattern_problem(passthrough->path);
    if (problem != NULL)
        config_error(reader, yaml_tree_get(node, "path"), "%s.path is \"%.60s\"; it must be %s",
                     reader->path, passthrough->path, problem);
    else if (is_served(passthrough->path))
        config_error(
            reader, yaml_tree_get(node, "path"),
            "%s.path is \"%.60s\", which the gateway serves itself; it must be another path",
            reader->path, passthrough->path);
}

/* ---- All rows ---- */

static bool is_protected(const char *path, const char *prefix)
{
    size_t n = strlen(prefix);

    if (strcmp(prefix, "/") == 0)
        return true;
    return strncmp(path, prefix, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

static void check_row(struct reader *reader, const struct yaml_node *path, size_t row)
{
    const struct config *config = reader->config;
    const char *own = config->passthrough[row].path;

    for (size_t i = 0; i < row; i++) {
        const char *above = config->passthrough[i].path;
        if (above == NULL || !path_pattern_covers(above, own))
            continue;
        if (strcmp(above, own) == 0)
            config_error(reader, path,
                         "the path of a passthrough is given above already; each is allowed once");
        else
            config_error(reader, path,
                         "passthrough[%zu].path is \"%.60s\", and \"%.60s\" above it takes all of "
                         "its calls; put it before that one",
                         row, own, above);
        return;
    }
    for (size_t i = 0; i < config->n_protect; i++)
        if (config->protect[i].prefix != NULL && is_protected(own, config->protect[i].prefix)) {
            config_error(reader, path,
                         "passthrough[%zu].path is \"%.60s\", and its calls go to the protected "
                         "server at \"%.60s\"; it must be another path",
                         row, own, config->protect[i].prefix);
            return;
        }
}

void config_check_passthrough(struct reader *reader)
{
    const struct yaml_node *node;

    for (struct config_walk walk = CONFIG_LIST("passthrough");
         (node = config_walk_next(reader, &walk)) != NULL;) {
        const struct yaml_node *path = yaml_tree_get(node, "path");
        assert(walk.n <= reader->config->n_passthrough);
        if (path != NULL && !path->unknown)
            check_row(reader, path, walk.n - 1);
    }
}

/* ---- Who may use them ---- */

static bool is_among_paths(const struct config_names *patterns, bool among, struct slice path)
{
    for (size_t i = 0; i < patterns->n; i++) {
        bool excludes = patterns->names[i][0] == '!';
        if (path_pattern_matches(patterns->names[i] + excludes, path))
            among = !excludes;
    }
    return among;
}

bool config_may_call(const struct config_tenant *tenant, const struct config_key *key,
                     struct slice path)
{
    const struct config_names *own = key != NULL ? &key->own.endpoints : NULL;

    return is_among_paths(&tenant->endpoints, false, path) &&
           (own == NULL || is_among_paths(own, own->n == 0 || own->names[0][0] == '!', path));
}

static bool is_reachable(const struct config *config, const char *pattern)
{
    for (size_t i = 0; i < config->n_passthrough; i++)
        if (config->passthrough[i].path == NULL ||
            path_pattern_overlaps(pattern, config->passthrough[i].path))
            return true;
    return false;
}

/* One that matches nothing may be for a passthrough to come, if it has a star. */
static void check_endpoint(struct reader *reader, const struct yaml_node *node)
{
    const char *pattern = node->text + (node->text[0] == '!');

    if (is_reachable(reader->config, pattern))
        return;
    if (strchr(pattern, '*') != NULL)
        config_warning(reader, node, "the endpoint \"%.60s\" matches no path of a passthrough",
                       node->written);
    else
        config_error(reader, node,
                     "the endpoint \"%.60s\" does not exist; it must be a path of a passthrough",
                     pattern);
}

static void check_endpoints(struct reader *reader, const struct yaml_node *list)
{
    if (list == NULL || list->kind != YAML_LIST)
        return;
    for (const struct yaml_node *item = list->first; item != NULL; item = item->next)
        if (item->kind == YAML_TEXT && !item->unknown)
            check_endpoint(reader, item);
}

void config_check_endpoints(struct reader *reader)
{
    const struct yaml_node *node;

    for (struct config_walk walk = CONFIG_LIST("tenants");
         (node = config_walk_next(reader, &walk)) != NULL;) {
        const struct yaml_node *key = config_first(yaml_tree_get(node, "keys"));
        check_endpoints(reader, yaml_tree_get(node, "endpoints"));
        for (; key != NULL; key = key->next)
            check_endpoints(reader, yaml_tree_get(key, "endpoints"));
    }
    for (size_t i = 0; i < reader->n_keys; i++) {
        reader->current = reader->keys[i].document;
        check_endpoints(reader, yaml_tree_get(config_extra_key_node(reader, i), "endpoints"));
    }
}

static bool is_for_tenant(const struct config_tenant *tenant, const char *path)
{
    for (size_t i = 0; i < tenant->endpoints.n; i++)
        if (tenant->endpoints.names[i][0] != '!' &&
            path_pattern_overlaps(tenant->endpoints.names[i], path))
            return true;
    return false;
}

/* A row is for whoever names it, and needs a price where a budget may refuse: see call_in.c. */
void config_warn_of_passthrough(struct reader *reader)
{
    const struct config *config = reader->config;
    const struct yaml_node *node;

    for (struct config_walk walk = CONFIG_LIST("passthrough");
         (node = config_walk_next(reader, &walk)) != NULL;) {
        const struct config_passthrough *row = &config->passthrough[walk.n - 1];
        const struct config_tenant *budget = NULL;
        size_t n = 0;
        if (row->path == NULL)
            continue;
        for (size_t i = 0; i < config->n_tenants; i++)
            if (is_for_tenant(&config->tenants[i], row->path)) {
                n++;
                if (config->tenants[i].hard_budget)
                    budget = &config->tenants[i];
            }
        if (n == 0 && config->n_tenants > 0) /* tenants may all be of the API */
            config_warning(reader, config_child_or_self(node, "path"),
                           "no tenant names \"%.60s\" in its endpoints: nobody may use it",
                           row->path);
        if (budget != NULL && !row->priced)
            config_warning(reader, config_child_or_self(node, "path"),
                           "passthrough \"%.60s\" has no price: calls of the tenant \"%.60s\", "
                           "which has a budget, are refused; per_call: 0 if they cost nothing",
                           row->path, budget->name);
    }
}
