/* test_metrics.c - what is counted of a request, under which labels, and what bounds them. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>

#include "server/obs/metrics.h"

static struct metrics *metrics;
static char *page;

static void make(size_t shards, uint32_t tenants, uint32_t requests)
{
    struct metrics_config config;

    metrics_config_init(&config);
    config.shards = shards;
    config.tenants = tenants;
    config.requests = requests;
    config.uses = requests;
    metrics = metrics_new(&config);
    assert_non_null(metrics);
}

static int begin(void **state)
{
    (void)state;
    make(2, 200, 3000);
    return 0;
}

static int end(void **state)
{
    (void)state;
    metrics_free(metrics);
    metrics = NULL;
    free(page);
    page = NULL;
    return 0;
}

static void write_page(void)
{
    struct exposition text;

    free(page);
    exposition_init(&text);
    metrics_write(metrics, &text);
    assert_false(text.out.failed);
    page = malloc(text.out.size + 1);
    assert_non_null(page);
    memcpy(page, text.out.bytes, text.out.size);
    page[text.out.size] = '\0';
    exposition_fini(&text);
}

static void expect_line(const char *line)
{
    char whole[400];

    snprintf(whole, sizeof whole, "\n%s\n", line);
    if (strstr(page, whole) == NULL)
        fail_msg("there is no line '%s' in\n%s", line, page);
}

static size_t lines_with(const char *words)
{
    size_t n = 0;

    for (const char *at = page; (at = strstr(at, words)) != NULL; at++)
        n++;
    return n;
}

/* The sum of all values of a metric. */
static double sum_of(const char *metric)
{
    size_t bytes = strlen(metric);
    double sum = 0;

    for (const char *line = page; line != NULL && *line != '\0';) {
        const char *stop = strchr(line, '\n');
        if (strncmp(line, metric, bytes) == 0 && (line[bytes] == '{' || line[bytes] == ' ')) {
            const char *value = stop;
            while (value[-1] != ' ')
                value--;
            sum += strtod(value, NULL);
        }
        line = stop + 1;
    }
    return sum;
}

static struct report good_report(void)
{
    struct report report;

    report_init(&report);
    report.kind = "chat";
    report.tenant = SLICE("team-a");
    report.model = report.model_served = SLICE("small");
    report.model_asked = SLICE("whatever");
    report.provider = SLICE("demo");
    report.priority = "normal";
    report.status = 200;
    report.attempts = 1;
    return report;
}

static struct report refused_report(const char *reason, const char *axis, int status)
{
    struct report report = good_report();

    report.provider = (struct slice){NULL, 0};
    report.model_served = (struct slice){NULL, 0};
    report.attempts = 0;
    report.status = status;
    report.reason = reason;
    report.axis = axis;
    return report;
}

static void a_request_is_counted_under_who_what_where_and_how(void **state)
{
    struct report report = good_report();
    (void)state;

    metrics_request(metrics_shard(metrics, 0), &report);
    metrics_request(metrics_shard(metrics, 1), &report);
    report.status = 0;
    metrics_request(metrics_shard(metrics, 1), &report);
    report.status = 477;
    report.tenant = (struct slice){NULL, 0};
    metrics_request(metrics_shard(metrics, 1), &report);
    write_page();
    expect_line("tollgate_requests_total{tenant=\"team-a\",model=\"small\",provider=\"demo\","
                "code=\"200\",reason=\"none\"} 2");
    expect_line("tollgate_requests_total{tenant=\"team-a\",model=\"small\",provider=\"demo\","
                "code=\"none\",reason=\"none\"} 1");
    expect_line("tollgate_requests_total{model=\"small\",provider=\"demo\",code=\"4xx\","
                "reason=\"none\"} 1");
}

static void refusals_have_the_words_of_their_metrics(void **state)
{
    static const struct {
        const char *reason, *axis, *word;
    } rows[] = {{"concurrency", "concurrency", "overload"},
                {"memory_pressure", NULL, "memory"},
                {"peer_limit", NULL, "peer_limit"},
                {"policy", NULL, "policy"},
                {"rate", "rate", "rate"},
                {"cost", "cost", "cost"},
                {"budget", NULL, "budget"},
                {"budget_contended", NULL, "budget_contended"},
                {"no_key", NULL, "no_key"},
                {"request_exceeds_limit", "cost", "request_exceeds_limit"}};
    (void)state;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char line[100];
        struct report report = refused_report(rows[i].reason, rows[i].axis, 429);
        metrics_request(metrics_shard(metrics, i % 2), &report);
        write_page();
        snprintf(line, sizeof line, "admission_rejected_reason{reason=\"%s\"} 1", rows[i].word);
        expect_line(line);
        snprintf(line, sizeof line, "admission_total{result=\"rejected\"} %zu", i + 1);
        expect_line(line);
    }
    expect_line("tollgate_denied_by_axis_total{axis=\"concurrency\"} 1");
    expect_line("tollgate_denied_by_axis_total{axis=\"rate\"} 1");
    expect_line("tollgate_denied_by_axis_total{axis=\"cost\"} 2");
    expect_line("admission_total{result=\"admitted\"} 0");
}

static void refusals_are_counted_by_whose_limit_it_was(void **state)
{
    struct report report = refused_report("rate", "rate", 429);
    (void)state;

    report.limit_of = report.limit_group = SLICE("tenant dept");
    metrics_request(metrics_shard(metrics, 0), &report);
    metrics_request(metrics_shard(metrics, 1), &report);
    report.reason = "cost";
    report.limit_of = SLICE("user bob of tenant dept"); /* users choose their names */
    report.limit_group = SLICE("users of tenant dept");
    metrics_request(metrics_shard(metrics, 0), &report);
    write_page();
    expect_line("tollgate_denied_by_limit_total{limit_of=\"tenant dept\",reason=\"rate\"} 2");
    expect_line(
        "tollgate_denied_by_limit_total{limit_of=\"users of tenant dept\",reason=\"cost\"} 1");
}

/* Neither what is wrong with a request, nor what befalls one that was admitted, is a rejection. */
static void only_stages_reject(void **state)
{
    struct report wrong = refused_report("invalid_api_key", NULL, 401);
    struct report later = refused_report("no_key", NULL, 503);
    struct report store = refused_report("store_unavailable", NULL, 503);
    struct metrics_totals totals;
    (void)state;

    later.attempts = 1;
    metrics_request(metrics_shard(metrics, 0), &wrong);
    metrics_request(metrics_shard(metrics, 0), &later);
    metrics_request(metrics_shard(metrics, 0), &store);
    metrics_admitted(metrics_shard(metrics, 0), TG_PRIORITY_NORMAL, 0);
    write_page();
    expect_line("admission_total{result=\"rejected\"} 0");
    expect_line("admission_total{result=\"admitted\"} 1");
    metrics_get_totals(metrics, &totals);
    assert_true(totals.admitted == 1 && totals.rejected == 0);
}

static void each_wait_is_counted_once_in_ms_and_in_seconds(void **state)
{
    struct report report = refused_report("concurrency", "concurrency", 429);
    struct report admitted = good_report();
    (void)state;

    report.waited_ms = 50;
    admitted.waited_ms = 7;
    metrics_request(metrics_shard(metrics, 0), &report);
    metrics_admitted(metrics_shard(metrics, 1), TG_PRIORITY_NORMAL, 7);
    metrics_request(metrics_shard(metrics, 1), &admitted);
    write_page();
    expect_line("admission_queue_wait_ms_bucket{priority=\"normal\",le=\"5\"} 0");
    expect_line("admission_queue_wait_ms_bucket{priority=\"normal\",le=\"10\"} 1");
    expect_line("admission_queue_wait_ms_bucket{priority=\"normal\",le=\"50\"} 2");
    expect_line("admission_queue_wait_ms_sum{priority=\"normal\"} 57");
    expect_line("admission_queue_wait_ms_count{priority=\"normal\"} 2");
    expect_line("admission_queue_wait_ms_count{priority=\"high\"} 0");
    expect_line("tollgate_queue_wait_seconds_bucket{priority=\"normal\",le=\"0.01\"} 1");
    expect_line("tollgate_queue_wait_seconds_sum{priority=\"normal\"} 0.057");
}

static void what_was_used_is_counted_by_kind_and_in_dollars(void **state)
{
    struct report report = good_report();
    (void)state;

    report.has_usage = report.usage_reported = true;
    report.usage = (struct tg_usage){
        .input = 100, .cached_input = 20, .cache_write = 3, .output = 77};
    report.reasoning_tokens = 11;
    report.spent = 1234567;
    report.uncertain = 500000;
    report.estimated_input = 100;
    report.max_output = 300;
    report.model_served = SLICE("large");
    metrics_request(metrics_shard(metrics, 0), &report);
    metrics_request(metrics_shard(metrics, 1), &report);
    write_page();
    expect_line("tollgate_tokens_total{tenant=\"team-a\",model=\"large\",kind=\"input\"} 200");
    expect_line("tollgate_tokens_total{tenant=\"team-a\",model=\"large\","
                "kind=\"cached_input\"} 40");
    expect_line("tollgate_tokens_total{tenant=\"team-a\",model=\"large\",kind=\"cache_write\"} 6");
    expect_line("tollgate_tokens_total{tenant=\"team-a\",model=\"large\",kind=\"output\"} 154");
    expect_line("tollgate_reasoning_tokens_total{tenant=\"team-a\",model=\"large\"} 22");
    expect_line("tollgate_spend_usd_total{tenant=\"team-a\",model=\"large\"} 2.469134");
    expect_line("tollgate_uncertain_usd_total{tenant=\"team-a\",model=\"large\"} 1.000000");
    expect_line("tollgate_estimate_ratio_sum{model=\"large\"} 1.000");
    expect_line("tollgate_estimate_ratio_bucket{model=\"large\",le=\"0.5\"} 2");
    expect_line("tollgate_estimate_error_ratio{model=\"large\"} 0.5");
}

/* What a provider makes up must not end a counter: neither below 0 nor beyond all sums. */
static void absurd_usage_spoils_nothing(void **state)
{
    struct report report = good_report();
    (void)state;

    report.has_usage = report.usage_reported = true;
    report.usage = (struct tg_usage){.input = -5, .output = INT64_MAX};
    report.estimated_input = INT64_MAX;
    report.max_output = INT64_MAX;
    report.spent = -1;
    for (int i = 0; i < 20; i++)
        metrics_request(metrics_shard(metrics, 0), &report);
    write_page();
    assert_null(strstr(page, "kind=\"input\""));
    expect_line("tollgate_tokens_total{tenant=\"team-a\",model=\"small\",kind=\"output\"} "
                "20000000000");
    assert_null(strstr(page, "tollgate_spend_usd_total{"));
}

static void times_of_a_request_are_histograms(void **state)
{
    struct report report = good_report();
    (void)state;

    report.ttfb_ms = 250;
    report.overhead_us = 60;
    metrics_request(metrics_shard(metrics, 0), &report);
    write_page();
    expect_line("tollgate_ttft_seconds_bucket{model=\"small\",le=\"0.1\"} 0");
    expect_line("tollgate_ttft_seconds_bucket{model=\"small\",le=\"0.25\"} 1");
    expect_line("tollgate_ttft_seconds_sum{model=\"small\"} 0.250");
    expect_line("tollgate_overhead_seconds_bucket{le=\"0.0001\"} 1");
    expect_line("tollgate_overhead_seconds_sum 0.000060");
}

static void attempts_fallbacks_retries_and_shadows_are_counted(void **state)
{
    struct report report = good_report();
    struct metrics_attempt attempt = {.provider = SLICE("demo"),
                                      .model = SLICE("small"),
                                      .outcome = TG_KEY_LIMITED,
                                      .ttfb_ms = -1};
    struct metrics_totals totals;
    (void)state;

    metrics_attempt(metrics_shard(metrics, 0), &attempt);
    attempt.outcome = TG_KEY_OK;
    attempt.ttfb_ms = 80;
    metrics_attempt(metrics_shard(metrics, 1), &attempt);
    report.model_served = SLICE("large");
    report.fallback_why = "limited";
    report.client_retry = true;
    report.would_deny = REPORT_WOULD(REPORT_RATE) | REPORT_WOULD(REPORT_BUDGET);
    metrics_request(metrics_shard(metrics, 0), &report);
    write_page();
    expect_line("tollgate_upstream_total{provider=\"demo\",model=\"small\",class=\"limited\"} 1");
    expect_line("tollgate_upstream_total{provider=\"demo\",model=\"small\",class=\"ok\"} 1");
    expect_line("tollgate_upstream_ttfb_seconds_bucket{provider=\"demo\",model=\"small\","
                "le=\"0.1\"} 1");
    expect_line("tollgate_upstream_ttfb_seconds_count{provider=\"demo\",model=\"small\"} 1");
    expect_line("tollgate_fallback_total{from=\"small\",to=\"large\",why=\"limited\"} 1");
    expect_line("tollgate_client_retries_total{tenant=\"team-a\"} 1");
    expect_line("tollgate_shadow_denied_total{tenant=\"team-a\",reason=\"rate\"} 1");
    expect_line("tollgate_shadow_denied_total{tenant=\"team-a\",reason=\"budget\"} 1");
    assert_int_equal(lines_with("tollgate_shadow_denied_total{"), 2);
    metrics_get_totals(metrics, &totals);
    assert_int_equal(totals.would_deny[REPORT_RATE], 1);
    assert_int_equal(totals.would_deny[REPORT_BUDGET], 1);
    assert_int_equal(totals.would_deny[REPORT_COST], 0);
}

static void count_tenant(int number, size_t shard, int times)
{
    struct report report = good_report();
    char name[24];

    report.tenant = (struct slice){name, (size_t)snprintf(name, sizeof name, "t%d", number)};
    report.has_usage = true;
    report.usage.output = 1;
    for (int i = 0; i < times; i++)
        metrics_request(metrics_shard(metrics, shard), &report);
}

/* The first three quarters have a line of their own, then only who is heavy; all are counted. */
static void tenants_are_bounded_and_the_heavy_ones_are_among_them(void **state)
{
    (void)state;
    for (int i = 0; i < 10000; i++)
        count_tenant(i, (size_t)i % 2, 1);
    write_page();
    assert_true(sum_of("tollgate_requests_total") == 10000);
    assert_int_equal(lines_with("tollgate_requests_total{"), 151);
    expect_line("tollgate_requests_total{tenant=\"other\",model=\"small\",provider=\"demo\","
                "code=\"200\",reason=\"none\"} 9850");
    size_t bytes = strlen(page);
    for (int i = 0; i < 3000; i++) {
        count_tenant(7777, 0, 1);
        count_tenant(5000 + i % 1000, 0, 1);
    }
    write_page();
    assert_non_null(strstr(page, "tollgate_requests_total{tenant=\"t7777\""));
    assert_true(sum_of("tollgate_requests_total") == 16000);
    assert_int_equal(lines_with("tollgate_requests_total{"), 152);
    assert_true(strlen(page) < bytes + 1000);
}

/* With more combinations than numbers, everything is still counted once, and under its code. */
static void combinations_are_bounded_and_nothing_is_lost(void **state)
{
    struct report report = good_report();
    char name[24], model[24];
    (void)state;

    end(state);
    make(1, 200, 40);
    for (int t = 0; t < 50; t++)
        for (int m = 0; m < 40; m++) {
            report.tenant = (struct slice){name, (size_t)snprintf(name, sizeof name, "t%d", t)};
            report.model = (struct slice){model, (size_t)snprintf(model, sizeof model, "m%d", m)};
            report.status = m % 2 ? 200 : 500;
            metrics_request(metrics_shard(metrics, 0), &report);
        }
    write_page();
    assert_true(sum_of("tollgate_requests_total") == 2000);
    assert_int_equal(lines_with("tollgate_requests_total{"), 42);
    expect_line("tollgate_requests_total{tenant=\"other\",model=\"other\",provider=\"other\","
                "code=\"200\",reason=\"none\"} 980");
    expect_line("tollgate_requests_total{tenant=\"other\",model=\"other\",provider=\"other\","
                "code=\"500\",reason=\"none\"} 980");
}

/* Every code and many reasons at once: more than there is room for even at the coarsest. */
static void whatever_comes_the_page_is_bounded(void **state)
{
    struct report report = good_report();
    char reason[24];
    (void)state;

    end(state);
    make(1, 4, 4);
    for (int code = -3; code < 1000; code++)
        for (int r = 0; r < 100; r++) {
            snprintf(reason, sizeof reason, "reason-%d", r);
            report.reason = reason;
            report.status = code;
            metrics_request(metrics_shard(metrics, 0), &report);
        }
    write_page();
    assert_true(sum_of("tollgate_requests_total") == 1003 * 100);
    assert_true(lines_with("tollgate_requests_total{") <= 4 + 300);
    assert_non_null(strstr(page, "provider=\"other\",code=\"other\",reason=\"other\"} "));
}

static void a_tenant_called_other_is_one_of_the_others(void **state)
{
    struct report report = good_report();
    (void)state;

    end(state);
    make(1, 4, 100);
    report.tenant = SLICE("other");
    metrics_request(metrics_shard(metrics, 0), &report);
    for (int i = 0; i < 10; i++)
        count_tenant(i, 0, 1);
    write_page();
    assert_int_equal(lines_with("tollgate_requests_total{tenant=\"other\""), 1);
    assert_true(sum_of("tollgate_requests_total") == 11);
}

static void tenants_can_be_asked_for(void **state)
{
    struct report refused = refused_report("rate", "rate", 429);
    struct report used = good_report();
    struct metrics_tenant tenants[8];
    (void)state;

    used.has_usage = true;
    used.usage = (struct tg_usage){.input = 10, .output = 5};
    used.spent = 42;
    metrics_request(metrics_shard(metrics, 0), &refused);
    metrics_request(metrics_shard(metrics, 1), &used);
    count_tenant(3, 0, 2);
    assert_int_equal(metrics_get_tenants(metrics, tenants, 8), 2);
    struct metrics_tenant *a = strcmp(tenants[0].name, "team-a") == 0 ? &tenants[0] : &tenants[1];
    assert_string_equal(a->name, "team-a");
    assert_true(a->requests == 2 && a->refused == 1 && a->tokens == 15 && a->micro_usd == 42);
    assert_int_equal(metrics_get_tenants(metrics, tenants, 1), 2);
}

static void remember(void *context, const char *peer)
{
    strcat(strcat(context, peer), " ");
}

static void peers_that_are_no_tenants_are_known_by_name(void **state)
{
    struct report report = refused_report("peer_limit", NULL, 429);
    char names[64] = "";
    (void)state;

    report.peer = SLICE("team-a"); /* the tenant itself */
    metrics_request(metrics_shard(metrics, 0), &report);
    report.peer = SLICE("node-7");
    metrics_request(metrics_shard(metrics, 0), &report);
    metrics_request(metrics_shard(metrics, 1), &report);
    metrics_each_peer(metrics, remember, names);
    assert_string_equal(names, "node-7 ");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_request_is_counted_under_who_what_where_and_how),
        TEST(refusals_have_the_words_of_their_metrics),
        TEST(refusals_are_counted_by_whose_limit_it_was),
        TEST(only_stages_reject),
        TEST(each_wait_is_counted_once_in_ms_and_in_seconds),
        TEST(what_was_used_is_counted_by_kind_and_in_dollars),
        TEST(absurd_usage_spoils_nothing),
        TEST(times_of_a_request_are_histograms),
        TEST(attempts_fallbacks_retries_and_shadows_are_counted),
        TEST(tenants_are_bounded_and_the_heavy_ones_are_among_them),
        TEST(combinations_are_bounded_and_nothing_is_lost),
        TEST(whatever_comes_the_page_is_bounded),
        TEST(a_tenant_called_other_is_one_of_the_others),
        TEST(tenants_can_be_asked_for),
        TEST(peers_that_are_no_tenants_are_known_by_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
