/* admit_peek.c - what Admit would answer now: every stage is peeked at, none is entered.
 *
 * The gate has no such question, for an answer about a slot is worth nothing a moment later. Who
 * peeks wants to know how near it is to a limit. So the stages are peeked at one by one, from
 * outside, in their order; a call that would have to wait is reported as refused.
 */
#include <math.h>
#include <string.h>

#include "lib/core/container_of.h"
#include "lib/core/num.h"
#include "server/admit/admit_internal.h"

enum {
    AGAIN_MS = 100,
    UNKNOWN_MS = 1000
}; /* the gate's retry hints: memory and peers; slots
                                               before a call has ended */

static bool in_shadow(enum config_mode mode)
{
    return mode == CONFIG_SHADOW;
}

static void admit_peek_refuse(struct tg_answer *answer, enum tg_reason reason, bool shadow,
                              int64_t limit, tg_ms now, tg_ms again)
{
    if (shadow) {
        answer->would_deny |= 1u << reason;
        return;
    }
    answer->reason = reason;
    answer->decision = (struct tg_decision){
        .allowed = false, .limit = limit, .reset_at = now, .retry_after_ms = again};
}

static void peek_memory(const struct config_gate *gate, const struct tg_gate_stats *stats,
                        const struct tg_call *call, tg_ms now, struct tg_answer *answer)
{
    const double bounds[] = {[TG_PRIORITY_HIGH] = gate->memory.limit,
                             [TG_PRIORITY_NORMAL] = gate->memory.critical,
                             [TG_PRIORITY_LOW] = gate->memory.pressure};

    if (!gate->memory.present || !(stats->memory_used > bounds[call->priority]))
        return;
    answer->memory_used = stats->memory_used;
    admit_peek_refuse(answer, TG_REASON_MEMORY_PRESSURE, in_shadow(gate->memory.mode), 0, now,
                      AGAIN_MS);
}

static void peek_peer(const struct config_gate *gate, struct tg_gate *at,
                      const struct tg_call *call, tg_ms now, struct tg_answer *answer)
{
    bool own = call->peer_limit > 0;
    int64_t most = own ? call->peer_limit : gate->peers.limit;

    if ((!own && !gate->peers.present) ||
        tg_gate_peer_calls(at, call->peer, call->peer_bytes) < most)
        return;
    admit_peek_refuse(answer, TG_REASON_PEER_LIMIT,
                      own ? call->peer_mode == TG_SHADOW : in_shadow(gate->peers.mode), most, now,
                      AGAIN_MS);
}

/* When its turn would come, as a refusal by the gate says it. */
static tg_ms turn_in_ms(const struct tg_gate_stats *stats, enum tg_priority priority)
{
    double calls = 1;

    if (stats->slot_ms < 0)
        return UNKNOWN_MS;
    for (int rank = 0; rank <= (int)priority; rank++)
        calls += (double)stats->queued[rank];
    return num_max(1, (tg_ms)ceil(calls * stats->slot_ms / (double)stats->limit));
}

/* How many slots low holds is known to the gate alone: its share is not checked here. */
static void peek_slots(const struct config_concurrency *config, const struct tg_gate_stats *stats,
                       enum tg_priority priority, tg_ms now, struct tg_answer *answer)
{
    struct tg_decision *axis = &answer->axes.decision[TG_AXIS_CONCURRENCY];
    struct tg_decision seen = {true, stats->limit, 0, now, 0};

    if (stats->in_flight < stats->limit)
        seen.remaining = stats->limit - stats->in_flight;
    else
        admit_peek_refuse(answer, TG_REASON_CONCURRENCY, in_shadow(config->mode), stats->limit, now,
                          turn_in_ms(stats, priority));
    if (answer->reason != TG_REASON_NONE)
        seen = answer->decision;
    *axis =
        answer->axes.present & 1u << TG_AXIS_CONCURRENCY ? tg_decision_combine(*axis, seen) : seen;
    answer->axes.present |= 1u << TG_AXIS_CONCURRENCY;
}

/* Adds what a store said about the limits. */
static void add_limits(const struct tg_axes *axes, struct tg_answer *answer)
{
    const enum tg_axis all[] = {TG_AXIS_RATE, TG_AXIS_COST};
    const enum tg_reason reasons[] = {TG_REASON_RATE, TG_REASON_COST};

    assert(answer->reason == TG_REASON_NONE); /* the stages before it have allowed */
    for (size_t i = 0; i < 2; i++) {
        if (axes->would_deny & 1u << all[i])
            answer->would_deny |= 1u << reasons[i];
        if (!(axes->present & 1u << all[i]))
            continue;
        answer->axes.present |= 1u << all[i];
        answer->axes.decision[all[i]] = axes->decision[all[i]];
        answer->axes.named[all[i]] = axes->named[all[i]];
        answer->decision = tg_decision_combine(answer->decision, axes->decision[all[i]]);
        if (!axes->decision[all[i]].allowed && answer->reason == TG_REASON_NONE)
            answer->reason = reasons[i];
    }
    answer->axes.reset_at = axes->reset_at;
    answer->axes.retry_after_ms = axes->retry_after_ms;
    answer->decision.reset_at = num_max(answer->decision.reset_at, axes->reset_at);
    answer->decision.retry_after_ms =
        num_max(answer->decision.retry_after_ms, axes->retry_after_ms);
    if (!(answer->axes.present & 1u << TG_AXIS_CONCURRENCY))
        return;
    struct tg_decision *slots = &answer->axes.decision[TG_AXIS_CONCURRENCY];
    /* What would be left after this call, as the limiters report it. */
    if (answer->reason == TG_REASON_NONE && slots->remaining > 0)
        slots->remaining--;
    answer->decision = tg_decision_combine(answer->decision, *slots);
}

/* Stops at the first stage that refuses. */
static void peek_gate(struct worker *worker, struct admit_pending *pending,
                      struct tg_answer *answer)
{
    const struct config_gate *gate = &worker->generation->config.gate;
    const struct admit_question *question = &pending->question;
    struct tg_gate *at = worker->gateway->gate;
    struct tg_call *call = &pending->question.call;
    tg_ms now = worker_now(worker);
    struct tg_gate_stats stats, own;

    memset(answer, 0, sizeof *answer);
    answer->decision = TG_ALLOW_FULL;
    if (question->ask.limits_only)
        return;
    tg_gate_get_stats(at, &stats);
    peek_memory(gate, &stats, call, now, answer);
    if (answer->reason == TG_REASON_NONE)
        peek_peer(gate, at, call, now, answer);
    if (answer->reason == TG_REASON_NONE && pending->slots != NULL) {
        tg_gate_get_stats(pending->slots->gate, &own);
        peek_slots(&question->entry->concurrency, &own, call->priority, now, answer);
        if (answer->reason == TG_REASON_CONCURRENCY) { /* messages name its own slots */
            call->gate_kind = pending->own.call.gate_kind;
            call->gate_name = pending->own.call.gate_name;
        }
    }
    if (answer->reason == TG_REASON_NONE)
        peek_slots(&gate->concurrency, &stats, call->priority, now, answer);
}

/* ---- the answer ---- */

static void store_seen(struct remote_peek *peek, enum tg_err err, const struct tg_axes *axes)
{
    admit_step(container_of(peek, struct admit_pending, peek),
               &(struct admit_event){.kind = ADMIT_PEEK_ANSWER, .err = err, .axes = axes});
}

enum admit_state admit_peek_answered(struct admit_pending *pending, enum tg_err err,
                                     const struct tg_axes *axes, struct admit_reply *reply)
{
    assert(pending->run.lease == 0 && !pending->run.is_charged); /* a peek takes nothing */
    if (err) {
        admit_reply_error(err, reply);
    } else {
        add_limits(axes, &pending->seen);
        admit_reply_of(&pending->seen, &pending->question.call, reply);
    }
    return ADMIT_SPARE;
}

enum admit_state admit_peek_begin(struct admit_pending *pending, struct admit_reply *reply)
{
    struct worker *worker = pending->worker;
    struct tg_debit *debit = &pending->question.call.debit;
    struct tg_axes axes = {.present = 0};
    struct tg_expectation expectation;
    struct tg_decision together;

    peek_gate(worker, pending, &pending->seen);
    if (pending->seen.reason != TG_REASON_NONE) {
        admit_reply_of(&pending->seen, &pending->question.call, reply);
        return ADMIT_SPARE;
    }
    enum tg_err err = tg_gate_expect(worker->gateway->gate, &pending->question.call, &expectation);
    if (!err && worker->port != NULL)
        err = admit_pending_keep(pending);
    if (err)
        return admit_peek_answered(pending, err, &axes, reply);
    debit->cost = expectation.charge;
    if (worker->port != NULL) {
        if (!remote_peek(worker->port, &pending->peek, &pending->generation->remote, debit,
                         store_seen, &err, &axes))
            return ADMIT_PEEKING;
    } else if (debit->n_scopes > 0) {
        err = tg_store_peek(worker->gateway->store, debit, pending->began_at, &together, &axes);
    }
    return admit_peek_answered(pending, err, &axes, reply);
}

struct admit_pending *admit_peek(struct worker *worker, struct admit_caller *caller,
                                 const struct admit_ask *ask, admit_done *done, void *context)
{
    struct admit_reply reply;
    const struct config_caller *entry;
    struct admit_pending *pending = admit_pending_open(worker, caller, ask, &entry, &reply);

    if (pending == NULL) {
        done(context, &reply);
        return NULL;
    }
    pending->done = done;
    pending->context = context;
    enum admit_state state = admit_step(pending, &(struct admit_event){.kind = ADMIT_PEEK});
    return state == ADMIT_PEEKING ? pending : NULL;
}
