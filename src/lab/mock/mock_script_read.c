/* mock_script_read.c - a script out of YAML, with line and column of everything that is wrong.
 *
 * Everything that is wrong is reported, not just the first.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/mock/mock_script_internal.h"

/* ---- Conditions ------------------------------------------------------------------------------ */

/* "3", "1-2", "4-". */
static bool parse_nth(const char *text, struct mock_when *when)
{
    char first[24];
    size_t n = strcspn(text, "-");
    int64_t from, to;

    if (n >= sizeof first)
        return false;
    snprintf(first, sizeof first, "%.*s", (int)n, text);
    if (!script_count(first, INT64_MAX, &from) || from == 0)
        return false;
    if (text[n] == '\0')
        to = from;
    else if (text[n + 1] == '\0')
        to = INT64_MAX;
    else if (!script_count(text + n + 1, INT64_MAX, &to) || to < from)
        return false;
    when->nth = (uint64_t)from;
    when->nth_last = (uint64_t)to;
    return true;
}

static void read_condition(struct script_reading *reading, const struct yaml_node *node,
                           struct mock_when *when)
{
    const char *name = node->key->text;
    bool stream = false;

    if (strcmp(name, "path") == 0) {
        script_read_text(reading, node, &when->path);
    } else if (strcmp(name, "model") == 0) {
        script_read_text(reading, node, &when->model);
    } else if (strcmp(name, "key") == 0) {
        script_read_text(reading, node, &when->key);
    } else if (strcmp(name, "stream") == 0) {
        script_read_bool(reading, node, &stream);
        when->stream = stream;
    } else if (strcmp(name, "nth") == 0) {
        if (!parse_nth(script_text_of(node), when))
            script_say(reading, node, "nth must be such as 3, 1-2 or 4-, counted from 1");
    } else if (strcmp(name, "chance") == 0) {
        if (!script_real(script_text_of(node), 1, &when->chance))
            script_say(reading, node, "chance must be from 0 to 1");
    } else {
        script_say(reading, node->key,
                   "'%s' is not a condition; there are path, model, key, stream, nth, chance",
                   name);
    }
}

static void read_when(struct script_reading *reading, const struct yaml_node *node,
                      struct mock_when *when)
{
    if (node->kind != YAML_MAP) {
        script_say(reading, node, "when must be a map of conditions");
        return;
    }
    for (const struct yaml_node *child = node->first; child != NULL; child = child->next)
        read_condition(reading, child, when);
}

/* ---- The whole ------------------------------------------------------------------------------- */

static void read_rule(struct script_reading *reading, const struct yaml_node *node,
                      struct mock_rule *rule)
{
    rule->when = (struct mock_when){.stream = -1, .chance = 1};
    rule->action = reading->script->otherwise;
    atomic_init(&rule->reached, 0);
    if (node->kind != YAML_MAP) {
        script_say(reading, node, "a rule must be a map of when and do");
        return;
    }
    for (const struct yaml_node *child = node->first; child != NULL; child = child->next) {
        if (strcmp(child->key->text, "when") == 0)
            read_when(reading, child, &rule->when);
        else if (strcmp(child->key->text, "do") == 0)
            script_read_action(reading, child, &rule->action);
        else
            script_say(reading, child->key, "'%s' is not part of a rule; there are when and do",
                       child->key->text);
    }
    if ((rule->action.early || rule->action.read_pause_ms > 0) &&
        (rule->when.model != NULL || rule->when.stream >= 0))
        script_say(
            reading, node,
            "early and read_pause come before the body is known: such a rule cannot ask for model "
            "or stream");
}

static void read_rules(struct script_reading *reading, const struct yaml_node *node)
{
    struct mock_script *script = reading->script;

    if (node->kind != YAML_LIST) {
        script_say(reading, node, "rules must be a list");
        return;
    }
    script->rules = arena_alloc(script->arena, (node->n + 1) * sizeof *script->rules);
    if (script->rules == NULL) {
        script_say(reading, node, "there is no memory");
        return;
    }
    for (const struct yaml_node *child = node->first; child != NULL; child = child->next)
        read_rule(reading, child, &script->rules[script->n_rules++]);
}

static void read_root(struct script_reading *reading, const struct yaml_node *root)
{
    const struct yaml_node *otherwise = yaml_tree_get(root, "default");
    int64_t seed = (int64_t)reading->script->seed;

    if (root->kind != YAML_MAP && root->bytes == 0)
        return; /* an empty file is a script without rules */
    if (root->kind != YAML_MAP) {
        script_say(reading, root, "a script must be a map of seed, default and rules");
        return;
    }
    if (otherwise != NULL) /* first: every rule begins with it */
        script_read_action(reading, otherwise, &reading->script->otherwise);
    for (const struct yaml_node *child = root->first; child != NULL; child = child->next) {
        const char *name = child->key->text;
        if (strcmp(name, "seed") == 0)
            script_read_count(reading, child, INT64_MAX, &seed);
        else if (strcmp(name, "rules") == 0)
            read_rules(reading, child);
        else if (strcmp(name, "default") != 0)
            script_say(reading, child->key,
                       "'%s' is not part of a script; there are seed, default, rules", name);
    }
    reading->script->seed = (uint64_t)seed;
}

void mock_base_init(struct mock_base *base)
{
    *base = (struct mock_base){
        .action = {
            .tokens = 16, .retry_after_ms = -1, .retry_after_s = -1, .retry_after_date_ms = -1}};
}

static struct mock_script *script_new(const struct mock_base *base)
{
    struct mock_script *script = calloc(1, sizeof *script);

    if (script == NULL)
        return NULL;
    script->otherwise = base->action;
    script->seed = base->seed;
    script->arena = arena_new();
    if (script->arena != NULL)
        return script;
    free(script);
    return NULL;
}

void mock_script_free(struct mock_script *script)
{
    if (script == NULL)
        return;
    arena_free(script->arena);
    free(script);
}

static void note_wrong(void *context, size_t line, size_t column, const char *text)
{
    struct script_reading *reading = context;

    reading->wrong = true;
    reading->report(reading->context, line, column, text);
}

struct mock_script *mock_script_read(const struct mock_base *base, const char *text, size_t n,
                                     mock_script_report *report, void *context)
{
    struct script_reading reading = {script_new(base), report, context, false};
    struct yaml_node *root = NULL;

    if (reading.script == NULL) {
        report(context, 1, 1, "there is no memory");
        return NULL;
    }
    if (yaml_tree_read(reading.script->arena, text, n, note_wrong, &reading, &root))
        read_root(&reading, root);
    if (!reading.wrong)
        return reading.script;
    mock_script_free(reading.script);
    return NULL;
}
