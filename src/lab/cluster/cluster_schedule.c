/* cluster_schedule.c - what happens next in a run: events of the cluster and of its instances.
 *
 * The cluster's own events are in one heap. Each instance knows its next event, and a tournament
 * tree over the instances knows the earliest of them: a node holds the smaller time of its two
 * children, so an instance whose next event changes costs one walk to the root.
 */
#include <assert.h>
#include <stdio.h>

#include "lab/cluster/cluster_internal.h"

#define ORDER_BITS 56

/* ---- Events of the cluster ------------------------------------------------------------------- */

void schedule_push(struct cluster_run_state *run, int64_t at_us, enum cluster_kind kind,
                   uint32_t request)
{
    struct cluster_event event = {.at_us = at_us,
                                  .order = (uint64_t)kind << ORDER_BITS | run->pushed++,
                                  .request = request,
                                  .kind = kind};

    assert(at_us >= run->now_us); /* nothing happens in the past */
    assert(run->pushed < UINT64_C(1) << ORDER_BITS && request < run->load->n);
    if (!cluster_events_push(&run->events, &event))
        run->world.no_memory = true;
}

void cluster_fail(struct cluster_run_state *run, enum tg_err err, const char *text)
{
    if (run->err == TG_OK) {
        run->err = err;
        snprintf(run->problem.text, sizeof run->problem.text, "%s", text);
    }
}

/* ---- Events of the instances ----------------------------------------------------------------- */

void schedule_instance(struct cluster_run_state *run, size_t instance)
{
    size_t at = run->leaves + instance;

    assert(instance < run->n_instances);
    run->earliest[at] = instance_next(&run->instances[instance]);
    assert(run->earliest[at] >= run->now_us);
    for (at /= 2; at > 0; at /= 2) {
        int64_t a = run->earliest[2 * at], b = run->earliest[2 * at + 1];
        run->earliest[at] = a < b ? a : b;
    }
}

size_t schedule_first_instance(const struct cluster_run_state *run)
{
    size_t at = 1;

    while (at < run->leaves)
        at = 2 * at + (run->earliest[2 * at] > run->earliest[at]);
    assert(at - run->leaves < run->n_instances && run->earliest[at] == run->earliest[1]);
    return at - run->leaves;
}
