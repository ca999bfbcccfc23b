/* tollgate_posix.h - the public interface of libtollgate-posix: what a server on Linux or another
 * POSIX system needs beside tollgate.h, which does no I/O and reads no clock.
 *
 *   1 The clock   2 Memory in use   3 Threads that wait   4 Event loops that wait
 *
 * What is said in the head of tollgate.h about memory, errors, growth and misuse holds here, too.
 * Memory of these objects comes from libc. docs/library.md shows how they are used, and
 * so do examples/server-threads.c, examples/server-epoll.c and examples/server-libuv.c. */
#ifndef TOLLGATE_POSIX_H
#define TOLLGATE_POSIX_H

#include <tollgate.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- 1 The clock --------------------------------------------------------------------------
 *
 * The `now` for everything in tollgate.h. */

/* Returns the time in ms since the epoch, by a clock that is set when it is first read and never
 * steps from then on: an administrator or time synchronisation that sets the system's clock does
 * not disturb limits, waits and leases. It continues while the machine sleeps. Any thread; a system
 * call only where the kernel has no faster way. */
TG_API tg_ms tg_clock_now(void);

/* Returns what the system's own clock shows at a time of tg_clock_now(), now or not long ago: for
 * dates in logs, and for a bank, whose windows are days of the calendar. */
TG_API tg_ms tg_clock_wall_of(tg_ms at);

/* ---- 2 Memory in use ----------------------------------------------------------------------
 *
 * The fraction of memory in use, for tg_gate_set_memory(): of the machine, or of the control groups
 * (v2 or v1) that the process is in, whichever is fuller. The page cache that the kernel can take
 * back does not count. Linux; elsewhere it is unknown.
 *
 *     every 500 ms:   tg_gate_set_memory(gate, tg_memory_read(memory, tg_clock_now()));
 */

struct tg_memory;

/* `poll` is how often you will read it: what was read counts for three times as long if it cannot
 * be read again. `root` is the folder below which `proc` and `sys` are; null: that of the system.
 *
 * TG_ERR_INVALID: `poll` is below 1. TG_ERR_MEMORY, TG_ERR_NULL. */
TG_API TG_MUST_CHECK enum tg_err tg_memory_new(tg_ms poll, const char *root,
                                               struct tg_memory **memory);
TG_API void tg_memory_free(struct tg_memory *memory);

/* Reads some small files of the kernel and returns the fraction, 0 to 1; NaN if it is unknown,
 * which tg_gate_set_memory() takes. By one thread at a time. */
TG_API double tg_memory_read(struct tg_memory *memory, tg_ms now);

/* ---- 3 Threads that wait ------------------------------------------------------------------
 *
 * For a server with a thread for each call:
 *
 *     config.wake = tg_thread_wake;
 *     tg_gate_new(&config, &gate, &problem)
 *     ...
 *     call.deadline = tg_clock_now() + 2000;
 *     if (tg_thread_admit(gate, &call, &answer) == TG_OK && answer.decision.allowed) {
 *         serve();
 *         tg_gate_release(gate, answer.lease, tg_clock_now(), NULL);
 *     }
 *
 * No thread of its own is needed: threads that arrive or wait also let leases expire. */

/* The wake() of a gate whose calls wait by tg_thread_admit(), and by nothing else. */
TG_API void tg_thread_wake(void *context, void *waiter);

/* Asks the gate for admission and blocks until it has decided, at most as long as the call may
 * wait: by its priority's wait, and until its deadline. The answer is TG_DECIDED. `waiter` of the
 * call is used meanwhile, and its other members must stay as they are. If another thread ends the
 * waiting call by tg_gate_release(), it is TG_ERR_STALE when the wait would have been over.
 *
 * Errors as of tg_gate_admit(); TG_ERR_INVALID also for a gate with a remote store. */
TG_API TG_MUST_CHECK enum tg_err tg_thread_admit(struct tg_gate *gate, struct tg_call *call,
                                                 struct tg_answer *answer);

/* ---- 4 Event loops that wait --------------------------------------------------------------
 *
 * A wake() may come from any thread and may only post a message. This is the place where it posts:
 * a list of the calls that were woken, with a descriptor that is readable while there are any. Each
 * loop has one. A call that waits has a struct tg_waiter, which says which loop it belongs to.
 *
 *     config.wake = tg_waiter_wake;
 *     tg_wakes_new(&wakes)                     and the loop polls tg_wakes_fd(wakes) for reading
 *     ...
 *     tg_waiter_init(&request->waiter, wakes, request);
 *     call.waiter = &request->waiter;
 *     tg_gate_admit(gate, &request->call, 0, tg_clock_now(), &answer)
 *
 *     when the descriptor is readable:         while ((request = tg_wakes_next(wakes)))
 *                                                  tg_gate_resume(... request ...)
 *     with the loop's timer:                   tg_gate_tick(gate, tg_clock_now())
 *     the loop sleeps for                      tg_gate_timeout(gate, tg_clock_now())
 *     a client that waits hangs up:            tg_gate_release(gate, lease, ...);
 *                                              tg_waiter_forget(&request->waiter);
 *
 * tg_gate_tick() wakes the calls whose wait is over, so nothing else is to be done for deadlines. A
 * gate's next deadline may come nearer with every call, so it is asked for before every sleep. */

struct tg_wakes;

/* In your storage, where it must stay until it is forgotten; its members are private. */
struct tg_waiter {
    struct tg_wakes *wakes;
    struct tg_waiter *next, *previous; /* among those that were woken; null: not in the list */
    void *owner;
    uint64_t unused[2]; /* for later versions */
};

/* TG_ERR_MEMORY: also if there is no descriptor left. TG_ERR_NULL. */
TG_API TG_MUST_CHECK enum tg_err tg_wakes_new(struct tg_wakes **wakes);

/* No gate may wake its waiters from here on. Closes the descriptor. */
TG_API void tg_wakes_free(struct tg_wakes *wakes);

/* The descriptor, for poll(), epoll or a loop's library; do not read from it. -1 for null. */
TG_API int tg_wakes_fd(const struct tg_wakes *wakes);

/* `owner` is what tg_wakes_next() will return. */
TG_API void tg_waiter_init(struct tg_waiter *waiter, struct tg_wakes *wakes, void *owner);

/* The wake() of a gate; `waiter` is a struct tg_waiter. `context` is not used. */
TG_API void tg_waiter_wake(void *context, void *waiter);

/* Takes the next call that was woken and returns its owner; null: there is none, and the descriptor
 * is no longer readable. By the thread of the loop. */
TG_API void *tg_wakes_next(struct tg_wakes *wakes);

/* The waiter's memory may be used for something else from here on: a wake that was posted is
 * withdrawn. Its call must have ended, or must have been decided. By the thread of the loop. */
TG_API void tg_waiter_forget(struct tg_waiter *waiter);

/* Returns how many ms a loop may sleep until tg_gate_tick() has something to do, in the form that
 * poll() and epoll_wait() take: 0: it is due; -1: for ever. Before anything is due at all, there is
 * nothing that waits. */
TG_API int tg_gate_timeout(struct tg_gate *gate, tg_ms now);

#ifdef __cplusplus
}
#endif
#endif /* TOLLGATE_POSIX_H */
