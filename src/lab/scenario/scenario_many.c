/* scenario_many.c - scenarios x laws x seeds, by several threads, and their figures.
 *
 * A run depends on nothing but its scenario, law and seed, so that threads take the next one that
 * nobody has, and the results are the same for any number of them.
 */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>

#include "lab/scenario/scenario.h"

struct many {
    const struct scenario_table *table;
    struct scenario_result *results; /* by scenario, law and seed */
    size_t n;

    pthread_mutex_t lock; /* guards the rest */
    size_t next, done;
    enum tg_err err;
    struct tg_problem problem;
};

/* The factor of a 95 % interval by Student's distribution: the Cornish-Fisher expansion, within
 * 0.2 % from 5 degrees of freedom on. */
static double student_95(size_t freedom)
{
    static const double few[] = {12.7062, 4.3027, 3.1824, 2.7764};
    double n = (double)freedom;

    if (freedom <= sizeof few / sizeof few[0])
        return few[freedom - 1];
    return 1.959964 + 2.372271 / n + 2.822498 / (n * n) + 2.555850 / (n * n * n);
}

struct scenario_figure scenario_figure_of(const double *values, size_t n)
{
    struct scenario_figure figure = {0, values[0], values[0], NAN};
    double squares = 0;

    for (size_t i = 0; i < n; i++) {
        figure.mean += values[i] / (double)n;
        figure.lowest = fmin(figure.lowest, values[i]);
        figure.highest = fmax(figure.highest, values[i]);
    }
    for (size_t i = 0; i < n; i++)
        squares += (values[i] - figure.mean) * (values[i] - figure.mean);
    if (n > 1)
        figure.half = student_95(n - 1) * sqrt(squares / (double)(n - 1) / (double)n);
    return figure;
}

static void *work(void *context)
{
    struct many *many = context;
    const struct scenario_table *table = many->table;

    pthread_mutex_lock(&many->lock);
    while (many->next < many->n && !many->err) {
        size_t i = many->next++, cell = i / table->seeds;
        struct tg_problem problem = {{0}};
        pthread_mutex_unlock(&many->lock);
        enum tg_err err = scenario_run(table->scenarios[cell / table->n_laws],
                                       &table->laws[cell % table->n_laws], &table->options,
                                       table->seed + i % table->seeds, &many->results[i], &problem);
        pthread_mutex_lock(&many->lock);
        if (err && !many->err) {
            many->err = err;
            many->problem = problem;
        }
        many->done++;
        if (table->progress != NULL)
            table->progress(table->context, many->done, many->n);
    }
    pthread_mutex_unlock(&many->lock);
    return NULL;
}

static void run_all(struct many *many)
{
    pthread_t threads[64];
    size_t started = 0;

    while (started < 64 && started + 1 < many->table->threads && started + 1 < many->n &&
           pthread_create(&threads[started], NULL, work, many) == 0)
        started++;
    work(many);
    for (size_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
}

static void fill_cell(const struct scenario_table *table, const struct scenario_result *results,
                      double *values, struct scenario_cell *cell)
{
    size_t n = table->seeds;

#define FIGURE(to, from)                                                                           \
    do {                                                                                           \
        for (size_t i = 0; i < n; i++)                                                             \
            values[i] = results[i].from;                                                           \
        cell->to = scenario_figure_of(values, n);                                                  \
    } while (0)
    FIGURE(goodput, goodput);
    FIGURE(nominal, nominal);
    FIGURE(false_rejects, false_rejects);
    FIGURE(p99_ms, p99_ms);
    FIGURE(mean_limit, mean_limit);
    for (size_t priority = 0; priority < TG_PRIORITY_COUNT; priority++)
        FIGURE(served[priority], served[priority]);
#undef FIGURE
    for (size_t i = 0; i < n; i++)
        cell->events += results[i].events;
}

enum tg_err scenario_run_table(const struct scenario_table *table, struct scenario_cell *cells,
                               struct tg_problem *problem)
{
    size_t n_cells = table->n_scenarios * table->n_laws;
    struct many many = {.table = table, .n = n_cells * table->seeds};
    double *values = calloc(table->seeds, sizeof *values);

    many.results = calloc(many.n, sizeof *many.results);
    if (many.results == NULL || values == NULL) {
        many.err = TG_ERR_MEMORY;
    } else {
        pthread_mutex_init(&many.lock, NULL);
        run_all(&many);
        pthread_mutex_destroy(&many.lock);
    }
    for (size_t i = 0; !many.err && i < n_cells; i++) {
        cells[i] = (struct scenario_cell){.scenario = table->scenarios[i / table->n_laws],
                                          .law = &table->laws[i % table->n_laws]};
        fill_cell(table, &many.results[i * table->seeds], values, &cells[i]);
    }
    free(values);
    free(many.results);
    if (many.err)
        *problem = many.problem;
    return many.err;
}
