/* endings.h - when leases end by themselves.
 *
 * Nearly every lease is released long before its time is over. So when one is made, no more is done
 * for its end than to note the earliest, and to put the ticket on a pile, unless it lies there
 * already. Only when the earliest has come is the pile worked through: what is still open then
 * goes into a heap by its end. A lease that was released meanwhile never gets there, and one that
 * is released later is found to be gone when its turn comes.
 *
 * The heap is of values, not the intrusive one of core/heap.h: an entry outlives its ticket's use.
 * The gate's lock covers it.
 */
#ifndef TG_ADMISSION_ENDINGS_H
#define TG_ADMISSION_ENDINGS_H

#include <assert.h>

#include "lib/admission/ticket.h"
#include "lib/core/num.h"

struct ending {
    tg_ms at;
    tg_lease lease;
};

struct endings {
    tg_ms piled_from;    /* nothing on the pile ends before this */
    struct ticket *pile; /* linked by `piled_next` */
    struct ending *heap;
    size_t n;
    size_t capacity;
};

void endings_init(struct endings *endings);
void endings_fini(struct endings *endings);

/* There are no leases at all. */
void endings_clear(struct endings *endings);

/* The ticket ends at `at`, from now on. */
static inline void endings_set(struct endings *endings, struct ticket *ticket, tg_ms at)
{
    assert(ticket_ends_by_itself(ticket));
    ticket->deadline = at;
    endings->piled_from = num_min(endings->piled_from, at);
    if (!ticket->is_piled) {
        ticket->is_piled = true;
        ticket->piled_next = endings->pile;
        endings->pile = ticket;
    }
}

/* No lease ends before this. It may be too early: who was released is not taken out. */
static inline tg_ms endings_next(const struct endings *endings)
{
    return endings->n > 0 ? num_min(endings->heap[0].at, endings->piled_from) : endings->piled_from;
}

/* A ticket whose end has come by `until`; null: none has. */
struct ticket *endings_take(struct endings *endings, const struct handles *tickets, tg_ms until);

#endif
