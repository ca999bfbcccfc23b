/* sim_scenario.h - `tollgate sim --scenario`: laws in overload scenarios, as a table. */
#ifndef TG_SIM_SIM_SCENARIO_H
#define TG_SIM_SIM_SCENARIO_H

#include <stdbool.h>

#include "cli/common/command.h"
#include "io/text/json_write.h"
#include "io/text/svg.h"
#include "lab/scenario/scenario.h"

/* Whether the command line is one of scenarios. */
bool sim_asks_for_scenario(int argc, char **argv);

/* Runs them. Returns the status. */
int sim_run_scenarios(const struct command *command, int argc, char **argv);

/* What was run, and its figures, scenario by scenario. */
void sim_scenario_print(const struct scenario_table *table, const struct scenario_cell *cells);
void sim_scenario_write_json(struct json_writer *out, const struct scenario_table *table,
                             const struct scenario_cell *cells);
void sim_scenario_write_figure(struct json_writer *out, const char *key,
                               const struct scenario_figure *figure);
void sim_scenario_draw(struct svg *svg, const struct scenario_table *table,
                       const struct scenario_cell *cells);

#endif
