/* law.c - what all laws have in common: a time that never goes back, and samples that are numbers.
 */
#include "lib/concurrency/law.h"
#include "lib/core/num.h"

#include <assert.h>

/* What a clock can tell; a sample below it counts as this, so that no ratio divides by 0. */
static const double SAMPLE_FLOOR_MS = 0.001;

/* After so many finished calls in a row without a first byte, whole times are samples again. */
enum { SILENT_MOST = 100 };

/* What admission obeys stays within the bounds that were asked for, whatever happens; and what a
 * probe holds it at is never above what was learned. */
static void law_assert_bounds(const struct law *law)
{
    assert(law->limit >= law->config.min && law->limit <= law->config.max);
    assert(law->learned == 0 || law->limit <= law->learned);
    (void)law;
}

void law_fini(struct law *law)
{
    if (law->ops->end)
        law->ops->end(law);
}

/* The time since the first event. A step back of the owner's clock counts as no time, and what
 * came before it stays in the past. */
static tg_ms time_of(struct law *law, tg_ms now)
{
    if (law->begun && now > law->last_now)
        law->at = num_add(law->at, now - law->last_now);
    law->begun = true;
    law->last_now = now;
    assert(law->at >= 0);
    return law->at;
}

void law_started(struct law *law, tg_ms now, int64_t in_flight)
{
    assert(in_flight >= 1); /* the call itself */
    if (law->ops->started)
        law->ops->started(law, time_of(law, now), in_flight);
    law_assert_bounds(law);
}

static bool is_number(double x)
{
    return x >= 0 && x <= (double)TG_NUMBER_MAX;
}

void law_finished(struct law *law, struct law_sample *sample)
{
    if (!law->ops->finished || !is_number(sample->sample_ms) || !is_number(sample->sojourn_ms))
        return;
    if (law->hears && !sample->dropped) {
        if (++law->silent < SILENT_MOST)
            return;
        law->hears = false;
    }
    if (sample->sample_ms < SAMPLE_FLOOR_MS)
        sample->sample_ms = SAMPLE_FLOOR_MS;
    law->ops->finished(law, time_of(law, sample->now), sample);
    law_assert_bounds(law);
}

void law_first_byte(struct law *law, const struct law_sample *sample, uint8_t place)
{
    struct law_sample first = *sample;
    tg_ms at;

    if (!law->ops->finished || !is_number(sample->sample_ms) || !is_number(sample->sojourn_ms))
        return;
    assert(sample->still_runs && !sample->dropped);
    law->hears = true;
    law->silent = 0;
    at = time_of(law, sample->now);
    first.sample_ms = sample->sample_ms < SAMPLE_FLOOR_MS ? SAMPLE_FLOOR_MS : sample->sample_ms;
    double base = first_bytes_learn(&law->first_bytes, place, first.sample_ms);
    if (law->ops->first_byte) {
        law->ops->first_byte(law, at, &first, base);
    } else {
        if (law->first_bytes.common_ms > 0)
            first.sample_ms *= law->first_bytes.common_ms / base;
        law->ops->finished(law, at, &first);
    }
    law_assert_bounds(law);
}

void law_left(struct law *law, tg_ms now, int64_t in_flight, double sojourn_ms)
{
    assert(in_flight >= 0);
    if (law->ops->left)
        law->ops->left(law, time_of(law, now), in_flight, sojourn_ms);
    law_assert_bounds(law);
}

void law_rejected(struct law *law, tg_ms now)
{
    if (law->ops->rejected)
        law->ops->rejected(law, time_of(law, now));
    law_assert_bounds(law);
}

void law_ceiling(struct law *law, tg_ms now, int64_t ceiling, tg_ms until)
{
    if (law->ops->ceiling) {
        tg_ms at = time_of(law, now);
        law->ops->ceiling(law, at, ceiling, num_add(at, num_less(until, now)));
    }
    law_assert_bounds(law);
}

void law_tick(struct law *law, tg_ms now)
{
    if (law->ops->tick)
        law->ops->tick(law, time_of(law, now));
    law_assert_bounds(law);
}

struct law_times law_times(const struct law *law)
{
    return law->ops->times ? law->ops->times(law) : (struct law_times){.mean_ms = 0};
}
