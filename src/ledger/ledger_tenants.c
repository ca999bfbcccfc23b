/* ledger_tenants.c - the tenants that a ledger knows, in its database and in memory.
 *
 * A tenant is its name under its parent, and gets a number for ever: spend stays where it was made.
 * One that moves to another parent is a new one there, and the sums of its name hold both. There
 * are some hundred, set up when a configuration is read, so a list will do.
 */
#include <stdlib.h>
#include <string.h>

#include "ledger/ledger_db.h"
#include "ledger/ledger_problem.h"

static bool keep_tenant(struct ledger_db *db, uint32_t parent, const char *name, size_t bytes,
                        struct ledger_problem *problem)
{
    struct ledger_db_tenant *larger =
        realloc(db->tenants, (db->n_tenants + 1) * sizeof *db->tenants);
    char *copy = strndup(name, bytes);

    if (larger != NULL)
        db->tenants = larger;
    if (larger == NULL || copy == NULL) {
        free(copy);
        return ledger_fail(problem, "%s: there is no memory for its tenants", db->path);
    }
    db->tenants[db->n_tenants++] = (struct ledger_db_tenant){copy, parent};
    return true;
}

bool ledger_db_read_tenants(struct ledger_db *db, struct ledger_problem *problem)
{
    sqlite3_stmt *statement = NULL;
    bool good = sqlite3_prepare_v2(db->sqlite, "SELECT id, parent, name FROM tenants ORDER BY id",
                                   -1, &statement, NULL) == SQLITE_OK;
    int code = SQLITE_DONE;

    while (good && (code = sqlite3_step(statement)) == SQLITE_ROW) {
        int64_t id = sqlite3_column_int64(statement, 0);
        int64_t parent = sqlite3_column_int64(statement, 1);
        const char *name = (const char *)sqlite3_column_text(statement, 2);
        /* Parents come before their children, and nobody is ever removed. */
        if (id != (int64_t)db->n_tenants + 1 || parent < 0 || parent >= id || name == NULL) {
            sqlite3_finalize(statement);
            return ledger_fail(problem,
                               "%s is damaged: its table of tenants has a gap; restore it from a "
                               "copy, or move it and its journal away to begin anew",
                               db->path);
        }
        if (!keep_tenant(db, (uint32_t)parent, name, strlen(name), problem)) {
            sqlite3_finalize(statement);
            return false;
        }
    }
    if (!good || code != SQLITE_DONE)
        ledger_db_fail(db, "it cannot be read", problem);
    sqlite3_finalize(statement);
    return good && code == SQLITE_DONE;
}

static bool insert_tenant(struct ledger_db *db, uint32_t parent, const char *name, size_t bytes,
                          struct ledger_problem *problem)
{
    sqlite3_stmt *statement = NULL;
    bool done = sqlite3_prepare_v2(db->sqlite, "INSERT INTO tenants VALUES (?1, ?2, ?3)", -1,
                                   &statement, NULL) == SQLITE_OK;

    if (done) {
        sqlite3_bind_int64(statement, 1, (int64_t)db->n_tenants + 1);
        sqlite3_bind_int64(statement, 2, parent);
        sqlite3_bind_text(statement, 3, name, (int)bytes, SQLITE_STATIC);
        done = sqlite3_step(statement) == SQLITE_DONE;
    }
    if (!done)
        ledger_db_fail(db, "a tenant cannot be added", problem);
    sqlite3_finalize(statement);
    return done;
}

bool ledger_db_add_tenant(struct ledger_db *db, uint32_t parent, const char *name, size_t bytes,
                          uint32_t *tenant, struct ledger_problem *problem)
{
    if (parent > db->n_tenants || bytes > INT32_MAX || memchr(name, '\0', bytes) != NULL)
        return ledger_fail(problem, "%s: a tenant has no such parent, or no such name", db->path);
    for (size_t i = 0; i < db->n_tenants; i++)
        if (db->tenants[i].parent == parent && strlen(db->tenants[i].name) == bytes &&
            memcmp(db->tenants[i].name, name, bytes) == 0) {
            *tenant = (uint32_t)i + 1;
            return true;
        }
    if (db->n_tenants >= INT32_MAX || !keep_tenant(db, parent, name, bytes, problem))
        return false;
    db->n_tenants--;
    if (!insert_tenant(db, parent, name, bytes, problem)) {
        free(db->tenants[db->n_tenants].name);
        return false;
    }
    *tenant = (uint32_t)++db->n_tenants;
    return true;
}

const char *ledger_db_name(const struct ledger_db *db, uint32_t tenant)
{
    return tenant > 0 && tenant <= db->n_tenants ? db->tenants[tenant - 1].name : "";
}

bool ledger_db_is_within(const struct ledger_db *db, uint32_t tenant, const char *name)
{
    while (tenant > 0 && tenant <= db->n_tenants) {
        if (strcmp(db->tenants[tenant - 1].name, name) == 0)
            return true;
        tenant = db->tenants[tenant - 1].parent;
    }
    return false;
}
