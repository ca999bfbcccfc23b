/* expected.h - what a call is expected to use of the cost axis, learned from what calls did use.
 *
 * A call asks for the most that it may use, and most use far less: demand counted in what is asked
 * for is scarce where nothing is. So it is asked x the mean of used to asked of the calls that
 * have ended, kept by octave of what they asked for, since calls that ask for more often use a
 * smaller part of it. An octave that knows little takes the mean of all, and as long as nothing is
 * known a call is expected to use what it asks for.
 *
 * The gate has such a mean by key (charge.h) for what it charges. This one hears only cost and
 * actual, so it works with any gate, and where the gate's charge is what it is told, it stays 1.
 *
 * One thread at a time.
 */
#ifndef TG_POLICY_EXPECTED_H
#define TG_POLICY_EXPECTED_H

#include <stdbool.h>

enum { EXPECTED_OCTAVES = 64 };

struct expected_sum {
    double asked, used;
};

struct expected {
    struct expected_sum all, octave[EXPECTED_OCTAVES];
};

/* A call that asked for so much has ended. One that used nothing has failed, and says nothing. */
void expected_learn(struct expected *expected, double asked, double used);

/* What a call that asks for so much will use, in the mean. */
double expected_use(const struct expected *expected, double asked);

/* Whether bytes that were kept somewhere can be one. */
bool expected_is_sane(const struct expected *expected);

/* The mean of used to asked over all calls. */
double expected_factor(const struct expected *expected);

#endif
