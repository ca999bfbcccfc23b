/* flows_run.h - calls of several tenants through a gate in virtual time, each holding its slot for
 * a while.
 *
 * There is no server: a call that is admitted takes as long as it was drawn, whatever the others
 * do. So what is measured is how the gate shares what it has: slots, or the tokens of a limit. A
 * refused call does not come again. Arrivals are Poisson; times and tokens used are lognormal.
 */
#ifndef TG_SCENARIO_FLOWS_RUN_H
#define TG_SCENARIO_FLOWS_RUN_H

#include "tollgate.h"

#define FLOWS_MAX 8
#define FLOWS_TENANTS_MAX 256

struct flow_spec {
    const char *name;
    int tenants; /* so many that are alike, each with the rate below */
    enum tg_priority priority;
    double weight;
    double calls_per_s;
    double hold_ms, hold_cv; /* mean; deviation / mean */
    int64_t asked;           /* cost that a call states; 0: none */
    double used_part;        /* mean of what is used, as a part of what was asked; at most all */
    double used_cv;
};

struct flows_config {
    const struct flow_spec *flows;
    size_t n;
    double until_ms, from_ms;          /* the measured time */
    const struct tg_gate_config *gate; /* its seed and waker are not used */
    const struct tg_scope *scopes;     /* every call's; null: none */
    size_t n_scopes;
    double refill_per_ms; /* what the limit refills, for `most_over` */
    uint64_t seed;
};

/* What one tenant got in the measured time. */
struct flow_counts {
    int64_t offered, admitted; /* calls that arrived then */
    double held_ms;            /* slot time of calls that ended then */
    double waited_ms;          /* all admitted calls together */
    int64_t used;              /* tokens; the same */
};

struct flows_result {
    struct flow_counts tenants[FLOWS_TENANTS_MAX]; /* flow by flow */
    double measured_ms;

    /* The most that calls admitted in any span of the whole run used, above what was refilled; and
     * above that and what the calls in flight at its end use above their charge, as the gate
     * promises. */
    double most_over, most_over_charge;
};

/* TG_ERR_INVALID: the gate cannot be made. TG_ERR_MEMORY. */
TG_MUST_CHECK enum tg_err flows_run(const struct flows_config *config, struct flows_result *result,
                                    struct tg_problem *problem);

#endif
