/* ticket.h - what the gate knows of a call that holds something, waits, or is on its way.
 *
 * A lease is the id of a ticket (core/handles.h): that of a call that has ended finds nothing,
 * however often it comes back. Tickets never move, since queues and heaps point at them. The gate's
 * lock covers everything here.
 *
 *                    precheck
 *        (free) ------------------> CHECKED
 *             \                        |
 *              `-------- admit --------+
 *                          |           |
 *            a slot is free|           |none is
 *                          |           v
 *                          |        WAITING --- wait over ---> TIMED_OUT ---> (free)   refused
 *                          |           | a slot
 *                          |           v
 *                          |        GRANTED
 *                          |           | resumed
 *                          v           v
 *                       ASKING --> ADMITTED ---> (free)   released, expired, or refused by
 *                          |                              policy, rate or cost
 *                          | released meanwhile
 *                          v
 *                      ABANDONED ---> (free)   once it is decided
 *
 * ASKING is passed over by a call that goes straight through to a store in this process: nobody
 * knows its lease yet, so nobody can release it. Not if the policy wants to hear of its end: then
 * it must not end, by its time either, before the policy has heard of it.
 *
 * Every state can be left by a release, and every state but GRANTED and TIMED_OUT, whose owner is
 * on its way, ends by itself at its deadline.
 */
#ifndef TG_ADMISSION_TICKET_H
#define TG_ADMISSION_TICKET_H

#include <sys/queue.h>

#include "lib/core/handles.h"
#include "lib/core/heap.h"
#include "lib/store/claim.h"
#include "tollgate.h"

enum ticket_state {
    TICKET_FREE,
    TICKET_CHECKED,   /* the peer is counted */
    TICKET_WAITING,   /* in the queue */
    TICKET_GRANTED,   /* has a slot, and its owner has been told */
    TICKET_TIMED_OUT, /* its wait is over, and its owner has been told */
    TICKET_ASKING,    /* has a slot; policy and store are deciding */
    TICKET_ABANDONED, /* holds nothing; they are still deciding */
    TICKET_ADMITTED   /* a lease */
};

struct flow;

TAILQ_HEAD(ticket_list, ticket);

/* What an unhindered call needs comes first and fits in two cache lines, if it has up to two
 * scopes: between threads on two cores it is the number of lines that go back and forth which
 * costs. */
struct ticket {
    _Alignas(CACHE_LINE) struct handle handle;
    uint8_t state;        /* enum ticket_state */
    uint8_t priority;     /* enum tg_priority */
    bool counts_peer : 1; /* what it holds */
    bool holds_slot : 1;
    bool charged : 1;
    bool is_judged : 1;  /* the policy will hear of it */
    bool owes_turn : 1;  /* its slot was waited for, and the turn is to be settled */
    bool has_begun : 1;  /* its first byte has come, and was its sample */
    bool learns : 1;     /* it is on the cost axis: what it uses is to be learned */
    bool has_like : 1;   /* `like` is set; else calls are like it that have the same first scope */
    bool is_piled : 1;   /* see endings.h; stays when the ticket is freed */
    bool draws : 1;      /* on the overdrafts of the scopes in drawn_from */
    uint16_t would_deny; /* bits 1 << reason, so far */
    uint16_t prior;      /* the factor's start, see charge.h */
    struct table_id peer;
    tg_ms started_at; /* the slot; and how many were held then, itself included */
    uint32_t in_flight_at_start;
    uint32_t size; /* the call's size, for its first byte */
    tg_ms charged_at;
    tg_ms deadline; /* when the wait is over, or the lease ends */

    tg_ms lease_ttl;
    struct claim claim; /* where a remote store decides, its cost, and the ids it draws on */

    /* Set while the call waits: */
    TAILQ_ENTRY(ticket) in_flow;
    TAILQ_ENTRY(ticket) in_class;
    struct heap_node wait; /* among those whose wait will be over */
    uint64_t arrival;
    void *waiter;
    tg_ms queued_at;
    double slot_ms;     /* for how long it was expected to hold one, when it came */
    tg_ms useful_until; /* by the caller's own deadline, a slot is of no use after this */

    /* Set while the call waits, and until its turn is settled; see queue.h: */
    struct flow *flow;
    bool states_work;
    double work;     /* what it states; once it is granted, what the flow was charged */
    uint64_t joined; /* the flow's numbers of this name when it was granted */
    double lifted;

    struct ticket *piled_next;

    struct table_id like; /* see has_like */
    uint16_t drawn_from;  /* by scope: bits of those whose overdraft the charge draws on */

    /* Set if the call is judged, with what it asked for and when it was charged; see worth.h: */
    uint32_t policy_epoch;
    double value;
    double hold_s;

    /* For a call that a remote store is asked for: what the concurrency axis has said, if it was
     * asked. */
    struct tg_decision slot;
    bool has_slot;
    double factor; /* what its answer will say */
};

/* A pool of tickets; 2^32 - 1 at most, which is a terabyte. */
static inline void tickets_init(struct handles *tickets)
{
    handles_init(tickets, sizeof(struct ticket), 32, UINT32_MAX);
}

/* What the call has asked for on the cost axis, from the slot on. It stands in the handle, since
 * the cache line has no room for more. */
static inline int64_t ticket_asked(const struct ticket *ticket)
{
    return ticket->handle.number;
}

static inline void ticket_set_asked(struct ticket *ticket, int64_t asked)
{
    ticket->handle.number = asked;
}

static inline tg_lease ticket_lease(const struct ticket *ticket)
{
    return ticket->handle.id;
}

/* Every state but those whose owner is on its way, or in the queue, ends at its deadline. */
static inline bool ticket_ends_by_itself(const struct ticket *ticket)
{
    return ticket->state == TICKET_CHECKED || ticket->state == TICKET_ASKING ||
           ticket->state == TICKET_ABANDONED || ticket->state == TICKET_ADMITTED;
}

/* Null if the lease has ended, or never was. */
static inline struct ticket *tickets_find(const struct handles *tickets, tg_lease lease)
{
    return handles_find(tickets, lease);
}

#endif
