/* ledger_objects.c - whose objects are whose, in the ledger's database. See ledger_objects.h. */
#include "server/ledger/ledger_objects.h"

#include <string.h>

#include "server/ledger/ledger_internal.h"

static const char schema[] =
    "CREATE TABLE IF NOT EXISTS objects (hash BLOB NOT NULL, provider TEXT NOT NULL, tenant TEXT "
    "NOT NULL, key TEXT NOT NULL, kind INTEGER NOT NULL, used_at INTEGER NOT NULL, PRIMARY KEY "
    "(hash, provider)) WITHOUT ROWID;";

static bool run_change(sqlite3_stmt *statement, const struct ledger_object *object)
{
    sqlite3_bind_blob(statement, 1, object->hash, sizeof object->hash, SQLITE_STATIC);
    sqlite3_bind_text(statement, 2, object->provider, -1, SQLITE_STATIC);
    if (object->tenant != NULL) {
        sqlite3_bind_text(statement, 3, object->tenant, -1, SQLITE_STATIC);
        sqlite3_bind_text(statement, 4, object->key, -1, SQLITE_STATIC);
        sqlite3_bind_int(statement, 5, object->kind);
        sqlite3_bind_int64(statement, 6, object->used_at);
    }
    bool done = sqlite3_step(statement) == SQLITE_DONE;
    sqlite3_reset(statement);
    return done;
}

static bool write_changes(struct ledger_db *db, const struct ledger_object *list, size_t n,
                          struct tg_problem *problem)
{
    sqlite3_stmt *put = NULL, *drop = NULL;
    bool done =
        sqlite3_prepare_v2(db->sqlite,
                           "INSERT OR REPLACE INTO objects (hash, provider, tenant, key, kind, "
                           "used_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                           -1, &put, NULL) == SQLITE_OK &&
        sqlite3_prepare_v2(db->sqlite, "DELETE FROM objects WHERE hash = ?1 AND provider = ?2", -1,
                           &drop, NULL) == SQLITE_OK;

    for (size_t i = 0; done && i < n; i++)
        done = run_change(list[i].tenant != NULL ? put : drop, &list[i]);
    if (!done)
        ledger_db_fail(db, "whose objects are whose cannot be kept", problem);
    sqlite3_finalize(put);
    sqlite3_finalize(drop);
    return done;
}

bool ledger_objects_write(struct ledger *ledger, const struct ledger_object *list, size_t n,
                          struct tg_problem *problem)
{
    struct ledger_db *db = &ledger->db;

    pthread_mutex_lock(&ledger->db_lock);
    bool done = ledger_db_in_place(db, problem) && ledger_db_run(db, "BEGIN IMMEDIATE", problem) &&
                ledger_db_run(db, schema, problem) && write_changes(db, list, n, problem) &&
                ledger_db_run(db, "COMMIT", problem);
    if (!done)
        ledger_db_undo(db);
    pthread_mutex_unlock(&ledger->db_lock);
    return done;
}

static const char *text_at(sqlite3_stmt *statement, int column)
{
    const char *text = (const char *)sqlite3_column_text(statement, column);

    return text != NULL ? text : "";
}

bool ledger_objects_read(struct ledger *ledger,
                         void (*fn)(void *context, const struct ledger_object *object),
                         void *context, struct tg_problem *problem)
{
    sqlite3_stmt *statement = NULL;
    int code = SQLITE_DONE;

    pthread_mutex_lock(&ledger->db_lock);
    /* Without the table there is nothing to prepare, and nothing is kept. */
    if (sqlite3_prepare_v2(ledger->db.sqlite,
                           "SELECT hash, provider, tenant, key, kind, used_at FROM objects ORDER "
                           "BY used_at",
                           -1, &statement, NULL) == SQLITE_OK)
        while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
            struct ledger_object object = {.provider = text_at(statement, 1),
                                           .tenant = text_at(statement, 2),
                                           .key = text_at(statement, 3),
                                           .kind = sqlite3_column_int(statement, 4),
                                           .used_at = sqlite3_column_int64(statement, 5)};
            if (sqlite3_column_bytes(statement, 0) != sizeof object.hash)
                continue;
            memcpy(object.hash, sqlite3_column_blob(statement, 0), sizeof object.hash);
            fn(context, &object);
        }
    if (code != SQLITE_DONE)
        ledger_db_fail(&ledger->db, "whose objects are whose cannot be read", problem);
    sqlite3_finalize(statement);
    pthread_mutex_unlock(&ledger->db_lock);
    return code == SQLITE_DONE;
}

void ledger_set_chore(struct ledger *ledger, void (*chore)(void *context, struct ledger *ledger),
                      void *context)
{
    ledger->chore = chore;
    ledger->chore_context = context;
}
