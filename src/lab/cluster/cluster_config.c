/* cluster_config.c - settings of a cluster: names, defaults, what they imply. See cluster.h. */
#include "lab/cluster/cluster.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/core/array.h"

/* ---- Names ----------------------------------------------------------------------------------- */

static const char *const admission_names[CLUSTER_ADMISSION_COUNT] = {
    "always-admit", "token-bucket", "reject-all", "tier-shed", "gaie-legacy", "gate"};
static const char *const latency_names[CLUSTER_LATENCY_COUNT] = {"trained-physics", "roofline"};
static const char *const routing_names[CLUSTER_ROUTING_COUNT] = {"round-robin", "least-loaded",
                                                                 "weighted", "always-busiest"};
static const char *const scorer_names[CLUSTER_SCORER_COUNT] = {
    "precise-prefix-cache", "queue-depth",      "kv-utilization", "load-balance",
    "active-requests",      "running-requests", "load-aware",     "vllm-dp"};
static const char *const scheduler_names[CLUSTER_SCHEDULER_COUNT] = {"fcfs", "priority-fcfs", "sjf",
                                                                     "reverse-priority"};
static const char *const preemption_names[CLUSTER_PREEMPTION_COUNT] = {"fcfs", "priority"};
static const char *const detector_names[CLUSTER_DETECTOR_COUNT] = {"never", "utilization",
                                                                   "concurrency"};
static const char *const status_names[CLUSTER_STATUS_COUNT] = {
    "not_arrived",  "in_pipeline",      "rejected",        "routing_rejected", "gateway_queued",
    "gateway_shed", "gateway_rejected", "gateway_evicted", "gateway_expired",  "dropped",
    "timed_out",    "queued",           "running",         "completed"};

static bool cluster_find_name(const char *const *names, size_t n, const char *name, size_t *number)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(names[i], name) == 0) {
            *number = i;
            return true;
        }
    return false;
}

/* The two functions of an enum: its name, and the number of a name. */
#define NAMED(noun, type, count)                                                                   \
    const char *cluster_##noun##_name(enum type number)                                            \
    {                                                                                              \
        return (size_t)number < (count) ? noun##_names[number] : NULL;                             \
    }                                                                                              \
    bool cluster_##noun##_find(const char *name, enum type *number)                                \
    {                                                                                              \
        size_t found;                                                                              \
                                                                                                   \
        if (!cluster_find_name(noun##_names, (count), name, &found))                               \
            return false;                                                                          \
        *number = (enum type)found;                                                                \
        return true;                                                                               \
    }

NAMED(admission, cluster_admission, CLUSTER_ADMISSION_COUNT)
NAMED(latency, cluster_latency, CLUSTER_LATENCY_COUNT)
NAMED(routing, cluster_routing, CLUSTER_ROUTING_COUNT)
NAMED(scorer, cluster_scorer, CLUSTER_SCORER_COUNT)
NAMED(scheduler, cluster_scheduler, CLUSTER_SCHEDULER_COUNT)
NAMED(preemption, cluster_preemption, CLUSTER_PREEMPTION_COUNT)
NAMED(detector, cluster_detector, CLUSTER_DETECTOR_COUNT)

const char *cluster_status_name(enum cluster_status status)
{
    return (size_t)status < CLUSTER_STATUS_COUNT ? status_names[status] : NULL;
}

/* ---- Defaults -------------------------------------------------------------------------------- */

#define STANDARD_PRIORITY 3

static void set_classes(struct cluster_config *config)
{
    static const struct {
        const char *name;
        int32_t priority;
    } known[] = {{"", STANDARD_PRIORITY}, {"critical", 4},   {"standard", STANDARD_PRIORITY},
                 {"batch", -1},           {"sheddable", -2}, {"background", -3}};

    config->n_classes = sizeof known / sizeof *known;
    for (size_t i = 0; i < config->n_classes; i++) {
        snprintf(config->classes[i].name, sizeof config->classes[i].name, "%s", known[i].name);
        config->classes[i].priority = known[i].priority;
    }
}

static void set_instances(struct cluster_config *config)
{
    config->routing = CLUSTER_ROUND_ROBIN;
    config->weights[0] = (struct cluster_weight){CLUSTER_SCORE_PRECISE_PREFIX_CACHE, 2};
    config->weights[1] = (struct cluster_weight){CLUSTER_SCORE_QUEUE_DEPTH, 1};
    config->weights[2] = (struct cluster_weight){CLUSTER_SCORE_KV_UTILIZATION, 1};
    config->n_weights = 3;
    config->snapshot_us = 50000;
    config->cache_signal_us = 50000;
    config->instances = 1;
    config->max_num_seqs = 256;
    config->max_batched_tokens = 2048;
    config->block_tokens = 16;
    config->gpu_memory_share = 0.9;
    config->tensor_parallel = 1;
    config->model = *cluster_model_find("qwen/qwen3-14b");
    config->hardware = *cluster_hardware_find("H100");
}

void cluster_config_init(struct cluster_config *config)
{
    *config = (struct cluster_config){
        .admission = CLUSTER_ALWAYS_ADMIT,
        .bucket_capacity = 10000,
        .bucket_refill_per_s = 1000,
        .tier_shed_min_priority = STANDARD_PRIORITY,
        .gaie_queue_threshold = 5,
        .gaie_kv_threshold = 0.8,
        .retry = {.max_attempts = 1, .backoff_us = 1000000},
        .flow = {.detector = CLUSTER_DETECT_UTILIZATION,
                 .queue_threshold = 5,
                 .kv_threshold = 0.8,
                 .max_concurrency = 100,
                 .tick_us = 1000,
                 .usage_limit = 1},
        .latency = CLUSTER_TRAINED_PHYSICS,
        .horizon_us = INT64_MAX,
        .seed = 42,
        .series_us = 100000,
    };
    set_classes(config);
    set_instances(config);
}

bool cluster_config_class(struct cluster_config *config, const char *bytes, size_t size,
                          uint32_t *number)
{
    struct cluster_class *class;

    for (size_t i = 0; i < config->n_classes; i++)
        if (strlen(config->classes[i].name) == size &&
            memcmp(config->classes[i].name, bytes, size) == 0) {
            *number = (uint32_t)i;
            return true;
        }
    if (config->n_classes == CLUSTER_CLASSES_MAX || size >= sizeof class->name)
        return false;
    class = &config->classes[config->n_classes];
    *class = (struct cluster_class){.priority = STANDARD_PRIORITY};
    memcpy(class->name, bytes, size);
    *number = (uint32_t)config->n_classes++;
    return true;
}

/* ---- What they imply ------------------------------------------------------------------------- */

#define GIB 1073741824.0

static double model_bytes(const struct cluster_model *model)
{
    int64_t d = model->hidden, head = model->head_size > 0 ? model->head_size : d / model->heads;
    int64_t kv = (model->kv_heads > 0 ? model->kv_heads : model->heads) * head;
    int64_t layer = d * (d + 2 * kv) + d * d + 2 * d + 3 * d * model->ffn;
    int64_t ends = model->vocab * d * (model->tied_embeddings ? 1 : 2);

    return trunc((double)(ends + model->layers * layer + d) * model->weight_bytes);
}

/* What of the memory is left beside weights, activations and what the runtime takes, in blocks. */
static int64_t blocks_that_fit(const struct cluster_config *config)
{
    const struct cluster_model *model = &config->model;
    double tp = (double)config->tensor_parallel;
    int64_t head = model->head_size > 0 ? model->head_size : model->hidden / model->heads;
    int64_t kv_heads = model->kv_heads > 0 ? model->kv_heads : model->heads;
    double token = (double)(model->layers * 2 * head * kv_heads) * model->kv_bytes / tp;
    double block = trunc(token * (double)config->block_tokens);
    double runtime = (config->tensor_parallel == 1 ? 0.15 : 0.6) * tp;
    double all = config->hardware.memory_gib * config->gpu_memory_share * tp;
    double left = all - (model_bytes(model) / GIB + 5.5 + runtime);
    double blocks = block > 0 ? floor(trunc(left * GIB) / block) : 0;

    return blocks > 0 ? (int64_t)fmin(blocks, 1e9) : 0;
}

int64_t cluster_config_blocks(const struct cluster_config *config)
{
    return config->kv_blocks > 0 ? config->kv_blocks : blocks_that_fit(config);
}

int64_t cluster_config_max_tokens(const struct cluster_config *config)
{
    int64_t asked =
        config->max_model_tokens > 0 ? config->max_model_tokens : config->model.positions;
    int64_t room = cluster_config_blocks(config) * config->block_tokens;

    return asked < room ? asked : room;
}

/* ---- Workloads ------------------------------------------------------------------------------- */

enum tg_err cluster_workload_init(struct cluster_workload *load)
{
    *load = (struct cluster_workload){0};
    if (cluster_names_init(&load->tenants) && cluster_names_init(&load->groups) &&
        cluster_names_init(&load->clients) && cluster_names_init(&load->models))
        return TG_OK;
    cluster_workload_fini(load);
    return TG_ERR_MEMORY;
}

void cluster_workload_fini(struct cluster_workload *load)
{
    free(load->requests);
    cluster_names_fini(&load->tenants);
    cluster_names_fini(&load->groups);
    cluster_names_fini(&load->clients);
    cluster_names_fini(&load->models);
    *load = (struct cluster_workload){0};
}

struct cluster_request *cluster_workload_add(struct cluster_workload *load)
{
    if (!array_reserve(&load->requests, &load->capacity, load->n + 1))
        return NULL;
    struct cluster_request *request = &load->requests[load->n];
    *request = (struct cluster_request){.value = 1, .id = (uint32_t)load->n++};
    return request;
}
