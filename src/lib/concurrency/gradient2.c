/* gradient2.c - the limit follows how much slower calls are than the fastest of late.
 *
 *     g        = 1/2 .. 1:  tolerance * fastest / sample;  1/2 if the call was dropped
 *     target   = estimate * g + sqrt(estimate)
 *     estimate = (1 - smoothing) * estimate + smoothing * target
 *
 * after each call that began when half the limit was in use, and each that was dropped. The square
 * root is the queue that is put up with: it lets the limit grow while calls are fast, by about
 * smoothing * sqrt(estimate) a call.
 *
 * It is quick where vegas is sure: it wants samples that vary by less than `tolerance` among
 * themselves. Where they vary by more, the fastest is luck, and the limit goes down to some
 * few calls. And it wants a fastest from before the overload: with the last hundred samples, which
 * on a busy server are a tenth of a second, the base rises with the queue and the limit runs to
 * `max`. Hence the defaults: 15 times the fastest of a thousand, and a `max` of 200.
 */
#include "lib/concurrency/per_sample.h"

#include <assert.h>
#include <math.h>

static bool gradient2_begin(struct law *law, int64_t limit)
{
    return per_sample_begin(law, limit, law->config.gradient2.rtt_window);
}

static bool gradient2_adapt(struct law *law, const struct tg_law_config *config)
{
    return per_sample_adapt(law, config, config->gradient2.rtt_window);
}

static double gradient(double tolerance, double fastest, double sample)
{
    double g = tolerance * fastest / sample;

    if (g > 1)
        return 1;
    return g < 0.5 ? 0.5 : g;
}

static void gradient2_finished(struct law *law, tg_ms at, const struct law_sample *sample)
{
    const double smoothing = law->config.gradient2.smoothing;
    struct per_sample *state = &law->state.per_sample;
    double g = 0.5;

    if (!sample->dropped) {
        double fastest = recent_min_push(&state->recent, sample->sample_ms, at, &law->random);
        assert(fastest <= sample->sample_ms);
        if (!per_sample_used(law, sample))
            return;
        g = gradient(law->config.gradient2.tolerance, fastest, sample->sample_ms);
    }
    assert(g >= 0.5 && g <= 1);
    double target = state->estimate * g + sqrt(state->estimate);
    per_sample_set(law, state->estimate * (1 - smoothing) + target * smoothing);
}

const struct law_ops law_gradient2 = {
    .name = "gradient2",
    .begin = gradient2_begin,
    .end = per_sample_end,
    .adapt = gradient2_adapt,
    .finished = gradient2_finished,
};
