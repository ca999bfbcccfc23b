/* fleet_merge_write.c - what several documents say together, as one; and looking into it. See
 * fleet_merge.h.
 */
#include "server/fleet/fleet_merge_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- writing ---- */

static void merge_put_text(struct json_writer *out, const char *text)
{
    if (text == NULL)
        json_write_null(out);
    else
        json_write_string(out, text, strlen(text));
}

/* Words that the list does not have are a later program's: the last of them by the alphabet. */
static const char *merge_worst(const struct merge_node *node)
{
    const char *worst = NULL;

    for (const char *const *word = node->rule->words; *word != NULL; word++)
        for (size_t i = 0; i < node->n; i++)
            if (strcmp(node->list[i]->key, *word) == 0)
                worst = *word;
    return worst != NULL ? worst : node->high;
}

static const char *merge_text_of(const struct merge_node *node)
{
    switch (node->rule->how) {
    case MERGE_SAME:
        return node->low != NULL && node->nulls == 0 && strcmp(node->low, node->high) == 0
                   ? node->low
                   : NULL;
    case MERGE_WORST:
        return merge_worst(node);
    default:
        return node->high;
    }
}

/* False: it is null. */
static bool merge_number_of(const struct merge_node *node, int64_t *integer, double *real)
{
    enum merge_how how = node->rule != NULL && !node->is_put ? node->rule->how : MERGE_SUM;

    if (node->values == 0 || (how == MERGE_SUM_ALL && node->nulls > 0))
        return false;
    if (how == MERGE_SAME &&
        (node->nulls > 0 || node->least != node->most || node->real_least < node->real_most))
        return false;
    *integer = how == MERGE_MOST                         ? node->most
               : how == MERGE_LEAST || how == MERGE_SAME ? node->least
                                                         : node->sum;
    *real = how == MERGE_MOST                         ? node->real_most
            : how == MERGE_LEAST || how == MERGE_SAME ? node->real_least
            : how == MERGE_MEAN                       ? node->real / (double)node->values
                                                      : node->real;
    return true;
}

static void merge_write_number(struct json_writer *out, const struct merge_node *node)
{
    int64_t integer;
    double real;

    if (!merge_number_of(node, &integer, &real))
        json_write_null(out);
    else if (node->is_real || (node->rule != NULL && node->rule->how == MERGE_MEAN))
        json_write_double(out, real);
    else
        json_write_integer(out, integer);
}

static int merge_by_key(const void *a, const void *b)
{
    const struct merge_node *const *x = a, *const *y = b;

    return strcmp((*x)->key, (*y)->key);
}

/* By the order of the rule, and by their keys where that has none. */
static int merge_by_order(const void *a, const void *b)
{
    const struct merge_node *const *x = a, *const *y = b;
    int (*order)(const struct merge_node *, const struct merge_node *) = (*x)->rule->order;
    int said = order != NULL ? order(*x, *y) : 0;

    return said != 0 ? said : merge_by_key(a, b);
}

static void merge_write_node(struct json_writer *out, struct merge_node *node);

static void merge_write_members(struct json_writer *out, struct merge_node *node)
{
    for (size_t i = 0; i < node->n; i++) {
        struct merge_node *child = node->list[i];
        if (child->values + child->nulls == 0)
            continue;
        json_write_key(out, child->rule->name);
        merge_write_node(out, child);
    }
}

static void merge_write_rows(struct json_writer *out, struct merge_node *node)
{
    size_t most = node->rule->most > 0 && node->n > node->rule->most ? node->rule->most : node->n;

    if (node->n > 1)
        qsort(node->list, node->n, sizeof(struct merge_node *), merge_by_order);
    json_write_array(out);
    for (size_t i = 0; i < most; i++) {
        json_write_object(out);
        merge_write_members(out, node->list[i]);
        json_write_object_end(out);
    }
    json_write_array_end(out);
}

static void merge_write_named(struct json_writer *out, struct merge_node *node, bool names_alone)
{
    if (node->n > 1)
        qsort(node->list, node->n, sizeof(struct merge_node *), merge_by_key);
    if (names_alone)
        json_write_array(out);
    else
        json_write_object(out);
    for (size_t i = 0; i < node->n; i++)
        if (names_alone) {
            merge_put_text(out, node->list[i]->key);
        } else {
            json_write_key(out, node->list[i]->key);
            merge_write_number(out, node->list[i]);
        }
    if (names_alone)
        json_write_array_end(out);
    else
        json_write_object_end(out);
}

static void merge_write_node(struct json_writer *out, struct merge_node *node)
{
    switch (node->rule->how) {
    case MERGE_ONE:
    case MERGE_WORST:
    case MERGE_SOURCE:
        merge_put_text(out, merge_text_of(node));
        break;
    case MERGE_SAME:
        if (node->low != NULL)
            merge_put_text(out, merge_text_of(node));
        else
            merge_write_number(out, node);
        break;
    case MERGE_EVERY:
        json_write_bool(out, node->trues == node->values);
        break;
    case MERGE_ANY:
        json_write_bool(out, node->trues > 0);
        break;
    case MERGE_OBJECT:
        if (node->values == 0) {
            json_write_null(out);
            break;
        }
        json_write_object(out);
        merge_write_members(out, node);
        json_write_object_end(out);
        break;
    case MERGE_ROWS:
        merge_write_rows(out, node);
        break;
    case MERGE_TEXTS:
    case MERGE_COUNTED:
    case MERGE_TALLY:
        merge_write_named(out, node, node->rule->how == MERGE_TEXTS);
        break;
    default:
        merge_write_number(out, node);
        break;
    }
}

/* A list that is cut says so, whoever has cut it. */
static void merge_mark_cuts(struct merge_node *root)
{
    for (size_t i = 0; i < root->n; i++) {
        const struct merge_node *rows = root->list[i];
        if (rows->rule->how != MERGE_ROWS || rows->rule->cut == NULL ||
            !(rows->is_cut || (rows->rule->most > 0 && rows->n > rows->rule->most)))
            continue;
        for (size_t k = 0; k < root->n; k++)
            if (strcmp(root->list[k]->rule->name, rows->rule->cut) == 0) {
                root->list[k]->values++;
                root->list[k]->trues++;
            }
    }
}

void merge_write(struct merge *merge, struct json_writer *out)
{
    merge_mark_cuts(&merge->root);
    merge_write_members(out, &merge->root);
}

/* ---- looking ---- */

struct merge_node *merge_rows(const struct merge *merge, const char *name)
{
    return merge_member(&merge->root, name);
}

size_t merge_rows_n(const struct merge_node *rows)
{
    return rows != NULL ? rows->n : 0;
}

struct merge_node *merge_row(const struct merge_node *rows, size_t i)
{
    assert(i < rows->n);
    return rows->list[i];
}

double merge_real(const struct merge_node *row, const char *name, double otherwise)
{
    const struct merge_node *node = merge_member(row, name);
    int64_t integer;
    double real;

    return node != NULL && merge_number_of(node, &integer, &real) ? real : otherwise;
}

int64_t merge_integer(const struct merge_node *row, const char *name, int64_t otherwise)
{
    const struct merge_node *node = merge_member(row, name);
    int64_t integer;
    double real;

    return node != NULL && merge_number_of(node, &integer, &real) ? integer : otherwise;
}

const char *merge_text(const struct merge_node *row, const char *name)
{
    const struct merge_node *node = merge_member(row, name);

    return node != NULL ? merge_text_of(node) : NULL;
}

static void merge_put_number(struct merge_node *row, const char *name, int64_t integer, double real,
                             bool is_real)
{
    struct merge_node *node = merge_member(row, name);

    assert(node != NULL);
    node->values = 0;
    node->nulls = 0;
    node->sum = 0;
    node->real = 0;
    node->is_real = false;
    node->is_put = true;
    merge_number(node, integer, real, is_real);
}

void merge_put(struct merge_node *row, const char *name, int64_t number)
{
    merge_put_number(row, name, number, (double)number, false);
}

void merge_put_real(struct merge_node *row, const char *name, double number)
{
    merge_put_number(row, name, 0, number, true);
}

void merge_put_null(struct merge_node *row, const char *name)
{
    struct merge_node *node = merge_member(row, name);

    assert(node != NULL);
    node->values = 0;
    node->nulls = 1;
}
