/* charge.h - what a call is charged on the cost axis: what calls like it use.
 *
 * A call states the most that it may use, and most use far less. Whoever charges what is asked for
 * gives away a part of the limit: with calls that use rho of what they ask for and take h, at most
 * (capacity + refill h) rho / (refill h) of it can be used, however exactly charges are settled.
 * So a call is charged asked x the mean of used to asked, and who used more pays by his next calls.
 * A high quantile instead of the mean, which this library once had, uses half of the limit when
 * use is spread like a lognormal.
 *
 *     mean   = (sum of used) / (sum of asked), over the last calls that are alike
 *
 * Not the mean of the quotients: where long prompts use nearly all they ask for and short ones
 * little, that would charge a third of what is used. Both sums forget: a call has the weight 1 / n,
 * n the number of calls that have ended so far and those that the start counts for (PRIOR), up to
 * MEMORY. What one call can do is bounded, since neither clients nor providers are to be believed:
 *
 *   - it asks for no more than OUTLIER times the mean, else it counts in proportion;
 *   - it uses no more than TG_FACTOR_MAX times what it asks for;
 *   - one that has used nothing (it failed, or the provider turned it away) says nothing.
 *
 * The overdraft of a limit bounds what can be done with a mean that was brought down on purpose: it
 * counts asked - charge of the calls in flight under a key, and where there is no room left calls
 * are charged more, up to all they ask for.
 *
 * One table holds both, by the id of a key: 32 bytes an entry, one cache line for the call of one
 * scope that says nothing of what it is like. It grows to `max` entries; then a new one replaces
 * one that has nothing in flight and was not used since the hand of a clock passed it.
 *
 * Means are kept in floats and computed in doubles, one operation after the other: the same calls
 * give the same charges, whoever has compiled it. The gate's lock covers everything here.
 */
#ifndef TG_ADMISSION_CHARGE_H
#define TG_ADMISSION_CHARGE_H

#include "lib/store/table.h"

struct passage;
struct ticket;

struct charges {
    struct table table;
    uint32_t max;  /* entries */
    uint32_t hand; /* the slot that is looked at next when one has to go */
};

void charges_init(struct charges *charges, int64_t max);
void charges_fini(struct charges *charges);

static const struct tg_factor CHARGE_DEFAULTS = {1, TG_FACTOR_MIN, TG_FACTOR_MAX};

/* The bounds of the call's factor, or the defaults. */
static inline const struct tg_factor *charge_bounds(const struct tg_call *call)
{
    const struct tg_factor *stated = &call->factor;

    return stated->start > 0 || stated->min > 0 || stated->max > 0 ? stated : &CHARGE_DEFAULTS;
}

/* The call has its slot, and its ticket a copy of its claim, if it has one: both get what it is
 * charged, and the ticket what is needed later. Returns the factor. */
double charge_choose(const struct passage *passage, struct ticket *ticket);

/* What charge_choose() would do. */
void charge_expect(const struct passage *passage, struct tg_expectation *expectation);

/* The lease of the ticket has ended, and its call has used so much, above 0. */
void charge_learn(struct tg_gate *gate, struct ticket *ticket, int64_t used);

/* The ticket draws on nobody's overdraft any more; again: nothing. */
void charge_give_back(struct tg_gate *gate, struct ticket *ticket);

/* For tests: what is drawn on the overdrafts of all keys together. */
int64_t charges_drawn(const struct charges *charges);

#endif
