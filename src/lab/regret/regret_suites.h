/* regret_suites.h - what the suites of regret share. */
#ifndef TG_REGRET_REGRET_SUITES_H
#define TG_REGRET_REGRET_SUITES_H

#include "lab/regret/arrivals.h"
#include "lab/regret/regret.h"

extern const struct regret_suite regret_rho;
extern const struct regret_suite regret_adaptive;
extern const struct regret_suite regret_hog;
extern const struct regret_suite regret_drift;
extern const struct regret_suite regret_guard;

/* What is left of the budgets of a run. */
struct window_budget {
    int64_t calls;
    int64_t cost;
};

/* Offers an arrival: the policy must find it worth it (null: all are), and the budget must have
 * enough. True: it was admitted and paid for. */
bool window_budget_offer(struct window_budget *left, struct tg_policy *policy,
                         const struct arrival *arrival, int64_t in_flight, tg_ms now);

/* The same for calls that hold no slot: one that is admitted ends at once, having used its cost. */
bool window_budget_serve(struct window_budget *left, struct tg_policy *policy,
                         const struct arrival *arrival, tg_ms now);

/* A new row with nothing in it, its percentages NaN. */
struct regret_row *table_row(struct regret_table *table);
struct regret_row *table_summary(struct regret_table *table);

/* The mean or the largest of n rows, policy by policy. */
void row_mean(struct regret_row *out, const struct regret_row *rows, size_t n);
void row_max(struct regret_row *out, const struct regret_row *rows, size_t n);

void options_progress(const struct regret_options *options, size_t done, size_t of);

#endif
