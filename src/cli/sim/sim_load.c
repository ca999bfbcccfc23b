/* sim_load.c - the requests that `tollgate sim` is asked to run. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/sim/sim_run.h"
#include "lab/workload/workload_make.h"
#include "lab/workload/workload_trace.h"

#define DEFAULT_REQUESTS 100
#define DEFAULT_TIMEOUT_US INT64_C(300000000) /* the default without a workload file */

static int out_of_memory(const struct command *command)
{
    command_say(command, "%s", tg_strerror(TG_ERR_MEMORY));
    return STATUS_FAILED;
}

/* ---- Traces ---------------------------------------------------------------------------------- */

static int read_trace(const struct command *command, struct sim_settings *settings, int fd,
                      const char *name, struct workload *workload)
{
    struct workload_problem problem;
    enum workload_read read = workload_trace_read(fd, &settings->cluster, workload, &problem);

    if (read == WORKLOAD_READ)
        return STATUS_DONE;
    if (problem.line > 0)
        command_say(command, "%s:%" PRIu64 ": %s", name, problem.line, problem.text);
    else
        command_say(command, "%s: %s", name, problem.text);
    return read == WORKLOAD_WRONG ? STATUS_WRONG : STATUS_FAILED;
}

static int open_trace(const struct command *command, struct sim_settings *settings,
                      struct workload *workload)
{
    if (strcmp(settings->trace, "-") == 0)
        return read_trace(command, settings, STDIN_FILENO, "<stdin>", workload);
    int fd = open(settings->trace, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        command_say(command, "%s: %s", settings->trace, strerror(errno));
        return STATUS_WRONG;
    }
    int status = read_trace(command, settings, fd, settings->trace, workload);
    close(fd);
    return status;
}

static int from_trace(const struct command *command, struct sim_settings *settings,
                      struct workload *workload)
{
    struct cluster_workload *load = &workload->load;
    int status = open_trace(command, settings, workload);

    if (status != STATUS_DONE)
        return status;
    if (workload->recorded)
        command_say(command,
                    "%s: a recording of serve: arrivals, lengths, tenants and priorities are "
                    "taken; what happened then (status, reason, latency_ms, ttfb_ms, waited_ms, "
                    "attempts, ops, what was used and paid) is not: the simulated cluster decides "
                    "how long calls take",
                    settings->trace);
    if (workload->passed > 0)
        command_say(command,
                    "%s: warning: %" PRIu64
                    " lines are not arrivals and are ignored: here calls end when they are served",
                    settings->trace, workload->passed);
    if (settings->num_requests > 0)
        workload_cut(workload, (size_t)settings->num_requests);
    for (size_t i = 0; i < load->n && settings->timeout_s > 0; i++)
        if (load->requests[i].deadline_us == 0)
            load->requests[i].deadline_us =
                load->requests[i].arrival_us + settings->timeout_s * 1000000;
    return STATUS_DONE;
}

/* ---- Descriptions ---------------------------------------------------------------------------- */

static int make(const struct command *command, const char *name, const struct workload_spec *spec,
                const struct workload_making *making, struct sim_settings *settings,
                struct workload *workload)
{
    struct tg_problem problem;
    enum tg_err err = workload_make(spec, making, &settings->cluster, workload, &problem);

    if (err == TG_OK && workload->load.n > 0)
        return STATUS_DONE;
    if (err == TG_OK)
        command_say(command, "%s: nothing arrives before the horizon", name);
    else
        command_say(command, "%s: %s", name, problem.text);
    return err == TG_ERR_MEMORY ? STATUS_FAILED : STATUS_WRONG;
}

static int from_simple(const struct command *command, struct sim_settings *settings,
                       struct workload *workload)
{
    struct workload_making making = {
        .seed = settings->cluster.seed,
        .num_requests = settings->num_requests > 0 ? settings->num_requests : DEFAULT_REQUESTS,
        .horizon_us = settings->cluster.horizon_us,
        .timeout_us = settings->timeout_s >= 0 ? settings->timeout_s * 1000000 : DEFAULT_TIMEOUT_US,
    };
    struct workload_spec spec;
    int status = workload_simple_spec(&settings->simple, &spec)
                     ? make(command, "--rate", &spec, &making, settings, workload)
                     : out_of_memory(command);

    workload_spec_free(&spec);
    return status;
}

/* Only a gate tells models apart. In a comparison one of the files may be one. */
static bool models_have_effect(const struct command *command, const struct sim_settings *settings,
                               const struct workload_spec *spec)
{
    const struct cluster_config *cluster = &settings->cluster;

    if ((cluster->admission == CLUSTER_GATE && !cluster->flow.on) || settings->compare != NULL)
        return true;
    for (size_t i = 0; i < spec->n_clients; i++) {
        const struct workload_client *client = &spec->clients[i];
        if (client->model[0] != '\0' && strcmp(client->model, cluster->model.name) != 0) {
            command_say(command,
                        "%s: client '%.40s' has the model '%.64s', and the cluster serves %s; only "
                        "--admission-policy gate tells models apart",
                        settings->workload_spec, client->id, client->model, cluster->model.name);
            return false;
        }
    }
    return true;
}

static int from_text(const struct command *command, struct sim_settings *settings, const char *text,
                     size_t bytes, struct workload *workload)
{
    const char *path = settings->workload_spec;
    struct workload_spec spec;
    struct yaml_problem problem;
    int status = STATUS_WRONG;

    if (workload_spec_read(text, bytes, &spec, &problem)) {
        struct cluster_config *cluster = &settings->cluster;
        if (cluster->horizon_us == INT64_MAX && spec.horizon_us > 0)
            cluster->horizon_us = spec.horizon_us;
        struct workload_making making = {
            .seed = settings->seed < 0 && spec.has_seed ? (uint64_t)spec.seed : cluster->seed,
            .num_requests = settings->num_requests > 0 ? settings->num_requests : spec.num_requests,
            .horizon_us = cluster->horizon_us,
            .timeout_us = settings->timeout_s > 0 ? settings->timeout_s * 1000000 : 0,
        };
        if (models_have_effect(command, settings, &spec))
            status = make(command, path, &spec, &making, settings, workload);
    } else if (problem.line > 0) {
        command_say(command, "%s:%zu:%zu: %s", path, problem.line, problem.column, problem.text);
    } else {
        command_say(command, "%s: %s", path, problem.text);
    }
    workload_spec_free(&spec);
    return status;
}

static int from_spec(const struct command *command, struct sim_settings *settings,
                     struct workload *workload)
{
    size_t bytes;
    char *text = sim_file_read(command, settings->workload_spec, &bytes);

    if (text == NULL)
        return STATUS_WRONG;
    int status = from_text(command, settings, text, bytes, workload);
    free(text);
    return status;
}

int sim_load_make(const struct command *command, struct sim_settings *settings,
                  struct workload *workload)
{
    if (!workload_init(workload))
        return out_of_memory(command);
    if (settings->trace != NULL)
        return from_trace(command, settings, workload);
    if (settings->workload_spec != NULL)
        return from_spec(command, settings, workload);
    return from_simple(command, settings, workload);
}
