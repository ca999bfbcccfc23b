/* cluster_books.c - whether the books of a run balance.
 *
 * Every request ends in exactly one state; and what the states of all of them say must be what was
 * counted, by others, as it happened: arrivals, refusals, who was routed, who is still where. A run
 * of which that is not true has a mistake in it, and its numbers are worth nothing.
 */
#include <inttypes.h>
#include <stdio.h>

#include "lab/cluster/cluster_internal.h"
#include "lib/core/problem.h"

static enum tg_err unbalanced(struct tg_problem *problem, const char *what, int64_t a, int64_t b)
{
    return problem_say(problem, TG_ERR_UNKNOWN,
                       "the books do not balance: %s, %" PRId64 " against %" PRId64, what, a, b);
}

/* What the outcomes say, against what was counted as it happened. */
enum tg_err books_check(const struct cluster_run_state *run, const struct cluster_result *result,
                        struct tg_problem *problem)
{
    const int64_t *status = result->all.status;
    int64_t sum = 0, routed = 0, waiting = 0, running = 0, coming = 0;

    for (int i = 0; i < CLUSTER_STATUS_COUNT; i++)
        sum += status[i];
    for (size_t i = 0; i < run->n_instances; i++) {
        const struct instance *instance = &run->instances[i];
        routed += instance->routed;
        waiting += (int64_t)instance->n_waiting;
        running += (int64_t)instance->n_batch;
        coming += (int64_t)instance->coming.n;
        if (instance->in_flight !=
            (int64_t)(instance->n_waiting + instance->n_batch + instance->coming.n))
            return unbalanced(problem, "in flight at an instance", instance->in_flight,
                              (int64_t)(instance->n_waiting + instance->n_batch));
    }
    if (sum != (int64_t)run->load->n)
        return unbalanced(problem, "requests", sum, (int64_t)run->load->n);
    if (run->arrived != sum - status[CLUSTER_NOT_ARRIVED])
        return unbalanced(problem, "arrived", run->arrived, sum - status[CLUSTER_NOT_ARRIVED]);
    if (run->rejected != status[CLUSTER_REJECTED] + status[CLUSTER_GATEWAY_REJECTED])
        return unbalanced(problem, "rejected", run->rejected,
                          status[CLUSTER_REJECTED] + status[CLUSTER_GATEWAY_REJECTED]);
    if (routed != result->all.injected + status[CLUSTER_GATEWAY_EVICTED] + coming)
        return unbalanced(problem, "routed", routed, result->all.injected + coming);
    if (run->world.completed != status[CLUSTER_COMPLETED])
        return unbalanced(problem, "completed", run->world.completed, status[CLUSTER_COMPLETED]);
    if (waiting != status[CLUSTER_QUEUED] || running != status[CLUSTER_RUNNING])
        return unbalanced(problem, "queued and running", waiting + running,
                          status[CLUSTER_QUEUED] + status[CLUSTER_RUNNING]);
    if (flow_depth(run) + gate_waiting(run) != status[CLUSTER_GATEWAY_QUEUED])
        return unbalanced(problem, "in the gateway queue", flow_depth(run) + gate_waiting(run),
                          status[CLUSTER_GATEWAY_QUEUED]);
    return TG_OK;
}
