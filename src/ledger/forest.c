/* forest.c - a copy of the configured tree, with what bank and ledger call each tenant. */
#include "ledger/forest.h"

#include <stdlib.h>
#include <string.h>

#include "ledger/ledger_problem.h"

void forest_free(struct forest *forest)
{
    for (size_t i = 0; i < forest->n; i++)
        free(forest->nodes[i].name);
    free(forest->nodes);
    *forest = (struct forest){0};
}

static bool copy_budgets(struct tg_budget *to, size_t *n_to, const struct tg_budget *from, size_t n,
                         const char *whose, struct ledger_problem *problem)
{
    if (n > TG_BUDGETS_MAX)
        return ledger_fail(problem, "%s has %zu budgets; up to %d are allowed", whose, n,
                           TG_BUDGETS_MAX);
    if (n > 0)
        memcpy(to, from, n * sizeof *to);
    *n_to = n;
    return true;
}

/* A parent must exist, and the way up must end. */
static bool check_parents(const struct spending_tree *tree, size_t i,
                          struct ledger_problem *problem)
{
    size_t at = i, levels = 0;

    while (at != SPENDING_TOP) {
        if (at >= tree->n_tenants || ++levels > TG_LEVELS_MAX - 2)
            return ledger_fail(problem,
                               "the tenant %s has a parent that does not exist, or more than %d "
                               "levels above it",
                               tree->tenants[i].name, TG_LEVELS_MAX - 2);
        at = tree->tenants[at].parent;
    }
    return true;
}

static bool copy_tenant(struct node *node, const struct spending_tree *tree, size_t i,
                        struct ledger_problem *problem)
{
    const struct spending_tenant *tenant = &tree->tenants[i];

    node->name = strdup(tenant->name);
    node->parent = tenant->parent == SPENDING_TOP ? tree->n_tenants : tenant->parent;
    return (node->name != NULL || ledger_fail(problem, "there is no memory for a tenant")) &&
           check_parents(tree, i, problem) &&
           copy_budgets(node->budgets, &node->n_budgets, tenant->budgets, tenant->n_budgets,
                        tenant->name, problem) &&
           copy_budgets(node->user_budgets, &node->n_user_budgets, tenant->user_budgets,
                        tenant->n_user_budgets, tenant->name, problem);
}

bool forest_init(struct forest *forest, const struct spending_tree *tree,
                 struct ledger_problem *problem)
{
    struct node *everyone;

    *forest =
        (struct forest){calloc(tree->n_tenants + 1, sizeof *forest->nodes), tree->n_tenants + 1};
    if (forest->nodes == NULL) {
        forest->n = 0;
        return ledger_fail(problem, "there is no memory for %zu tenants", tree->n_tenants);
    }
    everyone = &forest->nodes[tree->n_tenants];
    everyone->parent = SPENDING_TOP;
    if (!copy_budgets(everyone->budgets, &everyone->n_budgets, tree->budgets, tree->n_budgets,
                      "everyone", problem))
        return false;
    for (size_t i = 0; i < tree->n_tenants; i++)
        if (!copy_tenant(&forest->nodes[i], tree, i, problem))
            return false;
    return true;
}

bool forest_register(struct forest *forest, struct ledger *ledger, size_t i,
                     struct ledger_problem *problem)
{
    struct node *node = &forest->nodes[i];
    uint32_t parent = 0;

    if (node->ledger_id != 0 || node->name == NULL || ledger == NULL)
        return true;
    if (!forest_register(forest, ledger, node->parent, problem))
        return false;
    parent = forest->nodes[node->parent].ledger_id;
    return ledger_tenant(ledger, parent, node->name, strlen(node->name), &node->ledger_id, problem);
}

const struct node *forest_named(const struct forest *forest, const char *name)
{
    for (size_t i = 0; i + 1 < forest->n; i++)
        if (strcmp(forest->nodes[i].name, name) == 0)
            return &forest->nodes[i];
    return NULL;
}

const struct node *forest_with(const struct forest *forest, tg_account account)
{
    for (size_t i = 0; i < forest->n; i++)
        if (forest->nodes[i].account == account)
            return &forest->nodes[i];
    return NULL;
}
