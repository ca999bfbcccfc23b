/* random.c - seeding, and the draws that need logarithms. */
#include "lib/core/random.h"

#include <math.h>

static uint64_t splitmix(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);

    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

void random_init(struct random *random, uint64_t seed, uint64_t stream)
{
    uint64_t state = seed;

    /* Mixed before the stream's number comes in, so that seed 1, stream 2 is not 2, 1. */
    state = splitmix(&state) + stream;
    for (int i = 0; i < 4; i++)
        random->state[i] = splitmix(&state);
}

double random_exponential(struct random *random, double mean)
{
    /* 1 - u is never 0, and the result never below 0. */
    return -mean * log(1 - random_unit(random));
}

/* The polar method. It makes two numbers at once and one is thrown away: so the stream has no
 * hidden state, and a draw depends on those before it alone. */
double random_normal(struct random *random)
{
    double x, y, square;

    do {
        x = 2 * random_unit(random) - 1;
        y = 2 * random_unit(random) - 1;
        square = x * x + y * y;
    } while (square >= 1 || square <= 0);
    return x * sqrt(-2 * log(square) / square);
}
