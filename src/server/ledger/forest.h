/* forest.h - a copy of the configured tree, with what bank and ledger call each tenant. For
 * spending*.c and restore.c. */
#ifndef TG_LEDGER_FOREST_H
#define TG_LEDGER_FOREST_H

#include <stdatomic.h>

#include "server/ledger/spending.h"

struct node {
    char *name;    /* null: everyone */
    char *key;     /* a virtual key of the tenant `name`, its parent; null: that tenant */
    char *tags;    /* the key's; "": none */
    size_t parent; /* an index of `nodes`; SPENDING_TOP for everyone alone */
    uint32_t ledger_id;
    _Atomic tg_account account;
    struct tg_budget budgets[TG_BUDGETS_MAX], user_budgets[TG_BUDGETS_MAX];
    size_t n_budgets, n_user_budgets;
    bool kept; /* it is as it was in the forest before */
};

/* A node by its name, or by its account. */
struct forest_name {
    const char *name, *key;
    size_t node;
};
struct forest_account {
    tg_account account;
    size_t node;
};

/* Tenants by their index in the tree, then keys, and at the end everyone. */
struct forest {
    struct node *nodes;
    size_t n;                        /* with everyone */
    struct forest_name *by_name;     /* sorted; without everyone */
    struct forest_account *accounts; /* sorted, for forest_with(), by forest_sort_accounts() */
};

/* Copies and checks a tree. The forest has to be freed even if it is false. */
bool forest_init(struct forest *forest, const struct spending_tree *tree,
                 struct tg_problem *problem);
void forest_free(struct forest *forest);

/* Gets the tenants' numbers from the ledger (null: there is none); those that are new are written
 * there. */
bool forest_register(struct forest *forest, struct ledger *ledger, struct tg_problem *problem);

/* Finds the nodes that are as they were in another forest, parents and budgets, and takes over
 * their accounts: for them nothing has to be done. */
void forest_keep(struct forest *forest, const struct forest *before);

/* The tenant of a name: its index, or SPENDING_TOP. `hint` is tried first. */
size_t forest_find(const struct forest *forest, const char *name, size_t hint);

/* The same as a node; null: none. */
const struct node *forest_named(const struct forest *forest, const char *name);

/* The key of that name of a tenant, or a tenant where `key` is null: its index, or SPENDING_TOP. */
size_t forest_find_key(const struct forest *forest, const char *tenant, const char *key);

/* What is counted under a number of the ledger, between ledger_lock() and ledger_unlock(): the node
 * of its names, or SPENDING_TOP. */
size_t forest_of_row(const struct forest *forest, struct ledger *ledger, uint32_t row);

/* Sorts the accounts, once all nodes have theirs; then the node with an account, null: none. */
void forest_sort_accounts(struct forest *forest);
const struct node *forest_with(const struct forest *forest, tg_account account);

#endif
