/* gate_books.c - do the gate's counters say what its tickets hold?
 *
 * Tests ask after each step; the gate itself never does, for it takes time in proportion to the
 * tickets. What is always true:
 *
 *     in_flight          tickets that hold a slot; low_in_flight: those of priority low
 *     waits, queue       the tickets in WAITING, each in both, and no other
 *     peers              the calls of a peer: tickets that count it, under the name it was counted
 *     every ticket       holds a slot only from GRANTED on, and nothing once it is ABANDONED
 */
#include "lib/admission/gate.h"

#include <assert.h>

void gate_assert_books(const struct tg_gate *gate)
{
    int64_t slots = 0, low = 0, waiting = 0, counted = 0, peers, calls;
    uint64_t place = 0;

    for (const struct ticket *ticket; (ticket = handles_next(&gate->tickets, &place));) {
        bool waits = ticket->state == TICKET_WAITING;

        assert(ticket->state != TICKET_FREE && ticket->priority < TG_PRIORITY_COUNT);
        assert(!ticket->holds_slot || ticket->state >= TICKET_GRANTED);
        assert(ticket->state != TICKET_ABANDONED || !(ticket->holds_slot || ticket->counts_peer));
        assert(!waits || gate->waits.nodes[ticket->wait.place] == &ticket->wait);
        assert(!waits || (ticket->flow && ticket->flow->n > 0));
        slots += ticket->holds_slot;
        low += ticket->holds_slot && ticket->priority == TG_PRIORITY_LOW;
        waiting += waits;
        counted += ticket->counts_peer;
    }
    peers_sum(&gate->peers, &peers, &calls);
    assert(gate->in_flight == slots && gate->low_in_flight == low);
    assert((int64_t)gate->waits.n == waiting);
    assert(queue_ahead(&gate->queue, TG_PRIORITY_LOW) == waiting);
    assert(calls == counted && peers <= calls);
    (void)slots, (void)low, (void)waiting, (void)counted;
}
