/* test_metrics_page.c - what /metrics and /readyz say of a gateway that is made and at rest. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/metrics_page.h"
#include "gateway/probe_pages.h"

static const char YAML[] = "listen: {gateway: \"127.0.0.1:0\"}\n"
                           "ledger: {path: \":memory:\"}\n"
                           "gate: {concurrency: {law: fixed, initial: 7, max: 9}}\n"
                           "providers:\n"
                           "  demo:\n"
                           "    base_url: http://127.0.0.1:9\n"
                           "    api: openai\n"
                           "    keys:\n"
                           "      - {name: k1, secret: hush-hush, rpm: 500}\n"
                           "      - {name: k2, secret: hush-hush-too}\n"
                           "models:\n"
                           "  small: {provider: demo, concurrency: {law: none, max: 33}}\n"
                           "budgets: [{usd: 1000, per: month}]\n"
                           "tenants:\n"
                           "  - name: 'a\"b\\c'\n"
                           "    budgets: [{usd: 5, per: day}, {usd: 6, per: day, tz: UTC}]\n";

static struct gateway *gateway;
static char *page;

static void write_page(void)
{
    struct metrics_text text;

    free(page);
    metrics_text_init(&text);
    metrics_page_write(&text, gateway, gateway->generations, clock_now_ms(&gateway->clock));
    assert_false(text.failed);
    page = malloc(text.n + 1);
    assert_non_null(page);
    memcpy(page, text.bytes, text.n);
    page[text.n] = 0;
    metrics_text_fini(&text);
}

static int open_gateway(void **state)
{
    struct config_problems problems;
    struct ledger_problem problem;
    struct config config;
    struct clock clock;

    (void)state;
    clock_init(&clock);
    if (config_parse(NULL, YAML, strlen(YAML), &config, &problems) != CONFIG_READ) {
        fprintf(stderr, "%s\n", problems.list[0].text);
        return 1;
    }
    config_problems_free(&problems);
    if (!gateway_new(&config, &clock, 1, &gateway, &problem)) {
        fprintf(stderr, "%s\n", problem.text);
        return 1;
    }
    return 0;
}

static int close_gateway(void **state)
{
    (void)state;
    gateway_free(gateway);
    free(page);
    page = NULL;
    return 0;
}

static void expect_line(const char *line)
{
    char whole[400];

    snprintf(whole, sizeof whole, "\n%s\n", line);
    if (strstr(page, whole) == NULL)
        fail_msg("there is no line '%s' in\n%s", line, page);
}

static void the_page_says_what_there_is(void **state)
{
    (void)state;
    write_page();
    expect_line("tollgate_calls_total 0");
    expect_line("tollgate_concurrency_limit{gate=\"protect\"} 7");
    expect_line("tollgate_concurrency_limit{gate=\"models\"} 9");
    expect_line("tollgate_route_concurrency_limit{provider=\"demo\",model=\"small\"} 33");
    expect_line("tollgate_key_state{provider=\"demo\",model=\"small\",key=\"k1\","
                "state=\"healthy\"} 1");
    expect_line("tollgate_key_rpm_remaining{provider=\"demo\",model=\"small\",key=\"k1\"} 500");
    expect_line("tollgate_key_rpm_remaining{provider=\"demo\",model=\"small\",key=\"k2\"} +Inf");
    expect_line("tollgate_budget_limit_micro_usd{per=\"month\",budget=\"0\"} 1000000000");
    expect_line("tollgate_budget_limit_micro_usd{tenant=\"a\\\"b\\\\c\",per=\"day\",budget=\"1\"} "
                "6000000");
    expect_line("tollgate_ledger_state{state=\"well\"} 1");
}

static void reasons_of_one_name_are_one_line(void **state)
{
    (void)state;
    atomic_store(&gateway->counts.refused[REPLY_NO_KEY], 3);
    atomic_store(&gateway->counts.refused[REPLY_KEYS_COOLING], 4);
    write_page();
    atomic_store(&gateway->counts.refused[REPLY_NO_KEY], 0);
    atomic_store(&gateway->counts.refused[REPLY_KEYS_COOLING], 0);
    expect_line("tollgate_refused_total{reason=\"no_key\"} 7");
}

static void no_secret_is_on_the_page(void **state)
{
    (void)state;
    write_page();
    assert_null(strstr(page, "hush"));
}

/* What a reader of the format insists on: a type before the lines of a metric, all of them
 * together, and no two of the same labels. */
static void the_page_is_well_formed(void **state)
{
    char metric[128] = "", *seen[2000], *rest = NULL;
    size_t n = 0;

    (void)state;
    write_page();
    assert_int_equal(page[strlen(page) - 1], '\n');
    for (char *line = strtok_r(page, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        if (strncmp(line, "# HELP ", 7) == 0)
            continue;
        if (strncmp(line, "# TYPE ", 7) == 0) {
            assert_int_equal(sscanf(line, "# TYPE %127s", metric), 1);
            for (size_t i = 0; i < n; i++)
                if (strncmp(seen[i], metric, strlen(metric)) == 0 &&
                    strchr("{ ", seen[i][strlen(metric)]))
                    fail_msg("%s begins twice", metric);
            continue;
        }
        assert_memory_equal(line, metric, strlen(metric));
        char *value = strrchr(line, ' ');
        assert_non_null(value);
        assert_int_equal(strspn(value + 1, "-0123456789+Inf"), strlen(value + 1));
        *value = 0;
        for (size_t i = 0; i < n; i++)
            assert_string_not_equal(seen[i], line);
        assert_true(n < COUNT_OF(seen));
        seen[n++] = line;
    }
    assert_true(n > 50);
}

static void ready_until_it_drains(void **state)
{
    (void)state;
    assert_null(probe_unready(gateway, &gateway->generations->config));
    atomic_store(&gateway->draining, true);
    assert_string_equal(probe_unready(gateway, &gateway->generations->config), "draining");
    atomic_store(&gateway->draining, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_page_says_what_there_is),
        cmocka_unit_test(reasons_of_one_name_are_one_line),
        cmocka_unit_test(no_secret_is_on_the_page),
        cmocka_unit_test(the_page_is_well_formed),
        cmocka_unit_test(ready_until_it_drains),
    };

    return cmocka_run_group_tests(tests, open_gateway, close_gateway);
}
