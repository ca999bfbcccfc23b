/* test_metrics_page.c - what /metrics and /readyz say of a gateway that is made, and how long they
 * get.
 */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/obs/metrics.h"
#include "server/probe/metrics_page.h"
#include "server/probe/probe_pages.h"
#include "server/serve/services.h"

static const char YAML[] = "listen: {gateway: \"127.0.0.1:0\"}\n"
                           "ledger: {path: \":memory:\"}\n"
                           "gate:\n"
                           "  concurrency: {law: vegas, initial: 7, min: 3, max: 9}\n"
                           "  peers: {limit: 64}\n"
                           "providers:\n"
                           "  demo:\n"
                           "    base_url: http://127.0.0.1:9\n"
                           "    api: openai\n"
                           "    keys:\n"
                           "      - {name: k1, secret: hush-hush, rpm: 500, tpm: 900}\n"
                           "      - {name: k2, secret: hush-hush-too}\n"
                           "models:\n"
                           "  small: {provider: demo, concurrency: {law: none, max: 33}}\n"
                           "budgets: [{usd: 1000, per: month}]\n"
                           "tenants:\n"
                           "  - name: 'a\"b\\c'\n"
                           "    budgets: [{usd: 5, per: day}, {usd: 6, per: day, mode: shadow}]\n";

static struct gateway *gateway;
static char *page;

static tg_ms now(void)
{
    return clock_now_ms(&gateway->clock);
}

static void write_page(void)
{
    struct exposition text;

    free(page);
    exposition_init(&text);
    metrics_page_write(&text, gateway, gateway_newest(gateway), now());
    assert_false(text.out.failed);
    page = malloc(text.out.size + 1);
    assert_non_null(page);
    memcpy(page, text.out.bytes, text.out.size);
    page[text.out.size] = 0;
    exposition_fini(&text);
}

static void open_with(const char *yaml)
{
    struct config_problems problems;
    struct tg_problem problem;
    struct config config;
    struct clock clock;

    clock_init(&clock);
    if (config_parse(NULL, yaml, strlen(yaml), &config, &problems) != CONFIG_READ)
        fail_msg("%s", problems.list[0].text);
    config_problems_free(&problems);
    if (!gateway_new(&services, &config, &clock, 2, &gateway, &problem))
        fail_msg("%s", problem.text);
}

static int open_gateway(void **state)
{
    (void)state;
    open_with(YAML);
    return 0;
}

static int close_gateway(void **state)
{
    (void)state;
    gateway_free(gateway);
    gateway = NULL;
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

static size_t times(const char *words)
{
    size_t n = 0;

    for (const char *at = page; (at = strstr(at, words)) != NULL; at++)
        n++;
    return n;
}

static void the_page_says_what_there_is(void **state)
{
    (void)state;
    write_page();
    expect_line("tollgate_calls_total 0");
    expect_line("tollgate_config_generation 1");
    expect_line("tollgate_concurrency_limit{gate=\"all\"} 7");
    expect_line("tollgate_concurrency_limit_min{gate=\"all\"} 3");
    assert_int_equal(times("tollgate_concurrency_limit_min{"), 1);
    expect_line("tollgate_route_concurrency_limit{provider=\"demo\",model=\"small\"} 33");
    expect_line("tollgate_key_state{provider=\"demo\",model=\"small\",key=\"k1\","
                "state=\"healthy\"} 1");
    expect_line("tollgate_key_state{provider=\"demo\",model=\"small\",key=\"k1\","
                "state=\"cooling\"} 0");
    expect_line("tollgate_key_rpm_remaining{provider=\"demo\",model=\"small\",key=\"k1\"} 500");
    expect_line("tollgate_key_rpm_remaining{provider=\"demo\",model=\"small\",key=\"k2\"} +Inf");
    expect_line("tollgate_key_tpm_window_used{provider=\"demo\",model=\"small\",key=\"k1\"} 0");
    assert_int_equal(times("tollgate_key_tpm_window_used{"), 1);
    expect_line("tollgate_budget_limit_micro_usd{per=\"month\",budget=\"0\"} 1000000000");
    expect_line("tollgate_budget_limit_micro_usd{tenant=\"a\\\"b\\\\c\",per=\"day\",budget=\"1\","
                "mode=\"shadow\"} 6000000");
    expect_line("tollgate_budget_used_ratio{per=\"month\",budget=\"0\"} 0");
    expect_line("tollgate_ledger_state{state=\"well\"} 1");
    expect_line("tollgate_ledger_lag_seconds 0");
    expect_line("tollgate_store_state{state=\"ok\"} 1");
    expect_line("tollgate_metrics_left_out{what=\"budgets\"} 0");
}

/* The eight of a single gate, by their own names. */
static void the_metrics_of_admission_are_there(void **state)
{
    static const char *const metrics[] = {
        "# TYPE admission_total counter",
        "# TYPE admission_rejected_reason counter",
        "# TYPE admission_in_flight gauge",
        "# TYPE admission_concurrency_limit gauge",
        "# TYPE admission_queue_wait_ms histogram",
        "# TYPE admission_memory_usage gauge",
        "# TYPE admission_peer_in_flight gauge",
        "# TYPE admission_vegas_queue_estimate gauge",
    };

    (void)state;
    tg_gate_set_memory(gateway->gate, 0.25);
    write_page();
    for (size_t i = 0; i < COUNT_OF(metrics); i++)
        expect_line(metrics[i]);
    expect_line("admission_in_flight 0");
    expect_line("admission_concurrency_limit 7");
    expect_line("admission_memory_usage 0.25");
    expect_line("tollgate_memory_source_stale 0");
    tg_gate_set_memory(gateway->gate, NAN);
    write_page();
    expect_line("tollgate_memory_source_stale 1");
    assert_int_equal(times("admission_memory_usage 0"), 0);
}

static tg_lease call_of(const char *peer)
{
    struct tg_answer answer;
    struct tg_call call;

    tg_call_init(&call);
    call.peer = peer;
    call.peer_bytes = strlen(peer);
    assert_int_equal(tg_gate_admit(gateway->gate, &call, 0, now(), &answer), TG_OK);
    assert_true(answer.decision.allowed);
    return answer.lease;
}

static void end_call(tg_lease lease)
{
    struct tg_release release;

    tg_release_init(&release);
    tg_gate_release(gateway->gate, lease, now(), &release);
}

/* A peer that is no tenant is known once a request of it has ended. */
static void peers_are_named_the_largest_first(void **state)
{
    tg_lease leases[] = {call_of("a\"b\\c"), call_of("a\"b\\c"), call_of("node-1")};
    struct report report;

    (void)state;
    report_init(&report);
    report.peer = SLICE("node-1");
    metrics_request(metrics_shard(gateway->metrics, 1), &report);
    write_page();
    expect_line("admission_in_flight 3");
    expect_line("admission_peer_in_flight{peer=\"a\\\"b\\\\c\"} 2");
    expect_line("admission_peer_in_flight{peer=\"node-1\"} 1");
    assert_true(strstr(page, "{peer=\"a") < strstr(page, "{peer=\"node-1"));
    for (size_t i = 0; i < COUNT_OF(leases); i++)
        end_call(leases[i]);
    write_page();
    assert_int_equal(times("admission_peer_in_flight{"), 0);
}

static void a_key_is_in_one_state(void **state)
{
    struct tg_pool *pool = tg_keyring_pool(gateway->ring, "demo", "small");
    struct tg_key_answer answer;
    struct tg_key_report report;
    struct tg_key_call call;

    (void)state;
    tg_key_call_init(&call);
    tg_pool_acquire(pool, &call, now(), &answer);
    assert_true(answer.lease != 0);
    tg_key_report_init(&report);
    report.outcome = TG_KEY_LIMITED;
    report.cool_until = now() + 60000;
    assert_true(tg_keyring_release(gateway->ring, answer.lease, now(), &report));
    assert_true(tg_keyring_enable(gateway->ring, "demo", "k2", false, now()));
    assert_true(tg_keyring_enable(gateway->ring, "demo", "k1", false, now()));
    write_page();
    assert_int_equal(times("state=\"disabled\"} 1"), 2);
    assert_true(tg_keyring_enable(gateway->ring, "demo", "k1", true, now()));
    assert_true(tg_keyring_enable(gateway->ring, "demo", "k2", true, now()));
    write_page();
    assert_int_equal(times("state=\"disabled\"} 1"), 0);
    assert_int_equal(times("state=\"cooling\"} 1"), 1);
    assert_int_equal(times("state=\"healthy\"} 1"), 1);
    assert_int_equal(times("kind=\"limited\"} 0\n"), 1);
    expect_line("tollgate_pool_acquire_total{provider=\"demo\",model=\"small\",result=\"ok\"} 1");
}

static void reasons_of_one_name_are_one_line(void **state)
{
    (void)state;
    atomic_store(&gateway->counts.refused[REPLY_NO_KEY], 3);
    atomic_store(&gateway->counts.refused[REPLY_KEYS_COOLING], 4);
    write_page();
    expect_line("tollgate_refused_total{reason=\"no_key\"} 7");
}

static void no_secret_is_on_the_page(void **state)
{
    (void)state;
    write_page();
    assert_null(strstr(page, "hush"));
}

/* ---- form ---- */

/* Whether a line belongs to a metric: it may be a part of a histogram. */
static bool belongs(const char *line, const char *metric)
{
    static const char *const suffixes[] = {"", "_bucket", "_sum", "_count"};
    size_t n = strlen(metric);

    if (strncmp(line, metric, n) != 0)
        return false;
    for (size_t i = 0; i < COUNT_OF(suffixes); i++) {
        size_t more = strlen(suffixes[i]);
        if (strncmp(line + n, suffixes[i], more) == 0 && strchr("{ ", line[n + more]))
            return true;
    }
    return false;
}

/* What a reader of the format insists on: a type before the lines of a metric, all of them
 * together, and no two of the same labels. */
static void the_page_is_well_formed(void **state)
{
    char metric[128] = "", *seen[2000], *rest = NULL;
    struct report report;
    size_t n = 0;

    (void)state;
    report_init(&report);
    report.tenant = SLICE("team-a");
    report.model = SLICE("small");
    report.ttfb_ms = 5;
    metrics_request(metrics_shard(gateway->metrics, 0), &report);
    write_page();
    assert_int_equal(page[strlen(page) - 1], '\n');
    for (char *line = strtok_r(page, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char *end;
        if (strncmp(line, "# HELP ", 7) == 0)
            continue;
        if (strncmp(line, "# TYPE ", 7) == 0) {
            assert_int_equal(sscanf(line, "# TYPE %127s", metric), 1);
            for (size_t i = 0; i < n; i++)
                if (belongs(seen[i], metric))
                    fail_msg("%s begins twice", metric);
            continue;
        }
        if (!belongs(line, metric))
            fail_msg("'%s' is among the lines of %s", line, metric);
        char *value = strrchr(line, ' ');
        assert_non_null(value);
        strtod(value + 1, &end);
        assert_true(end > value + 1 && *end == '\0');
        for (size_t i = 0; i < n; i++)
            if (strncmp(seen[i], line, (size_t)(value + 1 - line)) == 0)
                fail_msg("'%s' is there twice", line);
        assert_true(n < COUNT_OF(seen));
        seen[n++] = line;
    }
    assert_true(n > 100);
}

/* ---- many tenants ---- */

enum { MANY = 1500 };

static char *yaml_of_many(void)
{
    char *yaml = malloc(MANY * 80 + 100);
    size_t n;

    assert_non_null(yaml);
    n = (size_t)sprintf(yaml, "listen: {gateway: \"127.0.0.1:0\"}\nledger: {path: \":memory:\"}\n"
                              "tenants:\n");
    for (int i = 0; i < MANY; i++)
        n += (size_t)sprintf(yaml + n, "  - {name: t%d, budgets: [{usd: 1, per: day}]}\n", i);
    return yaml;
}

static void spend(size_t tenant, const char *name, tg_micro money)
{
    struct tg_bank *bank = spending_bank(gateway->spending);
    struct tg_money_answer answer;

    assert_int_equal(tg_bank_reserve(bank, spending_account(gateway->spending, name, tenant), money,
                                     false, now(), &answer),
                     TG_OK);
    assert_true(tg_bank_settle(bank, answer.reservation, money, NULL));
}

/* However many there are, those that have used most are on the page, and one line says how many are
 * not. */
static void budgets_are_bounded_by_use(void **state)
{
    char *yaml = yaml_of_many();

    close_gateway(state);
    open_with(yaml);
    free(yaml);
    spend(MANY - 1, "t1499", 700000);
    spend(3, "t3", 250000);
    write_page();
    expect_line("tollgate_budget_used_ratio{tenant=\"t1499\",per=\"day\",budget=\"0\"} 0.7");
    expect_line("tollgate_budget_used_micro_usd{tenant=\"t3\",per=\"day\",budget=\"0\"} 250000");
    assert_int_equal(times("tollgate_budget_used_ratio{"), 100);
    expect_line("tollgate_metrics_left_out{what=\"budgets\"} 1400");
    assert_true(strlen(page) < 100000);
}

static void ready_until_it_drains(void **state)
{
    (void)state;
    assert_null(probe_unready(gateway, &gateway_newest(gateway)->config));
    atomic_store(&gateway->draining, true);
    assert_string_equal(probe_unready(gateway, &gateway_newest(gateway)->config), "draining");
    atomic_store(&gateway->draining, false);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_gateway, close_gateway)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_page_says_what_there_is),
        TEST(the_metrics_of_admission_are_there),
        TEST(peers_are_named_the_largest_first),
        TEST(a_key_is_in_one_state),
        TEST(reasons_of_one_name_are_one_line),
        TEST(no_secret_is_on_the_page),
        TEST(the_page_is_well_formed),
        TEST(budgets_are_bounded_by_use),
        TEST(ready_until_it_drains),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
