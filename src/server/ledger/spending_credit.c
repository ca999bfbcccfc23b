/* spending_credit.c - a credit of an operator, in the ledger and in the windows that run.
 *
 * The ledger says from which sums it takes; each of these belongs to the accounts on the way up
 * that the tenant had then, as restore.c adds them up, and to the windows of now that have begun
 * before it. The ledger stays locked over both, so that no change of the tree falls in between;
 * calls wait for the arithmetic alone.
 */
#include <stdlib.h>
#include <string.h>

#include "lib/core/num.h"
#include "server/ledger/spending_internal.h"

struct crediting {
    struct spending *spending;
    spending_lowered_fn *fn; /* null: nobody is told */
    void *context;
    tg_ms now;
};

/* Lowers the windows of an account that hold what was reserved in the quarter from `begin` on. */
static void credit_account(const struct crediting *crediting,
                           const struct spending_account *account,
                           const struct ledger_credit_part *part)
{
    struct tg_bank *bank = crediting->spending->bank;
    struct tg_budget_metrics budgets[TG_BUDGETS_MAX];

    size_t n = account->number != 0
                   ? tg_bank_get_budgets(bank, account->number, crediting->now, budgets)
                   : 0;
    for (size_t i = 0; i < n; i++) {
        tg_micro micro = num_min(part->micro, budgets[i].settled);
        /* An account that has made place since then holds nothing. */
        if (part->begin >= budgets[i].begin &&
            tg_bank_restore(bank, account->number, i, budgets[i].settled - micro, crediting->now) ==
                TG_OK &&
            crediting->fn != NULL)
            crediting->fn(crediting->context, account, &budgets[i], micro);
    }
}

/* The name of the tenant at the top of the way up. */
static const char *root_of(const struct forest *forest, size_t node)
{
    while (node < forest->n - 1 && forest->nodes[node].parent < forest->n - 1)
        node = forest->nodes[node].parent;
    return forest->nodes[node].name;
}

static void credit_node(const struct crediting *crediting, size_t i,
                        const struct ledger_credit_part *part)
{
    const struct forest *forest = &crediting->spending->forest;
    struct spending_account account = {.root = root_of(forest, i),
                                       .tenant = forest->nodes[i].name,
                                       .key = forest->nodes[i].key,
                                       .number = atomic_load(&forest->nodes[i].account)};

    credit_account(crediting, &account, part);
}

static void credit_user(const struct crediting *crediting, size_t i,
                        const struct ledger_credit_part *part)
{
    const struct forest *forest = &crediting->spending->forest;
    const struct node *node = &forest->nodes[i];
    struct spending_account account = {
        .root = root_of(forest, i), .tenant = node->name, .user = {part->user, part->user_bytes}};

    if (part->user_bytes == 0 || node->n_user_budgets == 0)
        return;
    account.number = spending_find_user(crediting->spending, node, account.user);
    credit_account(crediting, &account, part);
}

/* Everyone, and every name on the way up, each once. */
static void credit_part(const struct crediting *crediting, const struct ledger_credit_part *part)
{
    struct ledger *ledger = crediting->spending->ledger;
    const struct forest *forest = &crediting->spending->forest;
    size_t seen[TG_LEVELS_MAX], n = 0;

    seen[n++] = forest->n - 1;
    for (uint32_t at = part->tenant; at != 0 && n < TG_LEVELS_MAX;
         at = ledger_tenant_parent(ledger, at)) {
        size_t node = forest_of_row(forest, ledger, at);
        bool again = node == SPENDING_TOP;
        for (size_t i = 0; i < n && !again; i++)
            again = seen[i] == node;
        if (!again)
            seen[n++] = node;
    }
    size_t tenant = forest_find_key(forest, ledger_tenant_name(ledger, part->tenant), NULL);
    if (tenant != SPENDING_TOP)
        credit_user(crediting, tenant, part);
    for (size_t i = 0; i < n; i++)
        credit_node(crediting, seen[i], part);
}

enum ledger_credit_result spending_credit(struct spending *spending, struct ledger_credit *credit,
                                          tg_micro *uncertain, spending_lowered_fn *fn,
                                          void *context, struct tg_problem *problem)
{
    const struct crediting crediting = {spending, fn, context, credit->made_at};
    struct ledger_credit_parts parts = {NULL, 0, 0};
    enum ledger_credit_result result;

    if (!ledger_flush(spending->ledger, problem))
        return LEDGER_CREDIT_FAILED;
    ledger_lock(spending->ledger);
    result = ledger_credit_add(spending->ledger, credit, &parts, uncertain, problem);
    if (result == LEDGER_CREDITED) {
        pthread_rwlock_wrlock(&spending->lock);
        for (size_t i = 0; i < parts.n; i++)
            credit_part(&crediting, &parts.list[i]);
        pthread_rwlock_unlock(&spending->lock);
    }
    ledger_unlock(spending->ledger);
    free(parts.list);
    return result;
}
