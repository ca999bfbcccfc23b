/* queue.h - who waits for a slot, and who is next.
 *
 * Three bounded queues, one for each priority. A freed slot goes to the highest class that waits;
 * but each grant made above a class earns it its share of a turn, from 0 when it starts to wait,
 * and with a whole turn it goes first. So nothing starves.
 *
 * Within a class, tenants share by weight and by work, with virtual counters (start-time fair
 * queueing, with costs that become known late). A tenant's calls are a flow, in the order of their
 * arrival; a flow has a tag, which each grant moves on by (expected work) / weight; the flow with
 * the lowest tag is next. When the call ends, the tag is corrected to what the work was. Work is
 * what the caller states, or else the time that the slot is held; never less than 1.
 *
 * A flow that begins to wait starts at the tag last served, as it was before that grant was charged
 * for, or at the lowest tag of those that wait if a correction has made that lower; unless its own
 * is higher. So it can neither save up turns nor be made to pay for others' rush. For the same
 * reason a correction must not undo that start. A charge c made before it, and known now to have
 * been a, is corrected to what it would be had a been charged at the grant:
 *
 *     a < c    no more is given back than the tag was above the start     (slack)
 *     a > c    only what the start has not already raised the tag by      (lifted)
 *
 * which is exact for one charge, and never to a tenant's advantage for several.
 *
 * A flow is remembered while calls of it wait or run, and after that while few are.
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
    struct ticket_list calls; /* those that wait, in the order of their arrival */
    int64_t n;                /* their number */
    int64_t n_stated;         /* those that state their work, and how much they do */
    double stated;
    int64_t running; /* calls that were granted and are not settled yet */
    double slot_ms;  /* moving mean of the time that a slot was held; 0: not known */

    uint64_t joined; /* how often it has begun to wait */
    int64_t old;     /* running calls that were granted before it did last */
    double slack;    /* by how much the tag was above its start, at the least, since their grant */
    double lifted;   /* by how much starts have raised the tag, in all */

    uint64_t rank;         /* decides between equal tags: the lowest is first */
    struct heap_node turn; /* in the heap of its class; only while it has calls */
    struct flow *next;     /* among the spare ones */
};

struct queue_class {
    struct table flows;
    struct heap turns;        /* flows that have calls: lowest tag, then lowest rank, first */
    struct ticket_list calls; /* all that wait, in the order of their arrival */
    double slot_ms;           /* what they will hold, by what was known when they came */
    double virtual_time;      /* the tag last served */
    int64_t waiting;
    int64_t earned;       /* part of a turn, in units of QUEUE_TURN */
    int64_t resting;      /* flows with no call, neither waiting nor running */
    bool is_newest_first; /* within a flow, and between flows with equal tags */
    tg_ms waiting_since;  /* when it was empty last, and when a call of it was refused; waits.c's */
    tg_ms refused_at;
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

/* Puts the ticket in the class of its priority. `work`: what the call states; 0: nothing. A tenant
 * whose slot times are not known counts with `mean_ms`. False: no memory. */
bool queue_push(struct queue *queue, struct ticket *ticket, struct table_id tenant, double weight,
                int64_t work, double mean_ms);

/* Takes out a ticket that will not be served. */
void queue_remove(struct queue *queue, struct ticket *ticket);

/* Which call of a tenant is next: the one that came first, or the one that came last. */
void queue_set_order(struct queue_class *line, bool newest_first);

/* The class whose turn it is, among those that wait; `low_may` says whether low is one of them.
 * TG_PRIORITY_COUNT: none. */
enum tg_priority queue_turn(const struct queue *queue, bool low_may);

/* Serves the class: takes out its next ticket, counts the turn, and charges the flow what the call
 * states, else the mean of the flow's slot times, else `mean_ms`. It is then owed a
 * queue_settle(). */
struct ticket *queue_serve(struct queue *queue, enum tg_priority priority, double mean_ms);

/* The call of a ticket that was served has ended, after it held its slot for so long; `work`: what
 * it was if the call has stated any; negative: as much as stated. Only one that has run says
 * something about others of its flow. */
void queue_settle(struct queue *queue, struct ticket *ticket, int64_t slot_ms, int64_t work,
                  bool has_run);

/* How long a call of this tenant holds its slot, by those that have waited; 0: not known. */
double queue_slot_ms(const struct queue *queue, enum tg_priority priority, struct table_id tenant);

/* The slot time of the calls of its class that would be served before a new one of this tenant, as
 * turns stand now: its own, and of other tenants those that come before its turn. A tenant whose
 * slot times are not known counts with `mean_ms`. Added up only until it is more than `enough`. */
double queue_ahead_of(const struct queue *queue, enum tg_priority priority, struct table_id tenant,
                      double weight, double mean_ms, double enough);

/* The calls that wait in this class and those above it. */
static inline int64_t queue_ahead(const struct queue *queue, enum tg_priority priority)
{
    int64_t ahead = 0;

    for (int rank = 0; rank <= (int)priority; rank++)
        ahead += queue->classes[rank].waiting;
    return ahead;
}

/* For tests: adds up what its flows hold, and asserts that its counters say the same. Returns the
 * number of calls that were granted and are not settled yet. */
int64_t queue_assert_books(const struct queue *queue);

#endif
