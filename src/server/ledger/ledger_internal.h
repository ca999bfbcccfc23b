/* ledger_internal.h - the struct of a ledger, for the files that make it up: ledger*.c. */
#ifndef TG_LEDGER_LEDGER_INTERNAL_H
#define TG_LEDGER_LEDGER_INTERNAL_H

#include <pthread.h>

#include "server/ledger/journal.h"
#include "server/ledger/ledger_db.h"

struct ledger {
    struct journal journal; /* aligned to lines of the cache */
    char *path, *journal_path;
    int lock_fd;     /* path.lock, which keeps a second process out; -1: there is none */
    int journal_fd;  /* the journal, locked for as long as it is in use; -1: there is none */
    uint64_t raised; /* the entries of the journal begin after this; 0: they go on */
    struct ledger_other *others; /* journals of other processes, as far as they were read */
    size_t n_others;
    _Atomic uint64_t left_behind; /* journals of dead processes that were moved since the start */
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

    char *export_folder;              /* where days that are over are written; null: nowhere */
    struct tg_problem export_problem; /* why the last could not be; under state_lock */
    _Atomic uint64_t exported;        /* days that were, since the start */

    void (*chore)(void *context, struct ledger *ledger); /* null: none. See ledger_objects.h */
    void *chore_context;
};

typedef enum journal_found journal_read_fn(struct journal *, uint64_t, struct journal_record *);

/* Moves the entries after `moved` up to `last` into the database, in one transaction; up to the
 * first that is not there, unless `gaps` are to be skipped. Counts the whole ones. */
bool ledger_move(struct ledger *ledger, uint64_t last, bool gaps, journal_read_fn *read,
                 uint64_t *whole, struct tg_problem *problem);

/* ---- ledger_journals.c ---- */

enum { LEDGER_JOURNAL_NAME = 4200 };

void ledger_journal_name(const char *path, uint32_t number, char *name, size_t bytes);

/* Locks the journal of that number for as long as the descriptor is open. */
enum { LEDGER_JOURNAL_USED = -1, LEDGER_JOURNAL_ABSENT = -2 };
int ledger_journal_lock(const char *path, uint32_t number);

/* The journal that this process is to use: the first, or a new one while another process has that.
 * Then, when it is mapped: entries begin above those of all others. */
bool ledger_choose_journal(struct ledger *ledger, size_t slots, struct tg_problem *problem);
bool ledger_raise_numbers(struct ledger *ledger, struct tg_problem *problem);

/* Nothing is left in it: removes it, or says so where it is the first. */
bool ledger_close_journal(struct ledger *ledger, struct tg_problem *problem);

/* Moves what dead processes have left in their journals, and settles what they had in flight. Under
 * db_lock, or before there are threads. */
bool ledger_recover_left(struct ledger *ledger, struct tg_problem *problem);

/* What was read of the journal of another process. */
struct ledger_other {
    uint32_t number;
    uint64_t last;                  /* up to this entry, which is in a sum; then nothing is */
    struct journal_record *records; /* those that were not in the database */
    size_t n, max;
    struct journal_record *open; /* calls in flight, where nobody else tells of them */
    size_t n_open, max_open;
};

void ledger_free_others(struct ledger *ledger);

/* ---- ledger_open.c ---- */

/* The journal of a dead process, with a connection to the database of its own: what is in it counts
 * when this returns, and is in the database after a flush. Takes over the descriptor. */
struct ledger *ledger_open_left(struct ledger *ledger, struct ledger_journal_row row, int fd,
                                struct tg_problem *problem);
void ledger_free_left(struct ledger *left);

/* Ends the thread of ledger_keep(); for ledger_close(), and for tests that have one thread. */
void ledger_stop_keeping(struct ledger *ledger);

#endif
