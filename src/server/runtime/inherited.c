/* inherited.c - what a process gets before it starts: see inherited.h. */
#include "server/runtime/inherited.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/core/array.h"
#include "lib/core/problem.h"

enum { LISTEN_FDS_START = 3, LISTEN_FDS_MAX = 256 };

void inherited_init(struct inherited *inherited)
{
    *inherited = (struct inherited){.lock_fd = -1};
}

void inherited_fini(struct inherited *inherited)
{
    for (size_t i = 0; i < inherited->n; i++)
        if (!inherited->sockets[i].taken)
            close(inherited->sockets[i].fd);
    free(inherited->sockets);
    if (inherited->lock_fd >= 0)
        close(inherited->lock_fd);
    inherited_init(inherited);
}

bool inherited_add(struct inherited *inherited, const char *name, const char *address, int fd)
{
    if (!array_reserve(&inherited->sockets, &inherited->max, inherited->n + 1)) {
        close(fd);
        return false;
    }
    struct inherited_socket *one = &inherited->sockets[inherited->n++];
    *one = (struct inherited_socket){.fd = fd};
    snprintf(one->name, sizeof one->name, "%s", name);
    snprintf(one->address, sizeof one->address, "%s", address);
    return true;
}

/* ---- systemd ---- */

static bool is_listening(int fd)
{
    int listening = 0;
    socklen_t n = sizeof listening;

    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &n) == 0 && listening;
}

static bool is_known(const char *name)
{
    return strcmp(name, "gateway") == 0 || strcmp(name, "grpc") == 0 ||
           strcmp(name, "admin") == 0 || strcmp(name, "probe") == 0;
}

bool inherited_from_system(struct inherited *inherited, struct tg_problem *problem)
{
    const char *pid = getenv("LISTEN_PID"), *count = getenv("LISTEN_FDS");
    const char *names = getenv("LISTEN_FDNAMES");
    char name[16];

    if (pid == NULL || count == NULL || strtol(pid, NULL, 10) != (long)getpid())
        return true;
    long n = strtol(count, NULL, 10);
    if (n < 0 || n > LISTEN_FDS_MAX)
        return problem_fail(problem, "LISTEN_FDS is '%.20s'; at most %d are taken", count,
                            LISTEN_FDS_MAX);
    for (int i = 0; i < n; i++) {
        int fd = LISTEN_FDS_START + i;
        size_t bytes = names != NULL ? strcspn(names, ":") : 0;
        snprintf(name, sizeof name, "%.*s", (int)bytes, names != NULL ? names : "");
        if (names != NULL)
            names += bytes + (names[bytes] == ':');
        if (!is_known(name))
            return problem_fail(problem,
                                "LISTEN_FDNAMES: a socket is named '%s'; it takes gateway, grpc, "
                                "admin and probe (FileDescriptorName= of its unit)",
                                name);
        if (!is_listening(fd))
            return problem_fail(problem, "LISTEN_FDS: descriptor %d is not a listening socket", fd);
        (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
        if (!inherited_add(inherited, name, "", fd))
            return problem_fail(problem, "there is no memory for the sockets of LISTEN_FDS");
    }
    return true;
}

/* ---- taking ---- */

static bool is_for(const struct inherited_socket *socket, const char *name, const char *address)
{
    return strcmp(socket->name, name) == 0 &&
           (socket->address[0] == '\0' || strcmp(socket->address, address) == 0);
}

size_t inherited_take(struct inherited *inherited, const char *name, const char *address,
                      size_t part, size_t parts, int *fds, size_t room)
{
    size_t all = 0, n = 0, number = 0;

    for (size_t i = 0; inherited != NULL && i < inherited->n; i++)
        all += is_for(&inherited->sockets[i], name, address);
    for (size_t i = 0; all > 0 && i < inherited->n && n < room; i++) {
        struct inherited_socket *one = &inherited->sockets[i];
        if (!is_for(one, name, address))
            continue;
        if (number % parts == part) {
            one->taken = true;
            fds[n++] = one->fd;
        } else if (part >= all && number == part % all) {
            int fd = fcntl(one->fd, F_DUPFD_CLOEXEC, 0);
            if (fd >= 0)
                fds[n++] = fd;
        }
        number++;
    }
    return n;
}
