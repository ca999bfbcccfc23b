/* worker.h - a thread that serves requests: its loop, its listeners, its connections to providers.
 *
 *     worker_init --> worker_start --> [requests] --> worker_drain --> worker_join --> worker_fini
 *
 * A worker shares nothing with the others but the gateway. What its struct holds belongs to its
 * thread, and before worker_start() and after worker_join() to whoever owns the worker.
 */
#ifndef TG_RUNTIME_WORKER_H
#define TG_RUNTIME_WORKER_H

#include <pthread.h>

#include "io/http/http_client.h"
#include "io/http/http_server.h"
#include "io/net/loop.h"
#include "io/text/json_read.h"
#include "lib/core/random.h"
#include "server/runtime/gateway.h"

struct admin_worker;
struct admit_worker;
struct explain_worker;
struct log_lane;
struct me_worker;
struct proxy_worker;
struct rpc;
struct remote_port;
struct trace_lane;

/* Who waits at a gate: what `waiter` of a struct tg_call points to. A gate's wake(), which may come
 * from any thread, posts `woken` to the loop and does nothing else. */
struct waiter {
    struct net_loop *loop;
    struct net_post woken;
};

static inline void waiter_init(struct waiter *waiter, struct net_loop *loop, net_post_run *run,
                               void *arg)
{
    waiter->loop = loop;
    net_post_init(&waiter->woken, run, arg);
}

static inline void waiter_wake(struct waiter *waiter)
{
    net_loop_post(waiter->loop, &waiter->woken);
}

/* After its place at the gate was given back: a wake that is on its way does not arrive. */
static inline void waiter_forget(struct waiter *waiter)
{
    net_loop_unpost(waiter->loop, &waiter->woken);
}

struct worker {
    struct gateway *gateway;
    struct generation *generation; /* what requests that come now run under */
    size_t number;                 /* its thread, among those that count in generations */
    struct net_loop *loop;
    struct http_client *client;
    struct remote_port *port;         /* to what gateways share; null: they share nothing */
    struct http_listener *listener;   /* on listen.gateway */
    struct http_listener *grpc;       /* on listen.grpc; null: it is not set */
    struct http_listener *relay;      /* what a process relays that was taken over; null: none */
    struct http_listener *grpc_relay; /* the same for listen.grpc */
    struct rpc *rpc;                  /* its gRPC server; null: the same */
    struct json_reader *reader;
    struct random random;     /* jitter, ids: not for secrets */
    struct log_lane *log;     /* null: there is no log */
    struct trace_lane *spans; /* null: traces are not sent */
    tg_ms watched_at;         /* the second in which `n_watched` refusals went to the watch */
    int n_watched;
    size_t n_started;         /* services whose start() was true */
    struct net_timer renewal; /* the next renew() of the services */
    struct net_post stopping, retiring;
    bool retired;
    struct net_timer drained; /* the next check whether all requests have ended */
    struct net_post holding;  /* holds the listeners, or not: `is_held` */
    bool is_held;
    void (*held)(void *arg); /* is told when that is done */
    void *held_arg;
    struct net_post taking; /* takes the generation `newer` */
    struct generation *newer;
    void (*taken)(void *arg); /* is told when it has been taken */
    void *taken_arg;
    pthread_t thread; /* for its owner, who starts and joins it */
    bool started;
    pthread_t self; /* the same, written by the thread itself */
    bool runs;      /* `self` is set: what belongs to the thread may be used by no other */

    /* What services keep here: each for itself. */
    struct proxy_worker *proxy;
    struct admit_worker *admit;
    struct admin_worker *admin;
    struct explain_worker *explain;
    struct me_worker *me;
};

/* Makes loop, client and listeners, and starts the services. Where an address has port 0, the port
 * is that of the first worker. On false, worker_fini() takes it. */
bool worker_init(struct worker *worker, struct gateway *gateway, size_t number,
                 const struct worker *first, struct tg_problem *problem);
void worker_fini(struct worker *worker);

bool worker_start(struct worker *worker);

/* From the control thread: takes a new generation at its next turn, and then calls taken(), on the
 * worker's thread. */
void worker_take(struct worker *worker, struct generation *generation, void (*taken)(void *arg),
                 void *arg);

/* From the control thread: accepts no connection from its next turn on, or accepts again, and then
 * calls done() on the worker's thread. Who connects meanwhile waits. One at a time. */
void worker_hold(struct worker *worker, bool held, void (*done)(void *arg), void *arg);

/* Before its thread runs: where the gateway has inherited something, listeners begin held. */
void worker_release(struct worker *worker);

/* From any thread: takes no more connections, and ends when the requests under way have ended. */
void worker_drain(struct worker *worker);

/* The same where another process has its sockets: connections are served until they end by
 * themselves, and the worker ends with the last. */
void worker_retire(struct worker *worker);
void worker_join(struct worker *worker);

/* Whether what belongs to the worker's thread may be used here: for asserts. */
static inline bool worker_is_mine(const struct worker *worker)
{
    return !worker->runs || pthread_equal(worker->self, pthread_self());
}

static inline tg_ms worker_now(struct worker *worker)
{
    return net_loop_now(worker->loop);
}

/* The same by the wall clock. */
static inline tg_ms worker_wall(struct worker *worker)
{
    return clock_wall_of(&worker->gateway->clock, worker_now(worker));
}

#endif
