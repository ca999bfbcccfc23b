/* workload_requests.h - the requests of a run, and what only some traces say about them.
 *
 * This is what the room makes, and where to begin. A workload comes from one of three sources:
 *
 *     a trace         workload_trace.c --> workload_csv.c, workload_json.c ------------.
 *     a description   workload_spec.c --> workload_parts.c, workload_yaml.c --.         |
 *     options         workload_simple_spec() ---------------------------------+         v
 *                                         workload_make.c: each client draws -+--> requests, notes
 *                                         lengths and gaps by workload_draw.c          in order of
 *                                                                                      arrival
 *
 * The cluster wants a request's arrival and lengths. A trace of a gateway knows more, which only a
 * gate reads: cost, value, user, priority. These are notes beside the requests, so that a workload
 * that has none of it pays nothing for them.
 */
#ifndef TG_WORKLOAD_WORKLOAD_REQUESTS_H
#define TG_WORKLOAD_WORKLOAD_REQUESTS_H

#include <stdbool.h>
#include <stdint.h>

#include "lab/cluster/cluster.h"

/* The latest that anything arrives: what a double still counts in microseconds. */
#define WORKLOAD_TIME_MAX ((int64_t)1 << 53)

struct workload_note {
    int64_t cost;      /* -1: what its tokens say */
    int64_t allowed;   /* tokens of output that its client allows; -1: what it generates */
    double value;      /* negative: what its tenant's calls are worth */
    double hold_s;     /* negative: as long as calls of its model have taken */
    uint32_t id;       /* number in workload.ids; 0: it is called request_<number> */
    uint32_t user;     /* number in workload.users; 0: none */
    uint32_t peer;     /* number in workload.peers; 0: none */
    int8_t priority;   /* enum tg_priority; -1: what its class says */
    bool tenant_peer;  /* the tenant is the peer, as in the gateway; default true */
    bool guess_output; /* while a trace is read: how much it generates is not known */
};

struct workload {
    struct cluster_workload load;
    struct workload_note *notes; /* one a request, or null: all have the defaults */
    size_t notes_capacity;       /* all of them are initialised */
    struct cluster_names users, peers, ids;
    int64_t epoch_ms; /* what 0 is in the trace's own time; 0 unless that counts from 1970 */
    bool recorded;    /* it is a recording of serve */
    uint64_t passed;  /* lines of a trace that were no arrivals */
};

/* False: no memory. workload_fini() either way. */
TG_MUST_CHECK bool workload_init(struct workload *workload);
void workload_fini(struct workload *workload);

/* The note of the request that was added last. Null: no memory. */
struct workload_note *workload_note_last(struct workload *workload);

/* The note of request number `i`; null: it has the defaults. */
static inline const struct workload_note *workload_note_of(const struct workload *workload,
                                                           size_t i)
{
    return workload->notes != NULL ? &workload->notes[i] : NULL;
}

/* In order of arrival; what arrives at one instant stays as it is. False: no memory. */
TG_MUST_CHECK bool workload_sort(struct workload *workload);

/* At most so many, the first ones. */
void workload_cut(struct workload *workload, size_t n);

/* What a request is called in output. */
#define WORKLOAD_ID_MAX 32
const char *workload_id(const struct workload *workload, size_t i, char room[WORKLOAD_ID_MAX]);

/* The mean prompt length of all requests, in tokens; 0 without any. */
double workload_mean_input(const struct workload *workload);

#endif
