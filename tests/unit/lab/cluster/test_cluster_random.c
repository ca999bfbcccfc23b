/* test_cluster_random.c - clusters of every kind: what holds whatever the settings are.
 *
 * That the books balance is checked by the run itself, which fails if they do not. Here: that times
 * are in their order, that nobody is served twice or before it came, that a run can be repeated to
 * the byte, and that memory may run out at any moment.
 */
#include <stdio.h>
#include <string.h>

#include "failing_malloc.h"

#include "check.h"
#include "draw.h"
#include "lab/cluster/cluster.h"

#define WORLDS 250
#define REQUESTS 120

static uint64_t seed;

static enum tg_err fill(void *context, const struct cluster_workload *load,
                        const struct cluster_request *request, struct tg_scope *room,
                        struct tg_call *call, struct tg_problem *problem)
{
    (void)context;
    (void)load;
    (void)room;
    (void)problem;
    call->priority = (enum tg_priority)(request->id % TG_PRIORITY_COUNT);
    return TG_OK;
}

static void draw_gate(struct draw *draw, struct cluster_gate *gate)
{
    *gate = (struct cluster_gate){.fill = fill, .sample_first_token = draw_chance(draw, 50)};
    tg_gate_config_init(&gate->config);
    gate->config.concurrency.on = true;
    gate->config.concurrency.law.law = draw_chance(draw, 50) ? TG_LAW_FIXED : TG_LAW_AIMD;
    gate->config.concurrency.law.min = 1;
    gate->config.concurrency.law.initial = draw_between(draw, 1, 40);
}

static void draw_flow(struct draw *draw, struct cluster_config *config)
{
    config->flow.on = draw_chance(draw, 40);
    config->flow.detector =
        (enum cluster_detector)draw_between(draw, 0, CLUSTER_DETECTOR_COUNT - 1);
    config->flow.max_concurrency = draw_between(draw, 1, 20);
    config->flow.max_depth = draw_chance(draw, 50) ? draw_between(draw, 1, 30) : 0;
    config->flow.band_capacity = draw_chance(draw, 20) ? draw_between(draw, 1, 10) : 0;
    config->flow.shedding = draw_chance(draw, 50);
    config->flow.ttl_us = draw_chance(draw, 30) ? draw_magnitude(draw, 1000000) : 0;
    config->flow.in_flight_eviction = draw_chance(draw, 40);
    config->flow.usage_limit = draw_chance(draw, 50) ? 1 : 0.2;
    config->flow.dispatch = (enum cluster_dispatch)draw_between(draw, 0, 1);
    config->flow.fairness = (enum cluster_fairness)draw_between(draw, 0, 1);
}

static void draw_config(struct draw *draw, struct cluster_config *config,
                        const struct cluster_gate *gate)
{
    cluster_config_init(config);
    config->admission =
        (enum cluster_admission)draw_between(draw, 0, CLUSTER_ADMISSION_COUNT - 1);
    config->gate = gate;
    config->bucket_capacity = (double)draw_magnitude(draw, 100000);
    config->bucket_refill_per_s = (double)draw_magnitude(draw, 1000000);
    config->tier_shed_threshold = draw_between(draw, 0, 30);
    config->gaie_queue_threshold = (double)draw_between(draw, 1, 10);
    config->admission_latency_us = draw_chance(draw, 50) ? draw_magnitude(draw, 10000) : 0;
    config->routing_latency_us = draw_chance(draw, 50) ? draw_magnitude(draw, 10000) : 0;
    config->retry.max_attempts = (int32_t)draw_between(draw, 1, 3);
    config->retry.backoff_us = draw_magnitude(draw, 100000);
    draw_flow(draw, config);
    config->routing = (enum cluster_routing)draw_between(draw, 0, CLUSTER_ROUTING_COUNT - 1);
    config->snapshot_us = draw_chance(draw, 50) ? 50000 : 0;
    config->cache_signal_us = draw_chance(draw, 50) ? 50000 : 0;
    for (config->n_weights = 0; config->n_weights < CLUSTER_SCORERS_MAX; config->n_weights++)
        config->weights[config->n_weights] =
            (struct cluster_weight){(enum cluster_scorer)config->n_weights, 1};
    config->instances = draw_between(draw, 1, 6);
    config->scheduler =
        (enum cluster_scheduler)draw_between(draw, 0, CLUSTER_SCHEDULER_COUNT - 1);
    config->preemption =
        (enum cluster_preemption)draw_between(draw, 0, CLUSTER_PREEMPTION_COUNT - 1);
    config->max_num_seqs = draw_between(draw, 1, 40);
    config->max_batched_tokens = draw_between(draw, 1, 600);
    config->long_prefill = draw_chance(draw, 30) ? draw_between(draw, 1, 100) : 0;
    config->block_tokens = draw_between(draw, 1, 20);
    config->kv_blocks = draw_between(draw, 20, 200);
    config->latency = (enum cluster_latency)draw_between(draw, 0, 1);
    config->horizon_us = draw_chance(draw, 30) ? draw_magnitude(draw, 3000000) : INT64_MAX;
    config->series_us = draw_magnitude(draw, 100000);
}

static void draw_load(struct draw *draw, struct cluster_config *config,
                      struct cluster_workload *load)
{
    int64_t at = 0;
    uint32_t number;

    assert_int_equal(cluster_workload_init(load), TG_OK);
    assert_true(cluster_names_get(&load->tenants, "a", 1, &number));
    assert_true(cluster_names_get(&load->tenants, "b", 1, &number));
    assert_true(cluster_names_get(&load->groups, "g", 1, &number));
    for (int i = 0; i < REQUESTS; i++) {
        struct cluster_request *request = cluster_workload_add(load);
        assert_non_null(request);
        at += draw_chance(draw, 20) ? 0 : draw_magnitude(draw, 60000);
        request->arrival_us = at;
        request->input_tokens = (int32_t)draw_between(draw, draw_chance(draw, 5) ? 0 : 1, 400);
        request->output_tokens = (int32_t)draw_between(draw, 0, 60);
        request->max_output_tokens = draw_chance(draw, 80) ? request->output_tokens : 0;
        request->deadline_us = draw_chance(draw, 40) ? at + draw_magnitude(draw, 5000000) : 0;
        request->slo_target_us = draw_chance(draw, 30) ? draw_magnitude(draw, 1000000) : 0;
        request->slo_class = (uint32_t)draw_between(draw, 0, (int64_t)config->n_classes - 1);
        request->tenant = (uint32_t)draw_between(draw, 0, 2);
        request->prefix_group = (uint32_t)draw_between(draw, 0, 1);
        request->prefix_tokens = (int32_t)draw_between(draw, 0, 100);
    }
}

static void check_outcome(const struct cluster_config *config,
                          const struct cluster_request *request,
                          const struct cluster_outcome *outcome)
{
    bool routed = outcome->instance >= 0;

    if (outcome->status == CLUSTER_COMPLETED) {
        int64_t before = config->admission_latency_us + config->routing_latency_us;
        assert_true(routed && outcome->scheduling_us >= before);
        assert_true(outcome->ttft_us > outcome->scheduling_us);
        assert_true(outcome->e2e_us >= outcome->ttft_us + outcome->itl_us);
        assert_true(outcome->attempts >= 1);
    } else {
        assert_int_equal(outcome->e2e_us, -1);
    }
    if (outcome->status == CLUSTER_REJECTED || outcome->status == CLUSTER_NOT_ARRIVED ||
        outcome->status == CLUSTER_GATEWAY_REJECTED)
        assert_false(routed);
    if (outcome->status == CLUSTER_NOT_ARRIVED)
        assert_true(request->arrival_us > config->horizon_us);
    assert_true(outcome->attempts <= config->retry.max_attempts);
    if (outcome->decided_us >= 0)
        assert_true(outcome->decided_us >= request->arrival_us + config->admission_latency_us);
}

static void check_result(const struct cluster_config *config, const struct cluster_workload *load,
                         const struct cluster_result *result)
{
    const int64_t *status = result->all.status;

    for (size_t i = 0; i < result->n; i++)
        check_outcome(config, &load->requests[i], &result->outcomes[i]);
    assert_true(result->all.duration_us <= config->horizon_us);
    if (config->horizon_us == INT64_MAX)
        assert_int_equal(status[CLUSTER_NOT_ARRIVED] + status[CLUSTER_IN_PIPELINE] +
                             status[CLUSTER_GATEWAY_QUEUED] + status[CLUSTER_QUEUED] +
                             status[CLUSTER_RUNNING],
                         0);
}

static void assert_same(const struct cluster_result *a, const struct cluster_result *b)
{
    assert_int_equal(a->events, b->events);
    assert_memory_equal(&a->all, &b->all, sizeof a->all);
    for (size_t i = 0; i < a->n; i++) {
        const struct cluster_outcome *x = &a->outcomes[i], *y = &b->outcomes[i];
        assert_true(x->status == y->status && x->instance == y->instance &&
                    x->ttft_us == y->ttft_us && x->e2e_us == y->e2e_us &&
                    x->decided_us == y->decided_us && x->detail == y->detail);
    }
}

static void clusters_of_every_kind_keep_their_books(void **state)
{
    int64_t seen[CLUSTER_STATUS_COUNT] = {0}, preemptions = 0;

    (void)state;
    for (uint64_t world = 0; world < WORLDS; world++) {
        struct draw draw = draw_stream(seed, world);
        struct cluster_gate gate;
        struct cluster_config config;
        struct cluster_workload load;
        struct cluster_result result, again;
        struct tg_problem problem;

        draw_gate(&draw, &gate);
        draw_config(&draw, &config, &gate);
        draw_load(&draw, &config, &load);
        if (cluster_run(&config, &load, &result, &problem) != TG_OK)
            fail_msg("world %d: %s", (int)world, problem.text);
        check_result(&config, &load, &result);
        assert_int_equal(cluster_run(&config, &load, &again, &problem), TG_OK);
        assert_same(&result, &again);
        for (int i = 0; i < CLUSTER_STATUS_COUNT; i++)
            seen[i] += result.all.status[i];
        preemptions += result.all.preemptions;
        cluster_result_fini(&result);
        cluster_result_fini(&again);
        cluster_workload_fini(&load);
    }
    for (int i = 0; i < CLUSTER_STATUS_COUNT; i++)
        if (i != CLUSTER_ROUTING_REJECTED && seen[i] == 0)
            fail_msg("no request was ever %s", cluster_status_name((enum cluster_status)i));
    assert_true(preemptions > 0);
}

/* ---- Memory ---- */

static void run_out_of_memory_everywhere(const struct cluster_config *config,
                                         const struct cluster_workload *load)
{
    struct cluster_result result;
    struct tg_problem problem;
    enum tg_err err = TG_ERR_MEMORY;
    long before = live, first = allocations;

    for (long n = 0; err != TG_OK; n++) {
        until_failure = n;
        err = cluster_run(config, load, &result, &problem);
        until_failure = -1;
        assert_true(err == TG_OK || err == TG_ERR_MEMORY);
        if (err != TG_OK)
            assert_null(result.outcomes);
        cluster_result_fini(&result);
        assert_int_equal(live, before);
    }
    assert_true(allocations > first);
}

static void memory_may_run_out_at_any_moment(void **state)
{
    (void)state;
    need_allocator();
    for (uint64_t world = 0; world < 10; world++) {
        struct draw draw = draw_stream(seed, 1000 + world);
        struct cluster_gate gate;
        struct cluster_config config;
        struct cluster_workload load;

        draw_gate(&draw, &gate);
        draw_config(&draw, &config, &gate);
        draw_load(&draw, &config, &load);
        keeps_failing = draw_chance(&draw, 50);
        run_out_of_memory_everywhere(&config, &load);
        cluster_workload_fini(&load);
    }
}

static void a_workload_that_finds_no_memory_says_so(void **state)
{
    struct cluster_workload load;

    (void)state;
    need_allocator();
    for (long n = 0; n < 8; n++) {
        long before = live;
        until_failure = n;
        enum tg_err err = cluster_workload_init(&load);
        until_failure = -1;
        assert_int_equal(err, TG_ERR_MEMORY);
        assert_int_equal(live, before);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clusters_of_every_kind_keep_their_books),
        cmocka_unit_test(memory_may_run_out_at_any_moment),
        cmocka_unit_test(a_workload_that_finds_no_memory_says_so),
    };

    seed = draw_seed("test_cluster_random");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
