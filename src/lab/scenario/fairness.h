/* fairness.h - who gets the slots: mixes of tenants and priorities under a fixed limit.
 *
 * Jain's index of x over n tenants is (sum x)^2 / (n sum x^2): 1 when all have the same, 1/n when
 * one has everything. It is taken over tenants with more demand than they get, of what each got
 * divided by its weight.
 */
#ifndef TG_SCENARIO_FAIRNESS_H
#define TG_SCENARIO_FAIRNESS_H

#include "lab/scenario/flows_run.h"
#include "lab/scenario/scenario.h"

struct fairness_mix {
    const char *name;
    const char *about; /* one line */
    double until_s, from_s;
    bool jain; /* all tenants ask for more than they can get */
    struct flow_spec flows[FLOWS_MAX];
    size_t n;
};

extern const struct fairness_mix fairness_mixes[];
extern const size_t fairness_mixes_n;

/* Null: there is none of that name. */
const struct fairness_mix *fairness_find(const char *name);

/* One flow, all its tenants together, over all seeds. */
struct fairness_flow {
    struct scenario_figure admitted; /* % of the calls */
    struct scenario_figure share;    /* % of the slot time that all flows got */
    struct scenario_figure wait_ms;  /* mean wait of the admitted */
};

struct fairness_result {
    struct fairness_flow flows[FLOWS_MAX];
    struct scenario_figure jain_calls, jain_work; /* NaN where the index says nothing */
    struct scenario_figure used;                  /* % of the limit's slot time */
};

#define FAIRNESS_SEEDS_MAX 1000

/* Runs a mix under a law, which must be fixed. TG_ERR_INVALID, TG_ERR_MEMORY. */
TG_MUST_CHECK enum tg_err fairness_run(const struct fairness_mix *mix,
                                       const struct scenario_law *law, uint64_t seed, size_t seeds,
                                       struct fairness_result *result, struct tg_problem *problem);

#endif
