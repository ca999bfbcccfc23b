/* sim_bins.c - a run over time, as a picture shows it. See sim_bins.h. */
#include "cli/sim/sim_bins.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#define BINS_MAX 120

double sim_time_unit(double end_s, const char **name)
{
    *name = end_s > 3 * 7200 ? "hours" : end_s > 600 ? "minutes" : "seconds";
    return end_s > 3 * 7200 ? 3600 : end_s > 600 ? 60 : 1;
}

/* ---- Counts ---------------------------------------------------------------------------------- */

static void add_points(struct sim_bins *bins, const struct cluster_result *result, size_t points)
{
    for (size_t i = 0; i < result->n_series; i++) {
        const struct cluster_point *point = &result->series[i];
        size_t bin = i / points;
        assert(bin < bins->n);
        bins->rows[SIM_ROW_ARRIVED][bin] += (double)point->arrived;
        bins->rows[SIM_ROW_ADMITTED][bin] += (double)point->admitted;
        bins->rows[SIM_ROW_COMPLETED][bin] += (double)point->completed;
        bins->rows[SIM_ROW_RUNNING][bin] = (double)point->running;
        bins->rows[SIM_ROW_QUEUED][bin] = (double)point->queued;
        bins->rows[SIM_ROW_GATEWAY][bin] = (double)point->gateway_depth;
        bins->rows[SIM_ROW_LIMIT][bin] = point->gate_limit > 0 ? point->gate_limit : (double)NAN;
    }
}

static size_t bin_of(const struct sim_bins *bins, int64_t at_us)
{
    double bin = (double)at_us / 1e6 / bins->width_s;

    assert(at_us >= 0 && bins->n > 0);
    return bin < (double)bins->n ? (size_t)bin : bins->n - 1;
}

static void add_refusals(struct sim_bins *bins, const struct cluster_result *result)
{
    for (size_t i = 0; i < result->n; i++) {
        const struct cluster_outcome *outcome = &result->outcomes[i];
        int reason = sim_reasons_find(&bins->reasons, outcome);
        if (reason < 0 || outcome->decided_us < 0)
            continue;
        size_t bin = bin_of(bins, outcome->decided_us);
        bins->rows[SIM_ROW_REASONS + reason][bin] += 1;
        bins->rows[SIM_ROW_REFUSED][bin] += 1;
    }
}

static void make_rates(struct sim_bins *bins)
{
    static const int rates[] = {SIM_ROW_ARRIVED, SIM_ROW_ADMITTED, SIM_ROW_COMPLETED,
                                SIM_ROW_REFUSED};

    for (size_t i = 0; i < bins->n; i++) {
        bins->rows[SIM_ROW_X][i] = ((double)i + 0.5) * bins->width_s;
        for (size_t r = 0; r < sizeof rates / sizeof rates[0]; r++)
            bins->rows[rates[r]][i] /= bins->width_s;
        for (size_t r = 0; r < bins->reasons.n; r++)
            bins->rows[SIM_ROW_REASONS + r][i] /= bins->width_s;
    }
}

/* ---- Times to the first token ---------------------------------------------------------------- */

struct first_token {
    size_t bin;
    int64_t us;
};

static int by_bin(const void *a, const void *b)
{
    const struct first_token *x = a, *y = b;

    if (x->bin != y->bin)
        return x->bin < y->bin ? -1 : 1;
    return (x->us > y->us) - (x->us < y->us);
}

/* Interpolates between the two values around the rank, like BLIS. */
static double percentile_ms(const struct first_token *sorted, size_t n, double part)
{
    double rank = part * (double)(n - 1);
    size_t low = (size_t)rank, high = low + 1 < n ? low + 1 : low;

    assert(low < n && sorted[low].us <= sorted[high].us);
    return ((double)sorted[low].us +
            (rank - (double)low) * (double)(sorted[high].us - sorted[low].us)) /
           1000;
}

static void add_sorted(struct sim_bins *bins, const struct first_token *tokens, size_t n)
{
    for (size_t i = 0; i < bins->n; i++)
        bins->rows[SIM_ROW_TTFT_P50][i] = bins->rows[SIM_ROW_TTFT_P99][i] = (double)NAN;
    for (size_t from = 0, to; from < n; from = to) {
        for (to = from; to < n && tokens[to].bin == tokens[from].bin;)
            to++;
        size_t bin = tokens[from].bin;
        bins->rows[SIM_ROW_TTFT_P50][bin] = percentile_ms(tokens + from, to - from, 0.5);
        bins->rows[SIM_ROW_TTFT_P99][bin] = percentile_ms(tokens + from, to - from, 0.99);
    }
}

static bool add_first_tokens(struct sim_bins *bins, const struct sim_run *run)
{
    const struct cluster_result *result = &run->result;
    struct first_token *tokens = malloc((result->n + 1) * sizeof *tokens);
    size_t n = 0;

    if (tokens == NULL)
        return false;
    for (size_t i = 0; i < result->n; i++) {
        int64_t us = result->outcomes[i].ttft_us;
        if (us >= 0)
            tokens[n++] = (struct first_token){
                bin_of(bins, run->workload->load.requests[i].arrival_us + us), us};
    }
    qsort(tokens, n, sizeof *tokens, by_bin);
    add_sorted(bins, tokens, n);
    free(tokens);
    return true;
}

/* ---- The whole ------------------------------------------------------------------------------- */

bool sim_bins_init(struct sim_bins *bins, const struct sim_run *run)
{
    const struct cluster_result *result = &run->result;
    size_t points = (result->n_series + BINS_MAX - 1) / BINS_MAX;

    *bins = (struct sim_bins){.n = 0};
    points = points > 0 ? points : 1;
    sim_reasons_count(run, &bins->reasons);
    bins->n = (result->n_series + points - 1) / points;
    assert(bins->n <= BINS_MAX);
    bins->n = bins->n > 0 ? bins->n : 1;
    bins->width_s = (double)result->series_us * (double)points / 1e6;
    bins->width_s = bins->width_s > 0 ? bins->width_s : 1;
    bins->end_s = bins->width_s * (double)bins->n;
    bins->room = calloc(SIM_ROWS * bins->n, sizeof *bins->room);
    if (bins->room == NULL)
        return false;
    for (size_t i = 0; i < SIM_ROWS; i++)
        bins->rows[i] = bins->room + i * bins->n;
    add_points(bins, result, points);
    add_refusals(bins, result);
    make_rates(bins);
    return add_first_tokens(bins, run);
}

void sim_bins_fini(struct sim_bins *bins)
{
    free(bins->room);
    *bins = (struct sim_bins){.n = 0};
}
