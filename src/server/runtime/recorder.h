/* recorder.h - what `serve --record` writes of gates, keys and money: a replay decides the same.
 *
 *     worker ---.                                 .--> the trail of its call, in its own memory
 *     worker ---+--> recorder_enter(), the operation, recorder_leave() --'
 *     control --'        one lock: the numbers are the order in which the operations took place
 *
 * The library reads no clock and draws from a seeded stream: the same operations in the same order,
 * each with the time that it was given, have the same results. So a recording has each operation
 * with its number and its `now`, and a replay repeats them. The lock makes the order exact: with
 * several workers, one number per operation taken without it could be off by the operations that
 * run at the same moment. It is held for one operation of the library, about a microsecond, and
 * only while something is recorded: without --record `gateway->recorder` is null.
 *
 * What is recorded is text in the memory of the call until the call has ended; then it is a line of
 * the log's lane for arrivals (log.h), which is bounded and never waited for. What is lost leaves a
 * gap in the numbers, and a replay says so.
 */
#ifndef TG_RUNTIME_RECORDER_H
#define TG_RUNTIME_RECORDER_H

#include <pthread.h>
#include <stdatomic.h>

#include "io/text/json_write.h"
#include "lib/admission/admission_run.h"

struct gateway;
struct generation;

struct recorder {
    pthread_mutex_t order;
    uint64_t sequence;             /* the number of the last operation */
    atomic_ullong unrecorded;      /* decisions that are not written: those of Envoy's service */
    const struct generation *ring; /* whose keys are in the ring; read and set in order */
    bool remote; /* rate and cost are decided by a remote store, whose answers are written */
};

/* The operations of one call, as the elements of a JSON array. All zero is an empty one. */
struct record_trail {
    struct json_writer out;
    uint64_t at;   /* the number of the operation under way; 0: none */
    uint64_t lost; /* operations that it had no room for */
};

/* A trail that is longer loses what comes then: a call has about ten operations of 100 bytes. */
#define RECORD_TRAIL_MAX (64 * 1024)

void record_trail_fini(struct record_trail *trail);

/* Closes it. Empty: nothing was recorded. */
struct slice record_trail_text(struct record_trail *trail);

/* The number of the operation that the caller now does, alone; 0 if nothing is recorded. */
static inline uint64_t recorder_enter(struct recorder *recorder)
{
    if (recorder == NULL)
        return 0;
    pthread_mutex_lock(&recorder->order);
    return ++recorder->sequence;
}

static inline void recorder_leave(struct recorder *recorder)
{
    if (recorder != NULL)
        pthread_mutex_unlock(&recorder->order);
}

/* ---- writing an operation ---- */

/* Begins it: {"q":12,"t":1763193600120,"op":"admit". False: the trail is full, and no other
 * function may be called for it. */
bool record_op(struct record_trail *trail, uint64_t number, tg_ms now, const char *op);
void record_op_end(struct record_trail *trail);

void record_word(struct record_trail *trail, const char *key, const char *word); /* null: nothing */
void record_number(struct record_trail *trail, const char *key, int64_t number);
void record_real(struct record_trail *trail, const char *key, double number);
void record_flag(struct record_trail *trail, const char *key, bool flag);

/* ---- a run at a gate ---- */

/* Where a run asks, and for whom. */
struct record_place {
    const char *at;           /* "gate", "slot", or "limits": rate and cost alone, without a gate */
    const char *slots, *name; /* whose slots: "model", "route" or "caller"; null: no slot's */
    struct slice who;         /* whose limits, if the line of the call does not say that */
    bool hands_over;          /* an admitted call's lease is ended by another operation, by name */
};

/* For `before` and `after` of admission_ops. */
void record_run_before(struct recorder *recorder, struct record_trail *trail,
                       const struct admission_run *run, const struct admission_event *event);
void record_run_after(struct recorder *recorder, struct record_trail *trail,
                      const struct record_place *place, const struct admission_run *run,
                      const struct admission_event *event, const struct tg_answer *answer);

/* A lease that was handed over has ended, or was renewed. `at` null: at the gate and its slot. */
void recorder_lease_end(struct gateway *gateway, uint64_t number, tg_ms now, const char *at,
                        tg_lease lease, const struct tg_release *release);
void recorder_lease_renew(struct gateway *gateway, uint64_t number, tg_ms now, tg_lease lease,
                          tg_ms ttl);

/* ---- what belongs to no call ---- */

/* Writes a line of its own with what the trail has. From any thread. */
void recorder_write(struct gateway *gateway, struct record_trail *trail);

/* A change that a replay cannot repeat, and says so: a reload, a change by the API. */
void recorder_change(struct gateway *gateway, const char *what, const char *detail);

/* The same for one that was made between recorder_enter() and recorder_leave(); number 0: nothing
 * is recorded. */
void recorder_note_change(struct gateway *gateway, uint64_t number, tg_ms now, const char *what,
                          const char *detail);

/* ---- its life ---- */

/* Writes the first lines: who made it, by what configuration, and what was spent before. `fd` is
 * the file. False: `problem` says why. */
bool recorder_begin(struct gateway *gateway, int fd, struct tg_problem *problem);
/* Writes the last line, after all calls have ended: a replay that finds none knows that something
 * is missing. */
void recorder_end(struct gateway *gateway);
void recorder_free(struct recorder *recorder);

#endif
