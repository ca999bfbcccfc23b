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
 * Who refers to it. Each thread has a count of its own for every generation, which it alone
 * touches: a call costs two additions and no shared memory. A thread that has left for the next
 * generation and whose calls have ended signs off; when the last thread has, the generation is
 * freed.
 *
 * A key that the ring hands out belongs to the newest generation, which may be newer than that of
 * the call which asked. It is never older than that of the thread, because the ring is changed
 * before the threads are told: so the thread can hold it, from the moment it gets the key.
 */
#ifndef TG_RUNTIME_GENERATION_H
#define TG_RUNTIME_GENERATION_H

#include <assert.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "io/http/http_client.h"
#include "io/net/loop.h"
#include "io/net/tls.h"
#include "server/config/config.h"
#include "server/dialect/bound.h"
#include "server/dialect/estimate.h"
#include "server/dialect/replies.h"
#include "server/ledger/spending.h"
#include "server/remote/remote.h"
#include "server/tenancy/scopes.h"
#include "server/upstream/output_speed.h"
#include "tollgate.h"

struct access_token;
struct envoy_rls;
struct gateway;
struct generation;
struct key_index;
struct tenant_share;

struct provider {
    const struct config_provider *config;
    struct http_origin *origin;
    struct tg_pool *pool; /* for `passthrough`, which names no model */
};

/* How many calls of one kind run at once: those of a model, of a protected route, or of a caller of
 * Admit. A gate with concurrency alone, before the gate that all calls pass. */
struct slots {
    struct tg_gate *gate;
    atomic_int refs; /* generations that have it, and leases of Admit */
};

enum slots_owner { SLOTS_MODEL, SLOTS_PROTECT, SLOTS_CALLER };

/* Slots and whose they are, for whoever goes over all of them. */
struct slots_entry {
    struct slots *slots; /* a reference is held */
    const struct config_concurrency *config;
    enum slots_owner owner;
    const char *name;     /* the model's, the route's prefix, the caller's */
    const char *provider; /* a model's; else null */
};

/* A way to serve calls: one model of one provider. */
struct route {
    const struct config_model *config;
    struct provider *provider;
    struct tg_pool *pool;
    struct slots *slots;
    struct output_speed *speed; /* a reference is held */
    struct estimate_rule estimate;
    bool priced;              /* its calls cost something */
    struct bound_facts facts; /* what is known of the model; factors are for each call to find */
    _Atomic double hold_s;    /* how long its calls take in seconds, a moving mean */
    _Atomic double charged;   /* tokens charged for each that is asked for, a moving mean */
    atomic_int silent;        /* whole replies in a row that have not said what they used */
};

/* Whether the provider counts what calls ask for against its keys' tokens a minute, and not what
 * they use. */
static inline bool route_counts_asked(const struct route *route)
{
    if (route->config->tpm_counts == CONFIG_TPM_AS_PROVIDER)
        return route->provider->config->counts_asked;
    return route->config->tpm_counts == CONFIG_TPM_ASKED;
}

/* Whether a reply is read to its end for its usage when the client has left. */
static inline bool route_drains(const struct route *route)
{
    if (route->provider->config->on_disconnect == CONFIG_DISCONNECT_AS_CUT)
        return route->config->cut == CONFIG_CUT_RUNS;
    return route->provider->config->on_disconnect == CONFIG_DISCONNECT_DRAIN;
}

/* Where the calls of a key go. */
struct key_place {
    const struct config_provider *provider;
    const struct config_provider_key *key;
    const struct config_url *base; /* the key's own address, or its provider's */
    struct http_origin *origin;    /* goes there; a reference is held */
    struct access_token *token;    /* null: the key is a secret; else a reference is held */
};

/* The `owner` of a key in the ring, which comes back with its leases. */
struct route_key {
    const struct config_provider_key *config;
    const struct key_place *place;
    struct generation *generation;
    atomic_llong asked_at; /* when Redis was last asked about it; ms */
};

struct protected_route {
    const struct config_protect *config;
    struct http_origin *origin;
    struct slots *slots;
};

/* A policy, shared by the generations whose configuration of it is the same. */
struct shared_policy {
    struct tg_policy *policy; /* null: none */
    atomic_int refs;          /* generations that have it */
};

/* The count of one thread, on a cache line that no other thread writes. */
struct generation_refs {
    _Alignas(64) uint64_t n; /* requests, and keys, that refer to the generation */
    bool left;               /* the thread has left for another generation */
};

struct generation {
    struct gateway *gateway;
    uint64_t number; /* from 1 */
    struct config config;
    struct scopes *scopes;
    struct limit_listing *listing; /* what Redis has to know of limits; null: it is not the store */
    struct remote_terms remote;    /* what this configuration says of sharing */
    struct remote_terms remote_strict; /* the same, for those who ask Redis each time */
    struct envoy_rls *envoy;           /* what the service envoy keeps here */
    struct shared_policy *policy;
    struct provider *providers; /* in the order of the configuration, as are the next two */
    struct route *routes;
    struct route
        unknown[2]; /* models that are not listed, by enum wire_api; provider null: refused */
    struct config_model unknown_model; /* the settings of all of these */
    struct protected_route *protect;
    struct slots **caller_slots; /* in the order of the callers; null: it has none of its own */
    struct slots_entry *slots;   /* all there are: models, protected routes, callers */
    size_t n_slots;
    struct key_place *places; /* one for each key that the configuration writes */
    size_t n_places;
    struct route_key *route_keys;
    struct key_index *keys;       /* virtual keys: tenants by hash */
    struct tenant_share **shares; /* what each tenant takes up, in the order of the configuration */
    struct tls_context *tls;      /* for the workers' listeners; null: none */
    struct tls_context *admin_tls; /* for that of the admin API; likewise */
    LIST_ENTRY(generation) link;   /* among all of the gateway */
    struct net_post freeing;
    atomic_size_t threads; /* threads that have not signed off */
    size_t n_threads;
    struct generation_refs *refs; /* one for each thread */
};

/* Makes one out of a configuration, which it takes over, whatever the answer. `before` is the
 * newest there is; null: none. Nothing that calls see has changed yet, and what is made may be
 * freed. False: `problem` says why. */
bool generation_new(struct gateway *gateway, struct config *config, const struct generation *before,
                    struct generation **made, struct tg_problem *problem);

/* Puts it in force: budgets, gates, limits, keys. On false `before` is in force as it was. */
bool generation_apply(struct generation *generation, struct generation *before, tg_ms now,
                      struct tg_problem *problem);

/* The gateway's gate, and all slots: a part of that, also for when other gateways come or go. */
bool generation_set_gates(struct generation *generation, tg_ms now, struct tg_problem *problem);

void generation_free(struct generation *generation);

#define SLOTS_NAME_MAX 300

/* "openai/gpt-4o", "protect /api", "caller envoy": in metrics, logs and snapshots. */
void slots_name(const struct slots_entry *entry, char name[SLOTS_NAME_MAX]);

/* From any thread. The last one frees them. */
void slots_ref(struct slots *slots);
void slots_unref(struct slots *slots);

/* A request refers to it; by the thread of that number, as are the next two. */
static inline void generation_ref(struct generation *generation, size_t thread)
{
    assert(thread < generation->n_threads);
    assert(!generation->refs[thread].left || generation->refs[thread].n > 0);
    generation->refs[thread].n++;
}

void generation_unref(struct generation *generation, size_t thread);

/* The thread has left for another generation: once. */
void generation_leave(struct generation *generation, size_t thread);

/* The key of a name in the pool of a provider, or of one of its models; null: the provider's own.
 * Null if there is none. */
struct route_key *generation_find_key(const struct generation *generation,
                                      const struct config_provider *provider,
                                      const struct config_model *model, const char *name);

/* The tenant of a virtual key, at this time; CONFIG_NONE: there is none. Constant time. */
size_t generation_tenant_of_key(const struct generation *generation, const uint8_t hash[32],
                                tg_ms now, const struct config_key **key);

#endif
