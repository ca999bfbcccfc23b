/* fluid_small.h - up to three linear equations, and what counts as equal in the fluid program.
 *
 * Every vertex of the program is where as many types lie at their price as axes have one, so all
 * its numbers come from systems of at most FLUID_AXES equations. They are solved anew from the
 * caller's numbers at each step: nothing is updated, so no error grows.
 */
#ifndef TG_POLICY_FLUID_SMALL_H
#define TG_POLICY_FLUID_SMALL_H

#include "lib/policy/fluid.h"

struct fluid_system {
    size_t n; /* 0 to FLUID_AXES */
    double m[FLUID_AXES][FLUID_AXES];
    double right[FLUID_AXES];
};

/* m x answer = right, by elimination. False: to rounding, the rows of m depend on each other. Rows
 * and columns may be of any size: a call, a token and a slot-second have nothing to do with each
 * other. */
bool fluid_system_solve(const struct fluid_system *system, double *answer);

/* The same, to the last digits of every row, at twice the price. */
bool fluid_system_solve_well(const struct fluid_system *system, double *answer);

/* The equations of the prices at which all types of a basis have nothing left. */
bool fluid_basis_prices(const struct fluid_program *program, const struct fluid_basis *basis,
                        double *price);

/* How many of its units a type takes of an axis. */
static inline double fluid_use(const struct fluid_program *program, int axis, size_t i)
{
    return program->use[axis] == NULL ? 1 : program->use[axis][i];
}

/* What one call of a type has to pay. An axis that is not there has no price. */
static inline double fluid_bid(const struct fluid_program *program, const double *price, size_t i)
{
    double bid = 0;

    for (int axis = 0; axis < FLUID_AXES; axis++)
        if (price[axis] > 0)
            bid += price[axis] * fluid_use(program, axis, i);
    return bid;
}

/* A difference that counts as none, between numbers whose size is `size`: `absolute` where they are
 * of a usual size, relative where that would be too coarse or finer than doubles are. */
static inline double fluid_tolerance(double absolute, double size)
{
    double coarse = absolute * (size < 1 ? size : 1);
    double fine = 1e-12 * size;

    return coarse > fine ? coarse : fine;
}

/* What is small for a value beside a bid, and for prices beside each other. */
#define FLUID_VALUE_TOLERANCE 1e-7
#define FLUID_PRICE_TOLERANCE 1e-9

#endif
