/* cluster_run.c - a cluster in virtual time: what happens when. See cluster.h.
 *
 * There are two kinds of events: the cluster's own, in one heap behind the arrivals, which come
 * sorted; and those of the instances, each of which knows its next. At one instant the cluster's
 * come first, then the instances' in their order. cluster_schedule.c has the heap and the tree.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "lab/cluster/cluster_internal.h"
#include "lib/core/problem.h"

#define EVENTS_A_REPORT (1 << 15)

/* ---- What happens ---------------------------------------------------------------------------- */

static void arrive(struct cluster_run_state *run, uint32_t request)
{
    assert(run->world.outcomes[request].status == CLUSTER_NOT_ARRIVED ||
           run->world.outcomes[request].status == CLUSTER_IN_PIPELINE); /* its client retries */
    run->world.outcomes[request].status = CLUSTER_IN_PIPELINE;
    schedule_push(run, run->now_us + run->config->admission_latency_us, KIND_ADMISSION, request);
}

static void route(struct cluster_run_state *run, uint32_t request)
{
    route_view(run);
    size_t instance = route_choose(run, request);

    assert(run->world.outcomes[request].status == CLUSTER_IN_PIPELINE);
    assert(instance < run->n_instances);
    run->world.outcomes[request].instance = (int16_t)instance;
    if (run->tenant_running != NULL)
        run->tenant_running[run->load->requests[request].tenant]++;
    instance_accept(&run->instances[instance], request, run->now_us);
    if (run->flow != NULL)
        flow_routed(run, request);
    schedule_instance(run, instance);
}

static void happen(struct cluster_run_state *run, const struct cluster_event *event)
{
    switch ((enum cluster_kind)event->kind) {
    case KIND_ARRIVAL:
        arrive(run, event->request);
        break;
    case KIND_ADMISSION:
        admit_decide(run, event->request);
        break;
    case KIND_ROUTING:
        route(run, event->request);
        break;
    case KIND_EVICTION:
        flow_evict(run, event->request);
        break;
    case KIND_TTL:
        flow_expire(run, event->request);
        break;
    case KIND_TICK:
        flow_tick(run);
        break;
    case KIND_RELEASE:
        gate_release(run, event->request);
        break;
    case KIND_GATE_TICK:
        gate_tick(run);
        break;
    }
}

/* Tells everyone who counts them which requests have left an instance. */
static void end_requests(struct cluster_run_state *run, const struct instance *instance)
{
    run->ended += (int64_t)instance->n_ended;
    for (size_t i = 0; i < instance->n_ended; i++) {
        uint32_t request = instance->ended[i].request;
        assert(run->tenant_running == NULL ||
               run->tenant_running[run->load->requests[request].tenant] > 0);
        if (run->tenant_running != NULL)
            run->tenant_running[run->load->requests[request].tenant]--;
        if (run->flow != NULL)
            flow_ended(run, request);
        if (run->gate != NULL)
            gate_ended(run, request, instance->ended[i].at_us);
    }
}

static void advance_instance(struct cluster_run_state *run)
{
    size_t at = schedule_first_instance(run);

    assert(run->earliest[1] == run->now_us);
    instance_advance(&run->instances[at]);
    end_requests(run, &run->instances[at]);
    schedule_instance(run, at);
}

/* Arrivals come before other events of their instant, and before clients that retry. */
static void advance_cluster(struct cluster_run_state *run, int64_t arrival_us)
{
    assert(run->arrived == (int64_t)run->next_arrival);
    if (arrival_us <= cluster_events_next(&run->events) && run->next_arrival < run->load->n) {
        run->arrived++;
        arrive(run, (uint32_t)run->next_arrival++);
        return;
    }
    struct cluster_event event = cluster_events_pop(&run->events);
    assert(event.at_us == run->now_us);
    happen(run, &event);
}

/* A refused request whose client may retry counts as known until it does. */
static void report_progress(const struct cluster_run_state *run)
{
    double known = (double)(run->arrived - run->admitted + run->ended) / (double)run->load->n;

    run->config->progress(run->config->progress_context, known < 0 ? 0 : known > 1 ? 1 : known);
}

static void run_events(struct cluster_run_state *run)
{
    int64_t horizon = run->config->horizon_us;

    while (!run->world.no_memory && run->err == TG_OK) {
        int64_t arrival = run->next_arrival < run->load->n
                              ? run->load->requests[run->next_arrival].arrival_us
                              : INT64_MAX;
        int64_t event = cluster_events_next(&run->events);
        int64_t cluster = arrival < event ? arrival : event, instance = run->earliest[1];
        int64_t now = cluster <= instance ? cluster : instance;

        if (now == INT64_MAX || now > horizon)
            return;
        if (now >= run->series_end_us)
            series_reach(run, now);
        assert(now >= run->now_us); /* time never goes back */
        run->now_us = now;
        if (++run->n_events % EVENTS_A_REPORT == 0 && run->config->progress != NULL)
            report_progress(run);
        if (cluster <= instance)
            advance_cluster(run, arrival);
        else
            advance_instance(run);
    }
}

/* ---- Beginning and end ----------------------------------------------------------------------- */

static enum tg_err wrong_request(struct tg_problem *problem, size_t i, const char *what)
{
    return problem_say(problem, TG_ERR_INVALID, "request %zu of the workload: %s", i, what);
}

static enum tg_err check_load(const struct cluster_config *config,
                              const struct cluster_workload *load, struct tg_problem *problem)
{
    int64_t before = 0;

    if (load->n >= UINT32_MAX)
        return wrong_request(problem, load->n, "there are too many");
    for (size_t i = 0; i < load->n; i++) {
        const struct cluster_request *r = &load->requests[i];
        if (r->arrival_us < before || r->arrival_us > ((int64_t)1 << 53))
            return wrong_request(problem, i,
                                 "arrives before the one before it, before 0 or too late");
        if (r->input_tokens < 0 || r->output_tokens < 0 || r->max_output_tokens < 0 ||
            r->prefix_tokens < 0 || r->input_tokens > 1 << 29 || r->output_tokens > 1 << 29)
            return wrong_request(problem, i, "its tokens must be from 0 to 536870912");
        if (r->slo_class >= config->n_classes || r->tenant >= load->tenants.n ||
            r->prefix_group >= load->groups.n)
            return wrong_request(problem, i, "its class, tenant or prefix group is not known");
        if (r->deadline_us < 0 || r->slo_target_us < 0)
            return wrong_request(problem, i, "its deadline or target is negative");
        before = r->arrival_us;
    }
    return TG_OK;
}

/* Where each prefix group begins in a cache's table: as long as its longest prefix. */
static enum tg_err place_groups(struct cluster_run_state *run)
{
    const struct cluster_workload *load = run->load;
    int64_t block = run->config->block_tokens;

    run->group_at = calloc(load->groups.n + 1, sizeof *run->group_at);
    if (run->group_at == NULL)
        return TG_ERR_MEMORY;
    for (size_t i = 0; i < load->n; i++) {
        uint32_t group = load->requests[i].prefix_group;
        uint32_t blocks = (uint32_t)(load->requests[i].prefix_tokens / block);
        if (group != 0 && blocks > run->group_at[group])
            run->group_at[group] = blocks;
    }
    for (size_t i = 0; i < load->groups.n; i++) {
        uint32_t blocks = run->group_at[i];
        run->group_at[i] = (uint32_t)run->n_prefixes;
        run->n_prefixes += blocks;
    }
    run->world.group_at = run->group_at;
    return run->n_prefixes < UINT32_MAX ? TG_OK : TG_ERR_MEMORY;
}

static enum tg_err make_outcomes(struct cluster_run_state *run)
{
    size_t n = run->load->n;

    run->world.outcomes = malloc((n + 1) * sizeof *run->world.outcomes);
    run->world.lives = calloc(n + 1, sizeof *run->world.lives);
    if (run->world.outcomes == NULL || run->world.lives == NULL)
        return TG_ERR_MEMORY;
    for (size_t i = 0; i < n; i++)
        run->world.outcomes[i] = (struct cluster_outcome){.decided_us = -1,
                                                          .scheduling_us = -1,
                                                          .ttft_us = -1,
                                                          .e2e_us = -1,
                                                          .instance = -1,
                                                          .status = CLUSTER_NOT_ARRIVED};
    return TG_OK;
}

static enum tg_err make_instances(struct cluster_run_state *run)
{
    size_t n = (size_t)run->config->instances;

    run->instances = calloc(n, sizeof *run->instances);
    for (run->leaves = 1; run->leaves < n;)
        run->leaves *= 2;
    run->earliest = malloc(2 * run->leaves * sizeof *run->earliest);
    if (run->instances == NULL || run->earliest == NULL)
        return TG_ERR_MEMORY;
    for (size_t i = 0; i < 2 * run->leaves; i++)
        run->earliest[i] = INT64_MAX;
    for (; run->n_instances < n; run->n_instances++)
        if (!instance_init(&run->instances[run->n_instances], &run->world, run->n_prefixes))
            return TG_ERR_MEMORY;
    return TG_OK;
}

static enum tg_err make_series(struct cluster_run_state *run)
{
    run->series_us = run->config->series_us;
    run->series_end_us = run->series_us > 0 ? run->series_us : INT64_MAX;
    if (run->series_us > 0)
        run->series = malloc(series_most() * sizeof *run->series);
    return run->series_us > 0 && run->series == NULL ? TG_ERR_MEMORY : TG_OK;
}

static enum tg_err cluster_run_begin(struct cluster_run_state *run, struct tg_problem *problem)
{
    enum tg_err (*const parts[])(struct cluster_run_state *) = {
        make_outcomes, place_groups, make_instances, make_series,
        admit_init,    route_init,   flow_init};
    enum tg_err err = TG_OK;

    latency_init(&run->world.latency, run->config);
    run->world.max_tokens = cluster_config_max_tokens(run->config);
    for (size_t i = 0; i < sizeof parts / sizeof *parts && err == TG_OK; i++)
        err = parts[i](run);
    return err == TG_OK ? gate_init(run, problem) : err;
}

static void cluster_run_end(struct cluster_run_state *run)
{
    gate_fini(run);
    flow_fini(run);
    route_fini(run);
    admit_fini(run);
    for (size_t i = 0; i < run->n_instances; i++)
        instance_fini(&run->instances[i]);
    free(run->instances);
    free(run->earliest);
    free(run->group_at);
    free(run->series);
    free(run->world.outcomes);
    free(run->world.lives);
    cluster_events_fini(&run->events);
}

enum tg_err cluster_run(const struct cluster_config *config, const struct cluster_workload *load,
                        struct cluster_result *result, struct tg_problem *problem)
{
    struct cluster_run_state run = {.config = config, .load = load};
    enum tg_err err;

    *result = (struct cluster_result){0};
    run.world.config = config;
    run.world.requests = load->requests;
    run.world.n_requests = load->n;
    if ((err = cluster_config_check(config, problem)) != TG_OK ||
        (err = check_load(config, load, problem)) != TG_OK)
        return err;
    if (problem != NULL)
        problem->text[0] = '\0';
    err = cluster_run_begin(&run, problem);
    if (err == TG_OK) {
        run_events(&run);
        series_finish(&run);
        err = run.world.no_memory ? TG_ERR_MEMORY : run.err;
        if (run.err != TG_OK && problem != NULL)
            *problem = run.problem;
    }
    if (err == TG_OK)
        err = report_make(&run, result, problem);
    if (err == TG_ERR_MEMORY && problem != NULL)
        problem_fail(problem, "%s", tg_strerror(TG_ERR_MEMORY));
    cluster_run_end(&run);
    return err;
}
