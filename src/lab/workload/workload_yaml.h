/* workload_yaml.h - reading the fields of a YAML map: known names, right types, in range.
 *
 *     double rate = 0;
 *     const struct yaml_field fields[] = {
 *         {.name = "aggregate_rate", .kind = YAML_FIELD_REAL, .to = &rate, .above = true},
 *     };
 *     if (!yaml_fields_read(map, "a workload", fields, 1, &problem))
 *         ... problem.line, problem.column, problem.text
 *
 * The files of the simulator are small and written by hand: the first thing that is wrong is told
 * with its place, and nothing is guessed. A name that nobody knows is an error, because it may be
 * one that somebody misspelt.
 */
#ifndef TG_WORKLOAD_WORKLOAD_YAML_H
#define TG_WORKLOAD_WORKLOAD_YAML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "io/text/yaml_tree.h"

enum yaml_field_kind {
    YAML_FIELD_TEXT,  /* to a const char *, within the tree */
    YAML_FIELD_REAL,  /* to a double */
    YAML_FIELD_WHOLE, /* to an int64_t */
    YAML_FIELD_BOOL,  /* to a bool */
    YAML_FIELD_NODE,  /* to a const struct yaml_node *: whatever stands there */
    YAML_FIELD_NOT,   /* `to` is a const char *: why it is not taken */
};

struct yaml_field {
    const char *name;
    enum yaml_field_kind kind;
    void *to;         /* untouched where the field is not given */
    double low, high; /* bounds of a number; both 0: 0 or more */
    bool above;       /* it must be above `low`, not equal */
    bool any;         /* any finite number */
    bool required;
    bool *given; /* may be null */
};

/* Rows of a table of fields. */
#define YAML_TEXT_AT(name, to)                                                                     \
    {                                                                                              \
        name, YAML_FIELD_TEXT, to, 0, 0, false, false, false, NULL                                 \
    }
#define YAML_NODE_AT(name, to)                                                                     \
    {                                                                                              \
        name, YAML_FIELD_NODE, to, 0, 0, false, false, false, NULL                                 \
    }
#define YAML_BOOL_AT(name, to)                                                                     \
    {                                                                                              \
        name, YAML_FIELD_BOOL, to, 0, 0, false, false, false, NULL                                 \
    }
#define YAML_REAL_AT(name, to, low, high)                                                          \
    {                                                                                              \
        name, YAML_FIELD_REAL, to, low, high, false, false, false, NULL                            \
    }
#define YAML_ABOVE_AT(name, to, low, high)                                                         \
    {                                                                                              \
        name, YAML_FIELD_REAL, to, low, high, true, false, false, NULL                             \
    }
#define YAML_WHOLE_AT(name, to, low, high)                                                         \
    {                                                                                              \
        name, YAML_FIELD_WHOLE, to, low, high, false, false, false, NULL                           \
    }
#define YAML_NOT_TAKEN(name, why)                                                                  \
    {                                                                                              \
        name, YAML_FIELD_NOT, (void *)(why), 0, 0, false, false, false, NULL                       \
    }

/* The same, and they must be there. */
#define YAML_NEED_NODE(name, to)                                                                   \
    {                                                                                              \
        name, YAML_FIELD_NODE, to, 0, 0, false, false, true, NULL                                  \
    }
#define YAML_NEED_ANY(name, to)                                                                    \
    {                                                                                              \
        name, YAML_FIELD_REAL, to, 0, 0, false, true, true, NULL                                   \
    }
#define YAML_NEED_REAL(name, to, low, high)                                                        \
    {                                                                                              \
        name, YAML_FIELD_REAL, to, low, high, false, false, true, NULL                             \
    }
#define YAML_NEED_ABOVE(name, to, low, high)                                                       \
    {                                                                                              \
        name, YAML_FIELD_REAL, to, low, high, true, false, true, NULL                              \
    }
#define YAML_NEED_WHOLE(name, to, low, high)                                                       \
    {                                                                                              \
        name, YAML_FIELD_WHOLE, to, low, high, false, false, true, NULL                            \
    }

/* What is wrong, and where. */
struct yaml_problem {
    size_t line, column; /* from 1; 0: of the file as a whole */
    char text[400];
};

/* Notes a problem and returns false. */
bool yaml_wrong(struct yaml_problem *problem, const struct yaml_node *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* `what` is what the map is, for messages: "a client". */
bool yaml_fields_read(const struct yaml_node *map, const char *what,
                      const struct yaml_field *fields, size_t n, struct yaml_problem *problem);

/* A number that stands alone. */
bool yaml_read_real(const struct yaml_node *node, double *value);

/* Which of `n` words a text is. */
bool yaml_read_word(const struct yaml_node *node, const char *what, const char *const *words,
                    size_t n, int *found, struct yaml_problem *problem);

/* Reads a whole document. False with a problem, and no tree, if it has not even the form. */
bool yaml_document_read(struct arena *arena, const char *text, size_t bytes,
                        struct yaml_node **root, struct yaml_problem *problem);

#endif
