/* fluid_simplex.c - the best prices, by the dual simplex method with long steps.
 *
 * A vertex of the dual has as many types exactly at their price (the basis) as axes have a price;
 * every other type is in (worth more than its price) or out. The method walks from vertex to
 * vertex of
 *
 *     D(p) = sum(budget p) + sum(weight max(0, value - use p)),      p >= 0
 *
 * downhill. It starts where nothing has a price and all types are in. Where the plan of a vertex
 * breaks a budget, or rations a type to less than nothing or more than all, an edge leads down; D
 * along it is convex and made of straight pieces, with a bend where a type meets its price, and the
 * step goes past all bends up to the lowest point. So a step is one look at all types, and their
 * number is that of the prices to find rather than that of types to sort: 64 types on three axes
 * need some five steps.
 *
 * Rejected: trying every vertex, as is published for this program, which takes n^3 and n^4; the
 * primal method, which takes a step for each type it lets in; updating an inverse, whose errors
 * grow and which is not worth it for three rows.
 *
 * Budgets and weights do not move a vertex, they only make another one the lowest. So with the same
 * types the last basis is always a start.
 *
 * Types that all meet their price at once (equal ones, multiples) make steps of no length, and
 * these might in theory go in a circle. After more steps than any known program needs, values are
 * moved by less than 1e-10 of themselves, each differently, which ends ties. In millions of
 * programs made of ties that was never needed.
 */
#include "lib/policy/fluid_bends.h"
#include "lib/policy/fluid_small.h"

#include <assert.h>
#include <math.h>

#define AT_PRICE 1e-12 /* this part of value + bid is no difference between them */
#define FEASIBLE 1e-12 /* this part of budget + used is nothing above it */
#define PARALLEL 1e-10 /* below this part of its terms, a sum cancels */
#define STEPS_BEFORE_TIES 64

struct simplex {
    size_t n;
    double budget[FLUID_AXES];
    double weight[TG_TYPES_MAX]; /* 0 for types that cannot matter: of no weight or value */
    double value[TG_TYPES_MAX];
    double use[FLUID_AXES][TG_TYPES_MAX]; /* 0 on an axis that is not there */

    /* Where it stands. */
    struct fluid_basis basis;
    double price[FLUID_AXES];
    double left[TG_TYPES_MAX]; /* value - bid */
    double in[TG_TYPES_MAX];   /* 1: in; 0: out, or in the basis */
    bool basic[TG_TYPES_MAX];
    double used[FLUID_AXES];     /* by types that are in */
    double rationed[FLUID_AXES]; /* weight x fraction, of the basis's types */
    double slack[FLUID_AXES];    /* budget - used, the basis counted */
    double size[FLUID_AXES];     /* budget + used: what rounding is measured by */
};

/* The way down from a vertex. */
struct edge {
    double slope; /* slope of D at its begin, negative */
    double direction[FLUID_AXES];
    int axis;    /* the axis that gets a price; -1: none */
    int type_at; /* the place in the basis of the type that leaves; -1: none */
    bool type_in;
};

/* ---- A vertex -------------------------------------------------------------------------------- */

static void fill_matrix(const struct simplex *s, struct fluid_system *system, bool by_axis)
{
    size_t k = s->basis.n;

    system->n = k;
    for (size_t i = 0; i < k; i++)
        for (size_t j = 0; j < k; j++)
            system->m[by_axis ? j : i][by_axis ? i : j] =
                s->use[s->basis.axes[j]][s->basis.types[i]];
}

static bool find_prices(struct simplex *s)
{
    struct fluid_system system;
    double answer[FLUID_AXES];

    fill_matrix(s, &system, false);
    for (size_t i = 0; i < s->basis.n; i++)
        system.right[i] = s->value[s->basis.types[i]];
    if (!fluid_system_solve_well(&system, answer))
        return false;
    for (int axis = 0; axis < FLUID_AXES; axis++)
        s->price[axis] = 0;
    for (size_t j = 0; j < s->basis.n; j++)
        s->price[s->basis.axes[j]] = answer[j];
    return true;
}

/* Who is in at these prices, and what they use together. A type that is at its price stays what it
 * was: a step past several bends at once has decided it. */
static void sort_types(struct simplex *s)
{
    const double *r = s->use[FLUID_RATE], *c = s->use[FLUID_COST], *h = s->use[FLUID_HOLD];
    double pr = s->price[FLUID_RATE], pc = s->price[FLUID_COST], ph = s->price[FLUID_HOLD];
    double used_r = 0, used_c = 0, used_h = 0;

    for (size_t i = 0; i < s->n; i++) {
        double bid = pr * r[i] + pc * c[i] + ph * h[i];
        double left = s->value[i] - bid;
        double none = AT_PRICE * (s->value[i] + bid);
        double in = left > none ? 1 : left < -none ? 0 : s->in[i];

        in = s->basic[i] ? 0 : in;
        s->left[i] = left;
        s->in[i] = in;
        in *= s->weight[i];
        used_r += in * r[i];
        used_c += in * c[i];
        used_h += in * h[i];
    }
    s->used[FLUID_RATE] = used_r;
    s->used[FLUID_COST] = used_c;
    s->used[FLUID_HOLD] = used_h;
}

/* What is left of the budgets with a price is for the types of the basis. */
static void ration(struct simplex *s)
{
    struct fluid_system system;

    for (int axis = 0; axis < FLUID_AXES; axis++) {
        s->slack[axis] = s->budget[axis] - s->used[axis];
        s->size[axis] = s->budget[axis] + s->used[axis];
    }
    fill_matrix(s, &system, true);
    for (size_t j = 0; j < s->basis.n; j++)
        system.right[j] = s->slack[s->basis.axes[j]];
    if (!fluid_system_solve_well(&system, s->rationed))
        return;
    for (size_t i = 0; i < s->basis.n; i++)
        for (int axis = 0; axis < FLUID_AXES; axis++) {
            double used = s->rationed[i] * s->use[axis][s->basis.types[i]];
            s->slack[axis] -= used;
            s->size[axis] += fabs(used);
        }
    for (size_t j = 0; j < s->basis.n; j++)
        s->slack[s->basis.axes[j]] = 0;
}

/* ---- An edge --------------------------------------------------------------------------------- */

/* An amount of an axis, as a part of what passes through its budget. */
static double part_of(const struct simplex *s, int axis, double amount)
{
    return s->size[axis] > 0 ? amount / s->size[axis] : 0;
}

/* How far a type of the basis is outside of [0, weight], by what that is of the budgets. */
static double excess_of(const struct simplex *s, size_t at)
{
    size_t type = s->basis.types[at];
    double beyond = fmax(-s->rationed[at], s->rationed[at] - s->weight[type]);
    double excess = 0;

    if (beyond > 0)
        for (size_t j = 0; j < s->basis.n; j++) {
            int axis = s->basis.axes[j];
            excess = fmax(excess, part_of(s, axis, beyond * s->use[axis][type]));
        }
    return excess;
}

/* What the plan of this vertex breaks most. False: nothing, it is the best. */
static bool choose_edge(const struct simplex *s, struct edge *edge)
{
    double worst = FEASIBLE;

    *edge = (struct edge){.type_at = -1};
    for (int axis = 0; axis < FLUID_AXES; axis++)
        if (s->slack[axis] < 0 && part_of(s, axis, -s->slack[axis]) > worst) {
            worst = part_of(s, axis, -s->slack[axis]);
            edge->axis = axis;
            edge->slope = s->slack[axis];
        }
    for (size_t at = 0; at < s->basis.n; at++) {
        double excess = excess_of(s, at);
        double weight = s->weight[s->basis.types[at]];
        if (excess <= worst)
            continue;
        worst = excess;
        edge->axis = -1;
        edge->type_at = (int)at;
        edge->type_in = s->rationed[at] > 0;
        edge->slope = edge->type_in ? weight - s->rationed[at] : s->rationed[at];
    }
    return edge->slope < 0;
}

/* Prices move so that the types of the basis stay at theirs, but for the one that leaves. */
static bool find_direction(const struct simplex *s, struct edge *edge)
{
    struct fluid_system system;
    double answer[FLUID_AXES];

    fill_matrix(s, &system, false);
    for (size_t i = 0; i < s->basis.n; i++)
        system.right[i] = edge->axis >= 0 ? -s->use[edge->axis][s->basis.types[i]] : 0;
    if (edge->type_at >= 0)
        system.right[edge->type_at] = edge->type_in ? -1 : 1;
    if (!fluid_system_solve(&system, answer))
        return false;
    for (size_t j = 0; j < s->basis.n; j++)
        edge->direction[s->basis.axes[j]] = answer[j];
    if (edge->axis >= 0)
        edge->direction[edge->axis] = 1;
    return true;
}

/* ---- A step ---------------------------------------------------------------------------------- */

/* The bends up to `end`, and the slope there. It is summed anew rather than from the slope at the
 * begin: types that are too dear by far leave on the way, and where they use 10^17 budgets a
 * difference would know nothing of the one that there is. */
static size_t find_bends(const struct simplex *s, const struct edge *edge, double end,
                         struct fluid_bend *bends, double *slope)
{
    const double *r = s->use[FLUID_RATE], *c = s->use[FLUID_COST], *h = s->use[FLUID_HOLD];
    double dr = edge->direction[FLUID_RATE], dc = edge->direction[FLUID_COST],
           dh = edge->direction[FLUID_HOLD];
    double admitted = 0;
    size_t n = 0;

    for (size_t i = 0; i < s->n; i++) {
        double tr = r[i] * dr, tc = c[i] * dc, th = h[i] * dh;
        double dearer = tr + tc + th;
        double toward = s->in[i] > 0 ? dearer : -dearer;
        double gap = s->in[i] > 0 ? s->left[i] : -s->left[i];
        double turn = s->weight[i] * toward;

        if (s->basic[i] || !(s->weight[i] > 0))
            continue;
        if (toward > PARALLEL * (fabs(tr) + fabs(tc) + fabs(th))) {
            double at = gap > 0 ? gap / toward : 0;
            bends[n] = (struct fluid_bend){at, turn, i};
            n += at <= end;
            admitted += (at <= end) != (s->in[i] > 0) ? s->weight[i] * dearer : 0;
        } else if (s->in[i] > 0) {
            admitted += turn;
        }
    }
    *slope = edge->type_in ? s->weight[s->basis.types[edge->type_at]] : 0;
    for (int axis = 0; axis < FLUID_AXES; axis++)
        if (s->budget[axis] < INFINITY)
            *slope += s->budget[axis] * edge->direction[axis];
    *slope -= admitted;
    return n;
}

/* Whether a price moves at all: what rounding leaves of a 0 would make a vertex of no plane. */
static bool price_falls(const struct simplex *s, const struct edge *edge, int axis)
{
    for (size_t i = 0; edge->direction[axis] < 0 && i < s->basis.n; i++) {
        size_t type = s->basis.types[i];
        double most = 0;
        for (int other = 0; other < FLUID_AXES; other++)
            most = fmax(most, fabs(edge->direction[other]) * s->use[other][type]);
        if (-edge->direction[axis] * s->use[axis][type] > PARALLEL * most)
            return true;
    }
    return false;
}

/* How far until a price is 0, and whose it is; -1: none falls. */
static double price_end(const struct simplex *s, const struct edge *edge, int *axis)
{
    double end = INFINITY;

    *axis = -1;
    for (size_t j = 0; j < s->basis.n; j++) {
        int a = s->basis.axes[j];
        if (!price_falls(s, edge, a))
            continue;
        double at = fmax(s->price[a], 0) / -edge->direction[a];
        if (at < end) {
            end = at;
            *axis = a;
        }
    }
    return end;
}

static void take_axis(struct fluid_basis *basis, int axis)
{
    size_t at = 0;

    while (basis->axes[at] != axis) {
        at++;
        assert(at < basis->n);
    }
    for (; at + 1 < basis->n; at++)
        basis->axes[at] = basis->axes[at + 1];
}

static void put_axis(struct fluid_basis *basis, size_t n, int axis)
{
    size_t at = n;

    for (; at > 0 && basis->axes[at - 1] > axis; at--)
        basis->axes[at] = basis->axes[at - 1];
    basis->axes[at] = (uint8_t)axis;
    assert(n < FLUID_AXES && (at == 0 || basis->axes[at - 1] < axis)); /* ascending, each once */
}

/* Who leaves the basis: an axis that gets a price, or a type. Who enters: an axis that loses its
 * price, or the type at the bend. */
static void change_basis(struct simplex *s, const struct edge *edge, int lost_axis, size_t type)
{
    struct fluid_basis *basis = &s->basis;
    size_t axes = basis->n, types = basis->n;

    if (edge->type_at >= 0) {
        size_t gone = basis->types[edge->type_at];
        s->basic[gone] = false;
        s->in[gone] = edge->type_in;
        basis->types[edge->type_at] = basis->types[--types];
    }
    if (lost_axis >= 0) {
        take_axis(basis, lost_axis);
        axes--;
    }
    if (edge->axis >= 0)
        put_axis(basis, axes++, edge->axis);
    if (lost_axis < 0) {
        basis->types[types++] = (uint16_t)type;
        s->basic[type] = true;
    }
    basis->n = (uint8_t)types;
}

/* To the lowest point of the edge. False: rounding has hidden where it is. */
static bool walk_edge(struct simplex *s, const struct edge *edge)
{
    struct fluid_bend bends[TG_TYPES_MAX + 1];
    int lost_axis;
    double slope, end = price_end(s, edge, &lost_axis);
    size_t n = find_bends(s, edge, end, bends, &slope);
    size_t stop = fluid_bends_lowest(bends, n, slope);

    if (stop == n && lost_axis < 0)
        return false;
    for (size_t i = 0; i < stop; i++)
        s->in[bends[i].type] = 1 - s->in[bends[i].type];
    change_basis(s, edge, stop < n ? -1 : lost_axis, stop < n ? bends[stop].type : 0);
    return true;
}

/* ---- All of it ------------------------------------------------------------------------------- */

static void load(struct simplex *s, const struct fluid_program *program)
{
    s->n = program->n;
    for (int axis = 0; axis < FLUID_AXES; axis++) {
        bool there = program->budget[axis] < INFINITY;
        s->budget[axis] = there ? fmax(program->budget[axis], 0) : INFINITY;
        for (size_t i = 0; i < s->n; i++)
            s->use[axis][i] = there ? fluid_use(program, axis, i) : 0;
    }
    for (size_t i = 0; i < s->n; i++) {
        s->value[i] = program->value[i];
        s->weight[i] = s->value[i] > 0 ? program->weight[i] : 0;
        s->in[i] = 1;
        s->basic[i] = false;
    }
}

static void start_from_nothing(struct simplex *s)
{
    s->basis = (struct fluid_basis){0};
    for (int axis = 0; axis < FLUID_AXES; axis++)
        s->price[axis] = 0;
}

/* A basis is a start if it is one of these types, and its prices are prices. */
static bool can_start_from(struct simplex *s, const struct fluid_basis *basis)
{
    if (basis->n > FLUID_AXES)
        return false;
    for (size_t i = 0; i < basis->n; i++) {
        int axis = basis->axes[i];
        if (axis >= FLUID_AXES || !(s->budget[axis] < INFINITY) ||
            (i > 0 && axis <= basis->axes[i - 1]))
            return false;
        if (basis->types[i] >= s->n || !(s->weight[basis->types[i]] > 0))
            return false;
    }
    s->basis = *basis;
    if (!find_prices(s))
        return false;
    for (int axis = 0; axis < FLUID_AXES; axis++)
        if (!(s->price[axis] >= 0))
            return false;
    return true;
}

static void fluid_simplex_start(struct simplex *s, const struct fluid_basis *basis)
{
    if (!can_start_from(s, basis))
        start_from_nothing(s);
    for (size_t i = 0; i < s->basis.n; i++)
        s->basic[s->basis.types[i]] = true;
}

/* Moves each value by another part of 1e-10. The golden ratio spreads them. */
static void perturb_values(struct simplex *s)
{
    for (size_t i = 0; i < s->n; i++) {
        double turns = 0.6180339887498949 * (double)(i + 1);
        s->value[i] *= 1 + 1e-10 * (turns - floor(turns));
    }
}

/* False: in a circle, or at a vertex that rounding has made none. */
static bool descend(struct simplex *s, size_t most_steps)
{
    struct edge edge;

    for (size_t steps = 0; steps < most_steps; steps++) {
        sort_types(s);
        ration(s);
        if (!choose_edge(s, &edge))
            return true;
        if (!find_direction(s, &edge))
            return false;
        if (!walk_edge(s, &edge))
            return true;
        if (!find_prices(s))
            return false;
    }
    return false;
}

/* From nothing, with values that no two types share; then their true ones. */
static void descend_without_ties(struct simplex *s, const struct fluid_program *program)
{
    load(s, program);
    perturb_values(s);
    start_from_nothing(s);
    descend(s, STEPS_BEFORE_TIES + 2 * s->n);
    for (size_t i = 0; i < s->n; i++)
        s->value[i] = program->value[i];
    find_prices(s);
}

static double fraction_of(const struct simplex *s, size_t i)
{
    double bid = s->value[i] - s->left[i];

    if (s->weight[i] > 0)
        return s->in[i];
    return s->value[i] <= 0 || s->left[i] < -AT_PRICE * bid ? 0 : 1;
}

static void fluid_simplex_answer(const struct simplex *s, struct fluid_program *program)
{
    for (size_t i = 0; i < s->n; i++)
        program->fraction[i] = fraction_of(s, i);
    for (size_t at = 0; at < s->basis.n; at++) {
        size_t type = s->basis.types[at];
        program->fraction[type] = fmin(fmax(s->rationed[at] / s->weight[type], 0), 1);
    }
    program->objective = 0;
    for (size_t i = 0; i < s->n; i++)
        program->objective += program->weight[i] * program->value[i] * program->fraction[i];
    for (int axis = 0; axis < FLUID_AXES; axis++)
        program->price[axis] = fmax(s->price[axis], 0);
    program->basis = s->basis;
}

bool fluid_prices_within(struct fluid_program *program, size_t most_steps)
{
    struct simplex s;

    load(&s, program);
    fluid_simplex_start(&s, &program->basis);
    bool arrived = descend(&s, most_steps);
    if (!arrived)
        descend_without_ties(&s, program);
    fluid_simplex_answer(&s, program);
    return arrived;
}

void fluid_prices(struct fluid_program *program)
{
    fluid_prices_within(program, STEPS_BEFORE_TIES + 2 * program->n);
}
