/* remote_money_rules.c - what budgets say to a call: the rules of the bank, on sums of many nodes.
 *
 * Used where Redis is not asked: for budgets of everyone, of which this node has a block, and when
 * Redis is away. money_reserve.lua has the same rules, and src/lib/budget/bank.c is where they come
 * from; a test asks all three the same questions.
 */
#include <assert.h>

#include "server/remote_store/remote_money_internal.h"

void money_rule_ask(const struct claim_budget *budgets, const struct rule_state *states, size_t n,
                    tg_micro need, struct rule_answer *answer)
{
    *answer = (struct rule_answer){.least = TG_NUMBER_MAX, .binding = n};
    for (size_t i = n; i-- > 0;) {
        tg_micro left = budgets[i].amount - num_add(states[i].settled, states[i].outstanding);
        if (budgets[i].shadow) {
            answer->would_deny += left < need;
            continue;
        }
        answer->least = num_min(answer->least, left);
        if (left >= need)
            continue;
        bool contended = budgets[i].amount - states[i].settled >= need;
        bool spent_below = answer->binding < n && !answer->contended;
        if (contended && spent_below)
            continue;
        answer->contended = contended;
        answer->binding = i;
    }
}

void money_rule_refuse(const struct claim_budget *budgets, const struct rule_state *states,
                       const struct rule_answer *said, struct tg_money_answer *answer)
{
    const struct claim_budget *budget = &budgets[said->binding];
    const struct rule_state *state = &states[said->binding];

    assert(!budget->shadow);
    *answer = (struct tg_money_answer){
        .contended = said->contended,
        .account = budget->account,
        .per = (enum tg_per)budget->per,
        .reset_at = budget->end,
        .amount = budget->amount,
        .used = num_add(state->settled, state->outstanding),
        .would_deny = said->would_deny,
    };
}
