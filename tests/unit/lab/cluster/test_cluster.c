/* test_cluster.c - a small cluster: who is admitted, where it goes, when it ends, and the books.
 *
 * Steps take exactly one millisecond here and nothing takes time around them, so that every time
 * can be told beforehand: a request that finds an empty instance at t has its first token at
 * t + 1 ms and is complete `output` ms after t.
 */
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "lab/cluster/cluster.h"

#define MS 1000

struct bench {
    struct cluster_config config;
    struct cluster_workload load;
    struct cluster_result result;
};

static void begin(struct bench *bench)
{
    *bench = (struct bench){0};
    cluster_config_init(&bench->config);
    bench->config.own_coefficients = true;
    bench->config.beta[6] = 1000;
    assert_int_equal(cluster_workload_init(&bench->load), TG_OK);
}

static struct cluster_request *ask(struct bench *bench, int64_t at_us, int32_t input,
                                   int32_t output, const char *class)
{
    struct cluster_request *request = cluster_workload_add(&bench->load);

    assert_non_null(request);
    request->arrival_us = at_us;
    request->input_tokens = input;
    request->output_tokens = output;
    request->max_output_tokens = output;
    assert_true(
        cluster_config_class(&bench->config, class, strlen(class), &request->slo_class));
    return request;
}

static void run(struct bench *bench)
{
    struct tg_problem problem;

    cluster_result_fini(&bench->result);
    if (cluster_run(&bench->config, &bench->load, &bench->result, &problem) != TG_OK)
        fail_msg("%s", problem.text);
}

static void end(struct bench *bench)
{
    cluster_result_fini(&bench->result);
    cluster_workload_fini(&bench->load);
}

static void assert_status(const struct bench *bench, size_t request, enum cluster_status want)
{
    enum cluster_status got = (enum cluster_status)bench->result.outcomes[request].status;

    if (got != want)
        fail_msg("request %zu is %s, not %s", request, cluster_status_name(got),
                 cluster_status_name(want));
}

/* ---- The bucket ------------------------------------------------------------------------------ */

/* BLIS's own vectors: +cost@us is admitted, -cost@us is not. */
static void bucket_decides_as_the_vectors_say(void **state)
{
    static const struct {
        double capacity, refill;
        const char *story;
    } rows[] = {
        {100, 10, "+50@0"},
        {10, 0.001, "+10@0 -10@0"},
        {100, 1e6, "+100@0 -100@50 +100@150"},
        {10, 1e6, "+5@0 +5@1000000 +5@1000000 -5@1000000"},
        {1, 1, "+0@0 +0@0"},
        {100, 1000, "-101@0 +100@0 -1@999 +1@1000"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const char *at = rows[i].story;
        struct bench bench;
        begin(&bench);
        bench.config.admission = CLUSTER_TOKEN_BUCKET;
        bench.config.bucket_capacity = rows[i].capacity;
        bench.config.bucket_refill_per_s = rows[i].refill;
        for (int cost, us, n; sscanf(at, " %*[+-]%d@%d%n", &cost, &us, &n) == 2; at += n)
            ask(&bench, us, cost, 1, "");
        run(&bench);
        at = rows[i].story;
        for (size_t r = 0; r < bench.load.n; r++, at = strpbrk(at + 1, "+-"))
            assert_status(&bench, r, *at == '+' ? CLUSTER_COMPLETED : CLUSTER_REJECTED);
        end(&bench);
    }
}

/* ---- Other policies -------------------------------------------------------------------------- */

static void tiers_are_shed_above_the_threshold_and_not_at_it(void **state)
{
    struct bench bench;
    char reason[100];

    (void)state;
    begin(&bench);
    bench.config.admission = CLUSTER_TIER_SHED;
    bench.config.tier_shed_threshold = 2;
    bench.config.snapshot_us = INT64_C(1) << 50; /* only what is in flight is known */
    for (int i = 0; i < 5; i++)
        ask(&bench, i, 8, 50, i == 3 ? "critical" : "batch");
    run(&bench);
    assert_status(&bench, 2, CLUSTER_COMPLETED); /* two are there: as many as the threshold */
    assert_status(&bench, 3, CLUSTER_COMPLETED); /* three are there, but it is critical */
    assert_status(&bench, 4, CLUSTER_REJECTED);
    cluster_outcome_reason(&bench.config, &bench.load.requests[4], &bench.result.outcomes[4],
                           reason, sizeof reason);
    assert_string_equal(reason, "tier-shed: class=batch priority=-1 < min=3 load=4");
    assert_int_equal(bench.result.classes[bench.load.requests[4].slo_class].rejected, 1);
    end(&bench);
}

/* A budget of 0 lets through what comes before anything runs: even several at one instant. */
static void a_tenant_over_its_budget_loses_what_is_sheddable(void **state)
{
    struct cluster_tenant_budget budget = {.share = 0};
    struct bench bench;

    (void)state;
    begin(&bench);
    assert_true(cluster_names_get(&bench.load.tenants, "a", 1, &budget.tenant));
    bench.config.tenant_budgets = &budget;
    bench.config.n_tenant_budgets = 1;
    for (int i = 0; i < 6; i++)
        ask(&bench, i < 2 ? 0 : i == 5 ? 100 * MS
                                       : i,
            8, 10, i == 3 ? "standard" : "batch")
            ->tenant = i == 4 ? 0 : budget.tenant;
    run(&bench);
    assert_status(&bench, 0, CLUSTER_COMPLETED);
    assert_status(&bench, 1, CLUSTER_COMPLETED);
    assert_status(&bench, 2, CLUSTER_REJECTED);
    assert_status(&bench, 3, CLUSTER_COMPLETED); /* not sheddable */
    assert_status(&bench, 4, CLUSTER_COMPLETED); /* somebody else's */
    assert_status(&bench, 5, CLUSTER_COMPLETED); /* nothing runs any more */
    assert_int_equal(bench.result.outcomes[2].reason, CLUSTER_REASON_TENANT_BUDGET);
    end(&bench);
}

/* ---- Times ----------------------------------------------------------------------------------- */

static void times_are_those_of_the_steps(void **state)
{
    struct bench bench;

    (void)state;
    begin(&bench);
    bench.config.admission_latency_us = 300;
    bench.config.routing_latency_us = 40;
    ask(&bench, 10 * MS, 8, 5, "");
    run(&bench);
    const struct cluster_outcome *outcome = &bench.result.outcomes[0];
    assert_int_equal(outcome->decided_us, 10 * MS + 300);
    assert_int_equal(outcome->scheduling_us, 340);
    assert_int_equal(outcome->ttft_us, 340 + MS);
    assert_int_equal(outcome->e2e_us, 340 + 5 * MS);
    assert_int_equal(outcome->itl_us, 4 * MS);
    assert_int_equal(outcome->itl_n, 4);
    assert_int_equal(bench.result.all.duration_us, 15 * MS + 340);
    assert_int_equal(bench.result.all.output_tokens, 5);
    end(&bench);
}

/* 100 tokens in a step at most, of one prompt at most 30. */
static void long_prompts_come_in_chunks(void **state)
{
    struct bench bench;

    (void)state;
    begin(&bench);
    bench.config.max_batched_tokens = 100;
    ask(&bench, 0, 250, 1, "");
    run(&bench);
    assert_int_equal(bench.result.outcomes[0].ttft_us, 3 * MS);
    bench.config.long_prefill = 30;
    run(&bench);
    assert_int_equal(bench.result.outcomes[0].ttft_us, 9 * MS);
    end(&bench);
}

static void who_comes_too_late_for_the_batch_waits_for_a_place(void **state)
{
    struct bench bench;

    (void)state;
    begin(&bench);
    bench.config.max_num_seqs = 2;
    ask(&bench, 0, 8, 10, "");
    ask(&bench, 0, 8, 4, "");
    ask(&bench, 0, 8, 1, "");
    run(&bench);
    assert_int_equal(bench.result.outcomes[2].scheduling_us, 4 * MS);
    assert_int_equal(bench.result.outcomes[2].e2e_us, 5 * MS);
    end(&bench);
}

static void schedulers_choose_by_urgency_and_length(void **state)
{
    static const struct {
        enum cluster_scheduler scheduler;
        size_t order[3];
    } rows[] = {
        {CLUSTER_FCFS, {1, 2, 3}},
        {CLUSTER_PRIORITY_FCFS, {2, 1, 3}},
        {CLUSTER_SJF, {3, 1, 2}},
        {CLUSTER_REVERSE_PRIORITY, {3, 1, 2}},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct bench bench;
        begin(&bench);
        bench.config.scheduler = rows[i].scheduler;
        bench.config.max_num_seqs = 1;
        ask(&bench, 0, 8, 5, "");
        ask(&bench, 1, 20, 5, "standard");
        ask(&bench, 2, 30, 5, "critical");
        ask(&bench, 3, 10, 5, "batch");
        run(&bench);
        for (size_t j = 0; j < 3; j++) {
            size_t r = rows[i].order[j];
            assert_int_equal(bench.result.outcomes[r].scheduling_us +
                                 bench.load.requests[r].arrival_us,
                             5 * MS * (int64_t)(j + 1));
        }
        end(&bench);
    }
}

/* Compared by text, request_10 stands before request_9. */
static void equals_are_ordered_by_their_names_as_texts(void **state)
{
    struct bench bench;

    (void)state;
    begin(&bench);
    bench.config.scheduler = CLUSTER_SJF;
    bench.config.max_num_seqs = 1;
    for (int i = 0; i < 11; i++)
        ask(&bench, 0, 8, 1, "");
    run(&bench);
    assert_int_equal(bench.result.outcomes[0].scheduling_us, 0);
    assert_int_equal(bench.result.outcomes[1].scheduling_us, 1 * MS);
    assert_int_equal(bench.result.outcomes[10].scheduling_us, 2 * MS);
    assert_int_equal(bench.result.outcomes[2].scheduling_us, 3 * MS);
    end(&bench);
}

/* ---- Ends ------------------------------------------------------------------------------------ */

static void what_no_instance_can_hold_is_dropped(void **state)
{
    struct bench bench;

    (void)state;
    begin(&bench);
    bench.config.max_model_tokens = 100;
    ask(&bench, 0, 100, 1, "");
    ask(&bench, 0, 99, 1, "");
    ask(&bench, 0, 50, 51, "");
    ask(&bench, 0, 50, 51, "")->max_output_tokens = 0; /* it is cut instead */
    run(&bench);
    assert_status(&bench, 0, CLUSTER_DROPPED);
    assert_status(&bench, 1, CLUSTER_COMPLETED);
    assert_status(&bench, 2, CLUSTER_DROPPED);
    assert_status(&bench, 3, CLUSTER_COMPLETED);
    assert_int_equal(bench.result.all.length_capped, 1);
    assert_int_equal(bench.result.all.output_tokens, 1 + 50);
    end(&bench);
}

static void time_is_up_in_the_queue_and_in_the_batch(void **state)
{
    struct bench bench;

    (void)state;
    begin(&bench);
    bench.config.max_num_seqs = 1;
    ask(&bench, 0, 8, 100, "")->deadline_us = 10 * MS;
    ask(&bench, 0, 8, 5, "")->deadline_us = 4 * MS + 500;
    ask(&bench, 0, 8, 5, "")->deadline_us = 15 * MS;
    ask(&bench, 0, 8, 5, "");
    run(&bench);
    assert_status(&bench, 0, CLUSTER_TIMED_OUT);
    assert_int_equal(bench.result.outcomes[0].ttft_us, MS);
    assert_int_equal(bench.result.outcomes[0].e2e_us, -1);
    assert_status(&bench, 1, CLUSTER_TIMED_OUT);
    assert_int_equal(bench.result.outcomes[1].scheduling_us, -1);
    /* A step comes before the time-out of its instant: at 10 ms the place is taken for one more,
     * and at 15 ms the last step has begun, which is when a request is complete. */
    assert_status(&bench, 2, CLUSTER_COMPLETED);
    assert_int_equal(bench.result.outcomes[2].scheduling_us, 11 * MS);
    assert_status(&bench, 3, CLUSTER_COMPLETED);
    assert_int_equal(bench.result.outcomes[3].scheduling_us, 16 * MS);
    assert_true(bench.result.all.itl.mean_ms == 1);
    end(&bench);
}

static void at_the_horizon_everyone_is_somewhere(void **state)
{
    struct bench bench;
    const int64_t *status;

    (void)state;
    begin(&bench);
    bench.config.max_num_seqs = 1;
    bench.config.routing_latency_us = 10;
    bench.config.horizon_us = 5 * MS;
    ask(&bench, 0, 8, 3, "");
    ask(&bench, 0, 8, 100, "");
    ask(&bench, 0, 8, 100, "");
    ask(&bench, 5 * MS - 5, 8, 100, "");
    ask(&bench, 6 * MS, 8, 100, "");
    run(&bench);
    status = bench.result.all.status;
    assert_int_equal(status[CLUSTER_COMPLETED], 1);
    assert_int_equal(status[CLUSTER_RUNNING], 1);
    assert_int_equal(status[CLUSTER_QUEUED], 1);
    assert_int_equal(status[CLUSTER_IN_PIPELINE], 1);
    assert_int_equal(status[CLUSTER_NOT_ARRIVED], 1);
    assert_int_equal(bench.result.all.injected, 3);
    assert_int_equal(bench.result.all.duration_us, 5 * MS - 990); /* the last step's beginning */
    end(&bench);
}

/* ---- Clients that come again ----------------------------------------------------------------- */

static void a_refused_client_comes_again_when_the_bucket_says(void **state)
{
    struct bench bench;

    (void)state;
    begin(&bench);
    bench.config.admission = CLUSTER_TOKEN_BUCKET;
    bench.config.bucket_capacity = 100;
    bench.config.bucket_refill_per_s = 1000;
    bench.config.retry.max_attempts = 3;
    ask(&bench, 0, 100, 1, "");
    ask(&bench, 0, 50, 1, "");  /* 50 ms too early */
    ask(&bench, 0, 101, 1, ""); /* never */
    ask(&bench, 0, 90, 1, "")->deadline_us = 90 * MS;
    run(&bench);
    assert_status(&bench, 1, CLUSTER_COMPLETED);
    assert_int_equal(bench.result.outcomes[1].attempts, 2);
    assert_int_equal(bench.result.outcomes[1].decided_us, 50 * MS);
    assert_int_equal(bench.result.outcomes[1].ttft_us, 51 * MS);
    assert_status(&bench, 2, CLUSTER_REJECTED);
    assert_int_equal(bench.result.outcomes[2].attempts, 1);
    assert_status(&bench, 3, CLUSTER_REJECTED); /* it would have been too late for it */
    assert_int_equal(bench.result.refusals, 3);
    end(&bench);
}

static void a_client_that_is_told_nothing_doubles_its_wait(void **state)
{
    struct bench bench;

    (void)state;
    begin(&bench);
    bench.config.admission = CLUSTER_REJECT_ALL;
    bench.config.retry.max_attempts = 4;
    bench.config.retry.backoff_us = 10;
    ask(&bench, 100, 8, 1, "");
    run(&bench);
    assert_int_equal(bench.result.outcomes[0].decided_us, 100 + 10 + 20 + 40);
    assert_int_equal(bench.result.refusals, 4);
    assert_int_equal(bench.result.all.status[CLUSTER_REJECTED], 1);
    bench.config.retry.jitter = 0.5;
    run(&bench);
    assert_in_range(bench.result.outcomes[0].decided_us, 171, 100 + 105 + 3);
    end(&bench);
}

/* ---- The gate -------------------------------------------------------------------------------- */

static enum tg_err fill(void *context, const struct cluster_workload *load,
                        const struct cluster_request *request, struct tg_scope *room,
                        struct tg_call *call, struct tg_problem *problem)
{
    (void)load;
    (void)room;
    if (request->input_tokens == 13) {
        snprintf(problem->text, sizeof problem->text, "thirteen");
        return TG_ERR_INVALID;
    }
    call->priority = *(const enum tg_priority *)context;
    return TG_OK;
}

static void make_gate(struct cluster_gate *gate, enum tg_priority *priority, int64_t slots)
{
    *gate = (struct cluster_gate){.context = priority, .fill = fill};
    tg_gate_config_init(&gate->config);
    gate->config.concurrency.on = true;
    gate->config.concurrency.law.law = TG_LAW_FIXED;
    gate->config.concurrency.law.min = 1;
    gate->config.concurrency.law.initial = slots;
}

/* One slot, and a wait of 100 ms at most. */
static void the_gate_holds_back_until_a_request_has_its_last_token(void **state)
{
    enum tg_priority priority = TG_PRIORITY_HIGH;
    struct cluster_gate gate;
    struct bench bench;
    char reason[50];

    (void)state;
    begin(&bench);
    make_gate(&gate, &priority, 1);
    bench.config.admission = CLUSTER_GATE;
    bench.config.gate = &gate;
    ask(&bench, 0, 8, 60, "");
    ask(&bench, 10 * MS, 8, 60, "");
    ask(&bench, 15 * MS, 8, 60, "");
    run(&bench);
    assert_int_equal(bench.result.outcomes[0].e2e_us, 60 * MS);
    assert_int_equal(bench.result.outcomes[1].gateway_us, 50 * MS);
    assert_int_equal(bench.result.outcomes[1].e2e_us, 110 * MS);
    /* The third would get its slot at 120 ms; at 115 ms it has waited enough, and the first event
     * of the next millisecond says so. */
    assert_status(&bench, 2, CLUSTER_REJECTED);
    assert_int_equal(bench.result.outcomes[2].decided_us, 116 * MS);
    cluster_outcome_reason(&bench.config, &bench.load.requests[2], &bench.result.outcomes[2],
                           reason, sizeof reason);
    assert_string_equal(reason, "concurrency");
    end(&bench);
}

static void whoever_the_gate_refuses_comes_again_when_it_says(void **state)
{
    enum tg_priority priority = TG_PRIORITY_LOW;
    struct cluster_gate gate;
    struct bench bench;

    (void)state;
    begin(&bench);
    make_gate(&gate, &priority, 1);
    bench.config.admission = CLUSTER_GATE;
    bench.config.gate = &gate;
    bench.config.retry.max_attempts = 1000;
    for (int i = 0; i < 20; i++)
        ask(&bench, i * MS, 8, 30, "");
    run(&bench);
    assert_int_equal(bench.result.all.status[CLUSTER_COMPLETED], 20);
    assert_true(bench.result.refusals >= 19);
    assert_true(bench.result.all.duration_us >= 20 * 30 * MS);
    end(&bench);
}

static void what_the_gate_cannot_be_asked_ends_the_run(void **state)
{
    enum tg_priority priority = TG_PRIORITY_HIGH;
    struct cluster_gate gate;
    struct tg_problem problem;
    struct bench bench;

    (void)state;
    begin(&bench);
    make_gate(&gate, &priority, 1);
    bench.config.admission = CLUSTER_GATE;
    bench.config.gate = &gate;
    ask(&bench, 0, 13, 60, "");
    assert_int_equal(cluster_run(&bench.config, &bench.load, &bench.result, &problem),
                     TG_ERR_INVALID);
    assert_string_equal(problem.text, "thirteen");
    assert_null(bench.result.outcomes);
    end(&bench);
}

/* ---- The gateway queue ----------------------------------------------------------------------- */

/* One at a time; who waits leaves by the end of its own time. */
static void the_gateway_queue_can_go_by_deadlines(void **state)
{
    static const int64_t targets[] = {0, 400 * MS, 0, 200 * MS, 300 * MS};
    struct bench bench;

    (void)state;
    begin(&bench);
    bench.config.flow.on = true;
    bench.config.flow.detector = CLUSTER_DETECT_CONCURRENCY;
    bench.config.flow.max_concurrency = 1;
    bench.config.flow.dispatch = CLUSTER_DISPATCH_SLO_DEADLINE;
    for (size_t i = 0; i < COUNT_OF(targets); i++)
        ask(&bench, (int64_t)i, 8, 10, "")->slo_target_us = targets[i];
    run(&bench);
    const struct cluster_outcome *outcomes = bench.result.outcomes;
    assert_int_equal(outcomes[0].gateway_us, 0);
    assert_true(outcomes[3].gateway_us < outcomes[4].gateway_us);
    assert_true(outcomes[4].gateway_us < outcomes[1].gateway_us);
    assert_true(outcomes[1].gateway_us < outcomes[2].gateway_us);
    end(&bench);
}

/* A million in a second would do for the cluster: the queue lets one go at each look. */
static void the_gateway_queue_lets_one_go_at_each_arrival_and_tick(void **state)
{
    struct bench bench;

    (void)state;
    begin(&bench);
    bench.config.flow.on = true;
    bench.config.flow.detector = CLUSTER_DETECT_CONCURRENCY;
    bench.config.flow.max_concurrency = 1;
    ask(&bench, 0, 8, 10, "");
    for (int i = 1; i < 4; i++)
        ask(&bench, i, 8, 1, "");
    run(&bench);
    for (int i = 1; i < 4; i++)
        assert_int_equal(bench.result.outcomes[i].gateway_us + i, (9 + i) * MS);
    end(&bench);
}

/* ---- Routing --------------------------------------------------------------------------------- */

static void a_prefix_goes_to_the_instance_that_has_it(void **state)
{
    struct bench bench;
    uint32_t group;

    (void)state;
    begin(&bench);
    bench.config.instances = 4;
    bench.config.routing = CLUSTER_WEIGHTED;
    bench.config.cache_signal_us = 0;
    assert_true(cluster_names_get(&bench.load.groups, "g", 1, &group));
    for (int i = 0; i < 20; i++) {
        struct cluster_request *request = ask(&bench, i * 20 * MS, 100, 4, "");
        request->prefix_group = group;
        request->prefix_tokens = 64;
    }
    run(&bench);
    for (int i = 1; i < 20; i++)
        assert_int_equal(bench.result.outcomes[i].instance, bench.result.outcomes[0].instance);
    assert_true(bench.result.all.cache_hit_rate > 0);
    end(&bench);
}

static void the_least_loaded_instance_is_chosen(void **state)
{
    bool used[8] = {false};
    struct bench bench;

    (void)state;
    begin(&bench);
    bench.config.instances = 8;
    bench.config.routing = CLUSTER_LEAST_LOADED;
    for (int i = 0; i < 8; i++)
        ask(&bench, i, 8, 100, "");
    run(&bench);
    for (int i = 0; i < 8; i++)
        used[bench.result.outcomes[i].instance] = true;
    for (int i = 0; i < 8; i++)
        assert_true(used[i]);
    end(&bench);
}

/* ---- Series, workloads ----------------------------------------------------------------------- */

static void the_series_adds_up_however_often_it_is_halved(void **state)
{
    static const int64_t widths[] = {1, 7, 1000, 100000, 10000000};
    struct bench bench;

    (void)state;
    begin(&bench);
    bench.config.admission = CLUSTER_TOKEN_BUCKET;
    bench.config.bucket_capacity = 2000;
    for (int i = 0; i < 300; i++)
        ask(&bench, i * 3 * MS, 20, 10, "");
    for (size_t w = 0; w < COUNT_OF(widths); w++) {
        struct cluster_point sum = {0};
        bench.config.series_us = widths[w];
        run(&bench);
        assert_in_range(bench.result.n_series, 1, 512);
        for (size_t i = 0; i < bench.result.n_series; i++) {
            sum.arrived += bench.result.series[i].arrived;
            sum.admitted += bench.result.series[i].admitted;
            sum.rejected += bench.result.series[i].rejected;
            sum.completed += bench.result.series[i].completed;
            sum.output_tokens += bench.result.series[i].output_tokens;
        }
        assert_int_equal(sum.arrived, 300);
        assert_int_equal(sum.admitted, bench.result.all.status[CLUSTER_COMPLETED]);
        assert_int_equal(sum.rejected, bench.result.all.status[CLUSTER_REJECTED]);
        assert_int_equal(sum.completed, bench.result.all.status[CLUSTER_COMPLETED]);
        assert_int_equal(sum.output_tokens, bench.result.all.output_tokens);
        assert_true((int64_t)bench.result.n_series * bench.result.series_us >=
                    bench.load.requests[299].arrival_us);
    }
    end(&bench);
}

static void a_workload_out_of_order_is_refused(void **state)
{
    struct tg_problem problem;
    struct bench bench;

    (void)state;
    begin(&bench);
    ask(&bench, 10, 8, 1, "");
    ask(&bench, 9, 8, 1, "");
    assert_int_equal(cluster_run(&bench.config, &bench.load, &bench.result, &problem),
                     TG_ERR_INVALID);
    assert_non_null(strstr(problem.text, "request 1"));
    bench.load.requests[1].arrival_us = 10;
    bench.load.requests[1].input_tokens = -1;
    assert_int_equal(cluster_run(&bench.config, &bench.load, &bench.result, &problem),
                     TG_ERR_INVALID);
    bench.load.requests[1].input_tokens = 1;
    bench.load.requests[1].tenant = 1;
    assert_int_equal(cluster_run(&bench.config, &bench.load, &bench.result, &problem),
                     TG_ERR_INVALID);
    end(&bench);
}

static void an_empty_workload_is_a_run(void **state)
{
    struct bench bench;

    (void)state;
    begin(&bench);
    run(&bench);
    assert_int_equal(bench.result.all.num_requests, 0);
    assert_int_equal(bench.result.all.duration_us, 0);
    end(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bucket_decides_as_the_vectors_say),
        cmocka_unit_test(tiers_are_shed_above_the_threshold_and_not_at_it),
        cmocka_unit_test(a_tenant_over_its_budget_loses_what_is_sheddable),
        cmocka_unit_test(times_are_those_of_the_steps),
        cmocka_unit_test(long_prompts_come_in_chunks),
        cmocka_unit_test(who_comes_too_late_for_the_batch_waits_for_a_place),
        cmocka_unit_test(schedulers_choose_by_urgency_and_length),
        cmocka_unit_test(equals_are_ordered_by_their_names_as_texts),
        cmocka_unit_test(what_no_instance_can_hold_is_dropped),
        cmocka_unit_test(time_is_up_in_the_queue_and_in_the_batch),
        cmocka_unit_test(at_the_horizon_everyone_is_somewhere),
        cmocka_unit_test(a_refused_client_comes_again_when_the_bucket_says),
        cmocka_unit_test(a_client_that_is_told_nothing_doubles_its_wait),
        cmocka_unit_test(the_gate_holds_back_until_a_request_has_its_last_token),
        cmocka_unit_test(whoever_the_gate_refuses_comes_again_when_it_says),
        cmocka_unit_test(what_the_gate_cannot_be_asked_ends_the_run),
        cmocka_unit_test(the_gateway_queue_can_go_by_deadlines),
        cmocka_unit_test(the_gateway_queue_lets_one_go_at_each_arrival_and_tick),
        cmocka_unit_test(a_prefix_goes_to_the_instance_that_has_it),
        cmocka_unit_test(the_least_loaded_instance_is_chosen),
        cmocka_unit_test(the_series_adds_up_however_often_it_is_halved),
        cmocka_unit_test(a_workload_out_of_order_is_refused),
        cmocka_unit_test(an_empty_workload_is_a_run),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
