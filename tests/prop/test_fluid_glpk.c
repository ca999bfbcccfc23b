/* test_fluid_glpk.c - the fluid program against a solver that others wrote: GLPK's simplex method
 * finds the same objective. Its prices and plans may be others, where several are best; ours are
 * then proved by their certificate. */
#include <glpk.h>
#include <math.h>

#include "fluid_kit.h"

#define RUNS 10000
#define TYPES 64

static uint64_t seed;

static void add_rows(glp_prob *problem, const struct tg_workload *workload)
{
    glp_add_rows(problem, workload->conc_budget_s > 0 ? 3 : 2);
    glp_set_row_bnds(problem, 1, GLP_UP, 0, workload->rate_budget);
    glp_set_row_bnds(problem, 2, GLP_UP, 0, workload->cost_budget);
    if (workload->conc_budget_s > 0)
        glp_set_row_bnds(problem, 3, GLP_UP, 0, workload->conc_budget_s);
}

static void add_column(glp_prob *problem, int column, const struct tg_type *type)
{
    /* GLPK counts from 1. */
    const int rows[] = {0, 1, 2, 3};
    const double uses[] = {0, type->weight, type->weight * type->cost, type->weight * type->hold_s};

    glp_set_obj_coef(problem, column, type->weight * type->value);
    glp_set_col_bnds(problem, column, GLP_DB, 0, 1);
    glp_set_mat_col(problem, column, glp_get_num_rows(problem), rows, uses);
}

static double glpk_objective(const struct fluid_case *given)
{
    glp_prob *problem = glp_create_prob();
    glp_smcp options;

    glp_init_smcp(&options);
    options.msg_lev = GLP_MSG_OFF;
    options.presolve = GLP_OFF;
    glp_set_obj_dir(problem, GLP_MAX);
    add_rows(problem, &given->workload);
    glp_add_cols(problem, (int)given->workload.n_types);
    for (size_t i = 0; i < given->workload.n_types; i++)
        add_column(problem, (int)i + 1, &given->types[i]);
    assert_int_equal(glp_simplex(problem, &options), 0);
    assert_int_equal(glp_get_status(problem), GLP_OPT);
    double objective = glp_get_obj_val(problem);
    glp_delete_prob(problem);
    return objective;
}

/* Budgets that fit the number of types, so that all axes matter. */
static void draw_program(struct draw *draw, uint64_t run, struct fluid_case *given)
{
    size_t n = (size_t)draw_between(draw, 1, TYPES);
    bool holds = run % 4 != 0;

    if (run % 2 == 0)
        fluid_draw_usual(draw, n, holds, given);
    else
        fluid_draw_ties(draw, n, holds, given);
    if (run % 3 == 0)
        fluid_use_up(draw, given);
    given->workload.rate_budget *= (double)n * 2 * draw_unit(draw) / 8 + 0.01;
    given->workload.cost_budget *= (double)n * 2 * draw_unit(draw) / 8 + 0.01;
    given->workload.conc_budget_s *= (double)n * 2 * draw_unit(draw) / 8 + 0.01;
}

static void glpk_finds_the_same_objective(void **state)
{
    struct draw draw = draw_stream(seed, 1);
    struct fluid_case given;
    (void)state;

    for (uint64_t run = 0; run < RUNS; run++) {
        draw_program(&draw, run, &given);
        struct fluid_answer answer = fluid_case_solve(&given);
        double objective = glpk_objective(&given);
        expect_near(answer.objective, objective, 1e-7 * objective);
        fluid_expect_best(&given, &answer, run);
    }
    glp_free_env();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(glpk_finds_the_same_objective)};

    seed = draw_seed("test_fluid_glpk");
    return cmocka_run_group_tests_name("fluid_glpk", tests, NULL, NULL);
}
