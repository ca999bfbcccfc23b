/* generation.h - what one reading of the configuration made. Written once, then only read.
 *
 *     reload ---> generation 3                    workers take it at their next turn
 *     call, call  ---> generation 3
 *     call        ---> generation 2               as long as a call that began under it runs
 *
 * A call runs from its head to its settlement under the generation that it began with. What has to
 * outlast a reading is not in here but in the gateway: what limits have counted, who waits, what
 * keys and budgets have left. Readings are given what was there before, and keep what still
 * applies.
 *
 * Who holds it. Each thread has a count of its own for every generation, which it alone touches: a
 * call costs two additions and no shared memory. A thread that has gone on to the next generation
 * and whose calls have ended takes itself off; the last one to do so gives the generation back.
 *
 * A key that the ring hands out belongs to the newest generation, which may be newer than that of
 * the call which asked. It is never older than that of the thread, because the ring is changed
 * before the threads are told: so the thread can hold it, from the moment it gets the key.
 */
#ifndef TG_RUNTIME_GENERATION_H
#define TG_RUNTIME_GENERATION_H

#include <stdatomic.h>

#include "io/http/http_client.h"
#include "io/net/loop.h"
#include "io/net/tls.h"
#include "server/config/config.h"
#include "server/dialect/estimate.h"
#include "server/dialect/first_byte.h"
#include "server/dialect/replies.h"
#include "server/ledger/spending.h"
#include "server/remote/remote.h"
#include "server/tenancy/scopes.h"
#include "tollgate.h"

struct envoy_rls;
struct gateway;
struct generation;
struct key_index;

struct provider {
    const struct config_provider *config;
    struct http_origin *origin;
    struct tg_pool *pool; /* of `passthrough` */
    enum wire_api api;
};

/* How many calls of a model run at once: a gate with concurrency alone, which goes on from one
 * generation to the next. */
struct slots {
    struct tg_gate *gate;
    atomic_int refs;
};

/* A way to serve calls: one model of one provider. */
struct route {
    const struct config_model *config;
    struct provider *provider;
    struct tg_pool *pool;
    struct slots *slots;
    struct tg_overbook overbook;
    struct estimate_rule estimate;
    struct first_byte first_byte; /* what is usual, by size of prompt */
    _Atomic double hold_s;        /* how long its calls take, a moving mean */
};

/* What the ring gives back for a key: `owner` of its answers. */
struct route_key {
    const struct config_provider_key *config;
    struct generation *generation;
    atomic_llong asked_at; /* when a gateway that shares it last heard of it; ms */
};

struct protected_route {
    const struct config_protect *config;
    struct http_origin *origin;
};

/* A policy, and how many generations have it. */
struct remote_policy {
    struct tg_policy *policy; /* null: none */
    atomic_int refs;
};

/* Of one thread, on a cache line that no other writes. */
struct generation_hold {
    _Alignas(64) uint64_t n; /* calls that hold it */
    bool left;               /* the thread has gone on */
};

struct generation {
    struct gateway *gateway;
    uint64_t number; /* from 1 */
    struct config config;
    struct scopes *scopes;
    struct limit_listing *listing; /* what Redis has to know of limits; null: it is not the store */
    struct remote_terms remote;    /* what this configuration says of sharing */
    struct envoy_rls *envoy;       /* Envoy's rate limit service */
    struct remote_policy *policy;
    struct provider *providers; /* as in the configuration, the others too */
    struct route *routes;
    struct route
        unknown[2]; /* by enum wire_api: of models that are not listed; provider null: refused */
    struct config_model unknown_model; /* what is said of all of these */
    struct protected_route *protect;
    struct route_key *route_keys;
    struct key_index *keys;  /* virtual keys: tenants by hash */
    struct tls_context *tls; /* of the listener; null: none */
    struct generation *next; /* among all of the gateway */
    struct net_post freeing;
    atomic_size_t threads; /* that have not taken themselves off */
    size_t n_threads;
    struct generation_hold *holds; /* of each */
};

/* Makes one out of a configuration, which it takes over, whatever the answer. `before` is the
 * newest there is; null: none. Nothing that calls see has changed yet, and what is made may be
 * freed. False: `problem` says why. */
bool generation_new(struct gateway *gateway, struct config *config, const struct generation *before,
                    struct generation **made, struct tg_problem *problem);

/* Makes it hold: budgets, keys, limits, gates. On false `before` holds as it did. */
bool generation_apply(struct generation *generation, struct generation *before, tg_ms now,
                      struct tg_problem *problem);

void generation_free(struct generation *generation);

/* By the thread of that number. */
static inline void generation_hold(struct generation *generation, size_t thread)
{
    generation->holds[thread].n++;
}

/* The thread has gone on to another generation, and held this one as its own. */
void generation_leave(struct generation *generation, size_t thread);

void generation_drop(struct generation *generation, size_t thread);

/* The tenant of a virtual key, at this time; CONFIG_NONE: there is none. Constant time. */
size_t generation_tenant_of_key(const struct generation *generation, const uint8_t hash[32],
                                tg_ms now, const struct config_key **key);

#endif
