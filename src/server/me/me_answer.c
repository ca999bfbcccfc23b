/* me_answer.c - what a tenant is told of itself, as JSON: Me in docs/openapi.yaml.
 *
 * Limits and budgets come as explain finds them (explain_limits.h). Those of everyone together are
 * left out: what all tenants have spent is the operator's. A parent's are told as far as a refusal
 * tells of them: its name, how much it allows, and what is left.
 */
#include <string.h>

#include "server/explain/explain_limits.h"
#include "server/me/me_internal.h"
#include "server/remote/remote.h"

enum { MODELS_MAX = 1000 };

/* Whose word it is: that of all gateways, or of this one. */
static const char *scope_of(const struct gateway *gateway, enum remote_mode by)
{
    return gateway->remote != NULL && by < REMOTE_LOCAL ? "fleet" : "gateway";
}

static void member_real(struct json_writer *out, const char *key, double number)
{
    if (number < 0)
        json_member_null(out, key);
    else
        json_member_number(out, key, (int64_t)number);
}

/* ---- who ---- */

static void write_key(struct json_writer *out, const struct me_ask *ask)
{
    json_write_key(out, "key");
    json_write_object(out);
    json_member_text(out, "known_by", ask->by_token ? "token" : "key");
    json_member_text(out, "name", ask->key[0] != 0 ? ask->key : NULL);
    json_member_unless(out, "not_after", ask->not_after, CONFIG_NEVER);
    json_write_object_end(out);
}

/* The names that calls may ask for, as GET /v1/models has them. */
static void write_models(struct json_writer *out, const struct config *config,
                         const struct config_tenant *tenant, const struct config_key *key)
{
    size_t n = 0;

    json_write_key(out, "models");
    json_write_array(out);
    for (size_t i = 0; i < config->n_models; i++)
        if (config_may_use(config, tenant, key, &config->models[i]) && n++ < MODELS_MAX)
            json_write_string(out, config->models[i].name, strlen(config->models[i].name));
    for (size_t i = 0; i < config->n_aliases; i++) {
        const struct config_alias *alias = &config->aliases[i];
        if (config_may_use(config, tenant, key, &config->models[alias->model]) && n++ < MODELS_MAX)
            json_write_string(out, alias->name, strlen(alias->name));
    }
    json_write_array_end(out);
    json_member_flag(out, "models_truncated", n > MODELS_MAX);
}

static void write_store(struct json_writer *out, const struct gateway *gateway)
{
    json_write_key(out, "store");
    if (gateway->remote == NULL) {
        json_write_null(out);
        return;
    }
    json_write_object(out);
    json_member_text(out, "state", remote_health_name(remote_health_of(gateway->remote)));
    json_write_object_end(out);
}

/* ---- limits and budgets ---- */

static void write_patterns(struct json_writer *out, const struct config_names *models)
{
    json_write_key(out, "models");
    if (models == NULL) {
        json_write_null(out);
        return;
    }
    json_write_array(out);
    for (size_t i = 0; i < models->n; i++)
        json_write_string(out, models->names[i], strlen(models->names[i]));
    json_write_array_end(out);
}

static void me_write_limit(struct json_writer *out, const struct explain_limit *limit)
{
    bool has = limit->has_limiter;

    json_write_object(out);
    json_member_text(out, "axis", has ? limit->stage : "concurrency");
    json_member_text(out, "scope", limit->scope);
    json_member_text(out, "name", limit->name);
    json_member_text(out, "strategy", has ? tg_strategy_name(limit->limiter.strategy) : NULL);
    json_member_text(out, "rule", limit->what);
    write_patterns(out, limit->models);
    json_member_text(out, "mode", explain_mode_name(limit->mode));
    json_member_text(out, "unit", limit->unit);
    member_real(out, "limit", limit->limit);
    member_real(out, "left", limit->remaining);
    json_member_unless(out, "reset_at", limit->reset_at, 0);
    json_write_object_end(out);
}

static void write_budget(struct json_writer *out, const struct explain_limit *limit)
{
    const struct tg_budget_metrics *budget = &limit->budget;
    const struct config_budget *config = limit->configured;
    bool is_own = strcmp(limit->scope, "parent") != 0;

    json_write_object(out);
    json_member_text(out, "scope", limit->scope);
    json_member_text(out, "name", limit->name);
    json_member_text(out, "per", tg_per_name(budget->per));
    json_member_text(out, "tz", config != NULL ? config->tz : "UTC");
    json_member_text(out, "mode", explain_mode_name(limit->mode));
    json_member_number(out, "amount_micro_usd", budget->amount);
    json_member_unless(out, "spent_micro_usd", is_own ? budget->settled : -1, -1);
    json_member_unless(out, "reserved_micro_usd", is_own ? budget->outstanding : -1, -1);
    member_real(out, "left_micro_usd", limit->remaining);
    json_member_unless(out, "begins_at", budget->begin,
                       budget->per == TG_PER_TOTAL ? budget->begin : -1);
    json_member_unless(out, "ends_at", budget->end, TG_NUMBER_MAX);
    json_write_object_end(out);
}

static void me_write_limits(struct json_writer *out, const struct gateway *gateway,
                            const struct explanation *of)
{
    size_t n;
    const struct explain_limit *list = explain_list_of(of, &n);

    json_member_text(out, "limits_scope", scope_of(gateway, explain_limits_by(of)));
    json_write_key(out, "limits");
    json_write_array(out);
    for (size_t i = 0; i < n; i++)
        if (!list[i].has_budget)
            me_write_limit(out, &list[i]);
    json_write_array_end(out);
    json_member_flag(out, "limits_truncated", explain_is_truncated(of));
    json_member_text(out, "budgets_scope", scope_of(gateway, explain_budgets_by(of)));
    json_write_key(out, "budgets");
    json_write_array(out);
    for (size_t i = 0; i < n; i++)
        if (list[i].has_budget && strcmp(list[i].scope, "everyone") != 0)
            write_budget(out, &list[i]);
    json_write_array_end(out);
}

/* ---- refusals ---- */

static void member_known(struct json_writer *out, const char *key, const char *text)
{
    json_member_text(out, key, text[0] != 0 ? text : NULL);
}

static void write_refusal(struct json_writer *out, const struct watch_entry *entry)
{
    json_write_object(out);
    json_member_number(out, "at", entry->at);
    json_member_number(out, "status", entry->status);
    json_member_text(out, "reason", entry->reason);
    member_known(out, "binding_axis", entry->axis);
    member_known(out, "model", entry->model);
    member_known(out, "user", entry->user);
    member_known(out, "limit_of", entry->limit_of);
    member_known(out, "limit_rule", entry->limit_rule);
    json_member_unless(out, "limit", entry->limit, -1);
    json_member_unless(out, "left", entry->remaining, -1);
    json_member_unless(out, "retry_after_ms", entry->retry_after_ms, -1);
    json_member_text(out, "message", entry->text);
    json_write_object_end(out);
}

static void write_refusals(struct json_writer *out, const struct me_ask *ask,
                           struct tenant_share *share)
{
    struct watch_entry entries[REFUSALS_KEPT];
    size_t n = refusals_read(&share->refusals, ask->is_user_signed ? ask->user : NULL, entries);

    json_write_key(out, "refusals");
    json_write_array(out);
    for (size_t i = 0; i < n; i++)
        write_refusal(out, &entries[i]);
    json_write_array_end(out);
    json_member_number(out, "refusals_left_out",
                       atomic_load_explicit(&share->refusals.left_out, memory_order_relaxed));
}

/* ---- the document ---- */

void me_answer_begin(struct me_ask *ask, const struct gateway *gateway,
                     const struct explanation *of)
{
    const struct generation *generation = explain_generation(of);
    const struct config *config = &generation->config;
    const struct config_tenant *tenant = config_tenant(config, ask->tenant, strlen(ask->tenant));
    const struct config_key *key =
        ask->by_token || ask->key[0] == 0 ? NULL : config_find_key(tenant, ask->key);
    struct json_writer *out = &ask->out;

    json_write_object(out);
    json_member_number(out, "at", ask->now);
    json_member_text(out, "tenant", tenant->name);
    json_member_text(out, "parent",
                     tenant->parent != CONFIG_NO_PARENT ? config->tenants[tenant->parent].name
                                                        : NULL);
    write_key(out, ask);
    json_member_text(out, "user", ask->user[0] != 0 ? ask->user : NULL);
    write_models(out, config, tenant, key);
    write_store(out, gateway);
    me_write_limits(out, gateway, of);
    write_refusals(out, ask, generation->shares[tenant - config->tenants]);
}

void me_answer_end(struct me_ask *ask)
{
    struct json_writer *out = &ask->out;

    json_write_key(out, "spend");
    if (ask->spend != NULL && !ask->spend->failed) {
        json_write_object(out);
        me_spend_write(out, ask->spend);
        json_write_object_end(out);
    } else {
        json_write_null(out);
    }
    json_write_object_end(out);
    json_write_line_end(out);
}
