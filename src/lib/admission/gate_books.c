/* gate_books.c - do the gate's counters say what its tickets hold?
 *
 * Tests ask after each step; the gate itself never does, for it takes time in proportion to the
 * tickets. What is always true:
 *
 *     in_flight, held    tickets that hold a slot, in all and by class
 *     started_sum        when these got their slots, added up
 *     waits, queue       the tickets in WAITING, each in both, and no other
 *     peers              the calls of a peer: tickets that count it, under the name it was counted
 *     the queue's flows  the calls that wait, and those that run and whose turn is to be settled
 *     overdrafts         what tickets have asked for and were not charged, once for each scope that
 *                        they draw on
 *     every ticket       holds a slot only from GRANTED on, and nothing once it is ABANDONED
 */
#include "lib/admission/gate.h"

#include <assert.h>

void gate_assert_books(const struct tg_gate *gate)
{
    int64_t slots = 0, started = 0, held[TG_PRIORITY_COUNT] = {0}, waiting = 0, owing = 0,
            counted = 0;
    int64_t peers, calls, drawn = 0;
    uint64_t place = 0;

    for (const struct ticket *ticket; (ticket = handles_next(&gate->tickets, &place));) {
        bool waits = ticket->state == TICKET_WAITING;

        assert(ticket->state != TICKET_FREE && ticket->priority < TG_PRIORITY_COUNT);
        assert(!ticket->holds_slot || ticket->state >= TICKET_GRANTED);
        assert(ticket->state != TICKET_ABANDONED || !(ticket->holds_slot || ticket->counts_peer));
        assert(!waits || gate->waits.nodes[ticket->wait.place] == &ticket->wait);
        assert(!waits || (ticket->flow && ticket->flow->n > 0));
        assert(!ticket->owes_turn || (ticket->holds_slot && ticket->flow->running > 0));
        slots += ticket->holds_slot;
        started += ticket->holds_slot ? ticket->started_at : 0;
        held[ticket->priority] += ticket->holds_slot;
        waiting += waits;
        owing += ticket->owes_turn;
        counted += ticket->counts_peer;
        if (ticket->draws)
            drawn += __builtin_popcount(ticket->drawn_from) *
                     (ticket_asked(ticket) - ticket->claim.cost);
    }
    peers_sum(&gate->peers, &peers, &calls);
    assert(gate->in_flight == slots && gate->started_sum == started);
    for (int p = 0; p < TG_PRIORITY_COUNT; p++)
        assert(gate->held[p] == held[p]);
    assert(queue_assert_books(&gate->queue) == owing);
    assert((int64_t)gate->waits.n == waiting);
    assert(queue_ahead(&gate->queue, TG_PRIORITY_LOW) == waiting);
    assert(calls == counted && peers <= calls);
    assert(charges_drawn(&gate->charges) == drawn);
    (void)drawn, (void)slots, (void)started, (void)held, (void)waiting, (void)owing, (void)counted;
}
