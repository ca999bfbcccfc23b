/* wake.c - tells Python which waiting calls the gate has woken.
 *
 * The gate calls wake() under its lock, in whatever thread it likes. Python code must not run there: it
 * would need the interpreter's lock, and a finalizer could call the gate. So wake() puts the waiter into
 * a list and rings an eventfd; whoever reads that, an event loop or a thread that sleeps, then takes the
 * waiters from the list. A bell belongs to one loop or one thread; it is rung by any.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/queue.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

struct bell_waiter {
    struct bell *bell;
    uint64_t id; /* what Python knows it by */
    bool is_woken;
    STAILQ_ENTRY(bell_waiter) next;
};

struct bell {
    pthread_mutex_t lock;
    STAILQ_HEAD(, bell_waiter) woken;
    int fd;
};

EXPORT struct bell *bell_new(void)
{
    struct bell *bell = malloc(sizeof *bell);

    if (bell == NULL)
        return NULL;
    bell->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (bell->fd < 0 || pthread_mutex_init(&bell->lock, NULL)) {
        if (bell->fd >= 0)
            close(bell->fd);
        free(bell);
        return NULL;
    }
    STAILQ_INIT(&bell->woken);
    return bell;
}

/* No waiter of it may be left. */
EXPORT void bell_free(struct bell *bell)
{
    close(bell->fd);
    pthread_mutex_destroy(&bell->lock);
    free(bell);
}

EXPORT int bell_fd(const struct bell *bell)
{
    return bell->fd;
}

EXPORT struct bell_waiter *bell_waiter_new(struct bell *bell, uint64_t id)
{
    struct bell_waiter *waiter = calloc(1, sizeof *waiter);

    if (waiter != NULL) {
        waiter->bell = bell;
        waiter->id = id;
    }
    return waiter;
}

/* The gate does not know the waiter any more: it has decided the call, or has never let it wait. */
EXPORT void bell_waiter_free(struct bell_waiter *waiter)
{
    pthread_mutex_lock(&waiter->bell->lock);
    if (waiter->is_woken)
        STAILQ_REMOVE(&waiter->bell->woken, waiter, bell_waiter, next);
    pthread_mutex_unlock(&waiter->bell->lock);
    free(waiter);
}

/* The gate's wake(). */
EXPORT void bell_wake(void *context, void *waiter_pointer)
{
    struct bell_waiter *waiter = waiter_pointer;
    struct bell *bell = waiter->bell;

    (void)context;
    pthread_mutex_lock(&bell->lock);
    if (!waiter->is_woken) {
        waiter->is_woken = true;
        STAILQ_INSERT_TAIL(&bell->woken, waiter, next);
        /* It cannot fail: the counter is far from full, since each waiter is counted once. */
        (void)eventfd_write(bell->fd, 1);
    }
    pthread_mutex_unlock(&bell->lock);
}

/* Takes the next waiter that was woken and returns its id; 0: there is none, and the bell is silent. */
EXPORT uint64_t bell_next(struct bell *bell)
{
    uint64_t id = 0;
    eventfd_t rung;

    pthread_mutex_lock(&bell->lock);
    struct bell_waiter *waiter = STAILQ_FIRST(&bell->woken);
    if (waiter != NULL) {
        STAILQ_REMOVE_HEAD(&bell->woken, next);
        waiter->is_woken = false;
        id = waiter->id;
    } else {
        (void)eventfd_read(bell->fd, &rung);
    }
    pthread_mutex_unlock(&bell->lock);
    return id;
}
