/* scenario.h - overload scenarios: a law in the library's gate, in front of a server that it must
 * neither starve nor flood.
 *
 *     arrivals --> the gate's queue --> slots --> server: a queue, workers --> finished
 *        ^              |
 *        `-- retries -- refused
 *
 *     scenario_table.c    the scenarios: load, server and what changes, as one table
 *     scenario_law.c      a law as it is written on the command line
 *     server.h            the server: first in first out, or shared evenly
 *     scenario_run.c      one run: arrivals, gate, server, measures
 *     scenario_many.c     scenarios x laws x seeds, with intervals
 *     fairness.h          beside these: shares of slots between tenants, and
 *     limit_use.h         use of a token limit, both by flows_run.h, without a server
 *
 * The gate is the real one (gate_run.h), in virtual time; it is told whole ms, like the product,
 * while the server's time is a double.
 *
 * Goodput: calls that end within the deadline of their arrival, so the wait in the gate counts; in
 * scenarios of streams, calls whose first byte comes within it. It is a percentage of what the best
 * law could reach: a call that arrives while the load is below capacity counts F, the probability
 * that its own service keeps the deadline; above capacity it counts F a / lambda with
 * a = (cap - c lambda) / (1 - c), because each refusal costs c = 0.02 of a mean service. It may
 * exceed 100: the ideal is an expectation, and calls that wait through the end of an overload are
 * served in time that it does not credit.
 *
 * False rejects: of the first attempts that arrive when the load has been below 0.95 of capacity
 * for a second, the percentage refused.
 *
 * The same seed brings the same calls with the same service times at the same times, whatever the
 * law; only retries differ.
 */
#ifndef TG_SCENARIO_SCENARIO_H
#define TG_SCENARIO_SCENARIO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tollgate.h"

#define SCENARIO_KINDS 2
#define SCENARIO_REJECT_COST 0.02 /* part of a mean service by which the next call takes longer */

/* What may change in the middle of a scenario. In a change, 0 means: as before. */
struct scenario_load {
    double workers;
    double arrivals_per_s;
    double service_ms; /* mean over all kinds of calls */
    double delay_ms;   /* mean of a delay after the service that holds no worker; 0: none */
};

/* Calls of one kind: the probability of it, its mean service as a multiple of the load's, and
 * deviation / mean. */
struct scenario_kind {
    double part, factor, cv;
};

struct scenario {
    const char *name;
    const char *about; /* one line */
    double until_s;
    double measured_from_s;
    struct scenario_load load;
    struct scenario_kind kinds[SCENARIO_KINDS]; /* a part of 0: not there */

    /* From `change_from_s` until before `change_until_s` the load is that of `change`. With a
     * period, so it is in every period. */
    double change_from_s, change_until_s, period_s;
    struct scenario_load change;

    double service_grows_ms; /* by so much over the whole run, evenly; 0: it does not */
    bool shared;             /* the workers serve all calls at once, evenly */
    double first_byte_ms;    /* after the start; 0: no stream, the end of the call counts */
    double deadline_ms;      /* 0: the option's, times `deadline_factor` */
    double deadline_factor;
    int retries;       /* how often a refused or late call comes again */
    double backoff_ms; /* mean pause before the first retry, doubled for each; 0: no back-off */
    double high, low;  /* parts of the calls with these priorities */
};

extern const struct scenario scenarios[];
extern const size_t scenarios_n;

/* Null: there is none of that name. */
const struct scenario *scenario_find(const char *name);

/* The load at a time. */
struct scenario_load scenario_load_at(const struct scenario *scenario, double now_ms);

/* F: the probability that a call's own service and delay keep the deadline. */
double scenario_keeps(const struct scenario *scenario, const struct scenario_load *load,
                      double deadline_ms);

/* ---- Laws ---- */

#define SCENARIO_LAW_NAME_MAX 64

struct scenario_law {
    char name[SCENARIO_LAW_NAME_MAX]; /* the text it was read from */
    struct tg_law_config law;
    bool has_wait; /* else the gate's default waits */
    tg_ms wait;    /* for every priority; TG_WAIT_AUTO */
};

/* NAME[:FIELD=VALUE]..., for example "vegas:initial=20:min=1:wait=0". TG_ERR_INVALID: `problem`
 * says why. */
TG_MUST_CHECK enum tg_err scenario_law_parse(const char *text, size_t bytes,
                                             struct scenario_law *law, struct tg_problem *problem);

/* Sets the concurrency stage of a gate. */
void scenario_law_apply(const struct scenario_law *law, struct tg_gate_config *gate);

/* ---- One run ---- */

struct scenario_options {
    double deadline_ms; /* for calls that are no streams */
    bool tell_deadline; /* the gate hears the deadline of each call */

    /* The same scenario with so many times the workers and the calls, and with every time, that of
     * the run and the deadline included, so many times as long. 0: 1. */
    double scale_capacity, scale_time;
};

struct scenario_result {
    double goodput;       /* % of the ideal net of the cost of rejecting */
    double nominal;       /* % of the ideal where rejecting and deadlines cost nothing */
    double false_rejects; /* % */
    double p99_ms;     /* from arrival to what has to keep the deadline, over all that finished */
    double mean_limit; /* over the measured time */
    int64_t offered;   /* first attempts in the measured time */
    int64_t good;      /* calls that kept the deadline then */
    double served[TG_PRIORITY_COUNT]; /* % of first attempts admitted; NaN: none offered */
    int64_t events;                   /* in the whole run */
};

/* TG_ERR_INVALID: the gate cannot be made, `problem` says why. TG_ERR_MEMORY. */
TG_MUST_CHECK enum tg_err scenario_run(const struct scenario *scenario,
                                       const struct scenario_law *law,
                                       const struct scenario_options *options, uint64_t seed,
                                       struct scenario_result *result, struct tg_problem *problem);

/* ---- Many runs ---- */

/* One figure over all seeds. */
struct scenario_figure {
    double mean, lowest, highest;
    double half; /* half the width of the 95 % interval of the mean; NaN with one seed */
};

struct scenario_cell {
    const struct scenario *scenario;
    const struct scenario_law *law;
    struct scenario_figure goodput, nominal, false_rejects, p99_ms, mean_limit;
    struct scenario_figure served[TG_PRIORITY_COUNT];
    int64_t events;
};

struct scenario_table {
    const struct scenario *const *scenarios;
    size_t n_scenarios;
    const struct scenario_law *laws;
    size_t n_laws;
    struct scenario_options options;
    uint64_t seed; /* the first; the others follow */
    size_t seeds;
    size_t threads; /* 0 and 1: the caller's own alone; the results are the same */

    /* Told how far it is, by one thread at a time. Null: nobody wants to know. */
    void (*progress)(void *context, size_t done, size_t of);
    void *context;
};

/* Runs all; `cells` has a place for each scenario and law, scenario by scenario. */
TG_MUST_CHECK enum tg_err scenario_run_table(const struct scenario_table *table,
                                             struct scenario_cell *cells,
                                             struct tg_problem *problem);

/* Mean, extremes and interval of n values. */
struct scenario_figure scenario_figure_of(const double *values, size_t n);

#endif
