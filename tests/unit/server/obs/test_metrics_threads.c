/* test_metrics_threads.c - many threads count, each in its shard, while another reads: nothing is
 * lost, nothing is counted twice, and no counter ever falls.
 */
#include "check.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "draw.h"
#include "server/obs/metrics.h"

enum { THREADS = 4,
       REQUESTS = 20000,
       TENANTS = 300 };

static struct metrics *metrics;
static atomic_int running;
static uint64_t seed;

static void count_one(struct metrics_shard *shard, struct draw *draw)
{
    struct report report;
    char tenant[24], model[24];
    int64_t who = draw_chance(draw, 30) ? 7 : draw_between(draw, 0, TENANTS - 1);

    report_init(&report);
    report.tenant.at = tenant;
    report.tenant.n = (size_t)snprintf(tenant, sizeof tenant, "tenant-%d", (int)who);
    report.model.at = model;
    report.model.n = (size_t)snprintf(model, sizeof model, "model-%d", (int)(who % 10));
    report.model_served = report.model;
    report.provider = SLICE("demo");
    report.priority = "low";
    report.attempts = draw_chance(draw, 50);
    report.status = report.attempts ? 200 : 429;
    report.reason = report.attempts ? NULL : "rate";
    report.has_usage = report.attempts;
    report.usage.output = 1;
    report.ttfb_ms = report.attempts ? 5 : -1;
    report.waited_ms = 1;
    if (report.attempts)
        metrics_admitted(shard, TG_PRIORITY_LOW, 1);
    metrics_request(shard, &report);
}

static void *count(void *arg)
{
    struct metrics_shard *shard = arg;
    size_t i = 0;

    while (metrics_shard(metrics, i) != shard)
        i++;
    struct draw draw = draw_stream(seed, i);
    for (int n = 0; n < REQUESTS; n++)
        count_one(shard, &draw);
    atomic_fetch_sub(&running, 1);
    return NULL;
}

/* ---- what a page says ---- */

struct line {
    char *labels;
    double value;
};

struct reading {
    char *bytes;
    struct line lines[4000];
    size_t n;
};

static void read_page(struct reading *reading)
{
    struct exposition text;
    char *rest = NULL;

    exposition_init(&text);
    metrics_write(metrics, &text);
    assert_false(text.out.failed);
    reading->bytes = malloc(text.out.size + 1);
    assert_non_null(reading->bytes);
    memcpy(reading->bytes, text.out.bytes, text.out.size);
    reading->bytes[text.out.size] = '\0';
    exposition_fini(&text);
    reading->n = 0;
    for (char *line = strtok_r(reading->bytes, "\n", &rest); line;
         line = strtok_r(NULL, "\n", &rest)) {
        char *space = strrchr(line, ' ');
        if (line[0] == '#')
            continue;
        *space = '\0';
        assert_true(reading->n < COUNT_OF(reading->lines));
        reading->lines[reading->n++] = (struct line){line, strtod(space + 1, NULL)};
    }
}

static double value_of(const struct reading *reading, const char *labels)
{
    for (size_t i = 0; i < reading->n; i++)
        if (strcmp(reading->lines[i].labels, labels) == 0)
            return reading->lines[i].value;
    return -1;
}

static double sum_of(const struct reading *reading, const char *metric)
{
    double sum = 0;

    for (size_t i = 0; i < reading->n; i++)
        if (strncmp(reading->lines[i].labels, metric, strlen(metric)) == 0)
            sum += reading->lines[i].value;
    return sum;
}

static void expect_no_fall(const struct reading *before, const struct reading *after)
{
    for (size_t i = 0; i < before->n; i++) {
        const struct line *line = &before->lines[i];
        if (value_of(after, line->labels) < line->value)
            fail_msg("%s fell from %g", line->labels, line->value);
    }
}

static void nothing_is_lost_and_nothing_falls(void **state)
{
    static struct reading readings[2];
    struct metrics_config config;
    pthread_t threads[THREADS];
    size_t pages = 0;
    (void)state;

    metrics_config_init(&config);
    config.shards = THREADS;
    config.tenants = 40; /* fewer than there are */
    config.requests = 100;
    metrics = metrics_new(&config);
    assert_non_null(metrics);
    atomic_store(&running, THREADS);
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(
            pthread_create(&threads[i], NULL, count, metrics_shard(metrics, i)), 0);
    do {
        read_page(&readings[pages % 2]);
        if (pages++ > 0) {
            expect_no_fall(&readings[pages % 2], &readings[(pages + 1) % 2]);
            free(readings[pages % 2].bytes);
        }
    } while (atomic_load(&running) > 0);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    free(readings[(pages + 1) % 2].bytes);
    read_page(&readings[0]);
    double all = THREADS * REQUESTS;
    assert_true(sum_of(&readings[0], "tollgate_requests_total{") == all);
    assert_true(sum_of(&readings[0], "admission_total{") == all);
    assert_true(sum_of(&readings[0], "tollgate_tokens_total{") ==
                value_of(&readings[0], "admission_total{result=\"admitted\"}"));
    assert_true(value_of(&readings[0], "admission_queue_wait_ms_count{priority=\"low\"}") == all);
    free(readings[0].bytes);
    metrics_free(metrics);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_lost_and_nothing_falls),
    };

    seed = draw_seed("test_metrics_threads");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
