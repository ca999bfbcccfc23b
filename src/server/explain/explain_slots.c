/* explain_slots.c - places of routes and of the gate, and the bid price. See explain.h. */
#include <stdio.h>

#include "server/explain/explain_internal.h"

/* ---- concurrency ---- */

void explain_slots(struct explanation *of, struct tg_gate *gate, const struct tg_answer *said,
                   const char *scope, const char *name, const struct config_concurrency *config,
                   const char *section)
{
    struct explain_limit *limit = explain_add(of, "concurrency", scope, name);
    struct tg_gate_stats stats;
    struct tg_law_metrics law;

    if (limit == NULL)
        return;
    tg_gate_get_stats(gate, &stats);
    tg_gate_get_law(gate, &law);
    explain_from_section(of, limit, section);
    limit->mode = explain_mode(config->mode);
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
        limit->retry_after_ms = said->client_wait_ms;
    if (stats.limit == TG_NUMBER_MAX)
        return;
    limit->limit = (double)stats.limit;
    limit->remaining = stats.in_flight < stats.limit ? (double)(stats.limit - stats.in_flight) : 0;
}

/* The slots of a route. False: they refuse the call. */
bool explain_route_slots(struct explanation *of, const struct route *route)
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

void explain_policy(struct explanation *of)
{
    struct tg_policy *policy =
        of->generation->policy != NULL ? of->generation->policy->policy : NULL;
    struct tg_duals duals;

    struct explain_limit *limit = policy != NULL ? explain_add(of, "policy", "gate", NULL) : NULL;
    if (limit == NULL)
        return;
    tg_bid_get_duals(policy, &duals);
    explain_from_section(of, limit, "gate.policy");
    double bid = duals.rate + duals.cost * (double)of->gate_call.debit.cost +
                 duals.concurrency * of->gate_call.hold_s;
    limit->mode = explain_mode(of->config->gate.policy.mode);
    limit->unit = "value";
    snprintf(limit->what, sizeof limit->what, "bid price %.6g, the call is worth %.6g", bid,
             of->gate_call.value);
    limit->limit = bid;
    limit->remaining = of->gate_call.value > bid ? of->gate_call.value - bid : 0;
    limit->refuses = of->gate_call.value < bid * (1 - 1e-9);
}
