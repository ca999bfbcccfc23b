/* regret.c - the suites, and what they share: budgets, rows, means. */
#include "lab/regret/regret.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "lab/regret/regret_suites.h"

const struct regret_suite *const regret_suites[REGRET_SUITES] = {
    &regret_rho, &regret_adaptive, &regret_hog, &regret_drift, &regret_guard};

const struct regret_suite *regret_suite_find(const char *name)
{
    for (size_t i = 0; i < REGRET_SUITES; i++)
        if (strcmp(regret_suites[i]->name, name) == 0)
            return regret_suites[i];
    return NULL;
}

enum tg_err regret_run(const struct regret_suite *suite, const struct regret_options *options,
                       struct regret_table *table)
{
    memset(table, 0, sizeof *table);
    return suite->run(options, table);
}

/* ---- What suites share ----------------------------------------------------------------------- */

bool window_budget_offer(struct window_budget *left, struct tg_policy *policy,
                         const struct arrival *arrival, int64_t in_flight, tg_ms now)
{
    struct tg_call call;

    tg_call_init(&call);
    call.debit.cost = arrival->cost;
    call.value = arrival->value;
    call.hold_s = arrival->hold_s;
    if (policy != NULL && !policy->worth(policy, &call, in_flight, now))
        return false;
    if (left->calls < 1 || left->cost < arrival->cost) {
        if (policy != NULL && policy->refused != NULL)
            policy->refused(policy, &call, left->calls < 1 ? TG_REASON_RATE : TG_REASON_COST, now);
        return false;
    }
    left->calls--;
    left->cost -= arrival->cost;
    assert(left->calls >= 0 && left->cost >= 0);
    if (policy != NULL && policy->admitted != NULL)
        policy->admitted(policy, &call, now);
    return true;
}

bool window_budget_serve(struct window_budget *left, struct tg_policy *policy,
                         const struct arrival *arrival, tg_ms now)
{
    struct tg_spent spent = {now, arrival->cost, arrival->cost, arrival->hold_s, arrival->hold_s};

    if (!window_budget_offer(left, policy, arrival, 0, now))
        return false;
    if (policy != NULL && policy->released != NULL)
        policy->released(policy, &spent, now);
    return true;
}

static void row_clear(struct regret_row *row)
{
    memset(row, 0, sizeof *row);
    row->rho = NAN;
    for (size_t i = 0; i < REGRET_POLICIES_MAX; i++)
        row->percent[i] = NAN;
}

struct regret_row *table_row(struct regret_table *table)
{
    assert(table->n_rows < REGRET_ROWS_MAX);
    struct regret_row *row = &table->rows[table->n_rows++];

    row_clear(row);
    return row;
}

struct regret_row *table_summary(struct regret_table *table)
{
    assert(table->n_summary < REGRET_SUMMARY_MAX);
    struct regret_row *row = &table->summary[table->n_summary++];

    row_clear(row);
    return row;
}

void row_mean(struct regret_row *out, const struct regret_row *rows, size_t n)
{
    assert(n > 0);
    out->measure = "mean";
    for (size_t policy = 0; policy < REGRET_POLICIES_MAX; policy++) {
        double sum = 0;
        for (size_t i = 0; i < n; i++)
            sum += rows[i].percent[policy];
        out->percent[policy] = sum / (double)n;
    }
}

void row_max(struct regret_row *out, const struct regret_row *rows, size_t n)
{
    assert(n > 0);
    out->measure = "max";
    for (size_t policy = 0; policy < REGRET_POLICIES_MAX; policy++) {
        out->percent[policy] = rows[0].percent[policy];
        for (size_t i = 1; i < n; i++)
            if (rows[i].percent[policy] > out->percent[policy])
                out->percent[policy] = rows[i].percent[policy];
    }
}

void options_progress(const struct regret_options *options, size_t done, size_t of)
{
    if (options->progress != NULL)
        options->progress(options->context, done, of);
}
