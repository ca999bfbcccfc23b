/* http2_link.h - a connection of HTTP/2, from either end: frames of many exchanges on one wire.
 *
 * A link is the connection, a flow one exchange on it. Both stand in structs of the side that they
 * belong to, http2_server.c or http2_client.c, which are told what happens by a table of functions.
 * Nothing here knows what a request is.
 *
 *     head -> data ... -> ended               what arrives on a flow
 *     sent_end                                what is sent is complete, in the wire's hands
 *     closed                                  both, or either side gave the flow up; once
 *
 * The functions come from the loop alone, also from inside of nghttp2: they may call everything
 * here, and may end the link.
 */
#ifndef TG_HTTP_HTTP2_LINK_H
#define TG_HTTP_HTTP2_LINK_H

#include "io/http/http2_head.h"
#include "io/net/wire.h"
#include "lib/core/bucket.h"

/* What one flow may send us before we have taken it: so much a paused one holds. */
#define HTTP2_FLOW_WINDOW ((size_t)64 << 10)

/* The same for all flows together, which are always taken. */
#define HTTP2_LINK_WINDOW ((size_t)1 << 20)

/* A frame that carries something allows for two that do not; in thousandths. */
#define HTTP2_ODD_EARNED 2000

/* The first byte of a PING of ours, which comes back with its ACK. */
enum { HTTP2_PING_LEAVE, HTTP2_PING_NUDGE };

struct http2_limits {
    struct http2_block_limits block;
    size_t streams; /* exchanges that the peer may have open at a time */
    size_t resets, resets_per_s, odd_frames;
    tg_ms rapid_ms;
};

struct http2_link;

struct http2_flow {
    struct http2_link *link;
    LIST_ENTRY(http2_flow) in_link; /* le_prev null: it has ended */
    int32_t id;                     /* the stream, by its number; 0: none yet */
    tg_ms opened_at;                /* when the peer opened it, in the loop's time */
    struct http2_block head, tail;  /* the header blocks that arrived */
    const struct http_field *trailers;
    size_t n_trailers;
    struct buf held; /* the part of the body that arrived while paused */
    struct buf out;  /* the part of the body that is to be sent */
    struct buf last; /* trailers to be sent: struct http_field, then their bytes */
    size_t n_last;
    int informational; /* interim heads (1xx) that arrived */
    bool paused;
    bool headed;     /* head() has come */
    bool in_ended;   /* the peer has sent all, ... */
    bool told_ended; /* ... and ended() has come */
    bool finished;   /* nothing more will be written */
    bool asleep;     /* nghttp2 waits to be told that there is more to send */
    bool interim;    /* an interim head is to be sent */
    bool spoken;     /* the final head has been sent */
    bool sent_end;
    bool resetting;    /* we reset it */
    bool peer_reset;   /* the peer has reset it */
    bool paid;         /* a token was taken for a rule that was broken on it */
    bool open;         /* nghttp2 knows it */
    bool begun;        /* a head of ours is about to be in the wire's hands ... */
    uint64_t begin_at; /* ... and this was the link's `written` before its last frame */
    uint64_t end_at;   /* the link's `written` after the last frame of all */
};

struct http2_link_ops {
    /* The peer begins an exchange. Null: no memory. A client's link has none. */
    struct http2_flow *(*opened)(struct http2_link *link);
    /* flow->head is complete; `last`: and nothing follows. Interim ones are not told. */
    void (*head)(struct http2_flow *flow, bool last);
    void (*data)(struct http2_flow *flow, struct slice bytes);
    void (*ended)(struct http2_flow *flow);
    /* n bytes of `out` went to the wire. */
    void (*wrote)(struct http2_flow *flow, size_t n);
    void (*sent_end)(struct http2_flow *flow);
    void (*closed)(struct http2_flow *flow, uint32_t code);
    /* What there was to send is in the wire's hands. May be null. */
    void (*flushed)(struct http2_link *link);
    /* The peer's settings have come; or it takes no more exchanges. May be null. */
    void (*settled)(struct http2_link *link);
    void (*goaway)(struct http2_link *link);
    /* Nothing more is to be read or written but what is in the wire; to be ended. Not from inside
     * of nghttp2. `code`: what was wrong, or NO_ERROR. */
    void (*over)(struct http2_link *link, uint32_t code, const char *text);
};

struct http2_link {
    struct net_grave grave;
    const struct http2_link_ops *ops;
    nghttp2_session *session;
    struct wire *wire;
    struct net_later later; /* to send what there is */
    LIST_HEAD(, http2_flow) flows;
    size_t n_flows;
    struct http2_limits limits;
    struct bucket resets, odd;
    uint64_t written;     /* bytes given to the wire, in all */
    tg_ms moved_at;       /* when a body's bytes last went, or the peer made room for them */
    size_t held_bytes;    /* bytes of all flows' `held` */
    int inside;           /* how often nghttp2 is on the stack */
    bool leaving;         /* GOAWAY was announced, and the peer has not acknowledged it */
    bool left;            /* the last GOAWAY was sent */
    bool in_block;        /* a header block has begun, and not ended */
    bool ignoring;        /* the last header block that began is for no exchange */
    int32_t last_id;      /* the highest stream for which a header block has come */
    uint64_t blocks;      /* header blocks that have begun */
    bool failed;          /* the peer broke the protocol, or a limit ... */
    uint32_t failed_code; /* ... for this reason */
    const char *failed_text;
    bool finished; /* over() has come, or the link was ended */
};

/* ---- The link -------------------------------------------------------------------------------- */

/* The wire is its owner's, and outlives the link. False: no memory. */
bool http2_link_init(struct http2_link *link, struct wire *wire, const struct http2_link_ops *ops,
                     const struct http2_limits *limits, bool server);

/* Forgets the flows. The memory that it stands in is buried by its owner. */
void http2_link_fini(struct http2_link *link);

/* Bytes of the peer's. All are taken; over() may come. */
void http2_link_feed(struct http2_link *link, const char *bytes, size_t n);

/* Sends what there is, as far as the wire is not full; over() may come. Done by itself after every
 * event that led to something to send. */
void http2_link_flush(struct http2_link *link);
void http2_link_flush_later(struct http2_link *link);

/* Ends it: the peer is told, and over() follows. */
void http2_link_fail(struct http2_link *link, uint32_t code, const char *text);

/* The peer is asked to begin no more exchanges. Those that are on their way are still taken, until
 * it has heard of it (RFC 9113, 6.8); then, or by _leave_now, the last GOAWAY is sent. The link is
 * over when what runs has ended. */
void http2_link_leave(struct http2_link *link);
void http2_link_leave_now(struct http2_link *link);

/* A PING that asks nothing: something to read for a client that would not read again. */
void http2_link_nudge(struct http2_link *link);

/* How much of `written` the system has taken. */
uint64_t http2_link_taken(const struct http2_link *link);

/* ---- A flow ---------------------------------------------------------------------------------- */

void http2_flow_init(struct http2_flow *flow, struct http2_link *link);

/* Gives its memory back. It must not be open, unless the link has gone. */
void http2_flow_fini(struct http2_flow *flow);

/* Sends a head; without a body to follow it is complete. False: no memory. */
bool http2_flow_reply(struct http2_flow *flow, const struct http2_nvs *nvs, bool body);
bool http2_flow_request(struct http2_flow *flow, const struct http2_nvs *nvs, bool body);

/* A piece of the body; false: no memory. */
bool http2_flow_write(struct http2_flow *flow, struct slice bytes);
bool http2_flow_finish(struct http2_flow *flow, const struct http_field *trailers, size_t n);

/* While paused, what arrives is held, and the peer may send HTTP2_FLOW_WINDOW and no more. */
void http2_flow_pause(struct http2_flow *flow);

/* True: something is held, for http2_flow_deliver(), which calls back. */
bool http2_flow_resume(struct http2_flow *flow);
void http2_flow_deliver(struct http2_flow *flow);

/* Nobody wants what arrives any more: what is held is dropped, too. */
void http2_flow_discard(struct http2_flow *flow);

/* Between the three files of it. */
void http2_arrive_set(nghttp2_session_callbacks *callbacks);
void http2_flow_tell_ended(struct http2_flow *flow);
ssize_t http2_next_data(nghttp2_session *session, int32_t id, uint8_t *buf, size_t most,
                        uint32_t *flags, nghttp2_data_source *source, void *arg);

/* Ends the exchange; closed() comes when the peer has been told. */
void http2_flow_reset(struct http2_flow *flow, uint32_t code);

#endif
