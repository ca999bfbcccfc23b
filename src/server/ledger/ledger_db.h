/* ledger_db.h - the database of a ledger. For this room alone.
 *
 *     ledger    one row: which ledger this is, the last entry that is in it, how it was closed
 *     tenants   numbered, each with its parent, and virtual keys, each under its tenant; never
 *               changed: spend stays where it was made
 *     names     of users, models, providers and keys, numbered
 *     calls     single calls, as long as `detail` says
 *     sums      of every call, by (span, begin, tenant, user, model); written with the call
 *
 * One connection, used by one thread at a time.
 */
#ifndef TG_LEDGER_LEDGER_DB_H
#define TG_LEDGER_LEDGER_DB_H

#include <sqlite3.h>
#include <sys/types.h>

#include "lib/core/hash_table.h"
#include "server/ledger/journal.h"

#define LEDGER_VERSION 2

/* Spans of sums. Offsets of zones from UTC are multiples of a quarter of an hour. */
enum { SPAN_QUARTER, SPAN_DAY, SPAN_EVER };

#define QUARTER_MS INT64_C(900000)
#define DAY_MS INT64_C(86400000)

/* Statements that are used often. */
enum ledger_statement {
    FIND_NAME,
    ADD_NAME,
    ADD_CALL,
    ADD_CALLS,
    ADD_SUM,
    SET_MOVED,
    SET_JOURNAL_MOVED,
    STATEMENTS,
};

/* A tenant, or a virtual key with its tags under its tenant: then `name` is the tenant's. */
struct ledger_db_tenant {
    char *name;             /* the first of up to three texts, each with a 0 behind it */
    const char *key, *tags; /* behind the name; null: a tenant */
    uint32_t parent;        /* 0: none; of a key its tenant */
};

struct ledger_db {
    char *path;
    sqlite3 *sqlite;
    sqlite3_stmt *statements[STATEMENTS];
    struct ledger_db_tenant *tenants; /* number i + 1 at i */
    size_t n_tenants, max_tenants;
    struct hash_table by_name;    /* their numbers, by parent and texts */
    struct ledger_adding *adding; /* null: nothing was added yet */
    int64_t version;              /* its schema's; 1 only in a view */
    uint64_t token;               /* random: what the journal and other machines know it by */
    uint32_t journal;             /* the number of the journal whose entries are added */
    uint64_t moved;               /* the last entry of that which was in it when it was opened */
    bool closed;                  /* nothing was left anywhere else when it was opened */
    dev_t device;                 /* the file's, with its inode; 0: there is no file */
    ino_t inode;
};

/* Opens a database and checks it; makes it if there is nothing, and that may be so. */
bool ledger_db_open(struct ledger_db *db, const char *path, int busy_ms, bool may_be_new,
                    struct tg_problem *problem);

/* Opens it for reading beside another process. */
bool ledger_db_open_view(struct ledger_db *db, const char *path, struct tg_problem *problem);

void ledger_db_close(struct ledger_db *db);

/* Whether its path still names the file that is open: what is written to one that was removed or
 * replaced is lost, and SQLite does not report it. */
bool ledger_db_in_place(struct ledger_db *db, struct tg_problem *problem);

/* Runs SQL that gives no rows. */
bool ledger_db_run(struct ledger_db *db, const char *sql, struct tg_problem *problem);

/* Says what SQLite says, and what to do. Returns false. */
bool ledger_db_fail(struct ledger_db *db, const char *what, struct tg_problem *problem);

/* Ends a transaction that did not work out. */
void ledger_db_undo(struct ledger_db *db);

/* What there is of the first journal now. */
bool ledger_db_first(struct ledger_db *db, uint64_t *moved, bool *closed,
                     struct tg_problem *problem);

/* ---- ledger_journals.c ---- */

#define LEDGER_JOURNALS_MAX 64

/* A journal besides the first one, which is that of the row `ledger`. */
struct ledger_journal_row {
    uint32_t number;
    uint64_t moved; /* the last of its entries that is in the database */
};

struct ledger_journal_rows {
    struct ledger_journal_row list[LEDGER_JOURNALS_MAX];
    size_t n;
};

bool ledger_db_journals(struct ledger_db *db, struct ledger_journal_rows *rows,
                        struct tg_problem *problem);

/* ---- ledger_tenants.c ---- */

bool ledger_db_read_tenants(struct ledger_db *db, struct tg_problem *problem);
void ledger_db_free_tenants(struct ledger_db *db);
bool ledger_db_add_tenants(struct ledger_db *db, struct ledger_tenant_spec *list, size_t n,
                           struct tg_problem *problem);
uint32_t ledger_db_parent(const struct ledger_db *db, uint32_t tenant);  /* 0: none */
const char *ledger_db_name(const struct ledger_db *db, uint32_t tenant); /* "": no such */
const char *ledger_db_key(const struct ledger_db *db, uint32_t tenant);  /* null: a tenant */
const char *ledger_db_tags(const struct ledger_db *db, uint32_t tenant); /* null: a tenant */
bool ledger_db_is_within(const struct ledger_db *db, uint32_t tenant, const char *name);

/* ---- ledger_add.c ---- */

/* Within a transaction: one entry more, whose rows may be written only at its end; and that end,
 * with the number of the last. */
bool ledger_db_add(struct ledger_db *db, const struct journal_record *record, bool with_detail,
                   struct tg_problem *problem);
bool ledger_db_set_moved(struct ledger_db *db, uint64_t moved, struct tg_problem *problem);

/* The transaction was undone: forgets what was to be written at its end. */
void ledger_db_forget_adding(struct ledger_db *db);
void ledger_db_free_adding(struct ledger_db *db);

/* ---- ledger_db.c again ---- */

/* For a view: from here on, what is read is the database of one moment. */
bool ledger_db_freeze(struct ledger_db *db, struct tg_problem *problem);

/* ---- ledger_sums.c ---- */

struct ledger_span {
    tg_ms begin, end; /* calls of [begin, end) */
    bool by_day;      /* each UTC day has sums of its own */
};
bool ledger_db_scan(struct ledger_db *db, const struct ledger_span *span, ledger_sum_fn *fn,
                    void *context, struct tg_problem *problem);
bool ledger_db_scan_tenant(struct ledger_db *db, uint32_t tenant, const struct ledger_span *span,
                           ledger_sum_fn *fn, void *context, struct tg_problem *problem);
bool ledger_db_roll(struct ledger_db *db, tg_ms now, tg_ms detail, struct tg_problem *problem);

/* SQL functions that SQLite lacks: a sum that saturates. */
bool ledger_db_add_functions(sqlite3 *sqlite);

/* An entry as a sum, if it counts. */
bool ledger_sum_of(const struct ledger_entry *entry, const struct ledger_span *span,
                   struct ledger_sum *sum);

#endif
