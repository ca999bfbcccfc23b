/* bench_metrics.c - what counting a request costs its worker, and what a page costs whoever asks.
 *
 * 40 tenants, 5 models, two providers, one request in ten refused: as a worker sees it when it is
 * warm. Then 10,000 tenants, of which most have no number of their own.
 */
#include "benches.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "server/obs/metrics.h"

enum { WARM_TENANTS = 40, MANY_TENANTS = 10000, MODELS = 5, NAME = 32 };

struct office {
    struct metrics *metrics;
    size_t tenants;
    char (*names)[NAME];
    uint64_t n;
};

static bool bench_metrics_set_up(struct office *office, size_t tenants)
{
    struct metrics_config config;

    *office = (struct office){.tenants = tenants, .names = calloc(tenants, NAME)};
    metrics_config_init(&config);
    config.shards = 3;
    office->metrics = metrics_new(&config);
    for (size_t i = 0; office->names != NULL && i < tenants; i++)
        snprintf(office->names[i], NAME, "tenant-%zu", i);
    return office->names != NULL && office->metrics != NULL;
}

static void bench_metrics_tear_down(struct office *office)
{
    metrics_free(office->metrics);
    free(office->names);
}

static void count_one(struct office *office)
{
    static const struct slice models[MODELS] = {
        {"small", 5}, {"large", 5}, {"tiny", 4}, {"embed", 5}, {"think", 5}};
    struct metrics_shard *shard = metrics_shard(office->metrics, 0);
    uint64_t i = office->n++;
    struct report report;

    report_init(&report);
    report.tenant = slice_of(office->names[i * 7919 % office->tenants]);
    report.model = report.model_served = models[i % MODELS];
    report.priority = "normal";
    report.waited_ms = 0;
    report.status = 429;
    report.attempts = 0;
    if (i % 10 == 0) {
        report.reason = report.axis = "rate";
    } else {
        report.status = 200;
        report.attempts = 1;
        report.provider = i % 2 ? SLICE("east") : SLICE("west");
        report.overhead_us = 40;
        report.ttfb_ms = 300;
        report.has_usage = report.usage_reported = true;
        report.usage = (struct tg_usage){.input = 1000, .output = 200};
        report.estimated_input = 900;
        report.max_output = 1000;
        report.spent = 500;
        metrics_admitted(shard, TG_PRIORITY_NORMAL, 0);
        metrics_attempt(shard, &(struct metrics_attempt){.provider = report.provider,
                                                         .model = report.model,
                                                         .outcome = TG_KEY_OK,
                                                         .ttfb_ms = report.ttfb_ms});
    }
    metrics_request(shard, &report);
}

static void count_loop(void *context, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        count_one(context);
}

static void page_loop(void *context, uint64_t n)
{
    struct office *office = context;
    struct exposition text;

    for (uint64_t i = 0; i < n; i++) {
        exposition_init(&text);
        metrics_write(office->metrics, &text);
        if (text.out.failed)
            abort();
        exposition_fini(&text);
    }
}

static struct measured bench_metrics_run(size_t tenants, measured_loop loop)
{
    struct measured result = measure_count(NAN);
    struct office office;

    if (bench_metrics_set_up(&office, tenants)) {
        count_loop(&office, 200000);
        result = measure(loop, &office, NULL, NULL);
    }
    bench_metrics_tear_down(&office);
    return result;
}

static struct measured metrics_request_warm(void)
{
    return bench_metrics_run(WARM_TENANTS, count_loop);
}

static struct measured metrics_request_many(void)
{
    return bench_metrics_run(MANY_TENANTS, count_loop);
}

static struct measured metrics_page_many(void)
{
    struct measured result = bench_metrics_run(MANY_TENANTS, page_loop);

    result.value /= 1000;
    result.low /= 1000;
    result.high /= 1000;
    return result;
}

const struct bench benches_of_metrics[] = {
    {"metrics_request", "counting a request: its admission, its attempt, its end", "ns", 300,
     metrics_request_warm},
    {"metrics_request_many", "the same with 10,000 tenants, most of them `other`", "ns", NAN,
     metrics_request_many},
    {"metrics_page_many", "what was counted of them as a page, of three threads", "us", NAN,
     metrics_page_many},
    {NULL, NULL, NULL, 0, NULL},
};
