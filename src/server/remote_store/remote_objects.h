/* remote_objects.h - whose objects at providers are whose, for all gateways of a store.
 *
 *     <prefix>:object:{HASH}       a hash: provider -> owner     by the hash of the object's id
 *     <prefix>:objects:{TENANT}    a sorted set: the tenant's files and batches, for lists
 *
 * An id says nothing of the tenant, so a record has a slot of its own: the one key that whoever
 * looks for an id can name. What a gateway's own table (runtime/object_owners.h) does not know is
 * looked for here, one question for each id, all at once; what is found goes into that table.
 *
 * Records are written when an object is made, while its reply passes by, and again and again until
 * Redis has answered. They end OBJECT_RESPONSE_MS or OBJECT_OTHER_MS later, by their time; a
 * deletion ends them at once. What a tenant has beyond LISTED_MAX is found by its id alone.
 *
 * One for each connection to Redis, on its loop.
 */
#ifndef TG_REMOTE_STORE_REMOTE_OBJECTS_H
#define TG_REMOTE_STORE_REMOTE_OBJECTS_H

#include "io/redis/redis.h"
#include "io/text/slice.h"

#define REMOTE_OBJECT_HASH 16

struct remote_object {
    uint8_t hash[REMOTE_OBJECT_HASH]; /* the hash of its id */
    struct slice tenant, provider, key;
    int kind;
};

struct remote_objects;

/* TG_ERR_MEMORY. Loop, client and prefix are borrowed. */
TG_MUST_CHECK enum tg_err remote_objects_new(struct net_loop *loop, struct redis *redis,
                                             const char *prefix, struct remote_objects **objects);

/* Free the client first. Nobody may be waiting for an answer. */
void remote_objects_free(struct remote_objects *objects);

/* Somebody else has the object at its provider: the first owner stays. From the loop. */
typedef void remote_object_refused(void *context, const struct remote_object *object);

/* It was made, and is known for so long; `listed`: lists show it. */
void remote_objects_put(struct remote_objects *objects, const struct remote_object *object,
                        bool listed, tg_ms life, remote_object_refused *refused, void *context);

/* It was deleted by its owner. */
void remote_objects_drop(struct remote_objects *objects, const struct remote_object *object);

/* Records that are not in Redis yet. */
size_t remote_objects_unsent(const struct remote_objects *objects);

struct remote_objects_ask;

struct remote_objects_ops {
    /* For each object that was found; its texts are good until this returns. */
    void (*found)(void *context, const struct remote_object *object);
    /* All is known, or `known` is false: Redis does not answer in time. The ask has ended. */
    void (*over)(void *context, bool known);
};

/* Looks for objects by their hashes, and, if `tenant` is not empty, for those that lists show it.
 * Null: there is nothing to ask by, and nobody is called. Never calls back from inside. */
struct remote_objects_ask *remote_objects_find(struct remote_objects *objects,
                                               const uint8_t (*hashes)[REMOTE_OBJECT_HASH],
                                               size_t n, struct slice tenant,
                                               const struct remote_objects_ops *ops, void *context);

/* Nobody is called any more. */
void remote_objects_cancel(struct remote_objects_ask *ask);

#endif
