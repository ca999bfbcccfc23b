/* spinlock.h - a lock for critical sections of some ten nanoseconds.
 *
 * A limiter check holds it for less time than a mutex needs to be taken and given back. One
 * atomic exchange takes it, one plain store gives it back: the same price as the single
 * compare-and-swap of a hand-written counter. Who finds it taken looks again at once, since a
 * section is short and to meet somebody in it is rare. Who finds it taken then, too, has met a lock
 * that is in demand, and stays away for longer than a section or two: the data under the lock then
 * stays with the holder's core for several sections instead of going back and forth with each. When
 * the holder has been preempted, that helps nobody: after some microseconds the waiter gives its
 * core away.
 *
 * Ordering: the acquire of spin_lock() pairs with the release of spin_unlock(), so whoever holds
 * the lock sees all that former holders wrote. Waiters read before they write, so that a lock
 * under contention stays in the holder's cache. tests/thread runs it under TSan.
 *
 * TSan does not see the atomics of code that is not built with it, so a program under TSan with the
 * installed library would be told of races that are none, in its own wake() or limiters. The
 * shared library therefore tells TSan of its locks, if TSan is there: two weak symbols that are
 * null without it. Other builds are spared the comparison. tests/api/servers.sh.
 */
#ifndef TG_CORE_SPINLOCK_H
#define TG_CORE_SPINLOCK_H

#include <assert.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct spinlock {
    atomic_bool held;
};

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SPIN_SEEN_BY_TSAN
#endif
#elif defined(__SANITIZE_THREAD__)
#define SPIN_SEEN_BY_TSAN
#endif

#if defined(__PIC__) && !defined(__PIE__) && !defined(SPIN_SEEN_BY_TSAN)
__attribute__((weak)) void __tsan_acquire(void *address);
__attribute__((weak)) void __tsan_release(void *address);
#define spin_tell_tsan(what, lock) ((what) != NULL ? (what)(lock) : (void)0)
#else
#define spin_tell_tsan(what, lock) ((void)(lock))
#endif

/* How long a waiter stays away, but for the first time; a pause is 5 to 50 ns, as processors go. */
enum { SPIN_PAUSES_MIN = 32, SPIN_PAUSES_MAX = 64 };

static inline void spin_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Apart, so that a lock that is free costs its callers no registers. */
static __attribute__((noinline, unused)) void spin_wait(struct spinlock *lock)
{
    int pauses = 1;

    do {
        if (pauses > SPIN_PAUSES_MAX) {
            sched_yield();
            continue;
        }
        for (int i = 0; i < pauses; i++)
            spin_pause();
        pauses = pauses < SPIN_PAUSES_MIN ? SPIN_PAUSES_MIN : pauses * 2;
    } while (atomic_load_explicit(&lock->held, memory_order_relaxed) ||
             atomic_exchange_explicit(&lock->held, true, memory_order_acquire));
    spin_tell_tsan(__tsan_acquire, lock);
}

static inline bool spin_try_lock(struct spinlock *lock)
{
    if (atomic_exchange_explicit(&lock->held, true, memory_order_acquire))
        return false;
    spin_tell_tsan(__tsan_acquire, lock);
    return true;
}

static inline void spin_lock(struct spinlock *lock)
{
    if (!spin_try_lock(lock))
        spin_wait(lock);
}

static inline void spin_unlock(struct spinlock *lock)
{
    assert(atomic_load_explicit(&lock->held, memory_order_relaxed)); /* by whoever calls */
    spin_tell_tsan(__tsan_release, lock);
    atomic_store_explicit(&lock->held, false, memory_order_release);
}

#endif
