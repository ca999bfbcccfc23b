/* admit.c - one admit: the stages, one after the other.
 *
 *     memory       \
 *     peers         } one critical section: count the peer, get a slot or a place in the queue
 *     concurrency  /
 *     policy       the embedder's, or bid prices; see worth.h
 *     rate, cost   the store's critical section, or a question to a remote one
 *
 * What is taken belongs to a ticket from the moment it is taken (ticket.h has its states), so
 * there is one way to give it back, whatever went wrong. A call that goes straight through is made
 * a lease before policy and store are asked, and dropped again if they refuse: so that the lock is
 * taken once for each call that is admitted, and twice only for one that is not, or whose policy
 * wants to hear of its end.
 */
#include "lib/admission/worth.h"

#include <assert.h>
#include <string.h>

#include "lib/core/decision.h"
#include "lib/core/num.h"

/* ---- tickets ---- */

/* What the call says. Between precheck and admit it may have become known better. */
static void set_ticket(const struct tg_gate *gate, struct ticket *ticket,
                       const struct tg_call *call)
{
    ticket->priority = (uint8_t)call->priority;
    ticket->size = (uint32_t)num_max(0, num_min(call->size, UINT32_MAX));
    ticket->lease_ttl = call->lease_ttl ? call->lease_ttl : gate->config.lease_ttl;
}

static struct ticket *begin_ticket(struct tg_gate *gate, const struct tg_call *call)
{
    struct ticket *ticket = handles_get(&gate->tickets);

    if (!ticket)
        return NULL;
    ticket->state = TICKET_CHECKED;
    ticket->counts_peer = ticket->holds_slot = ticket->charged = false;
    ticket->is_judged = ticket->owes_turn = ticket->has_begun = false;
    ticket->would_deny = 0;
    set_ticket(gate, ticket, call);
    return ticket;
}

/* A call that is still to be decided ends by itself, too, should its owner forget it. But its body
 * may have to be read, its turn to come at other slots, and a store to answer: a short lease, which
 * begins when the call is admitted, leaves no time for that. */
static void set_end_undecided(struct tg_gate *gate, struct ticket *ticket)
{
    static const tg_ms DECIDING_MS = 600000;

    gate_set_end(gate, ticket, num_add(gate->latest, num_max(DECIDING_MS, ticket->lease_ttl)));
}

/* Whether this call will hold something, or be settled. */
static bool needs_ticket(const struct passage *passage)
{
    const struct tg_gate_config *config = &passage->gate->config;
    const struct tg_call *call = passage->call;
    bool counted = call->peer && (config->peers.on || call->peer_limit);

    return config->concurrency.on || counted || (passage->claim && passage->claim->has_cost) ||
           passage->remote || (config->policy && config->policy->released);
}

/* ---- from the slot to the decision ---- */

/* The call has passed all stages up to the slot and does not wait: it gets its lease now, which is
 * dropped again if policy or store refuse. */
static void admit_hold(struct passage *passage, struct ticket *ticket)
{
    struct tg_gate *gate = passage->gate;
    struct tg_answer *answer = passage->answer;

    assert(ticket->state == TICKET_CHECKED || ticket->state == TICKET_GRANTED);
    assert(ticket->holds_slot || !gate->config.concurrency.on);
    if (gate->config.concurrency.on)
        stages_set_axis(&answer->axes, TG_AXIS_CONCURRENCY, stages_slot_taken(gate, passage->now));
    answer->would_deny |= ticket->would_deny;
    ticket->state = passage->remote || passage->known ? TICKET_ASKING : TICKET_ADMITTED;
    ticket_set_asked(ticket, passage->call->debit.cost);
    answer->factor = 1;
    ticket->learns = passage->has_like || (passage->named && passage->named->has_cost);
    if (passage->named) {
        claim_copy(&ticket->claim, passage->named);
        ticket->charged = passage->claim != NULL;
        ticket->charged_at = passage->now;
    }
    if (ticket->learns) /* after the copy, which would wait for what is written just before it */
        answer->factor = charge_choose(passage, ticket);
    if (passage->named)
        answer->charge = ticket->claim.cost;
    if (passage->policy)
        worth_note(passage, ticket);
    if (passage->remote) {
        ticket->has_slot = answer->axes.present != 0; /* nothing else has been asked yet */
        if (ticket->has_slot)
            ticket->slot = answer->axes.decision[TG_AXIS_CONCURRENCY];
        ticket->factor = answer->factor;
        ticket->would_deny = (uint16_t)answer->would_deny;
    }
    if (passage->remote)
        set_end_undecided(gate, ticket);
    else
        gate_set_end(gate, ticket, num_add(gate->latest, ticket->lease_ttl));
    answer->lease = ticket_lease(ticket);
    answer->deadline = gate_to_caller(gate, ticket->deadline);
}

static enum tg_reason reason_of(enum tg_axis axis)
{
    return axis == TG_AXIS_RATE   ? TG_REASON_RATE
           : axis == TG_AXIS_COST ? TG_REASON_COST
                                  : TG_REASON_CONCURRENCY;
}

/* Gives back what a lease that is not to be holds. It may have expired meanwhile. */
static void drop_lease(struct tg_gate *gate, tg_lease lease)
{
    struct ticket *ticket = tickets_find(&gate->tickets, lease);

    if (ticket)
        gate_drop(gate, ticket);
}

/* The same for a call that could not be taken on, if it is at one of the steps of `states`. */
static void drop_if(struct tg_gate *gate, tg_lease lease, unsigned states)
{
    struct ticket *ticket = tickets_find(&gate->tickets, lease);

    if (ticket && states & 1u << ticket->state)
        gate_drop(gate, ticket);
}

/* The decision is no, for a reason after the slot. */
static void refuse_late(struct tg_gate *gate, struct tg_answer *answer, enum tg_reason reason,
                        struct tg_decision decision)
{
    spin_lock(&gate->lock);
    drop_lease(gate, answer->lease);
    stages_refuse(gate, answer, reason, decision);
    spin_unlock(&gate->lock);
}

static void refuse_by_policy(struct tg_gate *gate, struct tg_answer *answer)
{
    struct tg_decision decision = axes_combine(&answer->axes);

    assert(decision.allowed && decision.retry_after_ms == 0); /* the slot alone has been asked */
    decision.allowed = false;
    decision.remaining = 0;
    answer->policy_denied = true;
    refuse_late(gate, answer, TG_REASON_POLICY, decision);
}

/* Adds what the store says to what is known. */
static void add_axes(struct tg_gate *gate, struct tg_answer *answer, const struct tg_axes *axes)
{
    passage_copy_limits(&answer->axes, axes);
    for (int axis = TG_AXIS_RATE; axis <= TG_AXIS_COST && axes->would_deny != 0; axis++)
        if (axes->would_deny & 1u << axis) {
            spin_lock(&gate->lock);
            stages_would_deny(gate, answer, reason_of((enum tg_axis)axis));
            spin_unlock(&gate->lock);
        }
    answer->axes.would_deny = axes->would_deny;
}

/* The lease has to know which limits in shadow were not charged: they are not settled either. */
static void note_uncharged(struct tg_gate *gate, tg_lease lease, const struct claim *claim)
{
    spin_lock(&gate->lock);
    struct ticket *ticket = tickets_find(&gate->tickets, lease);
    if (ticket)
        claim_copy(&ticket->claim, claim);
    spin_unlock(&gate->lock);
}

/* A lease that was known while policy and store were asked becomes one now, unless it was released
 * or has ended meanwhile: then what was charged is given back. */
static enum tg_err confirm(const struct passage *passage)
{
    struct tg_gate *gate = passage->gate;
    enum tg_err err = TG_OK;

    spin_lock(&gate->lock);
    struct ticket *ticket = tickets_find(&gate->tickets, passage->answer->lease);
    if (ticket && ticket->state == TICKET_ASKING) {
        ticket->state = TICKET_ADMITTED;
        ticket->charged_at = passage->now;
        if (gate->remote_store) {
            gate_set_end(gate, ticket, num_add(gate->latest, ticket->lease_ttl));
            passage->answer->deadline = gate_to_caller(gate, ticket->deadline);
        }
    } else {
        err = TG_ERR_STALE;
        if (ticket)
            gate_drop(gate, ticket);
    }
    spin_unlock(&gate->lock);
    if (err && passage->claim)
        claim_refund(gate->store, passage->claim, passage->now, passage->now);
    return err;
}

/* Nobody has refused: the call is admitted, and the policy hears of it. worth.h has the order. */
static enum tg_err grant(const struct passage *passage)
{
    bool told_first = passage->policy && passage->policy->released;
    enum tg_err err = TG_OK;

    if (told_first)
        worth_admitted(passage);
    if (passage->known)
        err = confirm(passage);
    if (told_first && err)
        worth_was_in_vain(passage);
    else if (passage->policy && !told_first && !err)
        worth_admitted(passage);
    return err;
}

/* Everything has been looked at. */
static enum tg_err conclude(const struct passage *passage)
{
    struct tg_gate *gate = passage->gate;
    struct tg_answer *answer = passage->answer;
    enum tg_axis binding = tg_axes_binding(&answer->axes);
    enum tg_err err = TG_OK;

    if (binding == TG_AXIS_NONE && (passage->known || passage->policy))
        err = grant(passage);
    if (err)
        return err;
    answer->step = TG_DECIDED;
    if (binding != TG_AXIS_NONE) {
        refuse_late(gate, answer, reason_of(binding), axes_combine(&answer->axes));
        worth_refused(passage);
    } else {
        atomic_fetch_add_explicit(&gate->admitted, 1, memory_order_relaxed);
    }
    return TG_OK;
}

/* Policy, rate and cost, for a call that has its slot. No lock is held. */
static enum tg_err admit_after_slot(const struct passage *passage)
{
    struct tg_gate *gate = passage->gate;
    struct tg_answer *answer = passage->answer;
    struct tg_axes axes;

    if (passage->policy && worth_refuses(passage)) {
        refuse_by_policy(gate, answer);
        return TG_OK;
    }
    if (passage->remote) {
        answer->step = TG_NEEDS_STORE;
        return TG_OK;
    }
    if (passage->claim) {
        enum tg_err err = claim_take(gate->store, passage->claim, passage->now, &axes);
        if (!err && passage->claim->any_shadow)
            note_uncharged(gate, answer->lease, passage->claim);
        if (err) {
            spin_lock(&gate->lock);
            drop_lease(gate, answer->lease);
            spin_unlock(&gate->lock);
            return err;
        }
        add_axes(gate, answer, &axes);
    }
    return conclude(passage);
}

/* ---- the interface ---- */

/* Hashes the name of a peer that has yet to be counted. */
static void name_peer(struct passage *passage)
{
    const struct tg_call *call = passage->call;

    if (call->peer)
        passage->peer = stages_peer_id(passage->gate, call->peer, call->peer_bytes);
}

/* Memory and peers. True: refused. */
static bool refused_early(const struct passage *passage, struct ticket **ticket, enum tg_err *err)
{
    struct tg_gate *gate = passage->gate;

    if (stages_memory(passage))
        return true;
    if (!needs_ticket(passage))
        return false;
    *ticket = begin_ticket(gate, passage->call);
    if (!*ticket) {
        *err = TG_ERR_MEMORY;
        return false;
    }
    if (!stages_peers(passage, *ticket, err))
        return false;
    gate_drop(gate, *ticket);
    *ticket = NULL;
    return true;
}

/* Whether the limits refuse the call whatever it will cost, as far as that is known here. */
static bool limits_refuse(const struct passage *passage, struct tg_axes *axes)
{
    const struct tg_call *call = passage->call;
    struct claim *claim = passage->claim;
    struct tg_axes dearer;

    if (call->known && passage->remote)
        *axes = *call->known;
    else if (!call->peek || !claim)
        return false;
    else {
        int64_t cost = claim->cost;
        claim->cost = num_min(cost, 1);
        claim_peek(passage->gate->store, claim, passage->now, axes);
        claim->cost = cost;
    }
    enum tg_axis binding = tg_axes_binding(axes);
    if (binding == TG_AXIS_NONE ||
        (binding == TG_AXIS_COST && call->debit.charging == TG_CHARGE_PER_AXIS))
        return false;
    if (claim && claim->cost > 1) { /* for the hints: when there will be enough for it */
        claim_peek(passage->gate->store, claim, passage->now, &dearer);
        /* Between the two looks another thread may have given units back. */
        if (tg_axes_binding(&dearer) != TG_AXIS_NONE &&
            axes_combine(&dearer).retry_after_ms < TG_UNSATISFIABLE)
            *axes = dearer;
    }
    return true;
}

/* Refused for what the limits say, before the call has asked for a slot. */
static void refuse_by_limits(struct tg_gate *gate, struct tg_answer *answer,
                             const struct tg_axes *axes)
{
    passage_copy_limits(&answer->axes, axes);
    stages_refuse(gate, answer, reason_of(tg_axes_binding(&answer->axes)),
                  axes_combine(&answer->axes));
}

enum tg_err tg_gate_precheck(struct tg_gate *gate, const struct tg_call *call, tg_ms now,
                             struct tg_answer *answer)
{
    struct tg_answer made;
    struct claim claim;
    struct passage passage;
    struct ticket *ticket = NULL;
    struct tg_call copy;
    struct tg_axes axes;

    if (!gate || !call || !answer)
        return TG_ERR_NULL;
    enum tg_err err = passage_begin(&passage, gate, call, now, &copy, &claim, &made);
    if (err)
        return err;
    call = passage.call;
    name_peer(&passage);
    bool over = (call->peek || call->known) && limits_refuse(&passage, &axes);
    if (!gate_lock(gate))
        return TG_ERR_REENTERED;
    gate_time(gate, now);
    bool refused = refused_early(&passage, &ticket, &err);
    over = over && !refused && !err;
    if (over)
        refuse_by_limits(gate, &made, &axes);
    if ((err || over) && ticket) {
        gate_drop(gate, ticket);
    } else if (ticket) {
        ticket->would_deny = (uint16_t)made.would_deny;
        set_end_undecided(gate, ticket);
        made.lease = ticket_lease(ticket);
        made.deadline = gate_to_caller(gate, ticket->deadline);
    }
    spin_unlock(&gate->lock);
    if (!err)
        passage_hand_over(answer, &made);
    return err;
}

/* The ticket of a precheck, or a new one. */
static bool refused_before_the_slot(const struct passage *passage, tg_lease prechecked,
                                    struct ticket **ticket, enum tg_err *err)
{
    struct tg_gate *gate = passage->gate;

    if (!prechecked)
        return refused_early(passage, ticket, err);
    *ticket = tickets_find(&gate->tickets, prechecked);
    if (*ticket && (*ticket)->state == TICKET_CHECKED) {
        set_ticket(gate, *ticket, passage->call);
    } else {
        *ticket = NULL;
        *err = TG_ERR_STALE;
    }
    return false;
}

/* The part that needs the lock. True: the call goes on to policy and store. */
static bool admit_enter(struct passage *passage, tg_lease prechecked, enum tg_err *err)
{
    struct tg_gate *gate = passage->gate;
    struct tg_answer *answer = passage->answer;
    struct ticket *ticket = NULL;
    bool refused = refused_before_the_slot(passage, prechecked, &ticket, err);

    passage->known = prechecked != 0;
    if (ticket)
        answer->would_deny |= ticket->would_deny;
    if (!refused && !*err && gate->config.concurrency.on && stages_slot(passage, ticket, err)) {
        passage->policy = gate->config.policy; /* it hears of it, once the lock is free */
        refused = true;
    }
    if (refused || *err) {
        if (ticket)
            gate_drop(gate, ticket);
        return false;
    }
    if (ticket && ticket->state == TICKET_WAITING) {
        ticket->would_deny |= (uint16_t)answer->would_deny;
        answer->step = TG_WAITING;
        answer->lease = ticket_lease(ticket);
        answer->deadline = gate_to_caller(gate, ticket->deadline);
        return false;
    }
    if (gate->config.policy)
        worth_choose(passage);
    if (ticket)
        admit_hold(passage, ticket);
    return true;
}

enum tg_err tg_gate_admit(struct tg_gate *gate, const struct tg_call *call, tg_lease prechecked,
                          tg_ms now, struct tg_answer *answer)
{
    struct tg_answer made;
    struct claim claim;
    struct passage passage;
    struct tg_call copy;
    bool through = false;

    if (!gate || !call || !answer)
        return TG_ERR_NULL;
    enum tg_err err = passage_begin(&passage, gate, call, now, &copy, &claim, &made);
    if (!err && !prechecked)
        name_peer(&passage);
    if (!gate_lock(gate))
        return TG_ERR_REENTERED;
    gate_time(gate, now);
    if (!err)
        through = admit_enter(&passage, prechecked, &err);
    else
        drop_if(gate, prechecked, 1u << TICKET_CHECKED);
    spin_unlock(&gate->lock);
    if (through)
        err = admit_after_slot(&passage);
    else if (!err)
        worth_refused(&passage);
    if (!err)
        passage_hand_over(answer, &made);
    return err;
}

/* Whether the wait is over by now, be it that nobody has ticked. */
static bool wait_is_over(const struct tg_gate *gate, const struct ticket *ticket)
{
    return ticket->state == TICKET_TIMED_OUT ||
           (ticket->state == TICKET_WAITING && ticket->deadline <= gate->latest);
}

/* True: it has its slot and goes on. */
static bool wake_up(struct passage *passage, tg_lease lease, enum tg_err *err)
{
    struct tg_gate *gate = passage->gate;
    struct ticket *ticket = tickets_find(&gate->tickets, lease);

    if (ticket && wait_is_over(gate, ticket)) {
        passage->answer->would_deny |= ticket->would_deny;
        enum tg_priority priority = (enum tg_priority)ticket->priority;
        gate_drop(gate, ticket);
        stages_overloaded(gate, priority, passage->answer, passage->now);
        passage->policy = gate->config.policy;
    } else if (ticket && ticket->state == TICKET_WAITING) {
        passage->answer->step = TG_WAITING;
        passage->answer->lease = lease;
        passage->answer->deadline = gate_to_caller(gate, ticket->deadline);
    } else if (ticket && ticket->state == TICKET_GRANTED) {
        passage->known = true;
        if (gate->config.policy)
            worth_choose(passage);
        admit_hold(passage, ticket);
        return true;
    } else {
        *err = TG_ERR_STALE;
    }
    return false;
}

enum tg_err tg_gate_resume(struct tg_gate *gate, tg_lease lease, const struct tg_call *call,
                           tg_ms now, struct tg_answer *answer)
{
    struct tg_answer made;
    struct claim claim;
    struct passage passage;
    struct tg_call copy;
    bool through = false;

    if (!gate || !call || !answer)
        return TG_ERR_NULL;
    enum tg_err err = passage_begin(&passage, gate, call, now, &copy, &claim, &made);
    if (!gate_lock(gate))
        return TG_ERR_REENTERED;
    gate_time(gate, now);
    if (!err)
        through = wake_up(&passage, lease, &err);
    else
        drop_if(gate, lease, 1u << TICKET_WAITING | 1u << TICKET_GRANTED | 1u << TICKET_TIMED_OUT);
    spin_unlock(&gate->lock);
    if (through)
        err = admit_after_slot(&passage);
    else if (!err)
        worth_refused(&passage);
    if (!err)
        passage_hand_over(answer, &made);
    return err;
}

enum tg_err tg_gate_store_answered(struct tg_gate *gate, tg_lease lease, enum tg_err outcome,
                                   const struct tg_axes *axes, tg_ms now, struct tg_answer *answer)
{
    struct tg_answer made = {.lease = lease};
    struct passage passage = {.gate = gate, .known = true, .answer = &made};
    struct tg_call call;
    enum tg_err err = outcome;

    if (!gate || !answer || (!axes && !outcome))
        return TG_ERR_NULL;
    if (!gate_lock(gate))
        return TG_ERR_REENTERED;
    gate_time(gate, now);
    passage.now = num_in_range(now) ? now : gate_to_caller(gate, gate->latest);
    struct ticket *ticket = tickets_find(&gate->tickets, lease);
    if (!ticket || ticket->state != TICKET_ASKING) {
        err = TG_ERR_STALE;
        if (ticket && ticket->state == TICKET_ABANDONED)
            gate_drop(gate, ticket);
    } else if (outcome) {
        gate_drop(gate, ticket);
    } else {
        if (ticket->has_slot)
            stages_set_axis(&made.axes, TG_AXIS_CONCURRENCY, ticket->slot);
        made.would_deny = ticket->would_deny;
        made.deadline = gate_to_caller(gate, ticket->deadline);
        made.charge = ticket->claim.cost;
        made.factor = ticket->factor;
        worth_recall(&passage, &call, ticket);
    }
    spin_unlock(&gate->lock);
    if (err)
        return err;
    add_axes(gate, &made, axes);
    err = conclude(&passage);
    if (!err)
        passage_hand_over(answer, &made);
    return err;
}

enum tg_err tg_gate_expect(struct tg_gate *gate, const struct tg_call *call,
                           struct tg_expectation *expectation)
{
    struct tg_answer unused;
    struct claim claim;
    struct passage passage;
    struct tg_call copy;

    if (!gate || !call || !expectation)
        return TG_ERR_NULL;
    enum tg_err err = passage_begin(&passage, gate, call, 0, &copy, &claim, &unused);
    if (err)
        return err;
    call = passage.call;
    *expectation = (struct tg_expectation){1, call->debit.cost, call->debit.cost};
    if (passage.has_like || (passage.named && passage.named->has_cost)) {
        if (!gate_lock(gate))
            return TG_ERR_REENTERED;
        charge_expect(&passage, expectation);
        spin_unlock(&gate->lock);
    }
    return TG_OK;
}
