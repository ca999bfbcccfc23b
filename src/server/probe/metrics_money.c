/* metrics_money.c - budgets, the bank and the ledger on the page of metrics.
 *
 * With ten thousand tenants only the budgets that matter are shown: those of everyone together, and
 * of the tenants that have used most of one. All accounts are looked at for that, which takes a few
 * ms of the control thread's time and stops the bank for one account at a time.
 */
#include <stdio.h>
#include <stdlib.h>

#include "server/probe/metrics_page_internal.h"

/* ---- which ---- */

struct budget_view {
    const char *tenant; /* null: everyone */
    double ratio;       /* used to granted, of the budget that is used most */
    size_t n;
    struct tg_budget_metrics budgets[TG_BUDGETS_MAX];
};

struct budget_views {
    size_t n, accounts; /* accounts kept here, and accounts that have budgets */
    struct budget_view list[1 + METRICS_BUDGETS_MAX];
};

static void view_account(struct gateway *gateway, const char *tenant, size_t hint, tg_ms now,
                         struct budget_view *view)
{
    tg_account account = spending_account(gateway->spending, tenant, hint);

    *view = (struct budget_view){.tenant = tenant};
    view->n = tg_bank_get_budgets(spending_bank(gateway->spending), account,
                                  spending_time(gateway->spending, now), view->budgets);
    for (size_t i = 0; i < view->n; i++)
        if (spending_used_ratio(&view->budgets[i]) > view->ratio)
            view->ratio = spending_used_ratio(&view->budgets[i]);
}

/* The place of the least used one, tenants only. */
static size_t least_used(const struct budget_views *views)
{
    size_t least = 1;

    for (size_t i = 2; i < views->n; i++)
        if (views->list[i].ratio < views->list[least].ratio)
            least = i;
    return least;
}

static void view_budgets(struct gateway *gateway, const struct generation *generation, tg_ms now,
                         struct budget_views *views)
{
    struct budget_view view;
    size_t least = 0;

    view_account(gateway, NULL, SPENDING_TOP, now, &views->list[0]);
    views->n = 1;
    for (size_t i = 0; i < generation->config.n_tenants; i++) {
        const struct config_tenant *tenant = &generation->config.tenants[i];
        if (tenant->n_budgets == 0)
            continue;
        views->accounts++;
        view_account(gateway, tenant->name, i, now, &view);
        if (views->n <= METRICS_BUDGETS_MAX)
            views->list[views->n++] = view;
        else if (view.ratio > views->list[least].ratio)
            views->list[least] = view;
        else
            continue;
        if (views->n > METRICS_BUDGETS_MAX)
            least = least_used(views);
    }
}

/* ---- lines ---- */

enum budget_number { BUDGET_LIMIT, BUDGET_USED, BUDGET_RESERVED, BUDGET_RATIO };

static void write_budget(struct exposition *text, enum budget_number number,
                         const struct budget_view *view, size_t i)
{
    const struct tg_budget_metrics *budget = &view->budgets[i];
    char place[24];
    struct expose_labels labels = {{{"tenant", view->tenant},
                                    {"per", tg_per_name(budget->per)},
                                    {"budget", place},
                                    {"mode", budget->mode == TG_SHADOW ? "shadow" : NULL}}};

    snprintf(place, sizeof place, "%zu", i); /* one tenant may have two for each day */
    if (number == BUDGET_RATIO)
        expose_real(text, &labels, spending_used_ratio(budget));
    else if (number == BUDGET_LIMIT)
        expose_line(text, &labels, budget->amount);
    else
        expose_line(text, &labels, number == BUDGET_USED ? budget->settled : budget->outstanding);
}

static void write_budgets(struct exposition *text, const struct budget_views *views)
{
    static const struct {
        const char *name, *help;
        enum budget_number number;
    } metrics[] = {
        {"tollgate_budget_limit_micro_usd", "What a budget allows; without a tenant: of everyone.",
         BUDGET_LIMIT},
        {"tollgate_budget_used_micro_usd", "What calls that have ended cost.", BUDGET_USED},
        {"tollgate_budget_reserved_micro_usd", "What calls that run may cost.", BUDGET_RESERVED},
        {"tollgate_budget_used_ratio", "The part of a budget that is used or reserved.",
         BUDGET_RATIO},
    };

    for (size_t m = 0; m < sizeof metrics / sizeof metrics[0]; m++) {
        expose_begin(text, metrics[m].name, "gauge", metrics[m].help);
        for (size_t i = 0; i < views->n; i++)
            for (size_t b = 0; b < views->list[i].n; b++)
                write_budget(text, metrics[m].number, &views->list[i], b);
    }
}

static void write_bank(struct exposition *text, struct gateway *gateway)
{
    struct tg_bank_stats bank;

    tg_bank_get_stats(spending_bank(gateway->spending), &bank);
    expose_single(text, "tollgate_budget_overdraft_total", "counter",
                  "Calls that cost more than was reserved for them.", (int64_t)bank.overshoots);
    expose_begin(text, "tollgate_budget_overdraft_usd_total", "counter",
                 "By how much, in dollars.");
    expose_decimal(text, NULL, (uint64_t)bank.overshot, 1000000);
    expose_single(text, "tollgate_settle_anomaly_total", "counter",
                  "Second settlements, and sums that could not be true: stays 0.",
                  (int64_t)bank.anomalies);
}

static void write_ledger(struct exposition *text, struct gateway *gateway, tg_ms now)
{
    static const char *const HEALTH[] = {"well", "late", "full"};
    struct spending_stats spending;
    struct ledger_state state;

    spending_get_stats(gateway->spending, &spending);
    expose_single(text, "tollgate_ledger_lost_total", "counter",
                  "Calls whose cost could not be recorded.", (int64_t)spending.lost);
    if (gateway->ledger == NULL)
        return;
    ledger_get_state(gateway->ledger, &state);
    expose_begin(text, "tollgate_ledger_state", "gauge", "1 for the state that the ledger is in.");
    for (int i = 0; i < 3; i++)
        expose_line(text, &(struct expose_labels){{{"state", HEALTH[i]}}}, (int)state.health == i);
    expose_single(text, "tollgate_ledger_waiting", "gauge", "Entries on their way to the database.",
                  (int64_t)state.waiting);
    expose_single(text, "tollgate_ledger_room", "gauge",
                  "Entries that can still be promised a place.", (int64_t)state.room);
    expose_single(text, "tollgate_ledger_exports_total", "counter",
                  "Days that were written as files (ledger.export).", (int64_t)state.exported);
    expose_single(text, "tollgate_ledger_export_failed", "gauge",
                  "1 if the last day that was over could not be written.",
                  state.export_problem[0] != '\0');
    expose_begin(text, "tollgate_ledger_interrupted_usd", "gauge",
                 "What was reserved for calls in flight when the process before this one died.");
    expose_real(text, NULL, (double)state.interrupted_micro / 1000000);
    bool late = state.waiting > 0 && state.flushed_at > 0 && now > state.flushed_at;
    expose_begin(text, "tollgate_ledger_lag_seconds", "gauge",
                 "How long the oldest entry waits for the database, at most.");
    expose_real(text, NULL, late ? (double)(now - state.flushed_at) / 1000 : 0);
}

void metrics_write_money(struct exposition *text, struct gateway *gateway,
                         const struct generation *generation, tg_ms now,
                         struct metrics_left_out *left_out)
{
    struct budget_views *views = calloc(1, sizeof *views);

    if (views == NULL) {
        text->out.failed = true;
        return;
    }
    view_budgets(gateway, generation, now, views);
    write_budgets(text, views);
    left_out->budgets = views->accounts - (views->n - 1);
    free(views);
    write_bank(text, gateway);
    write_ledger(text, gateway, now);
}
