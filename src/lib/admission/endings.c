/* endings.c - finding the leases whose time is over. See endings.h. */
#include "lib/admission/endings.h"

#include <assert.h>

#include "lib/core/allocator.h"
#include "lib/core/array.h"

void endings_init(struct endings *endings)
{
    *endings = (struct endings){.piled_from = INT64_MAX};
}

void endings_fini(struct endings *endings)
{
    mem_free(endings->heap);
}

/* The tickets stay on the pile: they are free, and found to be so when it is worked through. */
void endings_clear(struct endings *endings)
{
    endings->piled_from = INT64_MAX;
    endings->n = 0;
}

/* ---- the heap ---- */

/* If two end together, the one with the lower number is first: an order that can be repeated. */
static bool before(struct ending a, struct ending b)
{
    return a.at != b.at ? a.at < b.at : a.lease < b.lease;
}

static void push(struct endings *endings, struct ending ending)
{
    assert(endings->n < endings->capacity);
    size_t place = endings->n++;

    for (; place > 0 && before(ending, endings->heap[(place - 1) / 2]); place = (place - 1) / 2)
        endings->heap[place] = endings->heap[(place - 1) / 2];
    endings->heap[place] = ending;
}

static struct ending pop(struct endings *endings)
{
    assert(endings->n > 0);
    struct ending first = endings->heap[0], last = endings->heap[--endings->n];
    size_t place = 0;

    for (size_t child; (child = 2 * place + 1) < endings->n; place = child) {
        if (child + 1 < endings->n && before(endings->heap[child + 1], endings->heap[child]))
            child++;
        if (before(last, endings->heap[child]))
            break;
        endings->heap[place] = endings->heap[child];
    }
    endings->heap[place] = last;
    assert(endings->n == 0 || !before(endings->heap[0], first));
    return first;
}

/* Whether the entry still stands for the end of an open lease. */
static struct ticket *still_open(const struct handles *tickets, struct ending ending)
{
    struct ticket *ticket = tickets_find(tickets, ending.lease);

    return ticket && ticket_ends_by_itself(ticket) && ticket->deadline == ending.at ? ticket : NULL;
}

/* Most entries may be of leases that have long gone: then only the others are kept. */
static void drop_stale(struct endings *endings, const struct handles *tickets)
{
    size_t n = endings->n;

    endings->n = 0;
    for (size_t i = 0; i < n; i++)
        if (still_open(tickets, endings->heap[i]))
            push(endings, endings->heap[i]); /* never beyond i */
}

/* ---- the pile ---- */

/* False: no memory, and nothing has changed. */
static bool work_through_pile(struct endings *endings, const struct handles *tickets)
{
    if (endings->n > 64 && endings->n / 4 > tickets->used)
        drop_stale(endings, tickets);
    if (!array_reserve(&endings->heap, &endings->capacity, endings->n + tickets->used))
        return false;
    while (endings->pile) {
        struct ticket *ticket = endings->pile;
        assert(ticket->is_piled);
        endings->pile = ticket->piled_next;
        ticket->is_piled = false;
        if (ticket_ends_by_itself(ticket))
            push(endings, (struct ending){ticket->deadline, ticket_lease(ticket)});
    }
    endings->piled_from = INT64_MAX;
    return true;
}

/* Without memory for the heap, the pile itself is searched. */
static struct ticket *search_pile(struct endings *endings, tg_ms until)
{
    tg_ms earliest = INT64_MAX;

    for (struct ticket *ticket = endings->pile; ticket; ticket = ticket->piled_next) {
        if (!ticket_ends_by_itself(ticket))
            continue;
        if (ticket->deadline <= until)
            return ticket;
        earliest = num_min(earliest, ticket->deadline);
    }
    endings->piled_from = earliest;
    return NULL;
}

struct ticket *endings_take(struct endings *endings, const struct handles *tickets, tg_ms until)
{
    struct ticket *ticket = NULL;

    if (endings->piled_from <= until && !work_through_pile(endings, tickets))
        ticket = search_pile(endings, until);
    while (!ticket && endings->n > 0 && endings->heap[0].at <= until)
        ticket = still_open(tickets, pop(endings));
    assert(!ticket || (ticket_ends_by_itself(ticket) && ticket->deadline <= until));
    return ticket;
}
