/* net_timeline.h - random configurations and random traces for them, as text.
 *
 * A timeline is what `tollgate replay -c` reads: a gate with some of its stages, a few tenants with
 * parents, models and users, limits of all kinds, and some dozen lines of calls that come, wait,
 * end and are settled, under a clock that jumps.
 */
#ifndef NET_TIMELINE_H
#define NET_TIMELINE_H

#include "check.h"
#include "draw.h"

struct timeline_text {
    char *at;
    size_t n, room;
};

void timeline_say(struct timeline_text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

enum { TIMELINE_TENANTS = 6, TIMELINE_LEVELS = 4 };

struct timeline {
    struct draw draw;
    struct timeline_text config, trace;
    int tenants;
    int levels[TIMELINE_TENANTS]; /* from the root, which has 1 */
    tg_ms now;
};

void timeline_init(struct timeline *timeline, uint64_t seed, uint64_t number);
void timeline_fini(struct timeline *timeline);

/* Draws both texts; the trace has so many lines. */
void timeline_draw(struct timeline *timeline, int lines);

#endif /* NET_TIMELINE_H */
