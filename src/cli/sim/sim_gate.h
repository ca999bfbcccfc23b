/* sim_gate.h - the gate of a configuration, for the simulator: what each request asks of it.
 *
 * It is the library's gate with the limits, laws and prices that `tollgate serve` and `tollgate
 * replay` would give it; only time is the simulator's. What a request asks for:
 *
 *   tenant, model, user   as the trace or workload names them; limits are those of the
 *              configuration
 *   cost       that of the trace; else the tokens of prompt and allowed output. What was allowed
 *              and did not come is given back when it ends, as in the gateway
 *   value      that of the trace; else the tenant's
 *   hold       that of the trace; else a moving mean of what calls of its model took, as in the
 *              gateway
 *   priority   that of the trace; else by class: from 4 on high, below 0 low, otherwise normal
 *   peer       that of the trace; else the tenant, as in the gateway (but of a trace that names its
 *              tenants `key`, as in replay: none)
 *
 * A request is one of a gate's calls for as long as it is in the cluster: queued, running or on its
 * way there.
 */
#ifndef TG_SIM_SIM_GATE_H
#define TG_SIM_SIM_GATE_H

#include "cli/common/command.h"
#include "lab/cluster/cluster.h"
#include "lab/workload/workload_requests.h"
#include "server/config/config.h"
#include "server/tenancy/scopes.h"

struct sim_gate {
    struct cluster_gate cluster; /* for cluster_config.gate */
    struct config config;
    struct tg_store *store;
    struct tg_policy *policy; /* null: every call is worth it */
    struct scopes *scopes;
    const struct workload *workload;
    const struct cluster_class *classes;
    double
        *holds; /* mean hold of each of the workload's models, in seconds; 0: none has ended yet */
};

/* STATUS_DONE, or what to end with after saying what is wrong; sim_gate_fini() either way. What is
 * given is borrowed. */
int sim_gate_init(struct sim_gate *gate, const struct command *command, const char *path,
                  uint64_t seed, const struct workload *workload,
                  const struct cluster_class *classes);
void sim_gate_fini(struct sim_gate *gate);

#endif
