/* deadlines.h - whose wait is over next: a heap.
 *
 * Of waiting calls only. Tickets know their place, so one that is served is taken out at once.
 */
#ifndef TG_ADMISSION_DEADLINES_H
#define TG_ADMISSION_DEADLINES_H

#include "admission/ticket.h"

struct deadlines {
    struct ticket **heap;
    size_t n;
    size_t capacity;
};

void deadlines_init(struct deadlines *deadlines);
void deadlines_fini(struct deadlines *deadlines);

/* False: no memory. */
bool deadlines_add(struct deadlines *deadlines, struct ticket *ticket, tg_ms at);

void deadlines_remove(struct deadlines *deadlines, struct ticket *ticket);

/* The one that is over first, or null. Of those that are over together, the one that came first. */
static inline struct ticket *deadlines_first(const struct deadlines *deadlines)
{
    return deadlines->n > 0 ? deadlines->heap[0] : NULL;
}

#endif
