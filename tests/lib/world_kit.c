/* world_kit.c - drawing worlds and running them. See world_kit.h. */
#include "world_kit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/core/array.h"

static const double AMPLE = 1e12;

void world_init(struct world *world)
{
    *world = (struct world){
        .n_types = 2,
        .share = {{1, 1}},
        .calls_a_window = {600},
        .window = 60000,
        .n_windows = 20,
    };
    for (size_t i = 0; i < WORLD_TYPES_MAX; i++)
        tg_type_init(&world->types[i]);
    world->types[0].cost = 100;
    world->types[0].value = 1;
    world->types[1].cost = 100;
    world->types[1].value = 3;
    world->cost_budget = 30000;
}

static double hold_of(const struct tg_type *type)
{
    return type->hold_s > 0 ? type->hold_s : 0;
}

/* ---- drawing ---- */

static size_t draw_type(const struct world *world, int mood, struct draw *draw)
{
    double sum = 0;

    for (size_t i = 0; i < world->n_types; i++)
        sum += world->share[mood][i];
    double at = draw_unit(draw) * sum;
    for (size_t i = 0; i + 1 < world->n_types; i++) {
        at -= world->share[mood][i];
        if (at < 0)
            return i;
    }
    return world->n_types - 1;
}

static double draw_exponential(struct draw *draw, double mean)
{
    return -log(1 - draw_unit(draw)) * mean;
}

static void append(struct world_stream *stream, struct world_call call)
{
    assert_true(array_reserve(&stream->calls, &stream->capacity, stream->n + 1));
    stream->calls[stream->n++] = call;
}

struct world_stream world_draw(const struct world *world, struct draw *draw)
{
    struct world_stream stream = {.n = 0};
    double window = (double)world->window, end = window * (double)world->n_windows;
    double mood_ms = world->mood_windows * window, change = mood_ms, now = 0;
    int mood = 0;

    if (mood_ms > 0)
        change = draw_exponential(draw, mood_ms);
    for (;;) {
        now += draw_exponential(draw, window / world->calls_a_window[mood]);
        while (mood_ms > 0 && now > change) {
            now = change;
            mood = 1 - mood;
            change += draw_exponential(draw, mood_ms);
            now += draw_exponential(draw, window / world->calls_a_window[mood]);
        }
        if (now >= end)
            return stream;
        append(&stream, (struct world_call){(tg_ms)now, draw_type(world, mood, draw)});
    }
}

void world_stream_free(struct world_stream *stream)
{
    free(stream->calls);
    *stream = (struct world_stream){.n = 0};
}

/* ---- running ---- */

enum { SLOTS_MAX = 1024 };

struct world_state {
    const struct world *world;
    tg_ms at;
    double rate, cost; /* left */
    size_t n_running;
    struct tg_spent running[SLOTS_MAX];
    tg_ms ends_at[SLOTS_MAX];
};

static double refilled(double left, double budget, double windows)
{
    return fmin(budget, left + budget * windows);
}

static void world_state_advance(struct world_state *state, struct tg_policy *policy, tg_ms now)
{
    const struct world *world = state->world;
    tg_ms window = world->window;

    if (world->steady) {
        double windows = (double)(now - state->at) / (double)window;
        state->rate = refilled(state->rate, world->rate_budget, windows);
        state->cost = refilled(state->cost, world->cost_budget, windows);
    } else if (now / window != state->at / window) {
        state->rate = world->rate_budget;
        state->cost = world->cost_budget;
    }
    state->at = now;
    for (size_t i = 0; i < state->n_running;) {
        if (state->ends_at[i] > now) {
            i++;
            continue;
        }
        if (policy && policy->released)
            policy->released(policy, &state->running[i], state->ends_at[i]);
        state->n_running--;
        state->running[i] = state->running[state->n_running];
        state->ends_at[i] = state->ends_at[state->n_running];
    }
}

static bool fits(const struct world_state *state, const struct tg_type *type)
{
    const struct world *world = state->world;

    return (world->rate_budget <= 0 || state->rate >= 1) &&
           (world->cost_budget <= 0 || state->cost >= type->cost);
}

static void world_state_take(struct world_state *state, const struct tg_call *call, tg_ms now)
{
    state->rate -= 1;
    state->cost -= (double)call->debit.cost;
    if (state->world->slots == 0)
        return;
    assert_true(state->n_running < (size_t)state->world->slots);
    state->ends_at[state->n_running] = now + (tg_ms)(call->hold_s * 1000);
    state->running[state->n_running++] =
        (struct tg_spent){now, call->debit.cost, call->debit.cost, call->hold_s, call->hold_s};
}

/* A policy is asked once a slot is held, and before anything is debited. */
static void offer(struct world_state *state, struct tg_policy *policy,
                  const struct world_call *offered, struct world_result *result)
{
    const struct world *world = state->world;
    const struct tg_type *type = &world->types[offered->type];
    int64_t in_flight = world->slots ? (int64_t)state->n_running + 1 : 0;
    struct tg_call call;

    tg_call_init(&call);
    call.debit.cost = (int64_t)type->cost;
    call.value = type->value;
    call.hold_s = hold_of(type);
    if (in_flight > world->slots) {
        result->full++;
    } else if (policy && !policy->worth(policy, &call, in_flight, offered->at)) {
        result->denied++;
    } else if (!fits(state, type)) {
        result->full++;
    } else {
        world_state_take(state, &call, offered->at);
        if (policy && policy->admitted)
            policy->admitted(policy, &call, offered->at);
        result->admitted[offered->type]++;
        result->earned += type->value;
    }
}

struct world_result world_run(const struct world *world, const struct world_stream *stream,
                              struct tg_policy *policy)
{
    struct world_result result = {0};
    static struct world_state state; /* too large for a stack; a test program has one thread */

    assert_true(world->slots <= SLOTS_MAX);
    state = (struct world_state){
        .world = world, .rate = world->rate_budget, .cost = world->cost_budget};
    for (size_t i = 0; i < stream->n; i++) {
        result.came[stream->calls[i].type]++;
        world_state_advance(&state, policy, stream->calls[i].at);
        offer(&state, policy, &stream->calls[i], &result);
    }
    return result;
}

/* ---- what could be had ---- */

static void workload_of(const struct world *world, const double count[WORLD_TYPES_MAX],
                        struct tg_type types[WORLD_TYPES_MAX], struct tg_workload *workload)
{
    tg_workload_init(workload);
    for (size_t i = 0; i < world->n_types; i++) {
        types[i] = world->types[i];
        types[i].weight = count[i];
        types[i].hold_s = world->slots ? hold_of(&world->types[i]) : TG_NO_HOLD;
    }
    workload->types = types;
    workload->n_types = world->n_types;
    workload->rate_budget = world->rate_budget > 0 ? world->rate_budget : AMPLE;
    workload->cost_budget = world->cost_budget > 0 ? world->cost_budget : AMPLE;
    workload->conc_budget_s = (double)world->slots * (double)world->window / 1000;
}

double world_hindsight(const struct world *world, const struct world_stream *stream)
{
    double sum = 0;

    for (size_t i = 0; i < stream->n;) {
        double count[WORLD_TYPES_MAX] = {0}, objective = 0;
        struct tg_type types[WORLD_TYPES_MAX];
        struct tg_workload workload;
        struct tg_duals duals;
        tg_ms end = (stream->calls[i].at / world->window + 1) * world->window;
        for (; i < stream->n && stream->calls[i].at < end; i++)
            count[stream->calls[i].type]++;
        workload_of(world, count, types, &workload);
        assert_int_equal(tg_fluid_solve(&workload, &duals, NULL, &objective, NULL), TG_OK);
        sum += objective;
    }
    return sum;
}

struct tg_workload world_workload(const struct world *world, struct tg_type types[WORLD_TYPES_MAX])
{
    int moods = world->mood_windows > 0 ? WORLD_MOODS : 1;
    double count[WORLD_TYPES_MAX] = {0};
    struct tg_workload workload;

    for (int mood = 0; mood < moods; mood++) {
        double sum = 0;
        for (size_t i = 0; i < world->n_types; i++)
            sum += world->share[mood][i];
        for (size_t i = 0; i < world->n_types; i++)
            count[i] += world->calls_a_window[mood] * world->share[mood][i] / sum / moods;
    }
    workload_of(world, count, types, &workload);
    return workload;
}

/* ---- policies ---- */

struct tg_policy *world_bid(const struct tg_bid_config *config)
{
    struct tg_policy *policy = NULL;
    struct tg_problem problem = {""};

    if (tg_bid_new(config, &policy, &problem) != TG_OK)
        fail_msg("no policy: %s", problem.text);
    return policy;
}

struct tg_policy *world_online(const struct world *world, const struct tg_workload *workload)
{
    struct tg_bid_config config;

    tg_bid_config_init(&config);
    config.prices = TG_PRICES_ONLINE;
    config.online.window = world->window;
    config.online.rate_budget = world->rate_budget;
    config.online.cost_budget = world->cost_budget;
    config.online.conc_budget_s = (double)world->slots * (double)world->window / 1000;
    config.online.steady = world->steady;
    config.online.guard = world->guard;
    if (workload)
        config.workload = *workload;
    return world_bid(&config);
}

struct tg_policy *world_static(const struct world *world)
{
    struct tg_type types[WORLD_TYPES_MAX];
    struct tg_bid_config config;

    tg_bid_config_init(&config);
    config.prices = TG_PRICES_WORKLOAD;
    config.workload = world_workload(world, types);
    return world_bid(&config);
}
