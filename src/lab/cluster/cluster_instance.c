/* cluster_instance.c - one inference server: who comes, waits, times out. See cluster_instance.h.
 *
 * First come first served is a list: to the end, to the front after a preemption, out of the
 * middle. The other schedulers of BLIS sort the whole queue before every step by things that do not
 * change; a heap by the same things gives the same order at every step, for less.
 */
#include "lab/cluster/cluster_instance.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "lib/core/array.h"
#include "lib/core/container_of.h"

#define CHUNK_LIVES 256

/* ---- Records --------------------------------------------------------------------------------- */

static bool cluster_instance_add_chunk(struct instance *instance)
{
    struct live *chunk;

    if (!array_reserve(&instance->chunks, &instance->chunks_capacity, instance->n_chunks + 1))
        return false;
    chunk = malloc(CHUNK_LIVES * sizeof *chunk);
    if (chunk == NULL)
        return false;
    instance->chunks[instance->n_chunks++] = chunk;
    for (size_t i = 0; i < CHUNK_LIVES; i++) {
        chunk[i].next = instance->spare;
        instance->spare = &chunk[i];
    }
    return true;
}

static struct live *get_live(struct instance *instance)
{
    if (instance->spare == NULL && !cluster_instance_add_chunk(instance))
        return NULL;
    struct live *live = instance->spare;
    instance->spare = live->next;
    return live;
}

static struct live *new_live(struct instance *instance, uint32_t number)
{
    const struct instance_world *world = instance->world;
    const struct cluster_request *request = &world->requests[number];
    struct live *live = get_live(instance);

    if (live == NULL)
        return NULL;
    *live = (struct live){
        .input = request->input_tokens,
        .output = request->output_tokens,
        .goal =
            request->input_tokens + (request->output_tokens > 1 ? request->output_tokens : 1) - 1,
        .generates = request->output_tokens > 0,
        .state = LIVE_COMING,
        .request = number,
        .gap_from = -1,
        .urgency = -world->config->classes[request->slo_class].priority,
        .arrival_us = request->arrival_us,
        .id = request->id,
    };
    if (request->prefix_group != 0 && request->prefix_tokens > 0) {
        int32_t shared =
            request->prefix_tokens < live->input ? request->prefix_tokens : live->input;
        live->prefix_blocks = (uint32_t)(shared / instance->kv.block_tokens);
        live->prefix_at = world->group_at[request->prefix_group];
    }
    return live;
}

void instance_end(struct instance *instance, struct live *live, enum cluster_status status,
                  int64_t at_us)
{
    struct instance_world *world = instance->world;

    assert(world->lives[live->request] == live);
    if (!array_reserve(&instance->ended, &instance->ended_capacity, instance->n_ended + 1)) {
        world->no_memory = true;
        return;
    }
    instance->ended[instance->n_ended++] = (struct instance_end){live->request, at_us};
    world->outcomes[live->request].status = (uint8_t)status;
    world->lives[live->request] = NULL;
    kv_leave(&instance->kv, live);
    live->next = instance->spare;
    instance->spare = live;
}

/* ---- The wait queue -------------------------------------------------------------------------- */

/* request_<a> before request_<b>, as texts. */
static bool id_before(uint32_t a, uint32_t b)
{
    char x[12], y[12];
    int n = 0, m = 0;

    /* The digits from the last to the first, and then from the front. */
    do
        x[n++] = (char)(a % 10);
    while ((a /= 10) > 0);
    do
        y[m++] = (char)(b % 10);
    while ((b /= 10) > 0);
    while (n > 0 && m > 0) {
        n--, m--;
        if (x[n] != y[m])
            return x[n] < y[m];
    }
    return n < m;
}

static bool earlier(const struct live *a, const struct live *b)
{
    if (a->arrival_us != b->arrival_us)
        return a->arrival_us < b->arrival_us;
    return id_before(a->id, b->id);
}

#define LIVE(node_) container_of(node_, const struct live, node)

static bool urgent_before(const struct heap_node *a, const struct heap_node *b)
{
    const struct live *x = LIVE(a), *y = LIVE(b);

    return x->urgency != y->urgency ? x->urgency < y->urgency : earlier(x, y);
}

static bool unurgent_before(const struct heap_node *a, const struct heap_node *b)
{
    const struct live *x = LIVE(a), *y = LIVE(b);

    return x->urgency != y->urgency ? x->urgency > y->urgency : earlier(x, y);
}

static bool short_before(const struct heap_node *a, const struct heap_node *b)
{
    const struct live *x = LIVE(a), *y = LIVE(b);

    return x->input != y->input ? x->input < y->input : earlier(x, y);
}

static heap_before *const orders[CLUSTER_SCHEDULER_COUNT] = {
    [CLUSTER_PRIORITY_FCFS] = urgent_before,
    [CLUSTER_SJF] = short_before,
    [CLUSTER_REVERSE_PRIORITY] = unurgent_before,
};

static bool sorted(const struct instance *instance)
{
    return instance->order.before != NULL;
}

static void link_live(struct instance *instance, struct live *live, bool in_front)
{
    live->previous = in_front ? NULL : instance->last;
    live->next = in_front ? instance->first : NULL;
    *(live->previous != NULL ? &live->previous->next : &instance->first) = live;
    *(live->next != NULL ? &live->next->previous : &instance->last) = live;
}

void instance_wait(struct instance *instance, struct live *live, bool in_front)
{
    assert(live->state != LIVE_WAITING);
    live->state = LIVE_WAITING;
    instance->world->outcomes[live->request].status = CLUSTER_QUEUED;
    instance->n_waiting++;
    if (!sorted(instance))
        link_live(instance, live, in_front);
    else if (!heap_add(&instance->order, &live->node))
        instance->world->no_memory = true;
}

struct live *instance_first(const struct instance *instance)
{
    if (!sorted(instance))
        return instance->first;
    struct heap_node *node = heap_first(&instance->order);
    return node != NULL ? container_of(node, struct live, node) : NULL;
}

static void unwait(struct instance *instance, struct live *live)
{
    assert(instance->n_waiting > 0 && live->state == LIVE_WAITING);
    instance->n_waiting--;
    if (sorted(instance)) {
        heap_remove(&instance->order, &live->node);
        return;
    }
    *(live->previous != NULL ? &live->previous->next : &instance->first) = live->next;
    *(live->next != NULL ? &live->next->previous : &instance->last) = live->previous;
}

struct live *instance_take_first(struct instance *instance)
{
    struct live *live = instance_first(instance);

    unwait(instance, live);
    return live;
}

/* ---- Coming ---------------------------------------------------------------------------------- */

static void push(struct instance *instance, struct cluster_events *events, int64_t at_us,
                 uint32_t request)
{
    struct cluster_event event = {
        .at_us = at_us, .order = instance->pushed++, .request = request, .kind = 0};

    if (!cluster_events_push(events, &event))
        instance->world->no_memory = true;
}

void instance_accept(struct instance *instance, uint32_t request, int64_t now_us)
{
    struct instance_world *world = instance->world;
    struct live *live = new_live(instance, request);

    assert(world->lives[request] == NULL); /* it is at one instance at most */
    if (live == NULL) {
        world->no_memory = true;
        return;
    }
    world->lives[request] = live;
    instance->in_flight++;
    instance->routed++;
    if (instance->end_us < now_us)
        instance->end_us = now_us;
    push(instance, &instance->coming, now_us + latency_queueing(&world->latency, live->input),
         request);
}

/* Whether any instance of this kind could serve it. */
static bool servable(const struct instance *instance, const struct cluster_request *request)
{
    int64_t input = request->input_tokens, longest = instance->world->max_tokens;
    int64_t block = instance->kv.block_tokens;

    if (input >= longest || input + request->max_output_tokens > longest)
        return false;
    return (input + block - 1) / block <= (int64_t)instance->kv.n;
}

static void join_queue(struct instance *instance, uint32_t number, int64_t now_us)
{
    struct instance_world *world = instance->world;
    const struct cluster_request *request = &world->requests[number];
    struct live *live = world->lives[number];

    assert(live != NULL && live->state == LIVE_COMING);
    if (!servable(instance, request)) {
        instance_end(instance, live, CLUSTER_DROPPED, now_us);
        return;
    }
    instance->input_tokens += request->input_tokens;
    if (request->deadline_us > 0 && request->deadline_us <= now_us) {
        world->timed_out++;
        instance_end(instance, live, CLUSTER_TIMED_OUT, now_us);
        return;
    }
    instance_wait(instance, live, false);
    if (request->deadline_us > 0 && request->deadline_us <= world->config->horizon_us)
        push(instance, &instance->timeouts, request->deadline_us, number);
    if (instance->step_at == INT64_MAX)
        instance->step_at = now_us;
}

/* ---- Going ----------------------------------------------------------------------------------- */

void instance_drop_gaps(struct instance *instance, struct live *live)
{
    size_t kept = 0;

    if (live->gap_from >= 0)
        gaps_take_back(&instance->gaps, live->gap_from, instance->gaps.end);
    for (size_t i = 0; i < instance->n_spans; i++) {
        const struct gap_span *span = &instance->spans[i];
        if (span->request == live->request)
            gaps_take_back(&instance->gaps, span->from, span->to);
        else
            instance->spans[kept++] = *span;
    }
    instance->n_spans = kept;
    live->gap_from = -1;
    live->itl_us = 0;
    live->itl_n = 0;
}

static void leave_batch(struct instance *instance, const struct live *live)
{
    size_t at = 0;

    while (instance->batch[at] != live)
        at++;
    assert(at < instance->n_batch);
    memmove(&instance->batch[at], &instance->batch[at + 1],
            (instance->n_batch - at - 1) * sizeof *instance->batch);
    instance->n_batch--;
}

/* Out of the queue or the batch. */
static void remove_live(struct instance *instance, struct live *live)
{
    if (live->state == LIVE_RUNNING)
        leave_batch(instance, live);
    else
        unwait(instance, live);
    instance_drop_gaps(instance, live);
}

static void time_out(struct instance *instance, uint32_t number, int64_t now_us)
{
    struct live *live = instance->world->lives[number];

    assert(live != NULL && live->state != LIVE_COMING);
    remove_live(instance, live);
    instance->world->timed_out++;
    instance_end(instance, live, CLUSTER_TIMED_OUT, now_us);
}

/* Every request in flight is in exactly one place. */
static bool is_balanced(const struct instance *instance)
{
    return instance->world->no_memory ||
           instance->in_flight ==
               (int64_t)(instance->n_waiting + instance->n_batch + instance->coming.n);
}

bool instance_evict(struct instance *instance, uint32_t request, int64_t now_us)
{
    struct live *live = instance->world->lives[request];

    if (live == NULL || live->state == LIVE_COMING)
        return false;
    instance->n_ended = 0;
    remove_live(instance, live);
    instance_end(instance, live, CLUSTER_GATEWAY_EVICTED, now_us);
    instance->in_flight -= (int64_t)instance->n_ended;
    assert(is_balanced(instance));
    return true;
}

/* ---- Events ---------------------------------------------------------------------------------- */

/* When the next time-out of a request that is still here is due, if that is before `before_us`. */
static int64_t next_timeout(struct instance *instance, int64_t before_us)
{
    struct cluster_events *timeouts = &instance->timeouts;

    assert(is_balanced(instance));
    if (instance->in_flight == (int64_t)instance->coming.n)
        timeouts->n = 0;
    while (cluster_events_next(timeouts) < before_us) {
        if (instance->world->lives[timeouts->list[0].request] != NULL)
            return timeouts->list[0].at_us;
        cluster_events_pop(timeouts);
    }
    return INT64_MAX;
}

int64_t instance_next(struct instance *instance)
{
    int64_t coming = cluster_events_next(&instance->coming);
    int64_t next = coming < instance->step_at ? coming : instance->step_at;
    int64_t timeout = next_timeout(instance, next);

    return timeout < next ? timeout : next;
}

void instance_advance(struct instance *instance)
{
    int64_t now = instance_next(instance);

    assert(now != INT64_MAX);
    instance->n_ended = 0;
    if (instance->end_us < now)
        instance->end_us = now;
    if (cluster_events_next(&instance->coming) == now) {
        join_queue(instance, cluster_events_pop(&instance->coming).request, now);
    } else if (instance->step_at == now) {
        instance->step_at = INT64_MAX;
        instance_step(instance, now);
    } else {
        time_out(instance, cluster_events_pop(&instance->timeouts).request, now);
    }
    instance->in_flight -= (int64_t)instance->n_ended;
    assert(is_balanced(instance));
}

/* ---- Making one ------------------------------------------------------------------------------ */

bool instance_init(struct instance *instance, struct instance_world *world, size_t n_prefixes)
{
    const struct cluster_config *config = world->config;
    size_t most = (size_t)config->max_num_seqs;

    if (most > world->n_requests)
        most = world->n_requests + 1;
    *instance = (struct instance){.world = world, .step_at = INT64_MAX};
    heap_init(&instance->order, orders[config->scheduler]);
    instance->batch = malloc(most * sizeof(struct live *));
    if (instance->batch != NULL && kv_init(&instance->kv, cluster_config_blocks(config),
                                           config->block_tokens, n_prefixes, world->lives))
        return true;
    free(instance->batch);
    heap_fini(&instance->order);
    instance->batch = NULL;
    return false;
}

void instance_fini(struct instance *instance)
{
    for (size_t i = 0; i < instance->n_chunks; i++)
        free(instance->chunks[i]);
    free(instance->chunks);
    free(instance->batch);
    free(instance->ended);
    free(instance->spans);
    heap_fini(&instance->order);
    cluster_events_fini(&instance->coming);
    cluster_events_fini(&instance->timeouts);
    gaps_fini(&instance->gaps);
    kv_fini(&instance->kv);
    *instance = (struct instance){0};
}
