/* cluster_batch.c - a step of an instance: who is in the batch, and what becomes of them.
 *
 * Batches are formed as vLLM does it, by BLIS's account. First those that run, in their order: the
 * rest of a prompt, as much as fits, or one token. If no KV block is left for one of them, others
 * are preempted until there is: they begin again, at the front of the queue. Then, if nobody had to
 * be preempted, those that wait, as long as the first of them fits.
 */
#include "lab/cluster/cluster_instance.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "lib/core/array.h"

/* A batch while it is formed. */
struct forming {
    int64_t budget; /* tokens that may still be added */
    size_t at;      /* index of the running request that is considered */
    bool preempted; /* some request was */

    /* Who gets tokens: */
    int64_t prefills;
    int64_t decodes;
    int64_t context; /* sum over the decodes: tokens before this one */
};

static int32_t smaller(int64_t a, int64_t b)
{
    return (int32_t)(a < b ? a : b);
}

static void cluster_batch_count(struct forming *forming, const struct live *live, int64_t n)
{
    if (live->progress < live->input) {
        forming->prefills += n;
    } else {
        forming->decodes += n;
        forming->context += n * live->progress;
    }
    assert(forming->prefills >= 0 && forming->decodes >= 0 && forming->context >= 0);
}

/* ---- Those that run -------------------------------------------------------------------------- */

/* Who has to make room: the last, or the least urgent and of those the latest. */
static size_t victim_of(const struct instance *instance)
{
    size_t victim = instance->n_batch - 1;

    assert(instance->n_batch > 0);
    if (instance->world->config->preemption == CLUSTER_PREEMPT_FCFS)
        return victim;
    for (size_t i = instance->n_batch - 1; i-- > 0;) {
        const struct live *one = instance->batch[i], *most = instance->batch[victim];
        if (one->urgency > most->urgency ||
            (one->urgency == most->urgency && one->arrival_us > most->arrival_us))
            victim = i;
    }
    return victim;
}

static void preempt(struct instance *instance, struct forming *forming, size_t index)
{
    struct live *live = instance->batch[index];

    assert(index < instance->n_batch && live->state == LIVE_RUNNING);
    memmove(&instance->batch[index], &instance->batch[index + 1],
            (instance->n_batch - index - 1) * sizeof *instance->batch);
    instance->n_batch--;
    if (index < forming->at)
        forming->at--;
    forming->preempted = true;
    forming->budget += live->new_tokens;
    if (live->new_tokens > 0)
        cluster_batch_count(forming, live, -1);
    live->new_tokens = 0;
    live->progress = live->computed = 0;
    live->first_token = false;
    instance_drop_gaps(instance, live);
    if (!kv_preempt(&instance->kv, live))
        instance->world->no_memory = true;
    instance_wait(instance, live, true);
    instance->preemptions++;
    instance->world->outcomes[live->request].preempted++;
}

/* Allocates blocks for so many tokens, preempting others if need be. False: the request itself was
 * preempted. */
static bool allocate(struct instance *instance, struct forming *forming, struct live *live,
                     int32_t tokens)
{
    while (!kv_allocate(&instance->kv, live, live->progress, live->progress + tokens, 0)) {
        size_t victim = victim_of(instance);
        bool itself = instance->batch[victim] == live;
        preempt(instance, forming, victim);
        if (itself || instance->world->no_memory)
            return false;
    }
    forming->budget -= tokens;
    assert(forming->budget >= 0);
    live->new_tokens = tokens;
    live->computed = live->progress + tokens;
    cluster_batch_count(forming, live, 1);
    return true;
}

/* How many tokens of a prompt from `from` on come into this step. */
static int32_t chunk_of(const struct instance *instance, const struct forming *forming,
                        int64_t from, int64_t input)
{
    const struct instance_world *world = instance->world;
    int64_t tokens = input - from, longest = world->max_tokens - 1 - from;

    if (world->config->long_prefill > 0 && world->config->long_prefill < tokens)
        tokens = world->config->long_prefill;
    tokens = smaller(tokens, forming->budget);
    return smaller(tokens, longest > 0 ? longest : 0);
}

/* How many tokens a running request should get. */
static int32_t wanted_by(const struct instance *instance, const struct forming *forming,
                         const struct live *live)
{
    if (live->progress < live->input)
        return chunk_of(instance, forming, live->progress, live->input);
    return live->generates && live->progress + 1 <= instance->world->max_tokens - 1;
}

static void continue_running(struct instance *instance, struct forming *forming)
{
    for (; forming->at < instance->n_batch && forming->budget > 0; forming->at++) {
        struct live *live = instance->batch[forming->at];
        int32_t tokens = wanted_by(instance, forming, live);
        if (tokens == 1 && live->progress >= live->input && kv_top_up(&instance->kv, live)) {
            live->new_tokens = 1;
            forming->budget--;
            cluster_batch_count(forming, live, 1);
        } else if (tokens > 0 && !allocate(instance, forming, live, tokens)) {
            return;
        }
    }
}

/* ---- Those that wait ------------------------------------------------------------------------- */

static void start_waiting(struct instance *instance, struct forming *forming, int64_t now_us)
{
    struct instance_world *world = instance->world;
    struct live *live;

    while (instance->n_batch < (size_t)world->config->max_num_seqs && forming->budget > 0 &&
           !forming->preempted && (live = instance_first(instance)) != NULL) {
        uint32_t n_cached = kv_cached(&instance->kv, live);
        int32_t start = (int32_t)n_cached * instance->kv.block_tokens;
        int32_t tokens = chunk_of(instance, forming, start, live->input);

        if (!kv_enter(&instance->kv, live)) {
            world->no_memory = true;
            return;
        }
        if (!kv_allocate(&instance->kv, live, start, start + tokens, n_cached))
            return;
        assert(live->state == LIVE_WAITING && tokens <= forming->budget);
        instance_take_first(instance);
        instance->batch[instance->n_batch++] = live;
        live->state = LIVE_RUNNING;
        live->new_tokens = tokens;
        live->computed = start + tokens;
        forming->budget -= tokens;
        forming->prefills += tokens > 0;
        world->outcomes[live->request].status = CLUSTER_RUNNING;
        world->outcomes[live->request].scheduling_us = now_us - live->arrival_us;
    }
}

/* ---- How long, and what it brings ------------------------------------------------------------ */

static int64_t step_time(const struct instance *instance, const struct forming *forming)
{
    const struct latency *latency = &instance->world->latency;
    struct latency_batch batch = {0};

    for (size_t i = 0; i < instance->n_batch && forming->prefills > 0; i++) {
        const struct live *live = instance->batch[i];
        if (live->new_tokens > 0 && live->progress < live->input)
            latency_add_prefill(latency, &batch, live->new_tokens, live->progress, live->input);
    }
    if (latency->kind == CLUSTER_TRAINED_PHYSICS)
        latency_add_decodes(&batch, forming->decodes, forming->context);
    for (size_t i = 0; i < instance->n_batch && latency->kind == CLUSTER_ROOFLINE; i++) {
        const struct live *live = instance->batch[i];
        if (live->new_tokens > 0 && live->progress >= live->input)
            latency_add_decode(latency, &batch, live->progress);
    }
    return latency_step(latency, &batch);
}

/* It runs, and has got no token: its steps so far are remembered. */
static void end_span(struct instance *instance, struct live *live)
{
    if (live->gap_from < 0)
        return;
    assert(live->gap_from < instance->gaps.end);
    if (!array_reserve(&instance->spans, &instance->spans_capacity, instance->n_spans + 1)) {
        instance->world->no_memory = true;
        return;
    }
    instance->spans[instance->n_spans++] =
        (struct gap_span){live->request, live->gap_from, instance->gaps.end};
    live->gap_from = -1;
}

/* The first step that a request may yet take back. */
static int64_t needed_from(const struct instance *instance)
{
    int64_t needed = instance->gaps.end;

    for (size_t i = 0; i < instance->n_batch; i++)
        if (instance->batch[i]->gap_from >= 0 && instance->batch[i]->gap_from < needed)
            needed = instance->batch[i]->gap_from;
    for (size_t i = 0; i < instance->n_spans; i++)
        if (instance->spans[i].from < needed)
            needed = instance->spans[i].from;
    return needed;
}

static void take_first_token(struct instance_world *world, struct live *live, int64_t at_us)
{
    int64_t ttft = at_us - live->arrival_us;

    assert(!live->first_token && ttft > 0);
    live->first_token = true;
    world->outcomes[live->request].ttft_us = ttft;
    world->first_tokens++;
    world->first_tokens_us += ttft;
}

/* ---- Completing ------------------------------------------------------------------------------ */

static void forget_spans(struct instance *instance, uint32_t request)
{
    size_t kept = 0;

    for (size_t i = 0; i < instance->n_spans; i++)
        if (instance->spans[i].request != request)
            instance->spans[kept++] = instance->spans[i];
    instance->n_spans = kept;
}

static void write_down(struct instance *instance, const struct live *live, bool capped)
{
    struct instance_world *world = instance->world;
    struct cluster_outcome *outcome = &world->outcomes[live->request];
    int32_t tokens = live->progress - live->input, gaps = capped ? live->itl_n : live->output;

    assert(tokens >= 0 && tokens <= live->output && outcome->ttft_us > 0);
    if (tokens < live->output)
        tokens++; /* the first came with the prompt */
    instance->output_tokens += tokens;
    outcome->itl_us = live->itl_us;
    outcome->itl_n = !live->generates ? 0 : gaps > 2 ? gaps - 1 : 1;
    outcome->e2e_us =
        outcome->ttft_us + live->itl_us + (live->generates ? world->latency.after_us : 0);
    world->completed++;
    instance->length_capped += capped;
}

static void complete(struct instance *instance, struct live *live, bool capped, int64_t at_us)
{
    /* The last token wants its place too, for a moment. */
    if (!capped && live->generates && live->progress < live->input + live->output &&
        !kv_allocate(&instance->kv, live, live->progress, live->progress + 1, 0))
        instance->allocation_failures++;
    write_down(instance, live, capped);
    if (instance->n_spans > 0)
        forget_spans(instance, live->request);
    if (at_us <= instance->world->config->horizon_us && instance->end_us < at_us)
        instance->end_us = at_us;
    instance_end(instance, live, CLUSTER_COMPLETED, at_us);
}

/* What the step brings to one of them. Says whether it was a token of the answer. */
static bool take_token(struct instance *instance, struct live *live, int64_t now_us, int64_t gap_us)
{
    bool decoded = false;

    assert(live->state == LIVE_RUNNING);
    if (live->progress < live->input) {
        live->progress = live->computed;
    } else if (live->new_tokens > 0) {
        decoded = true;
        live->progress++;
        live->itl_us += gap_us;
        live->itl_n++;
        if (live->gap_from < 0)
            live->gap_from = instance->gaps.end;
    } else {
        end_span(instance, live);
    }
    live->new_tokens = 0;
    if (live->progress == live->input && !live->first_token)
        take_first_token(instance->world, live, now_us + gap_us);
    assert(live->progress <= live->goal);
    return decoded;
}

/* Advances all of them and ends those that are complete. */
static void take_tokens(struct instance *instance, int64_t now_us, int64_t step_us)
{
    struct instance_world *world = instance->world;
    int64_t gap_us = step_us + world->latency.token_us, longest = world->max_tokens - 1;
    int64_t n_tokens = 0;
    size_t kept = 0;

    for (size_t i = 0; i < instance->n_batch; i++) {
        struct live *live = instance->batch[i];
        n_tokens += take_token(instance, live, now_us, gap_us);
        if (live->progress >= live->goal)
            complete(instance, live, false, now_us + step_us);
        else if (live->progress >= longest)
            complete(instance, live, true, now_us + step_us);
        else
            instance->batch[kept++] = live;
    }
    instance->n_batch = kept;
    world->output_tokens += n_tokens;
    if (n_tokens > 0 && !gaps_add(&instance->gaps, gap_us, n_tokens,
                                  gaps_full(&instance->gaps) ? needed_from(instance) : 0))
        world->no_memory = true;
}

void instance_step(struct instance *instance, int64_t now_us)
{
    struct forming forming = {.budget = instance->world->config->max_batched_tokens};

    assert(instance->step_at == INT64_MAX); /* one step at a time */
    if (instance->n_batch == 0 && instance->n_waiting == 0)
        return;
    continue_running(instance, &forming);
    start_waiting(instance, &forming, now_us);
    instance->steps++;
    instance->waited += (int64_t)instance->n_waiting;
    assert(forming.budget >= 0 &&
           instance->n_batch <= (size_t)instance->world->config->max_num_seqs);
    int64_t step_us = step_time(instance, &forming);
    assert(step_us > 0); /* or time would stand still */
    take_tokens(instance, now_us, step_us);
    if (instance->n_batch > 0 || instance->n_waiting > 0)
        instance->step_at = now_us + step_us;
}
