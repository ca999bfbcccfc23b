/* protect_report.c - the report of a request of a protected route: see report_notes.h. */
#include "server/obs/metrics.h"
#include "server/obs/traces.h"
#include "server/obs/watch.h"
#include "server/protect/protect_internal.h"

void protect_report_refused(struct protected_call *call, const struct refusal *why,
                            const struct reply *reply)
{
    struct watch_entry entry;

    if (!report_notes_refused(&call->notes, call->worker, call->share, why, reply,
                              protect_now(call)))
        return;
    watch_entry_init(&entry);
    entry.at = protect_now(call);
    entry.id = call->id;
    entry.status = reply->status;
    if (call->key != NULL)
        watch_text(entry.tenant, sizeof entry.tenant,
                   (struct slice){call->gate_call.tenant, call->gate_call.tenant_bytes});
    report_denial(call->gateway, call->share, &call->notes, why, &entry);
}

static const char *protect_report_ended(const struct protected_call *call, enum http_why why)
{
    if (why == HTTP_DONE)
        return "done";
    if (why != HTTP_HANGUP)
        return http_why_text(why);
    if (call->state == PROTECT_OVER)
        return "hangup_over";
    if (call->state == PROTECT_ADMITTING)
        return "hangup_queued";
    return call->state == PROTECT_REPLYING ? "hangup_answering" : "hangup_asking";
}

static void protect_report_fill(const struct protected_call *call, struct report *report)
{
    report->id = call->id;
    report->generation = call->generation->number;
    report->kind = "protect";
    if (call->key != NULL) {
        report->tenant = (struct slice){call->gate_call.tenant, call->gate_call.tenant_bytes};
        report->key = report_text(call->key->name);
        report->counted_key = report_text(config_key_name(call->key));
        report->tags = report_text(call->key->own.tag_text);
    }
    report->peer = (struct slice){call->gate_call.peer, call->gate_call.peer_bytes};
    if (call->gate_call.peer != NULL)
        report->priority = tg_priority_name(call->gate_call.priority);
    report->route = slice_of(call->route->config->prefix);
    report->path = slice_of(call->notes.path);
    report->status = call->status;
    report->upstream_status = call->first_at > 0 ? call->status : 0;
    report->reason = call->reason != REPLY_COUNT ? reply_reason_name(call->reason) : NULL;
    report->failure = call->failure;
    if (call->cause != NULL)
        report->cause = slice_of(call->cause);
    report->attempts = call->attempts;
    report->ttfb_ms = call->first_at > 0 ? call->first_at - call->began_at : -1;
    report->total_ms = report->at - call->began_at;
    report->bytes_out = call->bytes_out;
}

void protect_report_admitted(struct protected_call *call)
{
    metrics_admitted(metrics_shard(call->gateway->metrics, call->worker->number),
                     call->gate_call.priority, call->notes.waited_ns / 1000000);
}

void protect_report(struct protected_call *call, enum http_why why)
{
    const struct config_url *upstream = &call->route->config->upstream;
    const struct trace_server server = {upstream->host, upstream->port};
    struct report report;

    report_init(&report);
    report.began_at = call->began_at;
    report.at = protect_now(call);
    report_notes_fill(&call->notes, &report);
    protect_report_fill(call, &report);
    report.ended = protect_report_ended(call, why);
    report.ops = record_trail_text(&call->trail);
    report.lost_ops = call->trail.lost;
    report_tell(call->worker, &report, &call->notes, &server);
}
