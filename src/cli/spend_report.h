/* spend_report.h - what `tollgate spend` prints: rows by tenant and model, and budgets. */
#ifndef TG_CLI_SPEND_REPORT_H
#define TG_CLI_SPEND_REPORT_H

#include "io/text/json_write.h"
#include "server/config/config.h"
#include "server/ledger/ledger_credit.h"

struct spend_row {
    const char *tenant;
    char *model;
    size_t model_bytes;
    int64_t calls;
    struct tg_usage usage;
    tg_micro micro, uncertain;
};

/* One budget in its window of now. */
struct spend_budget {
    const char *tenant; /* null: of everyone */
    const struct config_budget *budget;
    tg_ms begin, end;
    tg_micro spent, uncertain; /* the latter is part of the former */
};

struct spend_report {
    tg_ms since;
    struct spend_row *rows; /* by tenant, then model */
    size_t n_rows, max_rows;
    struct spend_row total;
    struct spend_budget *budgets;
    size_t n_budgets;
    struct ledger_credit *credits; /* made since then, the latest first */
    size_t n_credits, max_credits;
    uint64_t damaged; /* entries of the journal that could not be read */
    bool no_memory;
};

/* What tenant and those beneath it (null: all) have spent since `report->since`. */
bool spend_report_read(struct spend_report *report, struct ledger_view *view, const char *tenant,
                       struct tg_problem *problem);
void spend_report_fini(struct spend_report *report);

void spend_report_print(const struct spend_report *report);
void spend_report_write(const struct spend_report *report, struct json_writer *out);

/* a + b, at most TG_MONEY_MAX, for sums of a ledger. */
int64_t spend_add(int64_t a, int64_t b);

#endif
