/* bank.c - reserving money before a call, and settling after it.
 *
 * Look first, charge later: the way up is walked once to ask every budget, and again to write, when
 * all have said yes. Everything that can fail comes before the first write. Rejected: a
 * compare-and-swap on each level with undoing, as the tracker of one counter grows into; between
 * its steps others see money that is about to be given back, and are refused for nothing.
 *
 * Settling takes no time: it changes the windows in which the reservation was made, if those are
 * still the current ones (book.h), and never another.
 */
#include "lib/budget/bank.h"
#include "lib/budget/bank_part.h"

#include <assert.h>
#include <string.h>

#include "lib/core/allocator.h"
#include "lib/core/problem.h"
#include "lib/core/sized.h"

#define ACCOUNTS_MAX ((size_t)1 << 30)

/* ---- making ---- */

#define BANK_CONFIG_FIRST SIZED_TO(struct tg_bank_config, seed)

void tg_bank_config_init_sized(struct tg_bank_config *config, size_t size)
{
    static const struct tg_bank_config defaults = {.max_accounts = (size_t)1 << 20};

    sized_init(config, size, &defaults, sizeof defaults, BANK_CONFIG_FIRST);
}

enum tg_err tg_bank_new(const struct tg_bank_config *given, struct tg_bank **bank,
                        struct tg_problem *problem)
{
    struct tg_bank_config own;
    const struct tg_bank_config *config = &own;
    enum tg_err err =
        sized_check(&own, sizeof own, given, BANK_CONFIG_FIRST, "tg_bank_config", problem);

    if (!err && !bank)
        err = problem_say(problem, TG_ERR_NULL, "bank: %s", tg_strerror(TG_ERR_NULL));
    if (err)
        return err;
    if (config->max_accounts < 1 || config->max_accounts > ACCOUNTS_MAX)
        return problem_say(problem, TG_ERR_INVALID, "max_accounts is %zu; it must be 1 to %zu",
                           config->max_accounts, ACCOUNTS_MAX);
    struct tg_bank *fresh = mem_aligned_alloc(ACCOUNT_LINE, sizeof *fresh);
    if (!fresh)
        return problem_say(problem, TG_ERR_MEMORY, "no memory for a bank");
    memset(fresh, 0, sizeof *fresh);
    fresh->seed = config->seed;
    handles_init(&fresh->holds, sizeof(struct hold), HOLD_PLACE_BITS, HOLDS_MAX);
    if (accounts_init(&fresh->accounts, config->max_accounts)) {
        mem_free_aligned(fresh);
        return problem_say(problem, TG_ERR_MEMORY, "no memory for a bank of %zu accounts",
                           config->max_accounts);
    }
    *bank = fresh;
    return TG_OK;
}

void tg_bank_free(struct tg_bank *bank)
{
    if (!bank)
        return;
    accounts_fini(&bank->accounts);
    handles_fini(&bank->holds);
    mem_free_aligned(bank);
}

/* ---- reserving ---- */

/* What one budget says to a call that needs so much. */
static void bank_ask(const struct account *account, const struct book *book, tg_micro need,
                     tg_micro *least, struct tg_money_answer *answer)
{
    tg_micro left = book->mode == TG_SHADOW ? book_left(book) : book_free(book);

    if (book->mode == TG_SHADOW) {
        answer->would_deny += left < need;
        return;
    }
    *least = num_min(*least, left);
    if (left >= need)
        return;
    bool contended = book->amount - book->settled >= need;
    bool spent_below = answer->account != 0 && !answer->contended;
    /* It is worth a retry only if nothing but reservations is in the way, anywhere. */
    if (contended && spent_below)
        return;
    answer->contended = contended;
    answer->account = account_number(account);
    answer->per = (enum tg_per)book->per;
    answer->reset_at = book->end;
    answer->amount = book->amount;
    answer->used = book->amount - left;
}

/* The least that is left on the way. The way is walked from below, and the budgets of an account
 * from the last to the first, so that the one in the answer is the first from the top: of those
 * that are spent, or where there is none, of those that are contended. */
static tg_micro ask_all(const struct account *leaf, struct account *beside, tg_micro need,
                        tg_ms now, struct tg_money_answer *answer)
{
    tg_micro least = TG_MONEY_MAX;

    for (const struct account *account = leaf; account;
         account = bank_next(account, leaf, beside)) {
        for (size_t i = account->n_books; i-- > 0;) {
            book_follow(&account->books[i], now);
            bank_ask(account, &account->books[i], need, &least, answer);
        }
    }
    return least;
}

static void write_reservation(struct tg_bank *bank, struct account *leaf, struct account *beside,
                              tg_micro money, tg_ms now, struct tg_money_answer *answer)
{
    struct hold *hold = handles_get(&bank->holds);

    assert(hold && !leaf->closed && money >= 0); /* room was made for it before */
    hold->account = leaf;
    hold->beside = beside;
    hold->reserved_at = now;
    hold->money = money;
    hold->late = bank->is_late;
    leaf->held++;
    if (beside)
        beside->held++;
    bank->outstanding += money;
    assert(bank->outstanding <= TG_MONEY_MAX);
    for (const struct account *account = leaf; account; account = bank_next(account, leaf, beside))
        for (size_t i = 0; i < account->n_books; i++)
            book_reserve(&account->books[i], money);
    answer->reservation = hold->handle.id;
    answer->reserved = money;
    answer->reserved_at = now;
}

/* What is adopted is reserved whatever is left: it was promised by another process. */
enum reserving { RESERVE_ALL, RESERVE_UP_TO, RESERVE_ADOPTED };

static enum tg_err bank_reserve(struct tg_bank *bank, tg_account number, tg_account other,
                                tg_micro money, enum reserving how, tg_ms now,
                                struct tg_money_answer *answer)
{
    struct account *leaf = accounts_find(&bank->accounts, number);
    struct account *beside = other != 0 ? accounts_find(&bank->accounts, other) : NULL;
    tg_micro need = how == RESERVE_UP_TO || money == 0 ? 1 : money;

    if (!leaf || (other != 0 && !beside))
        return TG_ERR_UNKNOWN;
    if (beside && (beside == leaf || beside->parent != leaf->parent))
        return TG_ERR_INVALID;
    enum tg_err err = handles_reserve(&bank->holds);
    if (err)
        return err;
    now = bank_now(bank, now);
    tg_micro least = ask_all(leaf, beside, need, now, answer);
    if (how == RESERVE_ADOPTED)
        least = money;
    if (least < need)
        return TG_OK;
    money = num_min(money, least);
    if (money > TG_MONEY_MAX - bank->outstanding)
        return TG_ERR_FULL;
    write_reservation(bank, leaf, beside, money, now, answer);
    return TG_OK;
}

static enum tg_err reserve_locked(struct tg_bank *bank, tg_account account, tg_account beside,
                                  tg_micro money, enum reserving how, tg_ms now,
                                  struct tg_money_answer *answer)
{
    struct tg_money_answer said = {.reservation = 0};

    if (!bank || !answer)
        return TG_ERR_NULL;
    if (!money_in_range(money) || !num_in_range(now))
        return TG_ERR_INVALID;
    spin_lock(&bank->lock);
    enum tg_err err = bank_reserve(bank, account, beside, money, how, now, &said);
    spin_unlock(&bank->lock);
    if (!err)
        *answer = said;
    return err;
}

enum tg_err tg_bank_reserve_beside(struct tg_bank *bank, tg_account account, tg_account beside,
                                   tg_micro money, bool up_to, tg_ms now,
                                   struct tg_money_answer *answer)
{
    return reserve_locked(bank, account, beside, money, up_to ? RESERVE_UP_TO : RESERVE_ALL, now,
                          answer);
}

enum tg_err bank_adopt(struct tg_bank *bank, tg_account account, tg_account beside, tg_micro money,
                       tg_ms now, struct tg_money_answer *answer)
{
    return reserve_locked(bank, account, beside, money, RESERVE_ADOPTED, now, answer);
}

enum tg_err tg_bank_reserve(struct tg_bank *bank, tg_account account, tg_micro money, bool up_to,
                            tg_ms now, struct tg_money_answer *answer)
{
    return tg_bank_reserve_beside(bank, account, 0, money, up_to, now, answer);
}

enum tg_err tg_bank_ask(struct tg_bank *bank, tg_account account, tg_micro money, tg_ms now,
                        struct tg_money_answer *answer)
{
    struct tg_money_answer said = {.reservation = 0};

    if (!bank || !answer)
        return TG_ERR_NULL;
    if (!money_in_range(money) || !num_in_range(now))
        return TG_ERR_INVALID;
    spin_lock(&bank->lock);
    const struct account *leaf = accounts_find(&bank->accounts, account);
    if (leaf)
        (void)ask_all(leaf, NULL, num_max(money, 1), bank_now(bank, now), &said);
    spin_unlock(&bank->lock);
    if (!leaf)
        return TG_ERR_UNKNOWN;
    *answer = said;
    return TG_OK;
}

/* ---- sharing ---- */

/* How many places are looked at before others get the lock. */
enum { PART_AT_ONCE = 256 };

void bank_part(struct tg_bank *bank, struct book_part part)
{
    uint64_t place = 0;

    spin_lock(&bank->lock);
    bank->is_late = false;
    bank->part = part; /* accounts that are opened from here on have it, too */
    for (struct account *account; (account = handles_next(&bank->accounts.pool, &place)) != NULL;) {
        for (size_t i = 0; i < account->n_books; i++) {
            book_follow(&account->books[i], bank->latest);
            book_divide(&account->books[i], part);
        }
        if (place % PART_AT_ONCE == 0) {
            spin_unlock(&bank->lock);
            spin_lock(&bank->lock);
        }
    }
    bank->is_late = part.leaves;
    spin_unlock(&bank->lock);
}

/* ---- settling ---- */

/* What to enter for what the caller says was spent. */
static tg_micro clamp_reported(struct tg_bank *bank, tg_micro spent, tg_micro reserved)
{
    if (spent < -1 || spent > TG_MONEY_MAX)
        bank->anomalies++;
    if (spent < 0)
        return reserved;
    if (spent > reserved) {
        bank->overshoots++;
        bank->overshot = money_add(bank->overshot, num_min(spent, TG_MONEY_MAX) - reserved);
    }
    assert(bank->overshot >= 0);
    return num_min(spent, TG_MONEY_MAX);
}

static void bank_settle(struct tg_bank *bank, struct hold *hold, tg_micro spent,
                        struct tg_spend *spend)
{
    struct account *leaf = hold->account, *beside = hold->beside;
    tg_micro money = hold->money;

    assert(leaf->held > 0 && hold->reserved_at <= bank->latest);
    spent = clamp_reported(bank, spent, money);
    *spend = (struct tg_spend){account_number(leaf), hold->reserved_at, money, spent};
    for (const struct account *account = leaf; account; account = bank_next(account, leaf, beside))
        for (size_t i = 0; i < account->n_books; i++)
            book_settle(&account->books[i], hold->reserved_at, money, spent, hold->late);
    bank->outstanding -= money;
    handles_put(&bank->holds, &hold->handle);
    assert(bank->outstanding >= 0 && (bank->holds.used > 0 || bank->outstanding == 0));
    leaf->held--;
    accounts_settle_up(&bank->accounts, leaf);
    if (!beside)
        return;
    assert(beside->held > 0);
    beside->held--;
    accounts_settle_up(&bank->accounts, beside);
}

bool tg_bank_settle(struct tg_bank *bank, tg_reservation reservation, tg_micro spent,
                    struct tg_spend *spend)
{
    struct tg_spend line;

    if (!bank || reservation == 0)
        return false;
    spin_lock(&bank->lock);
    struct hold *hold = handles_find(&bank->holds, reservation);
    if (hold)
        bank_settle(bank, hold, spent, &line);
    else
        bank->anomalies++;
    spin_unlock(&bank->lock);
    if (hold && spend)
        *spend = line;
    return hold != NULL;
}
