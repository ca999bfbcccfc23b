/* draw.c - a counter that is mixed until its bits look like chance (the splitmix64 mixer). */
#include "draw.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define DEFAULT_SEED UINT64_C(20250117)
#define GOLDEN_GAMMA UINT64_C(0x9E3779B97F4A7C15) /* 2^64 / golden ratio: an odd, even stride */

static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

uint64_t draw_seed(const char *program)
{
    const char *text = getenv("TG_SEED");
    uint64_t seed = text != NULL ? strtoull(text, NULL, 0) : DEFAULT_SEED;

    printf("%s: seed %" PRIu64 " (TG_SEED=%" PRIu64 " repeats this run)\n", program, seed, seed);
    (void)fflush(stdout);
    return seed;
}

struct draw draw_stream(uint64_t seed, uint64_t stream)
{
    return (struct draw){mix(seed) ^ mix(stream + GOLDEN_GAMMA)};
}

uint64_t draw_bits(struct draw *draw)
{
    draw->state += GOLDEN_GAMMA;
    return mix(draw->state);
}

int64_t draw_between(struct draw *draw, int64_t low, int64_t high)
{
    uint64_t count = (uint64_t)high - (uint64_t)low + 1;
    uint64_t offset = count == 0 ? draw_bits(draw) : draw_bits(draw) % count;

    return (int64_t)((uint64_t)low + offset);
}

int64_t draw_magnitude(struct draw *draw, int64_t high)
{
    int bits = 0;
    while (bits < 62 && (high >> (bits + 1)) != 0)
        bits++;

    /* Unsigned: the largest of all ceilings is 2^63. */
    uint64_t ceiling = UINT64_C(2) << draw_between(draw, 0, bits);
    return draw_between(draw, 1, ceiling <= (uint64_t)high ? (int64_t)(ceiling - 1) : high);
}

double draw_unit(struct draw *draw)
{
    return (double)(draw_bits(draw) >> 11) * 0x1p-53;
}

bool draw_chance(struct draw *draw, int percent)
{
    return draw_between(draw, 0, 99) < percent;
}
