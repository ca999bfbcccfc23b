/* ledger_fleet.h - the copy that a gateway keeps of what all gateways share: which state of the
 * store the administrator's rows in the ledger are.
 *
 *     store (Redis)   epoch, version 7   --- followed by --->   mark: epoch, version 7; rows
 *
 * The rows are those of ledger_admin.h, so an older program, that knows nothing of a store, starts
 * from them as well. Rows and mark change in one transaction: a gateway that dies has either state
 * whole.
 *
 * Threads: as in ledger_admin.h.
 */
#ifndef TG_LEDGER_LEDGER_FLEET_H
#define TG_LEDGER_LEDGER_FLEET_H

#include "server/ledger/ledger_admin.h"

#define LEDGER_FLEET_ID 32    /* hexadecimal digits of an epoch, and of a change */
#define LEDGER_FLEET_SCHEMA 1 /* the version of the rows and of what is in the store */

struct ledger_fleet_mark {
    char epoch[LEDGER_FLEET_ID + 1];  /* which store; "": none has been followed yet */
    int64_t version;                  /* how many changes it had seen */
    char change[LEDGER_FLEET_ID + 1]; /* the last of them */
};

enum ledger_fleet_kind {
    LEDGER_FLEET_TENANT,
    LEDGER_FLEET_KEY,
    LEDGER_FLEET_TOPUP,
    LEDGER_FLEET_DISABLED,
    LEDGER_FLEET_OVERRIDE,
};

/* One row, put or taken away: then only its name counts. Texts are borrowed. */
struct ledger_fleet_row {
    enum ledger_fleet_kind kind;
    bool gone;
    union {
        struct ledger_admin_tenant tenant;
        struct ledger_admin_key key;
        struct ledger_admin_topup topup;
        struct ledger_admin_disabled disabled;
        struct ledger_admin_override override;
    };
};

/* An empty mark where there is none. */
bool ledger_fleet_read(struct ledger *ledger, struct ledger_fleet_mark *mark,
                       struct tg_problem *problem);

/* Writes rows and mark. `whole`: what is not among the rows goes. */
bool ledger_fleet_write(struct ledger *ledger, const struct ledger_fleet_row *rows, size_t n,
                        bool whole, const struct ledger_fleet_mark *mark,
                        struct tg_problem *problem);

#endif
