/* ledger_blob.h - bytes by name, kept in the ledger's database over a restart.
 *
 * For what a part of the program has learned and would have to learn again. Nothing here is
 * interpreted: whoever reads bytes back checks them. Like ledger_admin.h, the table is made by the
 * first change, so a database without it is as good as one with it.
 *
 * Threads: from any; they wait for the disk and for each other, so not from one that serves.
 */
#ifndef TG_LEDGER_LEDGER_BLOB_H
#define TG_LEDGER_LEDGER_BLOB_H

#include "server/ledger/ledger.h"

#define LEDGER_BLOB_MAX ((size_t)1 << 20)

/* Replaces what is kept under the name. On the disk when it returns true. */
bool ledger_blob_put(struct ledger *ledger, const char *name, const void *bytes, size_t n,
                     struct tg_problem *problem);

/* A copy of what is kept, to be freed with free(); null: nothing is, or it cannot be read. */
void *ledger_blob_get(struct ledger *ledger, const char *name, size_t *n);

#endif
