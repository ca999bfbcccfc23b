/* limit_use.c - how much of a token limit gets used under lasting demand. See limit_use.h. */
#include "lab/scenario/limit_use.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "lab/scenario/flows_run.h"

#define REFILL_PER_S 1000
#define ASKED 200
#define CAPACITY_S 10.0 /* the least, in seconds of refill */
#define DEMAND 2        /* times what the limit allows */
#define USED_CV 0.5
#define MEASURED_S 600
#define MEASURED_CALLS 20 /* at least so many calls one after the other */

static const enum tg_strategy strategies[] = {TG_GCRA, TG_TOKEN_BUCKET, TG_SLIDING_WINDOW};
static const double parts[] = {0.05, 0.25, 0.5, 1};
static const double holds_s[] = {0.1, 5, 60};

enum {
    N_PARTS = sizeof parts / sizeof parts[0],
    N_HOLDS = sizeof holds_s / sizeof holds_s[0],
    N_STRATEGIES = sizeof strategies / sizeof strategies[0]
};
_Static_assert(N_PARTS *N_HOLDS *N_STRATEGIES == LIMIT_USE_CASES, "every combination is a case");

/* A limit that allows REFILL_PER_S in the long run, and `capacity` at once. */
static struct tg_limiter_config limiter_of(enum tg_strategy strategy, int64_t capacity)
{
    struct tg_limiter_config config;

    tg_limiter_config_init(&config, strategy);
    config.limit = capacity;
    if (strategy == TG_GCRA) {
        config.limit = REFILL_PER_S;
        config.period = 1000;
        config.burst = capacity;
    } else if (strategy == TG_TOKEN_BUCKET) {
        config.refill = REFILL_PER_S;
    } else {
        config.period = capacity * 1000 / REFILL_PER_S;
    }
    return config;
}

static enum tg_err run_seed(const struct limit_use *use, uint64_t seed, struct flows_result *run,
                            struct tg_problem *problem)
{
    const struct tg_limiter_config limiter = limiter_of(use->strategy, use->capacity);
    const double used = fmin(1, use->used_part) * ASKED;
    const struct flow_spec flow = {.name = "tenant",
                                   .tenants = 1,
                                   .priority = TG_PRIORITY_NORMAL,
                                   .weight = 1,
                                   .calls_per_s = DEMAND * REFILL_PER_S / used,
                                   .hold_ms = use->hold_s * 1000,
                                   .hold_cv = 0.5,
                                   .asked = ASKED,
                                   .used_part = use->used_part,
                                   .used_cv = use->used_part < 1 ? USED_CV : 0};
    const double from_s = 100 + 10 * use->hold_s;
    struct tg_limit limit = {.axis = TG_AXIS_COST, .mode = TG_ENFORCE};
    struct tg_scope scope = {.key = "tenant", .key_bytes = 6};
    struct tg_store_config store_config;
    struct tg_gate_config gate;
    struct flows_config config = {
        .flows = &flow,
        .n = 1,
        .from_ms = from_s * 1000,
        .until_ms = (from_s + fmax(MEASURED_S, MEASURED_CALLS * use->hold_s)) * 1000,
        .gate = &gate,
        .scopes = &scope,
        .n_scopes = 1,
        .refill_per_ms = REFILL_PER_S / 1000.0,
        .seed = seed};
    enum tg_err err = tg_limiter_init(&limit.limiter, &limiter, problem);

    tg_store_config_init(&store_config);
    tg_gate_config_init(&gate);
    if (!err)
        err = tg_store_new(&store_config, &gate.store, problem);
    if (!err)
        err = tg_store_define(gate.store, &limit, 1, &scope.limits, problem);
    if (!err)
        err = flows_run(&config, run, problem);
    tg_store_free(gate.store);
    return err;
}

enum tg_err limit_use_run(size_t i, uint64_t seed, size_t seeds, struct limit_use *result,
                          struct tg_problem *problem)
{
    struct flows_result *run = calloc(1, sizeof *run);
    double *values = calloc(3 * seeds, sizeof *values);
    enum tg_err err = run != NULL && values != NULL ? TG_OK : TG_ERR_MEMORY;

    assert(i < LIMIT_USE_CASES && seeds >= 1);
    *result = (struct limit_use){.strategy = strategies[i / (N_PARTS * N_HOLDS)],
                                 .used_part = parts[i / N_HOLDS % N_PARTS],
                                 .hold_s = holds_s[i % N_HOLDS]};
    result->capacity = (int64_t)(REFILL_PER_S * fmax(CAPACITY_S, result->hold_s / 2));
    for (size_t j = 0; !err && j < seeds; j++) {
        err = run_seed(result, seed + j, run, problem);
        values[j] = 100 * (double)run->tenants[0].used / (run->measured_ms * REFILL_PER_S / 1000);
        values[seeds + j] = run->most_over / (double)result->capacity;
        values[2 * seeds + j] = run->most_over_charge / (double)result->capacity;
    }
    if (!err) {
        result->use = scenario_figure_of(values, seeds);
        result->most_over = scenario_figure_of(values + seeds, seeds);
        result->most_over_charge = scenario_figure_of(values + 2 * seeds, seeds);
    }
    free(values);
    free(run);
    return err;
}
