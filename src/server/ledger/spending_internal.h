/* spending_internal.h - the struct of spending, for spending*.c alone. */
#ifndef TG_LEDGER_SPENDING_INTERNAL_H
#define TG_LEDGER_SPENDING_INTERNAL_H

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "io/posix/clock.h"
#include "lib/core/hash_table.h"
#include "server/ledger/forest.h"
#include "server/ledger/spending.h"

struct user {
    tg_account tenant, account;
};

/* The account of a tenant that is no longer in the tree, while its calls, or those beneath it, have
 * yet to settle: if it comes back, they are its own. */
struct retired {
    tg_account account, parent;
    bool kept;
};

/* A call that another process has in flight. */
struct adopted {
    uint64_t source, call;
    tg_reservation reservation; /* 0: it could not be made */
    uint32_t tenant;
    tg_micro money;
    tg_ms reserved_at;
    size_t user_bytes;
    char user[];
};

struct adopted_calls {
    pthread_mutex_t lock;
    struct hash_table table; /* items: struct adopted */
    uint64_t seed;
};

struct spending {
    pthread_rwlock_t lock; /* shared to reserve and settle; alone to change the tree */
    struct ledger *ledger;
    bool open;
    struct tg_bank *bank;
    const struct clock *clock; /* null: times are the wall clock's */
    atomic_llong latest;       /* the latest time of the wall clock that was seen */
    struct forest forest;
    struct retired *retired;
    size_t n_retired, max_retired;

    pthread_mutex_t users_lock; /* within `lock` */
    struct user *users;         /* those that were opened; the bank may have forgotten some */
    size_t n_users, max_users;

    spending_follow_fn *follow; /* written with the lock; null: nobody follows */
    void *follow_context;
    struct adopted_calls adopted;

    _Atomic uint64_t lost; /* calls that the ledger could not take */
    _Atomic int64_t lost_micro;
    _Atomic int64_t uncertain; /* what was settled as such */
};

/* What the bank calls a user, or a key, of a tenant. Tenants have names that begin with a printable
 * character: so a user is never a child of the tenant that has his name, nor a key a user. */
struct spending_leaf {
    size_t bytes;
    char name[1 + LEDGER_NAME_MAX];
};

enum { SPENDING_USER = 1, SPENDING_KEY };

static inline struct spending_leaf spending_leaf(char kind, struct ledger_text text)
{
    struct spending_leaf leaf = {.bytes = 1 + text.size};

    assert(text.size <= LEDGER_NAME_MAX);
    leaf.name[0] = kind;
    memcpy(leaf.name + 1, text.bytes, text.size);
    return leaf;
}

/* The account of a user; 0: he has none now. */
static inline tg_account spending_find_user(const struct spending *spending,
                                            const struct node *tenant, struct ledger_text user)
{
    if (user.size > LEDGER_NAME_MAX)
        return 0;
    const struct spending_leaf leaf = spending_leaf(SPENDING_USER, user);
    return tg_bank_find(spending->bank, atomic_load(&tenant->account), leaf.name, leaf.bytes);
}

/* The lock is held, shared or alone, here and below. The node of a call's key; SPENDING_TOP: it has
 * none. */
static inline size_t spending_find_key(const struct spending *spending,
                                       const struct spending_call *call)
{
    return call->key != NULL ? forest_find_key(&spending->forest, call->tenant, call->key)
                             : SPENDING_TOP;
}

enum tg_err spending_reserve_in_bank(struct spending *spending, const struct spending_call *call,
                                     size_t tenant, size_t key, tg_ms now,
                                     struct tg_money_answer *answer);

void spending_free_adopted(struct spending *spending);

#endif
