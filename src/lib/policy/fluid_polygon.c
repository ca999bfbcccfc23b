/* fluid_polygon.c - convex polygons that remember which planes their sides are on.
 *
 * Cut one after the other by Sutherland's and Hodgman's method. Corners are only as exact as the
 * cuts were; who wants one exactly computes it from the planes of the two sides that meet there.
 */
#include "lib/policy/fluid_polygon.h"

#include <assert.h>

void fluid_polygon_square(struct fluid_polygon *polygon)
{
    polygon->n = 4;
    for (size_t i = 0; i < 4; i++)
        polygon->corners[i] =
            (struct fluid_corner){{i == 0 || i == 3 ? -4 : 4, i < 2 ? -4 : 4}, FLUID_NO_PLANE};
}

static double distance(const struct fluid_cut *cut, const struct fluid_corner *corner)
{
    return cut->gap + cut->slope[0] * corner->at[0] + cut->slope[1] * corner->at[1];
}

static struct fluid_corner between(const struct fluid_corner *a, double da,
                                   const struct fluid_corner *b, double db, size_t id)
{
    double part = da / (da - db);

    assert(part >= 0 && part <= 1); /* they are on two sides of the cut */

    return (struct fluid_corner){
        {a->at[0] + part * (b->at[0] - a->at[0]), a->at[1] + part * (b->at[1] - a->at[1])}, id};
}

void fluid_polygon_cut(const struct fluid_polygon *from, const struct fluid_cut *cut,
                       struct fluid_polygon *to)
{
    to->n = 0;
    for (size_t i = 0; i < from->n && to->n + 2 <= FLUID_CORNERS_MAX; i++) {
        const struct fluid_corner *a = &from->corners[i], *b = &from->corners[(i + 1) % from->n];
        double da = distance(cut, a), db = distance(cut, b);

        assert(to->n + 2 <= FLUID_CORNERS_MAX);
        if (da >= 0)
            to->corners[to->n++] = *a;
        if (da >= 0 && db < 0)
            to->corners[to->n++] = between(a, da, b, db, cut->id);
        else if (da < 0 && db >= 0)
            to->corners[to->n++] = between(a, da, b, db, a->id);
    }
}

bool fluid_polygon_in_front(const struct fluid_polygon *polygon, const struct fluid_cut *cut)
{
    for (size_t i = 0; i < polygon->n; i++)
        if (distance(cut, &polygon->corners[i]) < 0)
            return false;
    return true;
}
