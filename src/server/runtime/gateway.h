/* gateway.h - what the workers of a gateway share for as long as the process lives.
 *
 *     worker, worker, ...        one thread each, an event loop, connections (worker.h)
 *         call, call, ...        one request each, from its head to its settlement (call.h)
 *     control thread                      a thread for all that is not a call (control thread.h)
 *     generation                 what one reading of the configuration made (generation.h)
 *     gateway                    what outlasts it:
 *         gate                   memory, fairness, a ceiling of calls, policy, rate and cost
 *         protect_gate           the same for `protect` routes and for callers of Admit (admit.h),
 *                                with the law that learns
 *         ring                   keys of providers, in pools
 *         spending, ledger       money
 *
 * Everything that moves here is the library's own, or atomic, and may be used by any thread.
 */
#ifndef TG_RUNTIME_GATEWAY_H
#define TG_RUNTIME_GATEWAY_H

#include <pthread.h>
#include <stdatomic.h>

#include "io/http/http_server.h"
#include "io/posix/clock.h"
#include "server/runtime/generation.h"

struct admit;
struct gateway_zone;
struct log;
struct metrics;
struct service_table;
struct snapshot_memory;
struct remote;
struct trace;
struct watch;

/* How many retries there may be, for how many calls. */
struct retry_budget {
    atomic_llong thousandths; /* of a retry that may still be made */
    atomic_llong filled_at;   /* ms */
};

struct gateway_counts {
    atomic_ullong calls;
    atomic_ullong refused[REPLY_COUNT];
    atomic_ullong retries, fallbacks, hangups, usage_missing, usage_absurd;
    atomic_llong open;     /* calls between their head and their end */
    atomic_llong buffered; /* bytes of bodies that are held */
    atomic_ullong reloads, reloads_failed;
    atomic_bool reload_failed; /* the last one */
};

/* How the last reading of a configuration went; by the control thread's thread. */
struct last_reload {
    tg_ms at; /* 0: there was none */
    bool ok;
    const char *why; /* static */
    size_t errors;
};

#define GATEWAY_NODE_BYTES 10

struct gateway {
    const struct service_table *services; /* what it serves */
    size_t n_open;                        /* services whose open() was true */
    struct clock clock;
    uint64_t seed;
    char node_id[GATEWAY_NODE_BYTES + 1]; /* of this process among others: random, [a-z0-9] */
    size_t n_threads; /* that hold generations: workers, and the control thread */
    struct tg_store *store;
    struct limit_book *book;
    struct tg_gate *gate;
    struct tg_gate *protect_gate;
    struct admit *admit; /* what leases of protect_gate that were given to callers have in common */
    struct tg_keyring *ring;
    pthread_mutex_t ring_changes; /* whoever changes the ring, or reads names out of it */
    struct remote *remote;        /* with other gateways; null: nothing is */
    struct ledger *ledger;
    struct spending *spending;
    struct gateway_zone *zones; /* of budgets; by whoever makes a generation */
    struct generation
        *generations; /* all there are, the newest first; by the control thread's thread, and
                                       before it starts and after it ended by its maker */
    struct net_loop *control; /* where generations are freed; null: there is none */
    struct retry_budget retries;
    struct http_census census;
    struct gateway_counts counts;
    struct last_reload last_reload;
    struct log *log;         /* lines for whoever is on call */
    struct metrics *metrics; /* what is counted of finished requests; a part for each thread */
    struct watch *watch;     /* the last refusals */
    struct snapshot_memory
        *sampled;        /* what rates are made of; by the control thread's thread; null: none */
    struct trace *trace; /* spans that wait to be sent; null: none are wanted */
    atomic_bool draining;
    atomic_llong drain_ms; /* how long it may, by the newest generation */
    atomic_int working;    /* workers whose thread runs */
};

/* Takes the configuration over. Reads zones and certificates, opens the ledger, and makes the first
 * generation, for so many threads. `problem` says what is wrong. */
bool gateway_new(const struct service_table *services, struct config *config,
                 const struct clock *clock, size_t n_threads, struct gateway **gateway,
                 struct tg_problem *problem);

/* All threads have ended. */
void gateway_free(struct gateway *gateway);

/* ---- for generations ---- */

/* A zone by its name, which is kept until the end: what was reserved under it may be settled at any
 * time. Null: there is none of that name. */
const struct tg_zone *gateway_zone(struct gateway *gateway, const char *name,
                                   struct tg_problem *problem);

/* The settings of its gates; makes them if there are none. */
bool gateway_set_gates(struct gateway *gateway, const struct generation *generation, tg_ms now,
                       struct tg_problem *problem);

/* From any thread: nobody holds it any more. */
void gateway_generation_over(struct gateway *gateway, struct generation *generation);

/* A gate's wake: see struct waiter. */
void gateway_wake(void *context, void *waiter);

/* ---- retries ---- */

/* A call has come, or a client's own retry of one. */
void retry_budget_earn(struct retry_budget *budget, const struct config *config, bool is_retry,
                       tg_ms now);

/* Whether there may be one more. */
bool retry_budget_take(struct retry_budget *budget, const struct config *config, tg_ms now);

#endif
