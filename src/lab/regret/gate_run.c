/* gate_run.c - a gate in virtual time. See gate_run.h. */
#include "lab/regret/gate_run.h"

#include "lib/core/container_of.h"
#include "lib/core/problem.h"

/* Only notes it: the gate holds its lock. */
static void gate_run_wake(void *context, void *waiter)
{
    struct gate_run *run = context;
    struct gate_run_call *call = waiter;

    assert(call->run == run && call->waits);
    STAILQ_INSERT_TAIL(&run->woken, call, next_woken);
}

static enum tg_err init(struct gate_run *run, struct tg_gate_config config,
                        const struct gate_run_store *store, gate_run_decided *decided,
                        void *context, struct tg_problem *problem)
{
    *run = (struct gate_run){
        .store = store,
        .every_lease =
            config.concurrency.on || (config.policy != NULL && config.policy->released != NULL),
        .peers = config.peers.on,
        .ticked_at = -1,
        .decided = decided,
        .context = context,
    };
    STAILQ_INIT(&run->woken);
    config.wake = gate_run_wake;
    config.context = run;
    return tg_gate_new(&config, &run->gate, problem);
}

enum tg_err gate_run_init(struct gate_run *run, const struct tg_gate_config *config,
                          gate_run_decided *decided, void *context, struct tg_problem *problem)
{
    if (config->remote_store) {
        return problem_say(problem, TG_ERR_INVALID,
                           "a gate in virtual time needs to be told where its remote store is");
    }
    return init(run, *config, NULL, decided, context, problem);
}

enum tg_err gate_run_init_remote(struct gate_run *run, const struct tg_gate_config *config,
                                 const struct gate_run_store *store, gate_run_decided *decided,
                                 void *context, struct tg_problem *problem)
{
    struct tg_gate_config own = *config;

    own.store = NULL;
    own.remote_store = true;
    return init(run, own, store, decided, context, problem);
}

void gate_run_fini(struct gate_run *run)
{
    tg_gate_free(run->gate);
    run->gate = NULL;
}

/* ---- the store elsewhere ---- */

static bool gate_run_ask_store(struct admission_run *admission, tg_ms now, enum tg_err *err,
                               struct tg_axes *axes)
{
    struct gate_run_call *call = container_of(admission, struct gate_run_call, admission);
    const struct gate_run_store *store = call->run->store;
    struct tg_debit debit = call->call.debit;

    debit.cost = admission->charge;
    *err = store->take(store->context, call->run, admission->lease, admission->deadline, &debit,
                       now, axes, &call->settles);
    return true;
}

/* The store knows a charge by its lease: gate_run_release() tells it of the end. */
static void gate_run_leave_charge(struct admission_run *admission, tg_ms now, int64_t actual)
{
    (void)admission, (void)now, (void)actual;
}

/* Time stands still while the store is asked, so no lease ends meanwhile. */
static void gate_run_refund(struct admission_run *admission, tg_ms now)
{
    (void)admission, (void)now;
    assert(false && "a lease has ended while the store was asked");
}

static const struct admission_ops gate_run_ops = {
    .ask = gate_run_ask_store, .settle = gate_run_leave_charge, .refund = gate_run_refund};

/* A gate that does not know what the store charges mints a lease for every call. Where nothing is
 * held, and nothing will be settled, there is to be none, as with a store of the gate's own. */
static bool keeps_lease(const struct gate_run_call *call)
{
    const struct gate_run *run = call->run;

    return run->store == NULL || run->every_lease || call->settles ||
           (call->call.peer != NULL && (run->peers || call->call.peer_limit > 0));
}

/* ---- decisions ---- */

/* What the gate has said of a call, at the event itself or when it was resumed. A decided call's
 * lease is its owner's. */
static void take_answer(struct gate_run_call *call, enum admission_state state,
                        struct tg_answer *answer, tg_ms at)
{
    struct admission_run *admission = &call->admission;
    struct gate_run *run = call->run;
    enum tg_err err = admission->err;
    struct tg_release cancelled;

    run->waiting -= call->waits;
    call->waits = state == ADMISSION_WAITING;
    run->waiting += call->waits;
    assert(run->waiting >= 0);
    call->lease = admission->lease;
    if (state == ADMISSION_ADMITTED) {
        tg_release_init(&cancelled);
        cancelled.outcome = TG_OUTCOME_CANCELLED;
        if (keeps_lease(call))
            admission_run_hand_over_lease(admission);
        else
            call->lease = answer->lease = 0;
        admission_run_end(admission, at, &cancelled);
    }
    call->ends_at = call->lease != 0 ? answer->deadline : 0;
    if (!call->waits)
        run->decided(run->context, call, err, err == TG_OK ? answer : NULL, at);
}

/* A call that is resumed may be refused by a later stage, and its slot wakes the next. */
static void resume_woken(struct gate_run *run)
{
    struct gate_run_call *call;
    struct tg_answer answer;

    while ((call = STAILQ_FIRST(&run->woken)) != NULL) {
        STAILQ_REMOVE_HEAD(&run->woken, next_woken);
        take_answer(call, admission_run_wake(&call->admission, run->latest, &answer), &answer,
                    run->latest);
    }
}

/* ---- time ---- */

static void gate_run_tick(struct gate_run *run, tg_ms at)
{
    run->latest = at > run->latest ? at : run->latest;
    run->ticked_at = run->latest;
    tg_gate_tick(run->gate, run->latest);
    resume_woken(run);
}

void gate_run_advance(struct gate_run *run, tg_ms t)
{
    for (tg_ms at; (at = tg_gate_next_deadline(run->gate)) < t;)
        gate_run_tick(run, at);
    run->latest = t > run->latest ? t : run->latest;
}

void gate_run_finish(struct gate_run *run)
{
    /* Every wait has a deadline, so there is a next one. */
    for (tg_ms at; run->waiting > 0 && (at = tg_gate_next_deadline(run->gate)) != INT64_MAX;)
        gate_run_tick(run, at);
}

/* ---- events ---- */

void gate_run_admit(struct gate_run *run, struct gate_run_call *call, tg_ms t)
{
    struct tg_answer answer;

    gate_run_advance(run, t);
    call->waits = call->settles = false;
    call->call.waiter = call;
    call->run = run;
    admission_run_init(&call->admission, run->gate, &call->call, &gate_run_ops);
    take_answer(call, admission_run_admit(&call->admission, t, &answer), &answer, t);
    resume_woken(run);
}

void gate_run_release(struct gate_run *run, tg_lease lease, tg_ms t,
                      const struct tg_release *release)
{
    gate_run_advance(run, t);
    /* Before the call that gets the slot asks the store, as if the gate had settled it itself. */
    if (tg_gate_release(run->gate, lease, t, release) && run->store != NULL)
        run->store->ended(run->store->context, lease, t, release->actual);
    resume_woken(run);
}

void gate_run_first_byte(struct gate_run *run, tg_lease lease, tg_ms t, double sample_ms)
{
    gate_run_advance(run, t);
    tg_gate_first_byte_after(run->gate, lease, t, sample_ms);
    resume_woken(run);
}

void gate_run_withdraw(struct gate_run *run, struct gate_run_call *call, tg_ms t)
{
    struct tg_release release;

    tg_release_init(&release);
    release.outcome = TG_OUTCOME_CANCELLED;
    gate_run_advance(run, t);
    assert(call->waits && run->waiting > 0);
    admission_run_end(&call->admission, t, &release);
    call->waits = false;
    run->waiting--;
    call->lease = 0;
    resume_woken(run);
}

/* For events that the gate takes without a time: it gets to see the time by this. */
static void pass(struct gate_run *run, tg_ms t)
{
    struct tg_release release;

    tg_release_init(&release);
    gate_run_release(run, 0, t, &release);
}

void gate_run_set_memory(struct gate_run *run, double used, tg_ms t)
{
    pass(run, t);
    tg_gate_set_memory(run->gate, used);
}

void gate_run_stats(struct gate_run *run, tg_ms t, struct tg_gate_stats *stats)
{
    pass(run, t);
    tg_gate_get_stats(run->gate, stats);
}
