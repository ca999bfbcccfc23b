/* ledger_journals.c - the journals of one ledger: whose they are, and what to do with those that
 * nobody has any more.
 *
 * A process that is taken over goes on settling what it still serves, and its successor settles
 * calls of its own. Two processes cannot append to one ring without a lock on the way of a call, so
 * each has a journal of its own. The database has a row for each but the first, with the last entry
 * that it has of that journal:
 *
 *     path.spend       number 0: ledger.moved
 *     path.spend.1     number 1: journals.moved, and so on
 *
 * Who uses a journal holds a lock on its file, which goes with the process, however that ends. One
 * that has a row and no lock is of a process that died: whoever finds it moves what it holds,
 * settles what was in flight as reserved, and removes it. So what was settled is in the ledger
 * once, whichever of the processes dies, and whenever.
 *
 * Entries of all journals have numbers of their own, because single calls are known by them. A
 * journal begins far above everything that is in the database: NUMBERS_APART is more than any
 * process appends between its last flush and its end.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/core/array.h"
#include "lib/core/problem.h"
#include "server/ledger/ledger_internal.h"

#define NUMBERS_APART (UINT64_C(1) << 32)

void ledger_journal_name(const char *path, uint32_t number, char *name, size_t bytes)
{
    if (number == 0)
        snprintf(name, bytes, "%.4096s.spend", path);
    else
        snprintf(name, bytes, "%.4096s.spend.%u", path, (unsigned)number);
}

/* Whether the name still leads to the open file: a process that ends removes its journal, and
 * another may have made one of the same name since. */
static bool is_in_place(int fd, const char *name)
{
    struct stat opened, named;

    return fstat(fd, &opened) == 0 && stat(name, &named) == 0 && opened.st_dev == named.st_dev &&
           opened.st_ino == named.st_ino;
}

int ledger_journal_lock(const char *path, uint32_t number)
{
    char name[LEDGER_JOURNAL_NAME];

    ledger_journal_name(path, number, name, sizeof name);
    for (;;) {
        int fd = open(name, O_RDWR | O_CLOEXEC);
        if (fd < 0)
            return errno == ENOENT ? LEDGER_JOURNAL_ABSENT : LEDGER_JOURNAL_USED;
        if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
            close(fd);
            return LEDGER_JOURNAL_USED;
        }
        if (is_in_place(fd, name))
            return fd;
        close(fd);
    }
}

/* ---- Rows ---- */

bool ledger_db_journals(struct ledger_db *db, struct ledger_journal_rows *rows,
                        struct tg_problem *problem)
{
    sqlite3_stmt *statement = NULL;
    int code;

    rows->n = 0;
    code = sqlite3_prepare_v2(db->sqlite, "SELECT 1 FROM sqlite_schema WHERE name = 'journals'", -1,
                              &statement, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_step(statement);
    sqlite3_finalize(statement);
    if (code == SQLITE_DONE)
        return true;
    if (code == SQLITE_ROW &&
        sqlite3_prepare_v2(db->sqlite, "SELECT number, moved FROM journals ORDER BY number", -1,
                           &statement, NULL) == SQLITE_OK) {
        while ((code = sqlite3_step(statement)) == SQLITE_ROW && rows->n < LEDGER_JOURNALS_MAX)
            rows->list[rows->n++] =
                (struct ledger_journal_row){(uint32_t)sqlite3_column_int64(statement, 0),
                                            (uint64_t)sqlite3_column_int64(statement, 1)};
        sqlite3_finalize(statement);
        if (code == SQLITE_DONE || code == SQLITE_ROW)
            return true;
    }
    return ledger_db_fail(db, "it cannot be read", problem);
}

/* The largest number of an entry that is anywhere in the database. */
static bool highest_number(struct ledger_db *db, const struct ledger_journal_rows *rows,
                           uint64_t *highest, struct tg_problem *problem)
{
    sqlite3_stmt *statement = NULL;
    bool done = sqlite3_prepare_v2(db->sqlite,
                                   "SELECT max(moved, (SELECT ifnull(max(sequence), 0) FROM calls))"
                                   " FROM ledger",
                                   -1, &statement, NULL) == SQLITE_OK &&
                sqlite3_step(statement) == SQLITE_ROW;

    if (done)
        *highest = (uint64_t)sqlite3_column_int64(statement, 0);
    else
        ledger_db_fail(db, "it cannot be read", problem);
    sqlite3_finalize(statement);
    for (size_t i = 0; done && i < rows->n; i++)
        *highest = rows->list[i].moved > *highest ? rows->list[i].moved : *highest;
    return done;
}

static bool write_moved(struct ledger_db *db, uint32_t number, uint64_t moved,
                        struct tg_problem *problem)
{
    char sql[300];

    if (number == 0)
        snprintf(sql, sizeof sql, "UPDATE ledger SET moved = %llu", (unsigned long long)moved);
    else
        snprintf(sql, sizeof sql,
                 "CREATE TABLE IF NOT EXISTS journals"
                 " (number INTEGER PRIMARY KEY, moved INTEGER NOT NULL);"
                 "INSERT OR REPLACE INTO journals VALUES (%u, %llu)",
                 (unsigned)number, (unsigned long long)moved);
    return ledger_db_run(db, sql, problem);
}

static const struct ledger_journal_row *journal_row_of(const struct ledger_journal_rows *rows,
                                                       uint32_t number)
{
    for (size_t i = 0; i < rows->n; i++)
        if (rows->list[i].number == number)
            return &rows->list[i];
    return NULL;
}

/* ---- Choosing one ---- */

static bool use_journal(struct ledger *ledger, uint32_t number, int fd, uint64_t moved)
{
    ledger->db.journal = number;
    ledger->db.moved = moved;
    ledger->journal_fd = fd;
    return true;
}

/* The first free number above 0 gets a new file: what a dead process had left there is in the
 * database by now. */
static bool make_another(struct ledger *ledger, const struct ledger_journal_rows *rows,
                         size_t slots, struct tg_problem *problem)
{
    char name[LEDGER_JOURNAL_NAME];
    uint32_t number = 1;
    int fd;

    while (number <= LEDGER_JOURNALS_MAX) {
        fd = ledger_journal_lock(ledger->path, number);
        if (fd >= 0)
            close(fd);
        if (fd != LEDGER_JOURNAL_USED && journal_row_of(rows, number) == NULL)
            break;
        number++;
    }
    if (number > LEDGER_JOURNALS_MAX)
        return problem_fail(problem, "%s: %d processes still settle calls in it; wait for one",
                            ledger->path, LEDGER_JOURNALS_MAX);
    ledger_journal_name(ledger->path, number, name, sizeof name);
    if (!journal_create(name, ledger->db.token, slots, problem))
        return false;
    fd = ledger_journal_lock(ledger->path, number);
    if (fd < 0)
        return problem_fail(problem, "%s cannot be locked", name);
    use_journal(ledger, number, fd, 0);
    free(ledger->journal_path);
    ledger->journal_path = strdup(name);
    return ledger->journal_path != NULL ||
           problem_fail(problem, "%s: there is no memory to open it", ledger->path);
}

bool ledger_choose_journal(struct ledger *ledger, size_t slots, struct tg_problem *problem)
{
    struct ledger_journal_rows rows;
    uint64_t highest;
    int fd = ledger_journal_lock(ledger->path, 0);

    if (!ledger_db_journals(&ledger->db, &rows, problem) ||
        !highest_number(&ledger->db, &rows, &highest, problem)) {
        if (fd >= 0)
            close(fd);
        return false;
    }
    if (fd == LEDGER_JOURNAL_USED) {
        if (!make_another(ledger, &rows, slots, problem))
            return false;
    } else {
        use_journal(ledger, 0, fd >= 0 ? fd : -1, ledger->db.moved);
    }
    ledger->raised = highest > ledger->db.moved ? highest + NUMBERS_APART : 0;
    if (ledger->db.journal == 0)
        return true;
    /* There is nothing in it yet. From here on it has a row. */
    ledger->db.moved = highest + NUMBERS_APART;
    ledger->raised = 0;
    return write_moved(&ledger->db, ledger->db.journal, ledger->db.moved, problem);
}

bool ledger_raise_numbers(struct ledger *ledger, struct tg_problem *problem)
{
    if (ledger->raised == 0)
        return true;
    return write_moved(&ledger->db, ledger->db.journal, ledger->raised, problem);
}

/* ---- Those of others ---- */

bool ledger_close_journal(struct ledger *ledger, struct tg_problem *problem)
{
    char sql[100];

    if (ledger->db.journal == 0)
        return ledger_db_run(&ledger->db, "UPDATE ledger SET closed = 1", problem);
    snprintf(sql, sizeof sql, "DELETE FROM journals WHERE number = %u",
             (unsigned)ledger->db.journal);
    if (!ledger_db_run(&ledger->db, sql, problem))
        return false;
    unlink(ledger->journal_path);
    return true;
}

/* What the database says of a journal now; false in `is_left`: nothing is left in it. */
static bool read_row(struct ledger *ledger, uint32_t number, struct ledger_journal_row *row,
                     bool *is_left, struct tg_problem *problem)
{
    struct ledger_journal_rows rows;
    const struct ledger_journal_row *found;
    bool closed;

    row->number = number;
    if (number == 0) {
        if (!ledger_db_first(&ledger->db, &row->moved, &closed, problem))
            return false;
        *is_left = !closed;
        return true;
    }
    if (!ledger_db_journals(&ledger->db, &rows, problem))
        return false;
    found = journal_row_of(&rows, number);
    *is_left = found != NULL;
    if (found != NULL)
        *row = *found;
    return true;
}

/* Moves what is in it, and removes it. The lock is held, and is given up. What was read of the
 * database before it was held may be old: another process may have moved the same entries. */
static bool recover_one(struct ledger *ledger, uint32_t number, int fd, struct tg_problem *problem)
{
    struct ledger_journal_row row;
    bool is_left;

    if (!read_row(ledger, number, &row, &is_left, problem) || !is_left) {
        bool done = !is_left;
        close(fd);
        return done;
    }
    struct ledger *other = ledger_open_left(ledger, row, fd, problem);
    if (other == NULL)
        return false;
    ledger->recovered += other->recovered;
    ledger->interrupted += other->interrupted;
    ledger->interrupted_micro += other->interrupted_micro;
    atomic_fetch_add(&ledger->damaged, atomic_load(&other->damaged));
    bool done = ledger_flush(other, problem) && !journal_has_open(&other->journal) &&
                ledger_close_journal(other, problem);
    ledger_free_left(other);
    if (done)
        atomic_fetch_add(&ledger->left_behind, 1);
    return done;
}

/* A row without a file: its process ended between the two steps of removing it, and left nothing.
 * */
static bool forget_row(struct ledger *ledger, uint32_t number, struct tg_problem *problem)
{
    char sql[100];

    snprintf(sql, sizeof sql, "DELETE FROM journals WHERE number = %u", (unsigned)number);
    return ledger_db_run(&ledger->db, sql, problem);
}

bool ledger_recover_left(struct ledger *ledger, struct tg_problem *problem)
{
    struct ledger_journal_rows rows;
    bool done = ledger_db_journals(&ledger->db, &rows, problem);

    for (size_t i = 0; done && i < rows.n; i++) {
        int fd;
        if (rows.list[i].number == ledger->db.journal)
            continue;
        fd = ledger_journal_lock(ledger->path, rows.list[i].number);
        if (fd == LEDGER_JOURNAL_ABSENT)
            done = forget_row(ledger, rows.list[i].number, problem);
        else if (fd >= 0)
            done = recover_one(ledger, rows.list[i].number, fd, problem);
    }
    if (!done || ledger->db.journal == 0)
        return done;
    /* The first journal has no row: it is of a dead process if it was not closed. */
    bool closed;
    uint64_t moved;
    if (!ledger_db_first(&ledger->db, &moved, &closed, problem))
        return false;
    if (closed)
        return true;
    int fd = ledger_journal_lock(ledger->path, 0);
    return fd < 0 || recover_one(ledger, 0, fd, problem);
}

bool ledger_move_left(struct ledger *ledger, struct tg_problem *problem)
{
    if (strcmp(ledger->path, ":memory:") == 0)
        return true;
    pthread_mutex_lock(&ledger->db_lock);
    bool done = ledger->lock_fd < 0 || ledger_recover_left(ledger, problem);
    pthread_mutex_unlock(&ledger->db_lock);
    return done;
}

bool ledger_journal_is_used(const struct ledger *ledger, uint32_t number)
{
    if (number == ledger->db.journal)
        return false;
    int fd = ledger_journal_lock(ledger->path, number);

    if (fd >= 0)
        close(fd);
    return fd == LEDGER_JOURNAL_USED;
}

bool ledger_journal_is_over(struct ledger *ledger, uint32_t number)
{
    struct ledger_journal_row row;
    bool is_left = true;

    if (number == ledger->db.journal)
        return true; /* what was in it was moved when it was opened */
    if (ledger_journal_is_used(ledger, number))
        return false;
    pthread_mutex_lock(&ledger->db_lock);
    bool done = read_row(ledger, number, &row, &is_left, NULL);
    pthread_mutex_unlock(&ledger->db_lock);
    return done && !is_left;
}

/* ---- Reading what others settle ---- */

uint32_t ledger_journal(const struct ledger *ledger)
{
    return ledger->db.journal;
}

void ledger_free_others(struct ledger *ledger)
{
    for (size_t i = 0; i < ledger->n_others; i++) {
        free(ledger->others[i].records);
        free(ledger->others[i].open);
    }
    free(ledger->others);
    ledger->others = NULL;
    ledger->n_others = 0;
}

enum { READ_AGAIN_MAX = 5 };

/* Before the entries: one that is settled meanwhile is read twice, and not never. */
static bool read_open(struct ledger_other *other, struct journal *journal)
{
    for (uint32_t open = 1; open <= journal->n_open; open++) {
        if (!array_reserve(&other->open, &other->max_open, other->n_open + 1))
            return false;
        other->n_open +=
            journal_find_open(journal, open, &other->open[other->n_open]) == JOURNAL_WHOLE;
    }
    return true;
}

/* Up to the first entry that is not whole yet: who settles that tells of it. `again`: the journal
 * has gone on, or ended, since its row was read, and what was moved in between is in neither. */
static bool read_other(struct ledger *ledger, struct ledger_journal_row row, bool *again,
                       struct tg_problem *problem)
{
    char name[LEDGER_JOURNAL_NAME];
    struct ledger_other *other = &ledger->others[ledger->n_others];
    struct journal journal;
    struct stat stat_of;

    ledger_journal_name(ledger->path, row.number, name, sizeof name);
    *other = (struct ledger_other){.number = row.number, .last = row.moved};
    if (stat(name, &stat_of) != 0 || stat_of.st_size == 0) {
        *again = true;
        return true;
    }
    if (!journal_map_view(&journal, name, ledger->db.token, problem))
        return false;
    ledger->n_others++;
    bool done = read_open(other, &journal);
    while (done) {
        done = array_reserve(&other->records, &other->max, other->n + 1);
        if (!done ||
            journal_read(&journal, other->last + 1, &other->records[other->n]) != JOURNAL_WHOLE)
            break;
        other->n++;
        other->last++;
    }
    /* An entry in the place of the next one: its process has gone round since. */
    *again |= journal_newest(&journal) > other->last + journal.n;
    journal_unmap(&journal);
    return done || problem_fail(problem, "%s: there is no memory to read it", name);
}

static bool read_others_once(struct ledger *ledger, bool *again, struct tg_problem *problem)
{
    struct ledger_journal_rows rows;
    uint64_t moved;
    bool closed;

    *again = false;
    ledger_free_others(ledger);
    ledger->others = calloc(LEDGER_JOURNALS_MAX + 1, sizeof *ledger->others);
    if (ledger->others == NULL)
        return problem_fail(problem, "%s: there is no memory to read it", ledger->path);
    bool done = ledger_db_run(&ledger->db, "BEGIN", problem) &&
                ledger_db_journals(&ledger->db, &rows, problem) &&
                ledger_db_first(&ledger->db, &moved, &closed, problem);
    if (done && ledger->db.journal != 0 && !closed)
        done = read_other(ledger, (struct ledger_journal_row){0, moved}, again, problem);
    for (size_t i = 0; done && i < rows.n; i++)
        if (rows.list[i].number != ledger->db.journal)
            done = read_other(ledger, rows.list[i], again, problem);
    if (!done)
        ledger_end_others(ledger);
    return done;
}

/* A row whose file is missing was read before its process ended: then the database has more now. If
 * it is still so, somebody has removed the file, and there is nothing to be read. */
bool ledger_read_others(struct ledger *ledger, struct tg_problem *problem)
{
    bool again = true;

    ledger_free_others(ledger);
    if (strcmp(ledger->path, ":memory:") == 0)
        return true;
    for (int i = 0; i < READ_AGAIN_MAX && again; i++) {
        ledger_end_others(ledger);
        if (!read_others_once(ledger, &again, problem))
            return false;
    }
    return true;
}

/* Names of a record stand in the record itself, and it may have been moved since. */
static void record_names(struct journal_record *record)
{
    struct ledger_entry *entry = &record->entry;
    struct ledger_text *names[] = {&entry->user, &entry->model, &entry->provider, &entry->key};
    const char *at = record->names;

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        names[i]->bytes = at;
        at += names[i]->size;
    }
}

void ledger_scan_others(struct ledger *ledger, tg_ms begin, ledger_sum_fn *fn, void *context)
{
    const struct ledger_span span = {.begin = begin, .end = INT64_MAX};

    for (size_t i = 0; i < ledger->n_others; i++)
        for (size_t k = 0; k < ledger->others[i].n; k++) {
            struct journal_record *record = &ledger->others[i].records[k];
            struct ledger_sum sum;
            record_names(record);
            if (ledger_sum_of(&record->entry, &span, &sum))
                fn(context, &sum);
        }
}

void ledger_end_others(struct ledger *ledger)
{
    if (ledger->others != NULL)
        ledger_db_undo(&ledger->db);
    for (size_t i = 0; i < ledger->n_others; i++) {
        free(ledger->others[i].records);
        ledger->others[i].records = NULL;
        ledger->others[i].n = ledger->others[i].max = 0;
    }
}

size_t ledger_get_others(const struct ledger *ledger, uint32_t *numbers, size_t room)
{
    size_t n = 0;

    for (; n < ledger->n_others && n < room; n++)
        numbers[n] = ledger->others[n].number;
    return n;
}

void ledger_each_open_of(struct ledger *ledger, uint32_t number, ledger_open_fn *fn, void *context)
{
    for (size_t i = 0; i < ledger->n_others; i++)
        for (size_t k = 0; k < ledger->others[i].n_open && ledger->others[i].number == number;
             k++) {
            record_names(&ledger->others[i].open[k]);
            fn(context, &ledger->others[i].open[k].entry);
        }
}

/* A journal that was not there any more when they were read had been moved as a whole. Its number
 * may be another's by now, whose entries have higher numbers. */
bool ledger_has_read(struct ledger *ledger, uint32_t journal, uint64_t entry)
{
    for (size_t i = 0; i < ledger->n_others; i++)
        if (ledger->others[i].number == journal)
            return entry <= ledger->others[i].last;
    return true;
}
