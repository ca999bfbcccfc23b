/* contestant.h - one policy under comparison, the product's or one that is only compared with.
 *
 * The product's are made by tg_bid_new(). Those that are here and nowhere else are what was
 * published before: they show what is gained, and nobody should run them.
 */
#ifndef TG_REGRET_CONTESTANT_H
#define TG_REGRET_CONTESTANT_H

#include "tollgate.h"

struct contestant {
    struct tg_policy *policy; /* null: whatever fits is admitted */
    void (*free)(struct tg_policy *policy);
};

/* Whatever fits is admitted. */
struct contestant contestant_greedy(void);

/* A policy of the product. The config is one of ours, so that what is wrong is a mistake here;
 * TG_ERR_MEMORY otherwise. */
TG_MUST_CHECK enum tg_err contestant_bid(const struct tg_bid_config *config,
                                         struct contestant *contestant);

/* Prices `first`, and from call number `from` on those of the fluid program of the first `window`
 * calls, whether they are better or not, for ever. `from` is not below `window`. Of `budgets` rate
 * and cost count, for one arrival. It tells at most LEARNER_TYPES types apart. */
TG_MUST_CHECK enum tg_err contestant_learner(const struct tg_workload *budgets,
                                             const struct tg_duals *first, size_t window,
                                             size_t from, struct contestant *contestant);

#define LEARNER_TYPES 64

/* Settings of a price of cost that is learned from a histogram. */
struct sampled_config {
    double price;     /* at first, of a unit of cost */
    double budget;    /* cost for one arrival */
    double low, high; /* which densities (value by cost) the histogram spans */
    size_t window;    /* calls in the sample */
};

/* `adaptive` for calls of which no two are alike: the sample's cost is counted in 128 cells of
 * density, the price that its histogram suggests is adopted, for ever, if it would have earned
 * strictly more on the sample. */
TG_MUST_CHECK enum tg_err contestant_sampled(const struct sampled_config *config,
                                             struct contestant *contestant);

void contestant_free(struct contestant *contestant);

/* Cells of density, evenly spaced in its logarithm. */
#define DENSITY_CELLS 128

size_t density_cell(double low, double high, double density);
double density_edge(double low, double high, size_t cell); /* the lower one */

/* Which cell is the first, from above, that does not fit whole into `budget`; its lower edge is
 * then a price. False: all fit. */
bool density_boundary(const double cost[DENSITY_CELLS], double budget, size_t *cell);

#endif
