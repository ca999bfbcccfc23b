/* test_price.c - what tokens cost: exact, rounded up once, never less than nothing. */
#include "check.h"

/* USD for a million tokens, in micro-dollars: 0.15 and 0.60. */
static struct tg_price small_model(void)
{
    struct tg_price price;

    tg_price_init(&price);
    price.input = 150000;
    price.output = 600000;
    return price;
}

static void prices_come_to_what_a_pencil_says(void **state)
{
    static const struct {
        struct tg_price price;
        struct tg_usage usage;
        tg_micro cost;
    } rows[] = {
        /* input, cached, cache write, output, per call */
        {{2500000, 1250000, 3125000, 10000000, 0}, {1000000, 0, 0, 0}, 2500000},
        {{2500000, 1250000, 3125000, 10000000, 0}, {0, 1000000, 0, 0}, 1250000},
        {{2500000, 1250000, 3125000, 10000000, 0}, {0, 0, 1000000, 0}, 3125000},
        {{2500000, 1250000, 3125000, 10000000, 0}, {0, 0, 0, 1000000}, 10000000},
        {{2500000, 1250000, 3125000, 10000000, 7}, {100, 200, 300, 400}, 5445},
        {{2500000, -1, -1, 10000000, 0}, {0, 100, 100, 0}, 500},
        {{2500000, 0, 0, 10000000, 0}, {0, 100, 100, 0}, 0},
        {{0, 0, 0, 0, 0}, {100, 100, 100, 100}, 0},
        {{0, 0, 0, 0, 42}, {0, 0, 0, 0}, 42},
    };
    (void)state;

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        assert_int_equal(tg_price_of(&rows[i].price, &rows[i].usage), rows[i].cost);
}

static void six_tokens_of_a_small_model_are_not_free(void **state)
{
    struct tg_price price = small_model();
    (void)state;

    /* 0.9 micro-dollars */
    assert_int_equal(tg_price_of(&price, &(struct tg_usage){.input = 6}), 1);
}

/* 0.15 + 0.15 + 0.15 + 0.6 is 1.05: rounded by kind it would be 4. */
static void kinds_are_rounded_once_together(void **state)
{
    struct tg_price price = small_model();
    (void)state;

    assert_int_equal(tg_price_of(&price, &(struct tg_usage){1, 1, 1, 1}), 2);
}

static void output_is_estimated_at_the_output_price(void **state)
{
    struct tg_price price = small_model();
    (void)state;

    /* 250 x 0.15 + 1024 x 0.60 = 651.9; at the input price it would be 191.1 */
    assert_int_equal(tg_price_bound(&price, 250, 1024), 652);
    assert_int_equal(tg_price_of(&price, &(struct tg_usage){.input = 250, .output = 1024}), 652);
}

static void a_prompt_is_estimated_at_its_dearest_kind(void **state)
{
    struct tg_price price = small_model();
    (void)state;

    price.cache_write = 187500;
    price.cached_input = 75000;
    assert_int_equal(tg_price_bound(&price, 1000000, 0), 187500);
    price.cache_write = 0;
    assert_int_equal(tg_price_bound(&price, 1000000, 0), 150000);
    price.cached_input = 200000;
    assert_int_equal(tg_price_bound(&price, 1000000, 0), 200000);
}

static void negative_usage_buys_nothing(void **state)
{
    struct tg_price price = small_model();
    (void)state;

    assert_int_equal(tg_price_of(&price, &(struct tg_usage){-1000000, -5, -5, 1000000}), 600000);
    assert_int_equal(tg_price_of(&price, &(struct tg_usage){INT64_MIN, INT64_MIN, -1, -1}), 0);
    assert_int_equal(tg_price_bound(&price, INT64_MIN, -1), 0);
}

static void the_largest_numbers_saturate(void **state)
{
    struct tg_price price = {INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX};
    struct tg_usage usage = {INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX};
    (void)state;

    assert_int_equal(tg_price_of(&price, &usage), TG_MONEY_MAX);
    assert_int_equal(tg_price_bound(&price, INT64_MAX, INT64_MAX), TG_MONEY_MAX);
    assert_int_equal(tg_price_affordable(&price, INT64_MAX, INT64_MAX), -1);
    /* Out of its range, a price counts as the end of the range: 10^15, of a call and of a million
     * tokens. */
    usage = (struct tg_usage){.input = 1};
    assert_int_equal(tg_price_of(&price, &usage), INT64_C(1000001000000000));
}

static void what_is_affordable_is_exactly_that(void **state)
{
    struct tg_price price = small_model();
    (void)state;

    /* The prompt is 37.5; 0.5 is left of 38, which buys nothing; 1.5 of 39 buys two tokens. */
    assert_int_equal(tg_price_affordable(&price, 250, 37), -1);
    assert_int_equal(tg_price_affordable(&price, 250, 38), 0);
    assert_int_equal(tg_price_affordable(&price, 250, 39), 2);
    assert_int_equal(tg_price_affordable(&price, 0, 0), 0);
    assert_int_equal(tg_price_affordable(&price, 0, -1), -1);
    price.output = 0;
    assert_int_equal(tg_price_affordable(&price, 250, 38), TG_NUMBER_MAX);
}

static void usage_that_nobody_can_have_is_absurd(void **state)
{
    static const struct {
        struct tg_usage usage;
        bool absurd;
    } rows[] = {
        {{0, 0, 0, 0}, false},
        {{1000000000, 1000000000, 1000000000, 1000000000}, false},
        {{1000000001, 0, 0, 0}, true},
        {{0, 1000000001, 0, 0}, true},
        {{0, 0, 1000000001, 0}, true},
        {{0, 0, 0, INT64_MAX}, true},
        {{-1, 0, 0, 0}, true},
        {{0, -1, 0, 0}, true},
        {{0, 0, -1, 0}, true},
        {{0, 0, 0, INT64_MIN}, true},
    };
    (void)state;

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        assert_int_equal(tg_usage_absurd(&rows[i].usage), rows[i].absurd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prices_come_to_what_a_pencil_says),
        cmocka_unit_test(six_tokens_of_a_small_model_are_not_free),
        cmocka_unit_test(kinds_are_rounded_once_together),
        cmocka_unit_test(output_is_estimated_at_the_output_price),
        cmocka_unit_test(a_prompt_is_estimated_at_its_dearest_kind),
        cmocka_unit_test(negative_usage_buys_nothing),
        cmocka_unit_test(the_largest_numbers_saturate),
        cmocka_unit_test(what_is_affordable_is_exactly_that),
        cmocka_unit_test(usage_that_nobody_can_have_is_absurd),
    };
    return cmocka_run_group_tests_name("price", tests, NULL, NULL);
}
