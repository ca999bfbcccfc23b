/* gate_wait.h - a gate for programs that have a thread for each call: admit blocks while it waits.
 *
 *     struct gate_wait door;
 *     gate_wait_init(&door, &config, &problem)
 *     ...
 *     if (gate_wait_admit(&door, &call, &answer) == TG_OK && answer.decision.allowed) {
 *         serve();
 *         gate_wait_release(&door, answer.lease, &release);
 *     }
 *
 * It needs no thread of its own: callers that arrive or wait also let leases expire.
 */
#ifndef TG_POSIX_GATE_WAIT_H
#define TG_POSIX_GATE_WAIT_H

#include "io/posix/clock.h"
#include "tollgate.h"

struct gate_wait {
    struct tg_gate *gate; /* for set_memory and stats */
    struct clock clock;   /* the time of everything that is given to the gate */
};

/* Makes the gate; `wake` of the config is not used. TG_ERR_MEMORY. TG_ERR_INVALID,
 * also for a gate with a remote store: nobody here could ask that. */
TG_MUST_CHECK enum tg_err gate_wait_init(struct gate_wait *door,
                                         const struct tg_gate_config *config,
                                         struct tg_problem *problem);

/* See tg_gate_reconfigure(); what is said of the config above holds here, too. */
TG_MUST_CHECK enum tg_err gate_wait_reconfigure(struct gate_wait *door,
                                                const struct tg_gate_config *config,
                                                struct tg_problem *problem);

/* No thread may be using it any more. */
void gate_wait_fini(struct gate_wait *door);

/* Asks, and blocks until it is decided: at most as long as the call may wait. `waiter` of the call
 * is overwritten, and everything else of it must stay as it is meanwhile. By any number of threads.
 * Errors as of tg_gate_admit(). */
TG_MUST_CHECK enum tg_err gate_wait_admit(struct gate_wait *door, struct tg_call *call,
                                          struct tg_answer *answer);

/* Ends a lease now. */
bool gate_wait_release(struct gate_wait *door, tg_lease lease, const struct tg_release *release);

#endif
