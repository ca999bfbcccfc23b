/* ledger_tenants.c - the tenants that a ledger knows, in its database and in memory.
 *
 * A tenant is its name under its parent, and gets a number for ever: spend stays where it was made.
 * One that moves to another parent is a new one there, and the sums of its name hold both. They
 * are set up when a configuration is read, and there may be ten thousand: a hash finds them, and
 * all that are new are written in one transaction.
 *
 * A virtual key is a row under its tenant, and what it spends is so the tenant's without a word
 * more. Its name is the tenant's, the key's and the key's tags, with a 0 between them: programs
 * that know of no keys read up to the first 0, and take it for the tenant itself, which has moved.
 * A key whose tags change gets a new row, since what was spent before was spent under the old ones.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "lib/core/array.h"
#include "lib/core/problem.h"
#include "server/ledger/ledger_db.h"

/* ---- in memory ---- */

static uint64_t add_text(uint64_t hash, const char *text)
{
    return XXH3_64bits_withSeed(text != NULL ? text : "", text != NULL ? strlen(text) + 1 : 0,
                                hash);
}

static uint64_t hash_tenant(const struct ledger_db_tenant *tenant)
{
    return add_text(add_text(add_text(tenant->parent, tenant->name), tenant->key), tenant->tags);
}

static bool is_same_tenant(const struct ledger_db_tenant *a, const struct ledger_db_tenant *b)
{
    if (a->parent != b->parent || (a->key == NULL) != (b->key == NULL) ||
        strcmp(a->name, b->name) != 0)
        return false;
    return a->key == NULL || (strcmp(a->key, b->key) == 0 && strcmp(a->tags, b->tags) == 0);
}

/* Its number; 0: there is none with these texts under this parent. */
static uint32_t find_tenant(const struct ledger_db *db, const struct ledger_db_tenant *wanted)
{
    struct hash_slot *slot = hash_table_find(&db->by_name, hash_tenant(wanted));

    for (; slot != NULL; slot = hash_table_find_next(&db->by_name, slot)) {
        assert(slot->number >= 1 && slot->number <= db->n_tenants);
        if (is_same_tenant(&db->tenants[slot->number - 1], wanted))
            return (uint32_t)slot->number;
    }
    return 0;
}

/* A damaged table may have one twice: the first stands for it. */
static void index_tenant(struct ledger_db *db, size_t i)
{
    const struct ledger_db_tenant *tenant = &db->tenants[i];

    if (find_tenant(db, tenant) == 0)
        hash_table_insert(&db->by_name, hash_tenant(tenant))->number = i + 1;
}

/* Bytes of the texts as they lie in the table, without a 0 at the end. */
static size_t bytes_of(const struct ledger_db_tenant *tenant)
{
    size_t bytes = strlen(tenant->name);

    return tenant->key != NULL ? bytes + strlen(tenant->key) + strlen(tenant->tags) + 2 : bytes;
}

/* Up to three texts with a 0 between them, and one behind the last. */
static struct ledger_db_tenant read_texts(char *texts, size_t bytes, uint32_t parent)
{
    struct ledger_db_tenant tenant = {.name = texts, .parent = parent};
    size_t name = strlen(texts);

    if (name >= bytes)
        return tenant;
    tenant.key = texts + name + 1;
    size_t key = strlen(tenant.key);
    tenant.tags = name + 1 + key < bytes ? tenant.key + key + 1 : tenant.key + key;
    return tenant;
}

static bool keep_tenant(struct ledger_db *db, uint32_t parent, const void *texts, size_t bytes,
                        struct tg_problem *problem)
{
    char *copy = calloc(1, bytes + 1);

    assert(parent <= db->n_tenants); /* parents come before their children */
    if (copy == NULL || !array_reserve(&db->tenants, &db->max_tenants, db->n_tenants + 1) ||
        hash_table_reserve(&db->by_name, db->n_tenants + 1) != TG_OK) {
        free(copy);
        return problem_fail(problem, "%s: there is no memory for its tenants", db->path);
    }
    if (bytes > 0)
        memcpy(copy, texts, bytes);
    db->tenants[db->n_tenants++] = read_texts(copy, bytes, parent);
    index_tenant(db, db->n_tenants - 1);
    return true;
}

/* Forgets those after the first `n` again. */
static void forget_tenants(struct ledger_db *db, size_t n)
{
    assert(n <= db->n_tenants);
    while (db->n_tenants > n)
        free(db->tenants[--db->n_tenants].name);
    hash_table_clear(&db->by_name);
    for (size_t i = 0; i < n; i++)
        index_tenant(db, i);
}

void ledger_db_free_tenants(struct ledger_db *db)
{
    for (size_t i = 0; i < db->n_tenants; i++)
        free(db->tenants[i].name);
    free(db->tenants);
    hash_table_fini(&db->by_name);
    db->tenants = NULL;
    db->n_tenants = db->max_tenants = 0;
}

/* ---- in the database ---- */

bool ledger_db_read_tenants(struct ledger_db *db, struct tg_problem *problem)
{
    sqlite3_stmt *statement = NULL;
    bool good = sqlite3_prepare_v2(db->sqlite, "SELECT id, parent, name FROM tenants ORDER BY id",
                                   -1, &statement, NULL) == SQLITE_OK;
    int code = SQLITE_DONE;

    while (good && (code = sqlite3_step(statement)) == SQLITE_ROW) {
        int64_t id = sqlite3_column_int64(statement, 0);
        int64_t parent = sqlite3_column_int64(statement, 1);
        const void *name = sqlite3_column_blob(statement, 2); /* null: of no bytes */
        size_t bytes = (size_t)sqlite3_column_bytes(statement, 2);
        if (id <= (int64_t)db->n_tenants)
            continue; /* it is known */
        /* Parents come before their children, and nobody is ever removed. */
        if (id != (int64_t)db->n_tenants + 1 || parent < 0 || parent >= id || bytes == 0) {
            sqlite3_finalize(statement);
            return problem_fail(problem,
                                "%s is damaged: its table of tenants has a gap; restore it from a "
                                "copy, or move it and its journal away to begin anew",
                                db->path);
        }
        if (!keep_tenant(db, (uint32_t)parent, name, bytes, problem)) {
            sqlite3_finalize(statement);
            return false;
        }
    }
    if (!good || code != SQLITE_DONE)
        ledger_db_fail(db, "it cannot be read", problem);
    sqlite3_finalize(statement);
    return good && code == SQLITE_DONE;
}

/* Writes those after the first `n`, in one transaction. */
static bool insert_tenants(struct ledger_db *db, size_t n, struct tg_problem *problem)
{
    sqlite3_stmt *statement = NULL;
    bool done = ledger_db_run(db, "BEGIN IMMEDIATE", problem);

    if (!done)
        return false;
    done = sqlite3_prepare_v2(db->sqlite, "INSERT INTO tenants VALUES (?1, ?2, ?3)", -1, &statement,
                              NULL) == SQLITE_OK;
    for (size_t i = n; done && i < db->n_tenants; i++) {
        sqlite3_bind_int64(statement, 1, (int64_t)i + 1);
        sqlite3_bind_int64(statement, 2, db->tenants[i].parent);
        /* What SQLite does with a text that has a 0 in it is not defined. */
        if (db->tenants[i].key != NULL)
            sqlite3_bind_blob(statement, 3, db->tenants[i].name, (int)bytes_of(&db->tenants[i]),
                              SQLITE_STATIC);
        else
            sqlite3_bind_text(statement, 3, db->tenants[i].name, -1, SQLITE_STATIC);
        done = sqlite3_step(statement) == SQLITE_DONE;
        sqlite3_reset(statement);
    }
    if (!done)
        ledger_db_fail(db, "a tenant cannot be added", problem);
    sqlite3_finalize(statement);
    if (done && ledger_db_run(db, "COMMIT", problem))
        return true;
    ledger_db_undo(db);
    return false;
}

static bool keep_new(struct ledger_db *db, const struct ledger_db_tenant *tenant,
                     struct tg_problem *problem)
{
    size_t bytes = bytes_of(tenant), at = strlen(tenant->name);
    char *texts = calloc(1, bytes + 1);

    if (texts == NULL)
        return problem_fail(problem, "%s: there is no memory for its tenants", db->path);
    memcpy(texts, tenant->name, at);
    if (tenant->key != NULL) {
        memcpy(texts + at + 1, tenant->key, strlen(tenant->key));
        memcpy(texts + at + 2 + strlen(tenant->key), tenant->tags, strlen(tenant->tags));
    }
    bool kept = keep_tenant(db, tenant->parent, texts, bytes, problem);
    free(texts);
    return kept;
}

/* The tenant's number, parents first; it is made up if it is new. */
static bool number_one(struct ledger_db *db, struct ledger_tenant_spec *list, size_t n, size_t i,
                       size_t depth, struct tg_problem *problem)
{
    struct ledger_tenant_spec *spec = &list[i];
    uint32_t parent = spec->under;

    if (spec->number != 0)
        return true;
    if (parent > db->n_tenants)
        return problem_fail(problem, "%s: a tenant has no such parent", db->path);
    if (spec->parent != LEDGER_NO_PARENT) {
        if (spec->parent >= n || depth > n ||
            !number_one(db, list, n, spec->parent, depth + 1, problem))
            return problem_fail(problem, "%s: a tenant has no such parent", db->path);
        parent = list[spec->parent].number;
    }
    const char *tags = spec->tags != NULL ? spec->tags : "";
    const struct ledger_db_tenant wanted = {.name = (char *)spec->name,
                                            .key = spec->key,
                                            .tags = spec->key != NULL ? tags : NULL,
                                            .parent = parent};
    spec->number = find_tenant(db, &wanted);
    if (spec->number != 0)
        return true;
    if (db->n_tenants >= INT32_MAX || !keep_new(db, &wanted, problem))
        return false;
    spec->number = (uint32_t)db->n_tenants;
    return true;
}

bool ledger_db_add_tenants(struct ledger_db *db, struct ledger_tenant_spec *list, size_t n,
                           struct tg_problem *problem)
{
    size_t before = db->n_tenants;
    bool done = true;

    for (size_t i = 0; i < n; i++)
        list[i].number = 0;
    for (size_t i = 0; done && i < n; i++)
        done = number_one(db, list, n, i, 0, problem);
    done = done && (db->n_tenants == before || insert_tenants(db, before, problem));
    if (!done)
        forget_tenants(db, before);
    return done;
}

const char *ledger_db_name(const struct ledger_db *db, uint32_t tenant)
{
    return tenant > 0 && tenant <= db->n_tenants ? db->tenants[tenant - 1].name : "";
}

const char *ledger_db_key(const struct ledger_db *db, uint32_t tenant)
{
    return tenant > 0 && tenant <= db->n_tenants ? db->tenants[tenant - 1].key : NULL;
}

const char *ledger_db_tags(const struct ledger_db *db, uint32_t tenant)
{
    return tenant > 0 && tenant <= db->n_tenants ? db->tenants[tenant - 1].tags : NULL;
}

bool ledger_db_is_within(const struct ledger_db *db, uint32_t tenant, const char *name)
{
    while (tenant > 0 && tenant <= db->n_tenants) {
        if (strcmp(db->tenants[tenant - 1].name, name) == 0)
            return true;
        assert(db->tenants[tenant - 1].parent < tenant); /* so the way up ends */
        tenant = db->tenants[tenant - 1].parent;
    }
    return false;
}

uint32_t ledger_db_parent(const struct ledger_db *db, uint32_t tenant)
{
    return tenant > 0 && tenant <= db->n_tenants ? db->tenants[tenant - 1].parent : 0;
}
