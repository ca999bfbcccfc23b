/* regret.h - how much each policy forgoes on a suite of worlds: tables of percentages.
 *
 *     suite      worlds                                        against             in
 *     rho        two types, one window, by correlation         the fluid optimum   regret_chain.c
 *     adaptive   the same, with a prior that may be wrong      the fluid optimum   regret_chain.c
 *     hog        types that hold slots, three axes             the fluid optimum   regret_hog.c
 *     drift      fifty windows of a changing world, by prior   hindsight           regret_drift.c
 *     guard      where prices alone lose to no policy          hindsight           regret_guard.c
 *
 *     arrivals.c --who arrives--> suite --asks--> contestant.c: the policy under comparison
 *                                   `--> row of the table     (sampled.c: one only compared with)
 *
 * A policy that the product has is the product's, asked like the gate asks it: after the slot,
 * before the budgets. Beside the suites, the room has two runs in virtual time: gate_run.h, a gate
 * that is told events, and plant.h, a small server on which laws and gates are tried.
 */
#ifndef TG_REGRET_REGRET_H
#define TG_REGRET_REGRET_H

#include <stddef.h>
#include <stdint.h>

#include "tollgate.h"

#define REGRET_POLICIES_MAX 8
#define REGRET_ROWS_MAX 40
#define REGRET_SUMMARY_MAX 12
#define REGRET_THREADS_MAX 64

/* One world, or one measure over several. What does not say anything here is null, rho NaN. */
struct regret_row {
    const char *set, *prior, *world, *column;
    const char *about;   /* the world, in words */
    const char *measure; /* how a summary was made: "mean" or "max" */
    double rho;
    double percent[REGRET_POLICIES_MAX]; /* NaN: the policy cannot do without a prior */
};

struct regret_table {
    struct regret_row rows[REGRET_ROWS_MAX];
    struct regret_row summary[REGRET_SUMMARY_MAX];
    size_t n_rows, n_summary;
};

struct regret_options {
    uint64_t seed; /* the first; from 1 */
    size_t seeds;  /* how many, one after the other */

    /* Bits of policies that need not run; they get NaN. 0: all run. */
    unsigned leave_out;

    /* How many threads may work; 0 and 1: the caller's own alone. The table is the same. */
    size_t threads;

    /* Told now and then how far it is, by one thread at a time. Null: nobody wants to know. */
    void (*progress)(void *context, size_t done, size_t of);
    void *context;
};

struct regret_suite {
    const char *name;
    const char *title;       /* what the worlds are */
    const char *denominator; /* what regret is a part of */
    const char *policies[REGRET_POLICIES_MAX + 1];
    size_t seeds; /* by default */
    enum tg_err (*run)(const struct regret_options *options, struct regret_table *table);
};

#define REGRET_SUITES 5
extern const struct regret_suite *const regret_suites[REGRET_SUITES];

/* Null: there is none of that name. */
const struct regret_suite *regret_suite_find(const char *name);

/* Runs a suite. The same options give the same table. TG_ERR_MEMORY. */
TG_MUST_CHECK enum tg_err regret_run(const struct regret_suite *suite,
                                     const struct regret_options *options,
                                     struct regret_table *table);

#endif
