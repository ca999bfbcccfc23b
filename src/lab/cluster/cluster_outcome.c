/* cluster_outcome.c - the result of a run, and why a request was admitted or not. See cluster.h. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "lab/cluster/cluster.h"

void cluster_outcome_reason(const struct cluster_config *config,
                            const struct cluster_request *request,
                            const struct cluster_outcome *outcome, char *text, size_t size)
{
    const struct cluster_class *class = &config->classes[request->slo_class];
    const char *plain[] = {
        [CLUSTER_REASON_NONE] = "",
        [CLUSTER_REASON_TOKENS] = "insufficient tokens",
        [CLUSTER_REASON_REJECT_ALL] = "reject-all",
        [CLUSTER_REASON_TENANT_BUDGET] = "tenant-budget-shed",
        [CLUSTER_REASON_ENQUEUED] = "flow-control-enqueued",
        [CLUSTER_REASON_QUEUE_REJECTED] = "flow-control-queue-rejected",
    };

    switch ((enum cluster_reason)outcome->reason) {
    case CLUSTER_REASON_TIER:
        snprintf(text, size, "tier-shed: class=%s priority=%d < min=%d load=%.0f", class->name,
                 (int)class->priority, (int)config->tier_shed_min_priority, outcome->detail);
        break;
    case CLUSTER_REASON_SATURATED:
        snprintf(text, size, "gaie-saturated: class=%s saturation=%.2f", class->name,
                 outcome->detail);
        break;
    case CLUSTER_REASON_GATE:
        snprintf(text, size, "%s", tg_reason_name((enum tg_reason)outcome->detail));
        break;
    default:
        snprintf(text, size, "%s", plain[outcome->reason]);
    }
}

void cluster_result_fini(struct cluster_result *result)
{
    free(result->outcomes);
    free(result->instances);
    free(result->tenants);
    free(result->series);
    *result = (struct cluster_result){0};
}
