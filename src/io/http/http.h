/* http.h - what a message is, whichever version of HTTP carried it: a head, and how it ended.
 *
 * The room has two halves on one foundation, and this is the file to read first:
 *
 *     http_server.h: requests that come in      http_client.h: requests that go out
 *                                               http_fetch.h: one of them, its reply whole
 *     http_listen  http1_server, http1_reply    http_client  out_exchange, out_dial, out_conn
 *                  http2_server, http2_stream                http1_client
 *                                                            http2_client, http2_exchange
 *     ---------------------------------------------------------------------------------------
 *     http1_parse, http1_write: HTTP/1 as bytes    http2_link, _arrive, _flow, _head: HTTP/2
 *
 * Nothing here owns memory. A head that arrives points into storage of its exchange; a head that
 * is sent may point anywhere, and has been copied when the call returns.
 */
#ifndef TG_HTTP_HTTP_H
#define TG_HTTP_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "io/text/slice.h"

#define HTTP_FIELDS_MAX 128 /* fields that a message of ours may have */

/* Bytes that may wait for a socket, unless an owner says otherwise: above HIGH its source should
 * stop until room() comes, at LOW. The system holds as much again, and sends while the source wakes
 * up; a thousand clients that do not read cost a thousand times both. */
#define HTTP_OUTPUT_HIGH ((size_t)64 << 10)
#define HTTP_OUTPUT_LOW ((size_t)16 << 10)

/* Compares without regard to the case of ASCII letters. */
bool slice_equal_nocase(struct slice a, struct slice b);
static inline bool slice_begins_nocase(struct slice text, struct slice with)
{
    return text.n >= with.n && slice_equal_nocase((struct slice){text.at, with.n}, with);
}

/* Names of fields that arrive are in lower case. Values are without white space around them, and
 * hold neither line ends nor zeros. */
struct http_field {
    struct slice name, value;
};

struct http_head {
    struct slice method; /* requests: "POST" */
    struct slice target; /* requests: "/v1/models?x=1", not decoded. If a target arrives with scheme
                            and host, what follows these */
    int status;          /* replies: 200 */
    int version;         /* 10, 11, 20; ignored in what is sent */
    const struct http_field *fields; /* in the order of the message */
    size_t n_fields;
    int64_t length; /* bytes of the body; -1: not known before its end. A request without a body has
                       0. A reply to HEAD, 204 or 304 has what it states, though no body comes */
};

/* Names in lower case. The value of the first field of that name; `at` is null if there is none. */
struct slice http_find(const struct http_head *head, struct slice name);
size_t http_count(const struct http_head *head, struct slice name);

/* Every field of a name: start with *i = 0; false when there are no more. */
bool http_next(const struct http_head *head, struct slice name, size_t *i, struct slice *value);

/* Whether a comma-separated list, in all fields of that name together, has a token. */
bool http_has_token(const struct http_head *head, struct slice name, struct slice token);

/* How an exchange on HTTP/2 is ended before its time (RFC 9113, 7). HTTP/1 has no such codes: there
 * the connection is closed. */
enum http2_code {
    HTTP2_NO_ERROR = 0,
    HTTP2_PROTOCOL_ERROR = 1,
    HTTP2_INTERNAL_ERROR = 2,
    HTTP2_FLOW_CONTROL_ERROR = 3,
    HTTP2_REFUSED_STREAM = 7, /* nothing was done with it: it may be sent again */
    HTTP2_CANCEL = 8,
    HTTP2_ENHANCE_YOUR_CALM = 11,
};

/* What belongs to one connection and never goes on to the next: connection, keep-alive, te,
 * trailer, transfer-encoding, upgrade, proxy-connection, proxy-authenticate, proxy-authorization,
 * and every field that `connection` of the same head names. Also what the framing is made of:
 * content-length, host and expect. Whoever passes a message on leaves these out; in what is sent
 * they are left out anyway, but for `te: trailers` in a request that goes out by HTTP/2. */
bool http_is_hop(const struct http_head *head, struct slice name);

/* The same for all fields of a head: whether it has `connection` at all is asked once. */
struct http_hops {
    const struct http_head *head;
    bool named; /* there is a `connection`, which may name further ones */
};
struct http_hops http_hops_of(const struct http_head *head);
bool http_hops_has(const struct http_hops *hops, struct slice name);

/* A host as of RFC 3986, perhaps with a port, and no user; its letters, not its grammar. */
/* Whether all that the client expects (RFC 9110, 10.1.1) is 100-continue, or it expects nothing. */
bool http_expects_no_more(const struct http_head *head);

bool http_is_host(struct slice text);

/* In digits, without a zero behind them; how many. Every message has several: no format string is
 * interpreted for them. */
#define HTTP_NUMBER_MAX 20
size_t http_put_number(char text[HTTP_NUMBER_MAX], int64_t number);

/* "Not Found"; "Unknown" for a status without a name. */
const char *http_status_text(int status);

/* ---- Fields of a message to be sent ------------------------------------------------------------
 *
 * On the stack of whoever sends; slices are borrowed until the message has been sent. */

struct http_fields {
    struct http_field list[HTTP_FIELDS_MAX];
    size_t n;
};

static inline void http_fields_init(struct http_fields *fields)
{
    fields->n = 0;
}

/* False: there are HTTP_FIELDS_MAX already. */
bool http_fields_add(struct http_fields *fields, struct slice name, struct slice value);

/* Removes all fields of that name, compared without regard to case. */
void http_fields_drop(struct http_fields *fields, struct slice name);

/* ---- How an exchange ends -------------------------------------------------------------------- */

enum http_why {
    HTTP_DONE,        /* complete */
    HTTP_HANGUP,      /* the client left */
    HTTP_ABORTED,     /* the owner ended it, or the listener was freed */
    HTTP_ERROR,       /* the client sent what is no HTTP, or the connection broke */
    HTTP_TIMEOUT,     /* the client was too slow */
    HTTP_UNRESOLVED,  /* the upstream's name has no address */
    HTTP_UNREACHABLE, /* no address of the upstream, or of the proxy, took the connection */
    HTTP_UNTRUSTED,   /* TLS with the upstream failed: certificate, name, version */
    HTTP_NO_TUNNEL,   /* the proxy did not connect us */
    HTTP_LATE_CONNECT,
    HTTP_LATE_FIRST_BYTE,
    HTTP_LATE_IDLE,
    HTTP_LATE_TOTAL,
    HTTP_RESET,   /* the upstream closed before its reply was complete */
    HTTP_GARBAGE, /* the upstream sent what is no HTTP, or more than the limits allow */
    HTTP_UNFIT,   /* the request cannot be sent: target with spaces or line ends */
    HTTP_NO_MEMORY,
};

/* "upstream_reset", for logs and metrics. */
const char *http_why_text(enum http_why why);

/* Why an exchange that went out has failed, for whoever has to repair it: finer than `why`, by
 * which owners decide what to do. */
enum http_cause {
    HTTP_CAUSE_NONE,
    HTTP_CAUSE_NAME,        /* the upstream's name has no address */
    HTTP_CAUSE_REFUSED,     /* nobody listens there */
    HTTP_CAUSE_UNREACHABLE, /* no way to any of its addresses */
    HTTP_CAUSE_CERTIFICATE, /* its certificate is not trusted, is not its own, or has expired */
    HTTP_CAUSE_HANDSHAKE,   /* TLS failed otherwise: a plain-text port, no common version */
    HTTP_CAUSE_PROXY,       /* the proxy did not connect us */
    HTTP_CAUSE_RESET,       /* the connection broke */
    HTTP_CAUSE_CLOSED,      /* the upstream closed it before its reply was complete */
    HTTP_CAUSE_GARBAGE,     /* what came is no HTTP, or more than the limits allow */
    HTTP_CAUSE_CONNECT_TIMEOUT,
    HTTP_CAUSE_HANDSHAKE_TIMEOUT, /* connected, but TLS did not come about in time */
    HTTP_CAUSE_FIRST_BYTE_TIMEOUT,
    HTTP_CAUSE_IDLE_TIMEOUT,
    HTTP_CAUSE_TOTAL_TIMEOUT,
    HTTP_CAUSE_REQUEST, /* the request cannot be sent */
    HTTP_CAUSE_MEMORY,  /* our own want of it */
    HTTP_CAUSES
};

/* "certificate", for logs and metrics; null for none. */
const char *http_cause_name(enum http_cause cause);

#endif
