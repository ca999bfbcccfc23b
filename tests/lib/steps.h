/* steps.h - the life of one key as a table: at this time, this is done, and this is the answer.
 *
 *     static const struct step table[] = {
 *         ALLOW(1000, 1, 5, 4, 1100),          now, cost -> limit, remaining, reset_at
 *         DENY(1000, 9, 5, 4, 1100, 500),      ... and retry_after
 *         REFUND(1050, 1000, 1, 1, 5, 5, 1050) now, charged at, cost, units -> what is there then
 *     };
 *     PLAY("gcra:limit=10,period=1000,burst=5", table);
 *
 * Beside each answer the player checks what holds for all of them: a peek and a refusal leave the
 * state as it was to the byte, and a take leaves what its answer said.
 */
#ifndef STEPS_H
#define STEPS_H

#include "check.h"

enum step_op {
    STEP_TAKE,
    STEP_PEEK,
    STEP_REFUND,
    STEP_SETTLE,
    STEP_FRESH_AT,
};

struct step {
    enum step_op op;
    tg_ms now;
    struct tg_charge charge; /* cost of a take */
    int64_t units;           /* what a refund gives back, or a settlement's actual */
    struct tg_decision want; /* the answer; after a refund and a settlement, that of a peek */
};

#define ALLOW(now, cost, limit, remaining, reset_at)                                               \
    {                                                                                              \
        STEP_TAKE, now, {now, cost}, 0,                                                            \
        {                                                                                          \
            true, limit, remaining, reset_at, 0                                                    \
        }                                                                                          \
    }
#define DENY(now, cost, limit, remaining, reset_at, retry_after)                                   \
    {                                                                                              \
        STEP_TAKE, now, {now, cost}, 0,                                                            \
        {                                                                                          \
            false, limit, remaining, reset_at, retry_after                                         \
        }                                                                                          \
    }
#define PEEK(now, limit, remaining, reset_at)                                                      \
    {                                                                                              \
        STEP_PEEK, now, {now, 0}, 0,                                                               \
        {                                                                                          \
            true, limit, remaining, reset_at, 0                                                    \
        }                                                                                          \
    }
#define REFUND(now, at, cost, units, limit, remaining, reset_at)                                   \
    {                                                                                              \
        STEP_REFUND, now, {at, cost}, units,                                                       \
        {                                                                                          \
            true, limit, remaining, reset_at, 0                                                    \
        }                                                                                          \
    }
#define SETTLE(now, at, cost, actual, limit, remaining, reset_at)                                  \
    {                                                                                              \
        STEP_SETTLE, now, {at, cost}, actual,                                                      \
        {                                                                                          \
            true, limit, remaining, reset_at, 0                                                    \
        }                                                                                          \
    }
/* From when on the state may be forgotten. */
#define FRESH_AT(at)                                                                               \
    {                                                                                              \
        STEP_FRESH_AT, 0, {0, 0}, 0,                                                               \
        {                                                                                          \
            true, 0, 0, at, 0                                                                      \
        }                                                                                          \
    }

/* Plays a table from a fresh state. */
#define PLAY(spec, table) play_steps(spec, table, COUNT_OF(table), __FILE__, __LINE__)

void play_steps(const char *spec, const struct step *steps, size_t n, const char *file, int line);

#endif /* STEPS_H */
