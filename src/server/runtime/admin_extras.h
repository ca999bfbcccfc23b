/* admin_extras.h - what an administrator made, as the reader of the configuration wants it.
 *
 *     struct admin_extras extras;
 *     admin_extras_read(ledger, now, &extras, &problem)
 *     config_load_with(path, extras.list, extras.n, &config, &problems)
 *     admin_extras_free(&extras);
 *
 * Whoever reads the configuration of a gateway reads these with it: at the start and at each
 * reload. By any thread that may wait for a disk.
 */
#ifndef TG_RUNTIME_ADMIN_EXTRAS_H
#define TG_RUNTIME_ADMIN_EXTRAS_H

#include "server/config/config.h"
#include "server/ledger/ledger_fleet.h"

struct admin_extras {
    struct ledger_admin all; /* also what has lapsed */
    struct config_extra *list;
    size_t n;
    tg_ms next_end;      /* when the next top-up or override lapses; TG_NUMBER_MAX: none does */
    struct arena *arena; /* private: names */
};

/* Top-ups that have ended by `now` are left out of the list. A null ledger has nothing. To be freed
 * only after true. */
bool admin_extras_read(struct ledger *ledger, tg_ms now, struct admin_extras *extras,
                       struct tg_problem *problem);
void admin_extras_free(struct admin_extras *extras);

/* The same of a ledger that another process writes. */
bool admin_extras_view(struct ledger_view *view, tg_ms now, struct admin_extras *extras,
                       struct tg_problem *problem);

/* Adds a row to `all`; its texts are borrowed. False: no memory. */
bool admin_extras_add(struct admin_extras *extras, const struct ledger_fleet_row *row);

/* Makes the list anew after `all` was changed. False: no memory. */
bool admin_extras_list(struct admin_extras *extras, tg_ms now);

/* What stands in problems in place of a file: "api: tenant x", "api: key x/k", "api: top-up 7 of
 * x". */
#define ADMIN_EXTRA_NAME_MAX 2304
void admin_extras_name_tenant(char name[ADMIN_EXTRA_NAME_MAX], const char *tenant);
void admin_extras_name_key(char name[ADMIN_EXTRA_NAME_MAX], const char *tenant, const char *key);
void admin_extras_name_override(char name[ADMIN_EXTRA_NAME_MAX], const char *tenant, int64_t id);

/* An override, without its name; texts are borrowed. */
void admin_extras_of_override(const struct ledger_admin_override *override,
                              struct config_extra *extra);
void admin_extras_name_topup(char name[ADMIN_EXTRA_NAME_MAX], const char *tenant, int64_t id);

#endif
