/* remote_blocks.c - calls that are decided with what is here, and those that wait. See
 * remote_blocks.h.
 *
 * Looking and charging are those of store/claim.c, with a third answer beside yes and no: not
 * known here. A call of which any limit refuses is refused at once, for that is certain; else, if
 * one is not known, it waits for the root's next block, and is looked at again. Then what Redis
 * could not give is a no, so every landing decides somebody, and nobody waits for ever.
 */
#include "server/remote_store/remote_blocks.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/core/num.h"
#include "server/remote_store/remote_blocks_internal.h"

/* ---- looking ---- */

enum credit_verdict blocks_verdict(const struct blocks_peek *peek, unsigned mask)
{
    enum credit_verdict all = CREDIT_YES;

    for (size_t s = 0; s < peek->view->n; s++) {
        struct scope *scope = peek->view->scopes[s];
        if (scope == NULL)
            all = CREDIT_UNKNOWN;
        for (size_t i = 0; scope != NULL && i < scope->n; i++) {
            const struct tg_limit *limit = &scope->given[i];
            int64_t units = blocks_units(limit, peek->view->cost);
            if (!(mask & 1u << limit->axis) || units == 0)
                continue;
            credit_expire(&scope->credits[i], peek->now);
            enum credit_verdict one =
                credit_peek(&scope->credits[i], units, peek->now, peek->final);
            if (one == CREDIT_NO && limit->mode == TG_ENFORCE)
                return CREDIT_NO;
            if (one == CREDIT_UNKNOWN)
                all = CREDIT_UNKNOWN;
        }
    }
    return all;
}

void blocks_say(const struct blocks_peek *peek, unsigned mask, bool refused)
{
    struct tg_axes *axes = peek->axes;

    for (size_t s = 0; s < peek->view->n; s++) {
        struct scope *scope = peek->view->scopes[s];
        for (size_t i = 0; scope != NULL && i < scope->n; i++) {
            const struct tg_limit *limit = &scope->given[i];
            struct credit *credit = &scope->credits[i];
            int64_t units = blocks_units(limit, peek->view->cost);
            struct tg_decision answer;
            if (!(mask & 1u << limit->axis))
                continue;
            bool no = units > 0 && credit_peek(credit, units, peek->now, peek->final) == CREDIT_NO;
            if (no && limit->mode == TG_SHADOW) {
                axes->would_deny |= 1u << limit->axis;
                continue;
            }
            credit_answer(credit, no ? units : refused ? 0 : units, no, peek->now, &answer);
            blocks_add_answer(axes, limit->axis, s, i, answer);
        }
    }
}

static void charge_all(const struct blocks_peek *peek, unsigned mask,
                       struct remote_blocks_charge *charge)
{
    for (size_t s = 0; s < peek->view->n; s++) {
        struct scope *scope = peek->view->scopes[s];
        for (size_t i = 0; i < scope->n; i++) {
            const struct tg_limit *limit = &scope->given[i];
            int64_t units = blocks_units(limit, peek->view->cost);
            if (!(mask & 1u << limit->axis) || units == 0)
                continue;
            if (units <= scope->credits[i].units)
                charge->leased_at =
                    num_min(charge->leased_at, credit_spend(&scope->credits[i], units));
            else /* in shadow, and it would have refused */
                charge->charge.uncharged[s] |= (uint8_t)(1u << i);
        }
    }
}

/* Rate has refused, and cost is not asked: see peek_hints() in store/claim.c. What is not known
 * here is not waited for. */
static void blocks_hints(const struct blocks_peek *peek)
{
    struct tg_axes hints, *axes = peek->axes;
    const struct blocks_peek cost = {peek->view, peek->now, peek->final, &hints};

    axes_clear(&hints);
    if (blocks_verdict(peek, COST) != CREDIT_UNKNOWN)
        blocks_say(&cost, COST, true);
    if (!(hints.present & COST))
        return;
    axes->reset_at =
        num_max(axes->decision[TG_AXIS_RATE].reset_at, hints.decision[TG_AXIS_COST].reset_at);
    axes->retry_after_ms = num_max(axes->decision[TG_AXIS_RATE].retry_after_ms,
                                   hints.decision[TG_AXIS_COST].retry_after_ms);
}

/* Cost has refused, and rate has been charged: see peek_rate_hints() in store/claim.c. What Redis
 * may still have is not waited for. */
static void blocks_rate_hints(const struct blocks_peek *peek)
{
    struct tg_axes hints, *axes = peek->axes;
    const struct blocks_peek rate = {peek->view, peek->now, false, &hints};

    if (blocks_verdict(&rate, RATE) != CREDIT_NO)
        return;
    axes_clear(&hints);
    blocks_say(&rate, RATE, true);
    axes->reset_at =
        num_max(axes->decision[TG_AXIS_RATE].reset_at, axes->decision[TG_AXIS_COST].reset_at);
    axes->retry_after_ms = num_max(hints.decision[TG_AXIS_RATE].retry_after_ms,
                                   axes->decision[TG_AXIS_COST].retry_after_ms);
}

bool blocks_answer(const struct blocks_peek *peek, unsigned *charged)
{
    bool per_axis = peek->view->charging == TG_CHARGE_PER_AXIS;
    unsigned mask = per_axis ? RATE : RATE | COST;
    enum credit_verdict first = blocks_verdict(peek, mask), second = CREDIT_YES;

    if (per_axis && first == CREDIT_YES)
        second = blocks_verdict(peek, COST);
    if (first == CREDIT_UNKNOWN || second == CREDIT_UNKNOWN)
        return false;
    axes_clear(peek->axes);
    *charged = 0;
    blocks_say(peek, mask, first == CREDIT_NO);
    if (first == CREDIT_NO) {
        if (per_axis)
            blocks_hints(peek);
        return true;
    }
    if (per_axis)
        blocks_say(peek, COST, second == CREDIT_NO);
    *charged = second == CREDIT_NO ? RATE : RATE | COST;
    return true;
}

/* False: it is not known. Else axes and charge have the answer. */
static bool remote_blocks_decide(const struct blocks_peek *peek,
                                 struct remote_blocks_charge *charge)
{
    unsigned charged;

    if (!blocks_answer(peek, &charged))
        return false;
    *charge = (struct remote_blocks_charge){.strict = false};
    charge->charge.at = root_time(peek->view->scopes[0]->root, peek->now);
    charge->leased_at = charge->charge.at;
    charge_all(peek, charged, charge);
    if (charged == RATE)
        blocks_rate_hints(peek);
    return true;
}

/* ---- asks ---- */

static struct remote_blocks_ask *get_ask(struct remote_blocks *blocks,
                                         remote_blocks_decided *decided, void *context)
{
    struct remote_blocks_ask *ask = SLIST_FIRST(&blocks->spare_asks);

    if (ask)
        SLIST_REMOVE_HEAD(&blocks->spare_asks, spare);
    else if (!(ask = malloc(sizeof *ask)))
        return NULL;
    ask->blocks = blocks;
    ask->root = NULL;
    ask->strict = NULL;
    ask->is_marked = false;
    ask->view.n = 0;
    ask->decided = decided;
    ask->context = context;
    return ask;
}

static void put_ask(struct remote_blocks_ask *ask)
{
    for (size_t i = 0; i < ask->view.n; i++) {
        assert(ask->view.scopes[i]->pins > 0);
        ask->view.scopes[i]->pins--;
    }
    SLIST_INSERT_HEAD(&ask->blocks->spare_asks, ask, spare);
}

static struct remote_blocks_ask *wait(struct remote_blocks *blocks, const struct claim_view *view,
                                      remote_blocks_decided *decided, void *context)
{
    struct remote_blocks_ask *ask = get_ask(blocks, decided, context);

    if (!ask)
        return NULL;
    ask->view = *view;
    for (size_t i = 0; i < view->n; i++) {
        assert(view->scopes[i]->root == view->scopes[0]->root); /* one slot, one command */
        view->scopes[i]->pins++;
    }
    ask->root = view->scopes[0]->root;
    TAILQ_INSERT_TAIL(&ask->root->waiting, ask, waiting);
    blocks->stats.waited++;
    return ask;
}

/* ---- landing ----
 *
 * decided() may take and cancel whatever it likes, so those who are to be looked at are marked, and
 * the first that still is one is looked for again after each. */

static void mark_all(struct root *root)
{
    struct remote_blocks_ask *ask;

    TAILQ_FOREACH(ask, &root->waiting, waiting)
        ask->is_marked = true;
}

static struct remote_blocks_ask *next_marked(struct root *root)
{
    struct remote_blocks_ask *ask = TAILQ_FIRST(&root->waiting);

    while (ask && !ask->is_marked)
        ask = TAILQ_NEXT(ask, waiting);
    if (ask)
        ask->is_marked = false;
    return ask;
}

static void end_ask(struct remote_blocks_ask *ask, enum tg_err err, const struct tg_axes *axes,
                    const struct remote_blocks_charge *charge)
{
    remote_blocks_decided *decided = ask->decided;
    void *context = ask->context;

    put_ask(ask);
    decided(context, err, axes, charge);
}

void blocks_late(struct root *root)
{
    struct remote_blocks_ask *ask;

    mark_all(root);
    while ((ask = next_marked(root)) != NULL) {
        TAILQ_REMOVE(&root->waiting, ask, waiting);
        end_ask(ask, TG_ERR_STORE, NULL, NULL);
    }
}

static void decide_waiting(struct remote_blocks *blocks, struct root *root, tg_ms now)
{
    struct remote_blocks_charge charge;
    struct remote_blocks_ask *ask;
    struct tg_axes axes;

    mark_all(root);
    while ((ask = next_marked(root)) != NULL) {
        struct blocks_peek peek = {&ask->view, now, true, &axes};
        if (!remote_blocks_decide(&peek, &charge))
            continue;
        TAILQ_REMOVE(&root->waiting, ask, waiting);
        blocks->stats.decisions++;
        root->decided++;
        end_ask(ask, TG_OK, &axes, &charge);
    }
}

void blocks_returned(struct remote_blocks *blocks, struct root *root)
{
    assert(root->returning && blocks->n_returning > 0);
    root->returning = false;
    if (--blocks->n_returning == 0 && blocks->returned)
        blocks->returned(blocks->returned_context);
}

void blocks_release(struct root *root, tg_ms now)
{
    struct scope *scope;

    LIST_FOREACH(scope, &root->scopes, of_root)
        for (size_t i = 0; i < scope->n; i++)
            credit_return(&scope->credits[i], scope->credits[i].units, now);
}

static bool owes(const struct root *root)
{
    const struct scope *scope;

    LIST_FOREACH(scope, &root->scopes, of_root)
        for (size_t i = 0; i < scope->n; i++)
            if (scope->credits[i].back > 0 || scope->credits[i].debt > 0)
                return true;
    return false;
}

void blocks_landed(struct remote_blocks *blocks, struct root *root, bool fine, tg_ms now)
{
    if (fine)
        decide_waiting(blocks, root, now);
    else
        blocks_late(root);
    if (root->returning)
        blocks_release(root, now);
    if (!TAILQ_EMPTY(&root->waiting) || (fine && root->returning && owes(root)))
        lease_ask(blocks, root, now);
    if (root->returning && !root->flight)
        blocks_returned(blocks, root);
}

/* ---- what cannot be leased ---- */

bool blocks_exceeds(const struct credit *credit, int64_t units)
{
    return units > credit->most && (units <= credit->limit || credit->most == 0);
}

bool blocks_is_too_large(const struct claim_view *view)
{
    for (size_t s = 0; s < view->n; s++) {
        const struct scope *scope = view->scopes[s];
        for (size_t i = 0; scope != NULL && i < scope->n; i++)
            if (blocks_exceeds(&scope->credits[i], blocks_units(&scope->given[i], view->cost)))
                return true;
    }
    return false;
}

struct remote_debit blocks_strict_debit(struct remote_blocks *blocks,
                                        const struct remote_debit *debit, tg_ms now)
{
    const struct remote_blocks_options *options = &blocks->options;
    struct remote_debit strict = *debit;
    struct credit credit;

    for (size_t s = 0; s < debit->n_scopes && s < TG_SCOPES_MAX; s++) {
        blocks->scopes[s] = debit->scopes[s];
        blocks->scopes[s].limits = blocks->limits[s];
        for (size_t i = 0; i < debit->scopes[s].n && i < TG_LIMITS_MAX; i++)
            credit_init(&credit, &debit->scopes[s].limits[i], options->block, options->life,
                        &blocks->limits[s][i], now);
    }
    strict.scopes = blocks->scopes;
    return strict;
}

static void strictly_decided(void *context, enum tg_err err, const struct tg_axes *axes,
                             const struct remote_charge *charge)
{
    struct remote_blocks_ask *ask = context;
    struct remote_blocks_charge strict = {.strict = true};

    assert(ask->strict != NULL && ask->root == NULL);
    if (charge)
        strict.charge = *charge;
    end_ask(ask, err, axes, &strict);
}

static struct remote_blocks_ask *ask_strictly(struct remote_blocks *blocks,
                                              const struct remote_debit *debit, tg_ms now,
                                              remote_blocks_decided *decided, void *context)
{
    struct remote_debit strict = blocks_strict_debit(blocks, debit, now);
    struct remote_blocks_ask *ask = get_ask(blocks, decided, context);

    if (!ask)
        return NULL;
    ask->strict = remote_limits_take(blocks->options.limits, &strict, now, strictly_decided, ask);
    if (ask->strict) {
        blocks->stats.strict++;
        return ask;
    }
    put_ask(ask);
    return NULL;
}

/* ---- taking ---- */

static void note_demand(const struct claim_view *view, tg_ms now)
{
    for (size_t s = 0; s < view->n; s++)
        for (size_t i = 0; i < view->scopes[s]->n; i++)
            credit_note(&view->scopes[s]->credits[i],
                        blocks_units(&view->scopes[s]->given[i], view->cost), now);
}

static bool any_low(const struct claim_view *view, tg_ms now)
{
    for (size_t s = 0; s < view->n; s++)
        for (size_t i = 0; i < view->scopes[s]->n; i++)
            if (credit_is_low(&view->scopes[s]->credits[i], now))
                return true;
    return false;
}

struct remote_blocks_ask *remote_blocks_take(struct remote_blocks *blocks,
                                             const struct remote_debit *debit, tg_ms now,
                                             remote_blocks_decided *decided, void *context,
                                             struct tg_axes *axes,
                                             struct remote_blocks_charge *charge, enum tg_err *err)
{
    struct claim_view view;
    struct remote_blocks_ask *ask;

    *err = book_find(blocks, debit, now, &view);
    if (*err == TG_ERR_FULL || (*err == TG_OK && blocks_is_too_large(&view))) {
        ask = ask_strictly(blocks, debit, now, decided, context);
        *err = ask ? TG_OK : TG_ERR_MEMORY;
        return ask;
    }
    if (*err)
        return NULL;
    struct root *root = view.scopes[0]->root;
    struct blocks_peek peek = {&view, now, false, axes};
    note_demand(&view, now);
    if (remote_blocks_decide(&peek, charge)) {
        blocks->stats.decisions++;
        root->decided++;
        if (!root->flight && any_low(&view, now))
            lease_ask(blocks, root, now);
        return NULL;
    }
    if (root->flight && root->flight->is_late) {
        *err = TG_ERR_STORE;
        return NULL;
    }
    /* A root that leases again no longer returns its units. */
    if (root->returning)
        blocks_returned(blocks, root);
    ask = wait(blocks, &view, decided, context);
    if (ask)
        lease_ask(blocks, root, now);
    if (ask && root->flight)
        return ask;
    /* Without a command in flight nobody would wake it. */
    if (ask)
        remote_blocks_cancel(ask);
    *err = TG_ERR_MEMORY;
    return NULL;
}

void remote_blocks_cancel(struct remote_blocks_ask *ask)
{
    if (ask->strict)
        remote_limits_cancel(ask->strict);
    else
        TAILQ_REMOVE(&ask->root->waiting, ask, waiting);
    put_ask(ask);
}

/* ---- the object ---- */

void remote_blocks_options_init(struct remote_blocks_options *options)
{
    *options = (struct remote_blocks_options){
        .prefix = "tg", .block = 100, .life = 2000, .max_scopes = 65536};
}

enum tg_err remote_blocks_new(const struct remote_blocks_options *options,
                              struct remote_blocks **made)
{
    struct remote_blocks *blocks = calloc(1, sizeof *blocks);

    if (!blocks)
        return TG_ERR_MEMORY;
    blocks->options = *options;
    blocks->holders = 1;
    blocks->seed = options->seed;
    int n = snprintf(blocks->prefix, sizeof blocks->prefix, "%s", options->prefix);
    int m = snprintf(blocks->holder, sizeof blocks->holder, "%s",
                     options->holder ? options->holder : "");
    if (n >= (int)sizeof blocks->prefix || m >= (int)sizeof blocks->holder || options->block < 1 ||
        options->life < 1) {
        free(blocks);
        return TG_ERR_INVALID;
    }
    *made = blocks;
    return TG_OK;
}

void remote_blocks_free(struct remote_blocks *blocks)
{
    if (!blocks)
        return;
    for (struct remote_blocks_ask *ask = SLIST_FIRST(&blocks->spare_asks), *next; ask; ask = next) {
        next = SLIST_NEXT(ask, spare);
        free(ask);
    }
    for (struct flight *flight = SLIST_FIRST(&blocks->spare_flights), *next; flight;
         flight = next) {
        next = SLIST_NEXT(flight, spare);
        free(flight);
    }
    book_fini(blocks);
    free(blocks->said);
    free(blocks);
}

void remote_blocks_set_holders(struct remote_blocks *blocks, size_t n)
{
    blocks->holders = n > 0 && n < 1000000 ? (int64_t)n : 1;
}

void remote_blocks_get_stats(const struct remote_blocks *blocks, struct remote_blocks_stats *stats)
{
    *stats = blocks->stats;
    stats->scopes = blocks->scope_table.n;
}
