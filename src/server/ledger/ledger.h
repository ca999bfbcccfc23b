/* ledger.h - spend on disk: what every call has cost, kept over a restart and over a crash.
 *
 * The room, from the call to the disk:
 *
 *     spending.c        budgets of a configured tree: reserve, settle, restore      read this next
 *       forest.c          a copy of the tree, with its accounts in the bank
 *       restore.c         what the ledger says about many budgets at once
 *     ledger.c          append, flush, roll, sums                                   this header
 *       journal.c         settled calls that are not in the database yet: a ring in a mapped file
 *         journal_open.c    and those in flight, with what is reserved for them
 *       ledger_db.c       the database: ledger_add.c writes calls, ledger_sums.c sums, and
 *                         ledger_tenants.c the tenants
 *       ledger_open.c     opening, closing, what a crash has left, the thread that flushes
 *     ledger_view.c     reading beside the process that writes
 *     ledger_admin.c    what an administrator made at run time, in the same database
 *     ledger_objects.c  whose objects at providers are whose
 *     ledger_credit.c   uncertain money that an operator has given back
 *
 *     struct ledger_config config;
 *     ledger_config_init(&config);
 *     config.path = "tollgate.db";
 *     if (!ledger_open(&config, &ledger, &problem))
 *         ... problem.text
 *     ledger_add_tenants(ledger, tenants, n, &problem);
 *
 *     if (!ledger_take_room(ledger))          before a call is sent
 *         ...                                 no room: see ledger_get_state()
 *     open = ledger_open_call(ledger, &entry);    with what is reserved, just before that
 *     ledger_settle_call(ledger, open, &entry);   when it is settled, before the reply goes out
 *
 *     ledger_flush(ledger, &problem);         now and then, by a thread that may wait for a disk
 *     ledger_roll(ledger, now, &problem);
 *
 * Promise: once ledger_append() has returned, the entry is in every later sum, whenever the process
 * is killed (tests/unit/server/ledger/test_ledger_crash.c). An entry whose append had begun but not
 * returned may be in it too: one for each thread that was inside. docs/ledger.md has the rest.
 *
 * Promise: a call that was open when the process was killed is in every later sum with what was
 * reserved for it, all of it uncertain, once, however many processes are killed while they recover;
 * and one that was settled or dropped is not (the same test). Each open call counts either so or as
 * it is settled, never as both and never as neither.
 *
 * Threads: what is on the path of a call, and ledger_get_state(), from any thread, without a system
 * call or a lock that is held over I/O. The others from any thread too, but they wait for the disk
 * and for each other.
 */
#ifndef TG_LEDGER_LEDGER_H
#define TG_LEDGER_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tollgate.h"

struct ledger_config {
    const char *path; /* the database; ":memory:" keeps nothing over a restart */
    tg_ms detail;     /* how long single calls are kept; 0: only sums are; default 30 days */
    size_t slots;     /* entries that fit into the journal, 2 to 2^20, each 1 KiB of disk; default
                         16384. A journal that exists keeps the number it was made with. */
    int busy_ms;      /* how long to wait for another program's lock; default 1000 */
    int lock_fd;      /* the lock of the process that is being taken over, borrowed; -1, the
                         default: it is taken */
};

void ledger_config_init(struct ledger_config *config);

/* ---- Entries --------------------------------------------------------------------------------- */

/* Bytes, not ended by 0; they need not be UTF-8. */
struct ledger_text {
    const char *bytes;
    size_t size;
};

#define LEDGER_NAME_MAX 200 /* bytes of a user, model, provider or key; more are cut */

enum {
    LEDGER_ESTIMATED = 1,    /* no usage was reported: the reservation stands */
    LEDGER_ABSURD = 2,       /* an absurd usage was reported */
    LEDGER_CANCELLED = 4,    /* the caller went away */
    LEDGER_CUT = 8,          /* a name was longer than LEDGER_NAME_MAX; set by ledger_append() */
    LEDGER_UNCERTAIN = 16,   /* some of it is uncertain; set by ledger_append() */
    LEDGER_INTERRUPTED = 32, /* the process died while it was in flight; set by ledger_open() */
};

/* One settled call. Counts and money below 0 are kept as 0, above their bounds as the bound.
 *
 * `uncertain` is what a provider may have billed, but has not said: of a call that was cut, or that
 * was in flight when the process died. It stands against every budget like `micro`, and is kept
 * apart everywhere, so that an operator can see it and credit it. */
struct ledger_entry {
    tg_ms reserved_at; /* says which windows it belongs to */
    tg_ms settled_at;
    uint32_t tenant; /* from ledger_add_tenants(): of the key that was used, if it has a name */
    uint32_t flags;  /* LEDGER_... */
    struct tg_usage usage;
    tg_micro micro, uncertain;
    struct ledger_text user, model, provider, key;
    uint64_t call; /* while it is open: what its process calls it; else not looked at */
};

/* ---- Life ------------------------------------------------------------------------------------ */

struct ledger;
struct ledger_sum;
typedef void ledger_sum_fn(void *context, const struct ledger_sum *sum);

/* Opens the ledger, or makes a new one where there is none, counts what a former process left
 * in the journal, and settles what it had in flight as reserved. False: nothing is open, nothing is
 * changed that could not be repeated, and `problem` says why. What is damaged is never replaced by
 * something empty. */
bool ledger_open(const struct ledger_config *config, struct ledger **ledger,
                 struct tg_problem *problem);

/* Moves what is left into the database. False: it could not; it stays in the journal, and the next
 * ledger_open() counts it. The ledger is gone in either case. Null is fine. */
bool ledger_close(struct ledger *ledger, struct tg_problem *problem);

/* Random, made with the database and kept in it: what other machines know this ledger by. A copy
 * has the same; two machines must not write to copies of one. That of ":memory:" is new each time.
 */
uint64_t ledger_id(const struct ledger *ledger);

#define LEDGER_NO_PARENT SIZE_MAX

struct ledger_tenant_spec {
    const char *name;
    size_t parent;   /* in the list; LEDGER_NO_PARENT: */
    uint32_t under;  /* then the number of its parent; 0: it is at the top */
    uint32_t number; /* the result, for entries */
    /* A virtual key, whose parent is its tenant and whose name is that one's. Null: a tenant. */
    const char *key;
    const char *tags; /* those of the key now: "cost_centre=4711\nteam=b"; null: none */
};

/* The numbers of tenants and of their keys. New ones are on disk when this returns, all of them or
 * none. Who reads "tenant" below reads the same of a key, whose entries are also its tenant's. */
bool ledger_add_tenants(struct ledger *ledger, struct ledger_tenant_spec *list, size_t n,
                        struct tg_problem *problem);

/* ---- On the path of a call ------------------------------------------------------------------- */

/* Room for one entry. False: the journal is full, because the database has not taken anything for
 * long. Who has room can append, whatever happens to the disk in between. */
bool ledger_take_room(struct ledger *ledger);

/* Gives room back that will not be used. */
void ledger_give_room(struct ledger *ledger);

/* Notes that a call is about to be sent, for which `entry->micro` is reserved and room was taken:
 * about a tenth of a microsecond. Should the process die, that much counts as uncertain. 0: it
 * could not be noted, because more than 256 threads are settling at this moment, or the ledger is
 * ":memory:"; fine for what follows. */
uint32_t ledger_open_call(struct ledger *ledger, const struct ledger_entry *entry);

/* It was never sent, or cost nothing. The room is still the caller's. */
void ledger_drop_call(struct ledger *ledger, uint32_t open);

/* Writes an entry into the room that was taken, in the place of the open call: about a tenth of a
 * microsecond. Returns its number in the journal of this process. */
uint64_t ledger_settle_call(struct ledger *ledger, uint32_t open, const struct ledger_entry *entry);

/* The same for a call that was not opened. */
void ledger_append(struct ledger *ledger, const struct ledger_entry *entry);

/* ---- Off the path ---------------------------------------------------------------------------- */

/* Moves what is in the journal into the database, in transactions of many entries. False: the
 * database does not take it now. Nothing is lost; call again. */
bool ledger_flush(struct ledger *ledger, struct tg_problem *problem);

/* Forgets single calls older than `detail`, makes quarters of an hour that are older than 70 days
 * into days (UTC), and days older than 400 days into one sum. Worth calling once an hour. */
bool ledger_roll(struct ledger *ledger, tg_ms now, struct tg_problem *problem);

/* Flushes every `period_ms` and rolls every hour on a thread of its own, until ledger_close(). */
struct clock;
bool ledger_keep(struct ledger *ledger, const struct clock *clock, int64_t period_ms,
                 struct tg_problem *problem);

enum ledger_health {
    LEDGER_WELL,
    LEDGER_LATE, /* the database does not take entries; the journal still does */
    LEDGER_FULL, /* neither does: there is no room */
};

struct ledger_state {
    enum ledger_health health;
    char reason[640];           /* why the last flush or roll failed; empty if it did not */
    uint64_t waiting;           /* entries in the journal that are not in the database yet */
    uint64_t room;              /* entries that it can still promise to take */
    uint64_t recovered;         /* entries that a former process had left in the journal */
    uint64_t interrupted;       /* calls that it had in flight when it died: settled as reserved */
    tg_micro interrupted_micro; /* what was reserved for them, now uncertain */
    uint64_t damaged;           /* entries among these that could not be read: they are in no sum */
    char export_problem[640];   /* why the last day could not be exported; empty if it could */
    uint64_t exported;          /* days that were exported since the start */
    tg_ms flushed_at; /* with ledger_keep(): what was appended before is in the database; 0: not
                           known */
};

void ledger_get_state(struct ledger *ledger, struct ledger_state *state);

/* ---- Handing it over -------------------------------------------------------------------------
 *
 * Two processes may have a ledger open while one takes it over from the other: each appends to a
 * journal of its own (ledger_journals.c). The lock that keeps all others out is handed on. */

/* The lock; -1: there is none. Then: it belongs to the other process alone; to this one. */
int ledger_lock_fd(const struct ledger *ledger);
void ledger_leave_lock(struct ledger *ledger);
void ledger_own_lock(struct ledger *ledger);

/* What other processes have settled: between ledger_lock() and ledger_unlock(), before and after
 * ledger_scan_moved(), which then reads the database of one moment. ledger_scan_others() is what
 * their journals have that is not in it. From then on ledger_has_read() says whether an entry of
 * another journal was in either. */
bool ledger_read_others(struct ledger *ledger, struct tg_problem *problem);
void ledger_scan_others(struct ledger *ledger, tg_ms begin, ledger_sum_fn *fn, void *context);
void ledger_end_others(struct ledger *ledger);
bool ledger_has_read(struct ledger *ledger, uint32_t journal, uint64_t entry);

/* The number of the journal of this process. */
uint32_t ledger_journal(const struct ledger *ledger);

/* The calls in flight, with what is reserved for each; while nobody opens or settles one. */
typedef void ledger_open_fn(void *context, const struct ledger_entry *entry);
void ledger_each_open(struct ledger *ledger, ledger_open_fn *fn, void *context);

/* After another process may have added some. */
bool ledger_reread_tenants(struct ledger *ledger, struct tg_problem *problem);

/* Moves what dead processes have left in their journals, and settles what they had in flight, if
 * this process has the lock; ledger_keep() does it four times a second. False: try again. Then: how
 * often it has found something since the start. */
bool ledger_move_left(struct ledger *ledger, struct tg_problem *problem);
uint64_t ledger_left_behind(struct ledger *ledger);

/* Whether another process, which lives, has the journal of that number. Then: whether its process
 * has ended, and all that it held is in the database. */
bool ledger_journal_is_used(const struct ledger *ledger, uint32_t number);
bool ledger_journal_is_over(struct ledger *ledger, uint32_t number);

/* The journals of other processes that lived when they were read last: up to `room` numbers. And
 * what these had in flight, in journal `number`; one of which an entry was read may be among it. */
size_t ledger_get_others(const struct ledger *ledger, uint32_t *numbers, size_t room);
void ledger_each_open_of(struct ledger *ledger, uint32_t number, ledger_open_fn *fn, void *context);

/* ---- Sums ------------------------------------------------------------------------------------ */

/* What a tenant's user has spent with a model. */
struct ledger_sum {
    uint32_t tenant;
    tg_ms day;                      /* when its UTC day begins, in a scan by days; 0: long ago */
    struct ledger_text user, model; /* for the time of the call */
    int64_t calls;
    struct tg_usage usage;
    tg_micro micro, uncertain;
};

/* What stands against budgets since `begin`, uncertain money included, by tenant or one beneath it
 * (null: by all) and by one user (null: by all of them). A call belongs to the moment at which it
 * was reserved. Exact where `begin` is a multiple of a quarter of an hour, as the windows
 * of every zone are, and not older than 70 days; otherwise the whole quarter or the whole UTC day
 * in which it lies counts: never less. */
bool ledger_spent(struct ledger *ledger, const char *tenant, const char *user, tg_ms begin,
                  tg_micro *micro, struct tg_problem *problem);

/* What one tenant's own calls were, those beneath it left out, by UTC day and model: calls of
 * [begin, end), which are whole quarters of an hour, in the last 70 days. It looks up each quarter,
 * so that it takes some ms for a month, whatever others have spent. A day and model may come more
 * than once. Waits for the disk. */
bool ledger_tenant_scan(struct ledger *ledger, const char *tenant, tg_ms begin, tg_ms end,
                        ledger_sum_fn *fn, void *context, struct tg_problem *problem);

/* The same for everyone, in two parts between ledger_lock() and ledger_unlock(): what is in the
 * database, and what is in the journal now. While it is locked nothing moves from one to the other;
 * appends continue. Each part may give several sums for the same names. */
void ledger_lock(struct ledger *ledger);
bool ledger_scan_moved(struct ledger *ledger, tg_ms begin, ledger_sum_fn *fn, void *context,
                       struct tg_problem *problem);
void ledger_scan_waiting(struct ledger *ledger, tg_ms begin, ledger_sum_fn *fn, void *context);
void ledger_unlock(struct ledger *ledger);

/* Tenants are numbered from 1 to `ledger_tenants`. Only while it is locked. */
size_t ledger_tenants(struct ledger *ledger);
const char *ledger_tenant_name(struct ledger *ledger, uint32_t tenant);
uint32_t ledger_tenant_parent(struct ledger *ledger, uint32_t tenant); /* 0: none */
const char *ledger_tenant_key(struct ledger *ledger, uint32_t tenant); /* null: a tenant */

/* ---- Reading beside the process that writes -------------------------------------------------- */

/* A ledger as it was at one moment, what is still in the journal included. */
struct ledger_view;

bool ledger_view_open(const char *path, struct ledger_view **view, struct tg_problem *problem);
void ledger_view_close(struct ledger_view *view);

bool ledger_view_scan(struct ledger_view *view, tg_ms begin, ledger_sum_fn *fn, void *context,
                      struct tg_problem *problem);

/* The same by UTC days, of calls that were reserved before `end`, whose quarter of an hour, or day
 * if that is older than 70 days, does not count. What is older than 400 days has no day any more,
 * and counts if it ended before `end`. */
bool ledger_view_scan_days(struct ledger_view *view, tg_ms begin, tg_ms end, ledger_sum_fn *fn,
                           void *context, struct tg_problem *problem);

/* The number that ledger_id() gives of it. */
uint64_t ledger_view_id(const struct ledger_view *view);

/* Tenants are numbered from 1 to `ledger_view_tenants`. */
size_t ledger_view_tenants(const struct ledger_view *view);
const char *ledger_view_name(const struct ledger_view *view, uint32_t tenant);
const char *ledger_view_key(const struct ledger_view *view, uint32_t tenant);  /* null: a tenant */
const char *ledger_view_tags(const struct ledger_view *view, uint32_t tenant); /* null: a tenant */
bool ledger_view_is_within(const struct ledger_view *view, uint32_t tenant, const char *name);

/* Entries of the journal that could not be read. */
uint64_t ledger_view_damaged(const struct ledger_view *view);

#endif
