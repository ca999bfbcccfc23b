/* fleet_record.h - rows of an administrator as entries of the store, and back.
 *
 *     tenant:team-b          {"name":"team-b","text":"...","changed_at":...}
 *     key:team-b:ci          {"tenant":"team-b","name":"ci","sha256":"...","not_after":...,...}
 *                            with settings: "sha256" is all zeros, that of no secret, "own_sha256"
 *                            is its hash, and "own" the settings
 *     topup:7                {"id":7,"tenant":"team-b","per":"day","tz":"UTC","micro_usd":...,...}
 *     disabled:openai:k1     {"provider":"openai","name":"k1","made_at":...}
 *     override:9             {"id":9,"tenant":"team-a","key":"prod","kind":"block",...}
 *     ledger:4711            {"at":...}     what this ledger had before there was a store is in it
 *
 * The name only has to be unique: everything is read from the value. A reader passes over members
 * and kinds of entries that it does not know, so a program of the version before reads what it
 * needs. Of a key with settings, that is a key that no secret opens: with the settings passed over
 * it would be one without its limits. It still has a name there, by which it is deleted.
 */
#ifndef TG_FLEET_FLEET_RECORD_H
#define TG_FLEET_FLEET_RECORD_H

#include "io/text/slice.h"
#include "server/ledger/ledger_fleet.h"

struct arena;

struct fleet_entry {
    struct slice name, value; /* each with a 0 after it */
    bool gone;
};

/* All zero is an empty one. */
struct fleet_entries {
    struct fleet_entry *list;
    size_t n, room;
    struct arena *arena; /* the texts */
};

void fleet_entries_free(struct fleet_entries *entries);

/* Copies. False: no memory. */
bool fleet_entries_add(struct fleet_entries *entries, struct slice name, struct slice value,
                       bool gone);

/* A row as an entry. */
bool fleet_entries_add_row(struct fleet_entries *entries, const struct ledger_fleet_row *row);

/* Everything that an administrator made. */
bool fleet_entries_add_all(struct fleet_entries *entries, const struct ledger_admin *all);

/* Says that this ledger has put in what it had: see fleet_entries_unmoved(). */
bool fleet_entries_add_ledger(struct fleet_entries *entries, uint64_t ledger, tg_ms now);

/* What a ledger has, that followed no store before, and the store's `there` lacks. Top-ups get the
 * number that their contents have, for the numbers of two ledgers mean nothing to each other; one
 * that was made at each gateway, because it had to be, is one. Nothing if the ledger has done it
 * before. False: no memory. */
bool fleet_entries_unmoved(struct fleet_entries *unmoved, const struct fleet_entries *there,
                           const struct ledger_admin *own, uint64_t ledger, tg_ms now);

/* The rows of entries; texts point into the entries and into their arena. `strange` counts those
 * that this program cannot read. To be freed with free(). False: no memory. */
bool fleet_entries_rows(struct fleet_entries *entries, struct ledger_fleet_row **rows, size_t *n,
                        size_t *strange);

/* The same of everything that is in a ledger; texts point into `all`. */
bool fleet_rows_of(const struct ledger_admin *all, struct ledger_fleet_row **rows, size_t *n);

/* Whether two ledgers' rows are the same, whatever their order. */
bool fleet_rows_equal(const struct ledger_fleet_row *a, size_t n_a, const struct ledger_admin *b);

const char *fleet_override_name(enum ledger_override_kind kind);

#endif
