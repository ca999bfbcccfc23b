/* ledger_view_internal.h - the struct of a view, for the files that read one: ledger_*.c. */
#ifndef TG_LEDGER_LEDGER_VIEW_INTERNAL_H
#define TG_LEDGER_LEDGER_VIEW_INTERNAL_H

#include "server/ledger/journal.h"
#include "server/ledger/ledger_db.h"

struct ledger_view {
    struct ledger_db db;
    /* What was in each journal, and the last entry of it that is in the database. */
    struct {
        uint32_t number;
        uint64_t moved;
        struct journal_copy copy;
    } waiting[LEDGER_JOURNALS_MAX + 1];
    size_t n_waiting;
};

#endif
