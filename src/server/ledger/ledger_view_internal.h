/* ledger_view_internal.h - the struct of a view, for the files that read one: ledger_*.c. */
#ifndef TG_LEDGER_LEDGER_VIEW_INTERNAL_H
#define TG_LEDGER_LEDGER_VIEW_INTERNAL_H

#include "server/ledger/journal.h"
#include "server/ledger/ledger_db.h"

struct ledger_view {
    struct ledger_db db;
    struct journal_copy waiting;
};

#endif
