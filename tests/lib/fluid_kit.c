/* fluid_kit.c - fluid programs to solve, and the certificate that a solution is the best. */
#include "fluid_kit.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

static double hold_of(const struct tg_type *type)
{
    return type->hold_s > 0 ? type->hold_s : 0;
}

struct fluid_answer fluid_case_solve(struct fluid_case *given)
{
    struct fluid_answer answer = {.objective = -1};
    struct tg_problem problem = {""};

    given->workload.types = given->types;
    if (tg_fluid_solve(&given->workload, &answer.duals, answer.x, &answer.objective, &problem) !=
        TG_OK)
        fail_msg("not solved: %s", problem.text);
    return answer;
}

void expect_near_at(double got, double want, double tolerance, const char *what, const char *file,
                    int line)
{
    if (fabs(got - want) <= tolerance)
        return;
    printf("# %s is %.17g, not %.17g within %g\n", what, got, want, tolerance);
    _fail(file, line);
}

static double bid_of(const struct tg_duals *duals, const struct tg_type *type)
{
    return duals->rate + duals->cost * type->cost + duals->concurrency * hold_of(type);
}

double fluid_case_left(const struct fluid_case *given, const struct tg_duals *duals, size_t i)
{
    return given->types[i].value - bid_of(duals, &given->types[i]);
}

double fluid_case_dual(const struct fluid_case *given, const struct tg_duals *duals)
{
    const struct tg_workload *workload = &given->workload;
    double sum = duals->rate * workload->rate_budget + duals->cost * workload->cost_budget +
                 duals->concurrency * workload->conc_budget_s;

    for (size_t i = 0; i < workload->n_types; i++)
        sum += given->types[i].weight * fmax(0, fluid_case_left(given, duals, i));
    return sum;
}

double fluid_case_worth(const struct fluid_case *given, const double *x)
{
    double sum = 0;

    for (size_t i = 0; i < given->workload.n_types; i++)
        sum += given->types[i].weight * given->types[i].value * x[i];
    return sum;
}

void fluid_case_used(const struct fluid_case *given, const double *x, double used[3])
{
    used[0] = used[1] = used[2] = 0;
    for (size_t i = 0; i < given->workload.n_types; i++) {
        double calls = given->types[i].weight * x[i];
        used[0] += calls;
        used[1] += calls * given->types[i].cost;
        used[2] += calls * hold_of(&given->types[i]);
    }
}

/* ---- Certificates ---- */

void fluid_print(const struct fluid_case *given, const struct fluid_answer *answer)
{
    const struct tg_workload *workload = &given->workload;

    printf("# budgets %.17g %.17g %.17g\n", workload->rate_budget, workload->cost_budget,
           workload->conc_budget_s);
    for (size_t i = 0; i < workload->n_types; i++)
        printf("# {%.17g, %.17g, %.17g, %.17g} x %.17g left %.3g\n", given->types[i].cost,
               given->types[i].value, given->types[i].weight, given->types[i].hold_s, answer->x[i],
               fluid_case_left(given, &answer->duals, i));
    printf("# prices %.17g %.17g %.17g objective %.17g\n", answer->duals.rate, answer->duals.cost,
           answer->duals.concurrency, answer->objective);
}

static void expect(bool holds, const char *what, const struct fluid_case *given,
                   const struct fluid_answer *answer, uint64_t run)
{
    if (holds)
        return;
    fluid_print(given, answer);
    fail_msg("run %" PRIu64 ": %s", run, what);
}

void fluid_expect_kkt(const struct fluid_case *given, const struct fluid_answer *answer,
                      uint64_t run)
{
    const struct tg_workload *workload = &given->workload;
    const double price[3] = {answer->duals.rate, answer->duals.cost, answer->duals.concurrency};
    const double budget[3] = {workload->rate_budget, workload->cost_budget,
                              workload->conc_budget_s};
    double used[3];

    fluid_case_used(given, answer->x, used);
    for (int axis = 0; axis < (budget[2] > 0 ? 3 : 2); axis++) {
        expect(used[axis] <= budget[axis] + 1e-6, "a budget is broken", given, answer, run);
        expect(price[axis] >= 0, "a price is negative", given, answer, run);
        expect(price[axis] <= 1e-6 || fabs(used[axis] - budget[axis]) < 1e-4,
               "a budget with a price is not used up", given, answer, run);
    }
    for (size_t i = 0; i < workload->n_types; i++) {
        double left = fluid_case_left(given, &answer->duals, i);
        expect(answer->x[i] >= 0 && answer->x[i] <= 1, "a fraction is none", given, answer, run);
        expect(left <= 1e-6 || answer->x[i] > 1 - 1e-4, "what is worth it is not in", given, answer,
               run);
        expect(left >= -1e-6 || answer->x[i] < 1e-4, "what is not worth it is in", given, answer,
               run);
    }
    expect(fabs(answer->objective - fluid_case_worth(given, answer->x)) < 5e-7,
           "the objective is not the plan's", given, answer, run);
}

void fluid_expect_best(const struct fluid_case *given, const struct fluid_answer *answer,
                       uint64_t run)
{
    const struct tg_workload *workload = &given->workload;
    double worth = fluid_case_worth(given, answer->x);
    double dual = fluid_case_dual(given, &answer->duals);
    double used[3];

    fluid_case_used(given, answer->x, used);
    expect(used[0] <= workload->rate_budget * (1 + 1e-9) &&
               used[1] <= workload->cost_budget * (1 + 1e-9) &&
               (workload->conc_budget_s == 0 || used[2] <= workload->conc_budget_s * (1 + 1e-9)),
           "a budget is broken", given, answer, run);
    expect(answer->duals.rate >= 0 && answer->duals.cost >= 0 && answer->duals.concurrency >= 0,
           "a price is negative", given, answer, run);
    for (size_t i = 0; i < workload->n_types; i++)
        expect(answer->x[i] >= 0 && answer->x[i] <= 1, "a fraction is none", given, answer, run);
    expect(fabs(dual - worth) <= 1e-9 * dual, "prices and plan are not worth the same", given,
           answer, run);
    expect(fabs(answer->objective - worth) <= 1e-9 * dual, "the objective is not the plan's", given,
           answer, run);
}

/* ---- Programs ---- */

void fluid_draw_ties(struct draw *draw, size_t n, bool holds, struct fluid_case *drawn)
{
    tg_workload_init(&drawn->workload);
    for (size_t i = 0; i < n; i++)
        drawn->types[i] =
            (struct tg_type){.cost = (double)draw_between(draw, 0, 3),
                             .value = (double)draw_between(draw, 1, 4),
                             .weight = (double)draw_between(draw, 1, 3),
                             .hold_s = holds ? (double)draw_between(draw, 0, 3) : TG_NO_HOLD};
    drawn->workload.n_types = n;
    drawn->workload.rate_budget = (double)draw_between(draw, 1, 6);
    drawn->workload.cost_budget = (double)draw_between(draw, 1, 12);
    drawn->workload.conc_budget_s = holds ? (double)draw_between(draw, 1, 12) : 0;
}

static double draw_from(struct draw *draw, double low, double high)
{
    return low + (high - low) * draw_unit(draw);
}

void fluid_draw_usual(struct draw *draw, size_t n, bool holds, struct fluid_case *drawn)
{
    tg_workload_init(&drawn->workload);
    for (size_t i = 0; i < n; i++)
        drawn->types[i] =
            (struct tg_type){.cost = draw_from(draw, 1, 1000),
                             .value = draw_from(draw, 0.1, 100),
                             .weight = draw_from(draw, 0.1, 2),
                             .hold_s = holds ? draw_from(draw, 0.1, 100) : TG_NO_HOLD};
    drawn->workload.n_types = n;
    drawn->workload.rate_budget = draw_from(draw, 0.1, 8);
    drawn->workload.cost_budget = draw_from(draw, 1, 4000);
    drawn->workload.conc_budget_s = holds ? draw_from(draw, 0.1, 400) : 0;
}

void fluid_use_up(struct draw *draw, struct fluid_case *given)
{
    double x[TG_TYPES_MAX], used[3];
    bool holds = given->workload.conc_budget_s > 0;

    for (size_t i = 0; i < given->workload.n_types; i++)
        x[i] = draw_chance(draw, 50);
    fluid_case_used(given, x, used);
    given->workload.rate_budget = used[0] > 0 ? used[0] : 1;
    given->workload.cost_budget = used[1] > 0 ? used[1] : 1;
    given->workload.conc_budget_s = !holds ? 0 : used[2] > 0 ? used[2] : 1;
}
