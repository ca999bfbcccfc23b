/* test_cluster_blis.c - runs whose every decision and every microsecond is known from elsewhere.
 *
 * tests/golden/blis has runs of BLIS itself: its workloads, its decisions with their reasons, when
 * each request was scheduled, had its first token and was complete, and on which instance, and its
 * summaries to the last digit. tests/golden/cluster has runs for what those do not touch
 * (preemption, prefixes, the gateway queue, other schedulers), from a second, plain implementation
 * of the same rules: lists that are sorted, and a cache that hashes tokens.
 *
 * The first requests of a run stand in its file, the rest in one hash.
 */
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "lab/cluster/cluster.h"

#define LINE 1024

struct golden {
    struct cluster_config config;
    struct cluster_workload load;
    struct cluster_result result;
    const char *name;
    size_t take; /* so many requests of the workload */
    bool ran;
    bool statuses; /* lines of requests have the status, not the decision and its reason */
    uint64_t hash;
};

/* ---- Reading --------------------------------------------------------------------------------- */

static void read_request(struct golden *golden, const char *line)
{
    struct cluster_request *request = cluster_workload_add(&golden->load);
    char class[64], tenant[64], group[64] = "-";

    assert_non_null(request);
    int n = sscanf(line, "%" SCNd64 " %d %d %" SCNd64 " %63s %63s %63s %d", &request->arrival_us,
                   &request->input_tokens, &request->output_tokens, &request->deadline_us, class,
                   tenant, group, &request->prefix_tokens);
    assert_true(n == 6 || n == 8);
    request->max_output_tokens = request->output_tokens;
    if (strcmp(class, "-") != 0)
        assert_true(
            cluster_config_class(&golden->config, class, strlen(class), &request->slo_class));
    if (strcmp(tenant, "-") != 0)
        assert_true(
            cluster_names_get(&golden->load.tenants, tenant, strlen(tenant), &request->tenant));
    if (strcmp(group, "-") != 0)
        assert_true(cluster_names_get(&golden->load.groups, group, strlen(group),
                                      &request->prefix_group));
}

static FILE *open_golden(const char *folder, const char *name, const char *suffix)
{
    char path[300];

    snprintf(path, sizeof path, "tests/golden/%s/%s%s", folder, name, suffix);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        fail_msg("%s cannot be opened", path);
    return file;
}

static void read_workload(struct golden *golden, const char *name)
{
    FILE *file = open_golden("blis", name, ".workload");
    char line[LINE];

    while (golden->load.n < golden->take && fgets(line, sizeof line, file) != NULL)
        if (*line != '#')
            read_request(golden, line);
    fclose(file);
}

/* What a setting of a run's file is called, and where it goes. */
static void set(struct cluster_config *config, const char *key, const char *value)
{
    const struct {
        const char *key;
        int64_t *whole;
        double *real;
    } numbers[] = {
        {"capacity", NULL, &config->bucket_capacity},
        {"refill", NULL, &config->bucket_refill_per_s},
        {"tier_shed_threshold", &config->tier_shed_threshold, NULL},
        {"admission_latency", &config->admission_latency_us, NULL},
        {"routing_latency", &config->routing_latency_us, NULL},
        {"instances", &config->instances, NULL},
        {"blocks", &config->kv_blocks, NULL},
        {"block_tokens", &config->block_tokens, NULL},
        {"long_prefill", &config->long_prefill, NULL},
        {"snapshot", &config->snapshot_us, NULL},
        {"cache_signal", &config->cache_signal_us, NULL},
        {"depth", &config->flow.max_depth, NULL},
        {"band_capacity", &config->flow.band_capacity, NULL},
        {"ttl", &config->flow.ttl_us, NULL},
        {"max_concurrency", &config->flow.max_concurrency, NULL},
        {"usage_limit", NULL, &config->flow.usage_limit},
    };
    bool found = true;

    for (size_t i = 0; i < COUNT_OF(numbers); i++)
        if (strcmp(key, numbers[i].key) == 0) {
            if (numbers[i].whole != NULL)
                *numbers[i].whole = strtoll(value, NULL, 10);
            else
                *numbers[i].real = strtod(value, NULL);
            return;
        }
    if (strcmp(key, "admission") == 0)
        found = cluster_admission_find(value, &config->admission);
    else if (strcmp(key, "latency") == 0)
        found = cluster_latency_find(value, &config->latency);
    else if (strcmp(key, "routing") == 0)
        found = cluster_routing_find(value, &config->routing);
    else if (strcmp(key, "scheduler") == 0)
        found = cluster_scheduler_find(value, &config->scheduler);
    else if (strcmp(key, "preemption") == 0)
        found = cluster_preemption_find(value, &config->preemption);
    else if (strcmp(key, "detector") == 0)
        found = cluster_detector_find(value, &config->flow.detector);
    else if (strcmp(key, "tier_shed_min_priority") == 0)
        config->tier_shed_min_priority = atoi(value);
    else if (strcmp(key, "flow") == 0)
        config->flow.on = true;
    else if (strcmp(key, "shedding") == 0)
        config->flow.shedding = true;
    else if (strcmp(key, "eviction") == 0)
        config->flow.in_flight_eviction = true;
    else if (strcmp(key, "fairness") == 0)
        config->flow.fairness = CLUSTER_FAIR_ROUND_ROBIN;
    else
        found = false;
    if (!found)
        fail_msg("no setting %s=%s", key, value);
}

static void read_settings(struct golden *golden, char *line)
{
    char *rest = line;

    for (char *word; (word = strtok_r(rest, " \n", &rest)) != NULL;) {
        char *value = strchr(word, '=');
        assert_non_null(value);
        *value++ = '\0';
        set(&golden->config, word, value);
    }
}

/* ---- Comparing ------------------------------------------------------------------------------- */

static void write_request(const struct golden *golden, size_t i, char *line, size_t size)
{
    const struct cluster_outcome *outcome = &golden->result.outcomes[i];
    char reason[200], times[100];

    snprintf(times, sizeof times, "%d %" PRId64 " %" PRId64 " %" PRId64, (int)outcome->instance,
             outcome->scheduling_us, outcome->ttft_us, outcome->e2e_us);
    cluster_outcome_reason(&golden->config, &golden->load.requests[i], outcome, reason,
                           sizeof reason);
    if (golden->statuses)
        snprintf(line, size, "%zu %s %s\n", i,
                 cluster_status_name((enum cluster_status)outcome->status), times);
    else
        snprintf(line, size, "%zu %d %s %s\n", i, outcome->status != CLUSTER_REJECTED, times,
                 reason);
}

static void run(struct golden *golden)
{
    struct tg_problem problem;
    char line[LINE];

    if (golden->ran)
        return;
    golden->ran = true;
    if (cluster_run(&golden->config, &golden->load, &golden->result, &problem) != TG_OK)
        fail_msg("%s: %s", golden->name, problem.text);
    golden->hash = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < golden->result.n; i++) {
        write_request(golden, i, line, sizeof line);
        for (const char *c = line; *c != '\0'; c++)
            golden->hash = (golden->hash ^ (unsigned char)*c) * UINT64_C(1099511628211);
    }
}

static void compare_request(struct golden *golden, const char *want)
{
    char got[LINE];

    write_request(golden, strtoul(want, NULL, 10), got, sizeof got);
    if (strcmp(got, want) != 0)
        fail_msg("%s: got  %s         want %s", golden->name, got, want);
}

static void compare_summary(struct golden *golden, const char *want)
{
    bool all = strncmp(want, "cluster", 7) == 0;
    const struct cluster_summary *sum =
        all ? &golden->result.all : &golden->result.instances[strtoul(want, NULL, 10)];
    const double got[] = {
        (double)sum->status[CLUSTER_COMPLETED],
        (double)sum->input_tokens,
        (double)sum->output_tokens,
        (double)sum->duration_us / 1e6,
        sum->responses_per_s,
        sum->tokens_per_s,
        sum->e2e.mean_ms,
        sum->e2e.p90_ms,
        sum->e2e.p95_ms,
        sum->e2e.p99_ms,
        sum->ttft.mean_ms,
        sum->ttft.p90_ms,
        sum->ttft.p95_ms,
        sum->ttft.p99_ms,
        sum->itl.mean_ms,
        sum->itl.p90_ms,
        sum->itl.p95_ms,
        sum->itl.p99_ms,
        sum->scheduling.p99_ms,
    };
    char *at = strchr(want, ' ');

    for (size_t i = 0; i < COUNT_OF(got); i++) {
        double number = strtod(at, &at);
        if (got[i] != number)
            fail_msg("%s: summary %.9s, number %zu: got %.17g, want %.17g", golden->name, want, i,
                     got[i], number);
    }
}

/* Lines of the file that begin with a word, for whoever handles it. */
static char *after(char *line, const char *word)
{
    size_t size = strlen(word);

    return strncmp(line, word, size) == 0 && line[size] == ' ' ? line + size + 1 : NULL;
}

static void compare_line(struct golden *golden, char *line)
{
    char *rest, name[64];

    if ((rest = after(line, "take")) != NULL) {
        golden->take = strtoul(rest, NULL, 10);
    } else if ((rest = after(line, "workload")) != NULL) {
        assert_int_equal(sscanf(rest, "%63s", name), 1);
        read_workload(golden, name);
    } else if ((rest = after(line, "settings")) != NULL) {
        read_settings(golden, rest);
    } else if ((rest = after(line, "blocking")) != NULL) {
        run(golden);
        assert_int_equal(golden->result.blocking_events, strtol(rest, NULL, 10));
    } else if ((rest = after(line, "summary")) != NULL) {
        compare_summary(golden, rest);
    } else if ((rest = after(line, "preemptions")) != NULL) {
        golden->statuses = true;
        run(golden);
        assert_int_equal(golden->result.all.preemptions, strtol(rest, NULL, 10));
    } else if ((rest = after(line, "request")) != NULL) {
        compare_request(golden, rest);
    } else if ((rest = after(line, "requests")) != NULL) {
        assert_int_equal(golden->result.n, strtoul(rest, &rest, 10));
        if (golden->hash != strtoull(rest, NULL, 16))
            fail_msg("%s: a later request differs: the hash of all is %016" PRIx64, golden->name,
                     golden->hash);
    } else {
        assert_int_equal(*line, '#');
    }
}

static void compare_run(const char *folder, const char *name)
{
    struct golden golden = {.name = name, .take = SIZE_MAX};
    FILE *file = open_golden(folder, name, "");
    char line[LINE];

    cluster_config_init(&golden.config);
    assert_int_equal(cluster_workload_init(&golden.load), TG_OK);
    golden.config.instances = 4;
    while (fgets(line, sizeof line, file) != NULL)
        compare_line(&golden, line);
    fclose(file);
    assert_true(golden.ran);
    cluster_result_fini(&golden.result);
    cluster_workload_fini(&golden.load);
}

/* Says how many there are. */
static int compare_folder(const char *folder)
{
    char path[100];
    int n = 0;

    snprintf(path, sizeof path, "tests/golden/%s", folder);
    DIR *files = opendir(path);
    assert_non_null(files);
    for (const struct dirent *entry; (entry = readdir(files)) != NULL;) {
        const char *suffix = strrchr(entry->d_name, '.');
        if (suffix == NULL || strcmp(suffix, ".run") != 0)
            continue;
        compare_run(folder, entry->d_name);
        n++;
    }
    closedir(files);
    return n;
}

static void every_run_of_blis_is_repeated_to_the_microsecond(void **state)
{
    (void)state;
    assert_int_equal(compare_folder("blis"), 10);
}

static void every_run_of_the_plain_model_is_repeated_to_the_microsecond(void **state)
{
    (void)state;
    assert_int_equal(compare_folder("cluster"), 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_run_of_blis_is_repeated_to_the_microsecond),
        cmocka_unit_test(every_run_of_the_plain_model_is_repeated_to_the_microsecond),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
