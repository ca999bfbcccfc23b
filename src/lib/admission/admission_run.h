/* admission_run.h - one call on its way through a gate: ask, wait, ask the remote store, decided.
 *
 * tollgate.h offers the steps (tg_gate_precheck, _admit, _resume, _store_answered, _release). This
 * is the one place that takes them in order, for everybody who has a gate: the gateway's services,
 * the simulator, and a program with a thread for each call. It is pure: how its owner waits, and
 * how it asks a remote store, is a table of functions that the owner gives.
 *
 *                 PRECHECK            ADMIT
 *      IDLE ------------------> CHECKED ----.
 *        |                                  |
 *        |  ADMIT                           v          no slot is free
 *        `-------------------------> (the gate) ------------------------> WAITING
 *                                      |  |  ^                               |
 *                  rate and cost are   |  |  |             WAKE              |
 *                  decided elsewhere   |  |  `-------------------------------'
 *                       .--------------'  |
 *                       v                 |
 *                    ASKING               |
 *                       |  STORE_ANSWER   |
 *                       v                 v
 *                    ADMITTED, REFUSED or FAILED
 *
 *      END leads from every state to IDLE. REFUSED and FAILED hold nothing, and may ask again.
 *
 * What a run holds has one owner, the run, and is given back exactly once, by whatever ends it:
 *
 *      the ticket or lease at the gate    CHECKED to ADMITTED    tg_gate_release(), or its handover
 *      the wait                           WAITING                ops->wait_over()
 *      the question to the remote store   ASKING                 its answer, or ops->refund()
 *      the charge there                   ADMITTED, if asked     ops->settle() or ops->refund()
 *
 * The instants at which two things happen at once:
 *
 *   - A slot is granted while the owner ends the run: the gate takes the slot back.
 *   - The deadline of a wait and the gate's wake() come together: the first is a WAKE that decides.
 *     The run then calls wait_over(), and as the gate wakes nobody whom it has decided, the owner
 *     can be certain there that no second one comes.
 *   - The owner ends the run while the store is asked: refund() withdraws the question. The store's
 *     answer must not be given to the run any more; the store's side takes a late yes back.
 *   - The lease expires while the store is asked: the answer finds nothing, the run refunds the
 *     charge and FAILED has TG_ERR_STALE.
 *
 * An owner with a loop, a timer and a store elsewhere:
 *
 *      struct request {
 *          struct tg_call call;         call.waiter = request: the gate's wake() posts to its loop
 *          struct admission_run run;
 *          ...
 *      };
 *
 *      admission_run_init(&request->run, gate, &request->call, &ops);
 *      next(request, admission_run_admit(&request->run, now, &answer), &answer);
 *
 *      on the posted wake, and on the timer:
 *          next(request, admission_run_wake(&request->run, now, &answer), &answer);
 *      on the store's answer:
 *          next(request, admission_run_store_answered(&request->run, now, err, axes, &answer),
 *               &answer);
 *
 *      void next(struct request *request, enum admission_state state, struct tg_answer *answer)
 *      {
 *          if (state == ADMISSION_ADMITTED)
 *              serve(request);
 *          else if (state == ADMISSION_REFUSED)
 *              refuse(request, answer);
 *          else if (state == ADMISSION_FAILED)
 *              fail(request, request->run.err);
 *      }                                  WAITING, ASKING: what it waits for will call again
 *
 *      when it has been served, and when the client hangs up, whatever the state:
 *          admission_run_end(&request->run, now, &release);
 *
 *      with   static const struct admission_ops ops = {
 *                 .wait = start_timer, .wait_over = stop_timer_and_forget_posted_wake,
 *                 .ask = ask_store, .settle = settle_there, .refund = refund_there};
 *
 * Threads: a run belongs to one thread at a time. The gate's wake() may come from any thread and
 * must only post; the owner's thread then calls admission_run_wake().
 */
#ifndef TG_ADMISSION_ADMISSION_RUN_H
#define TG_ADMISSION_ADMISSION_RUN_H

#include <assert.h>

#include "tollgate.h"

enum admission_state {
    ADMISSION_IDLE,     /* nothing was asked, or it has ended */
    ADMISSION_CHECKED,  /* memory allowed it and its peer is counted; its body may be read */
    ADMISSION_WAITING,  /* in the gate's queue */
    ADMISSION_ASKING,   /* it has its slot; the remote store decides rate and cost */
    ADMISSION_ADMITTED, /* it holds a lease, a charge at the remote store, or both, or nothing */
    ADMISSION_REFUSED,  /* the answer says why */
    ADMISSION_FAILED,   /* there is no decision: `err` of the run says why */
};

enum admission_event_kind {
    ADMISSION_PRECHECK,
    ADMISSION_ADMIT,
    ADMISSION_WAKE,         /* the gate's wake() or the deadline of the wait; it may be too early */
    ADMISSION_STORE_ANSWER, /* the remote store's, which ask() said would come later */
    ADMISSION_END,
};

struct admission_event {
    enum admission_event_kind kind;
    tg_ms now;

    /* ADMISSION_STORE_ANSWER: TG_OK and the axes, or why there is no decision. */
    enum tg_err outcome;
    const struct tg_axes *axes;

    const struct tg_release *release; /* ADMISSION_END */
};

struct admission_run;

/* How the owner waits and asks. None of these may call the run or free it. */
struct admission_ops {
    /* The run waits: see that admission_run_wake() is called after the gate's wake(), and at
     * `deadline` at the latest. It is called again, without a wait_over() in between, when a WAKE
     * was too early. An error: the owner cannot wait, the run fails with it. Null: the owner looks
     * at the state and the deadline of the run by itself. */
    enum tg_err (*wait)(struct admission_run *run, tg_ms deadline);

    /* The run has left WAITING, exactly once whenever it was there, also where wait() failed: see
     * that no admission_run_wake() comes any more, a posted one included. The gate has no wake()
     * under way for it. Null: nothing to do. */
    void (*wait_over)(struct admission_run *run);

    /* Asks the remote store to decide the debit of the call, for `charge` of the run in place of
     * the debit's cost, and to charge it. True: it has answered,
     * `err` and `axes` say how. False: admission_run_store_answered() will be called. An error and
     * a no both charge nothing. */
    bool (*ask)(struct admission_run *run, tg_ms now, enum tg_err *err, struct tg_axes *axes);

    /* The charge ends: the call was made and has used `actual`; negative: what it was charged. */
    void (*settle)(struct admission_run *run, tg_ms now, int64_t actual);

    /* Nothing stays charged; a question that is under way is withdrawn. */
    void (*refund)(struct admission_run *run, tg_ms now);

    /* For somebody who watches: around every step, with the state that the run had and the one that
     * it has. `answer` is that of the step, null on END. Both null: nobody watches. */
    void (*before)(struct admission_run *run, const struct admission_event *event);
    void (*after)(struct admission_run *run, const struct admission_event *event,
                  const struct tg_answer *answer);
};

/* In its owner's storage; the owner reads its fields and writes none of them. */
struct admission_run {
    /* Null: the call is a debit at the store alone, which ask() decides: no slot and no lease. */
    struct tg_gate *gate;

    /* Borrowed until the run has ended; may be null without a gate. Its texts may move meanwhile,
     * but must stay equal. */
    const struct tg_call *call;

    const struct admission_ops *ops;
    enum admission_state state;
    enum tg_err err; /* ADMISSION_FAILED: why; else TG_OK */
    int64_t charge;  /* ADMISSION_ASKING and after: what the remote store is to charge */
    double factor;   /* ADMISSION_ADMITTED: mean of used to asked of calls like this one */
    bool is_charged; /* the remote store has charged the call, and waits to hear of its end */
    tg_lease lease;  /* what the gate knows the call by; 0: the gate holds nothing for it */
    tg_ms deadline;  /* ADMISSION_WAITING: the end of the wait; with a lease: when that expires */
};

static inline void admission_run_init(struct admission_run *run, struct tg_gate *gate,
                                      const struct tg_call *call, const struct admission_ops *ops)
{
    *run = (struct admission_run){.gate = gate, .call = call, .ops = ops};
}

/* The one function that moves a run: returns the state that it has moved to. An event that the
 * state cannot meet is a mistake of the owner's, and asserts. `answer` is filled in except on END
 * and in ADMISSION_FAILED. */
enum admission_state admission_run_step(struct admission_run *run,
                                        const struct admission_event *event,
                                        struct tg_answer *answer);

/* Memory and peers alone, before a body is read: CHECKED, REFUSED or FAILED. Not without a gate. */
static inline enum admission_state admission_run_precheck(struct admission_run *run, tg_ms now,
                                                          struct tg_answer *answer)
{
    const struct admission_event event = {.kind = ADMISSION_PRECHECK, .now = now};

    return admission_run_step(run, &event, answer);
}

static inline enum admission_state admission_run_admit(struct admission_run *run, tg_ms now,
                                                       struct tg_answer *answer)
{
    const struct admission_event event = {.kind = ADMISSION_ADMIT, .now = now};

    return admission_run_step(run, &event, answer);
}

static inline enum admission_state admission_run_wake(struct admission_run *run, tg_ms now,
                                                      struct tg_answer *answer)
{
    const struct admission_event event = {.kind = ADMISSION_WAKE, .now = now};

    return admission_run_step(run, &event, answer);
}

static inline enum admission_state admission_run_store_answered(struct admission_run *run,
                                                                tg_ms now, enum tg_err outcome,
                                                                const struct tg_axes *axes,
                                                                struct tg_answer *answer)
{
    const struct admission_event event = {
        .kind = ADMISSION_STORE_ANSWER, .now = now, .outcome = outcome, .axes = axes};

    return admission_run_step(run, &event, answer);
}

/* Gives everything back, whatever the state, and again. TG_OUTCOME_REFUSED refunds the charge,
 * every other outcome settles it. */
static inline void admission_run_end(struct admission_run *run, tg_ms now,
                                     const struct tg_release *release)
{
    const struct admission_event event = {.kind = ADMISSION_END, .now = now, .release = release};

    (void)admission_run_step(run, &event, NULL);
}

/* The lease becomes the caller's, to be released by tg_gate_release() from any thread; 0: there is
 * none. The charge stays the run's, and END ends it. */
static inline tg_lease admission_run_hand_over_lease(struct admission_run *run)
{
    tg_lease lease = run->lease;

    assert(run->state == ADMISSION_ADMITTED);
    run->lease = 0;
    return lease;
}

/* Gives the lease of an admitted call its whole time to live again. */
static inline void admission_run_renew(const struct admission_run *run, tg_ms now)
{
    if (run->state == ADMISSION_ADMITTED && run->lease != 0)
        tg_gate_renew(run->gate, run->lease, now, 0);
}

/* Whether it has nothing to give back. */
static inline bool admission_run_holds_nothing(const struct admission_run *run)
{
    return run->state == ADMISSION_IDLE || run->state == ADMISSION_REFUSED ||
           run->state == ADMISSION_FAILED;
}

#endif
