/* ledger_sums.c - sums of a ledger: adding them up, and letting them grow coarser with age.
 *
 *     age          kept as
 *     to detail    every call, and its quarter of an hour
 *     to 70 days   quarters of an hour: day, week and month of every zone begin at one
 *     to 400 days  days of UTC
 *     beyond       one sum, for budgets `per: total`
 *
 * each by tenant, user and model. What is rolled up is added and removed in one transaction, so no
 * sum changes by it. An entry that comes late goes to its quarter, however old, and is rolled up
 * the next time. All sums saturate, as the bank's do.
 */
#include "server/ledger/ledger_db.h"

#include <stdio.h>

#include "lib/budget/money.h"
#include "lib/core/num.h"

#define QUARTERS_MS (70 * DAY_MS)
#define DAYS_MS (400 * DAY_MS)

/* Calls that are forgotten in one transaction: each holds up the flushing of new ones. */
#define FORGET_AT_ONCE "20000"

/* ---- A sum that saturates ---- */

struct total {
    int64_t sum;
};

static void total_step(sqlite3_context *context, int n, sqlite3_value **values)
{
    struct total *total = sqlite3_aggregate_context(context, sizeof *total);
    int64_t value = sqlite3_value_int64(values[0]);

    (void)n;
    if (total == NULL)
        sqlite3_result_error_nomem(context);
    else
        total->sum = money_add(total->sum, value);
}

static void total_final(sqlite3_context *context)
{
    const struct total *total = sqlite3_aggregate_context(context, 0);

    sqlite3_result_int64(context, total != NULL ? total->sum : 0);
}

bool ledger_db_add_functions(sqlite3 *sqlite)
{
    return sqlite3_create_function(sqlite, "bounded", 1, SQLITE_UTF8 | SQLITE_DETERMINISTIC, NULL,
                                   NULL, total_step, total_final) == SQLITE_OK;
}

/* ---- Scanning ---- */

#define NUMBERS "calls, input, cached_input, cache_write, output, micro_usd, %s AS uncertain"

#define DAY "begin - begin %% 86400000"

static const char scan_sql[] =
    "SELECT tenant, (SELECT text FROM names WHERE id = user),"
    " (SELECT text FROM names WHERE id = model), bounded(calls), bounded(input),"
    " bounded(cached_input), bounded(cache_write), bounded(output), bounded(micro_usd),"
    " bounded(uncertain), day * ?5 FROM ("
    " SELECT " DAY " AS day, tenant, user, model, " NUMBERS
    " FROM sums WHERE span = 0 AND begin >= ?1 AND begin < ?3"
    " UNION ALL"
    " SELECT begin, tenant, user, model, " NUMBERS
    " FROM sums WHERE span = 1 AND begin >= ?2 AND begin < ?4"
    " UNION ALL"
    " SELECT 0, tenant, user, model, " NUMBERS " FROM sums WHERE span = 2"
    " AND ?1 < (SELECT max(1, ever_until) FROM ledger)"
    " AND ?4 >= (SELECT ever_until FROM ledger)"
    ") GROUP BY tenant, user, model, day * ?5";

static struct ledger_text text_of(sqlite3_stmt *statement, int column)
{
    const char *bytes = sqlite3_column_blob(statement, column);

    return (struct ledger_text){bytes, (size_t)sqlite3_column_bytes(statement, column)};
}

static struct ledger_sum sum_of_row(sqlite3_stmt *row)
{
    return (struct ledger_sum){
        .tenant = (uint32_t)sqlite3_column_int64(row, 0),
        .user = text_of(row, 1),
        .model = text_of(row, 2),
        .calls = sqlite3_column_int64(row, 3),
        .usage = {.input = sqlite3_column_int64(row, 4),
                  .cached_input = sqlite3_column_int64(row, 5),
                  .cache_write = sqlite3_column_int64(row, 6),
                  .output = sqlite3_column_int64(row, 7)},
        .micro = sqlite3_column_int64(row, 8),
        .uncertain = sqlite3_column_int64(row, 9),
        .day = sqlite3_column_int64(row, 10),
    };
}

/* Ends the statement; not `good`: it could not be made. */
static bool scan_rows(struct ledger_db *db, sqlite3_stmt *statement, bool good, ledger_sum_fn *fn,
                      void *context, struct tg_problem *problem)
{
    int code = SQLITE_DONE;

    while (good && (code = sqlite3_step(statement)) == SQLITE_ROW) {
        struct ledger_sum sum = sum_of_row(statement);
        fn(context, &sum);
    }
    good = good && code == SQLITE_DONE;
    if (!good)
        ledger_db_fail(db, "its sums cannot be read", problem);
    sqlite3_finalize(statement);
    return good;
}

bool ledger_db_scan(struct ledger_db *db, const struct ledger_span *span, ledger_sum_fn *fn,
                    void *context, struct tg_problem *problem)
{
    const tg_ms begin = num_max(span->begin, 0), end = num_max(span->end, 0);
    sqlite3_stmt *statement = NULL;
    /* A view may meet a database that its gateway has not converted yet. */
    const char *uncertain = db->version < 2 ? "0" : "uncertain";
    char sql[sizeof scan_sql + 30];

    snprintf(sql, sizeof sql, scan_sql, uncertain, uncertain, uncertain);
    bool good = sqlite3_prepare_v2(db->sqlite, sql, -1, &statement, NULL) == SQLITE_OK;

    if (good) {
        sqlite3_bind_int64(statement, 1, begin - begin % QUARTER_MS);
        sqlite3_bind_int64(statement, 2, begin - begin % DAY_MS);
        sqlite3_bind_int64(statement, 3, end - end % QUARTER_MS);
        sqlite3_bind_int64(statement, 4, end - end % DAY_MS);
        sqlite3_bind_int64(statement, 5, span->by_day);
    }
    return scan_rows(db, statement, good, fn, context, problem);
}

/* Sums lie by time first: each quarter is sought by itself, and what others have spent in it is
 * passed over. */
static const char tenant_sql[] =
    "WITH RECURSIVE quarters(at) AS (SELECT ?1 UNION ALL"
    " SELECT at + 900000 FROM quarters WHERE at + 900000 < ?2)"
    " SELECT ?3, x'', (SELECT text FROM names WHERE id = model), bounded(calls), bounded(input),"
    " bounded(cached_input), bounded(cache_write), bounded(output), bounded(micro_usd),"
    " bounded(uncertain), at - at % 86400000 AS day"
    " FROM quarters CROSS JOIN sums ON span = 0 AND begin = at AND tenant = ?3"
    " GROUP BY model, day";

bool ledger_db_scan_tenant(struct ledger_db *db, uint32_t tenant, const struct ledger_span *span,
                           ledger_sum_fn *fn, void *context, struct tg_problem *problem)
{
    sqlite3_stmt *statement = NULL;
    bool good = sqlite3_prepare_v2(db->sqlite, tenant_sql, -1, &statement, NULL) == SQLITE_OK;

    if (good) {
        sqlite3_bind_int64(statement, 1, span->begin);
        sqlite3_bind_int64(statement, 2, span->end);
        sqlite3_bind_int64(statement, 3, tenant);
    }
    return scan_rows(db, statement, good, fn, context, problem);
}

bool ledger_sum_of(const struct ledger_entry *entry, const struct ledger_span *span,
                   struct ledger_sum *sum)
{
    const tg_ms begin = num_max(span->begin, 0), end = num_max(span->end, 0);

    if (entry->reserved_at < begin - begin % QUARTER_MS ||
        entry->reserved_at >= end - end % QUARTER_MS)
        return false;
    *sum = (struct ledger_sum){
        .tenant = entry->tenant,
        .user = entry->user,
        .model = entry->model,
        .calls = 1,
        .usage = entry->usage,
        .micro = entry->micro,
        .uncertain = entry->uncertain,
        .day = span->by_day ? entry->reserved_at - entry->reserved_at % DAY_MS : 0,
    };
    return true;
}

/* ---- Growing coarser ---- */

static const char add_up[] =
    "INSERT INTO sums SELECT %d, %s, tenant, user, model, bounded(calls), bounded(input),"
    " bounded(cached_input), bounded(cache_write), bounded(output), bounded(micro_usd),"
    " bounded(uncertain)"
    " FROM sums WHERE span = %d AND begin < %lld GROUP BY 2, tenant, user, model"
    " ON CONFLICT DO UPDATE SET calls = min(9007199254740991, calls + excluded.calls),"
    " input = min(9007199254740991, input + excluded.input),"
    " cached_input = min(9007199254740991, cached_input + excluded.cached_input),"
    " cache_write = min(9007199254740991, cache_write + excluded.cache_write),"
    " output = min(9007199254740991, output + excluded.output),"
    " micro_usd = min(9000000000000000000, micro_usd + excluded.micro_usd),"
    " uncertain = min(9000000000000000000, uncertain + excluded.uncertain);"
    "DELETE FROM sums WHERE span = %d AND begin < %lld;";

static bool roll_span(struct ledger_db *db, int from, int to, const char *begin, tg_ms before,
                      struct tg_problem *problem)
{
    char sql[1200];

    snprintf(sql, sizeof sql, add_up, to, begin, from, (long long)before, from, (long long)before);
    return ledger_db_run(db, sql, problem);
}

static bool roll_sums(struct ledger_db *db, tg_ms now, struct tg_problem *problem)
{
    tg_ms quarters = num_less(now, QUARTERS_MS), days = num_less(now, DAYS_MS);
    char until[120];

    quarters -= quarters % DAY_MS;
    days -= days % DAY_MS;
    snprintf(until, sizeof until,
             "UPDATE ledger SET ever_until = max(ever_until, %lld) WHERE ever_until < %lld",
             (long long)days, (long long)days);
    if (ledger_db_run(db, "BEGIN IMMEDIATE", problem) &&
        roll_span(db, SPAN_QUARTER, SPAN_DAY, "begin - begin % 86400000", quarters, problem) &&
        roll_span(db, SPAN_DAY, SPAN_EVER, "0", days, problem) &&
        ledger_db_run(db, until, problem) && ledger_db_run(db, "COMMIT", problem))
        return true;
    ledger_db_undo(db);
    return false;
}

static bool forget_calls(struct ledger_db *db, tg_ms before, struct tg_problem *problem)
{
    char sql[200];

    snprintf(sql, sizeof sql,
             "DELETE FROM calls WHERE sequence IN (SELECT sequence FROM calls"
             " WHERE reserved_at < %lld LIMIT " FORGET_AT_ONCE ")",
             (long long)before);
    do
        if (!ledger_db_run(db, sql, problem))
            return false;
    while (sqlite3_changes(db->sqlite) > 0);
    return true;
}

bool ledger_db_roll(struct ledger_db *db, tg_ms now, tg_ms detail, struct tg_problem *problem)
{
    return forget_calls(db, num_less(now, detail), problem) && roll_sums(db, now, problem) &&
           ledger_db_run(db, "PRAGMA incremental_vacuum", problem);
}
