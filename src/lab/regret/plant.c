/* plant.c - the server in virtual time; plant.h says what it is.
 *
 * Events are: the next arrival, the next tick, and for each call that is not queued, the end of its
 * service, of its delay, or of its short stay before it is given back. Those of calls are in a
 * binary heap, ordered by time and then by admission, so that ties have one order on every machine.
 * Calls live in a pool of slots that grows and is used again. core/heap.h would not do: it keeps
 * pointers, and the slots move when the pool grows.
 */
#include "lab/regret/plant.h"
#include "lib/core/array.h"
#include "lib/core/num.h"
#include "lib/core/random.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

enum call_stage { SERVED, DELAYED, DENIED };

struct call {
    uint64_t number; /* sequence number of its admission */
    double event_ms; /* when its stage ends */
    enum call_stage stage;
    double admitted_ms;
    double service_ms;
    double first_byte_ms;
    int64_t in_flight_at_start;
    uint32_t next; /* in the queue, or among the free slots */
};

#define NOBODY UINT32_MAX

/* How often a plant without arrivals checks whether they have begun again. */
static const double IDLE_POLL_MS = 1;

struct plant {
    const struct plant_subject *subject;
    struct plant_result result;
    bool out_of_memory;
    struct plant_load load;
    struct random arrivals; /* two streams: what admission does must not change who arrives */
    struct random services;
    double now_ms;
    double arrival_ms;
    double tick_ms;
    double pot_ms;
    int64_t in_flight;
    int64_t busy;
    uint64_t admitted;

    struct call *calls;
    uint32_t *heap; /* slots, soonest event first */
    size_t calls_capacity, heap_capacity;
    uint32_t n_calls; /* slots, used and free */
    uint32_t free;    /* the first free slot; NOBODY: none */
    uint32_t heaped;
    uint32_t queue_head, queue_tail;
};

static tg_ms clock_ms(double ms)
{
    return num_floor(ms);
}

/* ---- Slots and heap -------------------------------------------------------------------------- */

/* A slot for a call. NOBODY: no memory. */
static uint32_t get_slot(struct plant *plant)
{
    uint32_t slot = plant->free;

    if (slot != NOBODY) {
        plant->free = plant->calls[slot].next;
        return slot;
    }
    if (!array_reserve(&plant->calls, &plant->calls_capacity, plant->n_calls + (size_t)1) ||
        !array_reserve(&plant->heap, &plant->heap_capacity, plant->n_calls + (size_t)1))
        return NOBODY;
    return plant->n_calls++;
}

static bool sooner(const struct plant *plant, uint32_t a, uint32_t b)
{
    const struct call *x = &plant->calls[a], *y = &plant->calls[b];

    return x->event_ms < y->event_ms || (x->event_ms <= y->event_ms && x->number < y->number);
}

static void heap_push(struct plant *plant, uint32_t slot)
{
    assert(plant->heaped < plant->n_calls); /* a call waits for one event */
    uint32_t i = plant->heaped++;

    while (i > 0 && sooner(plant, slot, plant->heap[(i - 1) / 2])) {
        plant->heap[i] = plant->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    plant->heap[i] = slot;
}

static uint32_t heap_pop(struct plant *plant)
{
    assert(plant->heaped > 0);
    uint32_t top = plant->heap[0], last = plant->heap[--plant->heaped], i = 0;

    for (;;) {
        uint32_t child = 2 * i + 1;
        if (child >= plant->heaped)
            break;
        if (child + 1 < plant->heaped && sooner(plant, plant->heap[child + 1], plant->heap[child]))
            child++;
        if (!sooner(plant, plant->heap[child], last))
            break;
        plant->heap[i] = plant->heap[child];
        i = child;
    }
    plant->heap[i] = last;
    assert(plant->heaped == 0 || sooner(plant, top, plant->heap[0]));
    return top;
}

/* The call's next event is so far away. */
static void wait_for(struct plant *plant, uint32_t slot, enum call_stage stage, double ms)
{
    plant->calls[slot].stage = stage;
    plant->calls[slot].event_ms = plant->now_ms + ms;
    heap_push(plant, slot);
}

/* ---- A call's way ---------------------------------------------------------------------------- */

static void enqueue(struct plant *plant, uint32_t slot)
{
    plant->calls[slot].next = NOBODY;
    if (plant->queue_head == NOBODY)
        plant->queue_head = slot;
    else
        plant->calls[plant->queue_tail].next = slot;
    plant->queue_tail = slot;
}

static void dispatch(struct plant *plant)
{
    while (plant->queue_head != NOBODY && plant->busy < plant->load.workers) {
        uint32_t slot = plant->queue_head;
        plant->queue_head = plant->calls[slot].next;
        plant->busy++;
        wait_for(plant, slot, SERVED, plant->calls[slot].service_ms + plant->pot_ms);
        plant->pot_ms = 0;
    }
}

static double draw_service(struct plant *plant)
{
    double mean = plant->load.service_ms, cv = plant->load.service_cv;
    double variance;

    if (cv <= 0)
        return mean;
    variance = log(1 + cv * cv);
    return mean * exp(sqrt(variance) * random_normal(&plant->services) - variance / 2);
}

static void plant_admit(struct plant *plant)
{
    uint32_t slot = get_slot(plant);

    if (slot == NOBODY) {
        plant->out_of_memory = true;
        return;
    }
    plant->in_flight++;
    plant->calls[slot] = (struct call){
        .number = plant->admitted++,
        .admitted_ms = plant->now_ms,
        .service_ms = draw_service(plant),
        .in_flight_at_start = plant->in_flight,
    };
    if (plant->load.denied > 0 && random_unit(&plant->services) < plant->load.denied) {
        wait_for(plant, slot, DENIED, plant->load.denied_ms);
    } else {
        enqueue(plant, slot);
        dispatch(plant);
    }
}

static void arrive(struct plant *plant)
{
    const struct plant_subject *subject = plant->subject;
    double rate = plant->load.arrivals_per_ms;

    if (rate <= 0) {
        plant->arrival_ms = plant->now_ms + IDLE_POLL_MS;
        return;
    }
    plant->arrival_ms = plant->now_ms + random_exponential(&plant->arrivals, 1 / rate);
    plant->result.offered++;
    if (subject->may_start(subject->context, clock_ms(plant->now_ms), plant->in_flight)) {
        plant_admit(plant);
        return;
    }
    plant->result.refused++;
    plant->pot_ms += plant->load.reject_cost * plant->load.service_ms;
}

static void plant_finish(struct plant *plant, const struct call *call)
{
    double total = plant->now_ms - call->admitted_ms;
    struct plant_end end = {
        .now = clock_ms(plant->now_ms),
        .first_byte_ms = call->first_byte_ms,
        .total_ms = total,
        .sojourn_ms = clock_ms(plant->now_ms) - clock_ms(call->admitted_ms),
        .in_flight = plant->in_flight,
        .in_flight_at_start = call->in_flight_at_start,
        .good = total <= plant->load.deadline_ms,
    };

    plant->result.finished++;
    plant->result.good += end.good;
    plant->subject->finished(plant->subject->context, &end);
}

static void give_back(struct plant *plant)
{
    const struct plant_subject *subject = plant->subject;

    plant->result.given_back++;
    if (subject->given_back)
        subject->given_back(subject->context, clock_ms(plant->now_ms), plant->in_flight);
}

static void plant_leave(struct plant *plant, uint32_t slot)
{
    assert(plant->in_flight > 0 && plant->in_flight <= plant->n_calls);
    plant->in_flight--;
    plant->calls[slot].next = plant->free;
    plant->free = slot;
}

static void end_of_stage(struct plant *plant)
{
    uint32_t slot = heap_pop(plant);
    struct call *call = &plant->calls[slot];

    if (call->stage == SERVED) {
        assert(plant->busy > 0);
        plant->busy--;
        dispatch(plant);
        call->first_byte_ms = plant->now_ms - call->admitted_ms;
        if (plant->load.delay_ms > 0) {
            wait_for(plant, slot, DELAYED,
                     random_exponential(&plant->services, plant->load.delay_ms));
            return;
        }
    }
    if (call->stage == DENIED)
        give_back(plant);
    else
        plant_finish(plant, call);
    plant_leave(plant, slot);
}

/* ---- The run --------------------------------------------------------------------------------- */

static void plant_tick(struct plant *plant)
{
    const struct plant_subject *subject = plant->subject;

    subject->tick(subject->context, clock_ms(plant->now_ms), plant->in_flight);
    plant->tick_ms += (double)subject->tick_ms;
}

/* Does what comes next. Of two things at the same time: tick, then calls, then arrivals. */
static bool advance(struct plant *plant, double until_ms)
{
    double call_ms = plant->heaped > 0 ? plant->calls[plant->heap[0]].event_ms : INFINITY;
    double next_ms = fmin(plant->tick_ms, fmin(call_ms, plant->arrival_ms));

    if (next_ms > until_ms)
        return false;
    assert(next_ms >= plant->now_ms);
    plant->now_ms = next_ms;
    plant->subject->load(plant->subject->context, next_ms, &plant->load);
    if (plant->tick_ms <= next_ms)
        plant_tick(plant);
    else if (call_ms <= next_ms)
        end_of_stage(plant);
    else
        arrive(plant);
    return !plant->out_of_memory;
}

enum tg_err plant_run(const struct plant_subject *subject, uint64_t seed, double until_ms,
                      struct plant_result *result)
{
    struct plant plant = {
        .subject = subject,
        .tick_ms = subject->tick ? 0 : INFINITY,
        .free = NOBODY,
        .queue_head = NOBODY,
        .queue_tail = NOBODY,
    };

    random_init(&plant.arrivals, seed, 1);
    random_init(&plant.services, seed, 2);
    while (advance(&plant, until_ms))
        continue;
    free(plant.calls);
    free(plant.heap);
    if (plant.out_of_memory)
        return TG_ERR_MEMORY;
    assert((int64_t)plant.result.offered ==
           (int64_t)(plant.result.refused + plant.result.finished + plant.result.given_back) +
               plant.in_flight);
    *result = plant.result;
    return TG_OK;
}
