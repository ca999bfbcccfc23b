/* sim_many.h - several runs of the simulator, as rows of one table. */
#ifndef TG_SIM_SIM_MANY_H
#define TG_SIM_SIM_MANY_H

#include "cli/sim/sim_bins.h"
#include "cli/sim/sim_run.h"
#include "io/text/json_write.h"
#include "io/text/svg.h"

#define SIM_MANY_MAX 200
#define SIM_COMPARE_MAX 8

struct sim_row_of {
    char name[256]; /* the file, or the number as it is written */
    double value;   /* the swept option's value */
    struct sim_asked asked;
    struct cluster_summary summary;
    struct sim_bins bins; /* filled if a comparison is drawn */
};

struct sim_many {
    struct sim_asked asked;
    int option;    /* the swept option; -1: it is a comparison */
    bool log;      /* by a factor */
    bool new_load; /* each row makes its own */
    bool plots;
    bool goals; /* some class has one */

    /* The load, and the settings that it was made with. */
    bool has_load;
    struct workload workload;
    struct sim_settings first;

    struct json_writer out;
    struct sim_row_of rows[SIM_MANY_MAX];
    size_t n;
};

/* --compare and --sweep of the settings. Returns the status. */
int sim_run_many(const struct command *command, const struct sim_asked *asked,
                 const struct sim_settings *settings);

/* The picture: of a sweep over its number, of a comparison over time. */
void sim_many_draw(struct svg *svg, const struct sim_many *many);

#endif
