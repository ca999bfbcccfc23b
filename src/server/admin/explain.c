/* explain.c - every stage that a call has to clear. See explain.h.
 *
 * One function a stage, in the order of the stages; each adds what it finds to a list, which is
 * then written. What is off, or not configured, adds nothing.
 */
#include "server/admin/explain.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/core/num.h"
#include "server/admin/admin_internal.h"
#include "server/admin/explain_internal.h"
#include "server/admin/snapshot_internal.h"

enum { KEYS_AT_ONCE = 64 };

/* ---- adding ---- */

/* Null: the list is full. */
static struct explain_limit *explain_add(struct explanation *of, const char *stage,
                                         const char *scope, const char *name)
{
    struct explain_limit *limit;

    if (of->n == EXPLAIN_LIMITS_MAX)
        return NULL;
    limit = &of->list[of->n++];
    *limit = (struct explain_limit){.stage = stage,
                                    .reason = stage,
                                    .scope = scope,
                                    .name = name,
                                    .unit = "calls",
                                    .limit = EXPLAIN_UNKNOWN,
                                    .remaining = EXPLAIN_UNKNOWN};
    return limit;
}

/* A section of the file itself. */
static void from_section(const struct explanation *of, struct explain_limit *limit,
                         const char *section)
{
    const char *file = of->config->n_sources > 0 ? of->config->sources[0].path : "";

    snprintf(limit->source, sizeof limit->source, "%.300s%s%.90s", file, *file != '\0' ? ": " : "",
             section);
}

static enum tg_mode mode_of(enum config_mode mode)
{
    return mode == CONFIG_SHADOW ? TG_SHADOW : TG_ENFORCE;
}

static const char *scope_of(const struct explanation *of, const struct config_tenant *tenant)
{
    return tenant == of->tenant ? "tenant" : "parent";
}

/* A stage of which there is nothing to say but that it refuses. */
static void add_refusal(struct explanation *of, const struct refusal *why, const char *scope,
                        const char *name)
{
    struct explain_limit *limit = explain_add(of, reply_reason_name(why->reason), scope, name);

    if (limit == NULL)
        return;
    snprintf(limit->what, sizeof limit->what, "%.150s", why->text);
    explain_place(of->tenant, limit->source);
    limit->unit = "call";
    limit->refuses = true;
}

/* ---- before the body ---- */

static void explain_drain(struct explanation *of)
{
    struct refusal why;

    if (!atomic_load_explicit(&of->gateway->draining, memory_order_relaxed))
        return;
    refusal_init(&why, REPLY_SHUTTING_DOWN, "the gateway drains, and takes no more calls");
    add_refusal(of, &why, "gate", NULL);
}

static void explain_user(struct explanation *of)
{
    const struct config_users *users = &of->tenant->users;
    const char *user = of->asked.user;
    struct tenant_share *share = of->generation->shares[of->tenant_number];
    struct refusal why;

    if (!users->present || (user == NULL && !users->required))
        return;
    if (user == NULL) {
        refusal_init(&why, REPLY_INVALID_REQUEST, "no user: calls must name theirs in %.60s",
                     users->header);
        add_refusal(of, &why, "tenant", of->tenant->name);
        return;
    }
    if (strlen(user) > LEDGER_NAME_MAX) {
        refusal_init(&why, REPLY_INVALID_REQUEST, "the user's name has more than %d bytes",
                     LEDGER_NAME_MAX);
        add_refusal(of, &why, "user", user);
        return;
    }
    struct explain_limit *limit = explain_add(of, "user_limit", "tenant", of->tenant->name);
    if (limit == NULL)
        return;
    snprintf(limit->what, sizeof limit->what, "%lld users a day (UTC)", (long long)users->max);
    explain_place(of->tenant, limit->source);
    limit->unit = "users";
    limit->limit = (double)users->max;
    limit->refuses =
        !user_census_peek(&share->users, slice_of(user), users->max, of->gateway->seed, of->now);
    limit->reset_at = limit->refuses ? user_census_until(of->now) : 0;
}

static void explain_memory(struct explanation *of, const struct tg_answer *said)
{
    const struct config_memory *config = &of->config->gate.memory;
    const double bounds[] = {[TG_PRIORITY_HIGH] = config->limit,
                             [TG_PRIORITY_NORMAL] = config->critical,
                             [TG_PRIORITY_LOW] = config->pressure};
    struct explain_limit *limit =
        config->present ? explain_add(of, "memory_pressure", "gate", NULL) : NULL;
    struct tg_gate_stats stats;

    if (limit == NULL)
        return;
    tg_gate_get_stats(of->gateway->gate, &stats);
    from_section(of, limit, "gate.memory");
    snprintf(limit->what, sizeof limit->what,
             "low is refused above %g%% of memory, normal above %g%%, all above %g%%",
             100 * config->pressure, 100 * config->critical, 100 * config->limit);
    limit->unit = "ratio";
    limit->mode = mode_of(config->mode);
    limit->limit = bounds[of->gate_call.priority];
    limit->refuses = said->reason == TG_REASON_MEMORY_PRESSURE ||
                     said->would_deny & 1u << TG_REASON_MEMORY_PRESSURE;
    limit->retry_after_ms = 100;
    if (!isnan(stats.memory_used))
        limit->remaining = stats.memory_used < limit->limit ? limit->limit - stats.memory_used : 0;
}

static void explain_peer(struct explanation *of)
{
    const struct config_peers *config = &of->config->gate.peers;
    const struct tg_call *call = &of->gate_call;
    int64_t most = call->peer_limit > 0 ? call->peer_limit : config->limit;
    const struct config_tenant *owner = config_tenant(of->config, call->peer, call->peer_bytes);

    if (call->peer_limit == 0 && !config->present)
        return;
    struct explain_limit *limit =
        explain_add(of, "peer_limit", owner != NULL ? scope_of(of, owner) : "gate",
                    owner != NULL ? owner->name : NULL);
    if (limit == NULL)
        return;
    if (call->peer_limit > 0 && owner != NULL)
        explain_place(owner, limit->source);
    else
        from_section(of, limit, "gate.peers");
    limit->mode = call->peer_limit > 0 ? call->peer_mode : mode_of(config->mode);
    snprintf(limit->what, sizeof limit->what, "%lld calls of one peer at once", (long long)most);
    int64_t calls = tg_gate_peer_calls(of->gateway->gate, call->peer, call->peer_bytes);
    limit->limit = (double)most;
    limit->remaining = calls < most ? (double)(most - calls) : 0;
    limit->refuses = calls >= most;
    limit->retry_after_ms = 100;
}

/* ---- the model ---- */

static void explain_patterns(struct explanation *of)
{
    const struct config_names *models = &of->tenant->models;
    bool refuses = !of->has_route && of->no_route.reason == REPLY_MODEL_NOT_ALLOWED;
    size_t used = 0;

    if (models->n == 0 && !refuses)
        return;
    struct explain_limit *limit = explain_add(of, "model_not_allowed", "tenant", of->tenant->name);
    if (limit == NULL)
        return;
    used += (size_t)snprintf(limit->what, sizeof limit->what, "models");
    for (size_t i = 0; i < models->n && used < sizeof limit->what; i++)
        used += (size_t)snprintf(limit->what + used, sizeof limit->what - used, " %s",
                                 models->names[i]);
    explain_place(of->tenant, limit->source);
    limit->unit = "model";
    limit->refuses = refuses;
}

/* What its rules say of the fields that the question has. */
static void explain_rules(struct explanation *of)
{
    struct rule_owner owners[RULE_OWNERS_MAX];
    const struct config_model *model = of->n_routes > 0 ? of->routes[0].route->config : NULL;
    size_t n = config_rule_owners(of->config, of->tenant_number, model, owners), rules = 0;
    bool refuses = !of->has_route && of->no_route.reason != REPLY_MODEL_NOT_ALLOWED;

    for (size_t i = 0; i < n; i++)
        rules += owners[i].rules->n;
    if (rules == 0 && !refuses)
        return;
    struct explain_limit *limit =
        explain_add(of, refuses ? reply_reason_name(of->no_route.reason) : "field_rule", "tenant",
                    of->tenant->name);
    if (limit == NULL)
        return;
    if (refuses)
        snprintf(limit->what, sizeof limit->what, "%.150s", of->no_route.text);
    else
        snprintf(limit->what, sizeof limit->what, "%zu rules for fields and headers", rules);
    explain_place(of->tenant, limit->source);
    limit->unit = "rules";
    limit->refuses = refuses;
}

/* ---- concurrency ---- */

static struct explain_limit *explain_slots(struct explanation *of, struct tg_gate *gate,
                                           const struct tg_answer *said, const char *scope,
                                           const char *name,
                                           const struct config_concurrency *config,
                                           const char *section)
{
    struct explain_limit *limit = explain_add(of, "concurrency", scope, name);
    struct tg_gate_stats stats;
    struct tg_law_metrics law;

    if (limit == NULL)
        return NULL;
    tg_gate_get_stats(gate, &stats);
    tg_gate_get_law(gate, &law);
    from_section(of, limit, section);
    limit->mode = mode_of(config->mode);
    if (!config_law_learns(law.law))
        snprintf(limit->what, sizeof limit->what, "law %s, %lld calls at once",
                 tg_law_name(law.law), (long long)law.limit);
    else
        snprintf(limit->what, sizeof limit->what, "law %s, learns, from %lld to %lld calls at once",
                 tg_law_name(law.law), (long long)law.min, (long long)law.max);
    limit->waits = said->step == TG_WAITING;
    limit->refuses =
        said->reason == TG_REASON_CONCURRENCY || said->would_deny & 1u << TG_REASON_CONCURRENCY;
    if (said->reason == TG_REASON_CONCURRENCY)
        limit->retry_after_ms = said->decision.retry_after_ms;
    if (stats.limit == TG_NUMBER_MAX)
        return limit;
    limit->limit = (double)stats.limit;
    limit->remaining = stats.in_flight < stats.limit ? (double)(stats.limit - stats.in_flight) : 0;
    return limit;
}

/* The slots of a route. False: they refuse the call. */
static bool explain_route_slots(struct explanation *of, const struct route *route)
{
    const struct config_model *model = route->config;
    const struct tg_call *gate_call = &of->gate_call;
    char section[EXPLAIN_PLACE_MAX];
    struct tg_answer said;
    struct tg_call call;

    tg_call_init(&call);
    call.priority = gate_call->priority;
    call.tenant = gate_call->tenant;
    call.tenant_bytes = gate_call->tenant_bytes;
    call.weight = gate_call->weight;
    call.size = gate_call->size;
    call.hold_s = gate_call->hold_s;
    if (tg_gate_peek(route->slots->gate, &call, of->now, &said) != TG_OK)
        return true;
    snprintf(section, sizeof section, "models.%.200s.concurrency",
             model->name != NULL ? model->name : "*");
    explain_slots(of, route->slots->gate, &said, "model", model->name, &model->concurrency,
                  section);
    return said.reason == TG_REASON_NONE;
}

/* ---- policy ---- */

static void explain_policy(struct explanation *of)
{
    struct tg_policy *policy =
        of->generation->policy != NULL ? of->generation->policy->policy : NULL;
    struct tg_duals duals;

    struct explain_limit *limit = policy != NULL ? explain_add(of, "policy", "gate", NULL) : NULL;
    if (limit == NULL)
        return;
    tg_bid_get_duals(policy, &duals);
    from_section(of, limit, "gate.policy");
    double bid = duals.rate + duals.cost * (double)of->gate_call.debit.cost +
                 duals.concurrency * of->gate_call.hold_s;
    limit->mode = mode_of(of->config->gate.policy.mode);
    limit->unit = "value";
    snprintf(limit->what, sizeof limit->what, "bid price %.6g, the call is worth %.6g", bid,
             of->gate_call.value);
    limit->limit = bid;
    limit->remaining = of->gate_call.value > bid ? of->gate_call.value - bid : 0;
    limit->refuses = of->gate_call.value < bid * (1 - 1e-9);
}

/* ---- rate and cost ---- */

static void name_origin(const struct explanation *of, const struct tg_scope *scope,
                        struct explain_limit *limit)
{
    struct scopes_origin origin;
    char inner[EXPLAIN_WHAT_MAX];

    if (!scopes_origin(of->generation->scopes, of->tenant, scope->limits, &origin))
        return;
    limit->scope = origin.what == SCOPES_USERS ? "user" : scope_of(of, origin.tenant);
    limit->name = origin.what == SCOPES_USERS ? of->asked.user : origin.tenant->name;
    explain_place(origin.tenant, limit->source);
    if (origin.what == SCOPES_DEFAULTS)
        from_section(of, limit,
                     strcmp(limit->stage, "rate") == 0 ? "gate.rate (default)"
                                                       : "gate.cost (default)");
    if (origin.what == SCOPES_LINE) {
        memcpy(inner, limit->what, sizeof inner);
        snprintf(limit->what, sizeof limit->what, "limits[%zu]: %.130s", origin.line, inner);
    }
}

/* A limit of the file, without what is known of its state. */
static struct explain_limit *add_limiter(struct explanation *of, const struct tg_scope *scope,
                                         enum tg_axis axis, enum tg_mode mode,
                                         const struct tg_limiter_config *config)
{
    bool is_rate = axis == TG_AXIS_RATE;
    struct explain_limit *limit =
        explain_add(of, is_rate ? "rate" : "cost", "tenant", of->tenant->name);

    if (limit == NULL)
        return NULL;
    explain_limiter(config, limit->what);
    name_origin(of, scope, limit);
    limit->unit = is_rate ? "calls" : "tokens";
    limit->mode = mode;
    return limit;
}

/* `left` is what is left now. */
static void set_decision(const struct explanation *of, const struct tg_decision *said, int64_t left,
                         struct explain_limit *limit)
{
    limit->limit = (double)said->limit;
    limit->remaining = (double)left;
    limit->reset_at = clock_wall_of(&of->gateway->clock, said->reset_at);
    limit->refuses = !said->allowed;
    limit->retry_after_ms = said->retry_after_ms;
}

static void say_more(struct explain_limit *limit, const char *text)
{
    size_t n = strlen(limit->what);

    snprintf(limit->what + n, sizeof limit->what - n, "; %s", text);
}

/* By the gateway's own store: all there is, or its share. */
static void explain_axis_here(struct explanation *of, enum tg_axis axis, const char *whose)
{
    struct tg_limit_metrics limits[TG_LIMITS_MAX];
    struct tg_debit charged = of->gate_call.debit;

    charged.cost = of->expectation.charge;
    for (size_t i = 0; i < charged.n_scopes; i++) {
        size_t n = tg_store_peek_scope(of->gateway->store, &charged, i, of->now, limits);
        for (size_t k = 0; k < n; k++) {
            struct explain_limit *limit =
                limits[k].axis == axis
                    ? add_limiter(of, &of->room[i], axis, limits[k].mode, &limits[k].config)
                    : NULL;
            if (limit == NULL)
                continue;
            set_decision(of, &limits[k].decision, limits[k].decision.remaining, limit);
            if (whose != NULL)
                say_more(limit, whose);
        }
    }
}

/* The limit of a set that the answer for an axis is about, as far as that can be told. */
static bool is_spoken_of(const struct limit_listed *set, size_t k, const struct tg_axes *axes)
{
    enum tg_axis axis = set->limits[k].axis;
    int64_t units = axes->decision[axis].limit;
    size_t alike = 0;

    if (!(axes->present & 1u << axis))
        return false;
    for (size_t i = 0; i < set->n; i++)
        alike += set->limits[i].axis == axis;
    const struct tg_limiter_config *config = &set->limits[k].limiter.config;
    return alike == 1 ||
           units ==
               (config->strategy == TG_GCRA && config->burst > 0 ? config->burst : config->limit);
}

/* By what the store has said, scope by scope. */
static void explain_axis_there(struct explanation *of, enum tg_axis axis,
                               const struct explain_visit *visit)
{
    int64_t units = axis == TG_AXIS_RATE ? 1 : of->expectation.charge;

    for (size_t i = 0; i < of->gate_call.debit.n_scopes; i++) {
        const struct limit_listed *set = &of->generation->listing->sets[of->room[i].limits];
        const struct explain_question *question = &visit->questions[1 + i];
        for (size_t k = 0; k < set->n; k++) {
            const struct tg_limit *from = &set->limits[k];
            struct explain_limit *limit =
                from->axis == axis
                    ? add_limiter(of, &of->room[i], axis, from->mode, &from->limiter.config)
                    : NULL;
            if (limit == NULL || question->err != TG_OK || !is_spoken_of(set, k, &question->axes))
                continue;
            const struct tg_decision *said = &question->axes.decision[axis];
            set_decision(of, said,
                         said->allowed ? num_min(num_add(said->remaining, units), said->limit)
                                       : said->remaining,
                         limit);
        }
    }
}

/* The whole debit was asked about at once: that is what counts. Between it and the questions about
 * single scopes a moment may have passed. */
static void agree_with(struct explanation *of, enum tg_axis axis, size_t from,
                       const struct tg_axes *axes)
{
    bool refused = axes->present & 1u << axis && !axes->decision[axis].allowed, found = false;
    struct explain_limit *first = NULL;

    for (size_t i = from; i < of->n; i++) {
        struct explain_limit *limit = &of->list[i];
        if (limit->mode == TG_SHADOW)
            continue;
        limit->refuses = limit->refuses && refused;
        found = found || limit->refuses;
        if (first == NULL)
            first = limit;
    }
    if (refused && !found && first != NULL)
        set_decision(of, &axes->decision[axis], axes->decision[axis].remaining, first);
}

static void explain_axis(struct explanation *of, enum tg_axis axis)
{
    const struct explain_visit *visit = of->visits != NULL ? &of->visits[of->chosen] : NULL;
    size_t from = of->n;

    if (visit == NULL) {
        explain_axis_here(of, axis, of->gateway->remote != NULL ? "this gateway's share" : NULL);
        return;
    }
    switch (visit->questions[0].peek.mode) {
    case REMOTE_LOCAL:
        explain_axis_here(of, axis, "this gateway's share, for the store is away");
        break;
    case REMOTE_OPEN:
    case REMOTE_CLOSED:
        explain_axis_there(of, axis, visit); /* nothing is known but what is configured */
        break;
    default:
        explain_axis_there(of, axis, visit);
    }
    agree_with(of, axis, from, &visit->questions[0].axes);
}

/* A call that can never pass one of its limits is told so, whichever binds. */
static void mark_unsatisfiable(struct explanation *of, size_t from)
{
    bool never = false;

    for (size_t i = from; i < of->n; i++)
        never = never || (of->list[i].refuses && of->list[i].mode == TG_ENFORCE &&
                          of->list[i].retry_after_ms == TG_UNSATISFIABLE);
    for (size_t i = from; never && i < of->n; i++)
        if (of->list[i].refuses)
            of->list[i].reason = reply_reason_name(REPLY_REQUEST_EXCEEDS_LIMIT);
}

/* The store cannot be asked, and what it should say must not be guessed. */
static void explain_closed(struct explanation *of, const char *what, const char *section)
{
    struct explain_limit *limit = explain_add(of, "store_unavailable", "store", NULL);
    char problem[100] = "";

    if (limit == NULL)
        return;
    remote_problem(of->gateway->remote, problem, sizeof problem);
    snprintf(limit->what, sizeof limit->what, "%s cannot be asked for, and %s is closed%s%s", what,
             section, *problem != '\0' ? ": " : "", problem);
    from_section(of, limit, section);
    limit->unit = "store";
    limit->refuses = true;
}

/* ---- money ---- */

/* A budget on the way of the call, and what is used of it. */
struct budget_view {
    const char *scope, *name;
    const struct config_tenant *owner; /* null: everyone's */
    const struct config_budget *config;
    struct tg_budget_metrics at;
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
                                          : owner == of->tenant    ? "tenant"
                                                                   : "parent",
                                 .name = account->user.size > 0 ? of->asked.user
                                         : owner != NULL        ? owner->name
                                                                : NULL,
                                 .owner = owner,
                                 .config = budget_config(of, account, owner, i),
                                 .at = account->budgets[i],
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
        from_section(of, limit, "budgets");
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
    say_more(limit, text);
}

/* False: the call would not be paid for on this route. */
static bool explain_budgets(struct explanation *of, const struct explain_route *way)
{
    const struct explain_visit *visit = of->visits;
    enum remote_mode mode = visit != NULL ? visit->money.mode : REMOTE_LOCAL;
    tg_micro need = num_max(way->micro, 1);
    struct budget_list list = {.of = of};
    size_t from;

    if (!way->quoted)
        add_refusal(of, &way->why, "model", way->route->config->name);
    from = of->n;
    if (visit != NULL && visit->money_err != TG_OK) {
        explain_closed(of, "what is left of budgets", "store_failure.budget");
        return false;
    }
    if (spending_peek(of->gateway->spending, &of->money, of->now, add_account, &list) != TG_OK)
        return true;
    if (visit != NULL)
        join_views(visit, &list);
    for (size_t i = 0; i < list.n; i++) {
        struct explain_limit *limit = add_budget(of, &list.views[i], need);
        if (limit == NULL)
            return true;
        if (mode == REMOTE_OPEN)
            limit->refuses = false;
        if (visit != NULL && mode == REMOTE_LOCAL)
            say_more(limit, "this gateway's share, for the store is away");
    }
    choose_budget(of, &list, from, need);
    for (size_t i = from; i < of->n; i++)
        if (of->list[i].named) {
            say_what_fits(of, way, &of->list[i]);
            return false;
        }
    return way->quoted;
}

/* ---- keys ---- */

/* How many keys a pool has, and how many of them are ready. */
static size_t count_keys(struct tg_pool *pool, tg_ms now, size_t *ready)
{
    struct tg_key_metrics keys[KEYS_AT_ONCE];
    size_t n, all = 0;

    *ready = 0;
    while ((n = tg_pool_get_keys(pool, now, all, keys, KEYS_AT_ONCE)) > 0) {
        for (size_t i = 0; i < n; i++)
            *ready += strcmp(snapshot_key_status(&keys[i]), "ready") == 0;
        all += n;
    }
    return all;
}

/* False: no key can serve it on this route. */
static bool explain_keys(struct explanation *of, const struct explain_route *way)
{
    const struct route *route = way->route;
    char section[EXPLAIN_PLACE_MAX];
    struct tg_key_answer said;
    struct tg_key_call key;
    size_t ready;

    if (route->pool == NULL)
        return true;
    tg_key_call_init(&key);
    key.asked = way->tokens;
    key.tokens = route_counts_asked(route) ? way->tokens
                                           : num_ceil((double)way->tokens * of->expectation.factor);
    tg_pool_peek(route->pool, &key, of->now, &said);
    size_t all = count_keys(route->pool, of->now, &ready);
    struct explain_limit *limit = explain_add(of, "no_key", "pool", route->config->name);
    if (limit == NULL)
        return true;
    snprintf(limit->what, sizeof limit->what,
             "%zu keys of provider %.80s, of which one must serve%s", all,
             route->provider->config->name,
             of->gateway->remote != NULL ? ", as this gateway knows them" : "");
    snprintf(section, sizeof section, "providers.%.200s.keys", route->provider->config->name);
    from_section(of, limit, section);
    limit->unit = "keys";
    limit->limit = (double)all;
    limit->refuses = said.too_large || said.retry_after_ms > 0;
    limit->remaining = limit->refuses ? 0 : (double)num_max((int64_t)ready, 1);
    limit->retry_after_ms = said.too_large ? TG_UNSATISFIABLE : said.retry_after_ms;
    if (limit->refuses && limit->retry_after_ms < TG_UNSATISFIABLE)
        limit->reset_at = clock_wall_of(&of->gateway->clock, of->now + said.retry_after_ms);
    if (said.too_large)
        limit->reason = reply_reason_name(REPLY_REQUEST_EXCEEDS_LIMIT);
    limit->cooling = said.all_cooling;
    return !limit->refuses;
}

/* ---- the whole ---- */

/* The call goes on with the next route: what has refused it there does not bind. */
static void pass_over(struct explanation *of)
{
    struct explain_limit *last = &of->list[of->n - 1];

    last->passed_over = true;
    of->served++;
}

static bool may_fall_back(const struct explanation *of)
{
    const struct explain_limit *last = &of->list[of->n - 1];

    return of->n > 0 && of->served + 1 < of->n_routes && last->mode == TG_ENFORCE &&
           strcmp(last->reason, reply_reason_name(REPLY_REQUEST_EXCEEDS_LIMIT)) != 0;
}

/* Slots of the route; where they refuse, of the next. */
static void explain_ways(struct explanation *of)
{
    while (!explain_route_slots(of, of->routes[of->served].route) && may_fall_back(of))
        pass_over(of);
}

static void explain_attempts(struct explanation *of)
{
    for (;;) {
        const struct explain_route *way = &of->routes[of->served];
        if (!explain_budgets(of, way) || explain_keys(of, way) || !may_fall_back(of))
            return;
        pass_over(of);
        explain_ways(of);
    }
}

static void explain_gate(struct explanation *of)
{
    size_t from;
    struct tg_answer said;

    if (tg_gate_peek(of->gateway->gate, &of->gate_call, of->now, &said) == TG_OK)
        explain_slots(of, of->gateway->gate, &said, "gate", NULL, &of->config->gate.concurrency,
                      of->config->gate.concurrency.assumed ? "gate.concurrency (default)"
                                                           : "gate.concurrency");
    explain_policy(of);
    from = of->n;
    explain_axis(of, TG_AXIS_RATE);
    explain_axis(of, TG_AXIS_COST);
    mark_unsatisfiable(of, from);
    if (of->visits != NULL && of->visits[of->chosen].questions[0].err != TG_OK)
        explain_closed(of, "limits", "store_failure.limits");
}

static void explain_list(struct explanation *of)
{
    struct tg_answer said = {.reason = TG_REASON_NONE};

    explain_drain(of);
    explain_user(of);
    if (tg_gate_peek(of->gateway->gate, &of->gate_call, of->now, &said) == TG_OK)
        explain_memory(of, &said);
    explain_peer(of);
    explain_patterns(of);
    explain_rules(of);
    if (of->has_route)
        explain_ways(of);
    explain_gate(of);
    if (of->has_route)
        explain_attempts(of);
}

/* The first stage that refuses, and of its limits the one that takes longest to pass. */
static void explain_bind(struct explanation *of)
{
    of->binding = of->n;
    for (size_t i = 0; i < of->n; i++) {
        const struct explain_limit *limit = &of->list[i];
        bool refuses = limit->refuses && limit->mode == TG_ENFORCE && !limit->passed_over;
        of->waits = of->waits || (limit->waits && !refuses && of->binding == of->n);
        if (!refuses)
            continue;
        if (of->binding == of->n) {
            of->binding = i;
            continue;
        }
        const struct explain_limit *best = &of->list[of->binding];
        if (strcmp(best->stage, limit->stage) == 0 &&
            (limit->named || (!best->named && limit->retry_after_ms > best->retry_after_ms)))
            of->binding = i;
    }
}

static void write_store(struct json_writer *out, const struct explanation *of)
{
    struct remote *remote = of->gateway->remote;
    char problem[200] = "";

    json_write_key(out, "store");
    if (remote == NULL) {
        json_write_null(out);
        return;
    }
    bool asked = of->visits != NULL;
    const struct explain_visit *visit = asked ? &of->visits[of->chosen] : NULL;
    enum remote_mode limits = asked ? visit->questions[0].peek.mode : REMOTE_LOCAL;
    enum remote_mode budget = asked ? of->visits[0].money.mode : REMOTE_LOCAL;
    remote_problem(remote, problem, sizeof problem);
    json_write_object(out);
    admin_write_text(out, "state", remote_health_name(remote_health_of(remote)));
    admin_write_flag(out, "two_tier", of->config->store.two_tier);
    admin_write_flag(out, "asked", asked);
    admin_write_text(out, "limits_by", asked ? remote_mode_name(limits) : NULL);
    admin_write_text(out, "budget_by", asked ? remote_mode_name(budget) : NULL);
    admin_write_flag(out, "away", asked && (limits >= REMOTE_LOCAL || budget >= REMOTE_LOCAL));
    admin_write_text(out, "problem", *problem != '\0' ? problem : NULL);
    admin_write_number(out, "workers", (int64_t)of->n_visits);
    admin_write_number(out, "workers_admitting", (int64_t)of->admitting);
    json_write_object_end(out);
}

static void write_rules(struct json_writer *out, const struct explanation *of)
{
    struct rule_owner owners[RULE_OWNERS_MAX];
    const struct config_model *model = of->n_routes > 0 ? of->routes[0].route->config : NULL;
    size_t n = config_rule_owners(of->config, of->tenant_number, model, owners);

    json_write_key(out, "rules");
    json_write_array(out);
    for (size_t i = 0; i < n; i++) {
        json_write_object(out);
        admin_write_text(out, "scope", owners[i].kind);
        admin_write_text(out, "name", owners[i].name);
        explain_write_rules(out, owners[i].rules);
        json_write_object_end(out);
    }
    json_write_array_end(out);
}

/* What the call would be answered, if it is refused. */
static int status_of(const struct explanation *of, const struct explain_limit *limit)
{
    enum wire_api api = of->ask.endpoint == ENDPOINT_MESSAGES ? WIRE_ANTHROPIC : WIRE_OPENAI;

    if (limit->cooling && strcmp(limit->reason, "no_key") == 0)
        return reply_status(REPLY_KEYS_COOLING, api);
    for (int reason = 0; reason < REPLY_COUNT; reason++)
        if (strcmp(limit->reason, reply_reason_name((enum reply_reason)reason)) == 0)
            return reply_status((enum reply_reason)reason, api);
    return 0;
}

static void explain_write_all(struct json_writer *out, const struct explanation *of)
{
    const struct explain_limit *by = of->binding < of->n ? &of->list[of->binding] : NULL;
    const struct explain_route *way = of->n_routes > 0 ? &of->routes[of->served] : NULL;

    json_write_object(out);
    admin_write_number(out, "at", clock_wall_of(&of->gateway->clock, of->now));
    admin_write_number(out, "generation", (int64_t)of->generation->number);
    admin_write_text(out, "tenant", of->tenant->name);
    admin_write_text(out, "model", of->model);
    admin_write_text(out, "user", of->asked.user);
    admin_write_text(out, "priority", tg_priority_name(of->gate_call.priority));
    admin_write_unless(out, "max_tokens", of->asked.max_tokens, -1);
    admin_write_number(out, "tokens", of->gate_call.debit.cost);
    admin_write_number(out, "charged_tokens", of->expectation.charge);
    admin_write_real(out, "overbook", of->expectation.factor);
    admin_write_number(out, "micro_usd", way != NULL ? way->micro : 0);
    admin_write_text(out, "reserve",
                     way == NULL || !of->tenant->hard_budget ? NULL
                     : way->quote.pair != 0                  ? "expected"
                                                             : "bound");
    admin_write_flag(out, "admitted", by == NULL);
    admin_write_flag(out, "waits", by == NULL && of->waits);
    admin_write_unless(out, "refused_by", (int64_t)of->binding, (int64_t)of->n);
    admin_write_text(out, "reason", by != NULL ? by->reason : NULL);
    admin_write_unless(out, "status", by != NULL ? status_of(of, by) : 0, 0);
    admin_write_text(out, "served_by",
                     by == NULL && way != NULL && way->route->config->name != NULL
                         ? way->route->config->name
                         : NULL);
    write_store(out, of);
    write_rules(out, of);
    json_write_key(out, "limits");
    json_write_array(out);
    for (size_t i = 0; i < of->n; i++)
        explain_write_limit(out, &of->list[i]);
    json_write_array_end(out);
    json_write_object_end(out);
}

/* ---- one question ---- */

void explain_free(struct explanation *of)
{
    LIST_REMOVE(of, link);
    if (of->call != NULL)
        of->call->explanation = NULL;
    if (of->holds)
        generation_unref(of->generation, of->admin->options.thread);
    free(of->visits);
    free(of->body);
    free(of);
}

void explain_finish(struct explanation *of)
{
    struct json_writer out;

    if (of->call != NULL) {
        json_writer_init(&out);
        explain_list(of);
        explain_bind(of);
        explain_write_all(&out, of);
        admin_reply(of->call->in, 200, &out);
    }
    explain_free(of);
}

void explain_gone(struct admin_call *call)
{
    if (call->explanation != NULL)
        call->explanation->call = NULL;
}

void explain_free_all(struct admin *admin)
{
    while (!LIST_EMPTY(&admin->explanations))
        explain_free(LIST_FIRST(&admin->explanations));
}

static const char *keep_name(char to[ADMIN_NAME_MAX + 1], const char *name)
{
    if (name == NULL)
        return NULL;
    snprintf(to, ADMIN_NAME_MAX + 1, "%s", name);
    return to;
}

void explain_start(struct admin_call *call, const struct explain_call *asked)
{
    struct explanation *of = calloc(1, sizeof *of);

    if (of == NULL) {
        admin_reply_error(call->in, 503, "busy", "no memory");
        return;
    }
    of->admin = call->admin;
    of->call = call;
    call->explanation = of;
    LIST_INSERT_HEAD(&call->admin->explanations, of, link);
    of->gateway = call->admin->options.gateway;
    of->generation = admin_generation(call->admin);
    of->config = &of->generation->config;
    of->now = admin_now(call->admin);
    of->asked = *asked;
    of->asked.tenant = keep_name(of->names[0], asked->tenant);
    of->asked.model = keep_name(of->names[1], asked->model);
    of->asked.user = keep_name(of->names[2], asked->user);
    const char *missing = explain_prepare(of);
    if (missing == NULL) {
        explain_ask_store(of);
        return;
    }
    if (strcmp(missing, "call") == 0)
        admin_reply_error(call->in, 503, "busy", "no memory");
    else
        admin_reply_error(call->in, 404, "not_found", "there is no %s \"%.128s\"", missing,
                          strcmp(missing, "tenant") == 0 ? asked->tenant : asked->model);
    explain_free(of);
}
