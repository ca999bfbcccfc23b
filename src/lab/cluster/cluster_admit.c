/* cluster_admit.c - the admission policies of BLIS.
 *
 * The arithmetic is BLIS's to the last bit: the bucket is full at 0, is refilled at every
 * decision, a refusal's too, and counts the whole prompt and nothing of the answer. It is on
 * purpose not one of the library's limiters: whoever wants those asks for the policy `gate`.
 */
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "lab/cluster/cluster_flow.h"
#include "lab/cluster/cluster_internal.h"

/* ---- Making and unmaking --------------------------------------------------------------------- */

static bool init_budgets(struct cluster_run_state *run)
{
    const struct cluster_config *config = run->config;
    size_t n = run->load->tenants.n;
    double places = (double)(config->instances * config->max_num_seqs);

    run->budgets = malloc(n * sizeof *run->budgets);
    run->tenant_running = calloc(n, sizeof *run->tenant_running);
    if (run->budgets == NULL || run->tenant_running == NULL)
        return false;
    for (size_t i = 0; i < n; i++)
        run->budgets[i] = INFINITY;
    for (size_t i = 0; i < config->n_tenant_budgets; i++)
        if (config->tenant_budgets[i].tenant < n)
            run->budgets[config->tenant_budgets[i].tenant] =
                config->tenant_budgets[i].share * places;
    return true;
}

enum tg_err admit_init(struct cluster_run_state *run)
{
    run->bucket_tokens = run->config->bucket_capacity;
    random_init(&run->jitter, run->config->seed, 0);
    if (run->config->n_tenant_budgets > 0 && !init_budgets(run))
        return TG_ERR_MEMORY;
    return TG_OK;
}

void admit_fini(struct cluster_run_state *run)
{
    free(run->budgets);
    free(run->tenant_running);
}

/* ---- Policies -------------------------------------------------------------------------------- */

static void cluster_admit_note(struct cluster_run_state *run, uint32_t request,
                               enum cluster_reason reason, double detail)
{
    struct cluster_outcome *outcome = &run->world.outcomes[request];

    outcome->reason = (uint8_t)reason;
    outcome->detail = detail;
    outcome->decided_us = run->now_us;
}

static bool over_budget(const struct cluster_run_state *run, uint32_t request)
{
    uint32_t tenant = run->load->requests[request].tenant;

    return run->budgets != NULL && (double)run->tenant_running[tenant] > run->budgets[tenant] &&
           flow_priority(run, request) < 0;
}

/* When the bucket will have enough tokens, if no other request takes any. */
static int64_t bucket_wait(const struct cluster_run_state *run, double cost)
{
    double us = (cost - run->bucket_tokens) / run->config->bucket_refill_per_s * 1e6;

    if (cost > run->config->bucket_capacity || !(us < 1e15))
        return RETRY_NEVER;
    return (int64_t)ceil(us);
}

static void ask_bucket(struct cluster_run_state *run, uint32_t request)
{
    const struct cluster_config *config = run->config;
    double cost = (double)run->load->requests[request].input_tokens;
    int64_t elapsed = run->now_us - run->bucket_at_us;

    assert(elapsed >= 0);
    if (elapsed > 0) {
        run->bucket_tokens =
            fmin(config->bucket_capacity,
                 run->bucket_tokens + (double)elapsed * config->bucket_refill_per_s / 1e6);
        run->bucket_at_us = run->now_us;
    }
    assert(run->bucket_tokens >= 0 && run->bucket_tokens <= config->bucket_capacity);
    if (run->bucket_tokens >= cost) {
        run->bucket_tokens -= cost;
        decision_pass(run, request);
        return;
    }
    cluster_admit_note(run, request, CLUSTER_REASON_TOKENS, 0);
    decision_refuse(run, request, CLUSTER_REJECTED, bucket_wait(run, cost));
}

static void ask_tiers(struct cluster_run_state *run, uint32_t request)
{
    const struct cluster_config *config = run->config;
    int64_t most = 0;

    for (size_t i = 0; i < run->n_instances; i++) {
        int64_t load = route_load(run, i);
        most = load > most ? load : most;
    }
    if (most <= config->tier_shed_threshold ||
        flow_priority(run, request) >= config->tier_shed_min_priority) {
        decision_pass(run, request);
        return;
    }
    cluster_admit_note(run, request, CLUSTER_REASON_TIER, (double)most);
    decision_refuse(run, request, CLUSTER_REJECTED, RETRY_UNSAID);
}

static void ask_saturation(struct cluster_run_state *run, uint32_t request)
{
    const struct cluster_config *config = run->config;
    double saturation =
        route_saturation(run, config->gaie_queue_threshold, config->gaie_kv_threshold);

    if (flow_priority(run, request) >= 0 || saturation < 1) {
        decision_pass(run, request);
        return;
    }
    cluster_admit_note(run, request, CLUSTER_REASON_SATURATED, saturation);
    decision_refuse(run, request, CLUSTER_REJECTED, RETRY_UNSAID);
}

static void ask_policy(struct cluster_run_state *run, uint32_t request)
{
    switch (run->config->admission) {
    case CLUSTER_TOKEN_BUCKET:
        ask_bucket(run, request);
        break;
    case CLUSTER_REJECT_ALL:
        cluster_admit_note(run, request, CLUSTER_REASON_REJECT_ALL, 0);
        decision_refuse(run, request, CLUSTER_REJECTED, RETRY_UNSAID);
        break;
    case CLUSTER_TIER_SHED:
        ask_tiers(run, request);
        break;
    case CLUSTER_GAIE_LEGACY:
        ask_saturation(run, request);
        break;
    case CLUSTER_GATE:
        gate_decide(run, request);
        break;
    default:
        decision_pass(run, request);
    }
}

void admit_decide(struct cluster_run_state *run, uint32_t request)
{
    assert(run->world.outcomes[request].status == CLUSTER_IN_PIPELINE);
    run->world.outcomes[request].attempts++;
    route_view(run);
    cluster_admit_note(run, request, CLUSTER_REASON_NONE, 0);
    if (over_budget(run, request)) {
        cluster_admit_note(run, request, CLUSTER_REASON_TENANT_BUDGET, 0);
        decision_refuse(run, request, CLUSTER_REJECTED, RETRY_UNSAID);
    } else if (run->flow != NULL) {
        flow_admit(run, request);
    } else {
        ask_policy(run, request);
    }
}
