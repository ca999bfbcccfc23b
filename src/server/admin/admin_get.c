/* admin_get.c - what can be looked at: the process, a snapshot, what applies to a call.
 *
 * And to have the configuration read again. */
#include <stdio.h>
#include <string.h>

#include "server/admin/admin_call.h"
#include "server/admin/admin_internal.h"
#include "server/admin/admin_query.h"
#include "server/config/config_values.h"
#include "server/explain/explain.h"
#include "server/probe/probe_pages.h"
#include "server/runtime/gateway.h"

/* ---- the process ---- */

void admin_healthz(struct admin_call *call)
{
    probe_healthz(call->in);
}

void admin_readyz(struct admin_call *call)
{
    probe_readyz(call->in, call->admin->options.gateway, &admin_generation(call->admin)->config);
}

void admin_metrics(struct admin_call *call)
{
    const struct admin *admin = call->admin;

    probe_metrics(call->in, admin->options.gateway, admin_generation(admin), admin_now(admin));
}

/* Whether all gateways are asked about. False: it has been answered. */
static bool read_scope(struct admin_call *call, bool *fleet)
{
    char text[32];

    *fleet = false;
    if (!admin_query_get(call->query, "scope", text, sizeof text))
        return true;
    *fleet = strcmp(text, "fleet") == 0;
    if (*fleet || strcmp(text, "gateway") == 0)
        return true;
    admin_reply_error(call->in, 400, "invalid",
                      "parameter \"scope\" is \"%.20s\"; it must be gateway or fleet", text);
    return false;
}

void admin_snapshot(struct admin_call *call)
{
    struct admin *admin = call->admin;
    struct json_writer out;
    bool fleet;

    if (!read_scope(call, &fleet))
        return;
    if (fleet) {
        snapshot_fleet_start(call);
        return;
    }
    json_writer_init(&out);
    snapshot_write(&out, &admin->memory, admin_generation(admin), admin_now(admin));
    admin_reply(call->in, 200, &out);
}

/* ---- what applies to a call ---- */

static bool read_count(struct admin_call *call, const char *name, int64_t *count)
{
    char text[ADMIN_NAME_MAX + 1];

    if (!admin_query_get(call->query, name, text, sizeof text) || value_count(text, count))
        return true;
    admin_reply_error(call->in, 400, "invalid",
                      "parameter \"%s\" is \"%.40s\"; it must be a whole number, 0 or more", name,
                      text);
    return false;
}

static bool admin_get_read_priority(struct admin_call *call, struct explain_call *asked)
{
    char text[32];

    if (!admin_query_get(call->query, "priority", text, sizeof text))
        return true;
    for (int p = 0; p < TG_PRIORITY_COUNT; p++)
        if (strcmp(text, tg_priority_name((enum tg_priority)p)) == 0) {
            asked->priority = (enum tg_priority)p;
            return true;
        }
    admin_reply_error(call->in, 400, "invalid",
                      "parameter \"priority\" is \"%.20s\"; it must be high, normal or low", text);
    return false;
}

enum { EXPLAIN_PROMPT_MAX = 4 << 20 };

/* The texts stay where `names` are. False: it has been answered. */
static bool read_explain(struct admin_call *call, char names[3][ADMIN_NAME_MAX + 1],
                         struct explain_call *asked)
{
    static const char *const TEXTS[] = {"tenant", "model", "user"};

    for (int i = 0; i < 3; i++)
        if (!admin_query_get(call->query, TEXTS[i], names[i], ADMIN_NAME_MAX + 1) && i < 2) {
            admin_reply_error(call->in, 400, "invalid", "parameter \"%s\" is missing", TEXTS[i]);
            return false;
        }
    *asked = (struct explain_call){.tenant = names[0],
                                   .model = names[1],
                                   .user = *names[2] != '\0' ? names[2] : NULL,
                                   .max_tokens = -1,
                                   .tokens = -1,
                                   .micro = -1,
                                   .priority = TG_PRIORITY_HIGH,
                                   .worker = EXPLAIN_ALL_WORKERS};
    if (!read_count(call, "max_tokens", &asked->max_tokens) ||
        !read_count(call, "prompt_bytes", &asked->prompt_bytes) ||
        !read_count(call, "tokens", &asked->tokens) ||
        !read_count(call, "micro_usd", &asked->micro) || !admin_get_read_priority(call, asked))
        return false;
    if (asked->prompt_bytes <= EXPLAIN_PROMPT_MAX)
        return true;
    admin_reply_error(call->in, 400, "invalid", "parameter \"prompt_bytes\" may be %d at most",
                      EXPLAIN_PROMPT_MAX);
    return false;
}

static void explained(void *context, enum explain_outcome outcome, const struct explanation *of)
{
    struct admin_call *call = context;
    char name[ADMIN_NAME_MAX + 1];
    struct json_writer out;

    if (outcome == EXPLAIN_DONE) {
        json_writer_init(&out);
        explain_write(&out, of);
        admin_reply(call->in, 200, &out);
    } else if (outcome == EXPLAIN_NO_MEMORY) {
        admin_reply_error(call->in, 503, "busy", "no memory");
    } else {
        const char *what = outcome == EXPLAIN_NO_TENANT ? "tenant" : "model";
        admin_query_get(call->query, what, name, sizeof name);
        admin_reply_error(call->in, 404, "not_found", "there is no %s \"%.128s\"", what, name);
    }
}

void admin_explain(struct admin_call *call)
{
    const struct admin *admin = call->admin;
    char names[3][ADMIN_NAME_MAX + 1] = {{0}};
    struct explain_call asked;

    if (read_explain(call, names, &asked))
        explain_start(admin->options.explainer, admin_generation(admin), &asked, &call->explanation,
                      explained, call);
}

/* ---- the configuration ---- */

static void write_reloaded(struct json_writer *out, const struct reload_result *result)
{
    json_write_object(out);
    json_member_number(out, "generation", (int64_t)result->generation);
    json_member_text(out, "hash", result->hash);
    admin_write_warnings(out, result->problems, NULL);
    json_write_key(out, "restart_needed");
    json_write_array(out);
    for (size_t i = 0; i < result->n_restart; i++)
        json_write_string(out, result->restart[i], strlen(result->restart[i]));
    json_write_array_end(out);
    json_write_object_end(out);
}

static void audit_reload(const struct admin_call *call, const char *outcome)
{
    char who[64];

    admin_peer(call->in, who);
    admin_audit(call->admin, who, "reload", "configuration", outcome);
}

static void reloaded(void *context, const struct reload_result *result)
{
    struct admin_call *call = context;
    struct json_writer out;
    char outcome[128];

    call->reloading = false;
    json_writer_init(&out);
    if (result->ok) {
        snprintf(outcome, sizeof outcome, "done, generation %llu",
                 (unsigned long long)result->generation);
        write_reloaded(&out, result);
    } else {
        snprintf(outcome, sizeof outcome, "refused: %.100s",
                 result->failure != NULL ? result->failure : "the files are wrong");
        admin_write_problems(&out, result->problems, result->failure);
    }
    audit_reload(call, outcome);
    admin_reply(call->in, result->ok ? 200 : 400, &out);
}

void admin_reload_gone(struct admin_call *call)
{
    if (!call->reloading)
        return;
    call->admin->options.forget(call->admin->options.host, call);
    audit_reload(call, "requested; the client has hung up");
}

void admin_reload(struct admin_call *call)
{
    const struct admin_options *options = &call->admin->options;

    call->reloading = options->reload(options->host, "api", reloaded, call);
    if (!call->reloading)
        admin_reply_problem(call->in, &(struct admin_problem){"", 0, 0, "no memory"});
}
