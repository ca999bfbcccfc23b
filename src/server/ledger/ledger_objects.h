/* ledger_objects.h - whose objects at providers are whose, kept in the ledger's database.
 *
 * An object is known by a hash of its id: what the file holds is of no use to anybody who reads it.
 * Like ledger_admin.h, the table is made by the first change.
 *
 * Threads: from any; they wait for the disk and for each other, so not from one that serves. The
 * keeper of the ledger is one that may: see ledger_set_chore().
 */
#ifndef TG_LEDGER_LEDGER_OBJECTS_H
#define TG_LEDGER_LEDGER_OBJECTS_H

#include "server/ledger/ledger.h"

#define LEDGER_OBJECT_HASH 16

struct ledger_object {
    uint8_t hash[LEDGER_OBJECT_HASH];
    const char *tenant, *provider, *key; /* a null tenant: nobody's any more */
    int kind;                            /* a number of its owner's */
    tg_ms used_at;
};

/* All of these changes or none, on the disk when it returns true. */
bool ledger_objects_write(struct ledger *ledger, const struct ledger_object *list, size_t n,
                          struct tg_problem *problem);

/* Every object, the one that was used last at the end; texts are good until fn() returns. False:
 * they cannot be read. */
bool ledger_objects_read(struct ledger *ledger,
                         void (*fn)(void *context, const struct ledger_object *object),
                         void *context, struct tg_problem *problem);

/* Something else to write whenever the ledger is flushed by its keeper, and once when it is closed.
 * Before ledger_keep(). */
void ledger_set_chore(struct ledger *ledger, void (*chore)(void *context, struct ledger *ledger),
                      void *context);

#endif
