/* call_report.c - what became of a request, told once to all who want to know it.
 *
 * A refusal is put into the watch when it happens, with the numbers of the limit that refused,
 * unless there are more than anybody can look at: to make its texts takes longer than the decision.
 * Everything else is told at the end. Slices of a report point into the request, or into its
 * generation, which it holds: a call that is drained outlives the head of its request, so nothing
 * of that is used here.
 */
#include "server/proxy/call_report.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "server/obs/metrics.h"
#include "server/obs/traces.h"
#include "server/obs/watch.h"
#include "server/protect/protect_internal.h"
#include "server/proxy/call.h"

enum { WATCHED_MAX = 500 };

static struct slice maybe(const char *text)
{
    return text != NULL ? slice_of(text) : (struct slice){NULL, 0};
}

/* ---- Notes --------------------------------------------------------------------------------- */

void report_notes_begin(struct report_notes *notes, struct worker *worker,
                        const struct http_head *head)
{
    bool traced = worker->gateway->trace != NULL;
    struct slice parent = http_find(head, SLICE("traceparent"));

    memset(notes, 0, sizeof *notes);
    notes->axis = TG_AXIS_NONE;
    notes->retry_after_ms = notes->reserved = notes->upstream_ms = notes->overhead_us = -1;
    notes->estimated_input = notes->max_output = notes->reasoning = -1;
    notes->refusal.peer_calls = -1;
    if (traced || parent.n > 0) {
        const uint64_t random[3] = {random_bits(&worker->random), random_bits(&worker->random),
                                    random_bits(&worker->random)};
        trace_ids_init(&notes->trace, parent, traced, random);
    }
}

void report_notes_path(struct report_notes *notes, const struct http_head *head)
{
    const char *query = memchr(head->target.at, '?', head->target.n);
    size_t n = query ? (size_t)(query - head->target.at) : head->target.n;

    snprintf(notes->path, sizeof notes->path, "%.*s %.*s", (int)head->method.n, head->method.at,
             (int)n, head->target.at);
}

void report_notes_ready(struct report_notes *notes)
{
    notes->ready_ns = clock_monotonic_ns();
}

void report_notes_park(struct report_notes *notes)
{
    notes->parked_ns = clock_monotonic_ns();
}

void report_notes_unpark(struct report_notes *notes)
{
    if (notes->parked_ns > 0)
        notes->waited_ns += clock_monotonic_ns() - notes->parked_ns;
    notes->parked_ns = 0;
}

void report_notes_sent(struct report_notes *notes)
{
    if (notes->overhead_us < 0 && notes->ready_ns > 0)
        notes->overhead_us = (clock_monotonic_ns() - notes->ready_ns - notes->waited_ns) / 1000;
}

void report_notes_upstream_id(struct report_notes *notes, struct slice id)
{
    size_t n = id.n < sizeof notes->upstream_id ? id.n : sizeof notes->upstream_id - 1;

    memcpy(notes->upstream_id, id.at, n);
    notes->upstream_id[n] = 0;
}

/* The stages of a report are those of a gate, without the reason of an allow. */
_Static_assert(TG_REASON_MEMORY_PRESSURE == REPORT_MEMORY + 1 &&
                   TG_REASON_PEER_LIMIT == REPORT_PEER + 1 &&
                   TG_REASON_CONCURRENCY == REPORT_CONCURRENCY + 1 &&
                   TG_REASON_POLICY == REPORT_POLICY + 1 && TG_REASON_RATE == REPORT_RATE + 1 &&
                   TG_REASON_COST == REPORT_COST + 1,
               "one is the other");

void report_notes_answer(struct report_notes *notes, struct tg_gate *gate,
                         const struct tg_call *call, const struct tg_answer *answer)
{
    if (answer->step != TG_DECIDED)
        return;
    notes->would_deny |= answer->would_deny >> 1;
    if (answer->decision.allowed)
        return;
    notes->axis = tg_axes_binding(&answer->axes);
    notes->decision =
        notes->axis != TG_AXIS_NONE ? answer->axes.decision[notes->axis] : answer->decision;
    notes->refusal.memory_used = answer->memory_used;
    if (answer->reason == TG_REASON_PEER_LIMIT) {
        notes->refusal.peer_limit = answer->decision.limit;
        notes->refusal.peer_calls = tg_gate_peer_calls(gate, call->peer, call->peer_bytes);
    }
}

struct slice report_notes_traceparent(const struct report_notes *notes, const struct worker *worker,
                                      char text[TRACE_PARENT_BYTES])
{
    if (worker->gateway->trace == NULL || !trace_ids_present(&notes->trace))
        return (struct slice){NULL, 0};
    trace_parent_write(&notes->trace, text);
    return (struct slice){text, TRACE_PARENT_BYTES};
}

/* ---- What all requests have ---------------------------------------------------------------- */

static void fill_notes(const struct report_notes *notes, struct report *report)
{
    report->would_deny = notes->would_deny;
    report->axis = notes->axis != TG_AXIS_NONE ? tg_axis_name(notes->axis) : NULL;
    report->retry_after_ms = notes->retry_after_ms;
    report->fallback_why = notes->fallback_why;
    report->estimated_input = notes->estimated_input;
    report->max_output = notes->max_output;
    report->reserved = notes->reserved;
    report->upstream_ms = notes->upstream_ms;
    if (notes->parked_ns > 0) /* it left while it waited */
        report->waited_ms = (notes->waited_ns + clock_monotonic_ns() - notes->parked_ns) / 1000000;
    else if (notes->decided)
        report->waited_ms = notes->waited_ns / 1000000;
    report->overhead_us = notes->overhead_us;
    memcpy(report->trace_id, notes->trace.trace_id, sizeof report->trace_id);
    memcpy(report->span_id, notes->trace.span_id, sizeof report->span_id);
    report->sampled = notes->trace.sampled;
}

static void call_report_tell(struct worker *worker, const struct report *report,
                             const struct report_notes *notes, const struct trace_server *server)
{
    metrics_request(metrics_shard(worker->gateway->metrics, worker->number), report);
    if (worker->log != NULL) {
        log_request(worker->log, report, report->reason ? &notes->refusal : NULL);
        if (report->priority != NULL) /* it asked to be admitted: lists and strangers do not */
            log_record(worker->log, report);
    }
    if (worker->spans != NULL)
        trace_request(worker->spans, report, notes->trace.parent_id, server);
}

/* ---- Refusals ------------------------------------------------------------------------------- */

/* What limits say, and what they cannot do; not what clients get wrong. */
static bool is_denial(enum reply_reason reason)
{
    return reason <= REPLY_REQUEST_EXCEEDS_LIMIT || reason == REPLY_STORE_UNAVAILABLE ||
           reason == REPLY_MODEL_NOT_ALLOWED;
}

/* What the client is told to wait; negative: nothing. */
static tg_ms told_wait(const struct reply *reply)
{
    tg_ms ms = 0;

    for (size_t i = 0; i < reply->n_fields; i++) {
        struct slice value = reply->fields[i].value;
        if (!slice_equal(reply->fields[i].name, SLICE("retry-after-ms")))
            continue;
        for (size_t k = 0; k < value.n; k++)
            ms = 10 * ms + (value.at[k] - '0');
        return ms;
    }
    return -1;
}

bool report_is_watched(struct worker *worker, tg_ms now)
{
    if (worker->gateway->watch == NULL)
        return false;
    if (now - worker->watched_at >= 1000 || now < worker->watched_at) {
        worker->watched_at = now;
        worker->n_watched = 0;
    }
    if (worker->n_watched < WATCHED_MAX) {
        worker->n_watched++;
        return true;
    }
    watch_miss(worker->gateway->watch);
    return false;
}

/* The refusal's own words, and the numbers of the limit. */
static void explain(const struct report_notes *notes, const struct refusal *why, char *text,
                    size_t size)
{
    const struct tg_decision *decision = &notes->decision;

    if (why->reason == REPLY_PEER_LIMIT && notes->refusal.peer_calls >= 0)
        snprintf(text, size, "%.160s: %" PRId64 " of %" PRId64 " calls at once", why->text,
                 notes->refusal.peer_calls, notes->refusal.peer_limit);
    else if (notes->axis == TG_AXIS_CONCURRENCY)
        snprintf(text, size, "%.160s: the limit is %" PRId64 " calls at once", why->text,
                 decision->limit);
    else if (notes->axis != TG_AXIS_NONE && decision->retry_after_ms < TG_UNSATISFIABLE)
        snprintf(text, size, "%.160s: %" PRId64 " of %" PRId64 " %s left, enough in %" PRId64 " ms",
                 why->text, decision->remaining, decision->limit,
                 notes->axis == TG_AXIS_RATE ? "calls" : "tokens", decision->retry_after_ms);
    else
        snprintf(text, size, "%s", why->text);
}

void report_denial(struct gateway *gateway, const struct report_notes *notes,
                   const struct refusal *why, struct watch_entry *entry)
{
    char text[WATCH_TEXT_MAX + REPLY_TEXT_MAX];

    if (why->binding != TG_AXIS_NONE)
        watch_text(entry->axis, sizeof entry->axis, slice_of(tg_axis_name(why->binding)));
    entry->retry_after_ms = notes->retry_after_ms;
    watch_text(entry->reason, sizeof entry->reason, slice_of(reply_reason_name(why->reason)));
    explain(notes, why, text, sizeof text);
    watch_text(entry->text, sizeof entry->text, slice_of(text));
    watch_put(gateway->watch, entry);
}

void call_report_refused(struct call *call, const struct refusal *why, const struct reply *reply)
{
    struct watch_entry entry;

    call->notes.retry_after_ms = told_wait(reply);
    call->notes.axis = why->binding;
    if (!is_denial(why->reason) || !report_is_watched(call->worker, call_now(call)))
        return;
    watch_entry_init(&entry);
    entry.at = call_now(call);
    entry.id = call->id;
    entry.status = reply->status;
    if (call->tenant != CONFIG_NONE)
        watch_text(entry.tenant, sizeof entry.tenant, slice_of(call_tenant(call)->name));
    watch_text(entry.model, sizeof entry.model, ask_slice(&call->ask.model));
    report_denial(call->gateway, &call->notes, why, &entry);
}

void guarded_report_refused(struct guarded *guarded, const struct refusal *why,
                            const struct reply *reply)
{
    struct watch_entry entry;

    guarded->notes.retry_after_ms = told_wait(reply);
    guarded->notes.axis = why->binding;
    if (!is_denial(why->reason) || !report_is_watched(guarded->worker, guarded_now(guarded)))
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

/* ---- A call --------------------------------------------------------------------------------- */

static const char *ended_how(const struct call *call)
{
    if (call->ended == HTTP_DONE)
        return "done";
    if (call->ended != HTTP_HANGUP)
        return http_why_text(call->ended);
    switch (call->left_in) {
    case CALL_READING:
        return "hangup_reading";
    case CALL_QUEUED_SLOT:
    case CALL_QUEUED_GATE:
        return "hangup_queued";
    case CALL_AT_STORE:
        return "hangup_at_store";
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
    report->user = call->user;
    if (call->tenant == CONFIG_NONE)
        return;
    report->tenant = slice_of(call_tenant(call)->name);
    report->peer = call->notes.peer[0] ? slice_of(call->notes.peer) : report->tenant;
    if (call->gate_call.peer != NULL) {
        report->priority = tg_priority_name(call->gate_call.priority);
        report->value = call->gate_call.value;
    }
    if (call->virtual_key != NULL)
        report->key = maybe(call->virtual_key->name);
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
        report->provider = slice_of(config->providers[call->passthrough->provider].name);
    if (call->route != NULL && call->attempts > 0)
        report->model_served = slice_of(call->route->config->name);
    if (call->last_key != NULL)
        report->provider_key = maybe(call->last_key->config->name);
}

static void fill_outcome(const struct call *call, struct report *report)
{
    report->status = call->status;
    report->upstream_status = call->attempt.status ? call->attempt.status : call->failed_status;
    report->reason = call->reason != REPLY_COUNT ? reply_reason_name(call->reason) : NULL;
    report->upstream_id = slice_of(call->notes.upstream_id);
    report->ended = ended_how(call);
    report->attempts = call->attempts;
    if (call->status == 0 || call->status >= 400)
        report->failure = call_failure_name(call->failure);
    if (call->attempt.first_at > 0)
        report->ttfb_ms = call->attempt.first_at - call->began_at;
    report->total_ms = report->at - call->began_at;
    report->stream = call->ask.stream;
    report->has_usage = call->spent >= 0;
    report->usage_reported = call->usage_reported;
    report->usage = call->usage;
    report->reasoning_tokens = call->notes.reasoning;
    report->spent = call->spent;
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
    struct trace_server server = {NULL, 0};
    struct report report;

    report_init(&report);
    report.began_at = call->began_at;
    report.at = call_now(call);
    fill_notes(&call->notes, &report);
    fill_who(call, &report);
    fill_where(call, &report);
    fill_outcome(call, &report);
    if (call->route != NULL)
        server = (struct trace_server){call->route->provider->config->base.host,
                                       call->route->provider->config->base.port};
    call_report_tell(call->worker, &report, &call->notes, &server);
}

/* ---- No request ----------------------------------------------------------------------------- */

void worker_report_refused(struct worker *worker, int status, const char *text)
{
    enum reply_reason reason = status == 408   ? REPLY_REQUEST_TIMEOUT
                               : status == 503 ? REPLY_INTERNAL
                                               : REPLY_INVALID_REQUEST;
    struct gateway *gateway = worker->gateway;
    struct report_notes notes = {.axis = TG_AXIS_NONE};
    struct trace_server server = {NULL, 0};
    struct report report;

    report_init(&report);
    report.at = report.began_at = clock_now_ms(&gateway->clock);
    report.generation = worker->generation->number;
    report.status = status;
    report.reason = reply_reason_name(reason);
    report.failure = text;
    report.ended = http_why_text(status == 408 ? HTTP_TIMEOUT : HTTP_ERROR);
    report.attempts = 0;
    call_report_tell(worker, &report, &notes, &server);
}

/* ---- A protected route ---------------------------------------------------------------------- */

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
        report->key = maybe(guarded->key->name);
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
    fill_notes(&guarded->notes, &report);
    fill_guarded(guarded, &report);
    report.ended = guarded_ended_how(guarded, why);
    call_report_tell(guarded->worker, &report, &guarded->notes, &server);
}
