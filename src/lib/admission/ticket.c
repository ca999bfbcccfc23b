/* ticket.c - the pool of tickets. See ticket.h. */
#include "lib/admission/ticket.h"

#include <stdlib.h>
#include <string.h>

void tickets_init(struct tickets *tickets)
{
    *tickets = (struct tickets){0};
}

void tickets_fini(struct tickets *tickets)
{
    for (uint32_t i = 0; i < tickets->n_chunks; i++)
        free(tickets->chunks[i]);
    free(tickets->chunks);
}

/* Tickets stand in chunks that never move, since queues and heaps point at them. */
static bool ticket_add_chunk(struct tickets *tickets)
{
    struct ticket **chunks =
        realloc(tickets->chunks, (tickets->n_chunks + 1) * sizeof(struct ticket *));
    struct ticket *chunk = aligned_alloc(CACHE_LINE, TICKET_CHUNK * sizeof *chunk);

    if (chunks)
        tickets->chunks = chunks;
    if (!chunks || !chunk) {
        free(chunk);
        return false;
    }
    memset(chunk, 0, TICKET_CHUNK * sizeof *chunk);
    for (uint32_t i = TICKET_CHUNK; i-- > 0;) {
        chunk[i].index = tickets->n_chunks * TICKET_CHUNK + i;
        chunk[i].generation = 1;
        chunk[i].next = tickets->free;
        tickets->free = &chunk[i];
    }
    tickets->chunks[tickets->n_chunks++] = chunk;
    return true;
}

struct ticket *tickets_get(struct tickets *tickets)
{
    if (!tickets->free && !ticket_add_chunk(tickets))
        return NULL;
    struct ticket *ticket = tickets->free;
    tickets->free = ticket->next;
    tickets->used++;
    return ticket;
}

void tickets_put(struct tickets *tickets, struct ticket *ticket)
{
    ticket->state = TICKET_FREE;
    ticket->generation++;
    ticket->next = tickets->free;
    tickets->free = ticket;
    tickets->used--;
}

struct ticket *tickets_find(const struct tickets *tickets, tg_lease lease)
{
    uint32_t index = (uint32_t)lease - 1;

    if ((uint32_t)lease == 0 || index / TICKET_CHUNK >= tickets->n_chunks)
        return NULL;
    struct ticket *ticket = &tickets->chunks[index / TICKET_CHUNK][index % TICKET_CHUNK];
    if (ticket->state == TICKET_FREE || ticket->generation != (uint32_t)(lease >> 32))
        return NULL;
    return ticket;
}
