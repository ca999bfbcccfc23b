/* test_bank_accounts.c - the life of accounts: opened once, changed in place, closed with what is
 * under them, taken over when they hold nothing. */
#include "bank_kit.h"

#include <stdio.h>
#include <string.h>

#include "lib/budget/bank.h"

static enum tg_err try_open(struct tg_bank *bank, tg_account parent, const char *name,
                            const struct tg_budget *budget, tg_account *account, bool *fresh)
{
    return tg_bank_open(bank, parent, name, strlen(name), budget, budget ? 1 : 0, SUNDAY, account,
                        fresh, NULL);
}

static enum tg_err try_reserve(struct tg_bank *bank, tg_account account)
{
    struct tg_money_answer answer;

    return tg_bank_reserve(bank, account, 1, false, SUNDAY, &answer);
}

/* ---- opening ---- */

static void a_name_is_opened_once_under_each_parent(void **state)
{
    struct tg_budget budget = budget_of(100, TG_PER_DAY), other = budget_of(7, TG_PER_WEEK);
    struct tg_bank *bank = must_bank(10);
    tg_account a = must_open(bank, 0, "a", budget, SUNDAY);
    tg_account b = must_open(bank, 0, "b", budget, SUNDAY);
    tg_account user_a = must_open(bank, a, "user", budget, SUNDAY);
    tg_account user_b = must_open(bank, b, "user", budget, SUNDAY), found = 0;
    bool fresh = true;
    (void)state;

    assert_int_not_equal(user_a, user_b);
    assert_int_equal(try_open(bank, a, "user", &other, &found, &fresh), TG_OK);
    assert_int_equal(found, user_a);
    assert_false(fresh);
    assert_int_equal(budget_at(bank, found, 0, SUNDAY).amount, 100); /* unchanged */
    assert_int_equal(stats_of_bank(bank).accounts, 4);
    tg_bank_free(bank);
}

static void names_may_hold_any_bytes(void **state)
{
    static const struct {
        const char *bytes;
        size_t n;
    } names[] = {{NULL, 0}, {"\0", 1}, {"\0\0", 2}, {"a", 1}, {"a\0", 2}, {"a\0b", 3}};
    struct tg_bank *bank = must_bank(10);
    tg_account account;
    bool fresh;
    (void)state;

    for (int again = 0; again < 2; again++) {
        for (size_t i = 0; i < COUNT_OF(names); i++) {
            assert_int_equal(tg_bank_open(bank, 0, names[i].bytes, names[i].n, NULL, 0, SUNDAY,
                                          &account, &fresh, NULL),
                             TG_OK);
            assert_int_equal(fresh, !again);
        }
    }
    tg_bank_free(bank);
}

static void what_cannot_be_is_refused_with_a_reason(void **state)
{
    const struct tg_zone_change falling[] = {{10, 0}, {5, 3600}};
    const struct tg_zone zone = {0, 2, falling};
    const struct {
        struct tg_budget budget;
        const char *says;
    } rows[] = {
        {budget_of(-1, TG_PER_DAY), "0 to 9000000000000000000"},
        {budget_of(TG_MONEY_MAX + 1, TG_PER_DAY), "0 to 9000000000000000000"},
        {budget_of(1, TG_PER_COUNT), "day, week, month or total"},
        {{1, TG_PER_DAY, NULL, (enum tg_mode)7}, "enforce or shadow"},
        {{1, TG_PER_DAY, &zone, TG_ENFORCE}, "ascend"},
    };
    struct tg_budget many[TG_BUDGETS_MAX + 1] = {{.amount = 0}};
    struct tg_bank *bank = must_bank(10);
    tg_account account = 77, good = must_open_with(bank, 0, "good", NULL, 0, SUNDAY);
    struct tg_problem problem;
    (void)state;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        assert_int_equal(tg_bank_open(bank, 0, "x", 1, &rows[i].budget, 1, SUNDAY, &account, NULL,
                                      &problem),
                         TG_ERR_INVALID);
        assert_non_null(strstr(problem.text, rows[i].says));
        problem.text[0] = '\0';
        assert_int_equal(tg_bank_change(bank, good, &rows[i].budget, 1, SUNDAY, &problem),
                         TG_ERR_INVALID);
        assert_non_null(strstr(problem.text, rows[i].says));
    }
    assert_int_equal(tg_bank_open(bank, 0, "x", 1, many, TG_BUDGETS_MAX + 1, SUNDAY, &account, NULL,
                                  &problem),
                     TG_ERR_INVALID);
    assert_int_equal(tg_bank_open(bank, 0, "x", 1, NULL, 1, SUNDAY, &account, NULL, &problem),
                     TG_ERR_INVALID);
    assert_int_equal(tg_bank_open(bank, 0, NULL, 1, NULL, 0, SUNDAY, &account, NULL, &problem),
                     TG_ERR_INVALID);
    assert_int_equal(tg_bank_open(bank, 0, "x", 1, NULL, 0, -1, &account, NULL, &problem),
                     TG_ERR_INVALID);
    assert_int_equal(tg_bank_open(bank, 99, "x", 1, NULL, 0, SUNDAY, &account, NULL, &problem),
                     TG_ERR_UNKNOWN);
    assert_int_equal(tg_bank_change(bank, 99, NULL, 0, SUNDAY, &problem), TG_ERR_UNKNOWN);
    assert_int_equal(account, 77);
    assert_int_equal(stats_of_bank(bank).accounts, 1);
    tg_bank_free(bank);
}

static void there_are_sixteen_levels(void **state)
{
    struct tg_bank *bank = must_bank(100);
    tg_account account = 0, deeper = 0;
    char name[32];
    (void)state;

    for (int level = 0; level < TG_LEVELS_MAX; level++) {
        (void)snprintf(name, sizeof name, "level %d", level);
        account = must_open(bank, account, name, budget_of(100, TG_PER_DAY), SUNDAY);
    }
    assert_int_equal(try_open(bank, account, "deeper", NULL, &deeper, NULL), TG_ERR_INVALID);
    (void)must_reserve(bank, account, 100, SUNDAY);
    tg_bank_free(bank);
}

static void a_bank_has_room_for_one_account_at_least(void **state)
{
    struct tg_bank_config config;
    struct tg_bank *bank = NULL;
    struct tg_problem problem;
    (void)state;

    tg_bank_config_init(&config);
    assert_int_equal(config.max_accounts, 1048576);
    config.max_accounts = 0;
    assert_int_equal(tg_bank_new(&config, &bank, &problem), TG_ERR_INVALID);
    assert_non_null(strstr(problem.text, "max_accounts"));
    config.max_accounts = ((size_t)1 << 30) + 1;
    assert_int_equal(tg_bank_new(&config, &bank, &problem), TG_ERR_INVALID);
    assert_null(bank);
    tg_bank_free(NULL);
}

/* ---- changing ---- */

static void changing_an_amount_keeps_the_spend(void **state)
{
    struct tg_budget budget = budget_of(1000, TG_PER_DAY);
    struct tg_bank *bank = must_bank(10);
    tg_account all = must_open(bank, 0, "all", budget, SUNDAY);
    (void)state;

    must_spend(bank, must_reserve(bank, all, 300, SUNDAY), 300);
    tg_reservation running = must_reserve(bank, all, 200, SUNDAY);
    budget.amount = 400;
    must_change(bank, all, &budget, 1, SUNDAY);
    expect_book(bank, all, 0, SUNDAY, 300, 200);
    assert_true(must_be_refused(bank, all, 100, SUNDAY).contended);
    must_spend(bank, running, 0);
    expect_book(bank, all, 0, SUNDAY, 300, 0);
    (void)must_reserve(bank, all, 100, SUNDAY);
    tg_bank_free(bank);
}

static void adding_a_window_does_not_inherit_lifetime_spend(void **state)
{
    const struct tg_budget before[] = {budget_of(1000, TG_PER_TOTAL)};
    const struct tg_budget after[] = {budget_of(100, TG_PER_DAY), budget_of(1000, TG_PER_TOTAL)};
    struct tg_bank *bank = must_bank(10);
    tg_account all = must_open_with(bank, 0, "all", before, 1, SUNDAY);
    (void)state;

    must_spend(bank, must_reserve(bank, all, 500, SUNDAY), 500);
    must_change(bank, all, after, 2, SUNDAY);
    expect_book(bank, all, 0, SUNDAY, 0, 0);
    expect_book(bank, all, 1, SUNDAY, 500, 0);
    assert_int_equal(tg_bank_restore(bank, all, 0, 70, SUNDAY), TG_OK);
    must_be_refused(bank, all, 31, SUNDAY);
    must_spend(bank, must_reserve(bank, all, 30, SUNDAY), 30);
    expect_book(bank, all, 0, SUNDAY, 100, 0);
    expect_book(bank, all, 1, SUNDAY, 530, 0);
    tg_bank_free(bank);
}

static void a_new_window_holds_what_is_outstanding_in_it(void **state)
{
    const struct tg_budget month[] = {budget_of(1000, TG_PER_MONTH)};
    const struct tg_budget both[] = {budget_of(1000, TG_PER_MONTH), budget_of(100, TG_PER_DAY)};
    struct tg_bank *bank = must_bank(10);
    tg_account all = must_open_with(bank, 0, "all", month, 1, SUNDAY);
    tg_account user = must_open_with(bank, all, "user", NULL, 0, SUNDAY);
    tg_account stranger = must_open_with(bank, 0, "stranger", NULL, 0, SUNDAY);
    (void)state;

    tg_reservation yesterday = must_reserve(bank, user, 40, SUNDAY);
    tg_reservation today = must_reserve(bank, user, 20, SUNDAY + DAY);
    tg_reservation own = must_reserve(bank, all, 3, SUNDAY + DAY);
    (void)must_reserve(bank, stranger, 1000, SUNDAY + DAY);
    must_change(bank, all, both, 2, SUNDAY + DAY);
    expect_book(bank, all, 0, SUNDAY + DAY, 0, 63);
    expect_book(bank, all, 1, SUNDAY + DAY, 0, 23);
    must_spend(bank, yesterday, 40);
    must_spend(bank, today, 15);
    must_spend(bank, own, 3);
    expect_book(bank, all, 0, SUNDAY + DAY, 58, 0);
    expect_book(bank, all, 1, SUNDAY + DAY, 18, 0);
    tg_bank_free(bank);
}

/* What was spent between two moments does not depend on how the window is called. */
static void a_zone_with_the_same_window_keeps_the_spend(void **state)
{
    const struct tg_zone_change later[] = {{SUNDAY + 30 * DAY, 3600}};
    const struct tg_zone same = {0, 1, later}, other = {3600, 0, NULL};
    struct tg_budget budget = budget_of(100, TG_PER_DAY);
    struct tg_bank *bank = must_bank(10);
    tg_account all = must_open(bank, 0, "all", budget, SUNDAY);
    (void)state;

    must_spend(bank, must_reserve(bank, all, 40, SUNDAY), 40);
    budget.zone = &same;
    must_change(bank, all, &budget, 1, SUNDAY);
    expect_book(bank, all, 0, SUNDAY, 40, 0);
    budget.zone = &other;
    must_change(bank, all, &budget, 1, SUNDAY);
    expect_book(bank, all, 0, SUNDAY, 0, 0);
    tg_bank_free(bank);
}

static void a_change_after_midnight_carries_nothing_from_yesterday(void **state)
{
    struct tg_budget budget = budget_of(100, TG_PER_DAY);
    struct tg_bank *bank = must_bank(10);
    tg_account all = must_open(bank, 0, "all", budget, SUNDAY);
    (void)state;

    must_spend(bank, must_reserve(bank, all, 40, SUNDAY), 40);
    tg_reservation running = must_reserve(bank, all, 40, SUNDAY);
    must_change(bank, all, &budget, 1, SUNDAY + DAY);
    expect_book(bank, all, 0, SUNDAY + DAY, 0, 0);
    must_spend(bank, running, 40);
    expect_book(bank, all, 0, SUNDAY + DAY, 0, 0);
    tg_bank_free(bank);
}

/* Two budgets of one window, with different histories, change places with nobody. */
static void budgets_of_one_window_keep_their_order(void **state)
{
    const struct tg_budget two[] = {budget_of(100, TG_PER_DAY), shadow_budget(50, TG_PER_DAY)};
    struct tg_bank *bank = must_bank(10);
    tg_account all = must_open_with(bank, 0, "all", two, 2, SUNDAY);
    (void)state;

    assert_int_equal(tg_bank_restore(bank, all, 0, 10, SUNDAY), TG_OK);
    assert_int_equal(tg_bank_restore(bank, all, 1, 20, SUNDAY), TG_OK);
    must_change(bank, all, two, 2, SUNDAY);
    expect_book(bank, all, 0, SUNDAY, 10, 0);
    expect_book(bank, all, 1, SUNDAY, 20, 0);
    must_change(bank, all, NULL, 0, SUNDAY);
    assert_int_equal(tg_bank_get_budgets(bank, all, SUNDAY, NULL), 0);
    tg_bank_free(bank);
}

static void spend_is_restored_after_a_restart(void **state)
{
    struct tg_bank *bank = must_bank(10);
    tg_account all = must_open(bank, 0, "all", budget_of(100, TG_PER_DAY), SUNDAY);
    (void)state;

    assert_int_equal(tg_bank_restore(bank, all, 0, 90, SUNDAY), TG_OK);
    must_be_refused(bank, all, 11, SUNDAY);
    tg_reservation running = must_reserve(bank, all, 10, SUNDAY);
    assert_int_equal(tg_bank_restore(bank, all, 0, 80, SUNDAY), TG_OK);
    expect_book(bank, all, 0, SUNDAY, 80, 10); /* what is outstanding stays */
    must_spend(bank, running, 10);
    /* A window that is over has nothing left to be set. */
    assert_int_equal(tg_bank_restore(bank, all, 0, 5, SUNDAY + DAY), TG_OK);
    expect_book(bank, all, 0, SUNDAY + DAY, 5, 0);
    tg_bank_free(bank);
}

/* ---- closing ---- */

static void a_closed_account_settles_what_is_outstanding(void **state)
{
    struct tg_bank *bank = must_bank(10);
    tg_account all = must_open(bank, 0, "all", budget_of(100, TG_PER_DAY), SUNDAY);
    tg_account team = must_open(bank, all, "team", budget_of(100, TG_PER_DAY), SUNDAY);
    struct tg_spend spend;
    struct tg_budget_metrics none[TG_BUDGETS_MAX];
    (void)state;

    tg_reservation running = must_reserve(bank, team, 30, SUNDAY);
    tg_bank_close(bank, team);
    assert_int_equal(try_reserve(bank, team), TG_ERR_UNKNOWN);
    assert_int_equal(tg_bank_get_budgets(bank, team, SUNDAY, none), 0);
    assert_int_equal(stats_of_bank(bank).accounts, 2); /* it stays until it is settled */
    tg_account again = must_open(bank, all, "team", budget_of(100, TG_PER_DAY), SUNDAY);
    assert_int_not_equal(again, team);
    expect_book(bank, all, 0, SUNDAY, 0, 30);

    assert_true(tg_bank_settle(bank, running, 20, &spend));
    assert_int_equal(spend.account, team);
    expect_book(bank, all, 0, SUNDAY, 20, 0);
    expect_book(bank, again, 0, SUNDAY, 0, 0);
    assert_int_equal(stats_of_bank(bank).accounts, 2);
    tg_bank_close(bank, team); /* again, or something that never was: nothing */
    tg_bank_close(bank, 0);
    assert_int_equal(stats_of_bank(bank).accounts, 2);
    tg_bank_free(bank);
}

static void accounts_under_a_closed_one_are_closed_too(void **state)
{
    enum { TEAMS = 5,
           USERS = 60 };
    static tg_account teams[TEAMS], users[TEAMS][USERS];
    struct tg_bank *bank = must_bank(1000);
    tg_account all = must_open(bank, 0, "all", budget_of(1000, TG_PER_DAY), SUNDAY);
    tg_account product = must_open(bank, all, "product", budget_of(1000, TG_PER_DAY), SUNDAY);
    tg_account other = must_open(bank, all, "other", budget_of(1000, TG_PER_DAY), SUNDAY);
    tg_reservation running[TEAMS];
    char name[32];
    (void)state;

    for (int t = 0; t < TEAMS; t++) {
        (void)snprintf(name, sizeof name, "team %d", t);
        teams[t] = must_open(bank, product, name, budget_of(1000, TG_PER_DAY), SUNDAY);
        for (int u = 0; u < USERS; u++) {
            (void)snprintf(name, sizeof name, "user %d", u);
            users[t][u] = must_open(bank, teams[t], name, budget_of(1000, TG_PER_DAY), SUNDAY);
        }
        running[t] = must_reserve(bank, users[t][t], 10, SUNDAY);
    }
    tg_bank_close(bank, product);
    /* Left: all and other; and product, teams and users that something is outstanding at. */
    assert_int_equal(stats_of_bank(bank).accounts, 3 + TEAMS + TEAMS);
    for (int t = 0; t < TEAMS; t++) {
        assert_int_equal(try_reserve(bank, teams[t]), TG_ERR_UNKNOWN);
        for (int u = 0; u < USERS; u++)
            assert_int_equal(try_reserve(bank, users[t][u]), TG_ERR_UNKNOWN);
    }
    assert_int_equal(try_open(bank, product, "new", NULL, &teams[0], NULL), TG_ERR_UNKNOWN);
    for (int t = 0; t < TEAMS; t++)
        must_spend(bank, running[t], 10);
    assert_int_equal(stats_of_bank(bank).accounts, 2);
    expect_book(bank, all, 0, SUNDAY, 10 * TEAMS, 0);
    (void)must_reserve(bank, other, 1, SUNDAY);
    tg_bank_free(bank);
}

/* ---- full ---- */

static void a_full_bank_takes_the_place_of_a_user_who_holds_nothing(void **state)
{
    struct tg_budget daily = budget_of(100, TG_PER_DAY);
    struct tg_bank *bank = must_bank(4);
    tg_account all = must_open(bank, 0, "all", daily, SUNDAY);
    tg_account team = must_open(bank, all, "team", daily, SUNDAY);
    tg_account a = must_open(bank, team, "a", daily, SUNDAY);
    tg_account b = must_open(bank, team, "b", daily, SUNDAY), c = 0;
    bool fresh;
    (void)state;

    must_spend(bank, must_reserve(bank, a, 5, SUNDAY), 5);
    tg_reservation running = must_reserve(bank, b, 5, SUNDAY);
    assert_int_equal(try_open(bank, team, "c", &daily, &c, &fresh), TG_ERR_FULL);
    assert_int_equal(c, 0);
    must_spend(bank, running, 0);
    assert_int_equal(try_open(bank, team, "c", &daily, &c, &fresh), TG_OK);
    assert_true(fresh);
    assert_int_equal(try_reserve(bank, b), TG_ERR_UNKNOWN);
    expect_book(bank, a, 0, SUNDAY, 5, 0);
    /* The number is new, though the place is not. */
    assert_int_equal((uint32_t)c, (uint32_t)b);
    assert_int_not_equal(c, b);
    (void)must_reserve(bank, c, 1, SUNDAY);
    assert_int_equal(try_open(bank, team, "b", &daily, &b, &fresh), TG_ERR_FULL);
    /* Tomorrow what a has spent is over. */
    b = must_open(bank, team, "b", daily, SUNDAY + DAY);
    assert_int_equal(try_reserve(bank, a), TG_ERR_UNKNOWN);
    tg_bank_free(bank);
}

static void a_crowd_of_users_never_takes_the_place_of_a_tenant(void **state)
{
    struct tg_bank *bank = must_bank(4);
    tg_account all = must_open_with(bank, 0, "all", NULL, 0, SUNDAY);
    tg_account idle = must_open_with(bank, all, "idle", NULL, 0, SUNDAY);
    tg_account busy = must_open_with(bank, all, "busy", NULL, 0, SUNDAY);
    char name[32];
    (void)state;

    for (int i = 0; i < 500; i++) {
        (void)snprintf(name, sizeof name, "user %d", i);
        tg_account user = must_open_with(bank, busy, name, NULL, 0, SUNDAY);
        must_spend(bank, must_reserve(bank, user, 5, SUNDAY), 5);
    }
    assert_int_equal(try_reserve(bank, idle), TG_OK);
    assert_int_equal(stats_of_bank(bank).accounts, 4);
    tg_bank_free(bank);
}

/* Neither at the top, nor with accounts under it, nor with a call that runs. */
static void an_account_that_is_needed_is_not_taken_over(void **state)
{
    struct tg_bank *bank = must_bank(4);
    tg_account all = must_open_with(bank, 0, "all", NULL, 0, SUNDAY), other = 0;
    tg_account top = must_open_with(bank, 0, "top", NULL, 0, SUNDAY);
    tg_account team = must_open_with(bank, all, "team", NULL, 0, SUNDAY);
    tg_account user = must_open_with(bank, team, "user", NULL, 0, SUNDAY);
    (void)state;

    tg_reservation running = must_reserve(bank, user, 0, SUNDAY);
    assert_int_equal(try_open(bank, 0, "another top", NULL, &other, NULL), TG_ERR_FULL);
    assert_int_equal(try_open(bank, all, "another team", NULL, &other, NULL), TG_ERR_FULL);
    assert_int_equal(try_open(bank, team, "another user", NULL, &other, NULL), TG_ERR_FULL);
    assert_int_equal(try_reserve(bank, top), TG_OK);
    must_spend(bank, running, 0);
    assert_int_equal(try_open(bank, all, "another team", NULL, &other, NULL), TG_OK);
    assert_int_equal(try_reserve(bank, team), TG_OK);
    assert_int_equal(try_reserve(bank, user), TG_ERR_UNKNOWN);
    tg_bank_free(bank);
}

/* The first step of a close: the rest is tidying, in pieces, while others have the lock. */
static void nothing_is_found_under_an_account_that_is_being_closed(void **state)
{
    struct tg_bank *bank = must_bank(10);
    tg_account all = must_open_with(bank, 0, "all", NULL, 0, SUNDAY);
    tg_account team = must_open_with(bank, all, "team", NULL, 0, SUNDAY);
    tg_account user = must_open_with(bank, team, "user", NULL, 0, SUNDAY), other = 0;
    (void)state;

    accounts_close(&bank->accounts, accounts_find(&bank->accounts, team));
    assert_int_equal(try_reserve(bank, user), TG_ERR_UNKNOWN);
    assert_int_equal(try_open(bank, user, "other", NULL, &other, NULL), TG_ERR_UNKNOWN);
    assert_int_equal(try_open(bank, team, "other", NULL, &other, NULL), TG_ERR_UNKNOWN);
    tg_bank_free(bank);
}

static void an_account_number_is_never_used_twice(void **state)
{
    struct tg_bank *bank = must_bank(64);
    tg_account all = must_open_with(bank, 0, "all", NULL, 0, SUNDAY);
    (void)state;

    tg_bank_close(bank, must_open_with(bank, all, "first", NULL, 0, SUNDAY));
    struct handle *place = bank->accounts.pool.free; /* its id is the complement of the next */
    place->id = ~(~place->id | UINT64_MAX << 32);
    tg_account last = must_open_with(bank, all, "last", NULL, 0, SUNDAY);
    assert_int_equal(last >> 32, UINT32_MAX);
    tg_bank_close(bank, last);
    assert_int_equal(try_reserve(bank, last), TG_ERR_UNKNOWN);
    assert_ptr_not_equal(bank->accounts.pool.free, place);
    tg_bank_free(bank);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_is_opened_once_under_each_parent),
        cmocka_unit_test(names_may_hold_any_bytes),
        cmocka_unit_test(what_cannot_be_is_refused_with_a_reason),
        cmocka_unit_test(there_are_sixteen_levels),
        cmocka_unit_test(a_bank_has_room_for_one_account_at_least),
        cmocka_unit_test(changing_an_amount_keeps_the_spend),
        cmocka_unit_test(adding_a_window_does_not_inherit_lifetime_spend),
        cmocka_unit_test(a_new_window_holds_what_is_outstanding_in_it),
        cmocka_unit_test(a_zone_with_the_same_window_keeps_the_spend),
        cmocka_unit_test(a_change_after_midnight_carries_nothing_from_yesterday),
        cmocka_unit_test(budgets_of_one_window_keep_their_order),
        cmocka_unit_test(spend_is_restored_after_a_restart),
        cmocka_unit_test(a_closed_account_settles_what_is_outstanding),
        cmocka_unit_test(accounts_under_a_closed_one_are_closed_too),
        cmocka_unit_test(a_full_bank_takes_the_place_of_a_user_who_holds_nothing),
        cmocka_unit_test(a_crowd_of_users_never_takes_the_place_of_a_tenant),
        cmocka_unit_test(an_account_that_is_needed_is_not_taken_over),
        cmocka_unit_test(nothing_is_found_under_an_account_that_is_being_closed),
        cmocka_unit_test(an_account_number_is_never_used_twice),
    };
    return cmocka_run_group_tests_name("bank_accounts", tests, NULL, NULL);
}
