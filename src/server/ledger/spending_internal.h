/* spending_internal.h - the struct of spending, for spending*.c alone. */
#ifndef TG_LEDGER_SPENDING_INTERNAL_H
#define TG_LEDGER_SPENDING_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "io/posix/clock.h"
#include "server/ledger/forest.h"
#include "server/ledger/spending.h"

struct user {
    tg_account tenant, account;
};

struct spending {
    pthread_rwlock_t lock; /* shared to reserve and settle; alone to change the tree */
    struct ledger *ledger;
    bool open;
    struct tg_bank *bank;
    const struct clock *clock; /* null: times are the wall clock's */
    atomic_llong latest;       /* the latest time of the wall clock that was seen */
    struct forest forest;

    pthread_mutex_t users_lock; /* within `lock` */
    struct user *users;         /* those that were opened; the bank may have forgotten some */
    size_t n_users, max_users;

    _Atomic uint64_t lost; /* calls that the ledger could not take */
    _Atomic int64_t lost_micro;
    _Atomic int64_t uncertain; /* what was settled as such */
};

#endif
