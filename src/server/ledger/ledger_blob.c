/* ledger_blob.c - bytes by name in the ledger's database. See ledger_blob.h. */
#include "server/ledger/ledger_blob.h"

#include <stdlib.h>
#include <string.h>

#include "lib/core/problem.h"
#include "server/ledger/ledger_internal.h"

static const char schema[] =
    "CREATE TABLE IF NOT EXISTS blobs (name TEXT PRIMARY KEY, bytes BLOB NOT NULL);";

static bool write_blob(struct ledger_db *db, const char *name, const void *bytes, size_t n,
                       struct tg_problem *problem)
{
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(db->sqlite, "INSERT OR REPLACE INTO blobs VALUES (?1, ?2)", -1,
                                  &statement, NULL);

    if (code == SQLITE_OK) {
        sqlite3_bind_text(statement, 1, name, -1, SQLITE_STATIC);
        sqlite3_bind_blob(statement, 2, bytes, (int)n, SQLITE_STATIC);
        code = sqlite3_step(statement);
    }
    if (code != SQLITE_DONE)
        ledger_db_fail(db, "what was learned cannot be kept", problem);
    sqlite3_finalize(statement);
    return code == SQLITE_DONE;
}

bool ledger_blob_put(struct ledger *ledger, const char *name, const void *bytes, size_t n,
                     struct tg_problem *problem)
{
    struct ledger_db *db = &ledger->db;

    if (n > LEDGER_BLOB_MAX)
        return problem_fail(problem, "%s has %zu bytes; at most %zu are kept", name, n,
                            LEDGER_BLOB_MAX);
    pthread_mutex_lock(&ledger->db_lock);
    bool done = ledger_db_in_place(db, problem) && ledger_db_run(db, "BEGIN IMMEDIATE", problem) &&
                ledger_db_run(db, schema, problem) && write_blob(db, name, bytes, n, problem) &&
                ledger_db_run(db, "COMMIT", problem);
    if (!done)
        ledger_db_undo(db);
    pthread_mutex_unlock(&ledger->db_lock);
    return done;
}

void *ledger_blob_get(struct ledger *ledger, const char *name, size_t *n)
{
    sqlite3_stmt *statement = NULL;
    void *copy = NULL;

    pthread_mutex_lock(&ledger->db_lock);
    /* Without the table there is nothing to prepare, and nothing is kept. */
    if (sqlite3_prepare_v2(ledger->db.sqlite, "SELECT bytes FROM blobs WHERE name = ?1", -1,
                           &statement, NULL) == SQLITE_OK) {
        sqlite3_bind_text(statement, 1, name, -1, SQLITE_STATIC);
        if (sqlite3_step(statement) == SQLITE_ROW) {
            *n = (size_t)sqlite3_column_bytes(statement, 0);
            copy = *n > 0 ? malloc(*n) : NULL;
            if (copy != NULL)
                memcpy(copy, sqlite3_column_blob(statement, 0), *n);
        }
    }
    sqlite3_finalize(statement);
    pthread_mutex_unlock(&ledger->db_lock);
    return copy;
}
