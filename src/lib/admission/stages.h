/* stages.h - a call on its way through the stages, and the stages that need the gate's lock.
 *
 * A stage that returns a bool returns whether it has refused the call; the answer then says so.
 * What it takes for a call belongs to the call's ticket.
 */
#ifndef TG_ADMISSION_STAGES_H
#define TG_ADMISSION_STAGES_H

#include "lib/admission/gate.h"
#include "lib/core/num.h"
#include "lib/core/sized.h"

/* What the first version of a call ended with. */
#define CALL_FIRST SIZED_TO(struct tg_call, known)

/* The hint of a refusal for memory or peers, which nobody can foresee the end of. */
enum { STAGES_HINT_MS = 100 };

/* A call on its way through the stages. */
struct passage {
    struct tg_gate *gate;
    const struct tg_call *call;
    struct claim *claim; /* null: no rate and no cost axis here */
    struct claim
        *named;    /* the same; where they are decided elsewhere, the ids of the scopes and the
                            cost alone are set. Null: the call has no scopes */
    bool has_like; /* `like` is set */
    bool remote;   /* they are decided elsewhere */
    bool known;    /* its lease is: it may be released, or end, while it is decided */
    tg_ms now;
    struct tg_answer *answer;
    struct tg_policy *policy; /* null: every call is worth it */
    enum tg_mode policy_mode;
    int64_t in_flight;    /* slots that were held when it got its own; 0: it has none */
    struct table_id peer; /* its name, if the call has one; hashed before the lock is taken */
    struct table_id like; /* what calls like it are known by, if the call says so; the same */
};

/* ---- passage.c ---- */

/* Checks what a call says, and makes passage and answer ready; `copy` and `claim` are its room. */
enum tg_err passage_begin(struct passage *passage, struct tg_gate *gate,
                          const struct tg_call *given, tg_ms now, struct tg_call *copy,
                          struct claim *claim, struct tg_answer *answer);

/* The answer goes to the caller. */
void passage_hand_over(struct tg_answer *to, const struct tg_answer *from);

/* ---- stages.c ---- */

/* A stage in shadow would have refused: counts it, and says so in the answer. */
void stages_would_deny(struct tg_gate *gate, struct tg_answer *answer, enum tg_reason reason);

/* The answer is no. Returns true. */
bool stages_refuse(struct tg_gate *gate, struct tg_answer *answer, enum tg_reason reason,
                   struct tg_decision decision);

static inline void stages_set_axis(struct tg_axes *axes, enum tg_axis axis,
                                   struct tg_decision decision)
{
    axes->decision[axis] = decision;
    axes->present |= 1u << axis;
}

/* Copies what limits say, and no more than is there. */
static inline void passage_copy_limits(struct tg_axes *to, const struct tg_axes *from)
{
    for (int axis = TG_AXIS_RATE; axis <= TG_AXIS_COST; axis++)
        if (from->present & 1u << axis) {
            stages_set_axis(to, (enum tg_axis)axis, from->decision[axis]);
            to->named[axis] = from->named[axis];
        }
    to->reset_at = from->reset_at;
    to->retry_after_ms = from->retry_after_ms;
}

/* Under what name a peer is counted. Needs no lock: the seed never changes. */
struct table_id stages_peer_id(const struct tg_gate *gate, const void *peer, size_t bytes);

/* Whom waiting is fair among. */
struct table_id stages_tenant_id(const struct tg_gate *gate, const struct tg_call *call);

/* What calls like this one, which says so, are known by. Needs no lock, either. */
struct table_id stages_like_id(const struct tg_gate *gate, const struct tg_call *call);

/* The id of a scope whose limits are in a store elsewhere. Nor does this. */
struct table_id stages_scope_id(const struct tg_gate *gate, const struct tg_scope *scope);

/* Stage 1. */
bool stages_memory(const struct passage *passage);

/* Stage 2: counts the peer for the ticket. TG_ERR_MEMORY. */
bool stages_peers(const struct passage *passage, struct ticket *ticket, enum tg_err *err);

/* Stage 3: gets a slot for the ticket, or a place in the queue. TG_ERR_MEMORY. */
bool stages_slot(const struct passage *passage, struct ticket *ticket, enum tg_err *err);

/* A slot is free, and nobody who waits has an older claim to it. */
bool stages_may_start(const struct tg_gate *gate, enum tg_priority priority);

/* What a call is told that finds no slot and may not wait for one. */
struct tg_decision stages_no_slot(const struct tg_gate *gate, enum tg_priority priority, tg_ms now);

/* How long its client is told to wait. */
tg_ms stages_client_wait(const struct tg_gate *gate, enum tg_priority priority);

/* What the concurrency axis says of a call that has its slot. */
static inline struct tg_decision stages_slot_taken(const struct tg_gate *gate, tg_ms now)
{
    int64_t limit = law_limit(&gate->law);

    return (struct tg_decision){true, limit, num_less(limit, gate->in_flight), now, 0};
}

/* The call is refused for want of a slot: at once, or after it has waited. Returns true. */
bool stages_overloaded(struct tg_gate *gate, enum tg_priority priority, struct tg_answer *answer,
                       tg_ms now);

#endif
