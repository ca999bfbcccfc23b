/* num.h - numbers that saturate, and doubles that become integers.
 *
 * Decisions carry integers in [0, TG_NUMBER_MAX]. Limiters that count fractions of a unit do so in
 * doubles (Lua has nothing else, and both must agree to the bit), and leave that world only
 * through the functions below.
 */
#ifndef TG_CORE_NUM_H
#define TG_CORE_NUM_H

#include <string.h>

#include "tollgate.h"

/* x within [0, TG_NUMBER_MAX]; NaN becomes 0. The integer part, towards zero. */
static inline int64_t num_floor(double x)
{
    if (!(x > 0))
        return 0;
    return x < (double)TG_NUMBER_MAX ? (int64_t)x : TG_NUMBER_MAX;
}

/* The same, towards the next whole number. Written with a conversion rather than ceil(), which
 * on plain x86-64 is a call into libm. */
static inline int64_t num_ceil(double x)
{
    int64_t whole = num_floor(x);
    return (double)whole < x && whole < TG_NUMBER_MAX ? whole + 1 : whole;
}

/* The next larger double, for one that is not negative. As nextafter(), without the call. */
static inline double num_next_double(double x)
{
    uint64_t bits;

    memcpy(&bits, &x, sizeof bits);
    bits++;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* a + b for operands in [0, TG_NUMBER_MAX]: their sum cannot overflow an int64_t. */
static inline int64_t num_add(int64_t a, int64_t b)
{
    return a + b < TG_NUMBER_MAX ? a + b : TG_NUMBER_MAX;
}

/* a * b, at most TG_NUMBER_MAX; 0 where one of them is negative. */
static inline int64_t num_times(int64_t a, int64_t b)
{
    int64_t product;

    if (a <= 0 || b <= 0)
        return 0;
    return __builtin_mul_overflow(a, b, &product) || product > TG_NUMBER_MAX ? TG_NUMBER_MAX
                                                                             : product;
}

/* a - b, but never below 0. */
static inline int64_t num_less(int64_t a, int64_t b)
{
    return a > b ? a - b : 0;
}

static inline int64_t num_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t num_max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static inline bool num_in_range(int64_t x)
{
    return x >= 0 && x <= TG_NUMBER_MAX;
}

#endif
