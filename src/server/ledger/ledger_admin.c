/* ledger_admin.c - tenants, keys and top-ups that an administrator made. See ledger_admin.h.
 *
 * Six tables beside those of the spend; fleet_mark belongs to ledger_fleet.c. They are made by the
 * first change, within its own transaction, rather than by a new version of the schema: so nothing
 * has to be converted, and a program that does not know them can still open the database after a
 * step back.
 *
 * A key with settings has them behind its hash, in the same column: "<64 hex digits> {...}". A
 * program that knows of no settings takes such a hash for one that somebody has spoilt, and so
 * the key for one that no secret opens: it refuses the key, rather than serve it without its
 * limits, and still finds it by its name to delete it.
 *
 * Every change is one transaction under the lock of the database. It first asks SQLite how many
 * rows there are, so that a loop gone wild in somebody's script cannot fill the disk.
 */
#include "server/ledger/ledger_admin_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/core/array.h"
#include "lib/core/problem.h"
#include "server/ledger/ledger_internal.h"
#include "server/ledger/ledger_view_internal.h"

/* AUTOINCREMENT: the number of a top-up that was taken back must not come again, for whoever still
 * has it would take away another one. */
static const char schema[] =
    "CREATE TABLE IF NOT EXISTS admin_tenants ("
    " name TEXT PRIMARY KEY, text TEXT NOT NULL, changed_at INTEGER NOT NULL);"
    "CREATE TABLE IF NOT EXISTS admin_keys ("
    " tenant TEXT NOT NULL, name TEXT NOT NULL, sha256 BLOB NOT NULL,"
    " not_after INTEGER NOT NULL, made_at INTEGER NOT NULL, PRIMARY KEY (tenant, name));"
    "CREATE TABLE IF NOT EXISTS admin_topups ("
    " id INTEGER PRIMARY KEY AUTOINCREMENT, tenant TEXT NOT NULL, per INTEGER NOT NULL,"
    " tz TEXT NOT NULL, micro_usd INTEGER NOT NULL, made_at INTEGER NOT NULL,"
    " ends_at INTEGER NOT NULL);"
    "CREATE TABLE IF NOT EXISTS admin_disabled_keys ("
    " provider TEXT NOT NULL, name TEXT NOT NULL, made_at INTEGER NOT NULL,"
    " PRIMARY KEY (provider, name));"
    "CREATE TABLE IF NOT EXISTS admin_overrides ("
    " id INTEGER PRIMARY KEY AUTOINCREMENT, tenant TEXT NOT NULL, key TEXT NOT NULL,"
    " kind INTEGER NOT NULL, micro_usd INTEGER NOT NULL, per INTEGER NOT NULL, tz TEXT NOT NULL,"
    " reason TEXT NOT NULL, made_at INTEGER NOT NULL, ends_at INTEGER NOT NULL);"
    "CREATE TABLE IF NOT EXISTS fleet_mark ("
    " one INTEGER PRIMARY KEY CHECK (one = 1), schema INTEGER NOT NULL, epoch TEXT NOT NULL,"
    " version INTEGER NOT NULL, change TEXT NOT NULL);";

/* ---- Statements ---- */

static void bind(sqlite3_stmt *statement, int place, const struct value *value)
{
    if (value->kind == NUMBER)
        sqlite3_bind_int64(statement, place, value->number);
    else if (value->kind == TEXT)
        sqlite3_bind_text(statement, place, value->bytes, (int)value->n, SQLITE_STATIC);
    else
        sqlite3_bind_blob(statement, place, value->bytes, (int)value->n, SQLITE_STATIC);
}

/* Runs one statement; what it gave in its first column, if anything, is the result. */
static bool ledger_admin_run(struct ledger_db *db, const char *sql, const struct value *values,
                             int n, int64_t *result, struct tg_problem *problem)
{
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(db->sqlite, sql, -1, &statement, NULL);

    for (int i = 0; code == SQLITE_OK && i < n; i++)
        bind(statement, i + 1, &values[i]);
    if (code == SQLITE_OK)
        code = sqlite3_step(statement);
    if (code == SQLITE_ROW && result != NULL)
        *result = sqlite3_column_int64(statement, 0);
    bool done = code == SQLITE_ROW || code == SQLITE_DONE;
    if (!done)
        ledger_db_fail(db, "what an administrator made cannot be kept", problem);
    sqlite3_finalize(statement);
    return done;
}

/* ---- Changes ---- */

static bool within(struct ledger_db *db, const struct bound *bound, struct tg_problem *problem)
{
    int64_t there = 0;

    if (bound == NULL)
        return true;
    if (!ledger_admin_run(db, bound->count, bound->values, bound->n, &there, problem))
        return false;
    return there < bound->max ||
           problem_fail(problem, "%s has %lld %s, and takes no more than %lld", db->path,
                        (long long)there, bound->of, (long long)bound->max);
}

/* All of it, or nothing. */
bool ledger_statements_run(struct ledger *ledger, const struct bound *bound,
                           const struct statement *statements, size_t n, int64_t *id,
                           struct tg_problem *problem)
{
    struct ledger_db *db = &ledger->db;

    pthread_mutex_lock(&ledger->db_lock);
    bool done = ledger_db_in_place(db, problem) && ledger_db_run(db, "BEGIN IMMEDIATE", problem) &&
                ledger_db_run(db, schema, problem) && within(db, bound, problem);
    for (size_t i = 0; done && i < n; i++)
        done = ledger_admin_run(db, statements[i].sql, statements[i].values, statements[i].n, NULL,
                                problem);
    if (done && id != NULL)
        *id = sqlite3_last_insert_rowid(db->sqlite);
    done = done && ledger_db_run(db, "COMMIT", problem);
    if (!done)
        ledger_db_undo(db);
    pthread_mutex_unlock(&ledger->db_lock);
    return done;
}

static bool short_enough(const char *text, struct tg_problem *problem)
{
    return strlen(text) <= LEDGER_ADMIN_TEXT_MAX ||
           problem_fail(problem, "a name has %zu bytes; at most %zu are kept", strlen(text),
                        LEDGER_ADMIN_TEXT_MAX);
}

struct statement ledger_statement_tenant(const struct ledger_admin_tenant *tenant)
{
    return (struct statement){
        .sql = "INSERT OR REPLACE INTO admin_tenants VALUES (?1, ?2, ?3)",
        .values = {of_text(tenant->name),
                   {.kind = TEXT, .bytes = tenant->text, .n = tenant->bytes},
                   of_number(tenant->changed_at)},
        .n = 3,
    };
}

struct statement ledger_statement_key(const struct ledger_admin_key *key)
{
    struct statement put = {
        .sql = "INSERT OR REPLACE INTO admin_keys VALUES (?1, ?2, ?3, ?4, ?5)",
        .values = {of_text(key->tenant),
                   of_text(key->name),
                   {.kind = BLOB, .bytes = (const char *)key->sha256, .n = sizeof key->sha256},
                   of_number(key->not_after),
                   of_number(key->made_at),
                   {.kind = TEXT, .bytes = key->text, .n = key->bytes}},
        .n = 5,
    };

    if (key->text != NULL) {
        put.sql = "INSERT OR REPLACE INTO admin_keys"
                  " VALUES (?1, ?2, lower(hex(?3)) || ' ' || ?6, ?4, ?5)";
        put.n = 6;
    }
    return put;
}

/* With its number, or with a new one: a null is one that SQLite finds itself. */
struct statement ledger_statement_topup(const struct ledger_admin_topup *topup, bool with_id)
{
    return (struct statement){
        .sql = with_id ? "INSERT INTO admin_topups VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)"
                       : "INSERT INTO admin_topups VALUES (?1 + NULL, ?2, ?3, ?4, ?5, ?6, ?7)",
        .values = {of_number(topup->id), of_text(topup->tenant), of_number(topup->per),
                   of_text(topup->tz), of_number(topup->micro), of_number(topup->made_at),
                   of_number(topup->ends_at)},
        .n = 7,
    };
}

struct statement ledger_statement_disabled(const struct ledger_admin_disabled *key)
{
    return (struct statement){
        .sql = "INSERT OR IGNORE INTO admin_disabled_keys VALUES (?1, ?2, ?3)",
        .values = {of_text(key->provider), of_text(key->name), of_number(key->made_at)},
        .n = 3,
    };
}

struct statement ledger_statement_override(const struct ledger_admin_override *override)
{
    return (struct statement){
        .sql = "INSERT OR REPLACE INTO admin_overrides VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9,"
               " ?10)",
        .values = {of_number(override->id), of_text(override->tenant), of_text(override->key),
                   of_number(override->kind), of_number(override->micro), of_number(override->per),
                   of_text(override->tz), of_text(override->reason), of_number(override->made_at),
                   of_number(override->ends_at)},
        .n = 10,
    };
}

struct statement ledger_statement_drop_key(const char *tenant, const char *name)
{
    return (struct statement){.sql = "DELETE FROM admin_keys WHERE tenant = ?1 AND name = ?2",
                              .values = {of_text(tenant), of_text(name)},
                              .n = 2};
}

struct statement ledger_statement_drop_topup(int64_t id)
{
    return (struct statement){
        .sql = "DELETE FROM admin_topups WHERE id = ?1", .values = {of_number(id)}, .n = 1};
}

struct statement ledger_statement_drop_disabled(const char *provider, const char *name)
{
    return (struct statement){
        .sql = "DELETE FROM admin_disabled_keys WHERE provider = ?1 AND name = ?2",
        .values = {of_text(provider), of_text(name)},
        .n = 2};
}

struct statement ledger_statement_drop_override(int64_t id)
{
    return (struct statement){
        .sql = "DELETE FROM admin_overrides WHERE id = ?1", .values = {of_number(id)}, .n = 1};
}

static void drop_tenant(const char *name, struct statement drops[3])
{
    drops[0] = (struct statement){.sql = "DELETE FROM admin_tenants WHERE name = ?1"};
    drops[1] = (struct statement){.sql = "DELETE FROM admin_keys WHERE tenant = ?1"};
    drops[2] = (struct statement){.sql = "DELETE FROM admin_topups WHERE tenant = ?1"};
    for (int i = 0; i < 3; i++) {
        drops[i].values[0] = of_text(name);
        drops[i].n = 1;
    }
}

bool ledger_admin_put_tenant(struct ledger *ledger, const struct ledger_admin_tenant *tenant,
                             struct tg_problem *problem)
{
    struct bound bound = {.count = "SELECT count(*) FROM admin_tenants WHERE name <> ?1",
                          .values = {of_text(tenant->name)},
                          .n = 1,
                          .max = LEDGER_ADMIN_TENANTS_MAX,
                          .of = "tenants of the API"};
    struct statement put = ledger_statement_tenant(tenant);

    if (tenant->bytes > LEDGER_ADMIN_TEXT_MAX || memchr(tenant->text, '\0', tenant->bytes) != NULL)
        return problem_fail(problem,
                            "the text of a tenant has %zu bytes; at most %zu are kept, and none of "
                            "them 0",
                            tenant->bytes, LEDGER_ADMIN_TEXT_MAX);
    return short_enough(tenant->name, problem) &&
           ledger_statements_run(ledger, &bound, &put, 1, NULL, problem);
}

bool ledger_admin_drop_tenant(struct ledger *ledger, const char *name, struct tg_problem *problem)
{
    struct statement drops[3];

    drop_tenant(name, drops);
    return ledger_statements_run(ledger, NULL, drops, 3, NULL, problem);
}

bool ledger_admin_put_key(struct ledger *ledger, const struct ledger_admin_key *key,
                          struct tg_problem *problem)
{
    struct bound bound = {.count =
                              "SELECT count(*) FROM admin_keys WHERE tenant <> ?1 OR name <> ?2",
                          .values = {of_text(key->tenant), of_text(key->name)},
                          .n = 2,
                          .max = LEDGER_ADMIN_KEYS_MAX,
                          .of = "keys of the API"};
    struct statement put = ledger_statement_key(key);

    if (key->text != NULL &&
        (key->bytes > LEDGER_ADMIN_SETTINGS_MAX || memchr(key->text, '\0', key->bytes) != NULL))
        return problem_fail(problem,
                            "the settings of a key have %zu bytes; at most %zu are kept, and none "
                            "of them 0",
                            key->bytes, LEDGER_ADMIN_SETTINGS_MAX);
    return short_enough(key->tenant, problem) && short_enough(key->name, problem) &&
           ledger_statements_run(ledger, &bound, &put, 1, NULL, problem);
}

bool ledger_admin_drop_key(struct ledger *ledger, const char *tenant, const char *name,
                           struct tg_problem *problem)
{
    struct statement drop = ledger_statement_drop_key(tenant, name);

    return ledger_statements_run(ledger, NULL, &drop, 1, NULL, problem);
}

bool ledger_admin_add_topup(struct ledger *ledger, const struct ledger_admin_topup *topup,
                            int64_t *id, struct tg_problem *problem)
{
    struct bound bound = {.count = "SELECT count(*) FROM admin_topups",
                          .max = LEDGER_ADMIN_TOPUPS_MAX,
                          .of = "top-ups that have not ended"};
    struct statement add = ledger_statement_topup(topup, false);

    return short_enough(topup->tenant, problem) && short_enough(topup->tz, problem) &&
           ledger_statements_run(ledger, &bound, &add, 1, id, problem);
}

bool ledger_admin_drop_topup(struct ledger *ledger, int64_t id, struct tg_problem *problem)
{
    struct statement drop = ledger_statement_drop_topup(id);

    return ledger_statements_run(ledger, NULL, &drop, 1, NULL, problem);
}

bool ledger_admin_disable(struct ledger *ledger, const struct ledger_admin_disabled *key,
                          struct tg_problem *problem)
{
    struct bound bound = {
        .count = "SELECT count(*) FROM admin_disabled_keys WHERE provider <> ?1 OR name <> ?2",
        .values = {of_text(key->provider), of_text(key->name)},
        .n = 2,
        .max = LEDGER_ADMIN_DISABLED_MAX,
        .of = "keys out of use"};
    struct statement put = ledger_statement_disabled(key);

    return short_enough(key->provider, problem) && short_enough(key->name, problem) &&
           ledger_statements_run(ledger, &bound, &put, 1, NULL, problem);
}

bool ledger_admin_enable(struct ledger *ledger, const char *provider, const char *name,
                         struct tg_problem *problem)
{
    struct statement drop = ledger_statement_drop_disabled(provider, name);

    return ledger_statements_run(ledger, NULL, &drop, 1, NULL, problem);
}

bool ledger_admin_restore(struct ledger *ledger, const char *tenant,
                          const struct ledger_admin *before, struct tg_problem *problem)
{
    size_t room = 4 + before->n_tenants + before->n_keys + before->n_topups + before->n_overrides;
    size_t n = 3;
    struct statement *all = calloc(room, sizeof *all);

    if (all == NULL)
        return problem_fail(problem, "there is no memory to undo a change");
    drop_tenant(tenant, all);
    all[n++] = (struct statement){.sql = "DELETE FROM admin_overrides WHERE tenant = ?1",
                                  .values = {of_text(tenant)},
                                  .n = 1};
    for (size_t i = 0; i < before->n_tenants; i++)
        if (strcmp(before->tenants[i].name, tenant) == 0)
            all[n++] = ledger_statement_tenant(&before->tenants[i]);
    for (size_t i = 0; i < before->n_keys; i++)
        if (strcmp(before->keys[i].tenant, tenant) == 0)
            all[n++] = ledger_statement_key(&before->keys[i]);
    for (size_t i = 0; i < before->n_topups; i++)
        if (strcmp(before->topups[i].tenant, tenant) == 0)
            all[n++] = ledger_statement_topup(&before->topups[i], true);
    for (size_t i = 0; i < before->n_overrides; i++)
        if (strcmp(before->overrides[i].tenant, tenant) == 0)
            all[n++] = ledger_statement_override(&before->overrides[i]);
    bool done = ledger_statements_run(ledger, NULL, all, n, NULL, problem);
    free(all);
    return done;
}

bool ledger_admin_add_override(struct ledger *ledger, const struct ledger_admin_override *override,
                               int64_t *id, struct tg_problem *problem)
{
    struct bound bound = {.count = "SELECT count(*) FROM admin_overrides",
                          .max = LEDGER_ADMIN_OVERRIDES_MAX,
                          .of = "overrides that have not ended"};
    struct statement add = ledger_statement_override(override);

    add.sql = "INSERT INTO admin_overrides VALUES (?1 + NULL, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
    return short_enough(override->tenant, problem) && short_enough(override->key, problem) &&
           short_enough(override->reason, problem) &&
           ledger_statements_run(ledger, &bound, &add, 1, id, problem);
}

bool ledger_admin_drop_override(struct ledger *ledger, int64_t id, struct tg_problem *problem)
{
    struct statement drop = ledger_statement_drop_override(id);

    return ledger_statements_run(ledger, NULL, &drop, 1, NULL, problem);
}

bool ledger_admin_lapse(struct ledger *ledger, tg_ms now, struct tg_problem *problem)
{
    struct statement drops[2] = {
        {.sql = "DELETE FROM admin_topups WHERE ends_at <= ?1", .values = {of_number(now)}, .n = 1},
        {.sql = "DELETE FROM admin_overrides WHERE ends_at <= ?1",
         .values = {of_number(now)},
         .n = 1}};

    return ledger_statements_run(ledger, NULL, drops, 2, NULL, problem);
}

/* ---- Reading ---- */

struct ledger_admin_block {
    struct ledger_admin_block *next;
    char text[];
};

/* A copy of a column, with a 0 behind it; null: no memory. */
static const char *ledger_admin_keep_text(struct ledger_admin *all, sqlite3_stmt *row, int column)
{
    const char *bytes = (const char *)sqlite3_column_text(row, column);
    size_t n = (size_t)sqlite3_column_bytes(row, column);
    struct ledger_admin_block *block = malloc(sizeof *block + n + 1);

    if (block == NULL)
        return NULL;
    if (n > 0)
        memcpy(block->text, bytes, n);
    block->text[n] = '\0';
    block->next = all->blocks;
    all->blocks = block;
    return block->text;
}

static bool read_tenant(struct ledger_admin *all, sqlite3_stmt *row)
{
    struct ledger_admin_tenant *list;

    if (!array_reserve(&all->tenants, &all->max_tenants, all->n_tenants + 1))
        return false;
    list = &all->tenants[all->n_tenants];
    *list = (struct ledger_admin_tenant){.name = ledger_admin_keep_text(all, row, 0),
                                         .text = ledger_admin_keep_text(all, row, 1),
                                         .bytes = (size_t)sqlite3_column_bytes(row, 1),
                                         .changed_at = sqlite3_column_int64(row, 2)};
    all->n_tenants++;
    return list->name != NULL && list->text != NULL;
}

bool ledger_admin_read_hash(const char *digits, size_t n, uint8_t sha256[32])
{
    uint8_t read[32];
    unsigned byte;

    if (n != LEDGER_ADMIN_HASH_DIGITS)
        return false;
    for (size_t i = 0; i < sizeof read; i++) {
        const char pair[3] = {digits[2 * i], digits[2 * i + 1], '\0'};
        if (strspn(pair, "0123456789abcdef") != 2 || sscanf(pair, "%2x", &byte) != 1)
            return false;
        read[i] = (uint8_t)byte;
    }
    memcpy(sha256, read, sizeof read);
    return true;
}

/* "<64 hexadecimal digits> <settings>". */
static bool read_settings(struct ledger_admin *all, sqlite3_stmt *row, struct ledger_admin_key *key)
{
    const char *text = ledger_admin_keep_text(all, row, 2);
    size_t n = (size_t)sqlite3_column_bytes(row, 2);

    if (text == NULL)
        return false;
    if (n > LEDGER_ADMIN_HASH_DIGITS && text[LEDGER_ADMIN_HASH_DIGITS] == ' ' &&
        ledger_admin_read_hash(text, LEDGER_ADMIN_HASH_DIGITS, key->sha256)) {
        key->text = text + LEDGER_ADMIN_HASH_DIGITS + 1;
        key->bytes = n - LEDGER_ADMIN_HASH_DIGITS - 1;
    }
    return true;
}

static bool ledger_admin_read_key(struct ledger_admin *all, sqlite3_stmt *row)
{
    struct ledger_admin_key *list;

    if (!array_reserve(&all->keys, &all->max_keys, all->n_keys + 1))
        return false;
    list = &all->keys[all->n_keys];
    *list = (struct ledger_admin_key){.tenant = ledger_admin_keep_text(all, row, 0),
                                      .name = ledger_admin_keep_text(all, row, 1),
                                      .not_after = sqlite3_column_int64(row, 3),
                                      .made_at = sqlite3_column_int64(row, 4)};
    /* The hash of a row that somebody else has spoilt is that of no key. */
    all->n_keys++;
    if (sqlite3_column_type(row, 2) == SQLITE_TEXT) {
        if (!read_settings(all, row, list))
            return false;
    } else if (sqlite3_column_bytes(row, 2) == (int)sizeof list->sha256) {
        memcpy(list->sha256, sqlite3_column_blob(row, 2), sizeof list->sha256);
    }
    return list->tenant != NULL && list->name != NULL;
}

static bool read_topup(struct ledger_admin *all, sqlite3_stmt *row)
{
    struct ledger_admin_topup *list;
    int64_t per = sqlite3_column_int64(row, 2);

    if (!array_reserve(&all->topups, &all->max_topups, all->n_topups + 1))
        return false;
    list = &all->topups[all->n_topups];
    *list = (struct ledger_admin_topup){.id = sqlite3_column_int64(row, 0),
                                        .tenant = ledger_admin_keep_text(all, row, 1),
                                        .per = per >= 0 && per < TG_PER_COUNT ? (enum tg_per)per
                                                                              : TG_PER_DAY,
                                        .tz = ledger_admin_keep_text(all, row, 3),
                                        .micro = sqlite3_column_int64(row, 4),
                                        .made_at = sqlite3_column_int64(row, 5),
                                        .ends_at = sqlite3_column_int64(row, 6)};
    all->n_topups++;
    return list->tenant != NULL && list->tz != NULL;
}

static bool read_disabled(struct ledger_admin *all, sqlite3_stmt *row)
{
    struct ledger_admin_disabled *list;

    if (!array_reserve(&all->disabled, &all->max_disabled, all->n_disabled + 1))
        return false;
    list = &all->disabled[all->n_disabled];
    *list = (struct ledger_admin_disabled){.provider = ledger_admin_keep_text(all, row, 0),
                                           .name = ledger_admin_keep_text(all, row, 1),
                                           .made_at = sqlite3_column_int64(row, 2)};
    all->n_disabled++;
    return list->provider != NULL && list->name != NULL;
}

/* A kind that this program does not know blocks: it was made to take something away. */
static bool read_override(struct ledger_admin *all, sqlite3_stmt *row)
{
    int64_t kind = sqlite3_column_int64(row, 3), per = sqlite3_column_int64(row, 5);
    struct ledger_admin_override *list;

    if (!array_reserve(&all->overrides, &all->max_overrides, all->n_overrides + 1))
        return false;
    list = &all->overrides[all->n_overrides];
    *list = (struct ledger_admin_override){
        .id = sqlite3_column_int64(row, 0),
        .tenant = ledger_admin_keep_text(all, row, 1),
        .key = ledger_admin_keep_text(all, row, 2),
        .kind = kind >= 0 && kind < LEDGER_OVERRIDE_COUNT ? (enum ledger_override_kind)kind
                                                          : LEDGER_OVERRIDE_BLOCK,
        .micro = sqlite3_column_int64(row, 4),
        .per = per >= 0 && per < TG_PER_COUNT ? (enum tg_per)per : TG_PER_DAY,
        .tz = ledger_admin_keep_text(all, row, 6),
        .reason = ledger_admin_keep_text(all, row, 7),
        .made_at = sqlite3_column_int64(row, 8),
        .ends_at = sqlite3_column_int64(row, 9)};
    all->n_overrides++;
    return list->tenant != NULL && list->key != NULL && list->tz != NULL && list->reason != NULL;
}

typedef bool read_row_fn(struct ledger_admin *all, sqlite3_stmt *row);

static bool read_rows(struct ledger_db *db, const char *sql, read_row_fn *read_row,
                      struct ledger_admin *all, struct tg_problem *problem)
{
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(db->sqlite, sql, -1, &statement, NULL);

    while (code == SQLITE_OK || code == SQLITE_ROW) {
        code = sqlite3_step(statement);
        if (code == SQLITE_ROW && !read_row(all, statement)) {
            sqlite3_finalize(statement);
            return problem_fail(problem, "%s: there is no memory for what is in it", db->path);
        }
    }
    if (code != SQLITE_DONE)
        ledger_db_fail(db, "what an administrator made cannot be read", problem);
    sqlite3_finalize(statement);
    return code == SQLITE_DONE;
}

static bool ledger_admin_read_all(struct ledger_db *db, struct ledger_admin *all,
                                  struct tg_problem *problem)
{
    int64_t tables = 0, disabled = 0, overrides = 0;

    if (!ledger_admin_run(db, "SELECT count(*) FROM sqlite_schema WHERE name = 'admin_overrides'",
                          NULL, 0, &overrides, problem) ||
        !ledger_admin_run(db,
                          "SELECT count(*) FROM sqlite_schema WHERE name = 'admin_disabled_keys'",
                          NULL, 0, &disabled, problem) ||
        !ledger_admin_run(db,
                          "SELECT count(*) FROM sqlite_schema WHERE name IN"
                          " ('admin_tenants', 'admin_keys', 'admin_topups')",
                          NULL, 0, &tables, problem))
        return false;
    if (tables == 0)
        return true;
    return read_rows(db, "SELECT name, text, changed_at FROM admin_tenants ORDER BY name",
                     read_tenant, all, problem) &&
           read_rows(db,
                     "SELECT tenant, name, sha256, not_after, made_at FROM admin_keys"
                     " ORDER BY tenant, name",
                     ledger_admin_read_key, all, problem) &&
           read_rows(db,
                     "SELECT id, tenant, per, tz, micro_usd, made_at, ends_at FROM admin_topups"
                     " ORDER BY id",
                     read_topup, all, problem) &&
           (disabled == 0 || read_rows(db,
                                       "SELECT provider, name, made_at FROM admin_disabled_keys"
                                       " ORDER BY provider, name",
                                       read_disabled, all, problem)) &&
           (overrides == 0 ||
            read_rows(db,
                      "SELECT id, tenant, key, kind, micro_usd, per, tz, reason, made_at, ends_at"
                      " FROM admin_overrides ORDER BY id",
                      read_override, all, problem));
}

static bool ledger_admin_read_db(struct ledger_db *db, struct ledger_admin *all,
                                 struct tg_problem *problem)
{
    struct ledger_admin found = {0};

    if (!ledger_admin_read_all(db, &found, problem)) {
        ledger_admin_free(&found);
        return false;
    }
    *all = found;
    return true;
}

bool ledger_admin_read(struct ledger *ledger, struct ledger_admin *all, struct tg_problem *problem)
{
    pthread_mutex_lock(&ledger->db_lock);
    bool done = ledger_admin_read_db(&ledger->db, all, problem);
    pthread_mutex_unlock(&ledger->db_lock);
    return done;
}

bool ledger_view_admin(struct ledger_view *view, struct ledger_admin *all,
                       struct tg_problem *problem)
{
    return ledger_admin_read_db(&view->db, all, problem);
}

void ledger_admin_free(struct ledger_admin *all)
{
    struct ledger_admin_block *next;

    for (struct ledger_admin_block *block = all->blocks; block != NULL; block = next) {
        next = block->next;
        free(block);
    }
    free(all->tenants);
    free(all->keys);
    free(all->topups);
    free(all->disabled);
    free(all->overrides);
    *all = (struct ledger_admin){0};
}
