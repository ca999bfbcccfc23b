/* test_fluid_kkt.c - every solution of the fluid program carries the proof that it is the best:
 * prices and a plan that need each other. Over the published ranges, over programs full of ties,
 * over all sizes of numbers and up to the most types there may be; and that no plan beats it. */
#include <math.h>
#include <string.h>

#include "fluid_kit.h"
#include "lib/policy/fluid.h"
#include "walk.h"

#define RUNS 100000
#define LARGE_RUNS 300

static uint64_t seed;

static void certify_usual(bool holds, uint64_t stream)
{
    struct draw draw = draw_stream(seed, stream);
    struct fluid_case given;

    for (uint64_t run = 0; run < RUNS; run++) {
        fluid_draw_usual(&draw, (size_t)draw_between(&draw, 1, 5), holds, &given);
        struct fluid_answer answer = fluid_case_solve(&given);
        fluid_expect_kkt(&given, &answer, run);
        fluid_expect_best(&given, &answer, run);
    }
}

static void two_axes_satisfy_the_published_certificate(void **state)
{
    (void)state;
    certify_usual(false, 1);
    cases_report("certificate on two axes", RUNS);
}

static void three_axes_satisfy_it_too(void **state)
{
    (void)state;
    certify_usual(true, 2);
    cases_report("certificate on three axes", RUNS);
}

/* ---- Ties ---- */

/* What a draw of ties does not have: types of no weight or value, and several that are the same. */
static void spoil(struct draw *draw, struct fluid_case *given)
{
    size_t n = given->workload.n_types;

    for (size_t i = 0; i < n; i++) {
        if (draw_chance(draw, 15))
            given->types[i].weight = 0;
        if (draw_chance(draw, 15))
            given->types[i].value = 0;
        if (draw_chance(draw, 30))
            given->types[i] = given->types[draw_between(draw, 0, (int64_t)n - 1)];
    }
}

static void ties_nothings_and_twins_satisfy_it(void **state)
{
    struct draw draw = draw_stream(seed, 3);
    struct fluid_case given;
    (void)state;

    for (uint64_t run = 0; run < RUNS; run++) {
        fluid_draw_ties(&draw, (size_t)draw_between(&draw, 1, 12), run % 2 == 0, &given);
        spoil(&draw, &given);
        struct fluid_answer answer = fluid_case_solve(&given);
        fluid_expect_kkt(&given, &answer, run);
        fluid_expect_best(&given, &answer, run);
    }
    cases_report("certificate with ties", RUNS);
}

static void many_types_with_ties_satisfy_it(void **state)
{
    struct draw draw = draw_stream(seed, 4);
    struct fluid_case given;
    (void)state;

    for (uint64_t run = 0; run < LARGE_RUNS; run++) {
        size_t n = (size_t)draw_between(&draw, 1, TG_TYPES_MAX);
        fluid_draw_ties(&draw, n, run % 2 == 0, &given);
        fluid_use_up(&draw, &given);
        struct fluid_answer answer = fluid_case_solve(&given);
        fluid_expect_best(&given, &answer, run);
    }
}

/* ---- Sizes ---- */

/* 10^low to 10^high, every magnitude equally likely. */
static double draw_scale(struct draw *draw, double low, double high)
{
    return pow(10, low + (high - low) * draw_unit(draw));
}

static void draw_extreme(struct draw *draw, size_t n, bool holds, struct fluid_case *drawn)
{
    double x[TG_TYPES_MAX], used[3];

    tg_workload_init(&drawn->workload);
    drawn->workload.n_types = n;
    for (size_t i = 0; i < n; i++) {
        drawn->types[i] = (struct tg_type){.cost = draw_scale(draw, -3, 9),
                                           .value = draw_scale(draw, -3, 3),
                                           .weight = draw_scale(draw, -3, 6),
                                           .hold_s = holds ? draw_scale(draw, -3, 5) : TG_NO_HOLD};
        x[i] = draw_unit(draw);
    }
    fluid_case_used(drawn, x, used);
    drawn->workload.rate_budget = fmin(used[0] * draw_scale(draw, -4, 1), 1e12);
    drawn->workload.cost_budget = fmin(used[1] * draw_scale(draw, -4, 1), 1e12);
    drawn->workload.conc_budget_s = holds ? fmin(used[2] * draw_scale(draw, -4, 1), 1e12) : 0;
}

static void numbers_of_all_sizes_satisfy_it(void **state)
{
    struct draw draw = draw_stream(seed, 5);
    struct fluid_case given;
    (void)state;

    for (uint64_t run = 0; run < RUNS; run++) {
        draw_extreme(&draw, (size_t)draw_between(&draw, 1, 16), run % 2 == 0, &given);
        struct fluid_answer answer = fluid_case_solve(&given);
        fluid_expect_best(&given, &answer, run);
    }
    cases_report("certificate for all sizes of numbers", RUNS);
}

/* All that is allowed, 10^33 from the least to the most. There the price of a type is only known to
 * the last digit of its value, and that digit times its weight may be more than all it is worth. */
static void draw_allowed(struct draw *draw, size_t n, bool holds, struct fluid_case *drawn)
{
    double x[TG_TYPES_MAX], used[3];

    tg_workload_init(&drawn->workload);
    drawn->workload.n_types = n;
    for (size_t i = 0; i < n; i++) {
        drawn->types[i] =
            (struct tg_type){.cost = draw_scale(draw, -15, 18),
                             .value = draw_scale(draw, -15, 18),
                             .weight = draw_scale(draw, -15, 18),
                             .hold_s = holds ? draw_scale(draw, -15, 18) : TG_NO_HOLD};
        x[i] = draw_unit(draw);
    }
    fluid_case_used(drawn, x, used);
    for (int axis = 0; axis < 3; axis++)
        used[axis] = fmin(fmax(used[axis] * draw_scale(draw, -4, 4), 1e-15), 1e18);
    drawn->workload.rate_budget = used[0];
    drawn->workload.cost_budget = used[1];
    drawn->workload.conc_budget_s = holds ? used[2] : 0;
}

static void all_numbers_that_are_allowed_satisfy_it(void **state)
{
    struct draw draw = draw_stream(seed, 11);
    struct fluid_case given;
    double used[3];
    (void)state;

    for (uint64_t run = 0; run < RUNS; run++) {
        draw_allowed(&draw, (size_t)draw_between(&draw, 1, 12), run % 2 == 0, &given);
        struct fluid_answer answer = fluid_case_solve(&given);
        double worth = fluid_case_worth(&given, answer.x), all = 0;
        double dual = fluid_case_dual(&given, &answer.duals);
        for (size_t i = 0; i < given.workload.n_types; i++)
            all += given.types[i].weight * given.types[i].value;
        expect_near(worth, dual, 1e-9 * dual + 1e-14 * all);
        fluid_case_used(&given, answer.x, used);
        assert_true(used[0] <= given.workload.rate_budget * (1 + 1e-9));
        assert_true(used[1] <= given.workload.cost_budget * (1 + 1e-9));
        assert_true(given.workload.conc_budget_s == 0 ||
                    used[2] <= given.workload.conc_budget_s * (1 + 1e-9));
    }
    cases_report("all numbers that are allowed", RUNS);
}

static void as_many_types_as_there_may_be_satisfy_it(void **state)
{
    struct draw draw = draw_stream(seed, 6);
    struct fluid_case given;
    (void)state;

    for (uint64_t run = 0; run < LARGE_RUNS; run++) {
        if (run % 4 < 2)
            draw_extreme(&draw, TG_TYPES_MAX, run % 2 == 0, &given);
        else
            fluid_draw_usual(&draw, TG_TYPES_MAX, run % 2 == 0, &given);
        struct fluid_answer answer = fluid_case_solve(&given);
        fluid_expect_best(&given, &answer, run);
    }
}

/* Other units of money, tokens or time give the same plan at prices in those units. */
static void units_change_nothing(void **state)
{
    struct draw draw = draw_stream(seed, 7);
    struct fluid_case given, other;
    (void)state;

    for (uint64_t run = 0; run < RUNS / 10; run++) {
        double of_value = draw_scale(&draw, -9, 9), of_cost = draw_scale(&draw, -9, 9);
        fluid_draw_usual(&draw, (size_t)draw_between(&draw, 1, 8), false, &given);
        other = given;
        for (size_t i = 0; i < given.workload.n_types; i++) {
            other.types[i].value *= of_value;
            other.types[i].cost *= of_cost;
        }
        other.workload.cost_budget *= of_cost;
        struct fluid_answer a = fluid_case_solve(&given), b = fluid_case_solve(&other);
        expect_near(b.duals.rate, a.duals.rate * of_value, 1e-9 * a.duals.rate * of_value);
        expect_near(b.duals.cost * of_cost, a.duals.cost * of_value,
                    1e-9 * a.duals.cost * of_value);
        for (size_t i = 0; i < given.workload.n_types; i++)
            expect_near(b.x[i], a.x[i], 1e-9);
    }
}

/* ---- No plan beats it ---- */

static void no_plan_that_fits_is_worth_more(void **state)
{
    struct draw draw = draw_stream(seed, 8);
    struct fluid_case given;
    double x[TG_TYPES_MAX], used[3];
    (void)state;

    for (uint64_t run = 0; run < RUNS / 10; run++) {
        fluid_draw_usual(&draw, (size_t)draw_between(&draw, 1, 5), run % 2 == 0, &given);
        struct fluid_answer answer = fluid_case_solve(&given);
        for (int plan = 0; plan < 20; plan++) {
            for (size_t i = 0; i < given.workload.n_types; i++)
                x[i] = draw_unit(&draw);
            fluid_case_used(&given, x, used);
            if (used[0] <= given.workload.rate_budget && used[1] <= given.workload.cost_budget &&
                (used[2] <= given.workload.conc_budget_s || given.workload.conc_budget_s == 0))
                assert_true(fluid_case_worth(&given, x) <= answer.objective + 1e-6);
        }
    }
}

/* ---- The core by itself ---- */

struct core {
    double weight[TG_TYPES_MAX], value[TG_TYPES_MAX], cost[TG_TYPES_MAX], hold[TG_TYPES_MAX],
        x[TG_TYPES_MAX];
    struct fluid_program program;
};

static void load_core(struct core *core, const struct fluid_case *given)
{
    for (size_t i = 0; i < given->workload.n_types; i++) {
        core->weight[i] = given->types[i].weight;
        core->value[i] = given->types[i].value;
        core->cost[i] = given->types[i].cost;
        core->hold[i] = given->types[i].hold_s;
    }
    core->program.n = given->workload.n_types;
    core->program.weight = core->weight;
    core->program.value = core->value;
    core->program.use[FLUID_COST] = core->cost;
    core->program.use[FLUID_HOLD] = core->hold;
    core->program.fraction = core->x;
}

/* The gap between what the plan is worth and what the prices say. */
static void expect_core_best(const struct core *core)
{
    const struct fluid_program *program = &core->program;
    const double *use[3] = {NULL, core->cost, core->hold};
    double dual = 0, worth = 0, all = 0;

    for (int axis = 0; axis < FLUID_AXES; axis++) {
        double used = 0, budget = fmax(program->budget[axis], 0);
        if (program->budget[axis] == INFINITY) {
            assert_true(program->price[axis] == 0);
            continue;
        }
        for (size_t i = 0; i < program->n; i++)
            used += core->weight[i] * core->x[i] * (use[axis] == NULL ? 1 : use[axis][i]);
        assert_true(used <= budget * (1 + 1e-9));
        dual += budget * program->price[axis];
    }
    for (size_t i = 0; i < program->n; i++) {
        double bid = program->price[0] + program->price[1] * core->cost[i] +
                     program->price[2] * core->hold[i];
        dual += core->weight[i] * fmax(0, core->value[i] - bid);
        worth += core->weight[i] * core->value[i] * core->x[i];
        all += core->weight[i] * core->value[i];
    }
    /* With a budget of nothing the best may be 0, and what is left of it rounding of the whole. */
    expect_near(worth, dual, 1e-9 * dual + 1e-12 * all);
    expect_near(program->objective, worth, 1e-9 * dual);
}

static double draw_budget(struct draw *draw, double about)
{
    if (draw_chance(draw, 20))
        return INFINITY;
    if (draw_chance(draw, 5))
        return draw_chance(draw, 50) ? 0 : -1;
    return about * draw_unit(draw);
}

/* A program that is solved again and again, as budgets and what is expected change, from where it
 * last ended; now and then with other types, where that is no start. */
static void the_core_is_right_from_any_start_with_any_axes(void **state)
{
    struct draw draw = draw_stream(seed, 9);
    struct core core = {.program = {0}};
    struct fluid_case given;
    (void)state;

    for (uint64_t run = 0; run < RUNS; run++) {
        if (run == 0 || draw_chance(&draw, 10)) {
            size_t n = (size_t)draw_between(&draw, 0, 64);
            if (draw_chance(&draw, 50))
                fluid_draw_usual(&draw, n, true, &given);
            else
                fluid_draw_ties(&draw, n, true, &given);
            load_core(&core, &given);
        }
        core.program.budget[FLUID_RATE] = draw_budget(&draw, 60);
        core.program.budget[FLUID_COST] = draw_budget(&draw, 30000);
        core.program.budget[FLUID_HOLD] = draw_budget(&draw, 3000);
        if (core.program.n > 0)
            core.weight[draw_between(&draw, 0, (int64_t)core.program.n - 1)] = draw_unit(&draw);
        fluid_prices(&core.program);
        expect_core_best(&core);
    }
    cases_report("from any start, with any axes", RUNS);
}

/* Were it ever to go in a circle, values would be moved a little, and the answer still be right. */
static void the_core_is_right_when_it_has_to_end_ties(void **state)
{
    struct draw draw = draw_stream(seed, 10);
    struct core core = {.program = {0}};
    struct fluid_case given;
    (void)state;

    for (uint64_t run = 0; run < RUNS / 10; run++) {
        fluid_draw_ties(&draw, (size_t)draw_between(&draw, 1, 64), true, &given);
        load_core(&core, &given);
        core.program.budget[FLUID_RATE] = draw_budget(&draw, 60);
        core.program.budget[FLUID_COST] = draw_budget(&draw, 100);
        core.program.budget[FLUID_HOLD] = draw_budget(&draw, 100);
        fluid_prices_within(&core.program, (size_t)draw_between(&draw, 0, 2));
        expect_core_best(&core);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_axes_satisfy_the_published_certificate),
        cmocka_unit_test(three_axes_satisfy_it_too),
        cmocka_unit_test(ties_nothings_and_twins_satisfy_it),
        cmocka_unit_test(many_types_with_ties_satisfy_it),
        cmocka_unit_test(numbers_of_all_sizes_satisfy_it),
        cmocka_unit_test(all_numbers_that_are_allowed_satisfy_it),
        cmocka_unit_test(as_many_types_as_there_may_be_satisfy_it),
        cmocka_unit_test(units_change_nothing),
        cmocka_unit_test(no_plan_that_fits_is_worth_more),
        cmocka_unit_test(the_core_is_right_from_any_start_with_any_axes),
        cmocka_unit_test(the_core_is_right_when_it_has_to_end_ties),
    };
    seed = draw_seed("test_fluid_kkt");
    return cmocka_run_group_tests_name("fluid_kkt", tests, NULL, NULL);
}
