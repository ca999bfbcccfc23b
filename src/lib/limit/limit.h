/* limit.h - what the limiter strategies share.
 *
 * A strategy is one file that ends in one table: its operations, the settings it takes, and how
 * it makes itself ready. The registry in limiter.c lists the tables; adding a strategy touches
 * that list, TG_STRATEGIES, and the new file.
 */
#ifndef TG_LIMIT_LIMIT_H
#define TG_LIMIT_LIMIT_H

#include <assert.h>

#include "lib/core/num.h"
#include "tollgate.h"

enum limit_unit {
    LIMIT_UNITS,     /* a whole number of what is limited */
    LIMIT_TIME,      /* ms; a duration in a configuration file */
    LIMIT_PER_SECOND /* a double, fractions allowed */
};

/* One setting of a strategy: its name outside, its place in struct tg_limiter_config, its range.
 * A default of 0 says that it must be given. */
struct limit_field {
    const char *name;
    size_t offset;
    enum limit_unit unit;
    int64_t max;
    int64_t otherwise;
};

enum { LIMIT_FIELDS_MAX = 3 };

struct limit_strategy {
    struct tg_limiter_ops ops;
    struct limit_field fields[LIMIT_FIELDS_MAX]; /* ends at the first without a name */

    /* For a limiter whose charges are settled: its operations, where they differ, and what its
     * state has more at its end. */
    const struct tg_limiter_ops *settled_ops;
    size_t settled_bytes;

    /* Computes state_bytes and derived[] from a config whose fields are each in range; refuses
     * what the fields are not good for together. */
    enum tg_err (*prepare)(struct tg_limiter *limiter, struct tg_problem *problem);
};

extern const struct limit_strategy limit_gcra, limit_token_bucket, limit_fixed_window,
    limit_sliding_window, limit_sliding_log, limit_token_budget;

/* Null for a number that is no strategy. */
const struct limit_strategy *limit_strategy_of(enum tg_strategy strategy);

/* A field of a config as an integer; LIMIT_PER_SECOND fields are doubles and have their own. */
int64_t *limit_field_integer(struct tg_limiter_config *config, const struct limit_field *field);
double *limit_field_double(struct tg_limiter_config *config, const struct limit_field *field);

static inline void limit_allow(struct tg_decision *answer, int64_t limit, int64_t remaining,
                               tg_ms reset_at)
{
    assert(remaining >= 0 && remaining <= limit && reset_at >= 0);
    *answer = (struct tg_decision){true, limit, remaining, reset_at, 0};
}

static inline void limit_deny(struct tg_decision *answer, int64_t limit, int64_t remaining,
                              tg_ms reset_at, tg_ms retry_after_ms)
{
    assert(remaining >= 0 && remaining <= limit && reset_at >= 0 && retry_after_ms >= 1);
    *answer = (struct tg_decision){false, limit, remaining, reset_at, retry_after_ms};
}

/* Windows correct a charge in the place where it was counted. That is the place of its own time,
 * unless the clock had stepped back: then it was counted at the latest time that was known. The
 * end of a settled state is the last moment at which that has happened. A debt of a charge made
 * until then goes to the latest place of all, lest it leave the window before the charge does. */
static inline tg_ms *limit_stepped_until(const struct tg_limiter *limiter, const void *state)
{
    assert(limiter->settled);
    return (tg_ms *)((uintptr_t)state + limiter->state_bytes - sizeof(tg_ms));
}

/* A charge made at `now` is counted later than that. */
static inline void limit_note_step(const struct tg_limiter *limiter, void *state, tg_ms now)
{
    if (limiter->settled) {
        tg_ms *until = limit_stepped_until(limiter, state);
        *until = num_max(*until, now);
    }
}

/* Whether a charge made at `at` may have been counted later than that. */
static inline bool limit_stepped(const struct tg_limiter *limiter, const void *state, tg_ms at)
{
    return limiter->settled && at <= *limit_stepped_until(limiter, state);
}

static inline void limit_carry_step(const struct tg_limiter *limiter, void *state,
                                    const struct tg_limiter *from, const void *counted)
{
    if (from->settled)
        limit_note_step(limiter, state, *limit_stepped_until(from, counted));
}

/* A wait in ms as a hint: at least 1, and never the number that means "never". */
static inline tg_ms limit_hint(int64_t wait_ms)
{
    return num_min(num_max(wait_ms, 1), TG_UNSATISFIABLE - 1);
}

#endif
