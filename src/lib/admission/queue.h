/* queue.h - who waits for a slot, and who is next.
 *
 * Three bounded queues, one for each priority. A freed slot goes to the highest class that waits;
 * but each grant made above a class earns it its share of a turn, from 0 when it starts to wait,
 * and with a whole turn it goes first. So nothing starves.
 *
 * Within a class, tenants take turns by weight (start-time fair queueing): a tenant's calls are a
 * flow, in the order of their arrival; a flow has a tag, which each grant moves on by 1 / weight;
 * the flow with the lowest tag is next, and the class's virtual time is the tag last served. A flow
 * that was idle starts from the virtual time, so it can neither save up turns nor be made to pay
 * for others' rush; it is remembered as long as its tag is ahead of that.
 *
 * The gate's lock covers it. Memory is allocated only for a tenant's first waiting call, and
 * kept for the next.
 */
#ifndef TG_ADMISSION_QUEUE_H
#define TG_ADMISSION_QUEUE_H

#include "lib/admission/ticket.h"

struct flow {
    struct table_id id;
    double tag;
    double weight;
    TAILQ_HEAD(, ticket) calls; /* in the order of their arrival */
    int64_t n;                  /* calls */
    struct heap_node turn;      /* in the heap of its class; only while it has calls */
    struct flow *next;          /* among the spare ones */
};

struct queue_class {
    struct table flows;
    struct heap turns; /* flows that have calls: lowest tag, then earliest call, first */
    double virtual_time;
    int64_t waiting;
    int64_t earned; /* part of a turn, in units of QUEUE_TURN */
};

struct queue {
    struct queue_class classes[TG_PRIORITY_COUNT];
    struct flow *spare;
    uint64_t arrivals;
    int64_t share[TG_PRIORITY_COUNT]; /* in units of QUEUE_TURN */
};

#define QUEUE_TURN (INT64_C(1) << 30)

void queue_init(struct queue *queue);
void queue_fini(struct queue *queue);

void queue_set_shares(struct queue *queue, const double share[TG_PRIORITY_COUNT]);

/* Puts the ticket in the class of its priority. False: no memory. */
bool queue_push(struct queue *queue, struct ticket *ticket, struct table_id tenant, double weight);

/* Takes out a ticket that will not be served. */
void queue_remove(struct queue *queue, struct ticket *ticket);

/* The class whose turn it is, among those that wait; `low_may` says whether low is one of them.
 * TG_PRIORITY_COUNT: none. */
enum tg_priority queue_turn(const struct queue *queue, bool low_may);

/* Serves the class: takes out its next ticket, and counts the turn. */
struct ticket *queue_serve(struct queue *queue, enum tg_priority priority);

/* The calls that would be served before a new one of this tenant, as turns stand now: all of the
 * classes above, its own, and of other tenants those that come before its turn. Counted only until
 * there are more than `enough`. */
int64_t queue_ahead_of(const struct queue *queue, enum tg_priority priority, struct table_id tenant,
                       double weight, int64_t enough);

/* The calls that wait in this class and those above it. */
static inline int64_t queue_ahead(const struct queue *queue, enum tg_priority priority)
{
    int64_t ahead = 0;

    for (int rank = 0; rank <= (int)priority; rank++)
        ahead += queue->classes[rank].waiting;
    return ahead;
}

#endif
