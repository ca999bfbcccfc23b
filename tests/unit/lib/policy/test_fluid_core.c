/* test_fluid_core.c - the fast core of the fluid program: where it starts, and its odd inputs. */
#include <math.h>

#include "check.h"
#include "draw.h"
#include "fluid_kit.h"
#include "lib/policy/fluid.h"

enum { TYPES = 4 };

/* Two types are scarce of one axis, and the budget is exactly that of the first: any price from 5
 * to 10 is best. */
struct two {
    double weight[2], value[2], use[2], x[2];
    struct fluid_program program;
};

static struct fluid_program *two_on(struct two *two, int axis, double budget)
{
    *two = (struct two){
        .weight = {4, 4}, .value = {10, 5}, .use = {1, 1}, .program = {.n = 2}};
    two->program.weight = two->weight;
    two->program.value = two->value;
    two->program.fraction = two->x;
    for (int a = 0; a < FLUID_AXES; a++) {
        two->program.use[a] = two->use;
        two->program.budget[a] = a == axis ? budget : INFINITY;
    }
    return &two->program;
}

/* A start that is best is the answer, and not looked for again. */
static void it_stays_where_it_is_best(void **state)
{
    struct two two;
    (void)state;

    for (int axis = 0; axis < FLUID_AXES; axis++)
        for (uint16_t type = 0; type < 2; type++) {
            struct fluid_program *program = two_on(&two, axis, 4);
            program->basis = (struct fluid_basis){1, {(uint8_t)axis}, {type}};
            fluid_prices(program);
            for (int a = 0; a < FLUID_AXES; a++)
                assert_true(program->price[a] == (a == axis ? two.value[type] : 0));
            assert_true(two.x[0] == 1 && two.x[1] == 0 && program->objective == 40);
            assert_int_equal(program->basis.n, 1);
            assert_int_equal(program->basis.axes[0], axis);
            assert_int_equal(program->basis.types[0], type);
        }
}

/* With other budgets the last basis is a start, and no more than that. */
static void it_leaves_where_it_is_not_best(void **state)
{
    struct two two;
    (void)state;

    for (uint16_t type = 0; type < 2; type++) {
        struct fluid_program *program = two_on(&two, FLUID_COST, 3);
        program->basis = (struct fluid_basis){1, {FLUID_COST}, {type}};
        fluid_prices(program);
        assert_true(program->price[FLUID_COST] == 10 && two.x[0] == 0.75 && two.x[1] == 0);
        program->budget[FLUID_COST] = 6;
        fluid_prices(program);
        assert_true(program->price[FLUID_COST] == 5 && two.x[0] == 1 && two.x[1] == 0.5);
        program->budget[FLUID_COST] = 9;
        fluid_prices(program);
        assert_true(program->price[FLUID_COST] == 0 && two.x[0] == 1 && two.x[1] == 1);
        assert_int_equal(program->basis.n, 0);
    }
}

/* Whatever stands in a basis that is none of this program, the answer is the same. */
static void a_basis_that_is_none_is_no_start(void **state)
{
    static const struct fluid_basis wrong[] = {
        {4, {0, 1, 2}, {0, 1, 2}},             /* four axes */
        {255, {0}, {0}},                       /* many axes */
        {1, {3}, {0}},                         /* an axis that is none */
        {1, {FLUID_HOLD}, {0}},                /* an axis that is not there */
        {2, {FLUID_COST, FLUID_RATE}, {0, 1}}, /* not ascending */
        {2, {FLUID_RATE, FLUID_RATE}, {0, 1}}, /* twice */
        {1, {FLUID_RATE}, {TYPES}},            /* a type that is none */
        {1, {FLUID_RATE}, {65535}},
        {2, {FLUID_RATE, FLUID_COST}, {1, 3}}, /* a type of no weight */
        {2, {FLUID_RATE, FLUID_COST}, {1, 1}}, /* dependent */
        {2, {FLUID_RATE, FLUID_COST}, {0, 2}}, /* a price below 0 */
    };
    static const double weight[TYPES] = {5, 7, 3, 0}, value[TYPES] = {9, 4, 1, 8},
                        cost[TYPES] = {2, 3, 9, 1};
    double x[TYPES], first[TYPES];
    struct fluid_program program = {.n = TYPES,
                                    .weight = weight,
                                    .value = value,
                                    .use = {[FLUID_COST] = cost},
                                    .budget = {8, 21, INFINITY},
                                    .fraction = first};
    (void)state;

    fluid_prices(&program);
    assert_true(program.objective > 0 && program.price[FLUID_HOLD] == 0);
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        struct fluid_program again = program;
        again.basis = wrong[i];
        again.fraction = x;
        fluid_prices(&again);
        assert_memory_equal(again.price, program.price, sizeof again.price);
        assert_memory_equal(x, first, sizeof x);
        assert_true(again.objective == program.objective);
        assert_memory_equal(&again.basis, &program.basis, sizeof again.basis);
    }
}

/* A type of no weight is in if it is worth its price; one of no value never is. */
static void types_that_cannot_matter_are_judged_by_the_prices(void **state)
{
    static const double weight[TYPES] = {4, 0, 0, 4}, value[TYPES] = {10, 10, 9, 0};
    double x[TYPES];
    struct fluid_program program = {.n = TYPES,
                                    .weight = weight,
                                    .value = value,
                                    .budget = {2, INFINITY, INFINITY},
                                    .fraction = x};
    (void)state;

    fluid_prices(&program);
    assert_true(program.price[FLUID_RATE] == 10);
    assert_true(x[0] == 0.5 && x[1] == 1 && x[2] == 0 && x[3] == 0);
    program.budget[FLUID_RATE] = 5;
    fluid_prices(&program);
    assert_true(program.price[FLUID_RATE] == 0);
    assert_true(x[0] == 1 && x[1] == 1 && x[2] == 1 && x[3] == 0);
    assert_true(program.objective == 40);
}

static void a_budget_below_nothing_is_nothing(void **state)
{
    struct two two;
    (void)state;

    for (double budget = 0; budget >= -8; budget -= 4) {
        struct fluid_program *program = two_on(&two, FLUID_RATE, budget);
        fluid_prices(program);
        assert_true(two.x[0] == 0 && two.x[1] == 0 && program->objective == 0);
        assert_true(program->price[FLUID_RATE] >= 10);
    }
    struct fluid_program *none = two_on(&two, FLUID_RATE, 1);
    none->n = 0;
    fluid_prices(none);
    assert_true(none->objective == 0 && none->price[FLUID_RATE] == 0);
}

/* How many steps it takes from where the program stands. */
static size_t steps_of(struct fluid_program *program)
{
    for (size_t steps = 1;; steps++) {
        struct fluid_program trial = *program;
        if (!fluid_prices_within(&trial, steps))
            continue;
        *program = trial;
        return steps - 1; /* the last one finds that there is nothing to do */
    }
}

/* 64 types on three axes take five steps, and one at most when a budget has changed a little. */
static void it_arrives_in_few_steps(void **state)
{
    struct draw draw = draw_stream(1, 0);
    size_t from_nothing = 0, again = 0, unchanged = 0;
    (void)state;

    for (int run = 0; run < 200; run++) {
        double weight[64], value[64], cost[64], hold[64], x[64];
        double budget[FLUID_AXES] = {0};
        for (size_t i = 0; i < 64; i++) {
            weight[i] = 0.1 + 0.9 * draw_unit(&draw);
            value[i] = 1 + 49 * draw_unit(&draw);
            cost[i] = 1 + 999 * draw_unit(&draw);
            hold[i] = 0.1 + 10 * draw_unit(&draw);
            budget[FLUID_RATE] += weight[i] * 0.3;
            budget[FLUID_COST] += weight[i] * cost[i] * 0.2;
            budget[FLUID_HOLD] += weight[i] * hold[i] * 0.2;
        }
        struct fluid_program program = {.n = 64,
                                        .weight = weight,
                                        .value = value,
                                        .use = {[FLUID_COST] = cost, [FLUID_HOLD] = hold},
                                        .budget = {budget[0], budget[1], budget[2]},
                                        .fraction = x};
        from_nothing += steps_of(&program);
        unchanged += steps_of(&program);
        program.budget[run % FLUID_AXES] *= run % 2 ? 1.02 : 0.98;
        again += steps_of(&program);
    }
    print_message("%zu, %zu and %zu steps for 200 programs\n", from_nothing, again, unchanged);
    assert_int_equal(unchanged, 0);
    assert_true(from_nothing <= 200 * 5 && again <= 200 / 2);
}

/* Types and budgets in tenths and sevenths, which no double is: some of the types use up all of a
 * budget but for rounding. */
static void plans_of_fractions_stay_within_their_bounds(void **state)
{
    struct draw draw = draw_stream(draw_seed("test_fluid_core"), 0);
    struct fluid_case given;
    (void)state;

    for (uint64_t run = 0; run < 3000; run++) {
        bool holds = run % 3 == 0;
        fluid_draw_ties(&draw, (size_t)draw_between(&draw, 1, 7), holds, &given);
        for (size_t i = 0; i < given.workload.n_types; i++) {
            given.types[i].weight /= 10;
            given.types[i].cost /= 7;
            given.types[i].value /= 3;
        }
        fluid_use_up(&draw, &given);
        struct fluid_answer answer = fluid_case_solve(&given);
        for (size_t i = 0; i < given.workload.n_types; i++)
            assert_true(answer.x[i] >= 0 && answer.x[i] <= 1);
        assert_true(answer.duals.rate >= 0 && answer.duals.cost >= 0 &&
                    answer.duals.concurrency >= 0);
        fluid_expect_best(&given, &answer, run);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_stays_where_it_is_best),
        cmocka_unit_test(it_leaves_where_it_is_not_best),
        cmocka_unit_test(a_basis_that_is_none_is_no_start),
        cmocka_unit_test(types_that_cannot_matter_are_judged_by_the_prices),
        cmocka_unit_test(a_budget_below_nothing_is_nothing),
        cmocka_unit_test(it_arrives_in_few_steps),
        cmocka_unit_test(plans_of_fractions_stay_within_their_bounds),
    };
    return cmocka_run_group_tests_name("fluid_core", tests, NULL, NULL);
}
