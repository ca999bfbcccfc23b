/* arrivals.h - the worlds that policies are compared on: who arrives, worth what, at what cost.
 *
 *     chain     two types that follow each other with a correlation, from a published generator
 *     mixture   types drawn by weight, each holding a slot for a while, from the same generator
 *     drift     many windows of a world that changes: two types or lognormal ones
 *
 * The first two are drawn by Mulberry32 from seeds that were published with their results, so that
 * the results can be compared digit by digit. Drift has streams of our own, one for each column and
 * seed.
 *
 * Costs are whole, as the product's are. The lognormal ones are whole thousandths of the unit that
 * the world is described in.
 */
#ifndef TG_REGRET_ARRIVALS_H
#define TG_REGRET_ARRIVALS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arrival {
    int64_t cost;
    double value;
    double hold_s;
};

/* Mulberry32: 32 bits of state, a number from [0, 1) in steps of 2^-32. */
struct mulberry {
    uint32_t state;
};

double mulberry_unit(struct mulberry *mulberry);

/* ---- Chain ---- */

#define CHAIN_SMALL_COST 100
#define CHAIN_LARGE_COST 10000
#define CHAIN_SMALL_VALUE 1.0

/* Fills `large` with n arrivals, of which each is of the type before it with probability
 * (1 + rho) / 2. `seed` counts from 0. */
void chain_draw(double rho, uint32_t seed, bool *large, size_t n);

/* ---- Mixture ---- */

struct mixture_type {
    struct arrival arrival;
    double weight;
};

/* Begins run number `seed`, from 0. */
struct mulberry mixture_begin(uint32_t seed);

/* Which type comes next: its index. */
size_t mixture_draw(struct mulberry *mulberry, const struct mixture_type *types, size_t n);

/* ---- Drift ---- */

#define DRIFT_WINDOWS 50
#define DRIFT_COLUMNS_MAX 7
#define DRIFT_WINDOW_MAX 2000
#define DRIFT_ARRIVALS_MAX (DRIFT_WINDOWS * DRIFT_WINDOW_MAX)

enum drift_kind {
    DRIFT_CHAIN,    /* two types, correlation `level` */
    DRIFT_ABSORBED, /* two types, a window is all of one */
    DRIFT_FLIP,     /* two types, the large one ten times as valuable in the second half */
    DRIFT_AR,       /* lognormal, density shifted by a process with coefficient `level` */
    DRIFT_SINE,     /* lognormal, density shifted by a sine of three windows */
    DRIFT_STEP,     /* lognormal, density lower in the second half */
};

struct drift_column {
    const char *name;
    enum drift_kind kind;
    double level;
};

/* What all columns of a set share. */
struct drift_set {
    const char *name;
    size_t window;                    /* arrivals in a window, up to DRIFT_WINDOW_MAX */
    int64_t budget;                   /* cost that a window may admit */
    double density_low, density_high; /* value by cost: the range a histogram of it should span */

    /* The price of a unit of cost at which the stationary law fills the budget, at the lower edge
     * of its cell; and the same for someone who takes every value for four times what it is. */
    double right_price, wrong_price;
    struct drift_column columns[DRIFT_COLUMNS_MAX];
    size_t n_columns;
};

#define DRIFT_SETS 2
extern const struct drift_set drift_sets[DRIFT_SETS]; /* two-type, lognormal */

/* Fills DRIFT_WINDOWS x set->window arrivals. */
void drift_draw(const struct drift_set *set, size_t column, uint64_t seed,
                struct arrival *arrivals);

/* The set's stationary law, drawn n times independently: what someone would know beforehand who
 * knows everything but the drift. Always the same draws. */
void drift_draw_model(const struct drift_set *set, struct arrival *arrivals, size_t n);

#endif
