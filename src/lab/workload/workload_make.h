/* workload_make.h - the requests that a description of a workload stands for. */
#ifndef TG_WORKLOAD_WORKLOAD_MAKE_H
#define TG_WORKLOAD_WORKLOAD_MAKE_H

#include "lab/workload/workload_requests.h"
#include "lab/workload/workload_spec.h"

/* What the command line can say without a file: one client, constant gaps, gaussian lengths. */
struct workload_simple {
    double rate_per_s;
    int64_t prompt_mean, prompt_deviation, prompt_min, prompt_max;
    int64_t output_mean, output_deviation, output_min, output_max;
    int64_t prefix_tokens;
};

#define WORKLOAD_REQUESTS_MAX INT64_C(1000000000)

/* The lengths of a preset: "distribution", "chatbot", "contentgen", "summarization", "multidoc".
 * False: there is none of that name. */
bool workload_preset(const char *name, struct workload_simple *simple);

/* The names above, one after the other; null at the end. */
const char *workload_preset_name(size_t i);

struct workload_making {
    uint64_t seed;
    int64_t num_requests; /* 0: until the horizon */
    int64_t horizon_us;   /* nothing arrives later; INT64_MAX: no end */
    int64_t timeout_us;   /* for clients that do not say; 0: none */
};

/* The description of a simple workload. False: no memory. workload_spec_free() either way. */
TG_MUST_CHECK bool workload_simple_spec(const struct workload_simple *simple,
                                        struct workload_spec *spec);

/* Adds requests to an empty workload, in order of arrival. Classes are looked up in, and added to,
 * the configuration. TG_ERR_INVALID: it would never end, or wants what is not simulated. */
TG_MUST_CHECK enum tg_err workload_make(const struct workload_spec *spec,
                                        const struct workload_making *making,
                                        struct cluster_config *config, struct workload *workload,
                                        struct tg_problem *problem);

#endif
