/* explain.c - every limit that a call has to clear. See explain.h.
 *
 * One function a stage, in the order of the stages; each adds what it finds to a list, which is
 * then written. What is off, or not configured, adds nothing.
 */
#include "server/admin/explain.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/admin/admin_internal.h"
#include "server/admin/explain_limits.h"
#include "server/admin/snapshot_internal.h"
#include "server/remote/remote.h"

enum { LIMITS_MAX = 256, KEYS_AT_ONCE = 64 };

/* One question. */
struct view {
    struct gateway *gateway;
    const struct generation *generation;
    const struct config *config;
    const struct explain_call *asked;
    const struct config_tenant *tenant;
    const struct route *route;
    const char *model; /* after aliases; as it was asked for, if it is not listed */
    tg_ms now;
    struct tg_scope room[TG_SCOPES_MAX];
    struct tg_call call;
    struct tg_expectation expectation; /* what it would be charged */
    struct explain_limit *list;
    size_t n;
};

/* ---- adding ---- */

/* Null: the list is full. */
static struct explain_limit *explain_add(struct view *view, const char *stage, const char *scope,
                                         const char *name)
{
    struct explain_limit *limit;

    if (view->n == LIMITS_MAX)
        return NULL;
    limit = &view->list[view->n++];
    *limit = (struct explain_limit){.stage = stage,
                                    .scope = scope,
                                    .name = name,
                                    .unit = "calls",
                                    .limit = EXPLAIN_UNKNOWN,
                                    .remaining = EXPLAIN_UNKNOWN};
    return limit;
}

/* A section of the file itself. */
static void from_section(const struct view *view, struct explain_limit *limit, const char *section)
{
    const char *file = view->config->n_sources > 0 ? view->config->sources[0].path : "";

    snprintf(limit->source, sizeof limit->source, "%.300s%s%.90s", file, *file != '\0' ? ": " : "",
             section);
}

static enum tg_mode mode_of(enum config_mode mode)
{
    return mode == CONFIG_SHADOW ? TG_SHADOW : TG_ENFORCE;
}

static const char *scope_of(const struct view *view, const struct config_tenant *tenant)
{
    return tenant == view->tenant ? "tenant" : "parent";
}

/* ---- before the body ---- */

static void explain_memory(struct view *view)
{
    const struct config_memory *config = &view->config->gate.memory;
    const double bounds[] = {[TG_PRIORITY_HIGH] = config->limit,
                             [TG_PRIORITY_NORMAL] = config->critical,
                             [TG_PRIORITY_LOW] = config->pressure};
    struct explain_limit *limit =
        config->present ? explain_add(view, "memory_pressure", "gate", NULL) : NULL;
    struct tg_gate_stats stats;

    if (limit == NULL)
        return;
    tg_gate_get_stats(view->gateway->gate, &stats);
    from_section(view, limit, "gate.memory");
    snprintf(limit->what, sizeof limit->what,
             "low is refused above %g%% of memory, normal above %g%%, all above %g%%",
             100 * config->pressure, 100 * config->critical, 100 * config->limit);
    limit->unit = "ratio";
    limit->mode = mode_of(config->mode);
    limit->limit = bounds[view->call.priority];
    if (isnan(stats.memory_used))
        return;
    limit->remaining = stats.memory_used < limit->limit ? limit->limit - stats.memory_used : 0;
    limit->refuses = stats.memory_used > limit->limit;
    limit->retry_after_ms = 100;
}

static const struct config_tenant *tenant_named(const struct view *view, const char *name,
                                                size_t bytes)
{
    return config_tenant(view->config, name, bytes);
}

static void explain_peer(struct view *view)
{
    const struct config_peers *config = &view->config->gate.peers;
    const struct tg_call *call = &view->call;
    int64_t most = call->peer_limit > 0 ? call->peer_limit : config->limit;
    const struct config_tenant *owner = tenant_named(view, call->peer, call->peer_bytes);

    if (call->peer_limit == 0 && !config->present)
        return;
    struct explain_limit *limit =
        explain_add(view, "peer_limit", owner != NULL ? scope_of(view, owner) : "gate",
                    owner != NULL ? owner->name : NULL);
    if (limit == NULL)
        return;
    if (call->peer_limit > 0 && owner != NULL)
        explain_place(owner, limit->source);
    else
        from_section(view, limit, "gate.peers");
    limit->mode = call->peer_limit > 0 ? call->peer_mode : mode_of(config->mode);
    snprintf(limit->what, sizeof limit->what, "%lld calls of one peer at once", (long long)most);
    int64_t calls = tg_gate_peer_calls(view->gateway->gate, call->peer, call->peer_bytes);
    limit->limit = (double)most;
    limit->remaining = calls < most ? (double)(most - calls) : 0;
    limit->refuses = calls >= most;
    limit->retry_after_ms = 100;
}

/* ---- the model ---- */

static void explain_patterns(struct view *view)
{
    const struct config_names *models = &view->tenant->models;
    size_t used = 0;

    if (models->n == 0)
        return;
    struct explain_limit *limit =
        explain_add(view, "model_not_allowed", "tenant", view->tenant->name);
    if (limit == NULL)
        return;
    used += (size_t)snprintf(limit->what, sizeof limit->what, "models");
    for (size_t i = 0; i < models->n && used < sizeof limit->what; i++)
        used += (size_t)snprintf(limit->what + used, sizeof limit->what - used, " %s",
                                 models->names[i]);
    explain_place(view->tenant, limit->source);
    limit->unit = "model";
    limit->refuses = !config_patterns_match(models, view->model, strlen(view->model));
}

/* ---- concurrency ---- */

static void explain_slots(struct view *view, struct tg_gate *gate, const char *scope,
                          const char *name, const struct config_concurrency *config,
                          const char *section)
{
    struct explain_limit *limit = explain_add(view, "concurrency", scope, name);
    struct tg_gate_stats stats;
    struct tg_law_metrics law;

    if (limit == NULL)
        return;
    tg_gate_get_stats(gate, &stats);
    tg_gate_get_law(gate, &law);
    from_section(view, limit, section);
    limit->mode = mode_of(config->mode);
    if (!config_law_learns(law.law))
        snprintf(limit->what, sizeof limit->what, "law %s, %lld calls at once",
                 tg_law_name(law.law), (long long)law.limit);
    else
        snprintf(limit->what, sizeof limit->what, "law %s, learns, from %lld to %lld calls at once",
                 tg_law_name(law.law), (long long)law.min, (long long)law.max);
    if (stats.limit == TG_NUMBER_MAX)
        return;
    limit->limit = (double)stats.limit;
    limit->remaining = stats.in_flight < stats.limit ? (double)(stats.limit - stats.in_flight) : 0;
    limit->refuses = stats.in_flight >= stats.limit;
}

static void explain_concurrency(struct view *view)
{
    const struct config_model *model = view->route->config;
    char section[EXPLAIN_PLACE_MAX];

    snprintf(section, sizeof section, "models.%.200s.concurrency", model->name);
    explain_slots(view, view->route->slots->gate, "model", model->name, &model->concurrency,
                  section);
    explain_slots(view, view->gateway->gate, "gate", NULL, &view->config->gate.concurrency,
                  view->config->gate.concurrency.assumed ? "gate.concurrency (default)"
                                                         : "gate.concurrency");
}

/* ---- policy ---- */

static void explain_policy(struct view *view)
{
    struct tg_policy *policy =
        view->generation->policy != NULL ? view->generation->policy->policy : NULL;
    struct tg_duals duals;

    struct explain_limit *limit = policy != NULL ? explain_add(view, "policy", "gate", NULL) : NULL;
    if (limit == NULL)
        return;
    tg_bid_get_duals(policy, &duals);
    from_section(view, limit, "gate.policy");
    double bid = duals.rate + duals.cost * (double)view->call.debit.cost +
                 duals.concurrency * view->call.hold_s;
    limit->mode = mode_of(view->config->gate.policy.mode);
    limit->unit = "value";
    snprintf(limit->what, sizeof limit->what, "bid price %.6g, the call is worth %.6g", bid,
             view->call.value);
    limit->limit = bid;
    limit->remaining = view->call.value > bid ? view->call.value - bid : 0;
    limit->refuses = view->call.value < bid * (1 - 1e-9);
}

/* ---- rate and cost ---- */

static void name_origin(const struct view *view, const struct tg_scope *scope,
                        struct explain_limit *limit)
{
    struct scopes_origin origin;
    char inner[EXPLAIN_WHAT_MAX];

    if (!scopes_origin(view->generation->scopes, view->tenant, scope->limits, &origin))
        return;
    limit->scope = origin.what == SCOPES_USERS ? "user" : scope_of(view, origin.tenant);
    limit->name = origin.what == SCOPES_USERS ? view->asked->user : origin.tenant->name;
    explain_place(origin.tenant, limit->source);
    if (origin.what == SCOPES_DEFAULTS)
        from_section(view, limit,
                     strcmp(limit->stage, "rate") == 0 ? "gate.rate (default)"
                                                       : "gate.cost (default)");
    if (origin.what == SCOPES_LINE) {
        memcpy(inner, limit->what, sizeof inner);
        snprintf(limit->what, sizeof limit->what, "limits[%zu]: %.130s", origin.line, inner);
    }
}

/* Where gateways share a store, what stands here is this one's part of it. */
static void say_whose(const struct view *view, const char *whose, struct explain_limit *limit)
{
    size_t n = strlen(limit->what);

    if (view->gateway->remote != NULL)
        snprintf(limit->what + n, sizeof limit->what - n, "; %s", whose);
}

static void explain_add_limit(struct view *view, const struct tg_scope *scope,
                              const struct tg_limit_metrics *at)
{
    bool is_rate = at->axis == TG_AXIS_RATE;
    struct explain_limit *limit =
        explain_add(view, is_rate ? "rate" : "cost", "tenant", view->tenant->name);

    if (limit == NULL)
        return;
    explain_limiter(&at->config, limit->what);
    name_origin(view, scope, limit);
    limit->unit = is_rate ? "calls" : "tokens";
    limit->mode = at->mode;
    limit->limit = (double)at->decision.limit;
    limit->remaining = (double)at->decision.remaining;
    limit->reset_at = clock_wall_of(&view->gateway->clock, at->decision.reset_at);
    limit->refuses = !at->decision.allowed;
    limit->retry_after_ms = at->decision.retry_after_ms;
    /* A share is for the time when nobody else can be asked. */
    say_whose(view, "this gateway's share", limit);
    if (view->gateway->remote != NULL && remote_health_of(view->gateway->remote) != REMOTE_DOWN)
        limit->refuses = false;
}

static void explain_axis(struct view *view, enum tg_axis axis)
{
    struct tg_limit_metrics limits[TG_LIMITS_MAX];

    struct tg_debit charged = view->call.debit;
    charged.cost = view->expectation.charge;
    for (size_t i = 0; i < charged.n_scopes; i++) {
        size_t n = tg_store_peek_scope(view->gateway->store, &charged, i, view->now, limits);
        for (size_t k = 0; k < n; k++)
            if (limits[k].axis == axis)
                explain_add_limit(view, &view->room[i], &limits[k]);
    }
}

/* ---- money ---- */

static void add_budget(struct view *view, const char *scope, const char *name,
                       const struct config_tenant *owner, const struct tg_budget_metrics *budget,
                       const struct config_budget *config)
{
    struct explain_limit *limit = explain_add(view, "budget", scope, name);
    tg_micro used = budget->settled + budget->outstanding;
    tg_micro need = view->asked->micro > 1 ? view->asked->micro : 1;
    char money[EXPLAIN_MONEY_MAX], topped[EXPLAIN_MONEY_MAX];

    if (limit == NULL)
        return;
    explain_money(budget->amount, money);
    explain_money(config != NULL ? config->topped_up : 0, topped);
    snprintf(limit->what, sizeof limit->what, "%s per %s, %s%s%s", money, tg_per_name(budget->per),
             config != NULL ? config->tz : "UTC",
             config != NULL && config->topped_up > 0 ? ", topped up by " : "",
             config != NULL && config->topped_up > 0 ? topped : "");
    say_whose(view, "what went through this gateway", limit);
    if (owner != NULL)
        explain_place(owner, limit->source);
    else
        from_section(view, limit, "budgets");
    limit->unit = "micro_usd";
    limit->mode = budget->mode;
    limit->limit = (double)budget->amount;
    limit->remaining = used < budget->amount ? (double)(budget->amount - used) : 0;
    tg_ms wall = spending_time(view->gateway->spending, view->now);
    limit->reset_at = budget->end == TG_NUMBER_MAX ? 0 : budget->end;
    limit->refuses = used > budget->amount - need;
    limit->retry_after_ms = limit->reset_at > wall ? limit->reset_at - wall : 0;
    if (need > budget->amount)
        limit->retry_after_ms = TG_UNSATISFIABLE;
}

static void explain_account(struct view *view, tg_account account, const char *scope,
                            const char *name, const struct config_tenant *owner,
                            const struct config_budget *config, size_t n_config)
{
    struct tg_budget_metrics budgets[TG_BUDGETS_MAX];
    size_t n = account != 0
                   ? tg_bank_get_budgets(spending_bank(view->gateway->spending), account,
                                         spending_time(view->gateway->spending, view->now), budgets)
                   : 0;

    for (size_t i = 0; i < n; i++)
        add_budget(view, scope, name, owner, &budgets[i], i < n_config ? &config[i] : NULL);
}

/* A user that has not come yet has its whole budget. */
static void explain_new_user(struct view *view)
{
    const struct config_users *users = &view->tenant->users;
    bool shadow = view->tenant->mode == CONFIG_SHADOW || users->each.mode == CONFIG_SHADOW;

    for (size_t i = 0; i < users->n_budgets; i++) {
        struct tg_budget_metrics budget = {.amount = users->budgets[i].micro_usd,
                                           .per = (enum tg_per)users->budgets[i].per,
                                           .mode =
                                               shadow ? TG_SHADOW : mode_of(users->budgets[i].mode),
                                           .end = TG_NUMBER_MAX};
        add_budget(view, "user", view->asked->user, view->tenant, &budget, &users->budgets[i]);
    }
}

static void explain_budgets(struct view *view)
{
    struct spending *spending = view->gateway->spending;
    const struct config_tenant *way[CONFIG_LEVELS_MAX];
    const struct config_users *users = &view->tenant->users;
    const char *user = view->asked->user;
    size_t n = 0;

    explain_account(view, spending_account(spending, NULL, SPENDING_TOP), "everyone", NULL, NULL,
                    view->config->budgets, view->config->n_budgets);
    for (const struct config_tenant *at = view->tenant; n < CONFIG_LEVELS_MAX;) {
        way[n++] = at;
        if (at->parent == CONFIG_NO_PARENT)
            break;
        at = &view->config->tenants[at->parent];
    }
    while (n-- > 0)
        explain_account(
            view,
            spending_account(spending, way[n]->name, (size_t)(way[n] - view->config->tenants)),
            scope_of(view, way[n]), way[n]->name, way[n], way[n]->budgets, way[n]->n_budgets);
    if (user == NULL || users->n_budgets == 0)
        return;
    tg_account account =
        tg_bank_find(spending_bank(spending),
                     spending_account(spending, view->tenant->name,
                                      (size_t)(view->tenant - view->config->tenants)),
                     user, strlen(user));
    if (account != 0)
        explain_account(view, account, "user", user, view->tenant, users->budgets,
                        users->n_budgets);
    else
        explain_new_user(view);
}

/* ---- keys ---- */

static void explain_keys(struct view *view)
{
    struct tg_key_metrics keys[KEYS_AT_ONCE];
    size_t n, all = 0, ready = 0;
    tg_ms soonest = INT64_MAX;
    int64_t tokens =
        route_counts_asked(view->route) ? view->asked->tokens : view->expectation.expected;

    if (view->route->pool == NULL)
        return;
    while ((n = tg_pool_get_keys(view->route->pool, view->now, all, keys, KEYS_AT_ONCE)) > 0) {
        for (size_t i = 0; i < n; i++) {
            tg_ms until = keys[i].cool_down_until > keys[i].failure_cool_down
                              ? keys[i].cool_down_until
                              : keys[i].failure_cool_down;
            bool serves = strcmp(snapshot_key_status(&keys[i]), "ready") == 0 &&
                          keys[i].tpm_remaining >= tokens;
            ready += serves;
            if (!serves && until > view->now && until < soonest)
                soonest = until;
        }
        all += n;
    }
    struct explain_limit *limit = explain_add(view, "no_key", "pool", view->route->config->name);
    if (limit == NULL)
        return;
    snprintf(limit->what, sizeof limit->what, "%zu keys of provider %.80s, of which one must serve",
             all, view->route->provider->config->name);
    char section[EXPLAIN_PLACE_MAX];
    snprintf(section, sizeof section, "providers.%.200s.keys", view->route->provider->config->name);
    from_section(view, limit, section);
    limit->unit = "keys";
    limit->limit = (double)all;
    limit->remaining = (double)ready;
    limit->refuses = ready == 0;
    if (ready == 0 && soonest != INT64_MAX) {
        limit->reset_at = clock_wall_of(&view->gateway->clock, soonest);
        limit->retry_after_ms = soonest - view->now;
    }
}

/* ---- the whole ---- */

/* Models that are not listed go to the first provider there is, if they may. */
static const struct route *find_route(const struct generation *generation, const char *model)
{
    size_t number = config_model(&generation->config, model, strlen(model));

    if (number != CONFIG_NONE)
        return &generation->routes[number];
    return snapshot_route(generation, generation->config.n_models);
}

static bool explain_fill(struct view *view)
{
    const struct explain_call *asked = view->asked;
    struct scopes_who who = {.tenant = view->tenant->name,
                             .tenant_bytes = strlen(view->tenant->name),
                             .model = view->model,
                             .model_bytes = strlen(view->model),
                             .user = asked->user,
                             .user_bytes = asked->user != NULL ? strlen(asked->user) : 0,
                             .peer = view->tenant->name,
                             .peer_bytes = strlen(view->tenant->name),
                             .priority = asked->priority};

    tg_call_init(&view->call);
    if (scopes_fill(view->generation->scopes, &who, view->room, &view->call, NULL))
        return false;
    view->call.debit.cost = asked->tokens;
    if (tg_gate_expect(view->gateway->gate, &view->call, &view->expectation) != TG_OK)
        return false;
    view->call.hold_s = atomic_load_explicit(&view->route->hold_s, memory_order_relaxed);
    return true;
}

static void explain_all(struct view *view)
{
    explain_memory(view);
    explain_peer(view);
    explain_patterns(view);
    explain_concurrency(view);
    explain_policy(view);
    explain_axis(view, TG_AXIS_RATE);
    explain_axis(view, TG_AXIS_COST);
    explain_budgets(view);
    explain_keys(view);
}

static void explain_write_all(struct json_writer *out, const struct view *view)
{
    size_t binding = view->n;

    for (size_t i = view->n; i-- > 0;)
        if (view->list[i].refuses && view->list[i].mode == TG_ENFORCE)
            binding = i;
    json_write_object(out);
    admin_write_number(out, "at", clock_wall_of(&view->gateway->clock, view->now));
    admin_write_number(out, "generation", (int64_t)view->generation->number);
    admin_write_text(out, "tenant", view->tenant->name);
    admin_write_text(out, "model", view->model);
    admin_write_text(out, "user", view->asked->user);
    admin_write_text(out, "priority", tg_priority_name(view->call.priority));
    admin_write_number(out, "tokens", view->asked->tokens);
    admin_write_number(out, "charged_tokens", view->expectation.charge);
    admin_write_real(out, "overbook", view->expectation.factor);
    admin_write_number(out, "micro_usd", view->asked->micro);
    admin_write_flag(out, "admitted", binding == view->n);
    admin_write_unless(out, "refused_by", (int64_t)binding, (int64_t)view->n);
    json_write_key(out, "limits");
    json_write_array(out);
    for (size_t i = 0; i < view->n; i++)
        explain_write_limit(out, &view->list[i]);
    json_write_array_end(out);
    json_write_object_end(out);
}

const char *explain_write(struct json_writer *out, struct gateway *gateway,
                          const struct generation *generation, const struct explain_call *call,
                          tg_ms now)
{
    struct view view = {.gateway = gateway,
                        .generation = generation,
                        .config = &generation->config,
                        .asked = call,
                        .now = now};

    view.tenant = config_tenant(view.config, call->tenant, strlen(call->tenant));
    if (view.tenant == NULL)
        return "tenant";
    view.route = find_route(generation, call->model);
    if (view.route == NULL)
        return "model";
    view.model =
        view.route->config == &generation->unknown_model ? call->model : view.route->config->name;
    view.list = calloc(LIMITS_MAX, sizeof *view.list);
    if (view.list == NULL || !explain_fill(&view)) {
        out->text.failed = true;
    } else {
        explain_all(&view);
        explain_write_all(out, &view);
    }
    free(view.list);
    return NULL;
}
