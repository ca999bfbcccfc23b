/* regret_chain.c - the suites `rho` and `adaptive`: two types in one window, by correlation.
 *
 * A thousand arrivals, half of them small (cost 100, value 1) and half large (cost 10000), and a
 * budget of cost that is enough for all the small ones or for five large ones. A large one is worth
 * 50 in the first suite, where what is expected is what comes. In the second the policies believe
 * one value, and another is true.
 *
 * Regret is what is missing to the fluid optimum, which is the same number for every run: at rho 1
 * a run is all small or all large, and nobody can earn it. `hindsight` shows how near one can come.
 */
#include <math.h>

#include "lab/regret/contestant.h"
#include "lab/regret/regret_suites.h"

#define ARRIVALS 1000
#define RATE_BUDGET ARRIVALS
#define COST_BUDGET 50000
#define SAMPLE_WINDOW 200

static const double rhos[] = {-1, -0.5, 0, 0.5, 1};
#define N_RHOS (sizeof rhos / sizeof rhos[0])

enum who {
    MARGINAL,      /* whatever fits */
    STATIC_PRIOR,  /* prices for the workload that is believed */
    STATIC_ORACLE, /* prices for the true one */
    REFINE,        /* from those believed to those of the sample, always */
    ADAPTIVE,      /* the same, if the sample says that they are better */
    NAIVE,         /* from none to those of the sample */
    ONLINE,        /* the product's own, with what is believed as its prior */
    HINDSIGHT,     /* the best that whole calls can do who knows the run */
};

struct chain_world {
    const char *name, *about;
    double believed, truly; /* value of a large one */
    const double *rhos;
    size_t n_rhos;
};

/* ---- The contestants ------------------------------------------------------------------------- */

struct chain_workload {
    struct tg_type types[2];
    struct tg_workload workload;
};

static const struct tg_workload *expect_large(struct chain_workload *of, double value)
{
    for (size_t i = 0; i < 2; i++) {
        tg_type_init(&of->types[i]);
        of->types[i].cost = i == 0 ? CHAIN_SMALL_COST : CHAIN_LARGE_COST;
        of->types[i].value = i == 0 ? CHAIN_SMALL_VALUE : value;
        of->types[i].weight = 0.5;
    }
    tg_workload_init(&of->workload);
    of->workload.types = of->types;
    of->workload.n_types = 2;
    of->workload.arrivals = ARRIVALS;
    of->workload.rate_budget = RATE_BUDGET;
    of->workload.cost_budget = COST_BUDGET;
    return &of->workload;
}

static enum tg_err enter_bid(enum tg_prices prices, const struct tg_workload *workload,
                             struct contestant *contestant)
{
    struct tg_bid_config config;

    tg_bid_config_init(&config);
    config.prices = prices;
    config.workload = *workload;
    config.sample_window = SAMPLE_WINDOW;
    config.online.window = ARRIVALS;
    config.online.rate_budget = RATE_BUDGET;
    config.online.cost_budget = COST_BUDGET;
    config.online.guard = false; /* a single window: the prices alone are compared */
    return contestant_bid(&config, contestant);
}

static enum tg_err enter_learner(const struct tg_workload *prior, struct contestant *contestant)
{
    struct tg_duals first = {0, 0, 0};
    struct tg_workload budgets;
    enum tg_err err = TG_OK;

    if (prior != NULL)
        err = tg_fluid_solve(prior, &first, NULL, NULL, NULL);
    if (err)
        return err;
    tg_workload_init(&budgets);
    budgets.rate_budget = (double)RATE_BUDGET / ARRIVALS;
    budgets.cost_budget = (double)COST_BUDGET / ARRIVALS;
    /* Without a prior, the published policy has no price for the last call of the sample, too. */
    return contestant_learner(&budgets, &first, SAMPLE_WINDOW,
                              prior != NULL ? SAMPLE_WINDOW : SAMPLE_WINDOW + 1, contestant);
}

static enum tg_err regret_chain_enter(enum who who, const struct chain_world *world,
                                      struct contestant *contestant)
{
    struct chain_workload of;
    const struct tg_workload *believed =
        expect_large(&of, who == STATIC_ORACLE ? world->truly : world->believed);

    *contestant = contestant_greedy();
    switch (who) {
    case STATIC_PRIOR:
    case STATIC_ORACLE:
        return enter_bid(TG_PRICES_WORKLOAD, believed, contestant);
    case ADAPTIVE:
        return enter_bid(TG_PRICES_ADAPTIVE, believed, contestant);
    case ONLINE:
        return enter_bid(TG_PRICES_ONLINE, believed, contestant);
    case REFINE:
        return enter_learner(believed, contestant);
    case NAIVE:
        return enter_learner(NULL, contestant);
    default:
        return TG_OK;
    }
}

/* ---- Runs ------------------------------------------------------------------------------------ */

static double regret_chain_earn(struct tg_policy *policy, const bool *large, double large_value)
{
    struct window_budget left = {RATE_BUDGET, COST_BUDGET};
    double sum = 0;

    for (size_t i = 0; i < ARRIVALS; i++) {
        struct arrival arrival = {large[i] ? CHAIN_LARGE_COST : CHAIN_SMALL_COST,
                                  large[i] ? large_value : CHAIN_SMALL_VALUE, 0};
        if (window_budget_offer(&left, policy, &arrival, 0, (tg_ms)i))
            sum += arrival.value;
    }
    return sum;
}

static double earn_in_hindsight(const bool *large, double large_value)
{
    int64_t n_large = 0;
    double best = 0;

    for (size_t i = 0; i < ARRIVALS; i++)
        n_large += large[i];
    for (int64_t taken = 0; taken <= n_large && taken * CHAIN_LARGE_COST <= COST_BUDGET; taken++) {
        int64_t fit = (COST_BUDGET - taken * CHAIN_LARGE_COST) / CHAIN_SMALL_COST;
        int64_t small = fit < ARRIVALS - n_large ? fit : ARRIVALS - n_large;
        best = fmax(best, (double)taken * large_value + (double)small * CHAIN_SMALL_VALUE);
    }
    return best;
}

static enum tg_err revenue_of(enum who who, const struct chain_world *world, const bool *large,
                              double *revenue)
{
    struct contestant contestant;

    if (who == HINDSIGHT) {
        *revenue = earn_in_hindsight(large, world->truly);
        return TG_OK;
    }
    enum tg_err err = regret_chain_enter(who, world, &contestant);
    if (err)
        return err;
    *revenue = regret_chain_earn(contestant.policy, large, world->truly);
    contestant_free(&contestant);
    return TG_OK;
}

/* One row: the mean regret of each over the seeds. */
static enum tg_err run_row(const struct regret_options *options, const struct chain_world *world,
                           const enum who *whos, size_t n, struct regret_row *row)
{
    struct chain_workload of;
    struct tg_duals duals;
    double optimum, sums[REGRET_POLICIES_MAX] = {0};
    enum tg_err err = tg_fluid_solve(expect_large(&of, world->truly), &duals, NULL, &optimum, NULL);

    for (size_t k = 0; k < options->seeds && !err; k++) {
        bool large[ARRIVALS];
        chain_draw(row->rho, (uint32_t)(options->seed - 1 + k), large, ARRIVALS);
        for (size_t i = 0; i < n && !err; i++) {
            double revenue = NAN;
            if (!(options->leave_out >> i & 1))
                err = revenue_of(whos[i], world, large, &revenue);
            sums[i] += 1 - revenue / optimum;
        }
    }
    for (size_t i = 0; i < n; i++)
        row->percent[i] = 100 * sums[i] / (double)options->seeds;
    return err;
}

static enum tg_err run_worlds(const struct regret_options *options,
                              const struct chain_world *worlds, size_t n_worlds,
                              const enum who *whos, size_t n_whos, struct regret_table *table)
{
    enum tg_err err = TG_OK;

    for (size_t w = 0; w < n_worlds && !err; w++) {
        const struct chain_world *world = &worlds[w];
        const struct regret_row *first = &table->rows[table->n_rows];
        for (size_t i = 0; i < world->n_rhos && !err; i++) {
            struct regret_row *row = table_row(table);
            row->world = world->name;
            row->about = world->about;
            row->rho = world->rhos[i];
            err = run_row(options, world, whos, n_whos, row);
        }
        if (world->n_rhos > 1) {
            struct regret_row *mean = table_summary(table);
            row_mean(mean, first, world->n_rhos);
            mean->world = world->name;
            mean->about = world->about;
        }
        options_progress(options, w + 1, n_worlds);
    }
    return err;
}

/* ---- The suites ------------------------------------------------------------------------------ */

static enum tg_err run_rho(const struct regret_options *options, struct regret_table *table)
{
    static const struct chain_world world = {NULL, NULL, 50, 50, rhos, N_RHOS};
    static const enum who whos[] = {MARGINAL, STATIC_PRIOR, ADAPTIVE, ONLINE, HINDSIGHT};

    return run_worlds(options, &world, 1, whos, sizeof whos / sizeof whos[0], table);
}

const struct regret_suite regret_rho = {
    .name = "rho",
    .title = "Two types in one window, by the correlation of neighbours",
    .denominator = "the fluid optimum",
    .policies = {"marginal", "joint", "adaptive", "online", "hindsight"},
    .seeds = 20,
    .run = run_rho,
};

static enum tg_err run_adaptive(const struct regret_options *options, struct regret_table *table)
{
    static const struct chain_world worlds[] = {
        {"A", "a large call is worth the 50 that is believed", 50, 50, rhos, N_RHOS},
        {"B", "a large call is worth 200, 50 is believed", 50, 200, rhos, N_RHOS},
        {"C", "a large call is worth 50, 200 is believed", 200, 50, rhos, N_RHOS},
        {"caveat", "a large call is worth 80, 2 is believed", 2, 80, &rhos[3], 1},
    };
    static const enum who whos[] = {MARGINAL, STATIC_PRIOR, STATIC_ORACLE, REFINE,
                                    ADAPTIVE, NAIVE,        ONLINE,        HINDSIGHT};

    return run_worlds(options, worlds, sizeof worlds / sizeof worlds[0], whos,
                      sizeof whos / sizeof whos[0], table);
}

const struct regret_suite regret_adaptive = {
    .name = "adaptive",
    .title = "Two types in one window, with a prior that is right (A) or wrong (B, C, caveat)",
    .denominator = "the fluid optimum",
    .policies = {"marginal", "static_prior", "static_oracle", "refine", "adaptive", "naive",
                 "online", "hindsight"},
    .seeds = 20,
    .run = run_adaptive,
};
