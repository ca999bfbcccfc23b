/* fluid_polygon.h - convex polygons that remember which planes their sides are on. */
#ifndef TG_POLICY_FLUID_POLYGON_H
#define TG_POLICY_FLUID_POLYGON_H

#include "lib/policy/fluid.h"

#define FLUID_PLANES_MAX (TG_TYPES_MAX + FLUID_AXES)
#define FLUID_CORNERS_MAX (FLUID_PLANES_MAX + 8) /* a cut adds at most one */
#define FLUID_NO_PLANE SIZE_MAX

/* A plane's distance from a point of a flat is gap + sum(at x slope), not negative on the face. */
struct fluid_cut {
    double gap;
    double slope[2];
    size_t id;
};

/* A corner, and the plane of the side that goes from it to the next one. */
struct fluid_corner {
    double at[2];
    size_t id;
};

struct fluid_polygon {
    size_t n;
    struct fluid_corner corners[FLUID_CORNERS_MAX];
};

/* A square around all of the unit cube, wherever in it the origin lies, on no plane. */
void fluid_polygon_square(struct fluid_polygon *polygon);

/* No corner is behind the cut. */
bool fluid_polygon_in_front(const struct fluid_polygon *polygon, const struct fluid_cut *cut);

/* Keeps what is not behind the cut; that may be nothing. */
void fluid_polygon_cut(const struct fluid_polygon *from, const struct fluid_cut *cut,
                       struct fluid_polygon *to);

#endif
