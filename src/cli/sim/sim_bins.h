/* sim_bins.h - a run over time, as a picture shows it: about a hundred spans. */
#ifndef TG_SIM_SIM_BINS_H
#define TG_SIM_SIM_BINS_H

#include "cli/sim/sim_run.h"

/* Rows of numbers, each of one value a span. */
enum sim_row {
    SIM_ROW_X, /* the middle of the span, in seconds */
    SIM_ROW_ARRIVED,
    SIM_ROW_ADMITTED,
    SIM_ROW_COMPLETED,
    SIM_ROW_REFUSED, /* these four: requests a second */
    SIM_ROW_RUNNING, /* these four: at the end of the span */
    SIM_ROW_QUEUED,
    SIM_ROW_GATEWAY,
    SIM_ROW_LIMIT,    /* the gate's limit; NaN: none */
    SIM_ROW_TTFT_P50, /* time to the first token, for first tokens in the span, in ms; NaN: none */
    SIM_ROW_TTFT_P99,
    SIM_ROW_REASONS, /* from here on: refused for each reason, requests a second */
    SIM_ROWS = SIM_ROW_REASONS + SIM_REASONS_MAX,
};

struct sim_bins {
    size_t n;       /* spans */
    double width_s; /* width of each span */
    double end_s;   /* end of the last span */
    struct sim_reasons reasons;
    double *rows[SIM_ROWS];
    double *room; /* the storage of all rows */
};

/* Makes as many spans as a picture can show. False: no memory; sim_bins_fini() either way. */
TG_MUST_CHECK bool sim_bins_init(struct sim_bins *bins, const struct sim_run *run);
void sim_bins_fini(struct sim_bins *bins);

/* Seconds, minutes or hours, whichever suits so long a time: its length in seconds, and what to
 * write. */
double sim_time_unit(double end_s, const char **name);

#endif
