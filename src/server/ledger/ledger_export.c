/* ledger_export.c - days that are over, as files. See ledger_export.h.
 *
 * What was written of a day is known by its sums: a day whose sums are others now is written anew.
 * Rolling quarters of an hour up into days changes no sum.
 */
#include "server/ledger/ledger_export.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "io/text/csv.h"
#include "lib/core/num.h"
#include "lib/core/problem.h"
#include "server/ledger/ledger_internal.h"

#define AFTER_MS INT64_C(900000) /* the clocks of gateways may differ, and calls end late */

static const char schema[] =
    "CREATE TABLE IF NOT EXISTS exports ("
    " day INTEGER PRIMARY KEY, revision INTEGER NOT NULL, calls INTEGER NOT NULL,"
    " micro_usd INTEGER NOT NULL, uncertain INTEGER NOT NULL);";

/* Days before ?1 whose sums are not those that were written, the oldest first. */
static const char changed_sql[] =
    "SELECT all_days.day, ifnull(exports.revision, 0), all_days.calls, all_days.micro,"
    " all_days.uncertain FROM ("
    " SELECT begin - begin % 86400000 AS day, bounded(calls) AS calls,"
    " bounded(micro_usd) AS micro, bounded(uncertain) AS uncertain FROM sums"
    " WHERE span < 2 AND begin < ?1 GROUP BY 1) AS all_days"
    " LEFT JOIN exports ON exports.day = all_days.day"
    " WHERE exports.day IS NULL OR exports.calls <> all_days.calls"
    " OR exports.micro_usd <> all_days.micro OR exports.uncertain <> all_days.uncertain"
    " ORDER BY all_days.day LIMIT ?2";

struct export_day {
    tg_ms day;
    int64_t revision, calls, micro, uncertain;
};

/* ---- one file ---- */

struct export_page {
    struct ledger *ledger;
    struct text_out text;
    const char *day;
};

static void add_row(void *context, const struct ledger_sum *sum)
{
    struct export_page *page = context;
    struct text_out *text = &page->text;
    const char *tenant = ledger_tenant_name(page->ledger, sum->tenant);
    const char *key = ledger_tenant_key(page->ledger, sum->tenant);
    const char *tags = ledger_db_tags(&page->ledger->db, sum->tenant);
    const int64_t numbers[] = {
        sum->calls,        sum->usage.input, sum->usage.cached_input, sum->usage.cache_write,
        sum->usage.output, sum->micro,       sum->uncertain};

    text_out_format(text, "%016" PRIx64 ",%s,", ledger_id(page->ledger), page->day);
    csv_put(text, slice_of(tenant));
    text_out_text(text, ",");
    csv_put(text, (struct slice){sum->user.bytes, sum->user.size});
    text_out_text(text, ",");
    csv_put(text, (struct slice){sum->model.bytes, sum->model.size});
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        text_out_text(text, ",");
        text_out_number(text, numbers[i]);
    }
    text_out_text(text, ",");
    csv_put(text, slice_of(key != NULL ? key : ""));
    text_out_text(text, ",");
    csv_put(text, slice_of(tags != NULL ? tags : "")); /* one a line, in quotes */
    text_out_text(text, "\r\n");
}

static bool write_whole(int fd, const struct text_out *text)
{
    size_t done = 0;

    while (done < text->size) {
        ssize_t n = write(fd, text->bytes + done, text->size - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        done += (size_t)n;
    }
    return fsync(fd) == 0;
}

static bool export_fail(const char *name, struct tg_problem *problem)
{
    return problem_fail(problem, "ledger.export: %.400s: %s", name, strerror(errno));
}

/* The folder has the new name when this returns, even if the power fails then. */
static bool sync_folder(const char *folder, struct tg_problem *problem)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool done = fd >= 0 && fsync(fd) == 0;

    if (!done)
        export_fail(folder, problem);
    if (fd >= 0)
        close(fd);
    return done;
}

static bool write_file(const char *folder, const char *name, const struct text_out *text,
                       struct tg_problem *problem)
{
    char path[4400], beside[4400];

    snprintf(path, sizeof path, "%.4096s/%s", folder, name);
    snprintf(beside, sizeof beside, "%.4096s/.%s.tmp", folder, name);
    int fd = open(beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return export_fail(beside, problem);
    bool done = write_whole(fd, text);
    done = close(fd) == 0 && done;
    if (done && rename(beside, path) == 0)
        return sync_folder(folder, problem);
    export_fail(done ? path : beside, problem);
    (void)unlink(beside);
    return false;
}

static bool write_day(struct ledger *ledger, const char *folder, const struct export_day *day,
                      struct tg_problem *problem)
{
    const struct ledger_span span = {day->day, day->day + DAY_MS, true};
    char date[32], revision[32] = "", name[120];
    time_t seconds = (time_t)(day->day / 1000);
    struct tm tm;

    gmtime_r(&seconds, &tm);
    strftime(date, sizeof date, "%Y-%m-%d", &tm);
    if (day->revision > 0)
        snprintf(revision, sizeof revision, ".r%" PRId64, day->revision + 1);
    snprintf(name, sizeof name, "spend-%016" PRIx64 "-%s%s.csv", ledger_id(ledger), date, revision);
    struct export_page page = {.ledger = ledger, .day = date};
    text_out_text(&page.text, "ledger,day,tenant,user,model,calls,input,cached_input,cache_write,"
                              "output,micro_usd,uncertain_micro_usd,key,tags\r\n");
    bool done = ledger_db_scan(&ledger->db, &span, add_row, &page, problem);
    if (done && page.text.failed)
        done = problem_fail(problem, "ledger.export: there is no memory for %s", name);
    done = done && write_file(folder, name, &page.text, problem);
    text_out_fini(&page.text);
    return done;
}

/* ---- which ones ---- */

static void find_first(void *context, const struct ledger_entry *entry)
{
    tg_ms *first = context;

    *first = num_min(*first, entry->reserved_at);
}

static bool find_days(struct ledger *ledger, tg_ms end, struct export_day *days, size_t *n,
                      struct tg_problem *problem)
{
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(ledger->db.sqlite, changed_sql, -1, &statement, NULL);

    *n = 0;
    if (code == SQLITE_OK) {
        sqlite3_bind_int64(statement, 1, end);
        sqlite3_bind_int64(statement, 2, LEDGER_EXPORT_AT_ONCE);
        while ((code = sqlite3_step(statement)) == SQLITE_ROW)
            days[(*n)++] = (struct export_day){.day = sqlite3_column_int64(statement, 0),
                                               .revision = sqlite3_column_int64(statement, 1),
                                               .calls = sqlite3_column_int64(statement, 2),
                                               .micro = sqlite3_column_int64(statement, 3),
                                               .uncertain = sqlite3_column_int64(statement, 4)};
    }
    sqlite3_finalize(statement);
    return code == SQLITE_DONE ||
           ledger_db_fail(&ledger->db, "which days are to be exported cannot be read", problem);
}

static bool note_day(struct ledger *ledger, const struct export_day *day,
                     struct tg_problem *problem)
{
    char sql[200];

    snprintf(sql, sizeof sql,
             "INSERT OR REPLACE INTO exports VALUES (%" PRId64 ", %" PRId64 ", %" PRId64
             ", %" PRId64 ", %" PRId64 ")",
             day->day, day->revision + 1, day->calls, day->micro, day->uncertain);
    return ledger_db_run(&ledger->db, sql, problem);
}

bool ledger_export(struct ledger *ledger, const char *folder, tg_ms now, size_t *written,
                   struct tg_problem *problem)
{
    struct export_day days[LEDGER_EXPORT_AT_ONCE];
    tg_ms until = now - AFTER_MS;
    size_t n = 0;

    *written = 0;
    /* In this order: a call that ends in between was open, and its day waits. */
    ledger_each_open(ledger, find_first, &until);
    if (!ledger_flush(ledger, problem))
        return false;
    pthread_mutex_lock(&ledger->db_lock);
    bool done = ledger_db_in_place(&ledger->db, problem) &&
                ledger_db_run(&ledger->db, schema, problem) &&
                find_days(ledger, until - until % DAY_MS, days, &n, problem);
    for (size_t i = 0; done && i < n; i++) {
        done = write_day(ledger, folder, &days[i], problem) && note_day(ledger, &days[i], problem);
        *written += done;
    }
    pthread_mutex_unlock(&ledger->db_lock);
    return done;
}

bool ledger_export_to(struct ledger *ledger, const char *folder)
{
    ledger->export_folder = strdup(folder);
    return ledger->export_folder != NULL;
}
