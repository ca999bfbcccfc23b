/* fluid_small.c - up to three linear equations.
 *
 * Elimination with the pivot sought in the whole matrix: at most nine numbers, so the safest order
 * costs little. Costs may be a billion times the calls beside them, and one type worth a million
 * times another: so a pivot is judged by what part it has in its row, each column taken in its own
 * unit. The row of a cheap type then comes before that of a dear one, and is not drowned by it. One
 * that has shrunk to 1e-13 of what the row held at first is what rounding leaves of a zero.
 */
#include "lib/policy/fluid_small.h"

#include <math.h>

#define LEAST_PIVOT 1e-13

struct elimination {
    struct fluid_system *s;
    double column_size[FLUID_AXES];
    double row_size[FLUID_AXES];
    size_t unknown[FLUID_AXES]; /* which one a column stands for now */
};

static void fluid_small_measure(struct elimination *e)
{
    size_t n = e->s->n;

    for (size_t j = 0; j < n; j++) {
        e->unknown[j] = j;
        e->column_size[j] = 0;
        for (size_t i = 0; i < n; i++)
            e->column_size[j] = fmax(e->column_size[j], fabs(e->s->m[i][j]));
    }
    for (size_t i = 0; i < n; i++) {
        e->row_size[i] = 0;
        for (size_t j = 0; j < n; j++)
            if (e->column_size[j] > 0)
                e->row_size[i] += fabs(e->s->m[i][j]) / e->column_size[j];
    }
}

static double pivot_size(const struct elimination *e, size_t i, size_t j)
{
    double size = e->row_size[i] * e->column_size[j];

    return size > 0 ? fabs(e->s->m[i][j]) / size : 0;
}

static void swap(double *a, double *b)
{
    double kept = *a;

    *a = *b;
    *b = kept;
}

static void swap_rows(struct elimination *e, size_t a, size_t b)
{
    for (size_t j = 0; j < e->s->n; j++)
        swap(&e->s->m[a][j], &e->s->m[b][j]);
    swap(&e->s->right[a], &e->s->right[b]);
    swap(&e->row_size[a], &e->row_size[b]);
}

static void swap_columns(struct elimination *e, size_t a, size_t b)
{
    size_t kept = e->unknown[a];

    for (size_t i = 0; i < e->s->n; i++)
        swap(&e->s->m[i][a], &e->s->m[i][b]);
    swap(&e->column_size[a], &e->column_size[b]);
    e->unknown[a] = e->unknown[b];
    e->unknown[b] = kept;
}

static bool bring_pivot(struct elimination *e, size_t step)
{
    size_t row = step, column = step;

    for (size_t i = step; i < e->s->n; i++)
        for (size_t j = step; j < e->s->n; j++)
            if (pivot_size(e, i, j) > pivot_size(e, row, column)) {
                row = i;
                column = j;
            }
    if (!(pivot_size(e, row, column) > LEAST_PIVOT))
        return false;
    swap_rows(e, row, step);
    swap_columns(e, column, step);
    return true;
}

static void eliminate(struct fluid_system *s, size_t step)
{
    for (size_t i = step + 1; i < s->n; i++) {
        double part = s->m[i][step] / s->m[step][step];
        if (part == 0)
            continue;
        for (size_t j = step; j < s->n; j++)
            s->m[i][j] -= part * s->m[step][j];
        s->right[i] -= part * s->right[step];
    }
}

static bool solve_once(struct fluid_system *system, double *answer)
{
    struct elimination e = {.s = system};

    fluid_small_measure(&e);
    for (size_t step = 0; step < system->n; step++) {
        if (!bring_pivot(&e, step))
            return false;
        eliminate(system, step);
    }
    for (size_t step = system->n; step-- > 0;) {
        double rest = system->right[step];
        for (size_t j = step + 1; j < system->n; j++)
            rest -= system->m[step][j] * answer[e.unknown[j]];
        answer[e.unknown[step]] = rest / system->m[step][step];
    }
    return true;
}

bool fluid_system_solve(const struct fluid_system *system, double *answer)
{
    struct fluid_system work = *system;

    return solve_once(&work, answer);
}

/* What a solution leaves of each row is known to that row's own precision, whatever the others are
 * like: so a second solution, for what the first one left, makes every row good. */
bool fluid_system_solve_well(const struct fluid_system *system, double *answer)
{
    struct fluid_system work = *system;
    double more[FLUID_AXES];

    if (!solve_once(&work, answer))
        return false;
    if (system->n < 2)
        return true;
    work = *system;
    for (size_t i = 0; i < system->n; i++)
        for (size_t j = 0; j < system->n; j++)
            work.right[i] -= system->m[i][j] * answer[j];
    if (solve_once(&work, more))
        for (size_t j = 0; j < system->n; j++)
            answer[j] += more[j];
    return true;
}

bool fluid_basis_prices(const struct fluid_program *program, const struct fluid_basis *basis,
                        double *price)
{
    struct fluid_system system = {.n = basis->n};
    double answer[FLUID_AXES];

    for (size_t i = 0; i < basis->n; i++) {
        for (size_t j = 0; j < basis->n; j++)
            system.m[i][j] = fluid_use(program, basis->axes[j], basis->types[i]);
        system.right[i] = program->value[basis->types[i]];
    }
    if (!fluid_system_solve_well(&system, answer))
        return false;
    for (int axis = 0; axis < FLUID_AXES; axis++)
        price[axis] = 0;
    for (size_t j = 0; j < basis->n; j++)
        price[basis->axes[j]] = answer[j];
    return true;
}
