/* loop.h - the event loop of a worker thread: its time, its timers, and a way in for other threads.
 *
 *     struct net_loop *loop;
 *     err = net_loop_new(&clock, &loop);
 *     ... http_listen(), http_client_new(), net_timer_set() ...
 *     net_loop_run(loop);
 *     ... free what was made on it ...
 *     net_loop_free(loop);
 *
 * One loop belongs to one thread: whoever runs it. Everything made on a loop is used by that thread
 * alone, and calls back on it; net_loop_post() and net_loop_stop() are for any thread. Before a
 * loop runs, and after, its maker may use it as if it were that thread.
 *
 * SIGPIPE must be ignored by the program, or blocked: a write to a peer that left is an error code.
 *
 * The files of this room, from the system upwards:
 *
 *     loop, wheel      libuv's loop, the time, timers; work that is put off until an event is over
 *     buf              bytes that wait, in blocks of the loop
 *     wire, tls_wire   one connected socket, plain or with TLS
 *     tls              certificates and trust
 *     resolve          names to addresses
 *     work_pool        threads for work that takes longer than a turn
 */
#ifndef TG_NET_LOOP_H
#define TG_NET_LOOP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "io/posix/clock.h"
#include "tollgate.h"

struct net_loop;

/* The clock is borrowed, and may be shared by all loops. TG_ERR_MEMORY: or no descriptors left. */
TG_MUST_CHECK enum tg_err net_loop_new(const struct clock *clock, struct net_loop **loop);

/* Everything that was made on the loop must have been freed. Posts that have not run, do not. */
void net_loop_free(struct net_loop *loop);

/* Runs until it is stopped. A stop that came before makes it return at once. */
void net_loop_run(struct net_loop *loop);

/* One turn: waits for something to happen unless `wait` is false, and lets it. For tests and for
 * what has a loop of its own. */
void net_loop_turn(struct net_loop *loop, bool wait);

/* From any thread. */
void net_loop_stop(struct net_loop *loop);

/* Now, in ms of the epoch, the same during one turn. */
tg_ms net_loop_now(struct net_loop *loop);

/* ---- Timers -----------------------------------------------------------------------------------
 *
 * They stand in their owner's storage and need no memory. Setting again costs some nanoseconds
 * however many there are, so that every read may move an idle time-out. A timer fires once; in its
 * callback it may be set again, and its storage may be freed. */

typedef void net_timer_fire(void *arg);

struct net_timer {
    LIST_ENTRY(net_timer) in_slot; /* its slot of the wheel; le_prev null: not set */
    tg_ms at;                      /* when it fires */
    tg_ms filed;                   /* the time of its slot, at most `at` */
    unsigned char level, slot;
    net_timer_fire *fire;
    void *arg;
};

void net_timer_init(struct net_timer *timer, net_timer_fire *fire, void *arg);

/* Fires `ms` from now, not earlier; at least 1. If it was set, that is forgotten. */
void net_timer_set(struct net_loop *loop, struct net_timer *timer, tg_ms ms);

/* After this its storage may go. Nothing happens if it was not set. */
void net_timer_stop(struct net_loop *loop, struct net_timer *timer);

static inline bool net_timer_is_set(const struct net_timer *timer)
{
    return timer->in_slot.le_prev != NULL;
}

/* ---- From other threads -----------------------------------------------------------------------
 *
 * A post stands in its owner's storage: posting never fails. Many posts wake the loop once, and
 * one that is waiting already is not queued a second time: its function runs at least once after
 * every net_loop_post(). In the function it may be posted again, and its storage may be freed. */

typedef void net_post_run(void *arg);

struct net_post {
    STAILQ_ENTRY(net_post) next; /* all private */
    bool queued;
    net_post_run *run;
    void *arg;
};

void net_post_init(struct net_post *post, net_post_run *run, void *arg);

/* From any thread: has the function run on the loop's, soon. */
void net_loop_post(struct net_loop *loop, struct net_post *post);

/* On the loop's thread: the function does not run any more, and the storage may go, if no other
 * thread posts it again. */
void net_loop_unpost(struct net_loop *loop, struct net_post *post);

#endif
