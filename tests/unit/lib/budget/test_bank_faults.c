/* test_bank_faults.c - the same life of a bank with its 1st, 2nd, 3rd ... allocation failing: it
 * says so, books nothing, goes on afterwards, and loses no memory. And once it is warm, it
 * allocates nothing.
 *
 * The allocator of this program counts, and fails when told. A sanitizer has an allocator of its
 * own, so there the test is skipped.
 */
#include "bank_kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "failing_malloc.h"

#define USERS 130 /* three chunks of accounts */
#define CALLS 700 /* three chunks of reservations */

/* What the bank has said that it did. */
struct books {
    struct tg_bank *bank;
    tg_account all, users[USERS];
    tg_micro reserved;
    tg_reservation calls[CALLS];
    long errors;
};

/* Opens, again if there was no memory: by then there is. */
static tg_account open_somehow(struct books *books, tg_account parent, const char *name)
{
    const struct tg_budget budgets[] = {budget_of(100000, TG_PER_DAY),
                                        budget_of(100000, TG_PER_MONTH)};
    tg_account account = 0;

    for (;;) {
        enum tg_err err = tg_bank_open(books->bank, parent, name, strlen(name), budgets, 2, SUNDAY,
                                       &account, NULL, NULL);
        if (err == TG_OK)
            return account;
        assert_int_equal(err, TG_ERR_MEMORY);
        assert_int_equal(account, 0);
        books->errors++;
        until_failure = -1;
    }
}

static void call(struct books *books, int i)
{
    struct tg_money_answer answer = {.reservation = 0};
    enum tg_err err =
        tg_bank_reserve(books->bank, books->users[i % USERS], 5, false, SUNDAY, &answer);

    assert_true(err == TG_OK || err == TG_ERR_MEMORY);
    assert_int_equal(answer.reservation != 0, err == TG_OK);
    books->errors += err != TG_OK;
    books->reserved += answer.reserved;
    books->calls[i] = answer.reservation;
}

static void change(struct books *books, int i)
{
    const struct tg_budget budget = budget_of(100000 + i, TG_PER_DAY);
    enum tg_err err = tg_bank_change(books->bank, books->all, &budget, 1, SUNDAY, NULL);

    assert_true(err == TG_OK || err == TG_ERR_MEMORY);
    books->errors += err != TG_OK;
}

/* Returns how many errors there were. */
static long live_once(long nth)
{
    static struct books books;
    struct tg_bank_config config;
    char name[32];

    fail_at(nth);
    memset(&books, 0, sizeof books);
    tg_bank_config_init(&config);
    config.max_accounts = USERS + 1;
    enum tg_err err = tg_bank_new(&config, &books.bank, NULL);
    if (err != TG_OK) {
        assert_int_equal(err, TG_ERR_MEMORY);
        assert_null(books.bank);
        return 1;
    }
    books.all = open_somehow(&books, 0, "all");
    for (int i = 0; i < USERS; i++) {
        (void)snprintf(name, sizeof name, "user %d", i);
        books.users[i] = open_somehow(&books, books.all, name);
    }
    for (int i = 0; i < CALLS; i++)
        call(&books, i);
    for (int i = 0; i < 10; i++)
        change(&books, i);
    until_failure = -1;
    assert_int_equal(stats_of_bank(books.bank).accounts, USERS + 1);
    expect_book(books.bank, books.all, 0, SUNDAY, 0, books.reserved);
    for (int i = 0; i < CALLS; i++)
        assert_int_equal(tg_bank_settle(books.bank, books.calls[i], 1, NULL), books.calls[i] != 0);
    expect_book(books.bank, books.all, 0, SUNDAY, books.reserved / 5, 0);
    tg_bank_free(books.bank);
    return books.errors;
}

static void one_failing_allocation_books_nothing_and_is_survived(void **state)
{
    (void)state;
    need_allocator();
    expect_survival(live_once, false, USERS, USERS);
}

static void no_memory_from_some_moment_on_books_nothing_and_is_survived(void **state)
{
    (void)state;
    need_allocator();
    expect_survival(live_once, true, USERS, USERS);
}

static void a_warm_bank_allocates_nothing(void **state)
{
    tg_reservation calls[100];
    (void)state;

    need_allocator();
    struct tg_bank *bank = must_bank(10);
    tg_account all = must_open(bank, 0, "all", budget_of(100000, TG_PER_DAY), SUNDAY);
    tg_account user = must_open(bank, all, "user", budget_of(100000, TG_PER_DAY), SUNDAY);
    must_spend(bank, must_reserve(bank, user, 1, SUNDAY), 1);
    long before = allocations;
    for (int round = 0; round < 50; round++) {
        tg_ms now = SUNDAY + round * DAY / 3; /* over midnights too */
        for (size_t i = 0; i < COUNT_OF(calls); i++)
            calls[i] = must_reserve(bank, user, 1, now);
        for (size_t i = 0; i < COUNT_OF(calls); i++)
            must_spend(bank, calls[i], 2);
        tg_account found;
        assert_int_equal(tg_bank_open(bank, all, "user", 4, NULL, 0, now, &found, NULL, NULL),
                         TG_OK);
        must_be_refused(bank, user, 100001, now);
    }
    assert_int_equal(allocations, before);
    tg_bank_free(bank);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_failing_allocation_books_nothing_and_is_survived),
        cmocka_unit_test(no_memory_from_some_moment_on_books_nothing_and_is_survived),
        cmocka_unit_test(a_warm_bank_allocates_nothing),
    };
    return cmocka_run_group_tests_name("bank_faults", tests, NULL, NULL);
}
