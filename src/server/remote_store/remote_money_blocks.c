/* remote_money_blocks.c - what a call takes out of the blocks that this process holds.
 *
 * For each window a process leases
 *
 *     leased >= used by this process = settled + reserved         sum over all processes <= amount
 *
 * and decides by itself as long as that lasts; remote_money_lease.c asks for more, tells what was
 * spent and gives back the rest. A call needs something of several windows: it takes of all of them
 * or of none, and waits for those that have not enough. Only Redis refuses: a call is told no where
 * an answer that had its need in it gave less, or where what was heard of the others' settlements
 * alone leaves too little.
 */
#include <assert.h>

#include "server/remote_store/remote_money_internal.h"

/* What a window has for a claim. */
struct window_state {
    tg_micro amount; /* the least of the claim's budgets that are enforced; TG_NUMBER_MAX: none */
    tg_micro spare;
    bool is_final; /* there is not more to be had */
};

/* The sums of all processes, as far as they are known. */
void money_blocks_states(const struct remote_money_ticket *claim, struct rule_state *states)
{
    for (size_t i = 0; i < claim->block_budgets; i++) {
        const struct sum *sum = claim->windows[claim->budgets[i].window].sum;
        states[i].settled = num_add(sum->block.others_settled, sum_total(sum));
        states[i].outstanding =
            num_add(num_less(sum->block.others_used, sum->block.others_settled), sum->block.held);
    }
}

static void read_windows(const struct remote_money_ticket *claim, struct window_state *windows)
{
    for (size_t i = 0; i < claim->block_windows; i++)
        windows[i] = (struct window_state){.amount = TG_NUMBER_MAX};
    for (size_t i = 0; i < claim->block_budgets; i++) {
        const struct claim_budget *budget = &claim->budgets[i];
        if (!budget->shadow)
            windows[budget->window].amount =
                num_min(windows[budget->window].amount, budget->amount);
    }
    for (size_t i = 0; i < claim->block_windows; i++) {
        const struct sum *sum = claim->windows[i].sum;
        struct window_state *window = &windows[i];
        if (window->amount == TG_NUMBER_MAX) {
            window->spare = TG_NUMBER_MAX;
            continue;
        }
        /* A lease may reach beyond the amount: what was used did, or the amount was lowered. */
        tg_micro most = num_less(window->amount, sum->block.others_used);
        window->spare = num_min(money_block_spare(sum), num_less(most, sum_used(sum)));
        window->is_final = sum->block.is_short || most <= sum->block.leased;
    }
}

/* Whether more settled money than is left for the call is known of: that never changes. */
static bool is_spent(const struct remote_money_ticket *claim, const struct rule_state *states)
{
    for (size_t i = 0; i < claim->block_budgets; i++)
        if (!claim->budgets[i].shadow &&
            claim->budgets[i].amount - states[i].settled < money_rule_need(claim))
            return true;
    return false;
}

static enum block_verdict remote_money_blocks_refuse(struct remote_money_ticket *claim,
                                                     const struct rule_state *states)
{
    struct rule_answer said;

    money_rule_ask(claim->budgets, states, claim->block_budgets, money_rule_need(claim), &said);
    if (said.binding == claim->block_budgets) {
        /* By the sums there is room; the blocks of others are in the way. */
        said.contended = true;
        said.binding = 0;
        while (claim->budgets[said.binding].shadow)
            said.binding++;
        assert(said.binding < claim->block_budgets); /* one in shadow refuses nothing */
    }
    money_rule_refuse(claim->budgets, states, &said, &claim->answer);
    for (size_t i = 0; i < claim->block_windows; i++)
        claim->windows[i].sum->block.is_watched = true;
    return BLOCK_REFUSED;
}

static enum block_verdict remote_money_blocks_take(struct remote_money_ticket *claim,
                                                   tg_micro amount, const struct rule_state *states)
{
    struct rule_answer said;

    money_rule_ask(claim->budgets, states, claim->block_budgets, money_rule_need(claim), &said);
    claim->answer.would_deny = said.would_deny;
    assert(amount <= claim->money);
    money_claim_hold(claim, amount, claim->reserved);
    for (size_t i = 0; i < claim->block_windows; i++) {
        struct sum_block *block = &claim->windows[i].sum->block;
        block->taken = num_add(block->taken, amount);
    }
    return BLOCK_TAKEN;
}

/* ---- Waiting ---- */

static void wait_no_more(struct remote_money *money, struct remote_money_ticket *claim, size_t i)
{
    struct sum_block *block = &claim->windows[i].sum->block;

    if (claim->windows[i].waits_for == 0)
        return;
    block->waiting = num_less(block->waiting, num_max(claim->money, 1));
    claim->windows[i].waits_for = 0;
    assert(money->waiting > 0);
    money->waiting--;
}

static void wait_for_next(struct remote_money *money, struct remote_money_ticket *claim, size_t i)
{
    struct sum_block *block = &claim->windows[i].sum->block;

    if (claim->windows[i].waits_for == 0) {
        block->waiting = num_add(block->waiting, num_max(claim->money, 1));
        money->waiting++;
    }
    claim->windows[i].waits_for = block->wait_mark = money->block_asks + 1;
}

void money_blocks_leave(struct remote_money *money, struct remote_money_ticket *claim)
{
    for (size_t i = 0; i < claim->block_windows; i++)
        wait_no_more(money, claim, i);
}

/* ---- Deciding ---- */

static void touch(struct remote_money *money, const struct remote_money_ticket *claim,
                  const struct window_state *windows, tg_ms now)
{
    for (size_t i = 0; i < claim->block_windows; i++) {
        struct sum *sum = claim->windows[i].sum;
        sum->block.amount = windows[i].amount;
        sum->block.by_script = false;
        sum->block.touched_at = now;
        sum->block.recent = num_max(sum->block.recent, claim->money);
        sum->block.largest = num_max(sum->block.largest, claim->money);
        money_block_activate(money, sum);
    }
}

enum block_verdict money_blocks_take(struct remote_money *money, struct remote_money_ticket *claim,
                                     tg_ms now)
{
    struct rule_state states[MONEY_WINDOWS_MAX];
    struct window_state windows[MONEY_WINDOWS_MAX];
    tg_micro need = num_max(claim->money, 1), least = TG_NUMBER_MAX;
    bool is_final = false, waits = false;

    money_blocks_states(claim, states);
    read_windows(claim, windows);
    touch(money, claim, windows, now);
    for (size_t i = 0; i < claim->block_windows; i++) {
        const struct claim_window *window = &claim->windows[i];
        least = num_min(least, windows[i].spare);
        if (windows[i].spare >= need)
            continue;
        if (window->waits_for == 0 || window->sum->block.heard < window->waits_for)
            waits = true;
        else
            is_final = is_final || windows[i].is_final;
    }
    if (least >= need)
        return remote_money_blocks_take(claim, claim->money, states);
    if (is_spent(claim, states))
        return remote_money_blocks_refuse(claim, states);
    if (is_final && claim->up_to && least >= 1 && !waits)
        return remote_money_blocks_take(claim, num_min(claim->money, least), states);
    if (is_final && !(claim->up_to && waits))
        return remote_money_blocks_refuse(claim, states);
    for (size_t i = 0; i < claim->block_windows; i++) {
        const struct claim_window *window = &claim->windows[i];
        if (windows[i].spare >= need)
            wait_no_more(money, claim, i);
        else if (window->waits_for == 0 || window->sum->block.heard >= window->waits_for)
            wait_for_next(money, claim, i);
    }
    return BLOCK_WAIT;
}

bool money_blocks_allow(struct remote_money_ticket *claim, tg_micro *most)
{
    struct rule_state states[MONEY_WINDOWS_MAX];
    struct window_state windows[MONEY_WINDOWS_MAX];
    tg_micro least = TG_NUMBER_MAX;

    money_blocks_states(claim, states);
    read_windows(claim, windows);
    for (size_t i = 0; i < claim->block_windows; i++)
        least = num_min(least, windows[i].spare);
    if (least < money_rule_need(claim)) {
        if (!is_spent(claim, states))
            return false;
        (void)remote_money_blocks_refuse(claim, states);
    }
    *most = least;
    return true;
}

void money_blocks_peek(struct remote_money_ticket *claim)
{
    struct rule_state states[MONEY_WINDOWS_MAX];
    struct rule_answer said;

    money_blocks_states(claim, states);
    money_rule_ask(claim->budgets, states, claim->block_budgets, money_rule_need(claim), &said);
    if (said.binding < claim->block_budgets)
        money_rule_refuse(claim->budgets, states, &said, &claim->answer);
    else
        claim->answer = (struct tg_money_answer){.reservation = 1, .would_deny = said.would_deny};
}
