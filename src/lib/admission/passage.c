/* passage.c - what a call brings to the gate, and what it is answered. See stages.h. */
#include <string.h>

#include "lib/admission/stages.h"
#include "lib/core/decision.h"
#include "lib/core/num.h"

/* With weights further apart, turns could no longer be told apart by a double. */
static const double WEIGHT_MIN = 1e-6, WEIGHT_MAX = 1e6;

static enum tg_err check_call(const struct tg_call *call, tg_ms now)
{
    const struct tg_factor *factor = charge_bounds(call);
    bool fine = (unsigned)call->priority < TG_PRIORITY_COUNT && num_in_range(now) &&
                call->peer_limit >= 0 && num_in_range(call->deadline) &&
                num_in_range(call->lease_ttl) && num_in_range(call->work) &&
                call->weight >= WEIGHT_MIN && call->weight <= WEIGHT_MAX &&
                (factor == &CHARGE_DEFAULTS ||
                 (factor->min >= TG_FACTOR_MIN && factor->min <= factor->start &&
                  factor->start <= factor->max && factor->max <= TG_FACTOR_MAX));

    return fine ? TG_OK : TG_ERR_INVALID;
}

/* The scopes of a call whose limits are elsewhere; any of them may be on the cost axis. */
static enum tg_err name_scopes(const struct tg_gate *gate, const struct tg_debit *debit,
                               struct claim *named)
{
    if (!debit->scopes || debit->n_scopes > TG_SCOPES_MAX || !num_in_range(debit->cost))
        return TG_ERR_INVALID;
    memset(named, 0, offsetof(struct claim, ids));
    named->n = (uint16_t)debit->n_scopes;
    named->has_cost = true;
    named->cost = debit->cost;
    for (size_t i = 0; i < debit->n_scopes; i++)
        named->ids[i] = stages_scope_id(gate, &debit->scopes[i]);
    return TG_OK;
}

/* The call as this version knows it, which is `given` itself if its caller is of the same. Null: it
 * was not initialized. */
static const struct tg_call *call_of(const struct tg_call *given, struct tg_call *copy)
{
    if (given->struct_size == sizeof *given)
        return given;
    return sized_read(copy, sizeof *copy, given, CALL_FIRST) ? copy : NULL;
}

enum tg_err passage_begin(struct passage *passage, struct tg_gate *gate,
                          const struct tg_call *given, tg_ms now, struct tg_call *copy,
                          struct claim *claim, struct tg_answer *answer)
{
    const struct tg_call *call = call_of(given, copy);
    enum tg_err err = call ? check_call(call, now) : TG_ERR_UNINITIALIZED;

    /* Field by field, and not what nobody reads before it is set: to clear all takes as long as to
     * look a key up. */
    passage->gate = gate;
    passage->call = call;
    passage->claim = passage->named = NULL;
    passage->has_like = passage->remote = passage->known = false;
    passage->now = now;
    passage->answer = answer;
    passage->policy = NULL;
    passage->in_flight = 0;
    answer->step = TG_DECIDED;
    answer->lease = 0;
    answer->deadline = 0;
    answer->charge = 0;
    answer->factor = 0;
    answer->decision = (struct tg_decision){0};
    answer->reason = TG_REASON_NONE;
    answer->policy_denied = false;
    axes_clear(&answer->axes);
    answer->would_deny = 0;
    answer->memory_used = 0;
    answer->client_wait_ms = 0;
    if (err)
        return err;
    if (call->like) {
        passage->has_like = true;
        passage->like = stages_like_id(gate, call);
    }
    if (call->debit.n_scopes == 0)
        return TG_OK;
    passage->remote = gate->remote_store;
    if (gate->store) {
        passage->claim = passage->named = claim;
        err = claim_make(gate->store, &call->debit, claim);
    } else if (gate->remote_store) {
        passage->named = claim;
        err = name_scopes(gate, &call->debit, claim);
    }
    return err;
}

/* An answer goes to the caller once it is certain that there is one. Field by field, and only what
 * is there: to copy the whole takes longer than to decide a refusal. The decision of a call that
 * nobody has refused is made here, where it stays: a copy would wait for what was just written. */
void passage_hand_over(struct tg_answer *to, const struct tg_answer *from)
{
    to->step = from->step;
    to->lease = from->lease;
    to->deadline = from->deadline;
    to->charge = from->charge;
    to->factor = from->factor;
    if (from->step == TG_DECIDED && from->reason == TG_REASON_NONE)
        to->decision = axes_combine(&from->axes);
    else
        to->decision = from->decision;
    to->reason = from->reason;
    to->policy_denied = from->policy_denied;
    to->would_deny = from->would_deny;
    to->memory_used = from->memory_used;
    to->client_wait_ms = from->client_wait_ms;
    to->axes.present = from->axes.present & 1u << TG_AXIS_CONCURRENCY;
    to->axes.would_deny = from->axes.would_deny;
    if (to->axes.present != 0)
        to->axes.decision[TG_AXIS_CONCURRENCY] = from->axes.decision[TG_AXIS_CONCURRENCY];
    passage_copy_limits(&to->axes, &from->axes);
}
