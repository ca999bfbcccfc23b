/* bank_peek.c - what is in the books, for those who only want to know.
 *
 * A look changes nothing, not even the bank's time: somebody who asks about tomorrow must not end
 * today's windows. So a budget whose window is over by then is shown as it will be, empty. The lock
 * is held for one account's budgets, or for those on the way up; a snapshot of a bank is taken
 * account by account.
 */
#include "lib/budget/bank.h"

#include "lib/core/sized.h"

/* A book as it is at a time that may be later than what it has been turned to. */
static struct book book_at(const struct tg_bank *bank, const struct book *book, tg_ms now)
{
    struct book seen = *book;

    book_follow(&seen, num_max(bank->latest, now));
    return seen;
}

/* ---- what is left ---- */

struct left {
    tg_micro least;
    tg_micro amount; /* the amount of the budget of which the least is left */
};

static struct left left_above(const struct tg_bank *bank, const struct account *account, tg_ms now)
{
    struct left left = {TG_MONEY_MAX, 0};
    bool any = false;

    for (; account; account = account->parent) {
        for (size_t i = 0; i < account->n_books; i++) {
            struct book book = book_at(bank, &account->books[i], now);
            tg_micro here = num_max(book_left(&book), 0);
            if (book.mode == TG_SHADOW)
                continue;
            /* If two have as little left, the larger one counts: it is the smaller part. */
            if (!any || here < left.least || (here == left.least && book.amount > left.amount))
                left = (struct left){here, book.amount};
            any = true;
        }
    }
    if (!any)
        left.amount = left.least;
    return left;
}

enum tg_err tg_bank_left(struct tg_bank *bank, tg_account number, tg_ms now, tg_micro *left,
                         double *part)
{
    struct left found = {0, 0};

    if (!bank || !left)
        return TG_ERR_NULL;
    if (!num_in_range(now))
        return TG_ERR_INVALID;
    spin_lock(&bank->lock);
    const struct account *account = accounts_find(&bank->accounts, number);
    if (account)
        found = left_above(bank, account, now);
    spin_unlock(&bank->lock);
    if (!account)
        return TG_ERR_UNKNOWN;
    *left = found.least;
    if (part)
        *part = found.amount > 0 ? (double)found.least / (double)found.amount : 0;
    return TG_OK;
}

/* ---- what there is ---- */

size_t tg_bank_get_budgets_sized(struct tg_bank *bank, tg_account number, tg_ms now,
                                 struct tg_budget_metrics *budgets, size_t size)
{
    size_t n = 0;

    if (!bank || !budgets)
        return 0;
    now = num_min(num_max(now, 0), TG_NUMBER_MAX);
    spin_lock(&bank->lock);
    const struct account *account = accounts_find(&bank->accounts, number);
    for (; account && n < account->n_books; n++) {
        struct book book = book_at(bank, &account->books[n], now);
        struct tg_budget_metrics metrics = {
            .amount = book.amount,
            .settled = book.settled,
            .outstanding = book.outstanding,
            .per = (enum tg_per)book.per,
            .mode = (enum tg_mode)book.mode,
            .begin = book.begin,
            .end = book.end,
        };
        sized_give((char *)budgets + n * size, size, &metrics, sizeof metrics);
    }
    spin_unlock(&bank->lock);
    return n;
}

void tg_bank_get_stats_sized(struct tg_bank *bank, struct tg_bank_stats *given, size_t size)
{
    if (!bank)
        return;
    spin_lock(&bank->lock);
    struct tg_bank_stats stats = {
        .accounts = bank->accounts.pool.used,
        .reservations = bank->holds.used,
        .overshoots = bank->overshoots,
        .overshot = bank->overshot,
        .anomalies = bank->anomalies,
    };
    spin_unlock(&bank->lock);
    sized_give(given, size, &stats, sizeof stats);
}
