/* control.c - the thread for all that is not a call: see control thread.h. */
#include "server/serve/control.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/core/problem.h"
#include "server/admin/admin_server.h"
#include "server/admin/otlp.h"
#include "server/admin/probe_pages.h"
#include "server/admit/admit.h"
#include "server/remote/remote.h"
#include "server/runtime/generation_internal.h"
#include "server/runtime/reload.h"

/* The listeners of the control thread's have places of their own, which calls cannot take; and
 * whoever opens connections there takes none from calls, or from each other. */
enum { CONNECTIONS_MAX = 256 };

enum { CHORES_MS = 100, FILES_MS = 1000, MEMORY_MS = 500 };

/* ---- chores ---- */

static void read_memory(struct control *control, tg_ms now)
{
    const struct config_memory *config = &control->generation->config.gate.memory;
    tg_ms poll = config->present ? config->poll : MEMORY_MS; /* it is a metric in any case */
    double used;

    if (control->memory_read_at != 0 && now - control->memory_read_at < poll)
        return;
    control->memory_read_at = now;
    memory_read(&control->memory, now);
    if (!memory_used(&control->memory, now, &used))
        used = NAN;
    tg_gate_set_memory(control->gateway->gate, used);
    tg_gate_set_memory(control->gateway->protect_gate, used);
}

static void control_tick(struct control *control, tg_ms now)
{
    const struct generation *generation = control->generation;

    tg_gate_tick(control->gateway->gate, now);
    tg_gate_tick(control->gateway->protect_gate, now);
    admit_tick(control->gateway, now);
    for (size_t i = 0; i < generation->config.n_models; i++)
        tg_gate_tick(generation->routes[i].slots->gate, now);
    for (int i = 0; i < 2; i++)
        if (generation->unknown[i].slots)
            tg_gate_tick(generation->unknown[i].slots->gate, now);
}

/* Secrets and certificates are replaced by who rotates them, and nobody sends a signal then. The
 * files of the configuration itself are read when somebody says so. */
static void look_at_files(struct control *control, tg_ms now)
{
    const struct config *config = &control->generation->config;

    if (now - control->files_looked_at < FILES_MS || !reload_may_try(control->reload))
        return;
    control->files_looked_at = now;
    for (size_t i = 0; i < config->n_sources; i++)
        if (config->sources[i].kind != CONFIG_SOURCE_FILE &&
            config_source_changed(&config->sources[i])) {
            reload_request(control->reload,
                           "a file with a secret, a certificate or rules has changed", NULL, NULL);
            return;
        }
}

/* What the admin API does for itself. */
static void sample(struct control *control, tg_ms now)
{
    if (control->gateway->sampled != &control->samples || now - control->sampled_at < 1000)
        return;
    control->sampled_at = now;
    snapshot_sample(&control->samples, control->generation, now);
}

/* Another gateway has come, or one is gone: shares are others. Not while a configuration is being
 * read, which changes the same. */
static void divide(struct control *control, tg_ms now)
{
    struct gateway *gateway = control->gateway;
    struct tg_problem problem;
    struct tg_problem why;

    if (gateway->remote == NULL || !reload_may_try(control->reload))
        return;
    long long nodes = atomic_load_explicit(&gateway->remote->nodes, memory_order_relaxed);
    if (nodes == gateway->remote->divided)
        return;
    if (limit_book_share(gateway->book, nodes, now, &why) == TG_OK &&
        generation_set_gates(control->generation, now, &problem))
        gateway->remote->divided = nodes;
}

static void do_chores(void *arg)
{
    struct control *control = arg;
    tg_ms now = control_now(control);

    read_memory(control, now);
    control_tick(control, now);
    key_probe_tick(&control->key_probe, control);
    state_log_update(&control->state_log, control->gateway, control->generation);
    look_at_files(control, now);
    divide(control, now);
    sample(control, now);
    net_timer_set(control->loop, &control->chores, CHORES_MS);
}

static void hang_up(void *arg)
{
    struct control *control = arg;

    reload_request(control->reload, "SIGHUP", NULL, NULL);
}

void control_reload(struct control *control)
{
    net_loop_post(control->loop, &control->hangup);
}

/* ---- life ---- */

static bool listen_at(struct control *control, const char *address,
                      const struct http_server_ops *ops, void *context,
                      struct http_listener **listener, struct tg_problem *problem)
{
    struct http_listen_options options;

    if (address == NULL)
        return true;
    http_listen_options_init(&options);
    options.ops = ops;
    options.context = context;
    options.alone = true;
    options.connections = CONNECTIONS_MAX;
    return http_listen(control->loop, address, &options, listener, problem) == TG_OK;
}

static struct generation *generation_of(void *arg)
{
    struct control *control = arg;

    return control->generation;
}

static bool reload_for(void *arg, const char *why, reload_done *done, void *context)
{
    struct control *control = arg;

    return reload_request(control->reload, why, done, context);
}

static void forget_for(void *arg, const void *context)
{
    struct control *control = arg;

    reload_forget(control->reload, context);
}

static bool open_admin(struct control *control, const char *address, const char *path,
                       struct tg_problem *problem)
{
    const struct gateway *gateway = control->gateway;
    const struct admin_options options = {.loop = control->loop,
                                          .gateway = control->gateway,
                                          .log = gateway->log,
                                          .metrics = gateway->metrics,
                                          .watch = gateway->watch,
                                          .config_path = path,
                                          .generation = generation_of,
                                          .reload = reload_for,
                                          .forget = forget_for,
                                          .host = control};
    struct tg_problem why;

    if (address == NULL)
        return true;
    if (admin_new(&options, &control->admin, &why)) {
        return problem_fail(problem, "listen.admin: %.200s", why.text);
    }
    return listen_at(control, address, &admin_server_ops, control->admin, &control->admin_listener,
                     problem);
}

/* What snapshots by gRPC need. */
static bool start_samples(struct control *control)
{
    const struct snapshot_sources of = {control->gateway, control->gateway->metrics,
                                        control->gateway->watch};

    if (control->generation->config.listen.grpc == NULL || control->gateway->sampled != NULL)
        return true;
    if (!snapshot_memory_init(&control->samples, &of, control->generation, control_now(control)))
        return false;
    control->gateway->sampled = &control->samples;
    return true;
}

static bool send_traces(struct control *control, struct tg_problem *problem)
{
    const struct otlp_options options = {.loop = control->loop,
                                         .client = control->client,
                                         .endpoint = &control->generation->config.otlp,
                                         .trace = control->gateway->trace,
                                         .log = control->gateway->log};

    return options.trace == NULL || otlp_new(&options, &control->otlp, problem);
}

bool control_init(struct control *control, struct gateway *gateway, struct worker *workers,
                  size_t n_workers, const char *path, struct tg_problem *problem)
{
    struct http_client_options options;

    memset(control, 0, sizeof *control);
    control->gateway = gateway;
    control->number = n_workers;
    control->generation = gateway->generations;
    control->workers = workers;
    control->n_workers = n_workers;
    net_post_init(&control->hangup, hang_up, control);
    net_timer_init(&control->chores, do_chores, control);
    key_probe_init(&control->key_probe);
    state_log_init(&control->state_log);
    const struct config *config = &control->generation->config;
    memory_init(&control->memory, "", config->gate.memory.present ? config->gate.memory.poll : 500);
    http_client_options_init(&options);
    problem_fail(problem, "no memory for the control thread");
    if (net_loop_new(&gateway->clock, &control->loop) ||
        http_client_new(control->loop, &options, &control->client) ||
        (control->reload = reload_new(control, path)) == NULL)
        return false;
    gateway->control = control->loop;
    if (!remote_port_new(gateway->remote, control->loop, true, &control->port, problem))
        return false;
    net_timer_set(control->loop, &control->chores, 1);
    return listen_at(control, config->listen.probe, &probe_server_ops, control, &control->probe,
                     problem) &&
           open_admin(control, config->listen.admin, path, problem) && start_samples(control) &&
           send_traces(control, problem);
}

static void *control_run(void *arg)
{
    struct control *control = arg;

    net_loop_run(control->loop);
    return NULL;
}

bool control_start(struct control *control)
{
    control->started = pthread_create(&control->thread, NULL, control_run, control) == 0;
    return control->started;
}

void control_stop(struct control *control)
{
    if (!control->started)
        return;
    net_loop_stop(control->loop);
    pthread_join(control->thread, NULL);
    control->started = false;
}

void control_fini(struct control *control)
{
    if (control->gateway == NULL)
        return;
    control_stop(control);
    /* The loop is turned once more, for what the store is to be told: not for what ends here. */
    if (control->loop) {
        net_timer_stop(control->loop, &control->chores);
        net_loop_unpost(control->loop, &control->hangup);
    }
    control->gateway->control = NULL;
    key_probe_fini(&control->key_probe);
    memory_fini(&control->memory);
    if (control->admin_listener)
        http_listener_free(control->admin_listener);
    if (control->admin)
        admin_free(control->admin);
    if (control->gateway->sampled == &control->samples)
        control->gateway->sampled = NULL;
    snapshot_memory_fini(&control->samples);
    if (control->probe)
        http_listener_free(control->probe);
    reload_free(control->reload);
    otlp_free(control->otlp);
    state_log_fini(&control->state_log);
    if (control->client)
        http_client_free(control->client);
    remote_port_free(control->port);
    if (control->loop)
        net_loop_free(control->loop);
    memset(control, 0, sizeof *control);
}
