/* remote_blocks_settle.c - what calls used in the end, and what nobody needs: settled, given back,
 * told.
 *
 * Nothing of this waits for an answer. What has to be told to Redis is gathered in the credits and
 * goes along with the next block; the tick sees to it that it goes at all. A call may end long
 * after its limits were changed, or its scope was forgotten: that is told by itself, and disturbs
 * nobody's blocks.
 */
#include "lib/core/num.h"
#include "server/remote_store/remote_blocks_internal.h"

static const tg_ms SEND_AFTER = 500;

/* ---- settling ---- */

/* `actual` -1: all of it comes back, of both axes. */
static void settle_all(const struct claim_view *view, const struct remote_blocks_charge *from,
                       int64_t actual, tg_ms now)
{
    const struct remote_charge *charge = &from->charge;

    for (size_t s = 0; s < view->n; s++)
        for (size_t i = 0; i < view->scopes[s]->n; i++) {
            const struct tg_limit *limit = &view->scopes[s]->given[i];
            struct credit *credit = &view->scopes[s]->credits[i];
            int64_t units = blocks_units(limit, view->cost);
            if (charge->uncharged[s] & 1u << i)
                continue;
            if (actual < 0 && units > 0)
                credit_refund(credit, units, charge->at, from->leased_at, now);
            else if (limit->axis == TG_AXIS_COST && actual < units)
                credit_refund(credit, units - actual, charge->at, from->leased_at, now);
            else if (limit->axis == TG_AXIS_COST && actual > units)
                credit_add_debt(credit, actual - units, charge->at, now);
        }
}

static void remote_blocks_settle_settle(struct remote_blocks *blocks,
                                        const struct remote_debit *debit, tg_ms now,
                                        const struct remote_blocks_charge *charge, int64_t actual)
{
    struct claim_view view;

    if (charge->strict || !book_peek(blocks, debit, &view)) {
        struct remote_debit strict = blocks_strict_debit(blocks, debit, now);
        struct remote_charge told = charge->charge;
        if (!charge->strict && actual < debit->cost)
            told.at = charge->leased_at;
        if (actual < 0)
            remote_limits_refund(blocks->options.limits, &strict, now, &told);
        else
            remote_limits_settle(blocks->options.limits, &strict, now, &told, actual);
        return;
    }
    settle_all(&view, charge, actual, now);
    book_activate(blocks, view.scopes[0]->root);
}

void remote_blocks_refund(struct remote_blocks *blocks, const struct remote_debit *debit, tg_ms now,
                          const struct remote_blocks_charge *charge)
{
    remote_blocks_settle_settle(blocks, debit, now, charge, -1);
}

void remote_blocks_settle(struct remote_blocks *blocks, const struct remote_debit *debit, tg_ms now,
                          const struct remote_blocks_charge *charge, int64_t actual)
{
    if (num_in_range(actual))
        remote_blocks_settle_settle(blocks, debit, now, charge, actual);
}

void remote_blocks_add_debt(struct remote_blocks *blocks, const struct remote_debit *debit,
                            tg_ms now, tg_ms since)
{
    struct remote_debit strict = blocks_strict_debit(blocks, debit, now);

    remote_limits_add_debt(blocks->options.limits, &strict, now, since);
}

/* ---- now and then ---- */

/* What a root has in hand. */
struct rest {
    bool holds; /* or owes something */
    bool sends; /* it is time to */
};

static void tidy_scope(struct scope *scope, tg_ms now, struct rest *rest)
{
    bool useless = scope->retired && scope->pins == 0;

    for (size_t i = 0; i < scope->n; i++) {
        struct credit *credit = &scope->credits[i];
        credit_expire(credit, now);
        int64_t surplus = useless ? credit->units : credit_surplus(credit, now);
        bool returned = surplus > 0 && credit_return(credit, surplus, now) > 0;
        bool owed = credit->back > 0 || credit->debt > 0;
        rest->holds |= credit->units > 0 || owed;
        rest->sends |= returned || (owed && (useless || now - credit->unsent_since >= SEND_AFTER));
    }
}

void remote_blocks_tick(struct remote_blocks *blocks, tg_ms now)
{
    for (struct root *root = LIST_FIRST(&blocks->active), *next; root; root = next) {
        bool busy = root->flight || !TAILQ_EMPTY(&root->waiting) || root->returning;
        struct rest rest = {.holds = busy};
        struct scope *scope;
        next = LIST_NEXT(root, active);
        lease_ask_again(blocks, root, now);
        LIST_FOREACH(scope, &root->scopes, of_root)
            tidy_scope(scope, now, &rest);
        if (rest.sends)
            lease_ask(blocks, root, now);
        if (!rest.holds)
            book_deactivate(root);
    }
    book_sweep(blocks, now);
}

void remote_blocks_return(struct remote_blocks *blocks, tg_ms now, void (*done)(void *context),
                          void *context)
{
    blocks->returned = done;
    blocks->returned_context = context;
    blocks->n_returning = 1; /* this loop */
    for (struct root *root = LIST_FIRST(&blocks->active), *next; root; root = next) {
        next = LIST_NEXT(root, active);
        blocks_release(root, now);
        blocks->n_returning += !root->returning;
        root->returning = true;
        lease_ask_again(blocks, root, now);
        if (!root->returning)
            continue; /* the command in doubt was lost */
        lease_ask(blocks, root, now);
        if (!root->flight)
            blocks_returned(blocks, root);
    }
    if (--blocks->n_returning == 0 && done)
        done(context);
}
