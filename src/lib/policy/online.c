/* online.c - prices that follow what is left of the budgets and what may still come.
 *
 * What a call takes is not there for those that come after it. So a call is worth it if its value
 * is at least what would be lost without what it takes: if V(b) is the most that can be earned,
 * until the window ends, with budget b,
 *
 *     value >= V(left) - V(left - use)
 *
 * V is the mean, over the scenarios of forecast.c, of what one could earn who knew the scenario:
 * that is to fill the budget with the kinds of call that are worth most for what they take. It is
 * concave, so a call that takes much is asked for more a unit than a small one, and one that would
 * take the place of dearer calls in half of all futures pays for that half: a marginal kind is
 * rationed by itself, without dice, for each one admitted raises the price for the next.
 *
 * V is kept as a table of what the first, second, ... part of what is left would cost, computed
 * anew every some calls. Between, the deciding path only counts the call and looks up two numbers.
 *
 * Several axes are brought to one: what a call takes is added up with the prices that the fluid
 * program gives each axis for the mean of the scenarios. The direction of scarcity comes from
 * there, its height from V.
 *
 * Slots are not a stock: what is not used now is lost, and what is not free now cannot be had. So
 * where slots are scarce a call leaves some free for those that are worth more a second.
 *
 * What a call takes is what it is expected to use (expected.h), and not what it asks for. What it
 * asks for is taken from what is left until it ends, since the limits may do so, but prices are
 * made with what will be left when the calls in flight have ended.
 *
 * A guard (guard.h) has the last word: it keeps the policy from earning less than none would.
 *
 * One lock; it is held for some ten ns, and for some us when prices are computed.
 */
#include "lib/policy/online.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "lib/core/allocator.h"
#include "lib/core/problem.h"
#include "lib/core/spinlock.h"
#include "lib/policy/expected.h"
#include "lib/policy/fluid.h"
#include "lib/policy/forecast.h"
#include "lib/policy/guard.h"

enum {
    STEPS = 64,       /* steps of the table */
    EVERY_CALLS = 16, /* prices are computed anew after so many calls, ... */
    EVERY_PART = 512, /* ... but at most so many times in a window, ... */
    FIRST_CALLS = 64, /* ... and at each of the first calls of all, when each teaches much ... */
    SCENARIOS = FORECAST_SCENARIOS + 2
};

static const double TOLERANCE = 0.01; /* a part of the bid */
static const double ALL_BUT_NOTHING =
    1e-9; /* a part of a budget: there is always a price of the last bit
                                               */
static const double CLEARLY_BETTER = 1.05;  /* so much more for the same */
static const double MOVED = 1.0 / 16;       /* ... and when so much of what was left is gone */
static const double NEARLY_FULL = 1.0 / 64; /* so much of a bucket is free */
static const double MOST_KEPT = 2;          /* deviations from what is usual, in slots */
static const double BEYOND = 1e18;          /* beyond this numbers are taken for it */

enum { RATE = FLUID_RATE, COST = FLUID_COST, HOLD = FLUID_HOLD, AXES = FLUID_AXES };

struct online {
    struct spinlock lock;
    tg_ms window;
    double budget[AXES]; /* 0: not scarce */
    bool steady;
    double slots; /* how many the budget of slot-seconds stands for */

    tg_ms now;
    tg_ms begin;       /* the window runs since then; in steady: when `left` was updated */
    tg_ms filled_at;   /* when replenish() was last called */
    double left[AXES]; /* in parts of the budget; below 0 if more was admitted than there was */
    double held;       /* cost that calls in flight have asked for, in parts of its budget */
    double factor;     /* the mean of used to asked when prices were computed last */

    /* What the last pricing found: */
    tg_ms priced_at;
    int64_t since;           /* calls since then */
    double scale[AXES];      /* what a part of each budget counts */
    double room;             /* what was left, in that measure */
    double taken;            /* and is gone since */
    double table[STEPS + 1]; /* what the first i / STEPS of the room would cost */
    bool slots_scarce;
    double kept[MIX_CELLS + 1];   /* slots that each kind, in `order`, leaves to those before it */
    double better[MIX_CELLS + 1]; /* what these would bring, a second */

    size_t ordered;
    uint8_t order[MIX_CELLS];  /* cells, those worth most in that measure first */
    double measure[MIX_CELLS]; /* what a unit of a cell's value takes in it */
    struct fluid_basis basis;
    struct expected expected;
    struct guard guard;
    struct forecast forecast;
    struct forecast_scenario scenario[SCENARIOS];
};

/* ---- budgets ---- */

static void use_of(const struct online *online, double cost, double hold_s, double use[AXES])
{
    const double amount[AXES] = {[RATE] = 1, [COST] = cost, [HOLD] = hold_s};

    for (int a = 0; a < AXES; a++)
        use[a] = online->budget[a] > 0 ? fmin(amount[a] / online->budget[a], BEYOND) : 0;
}

/* A call of more than a window's cost will never be served, however long is saved for it: one that
 * waits for its like would refuse all others. */
static bool has_a_chance(const double use[AXES])
{
    return use[COST] <= 1;
}

static double in_measure(const double scale[AXES], const double use[AXES])
{
    double sum = 0;

    for (int a = 0; a < AXES; a++)
        sum += scale[a] * use[a];
    return sum;
}

/* Brings what is left up to `now`. Says whether a new window has begun. */
static bool replenish(struct online *online, tg_ms now)
{
    bool first = online->begin < 0, anew = false;
    double part = first ? 1 : (double)(now - online->filled_at) / (double)online->window;

    if (online->steady) {
        for (int a = 0; a < AXES; a++)
            online->left[a] = fmin(1, online->left[a] + part);
        online->begin = now;
    } else if (first || now - online->begin >= online->window) {
        for (int a = 0; a < AXES; a++)
            online->left[a] = 1;
        online->begin = now - now % online->window;
        online->held = 0;
        anew = true;
    }
    online->filled_at = now;
    guard_replenish(&online->guard, part, online->steady, anew);
    return anew;
}

/* What will be left once the calls in flight have used what calls do use of what they ask for. */
static double left_of(const struct online *online, int axis)
{
    double back = axis == COST ? online->held * (1 - online->factor) : 0;

    return online->left[axis] + back;
}

/* How much of a bucket is free, a little at least. */
static double free_of(const struct online *online, int axis)
{
    return fmin(fmax(1 - left_of(online, axis), NEARLY_FULL), 1);
}

/* How far ahead is looked, ms: to the end of the window. There is never an end for which a bucket
 * may be emptied; for it, so far as it takes to fill the emptiest. Then a bucket is kept about half
 * full: with less, prices rise, since the time is longer and there is less for it, and when it is
 * nearly full, so that what comes back would be lost, they fall to nothing. */
static double span_of(const struct online *online)
{
    double most = 0;

    if (!online->steady)
        return (double)(online->begin + online->window - online->now);
    for (int a = 0; a < HOLD; a++)
        if (online->budget[a] > 0)
            most = fmax(most, free_of(online, a));
    return (most > 0 ? most : 1) * (double)online->window;
}

/* What there is of an axis for the time that is looked ahead, in parts of its budget. */
static double room_of(const struct online *online, int axis)
{
    double part = span_of(online) / (double)online->window;
    double room = left_of(online, axis);

    if (axis == HOLD)
        room = fmin(room, part); /* slots that stood empty do not come back */
    else if (online->steady)
        room *=
            part / free_of(online, axis); /* a fuller bucket has more, its own time is shorter */
    return fmax(room, ALL_BUT_NOTHING);
}

/* ---- prices ---- */

/* The measure in which several axes are one. */
static void find_measure(struct online *online, size_t n_scenarios)
{
    const struct mix *mix = &online->forecast.mix;
    double value[MIX_CELLS] = {0}, ones[MIX_CELLS], fraction[MIX_CELLS];
    double use[AXES][MIX_CELLS];
    struct fluid_program program = {
        .n = mix->n, .weight = value, .value = ones, .fraction = fraction, .basis = online->basis};

    for (size_t k = 0; k < mix->n; k++) {
        ones[k] = 1;
        for (int a = 0; a < AXES; a++)
            use[a][k] = mix->cell[k].per_value[a];
        for (size_t s = 0; s < n_scenarios; s++)
            value[k] += online->scenario[s].weight * online->scenario[s].value[k];
    }
    for (int a = 0; a < AXES; a++) {
        program.use[a] = use[a];
        program.budget[a] = online->budget[a] > 0 ? room_of(online, a) : INFINITY;
    }
    fluid_prices(&program);
    online->basis = program.basis;
    double sum = program.price[RATE] + program.price[COST] + program.price[HOLD];
    for (int a = 0; a < AXES; a++)
        online->scale[a] = online->budget[a] <= 0 ? 0 : sum > 0 ? program.price[a] / sum : 1;
}

static bool one_axis(const struct online *online)
{
    return (online->budget[RATE] > 0) + (online->budget[COST] > 0) + (online->budget[HOLD] > 0) ==
           1;
}

/* Sorts by insertion: from one time to the next hardly anything moves. */
static void put_in_order(struct online *online)
{
    const struct mix *mix = &online->forecast.mix;

    if (online->ordered > mix->n)
        online->ordered = 0;
    for (; online->ordered < mix->n; online->ordered++)
        online->order[online->ordered] = (uint8_t)online->ordered;
    for (size_t k = 0; k < mix->n; k++)
        online->measure[k] = in_measure(online->scale, mix->cell[k].per_value);
    for (size_t i = 1; i < mix->n; i++) {
        uint8_t cell = online->order[i];
        size_t j = i;
        for (; j > 0 && online->measure[online->order[j - 1]] > online->measure[cell]; j--)
            online->order[j] = online->order[j - 1];
        online->order[j] = cell;
    }
}

/* Adds what one scenario says: fills the room from its bottom with what is worth most, and notes
 * for each step what is earned there. */
static void online_fill(const struct online *online, const struct forecast_scenario *scenario,
                        double earned[STEPS])
{
    double step = online->room / STEPS, free = step;
    int at = 0;

    for (size_t i = 0; i < online->ordered; i++) {
        size_t cell = online->order[i];
        double measure = online->measure[cell], size = scenario->value[cell] * measure;
        if (measure <= 0)
            continue; /* takes nothing that is scarce */
        double worth = scenario->weight / measure;
        for (; size >= free; free = step) {
            earned[at] += worth * free;
            size -= free;
            if (++at == STEPS)
                return;
        }
        earned[at] += worth * size;
        free -= size;
    }
}

/* What a normal number exceeds with this chance, in deviations from its mean; not below it. */
static double deviations(double chance)
{
    return fmin(fmax(log((1 - chance) / chance) / 1.702, 0), MOST_KEPT);
}

/* How many slots each kind of call leaves free for those that are worth more a second. The last
 * of them is of use with the chance that so many of these come at once: it is kept as long as that
 * chance of what they bring is more than what the kind itself brings (Littlewood's rule). A kind
 * leaves no fewer than a better one does: more value must never turn a yes into a no. */
static void keep_slots(struct online *online)
{
    const struct forecast_recent *lately = &online->forecast.lately;
    double load = 0, value = 0, size = 0, kept = 0;
    size_t n = online->ordered;

    for (size_t i = 0; i < n; i++) {
        size_t cell = online->order[i];
        double measure = online->measure[cell];
        kept = fmax(kept, floor(sqrt(load) * deviations(size / value / measure) + 0.5));
        online->kept[i] = kept;
        online->better[i] = value;
        double value_a_s = lately->value[cell] / fmax(lately->span, 1) * 1000;
        load += value_a_s * online->forecast.mix.cell[cell].per_value[HOLD] * online->budget[HOLD];
        value += value_a_s;
        size += value_a_s * measure;
    }
    online->kept[n] = kept; /* for calls that are worse than all that came */
    online->better[n] = value;
}

static void price(struct online *online)
{
    double earned[STEPS] = {0}, use[AXES];

    online->factor = expected_factor(&online->expected);
    forecast_update(&online->forecast, online->now);
    size_t n = forecast_draw(&online->forecast, span_of(online), online->scenario);
    if (one_axis(online))
        for (int a = 0; a < AXES; a++)
            online->scale[a] = online->budget[a] > 0;
    else
        find_measure(online, n);
    for (int a = 0; a < AXES; a++)
        use[a] = room_of(online, a);
    online->room = in_measure(online->scale, use);
    assert(online->room > 0); /* there is always a price of the last bit */
    put_in_order(online);
    for (size_t s = 0; s < n; s++)
        online_fill(online, &online->scenario[s], earned);
    for (int i = 0; i < STEPS; i++)
        online->table[i + 1] = online->table[i] + earned[STEPS - 1 - i];
    online->taken = 0;
    online->since = 0;
    online->priced_at = online->now;
    online->slots_scarce = online->scale[HOLD] > 0 && earned[STEPS - 1] > 0;
    if (online->slots_scarce)
        keep_slots(online);
}

static bool is_due(const struct online *online)
{
    bool often = online->since >= EVERY_CALLS &&
                 online->now - online->priced_at >= online->window / EVERY_PART;

    bool old = online->now - online->priced_at >= online->window; /* a bucket has filled since */

    return often || old || online->forecast.seen <= FIRST_CALLS ||
           online->taken > MOVED * online->room;
}

/* What the room costs from its top down to `taken`. Beyond its end the last step goes on. */
static double online_cost_of(const struct online *online, double taken)
{
    double at = taken / online->room * STEPS;
    int step = at < STEPS - 1 ? (int)at : STEPS - 1;

    assert(step >= 0 && online->table[step] <= online->table[step + 1]);
    return online->table[step] + (at - step) * (online->table[step + 1] - online->table[step]);
}

static double slope_at(const struct online *online, double taken)
{
    double at = taken / online->room * STEPS;
    int step = at < STEPS - 1 ? (int)at : STEPS - 1;

    return (online->table[step + 1] - online->table[step]) * STEPS / online->room;
}

/* Written so that within one step no digits are lost: a call at the margin must not fail by them.
 * */
static double bid_of(const struct online *online, double size)
{
    double from = online->taken, step = online->room / STEPS;

    if ((int)fmin(from / step, STEPS - 1) == (int)fmin((from + size) / step, STEPS - 1))
        return slope_at(online, from) * size;
    return online_cost_of(online, from + size) - online_cost_of(online, from);
}

/* Whether a call leaves enough slots free for those that are worth clearly more than it: one at
 * least if they bring more than the call itself. */
static bool leaves_slots(const struct online *online, double value, double hold, double size,
                         int64_t in_flight)
{
    size_t low = 0, high = online->ordered;

    while (low < high) { /* the first kind that is not clearly better */
        size_t middle = (low + high) / 2;
        if (online->measure[online->order[middle]] * CLEARLY_BETTER * value < size)
            low = middle + 1;
        else
            high = middle;
    }
    double hold_s = hold * online->budget[HOLD];
    double kept = fmax(online->kept[low], online->better[low] * hold_s > value);
    return (double)in_flight + kept <= online->slots + ALL_BUT_NOTHING;
}

/* ---- the interface of the file ---- */

static void expect(struct online *online, const struct tg_workload *workload)
{
    double weights = 0, use[AXES];

    for (size_t i = 0; i < workload->n_types; i++)
        weights += workload->types[i].weight;
    double arrivals = workload->arrivals > 0 ? workload->arrivals : weights;
    for (size_t i = 0; i < workload->n_types && weights > 0; i++) {
        const struct tg_type *type = &workload->types[i];
        use_of(online, type->cost, type->hold_s > 0 ? type->hold_s : 0, use);
        if (has_a_chance(use))
            forecast_expect(&online->forecast, fmin(type->value, BEYOND), use,
                            arrivals * type->weight / weights / (double)online->window);
    }
}

enum tg_err online_new(const struct tg_bid_config *config, struct online **online,
                       struct tg_problem *problem)
{
    struct online *made = mem_calloc(1, sizeof *made);
    unsigned axes = 0;

    if (made == NULL)
        return problem_say(problem, TG_ERR_MEMORY, "no memory for the prices");
    made->window = config->online.window;
    made->steady = config->online.steady;
    made->budget[RATE] = config->online.rate_budget;
    made->budget[COST] = config->online.cost_budget;
    made->budget[HOLD] = config->online.conc_budget_s;
    made->slots = made->budget[HOLD] * 1000 / (double)made->window;
    made->begin = -1;
    made->factor = 1;
    guard_init(&made->guard, config->online.guard);
    for (int a = 0; a < AXES; a++)
        axes |= (unsigned)(made->budget[a] > 0) << a;
    forecast_init(&made->forecast, axes, made->window);
    expect(made, &config->workload);
    *online = made;
    return TG_OK;
}

void online_free(struct online *online)
{
    mem_free(online);
}

/* Time does not go back here. */
static void advance(struct online *online, tg_ms now)
{
    if (now > online->now)
        online->now = now;
}

bool online_worth(struct online *online, double cost, double value, double hold_s,
                  int64_t in_flight, tg_ms now)
{
    double asked[AXES], use[AXES], left[AXES];

    spin_lock(&online->lock);
    use_of(online, cost, hold_s, asked);
    use_of(online, expected_use(&online->expected, cost), hold_s, use);
    advance(online, now);
    bool anew = replenish(online, online->now);
    if (anew || online->forecast.at < 0)
        forecast_update(&online->forecast, online->now); /* what came before belongs there */
    online->since++;
    if (anew || is_due(online))
        price(online);
    double size = in_measure(online->scale, use);
    bool worth = value >= bid_of(online, size) * (1 - TOLERANCE);
    if (worth && online->slots_scarce && in_flight > 0 && use[HOLD] > 0)
        worth = leaves_slots(online, value, use[HOLD], size, in_flight);
    for (int a = 0; a < AXES; a++)
        left[a] = left_of(online, a);
    worth = guard_judge(&online->guard, value, use, asked[COST], left, worth);
    /* Only now: an answer that depends on the call's own mark on the forecast is not monotone. */
    if (has_a_chance(asked))
        forecast_count(&online->forecast, fmin(value, BEYOND), use);
    spin_unlock(&online->lock);
    return worth;
}

/* Takes from what is left; `size` of it was priced. */
static void online_take(struct online *online, const double use[AXES], double size)
{
    for (int a = 0; a < AXES; a++)
        online->left[a] -= use[a];
    online->taken = fmax(0, online->taken + size);
    assert(online->left[RATE] <= 1); /* a call is never given back */
}

void online_admitted(struct online *online, double cost, double value, double hold_s, tg_ms now)
{
    double asked[AXES], use[AXES];

    spin_lock(&online->lock);
    use_of(online, cost, hold_s, asked);
    use_of(online, expected_use(&online->expected, cost), hold_s, use);
    advance(online, now);
    if (replenish(online, online->now))
        price(online); /* judged in the window before: it is this one that pays */
    online_take(online, asked, in_measure(online->scale, use));
    online->held += asked[COST];
    guard_admitted(&online->guard, value);
    spin_unlock(&online->lock);
}

void online_refused(struct online *online, double cost, double value, double hold_s,
                    enum tg_reason reason, tg_ms now)
{
    double asked[AXES], use[AXES];

    spin_lock(&online->lock);
    use_of(online, cost, hold_s, asked);
    use_of(online, expected_use(&online->expected, cost), hold_s, use);
    advance(online, now);
    if (reason == TG_REASON_CONCURRENCY) {
        if (online->forecast.at < 0)
            forecast_update(&online->forecast, online->now);
        if (has_a_chance(asked))
            forecast_count(&online->forecast, fmin(value, BEYOND), use);
    } else if (left_of(online, RATE) >= asked[RATE] && left_of(online, COST) >= use[COST]) {
        /* Our budgets had room: a limit that we know nothing of has refused it. */
        if (has_a_chance(asked))
            forecast_discount(&online->forecast, fmin(value, BEYOND), use);
        guard_refused(&online->guard, value, use);
    }
    spin_unlock(&online->lock);
}

void online_released(struct online *online, const struct tg_spent *spent, tg_ms now)
{
    double asked[AXES], expected[AXES], used[AXES], more[AXES];

    spin_lock(&online->lock);
    use_of(online, (double)spent->cost, spent->hold_s, asked);
    use_of(online, expected_use(&online->expected, (double)spent->cost), spent->hold_s, expected);
    use_of(online, (double)spent->actual, spent->held_s, used);
    double before = expected_factor(&online->expected);
    expected_learn(&online->expected, (double)spent->cost, (double)spent->actual);
    guard_learn(&online->guard, before - expected_factor(&online->expected), online->held);
    advance(online, now);
    /* What belongs to a window that is over changes nothing in this one. */
    if (online->steady || spent->admitted_at >= online->begin) {
        for (int a = 0; a < AXES; a++) {
            more[a] = used[a] - asked[a];
            expected[a] = used[a] - expected[a];
        }
        online_take(online, more, in_measure(online->scale, expected));
        online->held = fmax(0, online->held - asked[COST]);
    }
    spin_unlock(&online->lock);
}

/* ---- what is kept over a restart ---- */

/* What was learned, in the bytes of this machine. Whatever changes the meaning of a byte in it
 * changes the version; one of another size is not read, either. */
struct online_saved {
    uint64_t version;
    uint64_t checksum; /* covers all that follows */
    tg_ms window;
    double budget[AXES];
    tg_ms now;
    uint64_t acted;
    double earned, shadow;
    struct expected expected;
    struct forecast forecast;
};

static const uint64_t SAVED_VERSION = UINT64_C(0x7467626964000001); /* "tgbid", 1 */

static uint64_t saved_checksum(const struct online_saved *saved)
{
    size_t from = offsetof(struct online_saved, window);

    return XXH3_64bits((const char *)saved + from, sizeof *saved - from);
}

size_t online_save(struct online *online, void *bytes, size_t room)
{
    struct online_saved *saved = bytes;

    spin_lock(&online->lock);
    size_t needed = online->forecast.at < 0 ? 0 : sizeof *saved;
    if (needed == 0 || room < needed) {
        spin_unlock(&online->lock);
        return needed;
    }
    memset(saved, 0, sizeof *saved);
    saved->window = online->window;
    memcpy(saved->budget, online->budget, sizeof saved->budget);
    saved->now = online->now;
    saved->acted = online->guard.acted;
    saved->earned = online->guard.earned;
    saved->shadow = online->guard.shadow;
    saved->expected = online->expected;
    memcpy(&saved->forecast, &online->forecast, sizeof saved->forecast);
    spin_unlock(&online->lock);
    saved->version = SAVED_VERSION;
    saved->checksum = saved_checksum(saved);
    return sizeof *saved;
}

static bool saved_is_ours(const struct online *online, const struct online_saved *saved, tg_ms now)
{
    return saved->version == SAVED_VERSION && saved->checksum == saved_checksum(saved) &&
           saved->window == online->window &&
           memcmp(saved->budget, online->budget, sizeof saved->budget) == 0 && saved->now >= 0 &&
           saved->now <= now && saved->earned >= 0 && saved->earned <= 1e300 &&
           saved->shadow >= 0 && saved->shadow <= 1e300 && expected_is_sane(&saved->expected) &&
           forecast_is_sane(&saved->forecast, &online->forecast, now);
}

bool online_load(struct online *online, const void *bytes, size_t n, tg_ms now)
{
    struct online_saved *saved = n == sizeof *saved ? mem_malloc(n) : NULL;

    if (saved == NULL)
        return false;
    memcpy(saved, bytes, n); /* aligned */
    spin_lock(&online->lock);
    bool ours = online->begin < 0 && saved_is_ours(online, saved, now);
    if (ours) {
        online->guard.acted = saved->acted;
        online->guard.earned = saved->earned;
        online->guard.shadow = saved->shadow;
        online->expected = saved->expected;
        memcpy(&online->forecast, &saved->forecast, sizeof online->forecast);
        advance(online, now);
        replenish(online, online->now);
        price(online);
    }
    spin_unlock(&online->lock);
    mem_free(saved);
    return ours;
}

/* ---- reading ---- */

void online_get_guard(struct online *online, struct tg_bid_guard *guard)
{
    spin_lock(&online->lock);
    *guard = (struct tg_bid_guard){
        .on = online->guard.on,
        .acted = online->guard.acted,
        .earned = online->guard.earned,
        .shadow = online->guard.shadow,
        .factor = expected_factor(&online->expected),
    };
    spin_unlock(&online->lock);
}

void online_get_duals(struct online *online, struct tg_duals *duals)
{
    double price[AXES];

    spin_lock(&online->lock);
    double slope = online->room > 0 ? slope_at(online, online->taken) : 0;
    for (int a = 0; a < AXES; a++)
        price[a] =
            online->budget[a] > 0 ? fmin(slope * online->scale[a] / online->budget[a], DBL_MAX) : 0;
    spin_unlock(&online->lock);
    *duals = (struct tg_duals){price[RATE], price[COST], price[HOLD]};
}
