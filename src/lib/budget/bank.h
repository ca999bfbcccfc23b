/* bank.h - the bank, as the files of this folder see it.
 *
 * One lock for everything. The budget of everyone together is on the way of every call, so a finer
 * lock would be taken by all of them too; and all or nothing, at every level and in every window,
 * is then one section (docs/decisions/0015). It holds for some ten nanoseconds on the deciding
 * path; what takes longer (closing a crowd of accounts) is done in pieces, and what allocates (the
 * first call of a user, more calls at once than ever before) happens once.
 *
 * Always true while the lock is free:
 *
 *     for each book: outstanding = sum of the reservations at its account and below, or beside
 *                                  others, that were made at or after the beginning of its window
 *     for each book: 0 <= outstanding <= bank.outstanding <= TG_MONEY_MAX, 0 <= settled
 *     the bank's time is the latest it was told by a function that changes something
 */
#ifndef TG_BUDGET_BANK_H
#define TG_BUDGET_BANK_H

#include "lib/budget/hold.h"
#include "lib/core/num.h"
#include "lib/core/spinlock.h"

struct tg_bank {
    _Alignas(ACCOUNT_LINE) struct spinlock lock;
    tg_ms latest; /* the bank's time */
    tg_micro outstanding;
    struct handles holds; /* every item is a struct hold */
    struct accounts accounts;
    uint64_t seed;
    struct book_part part;
    bool is_late; /* all books are shared with a process that serves in the place of this one */

    uint64_t overshoots;
    tg_micro overshot;
    uint64_t anomalies;
};

/* The account after `at` on the way up of a reservation: from its account to the one beside it, if
 * there is one, and on to what both are under. */
static inline struct account *bank_next(const struct account *at, const struct account *leaf,
                                        struct account *beside)
{
    return at == leaf && beside ? beside : at->parent;
}

/* What time it is, for something that will change the books. */
static inline tg_ms bank_now(struct tg_bank *bank, tg_ms now)
{
    if (now > bank->latest)
        bank->latest = now;
    return bank->latest;
}

#endif
