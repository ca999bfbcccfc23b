/* slots.c - slots, and what is held: taken, handed over, given back.
 *
 * in_flight counts slots that are held. A slot is free while in_flight is below the law's limit;
 * lowering the limit takes nothing away, it only lets nobody in until enough have left. There
 * are no permits that could be left over or lost.
 */
#include "lib/admission/waits.h"
#include "lib/admission/worth.h"
#include "lib/core/num.h"

#include <assert.h>

/* ---- time ---- */

void gate_advance(struct tg_gate *gate, tg_ms at)
{
    if (at > gate->latest) {
        gate->latest = at;
        law_tick(&gate->law, at);
    }
}

/* A clock that has gone back was ahead before, or is behind now; nobody knows which. While it is
 * further back than threads can be apart, the gate's time continues from the latest that was seen,
 * as fast as the clock: if it was ahead, that is its true pace, and once it is where it was, no
 * more has passed than should have. Rejected: to follow it back, which would end all waits and
 * leases if it was behind for a moment. */
static tg_ms time_gone_back(struct tg_gate *gate, tg_ms now)
{
    if (gate->latest - now <= TG_CLOCK_TRUST)
        gate->behind = 0;
    else if (gate->latest - now - gate->behind > TG_CLOCK_TRUST)
        gate->behind = gate->latest - now;
    return num_add(now, gate->behind);
}

tg_ms gate_time_of(struct tg_gate *gate, tg_ms now)
{
    if (!num_in_range(now))
        return gate->latest;
    if (now < gate->latest)
        return num_max(gate->latest, time_gone_back(gate, now));
    gate->behind = 0;
    return now;
}

/* ---- the lock, and the one callback that runs under it ---- */

/* Its address is different in each thread. */
static _Thread_local char this_thread;

bool gate_wait_for_lock(struct tg_gate *gate)
{
    /* Relaxed: only the thread itself writes its own address, and it takes that back before it
     * gives up the lock. */
    if (atomic_load_explicit(&gate->waker, memory_order_relaxed) == &this_thread)
        return false;
    spin_wait(&gate->lock);
    return true;
}

/* Calls wake(). */
static void gate_wake(struct tg_gate *gate, const struct ticket *ticket)
{
    atomic_store_explicit(&gate->waker, &this_thread, memory_order_relaxed);
    gate->config.wake(gate->config.context, ticket->waiter);
    atomic_store_explicit(&gate->waker, NULL, memory_order_relaxed);
}

/* ---- slots ---- */

void gate_start(struct tg_gate *gate, struct ticket *ticket)
{
    assert(ticket->state == TICKET_CHECKED || ticket->state == TICKET_GRANTED);
    assert(!ticket->holds_slot);
    gate->in_flight++;
    gate->held[ticket->priority]++;
    gate->started[ticket->priority]++;
    ticket->holds_slot = true;
    ticket->started_at = gate->latest;
    gate->started_sum += ticket->started_at;
    ticket->in_flight_at_start = (uint32_t)gate->in_flight; /* there are no more tickets */
    law_started(&gate->law, gate->latest, gate->in_flight);
}

int64_t gate_low_slots(const struct tg_gate *gate)
{
    double ratio = gate->config.concurrency.low_ratio;
    int64_t most = num_floor(ratio * (double)law_limit(&gate->law) + 1e-9); /* 0.29 * 100 < 29 */

    return ratio > 0 ? num_max(1, most) : 0;
}

bool gate_low_may_start(const struct tg_gate *gate)
{
    return gate->held[TG_PRIORITY_LOW] < gate_low_slots(gate);
}

void gate_end_wait(struct tg_gate *gate, struct ticket *ticket)
{
    assert(ticket->state == TICKET_WAITING);
    queue_remove(&gate->queue, ticket);
    heap_remove(&gate->waits, &ticket->wait);
    ticket->state = TICKET_TIMED_OUT;
    gate->queue.classes[ticket->priority].refused_at = gate->latest;
    gate_wake(gate, ticket);
}

void gate_grant(struct tg_gate *gate)
{
    bool shadow = gate->config.concurrency.mode == TG_SHADOW; /* nobody waits in vain */
    struct ticket *late;

    /* Everybody in the queue is among the waits, too, and nobody else. */
    assert((int64_t)gate->waits.n == queue_ahead(&gate->queue, TG_PRIORITY_LOW));
    if (!gate_first_wait(gate))
        return;
    while ((late = gate_first_wait(gate)) && late->deadline < gate->latest)
        gate_end_wait(gate, late);
    waits_bound(gate);
    while (shadow || gate->in_flight < law_limit(&gate->law)) {
        enum tg_priority turn = queue_turn(&gate->queue, shadow || gate_low_may_start(gate));
        if (turn == TG_PRIORITY_COUNT)
            return;
        struct ticket *ticket = queue_serve(&gate->queue, turn, gate->mean_slot_ms);
        assert(ticket->state == TICKET_WAITING && ticket->deadline >= gate->latest);
        heap_remove(&gate->waits, &ticket->wait);
        ticket->state = TICKET_GRANTED;
        gate_start(gate, ticket);
        gate_wake(gate, ticket);
    }
}

void gate_settle_turn(struct tg_gate *gate, struct ticket *ticket, int64_t work, bool has_run)
{
    queue_settle(&gate->queue, ticket, gate->latest - ticket->started_at, work, has_run);
}

void gate_give_back(struct tg_gate *gate, struct ticket *ticket)
{
    if (ticket->state == TICKET_WAITING) {
        queue_remove(&gate->queue, ticket);
        heap_remove(&gate->waits, &ticket->wait);
    }
    if (ticket->holds_slot) {
        assert(gate->in_flight > 0 && ticket->state != TICKET_WAITING);
        gate->in_flight--;
        gate->started_sum -= ticket->started_at;
        assert(gate->held[ticket->priority] > 0);
        gate->held[ticket->priority]--;
        if (ticket->owes_turn) /* a call that was not admitted has done nothing */
            gate_settle_turn(gate, ticket, ticket->state == TICKET_ADMITTED ? -1 : 0, false);
        law_left(&gate->law, gate->latest, gate->in_flight,
                 ticket->has_begun ? (double)(gate->latest - ticket->started_at) : -1);
    }
    if (ticket->draws)
        charge_give_back(gate, ticket);
    if (ticket->counts_peer)
        peers_drop(&gate->peers, ticket->peer);
    ticket->holds_slot = ticket->counts_peer = false;
}

void gate_drop(struct tg_gate *gate, struct ticket *ticket)
{
    assert(ticket->state != TICKET_FREE);
    gate_give_back(gate, ticket);
    ticket->state = TICKET_FREE;
    handles_put(&gate->tickets, &ticket->handle);
    if (gate->tickets.used == 0) {
        assert(gate->in_flight == 0 && gate->waits.n == 0);
        endings_clear(&gate->endings);
    }
    gate_grant(gate);
}

void gate_set_end(struct tg_gate *gate, struct ticket *ticket, tg_ms at)
{
    endings_set(&gate->endings, ticket, at);
}

/* Expiry leaves no sample, and the estimate stands. */
static void expire(struct tg_gate *gate, struct ticket *ticket, struct worth_reports *reports)
{
    struct worth_report *report = &reports->reports[reports->n];

    assert(reports->n < WORTH_BATCH && ticket_ends_by_itself(ticket));
    if (ticket->state == TICKET_ADMITTED) {
        gate->stats.expired++;
        if (ticket->is_judged) {
            worth_ended(gate, ticket, gate_to_caller(gate, gate->latest), -1, report);
            reports->n += report->policy != NULL;
        }
    }
    gate_drop(gate, ticket);
}

void gate_end_leases(struct tg_gate *gate, tg_ms until, struct worth_reports *reports)
{
    struct ticket *ticket;

    while (reports->n < WORTH_BATCH &&
           (ticket = endings_take(&gate->endings, &gate->tickets, until)))
        expire(gate, ticket, reports);
}
