/* arrivals.c - the worlds that policies are compared on.
 *
 * The chain and the mixture are those of a published experiment, redone bit by bit: the generator
 * works on 32-bit integers with wrap-around, and its seeds are mixed as a 32-bit integer would be.
 * Drift follows a description instead of a program, so it is equal to its reference in law, not in
 * bits.
 */
#include "lab/regret/arrivals.h"

#include <assert.h>
#include <math.h>

#include "lib/core/random.h"

#define PI 3.14159265358979323846

double mulberry_unit(struct mulberry *mulberry)
{
    uint32_t t = mulberry->state += UINT32_C(0x6D2B79F5);

    t = (t ^ (t >> 15)) * (t | 1);
    t ^= t + (t ^ (t >> 7)) * (t | 61);
    return (double)(t ^ (t >> 14)) * 0x1p-32;
}

static uint32_t spread(uint32_t seed)
{
    return seed * UINT32_C(2654435761);
}

/* ---- Chain ----------------------------------------------------------------------------------- */

void chain_draw(double rho, uint32_t seed, bool *large, size_t n)
{
    uint32_t level = (uint32_t)(int32_t)round(rho * 1000);
    struct mulberry mulberry = {UINT32_C(0xDEADBEEF) ^ level ^ spread(seed)};
    bool now = mulberry_unit(&mulberry) >= 0.5;

    for (size_t i = 0; i < n; i++) {
        large[i] = now;
        if (mulberry_unit(&mulberry) >= (1 + rho) / 2)
            now = !now;
    }
}

/* ---- Mixture --------------------------------------------------------------------------------- */

struct mulberry mixture_begin(uint32_t seed)
{
    return (struct mulberry){UINT32_C(0xC0FFEE) ^ spread(seed)};
}

size_t mixture_draw(struct mulberry *mulberry, const struct mixture_type *types, size_t n)
{
    double total = 0, at;

    for (size_t i = 0; i < n; i++)
        total += types[i].weight;
    assert(n > 0 && total > 0);
    at = mulberry_unit(mulberry) * total;
    for (size_t i = 0; i + 1 < n; i++) {
        at -= types[i].weight;
        if (at < 0)
            return i;
    }
    return n - 1;
}

/* ---- Drift ----------------------------------------------------------------------------------- */

/* Lognormal costs are counted in thousandths: their median is 148, and rounded to whole units the
 * cheap ones would be off by percents. */
#define LOGNORMAL_UNIT 1000.0

const struct drift_set drift_sets[DRIFT_SETS] = {
    {.name = "two-type",
     .window = 1000,
     .budget = 50000,
     .density_low = 0.001,
     .density_high = 0.5,
     .right_price = 0.01,
     .wrong_price = 0.04,
     .columns = {{"rho=0", DRIFT_CHAIN, 0},
                 {"rho=0.5", DRIFT_CHAIN, 0.5},
                 {"rho=0.9", DRIFT_CHAIN, 0.9},
                 {"rho=0.99", DRIFT_CHAIN, 0.99},
                 {"rho=0.999", DRIFT_CHAIN, 0.999},
                 {"absorbing", DRIFT_ABSORBED, 1},
                 {"flip", DRIFT_FLIP, 0}},
     .n_columns = 7},
    {.name = "lognormal",
     .window = 2000,
     .budget = 121961969, /* a fifth of the mean demand: 0.2 x 2000 x e^5.72 */
     .density_low = 1e-4 / LOGNORMAL_UNIT,
     .density_high = 10 / LOGNORMAL_UNIT,
     .right_price = 0.01843423 / LOGNORMAL_UNIT,
     .wrong_price = 0.0777365 / LOGNORMAL_UNIT,
     .columns = {{"iid", DRIFT_AR, 0},
                 {"ar=0.99", DRIFT_AR, 0.99},
                 {"ar=0.999", DRIFT_AR, 0.999},
                 {"ar=0.9999", DRIFT_AR, 0.9999},
                 {"sine", DRIFT_SINE, 0},
                 {"step", DRIFT_STEP, 0}},
     .n_columns = 6},
};

static struct arrival two_type(bool large)
{
    return large ? (struct arrival){CHAIN_LARGE_COST, 50, 0}
                 : (struct arrival){CHAIN_SMALL_COST, CHAIN_SMALL_VALUE, 0};
}

static struct arrival lognormal(struct random *random, double shift)
{
    double cost = exp(5 + 1.2 * random_normal(random));
    double density = exp(0.8 * random_normal(random) + shift) / 100;
    int64_t whole = (int64_t)round(cost * LOGNORMAL_UNIT);

    return (struct arrival){whole > 0 ? whole : 1, cost * density, 0};
}

static bool coin(struct random *random)
{
    return random_unit(random) < 0.5;
}

static void draw_two_type(const struct drift_set *set, const struct drift_column *column,
                          struct random *random, struct arrival *arrivals)
{
    size_t n = DRIFT_WINDOWS * set->window;
    bool large = coin(random);

    for (size_t i = 0; i < n; i++) {
        if (column->kind == DRIFT_ABSORBED && i % set->window == 0)
            large = coin(random);
        arrivals[i] = two_type(large);
        if (column->kind == DRIFT_FLIP && large && 2 * i > n)
            arrivals[i].value *= 10;
        if (column->kind != DRIFT_ABSORBED && random_unit(random) < (1 - column->level) / 2)
            large = !large;
    }
}

static double shift_at(const struct drift_set *set, const struct drift_column *column, size_t i)
{
    switch (column->kind) {
    case DRIFT_SINE:
        return 1.5 * sin(2 * PI * (double)i / (3 * (double)set->window));
    case DRIFT_STEP:
        return 2 * i < DRIFT_WINDOWS * set->window ? 0 : -1.5;
    default:
        return 0;
    }
}

static void draw_lognormal(const struct drift_set *set, const struct drift_column *column,
                           struct random *random, struct arrival *arrivals)
{
    double phi = column->level, z = phi > 0 ? random_normal(random) : 0;

    for (size_t i = 0; i < DRIFT_WINDOWS * set->window; i++) {
        if (phi > 0)
            z = phi * z + sqrt(1 - phi * phi) * random_normal(random);
        arrivals[i] = lognormal(random, z + shift_at(set, column, i));
    }
}

static bool is_lognormal(const struct drift_set *set)
{
    return set != &drift_sets[0];
}

void drift_draw(const struct drift_set *set, size_t column, uint64_t seed, struct arrival *arrivals)
{
    struct random random;

    assert(column < set->n_columns);
    random_init(&random, seed, (uint64_t)(set - drift_sets) * DRIFT_COLUMNS_MAX + column);
    if (is_lognormal(set))
        draw_lognormal(set, &set->columns[column], &random, arrivals);
    else
        draw_two_type(set, &set->columns[column], &random, arrivals);
}

void drift_draw_model(const struct drift_set *set, struct arrival *arrivals, size_t n)
{
    struct random random;

    random_init(&random, UINT64_C(0x6D6F64656C), (uint64_t)(set - drift_sets));
    for (size_t i = 0; i < n; i++)
        arrivals[i] = is_lognormal(set) ? lognormal(&random, 0) : two_type(!coin(&random));
}
