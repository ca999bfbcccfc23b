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
 * Noise. 640 calls of uneven length tell their mean to 3 %, which with 256 in flight is 7 calls
 * that wait or not: more than lies between alpha and beta. And a limit below the capacity has no
 * queue that would hold it: where the baseline is too low it sinks until even the error of so few
 * calls is less than beta. So windows that make no step count together with those after them, up
 * to eight; and half a standard error, of mean and baseline, is taken for chance and not for
 * waiting. Equal samples have no error.
 *
 * The baseline is the lowest mean. Two things are needed to make that true:
 *
 *   Chance. The lowest of many noisy means is too low. So a window counts with the upper end of
 *   its mean's error (two standard errors), and windows with few samples count together.
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
 *   Running calls are not touched, so first they have to drain; and those that measure are the
 *   calls that start in one window after that, and all of them: the ones that finish soonest would
 *   be the short ones. For the same reason the windows begin again only when the calls that fill
 *   the server up after a probe have had time to end. Probes that find the same count together.
 *
 *   While a probe lasts the limit is half of what was learned; or three quarters if the last probe
 *   found about what was known before and calls take about that now. Then there is no long queue to
 *   get rid of; and where refusals cost the server something, more of them make calls slower, and
 *   the baseline too high.
 *
 *   What it costs: let u be the longest of a window, a call and one second. Probes are 54 u or more
 *   apart. Draining ends after 3 u and measuring after 4 u at the latest: 7 of 61, or 11.5 % of the
 *   time, at half the limit at worst, which is 6 % of the calls. With calls much shorter than the
 *   window a probe lasts one window: 2 % of the time, and half a per cent of the calls.
 */
#include "lib/concurrency/law.h"
#include "lib/core/num.h"

#include <assert.h>
#include <math.h>

enum {
    BASELINE_MS = 60000,    /* how long a baseline holds, */
    BASELINE_WINDOWS = 60,  /* and at least so many windows, */
    BASELINE_SOJOURNS = 60, /* and at least so many times what a call takes */
    WINDOW_ENOUGH = 100,    /* samples for a baseline that windows show, */
    PROBE_ENOUGH = 10,      /* and for one that a probe has measured */
    PROBES_KEPT = 3,        /* how much earlier probes may weigh, in times of the new one */
    EVIDENCE_WINDOWS = 8,   /* windows that count together at most */
    PATIENCE_WINDOWS = 3,   /* how long a phase of a probe may last, */
    PATIENCE_SOJOURNS = 3,  /* and at least so many times what a call takes */
    COHORT_PERCENT = 80,    /* nearly all calls */
    DROPPED_OVERLOAD = 100, /* one of so many */
};

/* Many laws that began together must not all probe together. */
static const double JITTER_LOW = 0.9, JITTER_HIGH = 1.1;

/* In standard errors: what is chance, what lowers a baseline, what is another server. In about one
 * probe of twenty chance is more than two; a baseline of such a probe alone would be far off. */
static const double STEP_ERRORS = 0.5, LOWEST_ERRORS = 2, SAME_ERRORS = 3;

/* A part of the baseline: to find so much more or less is a surprise. */
static const double SURPRISE = 0.25;

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

/* Gives the sum the weight of n samples; its mean stays. */
static void sum_scale(struct law_sum *sum, int64_t n)
{
    assert(n >= 1 && n <= sum->n);
    double part = (double)n / (double)sum->n;

    sum->n = n;
    sum->total *= part;
    sum->squares *= part;
}

static double sum_mean(const struct law_sum *sum)
{
    assert(sum->n > 0);
    return sum->total / (double)sum->n;
}

static double standard_error(const struct law_sum *sum)
{
    assert(sum->n > 0);
    double n = (double)sum->n, mean = sum->total / n;
    double variance = sum->squares / n - mean * mean;

    /* Rounding makes a variance of what has none; samples are not told to nine digits. */
    return variance > 1e-9 * mean * mean ? sqrt(variance / n) : 0;
}

/* ---- The window ------------------------------------------------------------------------------ */

static void evidence_clear(struct vegas *vegas)
{
    vegas->evidence = (struct law_sum){0};
    vegas->evidence_crowd = 0;
    vegas->evidence_ended = 0;
    vegas->evidence_windows = 0;
}

static void window_clear(struct vegas *vegas, tg_ms at)
{
    vegas->window_from = at;
    vegas->window = (struct law_sum){0};
    vegas->dropped = 0;
    vegas->peak = 0;
    vegas->crowd = 0;
    vegas->sojourns = 0;
    vegas->left = 0;
}

static int64_t finished_in_window(const struct vegas *vegas)
{
    return vegas->window.n + vegas->dropped;
}

static void schedule_probe(struct law *law, tg_ms at)
{
    struct vegas *vegas = &law->state.vegas;
    double wait = fmax(BASELINE_MS, BASELINE_WINDOWS * (double)law->config.window);

    wait = fmax(wait, BASELINE_SOJOURNS * vegas->sojourn);
    wait *= random_between(&law->random, JITTER_LOW, JITTER_HIGH);
    vegas->expires_at = num_add(at, num_floor(wait));
}

static void know_baseline(struct vegas *vegas, double baseline, double error)
{
    assert(baseline >= 0 && error >= 0);
    vegas->baseline = baseline;
    vegas->error = error;
}

/* Takes the window's mean for the baseline if it is lower. Until there are samples enough, the
 * lowest mean so far has to do. */
static void learn_baseline(struct vegas *vegas)
{
    vegas->mean = sum_mean(&vegas->window);
    sum_join(&vegas->gather, &vegas->window);
    if (vegas->gather.n >= WINDOW_ENOUGH) {
        double error = standard_error(&vegas->gather);
        double bound = sum_mean(&vegas->gather) + LOWEST_ERRORS * error;
        if (!vegas->firm || bound < vegas->baseline)
            know_baseline(vegas, bound, error);
        vegas->firm = true;
        vegas->gather = (struct law_sum){0};
    } else if (!vegas->firm && (vegas->baseline <= 0 || vegas->mean < vegas->baseline)) {
        know_baseline(vegas, vegas->mean, 0);
    }
}

static void gather_evidence(struct vegas *vegas)
{
    sum_join(&vegas->evidence, &vegas->window);
    vegas->evidence_ended += finished_in_window(vegas);
    vegas->evidence_crowd += vegas->crowd;
    vegas->evidence_windows++;
    assert(vegas->evidence.n <= vegas->evidence_ended);
    assert(vegas->evidence_windows <= EVIDENCE_WINDOWS);
}

/* Calls that wait, beyond what may be chance. */
static double waiting(const struct vegas *vegas)
{
    double in_flight = vegas->evidence_crowd / (double)vegas->evidence_ended;
    double chance = STEP_ERRORS * hypot(standard_error(&vegas->evidence), vegas->error);

    return in_flight * (1 - (vegas->baseline + chance) / sum_mean(&vegas->evidence));
}

static void step(struct law *law)
{
    struct vegas *vegas = &law->state.vegas;
    const struct tg_law_config *config = &law->config;
    bool overload = vegas->dropped * DROPPED_OVERLOAD >= finished_in_window(vegas);
    bool used = (double)vegas->peak >= config->vegas.min_utilisation * (double)law->learned;
    int64_t before = law->learned;

    if (vegas->window.n > 0)
        learn_baseline(vegas);
    gather_evidence(vegas);
    if (vegas->evidence.n > 0)
        vegas->queue = fmax(0, waiting(vegas));
    if ((vegas->dropped > 0 && overload) || waiting(vegas) > config->vegas.beta)
        law_set_limit(law, num_max(law->learned - 1, config->min));
    else if (used && waiting(vegas) < config->vegas.alpha)
        law_set_limit(law, num_min(law->learned + 1, config->max));
    if (law->learned != before || vegas->evidence_windows >= EVIDENCE_WINDOWS)
        evidence_clear(vegas);
}

static void close_window(struct law *law, tg_ms at)
{
    struct vegas *vegas = &law->state.vegas;

    if (vegas->left > 0)
        vegas->sojourn = vegas->sojourns / (double)vegas->left;
    if (finished_in_window(vegas) > 0) {
        step(law);
        if (vegas->expires_at == 0)
            schedule_probe(law, at);
    } else {
        evidence_clear(vegas); /* who knows how long ago that was */
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
static void vegas_measure(struct law *law, tg_ms from, tg_ms at)
{
    struct vegas *vegas = &law->state.vegas;

    assert(vegas->phase != VEGAS_MEASURING && from <= at);
    vegas->phase = VEGAS_MEASURING;
    vegas->cohort_from = from;
    vegas->cohort_until = num_add(at, law->config.window);
    vegas->cohort_started = 0;
    vegas->cohort_ended = 0;
    vegas->cohort = (struct law_sum){0};
    vegas->deadline_at = num_add(vegas->cohort_until, patience(law));
}

/* Half of what was learned, or three quarters where that is enough. */
static int64_t probe_limit(const struct law *law)
{
    const struct vegas *vegas = &law->state.vegas;
    bool gentle = vegas->confirmed && vegas->mean <= (1 + SURPRISE) * vegas->baseline;

    return num_max(law->learned - law->learned / (gentle ? 4 : 2), law->config.min);
}

/* The call that just started is the first to measure, if it finds the server empty enough. */
static void begin_probe(struct law *law, tg_ms at, int64_t in_flight)
{
    struct vegas *vegas = &law->state.vegas;

    assert(vegas->phase == VEGAS_STEADY);
    law->limit = probe_limit(law);
    assert(law->limit <= law->learned);
    if (in_flight <= law->limit) {
        vegas_measure(law, at - 1, at);
    } else {
        vegas->phase = VEGAS_DRAINING;
        vegas->deadline_at = num_add(at, patience(law));
    }
}

static void back_to_steady(struct law *law, tg_ms at)
{
    struct vegas *vegas = &law->state.vegas;

    assert(vegas->phase != VEGAS_STEADY);
    vegas->phase = VEGAS_STEADY;
    vegas->gather = (struct law_sum){0};
    law->limit = law->learned;
    evidence_clear(vegas);
    window_clear(vegas, num_add(at, num_floor(PATIENCE_SOJOURNS * vegas->sojourn)));
}

/* Without a measurement the old baseline is no better than none: what comes next is the new one,
 * until the next probe. */
static void forget_baseline(struct vegas *vegas)
{
    know_baseline(vegas, 0, 0);
    vegas->firm = false;
    vegas->confirmed = false;
    vegas->probed = (struct law_sum){0};
}

static bool same_server(const struct law_sum *a, const struct law_sum *b)
{
    double error = hypot(standard_error(a), standard_error(b));

    return fabs(sum_mean(a) - sum_mean(b)) <= SAME_ERRORS * error;
}

static void learn_from_probe(struct vegas *vegas)
{
    struct law_sum *probed = &vegas->probed, *cohort = &vegas->cohort;
    double off = fabs(sum_mean(cohort) - vegas->baseline);

    vegas->confirmed = vegas->firm && off <= SURPRISE * vegas->baseline;
    if (probed->n > 0 && same_server(probed, cohort)) {
        sum_scale(probed, num_min(probed->n, PROBES_KEPT * cohort->n));
        sum_join(probed, cohort);
    } else {
        *probed = *cohort;
    }
    know_baseline(vegas, sum_mean(probed), standard_error(probed));
    vegas->firm = probed->n >= PROBE_ENOUGH;
}

static void end_measuring(struct law *law, tg_ms at)
{
    struct vegas *vegas = &law->state.vegas;

    back_to_steady(law, at);
    if (vegas->cohort_started == 0)
        return; /* nobody came: the baseline stays expired, and the next call tries again */
    if (vegas->cohort.n > 0 && 2 * vegas->cohort_ended >= vegas->cohort_started) {
        learn_from_probe(vegas);
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
    assert(vegas->cohort.n <= vegas->cohort_ended);
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
        if (at >= vegas->deadline_at) {
            back_to_steady(law, at);
            forget_baseline(vegas);
            schedule_probe(law, at);
        }
        break;
    case VEGAS_MEASURING:
        if (cohort_is_done(vegas, at) || at >= vegas->deadline_at)
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

static void vegas_held(struct vegas *vegas, double sojourn_ms)
{
    vegas->sojourns += sojourn_ms;
    vegas->left++;
}

static void vegas_finished(struct law *law, tg_ms at, const struct law_sample *sample)
{
    struct vegas *vegas = &law->state.vegas;

    vegas_tick(law, at);
    if (vegas->phase == VEGAS_DRAINING) {
        if (!sample->still_runs && sample->in_flight - 1 <= law->limit)
            vegas_measure(law, at, at);
    } else if (vegas->phase == VEGAS_MEASURING) {
        count_cohort(vegas, at, sample);
    } else if (at >= vegas->window_from) {
        if (sample->dropped)
            vegas->dropped++;
        else
            sum_add(&vegas->window, sample->sample_ms);
        vegas->peak = num_max(vegas->peak, sample->in_flight);
        vegas->crowd += (double)sample->in_flight;
        if (!sample->still_runs)
            vegas_held(vegas, sample->sojourn_ms);
    }
}

/* The slot of a call whose sample was its first byte. */
static void vegas_left(struct law *law, tg_ms at, int64_t in_flight, double sojourn_ms)
{
    struct vegas *vegas = &law->state.vegas;

    if (sojourn_ms < 0)
        return;
    vegas_tick(law, at);
    if (vegas->phase == VEGAS_DRAINING && in_flight <= law->limit)
        vegas_measure(law, at, at);
    else if (vegas->phase == VEGAS_STEADY && at >= vegas->window_from)
        vegas_held(vegas, sojourn_ms);
}

static bool vegas_begin(struct law *law, int64_t limit)
{
    law->state.vegas = (struct vegas){.queue = -1};
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
    .left = vegas_left,
    .rejected = vegas_tick, /* where nothing starts or ends, they still end a probe */
    .tick = vegas_tick,
};
