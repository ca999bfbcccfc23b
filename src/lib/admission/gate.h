/* gate.h - the gate's parts, as the files of this folder see them.
 *
 * One spinlock covers slots, queue, peers, tickets, waits and the law. It is held for some tens
 * of nanoseconds, twice for each call: once to admit, once to release. The store has its own
 * locks; where both are held, the gate's is taken first.
 */
#ifndef TG_ADMISSION_GATE_H
#define TG_ADMISSION_GATE_H

#include <stdatomic.h>

#include "lib/admission/charge.h"
#include "lib/admission/endings.h"
#include "lib/admission/memory_state.h"
#include "lib/admission/peers.h"
#include "lib/admission/queue.h"
#include "lib/admission/ticket.h"
#include "lib/concurrency/law.h"
#include "lib/core/container_of.h"
#include "lib/core/num.h"
#include "lib/core/spinlock.h"

struct worth_reports;

/* How many slots a class is given in a ms, by what was counted when somebody asked last. */
struct starts {
    tg_ms at;
    uint32_t counted[TG_PRIORITY_COUNT];
    double per_ms[TG_PRIORITY_COUNT];
};

/* What every call writes stands together, apart from what is mostly read: see ticket.h. */
struct tg_gate {
    _Alignas(CACHE_LINE) struct spinlock lock;
    atomic_uint_fast64_t admitted; /* needs no lock */
    tg_ms latest; /* the time, as queue, leases and law see it: it never goes back */
    tg_ms behind; /* how far the caller's clock is behind that: 0, or more than TG_CLOCK_TRUST */
    int64_t in_flight;
    int64_t started_sum;                 /* when the calls in flight got their slots, added up */
    uint32_t held[TG_PRIORITY_COUNT];    /* slots in flight, by class */
    uint32_t started[TG_PRIORITY_COUNT]; /* slots that were ever given to it, modulo 2^32 */
    uint32_t samples;                    /* calls in the mean, but no more than count there */
    struct handles tickets;

    double mean_slot_ms; /* moving mean of the time that slots were held; 0: no sample yet */
    double mean_held_ms; /* the same, each call counted by the time it held its slot */
    double last_sample_ms;
    struct endings endings; /* when leases end by themselves */
    struct law law;

    _Alignas(CACHE_LINE) struct tg_store *store; /* these three never change, and need no lock */
    bool remote_store;
    uint64_t seed;
    struct charges charges; /* what calls use, and overdrafts */
    struct tg_gate_config config;
    _Atomic(const void *) waker; /* the thread that is in wake(); null: none */
    uint32_t policy_epoch;       /* counts policies, see worth.h */
    enum memory_state memory;
    double memory_used;
    struct queue queue;
    struct starts starts; /* how often each class gets a slot */
    struct heap waits;    /* tickets in the queue, by when their wait is over */
    struct peers peers;
    tg_ms tidied_at;

    struct tg_gate_stats stats; /* counters of what is not the rule */
};

/* Who finds the lock taken. False: by himself, as he has been called by wake(). */
bool gate_wait_for_lock(struct tg_gate *gate);

/* Takes the lock for a function of the interface. False: its caller is a wake function, and nothing
 * may be done. */
static inline bool gate_lock(struct tg_gate *gate)
{
    return spin_try_lock(&gate->lock) || gate_wait_for_lock(gate);
}

/* All of these need the lock. */

/* What the gate's time is when a caller says `now`, at least the latest. */
tg_ms gate_time_of(struct tg_gate *gate, tg_ms now);

/* The gate's time becomes `at`, if that is later. */
void gate_advance(struct tg_gate *gate, tg_ms at);

/* The time that a caller says, for queue, leases and law, which steps if its window is over:
 * whatever happens is an event to it. A time that is out of range does not count. */
static inline void gate_time(struct tg_gate *gate, tg_ms now)
{
    if (now != gate->latest || gate->behind != 0)
        gate_advance(gate, gate_time_of(gate, now));
}

/* Points in time of the caller's clock and of the gate's, which differ if the clock went back. */
static inline tg_ms gate_from_caller(const struct tg_gate *gate, tg_ms at)
{
    return num_add(at, gate->behind);
}

static inline tg_ms gate_to_caller(const struct tg_gate *gate, tg_ms at)
{
    return num_less(at, gate->behind);
}

/* Tells those whose wait was over before now, and gives slots to those whose turn it is, while
 * there are any. */
void gate_grant(struct tg_gate *gate);

/* The ticket whose wait is over first; null: nobody waits. */
static inline struct ticket *gate_first_wait(const struct tg_gate *gate)
{
    struct heap_node *first = heap_first(&gate->waits);

    return first ? container_of(first, struct ticket, wait) : NULL;
}

/* The wait of a ticket is over: tells its owner. */
void gate_end_wait(struct tg_gate *gate, struct ticket *ticket);

/* A slot for a ticket: counts it, tells the law. */
void gate_start(struct tg_gate *gate, struct ticket *ticket);

/* How many slots low may hold, and whether it may hold one more, if there is a free one. */
int64_t gate_low_slots(const struct tg_gate *gate);
bool gate_low_may_start(const struct tg_gate *gate);

/* Gives back whatever the ticket holds, without a sample, and frees it. Others may get its slot. */
void gate_drop(struct tg_gate *gate, struct ticket *ticket);

/* When a ticket that does not wait ends by itself. */
void gate_set_end(struct tg_gate *gate, struct ticket *ticket, tg_ms at);

/* Ends all tickets whose end has come by `until`, but those that wait; or as many as fill
 * `reports`, which may have no room for more than those left: then it is to be called again. */
void gate_end_leases(struct tg_gate *gate, tg_ms until, struct worth_reports *reports);

/* The call's work is known: corrects what its turn has cost; see queue_settle(). */
void gate_settle_turn(struct tg_gate *gate, struct ticket *ticket, int64_t work, bool has_run);

/* Gives back slot and peer. */
void gate_give_back(struct tg_gate *gate, struct ticket *ticket);

/* For tests: adds up what all tickets hold, and asserts that the gate's counters say the same. */
void gate_assert_books(const struct tg_gate *gate);

#endif
