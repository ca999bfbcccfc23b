/* gate_run.h - a gate in virtual time: events go in, decisions come out in order.
 *
 *     gate_run_init(&run, &config, decided, context, &problem)
 *     call.call = ...;
 *     gate_run_admit(&run, &call, 1000);          decided() is called, now or by a later event
 *     gate_run_release(&run, call.lease, 1020, &release);
 *     gate_run_finish(&run);                      until no call waits any more
 *
 * The library's own gate decides, not a model of it, and calls go through it by the same admission
 * run as in the gateway. What is here is the owner's part: it ends waits and leases at their time,
 * resumes calls that were woken, and asks a remote store where that decides rate and cost.
 *
 * Order: an event at t comes after every deadline before t and before the deadlines at t, so that
 * of several events at one instant none finds a wait ended early. Whoever an event or a deadline
 * has woken is resumed right after it, in the order of the grants. Time may go back from one event
 * to the next: limiters see it as it is given, nothing else does.
 *
 * One thread. */
#ifndef TG_REGRET_GATE_RUN_H
#define TG_REGRET_GATE_RUN_H

#include <sys/queue.h>

#include "lib/admission/admission_run.h"

/* A call, in its owner's storage. While `waits`, it must stay where it is, and so must what `call`
 * points to or an equal copy of it. */
struct gate_run_call {
    struct tg_call call; /* the owner's, but for `waiter` */
    bool waits;
    tg_lease
        lease;     /* the lease of a call that waits, or was admitted and holds something; else 0 */
    tg_ms ends_at; /* when the lease expires, if nobody ends it earlier */

    /* The run's: */
    struct gate_run *run;
    struct admission_run admission;
    bool settles; /* the store has to hear of its end */
    STAILQ_ENTRY(gate_run_call) next_woken;
};

/* A call is decided, or, on an error, cannot be: `answer` is null then and nothing is held. `at` is
 * the time of the event itself, or, for a call that waited, the time at which it was resumed. The
 * function must not call the run; the call is the owner's again. */
typedef void gate_run_decided(void *context, struct gate_run_call *call, enum tg_err err,
                              const struct tg_answer *answer, tg_ms at);

struct gate_run;

/* A remote store. Virtual time stands still while it decides. */
struct gate_run_store {
    /* Decides and charges. `lease` expires at `ends_at`, if nobody ends it earlier; `settles` says
     * whether the store has to hear of its end. An error: no decision, and nothing charged. */
    enum tg_err (*take)(void *context, const struct gate_run *run, tg_lease lease, tg_ms ends_at,
                        const struct tg_debit *debit, tg_ms now, struct tg_axes *axes,
                        bool *settles);

    /* An admitted call that settles was released: what it has cost; negative: what was charged. It
     * is not called for leases that expire. */
    void (*ended)(void *context, tg_lease lease, tg_ms now, int64_t actual);

    void *context;
};

struct gate_run {
    struct tg_gate *gate;
    const struct gate_run_store *store; /* null: the gate decides rate and cost itself */
    bool every_lease; /* every call that is admitted has a lease, whatever it is charged */
    bool peers;
    tg_ms latest;    /* the latest time that was given */
    tg_ms ticked_at; /* everything due until then has happened; -1: nothing was due yet */
    int64_t waiting; /* calls in the gate's queue */
    STAILQ_HEAD(, gate_run_call) woken; /* calls to be resumed, in the order of the grants */
    gate_run_decided *decided;
    void *context;
};

/* Makes the gate; `wake` of the config is not used, everything else is. The store is borrowed.
 * TG_ERR_INVALID, TG_ERR_MEMORY; a remote store needs gate_run_init_remote(). */
TG_MUST_CHECK enum tg_err gate_run_init(struct gate_run *run, const struct tg_gate_config *config,
                                        gate_run_decided *decided, void *context,
                                        struct tg_problem *problem);

/* The same with a store elsewhere, borrowed; `store` and `remote_store` of the config are not used.
 */
TG_MUST_CHECK enum tg_err gate_run_init_remote(struct gate_run *run,
                                               const struct tg_gate_config *config,
                                               const struct gate_run_store *store,
                                               gate_run_decided *decided, void *context,
                                               struct tg_problem *problem);
void gate_run_fini(struct gate_run *run);

void gate_run_admit(struct gate_run *run, struct gate_run_call *call, tg_ms t);

/* Ends a lease. One that has already ended, or 0, is still an event. */
void gate_run_release(struct gate_run *run, tg_lease lease, tg_ms t,
                      const struct tg_release *release);

/* The first byte of its reply comes, after so many ms; negative: since admission. */
void gate_run_first_byte(struct gate_run *run, tg_lease lease, tg_ms t, double sample_ms);

/* Withdraws a call that waits: it will not be decided. What is due before `t` may decide it first:
 * so call gate_run_advance(), and check whether it still waits. */
void gate_run_withdraw(struct gate_run *run, struct gate_run_call *call, tg_ms t);

/* How much of memory is used from now on. */
void gate_run_set_memory(struct gate_run *run, double used, tg_ms t);

/* The gate's statistics at `t`. */
void gate_run_stats(struct gate_run *run, tg_ms t, struct tg_gate_stats *stats);

/* Lets happen what is due before `t`; every event does that by itself. */
void gate_run_advance(struct gate_run *run, tg_ms t);

/* Advances time until no call waits. Leases that end later than that stay open. */
void gate_run_finish(struct gate_run *run);

/* Whether a lease that expires at `ends_at` has expired. */
static inline bool gate_run_expired(const struct gate_run *run, tg_ms ends_at)
{
    return ends_at <= run->ticked_at;
}

#endif
