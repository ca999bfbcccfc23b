/* per_sample.c - what gradient2 and aimd share; see per_sample.h. */
#include "lib/concurrency/per_sample.h"
#include "lib/core/num.h"

#include <assert.h>

static double clamp(double estimate, const struct tg_law_config *config)
{
    assert(config->min <= config->max);
    if (estimate < (double)config->min)
        return (double)config->min;
    return estimate < (double)config->max ? estimate : (double)config->max;
}

void per_sample_set(struct law *law, double estimate)
{
    law->state.per_sample.estimate = clamp(estimate, &law->config);
    law_set_limit(law, num_floor(law->state.per_sample.estimate));
}

bool per_sample_begin(struct law *law, int64_t limit, int64_t rtt_window)
{
    per_sample_set(law, (double)limit);
    return recent_min_init(&law->state.per_sample.recent, rtt_window, &law->random);
}

void per_sample_end(struct law *law)
{
    recent_min_fini(&law->state.per_sample.recent);
}

bool per_sample_adapt(struct law *law, const struct tg_law_config *config, int64_t rtt_window)
{
    if (!recent_min_resize(&law->state.per_sample.recent, rtt_window))
        return false;
    law->state.per_sample.estimate = clamp(law->state.per_sample.estimate, config);
    law_set_limit(law, num_floor(law->state.per_sample.estimate));
    return true;
}
