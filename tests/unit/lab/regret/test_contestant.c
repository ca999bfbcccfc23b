/* test_contestant.c - the policies that are only compared with: what they learn, and when. */
#include <math.h>

#include "check.h"
#include "lab/regret/contestant.h"

static bool asked(struct contestant *contestant, int64_t cost, double value)
{
    struct tg_call call;

    tg_call_init(&call);
    call.debit.cost = cost;
    call.value = value;
    return contestant->policy->worth(contestant->policy, &call, 0, 0);
}

/* ---- Cells ---- */

static void a_cell_begins_at_its_edge(void **state)
{
    (void)state;

    for (size_t cell = 0; cell < DENSITY_CELLS; cell++) {
        double edge = density_edge(0.001, 0.5, cell);
        assert_int_equal(density_cell(0.001, 0.5, edge * (1 + 1e-9)), cell);
        if (cell > 0)
            assert_int_equal(density_cell(0.001, 0.5, edge * (1 - 1e-9)), cell - 1);
    }
    assert_int_equal(density_cell(0.001, 0.5, 0), 0);
    assert_int_equal(density_cell(0.001, 0.5, 1e9), DENSITY_CELLS - 1);
}

static void the_boundary_is_the_first_cell_that_does_not_fit(void **state)
{
    double cost[DENSITY_CELLS] = {[100] = 3, [50] = 4, [7] = 5};
    size_t cell = 0;
    (void)state;

    assert_true(density_boundary(cost, 2.9, &cell));
    assert_int_equal(cell, 100);
    assert_true(density_boundary(cost, 3, &cell));
    assert_int_equal(cell, 50);
    assert_true(density_boundary(cost, 11.9, &cell));
    assert_int_equal(cell, 7);
    assert_false(density_boundary(cost, 12, &cell));
}

/* ---- The sampled form of adaptive ---- */

static const struct sampled_config config = {
    .price = 0.04, .budget = 50, .low = 0.001, .high = 0.5, .window = 10};

static void a_better_price_is_adopted_with_the_last_of_the_sample(void **state)
{
    struct contestant contestant;
    (void)state;

    assert_int_equal(contestant_sampled(&config, &contestant), TG_OK);
    for (int i = 0; i < 9; i++)
        assert_false(asked(&contestant, 100, 1)); /* a density of 0.01 */
    assert_true(asked(&contestant, 100, 1));
    assert_true(asked(&contestant, 100, 1));
    assert_false(asked(&contestant, 10000, 50)); /* a density of 0.005 */
    contestant_free(&contestant);
}

/* All that comes is worth the price that there is, and another one earns the same. */
static void a_price_that_is_not_better_is_not_adopted(void **state)
{
    struct contestant contestant;
    (void)state;

    assert_int_equal(contestant_sampled(&config, &contestant), TG_OK);
    for (int i = 0; i < 12; i++)
        assert_true(asked(&contestant, 10, 4)); /* 0.4: all of it fits, a price of 0 would do */
    assert_false(asked(&contestant, 100, 1));
    contestant_free(&contestant);
}

/* ---- The learner ---- */

static void a_learner_takes_the_prices_of_its_sample_when_it_is_told_to(void **state)
{
    struct tg_duals prior = {.cost = 0.04};
    struct tg_workload budgets;
    struct contestant contestant;
    (void)state;

    tg_workload_init(&budgets);
    budgets.rate_budget = 1;
    budgets.cost_budget = 50;
    for (size_t from = 10; from <= 11; from++) {
        assert_int_equal(contestant_learner(&budgets, &prior, 10, from, &contestant), TG_OK);
        for (size_t i = 1; i <= 20; i++)
            assert_int_equal(asked(&contestant, 100, 1), i >= from);
        assert_false(asked(&contestant, 10000, 50));
        contestant_free(&contestant);
    }
}

static void more_types_than_there_is_room_for_are_not_counted(void **state)
{
    struct tg_duals none = {0, 0, 0};
    struct tg_workload budgets;
    struct contestant contestant;
    (void)state;

    tg_workload_init(&budgets);
    budgets.rate_budget = 1;
    budgets.cost_budget = 1;
    assert_int_equal(contestant_learner(&budgets, &none, 1000, 1000, &contestant), TG_OK);
    for (int i = 1; i <= 1000; i++)
        (void)asked(&contestant, i, i);
    /* The first 64 of 1000 cost 2.08 an arrival, and have all the same density: 1. */
    assert_true(asked(&contestant, 100, 100));
    assert_false(asked(&contestant, 100, 99));
    contestant_free(&contestant);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cell_begins_at_its_edge),
        cmocka_unit_test(the_boundary_is_the_first_cell_that_does_not_fit),
        cmocka_unit_test(a_better_price_is_adopted_with_the_last_of_the_sample),
        cmocka_unit_test(a_price_that_is_not_better_is_not_adopted),
        cmocka_unit_test(a_learner_takes_the_prices_of_its_sample_when_it_is_told_to),
        cmocka_unit_test(more_types_than_there_is_room_for_are_not_counted),
    };

    return cmocka_run_group_tests_name("contestant", tests, NULL, NULL);
}
