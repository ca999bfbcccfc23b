/* http_client_internal.h - requests that go out: what connections, dialling and exchanges share.
 *
 *     http_client.c      clients, their pools, http_send(): knows all below
 *     http2_client.c     connections of HTTP/2, and who waits for room on one
 *     http2_exchange.c   an exchange on a connection of HTTP/2
 *     http1_client.c     an exchange on a connection of HTTP/1
 *     out_exchange.c     what an exchange does whichever version carries it
 *     out_dial.c         from an origin to a connection
 *     out_conn.c         a connection that is idle, or about to be used
 *     http_origin.c      where requests go
 *
 * Calls go downward; what goes up goes through out_transport, out_dial_ops and the wire's ops.
 */
#ifndef TG_HTTP_HTTP_CLIENT_INTERNAL_H
#define TG_HTTP_HTTP_CLIENT_INTERNAL_H

#include <assert.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "io/http/http1_parse.h"
#include "io/http/http_client.h"
#include "io/net/resolve.h"
#include "io/net/wire.h"
#include "lib/core/container_of.h"

struct http_origin {
    atomic_int refs;
    char *host, *server_name, *host_field;
    int port;
    struct tls_context *tls;
    char *proxy_host; /* null: no proxy */
    int proxy_port;
    char *proxy_auth; /* the value of Proxy-Authorization; null: none */
    enum http2_use http2;
};

TAILQ_HEAD(out_queue, out_exchange);

/* What a client keeps for one origin. */
struct http_conn_pool {
    SLIST_ENTRY(http_conn_pool) next;
    struct http_client *client;
    struct http_origin *origin;
    LIST_HEAD(, out_conn) idle; /* the one used last comes first */
    size_t n_idle;
    size_t n_conns;                        /* connections of all kinds: they use the ticket */
    struct tls_ticket ticket;              /* resumes the last TLS session */
    bool only_http1;                       /* HTTP/2 was offered, and declined */
    LIST_HEAD(, http2_upstream) upstreams; /* all connections of HTTP/2 */
    size_t n_upstreams;
    struct out_conn *dialling; /* the next connection of HTTP/2; null: none */
    struct out_queue waiting;  /* exchanges that wait for room on one */
};

struct http_client {
    struct net_loop *loop;
    struct http_client_options options;
    struct resolver resolver;
    SLIST_HEAD(, http_conn_pool) pools;
    SLIST_HEAD(, out_exchange) spare; /* structs to be used again */
    size_t n_spare;
    SLIST_HEAD(, http2_call) spare_calls; /* the same */
    size_t n_spare_calls;
    size_t n_idle;         /* connections without an exchange */
    size_t n_busy;         /* exchanges */
    char text[160];        /* why an exchange fails, while its owner is told */
    enum http_cause cause; /* the same, where dialling has failed; else none */
};

enum out_state {
    OUT_RESOLVING,
    OUT_CONNECTING,
    OUT_TUNNEL, /* waits for the proxy's reply to CONNECT */
    OUT_SHAKING,
    OUT_BUSY,
    OUT_IDLE,
};

/* How dialling ends: one of the two, once. */
struct out_dial_ops {
    void (*up)(struct out_conn *conn);
    void (*failed)(struct out_conn *conn, enum http_why why, const char *text);
};

struct out_conn {
    struct net_grave grave;
    struct http_client *client;
    struct http_conn_pool *pool;
    LIST_ENTRY(out_conn) in_idle;  /* the pool's idle ones, in state IDLE */
    struct out_exchange *exchange; /* null: idle, or shared by many */
    bool shared;                   /* HTTP/2 is wanted, if the upstream agrees */
    tg_ms connect_ms;              /* how long dialling may take; 0: for ever */
    struct http2_upstream *http2;  /* null: the connection is HTTP/1's, or not up yet */
    enum out_state state;
    const struct out_dial_ops *dial;
    struct wire wire;
    struct http1_parser parser;
    struct net_timer timer; /* idle: how long it is kept; connecting: this address */
    struct resolve_wait resolving;
    struct resolve_answer *addresses; /* while one of them is tried; null before and after */
    size_t next_address;
    char text[160]; /* why the last address failed */
    int error;      /* the same, as the system says it */
};

/* What the versions of HTTP do differently. */
struct out_transport {
    /* A piece of the body, not empty; the end of the body. False: no memory. */
    bool (*put)(struct out_exchange *exchange, struct slice bytes);
    bool (*end)(struct out_exchange *exchange, const struct http_field *trailers, size_t n);
    /* Bytes of the request that the socket has not taken. */
    size_t (*queued)(const struct out_exchange *exchange);
    /* The reply is not read any more, or again. The exchange is attached. */
    void (*pause)(struct out_exchange *exchange);
    void (*resume)(struct out_exchange *exchange);
    /* Parts with the connection, and with everything but the struct. */
    void (*leave)(struct out_exchange *exchange, uint32_t code);
    /* Runs from the loop after `later` was put. */
    void (*work)(struct out_exchange *exchange);
};

struct out_exchange {
    struct http_outbound out;
    const struct out_transport *transport;
    struct http_client *client;
    struct http_origin *origin;
    struct http_conn_pool *pool; /* stays while the exchange holds a reference to the origin */
    struct http_timeouts timeouts;
    struct out_conn *conn; /* HTTP/1: its connection; null: none yet */
    struct buf wait;       /* what was written before the connection was there */
    struct buf kept;       /* HTTP/2: the head until then; method and target, then its fields */
    size_t n_kept;
    struct buf kept_last; /* and the trailers */
    size_t n_kept_last;
    struct out_queue *queue; /* where it waits; null: nowhere */
    TAILQ_ENTRY(out_exchange) in_queue;
    struct http2_call *call; /* HTTP/2: null until there is a connection */
    struct http_head reply;  /* stays until end(), after the connection was kept */
    struct buf reply_text;   /* HTTP/1: what `reply` points into */
    tg_ms began_at;
    struct net_timer timer, total;
    struct net_later later;
    uint64_t taken_before; /* `taken` of the wire when the exchange was attached */
    bool attached;         /* it has a connection that is up */
    bool chunked;          /* the length of the request is not known */
    bool head_method;      /* HEAD: the reply has no body */
    bool high;             /* output went above its mark */
    bool paused;
    bool write_dead;   /* the upstream takes no more of the request, but may have replied */
    bool failing;      /* failed() is to come, from the loop */
    int informational; /* interim replies so far */
    int64_t left;      /* how much of the stated length is to be written; -1: chunked */
    enum http_why why;
    const char *text;
    SLIST_ENTRY(out_exchange) next_spare;
};

/* ---- http_client.c */

/* The pool of an origin; null: no memory. */
struct http_conn_pool *http_conn_pool_of(struct http_client *client, struct http_origin *origin);

/* ---- out_exchange.c */

struct out_exchange *out_exchange_take(struct http_client *client); /* null: no memory */
void out_exchange_give(struct out_exchange *exchange);

void out_set_timer(struct out_exchange *exchange, tg_ms ms);
void out_set_total(struct out_exchange *exchange, tg_ms sooner);
void out_await_reply(struct out_exchange *exchange);
void out_reply_begins(struct out_exchange *exchange);

/* Calls room(), if output had gone above its mark and is low again. */
void out_tell_room(struct out_exchange *exchange);

/* Releases everything but the struct and the connection. */
void out_detach(struct out_exchange *exchange);

/* The owner is told that it is complete, or failed; the struct is gone. */
void out_complete(struct out_exchange *exchange);
void out_fail(struct out_exchange *exchange, enum http_why why, const char *text);

/* The cause of a failure. `shaking`: TLS was under way; `error` is the system's, or 0. */
enum http_cause out_cause_of(enum http_why why, bool shaking, int error, const char *text);
void out_fail_later(struct out_exchange *exchange, enum http_why why,
                    const char *text); /* from the loop: the owner is on the stack */

/* ---- out_dial.c: it may fail from inside */

void out_dial(struct out_conn *conn, const struct out_dial_ops *ops, tg_ms connect_ms);

/* ---- out_conn.c */

struct out_conn *out_conn_new(struct http_conn_pool *pool); /* null: no memory */
void out_conn_end(struct out_conn *conn);

/* Keeps it for the next exchange, or ends it. */
void out_conn_keep(struct out_conn *conn);

/* An idle connection that is fit to be used, taken out of the pool; null: none. */
struct out_conn *out_conn_take(struct http_conn_pool *pool);

/* ---- http1_client.c */

extern const struct out_transport http1_out_transport;

bool http1_exchange_put_head(struct out_exchange *exchange, const struct http_head *head);
void http1_exchange_find(struct out_exchange *exchange);
void http1_exchange_attach(struct out_exchange *exchange, struct out_conn *conn, bool reused);

/* Turns an exchange that might have been HTTP/2's into one of HTTP/1. False: no memory. */
bool http1_exchange_adopt(struct out_exchange *exchange, const struct http_head *head,
                          const struct http_field *trailers, size_t n);

#endif
