/* decision.c - the algebra of decision.h, for callers outside. */
#include "lib/core/decision.h"

struct tg_decision tg_decision_combine(struct tg_decision a, struct tg_decision b)
{
    return decision_combine(a, b);
}

enum tg_axis tg_axes_binding(const struct tg_axes *axes)
{
    for (int axis = 0; axes && axis < TG_AXIS_COUNT; axis++)
        if (axes->present & 1u << axis && !axes->decision[axis].allowed)
            return (enum tg_axis)axis;
    return TG_AXIS_NONE;
}

struct tg_decision tg_axes_combine(const struct tg_axes *axes)
{
    return axes ? axes_combine(axes) : TG_ALLOW_FULL;
}

const struct tg_limit_answer *tg_axes_refusing(const struct tg_axes *axes)
{
    enum tg_axis axis = tg_axes_binding(axes);

    return axis == TG_AXIS_RATE || axis == TG_AXIS_COST ? &axes->named[axis] : NULL;
}

const char *tg_axis_name(enum tg_axis axis)
{
    static const char *const names[TG_AXIS_COUNT] = {"concurrency", "rate", "cost"};

    return (unsigned)axis < TG_AXIS_COUNT ? names[axis] : NULL;
}

struct tg_decision tg_decision_fold(const struct tg_decision *decisions, size_t n)
{
    struct tg_decision all = TG_ALLOW_FULL;

    for (size_t i = 0; decisions && i < n; i++)
        all = decision_combine(all, decisions[i]);
    return all;
}
