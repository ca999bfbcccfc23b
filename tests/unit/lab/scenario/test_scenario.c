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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fixed_limits_have_the_published_goodput),
    };

    return cmocka_run_group_tests_name("scenario", tests, NULL, NULL);
}
