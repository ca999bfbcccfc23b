/* http2_server_internal.h - connections of HTTP/2 that came in, and exchanges on them. */
#ifndef TG_HTTP_HTTP2_SERVER_INTERNAL_H
#define TG_HTTP_HTTP2_SERVER_INTERNAL_H

#include "io/http/http2_link.h"
#include "io/http/http_server_internal.h"

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
    TAILQ_HEAD(, http2_stream) done; /* replied, but the system has not taken all of it */
    struct net_timer timer;
    enum http2_await await;
    uint64_t block; /* the number of the header block that is awaited */
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
    TAILQ_ENTRY(http2_stream) in_done; /* tqe_prev null: it is not among the server's `done` */
    SLIST_ENTRY(http2_stream) next_spare;
    bool expects;  /* the client waits for 100 Continue */
    bool replied;  /* the reply's head is written */
    bool finished; /* the reply is written */
    bool aborted;
    bool bodyless;       /* the reply has no body: HEAD, 204, 304, or a length of 0 */
    bool high;           /* output went above its mark */
    bool roomy;          /* and is below the low mark: room() is to come */
    uint32_t abort_code; /* the code to reset an aborted exchange with */
    struct http_body_time body_time;
    int64_t left;   /* how much of the reply's stated length is to be written; -1: none was */
    size_t dropped; /* bytes of the request, after the reply */
    size_t moved;   /* bytes of the reply, since the client's time to take some began */
};

/* Takes the wire over from HTTP/1. False: no memory, and nothing has changed. */
bool http2_server_start(struct http1_conn *conn);

/* Ends every exchange, and forgets the connection: its wire is closed, or no concern any more. */
void http2_server_free(struct http2_server *server, enum http_why why);

void http2_server_drain(struct http2_server *server);

/* Frees the structs that the listener has kept to be used again. */
void http2_spares_free(struct http_listener *listener);

/* ---- http2_stream.c: an exchange */

extern const struct http_inbound_transport http2_inbound_transport;

struct http2_stream *http2_stream_take(struct http2_server *server); /* null: no memory */
void http2_stream_give(struct http2_stream *stream);

static inline bool http2_stream_is_done(const struct http2_stream *stream)
{
    return stream->in_done.tqe_prev != NULL;
}

static inline struct http2_stream *http2_stream_of(struct http2_flow *flow)
{
    return container_of(flow, struct http2_stream, flow);
}

/* The link's callbacks for a flow. */
void http2_stream_head(struct http2_flow *flow, bool last);
void http2_stream_data(struct http2_flow *flow, struct slice bytes);
void http2_stream_ended(struct http2_flow *flow);
void http2_stream_wrote(struct http2_flow *flow, size_t n);
void http2_stream_sent_end(struct http2_flow *flow);
void http2_stream_closed(struct http2_flow *flow, uint32_t code);

/* Calls gone(), if begin() has come and gone() has not. */
void http2_stream_gone(struct http2_stream *stream, enum http_why why);

/* ---- http2_server.c: the connection */

/* The reply is complete: gone() follows when the system has taken it. */
void http2_server_done(struct http2_stream *stream);

/* An exchange began or ended. */
void http2_server_count(struct http2_server *server);

#endif
