/* fleet_merge_internal.h - what fleet_merge.c and fleet_merge_write.c share. */
#ifndef TG_FLEET_FLEET_MERGE_INTERNAL_H
#define TG_FLEET_FLEET_MERGE_INTERNAL_H

#include "lib/core/hash_table.h"
#include "server/fleet/fleet_merge.h"

struct merge_node {
    const struct merge_rule *rule; /* null: a name of a tally, or a text of a list */
    char *key;                     /* a row's keys, or the name in a tally; null: a member */
    size_t values, nulls;          /* documents in which it had a value; in which it was null */
    int64_t sum, least, most;
    double real, real_least, real_most;
    bool is_real;     /* one of them was no integer */
    size_t trues;     /* documents in which it was true */
    char *low, *high; /* the first and last text by the alphabet */
    struct merge_node **list;
    size_t n, room;
    struct hash_table index; /* rows by their keys */
    bool is_cut;             /* there were more rows, or names, than are kept */
    bool is_put;             /* a number that was put here: the documents' do not count */
};

struct merge {
    const struct merge_rule *rules;
    struct merge_node root;
    size_t n;
};

/* ---- fleet_merge.c ---- */

/* A document has a number there. */
void merge_number(struct merge_node *node, int64_t integer, double real, bool is_real);

/* The member of that name; null: the rules have none. */
struct merge_node *merge_member(const struct merge_node *node, const char *name);

#endif
