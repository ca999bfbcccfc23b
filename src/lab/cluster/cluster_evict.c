/* cluster_evict.c - requests that run, and that the gateway queue may end to make room.
 *
 * Only what is sheddable, the least important first, and of those the one that left the queue
 * last. A heap, whose moves are those of Go's container/heap: among equals, who is on top depends
 * on them.
 */
#include <assert.h>
#include <stdlib.h>

#include "lab/cluster/cluster_flow.h"
#include "lib/core/array.h"

static bool sooner(const struct cluster_run_state *run, uint32_t i, uint32_t j)
{
    const struct flow *flow = run->flow;
    uint32_t a = flow->tracked[i], b = flow->tracked[j];
    int32_t x = flow_priority(run, a), y = flow_priority(run, b);

    return x != y ? x < y : flow->entries[a].left_us > flow->entries[b].left_us;
}

static void swap(struct flow *flow, uint32_t i, uint32_t j)
{
    uint32_t request = flow->tracked[i];

    flow->tracked[i] = flow->tracked[j];
    flow->tracked[j] = request;
    flow->entries[flow->tracked[i]].tracked_at = i;
    flow->entries[flow->tracked[j]].tracked_at = j;
}

static void move_up(const struct cluster_run_state *run, uint32_t at)
{
    while (at > 0 && sooner(run, at, (at - 1) / 2)) {
        swap(run->flow, at, (at - 1) / 2);
        at = (at - 1) / 2;
    }
}

/* Says whether it has moved. */
static bool move_down(const struct cluster_run_state *run, uint32_t at, uint32_t n)
{
    uint32_t from = at;

    for (uint32_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && sooner(run, child + 1, child))
            child++;
        if (!sooner(run, child, at))
            break;
        swap(run->flow, at, child);
    }
    return at > from;
}

uint32_t evict_untrack(const struct cluster_run_state *run, uint32_t at)
{
    struct flow *flow = run->flow;
    uint32_t last = flow->n_tracked - 1;

    assert(at < flow->n_tracked && flow->entries[flow->tracked[at]].tracked_at == at);
    if (at != last) {
        swap(flow, at, last);
        if (!move_down(run, at, last))
            move_up(run, at);
    }
    uint32_t request = flow->tracked[--flow->n_tracked];
    flow->entries[request].tracked_at = NOBODY;
    assert(flow->n_tracked < 2 || !sooner(run, 1, 0));
    return request;
}

void flow_routed(struct cluster_run_state *run, uint32_t request)
{
    struct flow *flow = run->flow;

    if (!run->config->flow.in_flight_eviction || flow_priority(run, request) >= 0)
        return;
    if (!array_reserve(&flow->tracked, &flow->tracked_capacity, flow->n_tracked + 1)) {
        run->world.no_memory = true;
        return;
    }
    assert(flow->entries[request].tracked_at == NOBODY);
    flow->entries[request].tracked_at = flow->n_tracked;
    flow->tracked[flow->n_tracked++] = request;
    move_up(run, flow->n_tracked - 1);
}

void flow_ended(struct cluster_run_state *run, uint32_t request)
{
    uint32_t at = run->flow->entries[request].tracked_at;

    if (at != NOBODY)
        evict_untrack(run, at);
}

void flow_evict(struct cluster_run_state *run, uint32_t request)
{
    size_t at = (size_t)run->world.outcomes[request].instance;
    struct instance *instance = &run->instances[at];

    if (!instance_evict(instance, request, run->now_us))
        return;
    assert(run->tenant_running == NULL ||
           run->tenant_running[run->load->requests[request].tenant] > 0);
    if (run->tenant_running != NULL)
        run->tenant_running[run->load->requests[request].tenant]--;
    schedule_instance(run, at);
}
