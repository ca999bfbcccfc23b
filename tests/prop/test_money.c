/* test_money.c - prices against long arithmetic, and sums that never wrap.
 *
 * The reference of a price adds and divides decimal digits, as on paper: it shares nothing with the
 * code that it checks.
 */
#include <string.h>

#include "bank_kit.h"
#include "draw.h"
#include "walk.h"

#define CASES 120000
#define DIGITS 64

/* Amounts have every magnitude, and come now and then from the upper end. */
#define MUCH ((INT64_C(1) << 62) - 1)

static uint64_t seed;

static int64_t any_up_to(struct draw *draw, int64_t high)
{
    if (draw_chance(draw, 5))
        return high - draw_between(draw, 0, 3);
    return draw_magnitude(draw, high < MUCH ? high : MUCH);
}

/* ---- arithmetic on paper ---- */

/* Least digit first. */
struct paper {
    unsigned char digit[DIGITS];
};

static void paper_add_at(struct paper *sum, unsigned value, size_t at)
{
    for (; value > 0; at++) {
        value += sum->digit[at];
        sum->digit[at] = (unsigned char)(value % 10);
        value /= 10;
    }
}

/* sum += a x b, digit by digit. */
static void paper_add_product(struct paper *sum, int64_t a, int64_t b)
{
    if (a <= 0 || b <= 0)
        return;
    for (size_t i = 0; a > 0; a /= 10, i++)
        for (int64_t rest = b, k = 0; rest > 0; rest /= 10, k++)
            paper_add_at(sum, (unsigned)(a % 10) * (unsigned)(rest % 10), i + (size_t)k);
}

/* sum += part x factor. */
static void paper_add_times(struct paper *sum, const struct paper *part, int64_t factor)
{
    for (size_t i = 0; i < DIGITS; i++)
        for (int64_t rest = factor, k = 0; rest > 0; rest /= 10, k++)
            paper_add_at(sum, part->digit[i] * (unsigned)(rest % 10), i + (size_t)k);
}

/* Rounded up to a million millions, and divided by it: twelve digits less. */
static tg_micro paper_micro(struct paper sum)
{
    tg_micro money = 0;

    paper_add_at(&sum, 999999, 6);
    paper_add_at(&sum, 999999, 0);
    for (size_t i = DIGITS; i-- > 12;) {
        if (money > (TG_MONEY_MAX - sum.digit[i]) / 10)
            return TG_MONEY_MAX;
        money = money * 10 + sum.digit[i];
    }
    return money;
}

static int64_t min_of(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t max_of(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* A price's own rules: out of range is the end of it, a kind of input without a price is input. */
static int64_t effective(int64_t price, int64_t instead)
{
    return min_of(price < 0 ? max_of(instead, 0) : price, INT64_C(1000000000000000));
}

static int64_t milli(int64_t factor)
{
    return factor <= 0 ? 1000 : min_of(factor, TG_FACTOR_MILLI_MAX);
}

static tg_micro paper_price(const struct tg_price *price, const struct tg_usage *usage)
{
    struct paper input = {{0}}, output = {{0}}, tokens = {{0}}, sum = {{0}};
    int64_t all = 0, above = 0, input_milli = 1000, output_milli = 1000;
    int64_t write = price->cache_write < 0 ? price->input : price->cache_write;
    const int64_t kinds[] = {usage->input,       usage->cached_input,
                             usage->cache_write, usage->cache_write_long,
                             usage->audio_input, usage->image_input};

    for (size_t i = 0; i < COUNT_OF(kinds); i++)
        all = max_of(kinds[i], 0) > INT64_MAX - all ? INT64_MAX : all + max_of(kinds[i], 0);
    all = usage->longest > 0 ? usage->longest : all;
    for (size_t i = 0; i < TG_PRICE_STEPS && price->steps[i].above > 0; i++)
        if (all > price->steps[i].above && price->steps[i].above > above) {
            above = price->steps[i].above;
            input_milli = milli(price->steps[i].input_milli);
            output_milli = milli(price->steps[i].output_milli);
        }
    paper_add_product(&input, usage->input, effective(price->input, 0));
    paper_add_product(&input, usage->cached_input, effective(price->cached_input, price->input));
    paper_add_product(&input, usage->cache_write, effective(price->cache_write, price->input));
    paper_add_product(&input, usage->cache_write_long, effective(price->cache_write_long, write));
    paper_add_product(&input, usage->audio_input, effective(price->audio_input, price->input));
    paper_add_product(&input, usage->image_input, effective(price->image_input, price->input));
    paper_add_product(&output, usage->output, effective(price->output, 0));
    paper_add_product(&output, usage->audio_output, effective(price->audio_output, price->output));
    paper_add_product(&output, usage->image_output, effective(price->image_output, price->output));
    paper_add_times(&tokens, &input, input_milli);
    paper_add_times(&tokens, &output, output_milli);
    paper_add_times(&sum, &tokens, milli(usage->factor_milli));
    struct paper fees = {{0}};
    paper_add_product(&fees, 1, effective(price->per_call, 0));
    paper_add_product(&fees, usage->tool_calls, effective(price->per_tool_call, 0));
    paper_add_times(&sum, &fees, INT64_C(1000000000000));
    return paper_micro(sum);
}

/* ---- prices ---- */

static int64_t random_price(struct draw *draw)
{
    if (draw_chance(draw, 10))
        return draw_between(draw, -5, 5);
    return any_up_to(draw, draw_chance(draw, 5) ? INT64_MAX : INT64_C(1000000000000000));
}

/* Down to a fifth: prices that are this low before they saturate are exact (tollgate.h). */
static int64_t random_factor(struct draw *draw)
{
    if (draw_chance(draw, 50))
        return draw_between(draw, -1, 1) * 1000;
    return draw_between(draw, 500, draw_chance(draw, 5) ? INT64_MAX / 2 : 10000);
}

static struct tg_price random_prices(struct draw *draw)
{
    struct tg_price price = {.struct_size = sizeof price,
                             .input = random_price(draw),
                             .cached_input = random_price(draw),
                             .cache_write = random_price(draw),
                             .cache_write_long = random_price(draw),
                             .audio_input = random_price(draw),
                             .image_input = random_price(draw),
                             .output = random_price(draw),
                             .audio_output = random_price(draw),
                             .image_output = random_price(draw),
                             .per_call = random_price(draw),
                             .per_tool_call = random_price(draw)};

    for (int64_t i = 0, n = draw_between(draw, -4, TG_PRICE_STEPS); i < n; i++) {
        price.steps[i].above = draw_between(draw, 1, 1000000);
        price.steps[i].input_milli = random_factor(draw);
        price.steps[i].output_milli = random_factor(draw);
    }
    return price;
}

static int64_t random_tokens(struct draw *draw)
{
    if (draw_chance(draw, 10))
        return draw_chance(draw, 50) ? 0 : -any_up_to(draw, INT64_MAX);
    return any_up_to(draw, draw_chance(draw, 10) ? INT64_MAX : 10000000);
}

static struct tg_usage random_usage(struct draw *draw)
{
    return (struct tg_usage){
        .input = random_tokens(draw),
        .cached_input = random_tokens(draw),
        .cache_write = random_tokens(draw),
        .output = random_tokens(draw),
        .cache_write_long = random_tokens(draw),
        .audio_input = random_tokens(draw),
        .image_input = random_tokens(draw),
        .audio_output = random_tokens(draw),
        .image_output = random_tokens(draw),
        .tool_calls = draw_chance(draw, 90) ? draw_between(draw, -1, 3) : random_tokens(draw),
        .factor_milli = random_factor(draw),
        .longest = draw_chance(draw, 80) ? 0 : random_tokens(draw),
    };
}

static void a_price_is_the_exact_sum_rounded_up_once(void **state)
{
    struct draw draw = draw_stream(seed, 1);
    long saturated = 0;
    (void)state;

    for (long i = 0; i < CASES; i++) {
        struct tg_price price = random_prices(&draw);
        struct tg_usage usage = random_usage(&draw);
        tg_micro want = paper_price(&price, &usage);
        assert_int_equal(tg_price_of(&price, &usage), want);
        saturated += want == TG_MONEY_MAX;
    }
    assert_true(saturated > 100 && saturated < CASES / 2);
    cases_report("a price is the exact sum, rounded up once", CASES);
}

static struct tg_usage_bound random_bound(struct draw *draw)
{
    int64_t input = draw_magnitude(draw, 10000000);

    return (struct tg_usage_bound){
        .input = input,
        .longest = draw_chance(draw, 50) ? 0 : draw_between(draw, 0, input),
        .output = draw_magnitude(draw, 1000000),
        .kinds = (unsigned)draw_between(draw, 0, TG_KINDS_ALL),
        .tool_calls = draw_chance(draw, 50) ? 0 : draw_magnitude(draw, 100),
        .factor_milli = random_factor(draw),
    };
}

/* A part of what is left, if the call can cause this kind. */
static int64_t part_of(struct draw *draw, int64_t *left, bool possible)
{
    int64_t part = possible ? draw_between(draw, 0, *left) : 0;

    *left -= part;
    return part;
}

static struct tg_usage usage_within(struct draw *draw, const struct tg_usage_bound *bound)
{
    struct tg_usage usage = {0};
    int64_t input = bound->input, output = bound->output;
    int64_t longest = bound->longest > 0 ? bound->longest : bound->input;

    if (draw_chance(draw, 50)) /* one pass alone */
        input = draw_between(draw, 0, longest);
    else
        usage.longest = longest == 0 ? 0 : draw_between(draw, 1, longest);
    usage.cache_write_long = part_of(draw, &input, bound->kinds & TG_INPUT_WRITE_LONG);
    usage.audio_input = part_of(draw, &input, bound->kinds & TG_INPUT_AUDIO);
    usage.image_input = part_of(draw, &input, bound->kinds & TG_INPUT_IMAGE);
    usage.cache_write = part_of(draw, &input, bound->kinds & TG_INPUT_WRITE);
    usage.cached_input = part_of(draw, &input, true);
    usage.input = draw_chance(draw, 50) ? input : part_of(draw, &input, true);
    usage.audio_output = part_of(draw, &output, bound->kinds & TG_OUTPUT_AUDIO);
    usage.image_output = part_of(draw, &output, bound->kinds & TG_OUTPUT_IMAGE);
    usage.output = draw_chance(draw, 50) ? output : part_of(draw, &output, true);
    usage.tool_calls = draw_between(draw, 0, bound->tool_calls);
    usage.factor_milli = draw_between(draw, 1, milli(bound->factor_milli));
    return usage;
}

/* Whatever kinds a call turns out to consist of, in how many passes, at which tier. */
static void no_call_costs_more_than_its_bound(void **state)
{
    struct draw draw = draw_stream(seed, 2);
    long tight = 0;
    (void)state;

    for (long i = 0; i < CASES; i++) {
        struct tg_price price = random_prices(&draw);
        struct tg_usage_bound bound = random_bound(&draw);
        struct tg_usage usage = usage_within(&draw, &bound);
        tg_micro most = tg_price_bound(&price, &bound);
        tg_micro cost = tg_price_of(&price, &usage);
        assert_false(tg_usage_exceeds(&usage, &bound));
        assert_true(cost <= most);
        assert_true(most >= 0 && most <= TG_MONEY_MAX);
        tight += cost == most && cost < TG_MONEY_MAX;
    }
    assert_true(tight > 100); /* the bound is no larger than it has to be */
    cases_report("no call costs more than its bound", CASES);
}

static void what_is_affordable_costs_no_more_and_one_more_does(void **state)
{
    struct draw draw = draw_stream(seed, 3);
    long unaffordable = 0;
    (void)state;

    for (long i = 0; i < CASES; i++) {
        struct tg_price price = random_prices(&draw);
        struct tg_usage_bound bound = random_bound(&draw);
        tg_micro money = any_up_to(&draw, TG_MONEY_MAX) - 1;
        if (draw_chance(&draw, 10))
            bound.input = random_tokens(&draw);
        bound.output = tg_price_affordable(&price, &bound, money);
        if (bound.output >= 0)
            assert_true(tg_price_bound(&price, &bound) <= money);
        else
            unaffordable++;
        if (bound.output++ < TG_NUMBER_MAX)
            assert_true(tg_price_bound(&price, &bound) > money);
    }
    assert_true(unaffordable > 1000 && unaffordable < CASES * 9 / 10);
    cases_report("what is affordable costs no more, and one token more does", CASES);
}

/* ---- sums ---- */

static tg_micro extreme(struct draw *draw)
{
    static const tg_micro ends[] = {0, 1, TG_MONEY_MAX - 1, TG_MONEY_MAX, TG_MONEY_MAX / 2};

    return draw_chance(draw, 50) ? ends[draw_between(draw, 0, 4)] : any_up_to(draw, TG_MONEY_MAX);
}

static tg_micro extreme_spend(struct draw *draw)
{
    static const tg_micro ends[] = {INT64_MIN, INT64_MAX, -1, TG_MONEY_MAX + 1};

    return draw_chance(draw, 30) ? ends[draw_between(draw, 0, 3)] : extreme(draw);
}

static void check_book(struct tg_bank *bank, tg_account account, size_t i)
{
    struct tg_budget_metrics budget = budget_at(bank, account, i, SUNDAY);

    assert_true(budget.settled >= 0 && budget.settled <= TG_MONEY_MAX);
    assert_true(budget.outstanding >= 0 && budget.outstanding <= TG_MONEY_MAX);
}

/* A budget that refuses, one that only counts, and a level without; values at the ends. */
static void extreme_values_never_wrap(void **state)
{
    enum { LIVE = 8, CALLS = 300 };
    struct draw draw = draw_stream(seed, 4);
    long cases = 0;
    (void)state;

    for (int life = 0; life < 400; life++) {
        struct tg_bank *bank = must_bank(4);
        const struct tg_budget budgets[] = {budget_of(extreme(&draw), TG_PER_TOTAL),
                                            shadow_budget(extreme(&draw), TG_PER_TOTAL)};
        tg_account all = must_open_with(bank, 0, "all", budgets, 2, SUNDAY);
        tg_account user = must_open_with(bank, all, "user", NULL, 0, SUNDAY);
        tg_reservation live[LIVE] = {0};
        for (int i = 0; i < CALLS; i++, cases++) {
            struct tg_money_answer answer = {.reservation = 0};
            size_t k = (size_t)draw_between(&draw, 0, LIVE - 1);
            tg_micro before = budget_at(bank, all, 0, SUNDAY).settled;
            if (live[k] != 0)
                assert_true(tg_bank_settle(bank, live[k], extreme_spend(&draw), NULL));
            assert_true(budget_at(bank, all, 0, SUNDAY).settled >= before);
            enum tg_err err = tg_bank_reserve(bank, user, extreme(&draw), draw_chance(&draw, 30),
                                              SUNDAY, &answer);
            assert_true(err == TG_OK || err == TG_ERR_FULL);
            live[k] = answer.reservation;
            check_book(bank, all, 0);
            check_book(bank, all, 1);
            if (draw_chance(&draw, 5))
                assert_int_equal(tg_bank_restore(bank, all, 0, extreme(&draw), SUNDAY), TG_OK);
        }
        for (size_t k = 0; k < LIVE; k++)
            (void)tg_bank_settle(bank, live[k], 0, NULL);
        assert_int_equal(budget_at(bank, all, 0, SUNDAY).outstanding, 0);
        assert_int_equal(budget_at(bank, all, 1, SUNDAY).outstanding, 0);
        tg_bank_free(bank);
    }
    cases_report("extreme values never wrap", cases);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_price_is_the_exact_sum_rounded_up_once),
        cmocka_unit_test(no_call_costs_more_than_its_bound),
        cmocka_unit_test(what_is_affordable_costs_no_more_and_one_more_does),
        cmocka_unit_test(extreme_values_never_wrap),
    };
    seed = draw_seed("test_money");
    return cmocka_run_group_tests_name("money", tests, NULL, NULL);
}
