/* ledger_view.c - a ledger read beside the process that writes it.
 *
 * The journal is copied first, then the database is frozen at one moment and asked for the last
 * entry that it has. An entry that was settled before the copy began is in the copy, or had left
 * the journal, and then it is in the database of any later moment. Entries that are in both are
 * recognised by their number. The other order would miss entries that move in between.
 */
#include "server/ledger/ledger.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/core/problem.h"
#include "server/ledger/ledger_view_internal.h"

static bool copy_journal(struct ledger_view *view, const char *path, uint32_t number,
                         uint64_t moved, struct tg_problem *problem)
{
    struct journal journal;
    char name[4200];
    struct stat stat_of;
    bool done;

    if (number == 0)
        snprintf(name, sizeof name, "%.4096s.spend", path);
    else
        snprintf(name, sizeof name, "%.4096s.spend.%u", path, (unsigned)number);
    if (stat(name, &stat_of) != 0) {
        if (errno == ENOENT && (number > 0 || view->db.closed))
            return true; /* all that it held is in the database */
        return problem_fail(problem, "%s, the journal of the ledger, cannot be read: %s", name,
                            strerror(errno));
    }
    if (stat_of.st_size == 0)
        return true;
    if (!journal_map_view(&journal, name, view->db.token, problem))
        return false;
    done = journal_copy(&journal, moved, &view->waiting[view->n_waiting].copy);
    view->waiting[view->n_waiting++].number = number;
    journal_unmap(&journal);
    return done || problem_fail(problem, "%s: there is no memory to read it", name);
}

static bool copy_journals(struct ledger_view *view, const char *path, struct tg_problem *problem)
{
    struct ledger_journal_rows rows;
    bool done = ledger_db_journals(&view->db, &rows, problem) &&
                copy_journal(view, path, 0, view->db.moved, problem);

    for (size_t i = 0; done && i < rows.n; i++)
        done = copy_journal(view, path, rows.list[i].number, rows.list[i].moved, problem);
    return done;
}

/* What the frozen database has of each. One whose row is gone is in it as a whole. */
static bool note_moved(struct ledger_view *view, struct tg_problem *problem)
{
    struct ledger_journal_rows rows;

    if (!ledger_db_journals(&view->db, &rows, problem))
        return false;
    for (size_t i = 0; i < view->n_waiting; i++) {
        view->waiting[i].moved = view->waiting[i].number == 0 ? view->db.moved : UINT64_MAX;
        for (size_t k = 0; k < rows.n; k++)
            if (rows.list[k].number == view->waiting[i].number && view->waiting[i].number > 0)
                view->waiting[i].moved = rows.list[k].moved;
    }
    return true;
}

bool ledger_view_open(const char *path, struct ledger_view **view, struct tg_problem *problem)
{
    struct ledger_view *opened = calloc(1, sizeof *opened);

    if (opened == NULL)
        return problem_fail(problem, "%s: there is no memory to read it", path);
    if (ledger_db_open_view(&opened->db, path, problem) && copy_journals(opened, path, problem) &&
        ledger_db_freeze(&opened->db, problem) && note_moved(opened, problem)) {
        *view = opened;
        return true;
    }
    ledger_view_close(opened);
    return false;
}

void ledger_view_close(struct ledger_view *view)
{
    if (view == NULL)
        return;
    for (size_t i = 0; i < view->n_waiting; i++)
        journal_copy_free(&view->waiting[i].copy);
    ledger_db_close(&view->db);
    free(view);
}

static bool scan(struct ledger_view *view, const struct ledger_span *span, ledger_sum_fn *fn,
                 void *context, struct tg_problem *problem)
{
    if (!ledger_db_scan(&view->db, span, fn, context, problem))
        return false;
    for (size_t k = 0; k < view->n_waiting; k++)
        for (size_t i = 0; i < view->waiting[k].copy.n; i++) {
            const struct journal_record *record = &view->waiting[k].copy.records[i];
            struct ledger_sum sum;
            if (record->sequence > view->waiting[k].moved &&
                ledger_sum_of(&record->entry, span, &sum))
                fn(context, &sum);
        }
    return true;
}

bool ledger_view_scan(struct ledger_view *view, tg_ms begin, ledger_sum_fn *fn, void *context,
                      struct tg_problem *problem)
{
    const struct ledger_span span = {.begin = begin, .end = INT64_MAX};

    return scan(view, &span, fn, context, problem);
}

bool ledger_view_scan_days(struct ledger_view *view, tg_ms begin, tg_ms end, ledger_sum_fn *fn,
                           void *context, struct tg_problem *problem)
{
    const struct ledger_span span = {.begin = begin, .end = end, .by_day = true};

    return scan(view, &span, fn, context, problem);
}

uint64_t ledger_view_id(const struct ledger_view *view)
{
    return view->db.token;
}

size_t ledger_view_tenants(const struct ledger_view *view)
{
    return view->db.n_tenants;
}

const char *ledger_view_name(const struct ledger_view *view, uint32_t tenant)
{
    return ledger_db_name(&view->db, tenant);
}

const char *ledger_view_key(const struct ledger_view *view, uint32_t tenant)
{
    return ledger_db_key(&view->db, tenant);
}

const char *ledger_view_tags(const struct ledger_view *view, uint32_t tenant)
{
    return ledger_db_tags(&view->db, tenant);
}

bool ledger_view_is_within(const struct ledger_view *view, uint32_t tenant, const char *name)
{
    return ledger_db_is_within(&view->db, tenant, name);
}

uint64_t ledger_view_damaged(const struct ledger_view *view)
{
    uint64_t n = 0;

    for (size_t k = 0; k < view->n_waiting; k++)
        for (size_t i = 0; i < view->waiting[k].copy.n_damaged; i++)
            n += view->waiting[k].copy.damaged[i] > view->waiting[k].moved;
    return n;
}
