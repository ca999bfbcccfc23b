/* fluid_plan.c - which of several best plans, on the axes of rate and cost.
 *
 * At given prices a type that is worth more than its bid is in, one worth less is out, and what is
 * left of the budgets is for those exactly at it. Where these are more than the prices, many plans
 * are best, and the simplex method ends at whichever it met. This one is chosen by a rule that one
 * can follow by hand, the one that is published for this program:
 *
 *     only calls have a price      cheap types first: they leave most of the other budget
 *     only cost has a price        dear types first: they leave most of the calls
 *     both have one                the first two of unlike cost share what the others leave, and
 *                                  these are in or out, the first way that fits
 *
 * The plan counts only if it is best: it fits, and uses up every budget that has a price.
 */
#include "lib/policy/fluid_face.h"

#include "lib/policy/fluid_small.h"

#include <assert.h>
#include <math.h>

#define FITS 1e-9    /* this part of a budget, or of a fraction, is rounding */
#define TRIED_MAX 12 /* marginal types of which all ways to be in and out are tried */

struct plan {
    const struct fluid_program *program;
    double x[TG_TYPES_MAX];
    double left[2];                  /* what is left of the budgets of rate and cost */
    uint16_t marginal[TG_TYPES_MAX]; /* types exactly at their price */
    size_t n;
};

static double fluid_plan_cost_of(const struct plan *plan, size_t i)
{
    return fluid_use(plan->program, FLUID_COST, i);
}

static void force(struct plan *plan)
{
    const struct fluid_program *program = plan->program;

    plan->left[FLUID_RATE] = program->budget[FLUID_RATE];
    plan->left[FLUID_COST] = program->budget[FLUID_COST];
    for (size_t i = 0; i < program->n; i++) {
        double bid = fluid_bid(program, program->price, i);
        double over = program->value[i] - bid;
        double none = fluid_tolerance(FLUID_VALUE_TOLERANCE, program->value[i] + bid);

        plan->x[i] = over > none;
        if (over >= -none && over <= none && program->weight[i] > 0)
            plan->marginal[plan->n++] = (uint16_t)i;
        plan->left[FLUID_RATE] -= plan->x[i] * program->weight[i];
        plan->left[FLUID_COST] -= plan->x[i] * program->weight[i] * fluid_plan_cost_of(plan, i);
    }
    for (int axis = 0; axis < 2; axis++)
        plan->left[axis] = fmax(plan->left[axis], 0);
}

/* By cost, and equal ones as they were. */
static void sort_marginal(struct plan *plan, bool descending)
{
    for (size_t i = 1; i < plan->n; i++) {
        uint16_t moved = plan->marginal[i];
        double cost = fluid_plan_cost_of(plan, moved);
        size_t at = i;
        for (; at > 0; at--) {
            double before = fluid_plan_cost_of(plan, plan->marginal[at - 1]);
            if (descending ? before >= cost : before <= cost)
                break;
            plan->marginal[at] = plan->marginal[at - 1];
        }
        plan->marginal[at] = moved;
    }
}

static void fluid_plan_fill(struct plan *plan, int axis)
{
    double left = plan->left[axis];

    sort_marginal(plan, axis == FLUID_COST);
    for (size_t k = 0; k < plan->n; k++) {
        size_t i = plan->marginal[k];
        double all = plan->program->weight[i] * fluid_use(plan->program, axis, i);
        if (!(all > 0))
            continue;
        plan->x[i] = fmin(1, left / all);
        assert(plan->x[i] >= 0 && plan->x[i] <= 1);
        left = fmax(0, left - plan->x[i] * all);
    }
}

/* ---- Both budgets are used up ---------------------------------------------------------------- */

/* Brings the first two types of unlike cost to the front; false: there are none. */
static bool bring_pair(struct plan *plan)
{
    for (size_t a = 0; a < plan->n; a++)
        for (size_t b = a + 1; b < plan->n; b++) {
            double ca = fluid_plan_cost_of(plan, plan->marginal[a]),
                   cb = fluid_plan_cost_of(plan, plan->marginal[b]);
            if (fabs(ca - cb) <= fluid_tolerance(1e-9, fmax(ca, cb)))
                continue;
            uint16_t first = plan->marginal[a], second = plan->marginal[b];
            for (size_t i = b; i > 1; i--)
                plan->marginal[i] = plan->marginal[i - (i > a + 1 ? 1 : 2)];
            plan->marginal[0] = first;
            plan->marginal[1] = second;
            return true;
        }
    return false;
}

static bool fluid_plan_in_range(double *x)
{
    if (!(*x >= -FITS && *x <= 1 + FITS))
        return false;
    *x = fmin(fmax(*x, 0), 1);
    return true;
}

/* The two at the front take exactly what is left. */
static bool share(struct plan *plan, double rate, double cost)
{
    size_t a = plan->marginal[0], b = plan->marginal[1];
    double ca = fluid_plan_cost_of(plan, a), cb = fluid_plan_cost_of(plan, b);
    double calls_b = (cost - ca * rate) / (cb - ca);
    double xa = (rate - calls_b) / plan->program->weight[a];
    double xb = calls_b / plan->program->weight[b];

    if (!fluid_plan_in_range(&xa) || !fluid_plan_in_range(&xb))
        return false;
    plan->x[a] = xa;
    plan->x[b] = xb;
    return true;
}

static bool share_beside(struct plan *plan, unsigned in)
{
    double rate = plan->left[FLUID_RATE], cost = plan->left[FLUID_COST];

    for (size_t k = 2; k < plan->n; k++) {
        size_t i = plan->marginal[k];
        plan->x[i] = in >> (k - 2) & 1;
        rate -= plan->x[i] * plan->program->weight[i];
        cost -= plan->x[i] * plan->program->weight[i] * fluid_plan_cost_of(plan, i);
    }
    return share(plan, rate, cost);
}

static bool use_up_both(struct plan *plan)
{
    if (plan->n > TRIED_MAX || !bring_pair(plan))
        return false;
    for (unsigned in = 0; in < 1u << (plan->n - 2); in++)
        if (share_beside(plan, in))
            return true;
    return false;
}

/* ---- All of it ------------------------------------------------------------------------------- */

static bool is_best(const struct plan *plan)
{
    const struct fluid_program *program = plan->program;

    for (int axis = 0; axis < 2; axis++) {
        double used = 0, budget = program->budget[axis];
        for (size_t i = 0; i < program->n; i++)
            used += plan->x[i] * program->weight[i] * fluid_use(program, axis, i);
        if (used > budget * (1 + FITS) || (program->price[axis] > 0 && used < budget * (1 - FITS)))
            return false;
    }
    return true;
}

static bool fill_marginal(struct plan *plan)
{
    bool rate = plan->program->price[FLUID_RATE] > 0, cost = plan->program->price[FLUID_COST] > 0;

    if (rate && cost)
        return use_up_both(plan);
    if (rate || cost)
        fluid_plan_fill(plan, rate ? FLUID_RATE : FLUID_COST);
    return true;
}

/* A type of no weight stands in nobody's way. */
static void grant_weightless(struct fluid_program *program)
{
    for (size_t i = 0; i < program->n; i++) {
        double bid = fluid_bid(program, program->price, i);
        double none = fluid_tolerance(FLUID_VALUE_TOLERANCE, program->value[i] + bid);

        if (!(program->weight[i] > 0))
            program->fraction[i] = program->value[i] > 0 && program->value[i] >= bid - none;
    }
}

void fluid_plan_choose(struct fluid_program *program)
{
    struct plan plan = {.program = program};

    grant_weightless(program);
    if (program->budget[FLUID_HOLD] < INFINITY)
        return;
    force(&plan);
    if (!fill_marginal(&plan) || !is_best(&plan))
        return;
    for (size_t i = 0; i < program->n; i++)
        if (program->weight[i] > 0) {
            assert(plan.x[i] >= 0 && plan.x[i] <= 1);
            program->fraction[i] = plan.x[i];
        }
}
