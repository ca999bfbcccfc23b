/* metrics_heavy.h - who is heavy among the many that are counted as one.
 *
 * Space-saving (Metwally, Agrawal and El Abbadi): so many counters; who has none takes over the
 * lowest, with its count as an error. Whoever makes up more than one in HEAVY_COUNTERS of what
 * comes has a counter, and count - error is never more than what really came. A name is heavy when
 * that is at least one in HEAVY_COUNTERS of all, and HEAVY_LEAST.
 *
 * All counts are halved now and then: it is about who is heavy of late. Belongs to one thread.
 */
#ifndef TG_OBS_METRICS_HEAVY_H
#define TG_OBS_METRICS_HEAVY_H

#include <stdbool.h>
#include <stdint.h>

#define HEAVY_COUNTERS 64
#define HEAVY_LEAST 100
#define HEAVY_WINDOW 65536 /* what is counted before it is halved */

struct heavy {
    uint64_t hashes[HEAVY_COUNTERS];
    uint32_t counts[HEAVY_COUNTERS], errors[HEAVY_COUNTERS];
    uint32_t total;
};

/* Fresh is all zero. The name with this hash has come; says whether it is heavy. Two names of one
 * hash are taken for one: then one of them may be called heavy too early. */
bool heavy_add(struct heavy *heavy, uint64_t hash);

#endif
