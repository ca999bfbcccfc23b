/* fluid_bends.h - the lowest point of a convex line made of straight pieces. */
#ifndef TG_POLICY_FLUID_BENDS_H
#define TG_POLICY_FLUID_BENDS_H

#include <stdbool.h>
#include <stddef.h>

/* Where D bends along an edge: how far, and by how much. */
struct fluid_bend {
    double at;
    double turn; /* above 0, unless that is too small for a double */
    size_t type;
};

/* The bend where D turns up, given its slope behind all `n` of them, with those that come before it
 * in front of it; n if it still falls there. Of bends at one place, that of the lower type comes
 * first. */
size_t fluid_bends_lowest(struct fluid_bend *bends, size_t n, double slope);

#endif
