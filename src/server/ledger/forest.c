/* forest.c - a copy of the configured tree, with what bank and ledger call each tenant. */
#include "server/ledger/forest.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "lib/core/problem.h"

void forest_free(struct forest *forest)
{
    for (size_t i = 0; i < forest->n; i++) {
        free(forest->nodes[i].name);
        free(forest->nodes[i].key);
        free(forest->nodes[i].tags);
    }
    free(forest->nodes);
    free(forest->by_name);
    free(forest->accounts);
    *forest = (struct forest){0};
}

static bool copy_budgets(struct tg_budget *to, size_t *n_to, const struct tg_budget *from, size_t n,
                         const char *whose, struct tg_problem *problem)
{
    if (n > TG_BUDGETS_MAX)
        return problem_fail(problem, "%s has %zu budgets; up to %d are allowed", whose, n,
                            TG_BUDGETS_MAX);
    if (n > 0)
        memcpy(to, from, n * sizeof *to);
    *n_to = n;
    return true;
}

/* A parent must exist, and the way up must end. */
static bool check_parents(const struct spending_tree *tree, size_t i, struct tg_problem *problem)
{
    size_t at = i, levels = 0;

    while (at != SPENDING_TOP) {
        if (at >= tree->n_tenants || ++levels > TG_LEVELS_MAX - 2)
            return problem_fail(problem,
                                "the tenant %s has a parent that does not exist, or more than %d "
                                "levels above it",
                                tree->tenants[i].name, TG_LEVELS_MAX - 2);
        at = tree->tenants[at].parent;
    }
    return true;
}

static bool copy_tenant(struct node *node, const struct spending_tree *tree, size_t i,
                        size_t everyone, struct tg_problem *problem)
{
    const struct spending_tenant *tenant = &tree->tenants[i];

    node->name = strdup(tenant->name);
    node->parent = tenant->parent == SPENDING_TOP ? everyone : tenant->parent;
    return (node->name != NULL || problem_fail(problem, "there is no memory for a tenant")) &&
           check_parents(tree, i, problem) &&
           copy_budgets(node->budgets, &node->n_budgets, tenant->budgets, tenant->n_budgets,
                        tenant->name, problem) &&
           copy_budgets(node->user_budgets, &node->n_user_budgets, tenant->user_budgets,
                        tenant->n_user_budgets, tenant->name, problem);
}

/* Its keys, from the node `at` on. */
static bool copy_keys(struct forest *forest, const struct spending_tree *tree, size_t i, size_t *at,
                      struct tg_problem *problem)
{
    const struct spending_tenant *tenant = &tree->tenants[i];

    for (size_t k = 0; k < tenant->n_keys; k++) {
        const struct spending_key *key = &tenant->keys[k];
        struct node *node = &forest->nodes[(*at)++];
        if (strlen(key->name) > LEDGER_NAME_MAX)
            return problem_fail(problem, "the name of a key of %s is too long", tenant->name);
        node->parent = i;
        node->name = strdup(tenant->name);
        node->key = strdup(key->name);
        node->tags = strdup(key->tags != NULL ? key->tags : "");
        if (node->name == NULL || node->key == NULL || node->tags == NULL)
            return problem_fail(problem, "there is no memory for a key");
        if (!copy_budgets(node->budgets, &node->n_budgets, key->budgets, key->n_budgets, key->name,
                          problem))
            return false;
    }
    return true;
}

/* A tenant comes before its keys. */
static int compare_names(const void *left, const void *right)
{
    const struct forest_name *a = left, *b = right;
    int order = strcmp(a->name, b->name);

    if (order != 0 || a->key == b->key)
        return order;
    if (a->key == NULL || b->key == NULL)
        return a->key == NULL ? -1 : 1;
    return strcmp(a->key, b->key);
}

bool forest_init(struct forest *forest, const struct spending_tree *tree,
                 struct tg_problem *problem)
{
    struct node *everyone;
    size_t n = tree->n_tenants + 1, next = tree->n_tenants;

    for (size_t i = 0; i < tree->n_tenants; i++)
        n += tree->tenants[i].n_keys;
    *forest = (struct forest){.nodes = calloc(n, sizeof *forest->nodes),
                              .by_name = calloc(n, sizeof *forest->by_name),
                              .accounts = calloc(n, sizeof *forest->accounts)};
    forest->n = forest->nodes ? n : 0;
    if (forest->nodes == NULL || forest->by_name == NULL || forest->accounts == NULL)
        return problem_fail(problem, "there is no memory for %zu tenants", tree->n_tenants);
    everyone = &forest->nodes[n - 1];
    everyone->parent = SPENDING_TOP;
    if (!copy_budgets(everyone->budgets, &everyone->n_budgets, tree->budgets, tree->n_budgets,
                      "everyone", problem))
        return false;
    for (size_t i = 0; i < tree->n_tenants; i++)
        if (!copy_tenant(&forest->nodes[i], tree, i, n - 1, problem) ||
            !copy_keys(forest, tree, i, &next, problem))
            return false;
    assert(next == n - 1);
    for (size_t i = 0; i + 1 < forest->n; i++)
        forest->by_name[i] = (struct forest_name){forest->nodes[i].name, forest->nodes[i].key, i};
    qsort(forest->by_name, forest->n - 1, sizeof *forest->by_name, compare_names);
    return true;
}

bool forest_register(struct forest *forest, struct ledger *ledger, struct tg_problem *problem)
{
    size_t n = forest->n - 1;
    struct ledger_tenant_spec *list = calloc(n + 1, sizeof *list);

    if (list == NULL)
        return problem_fail(problem, "there is no memory for %zu tenants", n);
    for (size_t i = 0; i < n; i++) {
        size_t parent = forest->nodes[i].parent;
        list[i] = (struct ledger_tenant_spec){.name = forest->nodes[i].name,
                                              .parent = parent == n ? LEDGER_NO_PARENT : parent,
                                              .key = forest->nodes[i].key,
                                              .tags = forest->nodes[i].tags};
    }
    bool done = ledger == NULL || ledger_add_tenants(ledger, list, n, problem);
    for (size_t i = 0; done && i < n; i++) {
        assert(ledger == NULL || list[i].number > 0);
        forest->nodes[i].ledger_id = list[i].number;
    }
    free(list);
    return done;
}

static bool same_budgets(const struct tg_budget *a, size_t n_a, const struct tg_budget *b,
                         size_t n_b)
{
    if (n_a != n_b)
        return false;
    for (size_t i = 0; i < n_a; i++)
        if (a[i].amount != b[i].amount || a[i].per != b[i].per || a[i].zone != b[i].zone ||
            a[i].mode != b[i].mode)
            return false;
    return true;
}

static void keep_node(struct forest *forest, size_t i, const struct forest *before)
{
    struct node *node = &forest->nodes[i];
    size_t k = node->key    ? forest_find_key(before, node->name, node->key)
               : node->name ? forest_find(before, node->name, i)
                            : before->n - 1;
    const struct node *old = k < before->n ? &before->nodes[k] : NULL;

    if (old == NULL || (node->name == NULL) != (old->name == NULL) ||
        atomic_load(&old->account) == 0)
        return;
    if (node->parent != SPENDING_TOP) {
        assert(node->parent < forest->n && old->parent < before->n);
        const struct node *above = &forest->nodes[node->parent];
        if (above->account == 0 || above->account != before->nodes[old->parent].account)
            return;
    }
    /* The account is the same, whatever its budgets. */
    atomic_store(&node->account, atomic_load(&old->account));
    node->kept = same_budgets(node->budgets, node->n_budgets, old->budgets, old->n_budgets) &&
                 same_budgets(node->user_budgets, node->n_user_budgets, old->user_budgets,
                              old->n_user_budgets);
}

/* Parents first, whatever their order in the list: a level at a time. */
void forest_keep(struct forest *forest, const struct forest *before)
{
    if (before->n == 0)
        return;
    keep_node(forest, forest->n - 1, before);
    for (int level = 0; level < TG_LEVELS_MAX; level++)
        for (size_t i = 0; i + 1 < forest->n; i++)
            if (!forest->nodes[i].kept)
                keep_node(forest, i, before);
}

size_t forest_find_key(const struct forest *forest, const char *tenant, const char *key)
{
    struct forest_name wanted = {tenant, key, 0}, *found;

    if (forest->n <= 1)
        return SPENDING_TOP;
    found = bsearch(&wanted, forest->by_name, forest->n - 1, sizeof wanted, compare_names);
    assert(found == NULL || found->node < forest->n - 1); /* never everyone */
    return found ? found->node : SPENDING_TOP;
}

size_t forest_find(const struct forest *forest, const char *name, size_t hint)
{
    if (hint < forest->n && forest->nodes[hint].name != NULL && forest->nodes[hint].key == NULL &&
        strcmp(forest->nodes[hint].name, name) == 0)
        return hint;
    return forest_find_key(forest, name, NULL);
}

size_t forest_of_row(const struct forest *forest, struct ledger *ledger, uint32_t row)
{
    return forest_find_key(forest, ledger_tenant_name(ledger, row), ledger_tenant_key(ledger, row));
}

const struct node *forest_named(const struct forest *forest, const char *name)
{
    size_t i = forest_find(forest, name, SPENDING_TOP);

    return i != SPENDING_TOP ? &forest->nodes[i] : NULL;
}

static int compare_accounts(const void *left, const void *right)
{
    const struct forest_account *a = left, *b = right;

    return (a->account > b->account) - (a->account < b->account);
}

void forest_sort_accounts(struct forest *forest)
{
    for (size_t i = 0; i < forest->n; i++)
        forest->accounts[i] = (struct forest_account){atomic_load(&forest->nodes[i].account), i};
    qsort(forest->accounts, forest->n, sizeof *forest->accounts, compare_accounts);
}

const struct node *forest_with(const struct forest *forest, tg_account account)
{
    struct forest_account wanted = {account, 0}, *found;

    found = bsearch(&wanted, forest->accounts, forest->n, sizeof wanted, compare_accounts);
    assert(found == NULL || atomic_load(&forest->nodes[found->node].account) == account);
    return found ? &forest->nodes[found->node] : NULL;
}
