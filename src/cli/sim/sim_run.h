/* sim_run.h - one run of the simulator: its load, its settings, what came out.
 *
 *     options --sim_settings.c--> settings <--sim_bundle.c-- policy file
 *                                    |
 *              sim_load.c: requests  |  sim_gate.c: what each request asks of a gate
 *                       `------------+---------------'
 *                                    v
 *                                 sim_run.c --> cluster_run()
 *                                    |
 *         .--------------------------+----------------------.
 *     sim_print.c (text)    sim_json.c (--json, files)    sim_plot.c (one run), over time
 *
 *     sim_many.c            many runs: --compare policies or --sweep one option, with a table
 *     sim_many_plot.c       and its picture; all pictures are made by sim_chart.c and sim_bins.c
 */
#ifndef TG_SIM_SIM_RUN_H
#define TG_SIM_SIM_RUN_H

#include "cli/common/command.h"
#include "cli/sim/sim_settings.h"
#include "lab/cluster/cluster.h"
#include "lab/workload/workload_requests.h"

/* Makes or reads the requests that the settings ask for; their classes are added to the settings'.
 * Returns STATUS_DONE, or what to end with after saying what is wrong; workload_fini() either way,
 * which needs workload_init() or zeros. */
int sim_load_make(const struct command *command, struct sim_settings *settings,
                  struct workload *workload);

struct sim_run {
    const struct sim_settings *settings;
    const struct workload *workload;
    struct cluster_config config; /* the settings it was run with */
    struct cluster_result result;
};

/* Runs. `first` are the settings that the workload was made with: its requests have their classes
 * by the numbers of that table. Returns a status as above; sim_run_fini() either way. */
int sim_run_init(struct sim_run *run, const struct command *command,
                 const struct sim_settings *settings, struct workload *workload,
                 const struct sim_settings *first);
void sim_run_fini(struct sim_run *run);

/* ---- What is counted beyond the cluster's own summary ---- */

/* The kinds of reasons for which a request is refused, without what differs from one to the next:
 * "insufficient tokens", "tier-shed", "rate", ... */
#define SIM_REASONS_MAX 24

struct sim_reasons {
    const char *names[SIM_REASONS_MAX];
    int64_t counts[SIM_REASONS_MAX];
    size_t n;
};

/* Counts those that were refused for good, most first. */
void sim_reasons_count(const struct sim_run *run, struct sim_reasons *reasons);

/* Its number among the reasons; -1: none. */
int sim_reasons_find(const struct sim_reasons *reasons, const struct cluster_outcome *outcome);

/* ---- Output ---- */

/* A table on stdout. */
void sim_print(const struct sim_run *run);

/* One object; or, within one, only the fields that are a single number. */
struct json_writer;
void sim_write_json(struct json_writer *out, const struct sim_run *run);
void sim_write_numbers(struct json_writer *out, const struct sim_run *run);

/* A line a request. False after saying why not. */
bool sim_write_results(const struct command *command, const char *path, const struct sim_run *run);

/* A picture of the run over time. */
struct svg;
void sim_draw(struct svg *svg, const struct sim_run *run);

/* Writes the picture; false after saying why not. */
bool sim_plot_write(const struct command *command, const char *path, struct svg *svg);

/* Whether any class has a goal: only then is it worth saying how many requests are good. */
bool sim_has_goals(const struct cluster_config *config);

/* What the admission is called: its policy, or "flow-control". */
const char *sim_admission_name(const struct cluster_config *config);

#endif
