/* test_fluid.c - the fluid program: published answers, what is refused, what may be left out. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "fluid_kit.h"

/* ---- Published answers ---- */

struct row {
    const char *name;
    size_t n;
    struct tg_type types[5];
    double budgets[3]; /* calls, cost, slot-seconds */
    struct tg_duals duals;
    double x[5];
    double objective;
};

#define TYPE(cost, value, weight)       \
    {                                   \
        cost, value, weight, TG_NO_HOLD \
    }

static const struct row two_axes[] = {
    {.name = "canonical",
     .n = 2,
     .types = {TYPE(100, 1, .5), TYPE(10000, 50, .5)},
     .budgets = {1, 50, 0},
     .duals = {0, .01, 0},
     .x = {1, 0},
     .objective = .5},
    {.name = "neither budget binds",
     .n = 2,
     .types = {TYPE(1, 10, 1), TYPE(2, 20, 1)},
     .budgets = {100, 100, 0},
     .duals = {0, 0, 0},
     .x = {1, 1},
     .objective = 30},
    {.name = "rate, a type rationed",
     .n = 2,
     .types = {TYPE(1, 3, 1), TYPE(1, 1, 1)},
     .budgets = {1.5, 1000, 0},
     .duals = {1, 0, 0},
     .x = {1, .5},
     .objective = 3.5},
    {.name = "rate, used up by one type",
     .n = 2,
     .types = {TYPE(1, 3, 1), TYPE(1, 1, 1)},
     .budgets = {1, 1000, 0},
     .duals = {3, 0, 0},
     .x = {1, 0},
     .objective = 3},
    {.name = "both bind",
     .n = 2,
     .types = {TYPE(1, 5, 1), TYPE(10, 20, 1)},
     .budgets = {1.5, 8, 0},
     .duals = {10. / 3, 5. / 3, 0},
     .x = {7. / 9, 13. / 18},
     .objective = 55. / 3},
    {.name = "a single type",
     .n = 1,
     .types = {TYPE(10, 5, 2)},
     .budgets = {100, 10, 0},
     .duals = {0, .5, 0},
     .x = {.5},
     .objective = 5},
    {.name = "a type that costs nothing",
     .n = 2,
     .types = {TYPE(0, 1, 1), TYPE(100, 1, 1)},
     .budgets = {100, 50, 0},
     .duals = {0, .01, 0},
     .x = {1, .5},
     .objective = 1.5},
    {.name = "three of one value",
     .n = 3,
     .types = {TYPE(10, 10, .5), TYPE(3, 10, 2), TYPE(1, 10, 1)},
     .budgets = {3, 10, 0},
     .duals = {10, 0, 0},
     .x = {0, 1, 1},
     .objective = 30},
    {.name = "equal types",
     .n = 5,
     .types = {TYPE(5, 10, 1), TYPE(0, 1, 2), TYPE(0, 2, .5), TYPE(5, 10, 1), TYPE(5, 1, .5)},
     .budgets = {2, 8, 0},
     .duals = {2, 1.6, 0},
     .x = {.6, 0, .8, 1, 0},
     .objective = 16.8},
    {.name = "weights as counts",
     .n = 2,
     .types = {TYPE(100, 1, 500), TYPE(10000, 50, 500)},
     .budgets = {1000, 50000, 0},
     .duals = {0, .01, 0},
     .x = {1, 0},
     .objective = 500},
    {.name = "the large ones are worth 200",
     .n = 2,
     .types = {TYPE(100, 1, .5), TYPE(10000, 200, .5)},
     .budgets = {1, 50, 0},
     .duals = {0, .02, 0},
     .x = {0, .01},
     .objective = 1},
    {.name = "the large ones are worth 80",
     .n = 2,
     .types = {TYPE(100, 1, .5), TYPE(10000, 80, .5)},
     .budgets = {1, 50, 0},
     .duals = {0, .01, 0},
     .x = {1, 0},
     .objective = .5},
    {.name = "the large ones are worth 2",
     .n = 2,
     .types = {TYPE(100, 1, .5), TYPE(10000, 2, .5)},
     .budgets = {1, 50, 0},
     .duals = {0, .01, 0},
     .x = {1, 0},
     .objective = .5},
    {.name = "shares beside budgets of a window",
     .n = 2,
     .types = {TYPE(100, 1, .5), TYPE(10000, 50, .5)},
     .budgets = {1000, 50000, 0},
     .duals = {0, 0, 0},
     .x = {1, 1},
     .objective = 25.5},
};

/* The worlds of the three-axis gate. */
static const struct row three_axes[] = {
    {.name = "long holds are refused",
     .n = 2,
     .types = {{100, 10, 1800, 15}, {100, 10, 200, 200}},
     .budgets = {2000, 1e9, 20000},
     .duals = {0, 0, 2. / 3},
     .x = {20000. / 15 / 1800, 0},
     .objective = 40000. / 3},
    {.name = "slots are plenty, calls used up exactly",
     .n = 2,
     .types = {{100, 10, 1800, 15}, {100, 10, 200, 200}},
     .budgets = {2000, 1e9, 1e9},
     .duals = {10, 0, 0},
     .x = {1, 1},
     .objective = 20000},
    {.name = "quick and whale, all fit",
     .n = 2,
     .types = {{10, 1, 1000, 1}, {10, 5, 1000, 100}},
     .budgets = {2000, 1e7, 2e8},
     .duals = {1, 0, 0},
     .x = {1, 1},
     .objective = 6000},
    {.name = "the whale is rationed",
     .n = 2,
     .types = {{100, 2, 1000, 1}, {20, 6, 1000, 80}},
     .budgets = {1500, 120000, 24000},
     .duals = {0, 0, .075},
     .x = {1, 23. / 80},
     .objective = 3725},
};

static void expect_row(const struct row *row)
{
    struct fluid_case given = {.workload = {.n_types = row->n,
                                            .rate_budget = row->budgets[0],
                                            .cost_budget = row->budgets[1],
                                            .conc_budget_s = row->budgets[2]}};
    double tiny = 1e-12;

    memcpy(given.types, row->types, sizeof row->types);
    struct fluid_answer got = fluid_case_solve(&given);
    printf("# %s\n", row->name);
    expect_near(got.duals.rate, row->duals.rate, tiny);
    expect_near(got.duals.cost, row->duals.cost, tiny);
    expect_near(got.duals.concurrency, row->duals.concurrency, tiny);
    for (size_t i = 0; i < row->n; i++)
        expect_near(got.x[i], row->x[i], tiny);
    expect_near(got.objective, row->objective, tiny * row->objective);
    fluid_expect_best(&given, &got, 0);
}

static void two_axes_give_the_published_answers(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(two_axes); i++)
        expect_row(&two_axes[i]);
}

static void three_axes_give_the_published_answers(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(three_axes); i++)
        expect_row(&three_axes[i]);
}

/* The worlds of the three-axis gate without their third axis: calls are used up exactly. */
static void without_holds_the_same_worlds_price_calls(void **state)
{
    static const double rate_price[] = {10, 10, 1, 2};
    (void)state;

    for (size_t k = 0; k < COUNT_OF(three_axes); k++) {
        const struct row *row = &three_axes[k];
        struct fluid_case given = {.workload = {.n_types = row->n,
                                                .rate_budget = row->budgets[0],
                                                .cost_budget = row->budgets[1]}};
        memcpy(given.types, row->types, sizeof row->types);
        for (size_t i = 0; i < row->n; i++)
            given.types[i].hold_s = TG_NO_HOLD;
        struct fluid_answer got = fluid_case_solve(&given);
        expect_near(got.duals.rate, rate_price[k], 1e-12);
        expect_near(got.duals.cost, 0, 0);
    }
}

static void a_price_of_one_type_is_its_value_by_its_use(void **state)
{
    struct fluid_case given = {.types = {{100, 10, 1800, 15}, {100, 10, 200, 200}},
                               .workload = {.n_types = 2,
                                            .rate_budget = 2000,
                                            .cost_budget = 1e9,
                                            .conc_budget_s = 20000}};
    (void)state;

    struct fluid_answer got = fluid_case_solve(&given);
    assert_true(got.duals.concurrency == 10. / 15);
    assert_true(got.duals.concurrency * 15 == 10);
}

/* ---- What may be left out ---- */

static void defaults_are_one_of_each_and_no_hold(void **state)
{
    struct tg_type type;
    struct tg_workload workload;
    (void)state;

    tg_type_init(&type);
    assert_true(type.cost == 1 && type.value == 1 && type.weight == 1 && type.hold_s == TG_NO_HOLD);
    tg_workload_init(&workload);
    assert_null(workload.types);
    assert_int_equal(workload.n_types, 0);
    assert_true(workload.arrivals == 0 && workload.conc_budget_s == 0);
}

static struct fluid_case canonical(void)
{
    return (struct fluid_case){
        .types = {TYPE(100, 1, .5), TYPE(10000, 50, .5)},
        .workload = {.n_types = 2, .rate_budget = 1, .cost_budget = 50},
    };
}

static void fractions_and_objective_need_not_be_wanted(void **state)
{
    struct fluid_case given = canonical();
    struct tg_duals duals;
    (void)state;

    given.workload.types = given.types;
    assert_int_equal(tg_fluid_solve(&given.workload, &duals, NULL, NULL, NULL), TG_OK);
    expect_near(duals.cost, 0.01, 1e-15);
}

static void with_arrivals_weights_are_shares(void **state)
{
    struct fluid_case given = canonical();
    (void)state;

    given.types[0].weight = given.types[1].weight = 3;
    given.workload.arrivals = 1000;
    given.workload.rate_budget = 1000;
    given.workload.cost_budget = 50000;
    struct fluid_answer got = fluid_case_solve(&given);
    expect_near(got.duals.cost, 0.01, 1e-15);
    expect_near(got.objective, 500, 1e-9);
    expect_near(got.x[0], 1, 0);
    expect_near(got.x[1], 0, 0);
}

static void a_hold_of_0_is_as_none(void **state)
{
    struct fluid_case given = canonical();
    (void)state;

    given.types[0].hold_s = 0;
    expect_near(fluid_case_solve(&given).duals.cost, 0.01, 1e-15);
}

static void a_type_of_no_weight_shapes_nothing_and_is_in_if_it_is_worth_it(void **state)
{
    struct fluid_case given = canonical();
    (void)state;

    given.types[2] = (struct tg_type)TYPE(10, 1, 0);   /* bid 0.1 */
    given.types[3] = (struct tg_type)TYPE(1000, 1, 0); /* bid 10 */
    given.types[4] = (struct tg_type)TYPE(100, 1, 0);  /* at the margin */
    given.workload.n_types = 5;
    struct fluid_answer got = fluid_case_solve(&given);
    expect_near(got.duals.cost, 0.01, 1e-15);
    expect_near(got.x[2], 1, 0);
    expect_near(got.x[3], 0, 0);
    expect_near(got.x[4], 1, 0);
}

static void where_nothing_is_worth_anything_all_is_0(void **state)
{
    struct fluid_case given = canonical();
    (void)state;

    given.types[0].value = given.types[1].value = 0;
    struct fluid_answer got = fluid_case_solve(&given);
    assert_true(got.duals.rate == 0 && got.duals.cost == 0 && got.objective == 0);
}

/* ---- What is refused ---- */

static void expect_refused(const struct fluid_case *given, const char *words)
{
    struct fluid_case copy = *given;
    struct tg_duals duals = {7, 7, 7};
    struct tg_problem problem = {""};
    double x[TG_TYPES_MAX] = {7}, objective = 7;

    copy.workload.types = copy.types;
    assert_int_equal(tg_fluid_solve(&copy.workload, &duals, x, &objective, &problem),
                     TG_ERR_INVALID);
    if (strstr(problem.text, words) != problem.text)
        fail_msg("'%s' does not begin with '%s'", problem.text, words);
    assert_true(duals.rate == 7 && x[0] == 7 && objective == 7);
}

static void numbers_of_a_type_that_are_none_are_refused_by_name(void **state)
{
    static const double wrong[] = {-1, -1e-9, NAN, INFINITY, -INFINITY, 1.1e18, 9e-16};
    static const struct {
        const char *words;
        size_t offset;
    } fields[] = {{"types[1].cost is ", offsetof(struct tg_type, cost)},
                  {"types[1].value is ", offsetof(struct tg_type, value)},
                  {"types[1].weight is ", offsetof(struct tg_type, weight)}};
    (void)state;

    for (size_t f = 0; f < COUNT_OF(fields); f++)
        for (size_t k = 0; k < COUNT_OF(wrong); k++) {
            struct fluid_case given = canonical();
            memcpy((char *)&given.types[1] + fields[f].offset, &wrong[k], sizeof wrong[k]);
            expect_refused(&given, fields[f].words);
        }
}

static void budgets_that_are_none_are_refused_by_name(void **state)
{
    static const double wrong[] = {0, -1, NAN, INFINITY, 1.1e18};
    struct fluid_case given;
    (void)state;

    for (size_t k = 0; k < COUNT_OF(wrong); k++) {
        given = canonical();
        given.workload.rate_budget = wrong[k];
        expect_refused(&given, "rate_budget is ");
        given = canonical();
        given.workload.cost_budget = wrong[k];
        expect_refused(&given, "cost_budget is ");
        given = canonical();
        given.workload.conc_budget_s = wrong[k];
        if (wrong[k] != 0)
            expect_refused(&given, "conc_budget is ");
        given = canonical();
        given.workload.arrivals = wrong[k];
        if (wrong[k] != 0)
            expect_refused(&given, "arrivals is ");
    }
}

static void holds_and_their_budget_come_together(void **state)
{
    static const double wrong[] = {-2, NAN, INFINITY};
    struct fluid_case given = canonical();
    (void)state;

    given.types[1].hold_s = 3;
    expect_refused(&given, "types[1].hold is 3, but there is no conc_budget");
    given.workload.conc_budget_s = 10;
    expect_refused(&given, "types[0].hold is missing");
    for (size_t k = 0; k < COUNT_OF(wrong); k++) {
        given.types[0].hold_s = wrong[k];
        given.workload.conc_budget_s = 10;
        expect_refused(&given, "types[0].hold is ");
        given.workload.conc_budget_s = 0;
        expect_refused(&given, "types[0].hold is ");
    }
}

static void there_are_1_to_256_types(void **state)
{
    struct fluid_case given = canonical();
    (void)state;

    given.workload.n_types = 0;
    expect_refused(&given, "types has 0 entries; 1 to 256 are allowed");
    given.workload.n_types = 257;
    expect_refused(&given, "types has 257 entries");
}

static void shares_of_nothing_are_refused(void **state)
{
    struct fluid_case given = canonical();
    (void)state;

    given.types[0].weight = given.types[1].weight = 0;
    fluid_case_solve(&given);
    given.workload.arrivals = 10;
    expect_refused(&given, "types: all weights are 0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_axes_give_the_published_answers),
        cmocka_unit_test(three_axes_give_the_published_answers),
        cmocka_unit_test(without_holds_the_same_worlds_price_calls),
        cmocka_unit_test(a_price_of_one_type_is_its_value_by_its_use),
        cmocka_unit_test(defaults_are_one_of_each_and_no_hold),
        cmocka_unit_test(fractions_and_objective_need_not_be_wanted),
        cmocka_unit_test(with_arrivals_weights_are_shares),
        cmocka_unit_test(a_hold_of_0_is_as_none),
        cmocka_unit_test(a_type_of_no_weight_shapes_nothing_and_is_in_if_it_is_worth_it),
        cmocka_unit_test(where_nothing_is_worth_anything_all_is_0),
        cmocka_unit_test(numbers_of_a_type_that_are_none_are_refused_by_name),
        cmocka_unit_test(budgets_that_are_none_are_refused_by_name),
        cmocka_unit_test(holds_and_their_budget_come_together),
        cmocka_unit_test(there_are_1_to_256_types),
        cmocka_unit_test(shares_of_nothing_are_refused),
    };
    return cmocka_run_group_tests_name("fluid", tests, NULL, NULL);
}
