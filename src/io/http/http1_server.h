/* http1_server.h - connections of HTTP/1 that came in, between listener and owner. */
#ifndef TG_HTTP_HTTP1_SERVER_H
#define TG_HTTP_HTTP1_SERVER_H

#include "io/http/http1_parse.h"
#include "io/http/http_server.h"
#include "io/net/wire.h"

/* What connections know of their listener. */
struct http_listener {
    struct net_loop *loop;
    const struct http_server_ops *ops;
    void *context;
    struct http_limits limits;
    struct http_census *census;
    size_t max_conns; /* 0: any number */
    struct tls_context *tls;
    bool http2;
    uint64_t next_connection; /* its number */
    struct http1_conn *conns; /* all */
    struct http2_stream *spares;
    size_t n_spares;
    size_t n_conns, n_busy;
    bool draining;
    int port;
    int fd; /* -1: not listening */
    struct listen_poll *poll;
    struct net_timer again; /* accepting, after descriptors ran out */
    char *unlink_path;      /* of a local socket; null: none */
};

enum http1_phase {
    HTTP1_SHAKING, /* TLS */
    HTTP1_IDLE,    /* between requests */
    HTTP1_READING, /* a head */
    HTTP1_BUSY,    /* begin() has come, gone() has not */
    HTTP1_REST,    /* replied; the rest of the request is dropped, then IDLE */
    HTTP1_LINGER,  /* replied and shut down; whatever comes is dropped, until the client closes */
};

struct http1_conn {
    struct net_grave grave;
    struct http_inbound in;
    struct http_listener *listener;
    struct http1_conn *next, **from; /* neighbours in the listener's list */
    enum http1_phase phase;
    struct wire wire;
    struct http2_server *http2; /* whose wire it is now; null: HTTP/1's */
    size_t sniffed;             /* bytes of HTTP/2's preface that came, and were kept */
    bool sniff;                 /* it may still be one of HTTP/2 */
    struct http1_parser parser;
    struct net_timer read_timer, write_timer;
    struct net_later later;
    struct sockaddr_storage peer;

    /* of the exchange */
    bool body_done;
    bool paused;
    bool expects;  /* 100 Continue, and has not got it */
    bool replied;  /* the reply's head is written */
    bool finished; /* the reply is written */
    bool aborted;
    bool chunked;    /* the reply is */
    bool bodyless;   /* the reply is: HEAD, 204, 304 */
    bool close;      /* after the reply */
    bool high;       /* output went above its mark */
    tg_ms body_left; /* how long the body may still take, ... */
    tg_ms body_at;   /* ... as of then */
    int64_t left;    /* of the reply's stated length; -1: none was stated */
    size_t dropped;  /* bytes, while in REST or LINGER */
};

/* Without a socket; http_listen() adds that. Null: no memory. */
struct http_listener *http_listener_new(struct net_loop *loop,
                                        const struct http_listen_options *options);

/* Takes the descriptor, -1 for none: then bytes come by wire_feed(). False: no memory. */
bool http1_conn_new(struct http_listener *listener, int fd, const struct sockaddr *peer,
                    socklen_t peer_bytes, struct http1_conn **made);

/* Of one that has just been made: says so instead of reading, and lets the client read it. */
void http1_conn_refuse(struct http1_conn *conn, int status, const char *text);

static inline const struct http_limits *http1_limits_of(const struct http1_conn *conn)
{
    return &conn->listener->limits;
}

/* ---- http1_reply.c: the owner's calls */

extern const struct http_inbound_transport http1_inbound_transport;

/* From here on the owner writes the bytes of the connection itself, status line and all, and the
 * connection ends with them: for replies that are to be wrong. */
void http1_inbound_write_bare(struct http_inbound *in);

/* Sends 100 Continue, if the client waits for it and the owner reads. */
void http1_conn_continue(struct http1_conn *conn);

/* ---- http1_server.c: the connection */

/* How long the next byte may take to come, by the phase; and to go. */
void http1_conn_await_bytes(struct http1_conn *conn);
void http1_conn_await_body(struct http1_conn *conn); /* from now on, again */
void http1_conn_await_socket(struct http1_conn *conn);

/* HTTP/2 has said its last word: what is written may still arrive. */
void http1_conn_leave_http2(struct http1_conn *conn, enum http_why why);

/* What a reply of ours says. */
void http1_make_refusal(const struct http_listener *listener, int status, const char *text,
                        bool begun, struct http_refusal *refusal);

/* Ends the exchange, if there is one, and the connection. */
void http1_conn_end(struct http1_conn *conn, enum http_why why);

/* It is idle: whether the owner wants it to stay. */
bool http1_conn_is_kept(const struct http1_conn *conn);

#endif
