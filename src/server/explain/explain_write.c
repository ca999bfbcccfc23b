/* explain_write.c - the explanation as JSON. See explain.h. */
#include <string.h>

#include "server/explain/explain_internal.h"

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
    enum remote_mode limits = explain_limits_by(of), budget = explain_budgets_by(of);
    remote_problem(remote, problem, sizeof problem);
    json_write_object(out);
    json_member_text(out, "state", remote_health_name(remote_health_of(remote)));
    json_member_flag(out, "two_tier", of->config->store.two_tier);
    json_member_flag(out, "asked", asked);
    json_member_text(out, "limits_by", asked ? remote_mode_name(limits) : NULL);
    json_member_text(out, "budget_by", asked ? remote_mode_name(budget) : NULL);
    json_member_flag(out, "away", asked && (limits >= REMOTE_LOCAL || budget >= REMOTE_LOCAL));
    json_member_text(out, "problem", *problem != '\0' ? problem : NULL);
    json_member_number(out, "workers", (int64_t)of->n_visits);
    json_member_number(out, "workers_admitting", (int64_t)of->admitting);
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
        json_member_text(out, "scope", owners[i].kind);
        json_member_text(out, "name", owners[i].name);
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

void explain_write(struct json_writer *out, const struct explanation *of)
{
    const struct explain_limit *by = of->binding < of->n ? &of->list[of->binding] : NULL;
    const struct explain_route *way = of->n_routes > 0 ? &of->routes[of->served] : NULL;

    json_write_object(out);
    json_member_number(out, "at", clock_wall_of(&of->gateway->clock, of->now));
    json_member_number(out, "generation", (int64_t)of->generation->number);
    json_member_text(out, "tenant", of->tenant->name);
    json_member_text(out, "model", of->model);
    json_member_text(out, "user", of->asked.user);
    json_member_text(out, "key", of->asked.key);
    json_member_text(out, "priority", tg_priority_name(of->gate_call.priority));
    json_member_unless(out, "max_tokens", of->asked.max_tokens, -1);
    json_member_number(out, "tokens", of->gate_call.debit.cost);
    json_member_number(out, "charged_tokens", of->expectation.charge);
    json_member_real(out, "overbook", of->expectation.factor);
    json_member_number(out, "micro_usd", way != NULL ? way->micro : 0);
    json_member_text(out, "reserve",
                     way == NULL || !config_is_hard(of->tenant, of->key) ? NULL
                     : way->quote.pair != 0                              ? "expected"
                                                                         : "bound");
    json_member_flag(out, "admitted", by == NULL);
    json_member_flag(out, "waits", of->waits);
    json_member_unless(out, "refused_by", (int64_t)of->binding, (int64_t)of->n);
    json_member_text(out, "reason", by != NULL ? by->reason : NULL);
    json_member_unless(out, "status", by != NULL ? status_of(of, by) : 0, 0);
    json_member_text(out, "served_by",
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
