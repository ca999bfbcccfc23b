/* test_metrics_memory.c - counting allocates nothing once it is warm, and memory may be short. */
#include "check.h"

#include "failing_malloc.h"
#include "server/obs/metrics.h"

static struct metrics *make(void)
{
    struct metrics_config config;

    metrics_config_init(&config);
    config.shards = 3;
    return metrics_new(&config);
}

static void count(struct metrics_shard *shard)
{
    struct report report;

    report_init(&report);
    report.tenant = SLICE("team-a");
    report.model = report.model_served = SLICE("small");
    report.provider = SLICE("demo");
    report.status = 200;
    report.attempts = 1;
    report.has_usage = true;
    report.usage.output = 5;
    report.fallback_why = "limited";
    metrics_admitted(shard, TG_PRIORITY_HIGH, 0);
    metrics_request(shard, &report);
}

static void nothing_is_allocated_once_it_is_warm(void **state)
{
    (void)state;

    need_allocator();
    struct metrics *metrics = make();
    assert_non_null(metrics);
    count(metrics_shard(metrics, 0));
    long before = allocations;
    for (int i = 0; i < 1000; i++)
        count(metrics_shard(metrics, (size_t)i % 3));
    assert_int_equal(allocations, before);
    metrics_free(metrics);
}

static void every_allocation_of_a_start_may_fail(void **state)
{
    struct metrics *metrics = NULL;
    long n = 0;
    (void)state;

    need_allocator();
    for (; metrics == NULL && n < 1000; n++) {
        long held = live;
        until_failure = n;
        metrics = make();
        if (metrics == NULL)
            assert_int_equal(live, held);
    }
    until_failure = -1;
    assert_true(n > 10);
    assert_non_null(metrics);
    metrics_free(metrics);
}

/* A name that finds no memory is one of the others; the request is counted. */
static void a_name_without_memory_is_other(void **state)
{
    struct exposition text;
    (void)state;

    need_allocator();
    struct metrics *metrics = make();
    assert_non_null(metrics);
    until_failure = 0;
    keeps_failing = true;
    count(metrics_shard(metrics, 0));
    until_failure = -1;
    keeps_failing = false;
    exposition_init(&text);
    metrics_write(metrics, &text);
    assert_false(text.out.failed);
    expose_line(&text, NULL, 0);
    text.out.bytes[text.out.size - 1] = '\0';
    assert_non_null(strstr(text.out.bytes,
                           "tollgate_requests_total{tenant=\"other\",model=\"other\","
                           "provider=\"other\",code=\"200\",reason=\"none\"} 1\n"));
    exposition_fini(&text);
    metrics_free(metrics);
}

static void a_page_without_memory_says_so(void **state)
{
    struct exposition text;
    (void)state;

    need_allocator();
    struct metrics *metrics = make();
    assert_non_null(metrics);
    exposition_init(&text);
    until_failure = 0;
    metrics_write(metrics, &text);
    until_failure = -1;
    assert_true(text.out.failed);
    exposition_fini(&text);
    metrics_free(metrics);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_allocated_once_it_is_warm),
        cmocka_unit_test(every_allocation_of_a_start_may_fail),
        cmocka_unit_test(a_name_without_memory_is_other),
        cmocka_unit_test(a_page_without_memory_says_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
