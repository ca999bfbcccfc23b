/* guard.h - a policy that never does harm: it is held to what would be earned without it.
 *
 * Beside the policy runs a shadow: the same calls and the same budgets, and whatever fits is
 * admitted. The guard keeps two promises, since the start and at every moment:
 *
 *     earned >= 0.99 x what the shadow has earned               (tests/prop/test_guard.c)
 *     no less is left of a budget than the shadow has
 *
 * The second makes the first possible: as long as it holds, what the shadow admits can be admitted.
 * So a call that the policy would refuse is admitted if refusing it would break the first, and one
 * that only the policy has room for is refused if admitting it would break the second. Where the
 * policy has earned more than the shadow, it may risk that much.
 *
 * What a refused call would have used is never known: the shadow pays for it what calls are
 * expected to use, and when that becomes known better, what it has paid is corrected. (To let
 * refused calls cost the shadow nothing would be safe whatever they use; but then the shadow never
 * runs out of budget as long as the policy does not, and no policy could refuse more than 1 % of
 * anything.)
 *
 * Slots are not a stock. The shadow has slot-seconds that come back as time passes, and admits
 * while it owes none.
 *
 * What is promised is about the budgets that the policy was told. If the limits give more, the
 * shadow does not know (`check` warns of it).
 *
 * One thread at a time, O(1) a call.
 */
#ifndef TG_POLICY_GUARD_H
#define TG_POLICY_GUARD_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/policy/mix.h"

struct guard {
    bool on;
    double earned;         /* value of the calls that were admitted */
    double shadow;         /* value of those that the shadow admitted */
    double left[MIX_AXES]; /* what the shadow has left, in parts of its budgets */
    double guessed;        /* cost that refused calls asked for, in parts of its budget */
    uint64_t acted;        /* calls that it has decided differently from the policy */
};

void guard_init(struct guard *guard, bool on);

/* So much of a window has passed. Budgets are filled by as much if `steady`, and wholly if a new
 * window has begun. */
void guard_replenish(struct guard *guard, double part, bool steady, bool anew);

/* A call has come, of which the policy thinks `worth`, and the shadow decides it. `use` is what it
 * takes of each budget, `asked` the cost that it asks for; `left` is what the policy has left.
 * Returns whether it is to be admitted. */
bool guard_judge(struct guard *guard, double value, const double use[MIX_AXES], double asked,
                 const double left[MIX_AXES], bool worth);

/* Calls use so much less of what they ask for than was expected: a part of it, negative if more.
 * Those in flight have asked for `held`. */
void guard_learn(struct guard *guard, double less, double held);

void guard_admitted(struct guard *guard, double value);

/* A call that was to be admitted was refused by a limit that the policy knows nothing of, and would
 * have been refused without policy. */
void guard_refused(struct guard *guard, double value, const double use[MIX_AXES]);

#endif
