/* decision.h - how answers combine.
 *
 * Each field is combined by itself, by an operation that commutes, associates and is idempotent
 * (and, min, max), with an identity on the range [0, TG_NUMBER_MAX]. So the laws of tollgate.h
 * hold for the whole because they hold for each field; tests/prop/test_algebra.c shows it.
 */
#ifndef TG_CORE_DECISION_H
#define TG_CORE_DECISION_H

#include "lib/core/num.h"

static inline struct tg_decision decision_combine(struct tg_decision a, struct tg_decision b)
{
    return (struct tg_decision){
        .allowed = a.allowed && b.allowed,
        .limit = num_min(a.limit, b.limit),
        .remaining = num_min(a.remaining, b.remaining),
        .reset_at = num_max(a.reset_at, b.reset_at),
        .retry_after_ms = num_max(a.retry_after_ms, b.retry_after_ms),
    };
}

#endif
