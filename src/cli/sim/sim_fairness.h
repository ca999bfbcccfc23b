/* sim_fairness.h - `tollgate sim --scenario fair` and `limit-use`: who gets slots and tokens. */
#ifndef TG_SIM_SIM_FAIRNESS_H
#define TG_SIM_SIM_FAIRNESS_H

#include <stdbool.h>

#include "cli/common/command.h"
#include "lab/scenario/fairness.h"

#define SIM_FAIRNESS_ALL "fair"
#define SIM_LIMIT_USE "limit-use"

/* Whether a name of --scenario, up to a comma, is one of these. */
bool sim_is_fairness(const char *name);
bool sim_is_limit_use(const char *name);

/* Names and one line each, for --scenario list. */
void sim_fairness_list(void);

struct sim_fairness_asked {
    const char *names; /* separated by commas */
    const struct scenario_law *laws;
    size_t n_laws;
    uint64_t seed;
    size_t seeds;
    bool json;
    void (*progress)(void *context, size_t done, size_t of); /* null: not wanted */
};

/* Returns the status. */
int sim_run_fairness(const struct command *command, const struct sim_fairness_asked *asked);
int sim_run_limit_use(const struct command *command, const struct sim_fairness_asked *asked);

#endif
