/* auto_meter.c - what the law `auto` measures: latency, the base of it, and throughput.
 *
 * Only operations whose result IEEE 754 fixes are used (no log, no exp), so that every compiler and
 * machine gets the same limits from the same events.
 *
 * The base. Latency is kept by level of load, that is, by how many others a call found in flight;
 * the base is the lowest mean of a level with calls enough. So it can be measured on a
 * server that is never idle, as long as its load varies. It falls at once and rises slowly.
 *
 * Throughput. Calls that end are counted in bins; bins that vary tell how far the mean can be
 * trusted. A bin lasts half of what throughput remembers, E[r^2] / E[r]: where a tenth of the calls
 * takes forty times as long as the others, this is much longer than a mean call, and shorter bins
 * would not be independent.
 */
#include "lib/concurrency/auto_internal.h"

#include <assert.h>
#include <math.h>

#include "lib/core/num.h"

static const double MEAN_WEIGHT = 1.0 / 30, SQUARE_WEIGHT = 1.0 / 100, LEVEL_WEIGHT = 1.0 / 50;

enum {
    LEVEL_ENOUGH = 30,    /* calls, before the mean of a level counts */
    SECOND_ENOUGH = 10,   /* calls in a second, else it is made longer */
    BINS_ENOUGH = 8,      /* for a variance */
    MEASURE_ENOUGH = 20,  /* calls in a measurement */
    MEASURE_MEMORIES = 60 /* how long a measurement may last */
};

static const double LEVEL_AGE_MS = 30000, LEVEL_AGE_MEANS = 100; /* the longer of both */
static const double BASE_RISES_MS = 20000, RATE_RISES_MS = 10000, RATE_FALLS_MS = 60000;
static const double REFUSING = 0.02; /* refusals for each call that ends */

double auto_memory_ms(const struct auto_law *law)
{
    if (law->sampled == 0)
        return 1;
    double memory = law->square_ms / law->mean_ms;

    return fmax(law->mean_ms, fmin(memory, 20 * law->mean_ms));
}

static int level_of(int64_t others)
{
    int level = 0;

    if (others > 0)
        (void)frexp((double)others * (double)others, &level); /* exact, and 1 for others == 1 */
    return level < AUTO_LEVELS ? level : AUTO_LEVELS - 1;
}

static void average(double *mean, double value, double weight, int64_t n)
{
    *mean += (value - *mean) * fmax(weight, 1 / (double)n);
}

void auto_meter_sample(struct auto_law *law, double latency_ms, int64_t others)
{
    struct auto_level *level = &law->levels[level_of(others)];

    law->counts.ended++;
    law->counts.latency_ms += latency_ms;
    law->sampled++;
    average(&law->mean_ms, latency_ms, MEAN_WEIGHT, law->sampled);
    average(&law->square_ms, latency_ms * latency_ms, SQUARE_WEIGHT, law->sampled);
    level->n++;
    average(&level->mean_ms, latency_ms, LEVEL_WEIGHT, level->n);
    level->used_at = law->at;
}

/* 0: no level has calls enough. */
static double lowest_level(const struct auto_law *law)
{
    double oldest = law->at - fmax(LEVEL_AGE_MS, LEVEL_AGE_MEANS * law->mean_ms);
    double lowest = 0;

    for (int i = 0; i < AUTO_LEVELS; i++) {
        const struct auto_level *level = &law->levels[i];
        if (level->n >= LEVEL_ENOUGH && level->used_at >= oldest &&
            (lowest <= 0 || level->mean_ms < lowest))
            lowest = level->mean_ms;
    }
    return lowest;
}

/* How far a mean that follows in `span_ms` has come after `ms`. */
static double followed(double ms, double span_ms)
{
    return ms / (ms + span_ms);
}

bool auto_meter_second(struct auto_law *law)
{
    const struct auto_counts *begin = &law->second, *end = &law->counts;
    double ms = law->at - law->second_at, lowest;
    int64_t ended = end->ended - begin->ended;

    if (ms < 1000 || ended < SECOND_ENOUGH)
        return false;
    double rate = (double)ended / ms;
    double latency = (end->latency_ms - begin->latency_ms) / (double)ended;
    bool is_free = end->pinned_ms - begin->pinned_ms < 0.5 * ms;

    law->second = law->counts;
    law->second_at = law->at;
    lowest = lowest_level(law);
    if (lowest > 0 && (law->base_ms <= 0 || lowest < law->base_ms))
        law->base_ms = lowest;
    else if (lowest > 0)
        law->base_ms += (lowest - law->base_ms) * followed(ms, BASE_RISES_MS);
    if (!is_free || law->base_ms <= 0 || latency >= 2 * law->base_ms)
        return false;
    law->quiet_rate += (rate - law->quiet_rate) *
                       followed(ms, rate > law->quiet_rate ? RATE_RISES_MS : RATE_FALLS_MS);
    return true;
}

/* ---- A measurement --------------------------------------------------------------------------- */

void auto_measure_start(struct auto_law *law, double settle_ms)
{
    law->measure = (struct auto_measure){
        .from_at = law->at + settle_ms,
        .bin_ms = (double)num_max(1, num_ceil(auto_memory_ms(law) / 2)),
    };
}

void auto_measure_advance(struct auto_law *law)
{
    struct auto_measure *measure = &law->measure;

    if (!measure->has_begun && law->at >= measure->from_at) {
        measure->has_begun = true;
        measure->from_at = law->at;
        measure->begin = law->counts;
        measure->bin_began = law->counts.ended;
        measure->bin_until = law->at + measure->bin_ms;
    }
    if (!measure->has_begun || law->at < measure->bin_until)
        return;
    /* The first bin has all that ended since, the others nothing. */
    double count = (double)(law->counts.ended - measure->bin_began);
    int64_t bins = 1 + num_floor((law->at - measure->bin_until) / measure->bin_ms);

    measure->squares += count * count;
    measure->bins += bins;
    measure->bin_began = law->counts.ended;
    measure->bin_until += (double)bins * measure->bin_ms;
    assert(measure->bin_until > law->at);
}

struct auto_reading auto_measure_read(const struct auto_law *law)
{
    const struct auto_measure *measure = &law->measure;
    struct auto_reading reading = {.error = 1};

    if (!measure->has_begun || law->at <= measure->from_at)
        return reading;
    reading.ms = law->at - measure->from_at;
    reading.ended = law->counts.ended - measure->begin.ended;
    reading.rate = (double)reading.ended / reading.ms;
    reading.pinned = (law->counts.pinned_ms - measure->begin.pinned_ms) / reading.ms;
    reading.refusing =
        (double)(law->counts.refused - measure->begin.refused) > REFUSING * (double)reading.ended;
    reading.is_late = reading.ms > MEASURE_MEMORIES * auto_memory_ms(law);
    if (measure->bins < BINS_ENOUGH || reading.ended < MEASURE_ENOUGH || reading.ms < law->mean_ms)
        return reading;
    double n = (double)measure->bins;
    double mean = (double)(measure->bin_began - measure->begin.ended) / n;
    double variance = fmax(mean, (measure->squares - n * mean * mean) / (n - 1));

    reading.is_full = mean > 0;
    if (mean > 0)
        reading.error = sqrt(variance / n) / mean;
    return reading;
}
