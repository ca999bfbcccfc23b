/* recording_actor.h - one call of a recording, and what its operations do to the gateway.
 *
 * An operation is repeated as the gateway did it, by the same functions of the library, at the time
 * that it is given. Who does what when, and what it means, is for recording_side.h.
 */
#ifndef TG_REPLAY_RECORDING_ACTOR_H
#define TG_REPLAY_RECORDING_ACTOR_H

#include "cli/replay/recording_side.h"
#include "lib/admission/admission_run.h"

/* A call in replay. */
struct actor {
    struct recording_side *side;
    struct recorded_call *call;
    const char *who;               /* whose limits; null: those of its tenant */
    struct generation *generation; /* the configuration that it runs under */
    struct tg_scope scopes[TG_SCOPES_MAX];
    struct tg_call gate_call, slot_call;
    struct admission_run gate, slot;
    struct spending_ticket money;   /* reservation 0: none */
    tg_key_lease key;               /* 0: none */
    const struct recorded_op *next; /* what it does next; up to: */
    const struct recorded_op *end;
    struct recorded_op *made_up; /* what it did not do then; null: nothing is */

    const struct recorded_op
        *op; /* what it does now, or did last; null: nothing that was recorded */
    struct recorded_outcome stored; /* what was decided while the remote store was asked then */
    bool is_stored;

    bool is_astray;
    bool is_over;  /* it was refused: what was recorded of it does not happen */
    bool is_woken; /* in the list of the side */
    tg_ms shift;   /* astray: how much later than then it does what it did */
    tg_ms next_at; /* astray: when it goes on, if it is in the heap */
    bool in_heap;
    struct heap_node node;
    struct actor *next_woken, *next_actor, **link;
    struct recording_verdict verdict;
};

/* Does one operation now. False: it makes no sense here, and there is nothing to compare. */
bool actor_do(struct actor *actor, const struct recorded_op *op, tg_ms now,
              struct recorded_outcome *came);

/* It is refused, or ends: everything goes back as if it had never been sent. */
void actor_give_all_back(struct actor *actor, tg_ms now);

/* The run that waits for a slot; null: none does. */
struct admission_run *actor_waiting_run(struct actor *actor);

struct recorded_outcome outcome_of_run(const struct admission_run *run,
                                       const struct tg_answer *answer);

#endif
