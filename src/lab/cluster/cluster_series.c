/* cluster_series.c - the time series of a run: at most SERIES_MAX points, however long it takes.
 *
 * It is not known before how long a run will be. When the points are used up, each two become one
 * and the next are twice as wide. Counts are differences of sums that are kept anyway, so an event
 * costs nothing here but one comparison of times.
 */
#include <assert.h>

#include "lab/cluster/cluster_internal.h"

#define SERIES_MAX 512

/* Sums since the beginning, and the state now. */
static struct cluster_point cluster_series_sample(const struct cluster_run_state *run)
{
    const struct instance_world *world = &run->world;
    int64_t used = 0, all = 0;
    struct cluster_point point = {
        .arrived = run->arrived,
        .admitted = run->admitted,
        .rejected = run->rejected,
        .completed = world->completed,
        .timed_out = world->timed_out,
        .output_tokens = world->output_tokens + world->first_tokens,
        .ttft_n = world->first_tokens,
        .ttft_us = world->first_tokens_us,
        .gateway_depth = flow_depth(run) + gate_waiting(run),
        .gate_limit = gate_limit(run),
    };

    for (size_t i = 0; i < run->n_instances; i++) {
        const struct instance *instance = &run->instances[i];
        point.queued += (int64_t)instance->n_waiting;
        point.running += (int64_t)instance->n_batch;
        used += kv_used(&instance->kv);
        all += instance->kv.n;
    }
    assert(used <= all);
    point.kv_used = (double)used / (double)all;
    return point;
}

/* What is counted in `point`, less what was counted in `before`; or more, with a sign of -1. */
static void subtract(struct cluster_point *point, const struct cluster_point *before, int64_t sign)
{
    point->arrived -= sign * before->arrived;
    point->admitted -= sign * before->admitted;
    point->rejected -= sign * before->rejected;
    point->completed -= sign * before->completed;
    point->timed_out -= sign * before->timed_out;
    point->output_tokens -= sign * before->output_tokens;
    point->ttft_n -= sign * before->ttft_n;
    point->ttft_us -= sign * before->ttft_us;
}

static void halve(struct cluster_run_state *run)
{
    assert(run->n_series == SERIES_MAX);
    for (size_t i = 0; i < SERIES_MAX / 2; i++) {
        struct cluster_point point = run->series[2 * i + 1];
        subtract(&point, &run->series[2 * i], -1);
        run->series[i] = point;
    }
    run->n_series = SERIES_MAX / 2;
    run->series_us *= 2;
}

static void end_point(struct cluster_run_state *run)
{
    struct cluster_point now = cluster_series_sample(run), point = now;

    subtract(&point, &run->before, 1);
    assert(point.arrived >= 0 && point.admitted >= 0 && point.rejected >= 0); /* sums never fall */
    assert(point.completed >= 0 && point.timed_out >= 0 && point.output_tokens >= 0);
    assert(run->n_series < SERIES_MAX);
    run->before = now;
    run->series[run->n_series++] = point;
    if (run->n_series == SERIES_MAX)
        halve(run);
    run->series_end_us = (int64_t)(run->n_series + 1) * run->series_us;
}

void series_reach(struct cluster_run_state *run, int64_t now_us)
{
    while (run->series_end_us <= now_us)
        end_point(run);
}

void series_finish(struct cluster_run_state *run)
{
    if (run->series != NULL)
        end_point(run);
}

size_t series_most(void)
{
    return SERIES_MAX;
}
