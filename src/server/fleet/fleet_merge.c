/* fleet_merge.c - documents of several gateways as one. See fleet_merge.h.
 *
 * A node is what is known of one member in all documents: sum, least and most are always kept, and
 * the rule says what is written of it. So adding a document is the same for all numbers, and does
 * not depend on the order.
 *
 * A document is read into a merge of its own first, and joined to the others only when all of it
 * was good: what stands in Redis may be anything.
 */
#include "server/fleet/fleet_merge_internal.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "io/text/json_read.h"
#include "lib/core/array.h"
#include "lib/core/num.h"

enum { KEYS_BYTES = 1024, TEXTS_MAX = 64 };

struct merge_reading {
    struct json_reader *reader;
    const char *source;
    bool failed; /* no memory */
};

/* ---- nodes ---- */

static void merge_fini(struct merge_node *node)
{
    for (size_t i = 0; i < node->n; i++) {
        merge_fini(node->list[i]);
        free(node->list[i]);
    }
    free(node->list);
    free(node->key);
    free(node->low);
    free(node->high);
    hash_table_fini(&node->index);
}

static struct merge_node *merge_child(struct merge_node *parent, const struct merge_rule *rule)
{
    struct merge_node *node;

    if (!array_reserve(&parent->list, &parent->room, parent->n + 1))
        return NULL;
    node = calloc(1, sizeof *node);
    if (node != NULL) {
        node->rule = rule;
        parent->list[parent->n++] = node;
    }
    return node;
}

/* The members of an object are there when it was seen first, in the order of the rules. */
static bool merge_open(struct merge_node *node, const struct merge_rule *rules)
{
    if (node->n > 0)
        return true;
    for (const struct merge_rule *rule = rules; rule->name != NULL; rule++)
        if (merge_child(node, rule) == NULL)
            return false;
    return true;
}

static struct merge_node *merge_find(const struct merge_node *node, const char *key, size_t bytes)
{
    struct hash_slot *slot = hash_table_find(&node->index, XXH3_64bits(key, bytes));

    for (; slot != NULL; slot = hash_table_find_next(&node->index, slot)) {
        struct merge_node *found = slot->item;
        if (strlen(found->key) == bytes && memcmp(found->key, key, bytes) == 0)
            return found;
    }
    return NULL;
}

static char *merge_copy(const char *text, size_t bytes)
{
    char *copy = malloc(bytes + 1);

    if (copy != NULL) {
        if (bytes > 0)
            memcpy(copy, text, bytes);
        copy[bytes] = '\0';
    }
    return copy;
}

/* The child of that key, made if there is none. Null: no memory, or there are too many. */
static struct merge_node *merge_get(struct merge_node *node, const struct merge_rule *rule,
                                    const char *key, size_t bytes, size_t most)
{
    struct merge_node *child = merge_find(node, key, bytes);

    if (child != NULL)
        return child;
    node->is_cut |= node->n >= most;
    if (node->n >= most || hash_table_reserve(&node->index, node->index.n + 1) != TG_OK)
        return NULL;
    char *copy = merge_copy(key, bytes);
    child = copy != NULL ? merge_child(node, rule) : NULL;
    if (child == NULL) {
        free(copy);
        return NULL;
    }
    child->key = copy;
    hash_table_insert(&node->index, XXH3_64bits(key, bytes))->item = child;
    return child;
}

/* ---- values ---- */

/* What others wrote may be anything: sums must not overflow. */
void merge_number(struct merge_node *node, int64_t integer, double real, bool is_real)
{
    bool first = node->values == 0;

    integer = integer > TG_NUMBER_MAX    ? TG_NUMBER_MAX
              : integer < -TG_NUMBER_MAX ? -TG_NUMBER_MAX
                                         : integer;
    node->sum = is_real ? node->sum : num_add(node->sum, integer);
    node->real += real;
    node->is_real |= is_real;
    if (first || integer < node->least)
        node->least = integer;
    if (first || integer > node->most)
        node->most = integer;
    if (first || real < node->real_least)
        node->real_least = real;
    if (first || real > node->real_most)
        node->real_most = real;
    node->values++;
}

static bool merge_word(struct merge_node *node, const char *text, size_t bytes)
{
    char *low = NULL, *high = NULL, *copy = merge_copy(text, bytes);

    if (copy == NULL)
        return false;
    if (node->low == NULL || strcmp(copy, node->low) < 0)
        low = merge_copy(copy, strlen(copy));
    if (node->high == NULL || strcmp(copy, node->high) > 0)
        high = merge_copy(copy, strlen(copy));
    free(copy);
    if (low != NULL) {
        free(node->low);
        node->low = low;
    }
    if (high != NULL) {
        free(node->high);
        node->high = high;
    }
    node->values++;
    return node->low != NULL && node->high != NULL;
}

/* Counts a text among those that are listed. */
static bool merge_count_text(struct merge_node *node, const char *text, size_t bytes)
{
    struct merge_node *child = merge_get(node, NULL, text, bytes, TEXTS_MAX);

    node->values++;
    if (child != NULL)
        merge_number(child, 1, 1, false);
    return child != NULL || node->is_cut;
}

/* ---- reading ---- */

static void merge_read(struct merge_reading *from, struct merge_node *node,
                       const struct json_value *value);

static void merge_read_object(struct merge_reading *from, struct merge_node *node,
                              const struct merge_rule *rules)
{
    struct json_text name;
    struct json_value value;

    node->values++;
    if (!merge_open(node, rules) || !json_enter(from->reader)) {
        from->failed = true;
        return;
    }
    while (json_next(from->reader, &name, &value))
        for (size_t i = 0; i < node->n; i++) {
            const struct merge_rule *rule = node->list[i]->rule;
            if (json_text_is(name, rule->from != NULL ? rule->from : rule->name))
                merge_read(from, node->list[i], &value);
        }
    for (size_t i = 0; i < node->n; i++)
        if (node->list[i]->rule->how == MERGE_SOURCE)
            from->failed |= !merge_word(node->list[i], from->source, strlen(from->source));
}

static void merge_read_tally(struct merge_reading *from, struct merge_node *node)
{
    struct json_text name;
    struct json_value value;

    node->values++;
    if (!json_enter(from->reader))
        return;
    while (json_next(from->reader, &name, &value)) {
        struct merge_node *child = merge_get(node, NULL, name.bytes, name.size, TEXTS_MAX);
        from->failed |= child == NULL && !node->is_cut;
        if (child != NULL && value.kind == JSON_INTEGER)
            merge_number(child, value.integer, (double)value.integer, false);
        else if (child != NULL && value.kind == JSON_DOUBLE)
            merge_number(child, 0, value.real, true);
    }
}

static bool merge_join(struct merge_node *to, struct merge_node *from);

/* What a row is joined by. */
static size_t merge_key_of(const struct merge_node *row, const char *const *words,
                           char key[KEYS_BYTES])
{
    size_t used = 0;

    for (; *words != NULL; words++) {
        const char *text = merge_text(row, *words);
        int64_t number = merge_integer(row, *words, -1);
        char digits[24];
        if (text == NULL) {
            snprintf(digits, sizeof digits, "%lld", (long long)number);
            text = digits;
        }
        size_t n = strlen(text);
        if (n > KEYS_BYTES - used - 1)
            n = KEYS_BYTES - used - 1;
        memcpy(key + used, text, n);
        used += n;
        if (used < KEYS_BYTES - 1)
            key[used++] = '\x1f';
    }
    return used;
}

struct merge_node *merge_member(const struct merge_node *node, const char *name)
{
    for (size_t i = 0; i < node->n; i++)
        if (strcmp(node->list[i]->rule->name, name) == 0)
            return node->list[i];
    return NULL;
}

static bool merge_has_keys(const struct merge_node *row, const char *const *words)
{
    for (; *words != NULL; words++) {
        const struct merge_node *member = merge_member(row, *words);
        if (member == NULL || member->values + member->nulls == 0)
            return false;
    }
    return true;
}

/* The row is freed; what lacks one of its keys is none. */
static bool merge_take_row(struct merge_node *rows, struct merge_node *row)
{
    char key[KEYS_BYTES];
    bool done = true;

    if (merge_has_keys(row, rows->rule->words)) {
        size_t bytes = merge_key_of(row, rows->rule->words, key);
        struct merge_node *there = merge_get(rows, rows->rule, key, bytes, MERGE_ROWS_MAX);
        done = there != NULL ? merge_join(there, row) : rows->is_cut;
    }
    merge_fini(row);
    free(row);
    return done;
}

static void merge_read_rows(struct merge_reading *from, struct merge_node *node)
{
    struct json_text name;
    struct json_value value;

    node->values++;
    if (!json_enter(from->reader))
        return;
    while (json_next(from->reader, &name, &value)) {
        if (value.kind != JSON_OBJECT)
            continue;
        struct merge_node *row = calloc(1, sizeof *row);
        if (row == NULL) {
            from->failed = true;
            continue;
        }
        row->rule = node->rule;
        merge_read_object(from, row, node->rule->inside);
        from->failed |= !merge_take_row(node, row);
    }
}

static void merge_read_texts(struct merge_reading *from, struct merge_node *node)
{
    struct json_text name;
    struct json_value value;

    node->values++;
    if (!json_enter(from->reader))
        return;
    while (json_next(from->reader, &name, &value))
        if (value.kind == JSON_STRING)
            from->failed |= !merge_count_text(node, value.string.bytes, value.string.size);
}

/* A value of another kind than the rule is for is passed over. */
static void merge_read(struct merge_reading *from, struct merge_node *node,
                       const struct json_value *value)
{
    enum merge_how how = node->rule->how;

    if (value->kind == JSON_NULL)
        node->nulls++;
    else if (value->kind == JSON_OBJECT && how == MERGE_OBJECT)
        merge_read_object(from, node, node->rule->inside);
    else if (value->kind == JSON_OBJECT && how == MERGE_TALLY)
        merge_read_tally(from, node);
    else if (value->kind == JSON_ARRAY && how == MERGE_ROWS)
        merge_read_rows(from, node);
    else if (value->kind == JSON_ARRAY && how == MERGE_TEXTS)
        merge_read_texts(from, node);
    else if (value->kind == JSON_STRING && how == MERGE_WORST)
        from->failed |= !merge_word(node, value->string.bytes, value->string.size) ||
                        !merge_count_text(node, value->string.bytes, value->string.size);
    else if (value->kind == JSON_STRING && how == MERGE_COUNTED)
        from->failed |= !merge_count_text(node, value->string.bytes, value->string.size);
    else if (value->kind == JSON_STRING && (how == MERGE_SAME || how == MERGE_ONE))
        from->failed |= !merge_word(node, value->string.bytes, value->string.size);
    else if (value->kind == JSON_BOOL && (how == MERGE_EVERY || how == MERGE_ANY)) {
        node->values++;
        node->trues += value->boolean;
    } else if (value->kind == JSON_INTEGER && (how <= MERGE_MEAN || how == MERGE_SAME))
        merge_number(node, value->integer, (double)value->integer, false);
    else if (value->kind == JSON_DOUBLE && (how <= MERGE_MEAN || how == MERGE_SAME))
        merge_number(node, 0, value->real, true);
}

/* ---- joining ---- */

static void merge_join_numbers(struct merge_node *to, const struct merge_node *from)
{
    bool first = to->values == 0, none = from->values == 0;

    to->sum = num_add(to->sum, from->sum);
    to->real += from->real;
    to->is_real |= from->is_real;
    to->trues += from->trues;
    if (none)
        return;
    if (first || from->least < to->least)
        to->least = from->least;
    if (first || from->most > to->most)
        to->most = from->most;
    if (first || from->real_least < to->real_least)
        to->real_least = from->real_least;
    if (first || from->real_most > to->real_most)
        to->real_most = from->real_most;
}

static bool merge_join_texts(struct merge_node *to, const struct merge_node *from)
{
    size_t values = to->values;
    bool done = from->low == NULL || (merge_word(to, from->low, strlen(from->low)) &&
                                      merge_word(to, from->high, strlen(from->high)));

    to->values = values;
    return done;
}

/* `from` is left as it was. */
static bool merge_join(struct merge_node *to, struct merge_node *from)
{
    bool keyed = from->index.n > 0, done = merge_join_texts(to, from);
    const struct merge_rule *rows =
        from->rule != NULL && from->rule->how == MERGE_ROWS && keyed ? from->rule : NULL;

    merge_join_numbers(to, from);
    to->values += from->values;
    to->nulls += from->nulls;
    to->is_cut |= from->is_cut;
    if (!keyed && from->n > 0)
        for (size_t i = to->n; i < from->n && done; i++)
            done = merge_child(to, from->list[i]->rule) != NULL;
    for (size_t i = 0; i < from->n && done; i++) {
        struct merge_node *child = from->list[i], *there = NULL;
        if (keyed)
            there = merge_get(to, rows, child->key, strlen(child->key),
                              rows != NULL ? MERGE_ROWS_MAX : TEXTS_MAX);
        else
            there = to->list[i];
        done = there != NULL ? merge_join(there, child) : to->is_cut;
    }
    return done;
}

/* ---- all together ---- */

struct merge *merge_new(const struct merge_rule *rules)
{
    struct merge *merge = calloc(1, sizeof *merge);

    if (merge != NULL)
        merge->rules = rules;
    return merge;
}

void merge_free(struct merge *merge)
{
    if (merge == NULL)
        return;
    merge_fini(&merge->root);
    free(merge);
}

size_t merge_count(const struct merge *merge)
{
    return merge->n;
}

bool merge_add(struct merge *merge, struct json_reader *reader, struct slice text,
               const char *source)
{
    struct merge_reading from = {.reader = reader, .source = source};
    struct merge_node read = {.rule = NULL};
    struct json_value root;
    bool added = json_begin(reader, text.at, text.n, text.n + JSON_PADDING, &root) &&
                 root.kind == JSON_OBJECT;

    if (added)
        merge_read_object(&from, &read, merge->rules);
    added = json_end(reader) && added && !from.failed && merge_join(&merge->root, &read);
    merge_fini(&read);
    merge->n += added;
    return added;
}
