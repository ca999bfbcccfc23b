/* fluid.c - the fluid program as the public interface has it: checked, solved, made unique.
 *
 * The work is done elsewhere: fluid_simplex.c finds best prices and a best plan, fluid_face.c the
 * most selective prices of several, fluid_plan.c the plan of several on two axes. On three axes the
 * plan is the one of the simplex method: any plan that is best goes with any prices that are. All
 * of it happens on the stack, some 40 KB of it.
 */
#include "lib/policy/fluid_face.h"

#include "lib/core/problem.h"

#include <math.h>

void tg_type_init(struct tg_type *type)
{
    if (type)
        *type = (struct tg_type){.cost = 1, .value = 1, .weight = 1, .hold_s = TG_NO_HOLD};
}

void tg_workload_init(struct tg_workload *workload)
{
    if (workload)
        *workload = (struct tg_workload){.types = NULL};
}

/* ---- Checks ---------------------------------------------------------------------------------- */

/* Wide enough for any unit. No product of these leaves the range of a double, and differences of
 * types that are as far apart as can be still show in one. */
#define LEAST 1e-15
#define MOST 1e18
#define RANGE "0, or a number from 1e-15 to 1e18"
#define RANGE_ABOVE_0 "a number from 1e-15 to 1e18"

static bool is_above_0(double x)
{
    return x >= LEAST && x <= MOST;
}

static bool is_amount(double x)
{
    return x == 0 || is_above_0(x);
}

static enum tg_err check_amount(size_t i, const char *field, double x, struct tg_problem *problem)
{
    if (is_amount(x))
        return TG_OK;
    return problem_say(problem, TG_ERR_INVALID, "types[%zu].%s is %g; it must be " RANGE, i, field,
                       x);
}

static enum tg_err check_hold(size_t i, double hold_s, bool wanted, struct tg_problem *problem)
{
    bool given = hold_s != TG_NO_HOLD;

    if (given && !is_amount(hold_s))
        return check_amount(i, "hold", hold_s, problem);
    if (wanted && !given)
        return problem_say(problem, TG_ERR_INVALID,
                           "types[%zu].hold is missing; with conc_budget every type must have one",
                           i);
    if (!wanted && hold_s > 0)
        return problem_say(problem, TG_ERR_INVALID,
                           "types[%zu].hold is %g, but there is no conc_budget; give one, or no "
                           "hold above 0",
                           i, hold_s);
    return TG_OK;
}

static enum tg_err check_type(size_t i, const struct tg_type *type, bool hold_wanted,
                              struct tg_problem *problem)
{
    enum tg_err err = check_amount(i, "cost", type->cost, problem);

    if (err == TG_OK)
        err = check_amount(i, "value", type->value, problem);
    if (err == TG_OK)
        err = check_amount(i, "weight", type->weight, problem);
    return err != TG_OK ? err : check_hold(i, type->hold_s, hold_wanted, problem);
}

static enum tg_err fluid_check_budget(const char *field, double budget, struct tg_problem *problem)
{
    if (is_above_0(budget))
        return TG_OK;
    return problem_say(problem, TG_ERR_INVALID, "%s is %g; it must be " RANGE_ABOVE_0, field,
                       budget);
}

static enum tg_err check_scalars(const struct tg_workload *workload, struct tg_problem *problem)
{
    enum tg_err err;

    if (workload->n_types < 1 || workload->n_types > TG_TYPES_MAX)
        return problem_say(problem, TG_ERR_INVALID, "types has %zu entries; 1 to %d are allowed",
                           workload->n_types, TG_TYPES_MAX);
    if (!is_amount(workload->arrivals))
        return problem_say(problem, TG_ERR_INVALID, "arrivals is %g; it must be " RANGE,
                           workload->arrivals);
    err = fluid_check_budget("rate_budget", workload->rate_budget, problem);
    if (err == TG_OK)
        err = fluid_check_budget("cost_budget", workload->cost_budget, problem);
    if (err == TG_OK && workload->conc_budget_s != 0)
        err = fluid_check_budget("conc_budget", workload->conc_budget_s, problem);
    return err;
}

static double sum_of_weights(const struct tg_workload *workload)
{
    double sum = 0;

    for (size_t i = 0; i < workload->n_types; i++)
        sum += workload->types[i].weight;
    return sum;
}

static enum tg_err check_workload(const struct tg_workload *workload, struct tg_problem *problem)
{
    enum tg_err err = check_scalars(workload, problem);

    for (size_t i = 0; err == TG_OK && i < workload->n_types; i++)
        err = check_type(i, &workload->types[i], workload->conc_budget_s > 0, problem);
    if (err == TG_OK && workload->arrivals > 0 && !(sum_of_weights(workload) > 0))
        err = problem_say(problem, TG_ERR_INVALID,
                          "types: all weights are 0; with arrivals one must be above it");
    return err;
}

/* ---- The solution ---------------------------------------------------------------------------- */

/* The types, number by number. */
struct table {
    double weight[TG_TYPES_MAX];
    double value[TG_TYPES_MAX];
    double cost[TG_TYPES_MAX];
    double hold[TG_TYPES_MAX];
    double fraction[TG_TYPES_MAX];
};

static void fill_table(const struct tg_workload *workload, struct table *table)
{
    double sum = sum_of_weights(workload);

    for (size_t i = 0; i < workload->n_types; i++) {
        const struct tg_type *type = &workload->types[i];
        table->weight[i] =
            workload->arrivals > 0 ? workload->arrivals * (type->weight / sum) : type->weight;
        table->value[i] = type->value;
        table->cost[i] = type->cost;
        table->hold[i] = type->hold_s;
    }
}

static double objective_of(const struct fluid_program *program)
{
    double sum = 0;

    for (size_t i = 0; i < program->n; i++)
        sum += program->weight[i] * program->value[i] * program->fraction[i];
    return sum;
}

enum tg_err tg_fluid_solve(const struct tg_workload *workload, struct tg_duals *duals,
                           double *fractions, double *objective, struct tg_problem *problem)
{
    struct table table;

    if (!workload || !duals)
        return problem_say(problem, TG_ERR_NULL, "workload: %s", tg_strerror(TG_ERR_NULL));
    enum tg_err err = check_workload(workload, problem);
    bool holds = workload->conc_budget_s > 0;
    if (err != TG_OK)
        return err;
    fill_table(workload, &table);
    struct fluid_program program = {
        .n = workload->n_types,
        .weight = table.weight,
        .value = table.value,
        .use = {[FLUID_COST] = table.cost, [FLUID_HOLD] = table.hold},
        .budget = {workload->rate_budget, workload->cost_budget,
                   holds ? workload->conc_budget_s : INFINITY},
        .fraction = table.fraction,
    };
    fluid_prices(&program);
    fluid_face_choose(&program);
    fluid_plan_choose(&program);

    *duals = (struct tg_duals){program.price[FLUID_RATE], program.price[FLUID_COST],
                               program.price[FLUID_HOLD]};
    for (size_t i = 0; fractions != NULL && i < workload->n_types; i++)
        fractions[i] = table.fraction[i];
    if (objective != NULL)
        *objective = objective_of(&program);
    return TG_OK;
}
