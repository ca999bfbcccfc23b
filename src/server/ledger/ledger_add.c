/* ledger_add.c - entries of the journal into the database, as cheaply as SQLite lets us.
 *
 * A call is one row that is appended. What was expensive was the rest: up to four names to be
 * looked up, and a sum to be found and raised. But calls that come together are mostly alike: so
 * names are cached as long as they are used, and what a transaction adds to a sum is added up in
 * memory and written once, before its end. Rows go to SQLite some at a time: half of what one costs
 * by itself is the beginning and the end of its statement. A transaction that is undone takes all
 * of that with it.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "lib/budget/money.h"
#include "lib/core/num.h"
#include "lib/core/problem.h"
#include "server/ledger/ledger_db.h"

enum { NAMES = 256, SUMS = 64, CALLS = 16 }; /* names, sums and rows that are remembered */
enum { COLUMNS = 15 };                       /* columns in the row of a call */

struct ledger_name {
    int64_t id; /* 0: none */
    size_t size;
    char bytes[LEDGER_NAME_MAX];
};

struct pending_sum {
    int64_t begin, tenant, user, model; /* whose it is: the key in table `sums` */
    int64_t calls;
    struct tg_usage usage;
    tg_micro micro, uncertain;
};

struct ledger_adding {
    struct ledger_name names[NAMES]; /* a cache: each at the one place that its hash says */
    struct pending_sum sums[SUMS];
    size_t n_sums;
    int64_t calls[CALLS * COLUMNS]; /* rows that wait for their statement to be full */
    size_t n_calls;
};

#define ROW "(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
#define FOUR_ROWS ROW "," ROW "," ROW "," ROW

/* Sums saturate: an integer sum that overflows becomes a real in SQLite, which min() then undoes.
 * The bounds are TG_NUMBER_MAX and TG_MONEY_MAX. */
static const char *const statements[STATEMENTS] = {
    [FIND_NAME] = "SELECT id FROM names WHERE text = ?1",
    [ADD_NAME] = "INSERT INTO names (text) VALUES (?1)",
    [ADD_CALL] = "INSERT INTO calls VALUES " ROW,
    [ADD_CALLS] = "INSERT INTO calls VALUES " FOUR_ROWS "," FOUR_ROWS "," FOUR_ROWS "," FOUR_ROWS,
    [ADD_SUM] = "INSERT INTO sums VALUES (0,?1,?2,?3,?4,?10,?5,?6,?7,?8,?9,?11)"
                " ON CONFLICT DO UPDATE SET calls = calls + excluded.calls,"
                " input = min(9007199254740991, input + excluded.input),"
                " cached_input = min(9007199254740991, cached_input + excluded.cached_input),"
                " cache_write = min(9007199254740991, cache_write + excluded.cache_write),"
                " output = min(9007199254740991, output + excluded.output),"
                " micro_usd = min(9000000000000000000, micro_usd + excluded.micro_usd),"
                " uncertain = min(9000000000000000000, uncertain + excluded.uncertain)",
    [SET_MOVED] = "UPDATE ledger SET moved = ?1, closed = 0",
    [SET_JOURNAL_MOVED] = "UPDATE journals SET moved = ?1 WHERE number = ?2",
};

/* ---- Statements ---- */

static sqlite3_stmt *statement_of(struct ledger_db *db, enum ledger_statement which)
{
    if (db->statements[which] == NULL)
        (void)sqlite3_prepare_v3(db->sqlite, statements[which], -1, SQLITE_PREPARE_PERSISTENT,
                                 &db->statements[which], NULL);
    return db->statements[which]; /* null: the next call with it fails */
}

/* Runs a statement to its end; what it gave in its first column, if anything, is the result. */
static bool ledger_add_finish(sqlite3_stmt *statement, int64_t *result)
{
    int code = sqlite3_step(statement);

    if (code == SQLITE_ROW && result != NULL)
        *result = sqlite3_column_int64(statement, 0);
    return (sqlite3_reset(statement) == SQLITE_OK) & (code == SQLITE_ROW || code == SQLITE_DONE);
}

/* ---- Names ---- */

static bool ledger_find_name(struct ledger_db *db, struct ledger_text name, int64_t *id)
{
    sqlite3_stmt *find = statement_of(db, FIND_NAME), *add = statement_of(db, ADD_NAME);

    *id = 0;
    sqlite3_bind_blob(find, 1, name.bytes, (int)name.size, SQLITE_STATIC);
    if (!ledger_add_finish(find, id))
        return false;
    if (*id != 0)
        return true;
    sqlite3_bind_blob(add, 1, name.bytes, (int)name.size, SQLITE_STATIC);
    if (!ledger_add_finish(add, NULL))
        return false;
    *id = sqlite3_last_insert_rowid(db->sqlite);
    assert(*id > 0); /* 0 stands for no name */
    return true;
}

/* The number of a name; 0 for an empty one. */
static bool name_id(struct ledger_db *db, struct ledger_text name, int64_t *id)
{
    *id = 0;
    if (name.size == 0)
        return true;
    struct ledger_name *known =
        &db->adding->names[XXH3_64bits(name.bytes, name.size) & (NAMES - 1)];
    if (known->id != 0 && known->size == name.size &&
        memcmp(known->bytes, name.bytes, name.size) == 0) {
        *id = known->id;
        return true;
    }
    if (!ledger_find_name(db, name, id))
        return false;
    if (name.size <= LEDGER_NAME_MAX) {
        memcpy(known->bytes, name.bytes, name.size);
        known->size = name.size;
        known->id = *id;
    }
    return true;
}

/* ---- Rows ---- */

static bool add_row(sqlite3_stmt *statement, const int64_t *values, int n)
{
    for (int i = 0; i < n; i++)
        sqlite3_bind_int64(statement, i + 1, values[i]);
    return ledger_add_finish(statement, NULL);
}

/* All rows that wait, in one statement if they fill it. */
static bool write_calls(struct ledger_db *db)
{
    struct ledger_adding *adding = db->adding;
    size_t n = adding->n_calls;
    bool done = true;

    adding->n_calls = 0;
    if (n == CALLS)
        return add_row(statement_of(db, ADD_CALLS), adding->calls, CALLS * COLUMNS);
    for (size_t i = 0; i < n && done; i++)
        done = add_row(statement_of(db, ADD_CALL), adding->calls + i * COLUMNS, COLUMNS);
    return done;
}

/* ---- Sums ---- */

static bool write_sums(struct ledger_db *db)
{
    struct ledger_adding *adding = db->adding;
    bool done = true;

    for (size_t i = 0; i < adding->n_sums && done; i++) {
        const struct pending_sum *sum = &adding->sums[i];
        int64_t row[] = {sum->begin,
                         sum->tenant,
                         sum->user,
                         sum->model,
                         sum->usage.input,
                         sum->usage.cached_input,
                         sum->usage.cache_write,
                         sum->usage.output,
                         sum->micro,
                         sum->calls,
                         sum->uncertain};
        done = add_row(statement_of(db, ADD_SUM), row, sizeof row / sizeof row[0]);
    }
    adding->n_sums = 0;
    return done;
}

/* The latest first: the next call is most likely like the last. Null: they could not be written. */
static struct pending_sum *sum_of(struct ledger_db *db, const struct pending_sum *of)
{
    struct ledger_adding *adding = db->adding;

    for (size_t i = adding->n_sums; i-- > 0;) {
        struct pending_sum *sum = &adding->sums[i];
        if (sum->begin == of->begin && sum->tenant == of->tenant && sum->user == of->user &&
            sum->model == of->model)
            return sum;
    }
    if (adding->n_sums == SUMS && !write_sums(db))
        return NULL;
    assert(adding->n_sums < SUMS);
    adding->sums[adding->n_sums] = *of;
    return &adding->sums[adding->n_sums++];
}

static bool add_to_sum(struct ledger_db *db, const struct ledger_entry *entry, int64_t user,
                       int64_t model)
{
    const struct pending_sum of = {.begin = entry->reserved_at - entry->reserved_at % QUARTER_MS,
                                   .tenant = entry->tenant,
                                   .user = user,
                                   .model = model};
    struct pending_sum *sum = sum_of(db, &of);

    if (sum == NULL)
        return false;
    sum->calls++;
    sum->usage.input = num_add(sum->usage.input, entry->usage.input);
    sum->usage.cached_input = num_add(sum->usage.cached_input, entry->usage.cached_input);
    sum->usage.cache_write = num_add(sum->usage.cache_write, entry->usage.cache_write);
    sum->usage.output = num_add(sum->usage.output, entry->usage.output);
    sum->micro = money_add(sum->micro, entry->micro);
    sum->uncertain = money_add(sum->uncertain, entry->uncertain);
    assert(sum->calls > 0 && money_in_range(sum->micro) && money_in_range(sum->uncertain));
    return true;
}

/* ---- Entries ---- */

static bool add_call(struct ledger_db *db, const struct journal_record *record, int64_t user,
                     int64_t model)
{
    const struct ledger_entry *entry = &record->entry;
    const struct tg_usage *usage = &entry->usage;
    int64_t provider, key;

    if (!name_id(db, entry->provider, &provider) || !name_id(db, entry->key, &key))
        return false;
    struct ledger_adding *adding = db->adding;
    const int64_t call[COLUMNS] = {(int64_t)record->sequence,
                                   entry->reserved_at,
                                   entry->settled_at,
                                   entry->tenant,
                                   user,
                                   model,
                                   provider,
                                   key,
                                   usage->input,
                                   usage->cached_input,
                                   usage->cache_write,
                                   usage->output,
                                   entry->micro,
                                   entry->flags,
                                   entry->uncertain};
    assert(adding->n_calls < CALLS);
    memcpy(adding->calls + adding->n_calls++ * COLUMNS, call, sizeof call);
    return adding->n_calls < CALLS || write_calls(db);
}

bool ledger_db_add(struct ledger_db *db, const struct journal_record *record, bool with_detail,
                   struct tg_problem *problem)
{
    int64_t user, model;

    if (db->adding == NULL)
        db->adding = calloc(1, sizeof *db->adding);
    if (db->adding == NULL)
        return problem_fail(problem, "%s: there is no memory to write to it", db->path);
    bool done = name_id(db, record->entry.user, &user) &&
                name_id(db, record->entry.model, &model) &&
                (!with_detail || add_call(db, record, user, model)) &&
                add_to_sum(db, &record->entry, user, model);
    return done || ledger_db_fail(db, "a call cannot be added", problem);
}

bool ledger_db_set_moved(struct ledger_db *db, uint64_t moved, struct tg_problem *problem)
{
    const int64_t values[2] = {(int64_t)moved, db->journal};
    bool first = db->journal == 0;

    if (db->adding != NULL && (!write_calls(db) || !write_sums(db)))
        return ledger_db_fail(db, "a call cannot be added", problem);
    return add_row(statement_of(db, first ? SET_MOVED : SET_JOURNAL_MOVED), values,
                   first ? 1 : 2) ||
           ledger_db_fail(db, "it cannot be written", problem);
}

void ledger_db_forget_adding(struct ledger_db *db)
{
    if (db->adding != NULL)
        memset(db->adding, 0, sizeof *db->adding);
}

void ledger_db_free_adding(struct ledger_db *db)
{
    for (size_t i = 0; i < STATEMENTS; i++)
        sqlite3_finalize(db->statements[i]);
    free(db->adding);
    db->adding = NULL;
}
