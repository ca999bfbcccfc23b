/* recording_verdict.c - what a side makes of operations, compared with what was recorded.
 *
 * An operation is the same if it came to the same end for the same reason with the same key and
 * money; where the same store decided, the numbers of its answer are the same, too. The first
 * difference of a call is kept with its most likely cause, and the last word that was said to it is
 * its verdict.
 */
#include <string.h>

#include "cli/replay/recording_side_internal.h"

static bool same_outcome(const struct recorded_outcome *a, const struct recorded_outcome *b)
{
    return a->to == b->to && text_same(a->reason, b->reason) && a->reserved == b->reserved &&
           text_same(a->key, b->key);
}

static bool same_numbers(const struct recorded_outcome *a, const struct recorded_outcome *b)
{
    return a->charge == b->charge && a->limit == b->limit && a->remaining == b->remaining &&
           a->reset_at == b->reset_at && a->retry_after == b->retry_after;
}

bool recording_is_in_memory(const struct recording *recording)
{
    return strcmp(recording->store, "memory") == 0;
}

const char *recording_cause_of(const struct recording_side *side, const struct recorded_op *op)
{
    const struct recording *recording = side->recording;

    if (!side->config_is_its)
        return "configuration";
    if (side->changed != NULL)
        return side->changed;
    if (recording->first_missing != 0 && recording->first_missing < op->number)
        return "lost";
    if (!recording_is_in_memory(recording) && !side->gateway->is_told)
        return "redis";
    if (recording->inherited)
        return "inherited";
    if (recording->policy_learned)
        return "policy";
    return side->differed ? "earlier" : "unknown";
}

void recording_compare(struct actor *actor, const struct recorded_op *op,
                       const struct recorded_outcome *came)
{
    struct recording_side *side = actor->side;
    struct recording_verdict *verdict = &actor->verdict;

    if (actor->made_up != NULL)
        return; /* there is nothing to compare it with */
    side->n_ops++;
    /* Another store says otherwise what is left and when it may be tried again. */
    bool numbers = recording_is_in_memory(side->recording) || side->gateway->is_told;
    if (same_outcome(&op->came, came) && (!numbers || same_numbers(&op->came, came)))
        return;
    if (!verdict->differs)
        verdict->first = (struct recording_difference){op, *came, recording_cause_of(side, op)};
    verdict->differs = true;
    side->differed = true;
}

/* A call to a protected route, or of a caller of Admit, has no key: the gate has the last word. */
static bool is_decided_by(const struct recorded_op *op)
{
    const char *kind = op->call != NULL ? op->call->kind : NULL;

    return (op->place == PLACE_GATE || op->place == PLACE_LIMITS) && kind != NULL &&
           (strcmp(kind, "protect") == 0 || strcmp(kind, "admit") == 0);
}

void recording_judge(const char **verdict, const struct recorded_op *op,
                     const struct recorded_outcome *came)
{
    if (op->hint)
        return;
    if (op->kind == RECORDED_KEY_HELD) /* unless it draws another one */
        *verdict = "no_key";
    if (came->to == RESULT_REFUSED)
        *verdict = came->reason != NULL ? came->reason : "refused";
    else if (came->to == RESULT_FAILED)
        *verdict = "error";
    else if (came->to == RESULT_KEY || (came->to == RESULT_ADMITTED && is_decided_by(op)))
        *verdict = "admitted";
}
