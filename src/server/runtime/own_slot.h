/* own_slot.h - the way of a call through the slots of its kind and then the gate of all calls.
 *
 *          memory and peers             a slot of its kind         the rest of the gate
 *     IDLE ------------------> CHECKED ---------------------> ... ------------------> ADMITTED
 *           the gate's run               the own slot's run          the gate's run
 *
 * The slot of its kind comes first because it is where calls wait as a rule, and a call that waits
 * must neither have been charged nor hold a slot that others could use. One deadline spans both:
 * who has waited for the first does not get its time anew at the second.
 *
 * For calls that have one kind from their beginning: those of protected routes, and of callers of
 * Admit. A call to a model may change its kind on the way, by a fallback, and does the same in
 * call_admit.c. Without slots of its own a call asks the gate alone.
 */
#ifndef TG_RUNTIME_OWN_SLOT_H
#define TG_RUNTIME_OWN_SLOT_H

#include "lib/admission/admission_run.h"

struct own_slot {
    struct admission_run run; /* its gate is null: there are no slots of its own */
    struct tg_call call;
};

/* `slots` null: there are none. Kind and name are whose they are in a message: "route", "/api". */
void own_slot_init(struct own_slot *own, struct tg_gate *slots, const struct admission_ops *ops,
                   const char *kind, const char *name);

/* Asks for everything. `gate` is the run at the gate of all calls and `call` its call, whose
 * deadline becomes an earlier one where it waited for its own slot. The state is that of the two
 * together. A slot of its own is held while the gate is asked and in ADMITTED, only. */
enum admission_state own_slot_admit(struct own_slot *own, struct admission_run *gate,
                                    struct tg_call *call, tg_ms now, struct tg_answer *answer);
enum admission_state own_slot_wake(struct own_slot *own, struct admission_run *gate,
                                   struct tg_call *call, tg_ms now, struct tg_answer *answer);
enum admission_state own_slot_store_answered(struct own_slot *own, struct admission_run *gate,
                                             tg_ms now, enum tg_err outcome,
                                             const struct tg_axes *axes, struct tg_answer *answer);

/* Both are given back, whatever the state, and again. */
void own_slot_end(struct own_slot *own, struct admission_run *gate, tg_ms now,
                  const struct tg_release *release);

static inline enum admission_state own_slot_state(const struct own_slot *own,
                                                  const struct admission_run *gate)
{
    return own->run.state == ADMISSION_WAITING ? ADMISSION_WAITING : gate->state;
}

/* ADMISSION_REFUSED: the call that was refused, there or by the gate, whose call is `call`. */
static inline const struct tg_call *own_slot_refused(const struct own_slot *own,
                                                     const struct tg_call *call)
{
    return own->run.state == ADMISSION_REFUSED ? &own->call : call;
}

/* ADMISSION_FAILED: why. */
static inline enum tg_err own_slot_err(const struct own_slot *own, const struct admission_run *gate)
{
    return own->run.state == ADMISSION_FAILED ? own->run.err : gate->err;
}

/* The leases of an admitted call get their whole time to live again. */
static inline void own_slot_renew(const struct own_slot *own, const struct admission_run *gate,
                                  tg_ms now)
{
    admission_run_renew(gate, now);
    admission_run_renew(&own->run, now);
}

#endif
