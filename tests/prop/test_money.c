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
#define DIGITS 48

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

/* Rounded up to a million, and divided by it: six digits less. */
static tg_micro paper_micro(struct paper sum)
{
    tg_micro money = 0;

    paper_add_at(&sum, 999999, 0);
    for (size_t i = DIGITS; i-- > 6;) {
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

static tg_micro paper_price(const struct tg_price *price, const struct tg_usage *usage)
{
    struct paper sum = {{0}};

    paper_add_product(&sum, usage->input, effective(price->input, 0));
    paper_add_product(&sum, usage->cached_input, effective(price->cached_input, price->input));
    paper_add_product(&sum, usage->cache_write, effective(price->cache_write, price->input));
    paper_add_product(&sum, usage->output, effective(price->output, 0));
    paper_add_product(&sum, 1000000, effective(price->per_call, 0));
    return paper_micro(sum);
}

/* ---- prices ---- */

static int64_t random_price(struct draw *draw)
{
    if (draw_chance(draw, 10))
        return draw_between(draw, -5, 5);
    return any_up_to(draw, draw_chance(draw, 5) ? INT64_MAX : INT64_C(1000000000000000));
}

static struct tg_price random_prices(struct draw *draw)
{
    return (struct tg_price){random_price(draw), random_price(draw), random_price(draw),
                             random_price(draw), random_price(draw)};
}

static int64_t random_tokens(struct draw *draw)
{
    if (draw_chance(draw, 10))
        return draw_chance(draw, 50) ? 0 : -any_up_to(draw, INT64_MAX);
    return any_up_to(draw, draw_chance(draw, 10) ? INT64_MAX : 10000000);
}

static void a_price_is_the_exact_sum_rounded_up_once(void **state)
{
    struct draw draw = draw_stream(seed, 1);
    long saturated = 0;
    (void)state;

    for (long i = 0; i < CASES; i++) {
        struct tg_price price = random_prices(&draw);
        struct tg_usage usage = {random_tokens(&draw), random_tokens(&draw), random_tokens(&draw),
                                 random_tokens(&draw)};
        tg_micro want = paper_price(&price, &usage);
        assert_int_equal(tg_price_of(&price, &usage), want);
        saturated += want == TG_MONEY_MAX;
    }
    assert_true(saturated > 100 && saturated < CASES / 2);
    cases_report("a price is the exact sum, rounded up once", CASES);
}

/* However a prompt turns out to be split, and however short the answer is. */
static void no_call_costs_more_than_its_bound(void **state)
{
    struct draw draw = draw_stream(seed, 2);
    (void)state;

    for (long i = 0; i < CASES; i++) {
        struct tg_price price = random_prices(&draw);
        int64_t prompt = draw_magnitude(&draw, 10000000), output = draw_magnitude(&draw, 1000000);
        struct tg_usage usage;
        usage.input = draw_between(&draw, 0, prompt);
        usage.cached_input = draw_between(&draw, 0, prompt - usage.input);
        usage.cache_write = prompt - usage.input - usage.cached_input;
        usage.output = draw_between(&draw, 0, output);
        tg_micro bound = tg_price_bound(&price, prompt, output);
        assert_true(tg_price_of(&price, &usage) <= bound);
        assert_true(bound >= 0 && bound <= TG_MONEY_MAX);
    }
    cases_report("no call costs more than its bound", CASES);
}

static void what_is_affordable_costs_no_more_and_one_more_does(void **state)
{
    struct draw draw = draw_stream(seed, 3);
    long unaffordable = 0;
    (void)state;

    for (long i = 0; i < CASES; i++) {
        struct tg_price price = random_prices(&draw);
        int64_t prompt = random_tokens(&draw);
        tg_micro money = any_up_to(&draw, TG_MONEY_MAX) - 1;
        int64_t output = tg_price_affordable(&price, prompt, money);
        if (output >= 0)
            assert_true(tg_price_bound(&price, prompt, output) <= money);
        else
            unaffordable++;
        if (output < TG_NUMBER_MAX)
            assert_true(tg_price_bound(&price, prompt, output + 1) > money);
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
