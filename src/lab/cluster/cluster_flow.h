/* cluster_flow.h - the gateway queue, as its two files see it. See cluster_flow.c. */
#ifndef TG_CLUSTER_CLUSTER_FLOW_H
#define TG_CLUSTER_CLUSTER_FLOW_H

#include "lab/cluster/cluster_internal.h"

#define NOBODY UINT32_MAX

struct flow_list {
    uint32_t first, last;
};

struct flow_link {
    uint32_t next, previous;
};

struct flow_entry {
    struct flow_link band_link, flow_link;
    uint32_t flow;       /* the rank of its tenant */
    uint32_t tracked_at; /* where it is among those that may be evicted; NOBODY: it is not */
    int64_t entered_us, left_us;
    uint8_t band;
    bool waits;
};

struct flow_band {
    int32_t priority;
    int64_t n;
    struct flow_list all;
    struct flow_list *flows; /* by the rank of the tenant */
    uint32_t served;         /* the tenant that was last; NOBODY: none yet */
};

struct flow {
    struct flow_entry *entries; /* one for each request */
    struct flow_band bands[CLUSTER_CLASSES_MAX];
    uint8_t order[CLUSTER_CLASSES_MAX]; /* the bands, from the highest priority */
    size_t n_bands;
    int64_t n;
    uint32_t *ranks; /* rank of each tenant, by name */
    uint32_t n_ranks;
    bool ticking;
    uint32_t *tracked; /* requests that run and may be evicted: a heap */
    uint32_t n_tracked;
    size_t tracked_capacity;
};

static inline int32_t flow_priority(const struct cluster_run_state *run, uint32_t request)
{
    return run->config->classes[run->load->requests[request].slo_class].priority;
}

/* Takes out the one of those that run that goes first, or the one at a place. */
uint32_t evict_untrack(const struct cluster_run_state *run, uint32_t at);

#endif
