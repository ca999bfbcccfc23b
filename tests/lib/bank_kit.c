/* bank_kit.c - banks, budgets and reservations, short. See bank_kit.h. */
#include "bank_kit.h"

#include <inttypes.h>
#include <string.h>

struct tg_bank *must_bank(size_t max_accounts)
{
    struct tg_bank_config config;
    struct tg_bank *bank = NULL;

    tg_bank_config_init(&config);
    config.max_accounts = max_accounts;
    config.seed = 12345;
    assert_int_equal(tg_bank_new(&config, &bank, NULL), TG_OK);
    return bank;
}

struct tg_budget budget_of(tg_micro amount, enum tg_per per)
{
    return (struct tg_budget){.amount = amount, .per = per};
}

struct tg_budget shadow_budget(tg_micro amount, enum tg_per per)
{
    return (struct tg_budget){.amount = amount, .per = per, .mode = TG_SHADOW};
}

tg_account must_open_with(struct tg_bank *bank, tg_account parent, const char *name,
                          const struct tg_budget *budgets, size_t n, tg_ms now)
{
    tg_account account = 0;
    bool fresh = false;
    struct tg_problem problem = {""};

    if (tg_bank_open(bank, parent, name, strlen(name), budgets, n, now, &account, &fresh, &problem))
        fail_msg("%s: %s", name, problem.text);
    assert_true(fresh);
    assert_true(account != 0);
    return account;
}

tg_account must_open(struct tg_bank *bank, tg_account parent, const char *name,
                     struct tg_budget budget, tg_ms now)
{
    return must_open_with(bank, parent, name, &budget, 1, now);
}

void must_change(struct tg_bank *bank, tg_account account, const struct tg_budget *budgets,
                 size_t n, tg_ms now)
{
    struct tg_problem problem = {""};

    if (tg_bank_change(bank, account, budgets, n, now, &problem))
        fail_msg("%s", problem.text);
}

struct tg_money_answer must_ask(struct tg_bank *bank, tg_account account, tg_micro money,
                                bool up_to, tg_ms now)
{
    struct tg_money_answer answer = {.reservation = 0};

    assert_int_equal(tg_bank_reserve(bank, account, money, up_to, now, &answer), TG_OK);
    return answer;
}

tg_reservation must_reserve(struct tg_bank *bank, tg_account account, tg_micro money, tg_ms now)
{
    struct tg_money_answer answer = must_ask(bank, account, money, false, now);

    assert_true(answer.reservation != 0);
    assert_int_equal(answer.reserved, money);
    return answer.reservation;
}

struct tg_money_answer must_be_refused(struct tg_bank *bank, tg_account account, tg_micro money,
                                       tg_ms now)
{
    struct tg_money_answer answer = must_ask(bank, account, money, false, now);

    assert_true(answer.reservation == 0);
    assert_int_equal(answer.reserved, 0);
    assert_true(answer.account != 0);
    return answer;
}

void must_spend(struct tg_bank *bank, tg_reservation reservation, tg_micro spent)
{
    assert_true(tg_bank_settle(bank, reservation, spent, NULL));
}

struct tg_budget_metrics budget_at(struct tg_bank *bank, tg_account account, size_t i, tg_ms now)
{
    struct tg_budget_metrics budgets[TG_BUDGETS_MAX];

    assert_true(tg_bank_get_budgets(bank, account, now, budgets) > i);
    return budgets[i];
}

void expect_book_at(struct tg_bank *bank, tg_account account, size_t i, tg_ms now, tg_micro settled,
                    tg_micro outstanding, const char *file, int line)
{
    struct tg_budget_metrics got = budget_at(bank, account, i, now);

    if (got.settled == settled && got.outstanding == outstanding)
        return;
    print_error("budget %zu: settled %" PRId64 " outstanding %" PRId64 ", expected %" PRId64
                " and %" PRId64 "\n",
                i, got.settled, got.outstanding, settled, outstanding);
    _fail(file, line);
}

struct tg_bank_stats stats_of_bank(struct tg_bank *bank)
{
    struct tg_bank_stats stats;

    tg_bank_get_stats(bank, &stats);
    return stats;
}
