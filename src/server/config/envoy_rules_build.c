/* envoy_rules_build.c - tables out of the rules that were read: levels by key and value, domains.
 *
 * Every table is made as large as it must be before anything is put in, in the memory of the
 * configuration. A level of a domain may come from several files, if they may be merged; the levels
 * below come from one.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "server/config/config_index.h"
#include "server/config/envoy_rules_internal.h"

/* ---- levels ---- */

/* At work on the domains, one after the other. */
struct build {
    struct reader *reader;
    struct envoy_rules *rules;
    struct config_index *names; /* the limits' names; in scratch */
    size_t n_names;
    bool *defined;     /* [number of a name]: a limit has it */
    size_t max_limits; /* rules that have a limit */
};

/* Several lists of rules that make one level, each of a document. */
struct part {
    struct envoy_rule *rules;
    size_t n;
    size_t document;
};

/* Unambiguous, whatever stands in keys and values: "9:to_number3:123". A value is never empty. */
static void name_rule(struct reader *reader, struct envoy_rule *to, struct slice above)
{
    const char *value = to->value != NULL ? to->value : "";
    size_t room = above.n + strlen(to->key) + strlen(value) + 48;
    char *name = config_alloc(reader, room);

    if (name == NULL)
        return;
    memcpy(name, above.at, above.n);
    int more = snprintf(name + above.n, room - above.n, "%zu:%s%zu:%s", strlen(to->key), to->key,
                        strlen(value), value);
    to->name = (struct slice){name, above.n + (size_t)more};
}

static void write_path(struct reader *reader, struct envoy_rule *to, const char *above)
{
    const char *value = to->value != NULL ? to->value : "";
    size_t room = strlen(above) + strlen(to->key) + strlen(value) + 3;
    char *path = config_alloc(reader, room);

    to->path = path;
    if (path != NULL)
        snprintf(path, room, "%s%s%s%s%s", above, above[0] != '\0' ? "." : "", to->key,
                 value[0] != '\0' ? "_" : "", value);
}

static bool is_whole(const struct envoy_rule *rule)
{
    return envoy_is_given(rule->key);
}

/* Counts the rules of each key, so that every table is made as large as it must be. */
static void count_envoy_keys(struct envoy_level *level, const struct part *parts, size_t n_parts)
{
    size_t n_keys = 0;

    for (size_t p = 0; p < n_parts; p++)
        for (size_t i = 0; i < parts[p].n; i++) {
            const struct envoy_rule *rule = &parts[p].rules[i];
            if (!is_whole(rule))
                continue;
            size_t key = config_index_put(level->keys, rule->key, n_keys);
            level->list[key == CONFIG_INDEX_NONE ? n_keys++ : key].n++;
        }
}

static bool make_key(struct reader *reader, struct envoy_key *key)
{
    struct arena *arena = reader->config->arena;

    key->values = config_index_new(arena, key->n);
    key->list = config_alloc(reader, key->n * sizeof(struct envoy_rule *));
    key->stems = config_alloc(reader, key->n * sizeof(struct envoy_rule *));
    key->n = 0;
    reader->no_memory |= key->values == NULL;
    return !reader->no_memory;
}

static void say_twice(struct reader *reader, const struct envoy_rule *rule,
                      const struct envoy_rule *first)
{
    config_error(reader, rule->node,
                 "%.160s is given twice at one level, first in line %zu; once is allowed, with "
                 "everything below it",
                 rule->path, first->node->line);
}

/* By its value. */
static void add_rule(struct reader *reader, struct envoy_level *level, struct envoy_key *key,
                     struct envoy_rule *rule)
{
    if (rule->value == NULL) {
        if (key->any != NULL)
            say_twice(reader, rule, key->any);
        else if (envoy_has_star(rule->key))
            level->stems[level->n_stems++] = rule;
        key->any = rule;
        return;
    }
    size_t first = config_index_put(key->values, rule->value, key->n);
    if (first != CONFIG_INDEX_NONE) {
        say_twice(reader, rule, key->list[first]);
        return;
    }
    key->list[key->n++] = rule;
    if (envoy_has_star(rule->value))
        key->stems[key->n_stems++] = rule;
}

/* The number of a limit's name. */
static size_t number_of_name(struct build *build, const char *name)
{
    size_t number = config_index_put(build->names, name, build->n_names);

    return number == CONFIG_INDEX_NONE ? build->n_names++ : number;
}

static void add_limit(struct build *build, struct envoy_rule *rule)
{
    struct envoy_limit *limit = &rule->limit;

    limit->name_number = ENVOY_NO_NAME;
    if (!limit->present)
        return;
    assert(build->rules->n_limits < build->max_limits);
    limit->number = build->rules->n_limits;
    build->rules->limits[build->rules->n_limits++] = rule;
    if (limit->name != NULL) {
        limit->name_number = number_of_name(build, limit->name);
        build->defined[limit->name_number] = true;
    }
    for (size_t i = 0; i < limit->n_replaces; i++)
        if (limit->replaces[i].name != NULL)
            limit->replaces[i].number = number_of_name(build, limit->replaces[i].name);
}

/* What stands above a level. */
struct above {
    const char *domain;
    const struct envoy_rule *rule; /* null: the domain */
    const char *path;
    struct slice name;
};

static void build_level(struct build *build, const struct part *parts, size_t n_parts,
                        struct above above, struct envoy_level *level);

static void build_rule(struct build *build, struct envoy_rule *rule, size_t document,
                       struct above above, struct envoy_level *level)
{
    struct reader *reader = build->reader;
    size_t key = config_index_get(level->keys, rule->key, strlen(rule->key));
    struct part below = {rule->rules, rule->n_rules, document};

    reader->current = document;
    rule->domain = above.domain;
    rule->above = above.rule;
    name_rule(reader, rule, above.name);
    write_path(reader, rule, above.path);
    if (reader->no_memory)
        return;
    add_rule(reader, level, &level->list[key], rule);
    add_limit(build, rule);
    if (rule->n_rules > 0)
        build_level(build, &below, 1, (struct above){rule->domain, rule, rule->path, rule->name},
                    &rule->below);
}

/* Recursion ends: a tree is YAML_TREE_DEPTH_MAX deep. */
static void build_level(struct build *build, const struct part *parts, size_t n_parts,
                        struct above above, struct envoy_level *level)
{
    struct reader *reader = build->reader;
    size_t n = 0;

    for (size_t p = 0; p < n_parts; p++)
        n += parts[p].n;
    if (n == 0)
        return;
    level->list = config_alloc(reader, n * sizeof *level->list);
    level->keys = config_index_new(reader->config->arena, n);
    level->stems = config_alloc(reader, n * sizeof(struct envoy_rule *));
    reader->no_memory |= level->keys == NULL;
    if (reader->no_memory)
        return;
    count_envoy_keys(level, parts, n_parts);
    for (size_t i = 0; i < n && level->list[i].n > 0; i++)
        if (!make_key(reader, &level->list[i]))
            return;
    n = 0;
    for (size_t p = 0; p < n_parts; p++)
        for (size_t i = 0; i < parts[p].n && !reader->no_memory; i++) {
            struct envoy_rule *rule = &parts[p].rules[i];
            rule->order = n++;
            if (is_whole(rule))
                build_rule(build, rule, parts[p].document, above, level);
        }
}

/* ---- domains ---- */

/* What there is at most. */
struct totals {
    size_t limits, names;
};

static void count_limits(const struct envoy_rule *rules, size_t n, struct totals *totals)
{
    for (size_t i = 0; i < n; i++) {
        totals->limits += rules[i].limit.present;
        totals->names += 1 + rules[i].limit.n_replaces;
        count_limits(rules[i].rules, rules[i].n_rules, totals);
    }
}

/* A name that is replaced and that no limit has: most likely it is misspelt. */
static void warn_of_names(struct build *build, const struct envoy_rule *rules, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct envoy_limit *limit = &rules[i].limit;
        for (size_t k = 0; k < limit->n_replaces; k++)
            if (rules[i].path != NULL && envoy_is_given(limit->replaces[k].name) &&
                !build->defined[limit->replaces[k].number])
                config_warning(build->reader, rules[i].node,
                               "%.160s replaces \"%.60s\", a name that no limit has", rules[i].path,
                               limit->replaces[k].name);
        warn_of_names(build, rules[i].rules, rules[i].n_rules);
    }
}

/* `first` and those that follow it are its files. */
static void build_domain(struct build *build, const struct envoy_file *first,
                         struct envoy_domain *domain)
{
    struct reader *reader = build->reader;
    struct envoy_rule top = {.key = first->domain};
    size_t n = 0;

    for (const struct envoy_file *file = first; file != NULL; file = file->next)
        n++;
    struct part *parts = config_scratch(reader, n * sizeof *parts);
    name_rule(reader, &top, (struct slice){"", 0});
    if (reader->no_memory)
        return;
    n = 0;
    for (const struct envoy_file *file = first; file != NULL; file = file->next)
        parts[n++] = (struct part){file->rules, file->n_rules, file->document};
    domain->name = first->domain;
    build_level(build, parts, n, (struct above){domain->name, NULL, "", top.name}, &domain->top);
}

static void say_domain_twice(struct reader *reader, const struct envoy_file *file,
                             const struct envoy_file *first)
{
    reader->current = file->document;
    config_error(reader, yaml_tree_get(file->node, "domain"),
                 "the domain \"%.60s\" is also that of %.200s; a domain has one file, unless "
                 "envoy_rls.merge_domains is true",
                 file->domain, reader->documents[first->document].name);
}

/* Which files belong together. */
static void gather_domains(struct reader *reader, const struct config_envoy *to,
                           struct envoy_files *all, struct envoy_rules *rules,
                           struct envoy_file **first)
{
    struct envoy_file **last = config_scratch(reader, all->n * sizeof(struct envoy_file *));

    for (size_t i = 0; i < all->n && !reader->no_memory; i++) {
        struct envoy_file *file = &all->list[i];
        if (!envoy_is_given(file->domain))
            continue;
        size_t known = config_index_put(rules->index, file->domain, rules->n_domains);
        if (known == CONFIG_INDEX_NONE) {
            first[rules->n_domains] = last[rules->n_domains] = file;
            rules->n_domains++;
        } else if (to->merge_domains) {
            last[known]->next = file;
            last[known] = file;
        } else {
            say_domain_twice(reader, file, first[known]);
        }
    }
}

static bool make_rules(struct reader *reader, const struct envoy_files *all, struct build *build)
{
    struct totals totals = {0, 0};
    struct envoy_rules *rules = build->rules = config_alloc(reader, sizeof *rules);

    for (size_t i = 0; i < all->n; i++)
        count_limits(all->list[i].rules, all->list[i].n_rules, &totals);
    if (rules == NULL)
        return false;
    build->max_limits = totals.limits;
    rules->index = config_index_new(reader->config->arena, all->n);
    rules->domains = config_alloc(reader, (all->n + 1) * sizeof *rules->domains);
    rules->limits = config_alloc(reader, (totals.limits + 1) * sizeof(struct envoy_rule *));
    build->names = config_scratch_index(reader, totals.names);
    build->defined = config_scratch(reader, totals.names + 1);
    reader->no_memory |= rules->index == NULL;
    return !reader->no_memory;
}

void envoy_rules_build(struct reader *reader, struct config_envoy *to, struct envoy_files *all)
{
    struct build build = {.reader = reader};
    struct envoy_file **first = config_scratch(reader, (all->n + 1) * sizeof(struct envoy_file *));

    if (reader->no_memory || !make_rules(reader, all, &build))
        return;
    gather_domains(reader, to, all, build.rules, first);
    for (size_t i = 0; i < build.rules->n_domains && !reader->no_memory; i++)
        build_domain(&build, first[i], &build.rules->domains[i]);
    for (size_t i = 0; i < all->n && !reader->no_memory; i++) {
        reader->current = all->list[i].document;
        warn_of_names(&build, all->list[i].rules, all->list[i].n_rules);
    }
    to->rules = build.rules;
}
