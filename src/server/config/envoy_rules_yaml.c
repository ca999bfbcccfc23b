/* envoy_rules_yaml.c - files of rules as their own server reads them: YAML 1.1, with its merges.
 *
 * The reader of the configuration takes one word for each thing, and says so. Files of rules were
 * written for envoyproxy/ratelimit, whose reader knows more of them: `yes` for true, 1_000 for a
 * number, nothing at all for what is not given, and a map that takes over another one's keys. They
 * are put into the one form here, before anything else reads them, so that tables, messages and
 * places are the same for both. What is in no form is left as it is, for the reader to complain of.
 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "server/config/envoy_rules_internal.h"

/* Merging searches for each key in turn: the bounds are ones on time. A rule has ten keys. */
enum { MERGED_KEYS_MAX = 64, MERGED_MAPS_MAX = 16 };

static bool is_one_of(const char *word, const char *const *words)
{
    while (*words != NULL && strcmp(*words, word) != 0)
        words++;
    return *words != NULL;
}

/* ---- merges ---- */

static void envoy_rules_yaml_append(struct yaml_node *map, struct yaml_node *child)
{
    child->next = NULL;
    if (map->last != NULL)
        map->last->next = child;
    else
        map->first = child;
    map->last = child;
    map->n++;
}

static void merge(struct reader *reader, struct yaml_node *map);

/* What the map has itself goes before. The source is a copy, or stands nowhere else. What it takes
 * over itself is its own, and goes before what a later one has. */
static void merge_map(struct reader *reader, struct yaml_node *map, struct yaml_node *source)
{
    struct yaml_node *next;

    if (source->kind == YAML_MAP)
        merge(reader, source);
    if (source->kind != YAML_MAP || source->n > MERGED_KEYS_MAX) {
        config_error(reader, source, "<< is %s; it must be a map of at most %d keys",
                     source->kind == YAML_MAP ? "a larger map" : "no map", MERGED_KEYS_MAX);
        return;
    }
    for (struct yaml_node *child = source->first; child != NULL; child = next) {
        next = child->next;
        if (yaml_tree_get(map, child->key->text) == NULL)
            envoy_rules_yaml_append(map, child);
    }
}

static void unlink_child(struct yaml_node *map, const struct yaml_node *child)
{
    struct yaml_node **at = &map->first, *before = NULL;

    while (*at != child) {
        before = *at;
        at = &before->next;
    }
    *at = child->next;
    if (map->last == child)
        map->last = before;
    map->n--;
}

/* Recursion ends: what is taken over stands below, and a tree is YAML_TREE_DEPTH_MAX deep. */
static void merge(struct reader *reader, struct yaml_node *map)
{
    struct yaml_node *from = yaml_tree_get(map, "<<"), *next;

    if (from == NULL)
        return;
    unlink_child(map, from);
    if (from->kind != YAML_LIST) {
        merge_map(reader, map, from);
        return;
    }
    if (from->n > MERGED_MAPS_MAX) {
        config_error(reader, from, "<< has %zu maps; at most %d are allowed", from->n,
                     MERGED_MAPS_MAX);
        return;
    }
    for (struct yaml_node *item = from->first; item != NULL; item = next) {
        next = item->next;
        merge_map(reader, map, item);
    }
}

/* ---- words ---- */

static void set_text(struct reader *reader, struct yaml_node *node, const char *text)
{
    const char *kept = config_scratch_text(reader, text, strlen(text));

    if (kept != NULL) {
        node->text = kept;
        node->bytes = strlen(kept);
    }
}

static void plain_bool(struct reader *reader, struct yaml_node *node)
{
    static const char *const YES[] = {"true", "yes", "on", "y", NULL};
    static const char *const NO[] = {"false", "no", "off", "n", NULL};
    char word[8] = "";
    size_t capitals = 0;

    for (size_t i = 0; i < node->bytes && i + 1 < sizeof word; i++) {
        capitals += isupper((unsigned char)node->text[i]) != 0;
        word[i] = (char)tolower((unsigned char)node->text[i]);
    }
    /* `yes`, `Yes` and `YES`, and nothing between. */
    if (node->bytes >= sizeof word || (capitals > 1 && capitals != node->bytes) ||
        (capitals == 1 && !isupper((unsigned char)node->text[0])))
        return;
    if (is_one_of(word, YES))
        set_text(reader, node, "true");
    else if (is_one_of(word, NO))
        set_text(reader, node, "false");
}

/* +5, 1_000, 0x10, and 010, which is 8. */
static void plain_number(struct reader *reader, struct yaml_node *node)
{
    char digits[32], text[32], *end;
    size_t n = 0;

    for (size_t i = 0; i < node->bytes; i++) {
        if (node->text[i] == '_')
            continue;
        if (n + 1 == sizeof digits)
            return;
        digits[n++] = node->text[i];
    }
    digits[n] = '\0';
    if (!isdigit((unsigned char)digits[digits[0] == '+']))
        return;
    errno = 0;
    uintmax_t number = strtoumax(digits, &end, 0);
    if (errno != 0 || *end != '\0')
        return;
    snprintf(text, sizeof text, "%" PRIuMAX, number);
    set_text(reader, node, text);
}

static bool is_null(const struct yaml_node *node)
{
    static const char *const NOTHING[] = {"", "~", "null", "Null", "NULL", NULL};

    return node->kind == YAML_TEXT && !node->quoted && is_one_of(node->text, NOTHING);
}

/* ---- the tree ---- */

static void plain_value(struct reader *reader, struct yaml_node *node)
{
    static const char *const BOOLS[] = {
        "unlimited",       "shadow_mode",     "quota_mode", "share_threshold",
        "detailed_metric", "value_to_metric", NULL};

    if (node->kind != YAML_TEXT || node->quoted || node->key == NULL)
        return;
    if (is_one_of(node->key->text, BOOLS))
        plain_bool(reader, node);
    else if (strcmp(node->key->text, "requests_per_unit") == 0)
        plain_number(reader, node);
}

/* Recursion ends: a tree is YAML_TREE_DEPTH_MAX deep. */
void envoy_rules_normalize(struct reader *reader, struct yaml_node *node)
{
    struct yaml_node *next;

    if (node->kind == YAML_MAP)
        merge(reader, node);
    for (struct yaml_node *child = node->first; child != NULL; child = next) {
        next = child->next;
        if (node->kind == YAML_MAP && is_null(child)) {
            unlink_child(node, child);
            continue;
        }
        plain_value(reader, child);
        envoy_rules_normalize(reader, child);
    }
}
