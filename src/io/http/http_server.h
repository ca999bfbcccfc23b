/* http_server.h - requests that come in: listeners, and one struct for a request and its reply.
 *
 *     begin -> data ... -> end          what arrives
 *     http_inbound_reply, _write ..., _finish     what goes back, at any time after begin
 *     gone                              the last call for every begin, once
 *
 * A request is an exchange, not a connection: connections carry one exchange after another
 * (HTTP/1.1) or many at once (HTTP/2), and the owner does not see which. Framing, keep-alive,
 * `Connection`, `Expect`, limits and the refusal of malformed requests are done below this line.
 *
 * Callbacks come from the loop, never from inside a call of the owner's: after any call the
 * exchange is still there, until gone(). Calls after the reply is finished or aborted do nothing.
 */
#ifndef TG_HTTP_HTTP_SERVER_H
#define TG_HTTP_HTTP_SERVER_H

#include <netinet/in.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "io/http/http.h"
#include "io/net/loop.h"

struct http_inbound;
struct http_listener;
struct tls_context;

/* ---- Limits ---------------------------------------------------------------------------------- */

struct http_limits {
    size_t header_bytes; /* request line and fields; default 64 KiB, at most 1 MiB; beyond: 431 */
    size_t fields;       /* default 100, at most 1000; beyond: 431 */
    size_t target_bytes; /* default 16 KiB; beyond: 414 */
    tg_ms header_ms;     /* from the first byte of a request, or the accept, to the end of its head;
                             default 10 s; beyond: 408. A TLS handshake has as long */
    tg_ms body_ms;    /* for a body that the owner wants; default 30 s; then 408. What comes gives
                             time back, by body_rate, up to all of it */
    size_t body_rate; /* bytes a second that a body may come with for ever; default 1000; 0: any
                             byte gives all of body_ms back */
    tg_ms write_ms;   /* without bytes taken by a client that we have bytes for; default 60 s. The
                             system tells of them by the 32 KiB: who reads less than that in this
                             time is taken for one that does not read */
    tg_ms idle_ms;    /* between requests; default 75 s; then is_kept() is asked */
    tg_ms linger_ms;  /* reading on, after a reply that came before the request's end, so that
                             the client sees it; default 2 s, before a close 2 s without a byte */
    size_t linger_bytes; /* the same, while the connection may go on; default 1 MiB. By HTTP/2 the
                            exchange is reset then, with NO_ERROR */
    tg_ms close_ms;      /* the same, before the connection is closed: many clients read nothing
                            before they have sent everything; default 30 s in all */
    size_t close_bytes;  /* the same; default 64 MiB */
    size_t output_high;  /* bytes not taken by the socket: room() comes only after there were ... */
    size_t output_low;   /* ... more than high, when there are no more than low. See http.h */

    /* One connection of HTTP/2. */
    size_t streams; /* exchanges at a time; default 128, from 1 to 100000; beyond: refused, unread.
                       A paused one holds up to 64 KiB */
    size_t resets;  /* exchanges that the client may reset at once: the burst of a token bucket, to
                       which an exchange that ends well adds one; default 500. Beyond: the end of
                       the connection */
    size_t resets_per_s; /* the rate of that bucket; default 100 */
    tg_ms rapid_ms;      /* resetting an exchange that lasted as long is free, and so is resetting
                            one whose reply has begun; default 100 ms */
    size_t
        odd_frames; /* frames that carry nothing (SETTINGS, PING, PRIORITY, WINDOW_UPDATE, GOAWAY,
                            DATA without data, types that nobody knows, and each 64 bytes of a
                            header for what has ended) at once: the burst of a token bucket, which
                            gains half as many every second, and two with each frame that carries
                            something; default 2000. Beyond: the end of the connection */
};

/* Connections of all workers together. Beyond `max`, one that has no exchange gives way to a new
 * one: first those that have long been silent and whose client has not shown who it is
 * (http_inbound.client), those of the address that has most of them first; see http_give_way.c. For
 * a moment there may be more than `max`, by 1 in 32: while those that give way are on other
 * threads. Where all of the listener's are in use, and beyond `per_address`, the new one is
 * refused: 503, or closed where TLS has yet to be agreed on.
 *
 * Addresses are counted in slots, by a keyed hash: two that share one have the bound together. At
 * most max / per_address slots can be full at a time, so an address is refused for the sake of
 * another with a probability of at most max / per_address / HTTP_ADDRESS_SLOTS: 1 in 4096 where the
 * bound is a quarter. It needs neither a lock nor memory for each address. */
#define HTTP_ADDRESS_SLOTS 16384

/* Connections without an exchange that are counted together. */
struct http_crowd {
    atomic_int idle;
    atomic_ullong mean; /* the mean of `idle` over a while: see http_give_way.c */
};

struct http_census {
    atomic_llong open;
    atomic_llong max; /* 0: any number; may change */
    atomic_llong
        per_address; /* connections of one address, an IPv6 network of 64 bits being one; 0:
                                 any number; may change */
    atomic_llong turned_away; /* connections that were refused */
    atomic_llong gave_way;    /* connections that were ended for a new one */
    atomic_llong idle;        /* connections without an exchange */
    uint64_t seed;            /* for the hash of addresses: random */
    atomic_int by_address[HTTP_ADDRESS_SLOTS];
    atomic_ullong known_at[HTTP_ADDRESS_SLOTS]; /* which client was last known there, and when */
    struct http_crowd strangers[HTTP_ADDRESS_SLOTS]; /* by address */
    struct http_crowd clients[HTTP_ADDRESS_SLOTS];   /* by client, also before it has shown so on
                                                        that connection */
};

/* A number for the client of this name; never 0. */
uint32_t http_client_id(struct slice name);

/* ---- Listeners ------------------------------------------------------------------------------- */

/* A whole small reply, in the form that the owner gives it. */
struct http_refusal {
    struct slice type; /* "application/json"; borrowed, static */
    size_t n;          /* bytes of the body */
    bool begun;        /* given: begin() was called for the request, and gone() has been */
    char body[512];
};

struct http_server_ops {
    /* The head is complete. The owner may set in->owner. The body is read on from here, and
     * `100 Continue` is sent if it was asked for, unless the owner pauses or replies in begin(). */
    void (*begin)(void *context, struct http_inbound *in);
    void (*data)(struct http_inbound *in, struct slice bytes);
    /* The body is complete, and in->trailers are there. Does not come if the reply was finished
     * first. */
    void (*end)(struct http_inbound *in);
    /* Output had gone above output_high and is at output_low or below. May be null. */
    void (*room)(struct http_inbound *in);
    /* The last call, once for every begin(), and never from inside a call of the owner's. DONE: the
     * reply was finished and the system took it all. HANGUP: the client left before; it is noticed
     * in every state, also while the body is paused and while nothing is sent. A client that shuts
     * down only its sending half before the reply is finished has left, too. */
    void (*gone)(struct http_inbound *in, enum http_why why);
    /* The body for a refusal made here (400, 408, 414, 431, 501, 503, 505). Null: plain text. */
    void (*refuse)(void *context, int status, const char *text, struct http_refusal *refusal);
    /* A connection has ended, after the last gone() of its exchanges; which, is known from
     * http_inbound_connection(). May be null. */
    void (*closed)(void *context, uint64_t connection);
    /* It has been idle for idle_ms, and ends, unless this says that it is to be kept for as long
     * again. May be null: it ends. */
    bool (*is_kept)(void *context, uint64_t connection);
    /* Whether the bound on connections of one address is not for this one: a proxy's. May be null:
     * it is for all. */
    bool (*is_proxy)(void *context, const struct sockaddr *peer);
};

struct http_listen_options {
    const struct http_server_ops *ops; /* static */
    void *context;
    struct http_limits limits;
    struct http_census *census; /* shared; null: not counted */
    size_t connections; /* for this listener alone, 0: any number. Beyond, the oldest that has no
                           exchange is ended for a new one; if all have, the new one is refused:
                           503 */
    struct tls_context *tls; /* a reference is taken; null: plain */
    bool http2;  /* spoken too, with whoever begins with its preface, or chooses it by ALPN where
                   there is TLS; default false. HTTP/1.1 goes on beside it */
    int backlog; /* default 1024 */
    bool alone;  /* nobody may listen there already, in this process or another; default false */
    const struct http_listener *first; /* another worker's, on the same address; null: this is it.
                                          A local socket is shared with it */
    const int *sockets; /* sockets that listen there already, taken over; null: opened */
    size_t n_sockets;
    bool borrowed; /* the name of a local socket is another's, and stays when this one ends */
    bool held;     /* accepts nothing yet: see http_listener_hold() */
};

void http_listen_options_init(struct http_listen_options *options);

/* "127.0.0.1:8080", "[::1]:8080", "*:8080" (every address, IPv4 and IPv6), "unix:PATH". With port
 * 0 the system chooses: ask http_listener_port() and give that number to the other workers. Every
 * worker has a socket of its own on the same port (SO_REUSEPORT), and of unix they share one. So
 * two programs of one user can share a port and not know it: the first worker should ask to be
 * alone.
 * `problem` says what is wrong. TG_ERR_INVALID: no such form of address, or a limit out of its
 * range. TG_ERR_STORE: the system refused. TG_ERR_MEMORY. */
TG_MUST_CHECK enum tg_err http_listen(struct net_loop *loop, const char *address,
                                      const struct http_listen_options *options,
                                      struct http_listener **listener, struct tg_problem *problem);

int http_listener_port(const struct http_listener *listener);    /* 0 for unix */
size_t http_listener_open(const struct http_listener *listener); /* connections */
size_t http_listener_busy(const struct http_listener *listener); /* exchanges between begin, gone */

/* New handshakes use this context; takes a reference and drops the old one's. */
void http_listener_set_tls(struct http_listener *listener, struct tls_context *tls);

/* Stops accepting, closes what is idle, and every other connection after its reply; clients of
 * HTTP/2 are told, and their running exchanges end as they would. */
void http_listener_drain(struct http_listener *listener);

/* The descriptors on which it listens, at most `room`; returns how many. They stay its own. */
size_t http_listener_sockets(const struct http_listener *listener, int *sockets, size_t room);

/* Accepts nothing from now on, or accepts again: who connects meanwhile waits. What is open is
 * served. */
void http_listener_hold(struct http_listener *listener, bool held);

/* Another process has its sockets and goes on accepting. What is open is served on: every reply of
 * HTTP/1 is the last of its connection, clients of HTTP/2 are told, and nothing is closed under the
 * hands of a client that is about to use it. Connections that nobody uses end after idle_ms. */
void http_listener_retire(struct http_listener *listener);

/* Closes everything; gone(ABORTED) comes from inside this call for what was open. */
void http_listener_free(struct http_listener *listener);

/* ---- One exchange ---------------------------------------------------------------------------- */

/* How a version of HTTP does what the owner asks. */
struct http_inbound_transport {
    void (*pause)(struct http_inbound *in);
    void (*resume)(struct http_inbound *in);
    void (*reply)(struct http_inbound *in, const struct http_head *head);
    size_t (*write)(struct http_inbound *in, struct slice bytes);
    void (*finish)(struct http_inbound *in, const struct http_field *trailers, size_t n);
    void (*abort)(struct http_inbound *in, uint32_t code);
    size_t (*queued)(const struct http_inbound *in);
    const struct sockaddr *(*peer)(const struct http_inbound *in);
};

/* Made by the transport, and its until gone() has returned. */
struct http_inbound {
    const struct http_inbound_transport *transport; /* private */
    struct http_head head;                          /* the request; valid until gone() */
    const struct http_field *trailers; /* the request's, from end() on. HTTP/1's are dropped */
    size_t n_trailers;
    uint64_t connection; /* see http_inbound_connection() */
    uint32_t reset_code; /* at gone(HANGUP): what the client of HTTP/2 said, enum http2_code; CANCEL
                            where the connection itself went */
    void *context;       /* the listener's */
    void *owner;         /* free for the owner; null at begin */
    bool secure;         /* came by TLS */
    uint32_t client;     /* the owner's to set: who the client has shown to be, http_client_id();
                            its connections give way after those of strangers. 0: it has not */
    /* Set by the owner of a listener whose peer names the client: whose request it is. */
    struct sockaddr_in6 relayed_peer; /* or a sockaddr_in */
    bool is_relayed;
    bool patient; /* the owner's to set: the body has no limit of time but the owner's own, for
                     requests that are a conversation */
};

/* No data() or end() until resume. What is on its way waits in the kernel. */
static inline void http_inbound_pause(struct http_inbound *in)
{
    in->transport->pause(in);
}

static inline void http_inbound_resume(struct http_inbound *in)
{
    in->transport->resume(in);
}

/* The reply's status, fields and length; -1: the body's end is found by chunks, or by the close of
 * a client of HTTP/1.0. Fields of http_is_hop() are left out. Line ends and zeros in a value become
 * spaces, fields whose name is no token are left out. Once. An informational status (1xx) is not
 * for the owner. */
static inline void http_inbound_reply(struct http_inbound *in, const struct http_head *head)
{
    in->transport->reply(in, head);
}

/* A piece of the body; copied as far as the socket does not take it at once. Returns the bytes that
 * wait for the socket: above output_high the owner should stop its source until room(). Bytes
 * beyond the stated length are dropped; bytes for HEAD, 204 and 304 too. Small pieces are sent
 * together, at the latest when the callback returns to the loop. */
static inline size_t http_inbound_write(struct http_inbound *in, struct slice bytes)
{
    return in->transport->write(in, bytes);
}

/* The body is complete. Fewer bytes than were stated: the connection is closed, so that the client
 * sees it. What the client still sends of its request is dropped. */
static inline void http_inbound_finish(struct http_inbound *in)
{
    in->transport->finish(in, NULL, 0);
}

/* The same, with fields behind the body; copied. HTTP/1.1 sends them to a client that says
 * `te: trailers`, behind chunks: not after a length. Neither version sends any where there can be
 * no body: to HEAD, with 204 and 304, and after a length of 0, which ends the reply with its head.
 * So a gRPC status without messages ("Trailers-Only") is http_inbound_send() of a head that holds
 * the status, and no bytes. */
static inline void http_inbound_finish_with(struct http_inbound *in,
                                            const struct http_field *trailers, size_t n)
{
    in->transport->finish(in, trailers, n);
}

/* At once: the client sees a reply cut off. gone(ABORTED) follows from the loop. HTTP/1 closes the
 * connection; HTTP/2 resets this exchange alone, with the code. */
static inline void http_inbound_abort_with(struct http_inbound *in, uint32_t code)
{
    in->transport->abort(in, code);
}

static inline void http_inbound_abort(struct http_inbound *in)
{
    in->transport->abort(in, HTTP2_INTERNAL_ERROR);
}

/* Bytes that wait for the socket. */
static inline size_t http_inbound_queued(const struct http_inbound *in)
{
    return in->transport->queued(in);
}

/* Which connection it came by: a number that no other connection of the process has or had. The
 * listener's closed() tells of its end. */
static inline uint64_t http_inbound_connection(const struct http_inbound *in)
{
    return in->connection;
}

/* Where the connection came from; AF_UNIX for a local socket. */
static inline const struct sockaddr *http_inbound_peer(const struct http_inbound *in)
{
    return in->is_relayed ? (const struct sockaddr *)(const void *)&in->relayed_peer
                          : in->transport->peer(in);
}

/* From here on the owner writes the bytes of the connection itself, status line and all, and the
 * connection ends with them: for replies that are to be malformed. HTTP/1 only. */
void http1_inbound_write_bare(struct http_inbound *in);

/* reply, write and finish in one: `length` of the head is not looked at. */
void http_inbound_send(struct http_inbound *in, const struct http_head *head, struct slice body);

#endif
