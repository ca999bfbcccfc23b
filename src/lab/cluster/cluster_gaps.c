/* cluster_gaps.c - the gaps between tokens. See cluster_gaps.h. */
#include "lab/cluster/cluster_gaps.h"

#include <stdlib.h>

/* ---- Counts by length ------------------------------------------------------------------------ */

static struct gap_count *cluster_gaps_slot_of(const struct gap_table *table, int64_t us)
{
    size_t mask = table->n_slots - 1;
    size_t at = (size_t)((uint64_t)us * UINT64_C(0x9E3779B97F4A7C15) >> 32) & mask;

    while (table->slots[at].n != 0 && table->slots[at].us != us)
        at = (at + 1) & mask;
    return &table->slots[at];
}

static bool grow_table(struct gap_table *table)
{
    struct gap_table larger = {.n = table->n, .n_slots = table->n_slots ? table->n_slots * 2 : 256};

    larger.slots = calloc(larger.n_slots, sizeof *larger.slots);
    if (larger.slots == NULL)
        return false;
    for (size_t i = 0; i < table->n_slots; i++)
        if (table->slots[i].n != 0)
            *cluster_gaps_slot_of(&larger, table->slots[i].us) = table->slots[i];
    free(table->slots);
    *table = larger;
    return true;
}

static bool cluster_gaps_count(struct gap_table *table, const struct gap_count *more)
{
    if (more->n == 0)
        return true;
    if (table->n * 2 >= table->n_slots && !grow_table(table))
        return false;
    struct gap_count *slot = cluster_gaps_slot_of(table, more->us);
    table->n += slot->n == 0;
    slot->us = more->us;
    slot->n += more->n;
    return true;
}

void gap_table_fini(struct gap_table *table)
{
    free(table->slots);
    *table = (struct gap_table){0};
}

static int by_length(const void *a, const void *b)
{
    const struct gap_count *x = a, *y = b;

    return (x->us > y->us) - (x->us < y->us);
}

struct gap_count *gap_table_sort(struct gap_table *table, size_t *n)
{
    size_t kept = 0;

    for (size_t i = 0; i < table->n_slots; i++)
        if (table->slots[i].n != 0)
            table->slots[kept++] = table->slots[i];
    if (kept > 0)
        qsort(table->slots, kept, sizeof *table->slots, by_length);
    *n = kept;
    return table->slots;
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
    return &gaps->steps[(size_t)number & (gaps->capacity - 1)];
}

/* Steps before `needed` become counts. */
static bool fold(struct gaps *gaps, int64_t needed)
{
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
    if (gaps_full(gaps)) {
        if (!fold(gaps, needed < gaps->end ? needed : gaps->end))
            return false;
        /* Half of it free, or it would be folded again all too soon. */
        if ((size_t)(gaps->end - gaps->first) * 2 >= gaps->capacity && !grow_steps(gaps))
            return false;
    }
    *step_at(gaps, gaps->end++) = (struct gap_count){us, n};
    return true;
}

void gaps_take_back(struct gaps *gaps, int64_t from, int64_t to)
{
    for (int64_t i = from; i < to; i++)
        step_at(gaps, i)->n--;
}

bool gaps_collect(const struct gaps *gaps, struct gap_table *table)
{
    for (size_t i = 0; i < gaps->table.n_slots; i++)
        if (!cluster_gaps_count(table, &gaps->table.slots[i]))
            return false;
    for (int64_t i = gaps->first; i < gaps->end; i++)
        if (!cluster_gaps_count(table, step_at(gaps, i)))
            return false;
    return true;
}
