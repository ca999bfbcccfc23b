/* test_workload.c - workloads from descriptions: distributions, files, and the requests they make.
 *
 * The statistical tests have fixed seeds, so they cannot fail by chance; their bounds are four
 * deviations of what they measure, or more.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "lab/workload/workload_make.h"

#define DRAWS 40000

/* ---- Distributions ---- */

struct moments {
    double mean, deviation;
    int64_t low, high;
};

static struct moments lengths_of(const struct length_law *law)
{
    struct moments found = {0, 0, INT64_MAX, 0};
    struct random random;
    double squares = 0;

    random_init(&random, 7, 1);
    for (int i = 0; i < DRAWS; i++) {
        int64_t length = length_draw(law, &random);
        found.mean += (double)length / DRAWS;
        squares += (double)length * (double)length / DRAWS;
        found.low = length < found.low ? length : found.low;
        found.high = length > found.high ? length : found.high;
    }
    found.deviation = sqrt(squares - found.mean * found.mean);
    return found;
}

static void assert_near(double got, double want, double part)
{
    if (!(fabs(got - want) <= part * fabs(want)))
        fail_msg("%.6g is not within %g of %.6g", got, part, want);
}

static void lengths_have_the_moments_of_their_law(void **state)
{
    struct length_law gaussian = {
        .kind = LENGTH_GAUSSIAN, .mean = 5000, .std_dev = 300, .min = 1, .max = 1e6};
    struct length_law exponential = {
        .kind = LENGTH_EXPONENTIAL, .mean = 900, .min = 1, .max = (double)LENGTH_MAX};
    struct length_law lognormal = {
        .kind = LENGTH_LOGNORMAL, .mu = 6.5, .sigma = 0.5, .min = 1, .max = (double)LENGTH_MAX};
    struct length_law constant = {.kind = LENGTH_CONSTANT, .value = 64};
    (void)state;

    assert_near(lengths_of(&gaussian).mean, 5000, 0.002);
    assert_near(lengths_of(&gaussian).deviation, 300, 0.02);
    assert_near(lengths_of(&exponential).mean, 900, 0.02);
    assert_near(lengths_of(&exponential).deviation, 900, 0.03);
    assert_near(lengths_of(&lognormal).mean, length_mean(&lognormal), 0.02);
    assert_int_equal(lengths_of(&constant).low, 64);
    assert_int_equal(lengths_of(&constant).high, 64);
}

static void lengths_stay_within_their_bounds(void **state)
{
    struct length_law laws[] = {
        {.kind = LENGTH_GAUSSIAN, .mean = 512, .std_dev = 256, .min = 2, .max = 700},
        {.kind = LENGTH_EXPONENTIAL, .mean = 400, .min = 100, .max = 600},
        {.kind = LENGTH_LOGNORMAL, .mu = 6.5, .sigma = 2, .min = 50, .max = 8000},
        {.kind = LENGTH_PARETO_LOGNORMAL,
         .alpha = 0.5,
         .xm = 10,
         .mu = 3,
         .sigma = 3,
         .mix_weight = 0.5,
         .min = 1,
         .max = 5000},
    };
    (void)state;

    for (size_t i = 0; i < COUNT_OF(laws); i++) {
        struct moments found = lengths_of(&laws[i]);
        assert_int_equal(found.low, (int64_t)laws[i].min);
        assert_int_equal(found.high, (int64_t)laws[i].max);
    }
}

static void a_tail_without_bound_ends_at_the_longest(void **state)
{
    struct length_law law = {.kind = LENGTH_PARETO_LOGNORMAL,
                             .alpha = 0.01,
                             .xm = 1e6,
                             .mix_weight = 1,
                             .min = 1,
                             .max = (double)LENGTH_MAX};
    (void)state;

    assert_int_equal(lengths_of(&law).high, LENGTH_MAX);
}

static void an_empirical_length_comes_as_often_as_it_is_probable(void **state)
{
    const struct length_bin bins[] = {{10, 0.25}, {20, 0.75}, {4000, 1}};
    struct length_law law = {.kind = LENGTH_EMPIRICAL, .bins = bins, .n_bins = 3};
    struct random random;
    int counts[3] = {0};
    (void)state;

    random_init(&random, 3, 0);
    for (int i = 0; i < DRAWS; i++) {
        int64_t length = length_draw(&law, &random);
        counts[length == 10 ? 0 : length == 20 ? 1
                                               : 2]++;
    }
    assert_near(counts[0], 0.25 * DRAWS, 0.04);
    assert_near(counts[1], 0.50 * DRAWS, 0.04);
    assert_near(counts[2], 0.25 * DRAWS, 0.04);
    assert_near(length_mean(&law), 0.25 * 10 + 0.5 * 20 + 0.25 * 4000, 1e-12);
}

static void gaps_have_the_rate_and_the_variation_that_are_asked(void **state)
{
    static const struct {
        enum gap_kind kind;
        double cv, tolerance;
    } rows[] = {
        {GAP_POISSON, 1, 0.03},
        {GAP_GAMMA, 0.5, 0.03},
        {GAP_GAMMA, 2.5, 0.08},
        {GAP_WEIBULL, 0.5, 0.03},
        {GAP_WEIBULL, 1.5, 0.05},
        {GAP_CONSTANT, 0, 0},
    };
    (void)state;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct gap_law law;
        struct random random;
        double mean = 0, squares = 0;

        gap_init(&law, rows[i].kind, rows[i].cv, 50);
        random_init(&random, 11, i);
        for (int n = 0; n < DRAWS; n++) {
            double gap = (double)gap_draw(&law, &random);
            assert_true(gap >= 1);
            mean += gap / DRAWS;
            squares += gap * gap / DRAWS;
        }
        assert_near(mean, 20000, rows[i].tolerance);
        if (rows[i].cv > 0)
            assert_near(sqrt(squares - mean * mean) / mean, rows[i].cv, 0.05);
    }
}

static void a_gap_is_never_nothing_and_never_overflows(void **state)
{
    struct gap_law fast, slow;
    struct random random;
    (void)state;

    random_init(&random, 1, 1);
    gap_init(&fast, GAP_GAMMA, 5, 1e9);
    gap_init(&slow, GAP_WEIBULL, 10, 1e-12);
    for (int i = 0; i < 1000; i++) {
        assert_true(gap_draw(&fast, &random) >= 1);
        int64_t gap = gap_draw(&slow, &random);
        assert_true(gap >= 1 && gap <= INT64_C(1000000000000000000));
    }
}

/* ---- Files ---- */

static const char mixed[] = "version: \"2\"\n"
                            "seed: 9\n"
                            "category: language\n"
                            "aggregate_rate: 200\n"
                            "num_requests: 4000\n"
                            "clients:\n"
                            "  - id: crit\n"
                            "    tenant_id: acme\n"
                            "    slo_class: critical\n"
                            "    rate_fraction: 0.75\n"
                            "    streaming: true\n"
                            "    arrival: {process: poisson}\n"
                            "    input_distribution: {type: gaussian, params: {mean: 256, "
                            "std_dev: 128, min: 2, max: 2048}}\n"
                            "    output_distribution: {type: exponential, params: {mean: 200}}\n"
                            "  - id: bg\n"
                            "    tenant_id: globex\n"
                            "    slo_class: background\n"
                            "    rate_fraction: 0.25\n"
                            "    arrival: {process: gamma, cv: 2.5}\n"
                            "    timeout: 7000000\n"
                            "    prefix_group: shared\n"
                            "    input_distribution: {type: lognormal, params: {mu: 6.5, "
                            "sigma: 0.8, max: 8000}}\n"
                            "    output_distribution: {type: constant, params: {value: 64}}\n";

static void read_spec(const char *text, struct workload_spec *spec)
{
    struct yaml_problem problem;

    if (!workload_spec_read(text, strlen(text), spec, &problem))
        fail_msg("%zu:%zu: %s", problem.line, problem.column, problem.text);
}

static void a_file_says_what_clients_send(void **state)
{
    struct workload_spec spec;
    double rates[2];
    (void)state;

    read_spec(mixed, &spec);
    assert_int_equal(spec.n_clients, 2);
    assert_true(spec.has_seed && spec.seed == 9 && spec.num_requests == 4000);
    const struct workload_client *crit = &spec.clients[0], *bg = &spec.clients[1];
    assert_string_equal(crit->id, "crit");
    assert_string_equal(crit->tenant, "acme");
    assert_string_equal(crit->slo_class, "critical");
    assert_true(crit->streaming && crit->timeout_us == -1 && crit->prefix_tokens == 0);
    assert_int_equal(crit->gap, GAP_POISSON);
    assert_true(crit->input.kind == LENGTH_GAUSSIAN && crit->input.max == 2048);
    assert_true(bg->timeout_us == 7000000 && bg->prefix_tokens == WORKLOAD_PREFIX_TOKENS);
    assert_true(bg->gap == GAP_GAMMA && bg->cv == 2.5);
    assert_true(bg->input.kind == LENGTH_LOGNORMAL && bg->input.max == 8000);
    workload_spec_rates(&spec, rates);
    assert_true(rates[0] == 150 && rates[1] == 50);
    workload_spec_free(&spec);
}

/* A client with what stands for it. */
#define LENGTHS                                                   \
    "input_distribution: {type: constant, params: {value: 10}}, " \
    "output_distribution: {type: constant, params: {value: 5}}"
#define CLIENT(more) "  - {rate_fraction: 1, arrival: {process: constant}, " LENGTHS more "}\n"
#define CLIENTS(more) "aggregate_rate: 10\nclients:\n" CLIENT(more)

static void what_is_wrong_in_a_file_is_told_with_its_place(void **state)
{
    static const struct {
        const char *text;
        size_t line;
        const char *words;
    } rows[] = {
        {"", 1, "must be a map"},
        {"aggregate_rate: 1\n", 1, "needs at least one client"},
        {"aggregate_rat: 1\nclients: []\n", 1, "has no 'aggregate_rat'; it has version"},
        {"clients:\n" CLIENT(""), 1, "needs 'aggregate_rate'"},
        {"aggregate_rate: 0\nclients:\n" CLIENT(""), 1, "'aggregate_rate' is '0'"},
        {"aggregate_rate: .inf\nclients:\n" CLIENT(""), 1, "must be a finite number"},
        {"aggregate_rate: 1\nversion: \"3\"\nclients:\n" CLIENT(""), 2, "there are 1, 2"},
        {CLIENTS(", burst: 1"), 3, "a client has no 'burst'"},
        {CLIENTS(", slo_class: gold"), 3, "there is no slo_class 'gold'; there are"},
        {CLIENTS(", concurrency: 4"), 3, "either 'rate_fraction' or 'concurrency'"},
        {CLIENTS(", timeout: -1"), 3, "'timeout' is '-1'"},
        {CLIENTS(", reasoning: {}"), 3, "conversations of several rounds are not simulated"},
        {CLIENTS(", multimodal: {}"), 3, "not simulated"},
        {CLIENTS(", lifecycle: {windows: [{start_us: 5, end_us: 5}]}"), 3, "end after its start"},
        {CLIENTS(", slo_class: batch") CLIENT(""), 4, "all clients have an 'slo_class'"},
        {"servegen_data: {path: x}\n", 1, "ServeGen's files are not read"},
        {"aggregate_rate: 1\nclients:\n  - {rate_fraction: 1, arrival: {process: bursty}, " LENGTHS
         "}\n",
         3, "there is no arrival process 'bursty'; there are poisson, gamma, weibull, constant"},
        {"aggregate_rate: 1\nclients:\n  - {rate_fraction: 1, "
         "arrival: {process: weibull, cv: 11}, " LENGTHS "}\n",
         3, "'cv' of weibull must be from 0.01 to 10.4"},
        {"aggregate_rate: 1\nclients:\n  - rate_fraction: 1\n    arrival: {process: poisson}\n"
         "    input_distribution: {type: normal, params: {}}\n"
         "    output_distribution: {type: constant, params: {value: 1}}\n",
         5, "there is no distribution 'normal'; there are constant, gaussian"},
        {"aggregate_rate: 1\nclients:\n  - rate_fraction: 1\n    arrival: {process: poisson}\n"
         "    input_distribution: {type: gaussian, params: {mean: 5}}\n"
         "    output_distribution: {type: constant, params: {value: 1}}\n",
         5, "a gaussian distribution needs 'std_dev'"},
        {"aggregate_rate: 1\nclients:\n  - rate_fraction: 1\n    arrival: {process: poisson}\n"
         "    input_distribution: {type: empirical, params: {a: 1}}\n"
         "    output_distribution: {type: constant, params: {value: 1}}\n",
         5, "a length must be a whole number of tokens"},
        {"a: [\n", 2, ""},
        {"seed: 1\nseed: 2\n", 2, "seed"},
    };
    (void)state;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct workload_spec spec;
        struct yaml_problem problem;
        if (workload_spec_read(rows[i].text, strlen(rows[i].text), &spec, &problem))
            fail_msg("taken: %s", rows[i].text);
        if (problem.line != rows[i].line || strstr(problem.text, rows[i].words) == NULL)
            fail_msg("%zu:%zu: %s\nof: %s", problem.line, problem.column, problem.text,
                     rows[i].text);
        workload_spec_free(&spec);
    }
}

static void names_of_the_first_version_are_understood(void **state)
{
    static const char text[] = "version: \"1\"\n" CLIENTS(", slo_class: realtime");
    struct workload_spec spec;
    (void)state;

    read_spec(text, &spec);
    assert_string_equal(spec.clients[0].slo_class, "critical");
    workload_spec_free(&spec);
}

static void a_cohort_shares_its_rate_among_its_members(void **state)
{
    static const char text[] =
        "aggregate_rate: 100\n"
        "cohorts:\n"
        "  - {id: a, population: 4, rate_fraction: 0.8, arrival: {process: poisson}, " LENGTHS
        ", drain: {start_time_us: 1000, ramp_duration_us: 100}}\n"
        "  - {id: b, population: 1, rate_fraction: 0.2, arrival: {process: poisson}, " LENGTHS
        ", spike: {start_time_us: 500, duration_us: 10}}\n";
    struct workload_spec spec;
    double rates[5];
    (void)state;

    read_spec(text, &spec);
    assert_int_equal(spec.n_clients, 5);
    assert_string_equal(spec.clients[3].id, "a-3");
    assert_int_equal(spec.clients[0].n_windows, 11);
    assert_true(spec.clients[0].windows[0].end_us == 1000);
    assert_true(spec.clients[0].windows[10].end_us - spec.clients[0].windows[10].start_us == 1);
    workload_spec_rates(&spec, rates);
    for (int i = 0; i < 4; i++)
        assert_near(rates[i], 20, 1e-12);
    assert_near(rates[4], 20, 1e-12);
    workload_spec_free(&spec);
}

/* A day has its peak where it is asked, and a twelfth part of it half a day later. */
static void a_day_is_fullest_at_its_peak(void **state)
{
    static const char text[] =
        "aggregate_rate: 100\n"
        "cohorts:\n"
        "  - {id: a, population: 1, rate_fraction: 1, arrival: {process: poisson}, " LENGTHS
        ", diurnal: {peak_hour: 14, peak_to_trough_ratio: 12}}\n";
    struct workload_spec spec;
    (void)state;

    read_spec(text, &spec);
    const struct workload_window *windows = spec.clients[0].windows;
    assert_int_equal(spec.clients[0].n_windows, 24);
    assert_int_equal(windows[14].end_us - windows[14].start_us, INT64_C(3600000000));
    assert_near((double)(windows[2].end_us - windows[2].start_us), 3600e6 / 12, 1e-6);
    workload_spec_free(&spec);
}

/* ---- Requests ---- */

struct made {
    struct cluster_config config;
    struct workload workload;
};

static void make(const char *text, const struct workload_making *making, struct made *made)
{
    struct workload_spec spec;
    struct tg_problem problem;

    read_spec(text, &spec);
    cluster_config_init(&made->config);
    assert_true(workload_init(&made->workload));
    if (workload_make(&spec, making, &made->config, &made->workload, &problem) != TG_OK)
        fail_msg("%s", problem.text);
    workload_spec_free(&spec);
}

static void requests_come_in_order_and_as_many_as_asked(void **state)
{
    struct workload_making making = {9, 4000, INT64_MAX, 0};
    struct made made;
    size_t background = 0;
    (void)state;

    make(mixed, &making, &made);
    const struct cluster_workload *load = &made.workload.load;
    assert_int_equal(load->n, 4000);
    for (size_t i = 0; i < load->n; i++) {
        const struct cluster_request *request = &load->requests[i];
        assert_true(i == 0 || request->arrival_us >= load->requests[i - 1].arrival_us);
        assert_int_equal(request->id, i);
        assert_int_equal(request->max_output_tokens, request->output_tokens);
        bool is_background =
            strcmp(made.config.classes[request->slo_class].name, "background") == 0;
        background += is_background;
        assert_int_equal(request->deadline_us, is_background ? request->arrival_us + 7000000 : 0);
        assert_int_equal(request->prefix_tokens, is_background ? WORKLOAD_PREFIX_TOKENS : 0);
        assert_true(request->input_tokens > request->prefix_tokens);
        assert_string_equal(load->tenants.texts[request->tenant],
                            is_background ? "globex" : "acme");
    }
    assert_near((double)background, 1000, 0.2);
    assert_near((double)load->requests[3999].arrival_us, 4000 / 200.0 * 1e6, 0.1);
    workload_fini(&made.workload);
}

static void the_same_seed_makes_the_same_and_another_another(void **state)
{
    struct made made[3];
    const uint64_t seeds[3] = {5, 5, 6};
    size_t different = 0;
    (void)state;

    for (int i = 0; i < 3; i++) {
        struct workload_making making = {seeds[i], 500, INT64_MAX, 0};
        make(mixed, &making, &made[i]);
    }
    for (size_t i = 0; i < 500; i++) {
        const struct cluster_request *a = &made[0].workload.load.requests[i];
        const struct cluster_request *b = &made[1].workload.load.requests[i];
        const struct cluster_request *c = &made[2].workload.load.requests[i];
        assert_memory_equal(a, b, sizeof *a);
        different += a->arrival_us != c->arrival_us;
    }
    assert_true(different > 450);
    for (int i = 0; i < 3; i++)
        workload_fini(&made[i].workload);
}

static void constant_arrivals_begin_after_one_gap(void **state)
{
    struct workload_simple simple = {.rate_per_s = 500};
    struct workload_making making = {42, 2000, INT64_MAX, 300000000};
    struct workload_spec spec;
    struct tg_problem problem;
    struct made made;
    (void)state;

    assert_true(workload_preset("distribution", &simple));
    assert_true(simple.rate_per_s == 500 && simple.prompt_mean == 512);
    assert_true(workload_simple_spec(&simple, &spec));
    cluster_config_init(&made.config);
    assert_true(workload_init(&made.workload));
    assert_int_equal(workload_make(&spec, &making, &made.config, &made.workload, &problem), TG_OK);
    const struct cluster_request *requests = made.workload.load.requests;
    assert_int_equal(made.workload.load.n, 2000);
    for (size_t i = 0; i < 2000; i++) {
        assert_int_equal(requests[i].arrival_us, 2000 * (int64_t)(i + 1));
        assert_int_equal(requests[i].deadline_us, requests[i].arrival_us + 300000000);
    }
    assert_near(workload_mean_input(&made.workload), 512, 0.06);
    workload_spec_free(&spec);
    workload_fini(&made.workload);
}

static void nothing_is_sent_outside_of_windows_or_after_the_horizon(void **state)
{
    static const char text[] =
        CLIENTS(", lifecycle: {windows: [{start_us: 2000000, end_us: 3000000}, "
                "{start_us: 8000000, end_us: 9000000}]}");
    struct workload_making making = {1, 0, 8500000, 0};
    struct made made;
    (void)state;

    make(text, &making, &made);
    assert_true(made.workload.load.n > 10);
    for (size_t i = 0; i < made.workload.load.n; i++) {
        int64_t at = made.workload.load.requests[i].arrival_us;
        assert_true((at >= 2000000 && at < 3000000) || (at >= 8000000 && at < 8500000));
    }
    workload_fini(&made.workload);
}

static void a_workload_without_an_end_is_refused(void **state)
{
    struct workload_making making = {1, 0, INT64_MAX, 0};
    struct workload_spec spec;
    struct tg_problem problem;
    struct made made;
    (void)state;

    read_spec(CLIENTS(""), &spec);
    cluster_config_init(&made.config);
    assert_true(workload_init(&made.workload));
    assert_int_equal(workload_make(&spec, &making, &made.config, &made.workload, &problem),
                     TG_ERR_INVALID);
    assert_non_null(strstr(problem.text, "no end"));
    workload_spec_free(&spec);
    workload_fini(&made.workload);
}

static void what_arrives_at_once_keeps_its_order(void **state)
{
    static const int64_t arrivals[] = {30, 10, 30, 20, 10};
    static const int32_t lengths[] = {2, 5, 4, 1, 3};
    struct workload workload;
    (void)state;

    assert_true(workload_init(&workload));
    for (size_t i = 0; i < 5; i++) {
        struct cluster_request *request = cluster_workload_add(&workload.load);
        assert_non_null(request);
        request->arrival_us = arrivals[i];
        request->input_tokens = lengths[i];
        if (i == 3)
            workload_note_last(&workload)->cost = 77;
    }
    assert_true(workload_sort(&workload));
    static const int32_t want[] = {5, 3, 1, 2, 4};
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(workload.load.requests[i].input_tokens, want[i]);
        assert_int_equal(workload_note_of(&workload, i)->cost, i == 2 ? 77 : -1);
    }
    /* A request that is added after that has a note with the defaults, too. */
    assert_non_null(cluster_workload_add(&workload.load));
    assert_int_equal(workload_note_last(&workload)->cost, -1);
    workload_fini(&workload);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lengths_have_the_moments_of_their_law),
        cmocka_unit_test(lengths_stay_within_their_bounds),
        cmocka_unit_test(a_tail_without_bound_ends_at_the_longest),
        cmocka_unit_test(an_empirical_length_comes_as_often_as_it_is_probable),
        cmocka_unit_test(gaps_have_the_rate_and_the_variation_that_are_asked),
        cmocka_unit_test(a_gap_is_never_nothing_and_never_overflows),
        cmocka_unit_test(a_file_says_what_clients_send),
        cmocka_unit_test(what_is_wrong_in_a_file_is_told_with_its_place),
        cmocka_unit_test(names_of_the_first_version_are_understood),
        cmocka_unit_test(a_cohort_shares_its_rate_among_its_members),
        cmocka_unit_test(a_day_is_fullest_at_its_peak),
        cmocka_unit_test(requests_come_in_order_and_as_many_as_asked),
        cmocka_unit_test(the_same_seed_makes_the_same_and_another_another),
        cmocka_unit_test(constant_arrivals_begin_after_one_gap),
        cmocka_unit_test(nothing_is_sent_outside_of_windows_or_after_the_horizon),
        cmocka_unit_test(a_workload_without_an_end_is_refused),
        cmocka_unit_test(what_arrives_at_once_keeps_its_order),
    };

    return cmocka_run_group_tests_name("workload", tests, NULL, NULL);
}
