/* admin_service.c - what an operator sees of the gateway, as a service. Read this first.
 *
 *     on the control thread:   listen.probe   /healthz, /readyz, /metrics (probe_pages.h)
 *                              listen.admin   the same, dashboard and admin API (admin_server.h)
 *                              every 100 ms   what has changed, into the log (state_log.h)
 *                              otlp.endpoint  spans are sent there (otlp.h)
 *     on each worker:          grpc.health.v1.Health, tollgate.v1.Monitor (rpc_health.c,
 *                              rpc_monitor.c, rpc_snapshot.c)
 *
 * No request of listen.gateway is its own.
 */
#include "server/admin/admin_service.h"

#include <stdlib.h>

#include "lib/core/problem.h"
#include "server/admin/admin_server.h"
#include "server/admin/rpc_monitor_internal.h"
#include "server/admin/snapshot.h"
#include "server/admin/state_log.h"
#include "server/probe/otlp.h"
#include "server/probe/probe_pages.h"
#include "server/runtime/control.h"

enum { SAMPLE_MS = 1000 };

/* What the service keeps on the control thread. */
struct admin_control {
    struct admin *admin; /* null: listen.admin is not set */
    struct otlp *otlp;   /* null: spans are sent nowhere */
    struct state_log state_log;
    struct snapshot_memory samples; /* for gRPC, where there is no admin API that has them */
    tg_ms sampled_at;
};

/* ---- a worker ---- */

static bool admin_start(struct worker *worker, struct tg_problem *problem)
{
    worker->admin = calloc(1, sizeof *worker->admin);
    if (worker->admin == NULL)
        return problem_fail(problem, "no memory for a worker");
    worker->admin->worker = worker;
    LIST_INIT(&worker->admin->snapshots);
    return true;
}

static void admin_stop(struct worker *worker)
{
    rpc_snapshot_free_all(worker->admin);
    free(worker->admin);
    worker->admin = NULL;
}

/* ---- the control thread ---- */

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

static bool open_admin(struct control *control, const char *address, struct tg_problem *problem)
{
    const struct gateway *gateway = control->gateway;
    const struct admin_options options = {.loop = control->loop,
                                          .gateway = control->gateway,
                                          .log = gateway->log,
                                          .metrics = gateway->metrics,
                                          .watch = gateway->watch,
                                          .config_path = control->path,
                                          .generation = generation_of,
                                          .reload = reload_for,
                                          .forget = forget_for,
                                          .host = control,
                                          .explainer = control->explain};
    struct tg_problem why;

    /* What others change is followed by the same queue, where nobody can ask for changes, too. */
    if (address == NULL && gateway->fleet == NULL)
        return true;
    if (admin_new(&options, &control->admin->admin, &why))
        return problem_fail(problem, "listen.admin: %.200s", why.text);
    return address == NULL ||
           control_listen(control, "admin", address, control->generation->admin_tls,
                          &admin_server_ops, control->admin->admin, problem);
}

/* What snapshots by gRPC are made of, unless the admin API has it. */
static bool start_samples(struct control *control)
{
    const struct snapshot_sources of = {control->gateway, control->gateway->metrics,
                                        control->gateway->watch};
    struct snapshot_memory *samples = &control->admin->samples;

    if (control->generation->config.listen.grpc == NULL || control->gateway->sampled != NULL)
        return true;
    if (!snapshot_memory_init(samples, &of, control->generation, control_now(control)))
        return false;
    control->gateway->sampled = samples;
    return true;
}

static bool send_traces(struct control *control, struct tg_problem *problem)
{
    const struct otlp_options options = {.loop = control->loop,
                                         .client = control->client,
                                         .endpoint = &control->generation->config.otlp,
                                         .trace = control->gateway->trace,
                                         .log = control->gateway->log};

    return options.trace == NULL || otlp_new(&options, &control->admin->otlp, problem);
}

static void admin_stop_control(struct control *control)
{
    struct admin_control *own = control->admin;

    if (own->admin != NULL)
        admin_free(own->admin);
    if (control->gateway->sampled == &own->samples)
        control->gateway->sampled = NULL;
    snapshot_memory_fini(&own->samples);
    otlp_free(own->otlp);
    state_log_fini(&own->state_log);
    free(own);
    control->admin = NULL;
}

static bool admin_start_control(struct control *control, struct tg_problem *problem)
{
    const struct config_listen *listen = &control->generation->config.listen;

    problem_fail(problem, "no memory for the control thread");
    control->admin = calloc(1, sizeof *control->admin);
    if (control->admin == NULL)
        return false;
    state_log_init(&control->admin->state_log);
    if ((listen->probe == NULL || control_listen(control, "probe", listen->probe, NULL,
                                                 &probe_server_ops, control, problem)) &&
        open_admin(control, listen->admin, problem) && start_samples(control) &&
        send_traces(control, problem))
        return true;
    control_close_listeners(control);
    admin_stop_control(control);
    return false;
}

static void admin_tick(struct control *control, tg_ms now)
{
    struct admin_control *own = control->admin;

    state_log_update(&own->state_log, control->gateway, control->generation);
    if (control->gateway->sampled != &own->samples || now - own->sampled_at < SAMPLE_MS)
        return;
    own->sampled_at = now;
    snapshot_sample(&own->samples, control->generation, now);
}

static const struct grpc_service *const RPCS[] = {&rpc_monitor, &rpc_health, &rpc_reflection,
                                                  &rpc_reflection_alpha};

const struct service admin_service = {.name = "admin",
                                      .rpcs = RPCS,
                                      .n_rpcs = sizeof RPCS / sizeof RPCS[0],
                                      .start = admin_start,
                                      .stop = admin_stop,
                                      .start_control = admin_start_control,
                                      .tick = admin_tick,
                                      .stop_control = admin_stop_control};
