/* test_scenario.c - the server of the scenarios is the published one, and runs repeat. */
#include <math.h>
#include <string.h>

#include "check.h"
#include "lab/scenario/scenario.h"

static struct scenario_law law_of(const char *text)
{
    struct scenario_law law;
    struct tg_problem problem;

    assert_int_equal(scenario_law_parse(text, strlen(text), &law, &problem), TG_OK);
    return law;
}

static struct scenario_result result_of(const char *scenario, const char *text, uint64_t seed)
{
    const struct scenario_options options = {.deadline_ms = 100};
    struct scenario_law law = law_of(text);
    struct scenario_result result = {0};
    struct tg_problem problem;

    assert_int_equal(scenario_run(scenario_find(scenario), &law, &options, seed, &result, &problem),
                     TG_OK);
    return result;
}

/* Goodput of fixed limits without waits in percent of the nominal ideal, as another implementation
 * of this server has it on 24 seeds. */
static void fixed_limits_have_the_published_goodput(void **state)
{
    static const struct {
        const char *scenario;
        double goodput[3]; /* with limits 16, 32 and 128 */
    } rows[] = {
        {"step2x", {94.6, 98.5, 96.5}},
        {"cap/2", {90.2, 99.0, 73.1}},
        {"slowdep", {63.2, 78.4, 100}},
        {"born2x", {92.9, 97.9, 95.1}},
        {"dear2.5", {91.9, 99.0, 74.9}},
        {"burst+rt", {99.2, 99.3, 97.8}},
        {"heavy.7", {94.5, 98.6, 98.8}},
    };
    static const char *const laws[3] = {"fixed:initial=16:wait=0", "fixed:initial=32:wait=0",
                                        "fixed:initial=128:wait=0"};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (size_t j = 0; j < 3; j++) {
            struct scenario_result result = result_of(rows[i].scenario, laws[j], 3);
            if (fabs(result.nominal - rows[i].goodput[j]) > 0.5)
                fail_msg("%s, %s: %.2f, not %.1f", rows[i].scenario, laws[j], result.nominal,
                         rows[i].goodput[j]);
        }
}

/* The net ideal in percent of the nominal one, worked out by hand from the same formula. */
static void the_ideal_is_net_of_rejecting_and_of_calls_that_are_too_long(void **state)
{
    static const struct {
        const char *scenario;
        double net;
    } rows[] = {
        {"step2x", 98.47},
        {"cap/2", 99.56},
        {"slowdep", 99.99},
        {"born2x", 97.96},
        {"dear2.5", 99.34},
        {"burst+rt", 99.80},
        {"heavy.7", 98.86},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct scenario_result result = result_of(rows[i].scenario, "fixed:initial=32", 1);
        double net = 100 * result.nominal / result.goodput;
        if (fabs(net - rows[i].net) > 0.02)
            fail_msg("%s: %.3f, not %.2f", rows[i].scenario, net, rows[i].net);
    }
}

static void a_seed_repeats_itself_and_brings_every_law_the_same_calls(void **state)
{
    struct scenario_result first = result_of("cold.9", "vegas", 7), again;

    (void)state;
    again = result_of("cold.9", "vegas", 7);
    assert_memory_equal(&first, &again, offsetof(struct scenario_result, served));
    assert_int_equal(first.events, again.events);
    assert_int_equal(result_of("cold.9", "fixed:initial=10", 7).offered, first.offered);
    assert_int_not_equal(result_of("cold.9", "vegas", 8).offered, first.offered);
}

/* Without a gate that learns, times are a matter of units. */
static void a_scaled_scenario_is_the_same_one(void **state)
{
    const struct scenario_options scaled = {.deadline_ms = 100, .scale_time = 4096};
    struct scenario_law law = law_of("fixed:initial=24:wait=0");
    struct scenario_result plain = result_of("burst+rt", "fixed:initial=24:wait=0", 2), result;
    struct tg_problem problem;

    (void)state;
    assert_int_equal(scenario_run(scenario_find("burst+rt"), &law, &scaled, 2, &result, &problem),
                     TG_OK);
    assert_int_equal(result.offered, plain.offered);
    assert_int_equal(result.good, plain.good);
    assert_true(fabs(result.goodput - plain.goodput) < 1e-6);
    assert_true(fabs(result.p99_ms - plain.p99_ms * 4096) < 1e-6 * result.p99_ms);
}

static void an_interval_is_by_student(void **state)
{
    const double values[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    struct scenario_figure figure = scenario_figure_of(values, 10);

    (void)state;
    assert_true(fabs(figure.mean - 5.5) <= 1e-12);
    assert_true(fabs(figure.half - (2.2622 * 3.02765 / sqrt(10))) <= 0.003);
    assert_true(fabs(figure.lowest - 1) <= 0);
    assert_true(fabs(figure.highest - 10) <= 0);
    assert_true(fabs(scenario_figure_of(values, 2).half - (12.7062 * 0.5)) <= 0.001);
    assert_true(isnan(scenario_figure_of(values, 1).half));
}

static void a_law_is_read_from_its_text(void **state)
{
    static const char *const wrong[] = {
        "",
        "vega",
        "vegas:",
        "vegas:=1",
        "vegas:min",
        "vegas:min=",
        "vegas:min=x",
        "vegas:min=auto",
        "vegas:wait=aut",
        "fixed:min=1",
        "none:initial=3",
        "aimd:window=5",
        "vegas:initial=4",
        "vegas:min=1:",
        "fixed:initial=0",
    };
    struct scenario_law law = law_of("vegas:initial=20:min=1:max=99:window=500:wait=7");
    struct tg_problem problem;

    (void)state;
    assert_int_equal(law.law.law, TG_LAW_VEGAS);
    assert_int_equal(law.law.initial, 20);
    assert_int_equal(law.law.min, 1);
    assert_int_equal(law.law.max, 99);
    assert_int_equal(law.law.window, 500);
    assert_true(law.has_wait);
    assert_int_equal(law.wait, 7);
    assert_false(law_of("none:max=7").has_wait);
    assert_int_equal(law_of("vegas:wait=auto").wait, TG_WAIT_AUTO);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        if (scenario_law_parse(wrong[i], strlen(wrong[i]), &law, &problem) != TG_ERR_INVALID)
            fail_msg("'%s' is a law", wrong[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_ideal_is_net_of_rejecting_and_of_calls_that_are_too_long),
        cmocka_unit_test(a_seed_repeats_itself_and_brings_every_law_the_same_calls),
        cmocka_unit_test(a_scaled_scenario_is_the_same_one),
        cmocka_unit_test(an_interval_is_by_student),
        cmocka_unit_test(a_law_is_read_from_its_text),
        cmocka_unit_test(fixed_limits_have_the_published_goodput),
    };

    return cmocka_run_group_tests_name("scenario", tests, NULL, NULL);
}
