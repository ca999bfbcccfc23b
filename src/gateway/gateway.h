/* gateway.h - what the workers of a gateway share: limits, budgets, keys and where calls go.
 *
 *     worker, worker, ...        one thread each, an event loop, connections (worker.h)
 *         call, call, ...        one request each, from its head to its settlement (call.h)
 *     gateway                    what they share; made once from a configuration
 *         gate                   memory, fairness, a ceiling of calls, policy, rate and cost
 *         protect_gate           the same for `protect` routes, with the law that learns
 *         routes                 a model each: its slots, its keys, its price, its origin
 *         spending, ledger       money
 *
 * Everything that moves here is the library's own and may be used by any thread; the rest is
 * written once, before the first worker starts, and only read from then on.
 */
#ifndef TG_GATEWAY_GATEWAY_H
#define TG_GATEWAY_GATEWAY_H

#include <stdatomic.h>

#include "gateway/config.h"
#include "gateway/estimate.h"
#include "gateway/first_byte.h"
#include "gateway/replies.h"
#include "gateway/scopes.h"
#include "ledger/spending.h"
#include "net/http_client.h"
#include "net/http_server.h"
#include "posix/clock.h"
#include "tollgate.h"

struct gateway_zone;

struct provider {
    const struct config_provider *config;
    struct http_origin *origin;
    struct tg_pool *pool; /* of `passthrough` */
    enum wire_api api;
};

/* A way to serve calls: one model of one provider. */
struct route {
    const struct config_model *config;
    struct provider *provider;
    struct tg_pool *pool;
    struct tg_gate *slots; /* how many calls of it run at once: concurrency alone */
    struct tg_overbook overbook;
    struct estimate_rule estimate;
    struct first_byte first_byte; /* what is usual, by size of prompt */
    _Atomic double hold_s;        /* how long its calls take, a moving mean */
};

struct protected_route {
    const struct config_protect *config;
    struct http_origin *origin;
};

/* How many retries there may be, for how many calls. */
struct retry_budget {
    atomic_llong thousandths; /* of a retry that may still be made */
    atomic_llong filled_at;   /* ms */
    double ratio;
    int64_t min_per_s;
};

struct gateway_counts {
    atomic_ullong calls;
    atomic_ullong refused[REPLY_COUNT];
    atomic_ullong retries, fallbacks, hangups, usage_missing, usage_absurd, ledger_errors;
    atomic_llong open;     /* calls between their head and their end */
    atomic_llong buffered; /* bytes of bodies that are held */
};

struct gateway {
    struct config config;
    struct clock clock;
    struct tg_store *store;
    struct scopes *scopes;
    struct tg_policy *policy; /* null: none */
    struct tg_gate *gate;
    struct tg_gate *protect_gate;
    struct tg_keyring *ring;
    struct ledger *ledger;
    struct spending *spending;
    struct gateway_zone *zones; /* of budgets */
    struct provider *providers; /* as in the configuration, the others too */
    struct route *routes;
    struct route
        unknown[2]; /* by enum wire_api: of models that are not listed; provider null: refused */
    struct config_model unknown_model; /* what is said of all of these */
    struct protected_route *protect;
    struct key_index *keys; /* virtual keys: tenants by hash */
    struct retry_budget retries;
    struct http_census census;
    struct gateway_counts counts;
    atomic_bool draining;
    atomic_int working; /* workers whose thread runs */
    uint64_t seed;
};

/* Takes the configuration over. Reads zones and certificates, opens the ledger. `problem` says what
 * is wrong. */
bool gateway_new(struct config *config, const struct clock *clock, struct gateway **gateway,
                 struct ledger_problem *problem);

/* All workers have ended. */
void gateway_free(struct gateway *gateway);

/* The tenant of a virtual key, at this time; CONFIG_NONE: there is none. Constant time. */
size_t gateway_tenant_of_key(const struct gateway *gateway, const uint8_t hash[32], tg_ms now,
                             const struct config_key **key);

/* A call has come, or a client's own retry of one. */
void retry_budget_earn(struct retry_budget *budget, bool is_retry, tg_ms now);

/* Whether there may be one more. */
bool retry_budget_take(struct retry_budget *budget, tg_ms now);

#endif
