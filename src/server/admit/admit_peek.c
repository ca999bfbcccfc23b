/* admit_peek.c - what Admit would answer now: every stage is peeked at, none is entered.
 *
 * Who peeks wants to know how near it is to a limit, and has to be answered at once: a call that
 * would have to wait for a slot is reported as refused.
 */
#include <string.h>

#include "lib/core/container_of.h"
#include "lib/core/num.h"
#include "server/admit/admit_internal.h"

/* Adds what a gate says of its slots: how many are left, or that there is none. */
static void add_slots(struct tg_gate *gate, const struct tg_answer *said, tg_ms now,
                      struct tg_answer *answer)
{
    struct tg_decision *axis = &answer->axes.decision[TG_AXIS_CONCURRENCY];
    struct tg_gate_stats stats;

    tg_gate_get_stats(gate, &stats);
    struct tg_decision seen = {true, stats.limit, num_less(stats.limit, stats.in_flight), now, 0};
    answer->would_deny |= said->would_deny;
    if (said->step == TG_WAITING || said->reason == TG_REASON_CONCURRENCY) {
        answer->reason = TG_REASON_CONCURRENCY;
        answer->client_wait_ms = said->client_wait_ms;
        answer->decision = seen = said->decision;
    }
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

/* Stops at the first stage that refuses: memory, peers, the caller's own slots, those of all. */
static enum tg_err peek_gate(struct worker *worker, struct admit_pending *pending,
                             struct tg_answer *answer)
{
    struct tg_gate *at = worker->gateway->gate;
    struct tg_call *call = &pending->question.call;
    tg_ms now = worker_now(worker);
    struct tg_answer all, slots;

    memset(answer, 0, sizeof *answer);
    answer->decision = TG_ALLOW_FULL;
    if (pending->question.ask.limits_only)
        return TG_OK;
    enum tg_err err = tg_gate_peek(at, call, now, &all);
    if (err)
        return err;
    if (all.reason == TG_REASON_MEMORY_PRESSURE || all.reason == TG_REASON_PEER_LIMIT) {
        *answer = all;
        return TG_OK;
    }
    answer->would_deny = all.would_deny;
    if (pending->slots != NULL) {
        struct tg_call own = pending->own.call;
        own.priority = call->priority;
        own.tenant = call->tenant;
        own.tenant_bytes = call->tenant_bytes;
        own.weight = call->weight;
        err = tg_gate_peek(pending->slots->gate, &own, now, &slots);
        if (err)
            return err;
        add_slots(pending->slots->gate, &slots, now, answer);
        if (answer->reason != TG_REASON_NONE) { /* messages name its own slots */
            call->gate_kind = own.gate_kind;
            call->gate_name = own.gate_name;
            return TG_OK;
        }
    }
    add_slots(at, &all, now, answer);
    return TG_OK;
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

    enum tg_err err = peek_gate(worker, pending, &pending->seen);
    if (err)
        return admit_peek_answered(pending, err, &axes, reply);
    if (pending->seen.reason != TG_REASON_NONE) {
        admit_reply_of(&pending->seen, &pending->question.call, reply);
        return ADMIT_SPARE;
    }
    err = tg_gate_expect(worker->gateway->gate, &pending->question.call, &expectation);
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
