/* scenario_table.c - the overload scenarios, and what follows from their parameters.
 *
 * Most have 16 workers and a mean service of 10 ms: a capacity of 1600 calls a second. Streams have
 * 64 workers and calls of seconds.
 */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "lab/scenario/scenario.h"

/* A short run of the 16-worker server at so many calls a second. */
#define SHORT .until_s = 120, .measured_from_s = 20, .deadline_factor = 1
#define LONG .until_s = 1800, .measured_from_s = 20, .deadline_factor = 1
#define STREAM                                                                                     \
    .until_s = 3600, .measured_from_s = 300, .first_byte_ms = 300, .deadline_ms = 2000,            \
    .deadline_factor = 1
#define PLAIN(rate) .load = {16, rate, 10, 0}, .kinds = {{1, 1, 0.7}}
#define BIMODAL(rate) .load = {16, rate, 10, 0}, .kinds = {{0.1, 8.2, 0.1}, {0.9, 0.2, 0.1}}
#define LLM(rate) .load = {64, rate, 8000, 0}, .kinds = {{1, 1, 1.3}}
#define MIX(rate)                                                                                  \
    .load = {64, rate, 4400, 0}, .kinds = {{0.2, 20 / 4.4, 0.8}, {0.8, 0.5 / 4.4, 0.5}}
#define BURST .change_from_s = 40, .change_until_s = 42, .change = {.arrivals_per_s = 8000}
#define MIDDLE .change_from_s = 40, .change_until_s = 80

const struct scenario scenarios[] = {
    {.name = "1.5x", .about = "1.5 times the capacity all the time", SHORT, PLAIN(2400)},
    {.name = "3x", .about = "3 times the capacity all the time", SHORT, PLAIN(4800)},
    {.name = "step2x",
     .about = "from half the capacity to twice it, from 30 s to 90 s",
     SHORT,
     PLAIN(800),
     .change_from_s = 30,
     .change_until_s = 90,
     .change = {.arrivals_per_s = 3200}},
    {.name = "cap/2",
     .about = "load 0.9; half the workers fail from 40 s to 80 s",
     SHORT,
     PLAIN(1440),
     MIDDLE,
     .change = {.workers = 8}},
    {.name = "capup",
     .about = "load 1.8 with half the workers until 50 s, then 0.9 with all",
     SHORT,
     PLAIN(1440),
     .change_from_s = 0,
     .change_until_s = 50,
     .change = {.workers = 8}},
    {.name = "slowdep",
     .about = "load 0.6; a dependency slows from 4 ms to 60 ms, 40 s to 80 s",
     .until_s = 120,
     .measured_from_s = 20,
     .deadline_factor = 5,
     .load = {16, 960, 10, 4},
     .kinds = {{1, 1, 0.7}},
     MIDDLE,
     .change = {.delay_ms = 60}},
    {.name = "born2x", .about = "twice the capacity from the first call", SHORT, PLAIN(3200)},
    {.name = "dear2.5",
     .about = "load 0.8; calls take 2.5 times as long from 40 s to 80 s",
     SHORT,
     PLAIN(1280),
     MIDDLE,
     .change = {.service_ms = 25}},
    {.name = "1.25x30m", .about = "1.25 times the capacity for 30 minutes", LONG, PLAIN(2000)},
    {.name = "drift30m",
     .about = "load 0.9; calls grow from 10 ms to 15 ms over 30 minutes",
     LONG,
     PLAIN(1440),
     .service_grows_ms = 5},
    {.name = "burst+rt",
     .about = "load 0.8; 5 times the capacity for 2 s; 3 retries with back-off",
     SHORT,
     PLAIN(1280),
     BURST,
     .retries = 3,
     .backoff_ms = 50},
    {.name = "burst-nobackoff",
     .about = "the same burst; 10 retries at once",
     SHORT,
     PLAIN(1280),
     BURST,
     .retries = 10},
    {.name = "heavy.7",
     .about = "load 0.7; service times of deviation 3 times their mean",
     SHORT,
     .load = {16, 1120, 10, 0},
     .kinds = {{1, 1, 3}}},
    {.name = "bimod.8",
     .about = "load 0.8; one call in ten takes 82 ms, the others 2 ms",
     SHORT,
     BIMODAL(1280)},
    {.name = "bimod2x", .about = "the same calls at twice the capacity", SHORT, BIMODAL(3200)},
    {.name = "cold.9",
     .about = "a call a second until 60 s, then load 0.9",
     .until_s = 120,
     .measured_from_s = 0,
     .deadline_factor = 1,
     PLAIN(1440),
     .change_from_s = 0,
     .change_until_s = 60,
     .change = {.arrivals_per_s = 1}},
    {.name = "low.3", .about = "load 0.3", SHORT, PLAIN(480)},
    {.name = "PS2x",
     .about = "twice the capacity of workers that serve all calls at once",
     SHORT,
     PLAIN(3200),
     .shared = true},
    {.name = "PS.7",
     .about = "load 0.7 of workers that serve all calls at once",
     SHORT,
     PLAIN(1120),
     .shared = true},
    {.name = "LLM.7",
     .about = "streams of 8 s, load 0.7; the first byte within 2 s counts",
     STREAM,
     LLM(5.6)},
    {.name = "LLM1.5x", .about = "the same streams at 1.5 times the capacity", STREAM, LLM(12)},
    {.name = "mix.7",
     .about = "streams of 20 s (a fifth) and 0.5 s, load 0.7",
     STREAM,
     MIX(0.7 * 64 / 4.4)},
    {.name = "mix2x", .about = "the same streams at twice the capacity", STREAM, MIX(2 * 64 / 4.4)},
    {.name = "square",
     .about = "twice the capacity and half of it, 2 s each in turn",
     SHORT,
     PLAIN(3200),
     .change_from_s = 2,
     .change_until_s = 4,
     .period_s = 4,
     .change = {.arrivals_per_s = 800}},
    {.name = "prio2x",
     .about = "twice the capacity; 10 % high, 60 % normal, 30 % low priority",
     SHORT,
     PLAIN(3200),
     .high = 0.1,
     .low = 0.3},
};

const size_t scenarios_n = sizeof scenarios / sizeof scenarios[0];

const struct scenario *scenario_find(const char *name)
{
    for (size_t i = 0; i < scenarios_n; i++)
        if (strcmp(scenarios[i].name, name) == 0)
            return &scenarios[i];
    return NULL;
}

struct scenario_load scenario_load_at(const struct scenario *scenario, double now_ms)
{
    struct scenario_load load = scenario->load;
    const struct scenario_load *change = &scenario->change;
    double now_s = now_ms / 1000;

    if (scenario->service_grows_ms > 0)
        load.service_ms += scenario->service_grows_ms * (now_s / scenario->until_s);
    if (scenario->period_s > 0)
        now_s = fmod(now_s, scenario->period_s);
    if (now_s >= scenario->change_from_s && now_s < scenario->change_until_s) {
        load.workers = change->workers > 0 ? change->workers : load.workers;
        load.arrivals_per_s =
            change->arrivals_per_s > 0 ? change->arrivals_per_s : load.arrivals_per_s;
        load.service_ms = change->service_ms > 0 ? change->service_ms : load.service_ms;
        load.delay_ms = change->delay_ms > 0 ? change->delay_ms : load.delay_ms;
    }
    return load;
}

/* The probability that a lognormal service of this mean is at most `limit_ms`. */
static double lognormal_within(double mean_ms, double cv, double limit_ms)
{
    double variance = log(1 + cv * cv);

    if (limit_ms <= 0)
        return 0;
    return 0.5 * erfc(-(log(limit_ms / mean_ms) + variance / 2) / sqrt(2 * variance));
}

/* The probability that service + delay is at most `limit_ms`: the sum over slices of the service,
 * each as likely as the distribution says, of the probability that the delay fits into the rest. */
static double sum_within(double mean_ms, double cv, double delay_ms, double limit_ms)
{
    enum { SLICES = 4000 };
    double sum = 0, below = 0;

    for (int i = 1; i <= SLICES; i++) {
        double end = limit_ms * i / SLICES, middle = limit_ms * (i - 0.5) / SLICES;
        double within = lognormal_within(mean_ms, cv, end);
        sum += (within - below) * (1 - exp(-(limit_ms - middle) / delay_ms));
        below = within;
    }
    return sum;
}

double scenario_keeps(const struct scenario *scenario, const struct scenario_load *load,
                      double deadline_ms)
{
    double sum = 0;

    /* The first byte of a stream comes a fixed time after its start. */
    if (scenario->first_byte_ms > 0)
        return scenario->first_byte_ms <= deadline_ms ? 1 : 0;
    for (size_t i = 0; i < SCENARIO_KINDS; i++) {
        const struct scenario_kind *kind = &scenario->kinds[i];
        double mean_ms = kind->factor * load->service_ms;
        if (kind->part > 0)
            sum += kind->part * (load->delay_ms > 0
                                     ? sum_within(mean_ms, kind->cv, load->delay_ms, deadline_ms)
                                     : lognormal_within(mean_ms, kind->cv, deadline_ms));
    }
    assert(sum >= 0 && sum <= 1 + 1e-9);
    return sum;
}
