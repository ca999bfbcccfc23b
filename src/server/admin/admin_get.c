/* admin_get.c - what can be looked at: the process, a snapshot, what applies to a call.
 *
 * And to have the configuration read again. */
#include <stdio.h>
#include <string.h>

#include "server/admin/admin_call.h"
#include "server/admin/admin_internal.h"
#include "server/admin/admin_query.h"
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
        const char *what = outcome == EXPLAIN_NO_TENANT ? "tenant"
                           : outcome == EXPLAIN_NO_KEY  ? "key"
                                                        : "model";
        admin_query_get(call->query, what, name, sizeof name);
        admin_reply_error(call->in, 404, "not_found", "there is no %s \"%.128s\"", what, name);
    }
}

void admin_explain(struct admin_call *call)
{
    const struct admin *admin = call->admin;
    struct explain_query asked;
    char why[160];
    bool fleet;

    if (!read_scope(call, &fleet))
        return;
    if (!explain_query_read(call->query, &asked, why))
        admin_reply_error(call->in, 400, "invalid", "%s", why);
    else if (fleet)
        explain_fleet_start(call, &asked);
    else
        explain_start(admin->options.explainer, admin_generation(admin), &asked.call,
                      &call->explanation, explained, call);
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
