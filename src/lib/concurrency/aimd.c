/* aimd.c - one more while calls are fast, a factor less when one is not.
 *
 *     sample > tolerance * fastest, or dropped:   estimate = floor(estimate * backoff)
 *     else, if half the limit was in use:         estimate + 1
 *
 * after each call. The first rule knows no use: a slow call is a slow call. Like gradient2 it wants
 * samples that vary by less than `tolerance` among themselves, and enough of them.
 */
#include "lib/concurrency/per_sample.h"
#include "lib/core/num.h"

#include <assert.h>

static bool aimd_begin(struct law *law, int64_t limit)
{
    return per_sample_begin(law, limit, law->config.aimd.rtt_window);
}

static bool aimd_adapt(struct law *law, const struct tg_law_config *config)
{
    return per_sample_adapt(law, config, config->aimd.rtt_window);
}

static bool slow(struct law *law, tg_ms at, double sample_ms)
{
    double fastest = recent_min_push(&law->state.per_sample.recent, sample_ms, at, &law->random);

    assert(fastest <= sample_ms);
    return sample_ms > fastest * law->config.aimd.tolerance;
}

static void aimd_finished(struct law *law, tg_ms at, const struct law_sample *sample)
{
    double estimate = law->state.per_sample.estimate;

    if (sample->dropped || slow(law, at, sample->sample_ms))
        per_sample_set(law, (double)num_floor(estimate * law->config.aimd.backoff));
    else if (per_sample_used(law, sample))
        per_sample_set(law, estimate + 1);
}

const struct law_ops law_aimd = {
    .name = "aimd",
    .begin = aimd_begin,
    .end = per_sample_end,
    .adapt = aimd_adapt,
    .finished = aimd_finished,
};
