/* ledger_kit.h - what the tests of the ledger share: a folder of their own, entries, files.
 *
 * Syncs are counted and left out unless a test asks for them: it is not the disk that is tested. A
 * test may also let the n-th write or sync of SQLite fail. The methods of SQLite's own files are
 * wrapped for that, not replaced.
 */
#ifndef LEDGER_KIT_H
#define LEDGER_KIT_H

#include "check.h"

#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/ledger/ledger.h"

#define KIT __attribute__((unused)) static

#define MINUTE INT64_C(60000)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)
#define NOW INT64_C(1790000000000) /* 2026-09-21T14:13:20Z */

/* ---- Faults ---- */

/* SQLite has several tables of methods: files it locks, files it does not. `wrapped` is first, so
 * that a file leads here. */
struct kit_methods {
    sqlite3_io_methods wrapped;
    const sqlite3_io_methods *real;
};

struct kit_faults {
    struct kit_methods methods[4];
    sqlite3_vfs vfs;
    long operations; /* writes, syncs and truncations until now */
    long fail_at;    /* the operation that fails; 0: none */
    long fail_until; /* and those after it, up to here */
    int code;        /* with which code */
    bool kills;      /* or the process dies there */
};

KIT struct kit_faults kit_faults;

KIT int kit_operation(void)
{
    long n = ++kit_faults.operations;

    if (kit_faults.kills && n == kit_faults.fail_at)
        raise(SIGKILL);
    return kit_faults.fail_at != 0 && n >= kit_faults.fail_at && n <= kit_faults.fail_until
               ? kit_faults.code
               : SQLITE_OK;
}

KIT const sqlite3_io_methods *kit_real(sqlite3_file *file)
{
    return ((const struct kit_methods *)file->pMethods)->real;
}

KIT int kit_write(sqlite3_file *file, const void *from, int bytes, sqlite3_int64 at)
{
    int code = kit_operation();
    return code != SQLITE_OK ? code : kit_real(file)->xWrite(file, from, bytes, at);
}

KIT int kit_truncate(sqlite3_file *file, sqlite3_int64 bytes)
{
    int code = kit_operation();
    return code != SQLITE_OK ? code : kit_real(file)->xTruncate(file, bytes);
}

KIT int kit_sync(sqlite3_file *file, int flags)
{
    (void)file, (void)flags;
    return kit_operation();
}

KIT const sqlite3_io_methods *kit_wrap(const sqlite3_io_methods *real)
{
    struct kit_methods *methods = kit_faults.methods;

    while (methods->real != NULL && methods->real != real)
        methods++;
    if (methods->real == NULL) {
        methods->wrapped = *real;
        methods->wrapped.xWrite = kit_write;
        methods->wrapped.xTruncate = kit_truncate;
        methods->wrapped.xSync = kit_sync;
        methods->real = real;
    }
    return &methods->wrapped;
}

KIT int kit_xopen(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *out)
{
    sqlite3_vfs *unix_vfs = vfs->pAppData;
    int code = unix_vfs->xOpen(unix_vfs, name, file, flags, out);

    if (code == SQLITE_OK && file->pMethods != NULL)
        file->pMethods = kit_wrap(file->pMethods);
    return code;
}

/* For the whole program; call it before anything is opened. */
KIT void kit_wrap_sqlite(void)
{
    sqlite3_vfs *unix_vfs;

    assert_int_equal(sqlite3_initialize(), SQLITE_OK);
    unix_vfs = sqlite3_vfs_find(NULL);
    kit_faults.vfs = *unix_vfs;
    kit_faults.vfs.zName = "kit";
    kit_faults.vfs.pNext = NULL;
    kit_faults.vfs.pAppData = unix_vfs;
    kit_faults.vfs.xOpen = kit_xopen;
    assert_int_equal(sqlite3_vfs_register(&kit_faults.vfs, 1), SQLITE_OK);
}

/* ---- A folder for each test ---- */

struct kit {
    char folder[200];
    char path[240], journal[240], wal[240];
};

KIT struct kit kit_new(void)
{
    struct kit kit;
    const char *tmp = getenv("TMPDIR");

    int bytes = snprintf(kit.folder, sizeof kit.folder, "%.180s/ledger-", tmp ? tmp : "/tmp");

    memset(kit.folder + bytes, 'X', 6); /* to be replaced */
    kit.folder[bytes + 6] = '\0';
    assert_non_null(mkdtemp(kit.folder));
    snprintf(kit.path, sizeof kit.path, "%s/l.db", kit.folder);
    snprintf(kit.journal, sizeof kit.journal, "%s/l.db.spend", kit.folder);
    snprintf(kit.wal, sizeof kit.wal, "%s/l.db-wal", kit.folder);
    return kit;
}

KIT void kit_free(const struct kit *kit)
{
    static const char *const names[] = {"l.db", "l.db-wal", "l.db-shm", "l.db.spend",
                                        "l.db.lock", "l.db.spend.new", "keep", "out"};
    char name[240];

    for (size_t i = 0; i < COUNT_OF(names); i++) {
        snprintf(name, sizeof name, "%s/%s", kit->folder, names[i]);
        unlink(name);
    }
    assert_int_equal(rmdir(kit->folder), 0);
}

KIT struct ledger_config kit_config(const struct kit *kit)
{
    struct ledger_config config;

    ledger_config_init(&config);
    config.path = kit->path;
    config.slots = 64;
    config.busy_ms = 0;
    return config;
}

KIT struct ledger *kit_open(const struct kit *kit)
{
    struct ledger_config config = kit_config(kit);
    struct tg_problem problem = {""};
    struct ledger *ledger = NULL;

    if (!ledger_open(&config, &ledger, &problem))
        fail_msg("%s", problem.text);
    return ledger;
}

KIT void kit_close(struct ledger *ledger)
{
    struct tg_problem problem = {""};

    if (!ledger_close(ledger, &problem))
        fail_msg("%s", problem.text);
}

/* Opening must fail, with all these words in the message and the name of the folder. */
KIT void kit_refuses(const struct kit *kit, const char *words, const char *more)
{
    struct ledger_config config = kit_config(kit);
    struct tg_problem problem = {""};
    struct ledger *ledger = NULL;

    assert_false(ledger_open(&config, &ledger, &problem));
    assert_null(ledger);
    if (strstr(problem.text, words) == NULL || strstr(problem.text, more) == NULL ||
        strstr(problem.text, kit->folder) == NULL)
        fail_msg("not the message: %s", problem.text);
}

KIT void kit_flush(struct ledger *ledger)
{
    struct tg_problem problem = {""};

    if (!ledger_flush(ledger, &problem))
        fail_msg("%s", problem.text);
}

KIT void kit_roll(struct ledger *ledger, tg_ms now)
{
    struct tg_problem problem = {""};

    if (!ledger_roll(ledger, now, &problem))
        fail_msg("%s", problem.text);
}

KIT uint32_t kit_tenant(struct ledger *ledger, uint32_t parent, const char *name)
{
    struct tg_problem problem = {""};
    struct ledger_tenant_spec tenant = {name, LEDGER_NO_PARENT, parent, 0, NULL, NULL};

    if (!ledger_add_tenants(ledger, &tenant, 1, &problem))
        fail_msg("%s", problem.text);
    return tenant.number;
}

/* ---- Entries and sums ---- */

KIT struct ledger_text kit_text(const char *text)
{
    return (struct ledger_text){text, strlen(text)};
}

KIT struct ledger_entry kit_entry(uint32_t tenant, const char *user, tg_ms at, tg_micro micro)
{
    return (struct ledger_entry){
        .reserved_at = at,
        .settled_at = at + 500,
        .tenant = tenant,
        .usage = {.input = 10, .cached_input = 20, .cache_write = 30, .output = 40},
        .micro = micro,
        .user = kit_text(user),
        .model = kit_text("demo-small"),
        .provider = kit_text("demo"),
        .key = kit_text("k1"),
    };
}

KIT void kit_spend(struct ledger *ledger, uint32_t tenant, const char *user, tg_ms at,
                   tg_micro micro)
{
    struct ledger_entry entry = kit_entry(tenant, user, at, micro);

    assert_true(ledger_take_room(ledger));
    ledger_append(ledger, &entry);
}

KIT tg_micro kit_spent(struct ledger *ledger, const char *tenant, const char *user, tg_ms begin)
{
    struct tg_problem problem = {""};
    tg_micro micro = -1;

    if (!ledger_spent(ledger, tenant, user, begin, &micro, &problem))
        fail_msg("%s", problem.text);
    return micro;
}

KIT struct ledger_state kit_state(struct ledger *ledger)
{
    struct ledger_state state;

    ledger_get_state(ledger, &state);
    return state;
}

KIT void kit_add(void *context, const struct ledger_sum *sum)
{
    *(tg_micro *)context += sum->micro + sum->uncertain;
}

/* What another process would see. */
KIT tg_micro kit_view(const struct kit *kit, tg_ms begin)
{
    struct tg_problem problem = {""};
    struct ledger_view *view = NULL;
    tg_micro micro = 0;

    if (!ledger_view_open(kit->path, &view, &problem) ||
        !ledger_view_scan(view, begin, kit_add, &micro, &problem))
        fail_msg("%s", problem.text);
    ledger_view_close(view);
    return micro;
}

/* ---- Files ---- */

KIT int64_t kit_size(const char *path)
{
    struct stat stat_of;

    return stat(path, &stat_of) == 0 ? (int64_t)stat_of.st_size : -1;
}

KIT void kit_write_file(const char *path, const void *bytes, size_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, size), size);
    close(fd);
}

/* Turns all bits of one byte. */
KIT void kit_flip(const char *path, off_t at)
{
    int fd = open(path, O_RDWR);
    unsigned char byte;

    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte = (unsigned char)~byte;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

KIT void kit_fill(const char *path, off_t at, size_t bytes, int with)
{
    char block[4096];
    int fd = open(path, O_RDWR);

    assert_true(fd >= 0 && bytes <= sizeof block);
    memset(block, with, bytes);
    assert_int_equal(pwrite(fd, block, bytes, at), bytes);
    close(fd);
}

KIT void kit_copy(const char *from, const char *to)
{
    int64_t size = kit_size(from);
    char *bytes = malloc((size_t)size + 1);
    int fd = open(from, O_RDONLY);

    assert_non_null(bytes);
    assert_true(fd >= 0);
    assert_int_equal(read(fd, bytes, (size_t)size), size);
    close(fd);
    kit_write_file(to, bytes, (size_t)size);
    free(bytes);
}

KIT void kit_sql(const char *path, const char *sql)
{
    sqlite3 *db = NULL;

    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    sqlite3_close(db);
}

KIT int64_t kit_ask(const char *path, const char *sql)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *statement = NULL;
    int64_t answer;

    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &statement, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    answer = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    sqlite3_close(db);
    return answer;
}

/* What calls cost, and what is uncertain of it. */
struct apart {
    tg_micro micro, uncertain;
    int64_t calls;
};

KIT void kit_add_apart(void *context, const struct ledger_sum *sum)
{
    struct apart *apart = context;

    apart->micro += sum->micro;
    apart->uncertain += sum->uncertain;
    apart->calls += sum->calls;
}

/* In the database and in the journal together. */
KIT struct apart kit_apart(struct ledger *ledger)
{
    struct tg_problem problem = {""};
    struct apart apart = {0};

    ledger_lock(ledger);
    assert_true(ledger_scan_moved(ledger, 0, kit_add_apart, &apart, &problem));
    ledger_scan_waiting(ledger, 0, kit_add_apart, &apart);
    ledger_unlock(ledger);
    return apart;
}

#endif /* LEDGER_KIT_H */
