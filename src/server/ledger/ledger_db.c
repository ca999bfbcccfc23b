/* ledger_db.c - the database of a ledger: opening, checking, telling what is wrong, adding entries.
 *
 * SQLite in WAL mode, so that `tollgate spend` reads while a gateway writes. synchronous is FULL:
 * each transaction is on the disk when it ends, so a power loss takes at most what came since the
 * last one. NORMAL would save a sync for each batch, some twenty a second under load, and could
 * lose minutes.
 *
 * Sums are written in the same transaction as the calls they are made of, rather than made of them
 * when they grow old: a start then reads some thousand rows instead of a month of calls, and to
 * forget old calls changes no sum.
 *
 * Whatever cannot be read is an error that names the file. Nothing here ever puts an empty database
 * in the place of one that was there.
 */
#include "server/ledger/ledger_db.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/core/problem.h"

/* In the file's head, where `file` finds it: "Toll". */
#define APPLICATION_ID 0x546f6c6c

/* Above this a check of every page at each start would take too long: SQLite then finds damage
 * when it comes to the page. */
#define CHECKED_BYTES_MAX (INT64_C(256) << 20)

static const char schema[] =
    "CREATE TABLE ledger ("
    " one INTEGER PRIMARY KEY CHECK (one = 1),"
    " token INTEGER NOT NULL,"
    " moved INTEGER NOT NULL,"       /* the last entry of the journal that is in here */
    " closed INTEGER NOT NULL,"      /* 1: the journal holds nothing that is not in here */
    " ever_until INTEGER NOT NULL);" /* before this, sums have no date any more */
    "CREATE TABLE tenants ("
    " id INTEGER PRIMARY KEY, parent INTEGER NOT NULL, name TEXT NOT NULL,"
    " UNIQUE (parent, name));"
    "CREATE TABLE names (id INTEGER PRIMARY KEY, text BLOB NOT NULL UNIQUE);"
    "CREATE TABLE calls ("
    " sequence INTEGER PRIMARY KEY, reserved_at INTEGER NOT NULL, settled_at INTEGER NOT NULL,"
    " tenant INTEGER NOT NULL, user INTEGER NOT NULL, model INTEGER NOT NULL,"
    " provider INTEGER NOT NULL, key INTEGER NOT NULL,"
    " input INTEGER NOT NULL, cached_input INTEGER NOT NULL, cache_write INTEGER NOT NULL,"
    " output INTEGER NOT NULL, micro_usd INTEGER NOT NULL, flags INTEGER NOT NULL,"
    " uncertain INTEGER NOT NULL DEFAULT 0);"
    "CREATE INDEX calls_by_time ON calls (reserved_at);"
    "CREATE TABLE sums ("
    " span INTEGER NOT NULL, begin INTEGER NOT NULL,"
    " tenant INTEGER NOT NULL, user INTEGER NOT NULL, model INTEGER NOT NULL,"
    " calls INTEGER NOT NULL, input INTEGER NOT NULL, cached_input INTEGER NOT NULL,"
    " cache_write INTEGER NOT NULL, output INTEGER NOT NULL, micro_usd INTEGER NOT NULL,"
    " uncertain INTEGER NOT NULL DEFAULT 0," /* micro-dollars that no provider has confirmed */
    " PRIMARY KEY (span, begin, tenant, user, model)) WITHOUT ROWID;";

/* From version 1, in one transaction: adding a column with a default changes no row. */
static const char upgrade[] = "BEGIN IMMEDIATE;"
                              "ALTER TABLE calls ADD COLUMN uncertain INTEGER NOT NULL DEFAULT 0;"
                              "ALTER TABLE sums ADD COLUMN uncertain INTEGER NOT NULL DEFAULT 0;"
                              "PRAGMA user_version = 2; COMMIT";
_Static_assert(LEDGER_VERSION == 2, "databases of older versions are converted");

/* ---- What is wrong ---- */

static const char *advice(int code)
{
    switch (code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return "another program has locked it: end that program";
    case SQLITE_FULL:
        return "make room on its disk";
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
    case SQLITE_AUTH:
        return "check the rights of the file and of its folder";
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return "restore it from a copy, or move it and its journal away to begin anew";
    case SQLITE_NOMEM:
        return "there is no memory";
    default:
        return "check its disk";
    }
}

bool ledger_db_fail(struct ledger_db *db, const char *what, struct tg_problem *problem)
{
    int code = sqlite3_extended_errcode(db->sqlite);
    int system = sqlite3_system_errno(db->sqlite);
    bool by_system = (code & 0xff) == SQLITE_IOERR || (code & 0xff) == SQLITE_CANTOPEN;

    return problem_fail(problem, "%s: %s: %s%s%s; %s", db->path, what, sqlite3_errmsg(db->sqlite),
                        by_system && system != 0 ? ": " : "",
                        by_system && system != 0 ? strerror(system) : "", advice(code));
}

/* ---- Running SQL ---- */

bool ledger_db_run(struct ledger_db *db, const char *sql, struct tg_problem *problem)
{
    if (sqlite3_exec(db->sqlite, sql, NULL, NULL, NULL) == SQLITE_OK)
        return true;
    return ledger_db_fail(db, "it cannot be written", problem);
}

void ledger_db_undo(struct ledger_db *db)
{
    /* After some errors SQLite has done so itself. */
    if (sqlite3_get_autocommit(db->sqlite) == 0)
        (void)sqlite3_exec(db->sqlite, "ROLLBACK", NULL, NULL, NULL);
    ledger_db_forget_adding(db);
}

/* The first column of the first row, as a number or a text. */
static bool ledger_db_ask(struct ledger_db *db, const char *sql, int64_t *number, char *text,
                          size_t bytes, struct tg_problem *problem)
{
    sqlite3_stmt *statement = NULL;
    bool done = sqlite3_prepare_v2(db->sqlite, sql, -1, &statement, NULL) == SQLITE_OK &&
                sqlite3_step(statement) == SQLITE_ROW;

    if (done) {
        const unsigned char *found = sqlite3_column_text(statement, 0);
        snprintf(text, bytes, "%s", found != NULL ? (const char *)found : "");
        *number = sqlite3_column_int64(statement, 0);
    } else {
        ledger_db_fail(db, "it cannot be read", problem);
    }
    sqlite3_finalize(statement);
    return done;
}

static bool ask_number(struct ledger_db *db, const char *sql, int64_t *number,
                       struct tg_problem *problem)
{
    char text[64];

    return ledger_db_ask(db, sql, number, text, sizeof text, problem);
}

/* ---- Opening ---- */

static bool open_sqlite(struct ledger_db *db, const char *path, int flags, int busy_ms,
                        struct tg_problem *problem)
{
    *db = (struct ledger_db){.path = strdup(path)};
    if (db->path == NULL)
        return problem_fail(problem, "%s: there is no memory to open it", path);
    int code = sqlite3_open_v2(path, &db->sqlite, flags | SQLITE_OPEN_NOMUTEX, NULL);
    if (db->sqlite == NULL)
        return problem_fail(problem, "%s: there is no memory to open it", path);
    if (code != SQLITE_OK)
        return ledger_db_fail(db, "it cannot be opened", problem);
    sqlite3_extended_result_codes(db->sqlite, 1);
    sqlite3_busy_timeout(db->sqlite, busy_ms);
    if (!ledger_db_add_functions(db->sqlite))
        return problem_fail(problem, "%s: there is no memory to open it", path);
    return true;
}

bool ledger_db_first(struct ledger_db *db, uint64_t *moved, bool *closed,
                     struct tg_problem *problem)
{
    int64_t last, was_closed;

    if (!ask_number(db, "SELECT moved FROM ledger", &last, problem) ||
        !ask_number(db, "SELECT closed FROM ledger", &was_closed, problem))
        return false;
    *moved = (uint64_t)last;
    *closed = was_closed != 0;
    return true;
}

static bool read_row(struct ledger_db *db, struct tg_problem *problem)
{
    int64_t token;

    if (!ask_number(db, "SELECT token FROM ledger", &token, problem))
        return false;
    db->token = (uint64_t)token;
    return ledger_db_first(db, &db->moved, &db->closed, problem);
}

/* Number and version of what is there; 0 and 0 for a file without anything. */
static bool check_version(struct ledger_db *db, bool *empty, struct tg_problem *problem)
{
    int64_t application, tables;

    if (!ask_number(db, "SELECT count(*) FROM sqlite_schema", &tables, problem) ||
        !ask_number(db, "PRAGMA application_id", &application, problem) ||
        !ask_number(db, "PRAGMA user_version", &db->version, problem))
        return false;
    *empty = tables == 0 && application == 0 && db->version == 0;
    if (*empty)
        return true;
    if (application != APPLICATION_ID)
        return problem_fail(problem,
                            "%s is a database of another program; name another file in ledger.path",
                            db->path);
    if (db->version < 1 || db->version > LEDGER_VERSION)
        return problem_fail(
            problem,
            "%s is a ledger of version %lld, this program knows versions up to %d; use the "
            "newer program",
            db->path, (long long)db->version, LEDGER_VERSION);
    return true;
}

static bool upgrade_schema(struct ledger_db *db, struct tg_problem *problem)
{
    if (!ledger_db_run(db, upgrade, problem)) {
        ledger_db_undo(db);
        return false;
    }
    db->version = LEDGER_VERSION;
    return true;
}

static bool check_pages(struct ledger_db *db, struct tg_problem *problem)
{
    int64_t pages, page_bytes, ignored;
    char found[200];

    if (!ask_number(db, "PRAGMA page_count", &pages, problem) ||
        !ask_number(db, "PRAGMA page_size", &page_bytes, problem))
        return false;
    if (pages > CHECKED_BYTES_MAX / page_bytes)
        return true;
    if (!ledger_db_ask(db, "PRAGMA quick_check(1)", &ignored, found, sizeof found, problem))
        return false;
    if (strcmp(found, "ok") != 0)
        return problem_fail(problem, "%s is damaged: %s; %s", db->path, found,
                            advice(SQLITE_CORRUPT));
    return true;
}

static bool make_schema(struct ledger_db *db, struct tg_problem *problem)
{
    char row[200];
    int64_t token;

    sqlite3_randomness(sizeof token, &token);
    snprintf(row, sizeof row,
             "INSERT INTO ledger VALUES (1, %lld, 0, 1, 0);"
             "PRAGMA application_id = %d; PRAGMA user_version = %d; COMMIT",
             (long long)(token & INT64_MAX), APPLICATION_ID, LEDGER_VERSION);
    if (ledger_db_run(db, "BEGIN IMMEDIATE", problem) && ledger_db_run(db, schema, problem) &&
        ledger_db_run(db, row, problem)) {
        db->version = LEDGER_VERSION;
        return true;
    }
    ledger_db_undo(db);
    return false;
}

static bool set_modes(struct ledger_db *db, bool in_memory, struct tg_problem *problem)
{
    char mode[32];
    int64_t ignored;

    if (!ledger_db_ask(db, "PRAGMA journal_mode = WAL", &ignored, mode, sizeof mode, problem))
        return false;
    if (!in_memory && strcmp(mode, "wal") != 0)
        return problem_fail(problem,
                            "%s: its disk cannot take a database in WAL mode; put it on a "
                            "local disk",
                            db->path);
    return ledger_db_run(db, "PRAGMA synchronous = FULL; PRAGMA journal_size_limit = 4194304",
                         problem);
}

/* ---- The whole ---- */

static bool ledger_db_prepare(struct ledger_db *db, bool fresh, bool may_be_new,
                              struct tg_problem *problem)
{
    if (!fresh)
        return check_pages(db, problem);
    if (!may_be_new)
        return problem_fail(problem,
                            "%s holds nothing, but a journal is beside it; restore the database "
                            "from a copy, or move the journal %s.spend away to begin anew",
                            db->path, db->path);
    /* To be chosen before the first page is written. */
    return ledger_db_run(db, "PRAGMA auto_vacuum = INCREMENTAL", problem);
}

/* By now there is a file, unless somebody takes it away at this moment: then in_place() says so. */
static void note_file(struct ledger_db *db)
{
    struct stat stat_of;

    db->inode = 1;
    if (stat(db->path, &stat_of) == 0) {
        db->device = stat_of.st_dev;
        db->inode = stat_of.st_ino;
    }
}

bool ledger_db_in_place(struct ledger_db *db, struct tg_problem *problem)
{
    struct stat stat_of;

    if (db->inode == 0)
        return true;
    if (stat(db->path, &stat_of) == 0 && stat_of.st_dev == db->device &&
        stat_of.st_ino == db->inode)
        return true;
    return problem_fail(
        problem,
        "%s was removed or replaced while it is in use; move the same file back, or "
        "end this program and restore the file from a copy",
        db->path);
}

/* Nobody but the owner may read who spends what: SQLite would make it by the umask, and gives what
 * lies beside it the rights of the database. One that others may read is what former versions left;
 * rights of the group alone are somebody's decision. Whether it works out is not ours to judge:
 * what cannot be opened is reported then. */
static void make_private(const char *path)
{
    static const char *const suffixes[] = {"", "-wal", "-shm"};
    char name[4200];
    struct stat stat_of;
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);

    if (fd >= 0)
        close(fd);
    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
        snprintf(name, sizeof name, "%.4096s%s", path, suffixes[i]);
        if (stat(name, &stat_of) == 0 && (stat_of.st_mode & S_IRWXO) != 0)
            (void)chmod(name, S_IRUSR | S_IWUSR);
    }
}

bool ledger_db_open(struct ledger_db *db, const char *path, int busy_ms, bool may_be_new,
                    struct tg_problem *problem)
{
    bool in_memory = strcmp(path, ":memory:") == 0;
    bool fresh;

    if (!in_memory)
        make_private(path);
    if (open_sqlite(db, path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, busy_ms, problem) &&
        check_version(db, &fresh, problem) && ledger_db_prepare(db, fresh, may_be_new, problem) &&
        set_modes(db, in_memory, problem) && (!fresh || make_schema(db, problem)) &&
        (db->version == LEDGER_VERSION || upgrade_schema(db, problem)) && read_row(db, problem) &&
        ledger_db_read_tenants(db, problem)) {
        if (!in_memory)
            note_file(db);
        return true;
    }
    ledger_db_close(db);
    return false;
}

bool ledger_db_open_view(struct ledger_db *db, const char *path, struct tg_problem *problem)
{
    struct stat stat_of;
    bool empty;

    *db = (struct ledger_db){0};
    if (stat(path, &stat_of) != 0)
        return problem_fail(problem, "%s: there is no ledger: %s", path, strerror(errno));
    if (open_sqlite(db, path, SQLITE_OPEN_READONLY, 1000, problem) &&
        check_version(db, &empty, problem) &&
        (!empty || problem_fail(problem, "%s is empty: no ledger was made there yet", path)) &&
        read_row(db, problem))
        return true;
    ledger_db_close(db);
    return false;
}

bool ledger_db_freeze(struct ledger_db *db, struct tg_problem *problem)
{
    return ledger_db_run(db, "BEGIN", problem) && read_row(db, problem) &&
           ledger_db_read_tenants(db, problem);
}

void ledger_db_close(struct ledger_db *db)
{
    ledger_db_free_adding(db);
    ledger_db_free_tenants(db);
    sqlite3_close(db->sqlite);
    free(db->path);
    *db = (struct ledger_db){0};
}
