/* cluster_events.c - what is to happen, the earliest first. See cluster_events.h. */
#include "lab/cluster/cluster_events.h"

#include <assert.h>
#include <stdlib.h>

#include "lib/core/array.h"

#define CHILDREN 4

static bool before(const struct cluster_event *a, const struct cluster_event *b)
{
    return a->at_us != b->at_us ? a->at_us < b->at_us : a->order < b->order;
}

void cluster_events_fini(struct cluster_events *events)
{
    free(events->list);
    *events = (struct cluster_events){0};
}

bool cluster_events_push(struct cluster_events *events, const struct cluster_event *event)
{
    if (!array_reserve(&events->list, &events->capacity, events->n + 1))
        return false;
    size_t at = events->n++;
    while (at > 0) {
        size_t parent = (at - 1) / CHILDREN;
        if (!before(event, &events->list[parent]))
            break;
        events->list[at] = events->list[parent];
        at = parent;
    }
    events->list[at] = *event;
    return true;
}

static size_t first_child(const struct cluster_events *events, size_t from, size_t end)
{
    size_t first = from;

    for (size_t i = from + 1; i < end; i++)
        if (before(&events->list[i], &events->list[first]))
            first = i;
    return first;
}

struct cluster_event cluster_events_pop(struct cluster_events *events)
{
    assert(events->n > 0);
    struct cluster_event top = events->list[0], last = events->list[--events->n];
    size_t at = 0;

    for (;;) {
        size_t from = at * CHILDREN + 1, end = from + CHILDREN;
        if (from >= events->n)
            break;
        size_t child = first_child(events, from, end < events->n ? end : events->n);
        if (!before(&events->list[child], &last))
            break;
        events->list[at] = events->list[child];
        at = child;
    }
    events->list[at] = last;
    assert(events->n == 0 || before(&top, &events->list[0]));
    return top;
}
