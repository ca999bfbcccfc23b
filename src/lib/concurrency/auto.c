/* auto.c - a limit at the knee of throughput, found by tests while calls wait in front of it.
 *
 * No start value has to be known. While the limit does not bind it is a leash, six times what the
 * server works on in quiet times (throughput * latency, Little's law). When it binds, the question
 * is whether the server is full or merely slow, and latency cannot tell: the law raises the limit
 * and counts. More calls end: the server was not full. No more end: it was, and the limit goes
 * down until fewer end. Then the knee is known at once, for below it latency does not depend on the
 * limit, so that the part of throughput lost is the part of the knee missing:
 *
 *     W = L * X_before / X_after
 *
 * and the limit becomes 1.4 W: all workers have work, and what waits in the server waits 0.4 of a
 * service. The limit may be rough, for the queue in front of it is bounded by sojourn.
 *
 *                       the limit binds
 *       HOLD ------------------------------> CHECK --- as fast as at the knee: nothing new --> HOLD
 *        ^ |                                   | |
 *        | | nothing tested for long           | | calls are refused, latency is high, and
 *        | v                                   | | the limit far above the quiet load
 *        | UP <--------------------------------' '-----------------------------.
 *        | |  L * 1.6                                                          |
 *        | |-- 30 % more end: again                                            v
 *        | |-- 17 % more end: the knee is in between. HOLD there             DOWN
 *        | |-- it does not bind any more: HOLD, there or where it was          |  L / 1.25, or
 *        | '-- no more end: it is full. HOLD, or if calls are refused or slow > |  deeper
 *        |                                                                     |
 *        |                                                                     |-- no fewer: again
 *        '------- fewer end: the knee is known. HOLD 1.4 W --------------------'
 *
 * HOLD goes on measuring while the limit binds. Throughput that differs by 20 % from what it was is
 * another server: it is tested at once. Else tests wait: at least 20 times as long as the last one
 * took, so that they take at most 5 % of the time, and twice as long whenever one has changed
 * nothing. Raising comes first: if the server is full it costs a longer wait inside for one round
 * trip, if it is not it costs nothing, while a lowered limit refuses calls of a healthy server; so
 * it is lowered only while calls are refused in any case, or after a raise that has shown the
 * server to be full while calls take three times as long as they should.
 *
 * Where first bytes are heard they alone steer: auto_stream.c. Dropped calls (timed out, or the
 * other side said that it is overloaded) are no throughput, and put a ceiling on the limit, a fifth
 * below what ran, which rises again by a quarter whenever ten round trips pass without one.
 *
 * What throughput forgets is measured in calls, not in time: nothing here is tuned to milliseconds
 * or to seconds. `initial` is where it starts, `window` is not used. auto_meter.c has the numbers.
 */
#include "lib/concurrency/auto_internal.h"
#include "lib/core/num.h"

#include <assert.h>
#include <math.h>

static const double HEADROOM = 1.4;            /* limit / knee */
static const double RAISE = 1.6, LOWER = 1.25; /* factors of a test */
static const double PAYS = 1.3, PAYS_PARTLY = 1.17, LOSES = 0.93;
static const double SURPRISE = 0.2; /* throughput that differs by this part is another */
static const double LEASH = 6, LEASH_LEAST = 20;
static const double ERROR_UP = 0.1, ERROR_DOWN = 0.05; /* in throughput, when a test is ready */
static const double CONFIRMED_MS = 60000;
static const double UP_WAIT_MOST_MS = 20000, DOWN_WAIT_MOST_MS = 30000;
static const double LONG_AGO = -1e15;

static int64_t whole_limit(const struct law *law, double limit)
{
    int64_t whole = num_floor(limit + 0.5);

    return num_max(law->config.min, num_min(whole, law->config.max));
}

/* Sets what is in force. */
static void auto_set(struct law *law, double limit)
{
    struct auto_law *state = &law->state.auto_law;
    int64_t whole;

    assert(!isnan(limit));
    state->limit = fmax((double)law->config.min, fmin(limit, (double)law->config.max));
    whole = whole_limit(law, state->limit);
    law->learned = whole;
    law->limit = num_min(whole, whole_limit(law, fmin(state->ceiling, state->said)));
}

/* What was learned is not what is in force: nothing can be learned from that. */
static bool is_capped(const struct law *law)
{
    return law->limit < law->learned;
}

static bool since(const struct auto_law *state, double at, double wait_ms)
{
    return state->at - at >= wait_ms;
}

/* ---- Modes ----------------------------------------------------------------------------------- */

static void enter_hold(struct law *law, double limit)
{
    struct auto_law *state = &law->state.auto_law;

    auto_set(law, limit);
    state->mode = AUTO_HOLD;
    state->held = state->limit;
    state->hold_rate = 0;
    auto_measure_start(state, state->mean_ms);
}

static void knee_found(struct auto_law *state, double knee, double rate)
{
    state->is_known = true;
    state->knee = knee;
    state->knee_rate = rate;
    state->confirmed_at = state->at;
}

static void raise_limit(struct law *law, double rate)
{
    struct auto_law *state = &law->state.auto_law;

    state->mode = AUTO_UP;
    state->rate = rate;
    state->good = state->limit;
    auto_set(law, RAISE * state->limit);
    auto_measure_start(state, state->mean_ms);
}

static void enter_up(struct law *law, const struct auto_reading *reading)
{
    struct auto_law *state = &law->state.auto_law;

    state->chain = 0;
    state->was_refusing = reading->refusing;
    state->test_at = state->at;
    raise_limit(law, reading->rate);
}

static void lower_limit(struct law *law, double limit)
{
    struct auto_law *state = &law->state.auto_law;

    state->mode = AUTO_DOWN;
    auto_set(law, limit);
    auto_measure_start(state, fmax(state->mean_ms, 0.7 * auto_memory_ms(state)));
}

/* `good` is a limit that is known to lose nothing, `rate` its throughput. */
static void enter_down(struct law *law, double good, double rate, double limit)
{
    struct auto_law *state = &law->state.auto_law;

    state->good = good;
    state->rate = rate;
    state->test_at = state->at;
    lower_limit(law, limit);
}

/* Where to begin to search below `limit`. Where calls take three times as long as they should, the
 * knee is far below, and quiet times say about where. */
static double jump(const struct auto_law *state, double limit, double rate)
{
    double near = limit / HEADROOM;

    if (state->mean_ms <= 3 * state->base_ms || state->base_ms <= 0)
        return near;
    return fmin(near, fmax(1.2 * rate * state->base_ms, limit / 5));
}

static bool may_raise(const struct law *law)
{
    return law->learned < law->config.max;
}

static void step_check(struct law *law, const struct auto_reading *reading, bool ready)
{
    struct auto_law *state = &law->state.auto_law;
    bool quiet = reading->pinned < 0.5 && reading->ms >= state->mean_ms && reading->ended > 10;

    if (quiet || (ready && reading->pinned < 0.7)) {
        enter_hold(law, state->held);
    } else if (ready && state->is_known &&
               fabs(reading->rate - state->knee_rate) <= SURPRISE * state->knee_rate) {
        state->confirmed_at = state->at;
        enter_hold(law, state->held);
    } else if (ready) {
        state->up_wait_ms = state->down_wait_ms = 0;
        if (!state->is_known && reading->refusing && state->base_ms > 0 &&
            state->mean_ms > 3 * state->base_ms && state->limit >= 40 &&
            state->limit > 3 * state->quiet_rate * state->base_ms)
            enter_down(law, state->limit, reading->rate, jump(state, state->limit, reading->rate));
        else if (may_raise(law))
            enter_up(law, reading);
        else
            enter_hold(law, state->held);
    }
}

static void up_ended(struct auto_law *state, bool learned)
{
    double test_ms = state->at - state->test_at;

    state->up_at = state->at;
    if (learned)
        state->up_wait_ms =
            fmin(UP_WAIT_MOST_MS, fmax(2 * state->up_wait_ms, fmax(20 * test_ms, 200)));
}

static void step_up(struct law *law, const struct auto_reading *reading, bool ready)
{
    struct auto_law *state = &law->state.auto_law;
    double gain = reading->rate / state->rate;
    bool early = reading->is_full && gain > PAYS * (1 + 2 * reading->error);

    if (!ready && !early) {
        if (reading->pinned >= 0.5 || reading->ms < auto_memory_ms(state) || reading->ended < 30)
            return; /* a lucky run of short calls does not count */
        bool relieved = state->was_refusing && gain >= 0.95 && state->base_ms > 0 &&
                        state->mean_ms <= 1.3 * state->base_ms;
        bool pays = gain >= PAYS || (state->chain > 0 && gain >= 1) || relieved;
        up_ended(state, !pays);
        enter_hold(law, pays ? state->limit : state->good);
    } else if (gain >= PAYS) {
        state->held = state->limit;
        state->chain++;
        if (may_raise(law))
            raise_limit(law, reading->rate);
        else
            enter_hold(law, state->limit);
    } else if (gain >= PAYS_PARTLY && gain >= 1 + 2.5 * reading->error) {
        double limit = fmin(state->limit, 1.15 * state->good * gain);
        up_ended(state, true);
        knee_found(state, limit / HEADROOM, reading->rate);
        enter_hold(law, limit);
    } else {
        double good = state->good;
        bool down = (reading->refusing || state->mean_ms > 3 * state->base_ms) &&
                    (state->chain > 0 || since(state, state->down_at, state->down_wait_ms));
        up_ended(state, true);
        if (down) {
            double rate = (state->rate + reading->rate) / 2;
            enter_down(law, good, rate, jump(state, good, rate));
        } else {
            enter_hold(law, good);
        }
    }
}

static void step_down(struct law *law, const struct auto_reading *reading, bool ready)
{
    struct auto_law *state = &law->state.auto_law;
    double kept = reading->rate / state->rate, test_ms = state->at - state->test_at;
    bool early = reading->is_full && kept * (1 + 2 * reading->error) < LOSES;
    double limit = (double)law->learned;

    if (!ready && !early) {
        if (reading->pinned < 0.5 && reading->ms >= 2 * state->mean_ms && reading->ended > 10) {
            state->down_at = state->at;
            enter_hold(law, state->held);
        }
    } else if (kept > 1.15) {
        state->down_at = state->at;
        state->down_wait_ms = 500;
        state->knee_rate = reading->rate;
        enter_hold(law, fmax(state->held, state->limit));
    } else if (kept >= LOSES && whole_limit(law, state->limit / LOWER) < law->learned) {
        state->rate = (state->rate + reading->rate) / 2;
        state->good = state->limit;
        state->held = fmin(state->held, HEADROOM * state->limit);
        lower_limit(law, state->limit / LOWER);
    } else {
        double knee = kept >= LOSES ? limit : fmin(limit / kept, state->good);
        bool same = state->is_known && fabs(knee - state->knee) < SURPRISE * state->knee;
        if (same)
            knee = (knee + state->knee) / 2;
        double wait = same ? fmin(2 * state->down_wait_ms, DOWN_WAIT_MOST_MS) : 500;
        state->down_at = state->at;
        state->down_wait_ms = fmax(wait, 20 * (test_ms + state->mean_ms));
        knee_found(state, knee, state->rate);
        enter_hold(law, fmax(HEADROOM * knee, knee + 1));
    }
}

static void step_hold(struct law *law, const struct auto_reading *reading, bool ready)
{
    struct auto_law *state = &law->state.auto_law;

    if (!ready && (reading->pinned >= 0.8 || reading->ms < 20 * state->mean_ms))
        return;
    if (!ready || reading->pinned < 0.8) {
        auto_measure_start(state, 0);
        return;
    }
    state->confirmed_at = state->at;
    if (state->hold_rate <= 0)
        state->hold_rate = state->is_known ? state->knee_rate : reading->rate;
    if (fabs(reading->rate - state->hold_rate) >
        fmax(SURPRISE, 3 * reading->error) * state->hold_rate) {
        state->knee_rate = state->hold_rate = reading->rate;
        state->up_wait_ms = state->down_wait_ms = 0;
        state->up_at = LONG_AGO;
    }
    if (may_raise(law) && since(state, state->up_at, state->up_wait_ms))
        enter_up(law, reading);
    else if (reading->refusing && since(state, state->down_at, state->down_wait_ms))
        enter_down(law, state->limit, reading->rate,
                   state->is_known ? fmin(0.9 * state->knee, state->limit / LOWER)
                                   : state->limit / HEADROOM);
    else
        auto_measure_start(state, 0);
}

static void step_mode(struct law *law)
{
    struct auto_law *state = &law->state.auto_law;
    struct auto_reading reading = auto_measure_read(state);
    bool rough = state->mode == AUTO_CHECK || state->mode == AUTO_UP;
    bool ready =
        (reading.is_full && reading.error <= (rough ? ERROR_UP : ERROR_DOWN)) || reading.is_late;

    if (reading.ms <= 0)
        return;
    switch (state->mode) {
    case AUTO_HOLD:
        step_hold(law, &reading, ready);
        break;
    case AUTO_CHECK:
        step_check(law, &reading, ready);
        break;
    case AUTO_UP:
        step_up(law, &reading, ready);
        break;
    case AUTO_DOWN:
        step_down(law, &reading, ready);
        break;
    }
}

/* ---- Time ------------------------------------------------------------------------------------ */

/* A round trip is over: did the limit bind in it? */
static void close_round(struct law *law)
{
    struct auto_law *state = &law->state.auto_law;
    double ms = state->at - state->round_at;

    if (ms < fmax(state->mean_ms, 4))
        return;
    if (state->counts.pinned_ms - state->round_pinned_ms > 0.8 * ms) {
        bool is_new = since(state, state->bound_at, ms + fmax(10 * state->mean_ms, 100));
        state->bound_at = state->at;
        if (state->mode == AUTO_HOLD && is_new && since(state, state->up_at, 1000)) {
            state->mode = AUTO_CHECK;
            auto_measure_start(state, 0);
        }
    }
    state->round_at = state->at;
    state->round_pinned_ms = state->counts.pinned_ms;
}

/* A quiet second: without knowledge of the knee the limit is a leash. */
static void set_leash(struct law *law)
{
    struct auto_law *state = &law->state.auto_law;

    if (state->mode != AUTO_HOLD)
        return;
    if (state->is_known && !since(state, state->confirmed_at, CONFIRMED_MS))
        return;
    state->is_known = false;
    auto_set(law, fmax(LEASH_LEAST, LEASH * state->quiet_rate * state->base_ms));
    state->held = state->limit;
}

/* ---- Ceilings -------------------------------------------------------------------------------- */

/* A test that a ceiling cuts short says nothing, and neither does what was measured under one. */
static void ceiling_changed(struct law *law)
{
    struct auto_law *state = &law->state.auto_law;

    auto_set(law, state->limit);
    enter_hold(law, state->mode == AUTO_HOLD ? state->limit : state->held);
}

/* Dropped calls are forgotten by and by, what the server has said at the time it has said. */
static void lift_ceilings(struct law *law)
{
    struct auto_law *state = &law->state.auto_law;
    double none = (double)law->config.max;

    if (state->ceiling < none && since(state, state->ceiling_at, fmax(10 * state->mean_ms, 100))) {
        state->ceiling = state->ceiling * 1.25 + 1;
        if (state->ceiling > state->limit)
            state->ceiling = none;
        state->ceiling_at = state->at;
        ceiling_changed(law);
    }
    if (state->said < none && state->at >= state->said_until) {
        state->said = none;
        ceiling_changed(law);
    }
}

static void auto_dropped(struct law *law)
{
    struct auto_law *state = &law->state.auto_law;

    if (state->ceiling < (double)law->config.max &&
        !since(state, state->ceiling_at, state->mean_ms))
        return; /* calls that ran before the last one could be felt */
    state->ceiling = fmax(1, 0.8 * fmin((double)state->in_flight, (double)law->limit));
    state->ceiling_at = state->at;
    ceiling_changed(law);
}

/* ---- Events ---------------------------------------------------------------------------------- */

static void auto_advance(struct law *law, tg_ms at)
{
    struct auto_law *state = &law->state.auto_law;
    double ms = (double)at - state->at;

    if (ms <= 0)
        return;
    assert(state->in_flight >= 0);
    if (state->in_flight >= law->limit && !is_capped(law))
        state->counts.pinned_ms += ms;
    state->at = (double)at;
    lift_ceilings(law);
    if (state->stream.is_open || is_capped(law))
        return;
    close_round(law);
    if (auto_meter_second(state))
        set_leash(law);
    auto_measure_advance(state);
    step_mode(law);
}

static void auto_started(struct law *law, tg_ms at, int64_t in_flight)
{
    auto_advance(law, at);
    law->state.auto_law.in_flight = in_flight;
}

static void auto_left(struct law *law, tg_ms at, int64_t in_flight, double sojourn_ms)
{
    (void)sojourn_ms;
    auto_started(law, at, in_flight);
}

static void auto_finished(struct law *law, tg_ms at, const struct law_sample *sample)
{
    struct auto_law *state = &law->state.auto_law;

    auto_advance(law, at);
    if (sample->dropped) {
        auto_dropped(law);
    } else {
        /* Whatever the owner's sample is: a test of throughput lasts as long as slots are held. */
        auto_meter_sample(state, sample->sojourn_ms, sample->in_flight_at_start - 1);
        state->stream.is_open = false; /* total times are samples again */
    }
}

static void auto_first_byte(struct law *law, tg_ms at, const struct law_sample *sample,
                            double base_ms)
{
    struct auto_law *state = &law->state.auto_law;
    double limit;

    auto_advance(law, at);
    if (!state->stream.is_open && state->mode != AUTO_HOLD)
        enter_hold(law, state->held);
    limit = auto_stream_first_byte(state, sample->sample_ms, base_ms, state->limit);
    law->first_bytes.allowed_ms = state->stream.allowed_ms;
    if (limit != state->limit)
        auto_set(law, limit);
}

static void auto_rejected(struct law *law, tg_ms at)
{
    auto_advance(law, at);
    law->state.auto_law.counts.refused++;
}

static void auto_ceiling(struct law *law, tg_ms at, int64_t ceiling, tg_ms until)
{
    struct auto_law *state = &law->state.auto_law;

    auto_advance(law, at);
    state->said = fmax(1, fmin((double)ceiling, (double)law->config.max));
    state->said_until = (double)until;
    if (until <= at)
        state->said = (double)law->config.max;
    ceiling_changed(law);
}

static struct law_times auto_times(const struct law *law)
{
    const struct auto_law *state = &law->state.auto_law;
    const struct auto_stream *stream = &state->stream;

    if (stream->is_open)
        return (struct law_times){stream->mean_ms, stream->base_ms, true};
    return (struct law_times){state->mean_ms, state->base_ms > 0 ? state->base_ms : state->mean_ms,
                              false};
}

static bool auto_begin(struct law *law, int64_t limit)
{
    struct auto_law *state = &law->state.auto_law;

    *state = (struct auto_law){
        .at = (double)law->at,
        .second_at = (double)law->at,
        .round_at = (double)law->at,
        .bound_at = LONG_AGO,
        .up_at = LONG_AGO,
        .down_at = LONG_AGO,
        .confirmed_at = LONG_AGO,
        .ceiling = (double)law->config.max,
        .said = (double)law->config.max,
    };
    enter_hold(law, (double)limit);
    return true;
}

static bool auto_adapt(struct law *law, const struct tg_law_config *config)
{
    struct auto_law *state = &law->state.auto_law;
    double before = (double)law->config.max, max = (double)config->max;

    law->config = *config;
    state->ceiling = state->ceiling < before ? fmin(state->ceiling, max) : max;
    state->said = state->said < before ? fmin(state->said, max) : max;
    auto_set(law, state->limit);
    state->held = fmax((double)config->min, fmin(state->held, max));
    return true;
}

const struct law_ops law_auto = {
    .name = "auto",
    .begin = auto_begin,
    .adapt = auto_adapt,
    .started = auto_started,
    .finished = auto_finished,
    .first_byte = auto_first_byte,
    .left = auto_left,
    .rejected = auto_rejected,
    .ceiling = auto_ceiling,
    .tick = auto_advance,
    .times = auto_times,
};
