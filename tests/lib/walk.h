/* walk.h - a property tried on many random limiters, each over a random stretch of time.
 *
 * A walk is one limiter with random parameters, a clock and a stream of chance. walk_all() makes
 * hundreds of them for each strategy, hands each to the property, counts the cases that were
 * checked and wants at least 100,000. A failure names the seed, the limiter and the time.
 */
#ifndef WALK_H
#define WALK_H

#include "subject.h"

#define CASES_WANTED 100000

struct walk {
    const char *promise;
    uint64_t seed;
    struct draw draw;
    struct subject subject;
    tg_ms now;
    tg_ms earliest; /* earliest time that the clock has shown */
    tg_ms latest;
    struct tg_charge earlier; /* for the property: a charge that is not ended yet */
    long cases;
};

/* All six strategies, as a set of bits. */
#define WALK_ALL_STRATEGIES ((1u << TG_STRATEGY_COUNT) - 1u)

/* Runs `visit` on walks of every strategy in the set. */
void walk_all(const char *promise, uint64_t seed, unsigned strategies, int walks_each,
              void (*visit)(struct walk *walk));

/* Moves the clock on: often not at all, mostly less than it takes to be fresh, at times more. */
void walk_forward(struct walk *walk);

/* Moves the clock forward, or back, though never before 0. */
void walk_astray(struct walk *walk);

/* One case: unless `truth`, fails the test with where the walk is and a formatted reason. */
#define walk_check(walk, truth, ...)                                                               \
    do {                                                                                           \
        (walk)->cases++;                                                                           \
        if (!(truth))                                                                              \
            walk_fail(walk, __FILE__, __LINE__, __VA_ARGS__);                                      \
    } while (0)

void walk_fail(const struct walk *walk, const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Says how many cases a property was tried on, and wants enough of them. */
void cases_report(const char *promise, long cases);

#endif /* WALK_H */
