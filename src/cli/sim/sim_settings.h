/* sim_settings.h - what `tollgate sim` is asked for: options, and the files they name.
 *
 *     sim_asked_read(command, argc, argv, &asked)          what the command line says, as texts
 *     sim_settings_make(command, &asked, &settings)        what that means
 *
 * There are two steps because a sweep and a comparison ask for the same again with one text
 * changed. An option beats a policy file, and that beats a default, as in BLIS.
 */
#ifndef TG_SIM_SIM_SETTINGS_H
#define TG_SIM_SIM_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/common/command.h"
#include "lab/cluster/cluster.h"
#include "lab/workload/workload_make.h"

#define SIM_OPTIONS_MAX 96

/* Texts of options, by the number that sim_option_find() gives. Null: not given. */
struct sim_asked {
    const char *texts[SIM_OPTIONS_MAX];
    bool given[SIM_OPTIONS_MAX]; /* set for options without an argument */
};

/* A tenant's part of the cluster, by name: the workload has the numbers. */
struct sim_tenant_budget {
    const char *tenant;
    double share;
};

struct sim_settings {
    struct cluster_config cluster;
    struct workload_simple simple;

    /* Where the load comes from: at most one of the two, else it is simple. */
    const char *trace;
    const char *workload_spec;
    int64_t num_requests; /* 0: not given */
    int64_t timeout_s;    /* -1: not given */
    int64_t seed;         /* -1: not given */

    const char *gate_config; /* -c; null: none */
    const char *policy_config;
    bool retry;
    int64_t max_retries; /* -1: not given */
    double retry_backoff_ms;
    bool sample_first_token; /* what the law of a gate is fed with */

    bool json;
    const char *results, *plot, *compare, *sweep;

    struct arena *arena; /* owns what policy files say */
    struct sim_tenant_budget *budgets;
    size_t n_budgets;
    bool many_loads;        /* a row of a sweep that changes the load */
    bool tier_shed_by_file; /* the policy file itself names tier-shed */
    bool min_priority_given;
};

/* False after saying what is wrong. */
bool sim_asked_read(const struct command *command, int argc, char **argv, struct sim_asked *asked);

/* False after saying what is wrong; sim_settings_fini() either way. The texts are borrowed. */
bool sim_settings_make(const struct command *command, const struct sim_asked *asked,
                       struct sim_settings *settings);
void sim_settings_fini(struct sim_settings *settings);

/* The number of an option, by its name without dashes; -1: there is none that takes a number.
 * `whole`: it takes whole numbers. */
int sim_option_number(const char *name, size_t bytes, bool *whole);

/* The name of an option, with its dashes. */
const char *sim_option_name(int option);

/* What the workload is made from may be reused if none of these changed. */
bool sim_option_makes_load(int option);

/* The option of that name, with dashes. */
int sim_option_find(const char *name);

/* Reads a policy file (BLIS's --policy-config). False after saying what is wrong. */
bool sim_bundle_read(const struct command *command, const char *path,
                     struct sim_settings *settings);

/* Reads a whole file, with a 0 after it; from malloc. Null after saying why not. */
char *sim_file_read(const struct command *command, const char *path, size_t *bytes);

#endif
