/* remote_blocks_peek.c - what a call would be told, by units that are here and else by Redis. See
 * remote_blocks.h.
 *
 * A take that does not know asks for a block, and is then decided. A peek must not lease, so it
 * peeks at the state in Redis that the block would be charged to. What this node holds is charged
 * there already, and would look used up: so a limit that has enough here is not looked at there,
 * or, if another cannot be named there without it, refuses nothing. Of the cost it is only what is
 * missing here, and where limits that are enforced lack less than those in shadow, that. With
 * charging per axis cost may be refused here, if rate admits: that, too, is known here.
 */
#include "lib/core/num.h"
#include "server/remote_store/remote_blocks_internal.h"

/* What the units of a limit that are here lack for the call; 0: nothing. A take that lacks some
 * tells Redis first what comes back and what is owed. */
static int64_t missing(struct scope *scope, size_t i, int64_t cost, tg_ms now)
{
    struct credit *credit = &scope->credits[i];

    credit_expire(credit, now);
    int64_t lacks = num_less(blocks_units(&scope->given[i], cost), credit->units);
    return lacks > 0 ? num_less(num_add(lacks, credit->debt), credit->back) : 0;
}

/* Which limits of a scope are looked at in Redis: those that lack something, and those that are
 * counted in the names of these. */
static void choose(struct scope *scope, const struct tg_limit *called, int64_t cost, tg_ms now,
                   bool asked[TG_LIMITS_MAX])
{
    for (size_t i = scope->n; i-- > 0;) {
        asked[i] = missing(scope, i, cost, now) > 0;
        for (size_t k = i + 1; k < scope->n; k++)
            asked[i] |= asked[k] && limits_same_shape(&called[i], &called[k]);
    }
}

static void say_here(const struct blocks_peek *peek, size_t s, size_t i)
{
    const struct scope *scope = peek->view->scopes[s];
    struct tg_decision answer;

    credit_answer(&scope->credits[i], blocks_units(&scope->given[i], peek->view->cost), false,
                  peek->now, &answer);
    blocks_add_answer(peek->axes, scope->given[i].axis, s, i, answer);
}

/* `to` is the scope of that number as it is called in Redis, `from` are its limits: leaves what
 * Redis is to be looked at for, of the axes of `mask`, and says what is enough here. `lacks` is the
 * most of the cost that is missing, by mode, and `index` says which limits are left. */
static void divide(const struct blocks_peek *peek, size_t s, unsigned mask, struct remote_scope *to,
                   struct tg_limit *from, uint8_t index[], int64_t lacks[])
{
    struct scope *scope = peek->view->scopes[s];
    int64_t cost = peek->view->cost;
    bool asked[TG_LIMITS_MAX];

    choose(scope, from, cost, peek->now, asked);
    to->n = 0;
    for (size_t i = 0; i < scope->n; i++) {
        const struct tg_limit *given = &scope->given[i];
        int64_t less = missing(scope, i, cost, peek->now);
        if (!(mask & 1u << given->axis))
            continue;
        if (less == 0)
            say_here(peek, s, i);
        if (!asked[i])
            continue;
        index[to->n] = (uint8_t)i;
        from[to->n] = from[i];
        from[to->n++].mode = less == 0 ? TG_SHADOW : given->mode;
        if (given->axis == TG_AXIS_COST)
            lacks[given->mode] = num_max(lacks[given->mode], less);
    }
}

/* The same of a scope that is not known here: all of it is missing. */
static void ask_whole(int64_t cost, unsigned mask, struct remote_scope *to, struct tg_limit *from,
                      uint8_t index[], int64_t lacks[])
{
    size_t n = to->n;

    to->n = 0;
    for (size_t i = 0; i < n; i++) {
        if (!(mask & 1u << from[i].axis))
            continue;
        if (from[i].axis == TG_AXIS_COST)
            lacks[from[i].mode] = num_max(lacks[from[i].mode], cost);
        index[to->n] = (uint8_t)i;
        from[to->n++] = from[i];
    }
}

/* Whether a scope that is not known here has a limit that the call cannot be leased for. */
static bool is_new_scope_too_large(const struct remote_blocks *blocks,
                                   const struct remote_debit *debit, const struct claim_view *view,
                                   tg_ms now)
{
    struct tg_limit leased;
    struct credit credit;

    for (size_t s = 0; s < view->n; s++)
        for (size_t i = 0; view->scopes[s] == NULL && i < debit->scopes[s].n; i++) {
            const struct tg_limit *given = &debit->scopes[s].limits[i];
            credit_init(&credit, given, blocks->options.block, blocks->options.life, &leased, now);
            if (blocks_exceeds(&credit, blocks_units(given, view->cost)))
                return true;
        }
    return false;
}

/* The limits of which there is not enough here. */
static void find_rest(struct remote_blocks *blocks, const struct blocks_peek *peek,
                      struct remote_debit *rest, struct remote_blocks_rest *indices)
{
    bool no_cost = rest->charging == TG_CHARGE_PER_AXIS && blocks_verdict(peek, COST) == CREDIT_NO;
    int64_t lacks[] = {[TG_ENFORCE] = 0, [TG_SHADOW] = 0};
    size_t n = 0;

    for (size_t s = 0; s < peek->view->n; s++) {
        unsigned mask = no_cost ? RATE : RATE | COST;
        indices->scope[n] = (uint8_t)s;
        if (peek->view->scopes[s] == NULL)
            ask_whole(peek->view->cost, mask, &blocks->scopes[s], blocks->limits[s],
                      indices->limit[n], lacks);
        else
            divide(peek, s, mask, &blocks->scopes[s], blocks->limits[s], indices->limit[n], lacks);
        if (blocks->scopes[s].n > 0)
            blocks->scopes[n++] = blocks->scopes[s];
    }
    rest->n_scopes = n;
    rest->cost = lacks[TG_ENFORCE] > 0 ? lacks[TG_ENFORCE] : lacks[TG_SHADOW];
    if (no_cost)
        blocks_say(peek, COST, true);
}

/* Which scopes are known here; and their root, unless Redis decides the debit as it is. */
static const struct root *peek_root(const struct remote_blocks *blocks,
                                    const struct remote_debit *debit, tg_ms now,
                                    struct claim_view *view)
{
    const struct root *root = book_peek(blocks, debit, view);

    if (root == NULL || blocks_is_too_large(view) ||
        is_new_scope_too_large(blocks, debit, view, now))
        return NULL;
    return root;
}

bool remote_blocks_is_strict(const struct remote_blocks *blocks, const struct remote_debit *debit,
                             tg_ms now)
{
    struct claim_view view;

    return peek_root(blocks, debit, now, &view) == NULL;
}

enum tg_err remote_blocks_peek(struct remote_blocks *blocks, const struct remote_debit *debit,
                               tg_ms now, struct tg_axes *axes, struct remote_debit *rest,
                               struct remote_blocks_rest *indices)
{
    struct claim_view view;
    unsigned unused;

    *axes = (struct tg_axes){.present = 0};
    if (!num_in_range(debit->cost) || debit->n_scopes < 1 || debit->n_scopes > TG_SCOPES_MAX)
        return TG_ERR_INVALID;
    *rest = blocks_strict_debit(blocks, debit, now);
    const struct root *root = peek_root(blocks, debit, now, &view);
    for (size_t s = 0; s < TG_SCOPES_MAX; s++) {
        indices->scope[s] = (uint8_t)s;
        for (size_t i = 0; i < TG_LIMITS_MAX; i++)
            indices->limit[s][i] = (uint8_t)i;
    }
    if (root == NULL)
        return TG_OK;
    struct blocks_peek peek = {&view, now, false, axes};
    if (blocks_answer(&peek, &unused)) {
        rest->n_scopes = 0;
        return TG_OK;
    }
    if (root->flight != NULL && root->flight->is_late)
        return TG_ERR_STORE;
    find_rest(blocks, &peek, rest, indices);
    return TG_OK;
}

/* What is here of an axis was told as it is after the call: `back` units were not taken. */
static void join_axis(const struct tg_axes *here, enum tg_axis axis, int64_t back,
                      struct tg_axes *axes)
{
    struct tg_decision all = here->decision[axis];
    struct tg_limit_answer named = here->named[axis];

    if (!(here->present & 1u << axis))
        return;
    all.remaining = num_min(num_add(all.remaining, back), all.limit);
    named.decision.remaining =
        num_min(num_add(named.decision.remaining, back), named.decision.limit);
    axes_join(axes, axis, &all, &named);
}

/* If the call is refused, a limit is told as it stands; but with charging per axis rate is charged
 * before cost refuses, and cost not asked if rate does. */
void remote_blocks_join(const struct tg_axes *here, const struct remote_blocks_rest *indices,
                        enum tg_charging charging, int64_t cost, struct tg_axes *axes)
{
    bool per_axis = charging == TG_CHARGE_PER_AXIS;
    enum tg_axis binding = tg_axes_binding(axes);
    bool no_rate = binding != TG_AXIS_NONE && (!per_axis || binding == TG_AXIS_RATE);

    for (int axis = TG_AXIS_RATE; axis <= TG_AXIS_COST; axis++)
        if (axes->present & 1u << axis) {
            struct tg_limit_answer *named = &axes->named[axis];
            named->limit = indices->limit[named->scope][named->limit];
            named->scope = indices->scope[named->scope];
        }
    join_axis(here, TG_AXIS_RATE, no_rate ? 1 : 0, axes);
    if (per_axis && binding == TG_AXIS_RATE)
        return;
    axes->would_deny |= here->would_deny;
    join_axis(here, TG_AXIS_COST, binding != TG_AXIS_NONE ? cost : 0, axes);
}
