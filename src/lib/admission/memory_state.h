/* memory_state.h - how tight memory is, with hysteresis.
 *
 * A fraction of used memory becomes one of four states. A state is entered above its threshold and
 * left only MEMORY_HYSTERESIS below it, so that a fraction that trembles around a threshold does
 * not turn calls away every other moment. What is not known refuses nobody.
 */
#ifndef TG_ADMISSION_MEMORY_STATE_H
#define TG_ADMISSION_MEMORY_STATE_H

#include "tollgate.h"

enum memory_state {
    MEMORY_FINE,
    MEMORY_PRESSURE, /* low is refused */
    MEMORY_CRITICAL, /* all but high */
    MEMORY_LIMIT     /* all */
};

#define MEMORY_HYSTERESIS 0.02

/* The state that follows on `state` when `used` is read. `thresholds` are those of the states from
 * MEMORY_PRESSURE on. */
static inline enum memory_state memory_state_next(enum memory_state state, double used,
                                                  const double thresholds[3])
{
    enum memory_state next = MEMORY_FINE;

    for (int s = MEMORY_PRESSURE; s <= MEMORY_LIMIT; s++) {
        double threshold = thresholds[s - MEMORY_PRESSURE];
        /* 0.85 - 0.02 is not 0.83 to a double: a little less counts as there. */
        bool stays = (int)state >= s && used > threshold - MEMORY_HYSTERESIS + 1e-9;
        if (used > threshold || stays)
            next = (enum memory_state)s;
    }
    return next;
}

static inline bool memory_state_refuses(enum memory_state state, enum tg_priority priority)
{
    return (int)state > (int)(TG_PRIORITY_LOW - priority);
}

#endif
