/* cluster_instance.h - one inference server: its wait queue, its batch, its steps.
 *
 *     accept --queueing time--> wait queue --batch formation--> batch --step by step--> complete
 *                 |                  ^                            |
 *              dropped               `--------- preempted --------'   (no KV block was left)
 *
 * A step does everything at its start: it forms the batch, asks how long that takes, advances every
 * request and ends those that are complete; only the times that it records are those of its
 * end. So the room of a request is free one step before the request has its last token: that is
 * BLIS's order, and what admission and routing see depends on it.
 *
 * At one instant requests join the queue first, then the step comes, then the time-outs.
 */
#ifndef TG_CLUSTER_CLUSTER_INSTANCE_H
#define TG_CLUSTER_CLUSTER_INSTANCE_H

#include "lab/cluster/cluster.h"
#include "lab/cluster/cluster_events.h"
#include "lab/cluster/cluster_gaps.h"
#include "lab/cluster/cluster_kv.h"
#include "lab/cluster/cluster_latency.h"
#include "lab/cluster/cluster_live_internal.h"

/* What all instances share. */
struct instance_world {
    const struct cluster_config *config;
    const struct cluster_request *requests;
    size_t n_requests;
    struct cluster_outcome *outcomes;
    struct live **lives;      /* the record of each request; null: it is at no instance */
    const uint32_t *group_at; /* where each prefix group begins in a cache's table */
    struct latency latency;
    int64_t max_tokens; /* longest sequence */
    bool no_memory;     /* the run has to stop */

    /* Since the beginning, for the time series: */
    int64_t completed, timed_out, output_tokens, first_tokens, first_tokens_us;
};

/* Steps in which a running request got a token, before one in which it did not. */
struct gap_span {
    uint32_t request;
    int64_t from, to;
};

/* A request that has left the instance. */
struct instance_end {
    uint32_t request;
    int64_t at_us; /* when its client has its last token; or now */
};

struct instance {
    struct instance_world *world;
    struct kv kv;
    struct live **batch;
    size_t n_batch;
    struct live *first, *last; /* who waits, first come first served */
    struct heap order;         /* who waits, in any other order */
    size_t n_waiting;
    struct cluster_events coming;   /* on their way into the wait queue */
    struct cluster_events timeouts; /* some belong to requests that have ended */
    uint64_t pushed;                /* events, so far */
    int64_t step_at;                /* INT64_MAX: none is due */
    int64_t end_us;                 /* when the latest event was, a last token included */
    int64_t in_flight;              /* routed here, not ended */
    struct live *spare;
    struct live **chunks;
    size_t n_chunks, chunks_capacity;
    struct instance_end *ended; /* by the last event; the cluster takes them */
    size_t n_ended, ended_capacity;

    struct gaps gaps;
    struct gap_span *spans;
    size_t n_spans, spans_capacity;
    int64_t steps, waited; /* steps, and the sum of those waiting in each */
    int64_t routed, input_tokens, output_tokens;
    int64_t preemptions, allocation_failures, length_capped;
};

/* False: no memory. */
bool instance_init(struct instance *instance, struct instance_world *world, size_t n_prefixes);
void instance_fini(struct instance *instance);

/* A request arrives. */
void instance_accept(struct instance *instance, uint32_t request, int64_t now_us);

/* When something happens next; INT64_MAX: never. */
int64_t instance_next(struct instance *instance);

/* Lets happen what is due first. Who has ended by it is in `ended`. */
void instance_advance(struct instance *instance);

/* Takes a request out. False: it is not there, or not yet in the queue. */
bool instance_evict(struct instance *instance, uint32_t request, int64_t now_us);

/* ---- Between cluster_instance.c and cluster_batch.c ---- */

void instance_step(struct instance *instance, int64_t now_us);
void instance_wait(struct instance *instance, struct live *live, bool in_front);
struct live *instance_take_first(struct instance *instance);
struct live *instance_first(const struct instance *instance);
void instance_drop_gaps(struct instance *instance, struct live *live);
void instance_end(struct instance *instance, struct live *live, enum cluster_status status,
                  int64_t at_us);

#endif
