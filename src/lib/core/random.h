/* random.h - a seeded stream of chance: the same seed draws the same numbers everywhere.
 *
 * Nothing in the library asks the system for chance: jitter in a law and every draw of the
 * simulator come from such a stream, so a run can be repeated to the byte. The generator is
 * xoshiro256** (Blackman and Vigna), its state spread from the seed by splitmix64. It is not for
 * secrets.
 *
 * exponential and normal call log() and sqrt() of libm with values the compiler cannot know, so
 * gcc and clang get the same bits from the same library.
 */
#ifndef TG_CORE_RANDOM_H
#define TG_CORE_RANDOM_H

#include <stdint.h>

struct random {
    uint64_t state[4];
};

/* Stream number `stream` under a seed: streams do not depend on how much others have drawn. */
void random_init(struct random *random, uint64_t seed, uint64_t stream);

static inline uint64_t random_rotate(uint64_t x, int bits)
{
    return (x << bits) | (x >> (64 - bits));
}

static inline uint64_t random_bits(struct random *random)
{
    uint64_t *s = random->state;
    uint64_t result = random_rotate(s[1] * 5, 7) * 9, t = s[1] << 17;

    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = random_rotate(s[3], 45);
    return result;
}

/* From [0, 1), in steps of 2^-53. */
static inline double random_unit(struct random *random)
{
    return (double)(random_bits(random) >> 11) * 0x1p-53;
}

/* From [low, high). */
static inline double random_between(struct random *random, double low, double high)
{
    return low + (high - low) * random_unit(random);
}

/* 0 or more, with this mean. */
double random_exponential(struct random *random, double mean);

/* Mean 0, deviation 1. */
double random_normal(struct random *random);

#endif
