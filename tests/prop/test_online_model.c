/* test_online_model.c - the prices of one scarce budget, held against their definition.
 *
 * A call is worth V(left) - V(left - use), V the mean over the scenarios of what could be earned by
 * who knew them. The model says so for each call anew: it asks the same forecast (test_forecast.c
 * knows that), and fills the budget with the kinds that are worth most, up to one amount and up to
 * another. It knows no sums that go on from call to call but what is left, held and taken.
 */
#include <math.h>
#include <string.h>

#include "draw.h"
#include "lib/policy/expected.h"
#include "lib/policy/fluid.h"
#include "lib/policy/forecast.h"
#include "lib/policy/guard.h"
#include "lib/policy/online.h"
#include "walk.h"

enum { STEPS = 64, LIVES = 120, CALLS = 600, RUNNING = 32 };

static uint64_t seed;

struct running {
    tg_ms admitted_at;
    int64_t cost;
};

struct life {
    struct draw draw;
    struct online *online;
    int axis; /* the scarce one: FLUID_RATE or FLUID_COST */
    double budget;
    tg_ms window, now;
    bool steady;

    tg_ms begin, filled_at, priced_at;
    double left, held, factor, taken, room;
    int64_t since;
    double steps[STEPS + 1]; /* what the first i / STEPS of the room would cost */
    struct expected expected;
    struct guard guard;
    struct forecast forecast;
    struct forecast_scenario scenarios[FORECAST_SCENARIOS + 2];

    struct running running[RUNNING];
    size_t n_running;
    long cases, worth;
};

#define CASE(life, truth)                                                                          \
    do {                                                                                           \
        (life)->cases++;                                                                           \
        if (!(truth))                                                                              \
            fail_msg("at %lld: not %s", (long long)(life)->now, #truth);                           \
    } while (0)

/* ---- the budget ---- */

static double part_of(const struct life *life, double cost)
{
    return (life->axis == FLUID_COST ? cost : 1) / life->budget;
}

/* What the calls in flight do not use of what they have asked for comes back. */
static double left_of(const struct life *life)
{
    return life->left + life->held * (1 - life->factor);
}

static bool replenish(struct life *life)
{
    bool first = life->begin < 0;
    double part = first ? 1 : (double)(life->now - life->filled_at) / (double)life->window;
    bool anew = !life->steady && (first || life->now - life->begin >= life->window);

    if (life->steady) {
        life->left = fmin(1, life->left + part);
        life->begin = life->now;
    } else if (anew) {
        life->left = 1;
        life->held = 0;
        life->begin = life->now / life->window * life->window;
    }
    life->filled_at = life->now;
    guard_replenish(&life->guard, part, life->steady, anew);
    return anew;
}

/* To the end of the window; a bucket's own is as long as it takes to fill what is free. */
static double span_of(const struct life *life)
{
    if (!life->steady)
        return (double)(life->begin + life->window - life->now);
    return (double)life->window * fmin(fmax(1 - left_of(life), 1.0 / 64), 1);
}

/* ---- prices ---- */

/* The most that can be earned in a scenario with so much of the budget: by what is worth most for
 * what it takes, which stands first in `order`. */
static double most_earned(const struct life *life, const struct forecast_scenario *scenario,
                          const size_t *order, size_t n, double room)
{
    double sum = 0;

    for (size_t i = 0; i < n && room > 0; i++) {
        double each = life->forecast.mix.cell[order[i]].per_value[life->axis];
        double value = fmin(scenario->value[order[i]], room / each);
        sum += value;
        room -= value * each;
    }
    return sum;
}

/* The kinds that take something, those first that take least for their value. */
static size_t order_kinds(const struct life *life, size_t order[MIX_CELLS])
{
    const struct mix *mix = &life->forecast.mix;
    bool is_in[MIX_CELLS] = {false};
    size_t n = 0;

    for (;; n++) {
        size_t best = mix->n;
        for (size_t k = 0; k < mix->n; k++) {
            double each = mix->cell[k].per_value[life->axis];
            if (!is_in[k] && each > 0 &&
                (best == mix->n || each < mix->cell[best].per_value[life->axis]))
                best = k;
        }
        if (best == mix->n)
            return n;
        is_in[best] = true;
        order[n] = best;
    }
}

static void price(struct life *life)
{
    double earned[STEPS + 1];
    size_t order[MIX_CELLS];

    life->factor = expected_factor(&life->expected);
    forecast_update(&life->forecast, life->now);
    size_t n = forecast_draw(&life->forecast, span_of(life), life->scenarios);
    size_t n_kinds = order_kinds(life, order);
    life->room = fmax(left_of(life), 1e-9);
    for (int i = 0; i <= STEPS; i++) {
        earned[i] = 0;
        for (size_t s = 0; s < n; s++)
            earned[i] += life->scenarios[s].weight * most_earned(life, &life->scenarios[s], order,
                                                                 n_kinds, life->room * i / STEPS);
    }
    for (int i = 0; i <= STEPS; i++)
        life->steps[i] = earned[STEPS] - earned[STEPS - i];
    life->taken = 0;
    life->since = 0;
    life->priced_at = life->now;
}

static bool is_due(const struct life *life)
{
    tg_ms passed = life->now - life->priced_at;

    return (life->since >= 16 && passed >= life->window / 512) || passed >= life->window ||
           life->forecast.seen <= 64 || life->taken > life->room / 16;
}

static int step_at(const struct life *life, double taken)
{
    double at = taken / life->room * STEPS;

    return at >= STEPS - 1 ? STEPS - 1 : (int)at;
}

/* What the room costs from its top down to `taken`: straight from step to step, and beyond its end
 * as in the last. */
static double cost_of(const struct life *life, double taken)
{
    int step = step_at(life, taken);
    double part = taken / life->room * STEPS - step;

    return life->steps[step] + part * (life->steps[step + 1] - life->steps[step]);
}

/* ---- calls ---- */

static void use_of(const struct life *life, double cost, double use[MIX_AXES])
{
    memset(use, 0, MIX_AXES * sizeof *use);
    use[life->axis] = part_of(life, cost);
}

/* A call of more than a window's cost is none to wait for. */
static bool has_a_chance(const struct life *life, double cost)
{
    return life->axis != FLUID_COST || part_of(life, cost) <= 1;
}

/* What the policy is to say; false and `*sure` false: that is a matter of rounding. */
static bool judge(struct life *life, int64_t cost, double value, bool *sure)
{
    double use[MIX_AXES], left[MIX_AXES] = {1, 1, 1};

    use_of(life, expected_use(&life->expected, (double)cost), use);
    bool anew = replenish(life);
    if (anew || life->forecast.at < 0)
        forecast_update(&life->forecast, life->now);
    life->since++;
    if (anew || is_due(life))
        price(life);
    double size = use[life->axis];
    double bid = cost_of(life, life->taken + size) - cost_of(life, life->taken);
    *sure = fabs(value - bid * 0.99) > 1e-7 * (bid + life->steps[STEPS] / STEPS);
    bool worth = value >= bid * 0.99;
    left[life->axis] = left_of(life);
    worth = guard_judge(&life->guard, value, use,
                        life->axis == FLUID_COST ? part_of(life, (double)cost) : 0, left, worth);
    if (has_a_chance(life, (double)cost))
        forecast_count(&life->forecast, value, use);
    return worth;
}

static void take(struct life *life, double asked, double size)
{
    life->left -= asked;
    life->taken = fmax(0, life->taken + size);
}

static void admit(struct life *life, int64_t cost, double value)
{
    double size = part_of(life, expected_use(&life->expected, (double)cost));

    online_admitted(life->online, (double)cost, value, 0, life->now);
    if (replenish(life))
        price(life);
    take(life, part_of(life, (double)cost), size);
    if (life->axis == FLUID_COST)
        life->held += part_of(life, (double)cost);
    guard_admitted(&life->guard, value);
    life->running[life->n_running++] = (struct running){life->now, cost};
}

static void refuse(struct life *life, int64_t cost, double value, enum tg_reason reason)
{
    double use[MIX_AXES], asked = part_of(life, (double)cost);

    use_of(life, expected_use(&life->expected, (double)cost), use);
    online_refused(life->online, (double)cost, value, 0, reason, life->now);
    if (reason == TG_REASON_CONCURRENCY) {
        if (life->forecast.at < 0)
            forecast_update(&life->forecast, life->now);
        if (has_a_chance(life, (double)cost))
            forecast_count(&life->forecast, value, use);
    } else if (left_of(life) >= (life->axis == FLUID_COST ? use[FLUID_COST] : asked)) {
        if (has_a_chance(life, (double)cost))
            forecast_discount(&life->forecast, value, use);
        guard_refused(&life->guard, value, use);
    }
}

static void release(struct life *life, size_t i)
{
    struct running call = life->running[i];
    int64_t actual = draw_chance(&life->draw, 10) ? 0 : draw_between(&life->draw, 1, call.cost * 2);
    const struct tg_spent spent = {call.admitted_at, call.cost, actual, 0, 0};
    double before = expected_factor(&life->expected);
    double size = part_of(life, expected_use(&life->expected, (double)call.cost));

    life->running[i] = life->running[--life->n_running];
    online_released(life->online, &spent, life->now);
    expected_learn(&life->expected, (double)call.cost, (double)actual);
    guard_learn(&life->guard, before - expected_factor(&life->expected), life->held);
    if (!life->steady && call.admitted_at < life->begin)
        return;
    double used = part_of(life, (double)actual);
    take(life, used - part_of(life, (double)call.cost), used - size);
    if (life->axis == FLUID_COST)
        life->held = fmax(0, life->held - part_of(life, (double)call.cost));
}

/* ---- lives ---- */

static void check_prices(struct life *life)
{
    struct tg_duals duals;

    online_get_duals(life->online, &duals);
    if (life->room <= 0)
        return;
    int step = step_at(life, life->taken);
    double slope = (life->steps[step + 1] - life->steps[step]) * STEPS / life->room;
    double want = slope / life->budget, got = life->axis == FLUID_COST ? duals.cost : duals.rate;
    double none = 1e-7 * (want + life->steps[STEPS] / life->room / life->budget);
    CASE(life, fabs(got - want) <= none);
    CASE(life, (life->axis == FLUID_COST ? duals.rate : duals.cost) <= 0);
    CASE(life, duals.concurrency <= 0);
}

static void life_open(struct life *life, uint64_t number)
{
    static const tg_ms windows[] = {1000, 60000, 511, 5120};
    struct tg_bid_config config;

    memset(life, 0, sizeof *life);
    life->draw = draw_stream(seed, number);
    life->axis = number % 3 == 0 ? FLUID_RATE : FLUID_COST;
    life->steady = number % 2 == 0;
    life->window = windows[number % COUNT_OF(windows)];
    life->budget = life->axis == FLUID_COST ? 20000 : 100;
    life->now = draw_between(&life->draw, 0, 3 * life->window);
    life->begin = -1;
    life->factor = 1;
    tg_bid_config_init(&config);
    config.online.window = life->window;
    config.online.steady = life->steady;
    config.online.guard = draw_chance(&life->draw, 50);
    if (life->axis == FLUID_COST)
        config.online.cost_budget = life->budget;
    else
        config.online.rate_budget = life->budget;
    config.workload.n_types = 0;
    guard_init(&life->guard, config.online.guard);
    forecast_init(&life->forecast, 1u << life->axis, life->window);
    assert_int_equal(online_new(&config, &life->online, NULL), TG_OK);
}

/* False: the call was at the margin, and who is right is a matter of rounding. */
static bool one_call(struct life *life)
{
    static const double values[] = {1, 2, 5, 20};
    struct draw *draw = &life->draw;
    int64_t cost =
        draw_chance(draw, 1) ? draw_between(draw, 15000, 30000) : draw_between(draw, 1, 8) * 50;
    double value = (double)cost * values[draw_between(draw, 0, 3)] * (1 + 0.1 * draw_unit(draw));
    bool sure;

    if (draw_chance(draw, 5)) {
        refuse(life, cost, value, TG_REASON_CONCURRENCY);
        return true;
    }
    bool want = judge(life, cost, value, &sure);
    bool worth = online_worth(life->online, (double)cost, value, 0, 0, life->now);
    if (!sure)
        return false;
    CASE(life, worth == want);
    life->worth += worth;
    if (!worth)
        return true;
    if (draw_chance(draw, 10) || life->n_running == RUNNING)
        refuse(life, cost, value, draw_chance(draw, 50) ? TG_REASON_COST : TG_REASON_RATE);
    else
        admit(life, cost, value);
    return true;
}

static void prices_are_what_their_definition_says(void **state)
{
    static struct life life;
    long cases = 0, worth = 0;
    (void)state;

    for (uint64_t number = 0; number < LIVES; number++) {
        life_open(&life, number);
        for (int i = 0; i < CALLS; i++) {
            tg_ms most = draw_chance(&life.draw, 1) ? 2 * life.window : life.window / 100;
            life.now += draw_chance(&life.draw, 50) ? draw_between(&life.draw, 0, most) : 0;
            if (!one_call(&life))
                break;
            if (life.n_running > 0 && draw_chance(&life.draw, 50))
                release(&life, (size_t)draw_between(&life.draw, 0, (int64_t)life.n_running - 1));
            check_prices(&life);
        }
        online_free(life.online);
        cases += life.cases;
        worth += life.worth;
    }
    print_message("%ld of %d were worth it\n", worth, LIVES * CALLS);
    assert_in_range(worth, LIVES * CALLS / 10, LIVES * CALLS * 9 / 10);
    cases_report("prices are what their definition says", cases);
}

/* ---- what is expected ---- */

/* How many arrivals the weights of types are for may be said apart: then their sum says nothing,
 * and small weights and large ones are the same expectation. */
static void weights_are_shares_of_the_arrivals(void **state)
{
    static const double scales[] = {1, 1.0 / 1024, 4096};
    struct tg_duals want = {0}, got;
    (void)state;

    for (size_t i = 0; i < COUNT_OF(scales); i++) {
        const struct tg_type types[] = {
            {.cost = 10, .value = 20, .weight = 0.25 * scales[i], .hold_s = TG_NO_HOLD},
            {.cost = 10, .value = 5, .weight = 0.5 * scales[i], .hold_s = TG_NO_HOLD},
            {.cost = 5000, .value = 1e6, .weight = 0.25 * scales[i], .hold_s = TG_NO_HOLD}};
        struct tg_bid_config config;
        struct online *online;
        tg_bid_config_init(&config);
        config.online.cost_budget = 1000; /* a call of the third will never be served */
        config.workload.types = types;
        config.workload.n_types = COUNT_OF(types);
        config.workload.arrivals = 400;
        assert_int_equal(online_new(&config, &online, NULL), TG_OK);
        (void)online_worth(online, 10, 20, 0, 0, 0);
        online_get_duals(online, &got);
        want = i == 0 ? got : want;
        assert_true(got.cost >= want.cost && got.cost <= want.cost);
        assert_true(got.cost > 0.5 && got.cost < 2.1); /* a hundred of 20 fill the budget */
        online_free(online);
    }
}

/* ---- units ---- */

static struct online *scaled(struct tg_bid_config config, double cost_unit)
{
    struct online *made = NULL;

    config.online.cost_budget *= cost_unit;
    assert_int_equal(online_new(&config, &made, NULL), TG_OK);
    return made;
}

/* Two policies are told of the same calls, whose costs the second counts in another unit, a small
 * one or a large one: what is worth it to one is worth it to the other. */
static void verdicts_do_not_depend_on_the_unit_of_cost(void **state)
{
    static const int powers[] = {40, -40, 10, -10, 3};
    long cases = 0, worth = 0;
    (void)state;

    for (uint64_t life = 0; life < 30; life++) {
        int power = powers[life % COUNT_OF(powers)];
        struct draw draw = draw_stream(seed, 1000 + life);
        struct tg_bid_config config;
        tg_ms now = 0;
        tg_bid_config_init(&config);
        config.online.window = 1000;
        config.online.steady = life % 2 == 0;
        config.online.cost_budget = life % 3 == 0 ? 0.75 : 20000;
        config.online.rate_budget = life % 7 == 0 ? 0 : 100;
        config.online.conc_budget_s = life % 4 == 0 ? 20 : 0;
        double unit = config.online.cost_budget / 20000;
        struct online *one = scaled(config, 1), *other = scaled(config, ldexp(1, power));
        for (int i = 0; i < 600; i++, cases++) {
            double cost = unit * 50 * (double)draw_between(&draw, 1, 8), hold = draw_unit(&draw);
            double value = cost / unit * exp(3 * draw_unit(&draw));
            double there = ldexp(cost, power);
            now += draw_between(&draw, 0, 20);
            bool want = online_worth(one, cost, value, hold, 3, now);
            assert_int_equal(online_worth(other, there, value, hold, 3, now), want);
            worth += want;
            if (!want)
                continue;
            online_admitted(one, cost, value, hold, now);
            online_admitted(other, there, value, hold, now);
        }
        online_free(one);
        online_free(other);
    }
    print_message("%ld of %ld were worth it\n", worth, cases);
    assert_in_range(worth, cases / 10, cases * 9 / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prices_are_what_their_definition_says),
        cmocka_unit_test(weights_are_shares_of_the_arrivals),
        cmocka_unit_test(verdicts_do_not_depend_on_the_unit_of_cost),
    };

    seed = draw_seed("test_online_model");
    return cmocka_run_group_tests_name("online model", tests, NULL, NULL);
}
