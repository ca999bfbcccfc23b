/* vegas.c - the limit moves by one a window, by how many calls seem to wait.
 *
 *     waiting = in flight * (1 - baseline / mean)        mean: of the window's samples
 *     waiting < alpha: limit + 1        waiting > beta: limit - 1
 *
 * By Little's law that is the queue, wherever it stands, if the baseline is what a call takes when
 * nothing waits and `in flight` is an average. It is the average that finished calls saw; the peak
 * would count a burst's queue for the whole window. The limit grows only if the peak came near
 * enough to it (min_utilisation), for the latency of an idle server says nothing of what it can
 * take. A window in which one call of a hundred or more was dropped is overload, whatever
 * the others say.
 *
 * Steps are made at the first event at or after a window's end, which belongs to the next window.
 * A window without samples makes none.
 *
 * The baseline is the lowest mean. Two things are needed to make that true:
 *
 *   Noise. The lowest of many noisy means is too low, and with it the limit. So a window counts
 *   with the upper end of its mean's error (two standard errors, 0 where all samples are equal),
 *   and windows with few samples count together.
 *
 *   Age. Servers change, and a server that was met under load has never shown what it can do. So
 *   the baseline is measured again every minute or so, in a probe:
 *
 *                 expired, a call starts            as few run as the probe allows
 *       STEADY ---------------------------> DRAINING ------------------------------> MEASURING
 *         ^                                     |                                        |
 *         |  too long: forget the baseline,     |      all calls that started in one     |
 *         +-------------------------------------+      window have ended, or too long    |
 *         +------------------------------------------------------------------------------+
 *
 *   While it lasts the limit is half of what was learned. Running calls are not touched, so first
 *   they have to drain; and those that measure are the calls that start in one window after that,
 *   and all of them: the ones that finish soonest would be the short ones. No phase lasts
 *   longer than a few windows or a few times what a call takes, and probes are at least sixty
 *   times that apart, so that they cost about 3 % of the calls at worst.
 */
#include "concurrency/law.h"
#include "core/num.h"

#include <math.h>

enum {
    BASELINE_MS = 60000,    /* how long a baseline holds, */
    BASELINE_SOJOURNS = 60, /* and at least so many times what a call takes */
    WINDOW_ENOUGH = 100,    /* samples for a baseline that windows show, */
    PROBE_ENOUGH = 10,      /* and for one that a probe has measured */
    PATIENCE_WINDOWS = 3,   /* how long a phase of a probe may last, */
    PATIENCE_SOJOURNS = 3,  /* and at least so many times what a call takes */
    COHORT_PERCENT = 80,    /* nearly all calls */
    DROPPED_OVERLOAD = 100, /* one of so many */
};

/* Many laws that began together must not all probe together. */
static const double JITTER_LOW = 0.9, JITTER_HIGH = 1.1;

static void sum_add(struct law_sum *sum, double value)
{
    sum->n++;
    sum->total += value;
    sum->squares += value * value;
}

static void sum_join(struct law_sum *sum, const struct law_sum *other)
{
    sum->n += other->n;
    sum->total += other->total;
    sum->squares += other->squares;
}

static double sum_mean(const struct law_sum *sum)
{
    return sum->total / (double)sum->n;
}

static double standard_error(const struct law_sum *sum)
{
    double n = (double)sum->n, mean = sum->total / n;
    double variance = sum->squares / n - mean * mean;

    /* Rounding makes a variance of what has none; samples are not told to nine digits. */
    return variance > 1e-9 * mean * mean ? sqrt(variance / n) : 0;
}

/* ---- The window ------------------------------------------------------------------------------ */

static void window_clear(struct vegas *vegas, tg_ms at)
{
    vegas->window_from = at;
    vegas->window = (struct law_sum){0};
    vegas->dropped = 0;
    vegas->peak = 0;
    vegas->crowd = 0;
    vegas->sojourns = 0;
}

static int64_t finished_in_window(const struct vegas *vegas)
{
    return vegas->window.n + vegas->dropped;
}

static void schedule_probe(struct law *law, tg_ms at)
{
    struct vegas *vegas = &law->state.vegas;
    double wait = fmax(BASELINE_MS, BASELINE_SOJOURNS * vegas->sojourn);

    wait *= random_between(&law->random, JITTER_LOW, JITTER_HIGH);
    vegas->expires_at = num_add(at, num_floor(wait));
}

/* Takes the window's mean for the baseline if it is lower. Until there are samples enough, the
 * lowest mean so far has to do. */
static void learn_baseline(struct vegas *vegas)
{
    double mean = sum_mean(&vegas->window);

    sum_join(&vegas->gather, &vegas->window);
    if (vegas->gather.n >= WINDOW_ENOUGH) {
        double bound = sum_mean(&vegas->gather) + 2 * standard_error(&vegas->gather);
        if (!vegas->firm || bound < vegas->baseline)
            vegas->baseline = bound;
        vegas->firm = true;
        vegas->gather = (struct law_sum){0};
    } else if (!vegas->firm && (vegas->baseline <= 0 || mean < vegas->baseline)) {
        vegas->baseline = mean;
    }
}

/* Calls that wait, as the window shows it. */
static double waiting(const struct vegas *vegas)
{
    double in_flight = vegas->crowd / (double)finished_in_window(vegas);

    return in_flight * (1 - vegas->baseline / sum_mean(&vegas->window));
}

static void step(struct law *law)
{
    struct vegas *vegas = &law->state.vegas;
    const struct tg_law_config *config = &law->config;
    bool overload = vegas->dropped * DROPPED_OVERLOAD >= finished_in_window(vegas);
    bool used = (double)vegas->peak >= config->vegas.min_utilisation * (double)law->learned;

    if (vegas->window.n > 0)
        learn_baseline(vegas);
    if ((vegas->dropped > 0 && overload) || waiting(vegas) > config->vegas.beta)
        law_set_limit(law, num_max(law->learned - 1, config->min));
    else if (used && waiting(vegas) < config->vegas.alpha)
        law_set_limit(law, num_min(law->learned + 1, config->max));
}

static void close_window(struct law *law, tg_ms at)
{
    struct vegas *vegas = &law->state.vegas;

    if (finished_in_window(vegas) > 0) {
        vegas->sojourn = vegas->sojourns / (double)finished_in_window(vegas);
        step(law);
        if (vegas->expires_at == 0)
            schedule_probe(law, at);
    }
    window_clear(vegas, at);
}

/* ---- The probe ------------------------------------------------------------------------------- */

static tg_ms patience(const struct law *law)
{
    double windows = PATIENCE_WINDOWS * (double)law->config.window;

    return num_floor(fmax(windows, PATIENCE_SOJOURNS * law->state.vegas.sojourn));
}

/* `from` is the last moment whose calls do not count. */
static void measure(struct law *law, tg_ms from, tg_ms at)
{
    struct vegas *vegas = &law->state.vegas;

    vegas->phase = VEGAS_MEASURING;
    vegas->cohort_from = from;
    vegas->cohort_until = num_add(at, law->config.window);
    vegas->cohort_started = 0;
    vegas->cohort_ended = 0;
    vegas->cohort = (struct law_sum){0};
    vegas->give_up_at = num_add(vegas->cohort_until, patience(law));
}

/* The call that just started is the first to measure, if it finds the server empty enough. */
static void begin_probe(struct law *law, tg_ms at, int64_t in_flight)
{
    struct vegas *vegas = &law->state.vegas;

    law->limit = num_max(law->learned / 2, law->config.min);
    if (in_flight <= law->limit) {
        measure(law, at - 1, at);
    } else {
        vegas->phase = VEGAS_DRAINING;
        vegas->give_up_at = num_add(at, patience(law));
    }
}

static void back_to_steady(struct law *law, tg_ms at)
{
    struct vegas *vegas = &law->state.vegas;

    vegas->phase = VEGAS_STEADY;
    vegas->gather = (struct law_sum){0};
    law->limit = law->learned;
    window_clear(vegas, at);
}

/* Without a measurement the old baseline is no better than none: what comes next is the new one,
 * until the next probe. */
static void forget_baseline(struct vegas *vegas)
{
    vegas->baseline = 0;
    vegas->firm = false;
}

static void end_measuring(struct law *law, tg_ms at)
{
    struct vegas *vegas = &law->state.vegas;

    back_to_steady(law, at);
    if (vegas->cohort_started == 0)
        return; /* nobody came: the baseline stays expired, and the next call tries again */
    if (vegas->cohort.n > 0 && 2 * vegas->cohort_ended >= vegas->cohort_started) {
        /* Too low a baseline costs calls; one that is too high, windows will correct. */
        vegas->baseline = sum_mean(&vegas->cohort) + standard_error(&vegas->cohort);
        vegas->firm = vegas->cohort.n >= PROBE_ENOUGH;
    } else {
        forget_baseline(vegas);
    }
    schedule_probe(law, at);
}

/* All have ended; or nearly all, and the others are late: calls that were cancelled or given back
 * leave without a word. */
static bool cohort_is_done(const struct vegas *vegas, tg_ms at)
{
    bool late = (double)(at - vegas->cohort_until) > PATIENCE_SOJOURNS * vegas->sojourn;

    if (at <= vegas->cohort_until || vegas->cohort_started == 0)
        return false;
    return vegas->cohort_ended >= vegas->cohort_started ||
           (late && COHORT_PERCENT * vegas->cohort_started <= 100 * vegas->cohort_ended);
}

static void count_cohort(struct vegas *vegas, tg_ms at, const struct law_sample *sample)
{
    double start = (double)at - sample->sojourn_ms;

    if (start <= (double)vegas->cohort_from || start > (double)vegas->cohort_until)
        return;
    vegas->cohort_ended++;
    if (!sample->dropped)
        sum_add(&vegas->cohort, sample->sample_ms);
}

/* ---- Events ---------------------------------------------------------------------------------- */

static void vegas_tick(struct law *law, tg_ms at)
{
    struct vegas *vegas = &law->state.vegas;

    switch (vegas->phase) {
    case VEGAS_STEADY:
        if (at - vegas->window_from >= law->config.window)
            close_window(law, at);
        break;
    case VEGAS_DRAINING:
        if (at >= vegas->give_up_at) {
            back_to_steady(law, at);
            forget_baseline(vegas);
            schedule_probe(law, at);
        }
        break;
    case VEGAS_MEASURING:
        if (cohort_is_done(vegas, at) || at >= vegas->give_up_at)
            end_measuring(law, at);
        break;
    }
}

static void vegas_started(struct law *law, tg_ms at, int64_t in_flight)
{
    struct vegas *vegas = &law->state.vegas;

    vegas_tick(law, at);
    if (vegas->phase == VEGAS_STEADY && vegas->expires_at > 0 && at >= vegas->expires_at)
        begin_probe(law, at, in_flight);
    if (vegas->phase == VEGAS_MEASURING && at <= vegas->cohort_until && at > vegas->cohort_from)
        vegas->cohort_started++;
    vegas->peak = num_max(vegas->peak, in_flight);
}

static void vegas_finished(struct law *law, tg_ms at, const struct law_sample *sample)
{
    struct vegas *vegas = &law->state.vegas;

    vegas_tick(law, at);
    if (vegas->phase == VEGAS_DRAINING && sample->in_flight - 1 <= law->limit) {
        measure(law, at, at);
    } else if (vegas->phase == VEGAS_MEASURING) {
        count_cohort(vegas, at, sample);
    } else if (vegas->phase == VEGAS_STEADY) {
        if (sample->dropped)
            vegas->dropped++;
        else
            sum_add(&vegas->window, sample->sample_ms);
        vegas->peak = num_max(vegas->peak, sample->in_flight);
        vegas->crowd += (double)sample->in_flight;
        vegas->sojourns += sample->sojourn_ms;
    }
}

static bool vegas_begin(struct law *law, int64_t limit)
{
    law->state.vegas = (struct vegas){0};
    window_clear(&law->state.vegas, law->at);
    law_set_limit(law, limit);
    return true;
}

static bool vegas_adapt(struct law *law, const struct tg_law_config *config)
{
    law->learned = num_max(config->min, num_min(law->learned, config->max));
    law->limit = num_max(config->min, num_min(law->limit, config->max));
    return true;
}

const struct law_ops law_vegas = {
    .name = "vegas",
    .begin = vegas_begin,
    .adapt = vegas_adapt,
    .started = vegas_started,
    .finished = vegas_finished,
    .rejected = vegas_tick, /* where nothing starts or ends, they still end a probe */
    .tick = vegas_tick,
};
