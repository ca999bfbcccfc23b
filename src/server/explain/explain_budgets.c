/* explain_budgets.c - every budget of a call, and the one that its refusal names. See explain.h. */
#include <stdio.h>
#include <string.h>

#include "lib/core/num.h"
#include "server/explain/explain_internal.h"

/* A budget on the way of the call, and what is used of it. */
struct budget_view {
    const char *scope, *name;
    const struct config_tenant *owner; /* null: everyone's */
    const struct config_budget *config;
    struct tg_budget_metrics at;
    struct tg_budget_metrics books; /* the same, as this gateway's own books have it */
    tg_account account;
};

struct budget_list {
    struct explanation *of;
    struct budget_view views[REMOTE_MONEY_VIEWS];
    size_t n;
};

static const struct config_budget *budget_config(const struct explanation *of,
                                                 const struct spending_account *account,
                                                 const struct config_tenant *owner, size_t i)
{
    const struct config_budget *list = owner == NULL ? of->config->budgets : owner->budgets;
    size_t n = owner == NULL ? of->config->n_budgets : owner->n_budgets;

    if (owner != NULL && account->user.size > 0) {
        list = owner->users.budgets;
        n = owner->users.n_budgets;
    } else if (owner != NULL && account->key != NULL) {
        list = of->key->own.budgets;
        n = of->key->own.n_budgets;
    }
    return i < n ? &list[i] : NULL;
}

static void add_account(void *context, const struct spending_account *account)
{
    struct budget_list *list = context;
    const struct explanation *of = list->of;
    const struct config_tenant *owner =
        account->tenant != NULL
            ? config_tenant(of->config, account->tenant, strlen(account->tenant))
            : NULL;

    for (size_t i = 0; i < account->n_budgets && list->n < REMOTE_MONEY_VIEWS; i++)
        list->views[list->n++] =
            (struct budget_view){.scope = account->tenant == NULL  ? "everyone"
                                          : account->user.size > 0 ? "user"
                                          : account->key != NULL   ? "key"
                                          : owner == of->tenant    ? "tenant"
                                                                   : "parent",
                                 .name = account->user.size > 0 ? of->asked.user
                                         : account->key != NULL ? of->key->name
                                         : owner != NULL        ? owner->name
                                                                : NULL,
                                 .owner = owner,
                                 .config = budget_config(of, account, owner, i),
                                 .at = account->budgets[i],
                                 .books = account->budgets[i],
                                 .account = account->number};
}

/* What all gateways have used, where the store has said so. */
static void join_views(const struct explain_visit *visit, struct budget_list *list)
{
    const struct remote_reservation_peek *said = &visit->money;

    for (size_t i = 0; i < list->n && said->n == list->n; i++) {
        list->views[i].at.amount = said->views[i].amount;
        list->views[i].at.settled = said->views[i].settled;
        list->views[i].at.outstanding = num_less(said->views[i].used, said->views[i].settled);
    }
}

static struct explain_limit *add_budget(struct explanation *of, const struct budget_view *view,
                                        tg_micro need)
{
    const struct config_budget *config = view->config;
    const struct tg_budget_metrics *budget = &view->at;
    struct explain_limit *limit = explain_add(of, "budget", view->scope, view->name);
    tg_micro used = num_add(budget->settled, budget->outstanding);
    char money[EXPLAIN_MONEY_MAX], topped[EXPLAIN_MONEY_MAX];

    if (limit == NULL)
        return NULL;
    explain_money(budget->amount, money);
    explain_money(config != NULL ? config->topped_up : 0, topped);
    snprintf(limit->what, sizeof limit->what, "%s per %s, %s%s%s%s", money,
             tg_per_name(budget->per), config != NULL ? config->tz : "UTC",
             config != NULL && config->topped_up > 0 ? ", topped up by " : "",
             config != NULL && config->topped_up > 0 ? topped : "",
             config != NULL && config->reserve == CONFIG_RESERVE_EXPECTED ? ", reserve expected"
                                                                          : "");
    if (view->owner != NULL)
        explain_place(view->owner, limit->source);
    else
        explain_from_section(of, limit, "budgets");
    limit->has_budget = true;
    /* Away from the store `at` is what this gateway may spend by itself: what that leaves is told,
     * beside what it knows of the budget. */
    limit->budget = explain_budgets_by(of) < REMOTE_LOCAL ? *budget : view->books;
    limit->configured = config;
    limit->unit = "micro_usd";
    limit->mode = budget->mode;
    limit->limit = (double)budget->amount;
    limit->remaining = used < budget->amount ? (double)(budget->amount - used) : 0;
    tg_ms wall = spending_time(of->gateway->spending, of->now);
    limit->reset_at = budget->end == TG_NUMBER_MAX ? 0 : budget->end;
    limit->refuses = used > budget->amount - need;
    limit->retry_after_ms = limit->reset_at > wall ? limit->reset_at - wall : 0;
    if (need > budget->amount)
        limit->retry_after_ms = TG_UNSATISFIABLE;
    return limit;
}

/* Which budget is named of those that refuse: the rules of tg_bank_reserve(). */
static void choose_budget(struct explanation *of, const struct budget_list *list, size_t from,
                          tg_micro need)
{
    tg_micro least = TG_MONEY_MAX;
    size_t binding = list->n;
    bool contended = false;

    for (size_t i = list->n; i-- > 0;) {
        const struct tg_budget_metrics *at = &list->views[i].at;
        if (at->mode == TG_SHADOW)
            continue;
        if (at->amount > 0) /* one of nothing is spent, whatever is asked */
            least = num_min(least, at->amount);
        if (!of->list[from + i].refuses)
            continue;
        bool waits = at->amount - at->settled >= need;
        bool spent_below = binding < list->n && !contended;
        if (waits && spent_below)
            continue;
        binding = i;
        contended = waits;
    }
    if (binding == list->n)
        return;
    struct explain_limit *limit = &of->list[from + binding];
    limit->named = true;
    limit->reason = reply_reason_name(need > least ? REPLY_REQUEST_EXCEEDS_LIMIT
                                      : contended  ? REPLY_BUDGET_CONTENDED
                                                   : REPLY_BUDGET);
}

/* What would fit, for people. */
static void say_what_fits(struct explanation *of, const struct explain_route *way,
                          struct explain_limit *limit)
{
    const struct quote_call asked = {.gateway = of->gateway,
                                     .tenant = of->tenant,
                                     .key = of->key,
                                     .route = way->route,
                                     .ask = &of->ask,
                                     .is_listed = of->is_listed};
    tg_micro money =
        (tg_micro)(limit->retry_after_ms == TG_UNSATISFIABLE ? limit->limit : limit->remaining);
    char text[64];

    if (of->asked.micro >= 0 || !estimate_has_output(of->ask.endpoint))
        return;
    int64_t fits = quote_affordable(&asked, &way->quote, money);
    if (fits < 1)
        return;
    snprintf(text, sizeof text, "max_tokens of %lld would fit", (long long)fits);
    explain_say_more(limit, text);
}

/* Every budget on the way of the call. False: there is no more room for limits, or no tenant. */
static bool list_budgets(struct explanation *of, tg_micro need, struct budget_list *list)
{
    const struct explain_visit *visit = of->visits;
    enum remote_mode mode = explain_budgets_by(of);

    if (spending_peek(of->gateway->spending, &of->money, of->now, add_account, list) != TG_OK)
        return false;
    if (visit != NULL && visit->money_err == TG_OK)
        join_views(visit, list);
    for (size_t i = 0; i < list->n; i++) {
        struct explain_limit *limit = add_budget(of, &list->views[i], need);
        if (limit == NULL)
            return false;
        if (mode == REMOTE_OPEN)
            limit->refuses = false;
        if (visit != NULL && mode == REMOTE_LOCAL)
            explain_say_more(limit, "this gateway's share, for the store is away");
    }
    return true;
}

void explain_budgets_list(struct explanation *of)
{
    struct budget_list list = {.of = of};

    list_budgets(of, 1, &list);
}

/* False: the call would not be paid for on this route. */
bool explain_budgets(struct explanation *of, const struct explain_route *way)
{
    tg_micro need = num_max(way->micro, 1);
    struct budget_list list = {.of = of};
    size_t from;

    if (!way->quoted)
        explain_add_refusal(of, &way->why, "model", way->route->config->name);
    from = of->n;
    if (of->visits != NULL && of->visits->money_err != TG_OK) {
        explain_closed(of, "what is left of budgets", "store_failure.budget",
                       of->config->store.budget);
        return false;
    }
    if (!list_budgets(of, need, &list))
        return true;
    choose_budget(of, &list, from, need);
    for (size_t i = from; i < of->n; i++)
        if (of->list[i].named) {
            say_what_fits(of, way, &of->list[i]);
            return false;
        }
    return way->quoted;
}
