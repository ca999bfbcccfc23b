/* decision.h - how answers combine.
 *
 * Each field is combined by itself, by an operation that commutes, associates and is idempotent
 * (and, min, max), with an identity on the range [0, TG_NUMBER_MAX]. So the laws of tollgate.h
 * hold for the whole because they hold for each field; tests/prop/test_algebra.c shows it.
 *
 * The combination says what holds, but not whose limit it is: its limit may be one's and its
 * remaining another's. So with each axis goes the one limit to speak of, which axes_add() finds.
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

/* Whether `a` is to be named rather than `b`, which came before it: a refusal before an allow, then
 * the longer wait, or the lesser part that is left. Products of two numbers of a decision need 106
 * bits. */
static inline bool decision_is_nearer(const struct tg_decision *a, const struct tg_decision *b)
{
    __extension__ typedef unsigned __int128 product;

    if (a->allowed != b->allowed)
        return !a->allowed;
    if (!a->allowed)
        return a->retry_after_ms > b->retry_after_ms;
    return (product)a->remaining * (product)b->limit < (product)b->remaining * (product)a->limit;
}

/* Adds to an axis what some of its limits say together, and the one of them to speak of. */
static inline void axes_join(struct tg_axes *axes, enum tg_axis axis, const struct tg_decision *all,
                             const struct tg_limit_answer *named)
{
    struct tg_decision *sum = &axes->decision[axis];
    bool is_first = !(axes->present & 1u << axis);

    *sum = is_first ? *all : decision_combine(*sum, *all);
    if (is_first || decision_is_nearer(&named->decision, &axes->named[axis].decision))
        axes->named[axis] = *named;
    axes->present |= 1u << axis;
}

/* Adds the answer of one limit. */
static inline void axes_add(struct tg_axes *axes, enum tg_axis axis,
                            const struct tg_limit_answer *one)
{
    axes_join(axes, axis, &one->decision, one);
}

/* See tg_axes_combine(). */
static inline struct tg_decision axes_combine(const struct tg_axes *axes)
{
    struct tg_decision all = TG_ALLOW_FULL;

    for (int axis = 0; axis < TG_AXIS_COUNT; axis++)
        if (axes->present & 1u << axis)
            all = decision_combine(all, axes->decision[axis]);
    all.reset_at = num_max(all.reset_at, axes->reset_at);
    all.retry_after_ms = num_max(all.retry_after_ms, axes->retry_after_ms);
    return all;
}

/* The limit that a refusal by rate or cost speaks of, and its axis: that of tg_axes_refusing(). But
 * if rate refuses for a while, and cost can never admit the call, that is what matters. Null: there
 * is none. */
static inline const struct tg_limit_answer *axes_spoken_of(const struct tg_axes *axes,
                                                           enum tg_axis *axis)
{
    const struct tg_limit_answer *named = tg_axes_refusing(axes);
    const struct tg_limit_answer *cost = &axes->named[TG_AXIS_COST];

    *axis = tg_axes_binding(axes);
    if (!named || named == cost || !(axes->present & 1u << TG_AXIS_COST) ||
        named->decision.retry_after_ms == TG_UNSATISFIABLE ||
        cost->decision.retry_after_ms < TG_UNSATISFIABLE)
        return named;
    *axis = TG_AXIS_COST;
    return cost;
}

/* Nothing has been asked. What is not present is not read, so it is not cleared. */
static inline void axes_clear(struct tg_axes *axes)
{
    axes->present = axes->would_deny = 0;
    axes->reset_at = axes->retry_after_ms = 0;
}

#endif
