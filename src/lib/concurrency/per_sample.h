/* per_sample.h - what gradient2 and aimd share: a limit with a fraction, moved by every sample.
 *
 * Both compare a sample with the lowest of the last rtt_window, taken in before the comparison, so
 * the lowest is never above the sample. Dropped calls are not taken in: an overloaded server often
 * says no in no time, and that is not what a call takes.
 */
#ifndef TG_CONCURRENCY_PER_SAMPLE_H
#define TG_CONCURRENCY_PER_SAMPLE_H

#include "lib/concurrency/law.h"

bool per_sample_begin(struct law *law, int64_t limit, int64_t rtt_window);
void per_sample_end(struct law *law);
bool per_sample_adapt(struct law *law, const struct tg_law_config *config, int64_t rtt_window);

/* Sets the estimate, clamped, and the limit, its whole part. */
void per_sample_set(struct law *law, double estimate);

/* Half the limit was used when the call began. Below that, how fast a call was says nothing of the
 * limit, in either direction. */
static inline bool per_sample_used(const struct law *law, const struct law_sample *sample)
{
    return 2 * (double)sample->in_flight_at_start >= law->state.per_sample.estimate;
}

#endif
