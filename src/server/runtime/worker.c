/* worker.c - a thread that serves requests: see worker.h. */
#include "server/runtime/worker.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/core/problem.h"
#include "server/obs/log.h"
#include "server/obs/traces.h"
#include "server/remote/remote.h"
#include "server/runtime/rpc.h"
#include "server/runtime/service.h"

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
static bool listen_at(struct worker *worker, const char *name, const struct http_listener *first,
                      struct http_listen_options *options, struct http_listener **listener,
                      struct tg_problem *problem)
{
    char address[256];

    options->limits.header_bytes = (size_t)worker->generation->config.limits.header;
    options->census = &worker->gateway->census;
    options->tls = worker->generation->tls;
    options->alone = first == NULL;
    options->first = first;
    address_of(name, first, address, sizeof address);
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
    return listen_at(worker, worker->generation->config.listen.gateway,
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
    return listen_at(worker, address, worker != first ? first->grpc : NULL, &options, &worker->grpc,
                     problem);
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

/* ---- ending ---- */

/* Ends the loop when the last request has ended. */
static void end_if_drained(void *arg)
{
    struct worker *worker = arg;

    if (http_listener_busy(worker->listener) == 0 && http_client_busy(worker->client) == 0 &&
        (worker->grpc == NULL || http_listener_busy(worker->grpc) == 0))
        net_loop_stop(worker->loop);
    else
        net_timer_set(worker->loop, &worker->drained, DRAIN_CHECK_MS);
}

static void stop_taking(void *arg)
{
    struct worker *worker = arg;
    const struct service_table *table = worker->gateway->services;

    assert(worker_is_mine(worker));
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
        !listen_for_rpcs(worker, first, problem))
        return false;
    net_timer_init(&worker->renewal, renew_leases, worker);
    net_timer_set(worker->loop, &worker->renewal,
                  worker->generation->config.gate.lease_ttl / 3 + 1);
    return true;
}

static void *worker_run(void *arg)
{
    struct worker *worker = arg;

    worker->self = pthread_self();
    worker->runs = true;
    net_loop_run(worker->loop);
    worker->runs = false;
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
        net_loop_unpost(worker->loop, &worker->taking);
    }
    if (worker->listener)
        http_listener_free(worker->listener);
    if (worker->grpc)
        http_listener_free(worker->grpc);
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
