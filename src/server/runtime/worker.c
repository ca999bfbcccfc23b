/* worker.c - a thread that serves requests: see worker.h. */
#include "server/runtime/worker.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/core/problem.h"
#include "server/obs/log.h"
#include "server/obs/traces.h"
#include "server/remote/remote.h"
#include "server/runtime/inherited.h"
#include "server/runtime/rpc.h"
#include "server/runtime/service.h"
#include "server/runtime/start_gate.h"
#include "server/runtime/takeover_wire.h"

enum { DRAIN_CHECK_MS = 20, RPC_STREAMS = 1024 };

/* ---- services ---- */

static bool start_services(struct worker *worker, struct tg_problem *problem)
{
    const struct service_table *table = worker->gateway->services;

    for (; worker->n_started < table->n; worker->n_started++) {
        const struct service *service = table->list[worker->n_started];
        if (service->start != NULL && !service->start(worker, problem))
            return false;
    }
    return true;
}

static void stop_services(struct worker *worker)
{
    const struct service_table *table = worker->gateway->services;

    while (worker->n_started > 0) {
        const struct service *service = table->list[--worker->n_started];
        if (service->stop != NULL)
            service->stop(worker);
    }
}

static void renew_leases(void *arg)
{
    struct worker *worker = arg;
    const struct service_table *table = worker->gateway->services;

    assert(worker_is_mine(worker));
    for (size_t i = 0; i < table->n; i++)
        if (table->list[i]->renew != NULL)
            table->list[i]->renew(worker);
    net_timer_set(worker->loop, &worker->renewal,
                  worker->generation->config.gate.lease_ttl / 3 + 1);
}

/* ---- listening ---- */

/* With port 0 the system chooses once, and the other workers take what the first one got. */
static void address_of(const char *address, const struct http_listener *first, char *text,
                       size_t size)
{
    const char *port = strrchr(address, ':');

    if (first == NULL || port == NULL || strncmp(address, "unix:", 5) == 0)
        snprintf(text, size, "%s", address);
    else
        snprintf(text, size, "%.*s:%d", (int)(port - address), address, http_listener_port(first));
}

/* Fills in what both listeners have in common, and listens. */
static bool listen_at(struct worker *worker, const char *name, const char *configured,
                      const struct http_listener *first, struct http_listen_options *options,
                      struct http_listener **listener, struct tg_problem *problem)
{
    struct gateway *gateway = worker->gateway;
    int sockets[TAKEOVER_SOCKETS_MAX];
    char address[256];

    options->limits.header_bytes = (size_t)worker->generation->config.limits.header;
    options->census = &worker->gateway->census;
    options->tls = worker->generation->tls;
    options->alone = first == NULL;
    options->first = first;
    options->sockets = sockets;
    options->n_sockets = inherited_take(gateway->inherited, name, configured, worker->number,
                                        gateway->n_threads - 1, sockets, TAKEOVER_SOCKETS_MAX);
    options->borrowed = options->n_sockets > 0;
    options->held = gateway->inherited != NULL;
    address_of(configured, first, address, sizeof address);
    return http_listen(worker->loop, address, options, listener, problem) == TG_OK;
}

static bool listen_for_calls(struct worker *worker, const struct worker *first,
                             struct tg_problem *problem)
{
    struct http_listen_options options;

    http_listen_options_init(&options);
    options.ops = worker->gateway->services->gateway_ops;
    options.context = worker;
    options.http2 = true;
    return listen_at(worker, "gateway", worker->generation->config.listen.gateway,
                     worker != first ? first->listener : NULL, &options, &worker->listener,
                     problem);
}

/* A client may cancel all of its streams at once, which it does when their common deadline comes,
 * and do so again and again. The bounds on resets are wide enough for that: otherwise the
 * connection would be closed, and its other streams with it. */
static bool listen_for_rpcs(struct worker *worker, const struct worker *first,
                            struct tg_problem *problem)
{
    const char *address = worker->generation->config.listen.grpc;
    struct http_listen_options options;

    if (address == NULL)
        return true;
    if (!rpc_new(worker, &worker->rpc))
        return false;
    http_listen_options_init(&options);
    options.ops = worker->gateway->services->grpc_ops;
    options.context = worker;
    options.http2 = true;
    options.limits.streams = RPC_STREAMS;
    options.limits.resets = 2 * RPC_STREAMS;
    options.limits.resets_per_s = RPC_STREAMS;
    return listen_at(worker, "grpc", address, worker != first ? first->grpc : NULL, &options,
                     &worker->grpc, problem);
}

/* One of the sockets by which a process relays requests that was taken over. Should it not be
 * there, that process answers them itself, by the limits that it had. */
static bool listen_for_relayed(struct worker *worker, const char *suffix, bool grpc, char path[108],
                               struct http_listener **listener, struct tg_problem *problem)
{
    const struct service_table *table = worker->gateway->services;
    struct http_listen_options options;
    char name[32], address[120];
    int fd;

    snprintf(name, sizeof name, "%s-%ld", suffix, (long)getpid());
    if (!takeover_path(worker->generation->config.ledger.path, name, path)) {
        path[0] = '\0';
        return true;
    }
    fd = takeover_listen(path, SOCK_STREAM, problem);
    if (fd < 0) {
        path[0] = '\0';
        return false;
    }
    http_listen_options_init(&options);
    options.ops = grpc ? table->relayed_grpc_ops : table->relayed_ops;
    options.context = worker;
    options.http2 = true;
    options.limits.header_bytes = (size_t)worker->generation->config.limits.header;
    options.limits.streams = RPC_STREAMS;
    options.sockets = &fd;
    options.n_sockets = 1;
    snprintf(address, sizeof address, "unix:%s", path);
    return http_listen(worker->loop, address, &options, listener, problem) == TG_OK;
}

static bool listen_for_predecessor(struct worker *worker, struct tg_problem *problem)
{
    struct gateway *gateway = worker->gateway;
    const struct inherited *inherited = gateway->inherited;

    if (worker->number > 0 || inherited == NULL || inherited->lock_fd < 0 ||
        gateway->services->relayed_ops == NULL)
        return true;
    return listen_for_relayed(worker, ".relay", false, gateway->relay_path, &worker->relay,
                              problem) &&
           (worker->grpc == NULL ||
            listen_for_relayed(worker, ".rpcs", true, gateway->grpc_relay_path, &worker->grpc_relay,
                               problem));
}

/* ---- another generation ---- */

/* Connections that come now get the new certificate; whether there is one at all is for a restart
 * to change. */
static void take_generation(void *arg)
{
    struct worker *worker = arg;
    struct generation *before = worker->generation;

    assert(worker_is_mine(worker) && worker->newer != NULL);
    assert(worker->newer->number > before->number);
    worker->generation = worker->newer;
    if (before->tls && worker->generation->tls) {
        http_listener_set_tls(worker->listener, worker->generation->tls);
        if (worker->grpc)
            http_listener_set_tls(worker->grpc, worker->generation->tls);
    }
    generation_leave(before, worker->number);
    worker->newer = NULL;
    worker->taken(worker->taken_arg);
}

void worker_take(struct worker *worker, struct generation *generation, void (*taken)(void *arg),
                 void *arg)
{
    assert(worker->newer == NULL); /* the one before has been taken by all workers */
    worker->newer = generation;
    worker->taken = taken;
    worker->taken_arg = arg;
    net_loop_post(worker->loop, &worker->taking);
}

/* ---- holding ---- */

static void hold_listeners(struct worker *worker, bool held)
{
    http_listener_hold(worker->listener, held);
    if (worker->grpc)
        http_listener_hold(worker->grpc, held);
}

static void hold_worker(void *arg)
{
    struct worker *worker = arg;

    assert(worker_is_mine(worker));
    hold_listeners(worker, worker->is_held);
    worker->held(worker->held_arg);
}

void worker_hold(struct worker *worker, bool held, void (*done)(void *arg), void *arg)
{
    worker->is_held = held;
    worker->held = done;
    worker->held_arg = arg;
    net_loop_post(worker->loop, &worker->holding);
}

void worker_release(struct worker *worker)
{
    assert(worker_is_mine(worker));
    hold_listeners(worker, false);
}

/* ---- ending ---- */

static size_t used_by(const struct worker *worker, const struct http_listener *listener)
{
    if (listener == NULL)
        return 0;
    return worker->retired ? http_listener_open(listener) : http_listener_busy(listener);
}

/* Whether a process that was taken over before still relays requests, or may. */
static bool has_relayed(const struct worker *worker)
{
    return worker->relay != NULL &&
           (http_listener_busy(worker->relay) > 0 ||
            (worker->grpc_relay != NULL && http_listener_busy(worker->grpc_relay) > 0) ||
            (worker->retired && atomic_load(&worker->gateway->predecessors) > 0));
}

/* Ends the loop when the last request has ended, and if it is retired the last connection. */
static void end_if_drained(void *arg)
{
    struct worker *worker = arg;

    if (used_by(worker, worker->listener) == 0 && used_by(worker, worker->grpc) == 0 &&
        http_client_busy(worker->client) == 0 && !has_relayed(worker))
        net_loop_stop(worker->loop);
    else
        net_timer_set(worker->loop, &worker->drained, DRAIN_CHECK_MS);
}

static void stop_taking(void *arg)
{
    struct worker *worker = arg;
    const struct service_table *table = worker->gateway->services;

    assert(worker_is_mine(worker));
    worker->retired = false;
    http_listener_drain(worker->listener);
    if (worker->grpc) {
        rpc_drain(worker->rpc);
        http_listener_drain(worker->grpc);
    }
    for (size_t i = 0; i < table->n; i++)
        if (table->list[i]->drain != NULL)
            table->list[i]->drain(worker);
    end_if_drained(worker);
}

static void retire_worker(void *arg)
{
    struct worker *worker = arg;

    assert(worker_is_mine(worker));
    worker->retired = true;
    http_listener_retire(worker->listener);
    if (worker->grpc) {
        rpc_drain(worker->rpc);
        http_listener_retire(worker->grpc);
    }
    end_if_drained(worker);
}

void worker_retire(struct worker *worker)
{
    net_loop_post(worker->loop, &worker->retiring);
}

void worker_drain(struct worker *worker)
{
    net_loop_post(worker->loop, &worker->stopping);
}

/* ---- life ---- */

bool worker_init(struct worker *worker, struct gateway *gateway, size_t number,
                 const struct worker *first, struct tg_problem *problem)
{
    struct http_client_options options;

    memset(worker, 0, sizeof *worker);
    worker->gateway = gateway;
    worker->generation = gateway_newest(gateway);
    worker->number = number;
    random_init(&worker->random, gateway->seed, number + 1);
    net_post_init(&worker->stopping, stop_taking, worker);
    net_post_init(&worker->retiring, retire_worker, worker);
    net_post_init(&worker->holding, hold_worker, worker);
    net_post_init(&worker->taking, take_generation, worker);
    net_timer_init(&worker->drained, end_if_drained, worker);
    problem_fail(problem, "no memory for a worker");
    http_client_options_init(&options);
    worker->reader = json_reader_new();
    if (worker->reader == NULL || net_loop_new(&gateway->clock, &worker->loop) ||
        http_client_new(worker->loop, &options, &worker->client))
        return false;
    if ((gateway->log && (worker->log = log_lane_new(gateway->log)) == NULL) ||
        (gateway->trace && (worker->spans = trace_lane_new(gateway->trace)) == NULL))
        return false;
    if (!remote_port_new(gateway->remote, worker->loop, false, &worker->port, problem) ||
        !start_services(worker, problem) || !listen_for_calls(worker, first, problem) ||
        !listen_for_rpcs(worker, first, problem) || !listen_for_predecessor(worker, problem))
        return false;
    net_timer_init(&worker->renewal, renew_leases, worker);
    net_timer_set(worker->loop, &worker->renewal,
                  worker->generation->config.gate.lease_ttl / 3 + 1);
    return true;
}

static void *worker_run(void *arg)
{
    struct worker *worker = arg;

    if (start_gate_wait(worker->gateway->start_gate)) {
        worker->self = pthread_self();
        worker->runs = true;
        net_loop_run(worker->loop);
        worker->runs = false;
    }
    int working = atomic_fetch_sub(&worker->gateway->working, 1);
    assert(working > 0);
    (void)working;
    return NULL;
}

bool worker_start(struct worker *worker)
{
    atomic_fetch_add(&worker->gateway->working, 1);
    worker->started = pthread_create(&worker->thread, NULL, worker_run, worker) == 0;
    if (!worker->started)
        atomic_fetch_sub(&worker->gateway->working, 1);
    return worker->started;
}

void worker_join(struct worker *worker)
{
    if (worker->started)
        pthread_join(worker->thread, NULL);
    worker->started = false;
}

void worker_fini(struct worker *worker)
{
    assert(!worker->started); /* it has been joined */
    if (worker->loop) {
        net_timer_stop(worker->loop, &worker->renewal);
        net_timer_stop(worker->loop, &worker->drained);
        net_loop_unpost(worker->loop, &worker->stopping);
        net_loop_unpost(worker->loop, &worker->retiring);
        net_loop_unpost(worker->loop, &worker->holding);
        net_loop_unpost(worker->loop, &worker->taking);
    }
    if (worker->listener)
        http_listener_free(worker->listener);
    if (worker->grpc)
        http_listener_free(worker->grpc);
    http_listener_free(worker->relay);
    http_listener_free(worker->grpc_relay);
    if (worker->gateway)
        stop_services(worker);
    rpc_free(worker->rpc);
    if (worker->client)
        http_client_free(worker->client);
    remote_port_free(worker->port);
    if (worker->loop)
        net_loop_free(worker->loop);
    json_reader_free(worker->reader);
    memset(worker, 0, sizeof *worker);
}
