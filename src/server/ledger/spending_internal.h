/* spending_internal.h - the inside of spending, for spending*.c alone. */
#ifndef TG_LEDGER_SPENDING_INTERNAL_H
#define TG_LEDGER_SPENDING_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "server/ledger/forest.h"
#include "server/ledger/spending.h"

struct user {
    tg_account tenant, account;
};

struct spending {
    pthread_rwlock_t lock;
    struct ledger *ledger;
    bool open;
    struct tg_bank *bank;
    struct forest forest;

    pthread_mutex_t users_lock; /* within `lock` */
    struct user *users;         /* that were opened; the bank may have forgotten some */
    size_t n_users, max_users;

    _Atomic uint64_t lost;
    _Atomic int64_t lost_micro;
};

#endif
