/* sim_run.c - one run of the simulator. See sim_run.h. */
#include "cli/sim/sim_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/sim/sim_effect.h"
#include "cli/sim/sim_gate.h"

/* ---- Settings of the run --------------------------------------------------------------------- */

static const struct cluster_class *find_class(const struct cluster_config *config, const char *name)
{
    for (size_t i = 0; i < config->n_classes; i++)
        if (strcmp(config->classes[i].name, name) == 0)
            return &config->classes[i];
    return NULL;
}

/* The classes by the numbers that the requests have, each with what these settings say of it. */
static bool number_classes(struct cluster_config *config, const struct cluster_config *first)
{
    struct cluster_config own = *config;
    uint32_t number;

    config->n_classes = 0;
    for (size_t i = 0; i < first->n_classes; i++) {
        const struct cluster_class *said = find_class(&own, first->classes[i].name);
        struct cluster_class *class = &config->classes[config->n_classes++];
        if (said != NULL) {
            *class = *said;
            continue;
        }
        memset(class, 0, sizeof *class);
        memcpy(class->name, first->classes[i].name, sizeof class->name);
        class->priority = 3;
    }
    for (size_t i = 0; i < own.n_classes; i++) {
        if (find_class(config, own.classes[i].name) != NULL)
            continue;
        if (!cluster_config_class(config, own.classes[i].name, strlen(own.classes[i].name),
                                  &number))
            return false;
        config->classes[number] = own.classes[i];
    }
    return true;
}

static bool number_budgets(const struct sim_settings *settings, struct workload *workload,
                           struct cluster_tenant_budget *budgets)
{
    for (size_t i = 0; i < settings->n_budgets; i++) {
        const char *tenant = settings->budgets[i].tenant;
        budgets[i].share = settings->budgets[i].share;
        if (!cluster_names_get(&workload->load.tenants, tenant, strlen(tenant), &budgets[i].tenant))
            return false;
    }
    return true;
}

/* A model that requests name and that is not the one of the cluster; null: none. */
static const char *other_model(const struct cluster_config *config, const struct workload *workload)
{
    const struct cluster_names *models = &workload->load.models;

    for (size_t i = 1; i < models->n; i++)
        if (strcmp(models->texts[i], config->model.name) != 0)
            return models->texts[i];
    return NULL;
}

/* What is allowed and probably not meant. */
static void warn(const struct command *command, const struct cluster_config *config,
                 const struct sim_settings *settings, const struct workload *workload)
{
    double mean = workload_mean_input(workload);
    const char *other = other_model(config, workload);

    if (other != NULL && (config->admission != CLUSTER_GATE || config->flow.on))
        command_say(
            command,
            "warning: requests name the model '%.64s'; without --admission-policy gate that "
            "has no effect: all are served by %s",
            other, config->model.name);

    if (config->flow.on && config->flow.detector == CLUSTER_DETECT_NEVER)
        command_say(command, "warning: --flow-control without --saturation-detector utilization "
                             "or concurrency holds nothing back");
    if (config->flow.on)
        return;
    if (config->admission == CLUSTER_TOKEN_BUCKET && config->bucket_capacity < mean)
        command_say(command,
                    "warning: the bucket holds %.10g tokens, and a request has %.1f on average: "
                    "whatever is larger than the bucket is never admitted",
                    config->bucket_capacity, mean);
    if (config->admission == CLUSTER_TIER_SHED && !settings->tier_shed_by_file &&
        settings->policy_config == NULL)
        command_say(command, "warning: tier-shed has its threshold, 0 here, and its lowest "
                             "priority in --policy-config");
}

/* ---- The run --------------------------------------------------------------------------------- */

static int sim_run_fail(const struct command *command, enum tg_err err, const char *text)
{
    command_say(command, "%s", text);
    return err == TG_ERR_INVALID ? STATUS_WRONG : STATUS_FAILED;
}

struct progress {
    size_t requests;
    int percent; /* shown; negative: nothing is */
};

/* A short run is over before anyone could read its progress: none is shown. */
static void show_progress(void *context, double part)
{
    struct progress *progress = context;
    int percent = (int)(part * 100);

    if (percent <= progress->percent)
        return;
    progress->percent = percent;
    fprintf(stderr, "\rsimulating %zu requests: %d %%", progress->requests, percent);
}

static int run_cluster(struct sim_run *run, const struct command *command)
{
    struct tg_problem problem = {.text = ""};
    struct progress progress = {.requests = run->workload->load.n, .percent = -1};

    if (isatty(STDERR_FILENO)) {
        run->config.progress = show_progress;
        run->config.progress_context = &progress;
    }
    enum tg_err err = cluster_run(&run->config, &run->workload->load, &run->result, &problem);
    run->config.progress = NULL;
    if (progress.percent >= 0)
        fputs("\r\033[K", stderr);
    return err == TG_OK ? STATUS_DONE : sim_run_fail(command, err, problem.text);
}

static int run_gated(struct sim_run *run, const struct command *command)
{
    struct sim_gate gate;
    int status = sim_gate_init(&gate, command, run->settings->gate_config, run->config.seed,
                               run->workload, run->config.classes);

    if (status == STATUS_DONE) {
        gate.cluster.sample_first_token = run->settings->sample_first_token;
        run->config.gate = &gate.cluster;
        status = run_cluster(run, command);
        run->config.gate = NULL;
    }
    sim_gate_fini(&gate);
    return status;
}

int sim_run_init(struct sim_run *run, const struct command *command,
                 const struct sim_settings *settings, struct workload *workload,
                 const struct sim_settings *first)
{
    struct cluster_tenant_budget *budgets = calloc(settings->n_budgets + 1, sizeof *budgets);

    *run =
        (struct sim_run){.settings = settings, .workload = workload, .config = settings->cluster};
    if (budgets == NULL || !number_classes(&run->config, &first->cluster) ||
        !number_budgets(settings, workload, budgets)) {
        free(budgets);
        return sim_run_fail(command, TG_ERR_MEMORY, tg_strerror(TG_ERR_MEMORY));
    }
    /* A workload file may have set an end that the options do not. */
    if (run->config.horizon_us == INT64_MAX)
        run->config.horizon_us = first->cluster.horizon_us;
    run->config.tenant_budgets = budgets;
    run->config.n_tenant_budgets = settings->n_budgets;
    warn(command, &run->config, settings, workload);
    int status =
        !settings->many_loads && !sim_classes_check(command, &run->config, workload) ? STATUS_WRONG
        : run->config.admission == CLUSTER_GATE && !run->config.flow.on ? run_gated(run, command)
                                                                        : run_cluster(run, command);
    run->config.tenant_budgets = NULL;
    free(budgets);
    return status;
}

void sim_run_fini(struct sim_run *run)
{
    cluster_result_fini(&run->result);
}

const char *sim_admission_name(const struct cluster_config *config)
{
    return config->flow.on ? "flow-control" : cluster_admission_name(config->admission);
}

bool sim_has_goals(const struct cluster_config *config)
{
    for (size_t i = 0; i < config->n_classes; i++)
        if (config->classes[i].good_ttft_us > 0 || config->classes[i].good_itl_us > 0 ||
            config->classes[i].good_e2e_us > 0)
            return true;
    return false;
}

/* ---- Reasons --------------------------------------------------------------------------------- */

/* Which kind an outcome is of; null: it was not refused. */
static const char *reason_of(const struct cluster_outcome *outcome)
{
    switch ((enum cluster_status)outcome->status) {
    case CLUSTER_REJECTED:
        break;
    case CLUSTER_ROUTING_REJECTED:
        return "no instance";
    case CLUSTER_GATEWAY_SHED:
        return "gateway shed";
    case CLUSTER_GATEWAY_REJECTED:
        return "gateway full";
    case CLUSTER_GATEWAY_EVICTED:
        return "gateway evicted";
    case CLUSTER_GATEWAY_EXPIRED:
        return "gateway expired";
    default:
        return NULL;
    }
    switch ((enum cluster_reason)outcome->reason) {
    case CLUSTER_REASON_TOKENS:
        return "insufficient tokens";
    case CLUSTER_REASON_REJECT_ALL:
        return "reject-all";
    case CLUSTER_REASON_TIER:
        return "tier-shed";
    case CLUSTER_REASON_SATURATED:
        return "gaie-saturated";
    case CLUSTER_REASON_TENANT_BUDGET:
        return "tenant-budget-shed";
    case CLUSTER_REASON_GATE:
        return tg_reason_name((enum tg_reason)(int)outcome->detail);
    case CLUSTER_REASON_NONE:
    case CLUSTER_REASON_ENQUEUED:
    case CLUSTER_REASON_QUEUE_REJECTED:
        break;
    }
    return "other";
}

int sim_reasons_find(const struct sim_reasons *reasons, const struct cluster_outcome *outcome)
{
    const char *name = reason_of(outcome);

    for (size_t i = 0; name != NULL && i < reasons->n; i++)
        if (strcmp(reasons->names[i], name) == 0)
            return (int)i;
    return -1;
}

void sim_reasons_count(const struct sim_run *run, struct sim_reasons *reasons)
{
    *reasons = (struct sim_reasons){.n = 0};
    for (size_t i = 0; i < run->result.n; i++) {
        const char *name = reason_of(&run->result.outcomes[i]);
        if (name == NULL)
            continue;
        int found = sim_reasons_find(reasons, &run->result.outcomes[i]);
        if (found < 0 && reasons->n < SIM_REASONS_MAX) {
            found = (int)reasons->n++;
            reasons->names[found] = name;
        }
        if (found >= 0)
            reasons->counts[found]++;
    }
    for (size_t i = 1; i < reasons->n; i++)
        for (size_t j = i; j > 0 && reasons->counts[j] > reasons->counts[j - 1]; j--) {
            const char *name = reasons->names[j];
            int64_t count = reasons->counts[j];
            reasons->names[j] = reasons->names[j - 1];
            reasons->counts[j] = reasons->counts[j - 1];
            reasons->names[j - 1] = name;
            reasons->counts[j - 1] = count;
        }
}
