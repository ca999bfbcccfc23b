/* workload_spec.h - a workload as a file describes it: clients, their rates and lengths.
 *
 * The form is version 2 of BLIS's workload files: `clients` that send at a part of the aggregate
 * rate, or, with `concurrency`, as fast as they are answered; and `cohorts`, many clients alike,
 * with a day's rhythm, a spike or an end. What the simulator does not model (conversations, images,
 * the network of a client, other generators' files) is refused by name rather than passed over.
 */
#ifndef TG_WORKLOAD_WORKLOAD_SPEC_H
#define TG_WORKLOAD_WORKLOAD_SPEC_H

#include <stdbool.h>
#include <stdint.h>

#include "lab/workload/workload_draw.h"
#include "lab/workload/workload_yaml.h"

#define WORKLOAD_CLIENTS_MAX ((size_t)200000)
#define WORKLOAD_PREFIX_TOKENS 50 /* where a group has no prefix_length */

struct workload_window {
    int64_t start_us, end_us; /* active from start to before end */
};

struct workload_client {
    const char *id, *tenant, *slo_class, *model, *prefix_group; /* "": none */
    double rate_fraction;                                       /* part of the aggregate rate */
    int64_t concurrency; /* above 0: so many users, each of whom waits for its answer */
    int64_t think_us;    /* such a user's pause between an answer and the next call */
    bool streaming;
    int64_t prefix_tokens; /* before each input; shared by the group */
    int64_t timeout_us;    /* 0: none, -1: not given */
    int64_t slo_target_us; /* 0: none */
    enum gap_kind gap;
    double cv;
    struct length_law input, output;
    const struct workload_window *windows; /* none: always active */
    size_t n_windows;
};

struct workload_spec {
    struct arena *arena; /* owns everything below */
    int64_t seed;
    bool has_seed;
    double aggregate_rate; /* a second */
    int64_t num_requests;  /* 0: not given */
    int64_t horizon_us;    /* 0: not given */
    struct workload_client *clients;
    size_t n_clients;
};

/* False with a problem; workload_spec_free() either way. */
bool workload_spec_read(const char *text, size_t bytes, struct workload_spec *spec,
                        struct yaml_problem *problem);
void workload_spec_free(struct workload_spec *spec);

/* What each client sends a second: its part of what those send who are active when it is. */
void workload_spec_rates(const struct workload_spec *spec, double *rates);

#endif
