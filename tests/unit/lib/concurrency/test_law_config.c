/* test_law_config.c - what makes a law and what does not, and new parameters for a running one. */
#include <math.h>
#include <string.h>

#include "check.h"
#include "lib/concurrency/laws.h"

static struct tg_law_config config_of(enum tg_law law)
{
    struct tg_law_config config;

    tg_law_config_init(&config);
    config.law = law;
    return config;
}

static struct law law_of(const struct tg_law_config *config)
{
    struct law law;
    struct tg_problem problem = {""};

    if (law_init(&law, config, 1, &problem) != TG_OK)
        fail_msg("%s", problem.text);
    return law;
}

static void laws_have_names(void **state)
{
    static const char *const names[] = {"vegas", "gradient2", "aimd", "fixed", "none", "auto"};
    (void)state;

    assert_int_equal(COUNT_OF(names), TG_LAW_COUNT);
    for (int i = 0; i < TG_LAW_COUNT; i++)
        assert_string_equal(tg_law_name((enum tg_law)i), names[i]);
    assert_null(tg_law_name(TG_LAW_COUNT));
    assert_null(tg_law_name((enum tg_law) - 1));
}

static void defaults_make_every_law(void **state)
{
    (void)state;
    for (int i = 0; i < TG_LAW_COUNT; i++) {
        struct tg_law_config config = config_of((enum tg_law)i);
        struct law law = law_of(&config);
        assert_int_equal(law_limit(&law), i == TG_LAW_NONE ? 1024 : 128);
        law_fini(&law);
    }
}

static void the_defaults_are_those_of_the_documentation(void **state)
{
    struct tg_law_config config;
    (void)state;

    tg_law_config_init(&config);
    assert_int_equal(config.law, TG_LAW_VEGAS);
    assert_int_equal(config.initial, 128);
    assert_int_equal(config.min, 8);
    assert_int_equal(config.max, 1024);
    assert_int_equal(config.window, 1000);
    assert_float_equal(config.vegas.alpha, 2, 0);
    assert_float_equal(config.vegas.beta, 8, 0);
    assert_float_equal(config.vegas.min_utilisation, 0.5, 0);
    assert_float_equal(config.gradient2.tolerance, 15, 0);
    assert_float_equal(config.gradient2.smoothing, 0.2, 1e-12);
    assert_int_equal(config.gradient2.rtt_window, 1000);
    assert_float_equal(config.aimd.tolerance, 20, 0);
    assert_float_equal(config.aimd.backoff, 0.9, 1e-12);
    assert_int_equal(config.aimd.rtt_window, 1000);
    for (int law = 0; law < TG_LAW_COUNT; law++) {
        bool moves_fast = law == TG_LAW_GRADIENT2 || law == TG_LAW_AIMD;
        tg_law_config_choose(&config, (enum tg_law)law);
        assert_int_equal(config.law, law);
        assert_int_equal(config.initial, moves_fast || law == TG_LAW_AUTO ? 20 : 128);
        assert_int_equal(config.min, law == TG_LAW_AUTO ? 1 : 8);
        assert_int_equal(config.max, moves_fast ? 200 : 1024);
    }
}

/* ---- what is refused ---- */

struct spoiled {
    const char *field; /* what the message begins with */
    size_t offset;
    bool real; /* a double */
    int64_t integer;
    double number;
};

#define INTEGER(name, field, value)                                  \
    {                                                                \
        name, offsetof(struct tg_law_config, field), false, value, 0 \
    }
#define NUMBER(name, value)                                         \
    {                                                               \
#name, offsetof(struct tg_law_config, name), true, 0, value \
    }

static void spoil(struct tg_law_config *config, const struct spoiled *row)
{
    char *place = (char *)config + row->offset;

    if (row->real)
        memcpy(place, &row->number, sizeof(row->number));
    else
        memcpy(place, &row->integer, sizeof(row->integer));
}

static void expect_named(const struct tg_law_config *config, const char *field)
{
    struct tg_problem problem = {""};
    struct law law;

    assert_int_equal(tg_law_config_check(config, &problem), TG_ERR_INVALID);
    if (strncmp(problem.text, field, strlen(field)) != 0)
        fail_msg("'%s' does not begin with '%s'", problem.text, field);
    assert_int_equal(tg_law_config_check(config, NULL), TG_ERR_INVALID);
    assert_int_equal(law_init(&law, config, 1, NULL), TG_ERR_INVALID);
}

static void what_is_out_of_range_is_named(void **state)
{
    static const struct spoiled rows[] = {
        INTEGER("min", min, 0),
        INTEGER("min", min, -1),
        INTEGER("min", min, 2000),
        INTEGER("initial", min, 129),
        INTEGER("initial", initial, 7),
        INTEGER("initial", initial, 1025),
        INTEGER("max", max, 0),
        INTEGER("max", max, TG_NUMBER_MAX + 1),
        INTEGER("window", window, 0),
        INTEGER("window", window, -5),
        NUMBER(vegas.alpha, 0),
        NUMBER(vegas.alpha, (double)NAN),
        NUMBER(vegas.beta, 2),
        NUMBER(vegas.beta, (double)INFINITY),
        NUMBER(vegas.min_utilisation, -0.1),
        NUMBER(vegas.min_utilisation, 1.1),
        NUMBER(gradient2.tolerance, 0.9),
        NUMBER(gradient2.smoothing, 0),
        NUMBER(gradient2.smoothing, 1.01),
        INTEGER("gradient2.rtt_window", gradient2.rtt_window, 0),
        INTEGER("gradient2.rtt_window", gradient2.rtt_window, 10001),
        NUMBER(aimd.tolerance, (double)INFINITY),
        NUMBER(aimd.tolerance, 0.9),
        NUMBER(aimd.backoff, 0.49),
        NUMBER(aimd.backoff, 1),
        INTEGER("aimd.rtt_window", aimd.rtt_window, 0),
        INTEGER("aimd.rtt_window", aimd.rtt_window, 10001),
    };
    struct tg_law_config config;
    (void)state;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        config = config_of(TG_LAW_VEGAS);
        spoil(&config, &rows[i]);
        expect_named(&config, rows[i].field);
    }
    config = config_of(TG_LAW_COUNT);
    expect_named(&config, "law");
}

static void the_ends_of_every_range_are_allowed(void **state)
{
    struct tg_law_config config = config_of(TG_LAW_VEGAS);
    (void)state;

    config.min = config.initial = config.max = 1;
    config.window = 1;
    config.vegas.min_utilisation = 0;
    config.gradient2.tolerance = config.aimd.tolerance = 1;
    config.gradient2.smoothing = 1;
    config.gradient2.rtt_window = 1;
    config.aimd.rtt_window = 10000;
    config.aimd.backoff = 0.5;
    assert_int_equal(tg_law_config_check(&config, NULL), TG_OK);
    config.max = TG_NUMBER_MAX;
    config.gradient2.rtt_window = 10000;
    config.aimd.rtt_window = 1;
    config.vegas.min_utilisation = 1;
    assert_int_equal(tg_law_config_check(&config, NULL), TG_OK);
}

static void initial_does_not_matter_to_none(void **state)
{
    struct tg_law_config config = config_of(TG_LAW_NONE);
    (void)state;

    config.initial = 0;
    assert_int_equal(tg_law_config_check(&config, NULL), TG_OK);
    config.law = TG_LAW_FIXED;
    assert_int_equal(tg_law_config_check(&config, NULL), TG_ERR_INVALID);
}

/* ---- events ---- */

static struct law_sample sample_of(tg_ms now, double ms, int64_t in_flight)
{
    return (struct law_sample){now, ms, ms, in_flight, in_flight, false, false};
}

static void what_is_no_number_is_no_sample(void **state)
{
    static const double values[] = {(double)NAN, -1, (double)INFINITY, -(double)INFINITY, 1e300};
    (void)state;

    for (int i = 0; i < TG_LAW_COUNT; i++) {
        struct tg_law_config config = config_of((enum tg_law)i);
        struct law law = law_of(&config);
        int64_t before = law_limit(&law);
        for (size_t k = 0; k < COUNT_OF(values); k++) {
            struct law_sample sample = sample_of((tg_ms)k, values[k], 1000);
            law_finished(&law, &sample);
            sample.sample_ms = 5;
            law_finished(&law, &sample);
        }
        law_tick(&law, 5000);
        assert_int_equal(law_limit(&law), before);
        law_fini(&law);
    }
}

static void fixed_and_none_do_not_move(void **state)
{
    (void)state;
    for (int i = TG_LAW_FIXED; i <= TG_LAW_NONE; i++) {
        struct tg_law_config config = config_of((enum tg_law)i);
        struct law law = law_of(&config);
        int64_t want = i == TG_LAW_FIXED ? 128 : 1024;
        for (tg_ms now = 0; now < 5000; now++) {
            struct law_sample sample = sample_of(now, (double)(now % 100), 1000);
            sample.dropped = now % 3 == 0;
            law_started(&law, now, 1000);
            law_finished(&law, &sample);
            law_rejected(&law, now);
            law_tick(&law, now);
            assert_int_equal(law_limit(&law), want);
        }
        law_fini(&law);
    }
}

/* ---- new parameters for a running law ---- */

static void the_same_law_keeps_its_limit_clamped(void **state)
{
    (void)state;
    for (int i = TG_LAW_VEGAS; i <= TG_LAW_AIMD; i++) {
        struct tg_law_config config = config_of((enum tg_law)i);
        struct law law = law_of(&config);
        config.initial = 300;
        assert_true(law_reconfigure(&law, &config));
        assert_int_equal(law_limit(&law), 128);
        config.min = 200;
        assert_true(law_reconfigure(&law, &config));
        assert_int_equal(law_limit(&law), 200);
        config.min = 8;
        config.max = config.initial = 50;
        assert_true(law_reconfigure(&law, &config));
        assert_int_equal(law_limit(&law), 50);
        law_fini(&law);
    }
}

static void fixed_and_none_follow_their_setting(void **state)
{
    struct tg_law_config config = config_of(TG_LAW_FIXED);
    struct law law = law_of(&config);
    (void)state;

    config.initial = 77;
    assert_true(law_reconfigure(&law, &config));
    assert_int_equal(law_limit(&law), 77);
    config.law = TG_LAW_NONE;
    assert_true(law_reconfigure(&law, &config));
    assert_int_equal(law_limit(&law), 1024);
    config.max = 99;
    assert_true(law_reconfigure(&law, &config));
    assert_int_equal(law_limit(&law), 99);
    law_fini(&law);
}

static void another_law_starts_from_the_limit(void **state)
{
    (void)state;
    for (int from = 0; from < TG_LAW_COUNT; from++) {
        for (int to = TG_LAW_VEGAS; to <= TG_LAW_AIMD; to++) {
            struct tg_law_config config = config_of((enum tg_law)from);
            struct law law;
            if (from == to)
                continue;
            config.initial = 64;
            law = law_of(&config);
            config.law = (enum tg_law)to;
            config.initial = 32;
            assert_true(law_reconfigure(&law, &config));
            assert_int_equal(law_limit(&law), from == TG_LAW_NONE ? 32 : 64);
            law_fini(&law);
        }
    }
}

/* No sample is carried over: what one law has stored means nothing to another. */
static void another_law_knows_nothing_of_the_one_before(void **state)
{
    struct tg_law_config config = config_of(TG_LAW_AIMD);
    struct law law = law_of(&config);
    (void)state;

    for (int i = 0; i < 500; i++)
        law_finished(&law, &(struct law_sample){5000 + i, 10, 10, 100, 100, false, false});
    assert_int_equal(law.at, 499); /* time begins with the first event */
    config.law = TG_LAW_VEGAS;
    assert_true(law_reconfigure(&law, &config));
    const struct vegas *vegas = &law.state.vegas;
    assert_int_equal(vegas->phase, VEGAS_STEADY);
    assert_int_equal(vegas->window_from, 499);
    assert_int_equal(vegas->window.n + vegas->evidence.n + vegas->gather.n + vegas->probed.n, 0);
    assert_float_equal(vegas->queue, -1, 0);
    assert_float_equal(vegas->baseline, 0, 0);
    assert_int_equal(vegas->expires_at, 0);
    law_fini(&law);
}

static void a_window_that_grows_keeps_its_fastest(void **state)
{
    struct tg_law_config config = config_of(TG_LAW_AIMD);
    struct law law;
    (void)state;

    config.aimd.tolerance = 2;
    config.initial = 100;
    config.aimd.rtt_window = 10;
    law = law_of(&config);
    law_finished(&law, &(struct law_sample){0, 10, 10, 100, 100, false, false});
    assert_int_equal(law_limit(&law), 101);
    config.aimd.rtt_window = 1000;
    assert_true(law_reconfigure(&law, &config));
    for (int i = 0; i < 500; i++)
        law_finished(&law, &(struct law_sample){0, 15, 15, 1, 1, false, false});
    law_finished(&law, &(struct law_sample){0, 25, 25, 100, 100, false, false});
    assert_int_equal(law_limit(&law), 90); /* 25 > 2 * 10: floor(101 * 0.9) */
    config.aimd.rtt_window = 5;
    assert_true(law_reconfigure(&law, &config));
    law_finished(&law, &(struct law_sample){0, 25, 25, 100, 100, false, false});
    assert_int_equal(law_limit(&law), 91); /* the 10 is out: the fastest is 15 */
    law_fini(&law);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(laws_have_names),
        cmocka_unit_test(defaults_make_every_law),
        cmocka_unit_test(the_defaults_are_those_of_the_documentation),
        cmocka_unit_test(what_is_out_of_range_is_named),
        cmocka_unit_test(the_ends_of_every_range_are_allowed),
        cmocka_unit_test(initial_does_not_matter_to_none),
        cmocka_unit_test(what_is_no_number_is_no_sample),
        cmocka_unit_test(fixed_and_none_do_not_move),
        cmocka_unit_test(the_same_law_keeps_its_limit_clamped),
        cmocka_unit_test(fixed_and_none_follow_their_setting),
        cmocka_unit_test(another_law_starts_from_the_limit),
        cmocka_unit_test(another_law_knows_nothing_of_the_one_before),
        cmocka_unit_test(a_window_that_grows_keeps_its_fastest),
    };
    return cmocka_run_group_tests_name("law_config", tests, NULL, NULL);
}
