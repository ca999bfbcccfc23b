/* http_client.h - requests that go out: origins, and one struct for a request and its reply.
 *
 *     http_send -> http_outbound_write ..., _finish          what goes out
 *     head -> data ... -> end                                what comes back
 *     end or failed                                          the last call, one of them, once
 *
 * An origin is where requests go, through which proxy and with which trust: made once, immutable,
 * for all threads. A client belongs to one loop, and keeps connections open for the next request.
 * Redirects are replies like any other. Nothing in a request chooses the host: the origin does.
 *
 * Callbacks come from the loop, never from inside a call of the owner's. After end(), failed() and
 * http_outbound_cancel() the exchange is gone.
 */
#ifndef TG_HTTP_HTTP_CLIENT_H
#define TG_HTTP_HTTP_CLIENT_H

#include "io/http/http.h"
#include "io/net/loop.h"

struct http_client;
struct http_origin;
struct http_outbound;
struct tls_context;

/* ---- Origins --------------------------------------------------------------------------------- */

enum http2_use {
    HTTP2_NEVER,
    HTTP2_PRIOR, /* at once, without asking; with TLS nothing else is offered */
    HTTP2_ALPN,  /* if TLS agrees on it; else HTTP/1.1, as without TLS */
};

struct http_origin_options {
    const char *host; /* name, IPv4, or IPv6 without brackets; or "unix:PATH" */
    int port;
    struct tls_context *tls; /* a reference is taken; null: plain */
    const char *server_name; /* the name that the certificate must have; null: host */
    const char *host_field;  /* what `Host` says; null: host, and the port if it is not the usual */
    const char *proxy;    /* "http://[user:password@]host:port"; null, "" or "none": straight. Asked
                                to CONNECT, for plain origins too */
    enum http2_use http2; /* default NEVER */
};

void http_origin_options_init(struct http_origin_options *options);

/* Everything is copied. TG_ERR_INVALID: `problem` says what. TG_ERR_MEMORY. */
TG_MUST_CHECK enum tg_err http_origin_new(const struct http_origin_options *options,
                                          struct http_origin **origin, struct tg_problem *problem);

/* By any thread. Made with one reference; connections hold their own. */
struct http_origin *http_origin_ref(struct http_origin *origin);
void http_origin_unref(struct http_origin *origin);

/* ---- Clients --------------------------------------------------------------------------------- */

struct http_client_options {
    size_t idle_max;     /* connections kept for each origin; default 256 */
    tg_ms idle_ms;       /* how long they are kept; default 30 s */
    tg_ms resolved_ms;   /* how long an address is used; default 30 s */
    size_t header_bytes; /* bytes of a reply's head; default 64 KiB, at most 1 MiB; beyond:
                            HTTP_GARBAGE */
    size_t fields;       /* fields of a reply; default 200, at most 1000; beyond: HTTP_GARBAGE */
    size_t output_high;  /* see struct http_limits */
    size_t output_low;
};

void http_client_options_init(struct http_client_options *options);

TG_MUST_CHECK enum tg_err http_client_new(struct net_loop *loop,
                                          const struct http_client_options *options,
                                          struct http_client **client);

/* Every exchange must have ended or been cancelled. Look-ups of names that are under way are waited
 * for. */
void http_client_free(struct http_client *client);

size_t http_client_idle(const struct http_client *client); /* connections kept */
size_t http_client_busy(const struct http_client *client); /* exchanges */

/* ---- One exchange ---------------------------------------------------------------------------- */

/* 0: none. */
struct http_timeouts {
    tg_ms connect; /* name, connection, proxy and TLS together */
    tg_ms
        first_byte; /* from the end of our request to the head of the reply; before that, while the
                         upstream takes no byte of what is written */
    tg_ms idle;     /* between two pieces of the reply, while it is not paused */
    tg_ms total;    /* the whole exchange */
    tg_ms head;     /* the exchange up to the head of its reply; fails as the total does */
};

struct http_client_ops {
    /* The head is there until end() or failed() has returned, or the exchange is cancelled. */
    void (*head)(struct http_outbound *out, const struct http_head *head);
    void (*data)(struct http_outbound *out, struct slice bytes);
    void (*end)(struct http_outbound *out);
    /* Output had gone above output_high and is at output_low or below. May be null. */
    void (*room)(struct http_outbound *out);
    /* `text` says more, for people: no secrets, no target. */
    void (*failed)(struct http_outbound *out, enum http_why why, const char *text);
};

struct http_outbound {
    const struct http_client_ops *ops;
    void *owner;     /* free for the owner */
    bool sent;       /* a byte of the request may have reached the upstream */
    bool reused;     /* on a connection that had carried others before */
    bool finished;   /* the request is complete, as far as the owner is concerned */
    bool head_seen;  /* head() has come */
    tg_ms connected; /* loop's time when the connection was there; 0: not yet */
    const struct http_field *trailers; /* the reply's, in end(). HTTP/1's are dropped */
    size_t n_trailers;
    enum http_cause cause; /* in failed(): why, for people; else none */
    bool was_reset; /* in failed(): the upstream has ended this exchange alone, by HTTP/2, ... */
    uint32_t reset_code; /* ... and why: enum http2_code, or what it made up */
};

/* Begins a request: `method`, `target`, `fields` and `length` of the head are looked at; 0: there
 * is no body and the request is finished; -1: chunked. Fields of http_is_hop() are left out, `Host`
 * is the origin's. Only for want of memory it returns null; everything else comes by failed().
 *
 * A kept connection that turns out to be dead before any byte was written is replaced without a
 * word. If bytes were written it fails with HTTP_RESET, `sent` and `reused`: whether it is safe to
 * send again is for the owner to say.
 *
 * By HTTP/2 exchanges share connections, as many as the upstream lets; then another is opened. What
 * the upstream refused (REFUSED_STREAM), or did not look at before it said GOAWAY, fails with
 * HTTP_RESET and without `sent`: it may be sent again, whatever it was. */
TG_MUST_CHECK struct http_outbound *http_send(struct http_client *client,
                                              struct http_origin *origin,
                                              const struct http_head *head,
                                              const struct http_timeouts *timeouts,
                                              const struct http_client_ops *ops, void *owner);

/* Like http_inbound_write(). May be called at once: what is written before there is a connection
 * is kept. Bytes beyond the stated length are dropped. */
size_t http_outbound_write(struct http_outbound *out, struct slice bytes);

/* The body is complete, with fields behind it, which are copied. HTTP/1.1 sends them behind chunks,
 * and drops them where a length was stated. Fewer bytes than were stated: HTTP_UNFIT. */
void http_outbound_finish_with(struct http_outbound *out, const struct http_field *trailers,
                               size_t n);

static inline void http_outbound_finish(struct http_outbound *out)
{
    http_outbound_finish_with(out, NULL, 0);
}

/* No head(), data() or end() until resume; failed() may come. */
void http_outbound_pause(struct http_outbound *out);
void http_outbound_resume(struct http_outbound *out);

/* Closes the connection at once, or resets the one exchange on a connection of HTTP/2. No further
 * callbacks; `out` is gone. */
void http_outbound_cancel_with(struct http_outbound *out, uint32_t code);

static inline void http_outbound_cancel(struct http_outbound *out)
{
    http_outbound_cancel_with(out, HTTP2_CANCEL);
}

/* Bytes of the request that wait for the socket. */
size_t http_outbound_queued(const struct http_outbound *out);

static inline bool http_outbound_sent(const struct http_outbound *out)
{
    return out->sent;
}

static inline bool http_outbound_reused(const struct http_outbound *out)
{
    return out->reused;
}

#endif
