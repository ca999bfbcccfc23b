/* ledger_internal.h - the inside of a ledger, for the files that make it up. Private to
 * ledger*.c. */
#ifndef TG_LEDGER_LEDGER_INTERNAL_H
#define TG_LEDGER_LEDGER_INTERNAL_H

#include <pthread.h>

#include "server/ledger/journal.h"
#include "server/ledger/ledger_db.h"

struct ledger {
    struct journal journal; /* aligned to lines of the cache */
    char *path, *journal_path;
    int lock_fd;
    tg_ms detail;

    pthread_mutex_t held;
    struct ledger_db db;
    _Atomic uint64_t moved; /* changed while it is held */
    _Atomic tg_ms
        flushed_at; /* what was appended before is moved; by the thread of ledger_keep() */
    uint64_t recovered;
    _Atomic uint64_t damaged;

    pthread_mutex_t telling;
    struct tg_problem reason;

    /* The thread of ledger_keep(). */
    pthread_t keeper;
    pthread_cond_t wake;
    bool keeping, stopping;
    const struct clock *clock;
    int64_t period_ms;
};

/* ---- ledger.c ---- */

typedef enum journal_found journal_read_fn(struct journal *, uint64_t, struct journal_record *);

/* Moves the entries after `moved` up to `last` into the database, in one transaction; up to the
 * first that is not there, unless `gaps` are to be passed over. Counts the whole ones. */
bool ledger_move(struct ledger *ledger, uint64_t last, bool gaps, journal_read_fn *read,
                 uint64_t *whole, struct tg_problem *problem);

/* ---- ledger_keep.c ---- */

void ledger_stop_keeping(struct ledger *ledger);

#endif
