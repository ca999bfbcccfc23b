/* test_bank_find.c - an account is found by its name, and looking for one opens none. */
#include "bank_kit.h"

static void what_is_open_is_found_under_its_parent(void **state)
{
    struct tg_bank *bank = must_bank(16);
    tg_account team = must_open(bank, 0, "team", budget_of(100, TG_PER_DAY), SUNDAY);
    tg_account user = must_open(bank, team, "u", budget_of(10, TG_PER_DAY), SUNDAY);
    (void)state;

    assert_int_equal(tg_bank_find(bank, 0, "team", 4), team);
    assert_int_equal(tg_bank_find(bank, team, "u", 1), user);
    assert_int_equal(tg_bank_find(bank, 0, "u", 1), 0);
    tg_bank_free(bank);
}

static void looking_opens_nothing(void **state)
{
    struct tg_bank *bank = must_bank(16);
    (void)state;

    assert_int_equal(tg_bank_find(bank, 0, "nobody", 6), 0);
    assert_int_equal(tg_bank_find(bank, 77, "nobody", 6), 0);
    assert_int_equal(tg_bank_find(bank, 0, NULL, 6), 0);
    assert_int_equal(stats_of_bank(bank).accounts, 0);
    tg_bank_free(bank);
}

static void what_was_closed_is_not_found(void **state)
{
    struct tg_bank *bank = must_bank(16);
    tg_account team = must_open(bank, 0, "team", budget_of(100, TG_PER_DAY), SUNDAY);
    tg_account user = must_open(bank, team, "u", budget_of(10, TG_PER_DAY), SUNDAY);
    (void)state;

    assert_int_equal(tg_bank_find(bank, team, "u", 1), user);
    tg_bank_close(bank, team);
    assert_int_equal(tg_bank_find(bank, 0, "team", 4), 0);
    assert_int_equal(tg_bank_find(bank, team, "u", 1), 0);
    tg_bank_free(bank);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_open_is_found_under_its_parent),
        cmocka_unit_test(looking_opens_nothing),
        cmocka_unit_test(what_was_closed_is_not_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
