/* crew.h - a number of threads that do the same work, round after round, each begun together. */
#ifndef CREW_H
#define CREW_H

#include <stddef.h>

enum { CREW_MAX = 8 };

/* Runs work(context, i, round) on `n` threads, i from 0 to n - 1, for every round. A round begins
 * when all have ended the one before. Assertions belong after it: a thread may not fail a test. */
void crew_run(size_t n, size_t rounds, void (*work)(void *context, size_t i, size_t round),
              void *context);

#endif /* CREW_H */
