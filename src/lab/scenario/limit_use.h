/* limit_use.h - how much of a token limit gets used under lasting demand.
 *
 * One tenant asks for twice what its limit of 1000 tokens a second allows, by calls that state 200
 * tokens and use a part of them, and take a while before they say how many. The limit's capacity is
 * what refills in 10 s or in half a call, whichever is more.
 */
#ifndef TG_SCENARIO_LIMIT_USE_H
#define TG_SCENARIO_LIMIT_USE_H

#include "lab/scenario/scenario.h"

#define LIMIT_USE_CASES 36

struct limit_use {
    enum tg_strategy strategy;
    double used_part; /* mean of what a call uses, as a part of what it asks for */
    double hold_s;
    int64_t capacity;
    struct scenario_figure use; /* % of the limit */

    /* In capacities: the most used in any span above its refill, and above that and what calls in
     * flight use above their charge; at most 1 by the gate's promise. */
    struct scenario_figure most_over, most_over_charge;
};

/* Case `i` of LIMIT_USE_CASES, over seeds. TG_ERR_INVALID, TG_ERR_MEMORY. */
TG_MUST_CHECK enum tg_err limit_use_run(size_t i, uint64_t seed, size_t seeds,
                                        struct limit_use *result, struct tg_problem *problem);

#endif
