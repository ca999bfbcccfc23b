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
 *     before a charge              drop minima >= D from the back, append (now, D)
 *     s used d less                i = the first minimum after s; E = min(d, D, minimum i);
 *                                  lower D, i and all after it by E; drop those before i that are
 *                                  not below it any more
 *     s used x more                raise D by x, and i and all after it; but for charges before s
 *                                  nothing has changed, so unless there is a minimum at s, one is
 *                                  put there with what i was
 *     more than MINIMA_MAX         two neighbours become one, with the time of the later and the
 *                                  deficit of the lower: those that differ least
 *
 * Always true: times and deficits rise from the first to the last.
 *
 * Why. Let t be the moments of charges and S(t) all that was charged from t on: the bucket is full
 * again at L >= the largest t + S(t) (in units of time), and D = L - now. A charge at s that is
 * lowered by d lowers S(t) for t <= s, so L may be lowered by no more than d, and not below B(s),
 * the largest t + S(t) after s. Minimum i is at most L - B(s): a charge at t adds D to what it is
 * the least of, a settlement lowers L by E, and x more raises L, but no B(s') with s' >= s.
 *
 * Promise: the deficit is never below that of a bucket which was charged the actual usage at the
 * times of admission, up to the rounding of a double (tests/prop/test_settlement.c). It is above it
 * where minima were joined, or x came from calls between which the bucket was full; and a debt is
 * simply charged, as of now, where it is not known whose it is: of a call that was charged nothing,
 * of a bucket that is full, of a time when the clock had stepped back. Times never fall: after a
 * step back, the moment before it counts, which gives back less.
 *
 * lua/limiters.lua does the same operations in the same order. docs/decisions/0028 has the
 * measurements behind MINIMA_MAX.
 */
#ifndef TG_LIMIT_MINIMA_H
#define TG_LIMIT_MINIMA_H

#include "lib/limit/limit.h"

enum { MINIMA_MAX = 6 };

struct minimum {
    double at; /* ms; a whole number */
    double deficit;
};

struct minima {
    int64_t n;
    tg_ms stepped; /* the last charge by a clock that had stepped back was made then; 0: none */
    struct minimum list[MINIMA_MAX];
};

/* Before a charge at `now`: the deficit without it, at the time to which the refill has come. */
void minima_push(struct minima *minima, tg_ms now, double at, double deficit);

/* Before `more` is charged for a call that was charged too little; the rest is as above. */
void minima_owe(struct minima *minima, tg_ms now, double at, double deficit,
                struct tg_charge charge, double more);

/* How much of `unused`, of a charge made at `charged_at`, is to be given back to a bucket whose
 * deficit is `deficit` now. It counts as given back from here on. */
double minima_settle(struct minima *minima, tg_ms charged_at, double unused, double deficit);

#endif
