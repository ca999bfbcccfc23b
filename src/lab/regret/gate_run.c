/* gate_run.c - a gate in virtual time. See gate_run.h. */
#include "lab/regret/gate_run.h"

#include <stdio.h>

#include "lib/core/problem.h"

/* Only posts: the gate is in the middle of something. */
static void gate_run_wake(void *context, void *waiter)
{
    struct gate_run *run = context;
    struct gate_run_call *call = waiter;

    call->next = NULL;
    if (run->woken == NULL)
        run->woken = call;
    else
        run->woken_last->next = call;
    run->woken_last = call;
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

static void drop_lease(struct gate_run *run, tg_lease lease, tg_ms at)
{
    struct tg_release release;

    tg_release_init(&release);
    release.outcome = TG_OUTCOME_CANCELLED;
    tg_gate_release(run->gate, lease, at, &release);
}

/* A gate that does not know what the store charges mints a lease for every call. Where nothing is
 * held, and nothing will be settled, there is to be none, as with a store of the gate's own. */
static bool keeps_lease(const struct gate_run *run, const struct tg_call *call, bool settles)
{
    return run->every_lease || settles ||
           (call->peer != NULL && (run->peers || call->peer_limit > 0));
}

static enum tg_err gate_run_ask_store(struct gate_run *run, const struct gate_run_call *call,
                                      tg_ms at, struct tg_answer *answer)
{
    const struct gate_run_store *store = run->store;
    tg_lease lease = answer->lease;
    struct tg_axes axes;
    bool settles = false;
    enum tg_err err = store->take(store->context, run, lease, answer->deadline, &call->call.debit,
                                  at, &axes, &settles);

    err = tg_gate_store_answered(run->gate, lease, err, &axes, at, answer);
    if (err == TG_OK && answer->lease != 0 && !keeps_lease(run, &call->call, settles)) {
        drop_lease(run, answer->lease, at);
        answer->lease = 0;
    }
    return err;
}

/* ---- decisions ---- */

/* What the gate has said of a call, at the event itself or when it was resumed. */
static void take_answer(struct gate_run *run, struct gate_run_call *call, enum tg_err err,
                        const struct tg_answer *answer, tg_ms at)
{
    struct tg_answer stored;

    if (err == TG_OK && answer->step == TG_NEEDS_STORE) {
        stored = *answer;
        err = gate_run_ask_store(run, call, at, &stored);
        answer = &stored;
    }
    run->waiting -= call->waits;
    call->waits = err == TG_OK && answer->step == TG_WAITING;
    run->waiting += call->waits;
    call->lease = err == TG_OK ? answer->lease : 0;
    call->ends_at = call->lease != 0 ? answer->deadline : 0;
    if (!call->waits)
        run->decided(run->context, call, err, err == TG_OK ? answer : NULL, at);
}

/* One that goes on may be refused by a later stage, and its slot wakes the next. */
static void resume_woken(struct gate_run *run)
{
    while (run->woken != NULL) {
        struct gate_run_call *call = run->woken;
        struct tg_answer answer;

        run->woken = call->next;
        enum tg_err err = tg_gate_resume(run->gate, call->lease, &call->call, run->latest, &answer);
        take_answer(run, call, err, &answer, run->latest);
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
    /* Whoever waits has a deadline, so there is one. */
    for (tg_ms at; run->waiting > 0 && (at = tg_gate_next_deadline(run->gate)) != INT64_MAX;)
        gate_run_tick(run, at);
}

/* ---- events ---- */

void gate_run_admit(struct gate_run *run, struct gate_run_call *call, tg_ms t)
{
    struct tg_answer answer;

    gate_run_advance(run, t);
    call->waits = false;
    call->call.waiter = call;
    enum tg_err err = tg_gate_admit(run->gate, &call->call, 0, t, &answer);
    take_answer(run, call, err, &answer, t);
    resume_woken(run);
}

void gate_run_release(struct gate_run *run, tg_lease lease, tg_ms t,
                      const struct tg_release *release)
{
    gate_run_advance(run, t);
    /* Before anybody who gets the slot asks the store: as if the gate had settled it itself. */
    if (tg_gate_release(run->gate, lease, t, release) && run->store != NULL)
        run->store->ended(run->store->context, lease, t, release->actual);
    resume_woken(run);
}

void gate_run_withdraw(struct gate_run *run, struct gate_run_call *call, tg_ms t)
{
    struct tg_release release;

    tg_release_init(&release);
    release.outcome = TG_OUTCOME_CANCELLED;
    gate_run_advance(run, t);
    call->waits = false;
    run->waiting--;
    tg_gate_release(run->gate, call->lease, t, &release);
    call->lease = 0;
    resume_woken(run);
}

/* An event that the gate itself has no time for: it sees the time all the same. */
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
