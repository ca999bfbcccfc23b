/* service.h - what the gateway serves: one struct of functions for each service.
 *
 *     serve/services.c    the one table of all services, in the order in which they are asked
 *     serve/front.c       asks them who owns a request, and hands its events to the owner
 *     runtime             calls the hooks below, and knows no service by its name
 *
 * A service may leave out every hook that it has no use for: null is never called.
 *
 *     open -- read ----------------------------------------- forget -- close     the process
 *                \-- start -- begin .. gone, renew, drain -- stop --/            each worker
 *                 \- start_control ------- tick ------ stop_control /            the control thread
 *
 * Whatever a service keeps is its own, behind a pointer that only it dereferences: `admit` of
 * struct gateway, as `me`; `envoy` of a generation; `proxy`, `admit`, `admin`, `explain` and `me`
 * of a worker; `admin` and `explain` of the control thread.
 */
#ifndef TG_RUNTIME_SERVICE_H
#define TG_RUNTIME_SERVICE_H

#include "io/http/http_server.h"
#include "tollgate.h"

struct control;
struct exposition;
struct gateway;
struct generation;
struct grpc_service;
struct worker;

/* The listeners on which a service is asked about requests. */
enum {
    SERVICE_ON_GATEWAY = 1 << 0, /* listen.gateway */
    SERVICE_ON_GRPC = 1 << 1,    /* listen.grpc: what is not for one of the RPCs */
};

struct service {
    const char *name;

    /* ---- a request, on its worker's thread ----
     *
     * begin() takes the request, or returns false and leaves it as it was. Who takes it sets
     * in->owner to a struct whose first member points to this service, or aborts it: then the
     * events below do not come. */
    unsigned listeners; /* where begin() is asked: SERVICE_ON_GATEWAY | SERVICE_ON_GRPC */
    bool (*begin)(struct worker *worker, struct http_inbound *in);
    void (*data)(struct http_inbound *in, struct slice bytes);
    void (*end)(struct http_inbound *in);
    void (*room)(struct http_inbound *in);
    void (*gone)(struct http_inbound *in, enum http_why why);

    /* The RPCs that it serves on listen.grpc. */
    const struct grpc_service *const *rpcs;
    size_t n_rpcs;

    /* ---- a client's connection, on its worker's thread ---- */

    void (*connection_closed)(struct worker *worker, uint64_t connection);
    bool (*connection_is_kept)(struct worker *worker, uint64_t connection); /* though it is idle */

    /* ---- a worker ----
     *
     * start() comes before the worker listens, and before its thread runs. stop() comes once for
     * each start() that was true, when the listeners have been freed. */
    bool (*start)(struct worker *worker, struct tg_problem *problem);
    void (*renew)(struct worker *worker); /* leases that would end before they are renewed again */
    void (*drain)(struct worker *worker); /* no more requests will come */
    void (*stop)(struct worker *worker);

    /* ---- the control thread, in the same way ---- */

    bool (*start_control)(struct control *control, struct tg_problem *problem);
    void (*tick)(struct control *control, tg_ms now); /* ten times a second */
    void (*stop_control)(struct control *control);

    /* ---- a generation ----
     *
     * read() wants the limits of the service in the gateway's book and keeps in the generation what
     * the configuration says of it. want_limits() wants the same limits again, after the reading of
     * another configuration has failed. forget() frees what was kept, whatever read() returned. */
    bool (*read)(struct generation *generation, const struct generation *before,
                 struct tg_problem *problem);
    bool (*want_limits)(struct generation *generation);
    void (*forget)(struct generation *generation);

    /* ---- the process ----
     *
     * open() comes before the first generation is read, close() after the last was freed and once
     * for each open() that was true. */
    bool (*open)(struct gateway *gateway, struct tg_problem *problem);
    void (*close)(struct gateway *gateway);

    /* Its families on the page of metrics, with at most so many lines each of things that the
     * configuration names. Returns how many more there would have been. On the control thread. */
    size_t (*write_metrics)(struct exposition *page, const struct generation *generation,
                            size_t most);
};

/* What a process serves. Static. */
struct service_table {
    const struct service *const *list; /* asked in this order; stopped in the reverse order */
    size_t n;
    const struct http_server_ops *gateway_ops; /* for listen.gateway; the context is the worker */
    const struct http_server_ops *grpc_ops;    /* for listen.grpc; the same */
    /* For what a process relays that this one has taken over from; null: it relays nothing. */
    const struct http_server_ops *relayed_ops, *relayed_grpc_ops;
};

#endif
