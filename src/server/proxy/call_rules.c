/* call_rules.c - rules for fields and headers, at the place where a call meets them.
 *
 * The rules of its tenant, of that one's parents and of the model that serves it hold. They are
 * asked when the body has been read, and again for each fallback, because that has rules and prices
 * of its own: one whose rules refuse the call is passed over. What rules put in is put in when a
 * request is sent; the call's own reading of the body is brought up to date here, so that what is
 * reserved is for what is sent.
 *
 * Under a budget that can refuse, what changes prices has to be priced, or allowed by a rule:
 * otherwise the price would be the client's to choose.
 */
#include <assert.h>
#include <stdio.h>

#include "server/proxy/call.h"

/* ---- what changes prices ---- */

static bool call_unpriced(struct ask_problem *problem, const char *what, const char *name,
                          const char *value, const char *instead)
{
    snprintf(problem->param, sizeof problem->param, "%.63s", name);
    snprintf(problem->text, sizeof problem->text,
             "%s'%.40s' is %s, which may change the price; under a budget it must be %s", what,
             name, value, instead);
    return false;
}

/* Headers of Vertex AI choose tiers by their name. */
static bool check_vertex(const struct rule_call *asked, const struct rule_owner *owners, size_t n,
                         struct ask_problem *problem)
{
    static const struct slice prefix = {"x-vertex-ai-llm-", sizeof "x-vertex-ai-llm-" - 1};

    for (size_t i = 0; i < asked->head->n_fields; i++) {
        struct slice name = asked->head->fields[i].name;
        if (name.n <= prefix.n || memcmp(name.at, prefix.at, prefix.n) != 0)
            continue;
        size_t field = ask_watch_field(asked->watch, name, true);
        char text[64], value[RULE_TEXT_MAX] = "there";
        const struct rule_changes none = {.n = 0};
        snprintf(text, sizeof text, "%.*s", (int)name.n, name.at);
        if (field == ASK_WATCH_NONE || !field_rules_cover(owners, n, asked, &none, field, 0, value))
            return call_unpriced(problem, "the header ", text, value, "allowed by a rule");
    }
    return true;
}

/* Betas go to a provider of the client's own dialect alone, other headers to all of them. */
static bool check_prices(const struct call *call, const struct route *route,
                         const struct rule_call *asked, const struct rule_owner *owners, size_t n,
                         struct ask_problem *problem)
{
    const struct config_model *model = route->config;
    const struct config *config = &call->generation->config;
    char value[RULE_TEXT_MAX];

    for (size_t i = 0; i < CONFIG_TIERS; i++) {
        const struct config_plain *tier = &config->tiers[i];
        if (!field_rules_cover(owners, n, asked, &call->changes, tier->field,
                               tier->plain | model->priced[i], value))
            return call_unpriced(problem, "", config->watch->fields[tier->field].name, value,
                                 "priced by the model's price.factors, or allowed by a rule");
    }
    if (!check_vertex(asked, owners, n, problem))
        return false;
    if (call_is_foreign(call, route))
        return true;
    for (size_t i = 0; i < CONFIG_BETAS; i++) {
        const struct config_plain *beta = &config->betas[i];
        if (!field_rules_cover(owners, n, asked, &call->changes, beta->field, beta->plain, value))
            return call_unpriced(problem, "the header ", config->watch->fields[beta->field].name,
                                 value, "allowed by a rule");
    }
    return true;
}

/* ---- what was put in ---- */

/* What the body itself asks for, to begin with it again for another model. */
static void keep_asked(struct call *call)
{
    struct call_asked *asked = &call->asked;

    asked->kept = true;
    asked->max_output = call->ask.max_output;
    asked->choices = call->ask.choices;
    asked->service_tier = call->ask.service_tier;
    asked->speed = call->ask.speed;
    asked->inference_geo = call->ask.inference_geo;
}

static void restore_asked(struct call *call)
{
    if (call->asked.kept) {
        call->ask.max_output = call->asked.max_output;
        call->ask.choices = call->asked.choices;
        call->ask.service_tier = call->asked.service_tier;
        call->ask.speed = call->asked.speed;
        call->ask.inference_geo = call->asked.inference_geo;
    }
    call->changes.n = 0;
    call->notes.changed[0] = '\0';
}

static void call_put_in(struct call *call)
{
    if (!call->asked.kept)
        keep_asked(call);
    field_rules_put_in(&call->changes, &call->ask);
    field_rules_names(&call->changes, call->notes.changed, sizeof call->notes.changed);
}

/* ---- the interface ---- */

bool call_rules_apply(struct call *call, const struct route *route, struct ask_problem *problem)
{
    const struct config *config = &call->generation->config;
    const struct config_model *model = route != NULL ? route->config : NULL;
    struct rule_owner owners[RULE_OWNERS_MAX];
    size_t n = config_rule_owners(config, call->tenant, model, owners);
    const struct rule_call asked = {.watch = config->watch,
                                    .endpoint = call->endpoint,
                                    .seen = model != NULL ? call->seen : NULL,
                                    .body = call->body.bytes,
                                    .head = &call->in->head};

    restore_asked(call);
    if (n > 0 && !field_rules_apply(owners, n, &asked, &call->changes, problem))
        return false;
    if (model != NULL && config_is_hard(call_tenant(call), call->virtual_key) &&
        !check_prices(call, route, &asked, owners, n, problem))
        return false;
    if (call->changes.n > 0)
        call_put_in(call);
    return true;
}

bool call_rules_bound(const struct call *call, int64_t *bound)
{
    for (size_t i = 0; i < call->changes.n; i++)
        if (call->changes.list[i].path != NULL &&
            strcmp(call->changes.list[i].rule->name, "max_tokens") == 0) {
            *bound = (int64_t)call->changes.list[i].rule->value.number;
            return true;
        }
    return false;
}
