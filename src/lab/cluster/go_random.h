/* go_random.h - the stream of chance of Go's math/rand, from a seed.
 *
 * BLIS breaks ties of routing by it, so to choose the same instance we need the same numbers. It is
 * an additive lagged Fibonacci generator (Mitchell, Reeds) of 607 words. Nothing else here uses it.
 */
#ifndef TG_CLUSTER_GO_RANDOM_H
#define TG_CLUSTER_GO_RANDOM_H

#include <stdint.h>

#define GO_RANDOM_WORDS 607

struct go_random {
    uint64_t words[GO_RANDOM_WORDS];
    int tap, feed;
};

void go_random_init(struct go_random *random, int64_t seed);

/* From 0 to n - 1; n is from 1 to 2^31 - 1. */
int32_t go_random_below(struct go_random *random, int32_t n);

/* The seed of the part of a simulation that has this name. */
int64_t go_random_part(int64_t seed, const char *name);

#endif
