/* worker.h - a thread that serves: a loop, its listeners, its connections to providers, its calls.
 * */
#ifndef TG_RUNTIME_WORKER_H
#define TG_RUNTIME_WORKER_H

#include <pthread.h>
#include <sys/queue.h>

#include "io/http/http_client.h"
#include "io/http/http_server.h"
#include "io/net/loop.h"
#include "io/text/json_read.h"
#include "lib/core/random.h"
#include "server/runtime/gateway.h"

struct admit_pending;
struct call;
struct log_lane;
struct reload;
struct rpc;
struct remote_port;
struct trace_lane;

/* One listener serves calls to models and protected routes: what in->owner points to begins with a
 * pointer to these, which take what comes after begin(). */
struct exchange_ops {
    void (*data)(struct http_inbound *in, struct slice bytes);
    void (*end)(struct http_inbound *in);
    void (*room)(struct http_inbound *in);
    void (*gone)(struct http_inbound *in, enum http_why why);
};

/* Who waits at a gate: what `waiter` of a struct tg_call points to. A gate's wake, which may come
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

/* No wake reaches it any more, once what it waited for has been given back. */
static inline void waiter_forget(struct waiter *waiter)
{
    net_loop_unpost(waiter->loop, &waiter->woken);
}

struct worker {
    struct gateway *gateway;
    struct generation *generation; /* what calls that come now run under */
    size_t number;                 /* of its thread, among those that hold generations */
    struct net_loop *loop;
    struct http_client *client;
    struct remote_port *port;       /* to what gateways share; null: they share nothing */
    struct http_listener *listener; /* of the gateway */
    struct http_listener *grpc;     /* of listen.grpc; null: none, as is */
    struct rpc *rpc;                /* its services */
    struct json_reader *reader;
    struct random random;     /* jitter, ids: not for secrets */
    struct log_lane *log;     /* null: nobody listens, here and below */
    struct trace_lane *spans; /* of traces */
    struct call *spare;       /* structs of calls that have ended */
    size_t n_spare;
    struct call *calls;                       /* that are under way */
    LIST_HEAD(, admit_pending) accounts;      /* questions whose leases were charged at `port` */
    LIST_HEAD(, admit_pending) spare_pending; /* structs of questions that have ended */
    tg_ms watched_at; /* the second in which so many refusals went to the watch */
    int n_watched;
    struct net_timer renewal; /* of their leases */
    struct net_post stopping;
    struct net_timer drained;
    struct net_post taking;   /* the generation */
    struct generation *newer; /* that is to be taken, */
    struct reload *reload;    /* and who has to know when it is */
    pthread_t thread;
    bool started;
};

/* Makes loop, client and listeners. `port` of the gateway's listener is taken from the first worker
 * where the address has port 0. */
bool worker_init(struct worker *worker, struct gateway *gateway, size_t number,
                 const struct worker *first, struct tg_problem *problem);
void worker_fini(struct worker *worker);

bool worker_start(struct worker *worker);

/* From the control thread's thread: takes a new generation at its next turn, and then calls
 * reload_taken(). */
void worker_take(struct worker *worker, struct generation *generation, struct reload *reload);

/* From any thread: takes no more connections, ends when the calls that run have ended. */
void worker_drain(struct worker *worker);
void worker_join(struct worker *worker);

static inline tg_ms worker_now(struct worker *worker)
{
    return net_loop_now(worker->loop);
}

#endif
