/* minute.h - what was charged in the last 60 s, in fixed memory and constant time.
 *
 * A provider counts calls and tokens by the minute. One counter for each second is kept, and the
 * second at the far end counts whole although only a part of it is still within the 60 s:
 *
 *        s-60   s-59                          s-1    s
 *     ---|======|======|====== ... ======|======|====|now
 *         ^ counted whole
 *
 *     sum >= what was charged in (now - 60 s, now],     and a charge is gone after 60 to 61 s
 *
 * so a window never admits more than its limit in any 60 s (tests/prop/test_keypool_model.c), and
 * is empty again at most 61 s after its last charge. A list of every call would be exact to the ms,
 * but its memory grows with the limit, which somebody writes into a file.
 *
 * One bit for each second says whether anything is in it: the oldest charge, and so the next moment
 * at which the sum falls, is found by counting zeros. Counts saturate at MINUTE_MAX; a sum of what
 * limits admit never comes near. Not synchronised: the ring's lock covers it.
 */
#ifndef TG_KEYPOOL_MINUTE_H
#define TG_KEYPOOL_MINUTE_H

#include <assert.h>

#include "lib/core/num.h"

enum { MINUTE_SLOTS = 64, MINUTE_SPAN = 61 };
#define MINUTE_MAX (INT64_C(1) << 62)

/* Seconds are numbered by the owner, from 0. Of the 64 slots 61 are in use at a time. */
struct minute {
    int64_t sum;
    int64_t head;    /* the second up to which it has been moved */
    uint64_t filled; /* a bit for each slot that is not 0 */
    int64_t counts[MINUTE_SLOTS];
};

/* Moves on to a second, and forgets what has left the window. A second that has passed is no move.
 */
void minute_roll(struct minute *minute, int64_t second);

static inline size_t minute_slot(int64_t second)
{
    return (size_t)((uint64_t)second % MINUTE_SLOTS);
}

static inline uint64_t minute_bit(int64_t second)
{
    return UINT64_C(1) << minute_slot(second);
}

/* The oldest second at or after `from` that holds something; there is one. */
static inline int64_t minute_filled_from(const struct minute *minute, int64_t from)
{
    assert(minute->filled);
    unsigned shift = (unsigned)minute_slot(from);
    uint64_t turned =
        shift ? minute->filled >> shift | minute->filled << (MINUTE_SLOTS - shift) : minute->filled;

    return from + __builtin_ctzll(turned);
}

static inline void minute_add(struct minute *minute, int64_t second, int64_t units)
{
    if (units > MINUTE_MAX - minute->sum)
        units = MINUTE_MAX - minute->sum;
    if (units == 0)
        return;
    minute->counts[minute_slot(second)] += units;
    minute->sum += units;
    minute->filled |= minute_bit(second);
    assert(second <= minute->head && minute->sum > 0 && minute->sum <= MINUTE_MAX);
}

/* Charges `units`, 0 or more, in the second to which it has been moved. */
static inline void minute_charge(struct minute *minute, int64_t units)
{
    minute_add(minute, minute->head, units);
}

/* Replaces, in the second in which it was charged, `charged` units by `units`. If that second has
 * left the window there is nothing to correct. */
static inline void minute_correct(struct minute *minute, int64_t second, int64_t charged,
                                  int64_t units)
{
    if (second <= minute->head - MINUTE_SPAN || charged == units)
        return;
    if (units > charged) {
        minute_add(minute, second, units - charged);
        return;
    }
    /* Less than was charged can only be there where counts have saturated. */
    int64_t back = num_min(charged - units, minute->counts[minute_slot(second)]);
    minute->counts[minute_slot(second)] -= back;
    minute->sum -= back;
    assert(minute->sum >= 0 && minute->counts[minute_slot(second)] >= 0);
    if (minute->counts[minute_slot(second)] == 0)
        minute->filled &= ~minute_bit(second);
}

/* The second at which the oldest charge leaves; INT64_MAX: there is none. */
static inline int64_t minute_next(const struct minute *minute)
{
    if (!minute->filled)
        return INT64_MAX;
    return minute_filled_from(minute, minute->head - MINUTE_SPAN + 1) + MINUTE_SPAN;
}

/* The first second at which `need` more units are within `limit`, if nothing else is charged; the
 * current one if they are now. `need` is at most `limit`. */
int64_t minute_when(const struct minute *minute, int64_t limit, int64_t need);

#endif
