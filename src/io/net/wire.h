/* wire.h - a connected socket, with or without TLS: bytes in, bytes out, and how it ended.
 *
 * It stands in its owner's storage; that must be buried (net_loop_bury), not freed, because the
 * wire may be on the stack. Callbacks come from the loop alone; after wire_close() there are none.
 */
#ifndef TG_NET_WIRE_H
#define TG_NET_WIRE_H

#include <sys/socket.h>

#include "io/net/buf.h"
#include "io/net/tls_internal.h"

enum wire_state {
    WIRE_CLOSED,
    WIRE_CONNECTING,
    WIRE_SHAKING, /* TLS */
    WIRE_OPEN,
};

enum wire_fault {
    WIRE_REFUSED, /* it did not connect */
    WIRE_RESET,   /* it broke */
    WIRE_NO_TLS,  /* the handshake failed, or what came later is no TLS */
    WIRE_NO_MEMORY,
    WIRE_PLAIN, /* TLS was expected, and a request in plain HTTP came: wire_send() may answer it */
};

struct wire;

struct wire_ops {
    /* Connected; and again, after wire_start_tls(). Not for accepted plain sockets. */
    void (*up)(struct wire *wire);
    /* Returns how many bytes it took; fewer than n, and it is as if wire_pause() had been called.
     * Comes with n == 0 after wire_resume(), if nothing was held. */
    size_t (*data)(struct wire *wire, const char *bytes, size_t n);
    /* The peer will send no more. While paused: only if `watch` is on; bytes may be lost. */
    void (*eof)(struct wire *wire);
    /* The system took some bytes of what was waiting. */
    void (*wrote)(struct wire *wire);
    /* It is of no use any more. */
    void (*broke)(struct wire *wire, enum wire_fault fault, const char *text);
};

/* All private to wire.c and tls_wire.c, but for `watch`, `truncated`, `taken`, `error`. */
struct wire {
    struct net_loop *loop;
    const struct wire_ops *ops;
    struct wire_poll *poll; /* null: there is no socket, for tests: all that is written is taken */
    int fd;
    int mask; /* what is polled for */
    enum wire_state state;
    bool paused;
    bool watch;            /* eof() comes for a peer that leaves while paused */
    bool eof;              /* eof() has been called */
    bool truncated;        /* the end came without TLS's close_notify: it may be forged */
    bool deaf;             /* nothing more can be written: the rest is dropped */
    bool blocked;          /* the socket takes no more for now */
    bool resumed;          /* what is held is to be given */
    bool closing;          /* to be shut down when all is written */
    const char *broken;    /* why broke() is to be called from the loop; null: it is not ... */
    enum wire_fault fault; /* ... and with which fault */
    int error;             /* why it did not connect, as the system says it; 0: it did */
    uint64_t taken;        /* bytes that the system took, in all */
    struct buf out;        /* to be written; before encryption */
    struct buf held;       /* read, decrypted, not taken by the owner */
    struct tls_wire tls;
    struct net_later later;
};

/* An accepted socket: open at once, or after the handshake if there is a context. The descriptor is
 * the wire's from here on, also if it fails. -1: without a socket. False: no memory. */
bool wire_accept(struct wire *wire, struct net_loop *loop, const struct wire_ops *ops, int fd,
                 struct tls_context *tls);

/* Begins to connect; up() or broke() follow, never from inside. False: `errno` says why. */
bool wire_connect(struct wire *wire, struct net_loop *loop, const struct wire_ops *ops,
                  const struct sockaddr *address, socklen_t n);

/* Begins TLS as a client, on a wire that is open and has nothing held. `name` is what the
 * certificate must have; the ticket is the owner's and may speed up the next handshake. */
bool wire_start_tls(struct wire *wire, struct tls_context *tls, const char *name,
                    struct tls_ticket *ticket);

/* Copies what it cannot send. Large pieces go at once, small ones when the event is over. */
void wire_write(struct wire *wire, const void *bytes, size_t n);
size_t wire_queued(const struct wire *wire);

void wire_pause(struct wire *wire);
void wire_resume(struct wire *wire);

static inline bool wire_is_open(const struct wire *wire)
{
    return wire->state == WIRE_OPEN;
}

/* True: an idle wire on which nothing has arrived, not even its end. With TLS it has to be read to
 * know: then data(), eof() or broke() may come from inside. */
bool wire_is_quiet(struct wire *wire);

/* The peer has closed, and nothing of it is left to be read; as far as the system knows. */
bool wire_has_ended(const struct wire *wire);

/* No more will be written: tells the peer, after what is queued. */
void wire_shutdown(struct wire *wire);

void wire_close(struct wire *wire);

/* The peer sees an error, not an end, and what is queued is dropped. */
void wire_abort(struct wire *wire);

/* Delivers bytes, or the end, to a wire without a socket. */
void wire_feed(struct wire *wire, const char *bytes, size_t n);
void wire_feed_eof(struct wire *wire);

/* Between wire.c and tls_wire.c. */
void wire_deliver(struct wire *wire, const char *bytes, size_t n);
void wire_break(struct wire *wire, enum wire_fault fault, const char *text);
void wire_break_later(struct wire *wire, enum wire_fault fault, const char *text); /* static text */
void wire_end_of_input(struct wire *wire, bool truncated);
long wire_send(struct wire *wire, const char *bytes, size_t n); /* -1: blocked, or broken */

#endif
