/* config_bounds.c - what there may be at most: limits that one call has to clear, budgets of one
 * account.
 *
 * These are bounds of the library. Without a word here they would be found out when the gateway
 * starts, one at a time, and by nobody who only checks a file.
 *
 * A call clears one set of limits for each of these that applies: what its tenant leaves to the
 * gate, `rate` and `cost` of the tenant, each line of its `limits`, its `users.each`, the same but
 * the first for each parent, and each line of its key. Whatever else a pattern matches, it matches
 * itself: so trying each pattern as the name of a model finds the call that has the most.
 */
#include <assert.h>
#include <string.h>

#include "server/config/config_reader.h"

/* ---- Sets of limits ---- */

static size_t count_lines(const struct config_limits *limits, size_t n, const char *model)
{
    size_t lines = 0;

    for (size_t i = 0; i < n; i++)
        lines += limits[i].models.n == 0 ||
                 config_patterns_match(&limits[i].models, model, strlen(model));
    return lines;
}

/* Counts those of the key that has the most. */
static size_t count_key_lines(const struct config_tenant *tenant, const char *model)
{
    size_t most = 0;

    for (size_t k = 0; k < tenant->n_keys; k++) {
        const struct config_own *own = &tenant->keys[k].own;
        size_t n = count_lines(own->limits, own->n_limits, model);
        most = n > most ? n : most;
    }
    return most;
}

static size_t count_own(const struct config_tenant *tenant, const char *model)
{
    size_t n = tenant->rate.present || tenant->cost.present;

    n += tenant->users.present && tenant->users.each.n_limiters > 0;
    return n + count_lines(tenant->limits, tenant->n_limits, model);
}

static const struct config_tenant *parent_of(const struct config *config,
                                             const struct config_tenant *tenant)
{
    return tenant->parent != CONFIG_NO_PARENT ? &config->tenants[tenant->parent] : NULL;
}

static size_t count_all(const struct config *config, const struct config_tenant *tenant,
                        const char *model)
{
    const struct config_gate *gate = &config->gate;
    size_t n = (gate->rate.present && !tenant->rate.present) ||
               (gate->cost.present && !tenant->cost.present);

    n += count_key_lines(tenant, model);
    for (; tenant != NULL; tenant = parent_of(config, tenant))
        n += count_own(tenant, model);
    return n;
}

/* Tries the patterns of some lines as models. */
static void try_lines(const struct config *config, const struct config_tenant *tenant,
                      const struct config_limits *limits, size_t n_limits, const char **model,
                      size_t *most)
{
    for (size_t i = 0; i < n_limits; i++)
        for (size_t k = 0; k < limits[i].models.n; k++) {
            const char *name = limits[i].models.names[k];
            size_t n = count_all(config, tenant, name + (name[0] == '!'));
            if (n > *most) {
                *model = name + (name[0] == '!');
                *most = n;
            }
        }
}

static size_t count_most(const struct config *config, const struct config_tenant *tenant,
                         const char **model)
{
    size_t most = count_all(config, tenant, "");

    *model = "";
    for (const struct config_tenant *at = tenant; at != NULL; at = parent_of(config, at))
        try_lines(config, tenant, at->limits, at->n_limits, model, &most);
    for (size_t k = 0; k < tenant->n_keys; k++)
        if (tenant->keys[k].first == k)
            try_lines(config, tenant, tenant->keys[k].own.limits, tenant->keys[k].own.n_limits,
                      model, &most);
    return most;
}

static void check_sets(struct reader *reader, const struct config_tenant *tenant,
                       const struct yaml_node *node)
{
    const struct config *config = reader->config;
    const char *model;
    size_t lines = 1, of_key = 0;

    for (size_t k = 0; k < tenant->n_keys; k++)
        if (tenant->keys[k].own.n_limits > of_key)
            of_key = tenant->keys[k].own.n_limits;
    lines += of_key;
    /* Whatever the models are: most tenants are done with this. */
    for (const struct config_tenant *at = tenant; at != NULL; at = parent_of(config, at))
        lines += 2 + at->n_limits;
    if (lines <= TG_SCOPES_MAX)
        return;
    size_t most = count_most(config, tenant, &model);
    assert(most <= lines);
    if (most > TG_SCOPES_MAX)
        config_error(reader, config_child_or_self(node, "limits"),
                     "a call of the tenant \"%.60s\" for the model \"%.60s\" has to clear %zu sets "
                     "of limits, its parents' and keys' included; at most %d are allowed",
                     tenant->name, model, most, TG_SCOPES_MAX);
}

/* ---- Budgets ---- */

static void check_budgets(struct reader *reader, const struct yaml_node *list, const char *whose)
{
    if (list != NULL && list->n > TG_BUDGETS_MAX)
        config_error(reader, list, "%s has %zu budgets; at most %d are allowed", whose, list->n,
                     TG_BUDGETS_MAX);
}

/* ---- All of it ---- */

void config_check_bounds(struct reader *reader)
{
    if (reader->config->n_budgets > TG_BUDGETS_MAX)
        for (size_t i = reader->first_extra; i-- > 0;) {
            const struct yaml_node *list = yaml_tree_get(reader->documents[i].root, "budgets");
            if (list == NULL || list->n == 0)
                continue;
            reader->current = i;
            config_error(reader, list, "budgets has %zu budgets in all; at most %d are allowed",
                         reader->config->n_budgets, TG_BUDGETS_MAX);
            break;
        }
    for (size_t i = 0; i < reader->config->n_tenants && !reader->no_memory; i++) {
        const struct yaml_node *node = reader->places[i].node;
        const struct yaml_node *each = yaml_tree_get(yaml_tree_get(node, "users"), "each");
        reader->current = reader->places[i].document;
        check_sets(reader, &reader->config->tenants[i], node);
        check_budgets(reader, yaml_tree_get(node, "budgets"), "the tenant");
        check_budgets(reader, yaml_tree_get(each, "budgets"), "each user");
    }
}
