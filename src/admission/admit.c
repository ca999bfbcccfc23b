/* admit.c - one admit: the stages, one after the other.
 *
 *     memory       \
 *     peers         } one critical section: count the peer, get a slot or a place in the queue
 *     concurrency  /
 *     policy       the caller's function
 *     rate, cost   the store's critical section, or a question to a remote one
 *
 * What is taken belongs to a ticket from the moment it is taken (ticket.h has its states), so
 * there is one way to give it back, whatever went wrong. A call that goes straight through is made
 * a lease before policy and store are asked, and dropped again if they refuse: so that the lock is
 * taken once for each call that is admitted, and twice only for one that is not.
 */
#include "admission/gate.h"

#include <math.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "core/decision.h"
#include "core/num.h"

/* The hint of a refusal for memory or peers, which nobody can foresee the end of. */
enum { HINT_MS = 100 };

/* ---- the stages ---- */

/* A call on its way through the stages. */
struct passage {
    struct tg_gate *gate;
    const struct tg_call *call;
    struct claim *claim; /* null: no rate and no cost axis here */
    bool remote;         /* they are decided elsewhere */
    tg_ms now;
    struct tg_answer *answer;
    bool (*worth)(void *context, const struct tg_call *call, tg_ms now);
    void *context;
};

static void would_deny(struct tg_gate *gate, struct tg_answer *answer, enum tg_reason reason)
{
    answer->would_deny |= 1u << reason;
    gate->stats.would_deny[reason]++;
}

/* True: refused. */
static bool refuse(struct tg_gate *gate, struct tg_answer *answer, enum tg_reason reason,
                   struct tg_decision decision)
{
    answer->step = TG_DECIDED;
    answer->lease = 0;
    answer->reason = reason;
    answer->decision = decision;
    gate->stats.refused[reason]++;
    return true;
}

static bool refused_by_memory(const struct passage *passage)
{
    struct tg_gate *gate = passage->gate;
    struct tg_answer *answer = passage->answer;

    if (!gate->config.memory.on || !memory_state_refuses(gate->memory, passage->call->priority))
        return false;
    if (gate->config.memory.mode == TG_SHADOW) {
        would_deny(gate, answer, TG_REASON_MEMORY_PRESSURE);
        return false;
    }
    answer->memory_used = gate->memory_used;
    return refuse(gate, answer, TG_REASON_MEMORY_PRESSURE,
                  (struct tg_decision){false, TG_NUMBER_MAX, 0, passage->now, HINT_MS});
}

static struct table_id hashed(const struct tg_gate *gate, const void *bytes, size_t n)
{
    XXH128_hash_t hash = XXH3_128bits_withSeed(bytes, n, gate->seed);

    return table_id(hash.low64, hash.high64, 1);
}

/* Counts the peer for the ticket, or refuses. */
static bool refused_by_peers(const struct passage *passage, struct ticket *ticket, enum tg_err *err)
{
    struct tg_gate *gate = passage->gate;
    const struct tg_call *call = passage->call;
    int64_t limit = call->peer_limit ? call->peer_limit : gate->config.peers.limit;
    enum tg_mode mode = call->peer_limit ? call->peer_mode : gate->config.peers.mode;

    if (!call->peer || (!gate->config.peers.on && !call->peer_limit))
        return false;
    ticket->peer = hashed(gate, call->peer, call->peer_bytes);
    if (peers_count(&gate->peers, &ticket->peer, gate->config.peers.max_peers) >= limit) {
        if (mode == TG_ENFORCE)
            return refuse(gate, passage->answer, TG_REASON_PEER_LIMIT,
                          (struct tg_decision){false, limit, 0, passage->now, HINT_MS});
        would_deny(gate, passage->answer, TG_REASON_PEER_LIMIT);
    }
    if (!peers_add(&gate->peers, ticket->peer))
        *err = TG_ERR_MEMORY;
    else
        ticket->counts_peer = true;
    return false;
}

static struct tg_decision overloaded(const struct tg_gate *gate, tg_ms now)
{
    return (struct tg_decision){false, law_limit(&gate->law), 0, now,
                                num_max(1, num_floor(gate->last_sample_ms + 0.5))};
}

static void set_axis(struct tg_axes *axes, enum tg_axis axis, struct tg_decision decision)
{
    axes->decision[axis] = decision;
    axes->present |= 1u << axis;
}

static bool refused_by_concurrency(struct tg_gate *gate, struct tg_answer *answer, tg_ms now)
{
    struct tg_decision decision = overloaded(gate, now);

    law_rejected(&gate->law, gate->latest);
    set_axis(&answer->axes, TG_AXIS_CONCURRENCY, decision);
    return refuse(gate, answer, TG_REASON_CONCURRENCY, decision);
}

/* A slot is free, and nobody who waits has an older claim to it. */
static bool may_start(const struct tg_gate *gate, enum tg_priority priority)
{
    return gate->in_flight < law_limit(&gate->law) && queue_ahead(&gate->queue, priority) == 0 &&
           (priority != TG_PRIORITY_LOW || gate_low_may_start(gate));
}

/* How long this call may wait: its class's time, or what is left of its own. */
static tg_ms may_wait(const struct tg_gate *gate, const struct tg_call *call)
{
    tg_ms wait = gate->config.concurrency.wait[call->priority];

    return call->deadline ? num_min(wait, num_less(call->deadline, gate->latest)) : wait;
}

/* Whether there is a place in the queue, and a chance to be served in time. Without a sample of how
 * long calls take, there is a chance. */
static bool may_queue(const struct tg_gate *gate, const struct tg_call *call)
{
    tg_ms wait = may_wait(gate, call);
    double turns = (double)queue_ahead(&gate->queue, call->priority) + 1;
    double expected = turns * gate->mean_service_ms / (double)law_limit(&gate->law);

    return wait > 0 && expected <= (double)wait &&
           gate->queue.classes[call->priority].waiting < gate->config.concurrency.queue_size;
}

static bool enqueue(const struct passage *passage, struct ticket *ticket)
{
    struct tg_gate *gate = passage->gate;
    const struct tg_call *call = passage->call;
    struct table_id tenant = call->tenant ? hashed(gate, call->tenant, call->tenant_bytes)
                             : call->peer ? hashed(gate, call->peer, call->peer_bytes)
                                          : (struct table_id){0, 1};
    tg_ms until = num_add(gate->latest, may_wait(gate, call));

    if (!queue_push(&gate->queue, ticket, tenant, call->weight))
        return false;
    if (!deadlines_add(&gate->deadlines, ticket, until)) {
        queue_remove(&gate->queue, ticket);
        return false;
    }
    ticket->state = TICKET_WAITING;
    ticket->waiter = call->waiter;
    return true;
}

/* Gets a slot or a place in the queue, or refuses. */
static bool refused_a_slot(const struct passage *passage, struct ticket *ticket, enum tg_err *err)
{
    struct tg_gate *gate = passage->gate;

    gate_grant(gate); /* the law may have raised the limit since */
    if (may_start(gate, passage->call->priority)) {
        gate_start(gate, ticket);
    } else if (gate->config.concurrency.mode == TG_SHADOW) {
        would_deny(gate, passage->answer, TG_REASON_CONCURRENCY);
        gate_start(gate, ticket);
    } else if (!may_queue(gate, passage->call)) {
        return refused_by_concurrency(gate, passage->answer, passage->now);
    } else if (!enqueue(passage, ticket)) {
        *err = TG_ERR_MEMORY;
    }
    return false;
}

static struct tg_decision slot_decision(const struct tg_gate *gate, tg_ms now)
{
    int64_t limit = law_limit(&gate->law);

    return (struct tg_decision){true, limit, num_less(limit, gate->in_flight), now, 0};
}

/* ---- tickets ---- */

/* What the call says. Between precheck and admit it may have become known better. */
static void set_ticket(const struct tg_gate *gate, struct ticket *ticket,
                       const struct tg_call *call)
{
    ticket->priority = (uint8_t)call->priority;
    ticket->lease_ttl = call->lease_ttl ? call->lease_ttl : gate->config.lease_ttl;
}

static struct ticket *begin_ticket(struct tg_gate *gate, const struct tg_call *call)
{
    struct ticket *ticket = tickets_get(&gate->tickets);

    if (!ticket)
        return NULL;
    ticket->state = TICKET_CHECKED;
    ticket->counts_peer = ticket->holds_slot = ticket->charged = false;
    ticket->would_deny = 0;
    set_ticket(gate, ticket, call);
    return ticket;
}

/* Whether this call will hold something, or be settled. */
static bool needs_ticket(const struct passage *passage)
{
    const struct tg_gate_config *config = &passage->gate->config;
    const struct tg_call *call = passage->call;
    bool counted = call->peer && (config->peers.on || call->peer_limit);

    return config->concurrency.on || counted || (passage->claim && passage->claim->has_cost) ||
           passage->remote;
}

/* ---- from the slot to the decision ---- */

/* The stages before the slot are behind it, and it waits for nothing: a lease, unless what comes
 * says no. */
static void hold(const struct passage *passage, struct ticket *ticket)
{
    struct tg_gate *gate = passage->gate;
    struct tg_answer *answer = passage->answer;

    if (gate->config.concurrency.on)
        set_axis(&answer->axes, TG_AXIS_CONCURRENCY, slot_decision(gate, passage->now));
    answer->would_deny |= ticket->would_deny;
    ticket->state = passage->remote ? TICKET_ASKING : TICKET_ADMITTED;
    if (passage->claim) {
        claim_copy(&ticket->claim, passage->claim);
        ticket->charged = true;
        ticket->charged_at = passage->now;
    }
    if (passage->remote) {
        ticket->axes = answer->axes;
        ticket->would_deny = (uint16_t)answer->would_deny;
    }
    gate_set_end(gate, ticket, num_add(gate->latest, ticket->lease_ttl));
    answer->lease = ticket_lease(ticket);
    answer->deadline = ticket->deadline;
}

static struct tg_decision combination(const struct tg_axes *axes)
{
    struct tg_decision all = TG_ALLOW_FULL;

    for (int axis = 0; axis < TG_AXIS_COUNT; axis++)
        if (axes->present & 1u << axis)
            all = decision_combine(all, axes->decision[axis]);
    return all;
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
    refuse(gate, answer, reason, decision);
    spin_unlock(&gate->lock);
}

static void refuse_by_policy(struct tg_gate *gate, struct tg_answer *answer)
{
    struct tg_decision decision = combination(&answer->axes);

    decision.allowed = false;
    decision.remaining = 0;
    decision.retry_after_ms = 0;
    answer->policy_denied = true;
    refuse_late(gate, answer, TG_REASON_POLICY, decision);
}

/* Adds what the store says to what is known. */
static void add_axes(struct tg_gate *gate, struct tg_answer *answer, const struct tg_axes *axes)
{
    for (int axis = TG_AXIS_RATE; axis <= TG_AXIS_COST; axis++) {
        if (axes->present & 1u << axis)
            set_axis(&answer->axes, (enum tg_axis)axis, axes->decision[axis]);
        if (axes->would_deny & 1u << axis) {
            spin_lock(&gate->lock);
            would_deny(gate, answer, reason_of((enum tg_axis)axis));
            spin_unlock(&gate->lock);
        }
    }
    answer->axes.would_deny = axes->would_deny;
}

static void decide(struct tg_gate *gate, struct tg_answer *answer)
{
    enum tg_axis binding = tg_axes_binding(&answer->axes);

    answer->step = TG_DECIDED;
    answer->decision = combination(&answer->axes);
    if (binding != TG_AXIS_NONE)
        refuse_late(gate, answer, reason_of(binding), answer->decision);
    else
        atomic_fetch_add_explicit(&gate->admitted, 1, memory_order_relaxed);
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

/* Policy, rate and cost, for a call that has its slot. No lock is held. */
static enum tg_err go_on(const struct passage *passage)
{
    struct tg_gate *gate = passage->gate;
    struct tg_answer *answer = passage->answer;
    struct tg_axes axes;

    if (passage->worth && !passage->worth(passage->context, passage->call, passage->now)) {
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
    decide(gate, answer);
    return TG_OK;
}

/* ---- the interface ---- */

/* With weights further apart, turns could no longer be told apart by a double. */
static const double WEIGHT_MIN = 1e-6, WEIGHT_MAX = 1e6;

static enum tg_err check_call(const struct tg_call *call, tg_ms now)
{
    bool fine = (unsigned)call->priority < TG_PRIORITY_COUNT && num_in_range(now) &&
                call->peer_limit >= 0 && num_in_range(call->deadline) &&
                num_in_range(call->lease_ttl) && call->weight >= WEIGHT_MIN &&
                call->weight <= WEIGHT_MAX;

    return fine ? TG_OK : TG_ERR_INVALID;
}

static enum tg_err set_out(struct passage *passage, struct tg_gate *gate,
                           const struct tg_call *call, tg_ms now, struct claim *claim,
                           struct tg_answer *answer)
{
    enum tg_err err = check_call(call, now);

    *passage = (struct passage){.gate = gate, .call = call, .now = now, .answer = answer};
    memset(answer, 0, offsetof(struct tg_answer, axes));
    answer->axes.present = answer->axes.would_deny = 0;
    answer->would_deny = 0;
    answer->memory_used = 0;
    if (err || call->debit.n_scopes == 0)
        return err;
    passage->remote = gate->remote_store;
    if (gate->store) {
        passage->claim = claim;
        err = claim_make(gate->store, &call->debit, claim);
    }
    return err;
}

/* Memory and peers. True: refused. */
static bool refused_early(const struct passage *passage, struct ticket **ticket, enum tg_err *err)
{
    struct tg_gate *gate = passage->gate;

    if (refused_by_memory(passage))
        return true;
    if (!needs_ticket(passage))
        return false;
    *ticket = begin_ticket(gate, passage->call);
    if (!*ticket) {
        *err = TG_ERR_MEMORY;
        return false;
    }
    if (!refused_by_peers(passage, *ticket, err))
        return false;
    gate_drop(gate, *ticket);
    *ticket = NULL;
    return true;
}

enum tg_err tg_gate_precheck(struct tg_gate *gate, const struct tg_call *call, tg_ms now,
                             struct tg_answer *answer)
{
    struct tg_answer made;
    struct claim claim;
    struct passage passage;
    struct ticket *ticket = NULL;
    enum tg_err err = set_out(&passage, gate, call, now, &claim, &made);

    if (err)
        return err;
    spin_lock(&gate->lock);
    gate_time(gate, now);
    if (!refused_early(&passage, &ticket, &err) && !err)
        made.decision = TG_ALLOW_FULL;
    if (err && ticket) {
        gate_drop(gate, ticket);
    } else if (ticket) {
        ticket->would_deny = (uint16_t)made.would_deny;
        gate_set_end(gate, ticket, num_add(gate->latest, ticket->lease_ttl));
        made.lease = ticket_lease(ticket);
        made.deadline = ticket->deadline;
    }
    spin_unlock(&gate->lock);
    if (!err)
        *answer = made;
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

/* As far as the lock is needed. True: the call goes on to policy and store. */
static bool enter(struct passage *passage, tg_lease prechecked, enum tg_err *err)
{
    struct tg_gate *gate = passage->gate;
    struct tg_answer *answer = passage->answer;
    struct ticket *ticket = NULL;
    bool refused = refused_before_the_slot(passage, prechecked, &ticket, err);

    if (ticket)
        answer->would_deny |= ticket->would_deny;
    if (!refused && !*err && gate->config.concurrency.on)
        refused = refused_a_slot(passage, ticket, err);
    if (refused || *err) {
        if (ticket)
            gate_drop(gate, ticket);
        return false;
    }
    if (ticket && ticket->state == TICKET_WAITING) {
        ticket->would_deny |= (uint16_t)answer->would_deny;
        answer->step = TG_WAITING;
        answer->lease = ticket_lease(ticket);
        answer->deadline = ticket->deadline;
        return false;
    }
    if (ticket)
        hold(passage, ticket);
    passage->worth = gate->config.worth;
    passage->context = gate->config.context;
    return true;
}

enum tg_err tg_gate_admit(struct tg_gate *gate, const struct tg_call *call, tg_lease prechecked,
                          tg_ms now, struct tg_answer *answer)
{
    struct tg_answer made;
    struct claim claim;
    struct passage passage;
    enum tg_err err = set_out(&passage, gate, call, now, &claim, &made);
    bool through = false;

    spin_lock(&gate->lock);
    gate_time(gate, now);
    if (!err)
        through = enter(&passage, prechecked, &err);
    else
        drop_if(gate, prechecked, 1u << TICKET_CHECKED);
    spin_unlock(&gate->lock);
    if (through)
        err = go_on(&passage);
    if (!err)
        *answer = made;
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
        gate_drop(gate, ticket);
        refused_by_concurrency(gate, passage->answer, passage->now);
    } else if (ticket && ticket->state == TICKET_WAITING) {
        passage->answer->step = TG_WAITING;
        passage->answer->lease = lease;
        passage->answer->deadline = ticket->deadline;
    } else if (ticket && ticket->state == TICKET_GRANTED) {
        hold(passage, ticket);
        passage->worth = gate->config.worth;
        passage->context = gate->config.context;
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
    enum tg_err err = set_out(&passage, gate, call, now, &claim, &made);
    bool through = false;

    spin_lock(&gate->lock);
    gate_time(gate, now);
    if (!err)
        through = wake_up(&passage, lease, &err);
    else
        drop_if(gate, lease, 1u << TICKET_WAITING | 1u << TICKET_GRANTED | 1u << TICKET_TIMED_OUT);
    spin_unlock(&gate->lock);
    if (through)
        err = go_on(&passage);
    if (!err)
        *answer = made;
    return err;
}

enum tg_err tg_gate_store_answered(struct tg_gate *gate, tg_lease lease, enum tg_err outcome,
                                   const struct tg_axes *axes, tg_ms now, struct tg_answer *answer)
{
    struct tg_answer made = {.lease = lease};
    enum tg_err err = outcome;

    spin_lock(&gate->lock);
    gate_time(gate, now);
    struct ticket *ticket = tickets_find(&gate->tickets, lease);
    if (!ticket || ticket->state != TICKET_ASKING) {
        err = TG_ERR_STALE;
        if (ticket && ticket->state == TICKET_ABANDONED)
            gate_drop(gate, ticket);
    } else if (outcome) {
        gate_drop(gate, ticket);
    } else {
        ticket->state = TICKET_ADMITTED;
        made.axes = ticket->axes;
        made.would_deny = ticket->would_deny;
        made.deadline = ticket->deadline;
    }
    spin_unlock(&gate->lock);
    if (err)
        return err;
    add_axes(gate, &made, axes);
    decide(gate, &made);
    *answer = made;
    return TG_OK;
}
