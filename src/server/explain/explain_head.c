/* explain_head.c - what is known of a call before it asks for a place: the process, its user,
 * memory, its peer, its model and its rules. See explain.h. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "server/explain/explain_internal.h"

void explain_drain(struct explanation *of)
{
    struct refusal why;

    if (!atomic_load_explicit(&of->gateway->draining, memory_order_relaxed))
        return;
    refusal_init(&why, REPLY_SHUTTING_DOWN, "the gateway drains, and takes no more calls");
    explain_add_refusal(of, &why, "gate", NULL);
}

void explain_user(struct explanation *of)
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
        explain_add_refusal(of, &why, "tenant", of->tenant->name);
        return;
    }
    if (strlen(user) > LEDGER_NAME_MAX) {
        refusal_init(&why, REPLY_INVALID_REQUEST, "the user's name has more than %d bytes",
                     LEDGER_NAME_MAX);
        explain_add_refusal(of, &why, "user", user);
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

void explain_memory(struct explanation *of, const struct tg_answer *said)
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
    explain_from_section(of, limit, "gate.memory");
    snprintf(limit->what, sizeof limit->what,
             "low is refused above %g%% of memory, normal above %g%%, all above %g%%",
             100 * config->pressure, 100 * config->critical, 100 * config->limit);
    limit->unit = "ratio";
    limit->mode = explain_mode(config->mode);
    limit->limit = bounds[of->gate_call.priority];
    limit->refuses = said->reason == TG_REASON_MEMORY_PRESSURE ||
                     said->would_deny & 1u << TG_REASON_MEMORY_PRESSURE;
    limit->retry_after_ms = 100;
    if (!isnan(stats.memory_used))
        limit->remaining = stats.memory_used < limit->limit ? limit->limit - stats.memory_used : 0;
}

void explain_peer(struct explanation *of)
{
    const struct config_peers *config = &of->config->gate.peers;
    const struct tg_call *call = &of->gate_call;
    int64_t most = call->peer_limit > 0 ? call->peer_limit : config->limit;
    const struct config_tenant *owner = config_tenant(of->config, call->peer, call->peer_bytes);

    if (call->peer_limit == 0 && !config->present)
        return;
    struct explain_limit *limit =
        explain_add(of, "peer_limit", owner != NULL ? explain_scope(of, owner) : "gate",
                    owner != NULL ? owner->name : NULL);
    if (limit == NULL)
        return;
    if (call->peer_limit > 0 && owner != NULL)
        explain_place(owner, limit->source);
    else
        explain_from_section(of, limit, "gate.peers");
    limit->mode = call->peer_limit > 0 ? call->peer_mode : explain_mode(config->mode);
    snprintf(limit->what, sizeof limit->what, "%lld calls of one peer at once", (long long)most);
    int64_t calls = tg_gate_peer_calls(of->gateway->gate, call->peer, call->peer_bytes);
    limit->limit = (double)most;
    limit->remaining = calls < most ? (double)(most - calls) : 0;
    limit->refuses = calls >= most;
    limit->retry_after_ms = 100;
}

void explain_patterns(struct explanation *of)
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
void explain_rules(struct explanation *of)
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
