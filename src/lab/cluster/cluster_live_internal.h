/* cluster_live_internal.h - a request at an instance, from its arrival there to its end.
 *
 * Records are the instance's, taken from its pool and given back; a request that has ended has
 * none, so a million requests need as many records as were ever there at once.
 */
#ifndef TG_CLUSTER_CLUSTER_LIVE_INTERNAL_H
#define TG_CLUSTER_CLUSTER_LIVE_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/core/heap.h"

enum live_state { LIVE_COMING, LIVE_WAITING, LIVE_RUNNING };

struct live {
    /* What every step reads: */
    int32_t progress;   /* tokens computed before this step */
    int32_t input;      /* tokens of the prompt */
    int32_t goal;       /* the progress at which it is complete */
    int32_t new_tokens; /* tokens computed in this step */
    int32_t computed;   /* progress after this step */
    int32_t fill;       /* tokens in the last block; 0: it has no block */
    bool generates;     /* it has output at all */
    bool first_token;   /* has been there */
    uint8_t state;      /* enum live_state */
    uint32_t request;
    int64_t itl_us; /* sum of its gaps between tokens */
    int32_t itl_n;
    int64_t gap_from; /* the step from which on it got a token in every step; -1: none */

    /* KV blocks: */
    uint32_t *blocks;
    size_t n_blocks;
    size_t capacity;        /* room in `blocks` */
    uint32_t *cached;       /* blocks of its prompt that the cache knows; null: it kept them all */
    uint32_t prefix_blocks; /* so many at the front are its group's */
    uint32_t prefix_at;     /* where they are in the cache's table of prefixes */

    /* Where it stands: */
    int32_t output;
    int32_t urgency; /* lower goes first */
    int64_t arrival_us;
    uint32_t id;
    struct live *next, *previous; /* in the wait queue, first come first served; or spare */
    struct heap_node node;        /* in the wait queue, any other order */
};

#endif
