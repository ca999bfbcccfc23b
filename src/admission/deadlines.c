/* deadlines.c - the heap of deadlines. See deadlines.h. */
#include "admission/deadlines.h"

#include <stdlib.h>

void deadlines_init(struct deadlines *deadlines)
{
    *deadlines = (struct deadlines){0};
}

void deadlines_fini(struct deadlines *deadlines)
{
    free(deadlines->heap);
}

static bool reserve(struct deadlines *deadlines)
{
    size_t capacity = deadlines->capacity ? deadlines->capacity * 2 : 64;

    if (deadlines->n < deadlines->capacity)
        return true;
    struct ticket **heap = realloc(deadlines->heap, capacity * sizeof(struct ticket *));
    if (!heap)
        return false;
    deadlines->heap = heap;
    deadlines->capacity = capacity;
    return true;
}

/* Arrival decides between equals, so that the order never depends on the heap's shape. */
static bool before(const struct ticket *a, const struct ticket *b)
{
    if (a->deadline != b->deadline)
        return a->deadline < b->deadline;
    return a->arrival < b->arrival;
}

static void put(struct deadlines *deadlines, size_t place, struct ticket *ticket)
{
    deadlines->heap[place] = ticket;
    ticket->deadline_place = place;
}

static void sift_up(struct deadlines *deadlines, size_t place, struct ticket *ticket)
{
    while (place > 0 && before(ticket, deadlines->heap[(place - 1) / 2])) {
        put(deadlines, place, deadlines->heap[(place - 1) / 2]);
        place = (place - 1) / 2;
    }
    put(deadlines, place, ticket);
}

static void sift_down(struct deadlines *deadlines, size_t place, struct ticket *ticket)
{
    for (size_t child; (child = 2 * place + 1) < deadlines->n; place = child) {
        if (child + 1 < deadlines->n && before(deadlines->heap[child + 1], deadlines->heap[child]))
            child++;
        if (before(ticket, deadlines->heap[child]))
            break;
        put(deadlines, place, deadlines->heap[child]);
    }
    put(deadlines, place, ticket);
}

bool deadlines_add(struct deadlines *deadlines, struct ticket *ticket, tg_ms at)
{
    if (!reserve(deadlines))
        return false;
    ticket->deadline = at;
    sift_up(deadlines, deadlines->n++, ticket);
    return true;
}

void deadlines_remove(struct deadlines *deadlines, struct ticket *ticket)
{
    size_t place = ticket->deadline_place;
    struct ticket *last = deadlines->heap[--deadlines->n];

    if (last == ticket)
        return;
    if (place > 0 && before(last, deadlines->heap[(place - 1) / 2]))
        sift_up(deadlines, place, last);
    else
        sift_down(deadlines, place, last);
}
