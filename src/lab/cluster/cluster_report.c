/* cluster_report.c - what is left of a run: of each instance, each class, each tenant, and of all.
 *
 * What counts is BLIS's: times of first tokens are of every request that had one, the others of
 * those that completed; and where nothing completed, nothing was measured.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "lab/cluster/cluster_internal.h"
#include "lab/cluster/cluster_times.h"

/* ---- Sums ------------------------------------------------------------------------------------ */

/* Requests in groups: those of group g are list[first[g]] to before list[first[g + 1]]. */
struct grouped {
    uint32_t *list;
    size_t *first;
};

/* The group that a request belongs to; negative: none. */
typedef int64_t group_of(const struct cluster_run_state *run, size_t request);

static int64_t instance_of(const struct cluster_run_state *run, size_t request)
{
    return run->world.outcomes[request].instance;
}

static int64_t class_of(const struct cluster_run_state *run, size_t request)
{
    return run->load->requests[request].slo_class;
}

static int64_t all_of(const struct cluster_run_state *run, size_t request)
{
    (void)run;
    (void)request;
    return 0;
}

static void grouped_fini(struct grouped *grouped)
{
    free(grouped->list);
    free(grouped->first);
}

static bool group(const struct cluster_run_state *run, group_of *of, size_t n_groups,
                  struct grouped *grouped)
{
    size_t n = run->load->n;

    grouped->list = malloc((n + 1) * sizeof *grouped->list);
    grouped->first = calloc(n_groups + 2, sizeof *grouped->first);
    if (grouped->list == NULL || grouped->first == NULL)
        return false;
    for (size_t i = 0; i < n; i++)
        if (of(run, i) >= 0) {
            assert(of(run, i) < (int64_t)n_groups);
            grouped->first[of(run, i) + 2]++;
        }
    for (size_t g = 0; g < n_groups; g++)
        grouped->first[g + 2] += grouped->first[g + 1];
    for (size_t i = 0; i < n; i++)
        if (of(run, i) >= 0)
            grouped->list[grouped->first[of(run, i) + 1]++] = (uint32_t)i;
    return true;
}

enum measure { MEASURE_TTFT, MEASURE_E2E, MEASURE_SCHEDULING, MEASURE_GAP };

/* In microseconds; negative: the request has none. */
static double measure_of(const struct cluster_outcome *outcome, enum measure measure)
{
    switch (measure) {
    case MEASURE_TTFT:
        return (double)outcome->ttft_us;
    case MEASURE_E2E:
        return (double)outcome->e2e_us;
    case MEASURE_SCHEDULING:
        return (double)outcome->scheduling_us;
    default:
        if (outcome->status != CLUSTER_COMPLETED)
            return -1;
        return outcome->itl_n > 0 ? (double)outcome->itl_us / outcome->itl_n : 0;
    }
}

/* `values` is room for twice as many as the group has. */
static struct cluster_times cluster_report_measure(const struct cluster_run_state *run,
                                                   const struct grouped *grouped, size_t g,
                                                   enum measure what, double *values)
{
    size_t n = 0;

    for (size_t i = grouped->first[g]; i < grouped->first[g + 1]; i++) {
        double value = measure_of(&run->world.outcomes[grouped->list[i]], what);
        if (value >= 0)
            values[n++] = value;
    }
    return times_of(values, n);
}

/* Completed, and within everything that its class asks. */
static bool is_good(const struct cluster_run_state *run, uint32_t request)
{
    const struct cluster_class *class =
        &run->config->classes[run->load->requests[request].slo_class];
    const struct cluster_outcome *outcome = &run->world.outcomes[request];

    return outcome->status == CLUSTER_COMPLETED &&
           (class->good_ttft_us == 0 || outcome->ttft_us <= class->good_ttft_us) &&
           (class->good_e2e_us == 0 || outcome->e2e_us <= class->good_e2e_us) &&
           (class->good_itl_us == 0 ||
            measure_of(outcome, MEASURE_GAP) <= (double)class->good_itl_us);
}

static void sum_up(const struct cluster_run_state *run, const struct grouped *grouped, size_t g,
                   double *values, struct cluster_summary *sum)
{
    for (size_t i = grouped->first[g]; i < grouped->first[g + 1]; i++) {
        uint32_t request = grouped->list[i];
        sum->num_requests++;
        sum->status[run->world.outcomes[request].status]++;
        sum->good += is_good(run, request);
    }
    sum->injected = sum->status[CLUSTER_COMPLETED] + sum->status[CLUSTER_QUEUED] +
                    sum->status[CLUSTER_RUNNING] + sum->status[CLUSTER_DROPPED] +
                    sum->status[CLUSTER_TIMED_OUT];
    if (sum->status[CLUSTER_COMPLETED] == 0)
        return;
    assert(sum->injected <= sum->num_requests && sum->good <= sum->status[CLUSTER_COMPLETED]);
    double seconds = (double)sum->duration_us / 1e6;
    if (seconds > 0) {
        sum->responses_per_s = (double)sum->status[CLUSTER_COMPLETED] / seconds;
        sum->tokens_per_s = (double)sum->output_tokens / seconds;
        sum->goodput_per_s = (double)sum->good / seconds;
    }
    sum->ttft = cluster_report_measure(run, grouped, g, MEASURE_TTFT, values);
    sum->e2e = cluster_report_measure(run, grouped, g, MEASURE_E2E, values);
    sum->scheduling = cluster_report_measure(run, grouped, g, MEASURE_SCHEDULING, values);
}

/* ---- Instances and all of them --------------------------------------------------------------- */

static double hit_rate(const struct kv *kv)
{
    uint64_t all = kv->hits + kv->misses;

    return all > 0 ? (double)kv->hits / (double)all : 0;
}

static void add_instance(const struct cluster_run_state *run, const struct instance *instance,
                         struct cluster_summary *sum)
{
    int64_t end =
        instance->end_us < run->config->horizon_us ? instance->end_us : run->config->horizon_us;

    sum->input_tokens += instance->input_tokens;
    sum->output_tokens += instance->output_tokens;
    sum->preemptions += instance->preemptions;
    sum->allocation_failures += instance->allocation_failures;
    sum->length_capped += instance->length_capped;
    sum->cache_hit_rate += hit_rate(&instance->kv);
    if (end > sum->duration_us)
        sum->duration_us = end;
}

/* Who still runs has not completed: its gaps do not count. */
static void drop_running(struct cluster_run_state *run)
{
    for (size_t i = 0; i < run->n_instances; i++)
        for (size_t j = 0; j < run->instances[i].n_batch; j++)
            instance_drop_gaps(&run->instances[i], run->instances[i].batch[j]);
}

static bool add_gaps(const struct cluster_run_state *run, struct cluster_result *result)
{
    struct gap_table all = {0}, one = {0};
    bool good = true;

    for (size_t i = 0; i < run->n_instances && good; i++) {
        const struct gaps *gaps = &run->instances[i].gaps;
        good = gaps_collect(gaps, &one) && gaps_collect(gaps, &all);
        if (good && result->instances[i].status[CLUSTER_COMPLETED] > 0)
            result->instances[i].itl = times_of_gaps(&one);
        gap_table_fini(&one);
    }
    if (good)
        result->all.itl = times_of_gaps(&all);
    gap_table_fini(&one);
    gap_table_fini(&all);
    return good;
}

static bool report_instances(const struct cluster_run_state *run, struct cluster_result *result,
                             double *values)
{
    struct grouped by_instance = {0}, everyone = {0};
    bool good =
        group(run, instance_of, run->n_instances, &by_instance) && group(run, all_of, 1, &everyone);

    for (size_t i = 0; i < run->n_instances && good; i++) {
        add_instance(run, &run->instances[i], &result->instances[i]);
        add_instance(run, &run->instances[i], &result->all);
        sum_up(run, &by_instance, i, values, &result->instances[i]);
    }
    result->all.cache_hit_rate /= (double)run->n_instances;
    if (good)
        sum_up(run, &everyone, 0, values, &result->all);
    assert(!good || result->all.num_requests == (int64_t)run->load->n);
    grouped_fini(&by_instance);
    grouped_fini(&everyone);
    return good && add_gaps(run, result);
}

/* ---- Classes and tenants --------------------------------------------------------------------- */

static void report_class(const struct cluster_run_state *run, const struct grouped *grouped,
                         size_t class, double *values, struct cluster_class_summary *sum)
{
    for (size_t i = grouped->first[class]; i < grouped->first[class + 1]; i++) {
        uint32_t request = grouped->list[i];
        uint8_t status = run->world.outcomes[request].status;
        sum->arrived += status != CLUSTER_NOT_ARRIVED;
        sum->rejected += status == CLUSTER_REJECTED;
        sum->shed += status == CLUSTER_REJECTED || status == CLUSTER_GATEWAY_SHED ||
                     status == CLUSTER_GATEWAY_EVICTED || status == CLUSTER_GATEWAY_EXPIRED;
        sum->completed += status == CLUSTER_COMPLETED;
        sum->good += is_good(run, request);
    }
    sum->ttft = cluster_report_measure(run, grouped, class, MEASURE_TTFT, values);
    sum->e2e = cluster_report_measure(run, grouped, class, MEASURE_E2E, values);
    sum->itl = cluster_report_measure(run, grouped, class, MEASURE_GAP, values);
}

static bool report_classes(const struct cluster_run_state *run, struct cluster_result *result,
                           double *values)
{
    struct grouped grouped = {0};
    bool good = group(run, class_of, run->config->n_classes, &grouped);

    for (size_t i = 0; i < run->config->n_classes && good; i++)
        report_class(run, &grouped, i, values, &result->classes[i]);
    grouped_fini(&grouped);
    return good;
}

static void report_tenants(const struct cluster_run_state *run, struct cluster_result *result)
{
    double n = 0, sum = 0, squares = 0;

    for (size_t i = 0; i < run->load->n; i++) {
        const struct cluster_request *request = &run->load->requests[i];
        struct cluster_tenant_summary *tenant = &result->tenants[request->tenant];
        uint8_t status = run->world.outcomes[i].status;
        tenant->arrived += status != CLUSTER_NOT_ARRIVED;
        tenant->rejected += status == CLUSTER_REJECTED;
        tenant->completed += status == CLUSTER_COMPLETED;
        tenant->output_tokens += status == CLUSTER_COMPLETED ? request->output_tokens : 0;
    }
    for (size_t i = 0; i < result->n_tenants; i++) {
        double tokens = (double)result->tenants[i].output_tokens;
        n += result->tenants[i].completed > 0;
        sum += tokens;
        squares += tokens * tokens;
    }
    assert(sum * sum <= n * squares * (1 + 1e-9)); /* Cauchy and Schwarz */
    result->jain = squares > 0 ? sum * sum / (n * squares) : n > 0 ? 1 : 0;
}

/* ---- What is odd ----------------------------------------------------------------------------- */

static int64_t blocking_events(const struct cluster_run_state *run)
{
    double total = 0;
    int64_t n = 0;

    for (size_t i = 0; i < run->n_instances; i++) {
        const struct instance *instance = &run->instances[i];
        total += instance->steps > 0 ? (double)instance->waited / (double)instance->steps : 0;
    }
    for (size_t i = 0; i < run->n_instances && run->n_instances > 1; i++) {
        const struct instance *instance = &run->instances[i];
        double waited =
            instance->steps > 0 ? (double)instance->waited / (double)instance->steps : 0;
        n += waited > 2.0 * (total / (double)run->n_instances);
    }
    return n;
}

/* How many pairs of `values` stand so that the first is more than twice the second. Sorts them;
 * `room` is for as many. */
static int64_t inversions(double *values, double *room, size_t n)
{
    size_t half = n / 2, j = half, at = 0;
    int64_t found;

    if (n < 2)
        return 0;
    found = inversions(values, room, half) + inversions(values + half, room, n - half);
    for (size_t i = 0; i < half; i++) {
        while (j < n && values[i] > values[j] * 2.0)
            j++;
        found += (int64_t)(j - half);
    }
    for (size_t i = 0, k = half; i < half || k < n;)
        room[at++] = k == n || (i < half && values[i] <= values[k]) ? values[i++] : values[k++];
    memcpy(values, room, n * sizeof *values);
    return found;
}

static int64_t instance_class_of(const struct cluster_run_state *run, size_t request)
{
    const struct cluster_outcome *outcome = &run->world.outcomes[request];

    if (outcome->status != CLUSTER_COMPLETED)
        return -1;
    return outcome->instance * (int64_t)run->config->n_classes +
           run->load->requests[request].slo_class;
}

/* Only where a scheduler promises an order by priority. */
static bool report_inversions(const struct cluster_run_state *run, struct cluster_result *result,
                              double *values)
{
    size_t n_groups = run->n_instances * run->config->n_classes;
    struct grouped grouped = {0};
    bool good = group(run, instance_class_of, n_groups, &grouped);

    for (size_t g = 0; g < n_groups && good; g++) {
        size_t n = grouped.first[g + 1] - grouped.first[g];
        for (size_t i = 0; i < n; i++)
            values[i] = (double)run->world.outcomes[grouped.list[grouped.first[g] + i]].e2e_us;
        result->priority_inversions += inversions(values, values + n, n);
    }
    grouped_fini(&grouped);
    return good;
}

/* ---- All of it ------------------------------------------------------------------------------- */

static bool cluster_report_make_room(const struct cluster_run_state *run,
                                     struct cluster_result *result)
{
    result->n_instances = run->n_instances;
    result->instances = calloc(run->n_instances, sizeof *result->instances);
    result->n_tenants = run->load->tenants.n;
    result->tenants = calloc(result->n_tenants, sizeof *result->tenants);
    return result->instances != NULL && result->tenants != NULL;
}

enum tg_err report_make(struct cluster_run_state *run, struct cluster_result *result,
                        struct tg_problem *problem)
{
    double *values = malloc((2 * run->load->n + 1) * sizeof *values);
    enum tg_err err = TG_ERR_MEMORY;

    drop_running(run);
    if (values != NULL && cluster_report_make_room(run, result) &&
        report_instances(run, result, values) && report_classes(run, result, values) &&
        (run->config->scheduler != CLUSTER_PRIORITY_FCFS || report_inversions(run, result, values)))
        err = books_check(run, result, problem);
    free(values);
    if (err != TG_OK) {
        cluster_result_fini(result);
        return err;
    }
    report_tenants(run, result);
    result->blocking_events = blocking_events(run);
    result->refusals = run->refusals;
    result->events = run->n_events;
    result->kv_blocks = cluster_config_blocks(run->config);
    result->max_model_tokens = run->world.max_tokens;
    result->outcomes = run->world.outcomes;
    result->n = run->load->n;
    result->series = run->series;
    result->n_series = run->n_series;
    result->series_us = run->series_us;
    run->world.outcomes = NULL;
    run->series = NULL;
    return TG_OK;
}
