/* test_online_use.c - demand counted in what calls use, and in those that a limit would admit. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "lib/policy/expected.h"

enum { WINDOW = 60000 };

static bool equal(double a, double b)
{
    return !(a < b) && !(a > b);
}

static struct tg_policy *with_budget(double cost_budget, bool guard)
{
    struct tg_bid_config config;
    struct tg_policy *policy = NULL;

    tg_bid_config_init(&config);
    config.prices = TG_PRICES_ONLINE;
    config.online.window = WINDOW;
    config.online.cost_budget = cost_budget;
    config.online.guard = guard;
    assert_int_equal(tg_bid_new(&config, &policy, NULL), TG_OK);
    return policy;
}

static struct tg_call call_of(int64_t cost, double value)
{
    struct tg_call call;

    tg_call_init(&call);
    call.debit.cost = cost;
    call.value = value;
    return call;
}

static void release(struct tg_policy *policy, int64_t cost, int64_t actual, tg_ms now)
{
    policy->released(policy, &(struct tg_spent){now, cost, actual, 0, 0}, now);
}

static void a_call_is_expected_to_use_what_calls_like_it_used(void **state)
{
    struct expected expected = {.all = {0}};

    (void)state;
    assert_true(equal(expected_use(&expected, 1000), 1000));
    for (int i = 0; i < 1000; i++) {
        expected_learn(&expected, 1000, 100);
        expected_learn(&expected, 10, 10);
        expected_learn(&expected, 1000, 0); /* failed */
    }
    assert_true(expected_use(&expected, 1000) > 99 && expected_use(&expected, 1000) < 105);
    assert_true(expected_use(&expected, 10) > 9 && expected_use(&expected, 10) <= 10);
    expected_learn(&expected, 1000, 1e15); /* absurd: counts as three times what was asked for */
    assert_true(expected_use(&expected, 1000) < 125);
}

static void where_all_use_what_they_ask_for_it_is_that_to_the_bit(void **state)
{
    struct expected expected = {.all = {0}};

    (void)state;
    for (int i = 1; i < 1000; i++) {
        expected_learn(&expected, i * 7 % 1013, i * 7 % 1013);
        assert_true(equal(expected_use(&expected, i), i));
        assert_true(equal(expected_factor(&expected), 1));
    }
}

/* The case of decisions.md 1.4: different max_tokens, answers of 34 tokens, nothing is scarce. */
static void calls_that_ask_for_more_than_they_use_are_not_refused(void **state)
{
    static const int64_t asked[] = {200, 1000, 4000};

    (void)state;
    for (int guard = 0; guard < 2; guard++) {
        struct tg_policy *policy = with_budget(20000, guard);
        int refused = 0;
        for (int i = 0; i < 300; i++) {
            struct tg_call call = call_of(asked[i % 3], 1);
            tg_ms now = i * 150;
            if (!policy->worth(policy, &call, 0, now)) {
                refused++;
                continue;
            }
            policy->admitted(policy, &call, now);
            release(policy, asked[i % 3], 34, now + 100);
        }
        print_message("guard %d: %d of 300 refused\n", guard, refused);
        assert_true(refused <= (guard ? 3 : 30));
        tg_bid_free(policy);
    }
}

/* A tenant of dear calls is over a limit of its own: nothing is saved for what that refuses. */
static void what_another_limit_refuses_is_no_demand(void **state)
{
    struct tg_policy *policy = with_budget(10000, false);
    int refused = 0;

    (void)state;
    for (int i = 0; i < 6000; i++) {
        tg_ms now = i * 100;
        struct tg_call dear = call_of(100, 1000), cheap = call_of(10, 1);
        if (policy->worth(policy, &dear, 0, now))
            policy->refused(policy, &dear, TG_REASON_COST, now);
        if (!policy->worth(policy, &cheap, 0, now)) {
            refused++;
            continue;
        }
        policy->admitted(policy, &cheap, now);
        release(policy, 10, 10, now);
    }
    print_message("%d of 6000 refused\n", refused);
    assert_true(refused < 60);
    tg_bid_free(policy);
}

/* The price of a budget for ten calls a window of which so many are gone when dear calls are
 * refused. */
static double price_after_refusals(bool of_rate, int gone)
{
    struct tg_bid_config config;
    struct tg_policy *policy = NULL;
    struct tg_duals duals;

    tg_bid_config_init(&config);
    config.prices = TG_PRICES_ONLINE;
    config.online.window = WINDOW;
    config.online.guard = false;
    config.online.rate_budget = of_rate ? 10 : 1000;
    config.online.cost_budget = of_rate ? 10000 : 100;
    assert_int_equal(tg_bid_new(&config, &policy, NULL), TG_OK);
    for (int window = 0; window < 10; window++) {
        tg_ms now = (tg_ms)window * WINDOW;
        struct tg_call cheap = call_of(10, 1), dear = call_of(10, 1000);
        for (int i = 0; i < gone; i++, now += 100) {
            (void)policy->worth(policy, &cheap, 0, now);
            policy->admitted(policy, &cheap, now); /* whatever it says: it is in shadow */
        }
        for (int i = 0; i < 20; i++, now += 100) {
            (void)policy->worth(policy, &dear, 0, now);
            policy->refused(policy, &dear, of_rate ? TG_REASON_RATE : TG_REASON_COST, now);
        }
    }
    tg_bid_get_duals(policy, &duals);
    tg_bid_free(policy);
    return of_rate ? duals.rate : duals.cost * 10;
}

/* What our own budgets refuse, because they are used up, is demand: it is saved for. */
static void what_a_used_up_budget_refuses_is_demand(void **state)
{
    (void)state;
    for (int of_rate = 0; of_rate < 2; of_rate++) {
        assert_true(price_after_refusals(of_rate, 10) > 100);
        assert_true(price_after_refusals(of_rate, 5) < 10);
    }
}

/* Calls that found no slot would have used the budget, too. */
static void calls_without_a_slot_are_demand(void **state)
{
    struct tg_policy *policies[2] = {with_budget(10000, false), with_budget(10000, false)};
    struct tg_duals duals[2];

    (void)state;
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < 1500; i++) {
            tg_ms now = i * 100;
            struct tg_call call = call_of(10, 1);
            if (k == 1)
                for (int j = 0; j < 5; j++)
                    policies[k]->refused(policies[k], &call, TG_REASON_CONCURRENCY, now);
            if (policies[k]->worth(policies[k], &call, 0, now)) {
                policies[k]->admitted(policies[k], &call, now);
                release(policies[k], 10, 10, now);
            }
        }
        tg_bid_get_duals(policies[k], &duals[k]);
        tg_bid_free(policies[k]);
    }
    assert_true(equal(duals[0].cost, 0)); /* 6000 of 10000 */
    assert_true(duals[1].cost > 0);
}

static void the_guard_says_what_it_has_done(void **state)
{
    struct tg_policy *policy = with_budget(1000, true);
    struct tg_bid_guard guard;

    (void)state;
    /* Dear calls come first, so the prices refuse the cheap ones that come then. */
    for (int i = 0, admitted = 0; i < 300; i++) {
        struct tg_call call = call_of(10, i < 50 ? 100 : 20);
        if (admitted == 100 || !policy->worth(policy, &call, 0, i * 100))
            continue;
        policy->admitted(policy, &call, i * 100);
        release(policy, 10, 10, i * 100);
        admitted++;
    }
    tg_bid_get_guard(policy, &guard);
    print_message("acted %llu, earned %g, without policy %g\n", (unsigned long long)guard.acted,
                  guard.earned, guard.shadow);
    assert_true(guard.on && guard.acted > 0);
    assert_true(guard.earned >= 0.99 * guard.shadow && equal(guard.factor, 1));
    tg_bid_free(policy);
}

/* ---- what is kept over a restart ---- */

static bool offer(struct tg_policy *policy, int i)
{
    tg_ms now = 5 + i * 60;
    int64_t cost = 10 + i * 37 % 200;
    struct tg_call call = call_of(cost, 1 + i * 53 % 17);
    bool worth = policy->worth(policy, &call, 0, now);

    if (worth) {
        policy->admitted(policy, &call, now);
        release(policy, cost, cost / 2, now);
    }
    return worth;
}

/* One continues, and another starts at the beginning of a window from what it has kept. */
static void what_was_learned_survives_a_restart(void **state)
{
    struct tg_policy *first = with_budget(20000, true), *second = with_budget(20000, true);
    struct tg_policy *cold = with_budget(20000, true);
    int at = 20 * WINDOW / 60, differ[2] = {0, 0};
    struct tg_bid_guard kept, recalled;

    (void)state;
    assert_int_equal(tg_bid_save(first, NULL, 0), 0); /* nothing is learned */
    for (int i = 0; i < at; i++)
        offer(first, i);
    size_t n = tg_bid_save(first, NULL, 0);
    char *bytes = malloc(n);
    assert_true(bytes != NULL && n > 0 && tg_bid_save(first, bytes, n) == n);
    assert_int_equal(tg_bid_load(second, bytes, n, 5 + at * 60), TG_OK);
    tg_bid_get_guard(first, &kept);
    tg_bid_get_guard(second, &recalled);
    assert_true(equal(kept.earned, recalled.earned) && equal(kept.shadow, recalled.shadow) &&
                equal(kept.factor, recalled.factor) && kept.acted == recalled.acted);
    for (int i = at; i < at + at / 20; i++) { /* a window */
        bool want = offer(first, i);
        differ[0] += offer(second, i) != want;
        differ[1] += offer(cold, i) != want;
    }
    print_message("of %d, %d differ, and %d of one that starts anew\n", at / 20, differ[0],
                  differ[1]);
    assert_true(differ[0] <= 2 && differ[1] > 50);
    free(bytes);
    tg_bid_free(first);
    tg_bid_free(second);
    tg_bid_free(cold);
}

static void what_is_damaged_or_foreign_is_not_loaded(void **state)
{
    struct tg_policy *first = with_budget(20000, true), *other = with_budget(30000, true);
    struct tg_policy *same = with_budget(20000, true);
    tg_ms now = 1000000;

    (void)state;
    for (int i = 0; i < 2000; i++)
        offer(first, i);
    size_t n = tg_bid_save(first, NULL, 0);
    char *bytes = malloc(n);
    assert_true(bytes != NULL && tg_bid_save(first, bytes, n) == n);
    assert_int_equal(tg_bid_load(other, bytes, n, now), TG_ERR_INVALID); /* another budget */
    assert_int_equal(tg_bid_load(same, bytes, n - 1, now), TG_ERR_INVALID);
    assert_int_equal(tg_bid_load(same, bytes, n, 10), TG_ERR_INVALID);   /* from later */
    assert_int_equal(tg_bid_load(first, bytes, n, now), TG_ERR_INVALID); /* it has begun */
    for (size_t i = 0; i < n; i += 997) {
        bytes[i] = (char)(bytes[i] ^ 4);
        assert_int_equal(tg_bid_load(same, bytes, n, now), TG_ERR_INVALID);
        bytes[i] = (char)(bytes[i] ^ 4);
    }
    assert_int_equal(tg_bid_load(same, bytes, n, now), TG_OK);
    free(bytes);
    tg_bid_free(first);
    tg_bid_free(other);
    tg_bid_free(same);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_is_expected_to_use_what_calls_like_it_used),
        cmocka_unit_test(where_all_use_what_they_ask_for_it_is_that_to_the_bit),
        cmocka_unit_test(calls_that_ask_for_more_than_they_use_are_not_refused),
        cmocka_unit_test(what_another_limit_refuses_is_no_demand),
        cmocka_unit_test(what_a_used_up_budget_refuses_is_demand),
        cmocka_unit_test(calls_without_a_slot_are_demand),
        cmocka_unit_test(the_guard_says_what_it_has_done),
        cmocka_unit_test(what_was_learned_survives_a_restart),
        cmocka_unit_test(what_is_damaged_or_foreign_is_not_loaded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
