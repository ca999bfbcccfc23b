/* report_notes.c - what is noted of a request for its report, and who is told: see report_notes.h.
 *
 * A refusal is put into the watch when it happens, with the numbers of the limit that refused,
 * unless there are more than anybody can read: to make its texts takes longer than the decision.
 * Everything else is told at the end.
 */
#include "server/runtime/report_notes.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lib/core/decision.h"
#include "lib/core/num.h"
#include "server/obs/metrics.h"
#include "server/obs/traces.h"
#include "server/obs/watch.h"
#include "server/runtime/worker.h"

/* Refusals that a worker puts into the watch in one second. */
enum { WATCHED_MAX = 500 };

/* ---- notes ---- */

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
    assert(notes->waited_ns >= 0);
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
               "a stage has the number of its reason, less one");

void report_limit_init(struct report_limit *limit)
{
    *limit = (struct report_limit){.size = -1, .left = -1};
}

/* The longest name that is shown whole. */
enum { LIMIT_NAME_MAX = 64 };

/* "tenant dept", "user bob of tenant dept". What was cut within a character, or never was UTF-8, is
 * shown as "?". */
static void put_owner(struct report_limit *limit, const char *kind, const void *name, size_t n,
                      const char *suffix)
{
    char text[sizeof limit->of];

    snprintf(text, sizeof text, "%s%s%.*s%s", kind, n > 0 ? " " : "",
             n < LIMIT_NAME_MAX ? (int)n : LIMIT_NAME_MAX, n > 0 ? (const char *)name : "",
             suffix != NULL ? suffix : "");
    watch_text(limit->of, sizeof limit->of, slice_of(text));
}

/* A limit of the rate or the cost axis. */
static void put_named(struct report_limit *limit, const struct tg_call *call,
                      const struct tg_limit_answer *named, enum tg_axis axis)
{
    const struct tg_scope *scope = &call->debit.scopes[named->scope];
    const char *unit = axis == TG_AXIS_RATE ? "calls" : call->unit != NULL ? call->unit : "units";

    if (scope->kind == NULL) /* it is not to be named */
        return;
    put_owner(limit, scope->kind, scope->key, scope->key_bytes, scope->suffix);
    if (strcmp(scope->kind, "user") == 0)
        snprintf(limit->group, sizeof limit->group, "users%s",
                 scope->suffix != NULL ? scope->suffix : "");
    if (named->limiter != NULL)
        tg_limiter_describe(named->limiter, unit, limit->rule, sizeof limit->rule);
    limit->size = named->decision.limit;
    limit->left = named->decision.remaining;
    limit->reset_at = named->decision.reset_at;
    limit->retry_after_ms = named->decision.retry_after_ms;
}

void report_limit_find(const struct tg_call *call, const struct tg_answer *answer,
                       struct report_limit *limit)
{
    enum tg_axis axis;
    const struct tg_limit_answer *named = axes_spoken_of(&answer->axes, &axis);

    report_limit_init(limit);
    if (named != NULL && named->scope < call->debit.n_scopes) {
        put_named(limit, call, named, axis);
        return;
    }
    if (answer->reason == TG_REASON_CONCURRENCY && call->gate_kind != NULL) {
        put_owner(limit, call->gate_kind, call->gate_name,
                  call->gate_name != NULL ? strlen(call->gate_name) : 0, NULL);
    } else if (answer->reason == TG_REASON_PEER_LIMIT) {
        put_owner(limit, "peer", call->peer, call->peer_bytes, NULL);
        snprintf(limit->group, sizeof limit->group, "peers");
    } else {
        return;
    }
    snprintf(limit->rule, sizeof limit->rule, "%lld call%s at once",
             (long long)answer->decision.limit, answer->decision.limit == 1 ? "" : "s");
    limit->size = answer->decision.limit;
    limit->left = answer->decision.remaining;
    limit->reset_at = answer->decision.reset_at;
    limit->retry_after_ms = num_max(answer->decision.retry_after_ms, answer->client_wait_ms);
}

void report_notes_answer(struct report_notes *notes, struct tg_gate *gate,
                         const struct tg_call *call, const struct tg_answer *answer)
{
    if (answer->step != TG_DECIDED)
        return;
    notes->would_deny |= answer->would_deny >> 1;
    if (answer->decision.allowed)
        return;
    notes->axis = tg_axes_binding(&answer->axes);
    report_limit_find(call, answer, &notes->limit);
    notes->refusal.memory_used = answer->memory_used;
    if (answer->reason == TG_REASON_PEER_LIMIT) {
        notes->refusal.peer_limit = answer->decision.limit;
        notes->refusal.peer_calls = tg_gate_peer_calls(gate, call->peer, call->peer_bytes);
    }
}

void report_limit_fill(const struct report_limit *limit, struct report *report)
{
    if (limit->of[0] == 0)
        return;
    report->limit_of = slice_of(limit->of);
    report->limit_group = slice_of(limit->group[0] != 0 ? limit->group : limit->of);
    report->limit_rule = slice_of(limit->rule);
    report->limit = limit->size;
    report->left = limit->left;
}

struct slice report_notes_traceparent(const struct report_notes *notes, const struct worker *worker,
                                      char text[TRACE_PARENT_BYTES])
{
    if (worker->gateway->trace == NULL || !trace_ids_present(&notes->trace))
        return (struct slice){NULL, 0};
    trace_parent_write(&notes->trace, text);
    return (struct slice){text, TRACE_PARENT_BYTES};
}

void report_notes_fill(const struct report_notes *notes, struct report *report)
{
    report->would_deny = notes->would_deny;
    report->axis = notes->axis != TG_AXIS_NONE ? tg_axis_name(notes->axis) : NULL;
    report_limit_fill(&notes->limit, report);
    report->retry_after_ms = notes->retry_after_ms;
    report->fallback_why = notes->fallback_why;
    report->changed = slice_of(notes->changed);
    report->estimated_input = notes->estimated_input;
    report->max_output = notes->max_output;
    report->clamped = notes->clamped;
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

/* ---- refusals ---- */

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
        for (size_t k = 0; k < value.n; k++) {
            assert(value.at[k] >= '0' && value.at[k] <= '9'); /* the reply is our own */
            ms = 10 * ms + (value.at[k] - '0');
        }
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
    assert(worker->n_watched >= 0 && worker->n_watched <= WATCHED_MAX);
    if (worker->n_watched < WATCHED_MAX) {
        worker->n_watched++;
        return true;
    }
    watch_miss(worker->gateway->watch);
    return false;
}

bool report_is_wanted(struct report_notes *notes, struct worker *worker, struct tenant_share *share,
                      tg_ms now)
{
    notes->for_watch = report_is_watched(worker, now);
    notes->for_tenant = share != NULL && refusals_may_put(&share->refusals, now);
    return notes->for_watch || notes->for_tenant;
}

bool report_notes_refused(struct report_notes *notes, struct worker *worker,
                          struct tenant_share *share, const struct refusal *why,
                          const struct reply *reply, tg_ms now)
{
    notes->retry_after_ms = told_wait(reply);
    notes->axis = why->binding;
    return is_denial(why->reason) && report_is_wanted(notes, worker, share, now);
}

void report_denial(struct gateway *gateway, struct tenant_share *share,
                   const struct report_notes *notes, const struct refusal *why,
                   struct watch_entry *entry)
{
    if (why->binding != TG_AXIS_NONE)
        watch_text(entry->axis, sizeof entry->axis, slice_of(tg_axis_name(why->binding)));
    entry->retry_after_ms = notes->retry_after_ms;
    watch_text(entry->reason, sizeof entry->reason, slice_of(reply_reason_name(why->reason)));
    watch_text(entry->text, sizeof entry->text, slice_of(why->text));
    if (notes->limit.of[0] != 0) {
        watch_text(entry->limit_of, sizeof entry->limit_of, slice_of(notes->limit.of));
        watch_text(entry->limit_rule, sizeof entry->limit_rule, slice_of(notes->limit.rule));
        entry->limit = notes->limit.size;
        entry->remaining = notes->limit.left;
    }
    entry->at = clock_wall_of(&gateway->clock, entry->at);
    if (notes->for_watch)
        watch_put(gateway->watch, entry);
    if (notes->for_tenant)
        refusals_put(&share->refusals, entry);
}

/* ---- the end ---- */

void report_tell(struct worker *worker, const struct report *report,
                 const struct report_notes *notes, const struct trace_server *server)
{
    const struct clock *clock = &worker->gateway->clock;
    const struct report *told = report;
    struct report dated;

    /* Logs and traces have the wall clock's time. A recording is for a replay: it wants spans. */
    if (clock_wall_of(clock, report->at) != report->at) {
        dated = *report;
        dated.began_at = clock_wall_of(clock, report->began_at);
        dated.at = clock_wall_of(clock, report->at);
        told = &dated;
    }
    metrics_request(metrics_shard(worker->gateway->metrics, worker->number), report);
    if (worker->log != NULL) {
        log_request(worker->log, told, report->reason ? &notes->refusal : NULL);
        if (report->priority != NULL) /* it asked to be admitted: lists and strangers do not */
            log_record(worker->log, report);
    }
    if (worker->spans != NULL)
        trace_request(worker->spans, told, notes->trace.parent_id, server);
}

void report_no_request(struct worker *worker, int status, const char *text)
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
    report_tell(worker, &report, &notes, &server);
}
