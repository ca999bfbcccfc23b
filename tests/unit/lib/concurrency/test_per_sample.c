/* test_per_sample.c - gradient2 and aimd: fixtures, traces to the digit, the fastest of late. */
#include <math.h>
#include <stdio.h>

#include "check.h"
#include "draw.h"
#include "lib/concurrency/laws.h"

static struct law law_from(enum tg_law kind, int64_t initial, int64_t min, int64_t max)
{
    struct tg_law_config config;
    struct law law;

    tg_law_config_init(&config);
    config.law = kind;
    config.initial = initial;
    config.min = min;
    config.max = max;
    assert_int_equal(law_init(&law, &config, 1, NULL), TG_OK);
    return law;
}

static void feed(struct law *law, tg_ms now, double ms, int64_t in_flight, bool dropped)
{
    struct law_sample sample = {now, ms, ms, in_flight, in_flight, dropped, false};

    law_finished(law, &sample);
}

static void expect_digits(const struct law *law, const char *want)
{
    char got[40];

    (void)snprintf(got, sizeof(got), "%.6f", law->state.per_sample.estimate);
    assert_string_equal(got, want);
}

/* So many calls start as the limit allows, then all end. */
static void full_round(struct law *law, double ms)
{
    int64_t n = law_limit(law);

    for (int64_t i = 1; i <= n; i++)
        feed(law, 0, ms, i, false);
}

/* ---- gradient2 ---- */

static void a_drop_halves_the_target_of_gradient2(void **state)
{
    struct law law = law_from(TG_LAW_GRADIENT2, 100, 4, 512);
    (void)state;

    feed(&law, 0, 10, 100, true);
    expect_digits(&law, "92.000000"); /* 0.8 * 100 + 0.2 * (100 * 0.5 + 10) */
    assert_int_equal(law_limit(&law), 92);
    law_fini(&law);
}

static void gradient2_grows_as_the_trace_says(void **state)
{
    static const char *const trace[] = {"5.258592", "6.693251", "8.304427", "10.727848",
                                        "14.200306", "19.890753", "29.701214", "48.133244",
                                        "86.919033", "174.388667"};
    struct law law = law_from(TG_LAW_GRADIENT2, 4, 4, 512);
    (void)state;

    for (size_t i = 0; i < COUNT_OF(trace); i++) {
        full_round(&law, 10);
        expect_digits(&law, trace[i]);
    }
    law_fini(&law);
}

static void gradient2_shrinks_as_the_trace_says(void **state)
{
    static const char *const trace[] = {"12.338551", "9.661822", "8.155059",
                                        "7.268000", "6.584857", "6.174965"};
    struct law law = law_from(TG_LAW_GRADIENT2, 30, 4, 30);
    (void)state;

    feed(&law, 0, 10, 1, false); /* the fastest, of a server that is not used */
    for (size_t i = 0; i < COUNT_OF(trace); i++) {
        full_round(&law, 500);
        expect_digits(&law, trace[i]);
    }
    law_fini(&law);
}

/* ---- aimd ---- */

static void aimd_moves_as_the_fixtures_say(void **state)
{
    struct law law = law_from(TG_LAW_AIMD, 10, 4, 512);
    struct tg_law_config config = law.config;
    (void)state;

    feed(&law, 0, 10, 10, false);
    assert_int_equal(law_limit(&law), 11);
    law_fini(&law);

    law = law_from(TG_LAW_AIMD, 100, 4, 512);
    feed(&law, 0, 10, 1, false);
    feed(&law, 0, 500, 100, false);
    assert_int_equal(law_limit(&law), 90);
    law_fini(&law);

    config.aimd.backoff = 0.5;
    assert_int_equal(law_init(&law, &config, 1, NULL), TG_OK);
    feed(&law, 0, 10, 10, true);
    assert_int_equal(law_limit(&law), 5);
    feed(&law, 0, 10, 10, true);
    assert_int_equal(law_limit(&law), 4);
    feed(&law, 0, 10, 10, true);
    assert_int_equal(law_limit(&law), 4);
    law_fini(&law);
}

static void as_slow_as_tolerated_is_not_slow(void **state)
{
    struct law law = law_from(TG_LAW_AIMD, 100, 4, 101);
    (void)state;

    feed(&law, 0, 10, 1, false);
    feed(&law, 0, 20, 50, false);
    assert_int_equal(law_limit(&law), 101);
    feed(&law, 0, 10, 101, false);
    assert_int_equal(law_limit(&law), 101); /* max */
    law_fini(&law);
}

/* ---- both ---- */

static void an_unused_limit_does_not_grow(void **state)
{
    (void)state;
    for (int i = TG_LAW_GRADIENT2; i <= TG_LAW_AIMD; i++) {
        struct law law = law_from((enum tg_law)i, 100, 4, 512);
        for (int k = 0; k < 1000; k++)
            feed(&law, k, 10, 49, false);
        assert_int_equal(law_limit(&law), 100);
        feed(&law, 1000, 10, 50, false);
        assert_true(law_limit(&law) > 100);
        law_fini(&law);
    }
}

static void a_dropped_call_is_no_measure_of_speed(void **state)
{
    (void)state;
    for (int i = TG_LAW_GRADIENT2; i <= TG_LAW_AIMD; i++) {
        struct law law = law_from((enum tg_law)i, 100, 4, 512);
        int64_t after;
        feed(&law, 0, 0, 100, true); /* refused by the server in no time */
        after = law_limit(&law);
        assert_true(after < 100);
        feed(&law, 0, 20, 100, false);
        assert_true(law_limit(&law) > after);
        law_fini(&law);
    }
}

static void a_sample_of_nothing_divides_by_nothing(void **state)
{
    (void)state;
    for (int i = TG_LAW_GRADIENT2; i <= TG_LAW_AIMD; i++) {
        struct law law = law_from((enum tg_law)i, 100, 4, 512);
        for (int k = 0; k < 10; k++)
            feed(&law, 0, 0, 512, false);
        assert_true(law_limit(&law) > 100);
        assert_true(isfinite(law.state.per_sample.estimate));
        law_fini(&law);
    }
}

/* A fast call of more than a minute ago is forgotten, however few have come since. */
static void the_fastest_expires_where_traffic_is_thin(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct law law = law_from(TG_LAW_AIMD, 100, 4, 512);
        law.config.aimd.tolerance = 2;
        random_init(&law.random, seed, 1);
        feed(&law, 0, 1, 1, false);
        feed(&law, 50000, 10, 100, false);
        assert_int_equal(law_limit(&law), 90);
        feed(&law, 70000, 10, 100, false);
        assert_int_equal(law_limit(&law), 91);
        law_fini(&law);
    }
}

static void the_lowest_of_the_last_is_what_a_search_finds(void **state)
{
    enum { SAMPLES = 3000 };
    uint64_t seed = draw_seed("per_sample");
    (void)state;

    for (int64_t window = 1; window <= 129; window = 2 * window + (window % 3)) {
        struct draw draw = draw_stream(seed, (uint64_t)window);
        struct random random;
        struct recent_min recent;
        static double values[SAMPLES];
        random_init(&random, seed, 1);
        assert_true(recent_min_init(&recent, window, &random));
        for (int i = 0; i < SAMPLES; i++) {
            double lowest = values[i] = (double)draw_between(&draw, 1, 50);
            for (int64_t k = 0; k < window && k <= i; k++)
                lowest = fmin(lowest, values[i - k]);
            double got = recent_min_push(&recent, values[i], i, &random);
            assert_true(got >= lowest && got <= lowest);
        }
        recent_min_fini(&recent);
    }
}

/* ---- units ---- */

/* Laws that compare samples with samples: those of a fast server, in parts of a millisecond, move
 * the limit as those of a slow one do. A power of two is between them, so that nothing rounds. */
static void samples_below_a_millisecond_move_a_limit_as_long_ones_do(void **state)
{
    static const enum tg_law kinds[] = {TG_LAW_VEGAS, TG_LAW_GRADIENT2};
    struct draw draw = draw_stream(draw_seed("units"), 1);
    int64_t moved = 0;
    (void)state;

    for (size_t k = 0; k < COUNT_OF(kinds); k++)
        for (int round = 0; round < 20; round++) {
            struct law slow = law_from(kinds[k], 40, 4, 200), fast = law_from(kinds[k], 40, 4, 200);
            double base = 20 + 60 * draw_unit(&draw);
            tg_ms now = 0;
            for (int i = 0; i < 4000; i++) {
                int64_t in_flight = draw_between(&draw, 1, law_limit(&slow));
                double ms = base * (0.8 + 0.4 * draw_unit(&draw) + (i % 1500 > 1000 ? 1 : 0));
                struct law_sample sample = {.now = now,
                                            .sample_ms = ms,
                                            .sojourn_ms = 50,
                                            .in_flight = in_flight,
                                            .in_flight_at_start = in_flight,
                                            .dropped = draw_chance(&draw, 1)};
                law_finished(&slow, &sample);
                sample.sample_ms = ms / 1024;
                law_finished(&fast, &sample);
                assert_int_equal(law_limit(&fast), law_limit(&slow));
                moved += law_limit(&slow) != 40;
                now += draw_between(&draw, 0, round % 2 != 0 ? 10 : 400);
            }
            law_fini(&slow);
            law_fini(&fast);
        }
    assert_true(moved > 80000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_drop_halves_the_target_of_gradient2),
        cmocka_unit_test(gradient2_grows_as_the_trace_says),
        cmocka_unit_test(gradient2_shrinks_as_the_trace_says),
        cmocka_unit_test(aimd_moves_as_the_fixtures_say),
        cmocka_unit_test(as_slow_as_tolerated_is_not_slow),
        cmocka_unit_test(an_unused_limit_does_not_grow),
        cmocka_unit_test(a_dropped_call_is_no_measure_of_speed),
        cmocka_unit_test(a_sample_of_nothing_divides_by_nothing),
        cmocka_unit_test(the_fastest_expires_where_traffic_is_thin),
        cmocka_unit_test(the_lowest_of_the_last_is_what_a_search_finds),
        cmocka_unit_test(samples_below_a_millisecond_move_a_limit_as_long_ones_do),
    };
    return cmocka_run_group_tests_name("per_sample", tests, NULL, NULL);
}
