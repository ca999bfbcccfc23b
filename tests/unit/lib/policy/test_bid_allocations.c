/* test_bid_allocations.c - policies without memory: none is made, and none leaves anything behind.
 */
#include "failing_malloc.h"

#include <string.h>

static const struct tg_type types[] = {{.cost = 10, .value = 2, .weight = 0.5, .hold_s = 1},
                                       {.cost = 30, .value = 3, .weight = 0.5, .hold_s = 2}};

static struct tg_bid_config config_of(enum tg_prices prices)
{
    struct tg_bid_config config;

    tg_bid_config_init(&config);
    config.prices = prices;
    config.duals = (struct tg_duals){0.1, 0.01, 0};
    config.sample_window = 20;
    config.online.cost_budget = 500;
    config.online.window = 1000;
    config.workload.types = types;
    config.workload.n_types = COUNT_OF(types);
    config.workload.rate_budget = 0.9;
    config.workload.cost_budget = 12;
    config.workload.conc_budget_s = 1;
    return config;
}

/* Calls come, are admitted, refused and end; a sample is full on the way. */
static void use(struct tg_policy *policy)
{
    for (int i = 0; i < 60; i++) {
        struct tg_spent spent = {i * 10, 10, 5, 1, 1};
        struct tg_call call;
        tg_call_init(&call);
        call.debit.cost = 10 + i % 3;
        call.value = i % 5;
        if (!policy->worth(policy, &call, 1, i * 10))
            continue;
        if (policy->admitted)
            policy->admitted(policy, &call, i * 10);
        if (policy->released)
            policy->released(policy, &spent, i * 10 + 5);
    }
}

static long live_once(long nth)
{
    long errors = 0;

    fail_at(nth);
    for (int prices = 0; prices < TG_PRICES_COUNT; prices++) {
        struct tg_bid_config config = config_of((enum tg_prices)prices);
        struct tg_policy *policy = NULL;
        struct tg_problem problem = {""};
        enum tg_err err = tg_bid_new(&config, &policy, &problem);
        if (err != TG_OK && err != TG_ERR_MEMORY)
            fail_msg("%s: %s", tg_prices_name(config.prices), problem.text);
        assert_int_equal(err != TG_OK, policy == NULL);
        assert_int_equal(err != TG_OK, problem.text[0] != 0);
        errors += err != TG_OK;
        if (policy)
            use(policy);
        tg_bid_free(policy);
    }
    until_failure = -1;
    return errors;
}

static void a_policy_gives_back_all_its_memory(void **state)
{
    (void)state;
    need_allocator();
    expect_survival(live_once, false, 4, 3);
    expect_survival(live_once, true, 4, 3);
}

/* What was learned is read into memory of its own for a moment. */
static void what_was_learned_is_not_read_without_memory(void **state)
{
    struct tg_bid_config config = config_of(TG_PRICES_ONLINE);
    struct tg_policy *first = NULL, *second = NULL;
    (void)state;

    need_allocator();
    assert_int_equal(tg_bid_new(&config, &first, NULL), TG_OK);
    assert_int_equal(tg_bid_new(&config, &second, NULL), TG_OK);
    use(first);
    size_t n = tg_bid_save(first, NULL, 0);
    char *bytes = malloc(n);
    assert_true(bytes != NULL && tg_bid_save(first, bytes, n) == n);
    long before = live;
    keeps_failing = false;
    fail_at(0);
    assert_int_equal(tg_bid_load(second, bytes, n, 5000), TG_ERR_INVALID);
    assert_int_equal(allocations, 1);
    assert_int_equal(tg_bid_load(second, bytes, n, 5000), TG_OK);
    assert_int_equal(live, before);
    free(bytes);
    tg_bid_free(first);
    tg_bid_free(second);
}

/* At the first moment of all there is something to keep, too. */
static void what_was_learned_at_once_is_kept(void **state)
{
    struct tg_bid_config config = config_of(TG_PRICES_ONLINE);
    struct tg_policy *first = NULL, *second = NULL;
    struct tg_call call;
    (void)state;

    tg_call_init(&call);
    call.debit.cost = 10;
    assert_int_equal(tg_bid_new(&config, &first, NULL), TG_OK);
    assert_int_equal(tg_bid_new(&config, &second, NULL), TG_OK);
    (void)first->worth(first, &call, 1, 0);
    size_t n = tg_bid_save(first, NULL, 0);
    char *bytes = malloc(n);
    assert_true(bytes != NULL && tg_bid_save(first, bytes, n) == n);
    assert_int_equal(tg_bid_load(second, bytes, n, 0), TG_OK);
    free(bytes);
    tg_bid_free(first);
    tg_bid_free(second);
}

/* Only prices that move have learned something that is worth keeping. */
static void prices_that_do_not_move_keep_nothing(void **state)
{
    (void)state;
    for (int prices = 0; prices < TG_PRICES_COUNT; prices++) {
        struct tg_bid_config config = config_of((enum tg_prices)prices);
        struct tg_policy *policy = NULL;
        char bytes[8] = "before";
        assert_int_equal(tg_bid_new(&config, &policy, NULL), TG_OK);
        use(policy);
        size_t n = tg_bid_save(policy, bytes, sizeof bytes);
        assert_int_equal(n > sizeof bytes, prices == TG_PRICES_ONLINE);
        assert_true(prices == TG_PRICES_ONLINE || n == 0);
        assert_string_equal(bytes, "before");
        assert_int_equal(tg_bid_load(policy, bytes, sizeof bytes, 1), TG_ERR_INVALID);
        tg_bid_free(policy);
    }
    assert_int_equal(tg_bid_save(NULL, NULL, 0), 0);
    assert_int_equal(tg_bid_load(NULL, "", 0, 1), TG_ERR_NULL);
}

/* The first budget that is wrong is named, whatever the others are. */
static void the_first_budget_that_is_wrong_is_named(void **state)
{
    static const char *const names[] = {"workload.rate_budget", "workload.cost_budget",
                                        "workload.conc_budget"};
    (void)state;

    for (size_t first = 0; first < COUNT_OF(names); first++) {
        struct tg_bid_config config = config_of(TG_PRICES_WORKLOAD);
        double *const budgets[] = {&config.workload.rate_budget, &config.workload.cost_budget,
                                   &config.workload.conc_budget_s};
        struct tg_policy *policy = NULL;
        struct tg_problem problem = {""};
        for (size_t i = first; i < COUNT_OF(budgets); i++)
            *budgets[i] = -1;
        assert_int_equal(tg_bid_new(&config, &policy, &problem), TG_ERR_INVALID);
        assert_memory_equal(problem.text, names[first], strlen(names[first]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_policy_gives_back_all_its_memory),
        cmocka_unit_test(what_was_learned_is_not_read_without_memory),
        cmocka_unit_test(what_was_learned_at_once_is_kept),
        cmocka_unit_test(prices_that_do_not_move_keep_nothing),
        cmocka_unit_test(the_first_budget_that_is_wrong_is_named),
    };
    return cmocka_run_group_tests_name("bid_allocations", tests, NULL, NULL);
}
