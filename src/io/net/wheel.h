/* wheel.h - timers by the time they fire: a hierarchical wheel, without memory of its own. */
#ifndef TG_NET_WHEEL_H
#define TG_NET_WHEEL_H

#include "io/net/loop.h"

#define WHEEL_BITS 6
#define WHEEL_SLOTS (1 << WHEEL_BITS)
#define WHEEL_LEVELS 8 /* 48 bits of milliseconds since the epoch: until the year 10889 */

struct wheel {
    tg_ms base;                  /* everything up to here has fired */
    uint64_t used[WHEEL_LEVELS]; /* a bit for each slot that is not empty */
    LIST_HEAD(, net_timer) slots[WHEEL_LEVELS][WHEEL_SLOTS];
};

void wheel_init(struct wheel *wheel, tg_ms now);

/* `at` is later than everything that has fired, or it fires next. */
void wheel_set(struct wheel *wheel, struct net_timer *timer, tg_ms at);
void wheel_remove(struct wheel *wheel, struct net_timer *timer);

/* The next timer that is due at `now`, taken out; null: none is, and time has moved on to `now`. */
struct net_timer *wheel_due(struct wheel *wheel, tg_ms now);

/* When wheel_due() should be asked again: no timer fires before. False: there is none. */
bool wheel_next(const struct wheel *wheel, tg_ms *at);

#endif
