/* sim_effect.h - whether every option that was given has an effect on the run.
 *
 *     sim_effects_collect(&effects, &asked, &settings)     once for each run
 *     sim_effects_check(&effects, command)                 false after naming an option without any
 *
 * In a sweep or a comparison it is enough if one of the runs shows the effect.
 */
#ifndef TG_SIM_SIM_EFFECT_H
#define TG_SIM_SIM_EFFECT_H

#include "cli/sim/sim_settings.h"
#include "lab/workload/workload_requests.h"

#define SIM_EFFECTS_MAX 48

/* Zeros to begin with. */
struct sim_effects {
    const char *why[SIM_EFFECTS_MAX]; /* why it had none in the first run in which it had none */
    bool some[SIM_EFFECTS_MAX];       /* it had one in some run */
};

void sim_effects_collect(struct sim_effects *all, const struct sim_asked *asked,
                         const struct sim_settings *settings);
bool sim_effects_check(const struct sim_effects *all, const struct command *command);

/* Whether the load has requests of every class for which a time was given; `config` has the classes
 * by the numbers of the load. False after saying which it lacks. */
bool sim_classes_check(const struct command *command, const struct cluster_config *config,
                       const struct workload *workload);

#endif
