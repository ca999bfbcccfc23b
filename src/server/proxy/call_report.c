/* call_report.c - the report of a call: see report_notes.h.
 *
 * Slices of a report point into the call, or into its generation, which it holds: a call that is
 * drained outlives the head of its request, so nothing of that is used here.
 */
#include <assert.h>

#include "server/obs/metrics.h"
#include "server/obs/traces.h"
#include "server/obs/watch.h"
#include "server/proxy/call.h"

const char *call_failure_name(enum call_failure failure)
{
    switch (failure) {
    case FAILURE_LIMITED:
        return "limited";
    case FAILURE_LARGE:
        return "too_large";
    case FAILURE_CREDENTIALS:
        return "credentials";
    case FAILURE_SERVER:
        return "server";
    case FAILURE_NETWORK:
        return "network";
    case FAILURE_TIMEOUT:
    case FAILURE_LATE_REPLY:
        return "timeout";
    case FAILURE_DEADLINE:
        return "deadline";
    case FAILURE_MEMORY:
        return "memory";
    default:
        return NULL;
    }
}

void call_report_refused(struct call *call, const struct refusal *why, const struct reply *reply)
{
    struct tenant_share *share =
        call->tenant != CONFIG_NONE ? call->generation->shares[call->tenant] : NULL;
    struct watch_entry entry;

    if (!report_notes_refused(&call->notes, call->worker, share, why, reply, call_now(call)))
        return;
    assert(call->tenant != CONFIG_NONE); /* limits are asked after the key */
    watch_entry_init(&entry);
    entry.at = call_now(call);
    entry.id = call->id;
    entry.status = reply->status;
    watch_text(entry.tenant, sizeof entry.tenant, slice_of(call_tenant(call)->name));
    watch_text(entry.model, sizeof entry.model, ask_slice(&call->ask.model));
    watch_text(entry.user, sizeof entry.user, call->user);
    if (call->route != NULL) { /* the body has been read */
        entry.max_tokens = call->asked.kept ? call->asked.max_output : call->ask.max_output;
        entry.prompt_bytes = call->ask.text_bytes;
    }
    report_denial(call->gateway, share, &call->notes, why, &entry);
}

static const char *ended_how(const struct call *call)
{
    if (call->ended != HTTP_HANGUP)
        return http_why_text(call->ended);
    switch (call->left_in) {
    case CALL_READING:
    case CALL_PARSING:
    case CALL_TRANSLATING:
    case CALL_BOUNDING:
        return "hangup_reading";
    case CALL_AT_SLOT:
    case CALL_AT_GATE:
        return "hangup_queued";
    case CALL_AT_LIMITS:
    case CALL_AT_MONEY:
    case CALL_AT_KEY:
        return "hangup_at_store";
    case CALL_AT_TOKEN:
        return "hangup_at_token";
    case CALL_ASKING:
        return "hangup_asking";
    case CALL_PAUSING:
        return "hangup_pausing";
    case CALL_ANSWERING:
        return "hangup_answering";
    default:
        return "hangup_over";
    }
}

static void fill_who(const struct call *call, struct report *report)
{
    report->id = call->id;
    report->generation = call->generation->number;
    report->kind = call->passthrough ? "passthrough" : endpoint_name(call->endpoint);
    report->client_retry = call->is_retry;
    report->path = slice_of(call->missed_path);
    report->user = call->user;
    if (call->tenant == CONFIG_NONE)
        return;
    report->tenant = slice_of(call_tenant(call)->name);
    report->peer = call->notes.peer[0] ? slice_of(call->notes.peer) : report->tenant;
    if (call->gate_call.peer != NULL) {
        report->priority = tg_priority_name(call->gate_call.priority);
        report->value = call->gate_call.value;
    }
    assert(call->virtual_key != NULL); /* a tenant is known by its key */
    report->key = report_text(call->virtual_key->name);
    report->counted_key = report_text(config_key_name(call->virtual_key));
    report->tags = report_text(call->virtual_key->own.tag_text);
}

static void fill_where(const struct call *call, struct report *report)
{
    const struct config *config = &call->generation->config;

    report->model_asked = ask_slice(&call->ask.model);
    if (call->model != CONFIG_NONE)
        report->model = slice_of(config->models[call->model].name);
    if (call->route != NULL)
        report->provider = slice_of(call->route->provider->config->name);
    else if (call->passthrough != NULL)
        report->provider = slice_of(call_provider(call)->config->name);
    if (call->route != NULL && call->attempts > 0)
        report->model_served = slice_of(call->route->config->name);
    if (call->last_key != NULL)
        report->provider_key = report_text(call->last_key->config->name);
}

static void fill_outcome(const struct call *call, struct report *report)
{
    report->status = call->status;
    report->upstream_status = call->attempt.status ? call->attempt.status : call->failed_status;
    report->reason = reply_reason_name(call->reason);
    report->upstream_id = slice_of(call->notes.upstream_id);
    report->ended = ended_how(call);
    report->attempts = call->attempts;
    if (call->status == 0 || call->status >= 400)
        report->failure = call_failure_name(call->failure);
    report->cause = slice_of(call->cause);
    if (call->attempt.first_at > 0)
        report->ttfb_ms = call->attempt.first_at - call->began_at;
    report->total_ms = report->at - call->began_at;
    report->stream = call->ask.stream;
    report->has_usage = call->spent >= 0;
    report->usage_reported = call->usage_reported;
    report->usage = call->usage;
    tg_usage_fold(&report->usage);
    report->reasoning_tokens = call->notes.reasoning;
    report->usage_absurd = call->usage_absurd;
    report->spent = call->spent;
    report->uncertain = call->uncertain;
    report->bytes_in = call->bytes_in;
    report->bytes_out = call->bytes_out;
}

void call_report_admitted(struct call *call)
{
    metrics_admitted(metrics_shard(call->gateway->metrics, call->worker->number),
                     call->gate_call.priority, call->notes.waited_ns / 1000000);
}

void call_report(struct call *call)
{
    struct trace_server server = {0};
    struct report report;

    assert(call->in == NULL && call->slot.lease == 0 && call->gate.lease == 0);
    report_init(&report);
    report.began_at = call->began_at;
    report.at = call_now(call);
    report_notes_fill(&call->notes, &report);
    fill_who(call, &report);
    fill_where(call, &report);
    fill_outcome(call, &report);
    if (call->route != NULL)
        server = (struct trace_server){call->route->provider->config->base.host,
                                       call->route->provider->config->base.port};
    report.ops = record_trail_text(&call->trail);
    report.lost_ops = call->trail.lost;
    report_tell(call->worker, &report, &call->notes, &server);
    record_trail_fini(&call->trail);
}
