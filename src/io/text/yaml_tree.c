/* yaml_tree.c - a YAML document as a tree, with line and column of everything in it.
 *
 * Built from libyaml's events rather than with its own document, because that one resolves aliases
 * (a few lines can then stand for millions of nodes), knows no bound and does not say that a key
 * came twice. The walk keeps its own stack, so a deep document costs no C stack.
 *
 * Duplicate keys are found by sorting the keys of a map when it ends: n log n, and no table that a
 * file could be written against.
 */
#include "io/text/yaml_tree.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <yaml.h>

#define NO_TAG                                                                                     \
    "a tag (!) or alias (*) is not allowed; put quotes around a text that begins with ! or *"
#define TOO_DEEP "maps and lists are nested too deep; 32 levels are allowed"

struct builder {
    struct arena *arena;
    yaml_report *report;
    void *context;
    struct yaml_node *root;
    struct yaml_node *open[YAML_TREE_DEPTH_MAX]; /* maps and lists that have not ended */
    struct yaml_node *keys[YAML_TREE_DEPTH_MAX]; /* for an open map: a key that waits for a value */
    size_t depth;
    size_t nodes;
    bool aliases;           /* are read */
    struct anchor *anchors; /* the newest first */
    size_t n_anchors;
};

struct anchor {
    const char *name;
    const struct yaml_node *node;
    struct anchor *before;
};

__attribute__((format(printf, 4, 5))) static bool yaml_tree_wrong(struct builder *builder,
                                                                  size_t line, size_t column,
                                                                  const char *format, ...)
{
    char text[240];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    builder->report(builder->context, line, column, text);
    return false;
}

static bool wrong_at(struct builder *builder, const yaml_event_t *event, const char *text)
{
    return yaml_tree_wrong(builder, event->start_mark.line + 1, event->start_mark.column + 1, "%s",
                           text);
}

static struct yaml_node *node_new(struct builder *builder, enum yaml_kind kind,
                                  const yaml_event_t *event)
{
    struct yaml_node *node;

    if (++builder->nodes > YAML_TREE_NODES_MAX) {
        wrong_at(builder, event, "the file has too many values; at most 1048576 are read");
        return NULL;
    }
    node = arena_alloc(builder->arena, sizeof *node);
    if (node == NULL) {
        wrong_at(builder, event, "there is no memory for the file");
        return NULL;
    }
    node->kind = kind;
    node->line = event->start_mark.line + 1;
    node->column = event->start_mark.column + 1;
    return node;
}

/* Puts a node where it belongs: the root, an item, a key, or the value of the key before it. */
static bool place(struct builder *builder, struct yaml_node *node)
{
    struct yaml_node *parent = builder->depth > 0 ? builder->open[builder->depth - 1] : NULL;

    if (parent == NULL) {
        builder->root = node;
        return true;
    }
    if (parent->kind == YAML_MAP) {
        struct yaml_node **key = &builder->keys[builder->depth - 1];
        if (*key == NULL) {
            if (node->kind != YAML_TEXT)
                return yaml_tree_wrong(
                    builder, node->line, node->column,
                    "a list or map is in the place of a key; a key must be a plain word");
            *key = node;
            return true;
        }
        node->key = *key;
        *key = NULL;
    }
    if (parent->last != NULL)
        parent->last->next = node;
    else
        parent->first = node;
    parent->last = node;
    parent->n++;
    return true;
}

/* ---- anchors ---- */

static bool add_anchor(struct builder *builder, const yaml_event_t *event, const yaml_char_t *name,
                       const struct yaml_node *node)
{
    struct anchor *anchor = NULL;

    if (name == NULL)
        return true;
    if (++builder->n_anchors > YAML_TREE_ANCHORS_MAX)
        return wrong_at(builder, event, "the file has too many anchors (&); at most 1000 are read");
    anchor = arena_alloc(builder->arena, sizeof *anchor);
    if (anchor != NULL)
        anchor->name = arena_text(builder->arena, (const char *)name, strlen((const char *)name));
    if (anchor == NULL || anchor->name == NULL)
        return wrong_at(builder, event, "there is no memory for the file");
    anchor->node = node;
    anchor->before = builder->anchors;
    builder->anchors = anchor;
    return true;
}

/* Recursion ends: what is copied is a tree, and `depth` is bounded. */
static struct yaml_node *copy_node(struct builder *builder, const yaml_event_t *event,
                                   const struct yaml_node *from, size_t depth)
{
    struct yaml_node *to = node_new(builder, from->kind, event);

    if (to == NULL)
        return NULL;
    *to = *from;
    to->key = to->first = to->last = to->next = NULL;
    if (from->kind != YAML_TEXT && depth == YAML_TREE_DEPTH_MAX) {
        wrong_at(builder, event, TOO_DEEP);
        return NULL;
    }
    for (const struct yaml_node *child = from->first; child != NULL; child = child->next) {
        struct yaml_node *copy = copy_node(builder, event, child, depth + 1);
        if (copy == NULL)
            return NULL;
        copy->key = child->key; /* a key is never changed */
        if (to->last != NULL)
            to->last->next = copy;
        else
            to->first = copy;
        to->last = copy;
    }
    return to;
}

static bool is_open(const struct builder *builder, const struct yaml_node *node)
{
    for (size_t i = 0; i < builder->depth; i++)
        if (builder->open[i] == node)
            return true;
    return false;
}

static bool add_alias(struct builder *builder, const yaml_event_t *event)
{
    const char *name = (const char *)event->data.alias.anchor;
    const struct anchor *anchor = builder->anchors;

    if (!builder->aliases)
        return wrong_at(builder, event, NO_TAG);
    while (anchor != NULL && strcmp(anchor->name, name) != 0)
        anchor = anchor->before;
    if (anchor == NULL)
        return yaml_tree_wrong(
            builder, event->start_mark.line + 1, event->start_mark.column + 1,
            "there is no anchor &%.60s before this alias; put quotes around a text that "
            "begins with *",
            name);
    if (is_open(builder, anchor->node))
        return wrong_at(builder, event, "an alias (*) is part of what it refers to");
    struct yaml_node *copy = copy_node(builder, event, anchor->node, builder->depth);
    return copy != NULL && place(builder, copy);
}

/* ---- nodes ---- */

static bool add_text(struct builder *builder, const yaml_event_t *event)
{
    struct yaml_node *node = node_new(builder, YAML_TEXT, event);
    const char *value = (const char *)event->data.scalar.value;

    if (node == NULL)
        return false;
    if (memchr(value, '\0', event->data.scalar.length) != NULL)
        return wrong_at(builder, event, "a text holds a zero character, which is not allowed");
    node->quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    node->bytes = event->data.scalar.length;
    node->text = arena_text(builder->arena, value, node->bytes);
    node->written = node->text;
    if (node->text == NULL)
        return wrong_at(builder, event, "there is no memory for the file");
    return add_anchor(builder, event, event->data.scalar.anchor, node) && place(builder, node);
}

static bool yaml_tree_begin(struct builder *builder, enum yaml_kind kind, const yaml_event_t *event,
                            const yaml_char_t *anchor)
{
    struct yaml_node *node = node_new(builder, kind, event);

    if (node == NULL || !add_anchor(builder, event, anchor, node) || !place(builder, node))
        return false;
    if (builder->depth == YAML_TREE_DEPTH_MAX)
        return wrong_at(builder, event, TOO_DEEP);
    builder->open[builder->depth] = node;
    builder->keys[builder->depth] = NULL;
    builder->depth++;
    return true;
}

/* By key, and those of one key in the order of the file. */
static int compare_children(const void *a, const void *b)
{
    const struct yaml_node *left = *(struct yaml_node *const *)a;
    const struct yaml_node *right = *(struct yaml_node *const *)b;
    int order = strcmp(left->key->text, right->key->text);

    if (order != 0)
        return order;
    if (left->key->line != right->key->line)
        return left->key->line < right->key->line ? -1 : 1;
    return left->key->column < right->key->column ? -1 : left->key->column > right->key->column;
}

static void unlink_child(struct yaml_node *map, const struct yaml_node *child)
{
    struct yaml_node **at = &map->first;
    struct yaml_node *before = NULL;

    while (*at != child) {
        before = *at;
        at = &before->next;
    }
    *at = child->next;
    if (map->last == child)
        map->last = before;
    map->n--;
}

enum { DUPLICATES_MAX = 100 };

/* Each duplicate is unlinked by a walk from the front: the bound on them is one on time, too. */
static bool drop_duplicates(struct builder *builder, struct yaml_node *map,
                            struct yaml_node **sorted)
{
    size_t n = map->n, duplicates = 0;
    const struct yaml_node *kept = sorted[0];

    for (size_t i = 1; i < n; i++) {
        if (strcmp(sorted[i]->key->text, kept->key->text) != 0) {
            kept = sorted[i];
            continue;
        }
        const struct yaml_node *key = sorted[i]->key;
        yaml_tree_wrong(builder, key->line, key->column,
                        "the key \"%.60s\" is given twice, first in line %zu; once is allowed",
                        key->text, kept->key->line);
        if (++duplicates == DUPLICATES_MAX)
            return yaml_tree_wrong(builder, key->line, key->column,
                                   "too many keys are given twice");
        unlink_child(map, sorted[i]);
    }
    return true;
}

static bool check_keys(struct builder *builder, struct yaml_node *map)
{
    struct yaml_node **sorted;
    size_t i = 0;
    bool good;

    if (map->n < 2)
        return true;
    sorted = malloc(map->n * sizeof *sorted);
    if (sorted == NULL)
        return yaml_tree_wrong(builder, map->line, map->column, "there is no memory for the file");
    for (struct yaml_node *child = map->first; child != NULL; child = child->next)
        sorted[i++] = child;
    qsort(sorted, map->n, sizeof *sorted, compare_children);
    good = drop_duplicates(builder, map, sorted);
    free(sorted);
    return good;
}

static bool yaml_tree_end(struct builder *builder)
{
    struct yaml_node *node = builder->open[--builder->depth];

    return node->kind != YAML_MAP || check_keys(builder, node);
}

/* Unless aliases are read, an anchor is refused where it stands, so that none can follow. The other
 * thing that begins with `!` or `*` here is a pattern whose quotes were forgotten, and the text
 * says so. */
static bool refuse_extras(struct builder *builder, const yaml_event_t *event,
                          const yaml_char_t *anchor, const yaml_char_t *tag)
{
    if (anchor != NULL && !builder->aliases)
        return wrong_at(builder, event,
                        "an anchor (&) is not allowed; write the value where it is needed");
    if (tag != NULL)
        return wrong_at(builder, event, NO_TAG);
    return true;
}

static bool yaml_tree_take(struct builder *builder, const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_ALIAS_EVENT:
        return add_alias(builder, event);
    case YAML_SCALAR_EVENT:
        return refuse_extras(builder, event, event->data.scalar.anchor, event->data.scalar.tag) &&
               add_text(builder, event);
    case YAML_SEQUENCE_START_EVENT:
        return refuse_extras(builder, event, event->data.sequence_start.anchor,
                             event->data.sequence_start.tag) &&
               yaml_tree_begin(builder, YAML_LIST, event, event->data.sequence_start.anchor);
    case YAML_MAPPING_START_EVENT:
        return refuse_extras(builder, event, event->data.mapping_start.anchor,
                             event->data.mapping_start.tag) &&
               yaml_tree_begin(builder, YAML_MAP, event, event->data.mapping_start.anchor);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        return yaml_tree_end(builder);
    case YAML_DOCUMENT_START_EVENT:
        if (builder->root != NULL)
            return wrong_at(builder, event, "a second document begins; one is allowed in a file");
        return true;
    default:
        return true;
    }
}

/* Where byte `offset` is, for errors that know nothing else. */
static void find_place(const char *text, size_t bytes, size_t offset, size_t *line, size_t *column)
{
    *line = *column = 1;
    for (size_t i = 0; i < offset && i < bytes; i++) {
        if (text[i] == '\n') {
            ++*line;
            *column = 1;
        } else if (((unsigned char)text[i] & 0xc0) != 0x80) {
            ++*column;
        }
    }
}

static bool malformed(struct builder *builder, const yaml_parser_t *parser, const char *text,
                      size_t bytes)
{
    const char *problem = parser->problem != NULL ? parser->problem : "unknown";
    size_t line = parser->problem_mark.line + 1, column = parser->problem_mark.column + 1;

    switch (parser->error) {
    case YAML_MEMORY_ERROR:
        return yaml_tree_wrong(builder, line, column, "there is no memory for the file");
    case YAML_READER_ERROR:
        find_place(text, bytes, parser->problem_offset, &line, &column);
        return yaml_tree_wrong(builder, line, column, "not a text: %s; UTF-8 is allowed", problem);
    default:
        /* Most likely a pattern such as !demo or *-large without its quotes. */
        if (parser->context != NULL && (strcmp(parser->context, "while scanning a tag") == 0 ||
                                        strcmp(parser->context, "while scanning an alias") == 0))
            return yaml_tree_wrong(builder, parser->context_mark.line + 1,
                                   parser->context_mark.column + 1, NO_TAG);
        return yaml_tree_wrong(builder, line, column, "not YAML: %s%s%s%s", problem,
                               parser->context != NULL ? " (" : "",
                               parser->context != NULL ? parser->context : "",
                               parser->context != NULL ? ")" : "");
    }
}

static bool yaml_tree_run(struct builder *builder, yaml_parser_t *parser, const char *text,
                          size_t bytes)
{
    bool more = true, good = true;

    while (more && good) {
        yaml_event_t event;
        if (yaml_parser_parse(parser, &event) == 0)
            return malformed(builder, parser, text, bytes);
        good = yaml_tree_take(builder, &event);
        more = event.type != YAML_STREAM_END_EVENT;
        yaml_event_delete(&event);
    }
    return good;
}

static bool make_empty(struct builder *builder)
{
    builder->root = arena_alloc(builder->arena, sizeof *builder->root);
    if (builder->root == NULL)
        return yaml_tree_wrong(builder, 1, 1, "there is no memory for the file");
    *builder->root =
        (struct yaml_node){.kind = YAML_TEXT, .line = 1, .column = 1, .text = "", .written = ""};
    return true;
}

static bool build(struct builder *builder, const char *text, size_t bytes, struct yaml_node **root)
{
    yaml_parser_t parser;
    bool good;

    if (bytes > YAML_TREE_BYTES_MAX)
        return yaml_tree_wrong(builder, 1, 1, "the file has %zu bytes; at most 16 MiB are read",
                               bytes);
    if (yaml_parser_initialize(&parser) == 0)
        return yaml_tree_wrong(builder, 1, 1, "there is no memory for the file");
    /* Otherwise a file could choose UTF-16 by its first bytes. */
    yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, bytes);
    good = yaml_tree_run(builder, &parser, text, bytes);
    yaml_parser_delete(&parser);
    if (good && builder->root == NULL)
        good = make_empty(builder);
    if (good)
        *root = builder->root;
    return good;
}

bool yaml_tree_read(struct arena *arena, const char *text, size_t bytes, yaml_report *report,
                    void *context, struct yaml_node **root)
{
    struct builder builder = {.arena = arena, .report = report, .context = context};

    return build(&builder, text, bytes, root);
}

bool yaml_tree_read_aliases(struct arena *arena, const char *text, size_t bytes,
                            yaml_report *report, void *context, struct yaml_node **root)
{
    struct builder builder = {
        .arena = arena, .report = report, .context = context, .aliases = true};

    return build(&builder, text, bytes, root);
}

struct yaml_node *yaml_tree_get(const struct yaml_node *map, const char *name)
{
    if (map == NULL || map->kind != YAML_MAP)
        return NULL;
    for (struct yaml_node *child = map->first; child != NULL; child = child->next)
        if (strcmp(child->key->text, name) == 0)
            return child;
    return NULL;
}
