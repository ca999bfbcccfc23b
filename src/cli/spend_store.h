/* spend_store.h - what the store that gateways share has of each budget, beside what this ledger
 * has: `tollgate spend` with Redis. */
#ifndef TG_CLI_SPEND_STORE_H
#define TG_CLI_SPEND_STORE_H

#include "cli/spend_report.h"

/* Asks about each budget of the report, within some seconds in all. What could not be asked is left
 * out, and report->store says so. */
void spend_store_read(struct spend_report *report, const struct config *config, uint64_t ledger);

#endif
