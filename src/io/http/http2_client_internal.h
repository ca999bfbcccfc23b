/* http2_client_internal.h - connections of HTTP/2 that go out, and exchanges on them. */
#ifndef TG_HTTP_HTTP2_CLIENT_INTERNAL_H
#define TG_HTTP_HTTP2_CLIENT_INTERNAL_H

#include "io/http/http2_link.h"
#include "io/http/http_client_internal.h"

/* A connection to an upstream, for many exchanges. */
struct http2_upstream {
    struct http2_link link;
    struct out_conn *conn;
    LIST_ENTRY(http2_upstream) in_pool; /* until it is lost */
    struct net_timer timer;             /* how long it is kept without an exchange */
    struct net_timer settling;          /* how long its SETTINGS may take */
    bool settled;                       /* its SETTINGS have come */
    bool used;                          /* it has carried an exchange */
    bool idle;                          /* it carries none, and is counted as kept */
    bool going;                         /* the upstream takes no more exchanges */
    bool ending;                        /* its exchanges are being failed */
    bool lost; /* the connection is gone, but some exchange has not been given all that came */
};

/* An exchange on it. It outlives what its owner has of it, until nghttp2 has forgotten it, too. */
struct http2_call {
    struct net_grave grave;
    struct http2_flow flow;
    struct http2_upstream *upstream;
    struct out_exchange *exchange; /* null: cancelled, or complete */
    bool head_held;                /* the reply's head came while the exchange was paused */
    SLIST_ENTRY(http2_call) next_spare;
};

static inline struct http2_call *http2_call_of(struct http2_flow *flow)
{
    return container_of(flow, struct http2_call, flow);
}

/* ---- http2_client.c: connections */

/* The pool's `dialling` is connected. */
void http2_dial_up(struct out_conn *conn);

/* A connection with room for an exchange; null: none. */
struct http2_upstream *http2_upstream_find(struct http_conn_pool *pool);

void http2_wait_put(struct out_exchange *exchange);
void http2_wait_leave(struct out_exchange *exchange);

/* Opens another connection, if an exchange waits and none is being opened. It may fail at once. */
void http2_dial_more(struct http_conn_pool *pool, tg_ms connect_ms);

struct http2_call *http2_call_take(struct http2_upstream *upstream); /* null: no memory */

/* nghttp2 has forgotten the call; `spare`: and nobody else can have a pointer to it. */
void http2_call_give(struct http2_call *call, bool spare);

/* Ends all connections of a pool that no exchange uses. */
void http2_pool_clear(struct http_conn_pool *pool);
void http2_calls_free(struct http_client *client);

/* ---- http2_exchange.c: exchanges */

extern const struct out_transport http2_out_transport;

/* Keeps the head until there is a connection. False: no memory. */
bool http2_exchange_keep(struct out_exchange *exchange, const struct http_head *head);
void http2_exchange_find(struct out_exchange *exchange);
void http2_exchange_attach(struct out_exchange *exchange, struct http2_upstream *upstream);
bool http2_exchange_to_http1(struct out_exchange *exchange); /* false: no memory */

/* The link's callbacks for a flow. */
void http2_call_head(struct http2_flow *flow, bool last);
void http2_call_data(struct http2_flow *flow, struct slice bytes);
void http2_call_ended(struct http2_flow *flow);
void http2_call_wrote(struct http2_flow *flow, size_t n);
void http2_call_sent_end(struct http2_flow *flow);
void http2_call_closed(struct http2_flow *flow, uint32_t code);

#endif
