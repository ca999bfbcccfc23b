/* fairness.c - mixes of tenants and priorities under a fixed limit. See fairness.h.
 *
 * Rates are for 16 slots: calls of 5 s have a capacity of 3.2 a second, calls of 200 ms one of 80.
 */
#include "lab/scenario/fairness.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FLOW(flow_name, n, class, flow_weight, rate, ms)                                           \
    {                                                                                              \
        .name = flow_name, .tenants = n, .priority = TG_PRIORITY_##class, .weight = flow_weight,   \
        .calls_per_s = rate, .hold_ms = ms, .hold_cv = 1                                           \
    }

const struct fairness_mix fairness_mixes[] = {
    {"fair-equal",
     "three equal tenants, 3 times the capacity, 200 ms calls",
     1200,
     100,
     true,
     {FLOW("each", 3, NORMAL, 1, 80, 200)},
     1},
    {"fair-weights",
     "the same with weights 1, 2 and 4",
     1200,
     100,
     true,
     {FLOW("weight 1", 1, NORMAL, 1, 80, 200), FLOW("weight 2", 1, NORMAL, 2, 80, 200),
      FLOW("weight 4", 1, NORMAL, 4, 80, 200)},
     3},
    {"fair-many",
     "4 elephants of 100 calls a second beside 196 mice of 1, 200 ms calls",
     1200,
     100,
     true,
     {FLOW("elephants", 4, NORMAL, 1, 100, 200), FLOW("mice", 196, NORMAL, 1, 1, 200)},
     2},
    {"fair-mice",
     "4 mice at half their share beside an elephant of 10x, 200 ms calls",
     1200,
     100,
     false,
     {FLOW("mice", 4, NORMAL, 1, 8, 200), FLOW("elephant", 1, NORMAL, 1, 800, 200)},
     2},
    {"fair-mice-5s",
     "the same with calls of 5 s",
     20000,
     1000,
     false,
     {FLOW("mice", 4, NORMAL, 1, 0.32, 5000), FLOW("elephant", 1, NORMAL, 1, 32, 5000)},
     2},
    {"fair-long",
     "calls of 2 s against calls of 100 ms, both 2x, equal weight",
     4000,
     200,
     true,
     {FLOW("long", 1, NORMAL, 1, 16, 2000), FLOW("short", 1, NORMAL, 1, 320, 100)},
     2},
    {"fair-priority",
     "5 s calls, 2x in all; high needs 31 % of the capacity",
     20000,
     1000,
     false,
     {FLOW("high", 1, HIGH, 1, 1, 5000), FLOW("normal", 1, NORMAL, 1, 2.7, 5000),
      FLOW("low", 1, LOW, 1, 2.7, 5000)},
     3},
    {"fair-high",
     "high alone is 2x, normal and low 1x each, 200 ms calls",
     1200,
     100,
     false,
     {FLOW("high", 1, HIGH, 1, 160, 200), FLOW("normal", 1, NORMAL, 1, 80, 200),
      FLOW("low", 1, LOW, 1, 80, 200)},
     3},
    {"fair-high-5s",
     "the same with calls of 5 s",
     20000,
     1000,
     false,
     {FLOW("high", 1, HIGH, 1, 6.4, 5000), FLOW("normal", 1, NORMAL, 1, 3.2, 5000),
      FLOW("low", 1, LOW, 1, 3.2, 5000)},
     3},
};

const size_t fairness_mixes_n = sizeof fairness_mixes / sizeof fairness_mixes[0];

const struct fairness_mix *fairness_find(const char *name)
{
    for (size_t i = 0; i < fairness_mixes_n; i++)
        if (strcmp(fairness_mixes[i].name, name) == 0)
            return &fairness_mixes[i];
    return NULL;
}

/* What the seeds of one figure gave, one array each. */
struct fairness_values {
    double admitted[FLOWS_MAX][FAIRNESS_SEEDS_MAX], share[FLOWS_MAX][FAIRNESS_SEEDS_MAX],
        wait_ms[FLOWS_MAX][FAIRNESS_SEEDS_MAX];
    double jain_calls[FAIRNESS_SEEDS_MAX], jain_work[FAIRNESS_SEEDS_MAX], used[FAIRNESS_SEEDS_MAX];
};

static void fairness_take(const struct fairness_mix *mix, double slots,
                          const struct flows_result *run, size_t seed,
                          struct fairness_values *values)
{
    double calls = 0, calls_squares = 0, work = 0, work_squares = 0, held = 0;
    size_t n = 0;

    for (size_t i = 0, tenant = 0; i < mix->n; i++) {
        const struct flow_spec *flow = &mix->flows[i];
        struct flow_counts sum = {0};
        for (int j = 0; j < flow->tenants; j++, tenant++, n++) {
            const struct flow_counts *counts = &run->tenants[tenant];
            double x = (double)counts->admitted / flow->weight, y = counts->held_ms / flow->weight;
            calls += x;
            calls_squares += x * x;
            work += y;
            work_squares += y * y;
            sum.offered += counts->offered;
            sum.admitted += counts->admitted;
            sum.held_ms += counts->held_ms;
            sum.waited_ms += counts->waited_ms;
        }
        held += sum.held_ms;
        values->admitted[i][seed] = 100 * (double)sum.admitted / (double)sum.offered;
        values->share[i][seed] = sum.held_ms;
        values->wait_ms[i][seed] = sum.admitted > 0 ? sum.waited_ms / (double)sum.admitted : NAN;
    }
    for (size_t i = 0; i < mix->n; i++)
        values->share[i][seed] *= 100 / held;
    values->jain_calls[seed] = mix->jain ? calls * calls / ((double)n * calls_squares) : NAN;
    values->jain_work[seed] = mix->jain ? work * work / ((double)n * work_squares) : NAN;
    values->used[seed] = 100 * held / (slots * run->measured_ms);
}

static void fairness_sum_up(const struct fairness_mix *mix, const struct fairness_values *values,
                            size_t seeds, struct fairness_result *result)
{
    for (size_t i = 0; i < mix->n; i++) {
        result->flows[i].admitted = scenario_figure_of(values->admitted[i], seeds);
        result->flows[i].share = scenario_figure_of(values->share[i], seeds);
        result->flows[i].wait_ms = scenario_figure_of(values->wait_ms[i], seeds);
    }
    result->jain_calls = scenario_figure_of(values->jain_calls, seeds);
    result->jain_work = scenario_figure_of(values->jain_work, seeds);
    result->used = scenario_figure_of(values->used, seeds);
}

enum tg_err fairness_run(const struct fairness_mix *mix, const struct scenario_law *law,
                         uint64_t seed, size_t seeds, struct fairness_result *result,
                         struct tg_problem *problem)
{
    struct fairness_values *values = calloc(1, sizeof *values);
    struct flows_result *run = calloc(1, sizeof *run);
    struct tg_gate_config gate;
    enum tg_err err = values != NULL && run != NULL ? TG_OK : TG_ERR_MEMORY;

    assert(law->law.law == TG_LAW_FIXED && seeds >= 1 && seeds <= FAIRNESS_SEEDS_MAX);
    tg_gate_config_init(&gate);
    scenario_law_apply(law, &gate);
    for (size_t i = 0; !err && i < seeds; i++) {
        const struct flows_config config = {.flows = mix->flows,
                                            .n = mix->n,
                                            .until_ms = mix->until_s * 1000,
                                            .from_ms = mix->from_s * 1000,
                                            .gate = &gate,
                                            .seed = seed + i};
        err = flows_run(&config, run, problem);
        if (!err)
            fairness_take(mix, (double)law->law.initial, run, i, values);
    }
    if (!err)
        fairness_sum_up(mix, values, seeds, result);
    free(values);
    free(run);
    return err;
}
