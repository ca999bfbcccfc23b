/* wakes.c - the calls of a gate that were woken, for the event loop that they wait in. See section
 * 4 of tollgate_posix.h.
 *
 * A wake comes under the gate's lock, so it must neither fail nor allocate: the waiters carry the
 * list themselves. One byte is in a pipe while the list is not empty, written by whoever fills the
 * empty list and read by whoever empties it, both under the list's mutex. So the pipe never has
 * more than one, a write never blocks, and no wake is lost. An eventfd would do as well, but is no
 * POSIX.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "tollgate_posix.h"

struct tg_wakes {
    pthread_mutex_t mutex;
    struct tg_waiter woken; /* the ends of the list: `next` is the first, `previous` the last */
    int read_fd, write_fd;
};

static bool make_quiet(int fd)
{
    return fcntl(fd, F_SETFD, FD_CLOEXEC) == 0 && fcntl(fd, F_SETFL, O_NONBLOCK) == 0;
}

enum tg_err tg_wakes_new(struct tg_wakes **wakes)
{
    struct tg_wakes *made;
    int ends[2];

    if (wakes == NULL)
        return TG_ERR_NULL;
    made = malloc(sizeof *made);
    if (made == NULL)
        return TG_ERR_MEMORY;
    if (pipe(ends) != 0)
        goto free_made;
    if (!make_quiet(ends[0]) || !make_quiet(ends[1]) || pthread_mutex_init(&made->mutex, NULL) != 0)
        goto close_ends;
    made->woken.next = made->woken.previous = &made->woken;
    made->read_fd = ends[0];
    made->write_fd = ends[1];
    *wakes = made;
    return TG_OK;

close_ends:
    close(ends[0]);
    close(ends[1]);
free_made:
    free(made);
    return TG_ERR_MEMORY;
}

void tg_wakes_free(struct tg_wakes *wakes)
{
    if (wakes == NULL)
        return;
    close(wakes->read_fd);
    close(wakes->write_fd);
    (void)pthread_mutex_destroy(&wakes->mutex);
    free(wakes);
}

int tg_wakes_fd(const struct tg_wakes *wakes)
{
    return wakes != NULL ? wakes->read_fd : -1;
}

void tg_waiter_init(struct tg_waiter *waiter, struct tg_wakes *wakes, void *owner)
{
    if (waiter != NULL)
        *waiter = (struct tg_waiter){.wakes = wakes, .owner = owner};
}

static bool is_empty(const struct tg_wakes *wakes)
{
    return wakes->woken.next == &wakes->woken;
}

static void set_readable(struct tg_wakes *wakes)
{
    while (write(wakes->write_fd, "", 1) < 0 && errno == EINTR)
        ;
}

static void set_unreadable(struct tg_wakes *wakes)
{
    char byte;

    while (read(wakes->read_fd, &byte, 1) < 0 && errno == EINTR)
        ;
}

void tg_waiter_wake(void *context, void *of_call)
{
    struct tg_waiter *waiter = of_call;

    (void)context;
    if (waiter == NULL || waiter->wakes == NULL)
        return;
    struct tg_wakes *wakes = waiter->wakes;
    pthread_mutex_lock(&wakes->mutex);
    if (waiter->next == NULL) {
        if (is_empty(wakes))
            set_readable(wakes);
        waiter->next = &wakes->woken;
        waiter->previous = wakes->woken.previous;
        waiter->previous->next = waiter;
        wakes->woken.previous = waiter;
    }
    pthread_mutex_unlock(&wakes->mutex);
}

/* With the mutex. */
static void unlink_waiter(struct tg_wakes *wakes, struct tg_waiter *waiter)
{
    waiter->next->previous = waiter->previous;
    waiter->previous->next = waiter->next;
    waiter->next = waiter->previous = NULL;
    if (is_empty(wakes))
        set_unreadable(wakes);
}

void *tg_wakes_next(struct tg_wakes *wakes)
{
    void *owner = NULL;

    if (wakes == NULL)
        return NULL;
    pthread_mutex_lock(&wakes->mutex);
    if (!is_empty(wakes)) {
        owner = wakes->woken.next->owner;
        unlink_waiter(wakes, wakes->woken.next);
    }
    pthread_mutex_unlock(&wakes->mutex);
    return owner;
}

void tg_waiter_forget(struct tg_waiter *waiter)
{
    if (waiter == NULL || waiter->wakes == NULL)
        return;
    pthread_mutex_lock(&waiter->wakes->mutex);
    if (waiter->next != NULL)
        unlink_waiter(waiter->wakes, waiter);
    pthread_mutex_unlock(&waiter->wakes->mutex);
}

int tg_gate_timeout(struct tg_gate *gate, tg_ms now)
{
    tg_ms deadline = tg_gate_next_deadline(gate);

    if (deadline == INT64_MAX)
        return -1;
    if (deadline <= now)
        return 0;
    return deadline - now < INT_MAX ? (int)(deadline - now) : INT_MAX;
}
