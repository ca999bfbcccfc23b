/* sampled.c - `adaptive` for calls of which no two are alike: learn from a histogram, then freeze.
 *
 * The product's `adaptive` counts types, and knows a type by its exact cost and value. Where costs
 * are lognormal there is no type to count. This is how the published comparison put it to such
 * worlds, and it is here to redo that comparison: a histogram of density, of which one cell is the
 * boundary of what fits. `online` is the product's answer to such worlds.
 */
#include "lab/regret/contestant.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

/* ---- Cells ----------------------------------------------------------------------------------- */

size_t density_cell(double low, double high, double density)
{
    assert(low > 0 && high > low);
    double cell = floor(DENSITY_CELLS * log(density / low) / log(high / low));

    if (!(cell > 0))
        return 0;
    return cell < DENSITY_CELLS ? (size_t)cell : DENSITY_CELLS - 1;
}

double density_edge(double low, double high, size_t cell)
{
    return low * pow(high / low, (double)cell / DENSITY_CELLS);
}

bool density_boundary(const double cost[DENSITY_CELLS], double budget, size_t *cell)
{
    double left = budget;

    for (size_t i = DENSITY_CELLS; i-- > 0;) {
        if (cost[i] > left) {
            *cell = i;
            return true;
        }
        left -= cost[i];
    }
    return false;
}

/* ---- The policy ------------------------------------------------------------------------------ */

struct seen {
    double cost, value;
};

struct sampled {
    struct tg_policy base;
    struct sampled_config config;
    double price;
    size_t n;
    struct seen sample[];
};

/* The product's test, with its tolerance. */
static bool is_worth(double value, double cost, double price)
{
    return value >= price * cost * (1 - 1e-9);
}

static double suggested_price(const struct sampled *sampled)
{
    const struct sampled_config *config = &sampled->config;
    double cost[DENSITY_CELLS] = {0};
    size_t cell;

    assert(sampled->n <= config->window);
    for (size_t i = 0; i < sampled->n; i++) {
        const struct seen *seen = &sampled->sample[i];
        cost[density_cell(config->low, config->high, seen->value / seen->cost)] += seen->cost;
    }
    if (!density_boundary(cost, config->budget * (double)sampled->n, &cell))
        return 0;
    return density_edge(config->low, config->high, cell);
}

/* What the sample would have earned under a price. */
static double earned(const struct sampled *sampled, double price)
{
    double left = sampled->config.budget * (double)sampled->n, sum = 0;

    for (size_t i = 0; i < sampled->n; i++) {
        const struct seen *seen = &sampled->sample[i];
        if (is_worth(seen->value, seen->cost, price) && seen->cost <= left) {
            left -= seen->cost;
            sum += seen->value;
        }
    }
    return sum;
}

static bool sampled_worth(struct tg_policy *policy, const struct tg_call *call, int64_t in_flight,
                          tg_ms now)
{
    struct sampled *sampled = (struct sampled *)policy;
    double cost = (double)call->debit.cost;

    (void)in_flight;
    (void)now;
    if (sampled->n < sampled->config.window) {
        sampled->sample[sampled->n++] = (struct seen){cost, call->value};
        if (sampled->n == sampled->config.window) {
            double price = suggested_price(sampled);
            if (earned(sampled, price) > earned(sampled, sampled->price))
                sampled->price = price;
        }
    }
    return is_worth(call->value, cost, sampled->price);
}

static void sampled_free(struct tg_policy *policy)
{
    free(policy);
}

enum tg_err contestant_sampled(const struct sampled_config *config, struct contestant *contestant)
{
    struct sampled *sampled =
        calloc(1, sizeof *sampled + config->window * sizeof sampled->sample[0]);

    if (sampled == NULL)
        return TG_ERR_MEMORY;
    sampled->base.worth = sampled_worth;
    sampled->config = *config;
    sampled->price = config->price;
    *contestant = (struct contestant){&sampled->base, sampled_free};
    return TG_OK;
}
