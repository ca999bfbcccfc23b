/* cluster_gaps.c - the gaps between tokens. See cluster_gaps.h. */
#include "lab/cluster/cluster_gaps.h"

#include <assert.h>
#include <stdlib.h>

#include "lib/core/array.h"

/* ---- Counts by length ------------------------------------------------------------------------ */

/* The count of a length, made if it is new. Null: no memory. */
static struct gap_count *find_count(struct gap_table *table, int64_t us)
{
    uint64_t hash = hash_number((uint64_t)us);
    struct hash_slot *slot = hash_table_find(&table->numbers, hash);

    for (; slot != NULL; slot = hash_table_find_next(&table->numbers, slot))
        if (table->counts[slot->number].us == us)
            return &table->counts[slot->number];
    if (!array_reserve(&table->counts, &table->capacity, table->n + 1) ||
        hash_table_reserve(&table->numbers, table->n + 1) != TG_OK)
        return NULL;
    assert(table->numbers.n == table->n);
    hash_table_insert(&table->numbers, hash)->number = table->n;
    table->counts[table->n] = (struct gap_count){us, 0};
    return &table->counts[table->n++];
}

static bool cluster_gaps_count(struct gap_table *table, const struct gap_count *more)
{
    struct gap_count *count;

    assert(more->n >= 0 && more->us >= 0);
    if (more->n == 0)
        return true;
    count = find_count(table, more->us);
    if (count != NULL)
        count->n += more->n;
    return count != NULL;
}

void gap_table_fini(struct gap_table *table)
{
    free(table->counts);
    hash_table_fini(&table->numbers);
    *table = (struct gap_table){0};
}

static int by_length(const void *a, const void *b)
{
    const struct gap_count *x = a, *y = b;

    return (x->us > y->us) - (x->us < y->us);
}

struct gap_count *gap_table_sort(struct gap_table *table, size_t *n)
{
    hash_table_clear(&table->numbers);
    if (table->n > 0)
        qsort(table->counts, table->n, sizeof *table->counts, by_length);
    *n = table->n;
    return table->counts;
}

/* ---- Steps ----------------------------------------------------------------------------------- */

void gaps_fini(struct gaps *gaps)
{
    gap_table_fini(&gaps->table);
    free(gaps->steps);
    *gaps = (struct gaps){0};
}

static struct gap_count *step_at(const struct gaps *gaps, int64_t number)
{
    assert(number >= gaps->first && number - gaps->first < (int64_t)gaps->capacity);
    return &gaps->steps[(size_t)number & (gaps->capacity - 1)];
}

/* Steps before `needed` become counts. */
static bool fold(struct gaps *gaps, int64_t needed)
{
    assert(needed <= gaps->end);
    for (; gaps->first < needed; gaps->first++)
        if (!cluster_gaps_count(&gaps->table, step_at(gaps, gaps->first)))
            return false;
    return true;
}

static bool grow_steps(struct gaps *gaps)
{
    struct gaps larger = *gaps;

    larger.capacity = gaps->capacity == 0 ? 1024 : gaps->capacity * 2;
    larger.steps = malloc(larger.capacity * sizeof *larger.steps);
    if (larger.steps == NULL)
        return false;
    for (int64_t i = gaps->first; i < gaps->end; i++)
        *step_at(&larger, i) = *step_at(gaps, i);
    free(gaps->steps);
    *gaps = larger;
    return true;
}

bool gaps_add(struct gaps *gaps, int64_t us, int64_t n, int64_t needed)
{
    assert(us >= 0 && n > 0);
    if (gaps_full(gaps)) {
        if (!fold(gaps, needed < gaps->end ? needed : gaps->end))
            return false;
        /* Half of it free, or it would be folded again all too soon. */
        if ((size_t)(gaps->end - gaps->first) * 2 >= gaps->capacity && !grow_steps(gaps))
            return false;
    }
    assert(!gaps_full(gaps));
    *step_at(gaps, gaps->end) = (struct gap_count){us, n};
    gaps->end++;
    return true;
}

void gaps_take_back(struct gaps *gaps, int64_t from, int64_t to)
{
    assert(gaps->first <= from && to <= gaps->end); /* what is folded cannot be taken back */
    for (int64_t i = from; i < to; i++) {
        assert(step_at(gaps, i)->n > 0);
        step_at(gaps, i)->n--;
    }
}

bool gaps_collect(const struct gaps *gaps, struct gap_table *table)
{
    for (size_t i = 0; i < gaps->table.n; i++)
        if (!cluster_gaps_count(table, &gaps->table.counts[i]))
            return false;
    for (int64_t i = gaps->first; i < gaps->end; i++)
        if (!cluster_gaps_count(table, step_at(gaps, i)))
            return false;
    return true;
}
