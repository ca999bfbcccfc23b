/* expected.c - means of used to asked, by octave. See expected.h.
 *
 * The mean is the quotient of two sums and not a mean of quotients: what matters is what many calls
 * use together. Both sums forget by 1 / MEMORY a call. Of an octave that has only begun, one more
 * call like the mean of all is added to its sums; if every call uses what it asks for, every
 * quotient is exactly 1.
 */
#include "lib/policy/expected.h"

#include <math.h>

enum { MEMORY = 256 };

static const double MOST = 3; /* a call counts as having used no more than so many times its cost */

static int octave_of(double asked)
{
    int exponent;

    frexp(asked, &exponent);
    return exponent < 0 ? 0 : exponent < EXPECTED_OCTAVES ? exponent : EXPECTED_OCTAVES - 1;
}

static void sum_add(struct expected_sum *sum, double asked, double used)
{
    sum->asked += asked - sum->asked / MEMORY;
    sum->used += used - sum->used / MEMORY;
}

void expected_learn(struct expected *expected, double asked, double used)
{
    if (asked <= 0 || used <= 0)
        return;
    used = fmin(used, MOST * asked);
    sum_add(&expected->all, asked, used);
    sum_add(&expected->octave[octave_of(asked)], asked, used);
}

double expected_use(const struct expected *expected, double asked)
{
    const struct expected_sum *all = &expected->all, *near = &expected->octave[octave_of(asked)];

    if (asked <= 0)
        return 0;
    double mean = (all->used + asked) / (all->asked + asked);
    return asked * ((near->used + mean * asked) / (near->asked + asked));
}

double expected_factor(const struct expected *expected)
{
    return expected->all.asked > 0 ? expected->all.used / expected->all.asked : 1;
}

static bool sum_is_sane(const struct expected_sum *sum)
{
    return sum->used >= 0 && sum->asked <= 1e300 && sum->used <= MOST * sum->asked * (1 + 1e-9);
}

bool expected_is_sane(const struct expected *expected)
{
    bool sane = sum_is_sane(&expected->all);

    for (int i = 0; sane && i < EXPECTED_OCTAVES; i++)
        sane = sum_is_sane(&expected->octave[i]);
    return sane;
}
