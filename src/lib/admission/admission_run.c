/* admission_run.c - the step machine of a call on its way through a gate. See admission_run.h. */
#include "lib/admission/admission_run.h"

#include <string.h>

/* A decision about rate and cost alone, in the form of a gate's. */
static void answer_of_axes(const struct tg_axes *axes, struct tg_answer *answer)
{
    static const enum tg_reason reasons[] = {[TG_AXIS_CONCURRENCY] = TG_REASON_CONCURRENCY,
                                             [TG_AXIS_RATE] = TG_REASON_RATE,
                                             [TG_AXIS_COST] = TG_REASON_COST};
    enum tg_axis binding = tg_axes_binding(axes);

    memset(answer, 0, sizeof *answer);
    answer->step = TG_DECIDED;
    answer->axes = *axes;
    answer->decision = tg_axes_combine(axes);
    answer->reason = binding != TG_AXIS_NONE ? reasons[binding] : TG_REASON_NONE;
    for (int axis = 0; axis < TG_AXIS_COUNT; axis++)
        if (axes->would_deny & 1u << axis)
            answer->would_deny |= 1u << reasons[axis];
}

/* The store has answered. What it has charged is the run's from here on, unless the gate has no
 * use for it any more: then it is given back at once. */
static enum tg_err take_store_answer(struct admission_run *run, tg_ms now, enum tg_err outcome,
                                     const struct tg_axes *axes, struct tg_answer *answer)
{
    bool charged = outcome == TG_OK && tg_axes_binding(axes) == TG_AXIS_NONE;
    enum tg_err err = outcome;

    if (run->gate != NULL)
        err = tg_gate_store_answered(run->gate, run->lease, outcome, axes, now, answer);
    else if (!err)
        answer_of_axes(axes, answer);
    assert(outcome == TG_OK || err != TG_OK);
    run->is_charged = charged && !err;
    if (charged && err)
        run->ops->refund(run, now);
    return err;
}

/* Where the answer of a gate leads. */
static enum admission_state state_of_answer(enum tg_err err, const struct tg_answer *answer)
{
    if (err)
        return ADMISSION_FAILED;
    switch (answer->step) {
    case TG_WAITING:
        return ADMISSION_WAITING;
    case TG_NEEDS_STORE:
        return ADMISSION_ASKING;
    default:
        return answer->decision.allowed ? ADMISSION_ADMITTED : ADMISSION_REFUSED;
    }
}

static void enter(struct admission_run *run, enum admission_state next, enum tg_err err,
                  const struct tg_answer *answer)
{
    bool was_waiting = run->state == ADMISSION_WAITING;

    run->state = next;
    run->err = err;
    run->lease = err ? 0 : answer->lease;
    run->deadline = err ? 0 : answer->deadline;
    if (next == ADMISSION_ASKING)
        run->charge = answer->charge;
    if (next == ADMISSION_ADMITTED)
        run->factor = answer->factor;
    /* Not before the gate has decided: until then its wake() may come from another thread. */
    if (was_waiting && next != ADMISSION_WAITING && run->ops->wait_over != NULL)
        run->ops->wait_over(run);
    assert(next != ADMISSION_REFUSED || (run->lease == 0 && !run->is_charged));
    assert(next != ADMISSION_FAILED || (err != TG_OK && !run->is_charged));
    assert(next != ADMISSION_WAITING || (run->lease != 0 && !run->is_charged));
}

/* From an answer of the gate as far as it goes without waiting for anybody. */
static enum admission_state follow(struct admission_run *run, tg_ms now, enum tg_err err,
                                   struct tg_answer *answer)
{
    struct tg_axes axes;

    enter(run, state_of_answer(err, answer), err, answer);
    if (run->state == ADMISSION_WAITING && run->ops->wait != NULL) {
        err = run->ops->wait(run, run->deadline);
        if (err) {
            /* How it ended counts for an admitted call alone. */
            tg_gate_release(run->gate, run->lease, now, NULL);
            enter(run, ADMISSION_FAILED, err, NULL);
        }
    } else if (run->state == ADMISSION_ASKING && run->ops->ask(run, now, &err, &axes)) {
        err = take_store_answer(run, now, err, &axes, answer);
        enter(run, state_of_answer(err, answer), err, answer);
        assert(run->state != ADMISSION_WAITING && run->state != ADMISSION_ASKING);
    }
    return run->state;
}

/* Gives back what the state holds, as it is drawn in the header. */
static void end(struct admission_run *run, tg_ms now, const struct tg_release *release)
{
    enum admission_state was = run->state;
    struct tg_answer unwanted;

    if (was == ADMISSION_ASKING) {
        run->ops->refund(run, now);
        /* There will be no answer: the gate, which waits for one, lets the ticket go. */
        if (run->gate != NULL) {
            enum tg_err err =
                tg_gate_store_answered(run->gate, run->lease, TG_ERR_STORE, NULL, now, &unwanted);
            assert(err == TG_ERR_STORE || err == TG_ERR_STALE);
            (void)err;
        }
    } else {
        /* The charge comes first: whoever gets the slot finds the units given back. */
        if (run->is_charged && release->outcome == TG_OUTCOME_REFUSED)
            run->ops->refund(run, now);
        else if (run->is_charged)
            run->ops->settle(run, now, release->actual);
        if (run->lease != 0)
            tg_gate_release(run->gate, run->lease, now, release);
    }
    run->state = ADMISSION_IDLE;
    run->err = TG_OK;
    run->lease = 0;
    run->is_charged = false;
    run->deadline = 0;
    if (was == ADMISSION_WAITING && run->ops->wait_over != NULL)
        run->ops->wait_over(run);
}

static enum admission_state run_step(struct admission_run *run, const struct admission_event *event,
                                     struct tg_answer *answer)
{
    tg_ms now = event->now;
    enum tg_err err;

    assert(!admission_run_holds_nothing(run) || (run->lease == 0 && !run->is_charged));
    assert(!run->is_charged || run->state == ADMISSION_ADMITTED);
    assert(run->gate != NULL || run->lease == 0);
    switch (event->kind) {
    case ADMISSION_PRECHECK:
        assert(admission_run_holds_nothing(run) && run->gate != NULL);
        err = tg_gate_precheck(run->gate, run->call, now, answer);
        enter(run,
              err                        ? ADMISSION_FAILED
              : answer->decision.allowed ? ADMISSION_CHECKED
                                         : ADMISSION_REFUSED,
              err, answer);
        return run->state;
    case ADMISSION_ADMIT:
        assert(admission_run_holds_nothing(run) || run->state == ADMISSION_CHECKED);
        err = TG_OK;
        if (run->gate != NULL)
            err = tg_gate_admit(run->gate, run->call, run->lease, now, answer);
        else
            *answer = (struct tg_answer){.step = TG_NEEDS_STORE,
                                         .charge = run->call != NULL ? run->call->debit.cost : 0};
        return follow(run, now, err, answer);
    case ADMISSION_WAKE:
        assert(run->state == ADMISSION_WAITING);
        err = tg_gate_resume(run->gate, run->lease, run->call, now, answer);
        return follow(run, now, err, answer);
    case ADMISSION_STORE_ANSWER:
        assert(run->state == ADMISSION_ASKING);
        err = take_store_answer(run, now, event->outcome, event->axes, answer);
        enter(run, state_of_answer(err, answer), err, answer);
        return run->state;
    case ADMISSION_END:
        end(run, now, event->release);
        return run->state;
    }
    assert(false && "an event that there is");
    return run->state;
}

enum admission_state admission_run_step(struct admission_run *run,
                                        const struct admission_event *event,
                                        struct tg_answer *answer)
{
    const struct admission_ops *ops = run->ops;

    if (ops == NULL || ops->before == NULL)
        return run_step(run, event, answer);
    ops->before(run, event);
    run_step(run, event, answer);
    ops->after(run, event, event->kind != ADMISSION_END ? answer : NULL);
    return run->state;
}
