/* fluid_kit.h - fluid programs to solve, and the certificate that a solution is the best. */
#ifndef FLUID_KIT_H
#define FLUID_KIT_H

#include "check.h"
#include "draw.h"

struct fluid_case {
    struct tg_type types[TG_TYPES_MAX];
    struct tg_workload workload; /* its types are the ones above once it is solved */
};

struct fluid_answer {
    struct tg_duals duals;
    double x[TG_TYPES_MAX];
    double objective;
};

/* Solves; an error fails the test. */
struct fluid_answer fluid_case_solve(struct fluid_case *given);

/* cmocka compares floats; these are doubles. */
#define expect_near(got, want, tolerance)                                                          \
    expect_near_at(got, want, tolerance, #got, __FILE__, __LINE__)

void expect_near_at(double got, double want, double tolerance, const char *what, const char *file,
                    int line);

/* value - bid of type i. */
double fluid_case_left(const struct fluid_case *given, const struct tg_duals *duals, size_t i);

/* No plan is worth more than this, whatever the prices. */
double fluid_case_dual(const struct fluid_case *given, const struct tg_duals *duals);

/* What the plan is worth, and uses of each budget: calls, cost, slot-seconds. */
double fluid_case_worth(const struct fluid_case *given, const double *x);
void fluid_case_used(const struct fluid_case *given, const double *x, double used[3]);

/* The certificate that is published, for programs of usual size, with its tolerances: the plan
 * fits, what is worth more than its price is in, what is worth less is out, a budget with a price
 * is used up, the objective is the plan's. */
void fluid_expect_kkt(const struct fluid_case *given, const struct fluid_answer *answer,
                      uint64_t run);

/* The same for programs of any size, and stronger: the plan fits to 1e-9 of a budget, and is worth
 * what the prices say to 1e-9 of it, so that neither can be bettered. */
void fluid_expect_best(const struct fluid_case *given, const struct fluid_answer *answer,
                       uint64_t run);

/* The program, the plan and the prices, for whoever has to find out why a test failed. */
void fluid_print(const struct fluid_case *given, const struct fluid_answer *answer);

/* Types and budgets of whole numbers, so small that ties are the rule. */
void fluid_draw_ties(struct draw *draw, size_t n, bool holds, struct fluid_case *drawn);

/* Types and budgets in the published ranges. */
void fluid_draw_usual(struct draw *draw, size_t n, bool holds, struct fluid_case *drawn);

/* Gives a program such budgets that some of its types together use up all of them exactly: then
 * every price of a whole face may be best. */
void fluid_use_up(struct draw *draw, struct fluid_case *given);

#endif
