/* account.c - the pool, the table and the tree of accounts. See account.h. */
#include "lib/budget/account.h"

#include <stdlib.h>
#include <string.h>

/* How many accounts one opening looks at to find an idle one. The search goes on from there the
 * next time; all calls wait meanwhile, so it is bounded. */
enum { SEARCH_MAX = 256 };

enum tg_err accounts_init(struct accounts *accounts, size_t max)
{
    *accounts = (struct accounts){.max = max, .n_buckets = 1};
    while (accounts->n_buckets < max)
        accounts->n_buckets *= 2;
    accounts->chunks = calloc((max + ACCOUNT_CHUNK - 1) / ACCOUNT_CHUNK, sizeof(struct account *));
    accounts->buckets = calloc(accounts->n_buckets, sizeof(struct account *));
    if (accounts->chunks && accounts->buckets)
        return TG_OK;
    accounts_fini(accounts);
    return TG_ERR_MEMORY;
}

static struct account *at(const struct accounts *accounts, size_t index)
{
    return &accounts->chunks[index / ACCOUNT_CHUNK][index % ACCOUNT_CHUNK];
}

void accounts_fini(struct accounts *accounts)
{
    for (size_t i = 0; i < accounts->made; i++)
        free(at(accounts, i)->books);
    for (size_t i = 0; i < accounts->made; i += ACCOUNT_CHUNK)
        free(accounts->chunks[i / ACCOUNT_CHUNK]);
    free(accounts->chunks);
    free(accounts->buckets);
}

/* ---- finding ---- */

struct account *accounts_find(const struct accounts *accounts, tg_account number)
{
    uint32_t index = (uint32_t)number - 1;

    if ((uint32_t)number == 0 || index >= accounts->made)
        return NULL;
    struct account *account = at(accounts, index);
    if (!account->in_use || account->generation != (uint32_t)(number >> 32))
        return NULL;
    for (const struct account *above = account; above; above = above->parent)
        if (above->closed)
            return NULL;
    return account;
}

static struct account **account_bucket_of(const struct accounts *accounts, struct account_name name)
{
    return &accounts->buckets[name.low & (accounts->n_buckets - 1)];
}

struct account *accounts_named(const struct accounts *accounts, struct account_name name)
{
    struct account *account = *account_bucket_of(accounts, name);

    while (account && (account->name.low != name.low || account->name.high != name.high))
        account = account->next;
    return account;
}

/* ---- the pool ---- */

/* Accounts stand in chunks that never move, since others point at them. */
static bool account_add_chunk(struct accounts *accounts)
{
    size_t bytes = ACCOUNT_CHUNK * sizeof(struct account);
    struct account *chunk = aligned_alloc(ACCOUNT_LINE, bytes);

    if (!chunk)
        return false;
    memset(chunk, 0, bytes);
    accounts->chunks[accounts->made / ACCOUNT_CHUNK] = chunk;
    for (uint32_t i = ACCOUNT_CHUNK; i-- > 0;) {
        chunk[i].index = (uint32_t)accounts->made + i;
        chunk[i].generation = 1;
        chunk[i].next = accounts->free;
        accounts->free = &chunk[i];
    }
    accounts->made += ACCOUNT_CHUNK;
    return true;
}

static struct account *get(struct accounts *accounts)
{
    bool room = (accounts->made + ACCOUNT_CHUNK - 1) / ACCOUNT_CHUNK <
                (accounts->max + ACCOUNT_CHUNK - 1) / ACCOUNT_CHUNK;

    if (!accounts->free && (!room || !account_add_chunk(accounts)))
        return NULL;
    struct account *account = accounts->free;
    accounts->free = account->next;
    accounts->used++;
    return account;
}

/* A place whose numbers are used up is never used again: a number is not used twice. */
static void account_put(struct accounts *accounts, struct account *account)
{
    free(account->books);
    account->books = NULL;
    account->n_books = 0;
    account->in_use = false;
    accounts->used--;
    if (account->generation == UINT32_MAX)
        return;
    account->generation++;
    account->next = accounts->free;
    accounts->free = account;
}

/* ---- the table and the tree ---- */

static void link_in(struct accounts *accounts, struct account *account)
{
    struct account **bucket = account_bucket_of(accounts, account->name);
    struct account *parent = account->parent;

    account->next = *bucket;
    *bucket = account;
    account->older = account->younger = NULL;
    if (!parent)
        return;
    parent->kids++;
    account->older = parent->first_kid;
    if (account->older)
        account->older->younger = account;
    parent->first_kid = account;
}

static void account_take_out(struct accounts *accounts, struct account *account)
{
    struct account **link = account_bucket_of(accounts, account->name);

    while (*link != account)
        link = &(*link)->next;
    *link = account->next;
    if (account->older)
        account->older->younger = account->younger;
    if (account->younger)
        account->younger->older = account->older;
    else if (account->parent)
        account->parent->first_kid = account->older;
}

void accounts_close(struct accounts *accounts, struct account *account)
{
    account_take_out(accounts, account);
    account->closed = true;
}

void accounts_settle_up(struct accounts *accounts, struct account *account)
{
    while (account && account->closed && account->held == 0 && account->kids == 0) {
        struct account *parent = account->parent;
        account_put(accounts, account);
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
    return account->in_use && !account->closed && account->parent && account->level >= level &&
           account->held == 0 && account->kids == 0 && books_are_empty(account, now);
}

/* Ends an idle account that is no nearer to the top than the new one: so a crowd of users takes the
 * places of users, and not of tenants. */
static bool take_over(struct accounts *accounts, size_t level, tg_ms now)
{
    for (int i = 0; i < SEARCH_MAX; i++) {
        struct account *account = at(accounts, accounts->hand);
        accounts->hand = accounts->hand + 1 < accounts->made ? accounts->hand + 1 : 0;
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

    if (accounts->used >= accounts->max && !take_over(accounts, level, now))
        return TG_ERR_FULL;
    struct account *fresh = get(accounts);
    if (!fresh)
        return TG_ERR_MEMORY;
    fresh->parent = parent;
    fresh->level = (uint8_t)level;
    fresh->in_use = true;
    fresh->closed = false;
    fresh->held = 0;
    fresh->kids = 0;
    fresh->name = name;
    link_in(accounts, fresh);
    *account = fresh;
    return TG_OK;
}
