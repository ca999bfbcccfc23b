/* yaml_tree.h - a YAML document as a tree, with line and column of everything in it.
 *
 * A plain YAML: maps, lists and scalars, one document. Anchors, aliases and tags are refused, and
 * so are a key that is given twice and a key that is not a scalar. A scalar is what was written and
 * whether it was in quotes: whether `1` is a number and `no` a word is for the reader to say.
 *
 * Files that were written for another program may have anchors and aliases: then an alias is a copy
 * of what it stands for, and copies count as if they had been written.
 */
#ifndef TG_TEXT_YAML_TREE_H
#define TG_TEXT_YAML_TREE_H

#include <stdbool.h>
#include <stddef.h>

#include "io/text/yaml_arena.h"

#define YAML_TREE_BYTES_MAX ((size_t)16 << 20)
#define YAML_TREE_NODES_MAX ((size_t)1 << 20)
#define YAML_TREE_DEPTH_MAX 32
#define YAML_TREE_ANCHORS_MAX 1000

enum yaml_kind {
    YAML_TEXT,
    YAML_LIST,
    YAML_MAP,
};

struct yaml_node {
    enum yaml_kind kind;
    bool quoted;           /* text: in quotes, or a block; otherwise plain */
    bool unknown;          /* never set here: for an owner who puts values in place of names */
    size_t line, column;   /* from 1; columns are characters */
    const char *text;      /* text: UTF-8 with a 0 after it, and none in it; else null */
    const char *written;   /* text: as it stood in the file, where an owner changed `text` */
    size_t bytes;          /* length of text */
    size_t n;              /* list and map: how many children */
    struct yaml_node *key; /* in a map: the name of this child, a text; else null */
    struct yaml_node *first, *last;
    struct yaml_node *next; /* the next child of the same parent */
};

/* Called for each thing that is wrong. */
typedef void yaml_report(void *context, size_t line, size_t column, const char *text);

/* Reads the one document of `text`. An empty one gives an empty plain text. False if there is no
 * tree: malformed, too large, or no memory. After a duplicate key the tree goes on without it, and
 * the answer is true; `report` was called in either case. */
bool yaml_tree_read(struct arena *arena, const char *text, size_t bytes, yaml_report *report,
                    void *context, struct yaml_node **root);

/* The same, with anchors and aliases, up to YAML_TREE_ANCHORS_MAX of the former. */
bool yaml_tree_read_aliases(struct arena *arena, const char *text, size_t bytes,
                            yaml_report *report, void *context, struct yaml_node **root);

/* The child of that name; null if there is none, or `map` is null or no map. */
struct yaml_node *yaml_tree_get(const struct yaml_node *map, const char *name);

#endif
