/* cluster_route.c - what is seen of the instances, and which one gets a request.
 *
 * Signals are read again once they are old enough, at whichever decision comes then; until then
 * every decision sees the old ones. Only how many requests are in flight is always known, because
 * the router counts them itself.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "lab/cluster/cluster_internal.h"

#define LOAD_AWARE_QUEUE 128

static bool scores_prefixes(const struct cluster_config *config)
{
    for (size_t i = 0; i < config->n_weights && config->routing == CLUSTER_WEIGHTED; i++)
        if (config->weights[i].scorer == CLUSTER_SCORE_PRECISE_PREFIX_CACHE)
            return true;
    return false;
}

enum tg_err route_init(struct cluster_run_state *run)
{
    size_t n = run->n_instances, n_prefixes = n * run->n_prefixes;

    run->signals = calloc(n, sizeof *run->signals);
    run->scores = malloc(2 * n * sizeof *run->scores);
    run->parts = run->scores != NULL ? run->scores + n : NULL;
    if (run->signals == NULL || run->scores == NULL)
        return TG_ERR_MEMORY;
    if (n_prefixes > 0 && run->config->cache_signal_us > 0 && scores_prefixes(run->config)) {
        run->prefixes = malloc(n_prefixes * sizeof *run->prefixes);
        if (run->prefixes == NULL)
            return TG_ERR_MEMORY;
        for (size_t i = 0; i < n_prefixes; i++)
            run->prefixes[i] = KV_NONE;
    }
    run->tie_random.tap = -1; /* not needed yet */
    return TG_OK;
}

void route_fini(struct cluster_run_state *run)
{
    free(run->signals);
    free(run->scores);
    free(run->prefixes);
}

/* ---- Signals --------------------------------------------------------------------------------- */

static void read_signals(struct cluster_run_state *run)
{
    for (size_t i = 0; i < run->n_instances; i++) {
        const struct instance *instance = &run->instances[i];
        assert(kv_used(&instance->kv) <= instance->kv.n);
        run->signals[i] = (struct cluster_signal){
            .queue_depth = (int64_t)instance->n_waiting,
            .batch_size = (int64_t)instance->n_batch,
            .kv_used = (double)kv_used(&instance->kv) / (double)instance->kv.n,
        };
    }
    run->signals_at_us = run->now_us;
}

void route_view(struct cluster_run_state *run)
{
    const struct cluster_config *config = run->config;

    if (run->prefixes != NULL && run->now_us - run->prefixes_at_us >= config->cache_signal_us) {
        for (size_t i = 0; i < run->n_instances; i++)
            memcpy(&run->prefixes[i * run->n_prefixes], run->instances[i].kv.prefixes,
                   run->n_prefixes * sizeof *run->prefixes);
        run->prefixes_at_us = run->now_us;
    }
    assert(run->signals_at_us <= run->now_us);
    if (run->now_us - run->signals_at_us >= config->snapshot_us)
        read_signals(run);
}

int64_t route_load(const struct cluster_run_state *run, size_t instance)
{
    const struct cluster_signal *signal = &run->signals[instance];

    return signal->queue_depth + signal->batch_size + run->instances[instance].in_flight;
}

double route_saturation(const struct cluster_run_state *run, double queue, double kv)
{
    double sum = 0;

    for (size_t i = 0; i < run->n_instances; i++) {
        double waiting = (double)run->signals[i].queue_depth / queue;
        double held = run->signals[i].kv_used / kv;
        sum += waiting > held ? waiting : held;
    }
    return sum / (double)run->n_instances;
}

/* ---- Choosing -------------------------------------------------------------------------------- */

/* One of those whose score is the best, by chance. */
static size_t best_of(struct cluster_run_state *run)
{
    size_t n_best = 0, chosen = 0;
    double best = run->scores[0];

    for (size_t i = 1; i < run->n_instances; i++)
        best = run->scores[i] > best ? run->scores[i] : best;
    for (size_t i = 0; i < run->n_instances; i++)
        n_best += run->scores[i] == best;
    assert(n_best > 0); /* no score is NaN */
    size_t skip = 0;
    if (n_best > 1) {
        if (run->tie_random.tap < 0)
            go_random_init(&run->tie_random, go_random_part((int64_t)run->config->seed, "router"));
        skip = (size_t)go_random_below(&run->tie_random, (int32_t)n_best);
    }
    while (run->scores[chosen] != best || skip-- > 0)
        chosen++;
    return chosen;
}

static size_t least_loaded(struct cluster_run_state *run)
{
    for (size_t i = 0; i < run->n_instances; i++)
        run->scores[i] = -(double)route_load(run, i);
    return best_of(run);
}

static size_t busiest(const struct cluster_run_state *run)
{
    size_t chosen = 0;

    for (size_t i = 1; i < run->n_instances; i++)
        if (route_load(run, i) > route_load(run, chosen))
            chosen = i;
    return chosen;
}

/* ---- Scores ---------------------------------------------------------------------------------- */

/* How many blocks of its prompt the instance is known to have. */
static double cached_blocks(const struct cluster_run_state *run, uint32_t request, size_t instance)
{
    const struct cluster_request *asked = &run->load->requests[request];
    const uint32_t *known = run->prefixes != NULL ? &run->prefixes[instance * run->n_prefixes]
                                                  : run->instances[instance].kv.prefixes;
    int32_t shared =
        asked->prefix_tokens < asked->input_tokens ? asked->prefix_tokens : asked->input_tokens;
    int32_t n = shared / run->instances[instance].kv.block_tokens, i = 0;

    if (asked->prefix_group == 0 || n <= 0)
        return 0;
    while (i < n && known[run->group_at[asked->prefix_group] + (uint32_t)i] != KV_NONE)
        i++;
    return i;
}

/* The number that a scorer goes by: of those that compare instances, more is worse. */
static double raw_score(const struct cluster_run_state *run, enum cluster_scorer scorer,
                        uint32_t request, size_t i)
{
    const struct cluster_signal *signal = &run->signals[i];
    int64_t queue = signal->queue_depth;

    switch (scorer) {
    case CLUSTER_SCORE_PRECISE_PREFIX_CACHE:
        return -cached_blocks(run, request, i);
    case CLUSTER_SCORE_QUEUE_DEPTH:
        return (double)queue;
    case CLUSTER_SCORE_KV_UTILIZATION:
        return 1.0 - signal->kv_used;
    case CLUSTER_SCORE_LOAD_BALANCE:
        return 1.0 / (1.0 + (double)route_load(run, i));
    case CLUSTER_SCORE_ACTIVE_REQUESTS:
        return (double)run->instances[i].in_flight;
    case CLUSTER_SCORE_RUNNING_REQUESTS:
        return (double)signal->batch_size;
    case CLUSTER_SCORE_LOAD_AWARE:
        queue = queue < LOAD_AWARE_QUEUE ? queue : LOAD_AWARE_QUEUE;
        return 0.5 * (1.0 - (double)queue / LOAD_AWARE_QUEUE);
    default: /* vllm-dp */
        return (double)(queue * 4 + signal->batch_size);
    }
}

/* 1 for the least, 0 for the most; 1 for all if they are equal. */
static void cluster_route_compare(double *parts, size_t n)
{
    double least = parts[0], most = parts[0];

    for (size_t i = 1; i < n; i++) {
        least = parts[i] < least ? parts[i] : least;
        most = parts[i] > most ? parts[i] : most;
    }
    for (size_t i = 0; i < n; i++)
        parts[i] = most == least ? 1.0 : (most - parts[i]) / (most - least);
}

/* 1 for none at all, else against the most: 0 for all if they are equal. */
static void compare_with_most(double *parts, size_t n)
{
    double most = 0;

    for (size_t i = 0; i < n; i++)
        most = parts[i] > most ? parts[i] : most;
    for (size_t i = 0; i < n; i++)
        parts[i] = parts[i] == 0 ? 1.0 : (most - parts[i]) / most;
}

static void score(const struct cluster_run_state *run, enum cluster_scorer scorer, uint32_t request)
{
    size_t n = run->n_instances;

    for (size_t i = 0; i < n; i++)
        run->parts[i] = raw_score(run, scorer, request, i);
    switch (scorer) {
    case CLUSTER_SCORE_PRECISE_PREFIX_CACHE:
    case CLUSTER_SCORE_QUEUE_DEPTH:
    case CLUSTER_SCORE_RUNNING_REQUESTS:
    case CLUSTER_SCORE_VLLM_DP:
        cluster_route_compare(run->parts, n);
        break;
    case CLUSTER_SCORE_ACTIVE_REQUESTS:
        compare_with_most(run->parts, n);
        break;
    default:
        break;
    }
}

static size_t weighted(struct cluster_run_state *run, uint32_t request)
{
    const struct cluster_config *config = run->config;
    double total = 0;

    memset(run->scores, 0, run->n_instances * sizeof *run->scores);
    for (size_t s = 0; s < config->n_weights; s++)
        total += config->weights[s].weight;
    assert(total > 0);
    for (size_t s = 0; s < config->n_weights; s++) {
        double weight = config->weights[s].weight / total;
        score(run, config->weights[s].scorer, request);
        for (size_t i = 0; i < run->n_instances; i++) {
            double part = run->parts[i];
            run->scores[i] += (part < 0 ? 0 : part > 1 ? 1 : part) * weight;
        }
    }
    return best_of(run);
}

size_t route_choose(struct cluster_run_state *run, uint32_t request)
{
    switch (run->config->routing) {
    case CLUSTER_LEAST_LOADED:
        return least_loaded(run);
    case CLUSTER_WEIGHTED:
        return weighted(run, request);
    case CLUSTER_ALWAYS_BUSIEST:
        return busiest(run);
    default:
        return (size_t)(run->turn++ % run->n_instances);
    }
}
