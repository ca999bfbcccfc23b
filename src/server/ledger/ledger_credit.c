/* ledger_credit.c - uncertain money that an operator has given back.
 *
 *     credits        who gave back how much, to whom, when and why; rows only come
 *     credit_parts   what each has taken from which sum
 *
 * A credit lowers `uncertain` in the sums themselves, the latest first, so that whoever adds them
 * up needs to know nothing of it: budgets after a restart, reports, sums that grow coarser. Calls
 * stay as they were: sum of calls = sum of sums + sum of credits. Rejected: entries below 0, which
 * every reader would have to allow for, and which could exceed what they take back.
 *
 * The tables are made by the first credit, as those of ledger_admin.c.
 */
#include "server/ledger/ledger_credit.h"

#include <stdlib.h>
#include <string.h>

#include "lib/budget/money.h"
#include "lib/core/array.h"
#include "lib/core/num.h"
#include "lib/core/problem.h"
#include "server/ledger/ledger_internal.h"
#include "server/ledger/ledger_view_internal.h"

static const char schema[] =
    "CREATE TABLE IF NOT EXISTS credits ("
    " id INTEGER PRIMARY KEY AUTOINCREMENT, made_at INTEGER NOT NULL, tenant TEXT NOT NULL,"
    " user BLOB NOT NULL, since INTEGER NOT NULL, until INTEGER NOT NULL,"
    " micro_usd INTEGER NOT NULL, reason TEXT NOT NULL, actor TEXT NOT NULL);"
    "CREATE TABLE IF NOT EXISTS credit_parts ("
    " credit INTEGER NOT NULL, tenant INTEGER NOT NULL, user INTEGER NOT NULL,"
    " begin INTEGER NOT NULL, micro_usd INTEGER NOT NULL);";

/* ---- Finding what there is ---- */

/* A row of `sums` with what is to be taken from it. */
struct credit_row {
    int64_t span, begin, tenant, user, model;
    tg_micro micro;
};

struct credit_rows {
    struct credit_row *list;
    size_t n, max;
};

static const char find_sql[] =
    "SELECT span, begin, sums.tenant, user, model, uncertain, names.text FROM sums"
    " JOIN tenants ON tenants.id = sums.tenant LEFT JOIN names ON names.id = user"
    " WHERE (tenants.name = ?1 OR substr(tenants.name, 1, length(?5)) = ?5)"
    " AND uncertain > 0 AND begin >= ?2 AND begin < ?3"
    " AND (length(?4) = 0 OR names.text = ?4) ORDER BY span, begin DESC";

static bool add_part(struct credit_rows *rows, struct ledger_credit_parts *parts, sqlite3_stmt *row,
                     tg_micro micro)
{
    size_t bytes = (size_t)sqlite3_column_bytes(row, 6);

    if (!array_reserve(&rows->list, &rows->max, rows->n + 1) ||
        !array_reserve(&parts->list, &parts->max, parts->n + 1))
        return false;
    rows->list[rows->n++] = (struct credit_row){
        sqlite3_column_int64(row, 0), sqlite3_column_int64(row, 1), sqlite3_column_int64(row, 2),
        sqlite3_column_int64(row, 3), sqlite3_column_int64(row, 4), micro};
    struct ledger_credit_part *part = &parts->list[parts->n++];
    *part = (struct ledger_credit_part){.tenant = (uint32_t)sqlite3_column_int64(row, 2),
                                        .user_bytes = bytes <= LEDGER_NAME_MAX ? bytes : 0,
                                        .begin = sqlite3_column_int64(row, 1),
                                        .micro = micro};
    if (part->user_bytes > 0)
        memcpy(part->user, sqlite3_column_blob(row, 6), part->user_bytes);
    return true;
}

/* The rows that the credit takes from, and all that is uncertain in its window. */
static bool find_rows(struct ledger_db *db, const struct ledger_credit *credit,
                      struct credit_rows *rows, struct ledger_credit_parts *parts,
                      tg_micro *uncertain, struct tg_problem *problem)
{
    sqlite3_stmt *find = NULL;
    tg_micro left = credit->micro;
    int code = sqlite3_prepare_v2(db->sqlite, find_sql, -1, &find, NULL);
    bool memory = true;

    if (code == SQLITE_OK) {
        sqlite3_bind_text(find, 1, credit->tenant, -1, SQLITE_STATIC);
        sqlite3_bind_int64(find, 2, credit->since);
        sqlite3_bind_int64(find, 3, credit->until);
        sqlite3_bind_blob(find, 4, credit->user, (int)strlen(credit->user), SQLITE_STATIC);
        /* Its keys: their names begin with the tenant's and a 0. */
        sqlite3_bind_blob(find, 5, credit->tenant, (int)strlen(credit->tenant) + 1, SQLITE_STATIC);
        code = SQLITE_ROW;
    }
    *uncertain = 0;
    while (code == SQLITE_ROW && memory && (code = sqlite3_step(find)) == SQLITE_ROW) {
        tg_micro there = sqlite3_column_int64(find, 5), micro = num_min(there, left);
        *uncertain = money_add(*uncertain, there);
        if (micro > 0)
            memory = add_part(rows, parts, find, micro);
        left -= micro;
    }
    if (memory && code != SQLITE_DONE)
        ledger_db_fail(db, "its sums cannot be read", problem);
    else if (!memory)
        problem_fail(problem, "there is no memory for a credit");
    sqlite3_finalize(find);
    return memory && code == SQLITE_DONE;
}

/* ---- Writing it ---- */

/* Runs one statement with numbers, and texts after them. */
static bool write_row(struct ledger_db *db, const char *sql, const int64_t *numbers, int n,
                      const struct ledger_text *texts, int n_texts, struct tg_problem *problem)
{
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(db->sqlite, sql, -1, &statement, NULL);

    for (int i = 0; code == SQLITE_OK && i < n; i++)
        sqlite3_bind_int64(statement, i + 1, numbers[i]);
    for (int i = 0; code == SQLITE_OK && i < n_texts; i++)
        sqlite3_bind_blob(statement, n + i + 1, texts[i].bytes, (int)texts[i].size, SQLITE_STATIC);
    if (code == SQLITE_OK)
        code = sqlite3_step(statement);
    if (code != SQLITE_DONE)
        ledger_db_fail(db, "a credit cannot be kept", problem);
    sqlite3_finalize(statement);
    return code == SQLITE_DONE;
}

static bool write_credit(struct ledger_db *db, struct ledger_credit *credit,
                         const struct credit_rows *rows, struct tg_problem *problem)
{
    const int64_t numbers[] = {credit->made_at, credit->since, credit->until, credit->micro};
    const struct ledger_text texts[] = {{credit->tenant, strlen(credit->tenant)},
                                        {credit->user, strlen(credit->user)},
                                        {credit->reason, strlen(credit->reason)},
                                        {credit->actor, strlen(credit->actor)}};

    if (!write_row(db,
                   "INSERT INTO credits (made_at, since, until, micro_usd, tenant, user, reason,"
                   " actor) VALUES (?1, ?2, ?3, ?4, CAST(?5 AS TEXT), ?6, CAST(?7 AS TEXT),"
                   " CAST(?8 AS TEXT))",
                   numbers, 4, texts, 4, problem))
        return false;
    credit->id = sqlite3_last_insert_rowid(db->sqlite);
    for (size_t i = 0; i < rows->n; i++) {
        const struct credit_row *row = &rows->list[i];
        const int64_t part[] = {credit->id, row->tenant, row->user, row->begin, row->micro};
        const int64_t sum[] = {row->span, row->begin, row->tenant,
                               row->user, row->model, row->micro};
        if (!write_row(db, "INSERT INTO credit_parts VALUES (?1, ?2, ?3, ?4, ?5)", part, 5, NULL, 0,
                       problem) ||
            !write_row(db,
                       "UPDATE sums SET uncertain = uncertain - ?6 WHERE span = ?1 AND begin = ?2"
                       " AND tenant = ?3 AND user = ?4 AND model = ?5",
                       sum, 6, NULL, 0, problem))
            return false;
    }
    return true;
}

enum ledger_credit_result ledger_credit_add(struct ledger *ledger, struct ledger_credit *credit,
                                            struct ledger_credit_parts *parts, tg_micro *uncertain,
                                            struct tg_problem *problem)
{
    struct ledger_db *db = &ledger->db;
    struct credit_rows rows = {NULL, 0, 0};
    enum ledger_credit_result result = LEDGER_CREDIT_FAILED;

    if (ledger_db_in_place(db, problem) && ledger_db_run(db, "BEGIN IMMEDIATE", problem) &&
        ledger_db_run(db, schema, problem) &&
        find_rows(db, credit, &rows, parts, uncertain, problem)) {
        if (*uncertain < credit->micro)
            result = LEDGER_CREDIT_TOO_MUCH;
        else if (write_credit(db, credit, &rows, problem) && ledger_db_run(db, "COMMIT", problem))
            result = LEDGER_CREDITED;
    }
    if (result != LEDGER_CREDITED)
        ledger_db_undo(db);
    free(rows.list);
    return result;
}

/* ---- Reading ---- */

static void copy_column(sqlite3_stmt *row, int column, char *to, size_t bytes_max)
{
    size_t bytes = (size_t)sqlite3_column_bytes(row, column);

    bytes = bytes < bytes_max ? bytes : bytes_max;
    if (bytes > 0)
        memcpy(to, sqlite3_column_blob(row, column), bytes);
    to[bytes] = '\0';
}

static bool list_credits(struct ledger_db *db, const char *tenant, tg_ms since,
                         ledger_credit_fn *fn, void *context, struct tg_problem *problem)
{
    sqlite3_stmt *row = NULL;
    int code = sqlite3_table_column_metadata(db->sqlite, NULL, "credits", NULL, NULL, NULL, NULL,
                                             NULL, NULL);

    if (code != SQLITE_OK)
        return true; /* there was never one */
    code = sqlite3_prepare_v2(db->sqlite,
                              "SELECT id, made_at, since, until, micro_usd, CAST(tenant AS BLOB),"
                              " user, CAST(reason AS BLOB), CAST(actor AS BLOB) FROM credits"
                              " WHERE made_at >= ?1 AND (?2 IS NULL OR tenant = ?2)"
                              " ORDER BY id DESC LIMIT ?3",
                              -1, &row, NULL);
    if (code == SQLITE_OK) {
        sqlite3_bind_int64(row, 1, since);
        if (tenant != NULL)
            sqlite3_bind_text(row, 2, tenant, -1, SQLITE_STATIC);
        sqlite3_bind_int64(row, 3, LEDGER_CREDITS_LISTED);
        code = SQLITE_ROW;
    }
    while (code == SQLITE_ROW && (code = sqlite3_step(row)) == SQLITE_ROW) {
        struct ledger_credit credit = {.id = sqlite3_column_int64(row, 0),
                                       .made_at = sqlite3_column_int64(row, 1),
                                       .since = sqlite3_column_int64(row, 2),
                                       .until = sqlite3_column_int64(row, 3),
                                       .micro = sqlite3_column_int64(row, 4)};
        copy_column(row, 5, credit.tenant, LEDGER_NAME_MAX);
        copy_column(row, 6, credit.user, LEDGER_NAME_MAX);
        copy_column(row, 7, credit.reason, LEDGER_REASON_MAX);
        copy_column(row, 8, credit.actor, LEDGER_ACTOR_MAX);
        fn(context, &credit);
    }
    if (code != SQLITE_DONE)
        ledger_db_fail(db, "its credits cannot be read", problem);
    sqlite3_finalize(row);
    return code == SQLITE_DONE;
}

bool ledger_credits_list(struct ledger *ledger, const char *tenant, ledger_credit_fn *fn,
                         void *context, struct tg_problem *problem)
{
    ledger_lock(ledger);
    bool done = list_credits(&ledger->db, tenant, 0, fn, context, problem);
    ledger_unlock(ledger);
    return done;
}

bool ledger_view_credits(struct ledger_view *view, const char *tenant, tg_ms since,
                         ledger_credit_fn *fn, void *context, struct tg_problem *problem)
{
    return list_credits(&view->db, tenant, since, fn, context, problem);
}
