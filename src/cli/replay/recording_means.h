/* recording_means.h - what calls of a model take on average, for those that a recording refused and
 * another configuration admits. */
#ifndef TG_REPLAY_RECORDING_MEANS_H
#define TG_REPLAY_RECORDING_MEANS_H

#include "cli/replay/recording.h"
#include "server/runtime/generation.h"

struct recording_mean {
    const char *model; /* null: all calls together */
    uint64_t n;        /* calls that were served, all sums are of these */
    double ms;         /* from their key to their end */
    double cost, used; /* tokens that they asked for, and used */
    double most, spent;
};

struct recording_means {
    struct recording_mean *list; /* the first is that of all calls */
    size_t n, room;
};

/* False: no memory. */
bool recording_means_init(struct recording_means *means, const struct recording *recording);
void recording_means_fini(struct recording_means *means);

/* What a call does from `now` on that was refused by `op` then: returns the number of operations.
 * They are the caller's, to free(). None, and null: no memory. */
size_t recording_make_up(const struct recording_means *means, const struct generation *generation,
                         const struct recorded_call *call, const struct recorded_op *op, tg_ms now,
                         struct recorded_op **made);

#endif
