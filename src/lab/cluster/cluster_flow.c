/* cluster_flow.c - the gateway queue: requests wait there until the cluster has room for them.
 *
 *     band of priority 4     tenant a: r7 r9       bands from the highest to the lowest; in a band
 *     band of priority 3     tenant a: r3          each tenant has its flow, first in first out
 *                            tenant b: r1 r8
 *     band of priority -1    (empty, but it is there: it was needed once)
 *
 * Each dispatch lets at most one request leave; a dispatch comes with each request that enters and
 * with each tick. A band may be served while the cluster is less saturated than the band's ceiling,
 * and no band below one that may not. All of it is BLIS's, its quirks too: the orders fifo and
 * priority are the same, and a band that was needed once has its ceiling for ever.
 *
 * A request is in two lists: of its band, by age, and of its flow.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "lab/cluster/cluster_flow.h"

#define DEFAULT_TENANT "default"

/* ---- Lists ----------------------------------------------------------------------------------- */

static struct flow_link *link_of(struct flow *flow, uint32_t request, bool of_band)
{
    struct flow_entry *entry = &flow->entries[request];

    return of_band ? &entry->band_link : &entry->flow_link;
}

static void cluster_flow_append(struct flow *flow, struct flow_list *list, uint32_t request,
                                bool of_band)
{
    *link_of(flow, request, of_band) = (struct flow_link){NOBODY, list->last};
    if (list->last != NOBODY)
        link_of(flow, list->last, of_band)->next = request;
    else
        list->first = request;
    list->last = request;
}

static void unlink_from(struct flow *flow, struct flow_list *list, uint32_t request, bool of_band)
{
    struct flow_link link = *link_of(flow, request, of_band);

    assert((link.previous == NOBODY) == (list->first == request));
    assert((link.next == NOBODY) == (list->last == request));
    *(link.previous != NOBODY ? &link_of(flow, link.previous, of_band)->next : &list->first) =
        link.next;
    *(link.next != NOBODY ? &link_of(flow, link.next, of_band)->previous : &list->last) =
        link.previous;
}

static void cluster_flow_leave(struct flow *flow, uint32_t request)
{
    struct flow_entry *entry = &flow->entries[request];
    struct flow_band *band = &flow->bands[entry->band];

    assert(entry->waits && band->n > 0 && flow->n >= band->n);
    unlink_from(flow, &band->all, request, true);
    unlink_from(flow, &band->flows[entry->flow], request, false);
    entry->waits = false;
    band->n--;
    flow->n--;
    assert((band->n == 0) == (band->all.first == NOBODY));
}

/* ---- Bands ----------------------------------------------------------------------------------- */

static struct flow_band *add_band(struct flow *flow, int32_t priority)
{
    struct flow_band *band = &flow->bands[flow->n_bands];
    size_t at = flow->n_bands;

    assert(flow->n_bands < CLUSTER_CLASSES_MAX); /* a class has one priority */
    *band = (struct flow_band){.priority = priority, .all = {NOBODY, NOBODY}, .served = NOBODY};
    band->flows = malloc(flow->n_ranks * sizeof *band->flows);
    if (band->flows == NULL)
        return NULL;
    for (uint32_t i = 0; i < flow->n_ranks; i++)
        band->flows[i] = (struct flow_list){NOBODY, NOBODY};
    for (; at > 0 && flow->bands[flow->order[at - 1]].priority < priority; at--)
        flow->order[at] = flow->order[at - 1];
    flow->order[at] = (uint8_t)flow->n_bands++;
    return band;
}

static struct flow_band *band_of(struct flow *flow, int32_t priority)
{
    for (size_t i = 0; i < flow->n_bands; i++)
        if (flow->bands[i].priority == priority)
            return &flow->bands[i];
    return add_band(flow, priority);
}

/* ---- Leaving --------------------------------------------------------------------------------- */

static double saturation(const struct cluster_run_state *run)
{
    const struct cluster_config *config = run->config;
    int64_t in_flight = 0;

    switch (config->flow.detector) {
    case CLUSTER_DETECT_UTILIZATION:
        return route_saturation(run, config->flow.queue_threshold, config->flow.kv_threshold);
    case CLUSTER_DETECT_CONCURRENCY:
        for (size_t i = 0; i < run->n_instances; i++)
            in_flight += run->instances[i].in_flight;
        return (double)in_flight /
               ((double)run->n_instances * (double)config->flow.max_concurrency);
    default:
        return 0;
    }
}

/* The tenant whose turn it is: of all the oldest request's, or the one after the last. */
static uint32_t turn_of(const struct cluster_run_state *run, struct flow_band *band)
{
    const struct flow *flow = run->flow;
    uint32_t rank = flow->entries[band->all.first].flow;

    assert(band->n > 0);
    if (run->config->flow.fairness == CLUSTER_FAIR_ROUND_ROBIN) {
        rank = band->served == NOBODY ? 0 : (band->served + 1) % flow->n_ranks;
        while (band->flows[rank].first == NOBODY)
            rank = (rank + 1) % flow->n_ranks;
        band->served = rank;
    }
    return rank;
}

static int64_t deadline_of(const struct cluster_run_state *run, uint32_t request)
{
    const struct cluster_request *asked = &run->load->requests[request];
    int64_t target = asked->slo_target_us > 0
                         ? asked->slo_target_us
                         : run->config->classes[asked->slo_class].slo_target_us;

    return target > 0 ? run->flow->entries[request].entered_us + target : INT64_MAX;
}

/* Who of a flow leaves: the first, or whose time is up first. */
static uint32_t chosen_of(const struct cluster_run_state *run, const struct flow_list *list)
{
    uint32_t chosen = list->first, request = chosen;

    if (run->config->flow.dispatch == CLUSTER_DISPATCH_PRIORITY)
        return chosen;
    while ((request = run->flow->entries[request].flow_link.next) != NOBODY)
        if (deadline_of(run, request) < deadline_of(run, chosen))
            chosen = request;
    return chosen;
}

/* The request that may leave; NOBODY: none. */
static uint32_t next_to_leave(const struct cluster_run_state *run, double full)
{
    struct flow *flow = run->flow;
    double lowest = run->config->flow.usage_limit;

    for (size_t i = 0; i < flow->n_bands; i++) {
        struct flow_band *band = &flow->bands[flow->order[i]];
        double ceiling = 1.0;
        if (flow->n_bands > 1)
            ceiling = 1.0 - (double)i * (1.0 - lowest) / (double)(flow->n_bands - 1);
        if (full >= ceiling)
            return NOBODY;
        if (band->n > 0)
            return chosen_of(run, &band->flows[turn_of(run, band)]);
    }
    return NOBODY;
}

static bool somebody_important_waits(const struct flow *flow)
{
    for (size_t i = 0; i < flow->n_bands; i++)
        if (flow->bands[i].priority >= 0 && flow->bands[i].n > 0)
            return true;
    return false;
}

static void dispatch(struct cluster_run_state *run)
{
    struct flow *flow = run->flow;

    if (flow->n == 0)
        return;
    if (!flow->ticking) {
        int64_t tick = run->config->flow.tick_us;
        flow->ticking = true;
        schedule_push(run, run->now_us + (tick > 0 ? tick : 1000), KIND_TICK, 0);
    }
    route_view(run);
    double full = saturation(run);
    if (full >= 1.0 && flow->n_tracked > 0 && somebody_important_waits(flow)) {
        schedule_push(run, run->now_us, KIND_EVICTION, evict_untrack(run, 0));
        return;
    }
    uint32_t request = next_to_leave(run, full);
    if (request == NOBODY)
        return;
    cluster_flow_leave(flow, request);
    flow->entries[request].left_us = run->now_us;
    run->world.outcomes[request].gateway_us = run->now_us - flow->entries[request].entered_us;
    run->world.outcomes[request].status = CLUSTER_IN_PIPELINE;
    schedule_push(run, run->now_us + run->config->routing_latency_us, KIND_ROUTING, request);
}

void flow_tick(struct cluster_run_state *run)
{
    int64_t tick = run->config->flow.tick_us;

    assert(run->flow->ticking);
    dispatch(run);
    if (run->flow->n > 0)
        schedule_push(run, run->now_us + (tick > 0 ? tick : 1000), KIND_TICK, 0);
    else
        run->flow->ticking = false;
}

void flow_expire(struct cluster_run_state *run, uint32_t request)
{
    if (!run->flow->entries[request].waits)
        return;
    cluster_flow_leave(run->flow, request);
    run->world.outcomes[request].gateway_us = run->now_us - run->flow->entries[request].entered_us;
    run->world.outcomes[request].status = CLUSTER_GATEWAY_EXPIRED;
}

/* ---- Entering -------------------------------------------------------------------------------- */

/* The youngest of the least important that may be shed; NOBODY: none. */
static uint32_t victim_of(const struct flow *flow)
{
    for (size_t i = flow->n_bands; i-- > 0;) {
        const struct flow_band *band = &flow->bands[flow->order[i]];
        if (band->priority >= 0)
            break;
        if (band->n > 0)
            return band->all.last;
    }
    return NOBODY;
}

/* Whether there is room, if need be after shedding a less important request. */
static bool cluster_flow_has_room(struct cluster_run_state *run, const struct flow_band *band)
{
    const struct cluster_config *config = run->config;
    struct flow *flow = run->flow;

    if (config->flow.band_capacity > 0 && band->n >= config->flow.band_capacity)
        return false;
    if (config->flow.max_depth == 0 || flow->n < config->flow.max_depth)
        return true;
    uint32_t victim = config->flow.shedding ? victim_of(flow) : NOBODY;
    if (victim == NOBODY || band->priority <= flow_priority(run, victim))
        return false;
    cluster_flow_leave(flow, victim);
    run->world.outcomes[victim].status = CLUSTER_GATEWAY_SHED;
    run->world.outcomes[victim].gateway_us = run->now_us - flow->entries[victim].entered_us;
    return true;
}

static void cluster_flow_enter(struct cluster_run_state *run, struct flow_band *band,
                               uint32_t request)
{
    struct flow *flow = run->flow;
    struct flow_entry *entry = &flow->entries[request];

    assert(!entry->waits);
    entry->band = (uint8_t)(band - flow->bands);
    entry->flow = flow->ranks[run->load->requests[request].tenant];
    entry->entered_us = run->now_us;
    entry->waits = true;
    cluster_flow_append(flow, &band->all, request, true);
    cluster_flow_append(flow, &band->flows[entry->flow], request, false);
    band->n++;
    flow->n++;
    run->admitted++;
    run->world.outcomes[request].status = CLUSTER_GATEWAY_QUEUED;
    run->world.outcomes[request].reason = CLUSTER_REASON_ENQUEUED;
}

void flow_admit(struct cluster_run_state *run, uint32_t request)
{
    struct flow_band *band = band_of(run->flow, flow_priority(run, request));

    if (band == NULL) {
        run->world.no_memory = true;
        return;
    }
    if (!cluster_flow_has_room(run, band)) {
        run->world.outcomes[request].reason = CLUSTER_REASON_QUEUE_REJECTED;
        decision_refuse(run, request, CLUSTER_GATEWAY_REJECTED, RETRY_UNSAID);
        return;
    }
    cluster_flow_enter(run, band, request);
    if (run->config->flow.ttl_us > 0)
        schedule_push(run, run->now_us + run->config->flow.ttl_us, KIND_TTL, request);
    dispatch(run);
}

int64_t flow_depth(const struct cluster_run_state *run)
{
    return run->flow != NULL ? run->flow->n : 0;
}

/* ---- Making one ------------------------------------------------------------------------------ */

static const char *flow_name(const char *tenant)
{
    return *tenant != '\0' ? tenant : DEFAULT_TENANT;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Ranks by name; who has no name is called default. */
static bool rank_tenants(struct flow *flow, const struct cluster_names *tenants)
{
    const char **names = malloc(tenants->n * sizeof *names);
    size_t n = 0;

    flow->ranks = malloc(tenants->n * sizeof *flow->ranks);
    if (names == NULL || flow->ranks == NULL) {
        free(names);
        return false;
    }
    for (size_t i = 0; i < tenants->n; i++)
        names[i] = flow_name(tenants->texts[i]);
    qsort(names, tenants->n, sizeof *names, by_name);
    for (size_t i = 0; i < tenants->n; i++)
        if (n == 0 || strcmp(names[n - 1], names[i]) != 0)
            names[n++] = names[i];
    for (size_t i = 0; i < tenants->n; i++) {
        const char *name = flow_name(tenants->texts[i]);
        const char **found = bsearch(&name, names, n, sizeof *names, by_name);
        assert(found != NULL);
        flow->ranks[i] = (uint32_t)(found - names);
    }
    flow->n_ranks = (uint32_t)n;
    free(names);
    return true;
}

enum tg_err flow_init(struct cluster_run_state *run)
{
    if (!run->config->flow.on)
        return TG_OK;
    run->flow = calloc(1, sizeof *run->flow);
    if (run->flow == NULL)
        return TG_ERR_MEMORY;
    run->flow->entries = calloc(run->load->n + 1, sizeof *run->flow->entries);
    if (run->flow->entries == NULL || !rank_tenants(run->flow, &run->load->tenants))
        return TG_ERR_MEMORY;
    for (size_t i = 0; i < run->load->n; i++)
        run->flow->entries[i].tracked_at = NOBODY;
    return TG_OK;
}

void flow_fini(struct cluster_run_state *run)
{
    if (run->flow == NULL)
        return;
    for (size_t i = 0; i < run->flow->n_bands; i++)
        free(run->flow->bands[i].flows);
    free(run->flow->entries);
    free(run->flow->ranks);
    free(run->flow->tracked);
    free(run->flow);
}
