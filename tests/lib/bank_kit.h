/* bank_kit.h - banks, budgets and reservations, short.
 *
 * Functions that begin with must_ fail the test if the bank answers with an error, or otherwise
 * than the name says.
 */
#ifndef BANK_KIT_H
#define BANK_KIT_H

#include "check.h"

#define HOUR INT64_C(3600000)
#define DAY (24 * HOUR)

/* 2026-11-15, a Sunday, 00:00 UTC. */
#define SUNDAY INT64_C(1794700800000)

struct tg_bank *must_bank(size_t max_accounts);

struct tg_budget budget_of(tg_micro amount, enum tg_per per);
struct tg_budget shadow_budget(tg_micro amount, enum tg_per per);

/* Opens an account that is new, with one budget or with several. */
tg_account must_open(struct tg_bank *bank, tg_account parent, const char *name,
                     struct tg_budget budget, tg_ms now);
tg_account must_open_with(struct tg_bank *bank, tg_account parent, const char *name,
                          const struct tg_budget *budgets, size_t n, tg_ms now);
void must_change(struct tg_bank *bank, tg_account account, const struct tg_budget *budgets,
                 size_t n, tg_ms now);

struct tg_money_answer must_ask(struct tg_bank *bank, tg_account account, tg_micro money,
                                bool up_to, tg_ms now);
tg_reservation must_reserve(struct tg_bank *bank, tg_account account, tg_micro money, tg_ms now);
struct tg_money_answer must_be_refused(struct tg_bank *bank, tg_account account, tg_micro money,
                                       tg_ms now);

/* Settles, once. */
void must_spend(struct tg_bank *bank, tg_reservation reservation, tg_micro spent);

struct tg_budget_metrics budget_at(struct tg_bank *bank, tg_account account, size_t i, tg_ms now);

/* Fails the test unless one budget holds exactly this. */
#define expect_book(bank, account, i, now, settled, outstanding)                                   \
    expect_book_at(bank, account, i, now, settled, outstanding, __FILE__, __LINE__)
void expect_book_at(struct tg_bank *bank, tg_account account, size_t i, tg_ms now, tg_micro settled,
                    tg_micro outstanding, const char *file, int line);

struct tg_bank_stats stats_of_bank(struct tg_bank *bank);

#endif /* BANK_KIT_H */
