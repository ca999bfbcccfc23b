/* regret_drift.c - the suite `drift`: fifty windows of a world that changes.
 *
 * Each window has a budget of cost of its own, and what is left of it is lost; what a policy has
 * learned stays with it from window to window. Regret is what is missing to hindsight: in each
 * window the arrivals in order of density (value by cost), each taken that still fits. That is
 * nearly the best that can be done, but not always quite: a policy can beat it, and a negative
 * regret is printed as it is. A percentage is one of sums over all windows and seeds.
 *
 * `static` and `adaptive` start from a prior, so they have no row without one. Where no two calls
 * are alike (lognormal) `adaptive` is the sampled form of sampled.c.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "lab/regret/contestant.h"
#include "lab/regret/regret_suites.h"

#define MODEL_DRAWS 200000
#define MODEL_TYPES 250 /* a divisor of it */
#define SAMPLE_WINDOW 500
#define WRONG_FACTOR 4.0 /* a wrong prior takes every value for four times what it is */
#define NOT_SCARCE 1e12

enum who {
    GREEDY,
    STATIC,
    ADAPTIVE,
    ONLINE,
    GUARDED, /* online with its guard */
    EXACT,   /* the best that whole calls can do who knows the window; of two types alone */
    N_WHOS
};
enum prior { PRIOR_NONE, PRIOR_RIGHT, PRIOR_WRONG, N_PRIORS };

static const char *const prior_names[N_PRIORS] = {"none", "right", "wrong"};

/* What someone believes about a set beforehand. */
struct belief {
    double price; /* price per unit of cost */
    struct tg_type types[TG_TYPES_MAX];
    size_t n_types;
};

/* Everything of one set that its runs share; they only read it. */
struct scene {
    const struct drift_set *set;
    struct belief beliefs[N_PRIORS]; /* the entry PRIOR_NONE is not used */
};

/* One run of all policies, through all windows: what each earned. */
struct drift_run {
    const struct scene *scene;
    size_t column;
    uint64_t seed;
    double earned[N_PRIORS][N_WHOS];
    double hindsight;
    enum tg_err err;
};

/* All runs, in the order of sets, columns and seeds. */
struct drift_runs {
    const struct regret_options *options;
    struct scene scenes[DRIFT_SETS];
    struct drift_run *run;
    size_t n;

    pthread_mutex_t lock; /* guards the rest */
    size_t next, done;
};

/* What a run needs, and the next one may use again. */
struct desk {
    struct arrival *arrivals;
    struct arrival *sorted; /* the arrivals of a window, in order of density */
};

/* ---- Beliefs --------------------------------------------------------------------------------- */

static int by_density(const void *left, const void *right)
{
    const struct arrival *a = left, *b = right;
    double x = a->value * (double)b->cost, y = b->value * (double)a->cost;

    if (x != y)
        return x > y ? -1 : 1;
    /* A total order, so that the result does not depend on the sort. */
    return a->cost != b->cost ? (a->cost < b->cost ? -1 : 1) : 0;
}

/* Types of equal weight that stand for as many draws each, neighbours in density together. */
static void believe_types(struct belief *belief, struct arrival *draws, size_t n_types)
{
    size_t each = MODEL_DRAWS / n_types;

    qsort(draws, MODEL_DRAWS, sizeof draws[0], by_density);
    belief->n_types = n_types;
    for (size_t i = 0; i < n_types; i++) {
        struct tg_type *type = &belief->types[i];
        double cost = 0, value = 0;
        for (size_t j = i * each; j < (i + 1) * each; j++) {
            cost += (double)draws[j].cost;
            value += draws[j].value;
        }
        tg_type_init(type);
        type->cost = cost / (double)each;
        type->value = value / (double)each;
    }
}

/* With two types everything is known, and no draws are needed. */
static void believe_two_types(struct belief *belief)
{
    belief->n_types = 2;
    for (size_t i = 0; i < 2; i++)
        tg_type_init(&belief->types[i]);
    belief->types[0].cost = CHAIN_SMALL_COST;
    belief->types[1].cost = CHAIN_LARGE_COST;
    belief->types[1].value = 50;
}

static enum tg_err believe(struct scene *scene)
{
    struct belief *right = &scene->beliefs[PRIOR_RIGHT], *wrong = &scene->beliefs[PRIOR_WRONG];
    struct arrival *draws;

    if (scene->set == &drift_sets[0]) {
        believe_two_types(right);
    } else {
        draws = calloc(MODEL_DRAWS, sizeof *draws);
        if (draws == NULL)
            return TG_ERR_MEMORY;
        drift_draw_model(scene->set, draws, MODEL_DRAWS);
        believe_types(right, draws, MODEL_TYPES);
        free(draws);
    }
    *wrong = *right;
    right->price = scene->set->right_price;
    wrong->price = scene->set->wrong_price;
    for (size_t i = 0; i < wrong->n_types; i++)
        wrong->types[i].value *= WRONG_FACTOR;
    return TG_OK;
}

/* ---- The contestants ------------------------------------------------------------------------- */

static void expect(const struct scene *scene, enum prior prior, struct tg_workload *workload)
{
    tg_workload_init(workload);
    if (prior == PRIOR_NONE)
        return;
    workload->types = scene->beliefs[prior].types;
    workload->n_types = scene->beliefs[prior].n_types;
    workload->arrivals = (double)scene->set->window;
    workload->rate_budget = NOT_SCARCE;
    workload->cost_budget = (double)scene->set->budget;
}

static enum tg_err enter_sampled(const struct scene *scene, enum prior prior,
                                 struct contestant *contestant)
{
    const struct drift_set *set = scene->set;
    struct sampled_config config = {
        .price = scene->beliefs[prior].price,
        .budget = (double)set->budget / (double)set->window,
        .low = set->density_low,
        .high = set->density_high,
        .window = SAMPLE_WINDOW,
    };

    return contestant_sampled(&config, contestant);
}

static enum tg_err regret_drift_enter(const struct scene *scene, enum who who, enum prior prior,
                                      struct contestant *contestant)
{
    static const enum tg_prices prices[N_WHOS] = {[STATIC] = TG_PRICES_DUALS,
                                                  [ADAPTIVE] = TG_PRICES_ADAPTIVE,
                                                  [ONLINE] = TG_PRICES_ONLINE,
                                                  [GUARDED] = TG_PRICES_ONLINE};
    struct tg_bid_config config;

    *contestant = contestant_greedy();
    if (who == GREEDY)
        return TG_OK;
    if (who == ADAPTIVE && scene->set != &drift_sets[0])
        return enter_sampled(scene, prior, contestant);
    tg_bid_config_init(&config);
    config.prices = prices[who];
    config.sample_window = SAMPLE_WINDOW;
    config.online.window = (tg_ms)scene->set->window;
    config.online.cost_budget = (double)scene->set->budget;
    config.online.guard = who == GUARDED;
    if (who == STATIC)
        config.duals.cost = scene->beliefs[prior].price;
    else
        expect(scene, prior, &config.workload);
    return contestant_bid(&config, contestant);
}

/* ---- Runs ------------------------------------------------------------------------------------ */

/* One arrival a millisecond, and a window of as many. */
static double regret_drift_earn(const struct drift_set *set, const struct arrival *arrivals,
                                struct tg_policy *policy)
{
    double sum = 0;

    for (size_t w = 0; w < DRIFT_WINDOWS; w++) {
        struct window_budget left = {INT64_MAX, set->budget};
        for (size_t i = w * set->window; i < (w + 1) * set->window; i++)
            if (window_budget_serve(&left, policy, &arrivals[i], (tg_ms)i))
                sum += arrivals[i].value;
    }
    return sum;
}

static double earn_in_hindsight(const struct drift_set *set, const struct desk *desk)
{
    double sum = 0;

    for (size_t w = 0; w < DRIFT_WINDOWS; w++) {
        struct window_budget left = {INT64_MAX, set->budget};
        memcpy(desk->sorted, &desk->arrivals[w * set->window],
               set->window * sizeof desk->sorted[0]);
        qsort(desk->sorted, set->window, sizeof desk->sorted[0], by_density);
        for (size_t i = 0; i < set->window; i++)
            if (window_budget_offer(&left, NULL, &desk->sorted[i], 0, 0))
                sum += desk->sorted[i].value;
    }
    return sum;
}

/* Two types: every number of large ones is tried, and the rest of the budget is for small ones. */
static double earn_exactly(const struct drift_set *set, const struct desk *desk)
{
    double sum = 0;

    for (size_t w = 0; w < DRIFT_WINDOWS; w++) {
        const struct arrival *arrivals = &desk->arrivals[w * set->window];
        int64_t smalls = 0, larges = 0;
        double value = 0, best = 0; /* all large ones of a window have one value */
        for (size_t i = 0; i < set->window; i++) {
            bool large = arrivals[i].cost == CHAIN_LARGE_COST;
            larges += large;
            smalls += !large;
            value = large ? arrivals[i].value : value;
        }
        for (int64_t n = 0; n <= larges && n * CHAIN_LARGE_COST <= set->budget; n++) {
            int64_t fit = (set->budget - n * CHAIN_LARGE_COST) / CHAIN_SMALL_COST;
            double all = (double)n * value + (double)(fit < smalls ? fit : smalls);
            best = all > best ? all : best;
        }
        sum += best;
    }
    return sum;
}

/* Whether a policy is wanted, and can run at all with such a prior. */
static bool takes_part(const struct regret_options *options, enum who who, enum prior prior)
{
    return !(options->leave_out >> who & 1) &&
           (prior != PRIOR_NONE || (who != STATIC && who != ADAPTIVE));
}

static enum tg_err run_one(const struct regret_options *options, struct drift_run *run,
                           const struct desk *desk)
{
    const struct drift_set *set = run->scene->set;

    drift_draw(set, run->column, run->seed, desk->arrivals);
    run->hindsight = earn_in_hindsight(set, desk);
    for (int prior = 0; prior < N_PRIORS; prior++)
        for (int who = 0; who < N_WHOS; who++) {
            struct contestant contestant;
            if (who == EXACT && set == &drift_sets[0])
                run->earned[prior][who] = earn_exactly(set, desk);
            if (who == EXACT || !takes_part(options, (enum who)who, (enum prior)prior))
                continue;
            enum tg_err err =
                regret_drift_enter(run->scene, (enum who)who, (enum prior)prior, &contestant);
            if (err)
                return err;
            run->earned[prior][who] = regret_drift_earn(set, desk->arrivals, contestant.policy);
            contestant_free(&contestant);
        }
    return TG_OK;
}

/* ---- Threads --------------------------------------------------------------------------------- */

static struct drift_run *take_run(struct drift_runs *runs)
{
    struct drift_run *run = NULL;

    pthread_mutex_lock(&runs->lock);
    if (runs->next < runs->n)
        run = &runs->run[runs->next++];
    pthread_mutex_unlock(&runs->lock);
    return run;
}

static void tell_done(struct drift_runs *runs)
{
    pthread_mutex_lock(&runs->lock);
    options_progress(runs->options, ++runs->done, runs->n);
    pthread_mutex_unlock(&runs->lock);
}

/* Does runs until none is left. A run writes to itself alone, and the sums are made later in the
 * order of the runs: so it does not matter who does which. */
static void *regret_drift_work(void *context)
{
    struct drift_runs *runs = context;
    struct desk desk = {calloc(DRIFT_ARRIVALS_MAX, sizeof *desk.arrivals),
                        calloc(DRIFT_WINDOW_MAX, sizeof *desk.sorted)};
    bool ready = desk.arrivals != NULL && desk.sorted != NULL;
    struct drift_run *run;

    while ((run = take_run(runs)) != NULL) {
        run->err = ready ? run_one(runs->options, run, &desk) : TG_ERR_MEMORY;
        tell_done(runs);
    }
    free(desk.arrivals);
    free(desk.sorted);
    return NULL;
}

/* The caller works too; a thread that cannot be had is done without. */
static void work_together(struct drift_runs *runs)
{
    pthread_t threads[REGRET_THREADS_MAX];
    size_t n = 0;

    while (n + 1 < runs->options->threads && n < REGRET_THREADS_MAX &&
           pthread_create(&threads[n], NULL, regret_drift_work, runs) == 0)
        n++;
    regret_drift_work(runs);
    while (n > 0)
        pthread_join(threads[--n], NULL);
}

/* ---- The table ------------------------------------------------------------------------------- */

static size_t plan_column(struct drift_runs *runs, const struct scene *scene, size_t column,
                          size_t at)
{
    for (size_t k = 0; k < runs->options->seeds; k++) {
        struct drift_run *run = &runs->run[at++];
        run->scene = scene;
        run->column = column;
        run->seed = runs->options->seed + k;
    }
    return at;
}

static enum tg_err plan(struct drift_runs *runs)
{
    size_t columns = 0, at = 0;

    for (size_t i = 0; i < DRIFT_SETS; i++)
        columns += drift_sets[i].n_columns;
    runs->n = columns * runs->options->seeds;
    runs->run = calloc(runs->n, sizeof *runs->run);
    if (runs->run == NULL)
        return TG_ERR_MEMORY;
    for (size_t i = 0; i < DRIFT_SETS; i++) {
        runs->scenes[i].set = &drift_sets[i];
        enum tg_err err = believe(&runs->scenes[i]);
        if (err)
            return err;
        for (size_t c = 0; c < drift_sets[i].n_columns; c++)
            at = plan_column(runs, &runs->scenes[i], c, at);
    }
    return TG_OK;
}

/* The row of a prior and a column, from the runs of that column. */
static void fill_row(const struct regret_options *options, const struct drift_run *runs,
                     enum prior prior, struct regret_row *row)
{
    size_t n = options->seeds;
    const struct drift_set *set = runs[0].scene->set;
    double hindsight = 0;

    row->column = set->columns[runs[0].column].name;
    row->set = set->name;
    row->prior = prior_names[prior];
    for (size_t k = 0; k < n; k++)
        hindsight += runs[k].hindsight;
    for (int who = 0; who < N_WHOS; who++) {
        double earned = 0;
        for (size_t k = 0; k < n; k++)
            earned += runs[k].earned[prior][who];
        bool known = who != EXACT || set == &drift_sets[0];
        if (known && takes_part(options, (enum who)who, prior))
            row->percent[who] = 100 * (1 - earned / hindsight);
    }
}

/* Rows are by set, then by prior, then by column. */
static void tabulate(const struct drift_runs *runs, struct regret_table *table)
{
    const struct drift_run *first = runs->run;
    size_t seeds = runs->options->seeds;

    for (size_t i = 0; i < DRIFT_SETS; i++) {
        size_t columns = drift_sets[i].n_columns;
        for (int prior = 0; prior < N_PRIORS; prior++) {
            const struct regret_row *rows = &table->rows[table->n_rows];
            for (size_t c = 0; c < columns; c++)
                fill_row(runs->options, first + c * seeds, (enum prior)prior, table_row(table));
            for (int measure = 0; measure < 2; measure++) {
                struct regret_row *row = table_summary(table);
                (measure == 0 ? row_mean : row_max)(row, rows, columns);
                row->set = drift_sets[i].name;
                row->prior = prior_names[prior];
            }
        }
        first += columns * seeds;
    }
}

static enum tg_err do_runs(struct drift_runs *runs, struct regret_table *table)
{
    enum tg_err err = plan(runs);

    if (err)
        return err;
    work_together(runs);
    for (size_t i = 0; i < runs->n && !err; i++)
        err = runs->run[i].err;
    if (!err)
        tabulate(runs, table);
    return err;
}

static enum tg_err run_drift(const struct regret_options *options, struct regret_table *table)
{
    struct drift_runs *runs = calloc(1, sizeof *runs);
    enum tg_err err = TG_ERR_MEMORY;

    if (runs == NULL)
        return err;
    runs->options = options;
    if (pthread_mutex_init(&runs->lock, NULL) == 0) {
        err = do_runs(runs, table);
        pthread_mutex_destroy(&runs->lock);
    }
    free(runs->run);
    free(runs);
    return err;
}

const struct regret_suite regret_drift = {
    .name = "drift",
    .title = "Fifty windows of a world that changes, by what is believed beforehand",
    .denominator = "what each window could have earned in hindsight",
    .policies = {"greedy", "static", "adaptive", "online", "guarded", "exact"},
    .seeds = 8,
    .run = run_drift,
};
