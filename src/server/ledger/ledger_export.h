/* ledger_export.h - days that are over, as files for whoever collects the spend of many gateways.
 *
 *     DIR/spend-00ab12cd34ef5678-2026-11-18.csv        the ledger's number, and the day in UTC
 *     DIR/spend-00ab12cd34ef5678-2026-11-18.r2.csv     the same day, whole, after a credit
 *
 * One row for each tenant, user and model, as `tollgate spend` sums them: so the rows of all files
 * of the highest revisions add up to what all ledgers have. A day is over a quarter of an hour
 * after its end, and not while a call that was reserved in it is still under way. What changes it
 * later, a credit or a call that a dead process had in flight, makes a revision.
 *
 * A file has its name only when it is whole and on the disk. Which days have been written is kept
 * in the ledger after that: a process that dies in between writes the same file once more, with
 * the same contents.
 *
 * Threads: from any; it waits for the disk.
 */
#ifndef TG_LEDGER_LEDGER_EXPORT_H
#define TG_LEDGER_LEDGER_EXPORT_H

#include "server/ledger/ledger.h"

#define LEDGER_EXPORT_AT_ONCE 16 /* days that one call writes at most: flushing waits meanwhile */

/* Writes days that are over by `now` and not written as they are, the oldest first, and says how
 * many. False: `problem` says why; those before it are written. */
bool ledger_export(struct ledger *ledger, const char *folder, tg_ms now, size_t *written,
                   struct tg_problem *problem);

/* ledger_keep() does so once a minute, and goes on at once while there are more. Before
 * ledger_keep(); the folder is copied. False: no memory. */
bool ledger_export_to(struct ledger *ledger, const char *folder);

#endif
