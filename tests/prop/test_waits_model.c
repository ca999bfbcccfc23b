/* test_waits_model.c - who may wait for a slot and until when, held against the formulas.
 *
 * A gate with a fixed limit, whose law tells times or none, leads random lives. The model keeps a
 * list of its calls and does with it what waits.h and stages.c say: how long a slot is held in the
 * mean, how often each class gets one, how long a call may wait, whether it has a chance, when its
 * wait is over, and what a client is told. Whose turn it is, it takes from the gate:
 * test_queue_model.c knows that.
 */
#include <math.h>
#include <string.h>

#include "draw.h"
#include "gate_kit.h"
#include "lib/admission/stages.h"
#include "walk.h"

enum { CALLS = 48, STEPS = 1500, LIVES = 160, TENANTS = 4 };

static uint64_t seed;
static struct law_times told; /* what the law says that it has learned */

enum call_state { NOT_THERE, WAITS, TIMED_OUT, RUNS };

struct listed {
    enum call_state state;
    struct tg_call call;
    tg_lease lease;
    uint64_t arrival;
    tg_ms queued_at, deadline, useful_until, started_at;
};

struct life {
    struct draw draw;
    struct gate_log log;
    size_t n_read;
    struct tg_gate_config config;
    struct tg_gate *gate;
    struct law_ops ops;
    tg_ms now, unit;
    struct listed calls[CALLS];
    uint64_t arrivals;

    int samples;
    double mean_ms, held_ms;
    tg_ms counted_at;
    int64_t started[TG_PRIORITY_COUNT], counted[TG_PRIORITY_COUNT];
    double per_ms[TG_PRIORITY_COUNT];
    bool over[TG_PRIORITY_COUNT];
    tg_ms waiting_since[TG_PRIORITY_COUNT], refused_at[TG_PRIORITY_COUNT];
    long cases, waited, refused, ended;
};

static const char *const tenants[TENANTS] = {"a", "b", "c", "d"};

#define CASE(life, truth)                                                                          \
    do {                                                                                           \
        (life)->cases++;                                                                           \
        if (!(truth))                                                                              \
            fail_msg("at %lld: not %s", (long long)(life)->now, #truth);                           \
    } while (0)

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-9 * (fabs(a) + fabs(b)) || a == b;
}

/* ---- numbers ---- */

static int64_t count(const struct life *life, enum call_state state, int priority)
{
    int64_t n = 0;

    for (int i = 0; i < CALLS; i++)
        n += life->calls[i].state == state &&
             (priority < 0 || (int)life->calls[i].call.priority == priority);
    return n;
}

static double limit_of(const struct life *life)
{
    return (double)life->config.concurrency.law.initial;
}

static double clamped(double low, double x, double high)
{
    return x < low ? low : x > high ? high : x;
}

/* At any moment most slots are held by the long calls, for another half of their mean. */
static double slot_ms(const struct life *life)
{
    return life->samples == 0 ? 1000 : fmax(life->mean_ms, life->held_ms / 2);
}

/* A call has ended that had its slot for so long. */
static void learn(struct life *life, double ms)
{
    int n = life->samples < 64 ? ++life->samples : 64;

    life->mean_ms += (ms - life->mean_ms) * (1.0 / n);
    if (ms > 0)
        life->held_ms += (ms - life->held_ms) * ms / (ms + 32 * life->held_ms);
}

/* How often each class gets a slot, seen over eight slot times. */
static void count_starts(struct life *life)
{
    double passed = (double)(life->now - life->counted_at);
    double memory = passed + 8 * slot_ms(life);

    if (passed <= 0)
        return;
    for (int p = 0; p < TG_PRIORITY_COUNT; p++) {
        double rate = (double)(life->started[p] - life->counted[p]) / passed;
        life->per_ms[p] += (rate - life->per_ms[p]) * passed / memory;
        life->counted[p] = life->started[p];
    }
    life->counted_at = life->now;
}

static int64_t low_slots(const struct life *life)
{
    double ratio = life->config.concurrency.low_ratio;

    return ratio > 0 ? (int64_t)fmax(1, floor(ratio * limit_of(life) + 1e-9)) : 0;
}

/* ---- waits ---- */

static double per_slot_ms(const struct life *life)
{
    return life->mean_ms / limit_of(life);
}

static double hold_ms(const struct life *life)
{
    double hold = told.first_bytes ? 3 * told.base_ms : 5 * fmin(told.mean_ms, 2 * told.base_ms);

    return fmax(hold, 4 * per_slot_ms(life));
}

static double short_ms(const struct life *life)
{
    return fmax(0.5 * fmin(told.mean_ms, 1.5 * told.base_ms), 2 * per_slot_ms(life));
}

static struct table_id tenant_id(const struct life *life, const struct tg_call *call)
{
    return stages_tenant_id(life->gate, call);
}

static tg_ms auto_wait(const struct life *life, const struct tg_call *call)
{
    static const double least[TG_PRIORITY_COUNT] = {100, 50, 0};
    double share = life->config.concurrency.share[call->priority], limit = limit_of(life);
    double own = queue_slot_ms(&life->gate->queue, call->priority, tenant_id(life, call));
    double times = fmax(2, 8 / sqrt(limit));

    if (call->hold_s > 0)
        own = call->hold_s * 1000;
    else if (own <= 0)
        own = slot_ms(life);
    if (call->priority != TG_PRIORITY_HIGH)
        times = fmax(2 / sqrt(limit), share > 0 ? 2 / (limit * share) : 0);
    double wait = ceil(fmax(times * slot_ms(life), own));
    if (told.mean_ms > 0)
        wait = fmax(wait, ceil(hold_ms(life)));
    return (tg_ms)clamped(least[call->priority], wait, 30000);
}

static tg_ms may_wait(const struct life *life, const struct tg_call *call)
{
    tg_ms wait = life->config.concurrency.wait[call->priority];
    tg_ms left = call->deadline - life->now;

    if (wait == TG_WAIT_AUTO)
        wait = auto_wait(life, call);
    if (call->deadline && left < wait)
        wait = left > 0 ? left : 0;
    return wait;
}

/* (ahead in its class in order of service + 1) x mean / (limit x g), against what it may wait: how
 * much time is left over, in slot time. */
static double spare_ms(const struct life *life, const struct tg_call *call, tg_ms wait)
{
    double g = life->config.concurrency.share[call->priority], above = 0;
    double ahead = queue_ahead_of(&life->gate->queue, call->priority, tenant_id(life, call),
                                  call->weight, life->mean_ms, INFINITY);

    /* Or all of its class, by what was known when they came. */
    ahead = fmin(ahead, life->gate->queue.classes[call->priority].slot_ms);
    for (int p = 0; p < (int)call->priority; p++)
        above += life->per_ms[p];
    g = fmax(g, 1 - above * life->mean_ms / limit_of(life));
    if (call->priority == TG_PRIORITY_LOW)
        g = fmin(g, life->config.concurrency.low_ratio);
    return (double)wait * limit_of(life) * g - (ahead + life->mean_ms);
}

/* ---- what ends waits ---- */

/* The next to be told is this one. */
static bool is_next_woken(struct life *life, int index)
{
    return life->n_read < life->log.n_woken && life->log.woken[life->n_read] == index;
}

static void end_wait(struct life *life, int index, tg_ms at)
{
    CASE(life, is_next_woken(life, index));
    life->n_read++;
    life->calls[index].state = TIMED_OUT;
    life->refused_at[life->calls[index].call.priority] = at;
    life->ended++;
}

/* The call of a class, or of all, that has waited longest; -1: none waits. */
static int oldest(const struct life *life, int priority)
{
    int found = -1;

    for (int i = 0; i < CALLS; i++)
        if (life->calls[i].state == WAITS && (int)life->calls[i].call.priority == priority &&
            (found < 0 || life->calls[i].arrival < life->calls[found].arrival))
            found = i;
    return found;
}

/* With those above it, it holds all that the shares of those below leave to it, and those have not
 * had half more than their shares. */
static bool is_overloaded(const struct life *life, int priority)
{
    double shares = 0, below = 0, all = 0, held = limit_of(life) - (double)count(life, RUNS, -1);

    held = fmax(held, 0);
    for (int p = 0; p < TG_PRIORITY_COUNT; p++) {
        all += life->per_ms[p];
        if (p <= priority) {
            held += (double)count(life, RUNS, p);
        } else {
            shares += life->config.concurrency.share[p];
            below += life->per_ms[p];
        }
    }
    return held >= floor((1 - shares) * limit_of(life)) && below <= 1.5 * shares * all;
}

static void bound_class(struct life *life, int priority)
{
    bool long_not_empty = (double)(life->now - life->waiting_since[priority]) > 5 * told.mean_ms;
    bool overloaded = is_overloaded(life, priority);

    for (int i; (i = oldest(life, priority)) >= 0; end_wait(life, i, life->now)) {
        const struct listed *call = &life->calls[i];
        double waited = (double)(life->now - call->queued_at);
        double useful =
            (double)(call->useful_until < call->deadline ? call->useful_until : call->deadline) -
            (double)call->queued_at;
        double most = fmin(hold_ms(life), useful), bound = most;
        if (!overloaded)
            bound = useful;
        else if (life->over[priority] && long_not_empty)
            bound = fmin(most, short_ms(life));
        if (waited > bound)
            continue;
        life->over[priority] |= overloaded && waited > 0.75 * most;
        return;
    }
}

/* Slots that are free go to whom the gate has told, until nobody may have one. */
static void hand_out(struct life *life)
{
    while (count(life, RUNS, -1) < life->config.concurrency.law.initial) {
        bool low_may = count(life, RUNS, TG_PRIORITY_LOW) < low_slots(life);
        if (count(life, WAITS, TG_PRIORITY_HIGH) + count(life, WAITS, TG_PRIORITY_NORMAL) == 0 &&
            (!low_may || count(life, WAITS, TG_PRIORITY_LOW) == 0))
            return;
        CASE(life, life->n_read < life->log.n_woken);
        struct listed *call = &life->calls[life->log.woken[life->n_read++]];
        CASE(life, call->state == WAITS && (call->call.priority != TG_PRIORITY_LOW || low_may));
        call->state = RUNS;
        call->started_at = life->now;
        life->started[call->call.priority]++;
    }
}

/* Whatever happens at a gate ends with this. */
static void grant(struct life *life)
{
    if (count(life, WAITS, -1) == 0)
        return;
    if (told.mean_ms > 0)
        count_starts(life);
    for (int p = 0; p < TG_PRIORITY_COUNT; p++)
        if (told.mean_ms > 0)
            bound_class(life, p);
        else
            life->over[p] = false;
    hand_out(life);
}

/* ---- what is told ---- */

static tg_ms turn_in(const struct life *life, int priority)
{
    int64_t calls = 1;

    for (int p = 0; p <= priority; p++)
        calls += count(life, WAITS, p);
    if (life->samples == 0)
        return 1000;
    return (tg_ms)fmax(1, ceil((double)calls * life->mean_ms / limit_of(life)));
}

/* See stages_client_wait(): by chance, in step. */
static tg_ms client_wait(const struct life *life, int priority)
{
    double mean = life->mean_ms, slots = limit_of(life), calls = 1, began = 0;
    double in_flight = (double)count(life, RUNS, -1);
    tg_ms turn = turn_in(life, priority);

    if (mean <= 0)
        return turn;
    for (int p = 0; p <= priority; p++)
        calls += (double)count(life, WAITS, p);
    calls += fmax(0, in_flight - limit_of(life));
    if (priority == TG_PRIORITY_LOW)
        slots = clamped(1, (double)low_slots(life), slots);
    for (int i = 0; i < CALLS; i++)
        if (life->calls[i].state == RUNS)
            began += (double)life->calls[i].started_at;
    double age = (double)life->now - began / fmax(1, in_flight);
    double spread = sqrt(fmax(1, life->held_ms / mean - 1));
    double each = mean / slots;
    double by_chance = (calls + spread * (1.8 * sqrt(calls) + 1.5)) * each;
    double in_step = (calls - 1) * each + fmax(0, mean - age);
    double wait = fmin(60000, ceil(fmax(by_chance, in_step)));
    return wait > (double)turn ? (tg_ms)wait : turn;
}

static void check_told(struct life *life, const struct tg_answer *answer, int priority)
{
    const struct tg_decision *decision = &answer->axes.decision[TG_AXIS_CONCURRENCY];
    tg_ms wait = client_wait(life, priority);

    CASE(life, answer->axes.present == 1u << TG_AXIS_CONCURRENCY);
    CASE(life, !decision->allowed && decision->remaining == 0 && decision->reset_at == life->now);
    CASE(life, decision->limit == life->config.concurrency.law.initial);
    CASE(life, decision->retry_after_ms == turn_in(life, priority));
    CASE(life, answer->client_wait_ms == wait);
}

static void check_refused(struct life *life, const struct tg_answer *answer, int priority)
{
    CASE(life, answer->step == TG_DECIDED && answer->reason == TG_REASON_CONCURRENCY);
    check_told(life, answer, priority);
}

/* ---- the steps ---- */

static void draw_settings(struct life *life)
{
    struct draw *draw = &life->draw;
    struct tg_gate_config *c = &life->config;

    c->concurrency.law.initial = draw_chance(draw, 30) ? 1 : draw_between(draw, 2, 12);
    c->concurrency.queue_size = draw_between(draw, 0, 16);
    c->concurrency.low_ratio = draw_chance(draw, 10) ? 0 : draw_unit(draw);
    for (int p = 0; p < TG_PRIORITY_COUNT; p++) {
        c->concurrency.wait[p] = draw_chance(draw, 60)   ? TG_WAIT_AUTO
                                 : draw_chance(draw, 20) ? 0
                                                         : life->unit * draw_between(draw, 1, 200);
        c->concurrency.share[p] = draw_chance(draw, 30) ? 0 : draw_unit(draw) * 0.7;
    }
}

static void draw_times(struct life *life)
{
    double mean = (double)life->unit * (0.2 + 20 * draw_unit(&life->draw));

    told = (struct law_times){0};
    if (draw_chance(&life->draw, 60))
        told = (struct law_times){mean, mean * (0.3 + 0.9 * draw_unit(&life->draw)),
                                  draw_chance(&life->draw, 30)};
}

static struct law_times tell_times(const struct law *law)
{
    (void)law;
    return told;
}

/* All that follows from now: waits are over in the order of their time, then slots are given. */
static void tick(struct life *life)
{
    tg_gate_tick(life->gate, life->now);
    for (;;) {
        int first = -1;
        for (int i = 0; i < CALLS; i++) {
            const struct listed *call = &life->calls[i],
                                *best = &life->calls[first < 0 ? i : first];
            if (call->state == WAITS && call->deadline <= life->now &&
                (first < 0 || call->deadline < best->deadline ||
                 (call->deadline == best->deadline && call->arrival < best->arrival)))
                first = i;
        }
        if (first < 0)
            break;
        end_wait(life, first, life->calls[first].deadline);
    }
    grant(life);
}

/* Nothing more follows from this moment: a class that is found to be over is bounded by that the
 * next time. Those who were told go their ways. */
static void settle_moment(struct life *life)
{
    for (int quiet = 0; quiet < 2;) {
        size_t told_before = life->n_read;
        tick(life);
        CASE(life, life->n_read == life->log.n_woken);
        quiet = life->n_read == told_before ? quiet + 1 : 0;
    }
    for (int i = 0; i < CALLS; i++) {
        struct listed *call = &life->calls[i];
        bool was_over = call->state == TIMED_OUT;
        if (!was_over && (call->state != RUNS || call->lease == 0 || call->arrival == 0))
            continue;
        struct tg_answer answer = must_resume(life->gate, call->lease, &call->call, life->now);
        if (was_over) {
            check_refused(life, &answer, (int)call->call.priority);
            call->state = NOT_THERE;
        } else {
            CASE(life, answer.step == TG_DECIDED && answer.decision.allowed);
            call->arrival = 0; /* it waits for nothing any more */
        }
    }
    life->n_read = life->log.n_woken = 0;
}

static void draw_call(struct life *life, int index)
{
    struct draw *draw = &life->draw;
    struct tg_call call = call_waiting((enum tg_priority)draw_between(draw, 0, 2), index);

    call_set_tenant(&call, tenants[draw_between(draw, 0, TENANTS - 1)],
                    ldexp(1, (int)draw_between(draw, -2, 2)));
    if (draw_chance(draw, 20))
        call.hold_s = draw_unit(draw) * 0.04 * (double)life->unit;
    if (draw_chance(draw, 30))
        call.deadline = life->now + life->unit * draw_between(draw, 0, 100);
    life->calls[index] = (struct listed){.call = call};
}

/* It finds no slot: it waits, or is refused. */
static void check_entry(struct life *life, struct listed *listed, bool *waits, bool *sure)
{
    const struct tg_call *call = &listed->call;
    int priority = (int)call->priority;
    bool is_first = count(life, WAITS, priority) == 0;
    tg_ms wait = may_wait(life, call);

    *sure = true;
    *waits = wait > 0 && count(life, WAITS, priority) < life->config.concurrency.queue_size;
    if (*waits && told.mean_ms <= 0) {
        count_starts(life);
        double spare = spare_ms(life, call, wait);
        *waits = life->samples == 0 || spare >= 0;
        *sure = life->samples == 0 || fabs(spare) > 1e-6 * (double)wait;
    }
    listed->queued_at = life->now;
    listed->deadline = life->now + wait;
    listed->useful_until = TG_NUMBER_MAX;
    if (call->deadline && told.mean_ms > 0) {
        double left = fmax(0, (double)(call->deadline - life->now));
        listed->useful_until = life->now + (tg_ms)floor(left - fmin(told.mean_ms, left / 2));
    }
    if (!*waits || !*sure || !is_first)
        return;
    if (told.mean_ms <= 0 || (double)(life->now - life->refused_at[priority]) >= 10 * told.mean_ms)
        life->over[priority] = false;
    life->waiting_since[priority] = life->now;
}

static void step_arrive(struct life *life)
{
    int index = (int)draw_between(&life->draw, 0, CALLS - 1);
    struct listed *listed = &life->calls[index];
    struct tg_answer answer, peeked;
    bool waits = false, sure = true;

    if (listed->state != NOT_THERE)
        return;
    draw_call(life, index);
    int priority = (int)listed->call.priority;
    int64_t ahead = 0;
    for (int p = 0; p <= priority; p++)
        ahead += count(life, WAITS, p);
    bool may_start = count(life, RUNS, -1) < life->config.concurrency.law.initial && ahead == 0 &&
                     (priority != TG_PRIORITY_LOW || count(life, RUNS, priority) < low_slots(life));
    double rates[TG_PRIORITY_COUNT];
    memcpy(rates, life->gate->starts.per_ms, sizeof rates);
    assert_int_equal(tg_gate_peek(life->gate, &listed->call, life->now, &peeked), TG_OK);
    CASE(life, memcmp(rates, life->gate->starts.per_ms, sizeof rates) == 0);
    if (!may_start)
        check_entry(life, listed, &waits, &sure);
    assert_int_equal(tg_gate_admit(life->gate, &listed->call, 0, life->now, &answer), TG_OK);
    CASE(life, peeked.step == answer.step && peeked.reason == answer.reason);
    if (!sure) { /* on the edge: whatever it says */
        if (answer.step == TG_WAITING)
            tg_gate_release(life->gate, answer.lease, life->now, NULL);
        life->waiting_since[priority] = life->gate->queue.classes[priority].waiting_since;
        life->refused_at[priority] = life->gate->queue.classes[priority].refused_at;
        life->over[priority] = life->gate->queue.classes[priority].is_newest_first;
        return;
    }
    if (may_start) {
        CASE(life, answer.step == TG_DECIDED && answer.decision.allowed);
        CASE(life, answer.decision.limit == life->config.concurrency.law.initial);
        CASE(life, answer.decision.remaining == answer.decision.limit - count(life, RUNS, -1) - 1);
        listed->state = RUNS;
        listed->started_at = life->now;
        listed->lease = answer.lease;
        life->started[priority]++;
    } else if (waits) {
        CASE(life, answer.step == TG_WAITING && answer.deadline == listed->deadline);
        CASE(life, peeked.deadline == answer.deadline);
        check_told(life, &peeked, priority);
        listed->state = WAITS;
        listed->arrival = ++life->arrivals;
        listed->lease = answer.lease;
        const struct ticket *ticket = tickets_find(&life->gate->tickets, answer.lease);
        CASE(life, ticket && ticket->useful_until == listed->useful_until);
        life->waited++;
    } else {
        check_refused(life, &answer, priority);
        check_told(life, &peeked, priority);
        life->refused_at[priority] = life->now;
        life->refused++;
    }
}

static void step_end(struct life *life)
{
    struct draw *draw = &life->draw;
    struct listed *listed = &life->calls[draw_between(draw, 0, CALLS - 1)];
    struct tg_release release;

    if (listed->state != RUNS && (listed->state != WAITS || draw_chance(draw, 70)))
        return;
    tg_release_init(&release);
    release.outcome = draw_chance(draw, 70)   ? TG_OUTCOME_OK
                      : draw_chance(draw, 33) ? TG_OUTCOME_DROPPED
                      : draw_chance(draw, 50) ? TG_OUTCOME_CANCELLED
                                              : TG_OUTCOME_REFUSED;
    if (listed->state == RUNS &&
        (release.outcome == TG_OUTCOME_OK || release.outcome == TG_OUTCOME_DROPPED))
        learn(life, (double)(life->now - listed->started_at));
    listed->state = NOT_THERE;
    CASE(life, tg_gate_release(life->gate, listed->lease, life->now, &release));
    grant(life);
    CASE(life, life->n_read == life->log.n_woken);
}

static void step_time(struct life *life)
{
    life->now += draw_between(&life->draw, 0, draw_chance(&life->draw, 80) ? 2 : 25) * life->unit;
    tick(life);
}

static void step_settings(struct life *life)
{
    if (draw_chance(&life->draw, 90))
        return;
    draw_settings(life);
    must_reconfigure(life->gate, &life->config, life->now);
    grant(life);
}

static void step_times(struct life *life)
{
    if (draw_chance(&life->draw, 85))
        return;
    draw_times(life);
    tick(life);
}

static void check_numbers(struct life *life)
{
    const struct tg_gate *gate = life->gate;

    CASE(life, gate->in_flight == count(life, RUNS, -1));
    CASE(life, (int)gate->samples == life->samples);
    CASE(life, near(gate->mean_slot_ms, life->mean_ms) && near(gate->mean_held_ms, life->held_ms));
    CASE(life, gate_low_slots(gate) == low_slots(life));
    for (int p = 0; p < TG_PRIORITY_COUNT; p++) {
        const struct queue_class *line = &gate->queue.classes[p];
        CASE(life, near(gate->starts.per_ms[p], life->per_ms[p]));
        CASE(life, line->waiting == count(life, WAITS, p));
        CASE(life, line->is_newest_first == life->over[p]);
        CASE(life, line->waiting_since == life->waiting_since[p]);
        CASE(life, line->refused_at == life->refused_at[p]);
    }
    gate_assert_books(gate);
}

static void life_open(struct life *life, uint64_t number)
{
    static const tg_ms units[] = {1, 7, 100, 3000, 0}; /* with the last, no time passes */

    memset(life, 0, sizeof *life);
    life->draw = draw_stream(seed, number);
    life->unit = units[number % COUNT_OF(units)];
    life->now = 1000000;
    life->config = gate_config_slots(&life->log, 1);
    life->config.lease_ttl = TG_NUMBER_MAX / 2;
    life->config.seed = number;
    draw_settings(life);
    life->gate = must_gate(&life->config);
    life->ops = *life->gate->law.ops;
    life->ops.times = tell_times;
    life->gate->law.ops = &life->ops;
    draw_times(life);
    tg_gate_tick(life->gate, life->now);
}

static void waits_are_what_the_formulas_say(void **state)
{
    static void (*const steps[])(struct life *) = {
        step_arrive, step_arrive, step_arrive, step_arrive,   step_end,
        step_end,    step_time,   step_time,   step_settings, step_times};
    static struct life life;
    long cases = 0, waited = 0, refused = 0, ended = 0;
    (void)state;

    for (uint64_t number = 0; number < LIVES; number++) {
        life_open(&life, number);
        for (int i = 0; i < STEPS; i++) {
            steps[draw_between(&life.draw, 0, COUNT_OF(steps) - 1)](&life);
            settle_moment(&life);
            check_numbers(&life);
        }
        cases += life.cases;
        waited += life.waited;
        refused += life.refused;
        ended += life.ended;
        tg_gate_free(life.gate);
    }
    print_message("%ld have waited, of whom %ld in vain; %ld were refused\n", waited, ended,
                  refused);
    assert_true(waited > 10000 && refused > 10000 && ended > 1000);
    cases_report("waits are what the formulas say", cases);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waits_are_what_the_formulas_say),
    };

    seed = draw_seed("test_waits_model");
    return cmocka_run_group_tests_name("waits model", tests, NULL, NULL);
}
