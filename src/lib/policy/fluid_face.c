/* fluid_face.c - the most selective of several best prices.
 *
 * Where a budget is used up exactly by whole types, more than one set of prices is best: they form
 * a face of the dual, a point, a segment, a polygon or a body in the space of prices. With x a best
 * plan it is the set of p >= 0 with
 *
 *     price 0 for a budget that is not used up
 *     value = bid for types with 0 < x < 1,   value >= bid where x = 1,   value <= bid where x = 0
 *
 * Which prices of a face are taken is no matter for the program, but it is for the gate, whose
 * calls are not the ones that were expected: the most selective ones hold the budget for what is
 * worth it. The answer is always a vertex, and all vertices are looked at. They are found by
 * cutting: a segment or polygon is cut by one type after the other, and a body is the polygons on
 * each of its planes. That is O(n) looks at n types where all three budgets are used up exactly,
 * one look where one is, and none for the usual program, whose best prices are a point. Trying all
 * triples of types would be n^3 looks.
 *
 * Cutting happens in coordinates price x budget / objective, in which a face lies within the unit
 * cube whatever the units are. Equal types, one in and one out, press a face flat, and then a cut
 * cannot tell its corners; so every plane is first moved outward a little, each by another length.
 * That is no danger: a cut only proposes planes. The vertex is computed from these alone, where
 * they truly are, and counts if D says that it is best.
 *
 * Types of no weight are refused or not like all others, but cannot make a vertex.
 */
#include "lib/policy/fluid_face.h"

#include "lib/policy/fluid_polygon.h"
#include "lib/policy/fluid_small.h"

#include <math.h>

#define USED_UP 1e-9 /* less than this part of a budget, or of a type, is nothing */
#define ON_PLANE 1e-9
#define THICKER 1e-9
#define ROUNDING 1e-13

#define PLANES_MAX FLUID_PLANES_MAX

/* normal x point = offset; where the face is not only on it, on the side where normal x point is
 * less or more. */
struct plane {
    double normal[FLUID_AXES]; /* its length is 1 */
    double offset;
    int side;  /* 1: the face has normal x point >= offset; -1: <=; 0: = */
    size_t id; /* number of a type; n + axis: the plane where its price is 0 */
};

struct face {
    const struct fluid_program *program;
    double best;              /* D */
    double scale[FLUID_AXES]; /* price = scale x coordinate; 0: the axis has no price */
    size_t dimensions;        /* axes that may have one */
    size_t n_planes;
    struct plane planes[PLANES_MAX];
    size_t n_fixed; /* independent planes that the face is on, at their front */

    /* The most selective vertex up to now. */
    size_t refused;
    double price[FLUID_AXES];
};

/* ---- Vertices -------------------------------------------------------------------------------- */

/* D, see fluid_simplex.c. What rounding leaves of a type at its price must not count: its weight
 * may be a million times what is admitted of it. */
static double dual_of(const struct fluid_program *program, const double *price)
{
    double sum = 0;

    for (int axis = 0; axis < FLUID_AXES; axis++)
        if (price[axis] > 0)
            sum += program->budget[axis] * price[axis];
    for (size_t i = 0; i < program->n; i++) {
        double bid = fluid_bid(program, price, i);
        double left = program->value[i] - bid;
        if (left > ROUNDING * (program->value[i] + bid))
            sum += program->weight[i] * left;
    }
    return sum;
}

static size_t count_refused(const struct fluid_program *program, const double *price)
{
    size_t refused = 0;

    for (size_t i = 0; i < program->n; i++) {
        double bid = fluid_bid(program, price, i);
        double none = fluid_tolerance(FLUID_VALUE_TOLERANCE, program->value[i] + bid);
        refused += program->value[i] - bid < -none;
    }
    return refused;
}

static bool more_selective(const struct face *face, size_t refused, const double *price)
{
    if (refused != face->refused)
        return refused > face->refused;
    for (int axis = FLUID_AXES; axis-- > 0;) {
        double apart = price[axis] - face->price[axis];
        double none = fluid_tolerance(FLUID_PRICE_TOLERANCE, fmax(price[axis], face->price[axis]));
        if (fabs(apart) > none)
            return apart > 0;
    }
    return false;
}

/* Prices that come from the equations of a basis are not negative but for rounding, and what is
 * rounding is seen in the bids of its types. */
static bool clean_prices(const struct fluid_program *program, const struct fluid_basis *basis,
                         double *price)
{
    for (size_t j = 0; j < basis->n; j++) {
        int axis = basis->axes[j];
        double part = 0; /* parts of a value */
        for (size_t k = 0; k < basis->n; k++) {
            size_t type = basis->types[k];
            part = fmax(part,
                        fabs(price[axis]) * fluid_use(program, axis, type) / program->value[type]);
        }
        if (price[axis] < 0 && part > ON_PLANE)
            return false;
        if (price[axis] < 0 || part < ROUNDING)
            price[axis] = 0;
    }
    return true;
}

static void try_vertex(struct face *face, const size_t *ids, size_t n)
{
    const struct fluid_program *program = face->program;
    struct fluid_basis basis = {0};
    double price[FLUID_AXES];
    bool zero[FLUID_AXES] = {false};
    size_t axes = 0;

    for (size_t i = 0; i < n; i++)
        if (ids[i] == FLUID_NO_PLANE)
            return;
        else if (ids[i] >= program->n)
            zero[ids[i] - program->n] = true;
        else
            basis.types[basis.n++] = (uint16_t)ids[i];
    for (uint8_t axis = 0; axis < FLUID_AXES; axis++)
        if (face->scale[axis] > 0 && !zero[axis])
            basis.axes[axes++] = axis;
    if (axes != basis.n || !fluid_basis_prices(program, &basis, price) ||
        !clean_prices(program, &basis, price))
        return;
    if (dual_of(program, price) > face->best + fluid_tolerance(FLUID_VALUE_TOLERANCE, face->best))
        return;
    size_t refused = count_refused(program, price);
    if (more_selective(face, refused, price)) {
        face->refused = refused;
        for (int axis = 0; axis < FLUID_AXES; axis++)
            face->price[axis] = price[axis];
    }
}

/* ---- The planes of a face -------------------------------------------------------------------- */

static double used_of(const struct fluid_program *program, int axis)
{
    double used = 0;

    for (size_t i = 0; i < program->n; i++)
        used += program->weight[i] * program->fraction[i] * fluid_use(program, axis, i);
    return used;
}

static void find_axes(struct face *face)
{
    const struct fluid_program *program = face->program;

    for (int axis = 0; axis < FLUID_AXES; axis++) {
        double budget = program->budget[axis];
        bool scarce = used_of(program, axis) >= budget * (1 - USED_UP);
        face->scale[axis] = scarce ? face->best / budget : 0;
        face->dimensions += scarce;
    }
}

static double dot(const double *a, const double *b)
{
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

static void add_plane(struct face *face, struct plane plane)
{
    double length = sqrt(dot(plane.normal, plane.normal));
    double turns = 0.6180339887498949 * (double)plane.id;

    if (!(length > 0))
        return;
    for (int axis = 0; axis < FLUID_AXES; axis++)
        plane.normal[axis] /= length;
    plane.offset = plane.offset / length - plane.side * THICKER * (1 + turns - floor(turns));
    face->planes[face->n_planes++] = plane;
}

/* Nothing of it is admitted: neither a part of the type nor, where there are far more of it than
 * fit, a part of a budget. */
static bool is_out(const struct face *face, size_t i)
{
    const struct fluid_program *program = face->program;
    double admitted = program->weight[i] * program->fraction[i];

    if (program->fraction[i] > USED_UP)
        return false;
    for (int axis = 0; axis < FLUID_AXES; axis++)
        if (admitted * fluid_use(program, axis, i) > USED_UP * program->budget[axis])
            return false;
    return true;
}

static void find_planes(struct face *face)
{
    const struct fluid_program *program = face->program;

    for (int axis = 0; axis < FLUID_AXES; axis++)
        if (face->scale[axis] > 0) {
            struct plane plane = {.side = 1, .id = program->n + (size_t)axis};
            plane.normal[axis] = 1;
            add_plane(face, plane);
        }
    for (size_t i = 0; i < program->n; i++) {
        struct plane plane = {.offset = program->value[i], .id = i};
        if (!(program->weight[i] > 0) || !(program->value[i] > 0))
            continue;
        for (int axis = 0; axis < FLUID_AXES; axis++)
            plane.normal[axis] = face->scale[axis] * fluid_use(program, axis, i);
        plane.side = is_out(face, i) ? 1 : program->fraction[i] >= 1 - USED_UP ? -1 : 0;
        add_plane(face, plane);
    }
}

/* ---- Flats: what lies on the first few planes ------------------------------------------------ */

/* origin + sum(at[i] x span[i]): of one or two dimensions. */
struct flat {
    double origin[FLUID_AXES];
    double span[2][FLUID_AXES];
    size_t n;
    size_t ids[FLUID_AXES]; /* the planes it is on */
    size_t n_ids;
};

/* Takes from `vector` what lies along `n` vectors of length 1, and makes it 1 long. False: nothing
 * else is left. */
static bool make_apart(double *vector, double (*from)[FLUID_AXES], size_t n)
{
    /* Twice: the first time rounds by what it takes away. */
    for (int again = 0; again < 2; again++) {
        for (size_t k = 0; k < n; k++) {
            double along = dot(vector, from[k]);
            for (int axis = 0; axis < FLUID_AXES; axis++)
                vector[axis] -= along * from[k][axis];
        }
        double length = sqrt(dot(vector, vector));
        if (length < ON_PLANE)
            return false;
        for (int axis = 0; axis < FLUID_AXES; axis++)
            vector[axis] /= length;
    }
    return true;
}

/* Brings independent planes that the face is on to the front. */
static void find_fixed(struct face *face)
{
    double apart[FLUID_AXES][FLUID_AXES];

    for (size_t i = 0; i < face->n_planes && face->n_fixed < face->dimensions; i++) {
        struct plane plane = face->planes[i];
        if (plane.side != 0)
            continue;
        for (int axis = 0; axis < FLUID_AXES; axis++)
            apart[face->n_fixed][axis] = plane.normal[axis];
        if (!make_apart(apart[face->n_fixed], apart, face->n_fixed))
            continue;
        face->planes[i] = face->planes[face->n_fixed];
        face->planes[face->n_fixed++] = plane;
    }
}

/* The flat on these planes, in the axes that may have a price, through the point on it next to the
 * best prices that are known. */
static void make_flat(const struct face *face, const struct plane *planes, size_t n,
                      struct flat *flat)
{
    double apart[2 * FLUID_AXES][FLUID_AXES];

    *flat = (struct flat){.n_ids = n};
    for (int axis = 0; axis < FLUID_AXES; axis++)
        flat->origin[axis] =
            face->scale[axis] > 0 ? face->program->price[axis] / face->scale[axis] : 0;
    for (size_t k = 0; k < n; k++) {
        double away = dot(planes[k].normal, flat->origin) - planes[k].offset;
        for (int axis = 0; axis < FLUID_AXES; axis++) {
            apart[k][axis] = planes[k].normal[axis];
            /* Several planes are planes of the face: then the point is on all of them. */
            flat->origin[axis] -= away * planes[k].normal[axis];
        }
        make_apart(apart[k], apart, k);
        flat->ids[k] = planes[k].id;
    }
    for (int axis = 0; axis < FLUID_AXES && n + flat->n < face->dimensions; axis++) {
        double *span = apart[n + flat->n];
        for (int other = 0; other < FLUID_AXES; other++)
            span[other] = other == axis && face->scale[axis] > 0 ? 1 : 0;
        if (face->scale[axis] > 0 && make_apart(span, apart, n + flat->n)) {
            for (int other = 0; other < FLUID_AXES; other++)
                flat->span[flat->n][other] = span[other];
            flat->n++;
        }
    }
}

static struct fluid_cut cut_of(const struct flat *flat, const struct plane *plane, int side)
{
    return (struct fluid_cut){.gap = side * (dot(plane->normal, flat->origin) - plane->offset),
                              .slope = {side * dot(plane->normal, flat->span[0]),
                                        side * dot(plane->normal, flat->span[1])},
                              .id = plane->id};
}

/* ---- Segments -------------------------------------------------------------------------------- */

static void walk_segment(struct face *face, const struct flat *flat)
{
    size_t ids[2][FLUID_AXES];
    double reach[2] = {INFINITY, INFINITY};
    size_t last = flat->n_ids;

    for (int way = 0; way < 2; way++) {
        for (size_t k = 0; k < last; k++)
            ids[way][k] = flat->ids[k];
        ids[way][last] = FLUID_NO_PLANE;
    }
    for (size_t i = 0; i < face->n_planes; i++) {
        struct fluid_cut cut = cut_of(flat, &face->planes[i], face->planes[i].side);
        double slope = fabs(cut.slope[0]);
        int way = cut.slope[0] < 0;
        if (slope > ON_PLANE && fmax(cut.gap, 0) / slope < reach[way]) {
            reach[way] = fmax(cut.gap, 0) / slope;
            ids[way][last] = cut.id;
        }
    }
    try_vertex(face, ids[0], last + 1);
    try_vertex(face, ids[1], last + 1);
}

/* ---- Polygons -------------------------------------------------------------------------------- */

static bool is_on(const struct flat *flat, const struct plane *plane)
{
    for (size_t k = 0; k < flat->n_ids; k++)
        if (flat->ids[k] == plane->id)
            return true;
    return plane->side == 0;
}

static void walk_polygon(struct face *face, const struct flat *flat)
{
    struct fluid_polygon polygons[2];
    struct fluid_polygon *now = &polygons[0], *next = &polygons[1];
    size_t ids[FLUID_AXES];

    fluid_polygon_square(now);
    for (size_t i = 0; i < face->n_planes && now->n > 0; i++) {
        const struct plane *plane = &face->planes[i];
        struct fluid_cut cut = cut_of(flat, plane, plane->side);
        if (is_on(flat, plane) || fluid_polygon_in_front(now, &cut))
            continue;
        fluid_polygon_cut(now, &cut, next);
        struct fluid_polygon *kept = now;
        now = next;
        next = kept;
    }
    for (size_t k = 0; k < flat->n_ids; k++)
        ids[k] = flat->ids[k];
    for (size_t i = 0; i < now->n; i++) {
        ids[flat->n_ids] = now->corners[i].id;
        ids[flat->n_ids + 1] = now->corners[(i + now->n - 1) % now->n].id;
        try_vertex(face, ids, flat->n_ids + 2);
    }
}

/* ---- All of it ------------------------------------------------------------------------------- */

static void walk_face(struct face *face)
{
    struct flat flat;

    switch (face->dimensions - face->n_fixed) {
    case 0:
        break;
    case 1:
        make_flat(face, face->planes, face->n_fixed, &flat);
        walk_segment(face, &flat);
        break;
    case 2:
        make_flat(face, face->planes, face->n_fixed, &flat);
        walk_polygon(face, &flat);
        break;
    default:
        for (size_t i = 0; i < face->n_planes; i++) {
            make_flat(face, &face->planes[i], 1, &flat);
            walk_polygon(face, &flat);
        }
    }
}

void fluid_face_choose(struct fluid_program *program)
{
    struct face face = {.program = program, .best = dual_of(program, program->price)};

    find_axes(&face);
    for (int axis = 0; axis < FLUID_AXES; axis++)
        face.price[axis] = program->price[axis];
    clean_prices(program, &program->basis, face.price);
    face.refused = count_refused(program, face.price);
    find_planes(&face);
    find_fixed(&face);
    walk_face(&face);
    for (int axis = 0; axis < FLUID_AXES; axis++)
        program->price[axis] = face.price[axis];
}
