/* admit_report.c - metrics and log of decisions that callers ask for: all are counted, some logged.
 *
 * A worker may decide hundreds of thousands a second. Each is counted by tenant, model, reason and
 * axis, like the gateway's own calls. An admit is logged when the level is debug. Refusals are
 * sampled like those of calls: the first ten a second for one reason, then every hundredth, which
 * says how many it stands for.
 */
#include <stdio.h>
#include <string.h>

#include "lib/core/num.h"
#include "server/admit/admit_internal.h"
#include "server/obs/log.h"
#include "server/obs/metrics.h"
#include "server/obs/watch.h"
#include "server/runtime/report_notes.h"

const char *admit_reason(const struct admit_reply *reply)
{
    if (reply->status != ADMIT_DECIDED || reply->allowed)
        return "";
    if (reply->decision.retry_after_ms == TG_UNSATISFIABLE &&
        (reply->reason == TG_REASON_RATE || reply->reason == TG_REASON_COST))
        return reply_reason_name(REPLY_REQUEST_EXCEEDS_LIMIT);
    return tg_reason_name(reply->reason);
}

static enum reply_reason admit_reason_of(const struct admit_reply *reply)
{
    static const enum reply_reason errors[] = {[ADMIT_UNAUTHENTICATED] = REPLY_INVALID_API_KEY,
                                               [ADMIT_FORBIDDEN] = REPLY_FIELD_NOT_ALLOWED,
                                               [ADMIT_INVALID] = REPLY_INVALID_REQUEST,
                                               [ADMIT_UNAVAILABLE] = REPLY_STORE_UNAVAILABLE,
                                               [ADMIT_DRAINING] = REPLY_SHUTTING_DOWN,
                                               [ADMIT_INTERNAL] = REPLY_INTERNAL};
    static const enum reply_reason refusals[TG_REASON_COUNT] = {
        [TG_REASON_NONE] = REPLY_INTERNAL,
        [TG_REASON_MEMORY_PRESSURE] = REPLY_MEMORY_PRESSURE,
        [TG_REASON_PEER_LIMIT] = REPLY_PEER_LIMIT,
        [TG_REASON_CONCURRENCY] = REPLY_CONCURRENCY,
        [TG_REASON_POLICY] = REPLY_POLICY,
        [TG_REASON_RATE] = REPLY_RATE,
        [TG_REASON_COST] = REPLY_COST,
    };

    assert(reply->status != ADMIT_DECIDED || !reply->allowed);
    if (reply->status != ADMIT_DECIDED)
        return errors[reply->status];
    if (reply->decision.retry_after_ms == TG_UNSATISFIABLE &&
        (reply->reason == TG_REASON_RATE || reply->reason == TG_REASON_COST))
        return REPLY_REQUEST_EXCEEDS_LIMIT;
    return refusals[reply->reason];
}

void admit_refusal(const struct admit_reply *reply, struct refusal *why)
{
    _Static_assert(sizeof why->text >= sizeof reply->message, "it has room for it");

    *why = (struct refusal){.reason = admit_reason_of(reply), .binding = TG_AXIS_NONE};
    memcpy(why->text, reply->message, strlen(reply->message) + 1);
    if (reply->field != NULL)
        snprintf(why->param, sizeof why->param, "%s", reply->field);
    if (reply->status != ADMIT_DECIDED)
        return;
    why->binding = reply->binding_axis;
    why->retry_after_ms = num_max(reply->decision.retry_after_ms, reply->client_wait_ms);
    why->reset_at = reply->decision.reset_at;
}

/* ---- the watch ---- */

/* Shows the reply's text and the numbers of the limit that refused. */
static void watch_refusal(struct worker *worker, const struct generation *generation,
                          const struct admit_question *question, const struct admit_reply *reply,
                          const struct tg_answer *answer, const struct report *report)
{
    struct report_notes notes = {.axis = TG_AXIS_NONE, .refusal.peer_calls = -1};
    struct tenant_share *share =
        question->tenant != NULL ? generation->shares[question->tenant - generation->config.tenants]
                                 : NULL;
    const struct tg_call *call = &question->call;
    struct watch_entry entry;
    struct refusal why;

    if (!report_is_wanted(&notes, worker, share, report->at))
        return;
    admit_refusal(reply, &why);
    if (answer != NULL)
        report_notes_answer(&notes, worker->gateway->gate, call, answer);
    notes.retry_after_ms = report->retry_after_ms;
    watch_entry_init(&entry);
    entry.at = report->at;
    entry.id = report->id;
    entry.status = report->status;
    watch_text(entry.tenant, sizeof entry.tenant, (struct slice){call->tenant, call->tenant_bytes});
    watch_text(entry.model, sizeof entry.model, question->ask.model);
    watch_text(entry.user, sizeof entry.user, question->ask.user);
    report_denial(worker->gateway, share, &notes, &why, &entry);
}

/* ---- the report ---- */

static void admit_report_fill(struct worker *worker, const struct config_caller *entry,
                              const struct admit_reply *reply, struct report *report)
{
    report_init(report);
    report->at = report->began_at = worker_now(worker);
    report->id = random_bits(&worker->random);
    report->kind = "admit";
    if (entry != NULL)
        report->key = report->tenant = slice_of(entry->name);
    report->status = 200;
    report->attempts = reply->allowed;
    report->ended = "done";
}

static void fill_question(const struct generation *generation,
                          const struct admit_question *question, struct report *report)
{
    const struct tg_call *call = &question->call;

    report->generation = generation->number;
    if (question->tenant != NULL)
        report->tenant = slice_of(question->tenant->name);
    report->user = question->ask.user;
    report->peer = (struct slice){call->peer, call->peer_bytes};
    report->priority = tg_priority_name(call->priority);
    report->model_asked = question->ask.model;
    if (question->model.at != question->ask.model.at) /* the configuration has it */
        report->model = question->model;
    report->value = call->value;
    report->estimated_input = call->debit.cost;
    report->max_output = 0;
}

static void hand_on(struct worker *worker, const struct report *report,
                    const struct log_refusal *refusal)
{
    metrics_request(metrics_shard(worker->gateway->metrics, worker->number), report);
    if (worker->log == NULL)
        return;
    if (report->reason != NULL || log_is_on(worker->gateway->log, LOG_DEBUG))
        log_request(worker->log, report, refusal);
    if (report->priority != NULL)
        log_record(worker->log, report);
}

/* Reports a refusal, or an error that came after the gate was asked. */
static void report_refused(struct worker *worker, const struct generation *generation,
                           const struct admit_question *question, const struct tg_answer *answer,
                           const struct admit_reply *reply, struct report *report)
{
    struct log_refusal refusal = {.peer_calls = -1};
    enum reply_reason reason = admit_reason_of(reply);

    assert(!reply->allowed);
    atomic_fetch_add_explicit(&worker->gateway->counts.refused[reason], 1, memory_order_relaxed);
    report->reason = reply_reason_name(reason);
    report->axis = reply->status == ADMIT_DECIDED && reply->binding_axis != TG_AXIS_NONE
                       ? tg_axis_name(reply->binding_axis)
                       : NULL;
    if (reply->status == ADMIT_DECIDED && reply->decision.retry_after_ms < TG_UNSATISFIABLE)
        report->retry_after_ms = reply->decision.retry_after_ms;
    if (question->ask.is_verdict && reply->status == ADMIT_DECIDED)
        report->status = 403;
    else if (reply->status != ADMIT_DECIDED || question->ask.enforce)
        report->status = reply_status(reason, WIRE_OPENAI);
    if (answer != NULL && answer->reason == TG_REASON_MEMORY_PRESSURE)
        refusal.memory_used = answer->memory_used;
    if (answer != NULL && answer->reason == TG_REASON_PEER_LIMIT) {
        refusal.peer_limit = answer->decision.limit;
        refusal.peer_calls = tg_gate_peer_calls(worker->gateway->gate, question->call.peer,
                                                question->call.peer_bytes);
    }
    if (reply->status == ADMIT_DECIDED)
        report_limit_fill(&reply->limit, report);
    watch_refusal(worker, generation, question, reply, answer, report);
    hand_on(worker, report, &refusal);
}

void admit_report(struct worker *worker, const struct generation *generation,
                  const struct admit_question *question, tg_ms began_at,
                  const struct tg_answer *answer, const struct admit_reply *reply,
                  struct record_trail *trail)
{
    struct report report;

    atomic_fetch_add_explicit(&worker->gateway->counts.calls, 1, memory_order_relaxed);
    admit_report_fill(worker, question->entry, reply, &report);
    fill_question(generation, question, &report);
    assert(began_at <= report.at && (!reply->allowed || answer != NULL));
    report.began_at = began_at;
    report.waited_ms = report.total_ms = report.at - began_at;
    report.ops = record_trail_text(trail);
    report.lost_ops = trail->lost;
    if (reply->status == ADMIT_DECIDED)
        report.would_deny = reply->would_deny >> 1;
    if (!reply->allowed) {
        report_refused(worker, generation, question, answer, reply, &report);
        return;
    }
    if (question->ask.is_verdict)
        report.status = 204;
    metrics_admitted(metrics_shard(worker->gateway->metrics, worker->number),
                     question->call.priority, report.waited_ms);
    hand_on(worker, &report, NULL);
}

void admit_record_left(struct worker *worker, const struct generation *generation,
                       const struct admit_question *question, tg_ms began_at,
                       struct record_trail *trail)
{
    const struct admit_reply none = {.allowed = false};
    struct report report;

    if (worker->log == NULL || worker->gateway->recorder == NULL)
        return;
    admit_report_fill(worker, question->entry, &none, &report);
    fill_question(generation, question, &report);
    report.began_at = began_at;
    report.waited_ms = report.total_ms = report.at - began_at;
    report.status = 0;
    report.ended = "hangup_queued";
    report.ops = record_trail_text(trail);
    report.lost_ops = trail->lost;
    log_record(worker->log, &report);
}

void admit_report_refusal(struct worker *worker, const struct config_caller *entry,
                          const struct refusal *why)
{
    const struct admit_reply none = {.allowed = false};
    struct report report;

    atomic_fetch_add_explicit(&worker->gateway->counts.calls, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&worker->gateway->counts.refused[why->reason], 1,
                              memory_order_relaxed);
    admit_report_fill(worker, entry, &none, &report);
    report.generation = worker->generation->number;
    report.reason = reply_reason_name(why->reason);
    report.status = reply_status(why->reason, WIRE_OPENAI);
    report.failure = why->text;
    hand_on(worker, &report, NULL);
}

void admit_report_error(struct worker *worker, const struct config_caller *entry,
                        const struct admit_reply *reply)
{
    struct refusal why;

    admit_refusal(reply, &why);
    admit_report_refusal(worker, entry, &why);
}
