/* guarded_report.c - the report of a request of a protected route: see report_notes.h. */
#include "server/obs/metrics.h"
#include "server/obs/traces.h"
#include "server/obs/watch.h"
#include "server/protect/protect_internal.h"

void guarded_report_refused(struct guarded *guarded, const struct refusal *why,
                            const struct reply *reply)
{
    struct watch_entry entry;

    if (!report_notes_refused(&guarded->notes, guarded->worker, why, reply, guarded_now(guarded)))
        return;
    watch_entry_init(&entry);
    entry.at = guarded_now(guarded);
    entry.id = guarded->id;
    entry.status = reply->status;
    if (guarded->key != NULL)
        watch_text(entry.tenant, sizeof entry.tenant,
                   (struct slice){guarded->call.tenant, guarded->call.tenant_bytes});
    report_denial(guarded->gateway, &guarded->notes, why, &entry);
}

static const char *guarded_ended_how(const struct guarded *guarded, enum http_why why)
{
    if (why == HTTP_DONE)
        return "done";
    if (why != HTTP_HANGUP)
        return http_why_text(why);
    if (guarded->state == GUARDED_OVER)
        return "hangup_over";
    if (guarded->state == GUARDED_WAITING)
        return "hangup_queued";
    return guarded->replied ? "hangup_answering" : "hangup_asking";
}

static void fill_guarded(const struct guarded *guarded, struct report *report)
{
    report->id = guarded->id;
    report->generation = guarded->generation->number;
    report->kind = "protect";
    if (guarded->key != NULL) {
        report->tenant = (struct slice){guarded->call.tenant, guarded->call.tenant_bytes};
        report->key = report_text(guarded->key->name);
    }
    report->peer = (struct slice){guarded->call.peer, guarded->call.peer_bytes};
    if (guarded->call.peer != NULL)
        report->priority = tg_priority_name(guarded->call.priority);
    report->route = slice_of(guarded->route->config->prefix);
    report->path = slice_of(guarded->notes.path);
    report->status = guarded->status;
    report->upstream_status = guarded->replied ? guarded->status : 0;
    report->reason = guarded->reason != REPLY_COUNT ? reply_reason_name(guarded->reason) : NULL;
    report->failure = guarded->failure;
    report->attempts = guarded->attempts;
    report->ttfb_ms = guarded->first_at > 0 ? guarded->first_at - guarded->began_at : -1;
    report->total_ms = report->at - guarded->began_at;
    report->bytes_out = guarded->bytes_out;
}

void guarded_report_admitted(struct guarded *guarded)
{
    metrics_admitted(metrics_shard(guarded->gateway->metrics, guarded->worker->number),
                     guarded->call.priority, guarded->notes.waited_ns / 1000000);
}

void guarded_report(struct guarded *guarded, enum http_why why)
{
    const struct config_url *upstream = &guarded->route->config->upstream;
    const struct trace_server server = {upstream->host, upstream->port};
    struct report report;

    report_init(&report);
    report.began_at = guarded->began_at;
    report.at = guarded_now(guarded);
    report_notes_fill(&guarded->notes, &report);
    fill_guarded(guarded, &report);
    report.ended = guarded_ended_how(guarded, why);
    report_tell(guarded->worker, &report, &guarded->notes, &server);
}
