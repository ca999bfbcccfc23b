/* test_vegas.c - vegas: the step, the window, the baseline and the probe that measures it. */
#include <math.h>

#include "check.h"
#include "lib/concurrency/laws.h"

struct setup {
    int64_t initial, min, max;
    double min_utilisation;
};

static struct law vegas_of(struct setup setup, uint64_t seed)
{
    struct tg_law_config config;
    struct law law;

    tg_law_config_init(&config);
    config.initial = setup.initial;
    config.min = setup.min;
    config.max = setup.max;
    config.vegas.min_utilisation = setup.min_utilisation;
    assert_int_equal(law_init(&law, &config, seed, NULL), TG_OK);
    return law;
}

static void feed(struct law *law, tg_ms now, double ms, int64_t in_flight, bool dropped)
{
    struct law_sample sample = {now, ms, ms, in_flight, in_flight, dropped, false};

    law_finished(law, &sample);
}

/* A window of a hundred equal samples, and its end. The first event says when time begins. */
static void window_of(struct law *law, tg_ms from, double ms, int64_t in_flight)
{
    law_tick(law, from);
    for (int i = 0; i < 100; i++)
        feed(law, from + i, ms, in_flight, false);
    law_tick(law, from + 1000);
}

static void know_baseline(struct law *law, double ms)
{
    law->state.vegas.baseline = ms;
    law->state.vegas.firm = true;
}

/* ---- the step ---- */

static const struct setup unguarded_100 = {100, 8, 1024, 0};

static void few_waiting_raise_the_limit(void **state)
{
    struct law law = vegas_of(unguarded_100, 1);
    (void)state;

    know_baseline(&law, 5);
    window_of(&law, 0, 5, 10);
    assert_int_equal(law_limit(&law), 101);
}

static void many_waiting_lower_the_limit(void **state)
{
    struct law law = vegas_of(unguarded_100, 1);
    (void)state;

    know_baseline(&law, 5);
    window_of(&law, 0, 50, 100);
    assert_int_equal(law_limit(&law), 99);
}

static void the_limit_stays_at_its_minimum(void **state)
{
    struct law law = vegas_of((struct setup){9, 8, 1024, 0}, 1);
    (void)state;

    know_baseline(&law, 1);
    window_of(&law, 0, 100, 100);
    assert_int_equal(law_limit(&law), 8);
    window_of(&law, 1000, 100, 100);
    assert_int_equal(law_limit(&law), 8);
}

static void the_limit_stays_at_its_maximum(void **state)
{
    struct law law = vegas_of((struct setup){99, 8, 100, 0}, 1);
    (void)state;

    window_of(&law, 0, 5, 10);
    window_of(&law, 1000, 5, 10);
    assert_int_equal(law_limit(&law), 100);
}

/* waiting = in flight * (1 - baseline / mean); from alpha 2 to beta 8 the limit rests. */
static void a_step_is_one_or_none(void **state)
{
    static const struct {
        int64_t in_flight;
        double baseline, mean;
        int64_t step;
    } rows[] = {
        {50, 5, 5, 1},
        {178, 5, 50, -1},
        {177, 5, 45, -1},
        {64, 5, 8, -1},
        {45, 5, 6, 0},
        {100, 98, 100, 0},
        {100, 99, 100, 1},
        {100, 92, 100, 0},
        {100, 91, 100, -1},
        {16, 50, 100, 0},
        {17, 50, 100, -1},
        {4, 50, 100, 0},
        {3, 50, 100, 1},
        {1, 1, 1000, 1},
        {1000, 1, 100000, -1},
    };
    (void)state;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct law law = vegas_of(unguarded_100, 1);
        know_baseline(&law, rows[i].baseline);
        window_of(&law, 0, rows[i].mean, rows[i].in_flight);
        if (law_limit(&law) != 100 + rows[i].step)
            fail_msg("row %zu: %lld", i, (long long)law_limit(&law));
    }
}

static void three_hundred_times_up_and_down_end_where_they_began(void **state)
{
    struct law law = vegas_of(unguarded_100, 1);
    (void)state;

    for (tg_ms cycle = 0; cycle < 300; cycle++) {
        know_baseline(&law, 5);
        window_of(&law, cycle * 2000, 5, 10);
        assert_int_equal(law_limit(&law), 101);
        window_of(&law, cycle * 2000 + 1000, 50, 100);
        assert_int_equal(law_limit(&law), 100);
    }
}

static void growth_wants_use(void **state)
{
    struct law law = vegas_of((struct setup){100, 8, 1024, 0.5}, 1);
    (void)state;

    window_of(&law, 0, 5, 49);
    assert_int_equal(law_limit(&law), 100);
    window_of(&law, 1000, 5, 50);
    assert_int_equal(law_limit(&law), 101);
    window_of(&law, 2000, 5, 50); /* less than half of 101 */
    assert_int_equal(law_limit(&law), 101);
    law_started(&law, 3001, 51); /* a peak is a peak, at whatever end of a call */
    window_of(&law, 3002, 5, 1);
    assert_int_equal(law_limit(&law), 102);
}

static void dropped_calls_are_overload(void **state)
{
    static const struct {
        int good, dropped;
        int64_t want;
    } rows[] = {{0, 1, 99}, {99, 1, 99}, {100, 100, 99}, {399, 1, 101}};
    (void)state;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct law law = vegas_of(unguarded_100, 1);
        law_tick(&law, 0);
        for (int k = 0; k < rows[i].good; k++)
            feed(&law, k, 5, 10, false);
        for (int k = 0; k < rows[i].dropped; k++)
            feed(&law, 500, 1, 10, true);
        law_tick(&law, 1000);
        assert_int_equal(law_limit(&law), rows[i].want);
    }
}

/* ---- noise ---- */

/* A window of a hundred samples, half of them `spread` above the mean and half below: the standard
 * error is a tenth of the spread. */
static void uneven_window(struct law *law, tg_ms from, double mean, double spread)
{
    law_tick(law, from);
    for (int i = 0; i < 100; i++)
        feed(law, from + i, i % 2 == 0 ? mean + spread : mean - spread, 100, false);
    law_tick(law, from + 1000);
}

/* A tenth of a hundred calls seem to wait. Half an error of 5 % leaves 7.75 of them, which is no
 * step; of a second window like it the error is less, and that leaves 8.4. */
static void windows_that_tell_little_count_together(void **state)
{
    struct law law = vegas_of(unguarded_100, 1);
    (void)state;

    know_baseline(&law, 90);
    uneven_window(&law, 0, 100, 45);
    assert_int_equal(law_limit(&law), 100);
    uneven_window(&law, 1000, 100, 45);
    assert_int_equal(law_limit(&law), 99);
    assert_int_equal(law.state.vegas.evidence.n, 0);
    uneven_window(&law, 2000, 100, 45);
    assert_int_equal(law_limit(&law), 99);
}

static void the_error_of_the_baseline_is_no_queue(void **state)
{
    struct law law = vegas_of(unguarded_100, 1);
    (void)state;

    know_baseline(&law, 90);
    law.state.vegas.error = 6;
    window_of(&law, 0, 100, 100);
    assert_int_equal(law_limit(&law), 100);
}

/* Five wait: between alpha and beta. */
static void evidence_is_forgotten_in_time(void **state)
{
    struct law law = vegas_of(unguarded_100, 1);
    (void)state;

    know_baseline(&law, 95);
    for (tg_ms i = 0; i < 7; i++) {
        window_of(&law, i * 1000, 100, 100);
        assert_int_equal(law.state.vegas.evidence.n, 100 * (i + 1));
    }
    window_of(&law, 7000, 100, 100);
    assert_int_equal(law.state.vegas.evidence.n, 0);

    window_of(&law, 8000, 100, 100);
    assert_int_equal(law.state.vegas.evidence.n, 100);
    law_tick(&law, 10000); /* an empty window */
    assert_int_equal(law.state.vegas.evidence.n, 0);
    assert_int_equal(law_limit(&law), 100);
}

/* ---- the window ---- */

static void a_step_comes_with_the_first_event_at_or_after_the_end(void **state)
{
    struct law law = vegas_of(unguarded_100, 1);
    (void)state;

    feed(&law, 5000, 5, 10, false); /* time begins here */
    feed(&law, 5999, 5, 10, false);
    law_tick(&law, 5999);
    assert_int_equal(law_limit(&law), 100);
    feed(&law, 6000, 5, 10, false);
    assert_int_equal(law_limit(&law), 101);
    law_rejected(&law, 6999);
    assert_int_equal(law_limit(&law), 101);
    law_rejected(&law, 9000);
    assert_int_equal(law_limit(&law), 102);
    law_tick(&law, 9999); /* the window before that one was empty, this one began at 9000 */
    law_tick(&law, 10000);
    law_started(&law, 20000, 1);
    assert_int_equal(law_limit(&law), 102);
}

static void a_clock_that_steps_back_stops_nothing(void **state)
{
    struct law law = vegas_of(unguarded_100, 1);
    (void)state;

    window_of(&law, 1000000, 5, 10);
    window_of(&law, 5000, 5, 10);
    window_of(&law, 6000, 5, 10);
    assert_int_equal(law_limit(&law), 103);
}

static void a_call_of_no_length_is_no_trap(void **state)
{
    struct law law = vegas_of(unguarded_100, 1);
    (void)state;

    window_of(&law, 0, 0, 10);
    assert_int_equal(law_limit(&law), 101);
    assert_true(law.state.vegas.baseline > 0);
    window_of(&law, 1000, 5, 100);
    assert_int_equal(law_limit(&law), 100);
}

/* ---- the baseline ---- */

static void the_baseline_is_the_lowest_mean(void **state)
{
    static const double means[] = {50, 30, 40, 20, 60}, lowest[] = {50, 30, 30, 20, 20};
    struct law law = vegas_of(unguarded_100, 1);
    (void)state;

    for (size_t i = 0; i < COUNT_OF(means); i++) {
        window_of(&law, (tg_ms)i * 1000, means[i], 10);
        assert_true(fabs(law.state.vegas.baseline - lowest[i]) < 1e-9);
    }
}

/* Until there are samples enough, the lowest mean so far; then what they all say. */
static void few_samples_make_no_firm_baseline(void **state)
{
    struct law law = vegas_of(unguarded_100, 1);
    (void)state;

    law_tick(&law, 0);
    for (int i = 0; i < 40; i++)
        feed(&law, 1, 2, 10, false);
    law_tick(&law, 1000);
    assert_false(law.state.vegas.firm);
    assert_true(fabs(law.state.vegas.baseline - 2) < 1e-9);
    for (int i = 0; i < 60; i++)
        feed(&law, 1001, 2, 10, false);
    law_tick(&law, 2000);
    assert_true(law.state.vegas.firm);
    assert_true(fabs(law.state.vegas.baseline - 2) < 1e-9);
}

/* ---- the probe ---- */

enum { LONG_ENOUGH = 67000 }; /* a baseline holds for 60 s, give or take a tenth */

/* A law that has learned 100 from calls of 10 ms and whose baseline has expired. */
static struct law expired(uint64_t seed)
{
    struct law law = vegas_of((struct setup){100, 8, 1024, 0.5}, seed);

    window_of(&law, 0, 10, 20);
    law_tick(&law, LONG_ENOUGH);
    assert_int_equal(law_limit(&law), 100);
    assert_int_equal(law.state.vegas.phase, VEGAS_STEADY);
    return law;
}

static void a_probe_drains_measures_and_ends(void **state)
{
    struct law law = expired(1);
    tg_ms t = LONG_ENOUGH;
    (void)state;

    law_started(&law, t, 80);
    assert_int_equal(law_limit(&law), 50);
    assert_int_equal(law.state.vegas.phase, VEGAS_DRAINING);
    for (int64_t in_flight = 80; in_flight > 52; in_flight--)
        feed(&law, t + 10, 999, in_flight, false);
    assert_int_equal(law.state.vegas.phase, VEGAS_DRAINING);
    feed(&law, t + 10, 999, 51, false);
    assert_int_equal(law.state.vegas.phase, VEGAS_MEASURING);

    for (int i = 0; i < 20; i++)
        law_started(&law, t + 20, 50);
    feed(&law, t + 30, 999, 50, false); /* began before the probe: does not count */
    for (int i = 0; i < 15; i++)
        feed(&law, t + 40, 20, 50, false);
    law_tick(&law, t + 1500);
    assert_int_equal(law_limit(&law), 50); /* a quarter of them are still running */
    for (int i = 0; i < 5; i++)
        law_finished(&law, &(struct law_sample){t + 1600, 20, 1580, 50, 50, false, false});
    law_tick(&law, t + 1600);
    assert_int_equal(law_limit(&law), 100);
    assert_int_equal(law.state.vegas.phase, VEGAS_STEADY);
    assert_true(fabs(law.state.vegas.baseline - 20) < 1e-9);
    law_started(&law, t + 1601, 100);
    assert_int_equal(law_limit(&law), 100); /* and not again at once */
}

/* Some of the calls that were to measure never report: cancelled, or refused by a later stage. */
static void a_probe_does_not_wait_for_calls_that_left(void **state)
{
    struct law law = expired(1);
    tg_ms t = LONG_ENOUGH;
    (void)state;

    for (int i = 0; i < 20; i++)
        law_started(&law, t, 20);
    for (int i = 0; i < 16; i++)
        feed(&law, t + 20, 20, 20, false);
    law_tick(&law, t + 1030); /* the cohort's window, and three times the 10 ms of a call */
    assert_int_equal(law_limit(&law), 50);
    law_tick(&law, t + 1031);
    assert_int_equal(law_limit(&law), 100);
    assert_true(fabs(law.state.vegas.baseline - 20) < 1e-9);
}

/* Calls that hang: nothing starts, nothing ends, calls are refused. */
static void a_probe_ends_in_any_case(void **state)
{
    struct law law = expired(1);
    tg_ms t = LONG_ENOUGH;
    (void)state;

    law_started(&law, t, 80);
    law_rejected(&law, t + 2999);
    assert_int_equal(law_limit(&law), 50);
    law_rejected(&law, t + 3000);
    assert_int_equal(law_limit(&law), 100);

    law = expired(1);
    law_started(&law, t, 20);
    assert_int_equal(law.state.vegas.phase, VEGAS_MEASURING);
    law_tick(&law, t + 3999);
    assert_int_equal(law_limit(&law), 50);
    law_tick(&law, t + 4000);
    assert_int_equal(law_limit(&law), 100);
}

/* Lets the baseline expire, and ends a probe in which twenty calls take `low` and twenty `high`.
 * Returns the limit of that probe. */
static int64_t probe_of(struct law *law, double low, double high)
{
    tg_ms t = law->state.vegas.expires_at;
    int64_t limit;

    for (int i = 0; i < 40; i++)
        law_started(law, t, 40);
    limit = law_limit(law);
    assert_int_equal(law->state.vegas.phase, VEGAS_MEASURING);
    for (int i = 0; i < 40; i++)
        feed(law, t + 50, i % 2 == 0 ? low : high, 40, false);
    law_tick(law, t + 1001);
    assert_int_equal(law->state.vegas.phase, VEGAS_STEADY);
    return limit;
}

static void expect_baseline(const struct law *law, double want)
{
    if (fabs(law->state.vegas.baseline - want) > 1e-9)
        fail_msg("the baseline is %g, not %g", law->state.vegas.baseline, want);
}

static void probes_that_agree_count_together(void **state)
{
    struct law law = expired(1);
    (void)state;

    (void)probe_of(&law, 16, 24);
    expect_baseline(&law, 20);
    (void)probe_of(&law, 17, 25);
    expect_baseline(&law, 20.5);
    (void)probe_of(&law, 17.5, 25.5);
    expect_baseline(&law, 20.5 + 1.0 / 3);
    assert_int_equal(law.state.vegas.probed.n, 120);
    for (int i = 0; i < 10; i++)
        (void)probe_of(&law, 17.5, 25.5);
    assert_int_equal(law.state.vegas.probed.n, 160); /* the oldest fade */
    (void)probe_of(&law, 36, 44);
    expect_baseline(&law, 40);
    assert_int_equal(law.state.vegas.probed.n, 40);
}

static void a_probe_goes_deep_after_a_surprise(void **state)
{
    static const struct {
        double ms;
        int64_t limit;
    } rows[] = {{20, 50}, {20, 50}, {20, 75}, {24, 75}, {31, 75}, {31, 50}, {31, 75}};
    struct law law = expired(1); /* calls took 10 ms */
    (void)state;

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        assert_int_equal(probe_of(&law, rows[i].ms, rows[i].ms), rows[i].limit);
    law.state.vegas.mean = 39; /* a queue, which three quarters of the calls would hardly empty */
    assert_int_equal(probe_of(&law, 31, 31), 50);
}

/* The short ones of the calls that fill the server up again end first. */
static void windows_begin_when_a_probe_has_left_no_trace(void **state)
{
    struct law law = expired(1);
    tg_ms t = law.state.vegas.expires_at + 1001;
    (void)state;

    (void)probe_of(&law, 20, 20);
    feed(&law, t + 29, 1, 100, false); /* a call took 10 ms before the probe */
    assert_int_equal(law.state.vegas.window.n, 0);
    feed(&law, t + 30, 20, 100, false);
    assert_int_equal(law.state.vegas.window.n, 1);
    law_tick(&law, t + 1029);
    assert_int_equal(law_limit(&law), 100);
    law_tick(&law, t + 1030);
    assert_int_equal(law_limit(&law), 101);
}

static void probes_are_sixty_windows_and_calls_apart(void **state)
{
    static const struct {
        tg_ms window;
        double sojourn_ms;
        tg_ms low, high;
    } rows[] = {
        {1, 10, 54000, 66000},
        {1000, 10, 54000, 66000},
        {30000, 10, 1620000, 1980000},
        {1000, 5000, 270000, 330000},
        {30000, 5000, 1620000, 1980000},
    };
    (void)state;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct law law = vegas_of(unguarded_100, 1);
        tg_ms wait;
        law.config.window = rows[i].window;
        feed(&law, 0, rows[i].sojourn_ms, 20, false);
        law_tick(&law, 30000);
        wait = law.state.vegas.expires_at - 30000;
        if (wait < rows[i].low || wait > rows[i].high)
            fail_msg("row %zu: %lld", i, (long long)wait);
    }
}

static void an_idle_server_is_measured_when_calls_come_back(void **state)
{
    struct law law = expired(1);
    (void)state;

    law_tick(&law, 10000000);
    assert_int_equal(law.state.vegas.phase, VEGAS_STEADY);
    law_started(&law, 20000000, 1);
    assert_int_equal(law.state.vegas.phase, VEGAS_MEASURING);
}

static void probes_are_spread_by_the_seed(void **state)
{
    tg_ms first = 0, lowest = 1 << 20, highest = 0;
    (void)state;

    for (uint64_t seed = 1; seed <= 50; seed++) {
        struct law law = vegas_of(unguarded_100, seed), again = vegas_of(unguarded_100, seed);
        window_of(&law, 0, 10, 20);
        window_of(&again, 0, 10, 20);
        first = law.state.vegas.expires_at;
        assert_int_equal(first, again.state.vegas.expires_at);
        lowest = first < lowest ? first : lowest;
        highest = first > highest ? first : highest;
    }
    assert_true(lowest >= 54000 && highest <= 67000 && highest - lowest > 8000);
}

/* ---- the fluid server: everything in it is known ----
 *
 * Each second n = min(limit, offered) calls take base * max(1, n / capacity). */

struct fluid {
    struct law law;
    tg_ms second;
    double base_ms;
    int64_t offered;
};

static void fluid_run(struct fluid *fluid, int seconds)
{
    enum { CAPACITY = 64 };

    for (int s = 0; s < seconds; s++, fluid->second++) {
        tg_ms now = fluid->second * 1000 + 1;
        int64_t limit = law_limit(&fluid->law);
        int64_t n = limit < fluid->offered ? limit : fluid->offered;
        double latency = fluid->base_ms * fmax(1, (double)n / CAPACITY);
        for (int64_t i = 0; i < n; i++)
            law_started(&fluid->law, now, n); /* when one leaves the next comes: n all the time */
        for (int64_t i = 0; i < n; i++)
            law_finished(&fluid->law, &(struct law_sample){now + (tg_ms)latency, latency,
                                                           floor(latency), n, n, false, false});
        law_tick(&fluid->law, now + 998);
    }
}

static struct fluid fluid_of(double base_ms, int64_t offered)
{
    return (struct fluid){vegas_of((struct setup){128, 8, 1024, 0.5}, 1), 0, base_ms, offered};
}

static void expect_between(int64_t got, int64_t low, int64_t high)
{
    if (got < low || got > high)
        fail_msg("%lld is not in [%lld, %lld]", (long long)got, (long long)low, (long long)high);
}

static void a_server_first_met_under_load_is_understood(void **state)
{
    struct fluid fluid = fluid_of(50, 500);
    (void)state;

    fluid_run(&fluid, 10);
    assert_true(fluid.law.learned >= 128);
    fluid_run(&fluid, 390);
    expect_between(fluid.law.learned, 64, 73);
}

static void a_server_that_slows_for_good_keeps_its_limit(void **state)
{
    struct fluid fluid = fluid_of(50, 60);
    (void)state;

    fluid_run(&fluid, 120);
    fluid.base_ms = 100;
    fluid_run(&fluid, 600);
    expect_between(fluid.law.learned, 60, 130);
}

static void idleness_teaches_nothing(void **state)
{
    struct fluid fluid = fluid_of(50, 2);
    (void)state;

    fluid_run(&fluid, 900);
    assert_int_equal(fluid.law.learned, 128);
    fluid.offered = 500;
    fluid_run(&fluid, 300);
    expect_between(fluid.law.learned, 64, 73);
}

static void one_fast_second_is_forgotten(void **state)
{
    struct fluid fluid = fluid_of(5, 30);
    (void)state;

    fluid_run(&fluid, 1);
    fluid.base_ms = 50;
    fluid_run(&fluid, 300);
    assert_true(fluid.law.learned >= 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_waiting_raise_the_limit),
        cmocka_unit_test(many_waiting_lower_the_limit),
        cmocka_unit_test(the_limit_stays_at_its_minimum),
        cmocka_unit_test(the_limit_stays_at_its_maximum),
        cmocka_unit_test(a_step_is_one_or_none),
        cmocka_unit_test(three_hundred_times_up_and_down_end_where_they_began),
        cmocka_unit_test(growth_wants_use),
        cmocka_unit_test(dropped_calls_are_overload),
        cmocka_unit_test(windows_that_tell_little_count_together),
        cmocka_unit_test(the_error_of_the_baseline_is_no_queue),
        cmocka_unit_test(evidence_is_forgotten_in_time),
        cmocka_unit_test(a_step_comes_with_the_first_event_at_or_after_the_end),
        cmocka_unit_test(a_clock_that_steps_back_stops_nothing),
        cmocka_unit_test(a_call_of_no_length_is_no_trap),
        cmocka_unit_test(the_baseline_is_the_lowest_mean),
        cmocka_unit_test(few_samples_make_no_firm_baseline),
        cmocka_unit_test(a_probe_drains_measures_and_ends),
        cmocka_unit_test(a_probe_does_not_wait_for_calls_that_left),
        cmocka_unit_test(a_probe_ends_in_any_case),
        cmocka_unit_test(probes_that_agree_count_together),
        cmocka_unit_test(a_probe_goes_deep_after_a_surprise),
        cmocka_unit_test(windows_begin_when_a_probe_has_left_no_trace),
        cmocka_unit_test(probes_are_sixty_windows_and_calls_apart),
        cmocka_unit_test(an_idle_server_is_measured_when_calls_come_back),
        cmocka_unit_test(probes_are_spread_by_the_seed),
        cmocka_unit_test(a_server_first_met_under_load_is_understood),
        cmocka_unit_test(a_server_that_slows_for_good_keeps_its_limit),
        cmocka_unit_test(idleness_teaches_nothing),
        cmocka_unit_test(one_fast_second_is_forgotten),
    };
    return cmocka_run_group_tests_name("vegas", tests, NULL, NULL);
}
