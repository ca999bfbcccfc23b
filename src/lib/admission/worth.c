/* worth.c - stage 4: asking the policy, and telling it. See worth.h. */
#include "lib/admission/worth.h"

#include "lib/core/num.h"

#include <assert.h>

/* ---- under the gate's lock ---- */

void worth_choose(struct passage *passage)
{
    passage->policy = passage->gate->config.policy;
    passage->policy_mode = passage->gate->config.policy_mode;
    /* Its lease is not one until the policy has heard of it: else it could end before. */
    passage->known |= passage->policy->released != NULL;
}

void worth_note(struct passage *passage, struct ticket *ticket)
{
    const struct tg_policy *policy = passage->policy;

    passage->in_flight = ticket->holds_slot ? (int64_t)ticket->in_flight_at_start : 0;
    ticket->is_judged = policy->released || (policy->admitted && passage->remote);
    if (!ticket->is_judged)
        return;
    ticket->policy_epoch = passage->gate->policy_epoch;
    ticket->charged_at = passage->now;
    ticket->value = passage->call->value;
    ticket->hold_s = passage->call->hold_s;
}

/* The policy that has judged the ticket's call, if it is still the gate's. */
static struct tg_policy *judge_of(const struct tg_gate *gate, const struct ticket *ticket)
{
    bool same = ticket->is_judged && ticket->policy_epoch == gate->policy_epoch;

    return same ? gate->config.policy : NULL;
}

void worth_recall(struct passage *passage, struct tg_call *call, const struct ticket *ticket)
{
    passage->policy = judge_of(passage->gate, ticket);
    if (!passage->policy)
        return;
    tg_call_init(call);
    call->priority = (enum tg_priority)ticket->priority;
    call->debit.cost = ticket_asked(ticket);
    call->value = ticket->value;
    call->hold_s = ticket->hold_s;
    passage->call = call;
}

void worth_ended(const struct tg_gate *gate, const struct ticket *ticket, tg_ms now, int64_t actual,
                 struct worth_report *report)
{
    struct tg_policy *policy = judge_of(gate, ticket);
    tg_ms since =
        ticket->holds_slot ? ticket->started_at : gate_from_caller(gate, ticket->charged_at);

    assert(ticket->is_judged && ticket->state == TICKET_ADMITTED);
    report->policy = policy && policy->released ? policy : NULL;
    report->now = num_in_range(now) ? now : gate_to_caller(gate, gate->latest);
    report->spent = (struct tg_spent){
        .admitted_at = ticket->charged_at,
        .cost = ticket_asked(ticket),
        .actual = actual < 0 ? ticket_asked(ticket) : num_min(actual, TG_NUMBER_MAX),
        .hold_s = ticket->hold_s,
        .held_s = (double)num_less(gate->latest, since) / 1000,
    };
}

/* ---- without it ---- */

bool worth_refuses(const struct passage *passage)
{
    struct tg_gate *gate = passage->gate;
    struct tg_policy *policy = passage->policy;

    if (policy->worth(policy, passage->call, passage->in_flight, passage->now))
        return false;
    if (passage->policy_mode == TG_ENFORCE)
        return true;
    spin_lock(&gate->lock);
    struct ticket *ticket = tickets_find(&gate->tickets, passage->answer->lease);
    stages_would_deny(gate, passage->answer, TG_REASON_POLICY);
    if (ticket) /* the answer of a remote store finds it there */
        ticket->would_deny |= 1u << TG_REASON_POLICY;
    spin_unlock(&gate->lock);
    return false;
}

void worth_admitted(const struct passage *passage)
{
    struct tg_policy *policy = passage->policy;

    if (policy->admitted)
        policy->admitted(policy, passage->call, passage->now);
}

void worth_refused(const struct passage *passage)
{
    struct tg_policy *policy = passage->policy;
    enum tg_reason reason = passage->answer->reason;

    if (!policy || !policy->refused)
        return;
    assert(reason == TG_REASON_CONCURRENCY || reason == TG_REASON_RATE || reason == TG_REASON_COST);
    policy->refused(policy, passage->call, reason, passage->now);
}

void worth_was_in_vain(const struct passage *passage)
{
    struct worth_report report = {
        .policy = passage->policy,
        .now = passage->now,
        .spent = {.admitted_at = passage->now,
                  .cost = passage->call->debit.cost,
                  .hold_s = passage->call->hold_s},
    };

    worth_tell(&report);
}

void worth_tell(const struct worth_report *report)
{
    assert(report->policy && report->policy->released);
    assert(report->spent.actual >= 0 && report->spent.held_s >= 0);
    report->policy->released(report->policy, &report->spent, report->now);
}
