/* http1_client.h - connections of HTTP/1 that go out: what pool, dialling and exchanges share. */
#ifndef TG_NET_HTTP1_CLIENT_H
#define TG_NET_HTTP1_CLIENT_H

#include <stdatomic.h>

#include "net/http1_parse.h"
#include "net/http_client.h"
#include "net/resolve.h"
#include "net/wire.h"

struct http_origin {
    atomic_int refs;
    char *host, *server_name, *host_field;
    int port;
    struct tls_context *tls;
    char *proxy_host; /* null: none */
    int proxy_port;
    char *proxy_auth; /* what Proxy-Authorization says; null: none */
};

/* What a client keeps of one origin. */
struct http_shelf {
    struct http_shelf *next;
    struct http_origin *origin;
    struct out_conn *idle; /* the one used last comes first */
    size_t n_idle;
    size_t n_conns; /* of all kinds: the ticket is theirs */
    struct tls_ticket ticket;
};

struct http_client {
    struct net_loop *loop;
    struct http_client_options options;
    struct resolver resolver;
    struct http_shelf *shelves;
    struct out_exchange *spare; /* structs to be used again */
    size_t n_spare;
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
    struct http_shelf *shelf;
    struct out_conn *next, **from; /* neighbours among the idle */
    struct out_exchange *exchange; /* null: idle */
    enum out_state state;
    struct wire wire;
    struct http1_parser parser;
    struct net_timer timer; /* idle: how long it is kept; connecting: this address */
    struct resolve_wait resolving;
    struct resolve_answer addresses;
    size_t next_address;
    bool used;      /* has carried an exchange */
    char text[160]; /* of the last address that failed */
};

struct out_exchange {
    struct http_outbound out;
    struct http_client *client;
    struct http_origin *origin;
    struct http_timeouts timeouts;
    struct out_conn *conn;  /* null: failed before there was one */
    struct buf wait;        /* written before the connection was there */
    struct http_head reply; /* and where it points: it outlives the connection's next exchange */
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

/* ---- http_client.c: shelves */

struct http_shelf *http_shelf_of(struct http_client *client, struct http_origin *origin);

struct out_exchange *out_exchange_take(struct http_client *client); /* null: no memory */
void out_exchange_give(struct out_exchange *exchange);

/* ---- out_dial.c: from an origin to a connection. out_attached() or out_failed() follow. */

bool out_dial(struct out_exchange *exchange);
void out_dial_up(struct out_conn *conn);
size_t out_dial_data(struct out_conn *conn, const char *bytes, size_t n);
void out_dial_broke(struct out_conn *conn, enum wire_fault fault, const char *text);

/* ---- out_conn.c: a connection's wire */

extern const struct wire_ops out_wire_ops;
struct out_conn *out_conn_new(struct http_client *client, struct http_shelf *shelf);
void out_conn_end(struct out_conn *conn);

/* Kept for the next exchange, or ended. */
void out_conn_keep(struct out_conn *conn);

/* One that is fit to be used, taken off the shelf; null: none. */
struct out_conn *out_conn_take(struct http_shelf *shelf);

/* ---- http1_client.c: the exchange */

void out_attach(struct out_exchange *exchange, struct out_conn *conn, bool reused);
void out_fail(struct out_exchange *exchange, enum http_why why, const char *text);
size_t out_reply_data(struct out_exchange *exchange, const char *bytes, size_t n);
void out_reply_eof(struct out_exchange *exchange);
void out_wrote(struct out_exchange *exchange);
void out_broke(struct out_exchange *exchange, enum wire_fault fault, const char *text);

#endif
