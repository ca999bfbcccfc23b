/* cluster_decision.c - what becomes of a decision: the request is routed, or its client may retry.
 *
 * Every way through admission ends here: the policies of cluster_admit.c, the gateway queue when
 * it is full, and the gate.
 */
#include <assert.h>
#include <math.h>

#include "lab/cluster/cluster_internal.h"

void decision_pass(struct cluster_run_state *run, uint32_t request)
{
    assert(run->world.outcomes[request].attempts > 0);
    run->admitted++;
    run->world.outcomes[request].decided_us = run->now_us;
    run->world.outcomes[request].status = CLUSTER_IN_PIPELINE;
    schedule_push(run, run->now_us + run->config->routing_latency_us, KIND_ROUTING, request);
}

/* How long its client waits before it retries; negative: it does not. */
static int64_t wait_before_retry(struct cluster_run_state *run, uint32_t request, int64_t retry_us)
{
    const struct cluster_config *config = run->config;
    int32_t attempts = run->world.outcomes[request].attempts;
    double wait = (double)retry_us;

    assert(attempts > 0 && retry_us >= RETRY_UNSAID);
    if (retry_us == RETRY_NEVER || attempts >= config->retry.max_attempts)
        return -1;
    if (retry_us == RETRY_UNSAID)
        wait = ldexp((double)config->retry.backoff_us, attempts < 31 ? attempts - 1 : 30);
    if (config->retry.jitter > 0)
        wait += wait * config->retry.jitter * random_unit(&run->jitter);
    return wait < 1e15 ? (int64_t)ceil(wait) : -1;
}

void decision_refuse(struct cluster_run_state *run, uint32_t request, enum cluster_status status,
                     int64_t retry_us)
{
    const struct cluster_request *asked = &run->load->requests[request];
    struct cluster_outcome *outcome = &run->world.outcomes[request];
    int64_t wait = wait_before_retry(run, request, retry_us);

    assert(status == CLUSTER_REJECTED || status == CLUSTER_GATEWAY_REJECTED);
    run->refusals++;
    outcome->decided_us = run->now_us;
    if (wait < 0 || (asked->deadline_us > 0 && run->now_us + wait >= asked->deadline_us)) {
        outcome->status = (uint8_t)status;
        run->rejected++;
        return;
    }
    outcome->status = CLUSTER_IN_PIPELINE;
    schedule_push(run, run->now_us + wait, KIND_ARRIVAL, request);
}
