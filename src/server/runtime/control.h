/* control.h - the control thread: everything that is not a request of a client's.
 *
 *     signal, request --> reload --> the workers, one by one
 *     listeners of services --> pages, API
 *     every 100 ms --> memory, leases that end, keys that were turned away, files that changed,
 *                      tick() of each service
 *
 * It has a loop of its own, so that whoever asks for metrics never delays a call, and no load of
 * calls keeps an answer from whoever is on call. It costs nothing while nobody asks.
 *
 * Everything here belongs to its thread, unless the comment says otherwise.
 */
#ifndef TG_RUNTIME_CONTROL_H
#define TG_RUNTIME_CONTROL_H

#include <pthread.h>

#include "io/http/http_client.h"
#include "io/http/http_server.h"
#include "io/net/loop.h"
#include "io/posix/memory.h"
#include "server/runtime/gateway.h"
#include "server/runtime/key_probe.h"

struct admin_control;
struct explainer;
struct handover;
struct predecessor;
struct reload;
struct worker;

#define CONTROL_LISTENERS_MAX 4

/* A listener of a service on the control thread. */
struct control_listener {
    const char *name; /* "admin"; static */
    char *address;    /* its own: generations come and go */
    struct http_listener *listener;
    bool is_tls; /* it shows the certificate of listen.admin_tls */
};

struct control {
    struct gateway *gateway;
    size_t number;                 /* its thread, among those that count in generations */
    struct generation *generation; /* the newest */
    const char *path;              /* the file of the configuration; null: it is never read again */
    struct worker *workers;        /* whom it tells of a new generation */
    size_t n_workers;
    struct net_loop *loop;
    struct http_client *client;
    struct remote_port *port; /* to what gateways share; null: nothing */
    struct control_listener listeners[CONTROL_LISTENERS_MAX];
    size_t n_listeners;
    size_t n_started;            /* services whose start_control() was true */
    struct admin_control *admin; /* what services keep here: each for itself */
    struct explainer *explain;
    struct reload *reload;
    struct net_timer chores;
    struct memory memory;
    tg_ms memory_read_at, files_checked_at;
    struct key_probe key_probe;
    struct handover *handover;             /* null: nobody can take over from this process */
    LIST_HEAD(, predecessor) predecessors; /* processes that this one has taken over from */
    bool shares_ledger;                    /* with them, as far as Redis knows */
    tg_ms shared_at;                       /* when that was last written to Redis */
    void (*predecessor_ended)(void *arg);  /* called when one has ended; may be null */
    void *predecessor_arg;
    struct net_post hangup; /* SIGHUP has come: reads the configuration again */
    pthread_t thread;       /* for its owner, who starts and joins it */
    bool started;
    pthread_t self; /* the same, written by the thread itself */
    bool runs;      /* `self` is set: what belongs to the thread may be used by no other */
};

/* Makes the loop, and what services have on it. `path` is of the configuration, borrowed; null: it
 * is never read again. Its thread's number is `n_workers`. On false, control_fini() takes it. */
bool control_init(struct control *control, struct gateway *gateway, struct worker *workers,
                  size_t n_workers, const char *path, struct tg_problem *problem);
void control_fini(struct control *control);

bool control_start(struct control *control);

/* On its thread, or before that runs: its listeners accept nothing, or accept again. They begin
 * held where the gateway has inherited something: see worker_hold(). */
void control_hold(struct control *control, bool held);

/* On its thread: listeners with TLS show the certificate of the newest generation, if it has
 * one. */
void control_renew_tls(struct control *control);

/* From any thread: the configuration is to be read again. */
void control_reload(struct control *control);

/* From any thread: it ends, and is waited for. */
void control_stop(struct control *control);

/* ---- for services, in start_control() ---- */

/* A listener that is freed before stop_control() comes; with the `tls` of a generation, or null:
 * plain. A new generation's takes its place. */
struct tls_context;
bool control_listen(struct control *control, const char *name, const char *address,
                    struct tls_context *tls, const struct http_server_ops *ops, void *context,
                    struct tg_problem *problem);

/* Frees all of them: for who fails after control_listen(). */
void control_close_listeners(struct control *control);

/* Whether what belongs to the control thread may be used here: for asserts. */
static inline bool control_is_mine(const struct control *control)
{
    return !control->runs || pthread_equal(control->self, pthread_self());
}

static inline tg_ms control_now(const struct control *control)
{
    return net_loop_now(control->loop);
}

#endif
