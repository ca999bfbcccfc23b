/* test_bank.c - reserving and settling: all or nothing, once, in the right window, never wrapping.
 */
#include "bank_kit.h"

#include "lib/budget/bank.h"

/* ---- one budget ---- */

static void what_is_reserved_is_used_until_it_is_settled(void **state)
{
    struct tg_bank *bank = must_bank(10);
    tg_account all = must_open(bank, 0, "all", budget_of(1000, TG_PER_DAY), SUNDAY);
    (void)state;

    tg_reservation first = must_reserve(bank, all, 600, SUNDAY);
    expect_book(bank, all, 0, SUNDAY, 0, 600);
    must_be_refused(bank, all, 401, SUNDAY);
    tg_reservation second = must_reserve(bank, all, 400, SUNDAY);
    must_spend(bank, first, 100);
    expect_book(bank, all, 0, SUNDAY, 100, 400);
    must_spend(bank, second, 400);
    expect_book(bank, all, 0, SUNDAY, 500, 0);
    assert_int_equal(stats_of_bank(bank).reservations, 0);
    tg_bank_free(bank);
}

static void a_second_settle_changes_nothing(void **state)
{
    struct tg_bank *bank = must_bank(10);
    tg_account all = must_open(bank, 0, "all", budget_of(1000, TG_PER_DAY), SUNDAY);
    struct tg_spend spend = {.reserved = 77};
    (void)state;

    tg_reservation reservation = must_reserve(bank, all, 300, SUNDAY);
    must_spend(bank, reservation, 0);
    assert_int_equal(stats_of_bank(bank).anomalies, 0);
    for (int i = 0; i < 3; i++)
        assert_false(tg_bank_settle(bank, reservation, 0, &spend));
    assert_int_equal(spend.reserved, 77);
    expect_book(bank, all, 0, SUNDAY, 0, 0);
    assert_int_equal(stats_of_bank(bank).anomalies, 3);

    /* Nor does it end the reservation that has got its place. */
    tg_reservation next = must_reserve(bank, all, 200, SUNDAY);
    assert_true(next != reservation);
    assert_false(tg_bank_settle(bank, reservation, 0, NULL));
    expect_book(bank, all, 0, SUNDAY, 0, 200);
    tg_bank_free(bank);
}

static void a_number_that_never_was_settles_nothing(void **state)
{
    static const tg_reservation never[] = {1, 1u << 24, (1u << 24) + 2, UINT64_MAX, 0xffffff};
    struct tg_bank *bank = must_bank(10);
    (void)state;

    for (size_t i = 0; i < COUNT_OF(never); i++)
        assert_false(tg_bank_settle(bank, never[i], 5, NULL));
    assert_int_equal(stats_of_bank(bank).anomalies, COUNT_OF(never));
    /* "No reservation" is none, and no mistake. */
    assert_false(tg_bank_settle(bank, 0, 5, NULL));
    assert_int_equal(stats_of_bank(bank).anomalies, COUNT_OF(never));
    tg_bank_free(bank);
}

static void an_unknown_spend_leaves_the_reservation_standing(void **state)
{
    struct tg_bank *bank = must_bank(10);
    tg_account all = must_open(bank, 0, "all", budget_of(1000, TG_PER_DAY), SUNDAY);
    struct tg_spend spend;
    (void)state;

    assert_true(tg_bank_settle(bank, must_reserve(bank, all, 300, SUNDAY + 5), -1, &spend));
    assert_int_equal(spend.account, all);
    assert_int_equal(spend.reserved_at, SUNDAY + 5);
    assert_int_equal(spend.reserved, 300);
    assert_int_equal(spend.settled, 300);
    expect_book(bank, all, 0, SUNDAY, 300, 0);
    assert_int_equal(stats_of_bank(bank).anomalies, 0);

    /* Usage that refills a budget: not believed, and counted. */
    must_spend(bank, must_reserve(bank, all, 100, SUNDAY), -500);
    must_spend(bank, must_reserve(bank, all, 100, SUNDAY), INT64_MIN);
    expect_book(bank, all, 0, SUNDAY, 500, 0);
    assert_int_equal(stats_of_bank(bank).anomalies, 2);
    tg_bank_free(bank);
}

static void more_than_reserved_is_booked_whole_and_blocks(void **state)
{
    struct tg_bank *bank = must_bank(10);
    tg_account all = must_open(bank, 0, "all", budget_of(1000, TG_PER_DAY), SUNDAY);
    (void)state;

    must_spend(bank, must_reserve(bank, all, 400, SUNDAY), 1500);
    expect_book(bank, all, 0, SUNDAY, 1500, 0);
    assert_int_equal(stats_of_bank(bank).overshoots, 1);
    assert_int_equal(stats_of_bank(bank).overshot, 1100);
    struct tg_money_answer answer = must_be_refused(bank, all, 0, SUNDAY);
    assert_false(answer.contended);
    assert_int_equal(answer.used, 1500);
    tg_bank_free(bank);
}

static void a_refusal_tells_spent_from_contended(void **state)
{
    static const struct {
        tg_micro settled, outstanding, money;
        bool allowed, contended;
    } rows[] = {
        {0, 0, 100, true, false},
        {0, 0, 101, false, false}, /* more than the whole amount */
        {60, 0, 40, true, false},
        {60, 0, 41, false, false},
        {60, 1, 40, false, true},
        {60, 40, 1, false, true},
        {60, 40, 40, false, true},
        {60, 40, 41, false, false},
        {100, 0, 1, false, false},
        {100, 0, 0, false, false}, /* nothing is left, not for free */
        {0, 100, 0, false, true},
        {99, 0, 0, true, false},
        {99, 1, 0, false, true},
    };
    (void)state;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct tg_bank *bank = must_bank(10);
        tg_account all = must_open(bank, 0, "all", budget_of(100, TG_PER_WEEK), SUNDAY);
        assert_int_equal(tg_bank_restore(bank, all, 0, rows[i].settled, SUNDAY), TG_OK);
        if (rows[i].outstanding > 0)
            (void)must_reserve(bank, all, rows[i].outstanding, SUNDAY);
        struct tg_money_answer answer = must_ask(bank, all, rows[i].money, false, SUNDAY);
        assert_int_equal(answer.reservation != 0, rows[i].allowed);
        assert_int_equal(answer.contended, rows[i].contended);
        if (!rows[i].allowed) {
            assert_int_equal(answer.account, all);
            assert_int_equal(answer.per, TG_PER_WEEK);
            assert_int_equal(answer.reset_at, SUNDAY + DAY);
            assert_int_equal(answer.amount, 100);
            assert_int_equal(answer.used, rows[i].settled + rows[i].outstanding);
        }
        tg_bank_free(bank);
    }
}

static void near_the_end_what_is_left_can_be_reserved(void **state)
{
    struct tg_bank *bank = must_bank(10);
    tg_account all = must_open(bank, 0, "all", budget_of(100, TG_PER_DAY), SUNDAY);
    tg_account user = must_open(bank, all, "user", budget_of(80, TG_PER_DAY), SUNDAY);
    (void)state;

    struct tg_money_answer first = must_ask(bank, user, 50, true, SUNDAY);
    assert_int_equal(first.reserved, 50);
    struct tg_money_answer second = must_ask(bank, user, 50, true, SUNDAY);
    assert_int_equal(second.reserved, 30);
    expect_book(bank, all, 0, SUNDAY, 0, 80);
    struct tg_money_answer third = must_ask(bank, user, 50, true, SUNDAY);
    assert_true(third.reservation == 0);
    assert_true(third.contended); /* something was left, were it not for others */
    assert_int_equal(third.account, user);

    must_spend(bank, second.reservation, 45);
    assert_int_equal(stats_of_bank(bank).overshot, 15);
    must_spend(bank, first.reservation, 50);
    third = must_ask(bank, user, 50, true, SUNDAY);
    assert_true(third.reservation == 0);
    assert_false(third.contended);
    tg_bank_free(bank);
}

static void shadow_budgets_count_and_never_refuse(void **state)
{
    const struct tg_budget budgets[] = {shadow_budget(10, TG_PER_DAY),
                                        shadow_budget(20, TG_PER_MONTH),
                                        budget_of(100, TG_PER_DAY)};
    struct tg_bank *bank = must_bank(10);
    tg_account all = must_open_with(bank, 0, "all", budgets, 3, SUNDAY);
    (void)state;

    struct tg_money_answer answer = must_ask(bank, all, 15, false, SUNDAY);
    assert_true(answer.reservation != 0);
    assert_int_equal(answer.would_deny, 1);
    answer = must_ask(bank, all, 15, false, SUNDAY);
    assert_true(answer.reservation != 0);
    assert_int_equal(answer.would_deny, 2);
    expect_book(bank, all, 0, SUNDAY, 0, 30);
    assert_int_equal(budget_at(bank, all, 0, SUNDAY).mode, TG_SHADOW);
    /* Nor do they say how much is left, to a call that takes what there is. */
    answer = must_ask(bank, all, 1000, true, SUNDAY);
    assert_int_equal(answer.reserved, 70);
    assert_int_equal(must_be_refused(bank, all, 1, SUNDAY).would_deny, 2);
    tg_bank_free(bank);
}

/* ---- levels and windows ---- */

static void a_refused_call_reserves_nowhere(void **state)
{
    struct tg_bank *bank = must_bank(10);
    tg_account all = must_open(bank, 0, "all", budget_of(1000, TG_PER_DAY), SUNDAY);
    tg_account team = must_open(bank, all, "team", budget_of(100, TG_PER_DAY), SUNDAY);
    tg_account user = must_open(bank, team, "user", budget_of(1000, TG_PER_DAY), SUNDAY);
    (void)state;

    (void)must_reserve(bank, user, 80, SUNDAY);
    must_be_refused(bank, user, 21, SUNDAY);
    expect_book(bank, all, 0, SUNDAY, 0, 80);
    expect_book(bank, team, 0, SUNDAY, 0, 80);
    expect_book(bank, user, 0, SUNDAY, 0, 80);
    assert_int_equal(stats_of_bank(bank).reservations, 1);
    tg_bank_free(bank);
}

static void a_refusal_names_the_first_budget_from_the_top(void **state)
{
    const struct tg_budget both[] = {budget_of(100, TG_PER_DAY), budget_of(100, TG_PER_MONTH)};
    struct tg_bank *bank = must_bank(10);
    tg_account all = must_open_with(bank, 0, "all", both, 2, SUNDAY);
    tg_account team = must_open(bank, all, "team", budget_of(50, TG_PER_TOTAL), SUNDAY);
    (void)state;

    assert_int_equal(must_be_refused(bank, team, 60, SUNDAY).account, team);
    struct tg_money_answer answer = must_be_refused(bank, team, 101, SUNDAY);
    assert_int_equal(answer.account, all);
    assert_int_equal(answer.per, TG_PER_DAY);
    assert_int_equal(tg_bank_restore(bank, all, 1, 100, SUNDAY), TG_OK);
    answer = must_be_refused(bank, team, 60, SUNDAY);
    assert_int_equal(answer.account, all);
    assert_int_equal(answer.per, TG_PER_MONTH);
    tg_bank_free(bank);
}

/* A retry would be refused for what is spent, whatever reservations end meanwhile. */
static void what_is_spent_anywhere_is_not_called_contended(void **state)
{
    const struct tg_budget both[] = {budget_of(100, TG_PER_DAY), budget_of(100, TG_PER_MONTH)};
    struct tg_bank *bank = must_bank(10);
    tg_account all = must_open_with(bank, 0, "all", both, 2, SUNDAY);
    tg_account team = must_open(bank, all, "team", budget_of(50, TG_PER_TOTAL), SUNDAY);
    tg_account other = must_open(bank, all, "other", budget_of(100, TG_PER_DAY), SUNDAY);
    (void)state;

    tg_reservation held = must_reserve(bank, other, 90, SUNDAY);
    struct tg_money_answer answer = must_be_refused(bank, team, 20, SUNDAY);
    assert_true(answer.contended);
    assert_int_equal(answer.account, all);
    assert_int_equal(answer.per, TG_PER_DAY);

    assert_int_equal(tg_bank_restore(bank, team, 0, 50, SUNDAY), TG_OK);
    answer = must_be_refused(bank, team, 20, SUNDAY); /* beneath what is contended */
    assert_false(answer.contended);
    assert_int_equal(answer.account, team);
    assert_int_equal(answer.per, TG_PER_TOTAL);

    assert_int_equal(tg_bank_restore(bank, all, 1, 90, SUNDAY), TG_OK);
    answer = must_be_refused(bank, other, 20, SUNDAY); /* beside it */
    assert_false(answer.contended);
    assert_int_equal(answer.account, all);
    assert_int_equal(answer.per, TG_PER_MONTH);
    must_spend(bank, held, 0);
    tg_bank_free(bank);
}

static void a_window_follows_the_clock_without_a_reset_job(void **state)
{
    const struct tg_budget budgets[] = {budget_of(100, TG_PER_DAY), budget_of(250, TG_PER_WEEK),
                                        budget_of(1000, TG_PER_TOTAL)};
    struct tg_bank *bank = must_bank(10);
    tg_account all = must_open_with(bank, 0, "all", budgets, 3, SUNDAY + DAY); /* a Monday */
    (void)state;

    for (int day = 1; day <= 2; day++) {
        must_spend(bank, must_reserve(bank, all, 100, SUNDAY + day * DAY), 100);
        must_be_refused(bank, all, 1, SUNDAY + (day + 1) * DAY - 1);
    }
    struct tg_money_answer answer = must_be_refused(bank, all, 51, SUNDAY + 3 * DAY);
    assert_int_equal(answer.per, TG_PER_WEEK);
    assert_int_equal(answer.reset_at, SUNDAY + 8 * DAY);
    must_spend(bank, must_reserve(bank, all, 100, SUNDAY + 8 * DAY), 100);
    expect_book(bank, all, 0, SUNDAY + 8 * DAY, 100, 0);
    expect_book(bank, all, 1, SUNDAY + 8 * DAY, 100, 0);
    expect_book(bank, all, 2, SUNDAY + 8 * DAY, 300, 0);
    tg_bank_free(bank);
}

static void a_settlement_goes_to_the_window_of_its_reservation(void **state)
{
    const struct tg_budget budgets[] = {budget_of(100, TG_PER_DAY), budget_of(1000, TG_PER_MONTH)};
    struct tg_bank *bank = must_bank(10);
    tg_account all = must_open_with(bank, 0, "all", budgets, 2, SUNDAY);
    (void)state;

    tg_reservation late = must_reserve(bank, all, 90, SUNDAY + DAY - 60000);
    tg_reservation today = must_reserve(bank, all, 100, SUNDAY + DAY);
    must_spend(bank, late, 95);
    expect_book(bank, all, 0, SUNDAY + DAY + 60000, 0, 100);
    expect_book(bank, all, 1, SUNDAY + DAY + 60000, 95, 100);
    must_spend(bank, today, 10);
    expect_book(bank, all, 0, SUNDAY + DAY + 60000, 10, 0);
    expect_book(bank, all, 1, SUNDAY + DAY + 60000, 105, 0);

    /* Also when nobody has looked since midnight: yesterday's books change, and then are over. */
    late = must_reserve(bank, all, 50, SUNDAY + 2 * DAY - 1);
    must_spend(bank, late, 50);
    expect_book(bank, all, 0, SUNDAY + 2 * DAY, 0, 0);
    tg_bank_free(bank);
}

static void a_clock_that_steps_back_brings_no_window_back(void **state)
{
    struct tg_bank *bank = must_bank(10);
    tg_account all = must_open(bank, 0, "all", budget_of(100, TG_PER_DAY), SUNDAY);
    struct tg_spend spend;
    (void)state;

    must_spend(bank, must_reserve(bank, all, 100, SUNDAY), 100);
    tg_reservation today = must_reserve(bank, all, 60, SUNDAY + DAY);
    /* The clock says yesterday again: it is today all the same. */
    struct tg_money_answer answer = must_be_refused(bank, all, 41, SUNDAY + 5);
    assert_int_equal(answer.reset_at, SUNDAY + 2 * DAY);
    assert_int_equal(answer.used, 60);
    tg_reservation odd = must_reserve(bank, all, 40, SUNDAY + 5);
    expect_book(bank, all, 0, SUNDAY + 5, 0, 100);
    assert_true(tg_bank_settle(bank, odd, 40, &spend));
    assert_int_equal(spend.reserved_at, SUNDAY + DAY);
    must_spend(bank, today, 60);
    expect_book(bank, all, 0, SUNDAY + DAY, 100, 0);
    tg_bank_free(bank);
}

static void a_peek_changes_nothing(void **state)
{
    struct tg_bank *bank = must_bank(10);
    tg_account all = must_open(bank, 0, "all", budget_of(100, TG_PER_DAY), SUNDAY);
    tg_micro left;
    double part;
    (void)state;

    (void)must_reserve(bank, all, 30, SUNDAY);
    /* Somebody asks about tomorrow. */
    expect_book(bank, all, 0, SUNDAY + DAY, 0, 0);
    assert_int_equal(budget_at(bank, all, 0, SUNDAY + DAY).begin, SUNDAY + DAY);
    assert_int_equal(tg_bank_left(bank, all, SUNDAY + DAY, &left, &part), TG_OK);
    assert_int_equal(left, 100);
    /* Today is still today. */
    expect_book(bank, all, 0, SUNDAY, 0, 30);
    assert_int_equal(tg_bank_left(bank, all, SUNDAY, &left, &part), TG_OK);
    assert_int_equal(left, 70);
    assert_true(part > 0.699 && part < 0.701);
    must_be_refused(bank, all, 71, SUNDAY);
    tg_bank_free(bank);
}

static void what_is_left_is_the_least_on_the_way(void **state)
{
    const struct tg_budget budgets[] = {budget_of(1000, TG_PER_DAY), budget_of(5000, TG_PER_MONTH),
                                        shadow_budget(1, TG_PER_DAY)};
    struct tg_bank *bank = must_bank(10);
    tg_account all = must_open_with(bank, 0, "all", NULL, 0, SUNDAY);
    tg_account team = must_open_with(bank, all, "team", budgets, 3, SUNDAY);
    tg_account user = must_open(bank, team, "user", budget_of(400, TG_PER_DAY), SUNDAY);
    tg_micro left;
    double part;
    (void)state;

    assert_int_equal(tg_bank_left(bank, all, SUNDAY, &left, &part), TG_OK);
    assert_true(left == TG_MONEY_MAX && part == 1);
    assert_int_equal(tg_bank_left(bank, user, SUNDAY, &left, &part), TG_OK);
    assert_true(left == 400 && part == 1);
    assert_int_equal(tg_bank_restore(bank, team, 1, 4900, SUNDAY), TG_OK);
    assert_int_equal(tg_bank_left(bank, user, SUNDAY, &left, &part), TG_OK);
    assert_true(left == 100 && part > 0.0199 && part < 0.0201);
    /* If two have as little left, the one of which it is the smaller part. */
    assert_int_equal(tg_bank_restore(bank, team, 1, 4600, SUNDAY), TG_OK);
    assert_int_equal(tg_bank_left(bank, user, SUNDAY, &left, &part), TG_OK);
    assert_true(left == 400 && part > 0.0799 && part < 0.0801);
    assert_int_equal(tg_bank_restore(bank, team, 1, 6000, SUNDAY), TG_OK);
    assert_int_equal(tg_bank_left(bank, user, SUNDAY, &left, NULL), TG_OK);
    assert_true(left == 0);
    tg_bank_free(bank);
}

/* ---- extreme values ---- */

static void reserve_near_the_top_does_not_wrap(void **state)
{
    struct tg_bank *bank = must_bank(10);
    tg_account all = must_open(bank, 0, "all", budget_of(TG_MONEY_MAX, TG_PER_TOTAL), SUNDAY);
    (void)state;

    assert_int_equal(tg_bank_restore(bank, all, 0, TG_MONEY_MAX - 10, SUNDAY), TG_OK);
    must_be_refused(bank, all, TG_MONEY_MAX, SUNDAY);
    must_be_refused(bank, all, 11, SUNDAY);
    must_spend(bank, must_reserve(bank, all, 10, SUNDAY), INT64_MAX);
    expect_book(bank, all, 0, SUNDAY, TG_MONEY_MAX, 0);
    assert_int_equal(stats_of_bank(bank).overshot, TG_MONEY_MAX - 10);
    assert_int_equal(stats_of_bank(bank).anomalies, 1); /* nobody can have spent that */
    must_be_refused(bank, all, 0, SUNDAY);
    must_be_refused(bank, all, TG_MONEY_MAX, SUNDAY);
    tg_bank_free(bank);
}

static void no_more_is_outstanding_than_can_be_counted(void **state)
{
    struct tg_bank *bank = must_bank(10);
    tg_account all = must_open(bank, 0, "all", shadow_budget(5, TG_PER_TOTAL), SUNDAY);
    struct tg_money_answer answer = {.reserved = 77};
    (void)state;

    tg_reservation most = must_reserve(bank, all, TG_MONEY_MAX, SUNDAY);
    assert_int_equal(tg_bank_reserve(bank, all, 1, false, SUNDAY, &answer), TG_ERR_FULL);
    assert_int_equal(answer.reserved, 77);
    expect_book(bank, all, 0, SUNDAY, 0, TG_MONEY_MAX);
    must_spend(bank, most, 3);
    tg_reservation again = must_reserve(bank, all, TG_MONEY_MAX, SUNDAY);
    expect_book(bank, all, 0, SUNDAY, 3, TG_MONEY_MAX);
    must_spend(bank, again, -1);
    expect_book(bank, all, 0, SUNDAY, TG_MONEY_MAX, 0);
    tg_bank_free(bank);
}

static void the_last_moment_of_time_is_in_the_last_window(void **state)
{
    const struct tg_budget budgets[] = {budget_of(100, TG_PER_TOTAL), budget_of(100, TG_PER_DAY)};
    struct tg_bank *bank = must_bank(10);
    tg_account all = must_open_with(bank, 0, "all", budgets, 2, TG_NUMBER_MAX);
    (void)state;

    must_spend(bank, must_reserve(bank, all, 60, TG_NUMBER_MAX), 60);
    must_be_refused(bank, all, 41, TG_NUMBER_MAX);
    expect_book(bank, all, 0, TG_NUMBER_MAX, 60, 0);
    expect_book(bank, all, 1, TG_NUMBER_MAX, 60, 0);
    tg_bank_free(bank);
}

static void numbers_out_of_range_are_refused(void **state)
{
    struct tg_bank *bank = must_bank(10);
    tg_account all = must_open(bank, 0, "all", budget_of(5, TG_PER_TOTAL), SUNDAY);
    struct tg_money_answer answer;
    tg_micro left;
    (void)state;

    assert_int_equal(tg_bank_reserve(bank, all, -1, false, SUNDAY, &answer), TG_ERR_INVALID);
    assert_int_equal(tg_bank_reserve(bank, all, TG_MONEY_MAX + 1, true, SUNDAY, &answer),
                     TG_ERR_INVALID);
    assert_int_equal(tg_bank_reserve(bank, all, 1, false, -1, &answer), TG_ERR_INVALID);
    assert_int_equal(tg_bank_reserve(bank, all, 1, false, TG_NUMBER_MAX + 1, &answer),
                     TG_ERR_INVALID);
    assert_int_equal(tg_bank_reserve(bank, all + 1, 1, false, SUNDAY, &answer), TG_ERR_UNKNOWN);
    assert_int_equal(tg_bank_reserve(bank, 0, 1, false, SUNDAY, &answer), TG_ERR_UNKNOWN);
    assert_int_equal(tg_bank_left(bank, 0, SUNDAY, &left, NULL), TG_ERR_UNKNOWN);
    assert_int_equal(tg_bank_left(bank, all, -1, &left, NULL), TG_ERR_INVALID);
    assert_int_equal(tg_bank_restore(bank, all, 0, -1, SUNDAY), TG_ERR_INVALID);
    assert_int_equal(tg_bank_restore(bank, all, 1, 5, SUNDAY), TG_ERR_INVALID);
    assert_int_equal(tg_bank_restore(bank, all + 1, 0, 5, SUNDAY), TG_ERR_UNKNOWN);
    expect_book(bank, all, 0, SUNDAY, 0, 0);
    tg_bank_free(bank);
}

/* ---- numbers ---- */

/* A place has used up its numbers: it is not used again. */
static void a_reservation_number_is_never_used_twice(void **state)
{
    struct tg_bank *bank = must_bank(10);
    tg_account all = must_open(bank, 0, "all", budget_of(5, TG_PER_TOTAL), SUNDAY);
    (void)state;

    must_spend(bank, must_reserve(bank, all, 1, SUNDAY), 0);
    struct handle *place = bank->holds.free; /* its id is the complement of the next */
    place->id = ~(~place->id | UINT64_MAX << HOLD_PLACE_BITS);
    tg_reservation last = must_reserve(bank, all, 1, SUNDAY);
    assert_int_equal(last, place->id);
    must_spend(bank, last, 0);
    assert_false(tg_bank_settle(bank, last, 0, NULL));
    assert_ptr_not_equal(bank->holds.free, place);
    tg_reservation other = must_reserve(bank, all, 1, SUNDAY);
    assert_int_not_equal(other & bank->holds.place_mask, last & bank->holds.place_mask);
    tg_bank_free(bank);
}

/* Pretends that 2^24 - 256 of them are there, and none of them is free. */
static void there_is_an_end_to_reservations(void **state)
{
    struct tg_bank *bank = must_bank(10);
    tg_account all = must_open(bank, 0, "all", budget_of(5, TG_PER_TOTAL), SUNDAY);
    struct tg_money_answer answer;
    (void)state;

    bank->holds.made = HOLDS_MAX;
    assert_int_equal(tg_bank_reserve(bank, all, 1, false, SUNDAY, &answer), TG_ERR_FULL);
    bank->holds.made = 0;
    expect_book(bank, all, 0, SUNDAY, 0, 0);
    (void)must_reserve(bank, all, 1, SUNDAY);
    tg_bank_free(bank);
}

static void many_reservations_live_side_by_side(void **state)
{
    enum { MANY = 5000 };
    static tg_reservation reservations[MANY];
    struct tg_bank *bank = must_bank(10);
    tg_account all = must_open(bank, 0, "all", budget_of(TG_MONEY_MAX, TG_PER_TOTAL), SUNDAY);
    (void)state;

    for (int i = 0; i < MANY; i++)
        reservations[i] = must_reserve(bank, all, i, SUNDAY);
    expect_book(bank, all, 0, SUNDAY, 0, (tg_micro)MANY * (MANY - 1) / 2);
    assert_int_equal(stats_of_bank(bank).reservations, MANY);
    for (int i = MANY; i-- > 0;) {
        struct tg_spend spend;
        assert_true(tg_bank_settle(bank, reservations[i], 1, &spend));
        assert_int_equal(spend.reserved, i);
    }
    expect_book(bank, all, 0, SUNDAY, MANY, 0);
    tg_bank_free(bank);
}

/* What a bank answers to a question it answers to a reservation; and a question leaves no trace. */
static void a_question_is_answered_like_a_reservation(void **state)
{
    static const tg_micro sums[] = {0, 1, 49, 50, 51, 100, 101, 1000};

    (void)state;
    for (int held = 0; held <= 100; held += 25)
        for (size_t i = 0; i < COUNT_OF(sums); i++) {
            struct tg_bank *bank = must_bank(10);
            tg_account all = must_open(bank, 0, "all", budget_of(100, TG_PER_DAY), SUNDAY);
            struct tg_money_answer asked, got;

            if (held > 0)
                (void)must_ask(bank, all, held, false, SUNDAY);
            assert_int_equal(tg_bank_ask(bank, all, sums[i], SUNDAY, &asked), TG_OK);
            assert_int_equal(tg_bank_ask(bank, all, sums[i], SUNDAY, &asked), TG_OK);
            assert_int_equal(tg_bank_reserve(bank, all, sums[i], false, SUNDAY, &got), TG_OK);
            assert_int_equal(asked.reservation, 0);
            assert_int_equal(asked.account, got.account);
            assert_int_equal(asked.account == 0, got.reservation != 0);
            assert_int_equal(asked.contended, got.contended);
            assert_int_equal(asked.reset_at, got.reset_at);
            assert_int_equal(asked.used, got.used);
            tg_bank_free(bank);
        }
}

/* ---- an account beside ---- */

static struct tg_money_answer must_ask_beside(struct tg_bank *bank, tg_account account,
                                              tg_account beside, tg_micro money)
{
    struct tg_money_answer answer;

    assert_int_equal(
        tg_bank_reserve_beside(bank, account, beside, money, false, SUNDAY, &answer), TG_OK);
    return answer;
}

/* A tenant of 1000 with a user of 400 and a key of 300. */
struct beside {
    struct tg_bank *bank;
    tg_account tenant, user, key;
};

static struct beside must_beside(void)
{
    struct beside of = {.bank = must_bank(10)};

    of.tenant = must_open(of.bank, 0, "tenant", budget_of(1000, TG_PER_DAY), SUNDAY);
    of.user = must_open(of.bank, of.tenant, "user", budget_of(400, TG_PER_DAY), SUNDAY);
    of.key = must_open(of.bank, of.tenant, "key", budget_of(300, TG_PER_DAY), SUNDAY);
    return of;
}

static void what_is_reserved_beside_counts_in_both_and_once_above(void **state)
{
    struct beside of = must_beside();
    struct tg_spend spend;
    (void)state;

    struct tg_money_answer got = must_ask_beside(of.bank, of.user, of.key, 200);
    expect_book(of.bank, of.user, 0, SUNDAY, 0, 200);
    expect_book(of.bank, of.key, 0, SUNDAY, 0, 200);
    expect_book(of.bank, of.tenant, 0, SUNDAY, 0, 200);
    assert_true(tg_bank_settle(of.bank, got.reservation, 150, &spend));
    assert_int_equal(spend.account, of.user);
    expect_book(of.bank, of.user, 0, SUNDAY, 150, 0);
    expect_book(of.bank, of.key, 0, SUNDAY, 150, 0);
    expect_book(of.bank, of.tenant, 0, SUNDAY, 150, 0);
    tg_bank_free(of.bank);
}

static void either_of_two_beside_each_other_refuses_for_all(void **state)
{
    struct beside of = must_beside();
    (void)state;

    struct tg_money_answer said = must_ask_beside(of.bank, of.user, of.key, 301);
    assert_int_equal(said.reservation, 0);
    assert_int_equal(said.account, of.key);
    must_spend(of.bank, must_reserve(of.bank, of.user, 350, SUNDAY), 350);
    said = must_ask_beside(of.bank, of.user, of.key, 100);
    assert_int_equal(said.reservation, 0);
    assert_int_equal(said.account, of.user);
    /* Where both are spent, the one beside is nearer to the top. */
    said = must_ask_beside(of.bank, of.user, of.key, 301);
    assert_int_equal(said.account, of.key);
    expect_book(of.bank, of.key, 0, SUNDAY, 0, 0);
    expect_book(of.bank, of.tenant, 0, SUNDAY, 350, 0);
    tg_bank_free(of.bank);
}

static void only_two_under_one_parent_stand_beside_each_other(void **state)
{
    struct beside of = must_beside();
    tg_account other = must_open(of.bank, 0, "other", budget_of(1, TG_PER_DAY), SUNDAY);
    tg_account below = must_open(of.bank, of.user, "below", budget_of(1, TG_PER_DAY), SUNDAY);
    const tg_account wrong[] = {of.user, of.tenant, other, below};
    struct tg_money_answer answer;
    (void)state;

    for (size_t i = 0; i < COUNT_OF(wrong); i++)
        assert_int_equal(
            tg_bank_reserve_beside(of.bank, of.user, wrong[i], 1, false, SUNDAY, &answer),
            TG_ERR_INVALID);
    assert_int_equal(
        tg_bank_reserve_beside(of.bank, of.user, of.key + 77, 1, false, SUNDAY, &answer),
        TG_ERR_UNKNOWN);
    expect_book(of.bank, of.tenant, 0, SUNDAY, 0, 0);
    tg_bank_free(of.bank);
}

static void a_closed_account_beside_still_settles(void **state)
{
    struct beside of = must_beside();
    struct tg_money_answer answer;
    (void)state;

    tg_reservation held = must_ask_beside(of.bank, of.user, of.key, 100).reservation;
    tg_bank_close(of.bank, of.key);
    assert_int_equal(tg_bank_reserve_beside(of.bank, of.user, of.key, 1, false, SUNDAY, &answer),
                     TG_ERR_UNKNOWN);
    assert_int_equal(stats_of_bank(of.bank).accounts, 3);
    must_spend(of.bank, held, 60);
    assert_int_equal(stats_of_bank(of.bank).accounts, 2);
    expect_book(of.bank, of.user, 0, SUNDAY, 60, 0);
    expect_book(of.bank, of.tenant, 0, SUNDAY, 60, 0);
    tg_bank_free(of.bank);
}

/* A budget that comes while calls run starts from what they hold, beside as below. */
static void a_new_budget_beside_has_what_is_outstanding(void **state)
{
    struct beside of = must_beside();
    struct tg_budget month = budget_of(500, TG_PER_MONTH);
    (void)state;

    tg_reservation held = must_ask_beside(of.bank, of.user, of.key, 100).reservation;
    must_change(of.bank, of.key, &month, 1, SUNDAY);
    expect_book(of.bank, of.key, 0, SUNDAY, 0, 100);
    must_spend(of.bank, held, 70);
    expect_book(of.bank, of.key, 0, SUNDAY, 70, 0);
    tg_bank_free(of.bank);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_question_is_answered_like_a_reservation),
        cmocka_unit_test(what_is_reserved_is_used_until_it_is_settled),
        cmocka_unit_test(a_second_settle_changes_nothing),
        cmocka_unit_test(a_number_that_never_was_settles_nothing),
        cmocka_unit_test(an_unknown_spend_leaves_the_reservation_standing),
        cmocka_unit_test(more_than_reserved_is_booked_whole_and_blocks),
        cmocka_unit_test(a_refusal_tells_spent_from_contended),
        cmocka_unit_test(near_the_end_what_is_left_can_be_reserved),
        cmocka_unit_test(shadow_budgets_count_and_never_refuse),
        cmocka_unit_test(a_refused_call_reserves_nowhere),
        cmocka_unit_test(a_refusal_names_the_first_budget_from_the_top),
        cmocka_unit_test(what_is_spent_anywhere_is_not_called_contended),
        cmocka_unit_test(a_window_follows_the_clock_without_a_reset_job),
        cmocka_unit_test(a_settlement_goes_to_the_window_of_its_reservation),
        cmocka_unit_test(a_clock_that_steps_back_brings_no_window_back),
        cmocka_unit_test(a_peek_changes_nothing),
        cmocka_unit_test(what_is_left_is_the_least_on_the_way),
        cmocka_unit_test(reserve_near_the_top_does_not_wrap),
        cmocka_unit_test(no_more_is_outstanding_than_can_be_counted),
        cmocka_unit_test(the_last_moment_of_time_is_in_the_last_window),
        cmocka_unit_test(numbers_out_of_range_are_refused),
        cmocka_unit_test(a_reservation_number_is_never_used_twice),
        cmocka_unit_test(there_is_an_end_to_reservations),
        cmocka_unit_test(many_reservations_live_side_by_side),
        cmocka_unit_test(what_is_reserved_beside_counts_in_both_and_once_above),
        cmocka_unit_test(either_of_two_beside_each_other_refuses_for_all),
        cmocka_unit_test(only_two_under_one_parent_stand_beside_each_other),
        cmocka_unit_test(a_closed_account_beside_still_settles),
        cmocka_unit_test(a_new_budget_beside_has_what_is_outstanding),
    };
    return cmocka_run_group_tests_name("bank", tests, NULL, NULL);
}
