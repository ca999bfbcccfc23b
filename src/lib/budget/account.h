/* account.h - the accounts of a bank: a tree, a table of names, and a pool of fixed size.
 *
 * An account is found by its number on the deciding path, and by (parent, name) when a user comes.
 * The number is the account's id in a pool of handles (core/handles.h), so that of one that has
 * gone finds nothing. The name is known by 128 bits of a hash with a secret seed, which the number
 * of the parent is part of; it is not kept.
 *
 *     (free) --- open ---> OPEN --- close, or taken over ---> closed ---> (free)
 *                                                                |
 *                    stays while reservations are outstanding here, or accounts are under it
 *
 * A closed account is found neither by number nor by name, and nothing is under it that could be.
 * Whatever is outstanding still settles at it and above, so its parents outlive it.
 *
 * The bank's lock covers everything here.
 */
#ifndef TG_BUDGET_ACCOUNT_H
#define TG_BUDGET_ACCOUNT_H

#include <sys/queue.h>

#include "lib/budget/book.h"
#include "lib/core/handles.h"
#include "lib/core/hash_table.h"

enum { ACCOUNT_LINE = 64 };

/* 128 bits of a parent and a name. */
struct account_name {
    uint64_t low, high;
};

struct account {
    /* What a reservation looks at fits in one cache line. */
    _Alignas(ACCOUNT_LINE) struct handle handle;
    struct account *parent; /* null: at the top */
    struct book *books;
    uint8_t n_books;
    uint8_t level; /* 0 at the top */
    bool closed;
    uint32_t held; /* reservations that were made here, and who else needs it to stay */
    uint32_t kids; /* accounts under it, closed ones too */

    struct account_name name;
    LIST_HEAD(, account) open_kids; /* the youngest first */
    LIST_ENTRY(account) sibling;    /* in its parent's open_kids, unless it is at the top */
};

struct accounts {
    struct handles pool;
    struct hash_table names; /* open accounts, by the low half of their names */
    size_t max;
    uint64_t hand; /* the place from which the search for an idle one goes on */
};

/* TG_ERR_MEMORY. The table is as large as it will ever be: it is never copied under the lock, and
 * what is not used of it takes no memory of the machine. */
enum tg_err accounts_init(struct accounts *accounts, size_t max);
void accounts_fini(struct accounts *accounts);

static inline tg_account account_number(const struct account *account)
{
    return account->handle.id;
}

/* Null if there is none of this number, or it, or one above it, is closed. */
struct account *accounts_find(const struct accounts *accounts, tg_account number);

/* Null if there is none. */
struct account *accounts_named(const struct accounts *accounts, struct account_name name);

/* A new account in the tree and the table, without books. Takes the place of an idle one if all are
 * used. TG_ERR_FULL, TG_ERR_MEMORY. */
enum tg_err accounts_add(struct accounts *accounts, struct account *parent,
                         struct account_name name, tg_ms now, struct account **account);

/* Takes it out of the table and the tree. Accounts under it are no longer found, either, and are
 * still to be closed. */
void accounts_close(struct accounts *accounts, struct account *account);

/* Frees a closed account that nothing needs any more, and those above it that waited for it. */
void accounts_settle_up(struct accounts *accounts, struct account *account);

#endif
