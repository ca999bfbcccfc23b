/* bank_accounts.c - opening, changing, closing and restoring accounts.
 *
 * A user that was never seen is opened under the same lock that reserves, so two first calls of his
 * find one account with one budget: whoever comes second waits for some ten nanoseconds, and finds
 * it. Nothing is counted of an account that does not exist.
 */
#include "lib/budget/bank.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "lib/budget/calendar.h"
#include "lib/core/allocator.h"
#include "lib/core/problem.h"

/* How many accounts are closed before others get the lock. */
enum { CLOSE_AT_ONCE = 64 };

/* ---- what a caller gives ---- */

static enum tg_err bank_accounts_check_budget(const struct tg_budget *budget, size_t i,
                                              struct tg_problem *problem)
{
    const char *complaint = zone_complaint(budget->zone);

    if (!money_in_range(budget->amount))
        return problem_say(problem, TG_ERR_INVALID,
                           "budget %zu is of %lld micro-dollars; it must be 0 to %lld", i,
                           (long long)budget->amount, (long long)TG_MONEY_MAX);
    if ((unsigned)budget->per >= TG_PER_COUNT)
        return problem_say(problem, TG_ERR_INVALID,
                           "budget %zu is per %d; it must be day, week, month or total", i,
                           (int)budget->per);
    if (budget->mode != TG_ENFORCE && budget->mode != TG_SHADOW)
        return problem_say(problem, TG_ERR_INVALID,
                           "budget %zu has mode %d; it must be enforce or shadow", i,
                           (int)budget->mode);
    if (complaint)
        return problem_say(problem, TG_ERR_INVALID, "the zone of budget %zu %s", i, complaint);
    return TG_OK;
}

static enum tg_err check_budgets(const struct tg_budget *budgets, size_t n,
                                 struct tg_problem *problem)
{
    enum tg_err err = TG_OK;

    if (n > TG_BUDGETS_MAX || (n > 0 && !budgets))
        return problem_say(problem, TG_ERR_INVALID,
                           "an account with %zu budgets; it may have 0 to %d", n, TG_BUDGETS_MAX);
    for (size_t i = 0; !err && i < n; i++)
        err = bank_accounts_check_budget(&budgets[i], i, problem);
    return err;
}

static enum tg_err check_now(tg_ms now, struct tg_problem *problem)
{
    if (num_in_range(now))
        return TG_OK;
    return problem_say(problem, TG_ERR_INVALID, "now is %lld; it must be 0 to %lld", (long long)now,
                       (long long)TG_NUMBER_MAX);
}

/* None for no budgets, which is no failure. */
static bool make_books(const struct tg_bank *bank, const struct tg_budget *budgets, size_t n,
                       tg_ms now, struct book **books)
{
    *books = n > 0 ? mem_malloc(n * sizeof **books) : NULL;
    if (n > 0 && !*books)
        return false;
    for (size_t i = 0; i < n; i++)
        book_init(&(*books)[i], &budgets[i], bank->part, now);
    return true;
}

/* ---- opening ---- */

/* A parent's number is used for it alone, so it stands for the parent in the hash. */
static struct account_name name_of(const struct tg_bank *bank, tg_account parent, const void *name,
                                   size_t bytes)
{
    XXH128_hash_t hash =
        XXH3_128bits_withSeed(name, bytes, bank->seed ^ parent * UINT64_C(0x9e3779b97f4a7c15));

    return (struct account_name){hash.low64, hash.high64};
}

/* What an opening wants, once it is known to be sound. */
struct wish {
    tg_account parent;
    struct account_name name;
    const struct tg_budget *budgets;
    size_t n;
    tg_ms now;
};

static enum tg_err say_no_room(const struct tg_bank *bank, enum tg_err err,
                               struct tg_problem *problem)
{
    if (err == TG_ERR_MEMORY)
        return problem_say(problem, err, "no memory for an account");
    return problem_say(problem, err,
                       "the bank has its %zu accounts (max_accounts), and no idle one was found "
                       "whose place could be taken",
                       bank->accounts.max);
}

static enum tg_err bank_accounts_add(struct tg_bank *bank, const struct wish *wish,
                                     struct account *parent, struct account **account,
                                     struct tg_problem *problem)
{
    struct book *books;

    if (parent && parent->level + 1 >= TG_LEVELS_MAX)
        return problem_say(problem, TG_ERR_INVALID,
                           "an account under %d others; there may be %d levels", TG_LEVELS_MAX,
                           TG_LEVELS_MAX);
    enum tg_err err = check_budgets(wish->budgets, wish->n, problem);
    if (err)
        return err;
    tg_ms now = bank_now(bank, wish->now);
    if (!make_books(bank, wish->budgets, wish->n, now, &books))
        return problem_say(problem, TG_ERR_MEMORY, "no memory for the budgets of an account");
    err = accounts_add(&bank->accounts, parent, wish->name, now, account);
    if (err) {
        mem_free(books);
        return say_no_room(bank, err, problem);
    }
    (*account)->books = books;
    (*account)->n_books = (uint8_t)wish->n;
    return TG_OK;
}

static enum tg_err find_or_add(struct tg_bank *bank, const struct wish *wish, tg_account *number,
                               bool *fresh, struct tg_problem *problem)
{
    struct account *parent = NULL;

    if (wish->parent != 0) {
        parent = accounts_find(&bank->accounts, wish->parent);
        if (!parent)
            return problem_say(problem, TG_ERR_UNKNOWN, "no account has the number %llu",
                               (unsigned long long)wish->parent);
    }
    struct account *account = accounts_named(&bank->accounts, wish->name);
    bool is_new = !account;
    enum tg_err err = is_new ? bank_accounts_add(bank, wish, parent, &account, problem) : TG_OK;
    if (err)
        return err;
    *number = account_number(account);
    if (fresh)
        *fresh = is_new;
    return TG_OK;
}

enum tg_err tg_bank_open(struct tg_bank *bank, tg_account parent, const void *name,
                         size_t name_bytes, const struct tg_budget *budgets, size_t n, tg_ms now,
                         tg_account *account, bool *fresh, struct tg_problem *problem)
{
    enum tg_err err = check_now(now, problem);

    if (!err && (!bank || !account))
        err = problem_say(problem, TG_ERR_NULL, "account: %s", tg_strerror(TG_ERR_NULL));
    if (!err && !name && name_bytes > 0)
        err = problem_say(problem, TG_ERR_INVALID, "a name of %zu bytes that is not there",
                          name_bytes);
    if (err)
        return err;
    struct wish wish = {parent, name_of(bank, parent, name, name_bytes), budgets, n, now};
    spin_lock(&bank->lock);
    err = find_or_add(bank, &wish, account, fresh, problem);
    spin_unlock(&bank->lock);
    return err;
}

tg_account tg_bank_find(struct tg_bank *bank, tg_account parent, const void *name,
                        size_t name_bytes)
{
    if (!bank || (!name && name_bytes > 0))
        return 0;
    struct account_name wanted = name_of(bank, parent, name, name_bytes);
    spin_lock(&bank->lock);
    const struct account *account = accounts_named(&bank->accounts, wanted);
    tg_account number = account ? account_number(account) : 0;
    spin_unlock(&bank->lock);
    return number;
}

/* ---- changing ---- */

/* The old book with the window of a new one; the one of the same number, if that is one. What was
 * spent from one moment to another does not depend on how the window is called. A book that nobody
 * has turned since its window ended has none that could be that of now. */
static const struct book *same_window(const struct account *account, const struct book *book,
                                      size_t number)
{
    for (size_t k = 0; k < account->n_books; k++) {
        const struct book *old = &account->books[(number + k) % account->n_books];
        if (old->begin == book->begin && old->end == book->end)
            return old;
    }
    return NULL;
}

static bool is_below(const struct account *account, const struct account *above)
{
    while (account && account != above)
        account = account->parent;
    return account != NULL;
}

/* What was reserved at `account` and below since `begin` and has not been settled. */
static tg_micro outstanding_since(const struct tg_bank *bank, const struct account *account,
                                  tg_ms begin)
{
    tg_micro sum = 0;
    uint64_t place = 0;

    for (const struct hold *hold; (hold = handles_next(&bank->holds, &place)) != NULL;)
        if (hold->reserved_at >= begin &&
            (is_below(hold->account, account) || hold->beside == account))
            sum += hold->money;
    assert(sum <= bank->outstanding);
    return sum;
}

static void carry(const struct tg_bank *bank, struct account *account, struct book *books, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct book *old = same_window(account, &books[i], i);
        books[i].settled = old ? old->settled : 0;
        books[i].outstanding =
            old ? old->outstanding : outstanding_since(bank, account, books[i].begin);
        if (old)
            books[i].room = num_min(books[i].room, old->room);
    }
}

static enum tg_err change(struct tg_bank *bank, tg_account number, const struct tg_budget *budgets,
                          size_t n, tg_ms now, struct tg_problem *problem)
{
    struct account *account = accounts_find(&bank->accounts, number);
    struct book *books;

    if (!account)
        return problem_say(problem, TG_ERR_UNKNOWN, "no account has the number %llu",
                           (unsigned long long)number);
    now = bank_now(bank, now);
    if (!make_books(bank, budgets, n, now, &books))
        return problem_say(problem, TG_ERR_MEMORY, "no memory for the budgets of an account");
    carry(bank, account, books, n);
    mem_free(account->books);
    account->books = books;
    account->n_books = (uint8_t)n;
    return TG_OK;
}

enum tg_err tg_bank_change(struct tg_bank *bank, tg_account account,
                           const struct tg_budget *budgets, size_t n, tg_ms now,
                           struct tg_problem *problem)
{
    enum tg_err err = check_now(now, problem);

    if (!err && !bank)
        err = problem_say(problem, TG_ERR_NULL, "bank: %s", tg_strerror(TG_ERR_NULL));
    if (!err)
        err = check_budgets(budgets, n, problem);
    if (err)
        return err;
    spin_lock(&bank->lock);
    err = change(bank, account, budgets, n, now, problem);
    spin_unlock(&bank->lock);
    return err;
}

static enum tg_err restore(struct tg_bank *bank, tg_account number, size_t budget, tg_micro settled,
                           tg_ms now)
{
    struct account *account = accounts_find(&bank->accounts, number);

    if (!account)
        return TG_ERR_UNKNOWN;
    if (budget >= account->n_books)
        return TG_ERR_INVALID;
    book_follow(&account->books[budget], bank_now(bank, now));
    account->books[budget].settled = settled;
    return TG_OK;
}

enum tg_err tg_bank_restore(struct tg_bank *bank, tg_account account, size_t budget,
                            tg_micro settled, tg_ms now)
{
    if (!bank)
        return TG_ERR_NULL;
    if (!money_in_range(settled) || !num_in_range(now))
        return TG_ERR_INVALID;
    spin_lock(&bank->lock);
    enum tg_err err = restore(bank, account, budget, settled, now);
    spin_unlock(&bank->lock);
    return err;
}

/* ---- closing ---- */

static struct account *first_leaf(struct account *account)
{
    while (!LIST_EMPTY(&account->open_kids))
        account = LIST_FIRST(&account->open_kids);
    return account;
}

/* Closes some of the accounts under one that is closed. False: there are no more. */
static bool close_some(struct accounts *accounts, struct account *root)
{
    for (int i = 0; i < CLOSE_AT_ONCE; i++) {
        struct account *leaf = first_leaf(root);
        if (leaf == root)
            return false;
        accounts_close(accounts, leaf);
        accounts_settle_up(accounts, leaf);
    }
    return true;
}

/* With the first step nothing below can be found any more; the rest is tidying, and others may have
 * the lock in between. The account is held meanwhile, so that it stays. */
void tg_bank_close(struct tg_bank *bank, tg_account number)
{
    if (!bank)
        return;
    spin_lock(&bank->lock);
    struct account *account = accounts_find(&bank->accounts, number);
    if (account) {
        accounts_close(&bank->accounts, account);
        account->held++;
        while (close_some(&bank->accounts, account)) {
            spin_unlock(&bank->lock);
            spin_lock(&bank->lock);
        }
        account->held--;
        accounts_settle_up(&bank->accounts, account);
    }
    spin_unlock(&bank->lock);
}
