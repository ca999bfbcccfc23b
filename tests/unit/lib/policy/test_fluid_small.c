/* test_fluid_small.c - up to three equations: what solves them, and when nothing does. */
#include <float.h>
#include <math.h>

#include "check.h"
#include "draw.h"
#include "lib/policy/fluid_small.h"

enum { SYSTEMS = 5000 };

static double row_of(const struct fluid_system *system, size_t i, const double *x, double *size)
{
    double sum = 0;

    *size = 0;
    for (size_t j = 0; j < system->n; j++) {
        sum += system->m[i][j] * x[j];
        *size += fabs(system->m[i][j] * x[j]);
    }
    return sum;
}

static double determinant(const struct fluid_system *s)
{
    if (s->n == 1)
        return s->m[0][0];
    if (s->n == 2)
        return s->m[0][0] * s->m[1][1] - s->m[0][1] * s->m[1][0];
    return s->m[0][0] * (s->m[1][1] * s->m[2][2] - s->m[1][2] * s->m[2][1]) -
           s->m[0][1] * (s->m[1][0] * s->m[2][2] - s->m[1][2] * s->m[2][0]) +
           s->m[0][2] * (s->m[1][0] * s->m[2][1] - s->m[1][1] * s->m[2][0]);
}

/* Whole numbers, whose determinant is exact, many of them 0. Columns in units of their own. */
static void whole_systems_are_solved_or_depend(void **state)
{
    struct draw draw = draw_stream(draw_seed("test_fluid_small"), 0);
    long solved = 0, depend = 0;
    (void)state;

    for (int run = 0; run < SYSTEMS; run++) {
        struct fluid_system system = {.n = (size_t)draw_between(&draw, 1, 3)}, kept;
        double want[3], unit[3], once[3], well[3];
        for (size_t i = 0; i < system.n; i++)
            for (size_t j = 0; j < system.n; j++)
                system.m[i][j] = draw_chance(&draw, 30) ? 0 : (double)draw_between(&draw, -9, 9);
        bool regular = determinant(&system) != 0;
        for (size_t j = 0; j < system.n; j++) {
            unit[j] = run % 2 ? 1 : exp2((double)draw_between(&draw, -40, 40));
            want[j] = (double)draw_between(&draw, -99, 99) / unit[j];
        }
        for (size_t i = 0; i < system.n; i++) {
            for (size_t j = 0; j < system.n; j++) {
                system.m[i][j] *= unit[j];
                system.right[i] += system.m[i][j] * want[j];
            }
        }
        kept = system;
        assert_true(fluid_system_solve(&system, once) == regular);
        assert_true(fluid_system_solve_well(&system, well) == regular);
        assert_memory_equal(&system, &kept, sizeof system);
        for (size_t j = 0; j < system.n && regular; j++) {
            assert_true(fabs(once[j] - want[j]) <= 1e-11 * 99 / unit[j]);
            assert_true(fabs(well[j] - want[j]) <= 1e-13 * 99 / unit[j]);
        }
        solved += regular;
        depend += !regular;
    }
    assert_true(solved > SYSTEMS / 2 && depend > SYSTEMS / 20);
}

/* A row of a cheap type beside one a million million times as dear: each is good to its own last
 * digits, though their columns are nearly the same. */
static void every_row_is_good_to_its_own_digits(void **state)
{
    struct draw draw = draw_stream(draw_seed("test_fluid_small"), 1);
    (void)state;

    for (int run = 0; run < SYSTEMS; run++) {
        struct fluid_system system = {.n = (size_t)draw_between(&draw, 2, 3)};
        double x[3], size;
        for (size_t i = 0; i < system.n; i++) {
            double dear = pow(10, (double)draw_between(&draw, -6, 6));
            for (size_t j = 0; j < system.n; j++)
                system.m[i][j] = dear * (1 + (double)draw_between(&draw, 1, 99999) / 1e5 +
                                         (i == j ? 0.5 : 0));
            system.right[i] = dear * (double)draw_between(&draw, 1, 99999) / 1e3;
        }
        if (!fluid_system_solve_well(&system, x))
            continue;
        for (size_t i = 0; i < system.n; i++) {
            double left = row_of(&system, i, x, &size) - system.right[i];
            assert_true(fabs(left) <= 4 * DBL_EPSILON * (size + fabs(system.right[i])));
        }
    }
}

static void no_equations_have_an_answer(void **state)
{
    struct fluid_system none = {0}, nothing = {.n = 2}, nearly = {.n = 2};
    double x[3];
    (void)state;

    assert_true(fluid_system_solve(&none, x));
    assert_true(fluid_system_solve_well(&none, x));
    assert_false(fluid_system_solve(&nothing, x));
    /* One row is three times the other, but for rounding. */
    nearly.m[0][0] = 0.1;
    nearly.m[0][1] = 0.7;
    nearly.m[1][0] = 0.1 * 3;
    nearly.m[1][1] = 0.7 * 3;
    assert_false(fluid_system_solve(&nearly, x));
    nearly.m[1][1] += 1e-9;
    assert_true(fluid_system_solve(&nearly, x));
}

/* At the prices of a basis its types have nothing left; an axis that is not in it has none. */
static void the_prices_of_a_basis_leave_its_types_nothing(void **state)
{
    static const double value[] = {7, 11, 30, 5}, cost[] = {10, 2, 40, 1}, hold[] = {1, 3, 2, 9};
    const struct fluid_program program = {
        .n = 4, .value = value, .use = {[FLUID_COST] = cost, [FLUID_HOLD] = hold}};
    static const struct fluid_basis bases[] = {
        {0},
        {1, {FLUID_RATE}, {2}},
        {1, {FLUID_HOLD}, {0}},
        {2, {FLUID_RATE, FLUID_COST}, {1, 2}},
        {2, {FLUID_COST, FLUID_HOLD}, {3, 0}},
        {2, {FLUID_RATE, FLUID_HOLD}, {2, 3}},
        {3, {FLUID_RATE, FLUID_COST, FLUID_HOLD}, {2, 0, 1}},
    };
    (void)state;

    for (size_t b = 0; b < COUNT_OF(bases); b++) {
        const struct fluid_basis *basis = &bases[b];
        double price[3] = {-1, -1, -1};
        assert_true(fluid_basis_prices(&program, basis, price));
        for (size_t i = 0; i < basis->n; i++) {
            size_t type = basis->types[i];
            double bid = price[0] + price[1] * cost[type] + price[2] * hold[type];
            assert_true(fabs(bid - value[type]) < 1e-12);
        }
        for (int axis = 0; axis < FLUID_AXES; axis++) {
            bool priced = false;
            for (size_t j = 0; j < basis->n; j++)
                priced |= basis->axes[j] == axis;
            assert_true((price[axis] != 0) == priced);
        }
    }
    const struct fluid_basis twice = {2, {FLUID_RATE, FLUID_COST}, {1, 1}};
    double price[3];
    assert_false(fluid_basis_prices(&program, &twice, price));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_systems_are_solved_or_depend),
        cmocka_unit_test(every_row_is_good_to_its_own_digits),
        cmocka_unit_test(no_equations_have_an_answer),
        cmocka_unit_test(the_prices_of_a_basis_leave_its_types_nothing),
    };
    return cmocka_run_group_tests_name("fluid_small", tests, NULL, NULL);
}
