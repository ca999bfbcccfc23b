/* config_tenants.c - what keys of a tenant say together, and what tenants are to each other.
 *
 * Parents are linked when every file has been read, because a parent may stand below its children.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "server/config/config_index.h"
#include "server/config/config_reader.h"
#include "server/config/config_values.h"

/* ---- Limits in short form ---- */

static const struct short_limit {
    const char *name;
    enum tg_axis axis;
    tg_ms period;
} short_limits[CONFIG_LIMITS_MAX] = {
    {"rpm", TG_AXIS_RATE, 60000}, {"rph", TG_AXIS_RATE, 3600000}, {"rpd", TG_AXIS_RATE, 86400000},
    {"tpm", TG_AXIS_COST, 60000}, {"tph", TG_AXIS_COST, 3600000}, {"tpd", TG_AXIS_COST, 86400000},
};

/* N calls: gcra, N every period. N tokens: a bucket of N that fills in a period. */
static struct tg_limiter_config make_limiter(const struct short_limit *limit, int64_t n)
{
    struct tg_limiter_config config;

    if (limit->axis == TG_AXIS_RATE) {
        tg_limiter_config_init(&config, TG_GCRA);
        config.period = limit->period;
    } else {
        tg_limiter_config_init(&config, TG_TOKEN_BUCKET);
        config.refill = (double)n * 1000 / (double)limit->period;
    }
    config.limit = n;
    return config;
}

/* The values have been read and checked; what was wrong with them has been reported. */
static void make_limiters(struct reader *reader, const struct yaml_node *node,
                          struct config_limits *limits)
{
    for (size_t i = 0; i < CONFIG_LIMITS_MAX; i++) {
        const struct short_limit *limit = &short_limits[i];
        const struct yaml_node *child = yaml_tree_get(node, limit->name);
        struct tg_limiter limiter;
        struct tg_problem problem;
        int64_t n;

        if (child == NULL || child->kind != YAML_TEXT || child->unknown ||
            !value_count(child->text, &n) || n == 0)
            continue;
        struct config_limiter made = {.present = true,
                                      .axis = limit->axis,
                                      .limiter = make_limiter(limit, n),
                                      .mode = limits->mode};
        if (limit->axis == TG_AXIS_COST)
            made.overdraft = config_read_overdraft(limits->overdraft, node);
        if (tg_limiter_init(&limiter, &made.limiter, &problem) != TG_OK)
            config_error(reader, child, "%s.%s: %s", reader->path, limit->name, problem.text);
        assert(limits->n_limiters < CONFIG_LIMITS_MAX);
        limits->limiters[limits->n_limiters++] = made;
    }
}

void config_finish_limits(struct reader *reader, const struct yaml_node *node, void *into)
{
    size_t i = 0;

    while (i < CONFIG_LIMITS_MAX && yaml_tree_get(node, short_limits[i].name) == NULL)
        i++;
    if (i == CONFIG_LIMITS_MAX)
        config_error(reader, node,
                     "%s limits nothing; it must have one or more of rpm, rph, rpd, tpm, tph, tpd",
                     reader->path);
    make_limiters(reader, node, into);
}

void config_finish_each(struct reader *reader, const struct yaml_node *node, void *into)
{
    struct config_users *users = into;

    make_limiters(reader, node, &users->each);
}

void config_finish_tenant(struct reader *reader, const struct yaml_node *node, void *into)
{
    struct config_tenant *tenant = into;

    tenant->extra = reader->current >= reader->first_extra;
    tenant->file = config_text(reader, reader->documents[reader->current].name);
    tenant->line = node->line;
    tenant->column = node->column;
}

/* ---- Names, parents, levels ---- */

/* The items of the lists `tenants` of all files: in the order in which they were read. */
static struct place *find_places(struct reader *reader)
{
    size_t n = reader->config->n_tenants;
    struct place *places = config_scratch(reader, (n + 1) * sizeof *places);
    struct config_walk walk = CONFIG_LIST("tenants");
    const struct yaml_node *node;

    while (places != NULL && (node = config_walk_next(reader, &walk)) != NULL) {
        assert(walk.n <= n);
        places[walk.n - 1] = (struct place){reader->current, node};
    }
    return places;
}

static bool index_tenants(struct reader *reader, const struct place *places)
{
    struct config *config = reader->config;

    config->index = config_index_new(config->arena, config->n_tenants);
    reader->no_memory |= config->index == NULL;
    if (config->index == NULL)
        return false;
    for (size_t i = 0; i < config->n_tenants; i++) {
        const struct config_tenant *tenant = &config->tenants[i];
        if (tenant->name == NULL)
            continue;
        size_t first = config_index_put(config->index, tenant->name, i);
        if (first == CONFIG_INDEX_NONE)
            continue;
        reader->current = places[i].document;
        config_error(
            reader, config_child_or_self(places[i].node, "name"),
            "the tenant \"%.60s\" is defined twice, first in %s:%zu; each name is allowed once",
            tenant->name, config->tenants[first].file, config->tenants[first].line);
    }
    return true;
}

static void find_parents(struct reader *reader, const struct place *places)
{
    struct config *config = reader->config;

    for (size_t i = 0; i < config->n_tenants; i++) {
        const struct yaml_node *parent = yaml_tree_get(places[i].node, "parent");
        config->tenants[i].parent = CONFIG_NO_PARENT;
        if (parent == NULL || parent->kind != YAML_TEXT || parent->unknown)
            continue;
        size_t found = config_index_get(config->index, parent->text, parent->bytes);
        config->tenants[i].parent = found;
        reader->current = places[i].document;
        if (found == CONFIG_INDEX_NONE)
            config_error(reader, parent,
                         "the parent \"%.60s\" does not exist; it must be the name of a tenant",
                         parent->written);
    }
}

/* Levels that are not known yet: never visited, and on the way that is being walked. */
#define LEVEL_UNSEEN SIZE_MAX
#define LEVEL_SEEN (SIZE_MAX - 1)

static void break_cycle(struct reader *reader, const struct place *places, size_t at)
{
    struct config_tenant *tenant = &reader->config->tenants[at];

    reader->current = places[at].document;
    config_error(
        reader, config_child_or_self(places[at].node, "parent"),
        "the tenant \"%.60s\" is its own parent by way of \"%.60s\"; parents must not go in "
        "a circle",
        tenant->name, reader->config->tenants[tenant->parent].name);
    tenant->parent = CONFIG_NO_PARENT;
}

/* Walks up to a tenant whose level is known or that has no parent, then sets the levels on that
 * way: each tenant is walked over once or twice in all. */
static void set_levels(struct reader *reader, const struct place *places, size_t from)
{
    struct config *config = reader->config;
    size_t at = from, steps = 0, level = 0;

    while (config->tenants[at].level == LEVEL_UNSEEN) {
        config->tenants[at].level = LEVEL_SEEN;
        size_t parent = config->tenants[at].parent;
        if (parent != CONFIG_NO_PARENT && config->tenants[parent].level == LEVEL_SEEN) {
            break_cycle(reader, places, at);
            parent = CONFIG_NO_PARENT;
        }
        steps++;
        if (parent == CONFIG_NO_PARENT)
            break;
        at = parent;
        level = config->tenants[at].level < LEVEL_SEEN ? config->tenants[at].level + 1 : 0;
    }
    for (at = from; steps > 0; at = config->tenants[at].parent)
        config->tenants[at].level = level + --steps;
    assert(config->tenants[from].level < LEVEL_SEEN);
}

static void check_levels(struct reader *reader, const struct place *places)
{
    struct config *config = reader->config;

    for (size_t i = 0; i < config->n_tenants; i++)
        config->tenants[i].level = LEVEL_UNSEEN;
    for (size_t i = 0; i < config->n_tenants; i++) {
        set_levels(reader, places, i);
        if (config->tenants[i].level < CONFIG_LEVELS_MAX)
            continue;
        reader->current = places[i].document;
        config_error(reader, config_child_or_self(places[i].node, "parent"),
                     "the tenant \"%.60s\" has %zu parents above it; up to %d levels are allowed",
                     config->tenants[i].name ? config->tenants[i].name : "",
                     config->tenants[i].level, CONFIG_LEVELS_MAX);
    }
}

void config_link_tenants(struct reader *reader)
{
    struct place *places = find_places(reader);

    reader->places = places;
    if (places == NULL || !index_tenants(reader, places))
        return;
    find_parents(reader, places);
    check_levels(reader, places);
}
