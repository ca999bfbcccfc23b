/* draw.h - seeded chance for the tests: the same seed draws the same numbers everywhere.
 *
 * A program prints its seed when it starts and takes it from TG_SEED if that is set, so that a
 * failure can be repeated. Without it the seed is fixed: a test run depends on nothing.
 */
#ifndef DRAW_H
#define DRAW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct draw {
    uint64_t state;
};

/* The seed of this run; prints it with the name of the program. */
uint64_t draw_seed(const char *program);

/* The stream of number `stream` under a seed: streams do not depend on each other's length. */
struct draw draw_stream(uint64_t seed, uint64_t stream);

uint64_t draw_bits(struct draw *draw);

/* From [low, high], evenly. */
int64_t draw_between(struct draw *draw, int64_t low, int64_t high);

/* From [1, high], every magnitude equally likely. */
int64_t draw_magnitude(struct draw *draw, int64_t high);

/* From [0, 1). */
double draw_unit(struct draw *draw);

/* True in `percent` of 100 draws. */
bool draw_chance(struct draw *draw, int percent);

#endif /* DRAW_H */
