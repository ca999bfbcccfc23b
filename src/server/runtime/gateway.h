/* gateway.h - what lives as long as the process, and is shared by its threads. Read this first.
 *
 *     gateway                    what outlasts a configuration:
 *         gate                   what every call passes, to a model, to a `protect` route or of a
 *                                caller of Admit: memory, fairness, concurrency, policy, rate and
 *                                cost. Before it stand the slots of its kind (generation.h)
 *         ring                   keys of providers, in pools
 *         spending, ledger       money
 *         remote                 what several gateways share; null: nothing is
 *     generation                 what one reading of the configuration made (generation.h)
 *     worker, worker, ...        threads: an event loop, listeners, connections (worker.h)
 *     control                    one more thread, for everything that is not a request: it makes
 *                                new generations (reload.h) and does chores (control.h)
 *     service, service, ...      what is served (service.h): their rooms are above this one, and
 *                                nothing here knows them but by their table
 *
 * Everything that moves here is the library's own, or atomic, and may be used by any thread, unless
 * its comment says otherwise.
 */
#ifndef TG_RUNTIME_GATEWAY_H
#define TG_RUNTIME_GATEWAY_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "io/http/http_server.h"
#include "io/posix/clock.h"
#include "server/runtime/generation.h"
#include "server/runtime/tenant_share.h"
#include "server/upstream/disabled_keys.h"
#include "server/upstream/key_failures.h"

struct admit;
struct fleet;
struct gateway_zone;
struct log;
struct me;
struct metrics;
struct net_pool;
struct service_table;
struct snapshot_memory;
struct recorder;
struct remote;
struct trace;
struct watch;

struct gateway_counts {
    atomic_ullong calls;
    atomic_ullong refused[REPLY_COUNT];
    atomic_ullong retries, fallbacks, hangups, usage_missing, usage_absurd, clamped;
    atomic_ullong fallback_uncarried; /* calls that could not have gone to one of their fallbacks */
    atomic_llong open;                /* requests between their head and their end */
    atomic_llong buffered;            /* bytes that buffered bodies take up */
    atomic_ullong reloads, reloads_failed;
    atomic_bool reload_failed; /* the last reload failed */
};

/* How the last reading of a configuration went; belongs to the control thread. */
struct last_reload {
    tg_ms at; /* when it ended; 0: there was none */
    bool ok;
    const char *why; /* static */
    size_t errors;
};

#define GATEWAY_NODE_BYTES 10

struct object_owners;
struct prefix_memory;
struct jwks;

struct gateway {
    const struct service_table *services; /* what it serves */
    size_t n_open;                        /* services whose open() was true */
    struct clock clock;
    uint64_t seed;
    uint64_t chance; /* what the draws of laws and keys begin with: no secret, unlike the seed */
    char node_id[GATEWAY_NODE_BYTES + 1]; /* names this process among others: random, [a-z0-9] */
    struct inherited *inherited;          /* while it starts; null: nothing */
    size_t n_threads; /* threads that count in generations: the workers, and the control thread */
    struct tg_store *store;
    struct limit_book *book;
    struct tg_gate *gate;
    void (*wake)(void *context, void *waiter); /* what gates call: gateway_wake(), or a replay's */
    struct admit *admit;                       /* what services keep here: each for itself */
    struct me *me;
    struct tg_keyring *ring;
    pthread_mutex_t ring_changes;  /* held by whoever changes the ring, or reads names out of it */
    struct disabled_keys disabled; /* keys that an operator has taken out of use */
    struct net_pool *pool; /* threads for bodies that take long to read; each has a json_reader */
    struct remote *remote; /* what several gateways share; null: nothing is */
    struct fleet *fleet;   /* what their administrators made; the control thread's; null likewise */
    atomic_int fleet_state;   /* its enum fleet_state, for all threads; */
    atomic_bool fleet_evicts; /* whether the store may forget keys, */
    atomic_bool fleet_unread; /* and whether it cannot serve yet: nothing of it was read, ever, or
                                 the store may forget keys and it was never ready */
    bool is_told;             /* a replay: what the remote store answered is recorded */
    struct ledger *ledger;
    struct spending *spending;
    struct prefix_memory *prefixes;   /* what providers have counted of tenants' conversations */
    struct object_owners *owners;     /* whose objects at providers are whose */
    struct jwks *jwks;                /* the keys that sign tokens of callers */
    struct expected_cost *expected;   /* what part of their bounds calls have cost */
    struct key_failures *failures;    /* who was served with providers' keys, and who failed */
    SLIST_HEAD(, gateway_zone) zones; /* time zones of budgets; belong to who makes a generation */
    /* All there are, the newest first. They belong to the control thread, and before it starts and
     * after it has ended to whoever owns the gateway. */
    LIST_HEAD(, generation) generations;
    struct net_loop *control;    /* where generations are freed; null: there is no control thread */
    struct tenant_share callers; /* what those who ask for decisions take up, all together */
    struct http_census census;
    struct gateway_counts counts;
    struct last_reload last_reload;
    struct recorder
        *recorder;           /* the order of operations, for --record; null: nothing is recorded */
    tg_ms began_at;          /* when the first configuration was put in force */
    bool policy_recalled;    /* the policy began with what it had learned before */
    struct log *log;         /* lines for whoever is on call; null: none */
    struct metrics *metrics; /* what is counted of finished requests; a part for each thread */
    struct watch *watch;     /* the last refusals; null: none are kept */
    struct snapshot_memory *sampled; /* what the service admin makes rates of; null: nothing */
    struct trace *trace;             /* spans that wait to be sent; null: none are wanted */
    atomic_bool draining;            /* requests that come now are refused */
    struct start_gate *start_gate;   /* where threads wait before they run; null: nowhere */
    /* Another process takes over, and requests that still come are relayed there: on
     * listen.gateway, and on listen.grpc. The control thread sets them, and unsets them if the
     * other one dies before it serves; null: not. */
    struct http_origin *_Atomic successor, *_Atomic grpc_successor;
    char relay_path[108], grpc_relay_path[108]; /* sockets for what those relay; empty: none */
    uint64_t left_behind; /* journals of dead processes that were moved when budgets were read; the
                             control thread's, */
    tg_ms left_tried_at;  /* and when it last tried to read those */
    atomic_int predecessors;  /* processes it has taken over from that still settle calls */
    atomic_bool handing_over; /* another process starts: what it has read may not be changed */
    bool changing;            /* an administrator's change is being made; the control thread's */
    atomic_llong drain_ms;    /* how long a drain may take, by the newest generation */
    atomic_int working;       /* workers whose thread runs */
};

static inline struct generation *gateway_newest(const struct gateway *gateway)
{
    return LIST_FIRST(&gateway->generations);
}

/* Takes the configuration over. Reads zones and certificates, opens the ledger, and makes the first
 * generation, for so many threads. `problem` says what is wrong. */
bool gateway_new(const struct service_table *services, struct config *config,
                 const struct clock *clock, size_t n_threads, struct gateway **gateway,
                 struct tg_problem *problem);

/* The same with what a process before it, or the system, has left for it; borrowed until the
 * listeners are there. Null: nothing. */
struct inherited;
bool gateway_new_from(const struct service_table *services, struct config *config,
                      const struct clock *clock, size_t n_threads, struct inherited *inherited,
                      struct gateway **gateway, struct tg_problem *problem);

/* The same for a replay: nothing is opened, connected or kept, time is what it is told, and the
 * draws begin with `chance`. `is_told`: rate and cost are decided by a store that is not there, and
 * whose answers are given. Waiting calls are woken by `wake`. */
bool gateway_new_virtual(struct config *config, const struct clock *clock, tg_ms now,
                         uint64_t chance, bool is_told, void (*wake)(void *context, void *waiter),
                         struct gateway **gateway, struct tg_problem *problem);

/* All threads have ended. */
void gateway_free(struct gateway *gateway);

/* Writes what the policy has learned into the ledger, for the next process. */
void gateway_keep_policy(struct gateway *gateway);

/* How many connections there may be, by the newest configuration. */
void gateway_set_census(struct gateway *gateway, const struct config *config);

/* ---- for generations ---- */

/* A time zone by its name, kept until the end: what was reserved under it may be settled at any
 * time. Null: `problem` says why. */
const struct tg_zone *gateway_zone(struct gateway *gateway, const char *name,
                                   struct tg_problem *problem);

/* Gives the gate the settings of a generation; makes it if there is none. */
bool gateway_set_gate(struct gateway *gateway, const struct generation *generation, tg_ms now,
                      struct tg_problem *problem);

/* From any thread: nobody refers to it any more, so the control thread frees it. */
void gateway_generation_over(struct gateway *gateway, struct generation *generation);

/* The wake() of every gate: see struct waiter. */
void gateway_wake(void *context, void *waiter);

#endif
