/* explain_ask.c - the call that is explained, as if it had come. See explain.h.
 *
 * A body is made with the model, max_tokens and a text of so many bytes, and read by the reader of
 * all bodies: so its tokens, its bound and what rules say of it are those of such a call.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/text/json_member.h"
#include "lib/core/num.h"
#include "server/explain/explain_internal.h"
#include "server/upstream/route_way.h"

/* What a call of the tenant has left of its budgets, as the proxy asks for it. */
static bool explain_left(const struct explanation *of, const char *user, tg_micro *left,
                         double *part)
{
    struct gateway *gateway = of->gateway;
    struct spending_call call = of->money;

    call.user = (struct ledger_text){user, user != NULL ? strlen(user) : 0};
    return (gateway->remote
                ? remote_money_left(gateway->remote->money, &call, of->now, left, part)
                : spending_left(gateway->spending, &call, of->now, left, part)) == TG_OK;
}

/* ---- the body ---- */

static enum endpoint endpoint_for(const struct provider *provider)
{
    return provider->config->api == CONFIG_ANTHROPIC ? ENDPOINT_MESSAGES : ENDPOINT_CHAT;
}

static bool make_body(struct explanation *of)
{
    struct json_writer out;
    char *text = malloc((size_t)of->asked.prompt_bytes + 1);

    if (text == NULL)
        return false;
    memset(text, 'a', (size_t)of->asked.prompt_bytes);
    json_writer_init(&out);
    json_write_object(&out);
    json_member_text(&out, "model", of->asked.model);
    if (of->asked.max_tokens >= 0) {
        json_member_number(&out, "max_tokens", of->asked.max_tokens);
    }
    json_write_key(&out, "messages");
    json_write_array(&out);
    json_write_object(&out);
    json_write_key(&out, "role");
    json_write_string(&out, "user", 4);
    json_write_key(&out, "content");
    json_write_string(&out, text, (size_t)of->asked.prompt_bytes);
    json_write_object_end(&out);
    json_write_array_end(&out);
    json_write_object_end(&out);
    free(text);
    of->body_n = out.text.size;
    of->body = out.text.failed ? NULL : malloc(out.text.size + JSON_PADDING);
    if (of->body != NULL) {
        memcpy(of->body, out.text.bytes, out.text.size);
        memset(of->body + out.text.size, 0, JSON_PADDING);
    }
    json_writer_fini(&out);
    return of->body != NULL;
}

/* False: there is no memory, or `no_route` says what is wrong with it. */
static bool read_body(struct explanation *of, const struct provider *provider)
{
    struct json_reader *reader = of->explainer->reader;
    struct ask_problem problem;

    if (!make_body(of))
        return false;
    if (ask_read_watching(reader, ASK_VALUES_MAX, endpoint_for(provider), of->body, of->body_n,
                          of->body_n + JSON_PADDING, of->config->watch, of->seen, &of->ask,
                          &problem))
        return true;
    refusal_of_ask(&problem, &of->no_route);
    return false;
}

/* ---- routes ---- */

/* Applies the rules to the call on a route; the ask becomes what would be sent. */
static bool pass_rules(struct explanation *of, const struct route *route, struct ask *ask,
                       struct ask_problem *problem)
{
    const struct http_head head = {.n_fields = 0};
    struct rule_owner owners[RULE_OWNERS_MAX];
    struct rule_changes changes = {.n = 0};
    size_t n = config_rule_owners(of->config, of->tenant_number, route->config, owners);
    const struct rule_call asked = {.watch = of->config->watch,
                                    .endpoint = ask->endpoint,
                                    .seen = of->seen,
                                    .body = of->body,
                                    .head = &head};

    if (n > 0 && !field_rules_apply(owners, n, &asked, &changes, problem))
        return false;
    field_rules_put_in(&changes, ask);
    return true;
}

/* What the attempt would reserve, and what its key would be charged. */
static void add_route(struct explanation *of, const struct route *route, const struct ask *ask)
{
    struct explain_route *to = &of->routes[of->n_routes++];
    enum dialect dialect;
    enum route_way way = route_way(route->provider->config, ask->endpoint, &dialect);
    const struct quote_call asked = {.gateway = of->gateway,
                                     .tenant = of->tenant,
                                     .key = of->key,
                                     .route = route,
                                     .ask = ask,
                                     .is_listed = of->is_listed,
                                     .is_translated = way == WAY_TRANSLATED};
    tg_micro left;

    *to = (struct explain_route){.route = route};
    if (!explain_left(of, of->asked.user, &left, NULL))
        left = 0;
    to->quoted = quote_make(&asked, left, &to->quote, &to->why) || of->asked.micro >= 0;
    to->micro = of->asked.micro >= 0 ? of->asked.micro : to->quote.asked;
    int64_t output = estimate_output(ask, config_most_output(route->config));
    if (to->quoted && to->quote.most_output >= 0)
        output = to->quote.bound.output;
    int64_t tokens = num_add(estimate_prompt(ask, &route->estimate), output);
    to->tokens = of->asked.tokens >= 0 ? of->asked.tokens : tokens;
}

/* Below its tenant's share of what is left, a cheaper model may serve. */
static size_t maybe_cheaper(const struct explanation *of, size_t model)
{
    const struct config_model *config = &of->config->models[model];
    tg_micro left;
    double part;

    if (config->cheaper == CONFIG_NONE || of->tenant->allow_cheaper <= 0 ||
        !config_may_use(of->config, of->tenant, of->key, &of->config->models[config->cheaper]))
        return model;
    return explain_left(of, NULL, &left, &part) && part < of->tenant->allow_cheaper
               ? config->cheaper
               : model;
}

static void add_fallbacks(struct explanation *of, const struct config_model *asked,
                          const struct ask *original)
{
    struct ask_problem problem;

    for (size_t i = 0; i < asked->n_fallback && of->n_routes < EXPLAIN_ROUTES_MAX; i++) {
        const struct route *route = &of->generation->routes[asked->fallback[i]];
        struct ask ask = *original;
        if (config_may_use(of->config, of->tenant, of->key, route->config) &&
            pass_rules(of, route, &ask, &problem))
            add_route(of, route, &ask);
    }
}

/* The model of the route, its rules, and what would serve in its place. */
static void find_routes(struct explanation *of, size_t model, const struct route *named)
{
    const struct config_model *config = model != CONFIG_NONE ? &of->config->models[model] : NULL;
    bool may = config != NULL
                   ? config_may_use(of->config, of->tenant, of->key, config)
                   : config_patterns_match(&of->tenant->models, of->model, strlen(of->model));
    const struct route *route = named;
    struct ask original = of->ask;
    struct ask_problem problem;

    if (!may) {
        refusal_init(&of->no_route, REPLY_MODEL_NOT_ALLOWED, "model '%.100s' is not for this key",
                     of->asked.model);
        return;
    }
    if (config != NULL)
        route = &of->generation->routes[maybe_cheaper(of, model)];
    if (!pass_rules(of, route, &of->ask, &problem)) {
        refusal_init(&of->no_route, REPLY_FIELD_RULE, "%s", problem.text);
        return;
    }
    of->has_route = true;
    add_route(of, route, &of->ask);
    if (config != NULL)
        add_fallbacks(of, config, &original);
}

/* ---- the call ---- */

static bool fill_call(struct explanation *of, const struct route *route)
{
    const struct explain_call *asked = &of->asked;
    struct scopes_who who = {.tenant = of->tenant->name,
                             .tenant_bytes = strlen(of->tenant->name),
                             .model = of->model,
                             .model_bytes = strlen(of->model),
                             .key = of->key,
                             .user = asked->user,
                             .user_bytes = asked->user != NULL ? strlen(asked->user) : 0,
                             .peer = of->tenant->name,
                             .peer_bytes = strlen(of->tenant->name),
                             .priority = asked->priority};

    tg_call_init(&of->gate_call);
    if (scopes_fill(of->generation->scopes, &who, of->room, &of->gate_call, NULL))
        return false;
    remote_divide_peer(of->gateway->remote, &of->config->gate, &of->gate_call);
    remote_divide_overdrafts(of->gateway->remote, of->room, of->gate_call.debit.n_scopes);
    of->prompt = estimate_prompt(&of->ask, &route->estimate);
    of->output = estimate_output(&of->ask, config_assumed_output(route->config));
    of->gate_call.debit.cost = asked->tokens >= 0 ? asked->tokens : num_add(of->prompt, of->output);
    of->gate_call.size = of->prompt;
    of->gate_call.hold_s = atomic_load_explicit(&route->hold_s, memory_order_relaxed);
    return tg_gate_expect(of->gateway->gate, &of->gate_call, &of->expectation) == TG_OK;
}

/* Models that are not listed go to the first provider there is, if they may. */
static const struct route *route_named(const struct generation *generation, const char *model,
                                       size_t *number)
{
    *number = config_model(&generation->config, model, strlen(model));
    if (*number != CONFIG_NONE)
        return &generation->routes[*number];
    for (size_t i = 0; i < 2; i++)
        if (generation->unknown[i].provider != NULL)
            return &generation->unknown[i];
    return NULL;
}

enum explain_outcome explain_prepare(struct explanation *of)
{
    size_t model;

    of->tenant = config_tenant(of->config, of->asked.tenant, strlen(of->asked.tenant));
    if (of->tenant == NULL)
        return EXPLAIN_NO_TENANT;
    of->tenant_number = (size_t)(of->tenant - of->config->tenants);
    if (of->asked.key != NULL && (of->key = config_find_key(of->tenant, of->asked.key)) == NULL)
        return EXPLAIN_NO_KEY;
    if (explain_is_survey(of)) {
        explain_survey_prepare(of);
        return EXPLAIN_DONE;
    }
    const struct route *named = route_named(of->generation, of->asked.model, &model);
    if (named == NULL)
        return EXPLAIN_NO_MODEL;
    of->is_listed = model != CONFIG_NONE;
    of->model = of->is_listed ? of->config->models[model].name : of->asked.model;
    of->money = (struct spending_call){
        .tenant = of->tenant->name,
        .hint = of->tenant_number,
        .key = config_key_name(of->key),
        .user = {of->asked.user, of->asked.user != NULL ? strlen(of->asked.user) : 0}};
    if (!of->tenant->users.present) {
        of->asked.user = NULL; /* the gateway reads no name there */
        of->money.user = (struct ledger_text){NULL, 0};
    }
    if (read_body(of, named->provider))
        find_routes(of, model, named);
    if (!fill_call(of, of->has_route ? of->routes[0].route : named))
        return EXPLAIN_NO_MEMORY;
    of->money.money = of->n_routes > 0 ? of->routes[0].micro : 0;
    return EXPLAIN_DONE;
}
