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

/* Lowers the windows of an account that hold what was reserved in the quarter from `begin` on. */
static void credit_account(struct spending *spending, tg_account account,
                           const struct ledger_credit_part *part, tg_ms now)
{
    struct tg_budget_metrics budgets[TG_BUDGETS_MAX];
    size_t n = account != 0 ? tg_bank_get_budgets(spending->bank, account, now, budgets) : 0;

    for (size_t i = 0; i < n; i++) {
        if (part->begin < budgets[i].begin)
            continue;
        /* An account that has made place since then holds nothing. */
        enum tg_err err = tg_bank_restore(spending->bank, account, i,
                                          num_max(budgets[i].settled - part->micro, 0), now);
        (void)err;
    }
}

static void credit_user(struct spending *spending, const struct node *node,
                        const struct ledger_credit_part *part, tg_ms now)
{
    if (part->user_bytes > 0 && node->n_user_budgets > 0)
        credit_account(
            spending,
            tg_bank_find(spending->bank, atomic_load(&node->account), part->user, part->user_bytes),
            part, now);
}

/* Everyone, and every name on the way up, each once. */
static void credit_part(struct spending *spending, const struct ledger_credit_part *part, tg_ms now)
{
    const struct forest *forest = &spending->forest;
    size_t seen[TG_LEVELS_MAX], n = 0;

    seen[n++] = forest->n - 1;
    for (uint32_t at = part->tenant; at != 0 && n < TG_LEVELS_MAX;
         at = ledger_tenant_parent(spending->ledger, at)) {
        size_t node = forest_find(forest, ledger_tenant_name(spending->ledger, at), SPENDING_TOP);
        bool again = node == SPENDING_TOP;
        for (size_t i = 0; i < n && !again; i++)
            again = seen[i] == node;
        if (!again)
            seen[n++] = node;
        if (at == part->tenant && node != SPENDING_TOP)
            credit_user(spending, &forest->nodes[node], part, now);
    }
    for (size_t i = 0; i < n; i++)
        credit_account(spending, atomic_load(&forest->nodes[seen[i]].account), part, now);
}

enum ledger_credit_result spending_credit(struct spending *spending, struct ledger_credit *credit,
                                          tg_micro *uncertain, struct tg_problem *problem)
{
    struct ledger_credit_parts parts = {NULL, 0, 0};
    enum ledger_credit_result result;

    if (!ledger_flush(spending->ledger, problem))
        return LEDGER_CREDIT_FAILED;
    ledger_lock(spending->ledger);
    result = ledger_credit_add(spending->ledger, credit, &parts, uncertain, problem);
    if (result == LEDGER_CREDITED) {
        pthread_rwlock_wrlock(&spending->lock);
        for (size_t i = 0; i < parts.n; i++)
            credit_part(spending, &parts.list[i], credit->made_at);
        pthread_rwlock_unlock(&spending->lock);
    }
    ledger_unlock(spending->ledger);
    free(parts.list);
    return result;
}
