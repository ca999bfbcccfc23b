/* cluster.h - a cluster of inference servers in virtual time, behind an admission policy.
 *
 *     requests --> admission --> routing --> instance: queue --> batches --> done
 *                  |      `--> gateway queue --^          |          |
 *                  `--> rejected                          `--------> timed out, dropped
 *
 *     struct cluster_config config;
 *     struct cluster_workload load;
 *     struct cluster_result result;
 *     cluster_config_init(&config);
 *     cluster_workload_init(&load);            then fill load.requests, in order of arrival
 *     cluster_run(&config, &load, &result, &problem);
 *
 * Time is whole microseconds. Every rule of order, rounding and arithmetic is that of the simulator
 * BLIS, so that both give the same decision and the same time, to the microsecond, for every
 * request of the same workload; docs/simulator.md says where ours goes further. The run draws
 * chance only for ties of routing and for jitter: same input and seed, same bytes.
 *
 * In every run the books are balanced: each request ends in exactly one state of
 * `enum cluster_status`, and a run for which that is not true is an error. cluster_internal.h draws
 * the parts of a run.
 *
 * One thread; a run changes nothing but its result (and the gate it was given).
 */
#ifndef TG_CLUSTER_CLUSTER_H
#define TG_CLUSTER_CLUSTER_H

#include "lab/cluster/cluster_model.h"
#include "lab/cluster/cluster_names.h"
#include "tollgate.h"

/* ---- Requests -------------------------------------------------------------------------------- */

/* One request of a workload. cluster_workload_add() has the defaults. */
struct cluster_request {
    int64_t arrival_us;
    int64_t deadline_us;       /* from when on it has timed out; 0: never */
    int64_t slo_target_us;     /* its own, for the order slo-deadline; 0: its class's */
    double value;              /* to a policy of `gate`; default 1 */
    int32_t input_tokens;      /* the whole prompt, the shared prefix too; 0 or more */
    int32_t output_tokens;     /* what it will generate */
    int32_t max_output_tokens; /* what its client allows; 0: did not say */
    int32_t prefix_tokens;     /* so many at the front are those of its prefix group */
    uint32_t id;               /* its name is request_<id>; as text, that breaks ties */
    uint32_t slo_class;        /* index into cluster_config.classes */
    uint32_t tenant;           /* number in cluster_workload.tenants */
    uint32_t prefix_group;     /* number in cluster_workload.groups; 0: none */
    uint32_t client;           /* number in cluster_workload.clients; the run ignores it */
    uint32_t model;            /* number in cluster_workload.models; only `gate` reads it */
};

/* What arrives. The requests are in order of arrival; of several at one instant the first goes
 * first. */
struct cluster_workload {
    struct cluster_request *requests; /* from malloc */
    size_t n;
    size_t capacity;
    struct cluster_names tenants;
    struct cluster_names groups;
    struct cluster_names clients;
    struct cluster_names models;
};

TG_MUST_CHECK enum tg_err cluster_workload_init(struct cluster_workload *load);
void cluster_workload_fini(struct cluster_workload *load);

/* Room for one more at the end, with the defaults and the next id. Null: no memory. */
struct cluster_request *cluster_workload_add(struct cluster_workload *load);

/* ---- Settings -------------------------------------------------------------------------------- */

#define CLUSTER_CLASSES_MAX 32
#define CLUSTER_INSTANCES_MAX 1024
#define CLUSTER_SCORERS_MAX 8

/* What requests of one class may expect. */
struct cluster_class {
    char name[64];
    int32_t priority;      /* below 0: sheddable; -100 to 100 */
    int64_t slo_target_us; /* --slo-targets: deadline in the gateway queue; 0: none */
    int64_t good_ttft_us;  /* a good answer meets each that is not 0 */
    int64_t good_itl_us;   /* mean gap between tokens */
    int64_t good_e2e_us;
};

enum cluster_admission {
    CLUSTER_ALWAYS_ADMIT,
    CLUSTER_TOKEN_BUCKET,
    CLUSTER_REJECT_ALL,
    CLUSTER_TIER_SHED,
    CLUSTER_GAIE_LEGACY,
    CLUSTER_GATE, /* the library's own, with `gate` below */
    CLUSTER_ADMISSION_COUNT
};

enum cluster_latency { CLUSTER_TRAINED_PHYSICS, CLUSTER_ROOFLINE, CLUSTER_LATENCY_COUNT };

enum cluster_routing {
    CLUSTER_ROUND_ROBIN,
    CLUSTER_LEAST_LOADED,
    CLUSTER_WEIGHTED,
    CLUSTER_ALWAYS_BUSIEST,
    CLUSTER_ROUTING_COUNT
};

enum cluster_scorer {
    CLUSTER_SCORE_PRECISE_PREFIX_CACHE,
    CLUSTER_SCORE_QUEUE_DEPTH,
    CLUSTER_SCORE_KV_UTILIZATION,
    CLUSTER_SCORE_LOAD_BALANCE,
    CLUSTER_SCORE_ACTIVE_REQUESTS,
    CLUSTER_SCORE_RUNNING_REQUESTS,
    CLUSTER_SCORE_LOAD_AWARE,
    CLUSTER_SCORE_VLLM_DP,
    CLUSTER_SCORER_COUNT
};

enum cluster_scheduler {
    CLUSTER_FCFS,
    CLUSTER_PRIORITY_FCFS,
    CLUSTER_SJF,
    CLUSTER_REVERSE_PRIORITY,
    CLUSTER_SCHEDULER_COUNT
};

enum cluster_preemption {
    CLUSTER_PREEMPT_FCFS,
    CLUSTER_PREEMPT_PRIORITY,
    CLUSTER_PREEMPTION_COUNT
};

enum cluster_detector {
    CLUSTER_DETECT_NEVER,
    CLUSTER_DETECT_UTILIZATION,
    CLUSTER_DETECT_CONCURRENCY,
    CLUSTER_DETECTOR_COUNT
};

/* "fifo" and "priority" are one thing in BLIS, and so here. */
enum cluster_dispatch { CLUSTER_DISPATCH_PRIORITY, CLUSTER_DISPATCH_SLO_DEADLINE };
enum cluster_fairness { CLUSTER_FAIR_GLOBAL_STRICT, CLUSTER_FAIR_ROUND_ROBIN };

/* The names above as the command line has them: "token-bucket", "trained-physics", ... Null beyond
 * the last. The _find functions: false if there is no such name. */
const char *cluster_admission_name(enum cluster_admission admission);
const char *cluster_latency_name(enum cluster_latency latency);
const char *cluster_routing_name(enum cluster_routing routing);
const char *cluster_scorer_name(enum cluster_scorer scorer);
const char *cluster_scheduler_name(enum cluster_scheduler scheduler);
const char *cluster_preemption_name(enum cluster_preemption preemption);
const char *cluster_detector_name(enum cluster_detector detector);
bool cluster_admission_find(const char *name, enum cluster_admission *admission);
bool cluster_latency_find(const char *name, enum cluster_latency *latency);
bool cluster_routing_find(const char *name, enum cluster_routing *routing);
bool cluster_scorer_find(const char *name, enum cluster_scorer *scorer);
bool cluster_scheduler_find(const char *name, enum cluster_scheduler *scheduler);
bool cluster_preemption_find(const char *name, enum cluster_preemption *preemption);
bool cluster_detector_find(const char *name, enum cluster_detector *detector);

struct cluster_weight {
    enum cluster_scorer scorer;
    double weight; /* above 0, finite; they are normalised */
};

/* A tenant that may have only so much of the cluster's places in flight before what is sheddable of
 * it is shed. */
struct cluster_tenant_budget {
    uint32_t tenant; /* number in cluster_workload.tenants */
    double share;    /* 0 to 1, of num_instances x max_num_seqs */
};

/* `gate`: the library's gate, as the owner of its configuration sees it. Time for it is whole
 * milliseconds, microseconds cut off. A call that waits in the gate's queue is routed when it is
 * granted; a lease ends when its request does, with the sample that `sample_first_token` says. */
struct cluster_gate {
    struct tg_gate_config config; /* without `wake`; store and policy are borrowed */
    tg_ms epoch_ms;               /* what its clock shows at 0; default 0 */
    void *context;                /* for the functions */

    /* Fills what a request asks for: `call` has the defaults, `room` is for its scopes and, like
     * all that call points to, stays until the request has been decided. Not null with `gate`. */
    enum tg_err (*fill)(void *context, const struct cluster_workload *load,
                        const struct cluster_request *request, struct tg_scope *room,
                        struct tg_call *call, struct tg_problem *problem);

    /* What a request that ran has cost, in units of debit.cost; negative, or null: its estimate. */
    int64_t (*actual)(void *context, const struct cluster_request *request);

    /* A request has completed, so long after it was admitted. May be null. */
    void (*ended)(void *context, const struct cluster_request *request, int64_t held_us);

    bool sample_first_token; /* the law sees the time to the first token; default: all of it */
};

/* Told now and then how far a run is: of which part of the requests all is known, 0 to 1. */
typedef void cluster_progress(void *context, double part);

struct cluster_config {
    /* Admission */
    enum cluster_admission admission;                   /* default always-admit */
    double bucket_capacity;                             /* tokens; default 10000 */
    double bucket_refill_per_s;                         /* default 1000 */
    int64_t tier_shed_threshold;                        /* 0 or more; default 0 */
    int32_t tier_shed_min_priority;                     /* default 3 */
    double gaie_queue_threshold;                        /* above 0; default 5 */
    double gaie_kv_threshold;                           /* (0, 1]; default 0.8 */
    int64_t admission_latency_us;                       /* default 0 */
    int64_t routing_latency_us;                         /* default 0 */
    const struct cluster_tenant_budget *tenant_budgets; /* borrowed; default none */
    size_t n_tenant_budgets;
    const struct cluster_gate *gate; /* for the policy gate; borrowed; default null */

    /* Clients that retry when they were refused, when the refusal said they may: after what
     * it said, else after `backoff_us`. */
    struct {
        int32_t max_attempts; /* 1: they do not; default 1 */
        int64_t backoff_us;   /* default 1000000, doubled with each attempt */
        double jitter;        /* up to this part is added to each wait, 0 to 1; default 0 */
    } retry;

    /* The gateway queue: takes the place of `admission`. */
    struct {
        bool on;                        /* default false */
        enum cluster_detector detector; /* default utilization */
        double queue_threshold;         /* for detector utilization; default 5 */
        double kv_threshold;            /* for detector utilization; default 0.8 */
        int64_t max_concurrency;        /* for detector concurrency, per instance; default 100 */
        int64_t max_depth;              /* requests in the queue; 0: no bound; default 0 */
        int64_t band_capacity;          /* requests of one priority; 0: no bound; default 0 */
        bool shedding;                  /* a full queue sheds what is less; default false */
        int64_t ttl_us;                 /* 0: they wait for ever; default 0 */
        int64_t tick_us;                /* default 1000 */
        bool in_flight_eviction;        /* default false */
        double usage_limit;             /* (0, 1]; ceiling of the lowest band; default 1 */
        enum cluster_dispatch dispatch; /* default priority */
        enum cluster_fairness fairness; /* default global-strict */
    } flow;

    /* Routing */
    enum cluster_routing routing;                       /* default round-robin */
    struct cluster_weight weights[CLUSTER_SCORERS_MAX]; /* for weighted; default 2, 1, 1 */
    size_t n_weights;
    int64_t snapshot_us;     /* age at which signals are read again; 0: live; default 50000 */
    int64_t cache_signal_us; /* the same of which prefixes are cached; default 50000 */

    /* Instances */
    int64_t instances;                  /* 1 to CLUSTER_INSTANCES_MAX; default 1 */
    enum cluster_scheduler scheduler;   /* default fcfs */
    enum cluster_preemption preemption; /* default fcfs */
    int64_t max_num_seqs;               /* in one batch; default 256 */
    int64_t max_batched_tokens;         /* in one step; default 2048 */
    int64_t long_prefill;     /* tokens of one prefill in a step; 0: no bound; default 0 */
    int64_t block_tokens;     /* tokens in a KV block; default 16 */
    int64_t kv_blocks;        /* KV blocks per instance; 0: what fits the memory; default 0 */
    int64_t max_model_tokens; /* 0: the model's positions; default 0 */
    double gpu_memory_share;  /* (0, 1]; default 0.9 */
    int64_t tensor_parallel;  /* default 1 */

    /* Time of a step */
    enum cluster_latency latency;     /* default trained-physics */
    struct cluster_model model;       /* default qwen/qwen3-14b */
    struct cluster_hardware hardware; /* default H100 */
    bool own_coefficients;            /* those below, instead of the built-in ones; default false */
    double alpha[3]; /* microseconds: queueing, after the last token (roofline: queueing for each
                        token of the prompt), after each token */
    double beta[11];

    /* The run */
    int64_t horizon_us; /* nothing happens later; INT64_MAX: to the end; default INT64_MAX */
    uint64_t seed;      /* for ties and jitter; default 42 */
    int64_t series_us;  /* first width of the time series; default 100000; 0: no series */
    cluster_progress *progress; /* default null */
    void *progress_context;     /* for it; borrowed */

    struct cluster_class classes[CLUSTER_CLASSES_MAX];
    size_t n_classes;
};

/* All defaults; classes 0 is "", then critical, standard, batch, sheddable and background. */
void cluster_config_init(struct cluster_config *config);

/* The class of a name, one of priority 3 if it is new. False: too many, or too long a name. */
bool cluster_config_class(struct cluster_config *config, const char *bytes, size_t size,
                          uint32_t *number);

/* Says what is wrong with the settings: what, where, what is allowed. cluster_run() asks too. */
TG_MUST_CHECK enum tg_err cluster_config_check(const struct cluster_config *config,
                                               struct tg_problem *problem);

/* KV blocks of an instance and longest sequence, as the settings have or imply them. */
int64_t cluster_config_blocks(const struct cluster_config *config);
int64_t cluster_config_max_tokens(const struct cluster_config *config);

/* ---- Results --------------------------------------------------------------------------------- */

enum cluster_status {
    CLUSTER_NOT_ARRIVED,      /* the horizon came first */
    CLUSTER_IN_PIPELINE,      /* between two stages, or waiting for a retry */
    CLUSTER_REJECTED,         /* by admission */
    CLUSTER_ROUTING_REJECTED, /* BLIS's; here every instance can be routed to: there are none */
    CLUSTER_GATEWAY_QUEUED,   /* held there at the horizon; of `gate` too */
    CLUSTER_GATEWAY_SHED,     /* pushed out of the full queue by a better one */
    CLUSTER_GATEWAY_REJECTED,
    CLUSTER_GATEWAY_EVICTED, /* was running, and had to make room */
    CLUSTER_GATEWAY_EXPIRED,
    CLUSTER_DROPPED, /* no instance could ever serve it */
    CLUSTER_TIMED_OUT,
    CLUSTER_QUEUED, /* at an instance, at the horizon */
    CLUSTER_RUNNING,
    CLUSTER_COMPLETED,
    CLUSTER_STATUS_COUNT
};

/* "completed", "rejected", ...; null beyond the last. */
const char *cluster_status_name(enum cluster_status status);

enum cluster_reason {
    CLUSTER_REASON_NONE,
    CLUSTER_REASON_TOKENS, /* insufficient tokens */
    CLUSTER_REASON_REJECT_ALL,
    CLUSTER_REASON_TIER,      /* detail: the load */
    CLUSTER_REASON_SATURATED, /* detail: the saturation */
    CLUSTER_REASON_TENANT_BUDGET,
    CLUSTER_REASON_ENQUEUED, /* flow-control-enqueued: it was not refused */
    CLUSTER_REASON_QUEUE_REJECTED,
    CLUSTER_REASON_GATE, /* detail: an enum tg_reason */
};

/* What became of a request. Times count from its first arrival; -1: it did not come so far. */
struct cluster_outcome {
    int64_t decided_us;    /* when it was admitted or refused for good: a point in time */
    int64_t scheduling_us; /* until it joined a batch, for the last time */
    int64_t ttft_us;
    int64_t e2e_us;
    int64_t gateway_us; /* spent in the gateway queue, or waiting in the gate; 0: not there */
    int64_t itl_us;     /* sum of the gaps between its tokens */
    int32_t itl_n;      /* by which that is to be divided for the mean; 0: there is none */
    int32_t preempted;  /* times */
    double detail;      /* a number that belongs to the reason */
    int16_t instance;   /* -1: none */
    uint8_t status;     /* enum cluster_status */
    uint8_t reason;     /* enum cluster_reason, of the last decision */
    int32_t attempts;   /* how often it asked */
};

/* Writes the decision's reason, as BLIS has it: "insufficient tokens", "tier-shed: class=batch
 * priority=-1 < min=3 load=123"; of the gate its name; nothing for a plain yes. */
void cluster_outcome_reason(const struct cluster_config *config,
                            const struct cluster_request *request,
                            const struct cluster_outcome *outcome, char *text, size_t size);

/* Mean and percentiles in ms; 0 where there was nothing to measure. */
struct cluster_times {
    double mean_ms, p50_ms, p90_ms, p95_ms, p99_ms;
};

struct cluster_summary {
    int64_t num_requests;                 /* given to it; of the cluster, all */
    int64_t status[CLUSTER_STATUS_COUNT]; /* how many ended so; they add up to num_requests */
    int64_t injected;                     /* completed + queued + running + dropped + timed out */
    int64_t input_tokens;                 /* prompt tokens queued at an instance */
    int64_t output_tokens;                /* generated */
    int64_t duration_us;                  /* the last event */
    int64_t preemptions;
    int64_t allocation_failures; /* for want of KV blocks */
    int64_t length_capped;
    int64_t good; /* completed, and met what its class asks */
    double responses_per_s;
    double tokens_per_s;
    double goodput_per_s;
    double cache_hit_rate;
    struct cluster_times e2e, ttft, itl, scheduling;
};

struct cluster_class_summary {
    int64_t arrived;
    int64_t rejected; /* by admission */
    int64_t shed;     /* rejected, and expired, evicted or pushed out of the gateway queue */
    int64_t completed;
    int64_t good;
    struct cluster_times e2e, ttft;
    struct cluster_times itl; /* each request counts with its mean gap */
};

struct cluster_tenant_summary {
    int64_t arrived, rejected, completed, output_tokens;
};

/* One span of the time series. Counts are of the span, the rest is as it was at its end. */
struct cluster_point {
    int64_t arrived, admitted, rejected, completed, timed_out;
    int64_t output_tokens;
    int64_t ttft_n, ttft_us; /* first tokens in the span, and the sum of their times */
    int64_t gateway_depth;
    int64_t queued, running; /* over all instances */
    double kv_used;          /* part of all blocks */
    double gate_limit;       /* the limit of concurrency, with `gate`; else 0 */
};

struct cluster_result {
    struct cluster_outcome *outcomes; /* one a request, in the workload's order */
    size_t n;
    struct cluster_summary all;
    struct cluster_summary *instances; /* one each */
    size_t n_instances;
    struct cluster_class_summary classes[CLUSTER_CLASSES_MAX];
    struct cluster_tenant_summary *tenants; /* one for each tenant that the workload names */
    size_t n_tenants;
    struct cluster_point *series;
    size_t n_series;
    int64_t series_us; /* the width of each, as it came to be */

    int64_t refusals; /* decisions that said no, of clients that came again too */
    int64_t priority_inversions;
    int64_t blocking_events; /* instances whose queue was twice the mean */
    double jain;             /* fairness of the tenants' output tokens, 0 to 1 */
    int64_t events;          /* how many the run took */
    int64_t kv_blocks;       /* KV blocks per instance */
    int64_t max_model_tokens;
};

/* Runs. TG_ERR_INVALID: the settings or the workload are wrong; TG_ERR_MEMORY; TG_ERR_UNKNOWN:
 * the books do not balance, `problem` has the sums. On an error `result` is empty. */
TG_MUST_CHECK enum tg_err cluster_run(const struct cluster_config *config,
                                      const struct cluster_workload *load,
                                      struct cluster_result *result, struct tg_problem *problem);
void cluster_result_fini(struct cluster_result *result);

#endif
