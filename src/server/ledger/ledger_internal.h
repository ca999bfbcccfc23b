/* ledger_internal.h - the struct of a ledger, for the files that make it up: ledger*.c. */
#ifndef TG_LEDGER_LEDGER_INTERNAL_H
#define TG_LEDGER_LEDGER_INTERNAL_H

#include <pthread.h>

#include "server/ledger/journal.h"
#include "server/ledger/ledger_db.h"

struct ledger {
    struct journal journal; /* aligned to lines of the cache */
    char *path, *journal_path;
    int lock_fd; /* path.lock, which keeps a second process out; -1: there is none */
    tg_ms detail;

    pthread_mutex_t db_lock; /* held over I/O by whoever uses the database, never by an append */
    struct ledger_db db;
    _Atomic uint64_t moved; /* the last entry in the database; written under db_lock */
    _Atomic tg_ms
        flushed_at;       /* entries appended before this are moved; by ledger_keep()'s thread */
    uint64_t recovered;   /* entries that a former process had left in the journal */
    uint64_t interrupted; /* calls that a former process had in flight when it died */
    tg_micro interrupted_micro; /* what was reserved for them */
    _Atomic uint64_t damaged;   /* entries that could not be read: they are in no sum */

    pthread_mutex_t state_lock; /* for a few instructions: `reason` and `stopping` */
    struct tg_problem reason;   /* why the last flush or roll failed; empty if it did not */

    /* The thread of ledger_keep(). */
    pthread_t keeper;
    pthread_cond_t wake;
    bool keeping, stopping;
    const struct clock *clock;
    int64_t period_ms;
};

typedef enum journal_found journal_read_fn(struct journal *, uint64_t, struct journal_record *);

/* Moves the entries after `moved` up to `last` into the database, in one transaction; up to the
 * first that is not there, unless `gaps` are to be skipped. Counts the whole ones. */
bool ledger_move(struct ledger *ledger, uint64_t last, bool gaps, journal_read_fn *read,
                 uint64_t *whole, struct tg_problem *problem);

/* Ends the thread of ledger_keep(); for ledger_close(), and for tests that have one thread. */
void ledger_stop_keeping(struct ledger *ledger);

#endif
