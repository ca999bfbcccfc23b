/* http2_server.h - connections of HTTP/2 that came in: what connection and exchanges share. */
#ifndef TG_HTTP_HTTP2_SERVER_H
#define TG_HTTP_HTTP2_SERVER_H

#include "io/http/http1_server.h"
#include "io/http/http2_link.h"
#include "lib/core/container_of.h"

enum http2_phase {
    HTTP2_OPENING, /* its head is not complete */
    HTTP2_BUSY,    /* begin() has come, gone() has not */
    HTTP2_OVER,    /* gone() has come, or begin() will not; nghttp2 still knows it */
};

/* What the connection waits for, and no longer than it may. */
enum http2_await {
    HTTP2_AWAIT_NOTHING,
    HTTP2_AWAIT_START, /* the preface, and what must follow it */
    HTTP2_AWAIT_BLOCK, /* the rest of a header block */
    HTTP2_AWAIT_USE,   /* an exchange */
    HTTP2_AWAIT_LEAVE, /* the client has heard that it is to begin no more */
};

struct http2_server {
    struct http2_link link;
    struct http1_conn *conn;
    struct http2_stream *done, **done_end; /* replied, but the system has not taken all of it */
    struct net_timer timer;
    enum http2_await await;
    uint64_t block; /* which one is awaited */
    bool started;   /* the client's settings have come */
};

struct http2_stream {
    struct net_grave grave;
    struct http2_flow flow;
    struct http_inbound in;
    struct http2_server *server;
    enum http2_phase phase;
    struct net_timer read_timer, write_timer;
    struct net_later later;
    struct http2_stream *next_done, **done_from; /* from null: not there */
    struct http2_stream *next_spare;
    bool expects;  /* 100 Continue, and has not got it */
    bool replied;  /* the reply's head is written */
    bool finished; /* the reply is */
    bool aborted;
    bool bodyless;       /* the reply is: HEAD, 204, 304, or nothing to say */
    bool high;           /* output went above its mark */
    bool roomy;          /* and is below the other: room() is to come */
    uint32_t abort_code; /* of aborted */
    tg_ms body_left;     /* how long the body may still take, ... */
    tg_ms body_at;       /* ... as of then */
    int64_t left;        /* of the reply's stated length; -1: none was stated */
    size_t dropped;      /* bytes of the request, after the reply */
    size_t moved;        /* bytes of the reply, since the client's time to take some began */
};

/* Takes the wire over from HTTP/1. False: no memory, and nothing has changed. */
bool http2_server_start(struct http1_conn *conn);

/* Ends every exchange, and forgets the connection: its wire is closed, or no concern any more. */
void http2_server_free(struct http2_server *server, enum http_why why);

void http2_server_drain(struct http2_server *server);

/* Of streams that are not used, the listener keeps some. */
void http2_spares_free(struct http_listener *listener);

/* ---- http2_stream.c: an exchange */

extern const struct http_inbound_transport http2_inbound_transport;

struct http2_stream *http2_stream_take(struct http2_server *server); /* null: no memory */
void http2_stream_give(struct http2_stream *stream);

static inline struct http2_stream *http2_stream_of(struct http2_flow *flow)
{
    return container_of(flow, struct http2_stream, flow);
}

/* What a link tells of a flow. */
void http2_stream_head(struct http2_flow *flow, bool last);
void http2_stream_data(struct http2_flow *flow, struct slice bytes);
void http2_stream_ended(struct http2_flow *flow);
void http2_stream_wrote(struct http2_flow *flow, size_t n);
void http2_stream_sent_end(struct http2_flow *flow);
void http2_stream_closed(struct http2_flow *flow, uint32_t code);

/* gone(), if it was begun and is not over. */
void http2_stream_tell_gone(struct http2_stream *stream, enum http_why why);

/* Put off by the owner's calls: to be done when the event is over. */
void http2_stream_work(void *arg);

/* A reply of our own. */
void http2_stream_refuse(struct http2_stream *stream, int status, const char *text, bool begun);

/* ---- http2_server.c: the connection */

/* The reply is complete, and told to be gone when the system has taken it. */
void http2_server_done(struct http2_stream *stream);

/* An exchange began or ended. */
void http2_server_count(struct http2_server *server);

#endif
