/* queue.c - fair turns among those who wait. See queue.h. */
#include "lib/admission/queue.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "lib/core/container_of.h"
#include "lib/core/num.h"

/* How many idle flows are remembered before those that no longer matter are forgotten. */
enum { IDLE_FLOWS_MAX = 256, FLOWS_CAPACITY_MIN = 16 };

static struct flow *flow_of(const struct heap_node *node)
{
    return container_of(node, struct flow, turn);
}

static bool goes_before(const struct heap_node *a, const struct heap_node *b)
{
    const struct flow *x = flow_of(a), *y = flow_of(b);

    if (x->tag < y->tag || x->tag > y->tag)
        return x->tag < y->tag;
    return TAILQ_FIRST(&x->calls)->arrival < TAILQ_FIRST(&y->calls)->arrival;
}

void queue_init(struct queue *queue)
{
    *queue = (struct queue){.arrivals = 0};
    for (int rank = 0; rank < TG_PRIORITY_COUNT; rank++)
        heap_init(&queue->classes[rank].turns, goes_before);
}

void queue_fini(struct queue *queue)
{
    for (int rank = 0; rank < TG_PRIORITY_COUNT; rank++) {
        struct table *flows = &queue->classes[rank].flows;
        for (uint32_t i = 0; i < table_capacity(flows); i++)
            if (!table_is_free(&table_slots(flows)[i]))
                free(table_slots(flows)[i].states.block);
        table_resize(flows, 0);
        heap_fini(&queue->classes[rank].turns);
    }
    while (queue->spare) {
        struct flow *flow = queue->spare;
        queue->spare = flow->next;
        free(flow);
    }
}

/* Rounded up, so that five shares of 0.2 make a turn. */
void queue_set_shares(struct queue *queue, const double share[TG_PRIORITY_COUNT])
{
    for (int rank = 0; rank < TG_PRIORITY_COUNT; rank++) {
        queue->share[rank] = num_ceil(share[rank] * (double)QUEUE_TURN);
        assert(queue->share[rank] >= 0 && queue->share[rank] <= QUEUE_TURN);
    }
}

/* ---- flows ---- */

static bool is_idle(const struct flow *flow)
{
    return TAILQ_EMPTY(&flow->calls);
}

/* Forgets the idle flows whose tag is at most `tag`. */
static void forget_until(struct queue *queue, struct queue_class *line, double tag)
{
    for (uint32_t i = 0; i < table_capacity(&line->flows);) {
        struct table_slot *slot = &table_slots(&line->flows)[i];
        struct flow *flow = table_is_free(slot) ? NULL : slot->states.block;
        if (flow && is_idle(flow) && flow->tag <= tag) {
            table_remove(&line->flows, slot); /* another may be in this slot now: look again */
            flow->next = queue->spare;
            queue->spare = flow;
        } else {
            i++;
        }
    }
}

static size_t idle_flows(const struct queue_class *line)
{
    assert(line->turns.n <= line->flows.n); /* a flow has its turn only while it has calls */
    return line->flows.n - line->turns.n;
}

/* Those that the virtual time has overtaken are no loss; if that is not enough, all idle ones. */
static void forget_idle(struct queue *queue, struct queue_class *line)
{
    forget_until(queue, line, line->virtual_time);
    if (idle_flows(line) >= IDLE_FLOWS_MAX)
        forget_until(queue, line, INFINITY);
}

static struct flow *get_flow(struct queue *queue, struct queue_class *line, struct table_id tenant)
{
    struct table_slot *slot = table_find(&line->flows, tenant);
    uint32_t capacity = table_capacity(&line->flows);

    if (slot)
        return slot->states.block;
    if (idle_flows(line) >= IDLE_FLOWS_MAX)
        forget_idle(queue, line);
    if (line->flows.n + 1 > capacity / 4 * 3 &&
        !table_resize(&line->flows, capacity ? capacity * 2 : FLOWS_CAPACITY_MIN))
        return NULL;
    struct flow *flow = queue->spare;
    if (flow)
        queue->spare = flow->next;
    else
        flow = malloc(sizeof *flow);
    if (!flow)
        return NULL;
    *flow = (struct flow){.id = tenant, .tag = line->virtual_time};
    TAILQ_INIT(&flow->calls);
    table_insert(&line->flows, tenant)->states.block = flow;
    return flow;
}

/* ---- calls ---- */

/* How many of a flow's calls would be served before one whose tag is `tag`, of those that came
 * before it: its first has the flow's tag, each further one is a turn behind. */
static int64_t served_before(const struct flow *flow, double tag)
{
    if (flow->tag > tag)
        return 0;
    return num_min(flow->n, num_floor((tag - flow->tag) * flow->weight + 1e-9) + 1);
}

int64_t queue_ahead_of(const struct queue *queue, enum tg_priority priority, struct table_id tenant,
                       double weight, int64_t enough)
{
    const struct queue_class *line = &queue->classes[priority];
    const struct table_slot *slot = table_find(&line->flows, tenant);
    const struct flow *own = slot ? slot->states.block : NULL;
    double tag = own && own->tag > line->virtual_time ? own->tag : line->virtual_time;
    int64_t ahead = queue_ahead(queue, priority) - line->waiting + (own ? own->n : 0);

    if (own)
        tag += (double)own->n / weight;
    for (size_t i = 0; i < line->turns.n && ahead <= enough; i++)
        if (flow_of(line->turns.nodes[i]) != own)
            ahead += served_before(flow_of(line->turns.nodes[i]), tag);
    return ahead;
}

bool queue_push(struct queue *queue, struct ticket *ticket, struct table_id tenant, double weight)
{
    struct queue_class *line = &queue->classes[ticket->priority];
    struct flow *flow = get_flow(queue, line, tenant);

    if (!flow)
        return false;
    bool was_idle = is_idle(flow);
    assert(was_idle == (flow->n == 0));
    ticket->arrival = ++queue->arrivals;
    TAILQ_INSERT_TAIL(&flow->calls, ticket, in_flow);
    if (was_idle) { /* it takes turns again */
        flow->tag = flow->tag < line->virtual_time ? line->virtual_time : flow->tag;
        if (!heap_add(&line->turns, &flow->turn)) {
            TAILQ_REMOVE(&flow->calls, ticket, in_flow);
            return false;
        }
    }
    flow->weight = weight;
    ticket->flow = flow;
    flow->n++;
    if (line->waiting++ == 0)
        line->earned = 0;
    return true;
}

void queue_remove(struct queue *queue, struct ticket *ticket)
{
    struct queue_class *line = &queue->classes[ticket->priority];
    struct flow *flow = ticket->flow;
    bool was_first = TAILQ_FIRST(&flow->calls) == ticket;

    assert(flow->n > 0 && line->waiting >= flow->n);
    assert((int64_t)line->turns.n <= line->waiting);

    TAILQ_REMOVE(&flow->calls, ticket, in_flow);
    if (is_idle(flow))
        heap_remove(&line->turns, &flow->turn);
    else if (was_first)
        heap_moved(&line->turns, &flow->turn);
    ticket->flow = NULL;
    flow->n--;
    line->waiting--;
    assert(is_idle(flow) == (flow->n == 0));
    assert((line->waiting == 0) == (line->turns.n == 0));
}

enum tg_priority queue_turn(const struct queue *queue, bool low_may)
{
    enum tg_priority top = TG_PRIORITY_COUNT;

    for (int rank = 0; rank < TG_PRIORITY_COUNT; rank++) {
        const struct queue_class *here = &queue->classes[rank];
        if (here->waiting == 0 || (rank == TG_PRIORITY_LOW && !low_may))
            continue;
        if (here->earned >= QUEUE_TURN)
            return (enum tg_priority)rank;
        if (top == TG_PRIORITY_COUNT)
            top = (enum tg_priority)rank;
    }
    return top;
}

/* A turn at most: a class that may not go for a while does not save up turns for later. */
static void queue_earn(struct queue_class *line, int64_t share)
{
    line->earned = num_min(line->earned + share, QUEUE_TURN);
}

struct ticket *queue_serve(struct queue *queue, enum tg_priority priority)
{
    struct queue_class *line = &queue->classes[priority];

    assert(line->waiting > 0);
    struct flow *flow = flow_of(heap_first(&line->turns));
    struct ticket *ticket = TAILQ_FIRST(&flow->calls);

    assert(line->earned >= 0 && line->earned <= QUEUE_TURN);
    assert(flow->tag >= line->virtual_time); /* virtual time never goes back */
    if (line->earned >= QUEUE_TURN)
        line->earned -= QUEUE_TURN;
    for (int below = (int)priority + 1; below < TG_PRIORITY_COUNT; below++)
        if (queue->classes[below].waiting > 0)
            queue_earn(&queue->classes[below], queue->share[below]);
    line->virtual_time = flow->tag;
    flow->tag += 1 / flow->weight;
    queue_remove(queue, ticket);
    return ticket;
}
