/* sim_print.c - the outcome of `tollgate sim` as a table for people. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/sim/sim_run.h"

/* ---- Head ------------------------------------------------------------------------------------ */

static void print_admission(const struct sim_run *run)
{
    const struct cluster_config *config = &run->config;

    printf("admission %s", sim_admission_name(config));
    if (config->flow.on)
        printf(" (%s)", cluster_detector_name(config->flow.detector));
    else if (config->admission == CLUSTER_TOKEN_BUCKET)
        printf(" (%.10g tokens, %.10g a second)", config->bucket_capacity,
               config->bucket_refill_per_s);
    else if (config->admission == CLUSTER_TIER_SHED)
        printf(" (above a load of %" PRId64 ", priorities below %" PRId32 ")",
               config->tier_shed_threshold, config->tier_shed_min_priority);
    else if (config->admission == CLUSTER_GATE)
        printf(" (%s)", run->settings->gate_config);
}

static void print_head(const struct sim_run *run)
{
    const struct cluster_config *config = &run->config;

    printf("%" PRId64 " requests, %" PRId64 " instance%s of %s on %s", run->result.all.num_requests,
           config->instances, config->instances == 1 ? "" : "s", config->model.name,
           config->hardware.name);
    if (config->tensor_parallel > 1)
        printf(" x %" PRId64, config->tensor_parallel);
    printf(" (%s)\n", cluster_latency_name(config->latency));
    print_admission(run);
    printf(", routing %s, scheduler %s\n\n", cluster_routing_name(config->routing),
           cluster_scheduler_name(config->scheduler));
}

/* ---- Counts ---------------------------------------------------------------------------------- */

static double percent(int64_t part, int64_t of)
{
    return of > 0 ? 100.0 * (double)part / (double)of : 0;
}

static void print_count(const char *name, int64_t count, int64_t of)
{
    printf("  %-22s %9" PRId64 "  %5.1f %%\n", name, count, percent(count, of));
}

static void print_counts(const struct sim_run *run)
{
    static const struct {
        enum cluster_status status;
        const char *name;
        bool always;
    } rows[] = {
        {CLUSTER_COMPLETED, "completed", true},
        {CLUSTER_REJECTED, "rejected", true},
        {CLUSTER_ROUTING_REJECTED, "no instance", false},
        {CLUSTER_GATEWAY_REJECTED, "gateway queue full", false},
        {CLUSTER_GATEWAY_SHED, "gateway queue shed", false},
        {CLUSTER_GATEWAY_EXPIRED, "gateway queue expired", false},
        {CLUSTER_GATEWAY_EVICTED, "evicted", false},
        {CLUSTER_DROPPED, "dropped, too long", false},
        {CLUSTER_TIMED_OUT, "timed out", false},
        {CLUSTER_GATEWAY_QUEUED, "still at the gateway", false},
        {CLUSTER_QUEUED, "still queued", false},
        {CLUSTER_RUNNING, "still running", false},
        {CLUSTER_IN_PIPELINE, "in the pipeline", false},
        {CLUSTER_NOT_ARRIVED, "not arrived", false},
    };
    const struct cluster_summary *all = &run->result.all;
    struct sim_reasons reasons;

    printf("%-24s %9" PRId64 "\n", "Requests", all->num_requests);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].always || all->status[rows[i].status] > 0)
            print_count(rows[i].name, all->status[rows[i].status], all->num_requests);
    sim_reasons_count(run, &reasons);
    if (reasons.n > 0)
        printf("Refused for\n");
    for (size_t i = 0; i < reasons.n; i++)
        print_count(reasons.names[i], reasons.counts[i], all->num_requests);
    if (run->config.retry.max_attempts > 1)
        printf("%-24s %9" PRId64 "\n", "Refusals, retries too", run->result.refusals);
    putchar('\n');
}

/* ---- Times ----------------------------------------------------------------------------------- */

static void print_times(const char *name, const struct cluster_times *times)
{
    printf("%-24s %9.2f %9.2f %9.2f %9.2f %9.2f\n", name, times->mean_ms, times->p50_ms,
           times->p90_ms, times->p95_ms, times->p99_ms);
}

static void print_all_times(const struct cluster_summary *all)
{
    printf("%-24s %9s %9s %9s %9s %9s\n", "Milliseconds", "mean", "p50", "p90", "p95", "p99");
    print_times("  to the first token", &all->ttft);
    print_times("  to the last token", &all->e2e);
    print_times("  between tokens", &all->itl);
    print_times("  until scheduled", &all->scheduling);
    printf("\n%.2f responses and %.1f tokens a second for %.3f s; %" PRId64 " tokens in, %" PRId64
           " out\n",
           all->responses_per_s, all->tokens_per_s, (double)all->duration_us / 1e6,
           all->input_tokens, all->output_tokens);
    if (all->preemptions > 0 || all->allocation_failures > 0)
        printf("%" PRId64 " preemptions, %" PRId64 " failed allocations of KV blocks\n",
               all->preemptions, all->allocation_failures);
    if (all->length_capped > 0)
        printf("%" PRId64 " answers cut off at the longest sequence\n", all->length_capped);
}

/* ---- By class, tenant, instance -------------------------------------------------------------- */

/* A trace may come from anywhere: what is printed must not command a terminal. */
static const char *printable(const char *name, char room[41])
{
    size_t n = 0;

    for (; name[n] != '\0' && n < 40; n++)
        room[n] = name[n] >= ' ' && name[n] <= '~' ? name[n] : '?';
    room[n] = '\0';
    return n > 0 ? room : "(none)";
}

static size_t count_classes(const struct sim_run *run)
{
    size_t n = 0;

    for (size_t i = 0; i < run->config.n_classes; i++)
        n += run->result.classes[i].arrived > 0;
    return n;
}

static void print_classes(const struct sim_run *run)
{
    bool goals = sim_has_goals(&run->config);

    if (count_classes(run) < 2 && !goals)
        return;
    printf("\n%-24s %9s %9s %9s %9s %9s%s\n", "Class", "arrived", "rejected", "completed",
           "TTFT p99", "E2E p99", goals ? "      good" : "");
    for (size_t i = 0; i < run->config.n_classes; i++) {
        const struct cluster_class_summary *class = &run->result.classes[i];
        if (class->arrived == 0)
            continue;
        char name[41];
        printf("  %-22s %9" PRId64 " %9" PRId64 " %9" PRId64 " %9.2f %9.2f",
               i > 0 ? printable(run->config.classes[i].name, name) : "standard", class->arrived,
               class->rejected, class->completed, class->ttft.p99_ms, class->e2e.p99_ms);
        if (goals)
            printf("   %5.1f %%", percent(class->good, class->arrived));
        putchar('\n');
    }
}

static void print_tenants(const struct sim_run *run)
{
    size_t shown = 0;

    if (run->workload->load.tenants.n < 2)
        return;
    printf("\n%-24s %9s %9s %9s %11s\n", "Tenant", "arrived", "rejected", "completed",
           "tokens out");
    for (size_t i = 0; i < run->result.n_tenants; i++) {
        const struct cluster_tenant_summary *tenant = &run->result.tenants[i];
        if (tenant->arrived == 0)
            continue;
        if (++shown > 20) {
            printf("  ... (--json has all)\n");
            break;
        }
        char name[41];
        printf("  %-22s %9" PRId64 " %9" PRId64 " %9" PRId64 " %11" PRId64 "\n",
               printable(run->workload->load.tenants.texts[i], name), tenant->arrived,
               tenant->rejected, tenant->completed, tenant->output_tokens);
    }
    printf("  fairness of tokens out (Jain): %.4f\n", run->result.jain);
}

static void print_instances(const struct sim_run *run)
{
    if (run->result.n_instances < 2)
        return;
    printf("\n%-24s %9s %9s %9s %9s\n", "Instance", "completed", "tokens/s", "TTFT p99", "E2E p99");
    for (size_t i = 0; i < run->result.n_instances; i++) {
        const struct cluster_summary *instance = &run->result.instances[i];
        if (i == 16) {
            printf("  ... (--json has all)\n");
            break;
        }
        printf("  instance_%-13zu %9" PRId64 " %9.1f %9.2f %9.2f\n", i,
               instance->status[CLUSTER_COMPLETED], instance->tokens_per_s, instance->ttft.p99_ms,
               instance->e2e.p99_ms);
    }
}

void sim_print(const struct sim_run *run)
{
    print_head(run);
    print_counts(run);
    print_all_times(&run->result.all);
    print_classes(run);
    print_tenants(run);
    print_instances(run);
}
