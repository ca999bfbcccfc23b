/* guard.c - the shadow of a policy, and what it makes the policy do. See guard.h. */
#include "lib/policy/guard.h"

#include <assert.h>
#include <math.h>

#include "lib/policy/fluid.h"

static const double KEPT = 0.99;      /* the part of what the shadow earns */
static const double BURST = 1.0 / 16; /* slot-seconds the shadow can save up, in windows */
static const double ROUNDING = 1e-12; /* in parts of a budget */

enum { STOCKS = FLUID_HOLD }; /* rate and cost */

void guard_init(struct guard *guard, bool on)
{
    *guard = (struct guard){.on = on};
    guard_replenish(guard, 1, false, true);
}

void guard_replenish(struct guard *guard, double part, bool steady, bool anew)
{
    for (int a = 0; a < STOCKS; a++)
        guard->left[a] = anew ? 1 : steady ? fmin(1, guard->left[a] + part) : guard->left[a];
    guard->left[FLUID_HOLD] = fmin(BURST, guard->left[FLUID_HOLD] + part);
    guard->guessed = anew ? 0 : steady ? fmax(0, guard->guessed * (1 - part)) : guard->guessed;
}

void guard_learn(struct guard *guard, double less, double held)
{
    double *cost = &guard->left[FLUID_COST];

    *cost = fmin(1, *cost + less * (held + guard->guessed));
}

static bool shadow_admits(const struct guard *guard, const double use[MIX_AXES])
{
    for (int a = 0; a < STOCKS; a++)
        if (guard->left[a] + ROUNDING < use[a])
            return false;
    return use[FLUID_HOLD] <= 0 || guard->left[FLUID_HOLD] >= 0;
}

/* The policy has room for the call, but would have less left than the shadow. */
static bool leaves_less(const struct guard *guard, const double use[MIX_AXES],
                        const double left[MIX_AXES])
{
    bool less = false;

    for (int a = 0; a < STOCKS; a++) {
        if (left[a] < use[a])
            return false; /* the limit itself will refuse it, if it is as the policy was told */
        less |= use[a] > 0 && left[a] - use[a] + ROUNDING < guard->left[a];
    }
    return less;
}

bool guard_judge(struct guard *guard, double value, const double use[MIX_AXES], double asked,
                 const double left[MIX_AXES], bool worth)
{
    bool admits = shadow_admits(guard, use), admit = worth;

    if (admits) {
        guard->shadow += value;
        for (int a = 0; a < MIX_AXES; a++)
            guard->left[a] -= use[a];
    }
    if (!guard->on)
        admit = worth;
    else if (admits && !worth)
        admit = guard->earned < KEPT * guard->shadow;
    else if (!admits && worth)
        admit = !leaves_less(guard, use, left);
    guard->acted += admit != worth;
    guard->guessed += admits && !admit ? asked : 0;
    return admit;
}

void guard_admitted(struct guard *guard, double value)
{
    assert(value >= 0);
    guard->earned += value;
}

/* Whether the shadow had admitted it is not kept. It had if it could admit it again; where that is
 * in doubt the shadow keeps the value, which errs on the side of admitting. */
void guard_refused(struct guard *guard, double value, const double use[MIX_AXES])
{
    if (!shadow_admits(guard, use))
        return;
    guard->shadow = fmax(0, guard->shadow - value);
    for (int a = 0; a < STOCKS; a++)
        guard->left[a] = fmin(1, guard->left[a] + use[a]);
    guard->left[FLUID_HOLD] = fmin(BURST, guard->left[FLUID_HOLD] + use[FLUID_HOLD]);
}
