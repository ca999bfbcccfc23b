/* fleet_merge.h - documents of one form, from several gateways, as one document of that form.
 *
 *     struct merge *merge = merge_new(rules);
 *     merge_add(merge, reader, text, "gw1")        each of them, in any order
 *     merge_add(merge, reader, text, "gw2")
 *     merge_write(merge, &out);
 *
 * Rules say of each member what it is for all together: added, the most, the worst. A member that
 * they do not know is passed over, and one that nobody had is left out, so documents of several
 * versions of the program merge. What is merged does not depend on the order in which documents
 * came, and one document alone comes out as it went in.
 *
 * Lists of rows are joined by their keys and cut when they are written, in an order of their own.
 */
#ifndef TG_FLEET_FLEET_MERGE_H
#define TG_FLEET_FLEET_MERGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "io/text/json_write.h"
#include "io/text/slice.h"

struct json_reader;
struct merge;
struct merge_node;

enum merge_how {
    MERGE_SUM,     /* numbers, added; what is null adds nothing */
    MERGE_SUM_ALL, /* added, and null where one is null: no limit is more than any */
    MERGE_MOST,    /* the largest number */
    MERGE_LEAST,   /* the smallest */
    MERGE_MEAN,    /* the mean of those who have one */
    MERGE_EVERY,   /* true where it is true of all */
    MERGE_ANY,     /* true where it is true of one */
    MERGE_SAME,    /* a text or number that all have; null where they differ */
    MERGE_ONE,     /* a text of one of them, the last by the alphabet; null if nobody has one */
    MERGE_WORST,   /* the last of the texts in `words` that one of them has */
    MERGE_COUNTED, /* texts: an object that says how many have which */
    MERGE_TALLY,   /* an object of numbers, added name by name */
    MERGE_OBJECT,  /* an object of what is in `inside` */
    MERGE_ROWS,    /* a list of such objects, joined by the members that `words` names */
    MERGE_TEXTS,   /* a list of texts: each that one of them has, by the alphabet */
    MERGE_SOURCE,  /* the name of the document; not read */
};

struct merge_rule {
    const char *name; /* null ends a list of rules */
    enum merge_how how;
    const struct merge_rule *inside;
    const char *const *words; /* ended by null */
    const char *from;         /* what it is read from, if not from `name` */

    /* Rows. */
    size_t most;     /* rows that are written; 0: all */
    const char *cut; /* the flag beside them that says that there are more; null: none */
    int (*order)(const struct merge_node *a, const struct merge_node *b); /* null: by their keys */
};

#define MERGE_ROWS_MAX 4096 /* rows of a list, however many documents have some: the rest is cut */

/* Rules are borrowed. Null: no memory. */
struct merge *merge_new(const struct merge_rule *rules);
void merge_free(struct merge *merge);

/* Adds a document, after which JSON_PADDING bytes may be read; `source` is copied. False: it is no
 * JSON object, or there is no memory, and nothing of it was added. */
bool merge_add(struct merge *merge, struct json_reader *reader, struct slice text,
               const char *source);

/* How many were added. */
size_t merge_count(const struct merge *merge);

/* The members, without braces around them. */
void merge_write(struct merge *merge, struct json_writer *out);

/* ---- What was merged ---- */

/* The list of rows of that name; null: there is none. */
struct merge_node *merge_rows(const struct merge *merge, const char *name);
size_t merge_rows_n(const struct merge_node *rows);
struct merge_node *merge_row(const struct merge_node *rows, size_t i);

/* A member as it would be written: `otherwise` if it is not there, or null. */
double merge_real(const struct merge_node *row, const char *name, double otherwise);
int64_t merge_integer(const struct merge_node *row, const char *name, int64_t otherwise);
const char *merge_text(const struct merge_node *row, const char *name); /* null if there is none */

/* Puts a number in the place of what was merged, for all documents. */
void merge_put(struct merge_node *row, const char *name, int64_t number);
void merge_put_real(struct merge_node *row, const char *name, double number);
void merge_put_null(struct merge_node *row, const char *name);

#endif
