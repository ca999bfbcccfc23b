/* object_owners.h - whose objects at providers are whose: files, batches, stored responses.
 *
 * Tenants share an account of a provider, which shows each of them everything that all have made.
 * So the gateway remembers who made what, and to everybody else it is not there. What is not known
 * is nobody's.
 *
 *     learned    from replies: the tenant that made an object is the first to see its id. The first
 *                owner stays: nobody becomes one by making a reply repeat an id.
 *     kept       in memory, by a hash of the id, and in the ledger, written by its keeper some 50
 *                ms later. After a crash in between the object is nobody's.
 *     forgotten  when it is deleted; a response OBJECT_RESPONSE_MS after it was made, which is how
 *                long providers keep it; anything else OBJECT_OTHER_MS after it was last used. When
 *                there are `max`, the tenant that has the most of a kind loses its oldest of it: no
 *                number of objects that one tenant makes costs another its own.
 *
 *     shared     where the store is Redis, with all gateways: remote_store/remote_objects.h. What
 *                comes from there is in memory alone.
 *
 * Threads: from any. A lock is held for some comparisons, never over I/O.
 */
#ifndef TG_RUNTIME_OBJECT_OWNERS_H
#define TG_RUNTIME_OBJECT_OWNERS_H

#include "io/text/slice.h"
#include "server/ledger/ledger_objects.h"

#define OBJECT_OWNERS_MAX ((size_t)1 << 20)    /* about 80 bytes each */
#define OBJECT_RESPONSE_MS INT64_C(2592000000) /* 30 days */
#define OBJECT_OTHER_MS INT64_C(34560000000)   /* 400 days */

enum object_kind { OBJECT_RESPONSE, OBJECT_OTHER, OBJECT_KINDS };

enum object_claim {
    OBJECT_UNKNOWN,
    OBJECT_MINE,
    OBJECT_OTHERS,
};

/* Where an object is, and the key that it was made with. */
struct object_place {
    const char *provider, *key; /* good as long as the owners are; "": not known */
};

struct object_owners;

/* Null: there is no memory. */
struct object_owners *object_owners_new(size_t max);
void object_owners_free(struct object_owners *owners);

/* Reads what the ledger has. Before the first call. */
bool object_owners_load(struct object_owners *owners, struct ledger *ledger, tg_ms now,
                        struct tg_problem *problem);

/* Writes what has changed: for ledger_set_chore(). */
void object_owners_flush(void *owners, struct ledger *ledger);

/* Whose it is, seen by a tenant. One that several have under the same id, each at another provider,
 * is mine if one of them is; `place` is set then, and may be null. */
enum object_claim object_owners_find(struct object_owners *owners, struct slice id,
                                     const char *tenant, tg_ms now, struct object_place *place);

/* A tenant has made it. Nothing happens if somebody has it at that provider already. */
void object_owners_add(struct object_owners *owners, struct slice id, enum object_kind kind,
                       const char *tenant, const char *provider, const char *key, tg_ms now);

/* What another gateway has told, by the hash of its id: it is in memory, and not in the ledger. */
void object_owners_learn(struct object_owners *owners, const uint8_t hash[LEDGER_OBJECT_HASH],
                         enum object_kind kind, struct slice tenant, struct slice provider,
                         struct slice key, tg_ms now);

/* Another gateway's tenant was first: it was no tenant's of this one. */
void object_owners_unlearn(struct object_owners *owners, const uint8_t hash[LEDGER_OBJECT_HASH],
                           struct slice tenant, struct slice provider);

void object_owners_hash(struct slice id, uint8_t hash[LEDGER_OBJECT_HASH]);

/* It was deleted. False: it is not known as the tenant's. */
bool object_owners_remove(struct object_owners *owners, struct slice id, const char *tenant,
                          const char *provider);

/* How many are known. */
size_t object_owners_count(struct object_owners *owners);

#endif
