/* control.h - the thread for all that is not a call: probes, administration, chores, new
 * configurations.
 *
 *     signal, request --> reload --> the workers, one by one
 *     /healthz, /metrics, /api/v1/... --> answers
 *     every 100 ms --> memory, leases that end, keys that were turned away, files that changed
 *
 * It has a loop of its own, so that who asks for metrics never delays a call, and no load of calls
 * keeps an answer from whoever is on call. It costs nothing while nobody asks.
 *
 * Everything here belongs to its thread, but for what says otherwise.
 */
#ifndef TG_SERVE_CONTROL_H
#define TG_SERVE_CONTROL_H

#include <pthread.h>

#include "io/http/http_client.h"
#include "io/http/http_server.h"
#include "io/net/loop.h"
#include "io/posix/memory.h"
#include "server/admin/snapshot.h"
#include "server/admin/state_log.h"
#include "server/runtime/gateway.h"
#include "server/serve/key_probe.h"

struct admin;
struct otlp;
struct reload;
struct worker;

struct control {
    struct gateway *gateway;
    size_t number; /* of its thread, among those that hold generations */
    struct generation *generation;
    struct worker *workers; /* whom it tells */
    size_t n_workers;
    struct net_loop *loop;
    struct http_client *client;
    struct remote_port *port;             /* to what gateways share; null: nothing */
    struct http_listener *probe;          /* of /healthz and the like; null: none */
    struct http_listener *admin_listener; /* null: none */
    struct admin *admin;                  /* with it */
    struct reload *reload;
    struct net_timer chores;
    struct memory memory;
    tg_ms memory_read_at, files_looked_at;
    struct key_probe key_probe;
    struct state_log state_log;
    struct snapshot_memory samples; /* for gRPC, where there is no admin API that has them */
    tg_ms sampled_at;
    struct otlp *otlp;      /* sends spans; null: nowhere */
    struct net_post hangup; /* of a terminal, or a signal of that name: another configuration */
    pthread_t thread;
    bool started;
};

/* Makes loop and listeners. `path` is of the configuration; null: it is never read again. Its
 * thread's number is `n_workers`. */
bool control_init(struct control *control, struct gateway *gateway, struct worker *workers,
                  size_t n_workers, const char *path, struct tg_problem *problem);
void control_fini(struct control *control);

bool control_start(struct control *control);

/* From any thread: the configuration is to be read again. */
void control_reload(struct control *control);

/* From any thread: it ends, and is waited for. */
void control_stop(struct control *control);

static inline tg_ms control_now(const struct control *control)
{
    return net_loop_now(control->loop);
}

#endif
