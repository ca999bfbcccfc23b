/* own_slot.c - slots of a kind first, then the gate of all calls: see own_slot.h. */
#include "server/runtime/own_slot.h"

#include <assert.h>

enum { DECIDING_MS = 600000 }; /* a gate gives a call so long to be decided, too */

static void end_run(struct admission_run *run, tg_ms now)
{
    struct tg_release release;

    tg_release_init(&release);
    release.outcome = TG_OUTCOME_REFUSED;
    admission_run_end(run, now, &release);
}

/* What the gate has come to. A call that it turned away was never at work: its own slot gets no
 * sample. */
static enum admission_state follow_gate(struct own_slot *own, enum admission_state state, tg_ms now)
{
    if (state == ADMISSION_REFUSED || state == ADMISSION_FAILED)
        end_run(&own->run, now);
    return state;
}

/* What the slots of its kind have come to. */
static enum admission_state follow_own(struct own_slot *own, struct admission_run *gate,
                                       enum admission_state state, tg_ms now,
                                       struct tg_answer *answer)
{
    if (state == ADMISSION_ADMITTED)
        return follow_gate(own, admission_run_admit(gate, now, answer), now);
    if (state == ADMISSION_WAITING)
        return state;
    assert(state == ADMISSION_REFUSED || state == ADMISSION_FAILED);
    end_run(gate, now);
    return state;
}

void own_slot_init(struct own_slot *own, struct tg_gate *slots, const struct admission_ops *ops,
                   const char *kind, const char *name)
{
    tg_call_init(&own->call);
    own->call.gate_kind = kind;
    own->call.gate_name = name;
    admission_run_init(&own->run, slots, &own->call, ops);
}

enum admission_state own_slot_admit(struct own_slot *own, struct admission_run *gate,
                                    struct tg_call *call, tg_ms now, struct tg_answer *answer)
{
    enum admission_state state;

    if (own->run.gate == NULL)
        return admission_run_admit(gate, now, answer);
    state = admission_run_precheck(gate, now, answer);
    if (state != ADMISSION_CHECKED)
        return state;
    own->call.priority = call->priority;
    own->call.tenant = call->tenant;
    own->call.tenant_bytes = call->tenant_bytes;
    own->call.weight = call->weight;
    own->call.deadline = call->deadline;
    /* Its owner ends it with the gate's lease, which begins when the gate has admitted the call. */
    own->call.lease_ttl = call->lease_ttl > 0 ? call->lease_ttl + DECIDING_MS : 0;
    own->call.waiter = call->waiter;
    state = admission_run_admit(&own->run, now, answer);
    if (state == ADMISSION_WAITING)
        call->deadline = own->run.deadline;
    return follow_own(own, gate, state, now, answer);
}

enum admission_state own_slot_wake(struct own_slot *own, struct admission_run *gate,
                                   struct tg_call *call, tg_ms now, struct tg_answer *answer)
{
    if (own->run.state != ADMISSION_WAITING)
        return follow_gate(own, admission_run_wake(gate, now, answer), now);
    /* Its name may have moved while it waited. */
    own->call.tenant = call->tenant;
    return follow_own(own, gate, admission_run_wake(&own->run, now, answer), now, answer);
}

enum admission_state own_slot_store_answered(struct own_slot *own, struct admission_run *gate,
                                             tg_ms now, enum tg_err outcome,
                                             const struct tg_axes *axes, struct tg_answer *answer)
{
    return follow_gate(own, admission_run_store_answered(gate, now, outcome, axes, answer), now);
}

void own_slot_end(struct own_slot *own, struct admission_run *gate, tg_ms now,
                  const struct tg_release *release)
{
    admission_run_end(gate, now, release);
    admission_run_end(&own->run, now, release);
}
