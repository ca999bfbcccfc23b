/* forest.h - a copy of the configured tree, with what bank and ledger call each tenant. Private to
 * src/ledger. */
#ifndef TG_LEDGER_FOREST_H
#define TG_LEDGER_FOREST_H

#include <stdatomic.h>

#include "ledger/spending.h"

struct node {
    char *name; /* null: everyone */
    size_t parent;
    uint32_t ledger_id;
    _Atomic tg_account account;
    struct tg_budget budgets[TG_BUDGETS_MAX], user_budgets[TG_BUDGETS_MAX];
    size_t n_budgets, n_user_budgets;
};

/* Tenants by their index in the tree, and at the end everyone. */
struct forest {
    struct node *nodes;
    size_t n; /* with everyone */
};

/* Copies and checks a tree. To be freed even if it is none. */
bool forest_init(struct forest *forest, const struct spending_tree *tree,
                 struct ledger_problem *problem);
void forest_free(struct forest *forest);

/* Gets the tenant's number from the ledger, parents first; it is written there if it is new. */
bool forest_register(struct forest *forest, struct ledger *ledger, size_t i,
                     struct ledger_problem *problem);

/* The tenant of a name, and the one with an account; null: none. */
const struct node *forest_named(const struct forest *forest, const char *name);
const struct node *forest_with(const struct forest *forest, tg_account account);

#endif
