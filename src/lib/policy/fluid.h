/* fluid.h - the fluid program: which parts of what is expected are worth most and fit.
 *
 *     max  sum(weight value x)    with  sum(weight use[a] x) <= budget[a]  for each axis a
 *                                       0 <= x <= 1
 *
 * fluid_prices() is the fast core: best prices and a best plan, of several any one. What
 * tg_fluid_solve() adds, the choice among several best prices, is in fluid_face.c.
 *
 *     struct fluid_program program = {.n = n, .weight = w, .value = v, .fraction = x,
 *                                     .use = {[FLUID_COST] = c, [FLUID_HOLD] = h},
 *                                     .budget = {1000, 50000, INFINITY}};
 *     fluid_prices(&program);                     program.price, x, program.objective
 *     program.budget[FLUID_COST] = 40000;
 *     fluid_prices(&program);                     starts from where the last one ended
 *
 * Deterministic, without allocation, some KB of stack. A program belongs to one thread at a time.
 */
#ifndef TG_POLICY_FLUID_H
#define TG_POLICY_FLUID_H

#include "tollgate.h"

enum { FLUID_RATE, FLUID_COST, FLUID_HOLD, FLUID_AXES };

/* Where a solution stands: as many types lie exactly at their price as axes have one. All 0 is the
 * start from nothing. */
struct fluid_basis {
    uint8_t n;                  /* 0 to FLUID_AXES */
    uint8_t axes[FLUID_AXES];   /* the axes that have a price, ascending */
    uint16_t types[FLUID_AXES]; /* the types that are rationed */
};

struct fluid_program {
    size_t n; /* types, 0 to TG_TYPES_MAX */

    /* n numbers each, finite and not negative. Null in `use` stands for ones. */
    const double *weight;
    const double *value;
    const double *use[FLUID_AXES];
    double budget[FLUID_AXES]; /* INFINITY: no such axis; below 0 counts as 0 */

    /* Any earlier answer, for the same number of types or not, and for types that are the same or
     * not: it makes the solution quicker, if it is near, and not different but for ties. */
    struct fluid_basis basis;

    /* The answer. */
    double price[FLUID_AXES]; /* 0 for an axis that is not there */
    double *fraction;         /* n numbers, the caller's room; a type of no weight is let in if it
                                 is worth its price */
    double objective;         /* sum(weight value x) */
};

void fluid_prices(struct fluid_program *program);

/* The same for tests, which want to see how many steps it takes, and what happens when they are too
 * many: see fluid_simplex.c. False: they were. */
bool fluid_prices_within(struct fluid_program *program, size_t most_steps);

#endif
