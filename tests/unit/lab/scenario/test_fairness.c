/* test_fairness.c - shares of slots and tokens are counted right, where they are known. */
#include <math.h>
#include <string.h>

#include "check.h"
#include "lab/scenario/fairness.h"
#include "lab/scenario/limit_use.h"

static struct fairness_result run_mix(const struct fairness_mix *mix, const char *text,
                                      size_t seeds)
{
    struct scenario_law law;
    struct fairness_result result;
    struct tg_problem problem;

    assert_int_equal(scenario_law_parse(text, strlen(text), &law, &problem), TG_OK);
    assert_int_equal(fairness_run(mix, &law, 5, seeds, &result, &problem), TG_OK);
    return result;
}

static void with_room_for_all_everybody_is_admitted(void **state)
{
    const struct fairness_mix mix = {
        .until_s = 400,
        .from_s = 50,
        .flows = {{.name = "a", .tenants = 2, .weight = 1, .calls_per_s = 10, .hold_ms = 100},
                  {.name = "b", .tenants = 1, .weight = 1, .calls_per_s = 20, .hold_ms = 300}},
        .n = 2,
    };
    struct fairness_result result = run_mix(&mix, "fixed:initial=100", 2);

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        assert_true(result.flows[i].admitted.lowest >= 100);
        assert_true(result.flows[i].wait_ms.highest <= 0);
    }
    /* 2 and 6 slots of 100 are in use. */
    assert_true(fabs(result.flows[0].share.mean - 25) < 1);
    assert_true(fabs(result.used.mean - 8) < 0.5);
}

static void equal_tenants_get_the_same(void **state)
{
    struct fairness_result result = run_mix(fairness_find("fair-equal"), "fixed:initial=16", 2);

    (void)state;
    assert_true(result.jain_work.lowest > 0.99 && result.jain_work.highest <= 1);
    assert_true(result.used.mean > 98 && result.used.highest < 101);
    assert_true(fabs(result.flows[0].admitted.mean - 100.0 / 3) < 1);
}

static void jain_is_a_half_when_one_of_two_has_all(void **state)
{
    const struct fairness_mix mix = {
        .until_s = 400,
        .from_s = 50,
        .jain = true,
        .flows = {{.name = "a", .tenants = 1, .weight = 1, .calls_per_s = 10, .hold_ms = 1000},
                  {.name = "b", .tenants = 1, .weight = 1, .calls_per_s = 10, .hold_ms = 0.001}},
        .n = 2,
    };
    struct fairness_result result = run_mix(&mix, "fixed:initial=1000", 2);

    (void)state;
    assert_true(fabs(result.jain_work.mean - 0.5) < 0.001);
    assert_true(result.jain_calls.mean > 0.999);
}

/* What waits that are derived from the calls promise, whatever the length of the calls. */
static void auto_waits_keep_priorities_shares_and_mice(void **state)
{
    static const struct {
        const char *mix;
        double admitted[3]; /* % at least, by flow */
        double share[3];    /* % of the slot time at least */
    } rows[] = {
        {"fair-priority", {99, 0, 0}, {0, 0, 0}},
        {"fair-mice", {99.5, 0, 0}, {0, 0, 0}},
        {"fair-mice-5s", {99.5, 0, 0}, {0, 0, 0}},
        {"fair-long", {0, 0, 0}, {45, 45, 0}},
        {"fair-high", {0, 0, 0}, {0, 15, 4}},
        {"fair-high-5s", {0, 0, 0}, {0, 15, 4}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct fairness_mix *mix = fairness_find(rows[i].mix);
        struct fairness_result result = run_mix(mix, "fixed:initial=16:wait=auto", 1);
        for (size_t j = 0; j < mix->n; j++) {
            const struct fairness_flow *flow = &result.flows[j];
            if (flow->admitted.mean < rows[i].admitted[j] || flow->share.mean < rows[i].share[j])
                fail_msg("%s, %s: %.2f %% admitted, %.2f %% of the slot time", rows[i].mix,
                         mix->flows[j].name, flow->admitted.mean, flow->share.mean);
        }
        if (strcmp(rows[i].mix, "fair-long") == 0)
            assert_true(result.jain_work.mean >= 0.98);
    }
}

/* Lasting demand, whatever calls use of what they ask for, and however long they take. */
static void a_limit_is_used_and_its_promise_kept(void **state)
{
    (void)state;
    for (size_t i = 0; i < LIMIT_USE_CASES; i++) {
        struct limit_use use;
        struct tg_problem problem;
        assert_int_equal(limit_use_run(i, 1, 1, &use, &problem), TG_OK);
        if (use.use.mean < 95 || use.use.mean > 101 || use.most_over_charge.mean > 1 + 1e-9)
            fail_msg("case %zu: use %.2f, most %.4f capacities over the promise", i, use.use.mean,
                     use.most_over_charge.mean);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(with_room_for_all_everybody_is_admitted),
        cmocka_unit_test(equal_tenants_get_the_same),
        cmocka_unit_test(jain_is_a_half_when_one_of_two_has_all),
        cmocka_unit_test(auto_waits_keep_priorities_shares_and_mice),
        cmocka_unit_test(a_limit_is_used_and_its_promise_kept),
    };

    return cmocka_run_group_tests_name("fairness", tests, NULL, NULL);
}
