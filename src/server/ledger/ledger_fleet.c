/* ledger_fleet.c - the rows and the mark of what all gateways share. See ledger_fleet.h. */
#include "server/ledger/ledger_fleet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/core/problem.h"
#include "server/ledger/ledger_admin_internal.h"
#include "server/ledger/ledger_internal.h"

bool ledger_fleet_read(struct ledger *ledger, struct ledger_fleet_mark *mark,
                       struct tg_problem *problem)
{
    sqlite3_stmt *statement = NULL;
    int code = SQLITE_DONE;

    *mark = (struct ledger_fleet_mark){.version = 0};
    pthread_mutex_lock(&ledger->db_lock);
    /* Without the table there is nothing to prepare, and nothing was followed. */
    if (sqlite3_prepare_v2(ledger->db.sqlite,
                           "SELECT schema, epoch, version, change FROM fleet_mark", -1, &statement,
                           NULL) == SQLITE_OK)
        code = sqlite3_step(statement);
    if (code == SQLITE_ROW && sqlite3_column_int64(statement, 0) <= LEDGER_FLEET_SCHEMA + 1) {
        snprintf(mark->epoch, sizeof mark->epoch, "%s",
                 (const char *)sqlite3_column_text(statement, 1));
        mark->version = sqlite3_column_int64(statement, 2);
        snprintf(mark->change, sizeof mark->change, "%s",
                 (const char *)sqlite3_column_text(statement, 3));
    } else if (code == SQLITE_ROW) {
        problem_fail(problem,
                     "%s: its copy of the store is of schema %d, and this program reads up to %d; "
                     "start the newer program",
                     ledger->db.path, sqlite3_column_int(statement, 0), LEDGER_FLEET_SCHEMA + 1);
        code = SQLITE_ERROR;
    } else if (code != SQLITE_DONE) {
        ledger_db_fail(&ledger->db, "which state of the store it has cannot be read", problem);
    }
    sqlite3_finalize(statement);
    pthread_mutex_unlock(&ledger->db_lock);
    return code == SQLITE_DONE || code == SQLITE_ROW;
}

static struct statement statement_of_mark(const struct ledger_fleet_mark *mark)
{
    return (struct statement){
        .sql = "INSERT OR REPLACE INTO fleet_mark VALUES (1, ?1, ?2, ?3, ?4)",
        .values = {of_number(LEDGER_FLEET_SCHEMA), of_text(mark->epoch), of_number(mark->version),
                   of_text(mark->change)},
        .n = 4,
    };
}

/* The number of a top-up is its name: one that is there already is replaced. */
static struct statement statement_of_topup(const struct ledger_admin_topup *topup)
{
    struct statement statement = ledger_statement_topup(topup, true);

    statement.sql = "INSERT OR REPLACE INTO admin_topups VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    return statement;
}

static struct statement statement_of_row(const struct ledger_fleet_row *row)
{
    switch (row->kind) {
    case LEDGER_FLEET_TENANT:
        return row->gone ? (struct statement){.sql = "DELETE FROM admin_tenants WHERE name = ?1",
                                              .values = {of_text(row->tenant.name)},
                                              .n = 1}
                         : ledger_statement_tenant(&row->tenant);
    case LEDGER_FLEET_KEY:
        return row->gone ? ledger_statement_drop_key(row->key.tenant, row->key.name)
                         : ledger_statement_key(&row->key);
    case LEDGER_FLEET_TOPUP:
        return row->gone ? ledger_statement_drop_topup(row->topup.id)
                         : statement_of_topup(&row->topup);
    case LEDGER_FLEET_DISABLED:
        return row->gone
                   ? ledger_statement_drop_disabled(row->disabled.provider, row->disabled.name)
                   : ledger_statement_disabled(&row->disabled);
    case LEDGER_FLEET_OVERRIDE:
        break;
    }
    return row->gone ? ledger_statement_drop_override(row->override.id)
                     : ledger_statement_override(&row->override);
}

bool ledger_fleet_write(struct ledger *ledger, const struct ledger_fleet_row *rows, size_t n,
                        bool whole, const struct ledger_fleet_mark *mark,
                        struct tg_problem *problem)
{
    static const char *const EMPTY[] = {
        "DELETE FROM admin_tenants", "DELETE FROM admin_keys", "DELETE FROM admin_topups",
        "DELETE FROM admin_disabled_keys", "DELETE FROM admin_overrides"};
    struct statement *all = calloc(n + sizeof EMPTY / sizeof EMPTY[0] + 1, sizeof *all);
    size_t used = 0;

    if (all == NULL)
        return problem_fail(problem, "there is no memory for what the store has");
    for (size_t i = 0; whole && i < sizeof EMPTY / sizeof EMPTY[0]; i++)
        all[used++] = (struct statement){.sql = EMPTY[i]};
    for (size_t i = 0; i < n; i++)
        all[used++] = statement_of_row(&rows[i]);
    all[used++] = statement_of_mark(mark);
    bool done = ledger_statements_run(ledger, NULL, all, used, NULL, problem);
    free(all);
    return done;
}
