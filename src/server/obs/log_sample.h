/* log_sample.h - when many are refused, a line stands for several.
 *
 * An overload refuses tens of thousands of calls a second. A line for each would be the next
 * overload, and nobody reads them; none at all would hide who it was. So the first ten a second for
 * one reason are written, and from then on every hundredth, which says for how many it stands:
 *
 *     the sum over the lines + what log_sampler_left() says = all that were refused
 *
 * Belongs to one thread.
 */
#ifndef TG_OBS_LOG_SAMPLE_H
#define TG_OBS_LOG_SAMPLE_H

#include "tollgate.h"

enum { LOG_SAMPLE_FIRST = 10, LOG_SAMPLE_EACH = 100, LOG_SAMPLE_REASONS = 40 };

/* What was refused for one reason. */
struct log_sample {
    const char *reason; /* a static text; null: free */
    int64_t second;     /* since the epoch: the one in which `n` were refused */
    uint64_t n;
    uint64_t left_out; /* refusals since the last line */
};

struct log_sampler {
    struct log_sample of[LOG_SAMPLE_REASONS]; /* the last one is shared by those without a place */
};

/* One more refusal. Returns how many a line is to stand for; 0: no line. */
uint64_t log_sampler_take(struct log_sampler *sampler, const char *reason, tg_ms now);

/* The refusals that no line stands for: the next reason at or after *i that has any. False: none.
 */
bool log_sampler_left(const struct log_sampler *sampler, size_t *i, const char **reason,
                      uint64_t *left_out);

#endif
