/* test_bank_part.c - two banks of the same budgets, while one process takes over from another. */
#include "bank_kit.h"
#include "check.h"
#include "draw.h"
#include "lib/budget/bank_part.h"

#define USD 1000000

static const struct book_part ALONE = {0, false}, LEAVES = {0, true}, FIRST = {1, false};

static struct tg_bank *bank_of(tg_micro amount, tg_micro settled, tg_account *account)
{
    struct tg_bank *bank = must_bank(10);

    *account = must_open(bank, 0, "a", budget_of(amount, TG_PER_DAY), SUNDAY);
    assert_int_equal(tg_bank_restore(bank, *account, 0, settled, SUNDAY), TG_OK);
    return bank;
}

/* 0: refused. */
static tg_reservation part_reserve(struct tg_bank *bank, tg_account account, tg_micro money)
{
    return must_ask(bank, account, money, false, SUNDAY).reservation;
}

/* A 64th of the amount. What was reserved before gives nothing back to it, what it reserves itself
 * does. */
static void who_leaves_reserves_a_share(void **state)
{
    tg_account account;
    struct tg_bank *bank = bank_of(64 * USD, 0, &account);
    tg_reservation before, after;

    (void)state;
    before = part_reserve(bank, account, 32 * USD);
    bank_part(bank, LEAVES);
    assert_int_equal(part_reserve(bank, account, USD + 1), 0);
    after = part_reserve(bank, account, USD - 1);
    assert_true(after != 0);
    must_spend(bank, before, 0);
    assert_int_equal(part_reserve(bank, account, 2), 0);
    assert_true(part_reserve(bank, account, 1) != 0);
    bank_part(bank, LEAVES); /* one of those before it has ended */
    assert_int_equal(part_reserve(bank, account, 1), 0);
    must_spend(bank, after, 10);
    assert_int_equal(part_reserve(bank, account, USD - 10), 0);
    after = part_reserve(bank, account, USD - 11);
    assert_true(after != 0);
    bank_part(bank, ALONE); /* the other process has died before it served */
    must_spend(bank, after, 0);
    assert_true(part_reserve(bank, account, 60 * USD) != 0);
    tg_bank_free(bank);
}

static void no_share_is_more_than_what_is_left(void **state)
{
    tg_account account;
    struct tg_bank *bank = bank_of(64 * USD, 64 * USD - 10, &account);

    (void)state;
    bank_part(bank, (struct book_part){1, true}); /* and another one has a share before it */
    assert_int_equal(part_reserve(bank, account, 1), 0);
    bank_part(bank, ALONE);
    bank_part(bank, LEAVES);
    assert_int_equal(part_reserve(bank, account, 11), 0);
    assert_true(part_reserve(bank, account, 10) != 0);
    tg_bank_free(bank);
}

static void its_successor_keeps_the_share_of_each_free(void **state)
{
    const struct tg_budget more = budget_of(128 * USD, TG_PER_DAY);
    tg_account account;
    struct tg_bank *bank = bank_of(64 * USD, 60 * USD, &account);

    (void)state;
    bank_part(bank, (struct book_part){3, false});
    assert_int_equal(part_reserve(bank, account, USD + 1), 0);
    bank_part(bank, FIRST);
    assert_true(part_reserve(bank, account, 3 * USD) != 0);
    assert_int_equal(part_reserve(bank, account, 1), 0);
    must_change(bank, account, &more, 1, SUNDAY);
    assert_int_equal(part_reserve(bank, account, 63 * USD + 1), 0);
    assert_true(part_reserve(bank, account, 63 * USD) != 0);
    bank_part(bank, ALONE);
    assert_true(part_reserve(bank, account, 2 * USD) != 0);
    assert_int_equal(part_reserve(bank, account, 1), 0);
    tg_bank_free(bank);
}

/* A window that begins, and an account that is opened: nothing of them is used yet. */
static void what_begins_later_is_shared_too(void **state)
{
    static const struct {
        struct book_part part;
        tg_micro most;
    } rows[] = {{{0, true}, USD}, {{1, false}, 63 * USD}, {{1, true}, USD}, {{0, false}, 64 * USD}};
    const tg_ms monday = SUNDAY + DAY;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        tg_account account;
        struct tg_bank *bank = bank_of(64 * USD, 64 * USD, &account);
        bank_part(bank, rows[i].part);
        must_be_refused(bank, account, rows[i].most + 1, monday);
        (void)must_reserve(bank, account, rows[i].most, monday);
        account = must_open(bank, 0, "b", budget_of(64 * USD, TG_PER_DAY), monday);
        must_be_refused(bank, account, rows[i].most + 1, monday);
        (void)must_reserve(bank, account, rows[i].most, monday);
        tg_bank_free(bank);
    }
}

/* What was settled of it may have been read already, and seem to leave nothing. */
static void what_is_adopted_is_reserved_in_full(void **state)
{
    struct tg_money_answer answer;
    tg_account account;
    struct tg_bank *bank = bank_of(64 * USD, 64 * USD, &account);

    (void)state;
    bank_part(bank, FIRST);
    assert_int_equal(bank_adopt(bank, account, 0, 5 * USD, SUNDAY, &answer), TG_OK);
    assert_int_equal(answer.reserved, 5 * USD);
    assert_int_equal(tg_bank_restore(bank, account, 0, 60 * USD, SUNDAY), TG_OK);
    must_be_refused(bank, account, 1, SUNDAY);
    must_spend(bank, answer.reservation, 0);
    (void)must_reserve(bank, account, 3 * USD, SUNDAY);
    tg_bank_free(bank);
}

/* After the moment at which both know the same, the one tells late what it reserves, and the other
 * one nothing. */
static void together_they_reserve_no_more_than_there_is(void **state)
{
    enum { CALLS = 64 };
    uint64_t seed = draw_seed("test_bank_part");

    (void)state;
    for (uint64_t round = 0; round < 2000; round++) {
        struct draw draw = draw_stream(seed, round);
        const tg_micro amount = draw_between(&draw, 1, 5000);
        const tg_micro settled = draw_between(&draw, 0, amount);
        struct tg_money_answer answer;
        tg_micro money[CALLS], truth = settled;
        tg_account of_old, of_new;
        struct tg_bank *old = bank_of(amount, settled, &of_old);
        struct tg_bank *new = bank_of(amount, settled, &of_new);
        size_t n = 0, told = 0;

        bank_part(old, LEAVES);
        bank_part(new, FIRST);
        for (int step = 0; step < 100 && n < CALLS; step++) {
            tg_micro asked = draw_between(&draw, 1, 1 + amount / 100);
            tg_reservation made = draw_chance(&draw, 40) ? part_reserve(old, of_old, asked) : 0;
            if (made != 0) {
                money[n++] = asked;
                truth += asked;
                if (draw_chance(&draw, 50)) { /* and settles less, which is not told yet */
                    tg_micro spent = draw_between(&draw, 0, asked);
                    must_spend(old, made, spent);
                    truth -= asked - spent;
                }
            } else if (draw_chance(&draw, 40) && told < n) {
                assert_int_equal(bank_adopt(new, of_new, 0, money[told++], SUNDAY, &answer), TG_OK);
            } else if (part_reserve(new, of_new, asked) != 0) {
                truth += asked;
            }
            assert_true(truth <= amount);
        }
        tg_bank_free(old);
        tg_bank_free(new);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_leaves_reserves_a_share),
        cmocka_unit_test(no_share_is_more_than_what_is_left),
        cmocka_unit_test(its_successor_keeps_the_share_of_each_free),
        cmocka_unit_test(what_begins_later_is_shared_too),
        cmocka_unit_test(what_is_adopted_is_reserved_in_full),
        cmocka_unit_test(together_they_reserve_no_more_than_there_is),
    };
    return cmocka_run_group_tests_name("bank part", tests, NULL, NULL);
}
