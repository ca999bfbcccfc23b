/* sim_json.c - the outcome of `tollgate sim` as JSON: one object of the run, or a line a request.
 *
 * Names are BLIS's where it has the number too, so that what reads its output reads ours. What it
 * prints only as text is here as well: refusals by class, reason and time, the gateway's counters,
 * and what was between two stages at the horizon:
 *
 *     num_requests == injected_requests + rejected_requests + routing_rejections
 *                     + gateway_queue_depth + gateway_queue_shed + gateway_queue_rejected
 *                     + gateway_evicted + gateway_expired + in_pipeline + not_arrived
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/sim/sim_run.h"
#include "io/text/json_member.h"
#include "io/text/json_write.h"

/* Lines are sent when there are this many bytes of them. */
#define RESULTS_BYTES ((size_t)1 << 18)

/* "ttft" gives ttft_mean_ms, ttft_p50_ms, ... */
static void write_times(struct json_writer *out, const char *name,
                        const struct cluster_times *times)
{
    const struct {
        const char *what;
        double ms;
    } parts[] = {{"mean", times->mean_ms},
                 {"p50", times->p50_ms},
                 {"p90", times->p90_ms},
                 {"p95", times->p95_ms},
                 {"p99", times->p99_ms}};
    char key[64];

    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        snprintf(key, sizeof key, "%s_%s_ms", name, parts[i].what);
        json_member_real(out, key, parts[i].ms);
    }
}

/* ---- The run --------------------------------------------------------------------------------- */

/* What the cluster and each instance have. */
static void write_summary(struct json_writer *out, const struct cluster_summary *summary)
{
    json_member_number(out, "completed_requests", summary->status[CLUSTER_COMPLETED]);
    json_member_number(out, "still_queued", summary->status[CLUSTER_QUEUED]);
    json_member_number(out, "still_running", summary->status[CLUSTER_RUNNING]);
    json_member_number(out, "injected_requests", summary->injected);
    json_member_number(out, "total_input_tokens", summary->input_tokens);
    json_member_number(out, "total_output_tokens", summary->output_tokens);
    json_member_real(out, "vllm_estimated_duration_s", (double)summary->duration_us / 1e6);
    json_member_real(out, "responses_per_sec", summary->responses_per_s);
    json_member_real(out, "tokens_per_sec", summary->tokens_per_s);
    write_times(out, "e2e", &summary->e2e);
    write_times(out, "ttft", &summary->ttft);
    write_times(out, "itl", &summary->itl);
    write_times(out, "scheduling_delay", &summary->scheduling);
    json_member_number(out, "kv_allocation_failures", summary->allocation_failures);
    json_member_number(out, "preemption_count", summary->preemptions);
    json_member_real(out, "cache_hit_rate", summary->cache_hit_rate);
    json_member_number(out, "dropped_unservable", summary->status[CLUSTER_DROPPED]);
    json_member_number(out, "length_capped_requests", summary->length_capped);
    json_member_number(out, "timed_out_requests", summary->status[CLUSTER_TIMED_OUT]);
}

static void write_counts(struct json_writer *out, const struct sim_run *run)
{
    const int64_t *status = run->result.all.status;

    json_member_number(out, "rejected_requests", status[CLUSTER_REJECTED]);
    json_member_number(out, "routing_rejections", status[CLUSTER_ROUTING_REJECTED]);
    json_member_number(out, "gateway_queue_depth", status[CLUSTER_GATEWAY_QUEUED]);
    json_member_number(out, "gateway_queue_shed", status[CLUSTER_GATEWAY_SHED]);
    json_member_number(out, "gateway_queue_rejected", status[CLUSTER_GATEWAY_REJECTED]);
    json_member_number(out, "gateway_evicted", status[CLUSTER_GATEWAY_EVICTED]);
    json_member_number(out, "gateway_expired", status[CLUSTER_GATEWAY_EXPIRED]);
    json_member_number(out, "in_pipeline", status[CLUSTER_IN_PIPELINE]);
    json_member_number(out, "not_arrived", status[CLUSTER_NOT_ARRIVED]);
    json_member_number(out, "refusals", run->result.refusals);
    json_member_number(out, "priority_inversions", run->result.priority_inversions);
    json_member_number(out, "hol_blocking_events", run->result.blocking_events);
    json_member_number(out, "good_requests", run->result.all.good);
    json_member_real(out, "goodput_rps", run->result.all.goodput_per_s);
    json_member_real(out, "jain_fairness_index", run->result.jain);
    json_member_number(out, "kv_blocks", run->result.kv_blocks);
    json_member_number(out, "max_model_len", run->result.max_model_tokens);
}

static void write_reasons(struct json_writer *out, const char *key,
                          const struct sim_reasons *reasons, const int64_t *counts)
{
    json_write_key(out, key);
    json_write_object(out);
    for (size_t i = 0; i < reasons->n; i++)
        if (counts[i] > 0)
            json_member_number(out, reasons->names[i], counts[i]);
    json_write_object_end(out);
}

/* A class without a name counts as standard, as in BLIS. */
static const char *class_name(const struct cluster_class *class)
{
    return class->name[0] != '\0' ? class->name : "standard";
}

static void write_class(struct json_writer *out, const struct cluster_class *class,
                        const struct cluster_class_summary *summary)
{
    json_member_number(out, "priority", class->priority);
    json_member_number(out, "arrived", summary->arrived);
    json_member_number(out, "rejected", summary->rejected);
    json_member_number(out, "shed", summary->shed);
    json_member_number(out, "completed", summary->completed);
    json_member_number(out, "good", summary->good);
    write_times(out, "e2e", &summary->e2e);
    write_times(out, "ttft", &summary->ttft);
    write_times(out, "itl", &summary->itl);
}

static void write_classes(struct json_writer *out, const struct sim_run *run)
{
    json_write_key(out, "classes");
    json_write_array(out);
    for (size_t i = 0; i < run->config.n_classes; i++) {
        if (run->result.classes[i].arrived == 0)
            continue;
        json_write_object(out);
        json_member_text(out, "slo_class", class_name(&run->config.classes[i]));
        write_class(out, &run->config.classes[i], &run->result.classes[i]);
        json_write_object_end(out);
    }
    json_write_array_end(out);
}

static void write_rejected_by_class(struct json_writer *out, const struct sim_run *run)
{
    const struct cluster_config *config = &run->config;

    json_write_key(out, "rejected_by_class");
    json_write_object(out);
    for (size_t i = 0; i < config->n_classes; i++) {
        int64_t rejected = 0;
        bool first = true;
        for (size_t j = 0; j < config->n_classes; j++)
            if (strcmp(class_name(&config->classes[i]), class_name(&config->classes[j])) == 0) {
                rejected += run->result.classes[j].rejected;
                first = first && j >= i;
            }
        if (first && rejected > 0)
            json_member_number(out, class_name(&config->classes[i]), rejected);
    }
    json_write_object_end(out);
}

static void write_tenants(struct json_writer *out, const struct sim_run *run)
{
    json_write_key(out, "tenants");
    json_write_array(out);
    for (size_t i = 0; i < run->result.n_tenants; i++) {
        const struct cluster_tenant_summary *tenant = &run->result.tenants[i];
        if (tenant->arrived == 0)
            continue;
        json_write_object(out);
        json_member_text(out, "tenant", run->workload->load.tenants.texts[i]);
        json_member_number(out, "arrived", tenant->arrived);
        json_member_number(out, "rejected", tenant->rejected);
        json_member_number(out, "completed", tenant->completed);
        json_member_number(out, "output_tokens", tenant->output_tokens);
        json_write_object_end(out);
    }
    json_write_array_end(out);
}

static void write_instances(struct json_writer *out, const struct sim_run *run)
{
    char name[32];

    json_write_key(out, "instances");
    json_write_array(out);
    for (size_t i = 0; i < run->result.n_instances; i++) {
        snprintf(name, sizeof name, "instance_%zu", i);
        json_write_object(out);
        json_member_text(out, "instance_id", name);
        write_summary(out, &run->result.instances[i]);
        json_write_object_end(out);
    }
    json_write_array_end(out);
}

/* Refusals of each span by reason: n_series x reasons->n. Null: no memory. */
static int64_t *count_spans(const struct sim_run *run, const struct sim_reasons *reasons)
{
    const struct cluster_result *result = &run->result;
    size_t n = result->n_series;
    int64_t *counts = calloc(n * reasons->n + 1, sizeof *counts);

    for (size_t i = 0; counts != NULL && i < result->n && n > 0; i++) {
        const struct cluster_outcome *outcome = &result->outcomes[i];
        int reason = sim_reasons_find(reasons, outcome);
        if (reason < 0 || outcome->decided_us < 0)
            continue;
        size_t span = (size_t)(outcome->decided_us / result->series_us);
        counts[(span < n ? span : n - 1) * reasons->n + (size_t)reason]++;
    }
    return counts;
}

static void write_point(struct json_writer *out, const struct cluster_point *point)
{
    json_member_number(out, "arrived", point->arrived);
    json_member_number(out, "admitted", point->admitted);
    json_member_number(out, "rejected", point->rejected);
    json_member_number(out, "completed", point->completed);
    json_member_number(out, "timed_out", point->timed_out);
    json_member_number(out, "output_tokens", point->output_tokens);
    json_write_key(out, "ttft_mean_ms");
    if (point->ttft_n > 0)
        json_write_double(out, (double)point->ttft_us / (double)point->ttft_n / 1000);
    else
        json_write_null(out);
    json_member_number(out, "gateway_depth", point->gateway_depth);
    json_member_number(out, "queued", point->queued);
    json_member_number(out, "running", point->running);
    json_member_real(out, "kv_used", point->kv_used);
    json_member_real(out, "gate_limit", point->gate_limit);
}

static void write_series(struct json_writer *out, const struct sim_run *run,
                         const struct sim_reasons *reasons)
{
    const struct cluster_result *result = &run->result;
    int64_t *counts = count_spans(run, reasons);

    if (counts == NULL)
        out->text.failed = true;
    json_member_real(out, "series_s", (double)result->series_us / 1e6);
    json_write_key(out, "series");
    json_write_array(out);
    for (size_t i = 0; i < result->n_series && counts != NULL; i++) {
        json_write_object(out);
        json_member_real(out, "t_s", (double)((int64_t)i * result->series_us) / 1e6);
        write_point(out, &result->series[i]);
        write_reasons(out, "rejected_by_reason", reasons, counts + i * reasons->n);
        json_write_object_end(out);
    }
    json_write_array_end(out);
    free(counts);
}

void sim_write_numbers(struct json_writer *out, const struct sim_run *run)
{
    json_member_text(out, "admission_policy", sim_admission_name(&run->config));
    json_member_number(out, "seed", (int64_t)run->config.seed);
    json_member_number(out, "num_requests", run->result.all.num_requests);
    write_counts(out, run);
    write_summary(out, &run->result.all);
}

void sim_write_json(struct json_writer *out, const struct sim_run *run)
{
    struct sim_reasons reasons;

    sim_reasons_count(run, &reasons);
    json_write_object(out);
    json_member_text(out, "instance_id", "cluster");
    sim_write_numbers(out, run);
    write_reasons(out, "rejected_by_reason", &reasons, reasons.counts);
    write_classes(out, run);
    write_rejected_by_class(out, run);
    write_tenants(out, run);
    write_instances(out, run);
    write_series(out, run, &reasons);
    json_write_object_end(out);
    json_write_line_end(out);
}

/* ---- Requests -------------------------------------------------------------------------------- */

static void write_ms(struct json_writer *out, const char *key, int64_t us)
{
    json_write_key(out, key);
    if (us >= 0)
        json_write_double(out, (double)us / 1000);
    else
        json_write_null(out);
}

static void write_instance(struct json_writer *out, int instance)
{
    char name[32];

    json_write_key(out, "instance");
    if (instance < 0) {
        json_write_null(out);
        return;
    }
    snprintf(name, sizeof name, "instance_%d", instance);
    json_write_string(out, name, strlen(name));
}

static void write_request(struct json_writer *out, const struct sim_run *run, size_t i)
{
    const struct cluster_request *request = &run->workload->load.requests[i];
    const struct cluster_outcome *outcome = &run->result.outcomes[i];
    char reason[256], id[WORKLOAD_ID_MAX];

    cluster_outcome_reason(&run->config, request, outcome, reason, sizeof reason);
    json_write_object(out);
    json_member_text(out, "id", workload_id(run->workload, i, id));
    json_member_number(out, "arrival_us", request->arrival_us);
    json_member_text(out, "slo_class", run->config.classes[request->slo_class].name);
    json_member_text(out, "tenant", run->workload->load.tenants.texts[request->tenant]);
    json_write_key(out, "admitted");
    if (outcome->decided_us < 0)
        json_write_null(out);
    else
        json_write_bool(out, outcome->status != CLUSTER_REJECTED);
    json_member_text(out, "reason", reason);
    write_instance(out, outcome->instance);
    write_ms(out, "ttft_ms", outcome->ttft_us);
    write_ms(out, "e2e_ms", outcome->e2e_us);
    write_ms(out, "scheduling_delay_ms", outcome->scheduling_us);
    json_member_text(out, "status", cluster_status_name((enum cluster_status)outcome->status));
    if (run->config.retry.max_attempts > 1)
        json_member_number(out, "attempts", outcome->attempts);
    if (run->config.flow.on || run->config.admission == CLUSTER_GATE)
        write_ms(out, "gateway_queue_delay_ms", outcome->gateway_us);
    json_write_object_end(out);
    json_write_line_end(out);
}

static bool send(struct json_writer *out, FILE *file)
{
    bool sent = !out->text.failed &&
                (out->text.size == 0 || fwrite(out->text.bytes, out->text.size, 1, file) == 1);

    if (out->text.failed)
        errno = ENOMEM;
    json_writer_clear(out);
    return sent;
}

static bool sim_json_write_all(FILE *file, const struct sim_run *run)
{
    struct json_writer out;
    bool sent = true;

    json_writer_init(&out);
    for (size_t i = 0; i < run->result.n && sent; i++) {
        write_request(&out, run, i);
        if (out.text.size >= RESULTS_BYTES)
            sent = send(&out, file);
    }
    sent = sent && send(&out, file);
    json_writer_fini(&out);
    return sent;
}

bool sim_write_results(const struct command *command, const char *path, const struct sim_run *run)
{
    FILE *file = fopen(path, "w");
    bool sent = file != NULL && sim_json_write_all(file, run);

    if (file != NULL) {
        int why = errno;
        bool closed = fclose(file) == 0;
        if (!sent)
            errno = why;
        sent = sent && closed;
    }
    if (!sent)
        command_say(command, "cannot write %s: %s", path, strerror(errno));
    return sent;
}
