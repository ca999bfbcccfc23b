/* cluster_internal.h - a cluster while it runs: what its parts share.
 *
 *     cluster_run.c ------> cluster_admit.c     the admission policies
 *     the event loop           |  |  `-------> cluster_gate.c      the policy `gate`
 *       |  |  |                |  `----------> cluster_flow.c      the gateway queue
 *       |  |  |                |                  `--> cluster_evict.c   who makes room for it
 *       |  |  |                `-------------> cluster_decision.c  admitted, refused, retried
 *       |  |  `-----------> cluster_route.c     signals of the instances; which one gets a request
 *       |  `--------------> cluster_instance.c  one server: queue, cluster_batch.c, cluster_kv.c
 *       `-----------------> cluster_report.c    the result; cluster_books.c checks that it balances
 *
 *     cluster_schedule.c    events yet to come; everyone above may push one
 *     cluster_series.c      the time series
 *
 * Calls go downward only; what has to happen later is an event.
 */
#ifndef TG_CLUSTER_CLUSTER_INTERNAL_H
#define TG_CLUSTER_CLUSTER_INTERNAL_H

#include "lab/cluster/cluster.h"
#include "lab/cluster/cluster_events.h"
#include "lab/cluster/cluster_instance.h"
#include "lab/cluster/go_random.h"
#include "lib/core/random.h"

/* Events of the cluster; at one instant in this order, BLIS's. Those of one kind come in the order
 * in which they were pushed. */
enum cluster_kind {
    KIND_ARRIVAL,
    KIND_ADMISSION,
    KIND_ROUTING,
    KIND_EVICTION,
    KIND_TTL,
    KIND_TICK,
    KIND_RELEASE,   /* a lease of the gate ends */
    KIND_GATE_TICK, /* a wait in the gate may be over */
};

/* What routing and admission see of an instance: perhaps of a while ago, but for `in_flight`. */
struct cluster_signal {
    int64_t queue_depth, batch_size;
    double kv_used;
};

struct flow;
struct cluster_gate_state;

struct cluster_run_state {
    const struct cluster_config *config;
    const struct cluster_workload *load;
    struct instance_world world;
    struct instance *instances;
    size_t n_instances;
    uint32_t *group_at;
    size_t n_prefixes;

    struct cluster_events events;
    uint64_t pushed;
    size_t next_arrival;
    int64_t now_us;
    int64_t *earliest; /* a tree over the instances: who is next */
    size_t leaves;
    enum tg_err err; /* why the run has to stop */
    struct tg_problem problem;

    /* Admission */
    double bucket_tokens;
    int64_t bucket_at_us;
    double *budgets; /* requests allowed per tenant; infinite: no bound. Null: no tenant has one */
    int64_t *tenant_running; /* requests per tenant that are routed and have not ended */
    struct flow *flow;
    struct cluster_gate_state *gate;
    struct random jitter;

    /* Routing */
    struct cluster_signal *signals;
    int64_t signals_at_us;
    uint32_t *prefixes; /* per instance, known since prefixes_at_us; null: not asked */
    int64_t prefixes_at_us;
    uint64_t turn;
    struct go_random tie_random; /* breaks ties */
    double *scores, *parts;

    /* Since the beginning */
    int64_t arrived, admitted, ended, rejected, refusals, n_events;

    struct cluster_point *series;
    size_t n_series;
    int64_t series_us, series_end_us;
    struct cluster_point before; /* the sums at the end of the last point */
};

/* ---- cluster_schedule.c ---- */

/* The cluster's own event; `at_us` is not in the past. */
void schedule_push(struct cluster_run_state *run, int64_t at_us, enum cluster_kind kind,
                   uint32_t request);
void cluster_fail(struct cluster_run_state *run, enum tg_err err, const char *text);

/* The next event of an instance may have changed. */
void schedule_instance(struct cluster_run_state *run, size_t instance);

/* The instance with the earliest event; the lowest number if several have it. */
size_t schedule_first_instance(const struct cluster_run_state *run);

/* ---- cluster_admit.c ---- */

enum tg_err admit_init(struct cluster_run_state *run);
void admit_fini(struct cluster_run_state *run);

/* A request asks to be admitted. */
void admit_decide(struct cluster_run_state *run, uint32_t request);

/* ---- cluster_decision.c ---- */

/* A request is admitted, and goes on to routing. */
void decision_pass(struct cluster_run_state *run, uint32_t request);

/* A request is refused; its client may retry after `retry_us`, or after its own back-off if that is
 * RETRY_UNSAID. */
#define RETRY_NEVER (-1)
#define RETRY_UNSAID (-2)
void decision_refuse(struct cluster_run_state *run, uint32_t request, enum cluster_status status,
                     int64_t retry_us);

/* ---- cluster_flow.c ---- */

enum tg_err flow_init(struct cluster_run_state *run);
void flow_fini(struct cluster_run_state *run);
void flow_admit(struct cluster_run_state *run, uint32_t request);
void flow_expire(struct cluster_run_state *run, uint32_t request);
void flow_tick(struct cluster_run_state *run);
int64_t flow_depth(const struct cluster_run_state *run);

/* ---- cluster_evict.c ---- */

void flow_evict(struct cluster_run_state *run, uint32_t request);
void flow_routed(struct cluster_run_state *run, uint32_t request);
void flow_ended(struct cluster_run_state *run, uint32_t request);

/* ---- cluster_gate.c ---- */

enum tg_err gate_init(struct cluster_run_state *run, struct tg_problem *problem);
void gate_fini(struct cluster_run_state *run);
void gate_decide(struct cluster_run_state *run, uint32_t request);
void gate_ended(struct cluster_run_state *run, uint32_t request, int64_t at_us);
void gate_release(struct cluster_run_state *run, uint32_t request);
void gate_tick(struct cluster_run_state *run);
int64_t gate_waiting(const struct cluster_run_state *run);
double gate_limit(const struct cluster_run_state *run);

/* ---- cluster_route.c ---- */

enum tg_err route_init(struct cluster_run_state *run);
void route_fini(struct cluster_run_state *run);

/* Reads the instances' signals if they are due. Every decision begins with it. */
void route_view(struct cluster_run_state *run);

/* How full the cluster is by its signals, 1: full. */
double route_saturation(const struct cluster_run_state *run, double queue, double kv);

/* Which instance gets it. */
size_t route_choose(struct cluster_run_state *run, uint32_t request);

/* Queued, running and routed of one instance. */
int64_t route_load(const struct cluster_run_state *run, size_t instance);

/* ---- cluster_series.c ---- */

/* Ends the points that end before or at `now_us`. */
void series_reach(struct cluster_run_state *run, int64_t now_us);
void series_finish(struct cluster_run_state *run);

/* How many points there can be. */
size_t series_most(void);

/* ---- cluster_report.c ---- */

/* Moves the outcomes and the series into `result`, and sums up. */
enum tg_err report_make(struct cluster_run_state *run, struct cluster_result *result,
                        struct tg_problem *problem);

/* ---- cluster_books.c ---- */

enum tg_err books_check(const struct cluster_run_state *run, const struct cluster_result *result,
                        struct tg_problem *problem);

#endif
