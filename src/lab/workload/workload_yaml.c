/* workload_yaml.c - reading the fields of a YAML map. See workload_yaml.h. */
#include "lab/workload/workload_yaml.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/text/shown.h"

#define NUMBER_MAX 9007199254740991.0

bool yaml_wrong(struct yaml_problem *problem, const struct yaml_node *at, const char *format, ...)
{
    va_list args;

    problem->line = at != NULL ? at->line : 0;
    problem->column = at != NULL ? at->column : 0;
    va_start(args, format);
    vsnprintf(problem->text, sizeof problem->text, format, args);
    va_end(args);
    return false;
}

static const char *kind_name(const struct yaml_node *node)
{
    return node->kind == YAML_MAP ? "a map" : node->kind == YAML_LIST ? "a list" : "a text";
}

/* ---- Values ---------------------------------------------------------------------------------- */

bool yaml_read_real(const struct yaml_node *node, double *value)
{
    char *end;

    /* strtod() takes words like "infinity" and numbers in base 16: neither is one here. */
    if (node->kind != YAML_TEXT || node->bytes == 0 ||
        strspn(node->text, "+-.0123456789eE") != node->bytes)
        return false;
    double found = strtod(node->text, &end);
    if (*end != '\0' || !isfinite(found))
        return false;
    *value = found;
    return true;
}

static void say_range(const struct yaml_field *field, char *text, size_t size)
{
    if (field->any)
        text[0] = '\0';
    else if (field->high > field->low)
        snprintf(text, size, " %s %g to %g", field->above ? "above" : "from", field->low,
                 field->high);
    else
        snprintf(text, size, " %s", field->above ? "above 0" : "from 0 on");
}

static bool workload_yaml_in_range(const struct yaml_field *field, double value)
{
    if (field->any)
        return fabs(value) <= NUMBER_MAX;
    double high = field->high > field->low ? field->high : NUMBER_MAX;
    return value <= high && (field->above ? value > field->low : value >= field->low);
}

static bool workload_yaml_read_number(const struct yaml_field *field, const struct yaml_node *node,
                                      struct yaml_problem *problem)
{
    bool whole = field->kind == YAML_FIELD_WHOLE;
    char range[64];
    double value;

    if (yaml_read_real(node, &value) && workload_yaml_in_range(field, value) &&
        (!whole || value == floor(value))) {
        if (whole)
            *(int64_t *)field->to = (int64_t)value;
        else
            *(double *)field->to = value;
        return true;
    }
    say_range(field, range, sizeof range);
    return yaml_wrong(
        problem, node, "'%s' is %s%s%s; it must be a %s%s", field->name,
        node->kind == YAML_TEXT ? "'" : "",
        node->kind == YAML_TEXT ? shown_of(node->text, node->bytes).text : kind_name(node),
        node->kind == YAML_TEXT ? "'" : "", whole ? "whole number" : "finite number", range);
}

static bool read_bool(const struct yaml_field *field, const struct yaml_node *node,
                      struct yaml_problem *problem)
{
    bool yes = node->kind == YAML_TEXT && strcmp(node->text, "true") == 0;

    if (!yes && (node->kind != YAML_TEXT || strcmp(node->text, "false") != 0))
        return yaml_wrong(problem, node, "'%s' must be true or false", field->name);
    *(bool *)field->to = yes;
    return true;
}

static bool workload_yaml_read_text(const struct yaml_field *field, const struct yaml_node *node,
                                    struct yaml_problem *problem)
{
    if (node->kind != YAML_TEXT)
        return yaml_wrong(problem, node, "'%s' must be a text, not %s", field->name,
                          kind_name(node));
    *(const char **)field->to = node->text;
    return true;
}

static bool workload_yaml_read_value(const struct yaml_field *field, const struct yaml_node *node,
                                     struct yaml_problem *problem)
{
    switch (field->kind) {
    case YAML_FIELD_TEXT:
        return workload_yaml_read_text(field, node, problem);
    case YAML_FIELD_REAL:
    case YAML_FIELD_WHOLE:
        return workload_yaml_read_number(field, node, problem);
    case YAML_FIELD_BOOL:
        return read_bool(field, node, problem);
    case YAML_FIELD_NODE:
        *(const struct yaml_node **)field->to = node;
        return true;
    case YAML_FIELD_NOT:
        break;
    }
    return yaml_wrong(problem, node, "'%s': %s", field->name, (const char *)field->to);
}

bool yaml_read_word(const struct yaml_node *node, const char *what, const char *const *words,
                    size_t n, int *found, struct yaml_problem *problem)
{
    char list[256] = "";
    size_t used = 0;

    for (size_t i = 0; i < n; i++) {
        if (node->kind == YAML_TEXT && strcmp(node->text, words[i]) == 0) {
            *found = (int)i;
            return true;
        }
        if (used < sizeof list)
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i > 0 ? ", " : "",
                                     words[i]);
    }
    return yaml_wrong(problem, node, "there is no %s %s%s%s; there are %s", what,
                      node->kind == YAML_TEXT ? "'" : "like ",
                      node->kind == YAML_TEXT ? shown_of(node->text, node->bytes).text
                                              : kind_name(node),
                      node->kind == YAML_TEXT ? "'" : "", list);
}

/* ---- Maps ------------------------------------------------------------------------------------ */

static const struct yaml_field *workload_yaml_find_field(const struct yaml_node *key,
                                                         const struct yaml_field *fields, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(fields[i].name, key->text) == 0)
            return &fields[i];
    return NULL;
}

static bool unknown_key(const struct yaml_node *key, const char *what,
                        const struct yaml_field *fields, size_t n, struct yaml_problem *problem)
{
    char list[320] = "";
    size_t used = 0;

    for (size_t i = 0; i < n; i++)
        if (fields[i].kind != YAML_FIELD_NOT && used < sizeof list)
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", used > 0 ? ", " : "",
                                     fields[i].name);
    return yaml_wrong(problem, key, "%s has no '%s'; it has %s", what,
                      shown_of(key->text, key->bytes).text, list);
}

bool yaml_fields_read(const struct yaml_node *map, const char *what,
                      const struct yaml_field *fields, size_t n, struct yaml_problem *problem)
{
    if (map->kind != YAML_MAP)
        return yaml_wrong(problem, map, "%s must be a map of names and values, not %s", what,
                          kind_name(map));
    for (size_t i = 0; i < n; i++)
        if (fields[i].given != NULL)
            *fields[i].given = false;
    for (const struct yaml_node *node = map->first; node != NULL; node = node->next) {
        const struct yaml_field *field = workload_yaml_find_field(node->key, fields, n);
        if (field == NULL)
            return unknown_key(node->key, what, fields, n, problem);
        if (!workload_yaml_read_value(field, node, problem))
            return false;
        if (field->given != NULL)
            *field->given = true;
    }
    for (size_t i = 0; i < n; i++)
        if (fields[i].required && yaml_tree_get(map, fields[i].name) == NULL)
            return yaml_wrong(problem, map, "%s needs '%s'", what, fields[i].name);
    return true;
}

/* ---- Documents ------------------------------------------------------------------------------- */

static void note_first(void *context, size_t line, size_t column, const char *text)
{
    struct yaml_problem *problem = context;

    if (problem->text[0] != '\0')
        return;
    problem->line = line;
    problem->column = column;
    snprintf(problem->text, sizeof problem->text, "%s", text);
}

bool yaml_document_read(struct arena *arena, const char *text, size_t bytes,
                        struct yaml_node **root, struct yaml_problem *problem)
{
    problem->line = problem->column = 0;
    problem->text[0] = '\0';
    bool read = yaml_tree_read(arena, text, bytes, note_first, problem, root);
    if (!read && problem->text[0] == '\0')
        return yaml_wrong(problem, NULL, "cannot be read: out of memory");
    /* The tree only notes a name that is given twice; here it is an error. */
    return read && problem->text[0] == '\0';
}
