/* worker.c - a worker thread: see worker.h.
 *
 * The first worker does what has to be done once in a process: it reads how much memory is used,
 * lets leases end whose time is over, and tries keys that a provider has turned away.
 */
#include "gateway/worker.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/call.h"
#include "gateway/key_probe.h"
#include "gateway/probe_pages.h"
#include "net/tls.h"
#include "posix/memory.h"

enum { CHORES_MS = 100, DRAIN_LOOK_MS = 20 };

struct chores {
    struct memory memory;
    tg_ms memory_read_at;
    struct key_probe probe;
};

/* ---- chores ---- */

static void read_memory(struct worker *worker, tg_ms now)
{
    struct chores *chores = worker->state;
    const struct config_memory *config = &worker->gateway->config.gate.memory;
    double used;

    if (!config->present || now - chores->memory_read_at < config->poll)
        return;
    chores->memory_read_at = now;
    memory_read(&chores->memory, now);
    if (!memory_used(&chores->memory, now, &used))
        used = NAN;
    tg_gate_set_memory(worker->gateway->gate, used);
    tg_gate_set_memory(worker->gateway->protect_gate, used);
}

static void do_chores(void *arg)
{
    struct worker *worker = arg;
    struct gateway *gateway = worker->gateway;
    tg_ms now = worker_now(worker);

    read_memory(worker, now);
    tg_gate_tick(gateway->gate, now);
    tg_gate_tick(gateway->protect_gate, now);
    for (size_t i = 0; i < gateway->config.n_models; i++)
        tg_gate_tick(gateway->routes[i].slots, now);
    for (int i = 0; i < 2; i++)
        if (gateway->unknown[i].slots)
            tg_gate_tick(gateway->unknown[i].slots, now);
    key_probe_look(&worker->state->probe, worker);
    net_timer_set(worker->loop, &worker->chores, CHORES_MS);
}

static bool begin_chores(struct worker *worker)
{
    const struct config_memory *config = &worker->gateway->config.gate.memory;

    worker->state = calloc(1, sizeof *worker->state);
    if (worker->state == NULL)
        return false;
    memory_init(&worker->state->memory, "", config->present ? config->poll : 500);
    key_probe_init(&worker->state->probe);
    net_timer_init(&worker->chores, do_chores, worker);
    net_timer_set(worker->loop, &worker->chores, 1);
    return true;
}

/* A lease ends by itself when nobody renews it: not as long as its call is here. */
static void renew_leases(void *arg)
{
    struct worker *worker = arg;

    for (struct call *call = worker->calls; call; call = call->next)
        call_renew(call);
    net_timer_set(worker->loop, &worker->renewal, worker->gateway->config.gate.lease_ttl / 3 + 1);
}

/* ---- listening ---- */

/* With port 0 the system chooses once, and the other workers take what the first one got. */
static void address_of(const struct worker *worker, const struct worker *first, char *text,
                       size_t size)
{
    const char *address = worker->gateway->config.listen.gateway;
    const char *port = strrchr(address, ':');

    if (worker == first || port == NULL || strncmp(address, "unix:", 5) == 0)
        snprintf(text, size, "%s", address);
    else
        snprintf(text, size, "%.*s:%d", (int)(port - address), address,
                 http_listener_port(first->listener));
}

static bool listen_for_calls(struct worker *worker, const struct worker *first,
                             struct tg_problem *problem)
{
    const struct config *config = &worker->gateway->config;
    struct http_listen_options options;
    struct tls_context *tls = NULL;
    char address[256];

    http_listen_options_init(&options);
    options.ops = &call_server_ops;
    options.context = worker;
    options.limits.header_bytes = (size_t)config->limits.header;
    options.census = &worker->gateway->census;
    if (config->listen.cert && tls_server_new(config->listen.cert, config->listen.key,
                                              config->listen.client_ca, &tls, problem))
        return false;
    options.tls = tls;
    address_of(worker, first, address, sizeof address);
    enum tg_err err = http_listen(worker->loop, address, &options, &worker->listener, problem);
    tls_context_unref(tls);
    return err == TG_OK;
}

static bool listen_for_probes(struct worker *worker, struct tg_problem *problem)
{
    struct http_listen_options options;
    const char *address = worker->gateway->config.listen.probe;

    if (address == NULL)
        return true;
    http_listen_options_init(&options);
    options.ops = &probe_server_ops;
    options.context = worker;
    return http_listen(worker->loop, address, &options, &worker->probe, problem) == TG_OK;
}

/* ---- ending ---- */

/* Whoever asks for probes and metrics, and whatever the chores are for, is there until the last
 * call of all workers has ended. */
static bool is_needed(const struct worker *worker)
{
    return worker->number == 0 && atomic_load(&worker->gateway->working) > 1;
}

/* Ends the loop when the last call has. */
static void look_whether_drained(void *arg)
{
    struct worker *worker = arg;

    if (http_listener_busy(worker->listener) == 0 && http_client_busy(worker->client) == 0 &&
        !is_needed(worker))
        net_loop_stop(worker->loop);
    else
        net_timer_set(worker->loop, &worker->drained, DRAIN_LOOK_MS);
}

static void stop_taking(void *arg)
{
    struct worker *worker = arg;

    http_listener_drain(worker->listener);
    look_whether_drained(worker);
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
    worker->number = number;
    random_init(&worker->random, gateway->seed, number + 1);
    net_post_init(&worker->stopping, stop_taking, worker);
    net_timer_init(&worker->drained, look_whether_drained, worker);
    snprintf(problem->text, sizeof problem->text, "no memory for a worker");
    http_client_options_init(&options);
    worker->reader = json_reader_new();
    if (worker->reader == NULL || net_loop_new(&gateway->clock, &worker->loop) ||
        http_client_new(worker->loop, &options, &worker->client))
        return false;
    if (!listen_for_calls(worker, first, problem))
        return false;
    net_timer_init(&worker->renewal, renew_leases, worker);
    net_timer_set(worker->loop, &worker->renewal, gateway->config.gate.lease_ttl / 3 + 1);
    if (number > 0)
        return true;
    return listen_for_probes(worker, problem) && begin_chores(worker);
}

static void *run(void *arg)
{
    struct worker *worker = arg;

    net_loop_run(worker->loop);
    atomic_fetch_sub(&worker->gateway->working, 1);
    return NULL;
}

bool worker_start(struct worker *worker)
{
    atomic_fetch_add(&worker->gateway->working, 1);
    worker->started = pthread_create(&worker->thread, NULL, run, worker) == 0;
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
    struct call *next;

    if (worker->loop) {
        net_timer_stop(worker->loop, &worker->renewal);
        net_timer_stop(worker->loop, &worker->chores);
        net_timer_stop(worker->loop, &worker->drained);
    }
    if (worker->state) {
        key_probe_fini(&worker->state->probe);
        memory_fini(&worker->state->memory);
        free(worker->state);
    }
    if (worker->listener)
        http_listener_free(worker->listener);
    if (worker->probe)
        http_listener_free(worker->probe);
    while (worker->calls) { /* whose clients have gone, and that were read on for their usage */
        struct call *call = worker->calls;
        call_settle(call, TG_KEY_CANCELLED, CHARGE_USED);
        call_free(call);
    }
    if (worker->client)
        http_client_free(worker->client);
    for (struct call *call = worker->spare; call; call = next) {
        next = call->next_spare;
        free(call);
    }
    if (worker->loop)
        net_loop_free(worker->loop);
    json_reader_free(worker->reader);
    memset(worker, 0, sizeof *worker);
}
