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

/* gpt-4o's, with a cache write as Anthropic's. */
#define FOUR .input = 2500000, .cached_input = 1250000, .cache_write = 3125000, .output = 10000000

static void prices_come_to_what_a_pencil_says(void **state)
{
    static const struct {
        struct tg_price price;
        struct tg_usage usage;
        tg_micro cost;
    } rows[] = {
        {{FOUR}, {.input = 1000000}, 2500000},
        {{FOUR}, {.cached_input = 1000000}, 1250000},
        {{FOUR}, {.cache_write = 1000000}, 3125000},
        {{FOUR}, {.output = 1000000}, 10000000},
        {{FOUR, .per_call = 7},
         {.input = 100, .cached_input = 200, .cache_write = 300, .output = 400},
         5445},
        {{.input = 2500000, .cached_input = -1, .cache_write = -1},
         {.cached_input = 100, .cache_write = 100},
         500},
        {{.input = 2500000}, {.cached_input = 100, .cache_write = 100}, 500}, /* not initialized */
        {{.struct_size = sizeof(struct tg_price), .input = 2500000},
         {.cached_input = 100, .cache_write = 100},
         0},
        {{.input = 0}, {.input = 100, .cached_input = 100, .cache_write = 100, .output = 100}, 0},
        {{.per_call = 42}, {.input = 0}, 42},
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

    assert_int_equal(tg_price_of(&price,
                                 &(struct tg_usage){
                                     .input = 1, .cached_input = 1, .cache_write = 1, .output = 1}),
                     2);
}

static void output_is_estimated_at_the_output_price(void **state)
{
    struct tg_price price = small_model();
    (void)state;

    /* 250 x 0.15 + 1024 x 0.60 = 651.9; at the input price it would be 191.1 */
    assert_int_equal(tg_price_bound(&price, &(struct tg_usage_bound){.input = 250, .output = 1024}),
                     652);
    assert_int_equal(tg_price_of(&price, &(struct tg_usage){.input = 250, .output = 1024}), 652);
}

/* gpt-audio's prices in the second part: a call that cannot cause a kind does not pay for it. */
static void a_prompt_is_bound_by_the_dearest_kind_that_it_can_cause(void **state)
{
    struct tg_usage_bound million = {.input = 1000000, .kinds = TG_INPUT_WRITE};
    struct tg_price price = small_model();
    (void)state;

    price.cache_write = 187500;
    price.cached_input = 75000;
    assert_int_equal(tg_price_bound(&price, &million), 187500);
    price.cache_write = 0;
    assert_int_equal(tg_price_bound(&price, &million), 150000);
    price.cached_input = 200000;
    assert_int_equal(tg_price_bound(&price, &million), 200000);

    price = (struct tg_price){.input = 2500000,
                              .cache_write = 3125000,
                              .cache_write_long = 5000000,
                              .output = 10000000,
                              .audio_input = 32000000,
                              .audio_output = 64000000,
                              .image_input = 4000000,
                              .image_output = 20000000};
    static const struct {
        unsigned kinds;
        tg_micro input, output;
    } rows[] = {
        {0, 2500000, 10000000},
        {TG_INPUT_WRITE, 3125000, 10000000},
        {TG_INPUT_WRITE_LONG, 5000000, 10000000},
        {TG_INPUT_IMAGE, 4000000, 10000000},
        {TG_INPUT_AUDIO | TG_INPUT_WRITE_LONG, 32000000, 10000000},
        {TG_OUTPUT_IMAGE, 2500000, 20000000},
        {TG_OUTPUT_AUDIO, 2500000, 64000000},
        {TG_KINDS_ALL, 32000000, 64000000},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct tg_usage_bound bound = {.input = 1000000, .kinds = rows[i].kinds};
        assert_int_equal(tg_price_bound(&price, &bound), rows[i].input);
        bound = (struct tg_usage_bound){.output = 1000000, .kinds = rows[i].kinds};
        assert_int_equal(tg_price_bound(&price, &bound), rows[i].output);
    }
}

static void negative_usage_buys_nothing(void **state)
{
    struct tg_price price = small_model();
    (void)state;

    assert_int_equal(tg_price_of(&price, &(struct tg_usage){.input = -1000000,
                                                            .cached_input = -5,
                                                            .cache_write = -5,
                                                            .cache_write_long = -5,
                                                            .audio_input = -5,
                                                            .tool_calls = -5,
                                                            .longest = -5,
                                                            .factor_milli = -5,
                                                            .output = 1000000}),
                     600000);
    assert_int_equal(tg_price_of(&price, &(struct tg_usage){.input = INT64_MIN,
                                                            .cached_input = INT64_MIN,
                                                            .image_output = INT64_MIN,
                                                            .output = -1}),
                     0);
    assert_int_equal(
        tg_price_bound(&price, &(struct tg_usage_bound){.input = INT64_MIN, .output = -1}), 0);
}

static void the_largest_numbers_saturate(void **state)
{
    const int64_t most = INT64_MAX;
    struct tg_price price = {.input = most,
                             .cached_input = most,
                             .cache_write = most,
                             .cache_write_long = most,
                             .audio_input = most,
                             .image_input = most,
                             .output = most,
                             .audio_output = most,
                             .image_output = most,
                             .per_call = most,
                             .per_tool_call = most,
                             .steps = {{1, most, most}}};
    struct tg_usage usage = {most, most, most, most, most, most,
                             most, most, most, most, most, most};
    struct tg_usage_bound bound = {most, most, most, TG_KINDS_ALL, most, most};
    (void)state;

    assert_int_equal(tg_price_of(&price, &usage), TG_MONEY_MAX);
    assert_int_equal(tg_price_bound(&price, &bound), TG_MONEY_MAX);
    assert_int_equal(tg_usage_input(&usage), INT64_MAX);
    assert_int_equal(tg_usage_output(&usage), INT64_MAX);
    tg_usage_fold(&usage);
    assert_int_equal(usage.cache_write, INT64_MAX);
    /* Out of its range, a price counts as the end of the range: 10^15, of a call and of a million
     * tokens. */
    usage = (struct tg_usage){.input = 1};
    assert_int_equal(tg_price_of(&price, &usage), INT64_C(1000001000000000));
}

static void what_is_affordable_is_exactly_that(void **state)
{
    const struct tg_usage_bound nothing = {0}, prompt = {.input = 250, .output = 999};
    struct tg_price price = small_model();
    (void)state;

    /* The prompt is 37.5; 0.5 is left of 38, which buys nothing; 1.5 of 39 buys two tokens. */
    assert_int_equal(tg_price_affordable(&price, &prompt, 37), -1);
    assert_int_equal(tg_price_affordable(&price, &prompt, 38), 0);
    assert_int_equal(tg_price_affordable(&price, &prompt, 39), 2);
    assert_int_equal(tg_price_affordable(&price, &nothing, 0), 0);
    assert_int_equal(tg_price_affordable(&price, &nothing, -1), -1);
    price.output = 0;
    assert_int_equal(tg_price_affordable(&price, &prompt, 38), TG_NUMBER_MAX);
}

static void usage_that_nobody_can_have_is_absurd(void **state)
{
    static const struct {
        struct tg_usage usage;
        bool absurd;
    } rows[] = {
        {{.input = 0}, false},
        {{.input = 1000000000,
          .cached_input = 1000000000,
          .cache_write = 1000000000,
          .output = 1000000000},
         false},
        {{.input = 1000000001}, true},
        {{.cached_input = 1000000001}, true},
        {{.cache_write = 1000000001}, true},
        {{.output = INT64_MAX}, true},
        {{.input = -1}, true},
        {{.cached_input = -1}, true},
        {{.cache_write = -1}, true},
        {{.output = INT64_MIN}, true},
        {{.cache_write_long = -1}, true},
        {{.audio_input = -1}, true},
        {{.image_input = -1}, true},
        {{.audio_output = -1}, true},
        {{.image_output = -1}, true},
        {{.tool_calls = 1000000001}, true},
    };
    (void)state;

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        assert_int_equal(tg_usage_absurd(&rows[i].usage), rows[i].absurd);
}

/* ---- Bills of providers ---------------------------------------------------------------------- */

#define SOL                                                                                   \
    {                                                                                         \
        .input = 2000000, .cached_input = 100000, .cache_write = 2500000, .output = 10000000, \
        .per_tool_call = 10000, .steps = { {272000, 2000, 1500} }                             \
    }
#define OPUS                                                                    \
    {                                                                           \
        .input = 4000000, .cached_input = 200000, .cache_write = 5000000,       \
        .cache_write_long = 8000000, .output = 20000000, .per_tool_call = 10000 \
    }
#define HAIKU                                                                           \
    {                                                                                   \
        .input = 100000, .cached_input = 10000, .cache_write = 125000,                  \
        .cache_write_long = 200000, .output = 500000, .steps = { {100000, 5000, 5000} } \
    }

/* Prices of providers, and what they bill by their rules; dollars for a million tokens, so
 * micro-dollars a token. */
static void bills_are_those_of_the_providers(void **state)
{
    static const struct {
        struct tg_price price;
        struct tg_usage usage;
        tg_micro cost;
    } rows[] = {
        /* 2,006 input of which 1,920 are cached, 300 output: 86 x 2 + 1,920 x 0.1 + 300 x 10 */
        {SOL, {.input = 86, .cached_input = 1920, .output = 300}, 3364},
        /* 272,000 are not above 272,000: 272,000 x 2 + 1,000 x 10 */
        {SOL, {.input = 272000, .output = 1000}, 554000},
        /* One more, and the whole call is dearer: 272,001 x 4 + 1,000 x 15 */
        {SOL, {.input = 272001, .output = 1000}, 1103004},
        /* Cached tokens count for the threshold: 1 x 4 + 272,000 x 0.2 + 1,000 x 15 */
        {SOL, {.input = 1, .cached_input = 272000, .output = 1000}, 69404},
        /* Implicit writes: 8,000 x 2.5 + 100 x 10 */
        {SOL, {.cache_write = 8000, .output = 100}, 21000},
        /* Priority: (1,000 x 2 + 100 x 10) x 2 */
        {SOL, {.input = 1000, .output = 100, .factor_milli = 2000}, 6000},
        /* Ultrafast in a region, above the threshold, three searches:
           (300,000 x 4 + 2,000 x 15) x 6 x 1.1 + 3 x 10,000 */
        {SOL, {.input = 300000, .output = 2000, .factor_milli = 6600, .tool_calls = 3}, 8148000},
        /* Two rounds of 200,000 each: no pass is above the threshold, 400,000 x 2 + 1,000 x 10 */
        {SOL, {.input = 400000, .output = 1000, .longest = 200000}, 810000},
        /* Flex of one token: 2 x 0.5 */
        {SOL, {.input = 1, .factor_milli = 500}, 1},
        /* 5 min and 1 h in one call: 10 x 4 + 1,000 x 0.2 + 2,000 x 5 + 3,000 x 8 + 40 x 20 */
        {OPUS,
         {.input = 10,
          .cached_input = 1000,
          .cache_write = 2000,
          .cache_write_long = 3000,
          .output = 40},
         35040},
        /* speed fast in the US, a search: (100 x 4 + 10 x 20) x 2 x 1.1 + 10,000 */
        {OPUS, {.input = 100, .output = 10, .factor_milli = 2200, .tool_calls = 1}, 11320},
        /* Every class is five times as dear: (1 x 0.1 + 100,000 x 0.01 + 1,000 x 0.5) x 5 */
        {HAIKU, {.input = 1, .cached_input = 100000, .output = 1000}, 7501},
        /* 100 ms of audio are a token in, 50 ms are one out: 50 x 2.5 + 600 x 32 + 20 x 10 +
           1,200 x 64 */
        {{.input = 2500000, .output = 10000000, .audio_input = 32000000, .audio_output = 64000000},
         {.input = 50, .audio_input = 600, .output = 20, .audio_output = 1200},
         96325},
        /* Images at 10 in and 40 out: 20 x 5 + 1,000 x 10 + 1,056 x 40 */
        {{.input = 5000000, .image_input = 10000000, .image_output = 40000000},
         {.input = 20, .image_input = 1000, .image_output = 1056},
         52340},
        /* Without prices of their own: 10 x (1 + 1 + 3 + 3), and a write of 1 h as one of 5 min */
        {{.input = 1000000,
          .output = 3000000,
          .cache_write = 2000000,
          .cache_write_long = -1,
          .audio_input = -1,
          .image_input = -1,
          .audio_output = -1,
          .image_output = -1},
         {.audio_input = 10,
          .image_input = 10,
          .audio_output = 10,
          .image_output = 10,
          .cache_write_long = 10},
         100},
    };
    (void)state;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        tg_micro cost = tg_price_of(&rows[i].price, &rows[i].usage);
        if (cost != rows[i].cost)
            print_error("row %zu: %lld instead of %lld\n", i, (long long)cost,
                        (long long)rows[i].cost);
        assert_int_equal(cost, rows[i].cost);
    }
}

/* 272,001 tokens that may be written to a cache at priority: (272,001 x 5 + 1,000 x 15) x 2. */
static void a_bound_takes_the_long_price_once_its_longest_pass_can_reach_it(void **state)
{
    const struct tg_price sol = SOL;
    struct tg_usage_bound bound = {.input = 272001,
                                   .output = 1000,
                                   .kinds = TG_INPUT_WRITE,
                                   .factor_milli = 2000,
                                   .tool_calls = 2};
    (void)state;

    assert_int_equal(tg_price_bound(&sol, &bound), 2750010 + 20000);
    bound.longest = 272000; /* in two passes: (272,001 x 2.5 + 1,000 x 10) x 2 */
    assert_int_equal(tg_price_bound(&sol, &bound), 1380005 + 20000);
    assert_int_equal(tg_price_affordable(&sol, &bound, 1380005 + 20000), 1000);
    assert_int_equal(tg_price_affordable(&sol, &bound, 1380005 + 19999), 999);
}

static void reports_above_the_bound_cannot_be(void **state)
{
    const struct tg_usage_bound bound = {.input = 100, .output = 10, .tool_calls = 1};
    static const struct {
        struct tg_usage usage;
        bool exceeds;
    } rows[] = {
        {{.input = 60, .cached_input = 40, .output = 10, .tool_calls = 1}, false},
        {{.input = 60, .cached_input = 41}, true},
        {{.input = 60, .cache_write_long = 41}, true},
        {{.output = 6, .audio_output = 5}, true},
        {{.tool_calls = 2}, true},
        {{.input = -1}, true},
    };
    (void)state;

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        assert_int_equal(tg_usage_exceeds(&rows[i].usage, &bound), rows[i].exceeds);
}

/* What was not used, or is less than nothing, is nothing once it is folded. */
static void folding_makes_no_tokens(void **state)
{
    struct tg_usage usage = {.input = 0}, nothing = {.input = 0};
    (void)state;

    tg_usage_fold(&usage);
    assert_memory_equal(&usage, &nothing, sizeof usage);
    usage = (struct tg_usage){.input = -1,
                              .cached_input = -2,
                              .cache_write = -3,
                              .cache_write_long = -4,
                              .audio_input = -5,
                              .image_input = -6,
                              .output = -7,
                              .audio_output = -8,
                              .image_output = -9};
    tg_usage_fold(&usage);
    assert_memory_equal(&usage, &nothing, sizeof usage);
}

static void folding_keeps_the_tokens(void **state)
{
    struct tg_usage usage = {1, 2, 4, 8, 16, 32, 64, 128, 256, 5, 2000, 7};
    (void)state;

    assert_int_equal(tg_usage_input(&usage), 1 + 2 + 4 + 16 + 32 + 64);
    assert_int_equal(tg_usage_output(&usage), 8 + 128 + 256);
    tg_usage_fold(&usage);
    assert_int_equal(usage.input, 1 + 32 + 64);
    assert_int_equal(usage.cached_input, 2);
    assert_int_equal(usage.cache_write, 4 + 16);
    assert_int_equal(usage.output, 8 + 128 + 256);
    assert_int_equal(usage.audio_input + usage.tool_calls + usage.factor_milli + usage.longest, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prices_come_to_what_a_pencil_says),
        cmocka_unit_test(six_tokens_of_a_small_model_are_not_free),
        cmocka_unit_test(kinds_are_rounded_once_together),
        cmocka_unit_test(output_is_estimated_at_the_output_price),
        cmocka_unit_test(a_prompt_is_bound_by_the_dearest_kind_that_it_can_cause),
        cmocka_unit_test(negative_usage_buys_nothing),
        cmocka_unit_test(the_largest_numbers_saturate),
        cmocka_unit_test(what_is_affordable_is_exactly_that),
        cmocka_unit_test(bills_are_those_of_the_providers),
        cmocka_unit_test(a_bound_takes_the_long_price_once_its_longest_pass_can_reach_it),
        cmocka_unit_test(reports_above_the_bound_cannot_be),
        cmocka_unit_test(folding_makes_no_tokens),
        cmocka_unit_test(folding_keeps_the_tokens),
        cmocka_unit_test(usage_that_nobody_can_have_is_absurd),
    };
    return cmocka_run_group_tests_name("price", tests, NULL, NULL);
}
