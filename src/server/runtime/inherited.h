/* inherited.h - what a process gets before it starts: sockets that listen already, and more of one
 * that it takes over from.
 */
#ifndef TG_RUNTIME_INHERITED_H
#define TG_RUNTIME_INHERITED_H

#include <stddef.h>
#include <stdint.h>

#include "tollgate.h"

struct inherited_socket {
    char name[16];     /* "gateway", "grpc", "admin", "probe" */
    char address[256]; /* what the configuration said that opened it; empty: anything */
    int fd;
    bool taken; /* a listener has it now */
};

struct inherited {
    struct inherited_socket *sockets;
    size_t n, max;
    bool has_seed;
    uint64_t seed;
    int lock_fd; /* the ledger's lock; -1: none */
};

void inherited_init(struct inherited *inherited);

/* Closes what nobody took. */
void inherited_fini(struct inherited *inherited);

/* Takes the descriptor. False: no memory, and it is closed. */
bool inherited_add(struct inherited *inherited, const char *name, const char *address, int fd);

/* The sockets that systemd has opened for this process, by sd_listen_fds(3): LISTEN_PID,
 * LISTEN_FDS, LISTEN_FDNAMES. False: `problem` says what is wrong with them. */
bool inherited_from_system(struct inherited *inherited, struct tg_problem *problem);

/* The sockets for listener `part` of `parts` of one name and address, at most `room`: each socket
 * goes to one of them, since who waits in its queue waits there, and who would have none shares
 * that of another. Returns how many; they are the caller's. */
size_t inherited_take(struct inherited *inherited, const char *name, const char *address,
                      size_t part, size_t parts, int *fds, size_t room);

#endif
