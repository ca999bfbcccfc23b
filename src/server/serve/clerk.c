/* clerk.c - the thread for all that is not a call: see clerk.h. */
#include "server/serve/clerk.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/core/problem.h"
#include "server/admin/admin_server.h"
#include "server/admin/otlp.h"
#include "server/admin/probe_pages.h"
#include "server/admit/admit.h"
#include "server/remote/shared.h"
#include "server/runtime/generation_parts.h"
#include "server/runtime/reload.h"

/* The listeners of the clerk's have places of their own, which calls cannot take; and whoever opens
 * connections there takes none from calls, or from each other. */
enum { CONNECTIONS_MAX = 256 };

enum { CHORES_MS = 100, FILES_MS = 1000, MEMORY_MS = 500 };

/* ---- chores ---- */

static void read_memory(struct clerk *clerk, tg_ms now)
{
    const struct config_memory *config = &clerk->generation->config.gate.memory;
    tg_ms poll = config->present ? config->poll : MEMORY_MS; /* it is a metric in any case */
    double used;

    if (clerk->memory_read_at != 0 && now - clerk->memory_read_at < poll)
        return;
    clerk->memory_read_at = now;
    memory_read(&clerk->memory, now);
    if (!memory_used(&clerk->memory, now, &used))
        used = NAN;
    tg_gate_set_memory(clerk->gateway->gate, used);
    tg_gate_set_memory(clerk->gateway->protect_gate, used);
}

static void tick(struct clerk *clerk, tg_ms now)
{
    const struct generation *generation = clerk->generation;

    tg_gate_tick(clerk->gateway->gate, now);
    tg_gate_tick(clerk->gateway->protect_gate, now);
    admit_tick(clerk->gateway, now);
    for (size_t i = 0; i < generation->config.n_models; i++)
        tg_gate_tick(generation->routes[i].slots->gate, now);
    for (int i = 0; i < 2; i++)
        if (generation->unknown[i].slots)
            tg_gate_tick(generation->unknown[i].slots->gate, now);
}

/* Secrets and certificates are replaced by who rotates them, and nobody sends a signal then. The
 * files of the configuration itself are read when somebody says so. */
static void look_at_files(struct clerk *clerk, tg_ms now)
{
    const struct config *config = &clerk->generation->config;

    if (now - clerk->files_looked_at < FILES_MS || !reload_may_try(clerk->reload))
        return;
    clerk->files_looked_at = now;
    for (size_t i = 0; i < config->n_sources; i++)
        if (config->sources[i].kind != CONFIG_SOURCE_FILE &&
            config_source_changed(&config->sources[i])) {
            reload_request(clerk->reload,
                           "a file with a secret, a certificate or rules has changed", NULL, NULL);
            return;
        }
}

/* What the admin API does for itself. */
static void sample(struct clerk *clerk, tg_ms now)
{
    if (clerk->gateway->sampled != &clerk->samples || now - clerk->sampled_at < 1000)
        return;
    clerk->sampled_at = now;
    snapshot_sample(&clerk->samples, clerk->generation, now);
}

/* Another gateway has come, or one is gone: shares are others. Not while a configuration is being
 * read, which changes the same. */
static void divide(struct clerk *clerk, tg_ms now)
{
    struct gateway *gateway = clerk->gateway;
    struct tg_problem problem;
    struct tg_problem why;

    if (gateway->shared == NULL || !reload_may_try(clerk->reload))
        return;
    long long nodes = atomic_load_explicit(&gateway->shared->nodes, memory_order_relaxed);
    if (nodes == gateway->shared->divided)
        return;
    if (limit_book_share(gateway->book, nodes, now, &why) == TG_OK &&
        generation_set_gates(clerk->generation, now, &problem))
        gateway->shared->divided = nodes;
}

static void do_chores(void *arg)
{
    struct clerk *clerk = arg;
    tg_ms now = clerk_now(clerk);

    read_memory(clerk, now);
    tick(clerk, now);
    key_probe_look(&clerk->key_probe, clerk);
    state_log_look(&clerk->state_log, clerk->gateway, clerk->generation);
    look_at_files(clerk, now);
    divide(clerk, now);
    sample(clerk, now);
    net_timer_set(clerk->loop, &clerk->chores, CHORES_MS);
}

static void hang_up(void *arg)
{
    struct clerk *clerk = arg;

    reload_request(clerk->reload, "SIGHUP", NULL, NULL);
}

void clerk_reload(struct clerk *clerk)
{
    net_loop_post(clerk->loop, &clerk->hangup);
}

/* ---- life ---- */

static bool listen_at(struct clerk *clerk, const char *address, const struct http_server_ops *ops,
                      void *context, struct http_listener **listener, struct tg_problem *problem)
{
    struct http_listen_options options;

    if (address == NULL)
        return true;
    http_listen_options_init(&options);
    options.ops = ops;
    options.context = context;
    options.alone = true;
    options.connections = CONNECTIONS_MAX;
    return http_listen(clerk->loop, address, &options, listener, problem) == TG_OK;
}

static struct generation *generation_of(void *arg)
{
    struct clerk *clerk = arg;

    return clerk->generation;
}

static bool reload_for(void *arg, const char *why, reload_done *done, void *context)
{
    struct clerk *clerk = arg;

    return reload_request(clerk->reload, why, done, context);
}

static void forget_for(void *arg, const void *context)
{
    struct clerk *clerk = arg;

    reload_forget(clerk->reload, context);
}

static bool open_admin(struct clerk *clerk, const char *address, const char *path,
                       struct tg_problem *problem)
{
    const struct gateway *gateway = clerk->gateway;
    const struct admin_options options = {.loop = clerk->loop,
                                          .gateway = clerk->gateway,
                                          .log = gateway->log,
                                          .metrics = gateway->metrics,
                                          .watch = gateway->watch,
                                          .config_path = path,
                                          .generation = generation_of,
                                          .reload = reload_for,
                                          .forget = forget_for,
                                          .host = clerk};
    struct tg_problem why;

    if (address == NULL)
        return true;
    if (admin_new(&options, &clerk->admin, &why)) {
        return problem_fail(problem, "listen.admin: %.200s", why.text);
    }
    return listen_at(clerk, address, &admin_server_ops, clerk->admin, &clerk->admin_listener,
                     problem);
}

/* What snapshots by gRPC need. */
static bool start_samples(struct clerk *clerk)
{
    const struct snapshot_sources of = {clerk->gateway, clerk->gateway->metrics,
                                        clerk->gateway->watch};

    if (clerk->generation->config.listen.grpc == NULL || clerk->gateway->sampled != NULL)
        return true;
    if (!snapshot_memory_init(&clerk->samples, &of, clerk->generation, clerk_now(clerk)))
        return false;
    clerk->gateway->sampled = &clerk->samples;
    return true;
}

static bool send_traces(struct clerk *clerk, struct tg_problem *problem)
{
    const struct otlp_options options = {.loop = clerk->loop,
                                         .client = clerk->client,
                                         .endpoint = &clerk->generation->config.otlp,
                                         .trace = clerk->gateway->trace,
                                         .log = clerk->gateway->log};

    return options.trace == NULL || otlp_new(&options, &clerk->otlp, problem);
}

bool clerk_init(struct clerk *clerk, struct gateway *gateway, struct worker *workers,
                size_t n_workers, const char *path, struct tg_problem *problem)
{
    struct http_client_options options;

    memset(clerk, 0, sizeof *clerk);
    clerk->gateway = gateway;
    clerk->number = n_workers;
    clerk->generation = gateway->generations;
    clerk->workers = workers;
    clerk->n_workers = n_workers;
    net_post_init(&clerk->hangup, hang_up, clerk);
    net_timer_init(&clerk->chores, do_chores, clerk);
    key_probe_init(&clerk->key_probe);
    state_log_init(&clerk->state_log);
    const struct config *config = &clerk->generation->config;
    memory_init(&clerk->memory, "", config->gate.memory.present ? config->gate.memory.poll : 500);
    http_client_options_init(&options);
    problem_fail(problem, "no memory for the clerk");
    if (net_loop_new(&gateway->clock, &clerk->loop) ||
        http_client_new(clerk->loop, &options, &clerk->client) ||
        (clerk->reload = reload_new(clerk, path)) == NULL)
        return false;
    gateway->clerk = clerk->loop;
    if (!shared_port_new(gateway->shared, clerk->loop, true, &clerk->port, problem))
        return false;
    net_timer_set(clerk->loop, &clerk->chores, 1);
    return listen_at(clerk, config->listen.probe, &probe_server_ops, clerk, &clerk->probe,
                     problem) &&
           open_admin(clerk, config->listen.admin, path, problem) && start_samples(clerk) &&
           send_traces(clerk, problem);
}

static void *run(void *arg)
{
    struct clerk *clerk = arg;

    net_loop_run(clerk->loop);
    return NULL;
}

bool clerk_start(struct clerk *clerk)
{
    clerk->started = pthread_create(&clerk->thread, NULL, run, clerk) == 0;
    return clerk->started;
}

void clerk_stop(struct clerk *clerk)
{
    if (!clerk->started)
        return;
    net_loop_stop(clerk->loop);
    pthread_join(clerk->thread, NULL);
    clerk->started = false;
}

void clerk_fini(struct clerk *clerk)
{
    if (clerk->gateway == NULL)
        return;
    clerk_stop(clerk);
    /* The loop is turned once more, for what the store is to be told: not for what ends here. */
    if (clerk->loop) {
        net_timer_stop(clerk->loop, &clerk->chores);
        net_loop_unpost(clerk->loop, &clerk->hangup);
    }
    clerk->gateway->clerk = NULL;
    key_probe_fini(&clerk->key_probe);
    memory_fini(&clerk->memory);
    if (clerk->admin_listener)
        http_listener_free(clerk->admin_listener);
    if (clerk->admin)
        admin_free(clerk->admin);
    if (clerk->gateway->sampled == &clerk->samples)
        clerk->gateway->sampled = NULL;
    snapshot_memory_fini(&clerk->samples);
    if (clerk->probe)
        http_listener_free(clerk->probe);
    reload_free(clerk->reload);
    otlp_free(clerk->otlp);
    state_log_fini(&clerk->state_log);
    if (clerk->client)
        http_client_free(clerk->client);
    shared_port_free(clerk->port);
    if (clerk->loop)
        net_loop_free(clerk->loop);
    memset(clerk, 0, sizeof *clerk);
}
