/* fd_poll.c - a descriptor of somebody else's on a loop: see fd_poll.h. */
#include "io/net/fd_poll.h"

#include <stdlib.h>

#include "io/net/loop_internal.h"

struct net_poll {
    uv_poll_t uv;
    struct net_loop *loop;
    net_poll_fn *fn;
    void *arg;
};

enum tg_err net_poll_new(struct net_loop *loop, int fd, net_poll_fn *fn, void *arg,
                         struct net_poll **made)
{
    struct net_poll *poll = calloc(1, sizeof *poll);

    if (poll == NULL || uv_poll_init(&loop->uv, &poll->uv, fd) != 0) {
        free(poll);
        return TG_ERR_MEMORY;
    }
    poll->uv.data = poll;
    poll->loop = loop;
    poll->fn = fn;
    poll->arg = arg;
    *made = poll;
    return TG_OK;
}

static void polled(uv_poll_t *uv, int status, int events)
{
    struct net_poll *poll = uv->data;
    struct net_loop *loop = poll->loop;
    /* An error is found by whoever reads or writes then. */
    unsigned seen = status != 0 ? NET_POLL_READ | NET_POLL_WRITE
                                : (events & (UV_READABLE | UV_DISCONNECT) ? NET_POLL_READ : 0u) |
                                      (events & UV_WRITABLE ? NET_POLL_WRITE : 0u);

    poll->fn(poll->arg, seen);
    net_loop_settle(loop);
}

void net_poll_watch(struct net_poll *poll, unsigned events)
{
    int wanted = (events & NET_POLL_READ ? UV_READABLE | UV_DISCONNECT : 0) |
                 (events & NET_POLL_WRITE ? UV_WRITABLE : 0);

    if (wanted == 0)
        uv_poll_stop(&poll->uv);
    else
        uv_poll_start(&poll->uv, wanted, polled);
}

static void poll_closed(uv_handle_t *uv)
{
    free(uv->data);
}

void net_poll_free(struct net_poll *poll)
{
    if (poll == NULL)
        return;
    uv_poll_stop(&poll->uv);
    uv_close((uv_handle_t *)&poll->uv, poll_closed);
}
