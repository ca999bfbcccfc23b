/* cluster_events.h - what is to happen, the earliest first: a heap with four children a node.
 *
 * Events carry their order: by time, then by `order`, which no two events of one heap share, so
 * that what comes out does not depend on the heap's shape. Most are pushed for the end of the heap
 * and stay there: then a push costs one comparison. Four children because a pop then touches half
 * as many lines of cache as with two.
 */
#ifndef TG_CLUSTER_CLUSTER_EVENTS_H
#define TG_CLUSTER_CLUSTER_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cluster_event {
    int64_t at_us;
    uint64_t order;   /* among those of one instant */
    uint32_t request; /* whose */
    uint32_t kind;    /* the owner's */
};

struct cluster_events {
    struct cluster_event *list;
    size_t n;
    size_t capacity;
};

void cluster_events_fini(struct cluster_events *events);

/* False: no memory. */
bool cluster_events_push(struct cluster_events *events, const struct cluster_event *event);

/* Takes out the first; there must be one. */
struct cluster_event cluster_events_pop(struct cluster_events *events);

/* When the first is due; INT64_MAX: there is none. */
static inline int64_t cluster_events_next(const struct cluster_events *events)
{
    return events->n > 0 ? events->list[0].at_us : INT64_MAX;
}

#endif
