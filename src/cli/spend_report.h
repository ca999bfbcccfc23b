/* spend_report.h - what `tollgate spend` prints: rows by tenant and model or by something else, and
 * budgets. */
#ifndef TG_CLI_SPEND_REPORT_H
#define TG_CLI_SPEND_REPORT_H

#include "io/text/json_write.h"
#include "server/config/config.h"
#include "server/ledger/ledger_credit.h"

/* What rows are told apart by. */
enum spend_by {
    SPEND_TENANT_MODEL,
    SPEND_DAY, /* in UTC */
    SPEND_MODEL,
    SPEND_TENANT,
    SPEND_USER, /* each within its tenant */
    SPEND_KEY,  /* the same of virtual keys; a call with a key without a name has none */
    SPEND_TAG,  /* "name=value"; a call is in the row of each tag of its key */
    SPEND_BYS
};

struct spend_row {
    const char *tenant; /* "" where rows are not told apart by it */
    char *name;         /* the model, the user or the day; "" where they are not */
    size_t name_bytes;
    int64_t calls;
    struct tg_usage usage;
    tg_micro micro, uncertain;
};

/* One budget in its window of now. */
struct spend_budget {
    const char *tenant; /* null: of everyone */
    const char *key;    /* a virtual key of the tenant; null: of the tenant */
    const struct config_budget *budget;
    tg_ms begin, end;
    tg_micro spent, uncertain; /* the latter is part of the former */

    bool stored;           /* the store was asked: */
    tg_micro stored_micro; /* what all gateways have told it, */
    size_t ledgers;        /* how many of them, */
    tg_micro told;         /* and what this ledger has */
};

/* Whether there is a store that gateways share, and it was asked about all budgets. */
enum spend_store_state { SPEND_STORE_NONE, SPEND_STORE_OK, SPEND_STORE_AWAY };

struct spend_report {
    enum spend_by by;
    tg_ms since, until;     /* until: TG_NUMBER_MAX: now */
    struct spend_row *rows; /* by tenant, then name */
    size_t n_rows, max_rows;
    struct spend_row total;
    struct spend_budget *budgets;
    size_t n_budgets;
    enum spend_store_state store;
    struct ledger_credit *credits; /* made since then, the latest first */
    size_t n_credits, max_credits;
    uint64_t damaged; /* entries of the journal that could not be read */
    bool no_memory;
};

/* What tenant and those beneath it (null: all) have spent from `report->since` until `->until`. */
bool spend_report_read(struct spend_report *report, struct ledger_view *view, const char *tenant,
                       struct tg_problem *problem);
void spend_report_fini(struct spend_report *report);

void spend_report_print(const struct spend_report *report);
void spend_report_write(const struct spend_report *report, struct json_writer *out);

/* Rows alone, with a line of names before them (RFC 4180). A name that a spreadsheet would take for
 * a formula has a ' before it: users choose their names. */
void spend_report_print_csv(const struct spend_report *report);

/* a + b, at most TG_MONEY_MAX, for sums of a ledger. */
int64_t spend_add(int64_t a, int64_t b);

#endif
