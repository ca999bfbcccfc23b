/* waits.h - how long a call may wait for a slot, and which calls have waited too long.
 *
 * A class's wait is what the configuration says, or TG_WAIT_AUTO. At the door a call is refused
 * if it could not be served in time, by the expected wait
 *
 *     (calls ahead in its class, in order of service, + 1) x mean slot time / (limit x g)
 *
 * g is the part of the slots that its class gets: the larger of its share and of what the classes
 * above it leave, by how often they have been given a slot lately. To count all calls of those
 * classes as ahead instead would refuse every call of a lower class while high overloads, and its
 * share would go to nobody. Calls ahead count with the mean slot time of their tenant, where it is
 * known.
 *
 * A law that learns times (law_times()) has a queue that is bounded by them, for each class:
 *
 *     hold  = 5 x min(mean, 2 x base), or 3 x base if they are times to the first byte
 *     short = 0.5 x min(mean, 1.5 x base)
 *
 * but at least 4 and 2 times as long as it takes until a slot comes free.
 *
 * A class is OVER when its oldest call has waited for 0.75 hold, and no longer when it is empty
 * and nothing was refused for 10 means. While it is OVER the newest call of a tenant is served
 * first, and once it has not been empty for 5 means, none waits longer than `short`: most calls are
 * then served at once or refused soon, and none is served too late to be of use. A caller's own
 * deadline D after its arrival makes waiting useless after D - min(mean, D / 2).
 *
 * But that is for a class that is overloaded itself: one that, with those above it, holds all slots
 * that the shares of the lower classes leave to it. Another one waits because slots are held by
 * calls of lower classes, for as long as TG_WAIT_AUTO says. Turns between classes and tenants are
 * the same either way.
 */
#ifndef TG_ADMISSION_WAITS_H
#define TG_ADMISSION_WAITS_H

#include "lib/admission/stages.h"

/* Puts the ticket in the queue. False: it may not wait, or not for long enough. TG_ERR_MEMORY (then
 * true, and it does not wait). */
bool waits_enter(const struct passage *passage, struct ticket *ticket, enum tg_err *err);

/* Whether a call that came now would be let into the queue, and how long it might wait there. */
bool waits_may_enter(struct tg_gate *gate, const struct tg_call *call, tg_ms *wait);

/* Ends the waits that are over by the times of the law, and sees who is overloaded. */
void waits_bound(struct tg_gate *gate);

#endif
