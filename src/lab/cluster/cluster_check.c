/* cluster_check.c - which settings of a cluster are allowed. See cluster.h.
 *
 * Settings are named as the command line has them, for that is where most of them come from.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "lab/cluster/cluster.h"

static enum tg_err cluster_check_wrong(struct tg_problem *problem, const char *format, ...)
{
    va_list args;

    if (problem != NULL) {
        va_start(args, format);
        vsnprintf(problem->text, sizeof problem->text, format, args);
        va_end(args);
    }
    return TG_ERR_INVALID;
}

/* A whole number in a range. */
static bool whole(struct tg_problem *problem, enum tg_err *err, const char *name, int64_t value,
                  int64_t low, int64_t high)
{
    if (*err == TG_OK && (value < low || value > high))
        *err = cluster_check_wrong(problem, "%s is %lld; it must be from %lld to %lld", name,
                                   (long long)value, (long long)low, (long long)high);
    return *err == TG_OK;
}

/* A finite number above 0, and up to `high`. */
static bool above_0(struct tg_problem *problem, enum tg_err *err, const char *name, double value,
                    double high)
{
    if (*err != TG_OK || (value > 0 && value <= high && isfinite(value)))
        return *err == TG_OK;
    *err = isfinite(high)
               ? cluster_check_wrong(problem, "%s is %g; it must be above 0 and at most %g", name,
                                     value, high)
               : cluster_check_wrong(problem, "%s must be a finite value > 0, got %g", name, value);
    return false;
}

#define LONGEST_US ((int64_t)1 << 53)
#define MOST ((int64_t)1 << 30)

static enum tg_err check_admission(const struct cluster_config *c, struct tg_problem *problem)
{
    enum tg_err err = TG_OK;

    whole(problem, &err, "the admission policy", c->admission, 0, CLUSTER_ADMISSION_COUNT - 1);
    if (c->admission == CLUSTER_TOKEN_BUCKET) {
        above_0(problem, &err, "--token-bucket-capacity", c->bucket_capacity, INFINITY);
        above_0(problem, &err, "--token-bucket-refill-rate", c->bucket_refill_per_s, INFINITY);
    }
    whole(problem, &err, "tier_shed_threshold", c->tier_shed_threshold, 0, LONGEST_US);
    above_0(problem, &err, "gaie_qd_threshold", c->gaie_queue_threshold, INFINITY);
    above_0(problem, &err, "gaie_kv_threshold", c->gaie_kv_threshold, 1);
    whole(problem, &err, "--admission-latency", c->admission_latency_us, 0, LONGEST_US);
    whole(problem, &err, "--routing-latency", c->routing_latency_us, 0, LONGEST_US);
    for (size_t i = 0; i < c->n_tenant_budgets && err == TG_OK; i++)
        if (!(c->tenant_budgets[i].share >= 0 && c->tenant_budgets[i].share <= 1))
            err = cluster_check_wrong(problem, "a tenant's budget is %g; it must be from 0 to 1",
                                      c->tenant_budgets[i].share);
    whole(problem, &err, "the number of attempts", c->retry.max_attempts, 1, 1000000);
    whole(problem, &err, "the back-off", c->retry.backoff_us, 0, LONGEST_US);
    if (err == TG_OK && !(c->retry.jitter >= 0 && c->retry.jitter <= 1))
        err = cluster_check_wrong(problem, "the jitter is %g; it must be from 0 to 1",
                                  c->retry.jitter);
    if (err == TG_OK && c->admission == CLUSTER_GATE && (c->gate == NULL || c->gate->fill == NULL))
        err = cluster_check_wrong(problem, "the policy gate needs a gate");
    return err;
}

static enum tg_err check_flow(const struct cluster_config *c, struct tg_problem *problem)
{
    enum tg_err err = TG_OK;

    whole(problem, &err, "--saturation-detector", c->flow.detector, 0, CLUSTER_DETECTOR_COUNT - 1);
    above_0(problem, &err, "--queue-depth-threshold", c->flow.queue_threshold, INFINITY);
    above_0(problem, &err, "--kv-cache-util-threshold", c->flow.kv_threshold, INFINITY);
    whole(problem, &err, "--max-concurrency", c->flow.max_concurrency, 1, LONGEST_US);
    whole(problem, &err, "--max-gateway-queue-depth", c->flow.max_depth, 0, LONGEST_US);
    whole(problem, &err, "--per-band-capacity", c->flow.band_capacity, 0, LONGEST_US);
    whole(problem, &err, "--request-ttl", c->flow.ttl_us, 0, LONGEST_US);
    whole(problem, &err, "--dispatch-tick-interval", c->flow.tick_us, 0, LONGEST_US);
    above_0(problem, &err, "--usage-limit-threshold", c->flow.usage_limit, 1);
    return err;
}

static enum tg_err check_routing(const struct cluster_config *c, struct tg_problem *problem)
{
    enum tg_err err = TG_OK;

    whole(problem, &err, "--routing-policy", c->routing, 0, CLUSTER_ROUTING_COUNT - 1);
    whole(problem, &err, "--snapshot-refresh-interval", c->snapshot_us, 0, LONGEST_US);
    whole(problem, &err, "--cache-signal-delay", c->cache_signal_us, 0, LONGEST_US);
    if (c->routing == CLUSTER_WEIGHTED)
        whole(problem, &err, "the number of scorers", (int64_t)c->n_weights, 1,
              CLUSTER_SCORERS_MAX);
    for (size_t i = 0; i < c->n_weights && err == TG_OK; i++) {
        whole(problem, &err, "a scorer", c->weights[i].scorer, 0, CLUSTER_SCORER_COUNT - 1);
        above_0(problem, &err, "a scorer's weight", c->weights[i].weight, INFINITY);
    }
    return err;
}

static enum tg_err check_instances(const struct cluster_config *c, struct tg_problem *problem)
{
    enum tg_err err = TG_OK;

    whole(problem, &err, "--num-instances", c->instances, 1, CLUSTER_INSTANCES_MAX);
    whole(problem, &err, "--scheduler", c->scheduler, 0, CLUSTER_SCHEDULER_COUNT - 1);
    whole(problem, &err, "--preemption-policy", c->preemption, 0, CLUSTER_PREEMPTION_COUNT - 1);
    whole(problem, &err, "--max-num-seqs", c->max_num_seqs, 1, MOST);
    whole(problem, &err, "--max-num-batched-tokens", c->max_batched_tokens, 1, MOST);
    whole(problem, &err, "--long-prefill-token-threshold", c->long_prefill, 0, MOST);
    whole(problem, &err, "--block-size-in-tokens", c->block_tokens, 1, MOST);
    whole(problem, &err, "--total-kv-blocks", c->kv_blocks, 0, 100000000);
    if (c->max_model_tokens != 0)
        whole(problem, &err, "--max-model-len", c->max_model_tokens, 2, MOST);
    above_0(problem, &err, "--gpu-memory-utilization", c->gpu_memory_share, 1);
    whole(problem, &err, "--tp", c->tensor_parallel, 1, 1024);
    return err;
}

static enum tg_err check_model(const struct cluster_config *c, struct tg_problem *problem)
{
    const struct cluster_model *m = &c->model;
    enum tg_err err = TG_OK;

    whole(problem, &err, "--latency-model", c->latency, 0, CLUSTER_LATENCY_COUNT - 1);
    whole(problem, &err, "the model's layers", m->layers, 1, 10000);
    whole(problem, &err, "the model's hidden size", m->hidden, 1, 1000000);
    whole(problem, &err, "the model's heads", m->heads, 1, 100000);
    whole(problem, &err, "the model's KV heads", m->kv_heads, 0, 100000);
    whole(problem, &err, "the model's head size", m->head_size, 0, 100000);
    whole(problem, &err, "the model's FFN size", m->ffn, 1, 10000000);
    whole(problem, &err, "the model's vocabulary", m->vocab, 1, 100000000);
    whole(problem, &err, "the model's positions", m->positions, 2, MOST);
    above_0(problem, &err, "the model's bytes of a weight", m->weight_bytes, 16);
    above_0(problem, &err, "the model's bytes in the KV cache", m->kv_bytes, 16);
    above_0(problem, &err, "the machine's TFLOPS", c->hardware.tflops, 1e9);
    above_0(problem, &err, "the machine's TB/s", c->hardware.memory_tbs, 1e9);
    above_0(problem, &err, "the machine's MFU of prefill", c->hardware.mfu_prefill, 1);
    above_0(problem, &err, "the machine's MFU of decode", c->hardware.mfu_decode, 1);
    above_0(problem, &err, "the machine's memory", c->hardware.memory_gib, 1e9);
    if (err == TG_OK &&
        (m->heads % c->tensor_parallel != 0 || m->kv_heads % c->tensor_parallel != 0))
        err = cluster_check_wrong(
            problem, "--tp is %lld; it must divide the model's %lld heads and %lld KV heads",
            (long long)c->tensor_parallel, (long long)m->heads, (long long)m->kv_heads);
    for (int i = 0; c->own_coefficients && i < 14 && err == TG_OK; i++) {
        double value = i < 3 ? c->alpha[i] : c->beta[i - 3];
        if (!(value >= 0 && isfinite(value)))
            err = cluster_check_wrong(
                problem, "a coefficient is %g; it must be finite and not negative", value);
    }
    return err;
}

static enum tg_err check_run(const struct cluster_config *c, struct tg_problem *problem)
{
    enum tg_err err = TG_OK;

    whole(problem, &err, "--horizon", c->horizon_us, 0, INT64_MAX);
    whole(problem, &err, "the width of the time series", c->series_us, 0, LONGEST_US);
    whole(problem, &err, "the number of classes", (int64_t)c->n_classes, 1, CLUSTER_CLASSES_MAX);
    for (size_t i = 0; i < c->n_classes && err == TG_OK; i++)
        whole(problem, &err, "a class's priority", c->classes[i].priority, -100, 100);
    if (err == TG_OK && cluster_config_max_tokens(c) < 2)
        err = cluster_check_wrong(
            problem,
            "the model does not fit: no KV cache is left beside it in %g GiB x %g x %lld "
            "(--tp, --gpu-memory-utilization, --total-kv-blocks)",
            c->hardware.memory_gib, c->gpu_memory_share, (long long)c->tensor_parallel);
    return err;
}

enum tg_err cluster_config_check(const struct cluster_config *config, struct tg_problem *problem)
{
    enum tg_err (*const checks[])(const struct cluster_config *, struct tg_problem *) = {
        check_admission, check_flow, check_routing, check_instances, check_model, check_run};
    enum tg_err err = TG_OK;

    for (size_t i = 0; i < sizeof checks / sizeof *checks && err == TG_OK; i++)
        err = checks[i](config, problem);
    return err;
}
