/* test_forecast.c - what may still come, from what came. */
#include "lib/policy/forecast.h"

#include <math.h>
#include <string.h>

#include "check.h"
#include "draw.h"
#include "fluid_kit.h"

enum { WINDOW = 16000,
       BLOCK = WINDOW / FORECAST_PER_WINDOW,
       COST_ONLY = 2 };
enum { SCENARIOS = FORECAST_SCENARIOS + 2 };

static const double PI = 3.14159265358979323846;

/* Too large for a stack; a test has one at a time. */
static struct forecast forecast, fresh;
static struct forecast_scenario scenario[SCENARIOS];

static void count(double value, double cost)
{
    forecast_count(&forecast, value, (const double[MIX_AXES]){0, cost, 0});
}

static double total(const double value[MIX_CELLS])
{
    double sum = 0;

    for (size_t k = 0; k < forecast.mix.n; k++)
        sum += value[k];
    return sum;
}

/* What is forecast in the mean; checks what holds of every forecast. */
static double mean_of_draw(double span)
{
    size_t n = forecast_draw(&forecast, span, scenario);
    double weights = 0, mean = 0;

    assert_in_range(n, 1, SCENARIOS);
    for (size_t s = 0; s < n; s++) {
        assert_true(scenario[s].weight > 0);
        weights += scenario[s].weight;
        for (size_t k = 0; k < forecast.mix.n; k++)
            assert_true(isfinite(scenario[s].value[k]) && scenario[s].value[k] >= 0);
        mean += scenario[s].weight * total(scenario[s].value);
    }
    expect_near(weights, 1, 1e-9);
    return mean;
}

/* What came from one block of the past to another, both at their end. */
static double came(int64_t from, int64_t to)
{
    double sum = 0;

    for (size_t k = 0; k < forecast.mix.n; k++)
        sum += (double)forecast.sum[to % FORECAST_BLOCKS][k] -
               (double)forecast.sum[from % FORECAST_BLOCKS][k];
    return sum;
}

/* ---- forecasts ---- */

static void what_is_constant_is_forecast_as_constant(void **state)
{
    tg_ms now = 0;
    (void)state;

    forecast_init(&forecast, COST_ONLY, WINDOW);
    for (; now < 4 * WINDOW; now += 10) {
        forecast_update(&forecast, now);
        count(3, 0.001);
    }
    forecast_update(&forecast, now);
    for (int part = 1; part <= 8; part++) {
        double span = (double)WINDOW * part / 8, want = 3 * span / 10;
        expect_near(mean_of_draw(span), want, 0.01 * want);
        for (size_t s = 0; s < forecast_draw(&forecast, span, scenario); s++)
            expect_near(total(scenario[s].value), want, 0.02 * want);
    }
}

/* Budgets that are asked for in a window, in a wave of four windows. */
static double wave(double at)
{
    return 2 * (1 + 0.8 * sin(2 * PI * at / (4 * WINDOW)));
}

static double wave_between(double from, double span)
{
    double sum = 0;

    for (int i = 0; i < 100; i++)
        sum += wave(from + span * (i + 0.5) / 100) * span / 100 / WINDOW;
    return sum;
}

/* Sixteen kinds, so that the price that would be right rises and falls with the wave. Errors of the
 * forecast, and of the belief that it goes on as lately, over a period that comes after six. */
static void a_wave_is_found_again(void **state)
{
    double error = 0, naive = 0, span = WINDOW, per_budget = 0;
    (void)state;

    for (int kind = 0; kind < 16; kind++)
        per_budget += exp2(kind / 4.0) / 16;
    forecast_init(&forecast, COST_ONLY, WINDOW);
    for (tg_ms now = 0; now < (tg_ms)7 * 4 * WINDOW; now += 10) {
        double cost = wave((double)now) * 10 / WINDOW;
        forecast_update(&forecast, now);
        count(cost * exp2((double)(now / 10 * 5 % 16) / 4), cost);
        if (now < (tg_ms)6 * 4 * WINDOW || now % (WINDOW / 4) != 0)
            continue;
        double want = wave_between((double)now, span) * per_budget;
        double lately = total(forecast.lately.value) / forecast.lately.span * span;
        error += fabs(mean_of_draw(span) - want) / want / 16;
        naive += fabs(lately - want) / want / 16;
    }
    print_message("off by %.1f %%; to go on as lately: %.1f %%\n", 100 * error, 100 * naive);
    assert_true(error < 0.2);
    assert_true(error < naive / 2);
}

static void weights_are_1_together_whatever_came(void **state)
{
    struct draw draw = draw_stream(1, 0);
    (void)state;

    for (int run = 0; run < 20; run++) {
        tg_ms now = draw_between(&draw, 0, 1000000);
        forecast_init(&forecast, (unsigned)draw_between(&draw, 1, 7), WINDOW);
        fresh = forecast;
        if (draw_chance(&draw, 50))
            forecast_expect(&forecast, 5, (const double[]){0.001, 0.01, 0.1}, 0.01);
        forecast_update(&forecast, now);
        mean_of_draw(WINDOW); /* nothing is known of it, either */
        for (int i = 0; i < 3000; i++) {
            double size = exp(6 * draw_unit(&draw) - 6), value = exp(6 * draw_unit(&draw));
            forecast_count(&forecast, value, (const double[]){size, 0.01, size * draw_unit(&draw)});
            now += draw_chance(&draw, 1) ? 3 * WINDOW : draw_between(&draw, 0, 200);
            if (draw_chance(&draw, 30))
                forecast_update(&forecast, now);
            if (draw_chance(&draw, 5)) {
                forecast_update(&forecast, now);
                mean_of_draw(1 + draw_unit(&draw) * WINDOW);
                if (i < 100 || i % 20 == 0) /* what was learned can have been learned */
                    assert_true(forecast_is_sane(&forecast, &fresh, now));
            }
        }
    }
}

static void the_same_calls_give_the_same_forecast(void **state)
{
    static struct forecast_scenario first[SCENARIOS];
    size_t n[2];
    (void)state;

    for (int run = 0; run < 2; run++) {
        struct draw draw = draw_stream(2, 0);
        forecast_init(&forecast, COST_ONLY, WINDOW);
        for (tg_ms now = 0; now < 5 * WINDOW; now += 20) {
            forecast_update(&forecast, now);
            count(1 + draw_unit(&draw), draw_unit(&draw));
        }
        memset(scenario, 0, sizeof scenario);
        n[run] = forecast_draw(&forecast, WINDOW, scenario);
        if (run == 0)
            memcpy(first, scenario, sizeof first);
    }
    assert_int_equal(n[0], n[1]);
    assert_memory_equal(first, scenario, sizeof first);
}

/* ---- what is expected ---- */

static void what_is_expected_is_forecast_until_something_is_seen(void **state)
{
    (void)state;

    forecast_init(&forecast, COST_ONLY, WINDOW);
    forecast_expect(&forecast, 2, (const double[]){0, 0.001, 0}, 0.25);
    forecast_update(&forecast, 0);
    size_t n = forecast_draw(&forecast, WINDOW, scenario);
    assert_int_equal(n, 2);
    expect_near(total(scenario[1].value), 2 * 0.25 * WINDOW, 1e-6);
    assert_true(scenario[1].weight > 0.9);
}

/* Nor does what is worth nothing count as expected. */
static void what_is_worth_nothing_is_not_expected(void **state)
{
    (void)state;

    forecast_init(&forecast, COST_ONLY, WINDOW);
    forecast_expect(&forecast, 0, (const double[]){0, 0.001, 0}, 0.25);
    assert_int_equal(forecast.mix.n, 0);
    forecast_update(&forecast, 0);
    assert_int_equal(forecast_draw(&forecast, WINDOW, scenario), 1); /* the present alone */
    assert_true(total(scenario[0].value) == 0);
}

/* Twenty thousand dear calls are expected in a window, and a hundred cheap ones come. */
static void what_does_not_come_true_is_soon_forgotten(void **state)
{
    (void)state;

    forecast_init(&forecast, COST_ONLY, WINDOW);
    forecast_expect(&forecast, 100, (const double[]){0, 0.001, 0}, 20000.0 / WINDOW);
    for (tg_ms now = 0; now <= WINDOW / 4; now += WINDOW / 100) {
        forecast_update(&forecast, now);
        count(1, 0.1);
    }
    double got = mean_of_draw(WINDOW);
    if (!(got > 50 && got < 200))
        fail_msg("%g is forecast, where 100 come", got);
}

/* ---- what is taken back ---- */

/* What came of one kind: since the last update, in the block that runs, and lately. */
static void expect_counted(double fresh_value, double running, double lately)
{
    expect_near(total(forecast.fresh), fresh_value, 1e-9);
    expect_near(total(forecast.running), running, 1e-9);
    expect_near(total(forecast.just_now.value), lately, 1e-9);
    expect_near(total(forecast.lately.value), lately, 1e-9);
}

/* First of what is fresh, and then of all that has been counted since; never more than is there. */
static void what_was_no_call_is_taken_back_wherever_it_was_counted(void **state)
{
    static const double use[MIX_AXES] = {0, 0.01, 0};
    (void)state;

    forecast_init(&forecast, COST_ONLY, WINDOW);
    forecast_update(&forecast, 0);
    forecast_count(&forecast, 8, use);
    forecast_update(&forecast, 0); /* no time passes: nothing decays */
    forecast_count(&forecast, 8, use);
    expect_counted(8, 8, 8);
    forecast_discount(&forecast, 5, (const double[MIX_AXES]){0, 0.00625, 0});
    expect_counted(3, 8, 8);
    forecast_discount(&forecast, 8, use);
    expect_counted(0, 3, 3);
    forecast_discount(&forecast, 8, use);
    expect_counted(0, 0, 0);
    forecast_discount(&forecast, 8, (const double[MIX_AXES]){0, 7, 0}); /* a kind that never came */
    expect_counted(0, 0, 0);
    assert_int_equal(forecast.mix.n, 1);
}

/* ---- time ---- */

static void the_first_block_counts_if_it_was_seen_from_its_beginning(void **state)
{
    (void)state;

    forecast_init(&forecast, COST_ONLY, WINDOW);
    forecast_update(&forecast, BLOCK / 2);
    count(1000, 1);
    forecast_update(&forecast, BLOCK + 1);
    assert_int_equal(forecast.ended, 0);
    count(7, 1);
    forecast_update(&forecast, 2 * BLOCK);
    count(5, 1);
    forecast_update(&forecast, 3 * BLOCK);
    assert_int_equal(forecast.ended, 2);
    expect_near(came(0, 1), 5, 1e-6);
    expect_near(total((const double[MIX_CELLS]){(double)forecast.sum[0][0],
                                                (double)forecast.sum[0][1]}),
                7, 1e-6);

    forecast_init(&forecast, COST_ONLY, WINDOW);
    forecast_update(&forecast, 5 * BLOCK);
    count(1000, 1);
    forecast_update(&forecast, 6 * BLOCK);
    assert_int_equal(forecast.ended, 1);
}

/* After a silence as long as all that is remembered nothing is expected, and what then comes is
 * learned as if it were new. */
static void a_long_silence_is_a_forecast_too(void **state)
{
    static const tg_ms silences[] = {(tg_ms)FORECAST_BLOCKS * BLOCK, (tg_ms)1000 * WINDOW,
                                     INT64_C(10) * 365 * 86400000, INT64_C(1) << 52};
    (void)state;

    for (size_t i = 0; i < COUNT_OF(silences); i++) {
        tg_ms now = 0;
        forecast_init(&forecast, COST_ONLY, WINDOW);
        for (; now < 3 * WINDOW; now += 10) {
            forecast_update(&forecast, now);
            count(1, 0.01);
        }
        now += silences[i];
        forecast_update(&forecast, now);
        assert_true(mean_of_draw(WINDOW) < 0.01 * WINDOW / 10);
        for (tg_ms until = now + 2 * WINDOW; now < until; now += 10) {
            forecast_update(&forecast, now);
            count(1, 0.01);
        }
        expect_near(mean_of_draw(WINDOW), WINDOW / 10.0, 0.25 * WINDOW / 10);
    }
}

static void windows_of_a_moment_and_of_ages_both_work(void **state)
{
    static const tg_ms windows[] = {1, 2, 15, 17, 86400000, TG_NUMBER_MAX};
    (void)state;

    for (size_t i = 0; i < COUNT_OF(windows); i++) {
        tg_ms now = 1700000000000;
        forecast_init(&forecast, COST_ONLY, windows[i]);
        for (int n = 0; n < 2000; n++, now += 1 + windows[i] / 4000) {
            forecast_update(&forecast, now);
            count(1, 0.01);
            if (n % 16 == 0)
                mean_of_draw((double)windows[i]);
        }
    }
}

/* Sums grow for ever, and are floats: after thousands of blocks they must still tell one block. */
static void sums_stay_right_however_long_it_runs(void **state)
{
    enum { BLOCKS = 20000 };
    static double exact[BLOCKS];
    struct draw draw = draw_stream(3, 0);
    (void)state;

    forecast_init(&forecast, COST_ONLY, WINDOW);
    for (int block = 0; block < BLOCKS; block++) {
        forecast_update(&forecast, (tg_ms)block * BLOCK);
        for (int i = 0; i < 10; i++) {
            double value = 100 * (1 + draw_unit(&draw));
            count(value, value * (double)(1 << i % 3));
            exact[block] += value;
        }
    }
    forecast_update(&forecast, (tg_ms)BLOCKS * BLOCK);
    assert_int_equal(forecast.ended, BLOCKS);
    double sum = 0;
    for (int64_t block = BLOCKS - FORECAST_BLOCKS + 1; block < BLOCKS; block++) {
        expect_near(came(block - 1, block), exact[block], 1e-3 * exact[block]);
        sum += exact[block];
        expect_near(came(BLOCKS - FORECAST_BLOCKS, block), sum, 1e-3 * sum);
    }
}

/* ---- kinds ---- */

static void when_kinds_are_merged_no_value_is_lost(void **state)
{
    struct draw draw = draw_stream(4, 0);
    double sum = 0, of_first = 0;
    (void)state;

    forecast_init(&forecast, COST_ONLY, WINDOW);
    for (int block = 0; block < 100; block++) {
        forecast_update(&forecast, (tg_ms)block * BLOCK);
        for (int i = 0; i < 20; i++) {
            double value = exp(10 * draw_unit(&draw)), cost = exp(20 * draw_unit(&draw) - 10);
            count(value, cost);
            sum += value;
        }
        if (block == 0)
            of_first = sum;
    }
    forecast_update(&forecast, (tg_ms)100 * BLOCK);
    assert_true(forecast.mix.dropped > 0);
    expect_near(came(0, 99), sum - of_first, 1e-3 * sum);
    double lately = total(forecast.lately.value), just_now = total(forecast.just_now.value);
    assert_true(lately > 0 && lately < sum && just_now > 0 && just_now < lately);
}

static bool is_known(double value, double cost)
{
    for (size_t k = 0; k < forecast.mix.n; k++)
        if (fabs(forecast.mix.cell[k].per_value[1] * value / cost - 1) < 1e-6)
            return true;
    return false;
}

/* A kind of which nothing is left in the past makes place for others, and one of which something
 * is left does not. */
static void what_is_not_in_the_past_any_more_is_forgotten(void **state)
{
    int64_t block = 0;
    (void)state;

    forecast_init(&forecast, COST_ONLY, WINDOW);
    forecast_update(&forecast, 0);
    count(1, 1e6);
    for (; block < FORECAST_BLOCKS + 2; block++) {
        forecast_update(&forecast, block * BLOCK);
        count(1, 1e-6);
        if (block == 3)
            count(1, 1e5);
    }
    for (int i = 0; i < 80; i++) {
        forecast_update(&forecast, block * BLOCK);
        count(1, 1e-5 * exp2(0.25 * i));
        if (i == 2)
            assert_true(is_known(1, 1e6)); /* there was room enough */
    }
    assert_false(is_known(1, 1e6));
    assert_true(is_known(1, 1e5));
    assert_true(is_known(1, 1e-6));
}

static void a_call_of_no_value_is_seen_and_is_no_kind(void **state)
{
    (void)state;

    forecast_init(&forecast, COST_ONLY, WINDOW);
    for (tg_ms now = 0; now < 3 * WINDOW; now += 100) {
        forecast_update(&forecast, now);
        count(0, 1);
    }
    assert_int_equal(forecast.mix.n, 0);
    assert_true(forecast.seen == 3 * WINDOW / 100);
    assert_true(mean_of_draw(WINDOW) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_constant_is_forecast_as_constant),
        cmocka_unit_test(a_wave_is_found_again),
        cmocka_unit_test(weights_are_1_together_whatever_came),
        cmocka_unit_test(the_same_calls_give_the_same_forecast),
        cmocka_unit_test(what_is_expected_is_forecast_until_something_is_seen),
        cmocka_unit_test(what_is_worth_nothing_is_not_expected),
        cmocka_unit_test(what_does_not_come_true_is_soon_forgotten),
        cmocka_unit_test(what_was_no_call_is_taken_back_wherever_it_was_counted),
        cmocka_unit_test(the_first_block_counts_if_it_was_seen_from_its_beginning),
        cmocka_unit_test(a_long_silence_is_a_forecast_too),
        cmocka_unit_test(windows_of_a_moment_and_of_ages_both_work),
        cmocka_unit_test(sums_stay_right_however_long_it_runs),
        cmocka_unit_test(when_kinds_are_merged_no_value_is_lost),
        cmocka_unit_test(what_is_not_in_the_past_any_more_is_forgotten),
        cmocka_unit_test(a_call_of_no_value_is_seen_and_is_no_kind),
    };
    return cmocka_run_group_tests_name("forecast", tests, NULL, NULL);
}
