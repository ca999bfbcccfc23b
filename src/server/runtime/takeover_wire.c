/* takeover_wire.c - frames between two processes, one of which takes over: see takeover_wire.h. */
#define _GNU_SOURCE /* struct ucred */
#include "server/runtime/takeover_wire.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "lib/core/problem.h"

bool takeover_path(const char *ledger, const char *suffix, char path[108])
{
    int n = snprintf(path, 108, "%s%s", ledger, suffix);

    /* Room for the number of a process, under which it is made. */
    return strcmp(ledger, ":memory:") != 0 && n > 0 && n + 12 < 108;
}

/* Bound under another name, so that nobody connects before only this user may, and nobody who
 * connects at this moment finds nothing. */
int takeover_listen(const char *path, int type, struct tg_problem *problem)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    snprintf(address.sun_path, sizeof address.sun_path, "%.95s.%ld", path, (long)getpid());
    unlink(address.sun_path);
    if (fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0) {
        if (chmod(address.sun_path, S_IRUSR | S_IWUSR) == 0 && listen(fd, SOMAXCONN) == 0 &&
            rename(address.sun_path, path) == 0)
            return fd;
        unlink(address.sun_path);
    }
    problem_fail(problem, "%s: the socket cannot be made: %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    return -1;
}

bool takeover_is_own(int fd)
{
    struct ucred peer;
    socklen_t n = sizeof peer;

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) == 0 && peer.uid == geteuid();
}

union control_message {
    struct cmsghdr head;
    char bytes[CMSG_SPACE(sizeof(int) * TAKEOVER_SOCKETS_MAX)];
};

int takeover_send(int fd, enum takeover_type type, const void *payload, size_t n, const int *fds,
                  size_t n_fds)
{
    uint32_t head = (uint32_t)type;
    struct iovec parts[2] = {{&head, sizeof head}, {(void *)payload, n}};
    union control_message control = {0};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = n > 0 ? 2 : 1};
    ssize_t sent;

    if (n_fds > 0) {
        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
        struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(sizeof(int) * n_fds);
        memcpy(CMSG_DATA(rights), fds, sizeof(int) * n_fds);
    }
    do
        sent = sendmsg(fd, &message, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    if (sent >= 0)
        return 1;
    return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -1;
}

int takeover_receive(int fd, struct takeover_frame *frame)
{
    uint32_t head = 0;
    struct iovec parts[2] = {{&head, sizeof head}, {frame->payload, sizeof frame->payload}};
    union control_message control = {0};
    struct msghdr message = {.msg_iov = parts,
                             .msg_iovlen = 2,
                             .msg_control = &control,
                             .msg_controllen = sizeof control};
    ssize_t got;
    bool reset = false;

    frame->n = frame->n_fds = 0;
    /* Who closes without having read everything resets the other: what it has said is there all the
     * same, and is read then. */
    do {
        got = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
    } while (got < 0 && (errno == EINTR || (errno == ECONNRESET && !reset && (reset = true))));
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return 0;
    for (struct cmsghdr *at = CMSG_FIRSTHDR(&message); got > 0 && at != NULL;
         at = CMSG_NXTHDR(&message, at))
        if (at->cmsg_level == SOL_SOCKET && at->cmsg_type == SCM_RIGHTS) {
            frame->n_fds = (at->cmsg_len - CMSG_LEN(0)) / sizeof(int);
            memcpy(frame->fds, CMSG_DATA(at), frame->n_fds * sizeof(int));
        }
    if (got < (ssize_t)sizeof head || message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) {
        takeover_close_fds(frame);
        return -1;
    }
    frame->type = (enum takeover_type)head;
    frame->n = (size_t)got - sizeof head;
    return 1;
}

void takeover_close_fds(struct takeover_frame *frame)
{
    for (size_t i = 0; i < frame->n_fds; i++)
        close(frame->fds[i]);
    frame->n_fds = 0;
}
