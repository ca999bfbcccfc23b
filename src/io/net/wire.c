/* wire.c - a connected socket: what is polled for, what is read, what is written, how it ends.
 *
 * libuv polls; reading and writing are plain recv and send. libuv's own streams cannot tell that a
 * peer has left while nothing is being read, and a gateway must know that in every state: a client
 * that gave up holds a place and a budget. A poll for EPOLLRDHUP tells, without reading a byte, so
 * memory stays bounded however much the peer has sent. Their handles are also closed later than
 * asked, and these stand apart from the wire, which can so be freed when its owner wants.
 *
 * Changing what is polled for costs two system calls, so it is put off as long as it can be: a
 * pause is noticed by the poll only when bytes arrive meanwhile, and writing is polled for only
 * after a socket took less than it was given. A request that is answered at once changes nothing.
 *
 *     CONNECTING -> OPEN <-> SHAKING      (any) -> CLOSED
 */
#include "io/net/wire.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define DIRECT_BYTES 4096 /* from here on copying costs more than a system call of its own */

/* Bytes that the system may hold besides what is on its way. It would take some megabytes of a
 * reply for a client that does not read, of which nobody is told: memory that is not bounded by us,
 * and work for a thousand of these that all others wait for. */
#define UNSENT_BYTES (64 << 10)

/* libuv's part of a wire: outlives it until libuv has closed it. */
struct wire_poll {
    uv_poll_t uv;
    struct wire *wire;
};

static void polled(uv_poll_t *uv, int status, int events);

static void poll_closed(uv_handle_t *uv)
{
    free(uv->data);
}

/* What should be polled for, by the state. */
static int wanted(const struct wire *wire)
{
    int mask = 0;

    if (wire->state == WIRE_CONNECTING)
        return UV_WRITABLE;
    if (wire->eof)
        mask = 0;
    else if (!wire->paused || wire->state == WIRE_SHAKING)
        mask = UV_READABLE;
    else if (wire->watch)
        mask = UV_DISCONNECT;
    return wire->blocked ? mask | UV_WRITABLE : mask;
}

static void update(struct wire *wire)
{
    int mask = wanted(wire);

    if (wire->poll == NULL || mask == wire->mask)
        return;
    wire->mask = mask;
    if (mask == 0)
        uv_poll_stop(&wire->poll->uv);
    else
        uv_poll_start(&wire->poll->uv, mask, polled);
}

void wire_break(struct wire *wire, enum wire_fault fault, const char *text)
{
    if (wire->state == WIRE_CLOSED)
        return;
    net_later_cancel(wire->loop, &wire->later);
    wire->ops->broke(wire, fault, text);
}

/* ---- Reading --------------------------------------------------------------------------------- */

void wire_deliver(struct wire *wire, const char *bytes, size_t n)
{
    size_t took = wire->ops->data(wire, bytes, n);

    assert(took <= n);
    if (wire->state == WIRE_CLOSED || took == n)
        return;
    wire->paused = true;
    if (!buf_append(wire->loop, &wire->held, bytes + took, n - took))
        wire_break(wire, WIRE_NO_MEMORY, "no memory");
}

void wire_end_of_input(struct wire *wire, bool truncated)
{
    if (wire->eof || wire->state == WIRE_CLOSED)
        return;
    wire->eof = true;
    wire->truncated = truncated;
    update(wire);
    wire->ops->eof(wire);
}

static void take_input(struct wire *wire, const char *bytes, size_t n)
{
    if (wire->tls.ssl != NULL)
        tls_wire_input(wire, bytes, n);
    else
        wire_deliver(wire, bytes, n);
}

static void readable(struct wire *wire)
{
    if (wire->paused && wire->state != WIRE_SHAKING) {
        update(wire);
        return;
    }
    ssize_t n = recv(wire->fd, wire->loop->read_scratch, NET_READ_BYTES, 0);
    if (n > 0)
        take_input(wire, wire->loop->read_scratch, (size_t)n);
    else if (n == 0)
        wire_end_of_input(wire, wire->tls.ssl != NULL);
    else if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
        wire_break(wire, WIRE_RESET, strerror(errno));
}

/* What was held while paused goes first. */
static void deliver_held(struct wire *wire)
{
    size_t n = buf_bytes(&wire->held);
    size_t took = wire->ops->data(wire, n > 0 ? buf_first(&wire->held) : "", n);

    assert(took <= n);
    if (wire->state == WIRE_CLOSED)
        return;
    if (took > 0)
        buf_consume(wire->loop, &wire->held, took);
    if (took < n)
        wire->paused = true;
    else if (wire->tls.ssl != NULL && !wire->paused)
        tls_wire_input(wire, NULL, 0);
}

void wire_pause(struct wire *wire)
{
    wire->paused = true;
}

void wire_resume(struct wire *wire)
{
    if (wire->state == WIRE_CLOSED)
        return;
    wire->paused = false;
    wire->resumed = true;
    net_later_put(wire->loop, &wire->later);
}

bool wire_is_quiet(struct wire *wire)
{
    char byte;

    while (wire->state == WIRE_OPEN && !wire->eof && !wire->paused && wire->poll != NULL) {
        ssize_t n = recv(wire->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

        if (n < 0)
            return errno == EAGAIN || errno == EWOULDBLOCK;
        if (n == 0 || wire->tls.ssl == NULL)
            return false;
        readable(wire); /* a ticket, which does no harm, or TLS's close_notify */
    }
    return false;
}

bool wire_has_ended(const struct wire *wire)
{
    char byte;

    if (wire->state != WIRE_OPEN || wire->eof)
        return true;
    if (wire->poll == NULL)
        return false;
    ssize_t n = recv(wire->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

/* ---- Writing --------------------------------------------------------------------------------- */

void wire_break_later(struct wire *wire, enum wire_fault fault, const char *text)
{
    assert(text != NULL && wire->state != WIRE_CLOSED);
    wire->deaf = true;
    wire->blocked = false;
    wire->broken = text;
    wire->fault = fault;
    buf_release(wire->loop, &wire->out);
    buf_release(wire->loop, &wire->tls.cipher);
    net_later_put(wire->loop, &wire->later);
}

/* What became of a send of so many bytes; `n` and errno are the system's. */
static ssize_t sent(struct wire *wire, ssize_t n, size_t whole)
{
    if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) {
        wire_break_later(wire, WIRE_RESET, strerror(errno));
        return -1;
    }
    assert(n <= (ssize_t)whole);
    if (n > 0)
        wire->taken += (uint64_t)n;
    wire->blocked = n < (ssize_t)whole;
    return n;
}

long wire_send(struct wire *wire, const char *bytes, size_t n)
{
    /* Without a socket, all is taken. A list of one piece would have to be read by the system. */
    return sent(wire, wire->poll == NULL ? (ssize_t)n : send(wire->fd, bytes, n, MSG_NOSIGNAL), n);
}

/* What is queued and the new piece in one system call; returns how much of the piece is left. */
static size_t send_directly(struct wire *wire, const char *bytes, size_t n)
{
    size_t queued = buf_bytes(&wire->out);
    struct iovec parts[2] = {
        {.iov_base = queued > 0 ? (char *)buf_first(&wire->out) : NULL, .iov_len = queued},
        {.iov_base = (char *)bytes, .iov_len = n},
    };
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    size_t whole = queued + n;
    ssize_t taken = wire->poll == NULL ? (ssize_t)whole : sendmsg(wire->fd, &message, MSG_NOSIGNAL);

    taken = sent(wire, taken, whole);
    if (taken <= 0)
        return n;
    size_t of_queue = (size_t)taken < queued ? (size_t)taken : queued;
    if (of_queue > 0)
        buf_consume(wire->loop, &wire->out, of_queue);
    return n - ((size_t)taken - of_queue);
}

void wire_write(struct wire *wire, const void *bytes, size_t n)
{
    const char *at = bytes;
    size_t left = n;

    if (wire->state == WIRE_CLOSED || wire->deaf || n == 0)
        return;
    net_later_put(wire->loop, &wire->later);
    if (n >= DIRECT_BYTES && wire->tls.ssl == NULL && !wire->blocked && wire->state == WIRE_OPEN)
        left = send_directly(wire, at, n);
    if (!wire->deaf && !buf_append(wire->loop, &wire->out, at + (n - left), left))
        wire_break_later(wire, WIRE_NO_MEMORY, "no memory");
}

size_t wire_queued(const struct wire *wire)
{
    return buf_bytes(&wire->out) + buf_bytes(&wire->tls.cipher);
}

static void shut_when_written(struct wire *wire)
{
    if (!wire->closing || wire_queued(wire) > 0 || wire->deaf)
        return;
    wire->closing = false;
    wire->deaf = true;
    if (wire->tls.ssl != NULL)
        tls_wire_close_notify(wire);
    if (wire->poll != NULL)
        shutdown(wire->fd, SHUT_WR);
}

static void flush(struct wire *wire)
{
    if (wire->state != WIRE_OPEN && wire->state != WIRE_SHAKING)
        return;
    if (wire->tls.ssl != NULL) {
        tls_wire_flush(wire);
    } else if (buf_bytes(&wire->out) > 0) {
        ssize_t n = wire_send(wire, buf_first(&wire->out), buf_bytes(&wire->out));
        if (n > 0)
            buf_consume(wire->loop, &wire->out, (size_t)n);
    }
    shut_when_written(wire);
}

/* Put off by any call; everything that could call back happens here. */
static void wire_settle(void *arg)
{
    struct wire *wire = arg;
    uint64_t taken = wire->taken;

    assert(wire->state != WIRE_CLOSED);
    if (wire->resumed) {
        wire->resumed = false;
        if (!wire->paused)
            deliver_held(wire);
    }
    if (wire->state == WIRE_CLOSED)
        return;
    if (!wire->blocked)
        flush(wire);
    update(wire);
    if (wire->broken != NULL) {
        const char *text = wire->broken;

        wire->broken = NULL;
        wire_break(wire, wire->fault, text);
    } else if (wire->state == WIRE_OPEN && (wire->taken != taken || wire_queued(wire) == 0)) {
        wire->ops->wrote(wire);
    }
}

/* ---- Beginning ------------------------------------------------------------------------------- */

static void connected(struct wire *wire)
{
    int error = 0;
    socklen_t n = sizeof error;

    assert(wire->state == WIRE_CONNECTING && wire->tls.ssl == NULL);
    if (getsockopt(wire->fd, SOL_SOCKET, SO_ERROR, &error, &n) != 0)
        error = errno;
    wire->error = error;
    if (error != 0) {
        wire_break(wire, WIRE_REFUSED, strerror(error));
        return;
    }
    wire->state = WIRE_OPEN;
    update(wire);
    wire->ops->up(wire);
}

static void polled(uv_poll_t *uv, int status, int events)
{
    struct wire *wire = ((struct wire_poll *)uv->data)->wire;
    struct net_loop *loop = wire->loop;

    assert(wire->state != WIRE_CLOSED && wire->fd >= 0);
    if (status < 0) {
        /* An error on the socket; libuv has stopped polling. Reading would tell which one, after
         * what arrived before it. */
        wire->mask = 0;
        events = UV_READABLE;
    }
    if (wire->state == WIRE_CONNECTING) {
        connected(wire);
    } else if (status < 0 && (wire->paused || wire->eof)) {
        wire_break(wire, WIRE_RESET, "the connection broke");
    } else {
        if (events & UV_WRITABLE) {
            wire->blocked = false;
            wire_settle(wire);
        }
        if (wire->state != WIRE_CLOSED && (events & UV_READABLE))
            readable(wire);
        else if (wire->state != WIRE_CLOSED && (events & UV_DISCONNECT))
            wire_end_of_input(wire, true);
        if (wire->state != WIRE_CLOSED)
            update(wire);
    }
    net_loop_settle(loop);
}

static bool open_poll(struct wire *wire, int fd)
{
    assert(wire->poll == NULL);
    wire->poll = malloc(sizeof *wire->poll);
    if (wire->poll == NULL)
        return false;
    if (uv_poll_init(&wire->loop->uv, &wire->poll->uv, fd) != 0) {
        free(wire->poll);
        wire->poll = NULL;
        return false;
    }
    wire->poll->uv.data = wire->poll;
    wire->poll->wire = wire;
    return true;
}

/* A machine that has gone says nothing, and neither does a conversation in which nobody speaks:
 * what that holds would be held for ever. The system asks after a minute, and gives up after two;
 * where bytes wait to be acknowledged it does not ask, but gives up just the same, not after the
 * quarter of an hour that it takes by itself. */
static void set_keepalive(int fd)
{
    int on = 1, idle_s = 60, again_s = 15, times = 4;
    unsigned unacknowledged_ms = 120000;

    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &again_s, sizeof again_s);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &times, sizeof times);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacknowledged_ms,
                     sizeof unacknowledged_ms);
}

static void wire_begin(struct wire *wire, struct net_loop *loop, const struct wire_ops *ops, int fd)
{
    int on = 1, unsent = UNSENT_BYTES;

    *wire = (struct wire){.loop = loop, .ops = ops, .fd = fd};
    net_later_init(&wire->later, wire_settle, wire);
    if (fd < 0)
        return;
    /* All fail for a local socket, which has no need of them. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
    set_keepalive(fd);
}

bool wire_accept(struct wire *wire, struct net_loop *loop, const struct wire_ops *ops, int fd,
                 struct tls_context *tls)
{
    wire_begin(wire, loop, ops, fd);
    if (fd >= 0 && !open_poll(wire, fd)) {
        close(fd);
        return false;
    }
    wire->state = WIRE_OPEN;
    if (tls != NULL) {
        if (!tls_wire_init(wire, tls, NULL, NULL)) {
            wire_close(wire);
            return false;
        }
        wire->state = WIRE_SHAKING;
    }
    update(wire);
    return true;
}

bool wire_connect(struct wire *wire, struct net_loop *loop, const struct wire_ops *ops,
                  const struct sockaddr *address, socklen_t n)
{
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return false;
    wire_begin(wire, loop, ops, fd);
    if (connect(fd, address, n) != 0 && errno != EINPROGRESS)
        goto close_fd;
    if (!open_poll(wire, fd)) {
        errno = ENOMEM;
        goto close_fd;
    }
    wire->state = WIRE_CONNECTING;
    update(wire);
    return true;

close_fd:;
    int error = errno;
    close(fd);
    errno = error;
    return false;
}

bool wire_start_tls(struct wire *wire, struct tls_context *tls, const char *name,
                    struct tls_ticket *ticket)
{
    assert(wire->state == WIRE_OPEN && wire->tls.ssl == NULL && buf_bytes(&wire->held) == 0);
    if (!tls_wire_init(wire, tls, name, ticket))
        return false;
    wire->state = WIRE_SHAKING;
    tls_wire_shake(wire);
    return true;
}

/* ---- Ending ---------------------------------------------------------------------------------- */

void wire_shutdown(struct wire *wire)
{
    if (wire->state == WIRE_CLOSED)
        return;
    wire->closing = true;
    net_later_put(wire->loop, &wire->later);
}

void wire_close(struct wire *wire)
{
    if (wire->state == WIRE_CLOSED && wire->fd < 0)
        return;
    if (wire->tls.ssl != NULL) {
        if (wire->state == WIRE_OPEN && !wire->deaf && wire_queued(wire) == 0)
            tls_wire_close_notify(wire);
        tls_wire_fini(wire);
    }
    net_later_cancel(wire->loop, &wire->later); /* also what a failed close_notify put off */
    wire->state = WIRE_CLOSED;
    buf_release(wire->loop, &wire->out);
    buf_release(wire->loop, &wire->held);
    if (wire->poll != NULL) {
        uv_close((uv_handle_t *)&wire->poll->uv, poll_closed);
        wire->poll = NULL;
    }
    if (wire->fd >= 0)
        close(wire->fd);
    wire->fd = -1;
}

void wire_abort(struct wire *wire)
{
    struct linger linger = {.l_onoff = 1, .l_linger = 0};

    if (wire->fd >= 0)
        (void)setsockopt(wire->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    wire->deaf = true;
    wire_close(wire);
}

/* ---- Without a socket ------------------------------------------------------------------------ */

void wire_feed(struct wire *wire, const char *bytes, size_t n)
{
    struct net_loop *loop = wire->loop;

    if (wire->state == WIRE_CLOSED)
        return;
    if (wire->paused) {
        if (!buf_append(wire->loop, &wire->held, bytes, n))
            wire_break(wire, WIRE_NO_MEMORY, "no memory");
    } else {
        take_input(wire, bytes, n);
    }
    net_loop_settle(loop);
}

void wire_feed_eof(struct wire *wire)
{
    struct net_loop *loop = wire->loop;

    if (wire->state != WIRE_CLOSED)
        wire_end_of_input(wire, false);
    net_loop_settle(loop);
}
