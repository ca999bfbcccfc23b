/* overbook.c - how much more than estimated a model's calls use, learned from how they end.
 *
 * Tokens are reserved before a call is sent, from an estimate that is often too low. The factor is
 * the ratio used / estimated that COVERED of the calls stay within, followed call by call: it goes
 * up by a large part of a step when a call used more than it allows, and down by a small part when
 * one used less, in such a proportion that both balance exactly there:
 *
 *     used / estimated > factor:   factor += STEP * COVERED
 *     else                         factor -= STEP * (1 - COVERED)
 *
 * A step does not depend on by how much a call was off. So one absurd usage moves the factor by
 * STEP at most, whatever it says; it rises within a hundred calls and comes down within a thousand,
 * slowly, as a reservation that is too small hurts others. The average of the ratio plus a multiple
 * of its spread was rejected: it follows the largest values most, which are the least to be
 * believed.
 *
 * Threads: the factor is the bits of a double in one word that is replaced by compare and swap, and
 * `max` never changes after init. Relaxed: the word guards nothing but itself, and a reader may get
 * the value from before a learner or after it. tests/thread/test_keypool_threads.c runs it under
 * TSan.
 */
#include <string.h>

#include "lib/core/num.h"
#include "lib/core/problem.h"

#define COVERED 0.9
#define STEP 0.02
#define FACTOR_MAX 1000.0

enum { FACTOR, MAX }; /* places in state */

static uint64_t bits_of(double x)
{
    uint64_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static double double_of(uint64_t bits)
{
    double x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

enum tg_err tg_overbook_init(struct tg_overbook *overbook, double start, double max,
                             struct tg_problem *problem)
{
    if (!(max >= 1 && max <= FACTOR_MAX))
        return problem_say(problem, TG_ERR_INVALID, "overbook: max is %g; 1 to %g is allowed", max,
                           FACTOR_MAX);
    if (!(start >= 1 && start <= max))
        return problem_say(problem, TG_ERR_INVALID,
                           "overbook: start is %g; 1 to max, which is %g, is allowed", start, max);
    *overbook = (struct tg_overbook){{bits_of(start), bits_of(max), 0, 0}};
    return TG_OK;
}

double tg_overbook_factor(const struct tg_overbook *overbook)
{
    return double_of(__atomic_load_n(&overbook->state[FACTOR], __ATOMIC_RELAXED));
}

int64_t tg_overbook_apply(const struct tg_overbook *overbook, int64_t tokens)
{
    if (tokens <= 0)
        return tokens;
    /* Never less than the estimate itself, which as a double might have been rounded. */
    return num_max(num_min(tokens, TG_NUMBER_MAX),
                   num_ceil((double)tokens * tg_overbook_factor(overbook)));
}

static double moved(double factor, double ratio, double max)
{
    double next = ratio > factor ? factor + STEP * COVERED : factor - STEP * (1 - COVERED);

    return next < 1 ? 1 : next > max ? max : next;
}

void tg_overbook_learn(struct tg_overbook *overbook, int64_t estimated, int64_t used)
{
    double max = double_of(overbook->state[MAX]);
    uint64_t old = __atomic_load_n(&overbook->state[FACTOR], __ATOMIC_RELAXED), next;

    if (estimated <= 0 || used <= 0)
        return;
    do {
        next = bits_of(moved(double_of(old), (double)used / (double)estimated, max));
    } while (!__atomic_compare_exchange_n(&overbook->state[FACTOR], &old, next, true,
                                          __ATOMIC_RELAXED, __ATOMIC_RELAXED));
}
