/* envoy_rules_read.c - reads the rules of Envoy's rate limit service, with the configuration.
 *
 * The files are envoyproxy/ratelimit's, word for word: whoever moves here keeps them. They are read
 * by the reader of the configuration, by tables like its own, so that everything that is wrong is
 * said with file, line and column, and all of it at once. What their server accepts in silence
 * (a limit without a number, which refuses everything) is an error here; what has no meaning here
 * (names of metrics) is accepted.
 *
 * Here files become trees of rules; envoy_rules_build.c then makes tables of them. What YAML is, is
 * for envoy_rules_yaml.c to say.
 */
#define _DEFAULT_SOURCE /* scandir */

#include "server/config/config_schema_rows.h"
#include "server/config/envoy_rules_internal.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { FILES_MAX = 10000 };

/* ---- tables ---- */

static void finish_rule(struct reader *reader, const struct yaml_node *node, void *into);
static void finish_limit(struct reader *reader, const struct yaml_node *node, void *into);
static void finish_replaced(struct reader *reader, const struct yaml_node *node, void *into);

static const struct schema_key replaced_keys[] = {
    VALUE("name", SCHEMA_TEXT, true, NULL, NULL, AT(envoy_replaced, name), "of the limit"),
    END,
};

static const struct schema_section replaced = {replaced_keys, sizeof(struct envoy_replaced),
                                               NOWHERE, finish_replaced};

static const struct schema_key limit_keys[] = {
    VALUE("unit", SCHEMA_TEXT, false, NULL, NULL, AT(envoy_limit, unit_text), "of time"),
    COUNT("requests_per_unit", 0, 4294967295.0, NULL, AT(envoy_limit, requests_per_unit), "hits"),
    VALUE("unlimited", SCHEMA_BOOL, false, NULL, "false", AT(envoy_limit, unlimited),
          "instead of both"),
    VALUE("name", SCHEMA_TEXT, false, NULL, NULL, AT(envoy_limit, name), "of this limit"),
    SECTIONS("replaces", &replaced, AT(envoy_limit, replaces), AT(envoy_limit, n_replaces),
             "limits that do not hold beside it"),
    END,
};

static const struct schema_section rate_limit = {limit_keys, sizeof(struct envoy_limit),
                                                 AT(envoy_limit, present), finish_limit};

static const struct schema_section one_rule;

static const struct schema_key rule_keys[] = {
    VALUE("key", SCHEMA_TEXT, true, NULL, NULL, AT(envoy_rule, key), "of the entry"),
    VALUE("value", SCHEMA_TEXT, false, NULL, NULL, AT(envoy_rule, value), "of the entry"),
    SECTION("rate_limit", &rate_limit, AT(envoy_rule, limit), "what is allowed"),
    SECTIONS("descriptors", &one_rule, AT(envoy_rule, rules), AT(envoy_rule, n_rules), "below it"),
    VALUE("shadow_mode", SCHEMA_BOOL, false, NULL, "false", AT(envoy_rule, shadow), "count only"),
    VALUE("quota_mode", SCHEMA_BOOL, false, NULL, "false", AT(envoy_rule, quota), "count only"),
    VALUE("share_threshold", SCHEMA_BOOL, false, NULL, "false", AT(envoy_rule, share_threshold),
          "one count for all values"),
    VALUE("detailed_metric", SCHEMA_BOOL, false, NULL, "false", NOWHERE, "no meaning here"),
    VALUE("value_to_metric", SCHEMA_BOOL, false, NULL, "false", NOWHERE, "no meaning here"),
    END,
};

static const struct schema_section one_rule = {rule_keys, sizeof(struct envoy_rule), NOWHERE,
                                               finish_rule};

static const struct schema_key file_keys[] = {
    VALUE("domain", SCHEMA_TEXT, false, NULL, NULL, AT(envoy_file, domain), "whose rules"),
    SECTIONS("descriptors", &one_rule, AT(envoy_file, rules), AT(envoy_file, n_rules), "the rules"),
    END,
};

static const struct schema_section whole_file = {file_keys, sizeof(struct envoy_file), NOWHERE,
                                                 NULL};

/* ---- what several keys say together ---- */

static void finish_replaced(struct reader *reader, const struct yaml_node *node, void *into)
{
    const struct envoy_replaced *to = into;

    if (to->name != NULL && to->name[0] == '\0')
        config_error(reader, node, "%s.name is empty; it must be the name of a limit",
                     reader->path);
}

static void finish_unlimited(struct reader *reader, const struct yaml_node *node,
                             const struct envoy_limit *to)
{
    const struct yaml_node *number = yaml_tree_get(node, "requests_per_unit");

    if (envoy_is_given(to->unit_text))
        config_error(reader, yaml_tree_get(node, "unit"),
                     "%s.unit is given beside unlimited; one of them is allowed", reader->path);
    if (number != NULL)
        config_warning(reader, number, "%s.requests_per_unit has no meaning beside unlimited",
                       reader->path);
}

static void finish_unit(struct reader *reader, const struct yaml_node *node, struct envoy_limit *to)
{
    const struct yaml_node *unit = yaml_tree_get(node, "unit");

    if (unit == NULL) {
        config_error(reader, node, "%s: unit is missing; it must be given, or unlimited: true",
                     reader->path);
        return;
    }
    to->unit = to->unit_text != NULL ? envoy_unit_find(to->unit_text) : ENVOY_SECOND;
    if (to->unit == ENVOY_UNIT_NONE)
        config_error(reader, unit,
                     "%s.unit is \"%.40s\"; it must be second, minute, hour, day, week, month or "
                     "year",
                     reader->path, to->unit_text);
}

static void finish_limit(struct reader *reader, const struct yaml_node *node, void *into)
{
    struct envoy_limit *to = into;

    if (!envoy_is_given(to->name))
        to->name = NULL;
    for (size_t i = 0; i < to->n_replaces; i++)
        if (to->name != NULL && to->replaces[i].name != NULL &&
            strcmp(to->name, to->replaces[i].name) == 0)
            config_error(reader, yaml_tree_get(node, "replaces"),
                         "%s.replaces names its own limit; it must name another", reader->path);
    if (to->unlimited) {
        finish_unlimited(reader, node, to);
        return;
    }
    finish_unit(reader, node, to);
    if (yaml_tree_get(node, "requests_per_unit") == NULL)
        config_error(reader, node,
                     "%s: requests_per_unit is missing; it must be given, or unlimited: true",
                     reader->path);
}

static void finish_rule(struct reader *reader, const struct yaml_node *node, void *into)
{
    struct envoy_rule *to = into;

    to->node = node;
    if (to->key != NULL && to->key[0] == '\0')
        config_error(reader, yaml_tree_get(node, "key"),
                     "%s.key is empty; it must be the key of an entry", reader->path);
    if (!envoy_is_given(to->value))
        to->value = NULL;
    if (to->share_threshold && !envoy_has_star(to->value != NULL ? to->value : to->key))
        config_error(reader, yaml_tree_get(node, "share_threshold"),
                     "%s.share_threshold is for a value that ends with a star; this one %s",
                     reader->path, to->value != NULL ? "does not" : "has none");
    if (to->shadow && !to->limit.present)
        config_warning(reader, yaml_tree_get(node, "shadow_mode"),
                       "%s.shadow_mode has no effect without a rate_limit beside it; it is not "
                       "passed on to what is below",
                       reader->path);
}

/* ---- files ---- */

static void report(void *context, size_t line, size_t column, const char *text)
{
    config_error_at(context, line, column, text);
}

/* Nothing of the file is kept among the documents but its name: it is no part of the configuration
 * that its other readers would know. */
static void envoy_rules_read_text(struct reader *reader, const char *text, size_t bytes,
                                  struct envoy_file *file)
{
    struct yaml_node *root = NULL;

    file->document = reader->current;
    if (!yaml_tree_read_aliases(reader->scratch, text, bytes, report, reader, &root))
        return;
    envoy_rules_normalize(reader, root);
    file->node = root;
    config_set_defaults(reader, &whole_file, file);
    config_read_section(reader, &whole_file, root, file);
    const struct yaml_node *domain = yaml_tree_get(root, "domain");
    if (root->kind == YAML_MAP && (domain == NULL || (file->domain != NULL && !file->domain[0])))
        config_error(reader, domain != NULL ? domain : root,
                     "domain is %s; it must be the domain that Envoy's filter sends",
                     domain != NULL ? "empty" : "missing");
}

static void envoy_rules_read_file(struct reader *reader, const char *path, struct envoy_files *all)
{
    size_t bytes = 0;

    config_source_add(reader, CONFIG_SOURCE_RULES, path);
    char *text = config_read_whole(path, &bytes);
    int why = errno;
    if (!config_add_document(reader, path)) {
        free(text);
        return;
    }
    if (text == NULL) {
        config_error_at(reader, 0, 0,
                        why == EINVAL  ? "it is not a regular file"
                        : why == EFBIG ? "it is too large"
                                       : strerror(why));
        return;
    }
    config_digest_add(reader, text, bytes);
    envoy_rules_read_text(reader, text, bytes, &all->list[all->n++]);
    free(text);
}

/* What begins with a dot is a matter of the file system's, as with volumes of Kubernetes. */
static int is_shown(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static bool is_rules(const char *name)
{
    const char *dot = strrchr(name, '.');

    return dot != NULL && (strcmp(dot, ".yaml") == 0 || strcmp(dot, ".yml") == 0);
}

/* In the order of their names, whatever the language of the machine. */
static int by_bytes(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static void read_folder(struct reader *reader, const struct yaml_node *node, const char *folder,
                        struct envoy_files *all)
{
    struct dirent **found;
    size_t home = reader->current;
    int n = scandir(folder, &found, is_shown, by_bytes);
    int others = 0;

    if (n < 0) {
        config_error(reader, node, "the folder %.200s cannot be read: %s", folder, strerror(errno));
        return;
    }
    if (n > FILES_MAX)
        config_error(reader, node, "the folder %.200s has %d files; at most %d are read", folder, n,
                     FILES_MAX);
    all->list = config_scratch(reader, ((size_t)n + 1) * sizeof *all->list);
    for (int i = 0; i < n; i++) {
        char path[4096];
        int bytes = snprintf(path, sizeof path, "%s/%s", folder, found[i]->d_name);
        if (!is_rules(found[i]->d_name))
            others++;
        else if (all->list != NULL && n <= FILES_MAX && bytes > 0 && (size_t)bytes < sizeof path)
            envoy_rules_read_file(reader, path, all);
        free(found[i]);
    }
    free(found);
    reader->current = home;
    if (others == n)
        config_warning(reader, node, "the folder %.200s has no file that ends in .yaml or .yml",
                       folder);
    else if (others > 0)
        config_warning(reader, node,
                       "the folder %.200s has %d more files, which are not read: their names do "
                       "not end in .yaml or .yml",
                       folder, others);
}

static void envoy_rules_read_all(struct reader *reader, const struct yaml_node *node,
                                 struct config_envoy *to)
{
    struct envoy_files all = {0};
    struct stat about;

    if (stat(to->path, &about) == 0 && S_ISDIR(about.st_mode)) {
        read_folder(reader, node, to->path, &all);
    } else {
        all.list = config_scratch(reader, sizeof *all.list);
        if (all.list != NULL)
            envoy_rules_read_file(reader, to->path, &all);
    }
    if (!reader->no_memory)
        envoy_rules_build(reader, to, &all);
}

void config_finish_envoy(struct reader *reader, const struct yaml_node *node, void *into)
{
    const struct yaml_node *path = yaml_tree_get(node, "config");
    struct config_envoy *to = into;
    size_t home = reader->current, bytes = reader->path_bytes;
    char above[sizeof reader->path];

    /* What is not there has been warned about; where no files are read, there are none. */
    if (path == NULL || path->unknown || to->path == NULL ||
        reader->documents[home].folder == NULL || !config_file_readable(reader, path->text))
        return;
    memcpy(above, reader->path, sizeof above);
    config_path_pop(reader, 0);
    envoy_rules_read_all(reader, path, to);
    memcpy(reader->path, above, sizeof above);
    reader->path_bytes = bytes;
    reader->current = home;
}
