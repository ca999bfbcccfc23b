/* breaker.h - stays away from a key that keeps failing, and finds out when it no longer does.
 *
 *                  a run of failures
 *       CLOSED ------------------------> OPEN  (no calls)
 *          ^                            ^   |
 *          |                    failure |   | after `open` ms
 *          |                            |   v
 *          '---------------------- HALF OPEN  (one call at a time)
 *              any other answer
 *
 * What counts is the run of attempts in a row that ended in 5xx, a network error or a time-out.
 * Every other answer of the provider, a 429 and a 401 too, shows that it is there, and ends the
 * run; a call whose caller went away shows nothing. A call that is cancelled while it is the one of
 * HALF OPEN makes place for the next.
 *
 * A run of five is a long time for a key of which every second call fails anyway: with an average
 * of errors (over about the last 16 attempts) of one half or more, half the run is enough, but
 * never less than two.
 *
 * An attempt carries the epoch in which it began, and the epoch changes whenever the breaker opens:
 * attempts from before are told apart, and neither open nor close anything.
 */
#ifndef TG_KEYPOOL_BREAKER_H
#define TG_KEYPOOL_BREAKER_H

#include "lib/core/num.h"

struct breaker {
    tg_ms open_until; /* 0: closed. Once it has come: half open */
    int64_t run;
    double errors; /* share of attempts that failed, as a moving average */
    uint32_t epoch;
    bool trying; /* half open, and its call is on the way */
};

struct breaker_rule {
    int64_t failures;
    tg_ms open;
};

static inline bool breaker_lets(const struct breaker *breaker, tg_ms now)
{
    return breaker->open_until <= now && !breaker->trying;
}

enum tg_breaker_state breaker_state(const struct breaker *breaker, tg_ms now);

/* The run that opens it now. */
int64_t breaker_threshold(const struct breaker *breaker, const struct breaker_rule *rule);

/* An attempt begins, which the breaker lets. */
void breaker_begin(struct breaker *breaker);

/* An attempt that began in `epoch` has ended. */
void breaker_end(struct breaker *breaker, const struct breaker_rule *rule, uint32_t epoch,
                 enum tg_key_outcome outcome, tg_ms now);

#endif
