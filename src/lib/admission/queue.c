/* queue.c - fair turns among those who wait. See queue.h. */
#include "lib/admission/queue.h"

#include <assert.h>
#include <math.h>

#include "lib/core/allocator.h"
#include "lib/core/container_of.h"
#include "lib/core/num.h"

/* How many flows at rest are remembered before those that no longer matter are forgotten. */
enum { RESTING_FLOWS_MAX = 256, FLOWS_CAPACITY_MIN = 16 };

/* A call costs a turn however little it does; and no more than leaves other turns countable. */
static const double WORK_MIN = 1, WORK_MAX = 1e9;

/* How fast the mean slot time of a flow forgets. */
static const double SLOT_WEIGHT = 1.0 / 16;

static double clamp_work(double work)
{
    return fmin(fmax(work, WORK_MIN), WORK_MAX);
}

static struct flow *flow_of(const struct heap_node *node)
{
    return container_of(node, struct flow, turn);
}

static bool goes_before(const struct heap_node *a, const struct heap_node *b)
{
    const struct flow *x = flow_of(a), *y = flow_of(b);

    if (x->tag < y->tag || x->tag > y->tag)
        return x->tag < y->tag;
    return x->rank < y->rank;
}

void queue_init(struct queue *queue)
{
    *queue = (struct queue){.arrivals = 0};
    for (int rank = 0; rank < TG_PRIORITY_COUNT; rank++) {
        heap_init(&queue->classes[rank].turns, goes_before);
        TAILQ_INIT(&queue->classes[rank].calls);
    }
}

void queue_fini(struct queue *queue)
{
    for (int rank = 0; rank < TG_PRIORITY_COUNT; rank++) {
        struct table *flows = &queue->classes[rank].flows;
        for (uint32_t i = 0; i < table_capacity(flows); i++)
            if (!table_is_free(&table_slots(flows)[i]))
                mem_free(table_slots(flows)[i].states.block);
        table_resize(flows, 0);
        heap_fini(&queue->classes[rank].turns);
    }
    while (queue->spare) {
        struct flow *flow = queue->spare;
        queue->spare = flow->next;
        mem_free(flow);
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

static bool is_resting(const struct flow *flow)
{
    return flow->n == 0 && flow->running == 0;
}

/* Forgets the resting flows whose tag is at most `tag`. */
static void forget_until(struct queue *queue, struct queue_class *line, double tag)
{
    for (uint32_t i = 0; i < table_capacity(&line->flows);) {
        struct table_slot *slot = &table_slots(&line->flows)[i];
        struct flow *flow = table_is_free(slot) ? NULL : slot->states.block;
        if (flow && is_resting(flow) && flow->tag <= tag) {
            table_remove(&line->flows, slot); /* another may be in this slot now: look again */
            flow->next = queue->spare;
            queue->spare = flow;
            line->resting--;
        } else {
            i++;
        }
    }
}

/* Those that the virtual time has overtaken are no loss; if that is not enough, all. */
static void forget_resting(struct queue *queue, struct queue_class *line)
{
    forget_until(queue, line, line->virtual_time);
    if (line->resting >= RESTING_FLOWS_MAX)
        forget_until(queue, line, INFINITY);
}

static struct flow *find_flow(const struct queue_class *line, struct table_id tenant)
{
    const struct table_slot *slot = table_find(&line->flows, tenant);

    return slot ? slot->states.block : NULL;
}

/* Where a flow that begins to wait starts, at the lowest. */
static double start_tag(const struct queue_class *line)
{
    const struct heap_node *first = heap_first(&line->turns);

    return first ? fmin(flow_of(first)->tag, line->virtual_time) : line->virtual_time;
}

static struct flow *get_flow(struct queue *queue, struct queue_class *line, struct table_id tenant)
{
    struct flow *flow = find_flow(line, tenant);
    uint32_t capacity = table_capacity(&line->flows);

    if (flow)
        return flow;
    if (line->resting >= RESTING_FLOWS_MAX)
        forget_resting(queue, line);
    if (line->flows.n + 1 > capacity / 4 * 3 &&
        !table_resize(&line->flows, capacity ? capacity * 2 : FLOWS_CAPACITY_MIN))
        return NULL;
    flow = queue->spare;
    if (flow)
        queue->spare = flow->next;
    else
        flow = mem_malloc(sizeof *flow);
    if (!flow)
        return NULL;
    *flow = (struct flow){.id = tenant, .tag = start_tag(line)};
    TAILQ_INIT(&flow->calls);
    table_insert(&line->flows, tenant)->states.block = flow;
    line->resting++;
    return flow;
}

/* The flow begins to wait, at this start. */
static void flow_join(struct flow *flow, double start)
{
    if (flow->tag < start) {
        flow->lifted += start - flow->tag;
        flow->tag = start;
    }
    flow->slack = flow->old > 0 ? fmin(flow->slack, flow->tag - start) : flow->tag - start;
    flow->old = flow->running;
    flow->joined++;
    assert(flow->slack >= 0);
}

static void rank_flow(const struct queue_class *line, struct flow *flow)
{
    flow->rank = line->is_newest_first ? ~TAILQ_LAST(&flow->calls, ticket_list)->arrival
                                       : TAILQ_FIRST(&flow->calls)->arrival;
}

/* What a call of this flow does that states nothing. */
static double flow_work(const struct flow *flow, double mean_ms)
{
    return clamp_work(flow->slot_ms > 0 ? flow->slot_ms : mean_ms);
}

/* ---- calls ---- */

/* By how much the flow's waiting calls will move its tag, together. */
static double flow_backlog(const struct flow *flow, double mean_ms)
{
    double unstated = (double)(flow->n - flow->n_stated) * flow_work(flow, mean_ms);

    return (flow->stated + unstated) / flow->weight;
}

/* How long a call of this flow holds its slot. */
static double flow_slot_ms(const struct flow *flow, double mean_ms)
{
    return flow->slot_ms > 0 ? flow->slot_ms : mean_ms;
}

/* The slot time of those of a flow's calls that would be served before one whose tag is `tag`, and
 * which came later: its first has the flow's tag, each further one is a turn behind. */
static double served_before(const struct flow *flow, double tag, double mean_ms)
{
    double turn = flow_backlog(flow, mean_ms) / (double)flow->n;
    int64_t n = num_min(flow->n, num_floor((tag - flow->tag) / turn + 1e-9) + 1);

    return (double)n * flow_slot_ms(flow, mean_ms);
}

/* The same of all flows but `own` from this place in the heap downward: no tag there is lower. */
static double served_below(const struct queue_class *line, size_t place, const struct flow *own,
                           double tag, double mean_ms, double enough)
{
    double ahead = 0;

    if (place >= line->turns.n || flow_of(line->turns.nodes[place])->tag > tag)
        return 0;
    if (flow_of(line->turns.nodes[place]) != own)
        ahead = served_before(flow_of(line->turns.nodes[place]), tag, mean_ms);
    for (size_t child = 2 * place + 1; child <= 2 * place + 2 && ahead <= enough; child++)
        ahead += served_below(line, child, own, tag, mean_ms, enough - ahead);
    return ahead;
}

double queue_ahead_of(const struct queue *queue, enum tg_priority priority, struct table_id tenant,
                      double weight, double mean_ms, double enough)
{
    const struct queue_class *line = &queue->classes[priority];
    const struct flow *own = find_flow(line, tenant);
    double tag = start_tag(line), ahead = 0;

    if (own) {
        tag = is_idle(own) ? fmax(own->tag, tag)
                           : own->tag + flow_backlog(own, mean_ms) * own->weight / weight;
        ahead = (double)own->n * flow_slot_ms(own, mean_ms);
    }
    if (ahead <= enough)
        ahead += served_below(line, 0, own, tag, mean_ms, enough - ahead);
    return ahead;
}

bool queue_push(struct queue *queue, struct ticket *ticket, struct table_id tenant, double weight,
                int64_t work, double mean_ms)
{
    struct queue_class *line = &queue->classes[ticket->priority];
    struct flow *flow = get_flow(queue, line, tenant);

    if (!flow)
        return false;
    bool was_idle = is_idle(flow), was_resting = is_resting(flow);
    double start = start_tag(line);
    assert(was_idle == (flow->n == 0) && !ticket->owes_turn);
    ticket->arrival = ++queue->arrivals;
    TAILQ_INSERT_TAIL(&flow->calls, ticket, in_flow);
    rank_flow(line, flow);
    if (was_idle) {
        flow_join(flow, start);
        if (!heap_add(&line->turns, &flow->turn)) {
            TAILQ_REMOVE(&flow->calls, ticket, in_flow);
            return false;
        }
    } else if (line->is_newest_first) {
        heap_moved(&line->turns, &flow->turn);
    }
    TAILQ_INSERT_TAIL(&line->calls, ticket, in_class);
    flow->weight = weight;
    ticket->flow = flow;
    ticket->states_work = work > 0;
    ticket->work = work > 0 ? clamp_work((double)work) : 0;
    ticket->slot_ms = flow_slot_ms(flow, mean_ms);
    line->slot_ms += ticket->slot_ms;
    flow->n++;
    flow->n_stated += ticket->states_work;
    flow->stated += ticket->work;
    line->resting -= was_resting;
    if (line->waiting++ == 0)
        line->earned = 0;
    return true;
}

/* Takes a ticket out of the lists; its flow is still the same. */
static void take_out(struct queue_class *line, struct ticket *ticket)
{
    struct flow *flow = ticket->flow;

    assert(flow->n > 0 && line->waiting >= flow->n);
    assert((int64_t)line->turns.n <= line->waiting);
    TAILQ_REMOVE(&flow->calls, ticket, in_flow);
    TAILQ_REMOVE(&line->calls, ticket, in_class);
    flow->n--;
    flow->n_stated -= ticket->states_work;
    flow->stated = flow->n_stated > 0 ? flow->stated - ticket->work : 0;
    line->waiting--;
    line->slot_ms = line->waiting > 0 ? line->slot_ms - ticket->slot_ms : 0;
    if (is_idle(flow)) {
        heap_remove(&line->turns, &flow->turn);
    } else {
        rank_flow(line, flow);
        heap_moved(&line->turns, &flow->turn);
    }
    assert(is_idle(flow) == (flow->n == 0));
    assert((line->waiting == 0) == (line->turns.n == 0));
}

void queue_remove(struct queue *queue, struct ticket *ticket)
{
    struct queue_class *line = &queue->classes[ticket->priority];

    take_out(line, ticket);
    line->resting += is_resting(ticket->flow);
    ticket->flow = NULL;
}

void queue_set_order(struct queue_class *line, bool newest_first)
{
    line->is_newest_first = newest_first;
    for (uint32_t i = 0; i < table_capacity(&line->flows); i++) {
        const struct table_slot *slot = &table_slots(&line->flows)[i];
        struct flow *flow = table_is_free(slot) ? NULL : slot->states.block;
        if (flow && !is_idle(flow)) {
            rank_flow(line, flow);
            heap_moved(&line->turns, &flow->turn);
        }
    }
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

struct ticket *queue_serve(struct queue *queue, enum tg_priority priority, double mean_ms)
{
    struct queue_class *line = &queue->classes[priority];

    assert(line->waiting > 0);
    struct flow *flow = flow_of(heap_first(&line->turns));
    struct ticket *ticket =
        line->is_newest_first ? TAILQ_LAST(&flow->calls, ticket_list) : TAILQ_FIRST(&flow->calls);

    assert(line->earned >= 0 && line->earned <= QUEUE_TURN);
    if (line->earned >= QUEUE_TURN)
        line->earned -= QUEUE_TURN;
    for (int below = (int)priority + 1; below < TG_PRIORITY_COUNT; below++)
        queue_earn(&queue->classes[below], queue->share[below]);
    line->virtual_time = flow->tag;
    take_out(line, ticket);
    if (!ticket->states_work)
        ticket->work = flow_work(flow, mean_ms);
    ticket->owes_turn = true;
    ticket->joined = flow->joined;
    ticket->lifted = flow->lifted;
    flow->running++;
    flow->tag += ticket->work / flow->weight;
    if (!is_idle(flow))
        heap_moved(&line->turns, &flow->turn);
    return ticket;
}

void queue_settle(struct queue *queue, struct ticket *ticket, int64_t slot_ms, int64_t work,
                  bool has_run)
{
    struct queue_class *line = &queue->classes[ticket->priority];
    struct flow *flow = ticket->flow;
    double actual = ticket->work;

    assert(ticket->owes_turn && flow->running > 0 && slot_ms >= 0);
    if (!ticket->states_work)
        actual = clamp_work((double)slot_ms);
    else if (work >= 0)
        actual = clamp_work((double)work);
    double more = (actual - ticket->work) / flow->weight;
    if (ticket->joined != flow->joined) { /* granted before the flow began to wait again */
        assert(flow->old > 0);
        flow->old--;
        more =
            more < 0 ? -fmin(-more, flow->slack) : fmax(0, more - (flow->lifted - ticket->lifted));
        flow->slack += fmin(more, 0);
    }
    flow->tag += more;
    if (has_run)
        flow->slot_ms +=
            flow->slot_ms > 0 ? ((double)slot_ms - flow->slot_ms) * SLOT_WEIGHT : (double)slot_ms;
    flow->running--;
    ticket->owes_turn = false;
    ticket->flow = NULL;
    line->resting += is_resting(flow);
    if (!is_idle(flow))
        heap_moved(&line->turns, &flow->turn);
}

double queue_slot_ms(const struct queue *queue, enum tg_priority priority, struct table_id tenant)
{
    const struct flow *flow = find_flow(&queue->classes[priority], tenant);

    return flow ? flow->slot_ms : 0;
}

/* ---- for tests ---- */

int64_t queue_assert_books(const struct queue *queue)
{
    int64_t running = 0;

    for (int rank = 0; rank < TG_PRIORITY_COUNT; rank++) {
        const struct queue_class *line = &queue->classes[rank];
        int64_t waiting = 0, resting = 0, turns = 0;
        for (uint32_t i = 0; i < table_capacity(&line->flows); i++) {
            const struct table_slot *slot = &table_slots(&line->flows)[i];
            const struct flow *flow = table_is_free(slot) ? NULL : slot->states.block;
            if (!flow)
                continue;
            assert(flow->old >= 0 && flow->old <= flow->running && flow->slack >= 0);
            assert(flow->n_stated >= 0 && flow->n_stated <= flow->n);
            const struct ticket *ticket;
            double stated = 0; /* whole numbers, of which no sum rounds */
            TAILQ_FOREACH(ticket, &flow->calls, in_flow)
                stated += ticket->work;
            assert(flow->stated >= stated && flow->stated <= stated);
            (void)stated;
            assert(is_idle(flow) || line->turns.nodes[flow->turn.place] == &flow->turn);
            waiting += flow->n;
            turns += !is_idle(flow);
            resting += is_resting(flow);
            running += flow->running;
        }
        assert(waiting == line->waiting && resting == line->resting);
        assert(turns == (int64_t)line->turns.n);
        assert(TAILQ_EMPTY(&line->calls) == (waiting == 0));
        (void)waiting, (void)resting, (void)turns;
    }
    return running;
}
