/* http_server_internal.h - requests that come in: what listener, connections and replies share.
 *
 *     http_listen.c      listeners: sockets, accepting, draining
 *     http_give_way.c    connections that nobody uses, and which of them ends for a new one
 *     http1_server.c     connections of HTTP/1, and of HTTP/2 before and after
 *     http1_reply.c      what an owner calls, on HTTP/1
 *     http2_server.c     connections of HTTP/2
 *     http2_stream.c     an exchange on HTTP/2, and what its owner calls
 */
#ifndef TG_HTTP_HTTP_SERVER_INTERNAL_H
#define TG_HTTP_HTTP_SERVER_INTERNAL_H

#include <assert.h>
#include <sys/queue.h>

#include "io/http/http1_parse.h"
#include "io/http/http_server.h"
#include "io/net/wire.h"
#include "lib/core/container_of.h"

/* The connections without an exchange. */
enum http_idle_list {
    HTTP_IDLE_REFUSED,  /* told that there is no place for them */
    HTTP_IDLE_STRANGER, /* the client has not shown who it is */
    HTTP_IDLE_EXPECTED, /* nor that, but somebody has from its address, a while ago */
    HTTP_IDLE_KNOWN,
    HTTP_IDLE_LISTS
};

struct http_listener {
    struct net_loop *loop;
    const struct http_server_ops *ops;
    void *context;
    struct http_limits limits;
    struct http_census *census;
    size_t max_conns; /* 0: any number */
    struct tls_context *tls;
    bool http2;
    uint64_t next_connection;                                /* the number of the next connection */
    LIST_HEAD(, http1_conn) conns;                           /* all, the newest first */
    TAILQ_HEAD(http_idle, http1_conn) idle[HTTP_IDLE_LISTS]; /* the longest idle first */
    long long n_idle;                  /* how many of the `idle` of the census are its own */
    SLIST_HEAD(, http2_stream) spares; /* structs to be used again */
    size_t n_spares;
    size_t n_conns; /* connections */
    size_t n_busy;  /* exchanges between begin() and gone() */
    bool draining;
    bool held; /* accepts nothing: see http_listener_hold() */
    int port;
    struct listen_poll *polls; /* the sockets on which it listens; null: it does not */
    struct net_timer again;    /* accepts again, after descriptors ran out */
    char *unlink_path;         /* the file of a local socket; null: none */
};

enum http1_phase {
    HTTP1_SHAKING, /* TLS */
    HTTP1_IDLE,    /* between requests */
    HTTP1_READING, /* a head */
    HTTP1_BUSY,    /* begin() has come, gone() has not */
    HTTP1_REST,    /* replied; the rest of the request is dropped, then IDLE */
    HTTP1_LINGER,  /* replied and shut down; whatever comes is dropped, until the client closes */
};

/* The time that a body has left. Bytes that arrive earn more of it, by body_rate. */
struct http_body_time {
    tg_ms left; /* how long the body may take ... */
    tg_ms at;   /* ... from then on */
};

struct http1_conn {
    struct net_grave grave;
    struct http_inbound in;
    struct http_listener *listener;
    LIST_ENTRY(http1_conn) in_listener;
    TAILQ_ENTRY(http1_conn) in_idle;
    bool idle;                     /* it is in a list of idle ones: */
    enum http_idle_list idle_list; /* in this one */
    struct http_crowd *crowd;      /* where it is counted while it is idle; null: nowhere */
    uint32_t client;               /* see http_inbound.client; 0: it has not shown who it is */
    bool refused;                  /* there is no place for it */
    tg_ms idle_since;              /* or since when a head has been on its way */
    int address_slot;              /* where its address is counted; -1: nowhere */
    enum http1_phase phase;
    struct wire wire;
    struct http2_server *http2; /* uses the wire now; null: HTTP/1 does */
    size_t sniffed;             /* bytes of HTTP/2's preface that have come */
    bool sniff;                 /* the connection may still turn out to be HTTP/2's */
    struct http1_parser parser;
    struct net_timer read_timer, write_timer;
    struct net_later later;
    struct sockaddr_storage peer;

    /* The exchange. */
    bool body_done; /* the request has been read */
    bool paused;
    bool expects;  /* the client waits for 100 Continue */
    bool replied;  /* the reply's head is written */
    bool finished; /* the reply is written */
    bool aborted;
    bool chunked;  /* the reply goes out in chunks */
    bool bodyless; /* the reply has no body: HEAD, 204, 304 */
    bool close;    /* the connection ends after the reply */
    bool high;     /* output went above its mark */
    struct http_body_time body_time;
    int64_t left; /* how much of the reply's stated length is to be written; -1: none was stated */
    size_t dropped; /* bytes of the request that were dropped after the reply */
    tg_ms close_at; /* LINGER: when the connection is closed, whatever comes */
};

/* Without a socket; http_listen() adds that. Null: no memory. */
struct http_listener *http_listener_new(struct net_loop *loop,
                                        const struct http_listen_options *options);

/* Takes the descriptor, -1 for none: then bytes come by wire_feed(). False: no memory. */
bool http1_conn_new(struct http_listener *listener, int fd, const struct sockaddr *peer,
                    socklen_t peer_bytes, struct http1_conn **made);

/* Refuses a connection that has just been made, with a 503 that the client can read. */
void http1_conn_refuse(struct http1_conn *conn, const char *text);

/* It is about to be closed for another: a client that may be about to make its first request, or in
 * the midst of one, is told so, as far as that can be done at once. */
void http1_conn_excuse(struct http1_conn *conn, const char *text);

static inline const struct http_limits *http1_limits_of(const struct http1_conn *conn)
{
    return &conn->listener->limits;
}

/* Counts n bytes off the stated length of a reply, if there is one; how many still belong to it. */
static inline size_t http_reply_count(int64_t *left, size_t n)
{
    assert(*left >= -1);
    if (*left < 0)
        return n;
    if ((uint64_t)n > (uint64_t)*left)
        n = (size_t)*left;
    *left -= (int64_t)n;
    return n;
}

/* ---- http_listen.c: the census */

/* A connection has ended. The census may be null, and the slot -1. */
void http_census_leave(struct http_census *census, int address_slot);

/* ---- http_give_way.c: connections without an exchange */

/* It has no exchange, or has one now. */
void http_conn_set_idle(struct http1_conn *conn, bool idle);

/* If it is idle, it has just become so. */
void http_conn_refresh(struct http1_conn *conn);

/* Its client has shown who it is; there is no place for it; where its address is counted. */
void http_conn_set_client(struct http1_conn *conn, uint32_t client);
void http_conn_set_refused(struct http1_conn *conn);
void http_conn_set_address(struct http1_conn *conn, int slot);

enum http_way {
    HTTP_WAY_NONE,      /* all are in use */
    HTTP_WAY_MADE,      /* one has ended */
    HTTP_WAY_ELSEWHERE, /* other listeners have some that should end before this one's */
};
enum http_way http_give_way(struct http_listener *listener);

/* Ends one that was refused; false: there is none. */
bool http_end_refused(struct http_listener *listener);

/* ---- http1_reply.c: the owner's calls */

extern const struct http_inbound_transport http1_inbound_transport;

/* Sends 100 Continue, if the client waits for it and the owner reads. */
void http1_conn_continue(struct http1_conn *conn);

/* ---- http1_server.c: the connection */

/* Sets the timer for as long as the body may take from now on; bytes of it earn time first. */
void http_body_await(struct http_body_time *time, struct net_loop *loop, struct net_timer *timer);
void http_body_earn(struct http_body_time *time, const struct http_limits *limits,
                    struct net_loop *loop, struct net_timer *timer, size_t bytes);

/* How long the socket may take the next byte. */
void http1_conn_await_socket(struct http1_conn *conn);

/* HTTP/2 has sent its last frame: what is written may still arrive. */
void http1_conn_leave_http2(struct http1_conn *conn, enum http_why why);

/* The body of a reply that is made here. */
void http1_make_refusal(const struct http_listener *listener, int status, const char *text,
                        bool begun, struct http_refusal *refusal);

/* Ends the exchange, if there is one, and the connection. */
void http1_conn_end(struct http1_conn *conn, enum http_why why);

/* Whether the owner wants an idle connection to stay. */
bool http1_conn_is_kept(const struct http1_conn *conn);

#endif
