/* minima.h - what a bucket remembers so that a charge can be corrected when it is long past.
 *
 * A call is charged when it is admitted, and what it used is known seconds later. The state should
 * then be what it would be had the right number been charged at once. With D = the deficit, what
 * is missing to a full bucket, a charge made at s of which d units were not used gives back
 *
 *     E = min(d, D now, the least D since s)
 *
 * since from the moment on at which the corrected deficit is 0, the refill is lost and gives
 * nothing. D is the deficit in the history as already corrected: by the one that happened, some of
 * the refill would be given back twice. Giving back d whole admits many times the capacity at once;
 * giving back what this charge alone would still owe wastes what calls that overlap all wait for.
 *
 * Of the history only suffix minima count: moments at which D was lower than ever after. There are
 * moments in front of which D is lowest, since D only rises when something is charged:
 *
 *     before a charge, or a debt   drop minima >= D from the back, append (now, D)
 *     a settlement of s            i = the first minimum after s; E = min(d, D, minimum i);
 *                                  lower D, i and all after it by E; drop those before i that are
 *                                  not below it any more
 *     more than MINIMA_MAX         two neighbours become one, with the time of the later and the
 *                                  deficit of the lower: those that differ least
 *
 * Always true: times and deficits rise from the first to the last.
 *
 * Promise: the deficit is never below that of a bucket which was charged the actual usage at the
 * times of admission, up to the rounding of a double; it is above it where minima were joined, and
 * after debts, which are charged when they are known (tests/prop/test_settlement.c). Times never
 * fall: where the clock has stepped back, the moment before it counts, which gives back less.
 * lua/limiters.lua does the same operations in the same order.
 *
 * docs/decisions/0028 has the measurements behind MINIMA_MAX.
 */
#ifndef TG_LIMIT_MINIMA_H
#define TG_LIMIT_MINIMA_H

#include "lib/limit/limit.h"

enum { MINIMA_MAX = 8 };

struct minimum {
    double at; /* ms; a whole number */
    double deficit;
};

struct minima {
    int64_t n;
    struct minimum list[MINIMA_MAX];
};

/* Before a charge or a debt: the deficit without it, at the time to which the refill has come. */
void minima_push(struct minima *minima, double at, double deficit);

/* How much of `unused`, of a charge made at `charged_at`, is to be given back to a bucket whose
 * deficit is `deficit` now. It counts as given back from here on. */
double minima_settle(struct minima *minima, tg_ms charged_at, double unused, double deficit);

#endif
