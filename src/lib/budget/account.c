/* account.c - the pool, the table and the tree of accounts. See account.h. */
#include "lib/budget/account.h"

#include <assert.h>

#include "lib/core/allocator.h"

/* How many accounts one opening looks at to find an idle one. The search goes on from there the
 * next time; all calls wait meanwhile, so it is bounded. */
enum { SEARCH_MAX = 256 };

enum tg_err accounts_init(struct accounts *accounts, size_t max)
{
    *accounts = (struct accounts){.max = max};
    handles_init(&accounts->pool, sizeof(struct account), 32, max);
    return hash_table_reserve(&accounts->names, max);
}

void accounts_fini(struct accounts *accounts)
{
    uint64_t place = 0;

    for (struct account *account; (account = handles_next(&accounts->pool, &place)) != NULL;)
        mem_free(account->books);
    handles_fini(&accounts->pool);
    hash_table_fini(&accounts->names);
}

/* ---- finding ---- */

struct account *accounts_find(const struct accounts *accounts, tg_account number)
{
    struct account *account = handles_find(&accounts->pool, number);

    for (const struct account *above = account; above; above = above->parent)
        if (above->closed)
            return NULL;
    return account;
}

static struct hash_slot *account_slot_of(const struct accounts *accounts, struct account_name name)
{
    struct hash_slot *slot = hash_table_find(&accounts->names, name.low);

    for (; slot; slot = hash_table_find_next(&accounts->names, slot)) {
        const struct account *account = slot->item;
        if (account->name.low == name.low && account->name.high == name.high)
            break;
    }
    return slot;
}

struct account *accounts_named(const struct accounts *accounts, struct account_name name)
{
    const struct hash_slot *slot = account_slot_of(accounts, name);

    return slot ? slot->item : NULL;
}

/* ---- the table and the tree ---- */

static void link_in(struct accounts *accounts, struct account *account)
{
    assert(!account_slot_of(accounts, account->name));
    hash_table_insert(&accounts->names, account->name.low)->item = account;
    LIST_INIT(&account->open_kids);
    if (!account->parent)
        return;
    account->parent->kids++;
    LIST_INSERT_HEAD(&account->parent->open_kids, account, sibling);
}

void accounts_close(struct accounts *accounts, struct account *account)
{
    assert(!account->closed);
    hash_table_remove(&accounts->names, account_slot_of(accounts, account->name));
    if (account->parent)
        LIST_REMOVE(account, sibling);
    account->closed = true;
}

static void account_put(struct accounts *accounts, struct account *account)
{
    assert(LIST_EMPTY(&account->open_kids) && account->kids == 0 && account->held == 0);
    mem_free(account->books);
    account->books = NULL;
    account->n_books = 0;
    handles_put(&accounts->pool, &account->handle);
}

void accounts_settle_up(struct accounts *accounts, struct account *account)
{
    while (account && account->closed && account->held == 0 && account->kids == 0) {
        struct account *parent = account->parent;
        account_put(accounts, account);
        assert(!parent || parent->kids > 0);
        if (parent)
            parent->kids--;
        account = parent;
    }
}

/* ---- taking over ---- */

/* Nothing is counted in any window of now. */
static bool books_are_empty(const struct account *account, tg_ms now)
{
    for (size_t i = 0; i < account->n_books; i++) {
        const struct book *book = &account->books[i];
        if (now < book->end && book_used(book) > 0)
            return false;
    }
    return true;
}

static bool is_idle(const struct account *account, size_t level, tg_ms now)
{
    return account && !account->closed && account->parent && account->level >= level &&
           account->held == 0 && account->kids == 0 && books_are_empty(account, now);
}

/* Ends an idle account that is no nearer to the top than the new one: so a crowd of users takes the
 * places of users, and not of tenants. */
static bool take_over(struct accounts *accounts, size_t level, tg_ms now)
{
    for (int i = 0; i < SEARCH_MAX; i++) {
        struct account *account = handles_used_at(&accounts->pool, accounts->hand);
        accounts->hand = accounts->hand + 1 < accounts->pool.made ? accounts->hand + 1 : 0;
        if (is_idle(account, level, now)) {
            accounts_close(accounts, account);
            accounts_settle_up(accounts, account);
            return true;
        }
    }
    return false;
}

enum tg_err accounts_add(struct accounts *accounts, struct account *parent,
                         struct account_name name, tg_ms now, struct account **account)
{
    size_t level = parent ? parent->level + 1u : 0;

    if (accounts->pool.used >= accounts->max && !take_over(accounts, level, now))
        return TG_ERR_FULL;
    struct account *fresh = handles_get(&accounts->pool);
    if (!fresh)
        return TG_ERR_MEMORY;
    assert(!parent || (!parent->closed && level <= UINT8_MAX));
    assert(accounts->pool.used <= accounts->max);
    fresh->parent = parent;
    fresh->level = (uint8_t)level;
    fresh->closed = false;
    fresh->held = 0;
    fresh->kids = 0;
    fresh->name = name;
    link_in(accounts, fresh);
    *account = fresh;
    return TG_OK;
}
