/* endings.c - finding the leases whose time is over. See endings.h. */
#include "admission/endings.h"

#include <stdlib.h>

void endings_init(struct endings *endings)
{
    *endings = (struct endings){.unlisted_from = INT64_MAX};
}

void endings_fini(struct endings *endings)
{
    free(endings->list);
}

void endings_clear(struct endings *endings)
{
    endings->unlisted_from = INT64_MAX;
    endings->n = endings->next = 0;
}

static bool ends_by_itself(const struct ticket *ticket)
{
    return ticket->state == TICKET_CHECKED || ticket->state == TICKET_ASKING ||
           ticket->state == TICKET_ABANDONED || ticket->state == TICKET_ADMITTED;
}

static struct ticket *ticket_at(const struct tickets *tickets, uint32_t i)
{
    return &tickets->chunks[i / TICKET_CHUNK][i % TICKET_CHUNK];
}

static uint32_t count_of(const struct tickets *tickets)
{
    return tickets->n_chunks * TICKET_CHUNK;
}

static bool reserve(struct endings *endings, size_t n)
{
    if (n <= endings->capacity)
        return true;
    struct ending *list = realloc(endings->list, n * sizeof *list);
    if (!list)
        return false;
    endings->list = list;
    endings->capacity = n;
    return true;
}

/* Of those that end together, the one of the lower number first: an order that can be repeated. */
static int earlier(const void *a, const void *b)
{
    const struct ending *x = a, *y = b;

    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    return x->lease < y->lease ? -1 : x->lease > y->lease;
}

static bool make_list(struct endings *endings, const struct tickets *tickets)
{
    if (!reserve(endings, (size_t)tickets->used))
        return false;
    endings_clear(endings);
    for (uint32_t i = 0; i < count_of(tickets); i++) {
        const struct ticket *ticket = ticket_at(tickets, i);
        if (ends_by_itself(ticket))
            endings->list[endings->n++] = (struct ending){ticket->deadline, ticket_lease(ticket)};
    }
    qsort(endings->list, endings->n, sizeof *endings->list, earlier);
    return true;
}

/* One that has ended, without a list. What was listed is forgotten: all are looked at. */
static struct ticket *look_for_one(struct endings *endings, const struct tickets *tickets,
                                   tg_ms until)
{
    endings_clear(endings);
    for (uint32_t i = 0; i < count_of(tickets); i++) {
        struct ticket *ticket = ticket_at(tickets, i);
        if (ends_by_itself(ticket) && ticket->deadline <= until) {
            endings_note(endings, until);
            return ticket;
        }
        if (ends_by_itself(ticket))
            endings_note(endings, ticket->deadline);
    }
    return NULL;
}

struct ticket *endings_take(struct endings *endings, const struct tickets *tickets, tg_ms until)
{
    if (endings->unlisted_from <= until && !make_list(endings, tickets))
        return look_for_one(endings, tickets, until);
    while (endings->next < endings->n && endings->list[endings->next].at <= until) {
        struct ending ending = endings->list[endings->next++];
        struct ticket *ticket = tickets_find(tickets, ending.lease);
        /* It may be gone, or be given another end, which was noted. */
        if (ticket && ends_by_itself(ticket) && ticket->deadline <= until)
            return ticket;
    }
    return NULL;
}
