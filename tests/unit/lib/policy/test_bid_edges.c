/* test_bid_edges.c - numbers at the edge: what a policy accepts, and what it makes harmless. */
#include <math.h>
#include <string.h>

#include "check.h"

static const struct tg_type types[2] = {
    {.cost = 100, .value = 5, .weight = 3, .hold_s = TG_NO_HOLD},
    {.cost = 10, .value = 1, .weight = 7, .hold_s = TG_NO_HOLD}};

static struct tg_bid_config config_for(enum tg_prices prices)
{
    struct tg_bid_config config;

    tg_bid_config_init(&config);
    config.prices = prices;
    return config;
}

static struct tg_bid_config typed_config(enum tg_prices prices)
{
    struct tg_bid_config config = config_for(prices);

    config.workload.types = types;
    config.workload.n_types = 2;
    config.workload.rate_budget = 5;
    config.workload.cost_budget = 200;
    return config;
}

/* A prior of prices, and budgets for ten arrivals, of no types. */
static struct tg_bid_config untyped_config(void)
{
    struct tg_bid_config config = config_for(TG_PRICES_ADAPTIVE);

    config.duals = (struct tg_duals){1, 2, 3};
    config.workload.arrivals = 10;
    config.workload.rate_budget = 5;
    config.workload.cost_budget = 200;
    return config;
}

static void expect_made(const struct tg_bid_config *config, enum tg_err want, const char *named)
{
    struct tg_policy *policy = NULL;
    struct tg_problem problem = {""};

    assert_int_equal(tg_bid_new(config, &policy, &problem), want);
    assert_true((policy != NULL) == (want == TG_OK));
    if (named != NULL && strstr(problem.text, named) == NULL)
        fail_msg("%s is not in \"%s\"", named, problem.text);
    tg_bid_free(policy);
}

static void defaults_are_those_of_the_header(void **state)
{
    struct tg_bid_config config;
    (void)state;

    tg_bid_config_init(&config);
    assert_int_equal(config.prices, TG_PRICES_WORKLOAD);
    assert_int_equal(config.sample_window, 500);
    assert_int_equal(config.online.window, 60000);
    assert_int_equal(config.workload.n_types, 0);
    assert_true(config.online.rate_budget == 0 && config.online.cost_budget == 0 &&
                config.online.conc_budget_s == 0 && !config.online.steady);
}

static void a_sample_has_one_call_to_a_million(void **state)
{
    static const struct {
        int64_t calls;
        bool fine;
    } rows[] = {{INT64_MIN, false}, {0, false}, {1, true}, {1000000, true}, {1000001, false}};
    struct tg_bid_config config = typed_config(TG_PRICES_ADAPTIVE);
    (void)state;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        config.sample_window = rows[i].calls;
        expect_made(&config, rows[i].fine ? TG_OK : TG_ERR_INVALID,
                    rows[i].fine ? NULL : "sample_window");
    }
}

/* A budget must be a number above 0; of slot-seconds there may be none. */
static void an_untyped_prior_needs_each_of_its_budgets(void **state)
{
    static const double bad[] = {-1, NAN, INFINITY, 0};
    struct tg_bid_config good = untyped_config();
    (void)state;

    expect_made(&good, TG_OK, NULL);
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct tg_bid_config config = good;
        config.workload.rate_budget = bad[i];
        expect_made(&config, TG_ERR_INVALID, "workload.rate_budget");
        config = good;
        config.workload.cost_budget = bad[i];
        expect_made(&config, TG_ERR_INVALID, "workload.cost_budget");
        config = good;
        config.workload.arrivals = bad[i];
        expect_made(&config, TG_ERR_INVALID, "arrivals");
        config = good;
        config.workload.conc_budget_s = bad[i];
        expect_made(&config, bad[i] == 0 ? TG_OK : TG_ERR_INVALID,
                    bad[i] == 0 ? NULL : "workload.conc_budget_s");
    }
    good.workload.conc_budget_s = 7;
    expect_made(&good, TG_OK, NULL);
}

static void online_needs_one_budget_and_a_window(void **state)
{
    (void)state;
    for (unsigned present = 0; present < 8; present++) {
        struct tg_bid_config config = config_for(TG_PRICES_ONLINE);
        config.online.rate_budget = present & 1 ? 10 : 0;
        config.online.cost_budget = present & 2 ? 10 : 0;
        config.online.conc_budget_s = present & 4 ? 10 : 0;
        expect_made(&config, present ? TG_OK : TG_ERR_INVALID, present ? NULL : "budget");
        config.online.window = 1;
        expect_made(&config, present ? TG_OK : TG_ERR_INVALID, NULL);
        config.online.window = 0;
        expect_made(&config, TG_ERR_INVALID, "online.window");
        config.online.window = INT64_MAX;
        expect_made(&config, TG_ERR_INVALID, "online.window");
    }
    struct tg_bid_config infinite = config_for(TG_PRICES_ONLINE);
    infinite.online.cost_budget = INFINITY;
    expect_made(&infinite, TG_ERR_INVALID, "online.cost_budget");
}

static void the_prior_counts_until_the_sample_is_complete(void **state)
{
    struct tg_bid_config config = untyped_config();
    struct tg_policy *policy;
    struct tg_duals duals;
    (void)state;

    assert_int_equal(tg_bid_new(&config, &policy, NULL), TG_OK);
    tg_bid_get_duals(policy, &duals);
    assert_true(duals.rate == 1 && duals.cost == 2 && duals.concurrency == 3);
    tg_bid_free(policy);
}

/* ---- what became of calls ---- */

/* Budgets of whole powers of two, so that what is taken and given back leaves nothing. */
static struct tg_policy *new_online(void)
{
    struct tg_bid_config config = config_for(TG_PRICES_ONLINE);
    struct tg_policy *policy;

    config.online.window = 1 << 14;
    config.online.cost_budget = 1 << 12;
    config.online.conc_budget_s = 1 << 6;
    assert_int_equal(tg_bid_new(&config, &policy, NULL), TG_OK);
    return policy;
}

/* Offers calls of two kinds over a third of a window, more than there is budget for. */
static unsigned offer_some(struct tg_policy *policy, tg_ms from)
{
    unsigned admitted = 0;

    for (tg_ms now = from; now < from + 5000; now += 50) {
        struct tg_call call;
        tg_call_init(&call);
        call.debit.cost = now / 50 % 3 ? 64 : 256;
        call.value = now / 50 % 3 ? 1 : 9;
        call.hold_s = 0.5;
        if (!policy->worth(policy, &call, 1, now))
            continue;
        policy->admitted(policy, &call, now);
        admitted++;
    }
    return admitted;
}

static void admit_and_release(struct tg_policy *policy, struct tg_spent spent, tg_ms now)
{
    struct tg_call call;

    tg_call_init(&call);
    call.debit.cost = spent.cost;
    call.hold_s = spent.hold_s;
    policy->admitted(policy, &call, now);
    policy->released(policy, &spent, now);
}

static void expect_equal(struct tg_policy *one, struct tg_policy *other, tg_ms from)
{
    struct tg_duals a, b;

    assert_int_equal(offer_some(one, from), offer_some(other, from));
    tg_bid_get_duals(one, &a);
    tg_bid_get_duals(other, &b);
    assert_true(a.cost > 0 || a.concurrency > 0);
    assert_true(a.rate == b.rate && a.cost == b.cost && a.concurrency == b.concurrency);
}

static void what_was_taken_and_not_used_is_there_again(void **state)
{
    struct tg_policy *one = new_online(), *other = new_online();
    const struct tg_spent nothing = {5000, 1024, 0, 16, 0};
    (void)state;

    assert_int_equal(offer_some(one, 0), offer_some(other, 0));
    for (int i = 0; i < 8; i++)
        admit_and_release(one, nothing, 5000);
    expect_equal(one, other, 5000);
    tg_bid_free(one);
    tg_bid_free(other);
}

/* A cost below 0 and a hold that is no number count as 0. */
static void what_is_no_number_counts_as_nothing(void **state)
{
    static const double holds[] = {NAN, -1, INFINITY, -INFINITY};
    struct tg_policy *one = new_online(), *other = new_online();
    (void)state;

    assert_int_equal(offer_some(one, 0), offer_some(other, 0));
    for (size_t i = 0; i < COUNT_OF(holds); i++) {
        admit_and_release(one, (struct tg_spent){5000, -1024, -512, holds[i], 4}, 5000);
        admit_and_release(other, (struct tg_spent){5000, 0, 0, 0, 4}, 5000);
    }
    expect_equal(one, other, 5000);
    tg_bid_free(one);
    tg_bid_free(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_those_of_the_header),
        cmocka_unit_test(a_sample_has_one_call_to_a_million),
        cmocka_unit_test(an_untyped_prior_needs_each_of_its_budgets),
        cmocka_unit_test(online_needs_one_budget_and_a_window),
        cmocka_unit_test(the_prior_counts_until_the_sample_is_complete),
        cmocka_unit_test(what_was_taken_and_not_used_is_there_again),
        cmocka_unit_test(what_is_no_number_counts_as_nothing),
    };
    return cmocka_run_group_tests_name("bid_edges", tests, NULL, NULL);
}
