/* test_bid.c - bid prices: the filter, where prices come from, and what is refused as a policy.
 *
 * The filter is asked as a gate asks it. Published numbers are named where they stand.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "gate_kit.h"

#define NOW 1000

static struct tg_policy *must_bid(const struct tg_bid_config *config)
{
    struct tg_policy *policy = NULL;
    struct tg_problem problem = {""};

    if (tg_bid_new(config, &policy, &problem) != TG_OK)
        fail_msg("no policy: %s", problem.text);
    assert_non_null(policy);
    return policy;
}

static struct tg_policy *with_duals(double rate, double cost, double concurrency)
{
    struct tg_bid_config config;

    tg_bid_config_init(&config);
    config.prices = TG_PRICES_DUALS;
    config.duals = (struct tg_duals){rate, cost, concurrency};
    return must_bid(&config);
}

static bool worth(struct tg_policy *policy, int64_t cost, double value, double hold_s)
{
    struct tg_call call;

    tg_call_init(&call);
    call.debit.cost = cost;
    call.value = value;
    call.hold_s = hold_s;
    return policy->worth(policy, &call, 0, NOW);
}

/* One question to prices that are given. */
static bool pays(struct tg_duals duals, int64_t cost, double value, double hold_s)
{
    struct tg_policy *policy = with_duals(duals.rate, duals.cost, duals.concurrency);
    bool answer = worth(policy, cost, value, hold_s);

    tg_bid_free(policy);
    return answer;
}

/* ---- the filter ---- */

static void the_bid_is_the_sum_of_what_the_call_takes(void **state)
{
    (void)state;
    assert_false(pays((struct tg_duals){0, 0, 0.5}, 1, 10, 100));
    assert_true(pays((struct tg_duals){0, 0, 0.5}, 1, 60, 100));
    assert_true(pays((struct tg_duals){1, 0.01, 0.5}, 100, 7, 10)); /* 1 + 1 + 5 */
    assert_false(pays((struct tg_duals){1, 0.01, 0.5}, 100, 6.99, 10));
    assert_true(pays((struct tg_duals){2, 0, 0}, 1, 2, 0));
    assert_false(pays((struct tg_duals){2, 0, 0}, 1, 1.9, 0));
}

/* A caller that does not know its hold, or lies about it, neither gains nor loses by it. */
static void a_hold_that_is_none_counts_as_0(void **state)
{
    static const double holds[] = {NAN, INFINITY, -INFINITY, -100, -1e9, -0.0, 0};
    (void)state;

    for (size_t i = 0; i < COUNT_OF(holds); i++) {
        assert_false(pays((struct tg_duals){0, 0.2, 0.5}, 100, 10, holds[i]));
        assert_true(pays((struct tg_duals){0, 0.2, 0.5}, 100, 20, holds[i]));
    }
}

static void a_cost_that_is_none_counts_as_0(void **state)
{
    static const int64_t costs[] = {0, -1, -1000, INT64_MIN};
    (void)state;

    for (size_t i = 0; i < COUNT_OF(costs); i++) {
        assert_true(pays((struct tg_duals){1, 0.5, 0}, costs[i], 1, 0));
        assert_false(pays((struct tg_duals){1, 0.5, 0}, costs[i], 0.75, 0));
    }
}

static void a_value_that_is_none_counts_as_0(void **state)
{
    static const double values[] = {NAN, -1, -INFINITY, -0.0};
    (void)state;

    for (size_t i = 0; i < COUNT_OF(values); i++) {
        assert_true(pays((struct tg_duals){0, 0, 0}, 100, values[i], 0));
        assert_false(pays((struct tg_duals){0, 1e-300, 0}, 100, values[i], 0));
    }
    assert_true(pays((struct tg_duals){1, 1, 1}, 100, INFINITY, 10));
}

static void prices_beyond_all_bounds_refuse_and_do_not_overflow(void **state)
{
    (void)state;
    assert_false(pays((struct tg_duals){DBL_MAX, DBL_MAX, DBL_MAX}, TG_NUMBER_MAX, 1, DBL_MAX));
    assert_false(pays((struct tg_duals){DBL_MAX, DBL_MAX, DBL_MAX}, TG_NUMBER_MAX, DBL_MAX, 1));
}

/* 3 / 187 * 187 > 3. All pairs for which the published solver has a price. */
static void a_call_exactly_at_the_margin_is_admitted(void **state)
{
    int above = 0, pairs = 0;
    (void)state;

    for (int value = 1; value <= 100; value++) {
        for (int cost = 1; cost <= 1000; cost++) {
            double price = (double)value / cost;
            struct tg_policy *policy = with_duals(0, price, 0);
            above += price * cost > value;
            pairs++;
            if (!worth(policy, cost, value, 0))
                fail_msg("value %d, cost %d: refused at its own price", value, cost);
            if (worth(policy, cost, value * (1 - 1e-8), 0))
                fail_msg("value %d, cost %d: admitted below its price", value, cost);
            tg_bid_free(policy);
        }
    }
    print_message("%d of %d pairs need the tolerance\n", above, pairs);
    assert_true(above > 1000); /* or this test shows nothing */
}

/* ---- prices ---- */

static const struct tg_type canonical[] = {
    {.cost = 100, .value = 1, .weight = 500, .hold_s = TG_NO_HOLD},
    {.cost = 10000, .value = 50, .weight = 500, .hold_s = TG_NO_HOLD},
};

static struct tg_bid_config canonical_config(enum tg_prices prices)
{
    struct tg_bid_config config;

    tg_bid_config_init(&config);
    config.prices = prices;
    config.workload.types = canonical;
    config.workload.n_types = 2;
    config.workload.rate_budget = 1000;
    config.workload.cost_budget = 50000;
    return config;
}

static void a_workload_is_solved_and_copied(void **state)
{
    struct tg_type types[2];
    struct tg_bid_config config = canonical_config(TG_PRICES_WORKLOAD);
    struct tg_duals duals;
    (void)state;

    memcpy(types, canonical, sizeof types);
    config.workload.types = types;
    struct tg_policy *policy = must_bid(&config);
    memset(types, 0xff, sizeof types);
    tg_bid_get_duals(policy, &duals);
    assert_true(duals.rate == 0 && duals.cost == 0.01 && duals.concurrency == 0);
    assert_true(worth(policy, 100, 1, 0));
    assert_false(worth(policy, 10000, 50, 0));
    tg_bid_free(policy);
}

/* Two kinds that hold their slots for 15 s and 200 s: a slot-second has the price, and the long
 * ones are refused. */
static void a_workload_with_holds_has_a_price_for_them(void **state)
{
    static const struct tg_type types[] = {{100, 10, 1800, 15}, {100, 10, 200, 200}};
    struct tg_bid_config config = canonical_config(TG_PRICES_WORKLOAD);
    struct tg_duals duals;
    (void)state;

    config.workload.types = types;
    config.workload.rate_budget = 2000;
    config.workload.cost_budget = 1e9;
    config.workload.conc_budget_s = 20000;
    struct tg_policy *policy = must_bid(&config);
    tg_bid_get_duals(policy, &duals);
    assert_true(fabs(duals.concurrency - 2.0 / 3) < 1e-12 && duals.rate == 0 && duals.cost == 0);
    assert_true(worth(policy, 100, 10, 15));
    assert_false(worth(policy, 100, 10, 200));
    tg_bid_free(policy);
}

static void prices_have_names(void **state)
{
    (void)state;
    assert_string_equal(tg_prices_name(TG_PRICES_DUALS), "duals");
    assert_string_equal(tg_prices_name(TG_PRICES_WORKLOAD), "workload");
    assert_string_equal(tg_prices_name(TG_PRICES_ADAPTIVE), "adaptive");
    assert_string_equal(tg_prices_name(TG_PRICES_ONLINE), "online");
    assert_null(tg_prices_name(TG_PRICES_COUNT));
}

static void only_prices_that_move_hear_of_calls(void **state)
{
    struct tg_bid_config config = canonical_config(TG_PRICES_ONLINE);
    struct tg_policy *policy = with_duals(1, 1, 1);
    (void)state;

    assert_true(!policy->admitted && !policy->released);
    tg_bid_free(policy);
    config.online.cost_budget = 50000;
    policy = must_bid(&config);
    assert_true(policy->admitted && policy->released);
    tg_bid_free(policy);
    tg_bid_free(NULL);
}

/* ---- what is no policy ---- */

/* One field of a good configuration is spoiled; the message names it. */
struct spoiled {
    const char *what;
    enum tg_prices prices;
    void (*spoil)(struct tg_bid_config *config);
    const char *named;
};

static struct tg_type room[3];

static void spoil_type(struct tg_bid_config *config, size_t n)
{
    memcpy(room, canonical, sizeof canonical);
    config->workload.types = room;
    config->workload.n_types = n;
}

#define SPOIL(name, statement)                     \
    static void name(struct tg_bid_config *config) \
    {                                              \
        statement;                                 \
    }
SPOIL(nan_rate_dual, config->duals.rate = NAN)
SPOIL(negative_cost_dual, config->duals.cost = -0.01)
SPOIL(infinite_dual, config->duals.concurrency = INFINITY)
SPOIL(no_types, config->workload.n_types = 0)
SPOIL(no_rate_budget, config->workload.rate_budget = 0)
SPOIL(negative_cost_budget, config->workload.cost_budget = -5)
SPOIL(nan_rate_budget, config->workload.rate_budget = NAN)
SPOIL(negative_conc_budget, config->workload.conc_budget_s = -1)
SPOIL(conc_budget_without_hold, config->workload.conc_budget_s = 10)
SPOIL(nan_arrivals, config->workload.arrivals = NAN)
SPOIL(negative_arrivals, config->workload.arrivals = -3)
SPOIL(negative_cost, spoil_type(config, 2); room[1].cost = -1)
SPOIL(nan_value, spoil_type(config, 2); room[0].value = NAN)
SPOIL(infinite_weight, spoil_type(config, 2); room[1].weight = INFINITY)
SPOIL(hold_without_budget, spoil_type(config, 2); room[0].hold_s = 3)
SPOIL(nan_hold, spoil_type(config, 2); config->workload.conc_budget_s = 9; room[0].hold_s = NAN;
      room[1].hold_s = 1)
SPOIL(too_many_types, config->workload.n_types = TG_TYPES_MAX + 1)
SPOIL(no_prior, config->workload.n_types = 0)
SPOIL(no_prior_budget, config->workload.n_types = 0; config->workload.arrivals = 10;
      config->workload.cost_budget = 0)
SPOIL(nan_prior_dual, config->workload.n_types = 0; config->workload.arrivals = 10;
      config->duals.rate = NAN)
SPOIL(no_sample, config->sample_window = 0)
SPOIL(too_much_sample, config->sample_window = 1000001)
SPOIL(weightless, spoil_type(config, 2); room[0].weight = room[1].weight = 0)
SPOIL(no_online_budget, config->online.cost_budget = 0)
SPOIL(negative_online_budget, config->online.rate_budget = -1)
SPOIL(nan_online_budget, config->online.conc_budget_s = NAN)
SPOIL(no_window, config->online.window = 0)
SPOIL(bad_online_prior, config->workload.rate_budget = 0)
SPOIL(no_prices, config->prices = TG_PRICES_COUNT)

static const struct spoiled spoiled[] = {
    {"a price that is NaN", TG_PRICES_DUALS, nan_rate_dual, "duals.rate"},
    {"a negative price", TG_PRICES_DUALS, negative_cost_dual, "duals.cost"},
    {"an infinite price", TG_PRICES_DUALS, infinite_dual, "duals.concurrency"},
    {"no types", TG_PRICES_WORKLOAD, no_types, "workload.types"},
    {"a budget of 0", TG_PRICES_WORKLOAD, no_rate_budget, "workload.rate_budget"},
    {"a negative budget", TG_PRICES_WORKLOAD, negative_cost_budget, "workload.cost_budget"},
    {"a budget that is NaN", TG_PRICES_WORKLOAD, nan_rate_budget, "workload.rate_budget"},
    {"negative slot-seconds", TG_PRICES_WORKLOAD, negative_conc_budget, "workload.conc_budget"},
    {"slot-seconds, no hold", TG_PRICES_WORKLOAD, conc_budget_without_hold, "hold"},
    {"arrivals that are NaN", TG_PRICES_WORKLOAD, nan_arrivals, "workload.arrivals"},
    {"negative arrivals", TG_PRICES_WORKLOAD, negative_arrivals, "workload.arrivals"},
    {"a negative cost", TG_PRICES_WORKLOAD, negative_cost, "workload.types[1].cost"},
    {"a value that is NaN", TG_PRICES_WORKLOAD, nan_value, "workload.types[0].value"},
    {"an infinite weight", TG_PRICES_WORKLOAD, infinite_weight, "workload.types[1].weight"},
    {"a hold, no slot-seconds", TG_PRICES_WORKLOAD, hold_without_budget, "workload.types[0].hold"},
    {"a hold that is NaN", TG_PRICES_WORKLOAD, nan_hold, "workload.types[0].hold"},
    {"257 types", TG_PRICES_WORKLOAD, too_many_types, "workload."},
    {"nothing to start from", TG_PRICES_ADAPTIVE, no_prior, "workload"},
    {"no budget to learn with", TG_PRICES_ADAPTIVE, no_prior_budget, "workload.cost_budget"},
    {"a prior that is NaN", TG_PRICES_ADAPTIVE, nan_prior_dual, "duals.rate"},
    {"no sample", TG_PRICES_ADAPTIVE, no_sample, "sample_window"},
    {"too large a sample", TG_PRICES_ADAPTIVE, too_much_sample, "sample_window"},
    {"no weights", TG_PRICES_ADAPTIVE, weightless, "workload.types"},
    {"no budget at all", TG_PRICES_ONLINE, no_online_budget, "online"},
    {"a negative budget", TG_PRICES_ONLINE, negative_online_budget, "online.rate_budget"},
    {"a budget that is NaN", TG_PRICES_ONLINE, nan_online_budget, "online.conc_budget"},
    {"no window", TG_PRICES_ONLINE, no_window, "online.window"},
    {"a prior without budget", TG_PRICES_ONLINE, bad_online_prior, "workload.rate_budget"},
    {"no such prices", TG_PRICES_DUALS, no_prices, "prices"},
};

static void what_is_no_policy_is_refused_with_its_field(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(spoiled); i++) {
        struct tg_bid_config config = canonical_config(spoiled[i].prices);
        struct tg_policy *policy = NULL;
        struct tg_problem problem = {""};

        config.online.cost_budget = 50000;
        tg_bid_free(must_bid(&config)); /* it is good until it is spoiled */
        spoiled[i].spoil(&config);
        if (tg_bid_new(&config, &policy, &problem) != TG_ERR_INVALID)
            fail_msg("%s: accepted", spoiled[i].what);
        if (strstr(problem.text, spoiled[i].named) == NULL)
            fail_msg("%s: %s is not in \"%s\"", spoiled[i].what, spoiled[i].named, problem.text);
        assert_null(policy);
        assert_int_equal(tg_bid_new(&config, &policy, NULL), TG_ERR_INVALID);
    }
}

static void a_window_is_accepted_up_to_its_bounds(void **state)
{
    struct tg_bid_config config = canonical_config(TG_PRICES_ADAPTIVE);
    (void)state;

    assert_int_equal(config.sample_window, 500);
    assert_int_equal(config.online.window, 60000);
    config.sample_window = 1;
    tg_bid_free(must_bid(&config));
    config.sample_window = 1000000;
    tg_bid_free(must_bid(&config));
    config = canonical_config(TG_PRICES_ONLINE);
    config.online.cost_budget = 50000;
    config.online.window = 1;
    tg_bid_free(must_bid(&config));
    config.online.window = TG_NUMBER_MAX;
    tg_bid_free(must_bid(&config));
    config.online.window = TG_NUMBER_MAX + 1;
    struct tg_policy *policy = NULL;
    assert_int_equal(tg_bid_new(&config, &policy, NULL), TG_ERR_INVALID);
    assert_null(policy);
}

/* ---- in a gate ---- */

/* 50000 units; six calls of 10000 worth 50 each, then 600 of 100 worth 1 each. */
static double earn(struct tg_policy *policy, int64_t *small)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config(&log);
    struct tg_store *store = must_store((size_t)64 * 1024, 1);
    struct tg_scope scope = scope_of(
        must_define_one(store, TG_AXIS_COST, "fixed_window:limit=50000,window=1000000"), "t");
    struct tg_call call = call_of(TG_PRIORITY_NORMAL);
    double revenue = 0;

    config.store = store;
    config.policy = policy;
    struct tg_gate *gate = must_gate(&config);
    *small = 0;
    for (int i = 0; i < 606; i++) {
        bool large = i < 6;
        call.debit = debit_of(&scope, large ? 10000 : 100);
        call.value = large ? 50 : 1;
        struct tg_answer answer = must_admit(gate, &call, NOW);
        revenue += answer.decision.allowed ? call.value : 0;
        *small += answer.decision.allowed && !large;
    }
    tg_gate_free(gate);
    tg_store_free(store);
    return revenue;
}

static void a_budget_goes_to_the_calls_that_are_worth_most_for_it(void **state)
{
    struct tg_policy *policy = with_duals(0, 0.01, 0);
    int64_t small;
    (void)state;

    assert_true(earn(policy, &small) == 500);
    assert_int_equal(small, 500);
    assert_true(earn(NULL, &small) == 250);
    assert_int_equal(small, 0);
    tg_bid_free(policy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bid_is_the_sum_of_what_the_call_takes),
        cmocka_unit_test(a_hold_that_is_none_counts_as_0),
        cmocka_unit_test(a_cost_that_is_none_counts_as_0),
        cmocka_unit_test(a_value_that_is_none_counts_as_0),
        cmocka_unit_test(prices_beyond_all_bounds_refuse_and_do_not_overflow),
        cmocka_unit_test(a_call_exactly_at_the_margin_is_admitted),
        cmocka_unit_test(a_workload_is_solved_and_copied),
        cmocka_unit_test(a_workload_with_holds_has_a_price_for_them),
        cmocka_unit_test(prices_have_names),
        cmocka_unit_test(only_prices_that_move_hear_of_calls),
        cmocka_unit_test(what_is_no_policy_is_refused_with_its_field),
        cmocka_unit_test(a_window_is_accepted_up_to_its_bounds),
        cmocka_unit_test(a_budget_goes_to_the_calls_that_are_worth_most_for_it),
    };
    return cmocka_run_group_tests_name("bid", tests, NULL, NULL);
}
