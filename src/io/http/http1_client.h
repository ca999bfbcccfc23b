/* http1_client.h - connections that go out: what pool, dialling and exchanges share. */
#ifndef TG_HTTP_HTTP1_CLIENT_H
#define TG_HTTP_HTTP1_CLIENT_H

#include <stdatomic.h>

#include "io/http/http1_parse.h"
#include "io/http/http_client.h"
#include "io/net/resolve.h"
#include "io/net/wire.h"

struct http_origin {
    atomic_int refs;
    char *host, *server_name, *host_field;
    int port;
    struct tls_context *tls;
    char *proxy_host; /* null: none */
    int proxy_port;
    char *proxy_auth; /* what Proxy-Authorization says; null: none */
    enum http2_use http2;
};

/* Exchanges in a queue. */
struct out_waits {
    struct out_exchange *first, **end;
};

/* What a client keeps of one origin. */
struct http_conn_pool {
    struct http_conn_pool *next;
    struct http_client *client;
    struct http_origin *origin;
    struct out_conn *idle; /* the one used last comes first */
    size_t n_idle;
    size_t n_conns; /* of all kinds: the ticket is theirs */
    struct tls_ticket ticket;
    bool only_http1;                  /* it was offered HTTP/2, and did not want it */
    struct http2_upstream *upstreams; /* connections of HTTP/2: all */
    size_t n_upstreams;
    struct out_conn *dialling; /* one more of these; null: none */
    struct out_waits waits;    /* for room on one */
};

struct http_client {
    struct net_loop *loop;
    struct http_client_options options;
    struct resolver resolver;
    struct http_conn_pool *pools;
    struct out_exchange *spare; /* structs to be used again */
    size_t n_spare;
    struct http2_call *spare_calls; /* same */
    size_t n_spare_calls;
    size_t n_idle, n_busy;
    char text[160]; /* of the failure that is being told */
};

enum out_state {
    OUT_RESOLVING,
    OUT_CONNECTING,
    OUT_TUNNEL, /* waiting for the proxy's reply to CONNECT */
    OUT_SHAKING,
    OUT_BUSY,
    OUT_IDLE,
};

struct out_conn {
    struct net_grave grave;
    struct http_client *client;
    struct http_conn_pool *pool;
    struct out_conn *next, **from; /* neighbours among the idle */
    struct out_exchange *exchange; /* null: idle, or for many */
    bool shared;                   /* to be one of HTTP/2, if the upstream wants */
    tg_ms connect_ms;              /* that dialling may take; 0: for ever */
    struct http2_upstream *http2;  /* null: it is not */
    enum out_state state;
    struct wire wire;
    struct http1_parser parser;
    struct net_timer timer; /* idle: how long it is kept; connecting: this address */
    struct resolve_wait resolving;
    struct resolve_answer addresses;
    size_t next_address;
    char text[160]; /* of the last address that failed */
};

struct out_exchange {
    struct http_outbound out;
    struct http_client *client;
    struct http_origin *origin;
    struct http_timeouts timeouts;
    struct out_conn *conn; /* null: failed before there was one */
    struct buf wait;       /* written before the connection was there */
    bool http2;            /* or not decided yet */
    struct buf kept;       /* the head, before it was decided: method and target, then its fields */
    size_t n_kept;
    struct buf kept_last; /* and what stands behind the body */
    size_t n_kept_last;
    struct out_waits *waits; /* that it stands in; null: none */
    struct out_exchange *next_waiting, **waiting_from;
    struct http2_call *call; /* null: none yet */
    struct http_head reply;  /* and where it points: it outlives the connection's next exchange */
    struct buf reply_words, reply_list;
    tg_ms began_at;
    struct net_timer timer, total;
    struct net_later later;
    uint64_t taken_before; /* of the wire's, when the exchange began */
    bool attached;         /* the connection is there, and ours */
    bool chunked;
    bool head_method; /* HEAD: the reply has no body */
    bool high;
    bool paused;
    bool write_dead;   /* the upstream takes no more of the request, but may have replied */
    bool failing;      /* failed() is to come, from the loop */
    int informational; /* replies, so far */
    int64_t left;      /* of the request's stated length; -1: chunked */
    enum http_why why;
    const char *text;
    struct out_exchange *next_spare;
};

/* ---- http_client.c: indexes */

struct http_conn_pool *http_conn_pool_of(struct http_client *client, struct http_origin *origin);

struct out_exchange *out_exchange_take(struct http_client *client); /* null: no memory */
void out_exchange_give(struct out_exchange *exchange);

/* ---- out_exchange.c: what both versions have in common */

void out_set_timer(struct out_exchange *exchange, tg_ms ms);
void out_await_reply(struct out_exchange *exchange);
void out_reply_begins(struct out_exchange *exchange);

/* Lets go of everything but the struct; of the connection, its own file does. */
void out_detach(struct out_exchange *exchange);

void out_fail(struct out_exchange *exchange, enum http_why why, const char *text);
void out_fail_later(struct out_exchange *exchange, enum http_why why,
                    const char *text); /* from the loop: the owner is on the stack */

/* ---- out_dial.c: from an origin to a connection. out_attach() or out_fail() follow. */

bool out_dial(struct out_exchange *exchange);
struct out_conn *out_dial_shared(struct http_client *client, struct http_conn_pool *pool,
                                 tg_ms connect_ms); /* then http2_dial_up(), or _failed() */
void out_dial_start(struct out_conn *conn);
void out_dial_up(struct out_conn *conn);
size_t out_dial_data(struct out_conn *conn, const char *bytes, size_t n);
void out_dial_broke(struct out_conn *conn, enum wire_fault fault, const char *text);

/* ---- out_conn.c: a connection's wire */

extern const struct wire_ops out_wire_ops;
struct out_conn *out_conn_new(struct http_client *client, struct http_conn_pool *pool);
void out_conn_end(struct out_conn *conn);

/* Kept for the next exchange, or ended. */
void out_conn_keep(struct out_conn *conn);

/* One that is fit to be used, taken off the index; null: none. */
struct out_conn *out_conn_take(struct http_conn_pool *pool);

/* ---- http1_client.c: the exchange */

extern const struct http_outbound_transport http1_outbound_transport;

bool http1_exchange_put_head(struct out_exchange *exchange, const struct http_head *head);
void http1_exchange_find(struct out_exchange *exchange, struct http_conn_pool *pool);
void http1_exchange_leave(struct out_exchange *exchange);

/* One that might have been HTTP/2's becomes HTTP/1's. False: no memory. */
bool http1_exchange_adopt(struct out_exchange *exchange, const struct http_head *head,
                          const struct http_field *trailers, size_t n);

void out_attach(struct out_exchange *exchange, struct out_conn *conn, bool reused);
size_t out_reply_data(struct out_exchange *exchange, const char *bytes, size_t n);
void out_reply_eof(struct out_exchange *exchange);
void out_wrote(struct out_exchange *exchange);
void out_broke(struct out_exchange *exchange, enum wire_fault fault, const char *text);

#endif
